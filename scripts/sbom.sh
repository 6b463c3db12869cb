#!/bin/sh
# What the program is made of, as CycloneDX 1.5: target/plimsoll.cdx.json. Needs cargo-cyclonedx; `make sbom` installs it.
#
# The tool writes a file beside each crate of the workspace; that of the command is kept, which has all the others in it.
set -eu
cd "$(dirname "$0")/.."
name=plimsoll.cdx
trap 'find . -path ./target -prune -o -name "$name.json" -exec rm -f {} +' EXIT
cargo cyclonedx --quiet --format json --spec-version 1.5 --override-filename "$name" --manifest-path crates/cli/Cargo.toml
mkdir -p target
mv "crates/cli/$name.json" "target/$name.json"
echo "target/$name.json: $(grep -c '"purl"' "target/$name.json") components"
