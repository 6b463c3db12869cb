#!/usr/bin/env bash
# Checks what a change touches, quickly: formatting, the house's rules, clippy and unit tests of each crate with changed
# files, and the simulation where an engine or what judges it changed.
#   scripts/check.sh [REVISION]   what differs from there, committed or not (default: the branch's base on origin, else HEAD)
# And that fuzz targets and instruction counts still compile.
# Not here: tests of the whole program and of what uses a changed crate. `make test` runs all.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
since=${1:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD)}
changed=$(git diff --name-only "$since" && git ls-files --others --exclude-standard)
if [ -z "$changed" ]; then
    echo "nothing differs from $(git rev-parse --short "$since"); to check what was committed: scripts/check.sh REVISION" >&2
    exit 0
fi

run() {
    echo "+ $*" >&2
    "$@"
}

run "$cargo" fmt --all --check
folders=$(sed -nE 's#^((crates|bench)/[^/]+)/.*#\1#p' <<<"$changed" | sort -u)
# What every crate is built by.
if grep -qE '^(Cargo\.toml|Cargo\.lock|rust-toolchain\.toml|clippy\.toml)$' <<<"$changed"; then
    folders=$(ls -d crates/* bench/floor bench/runner)
fi
packages=()
for folder in $folders; do
    # A crate that was deleted, and what is no part of the workspace, has nothing to be checked here.
    if [ -f "$folder/Cargo.toml" ] && ! grep -q '^\[workspace\]' "$folder/Cargo.toml"; then
        packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1)")
    fi
done
if [ ${#packages[@]} -gt 0 ]; then
    run "$cargo" clippy --quiet "${packages[@]}" --all-targets -- -D warnings
    run "$cargo" test --quiet "${packages[@]}" --lib --bins
fi
run "$cargo" test --quiet -p plimsoll-testkit --test house
if grep -qE '^crates/(model|wire|engine|session|diagnose)/' <<<"$changed"; then
    run "$cargo" test --quiet -p plimsoll-engine --test engine sim::
    PLIMSOLL_SIM_SEEDS=500 run "$cargo" test --quiet -p plimsoll-session --test runs simulated::
fi
# No test sees that a changed type breaks fuzz targets, and instruction counts are a workspace of their own.
if grep -qE '^(crates|fuzz|bench/instructions)/' <<<"$changed"; then
    run "$cargo" check --quiet -p plimsoll-fuzz --bins
    export CARGO_TARGET_DIR="$PWD/target/apart"
    run "$cargo" check --quiet --manifest-path bench/instructions/Cargo.toml --benches
fi
