#!/usr/bin/env bash
# Compiles a crate of ours as cargo asks for it, then has clippy and rustdoc look at the same source with the same arguments;
# their warnings are errors, as in `make lint`. For .ci/run, by way of RUSTC_WORKSPACE_WRAPPER: so what others wrote is compiled once,
# for the tests, where `cargo clippy` and `cargo doc` would first go through all of it again.
set -euo pipefail
rustc=$1
shift
"$rustc" "$@"

# What the lints are asked with: all of the arguments but those that say where things are written, and that each file is to be announced,
# which cargo would take for the crate itself.
arguments=()
crate='' folder='' is_test=''
while [ $# -gt 0 ]; do
    case $1 in
        --crate-name) crate=$2 ;;
        --test) is_test=1 ;;
    esac
    case $1 in
        --out-dir) folder=$2 && shift ;;
        --emit=*) ;;
        --json=*) arguments+=("--json=diagnostic-rendered-ansi") ;;
        *) arguments+=("$1") ;;
    esac
    shift
done
# Cargo asks for rustc's version and settings, too.
[ -n "$crate" ] && [ "$crate" != ___ ] || exit 0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
clippy-driver "$rustc" "${arguments[@]}" --emit=metadata --out-dir "$scratch" -D warnings
# Documented is what `cargo doc` documents: no tests, no examples, no build scripts.
case $is_test$folder$crate in
    1* | */examples* | *build_script_*) ;;
    *) rustdoc "${arguments[@]}" --document-private-items --out-dir "$scratch" -D warnings ;;
esac
