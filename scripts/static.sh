#!/usr/bin/env bash
# Builds the program with all libraries in it: target/static/plimsoll runs on any Linux of this architecture, in a container from
# scratch or as the only program of an initramfs. With glibc, as libelf is: musl would need that library built anew.
#   scripts/static.sh
# What glibc loads at run time all the same is not used: names are resolved by plimsoll itself.
set -euo pipefail
cd "$(dirname "$0")/.."
triple=$(rustc -vV | sed -n 's/^host: //p')
# Flags for the target's code only (--target), not for macros and build scripts, which are loaded by the compiler.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" cargo build --release --target "$triple" -p plimsoll
mkdir -p target/static
strip -o target/static/plimsoll "target/$triple/release/plimsoll"
# A program that needs nothing at run time names no library.
if needed=$(readelf -d target/static/plimsoll | grep NEEDED); then
    echo "target/static/plimsoll needs shared libraries: $needed" >&2
    exit 1
fi
echo "target/static/plimsoll: $(stat -c %s target/static/plimsoll) bytes, nothing else is needed"
