#!/usr/bin/env bash
# Fetches the kernels that tests boot in QEMU, Debian's stock ones, unpacked and never installed; and builds our module for each.
#   scripts/guest.sh          6.1, of this release: what the tests boot
#   scripts/guest.sh 6.12     a newer one that this release offers; both: 6.1 6.12
#   scripts/guest.sh 6.1-arm64 6.12-arm64    those of an arm64 machine, with the busybox of one
# Into target/guest/SERIES: vmlinuz, modules/*.ko with the order to load them in, and plimsoll_echo.ko where the headers are installed
# (scripts/packages.sh kernel installs them) with plimsoll_echo_broken.ko, which fails on purpose; of another architecture no module.
# Exit status: 0, also where a kernel cannot be had: it says why, and tests that need it skip. 1: the module does not build.
set -euo pipefail
cd "$(dirname "$0")/.."

# Of these, and what they need: disks and sockets' diagnosis (`plimsoll drop time-wait`).
wanted=(virtio_pci virtio_blk tcp_diag)

# Warnings are errors, sparse's too where it is installed (scripts/packages.sh kernel does).
sparse=
if command -v sparse >/dev/null; then sparse=yes; fi

# Unpacks a kernel's image: vmlinuz, and the modules in the order in which they can be loaded.
fetch() {
    local series=$1 folder=$2 meta package release work
    meta=linux-image-cloud-amd64
    [ "$series" = 6.1 ] || meta=linux-image-$series-cloud-amd64
    # The one whose headers are installed, which may not be the newest, so that our module can be built for it.
    release=$(find /usr/src -maxdepth 1 -name "linux-headers-$series.*-cloud-amd64" -printf '%f\n' | sort -V | tail -n 1)
    package=${release/headers/image}
    if [ -z "$package" ] || ! apt-cache show "$package" >/dev/null 2>&1; then
        package=$(apt-cache depends "$meta" 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
    fi
    if [ -z "$package" ]; then
        echo "apt knows no $meta; tests that boot Linux $series will skip" >&2
        return 0
    fi
    echo "fetching $package, to boot it in tests (unpacked into $folder, not installed)" >&2
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # this work, not a later one's
    trap "rm -rf '$work'" RETURN
    if ! (cd "$work" && apt-get download -qq "$package" && dpkg-deb --fsys-tarfile ./*.deb | tar -x) 2>"$work/log"; then
        echo "it cannot be fetched ($(tail -n 1 "$work/log")); tests that boot Linux $series will skip" >&2
        return 0
    fi
    keep "$folder" "$work" "${package#linux-image-}"
}

# The same of another architecture, as fetch does it of this one's; with a busybox that runs there.
fetch_foreign() {
    local series=$1 folder=$2 arch=${1##*-} meta package work
    meta=linux-image-cloud-$arch
    [ "${series%-*}" = 6.1 ] || meta=linux-image-${series%-*}-cloud-$arch
    # Why not is said by the script itself.
    if ! package=$(scripts/foreign.sh "$arch" depends "$meta") || [ -z "$package" ]; then
        echo "no $meta is to be had of apt; tests that boot Linux $series will skip" >&2
        return 0
    fi
    echo "fetching $package and busybox-static for $arch, to boot them in tests (unpacked into $folder, not installed)" >&2
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # this work, not a later one's
    trap "rm -rf '$work'" RETURN
    if ! scripts/foreign.sh "$arch" unpack "$work" "$package" busybox-static; then
        echo "they cannot be fetched; tests that boot Linux $series will skip" >&2
        return 0
    fi
    mkdir -p "$folder"
    cp "$work/bin/busybox" "$folder/busybox"
    keep "$folder" "$work" "${package#linux-image-}"
}

# Puts the image and the wanted modules of an unpacked kernel into their folder.
keep() {
    local folder=$1 work=$2 release=$3
    mkdir -p "$folder/modules"
    depmod -b "$work" "$release"
    local module path name
    : >"$folder/modules/order"
    for module in "${wanted[@]}"; do
        # `insmod PATH`, or `builtin NAME`.
        modprobe -d "$work" -S "$release" --show-depends "$module" | while read -r kind path _; do
            [ "$kind" = insmod ] || continue
            name=$(basename "${path%.xz}")
            grep -qx "$name" "$folder/modules/order" && continue
            case $path in
            *.xz) xz -dc "$path" >"$folder/modules/$name" ;;
            *) cp "$path" "$folder/modules/$name" ;;
            esac
            echo "$name" >>"$folder/modules/order"
        done
    done
    echo "$release" >"$folder/release"
    # Last: what is complete has it.
    mv "$work/boot/vmlinuz-$release" "$folder/vmlinuz"
}

# Builds the module for a kernel that was fetched, where it or its headers are newer than what was built.
build() {
    local folder=$1 release headers name broken
    release=$(cat "$folder/release")
    headers=/usr/src/linux-headers-$release
    if [ ! -d "$headers" ]; then
        echo "$headers is not there: the module is not built for it (scripts/packages.sh kernel installs headers)" >&2
        return 0
    fi
    for broken in 0 1; do
        name=plimsoll_echo
        [ $broken = 0 ] || name=plimsoll_echo_broken
        [ -z "$(find kernel "$headers/Module.symvers" -newer "$folder/$name.ko" -type f 2>&1 | head -n 1)" ] && continue
        # The kernel's build writes where the sources are; ours stay clean.
        mkdir -p "$folder/$name"
        cp kernel/*.c kernel/*.h kernel/Kbuild kernel/Makefile "$folder/$name/"
        if ! make -s -C "$folder/$name" KDIR="$headers" BROKEN=$broken ${sparse:+C=2} >"$folder/$name.log" 2>&1 ||
            grep -qE 'warning:|error:' "$folder/$name.log"; then
            cat "$folder/$name.log" >&2
            echo "the module does not build for Linux $release without a warning" >&2
            return 1
        fi
        cp "$folder/$name/plimsoll_echo.ko" "$folder/$name.ko"
    done
}

if [ "$(uname -m)" != x86_64 ] || ! command -v apt-get >/dev/null; then
    echo "no kernel for a guest is fetched: that is known only for Debian on x86-64; tests that need it will skip" >&2
    exit 0
fi
for series in "${@:-6.1}"; do
    folder=target/guest/$series
    case $series in
    *-*) [ -s "$folder/vmlinuz" ] || fetch_foreign "$series" "$folder" ;;
    *)
        [ -s "$folder/vmlinuz" ] || fetch "$series" "$folder"
        [ ! -s "$folder/vmlinuz" ] || build "$folder"
        ;;
    esac
done
