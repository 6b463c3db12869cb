#!/usr/bin/env bash
# apt for packages of another architecture, which are fetched and unpacked, never installed: the system's own lists and
# architectures stay as they are. Lists are kept in target/foreign/ARCH, for a day.
#   scripts/foreign.sh ARCH unpack FOLDER PACKAGE…   into FOLDER
#   scripts/foreign.sh ARCH depends PACKAGE          the packages it depends on, one a line
# Exit status: 1 where there is no apt, or it has no such package; the reason is on stderr.
set -euo pipefail
if [ $# -lt 3 ]; then
    echo "usage: $0 ARCH unpack FOLDER PACKAGE… | ARCH depends PACKAGE" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
arch=$1 what=$2
shift 2
if ! command -v apt-get >/dev/null; then
    echo "packages for $arch are known only of Debian, and there is no apt-get here" >&2
    exit 1
fi
state=$PWD/target/foreign/$arch
mkdir -p "$state/lists/partial" "$state/archives/partial"
: >>"$state/status"
options=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State::lists=$state/lists"
    -o "Dir::State::status=$state/status" -o "Dir::Cache=$state" -o APT::Sandbox::User=root -qq)
if [ -z "$(find "$state/fetched" -mtime -1 2>/dev/null)" ]; then
    apt-get update "${options[@]}"
    touch "$state/fetched"
fi
case $what in
depends) apt-cache depends "${options[@]}" "$1" | awk '/^ *Depends:/ { print $2 }' ;;
unpack)
    mkdir -p "$1"
    folder=$(realpath "$1")
    shift
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    apt-get download "${options[@]}" "$@"
    for package in *.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
    ;;
*)
    echo "expected unpack or depends, got '$what'" >&2
    exit 2
    ;;
esac
