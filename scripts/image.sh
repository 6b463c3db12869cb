#!/usr/bin/env bash
# Makes the container image: the static program and nothing else, as a user who has no rights, of each architecture whose program
# is there: target/static/plimsoll (scripts/static.sh) of this machine's, target/static-ARCH/plimsoll of others, brought from a
# machine of that kind. What it is made of (scripts/sbom.sh) lies beside it.
#   scripts/image.sh                     target/image/plimsoll.oci.tar, localhost/plimsoll:VERSION
#   IMAGE=registry.example/plimsoll:1 scripts/image.sh
# It has no authorities for TLS: they come from a Secret (plimsoll kubernetes --ca-secret) or a flag.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
image=${IMAGE:-localhost/plimsoll:$version}
case "$(uname -m)" in
x86_64) own=amd64 ;;
aarch64) own=arm64 ;;
*)
    echo "expected x86_64 or aarch64, got $(uname -m): no image can be made here" >&2
    exit 1
    ;;
esac
mkdir -p target/image
folders=() missing=()
for arch in amd64 arm64; do
    program=target/static-$arch/plimsoll
    [ "$arch" = "$own" ] && [ -x target/static/plimsoll ] && program=target/static/plimsoll
    if ! [ -x "$program" ]; then
        missing+=("$arch")
        continue
    fi
    if readelf -d "$program" | grep -q NEEDED; then
        echo "$program: expected a static program (scripts/static.sh), got one that needs libraries, which the image has not" >&2
        exit 1
    fi
    machine=$(readelf -h "$program" | sed -n 's/^ *Machine: *//p')
    case "$arch $machine" in
    "amd64 "*X86-64* | "arm64 AArch64") ;;
    *)
        echo "$program: expected a program for $arch, got one for $machine" >&2
        exit 1
        ;;
    esac
    rm -rf "target/image/$arch"
    mkdir -p "target/image/$arch"
    install -m 0755 "$program" "target/image/$arch/plimsoll"
    folders+=("$arch=target/image/$arch")
done
if [ ${#folders[@]} -eq 0 ]; then
    echo "no static program is there: make one with scripts/static.sh" >&2
    exit 1
fi
[ ${#missing[@]} -eq 0 ] || echo "without ${missing[*]}: build it there with scripts/static.sh, and put it into target/static-${missing[0]}/" >&2
scripts/oci.sh target/image/plimsoll.oci.tar "$image" 65532:65532 /plimsoll "${folders[@]}"
if command -v cargo-cyclonedx >/dev/null; then
    scripts/sbom.sh
    cp target/plimsoll.cdx.json target/image/plimsoll.cdx.json
    echo "target/image/plimsoll.cdx.json: what it is made of"
else
    echo "without a list of what it is made of: make sbom installs what is needed for that" >&2
fi
