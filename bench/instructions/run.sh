#!/usr/bin/env bash
# Counts the instructions of the hot loop and of each parser, and says by how much they moved:  run.sh [--update]
# Installs what is missing: valgrind (Debian), and gungraun-runner of the library's version into target/tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
"$root/scripts/packages.sh" instructions
version=$(sed -n 's/^gungraun = "=\(.*\)"$/\1/p' "$here/Cargo.toml")
tools="$root/target/tools"
runner="$tools/bin/gungraun-runner"
if ! "$runner" --version 2>/dev/null | grep -qF "$version"; then
    echo "installing gungraun-runner $version into target/tools" >&2
    cargo install --quiet --locked --version "$version" --root "$tools" gungraun-runner
fi
export GUNGRAUN_RUNNER="$runner" CARGO_TARGET_DIR="$root/target/instructions"
exec cargo run --quiet --manifest-path "$here/Cargo.toml" -- "$@"
