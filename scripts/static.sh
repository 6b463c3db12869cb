#!/usr/bin/env bash
# Builds the program with all libraries in it: it runs on any Linux of its architecture, in a container from scratch or as the only
# program of an initramfs. With glibc, as libelf is: musl would need that library built anew.
#   scripts/static.sh          target/static/plimsoll, of this machine's architecture
#   scripts/static.sh arm64    target/static-arm64/plimsoll, on x86-64 (scripts/packages.sh arm64 installs the compiler; libelf and zlib
#                              are fetched; rustup adds Rust's own library)
# What glibc loads at run time all the same is not used: names are resolved by plimsoll itself.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
"")
    triple=$(rustc -vV | sed -n 's/^host: //p')
    folder=target/static strip=strip
    ;;
arm64)
    triple=aarch64-unknown-linux-gnu tools=aarch64-linux-gnu
    folder=target/static-arm64 strip=$tools-strip
    if [ "$(uname -m)" != x86_64 ]; then
        echo "a program for arm64 is built from x86-64, or on arm64 without an argument; this is $(uname -m)" >&2
        exit 1
    fi
    root=$PWD/target/foreign/arm64/root
    [ -e "$root/usr/lib/$tools/libelf.a" ] || scripts/foreign.sh arm64 unpack "$root" libelf-dev zlib1g-dev
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ] && ! rustup target add "$triple"; then
        echo "Rust's library for $triple is not there, and only rustup is known to add it" >&2
        exit 1
    fi
    # Each for its own builder: rustc's linker, the crate cc, and libbpf's makefile.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$tools-gcc CC_aarch64_unknown_linux_gnu=$tools-gcc
    export LIBBPF_SYS_EXTRA_CFLAGS="-I$root/usr/include -I$root/usr/include/$tools"
    export LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu=$root/usr/lib/$tools
    ;;
*)
    echo "usage: $0 [arm64]" >&2
    exit 2
    ;;
esac
# Flags for the target's code only (--target), not for macros and build scripts, which are loaded by the compiler.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" cargo build --release --target "$triple" -p plimsoll
mkdir -p "$folder"
"$strip" -o "$folder/plimsoll" "target/$triple/release/plimsoll"
# A program that needs nothing at run time names no library.
if needed=$(readelf -d "$folder/plimsoll" | grep NEEDED); then
    echo "$folder/plimsoll needs shared libraries: $needed" >&2
    exit 1
fi
echo "$folder/plimsoll: $(stat -c %s "$folder/plimsoll") bytes, nothing else is needed"
