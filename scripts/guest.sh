#!/usr/bin/env bash
# Fetches the kernel that some tests boot in QEMU: Debian's stock one of this release, unpacked and never installed.
#   scripts/guest.sh             into target/guest/vmlinuz, where the tests look for it
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/guest
[ -s $folder/vmlinuz ] && exit 0
if [ "$(uname -m)" != x86_64 ] || ! command -v apt-get >/dev/null; then
    echo "no kernel for a guest is fetched: that is known only for Debian on x86-64; tests that need it will skip" >&2
    exit 0
fi
package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
if [ -z "$package" ]; then
    echo "apt knows no linux-image-cloud-amd64; tests that boot a guest will skip" >&2
    exit 0
fi
echo "fetching $package, to boot it in tests (unpacked into $folder, not installed)" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! (cd "$work" && apt-get download -qq "$package" && dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz-*') \
    2>"$work/log"; then
    echo "it cannot be fetched ($(tail -n 1 "$work/log")); tests that boot a guest will skip" >&2
    exit 0
fi
mkdir -p $folder
mv "$work"/boot/vmlinuz-* $folder/vmlinuz
