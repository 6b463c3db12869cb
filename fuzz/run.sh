#!/bin/sh
# Fuzzes one target for some seconds:  fuzz/run.sh TARGET SECONDS [further libFuzzer options]
# or every target, two at a time:      fuzz/run.sh all SECONDS
#
# Works on stable Rust, without cargo-fuzz and without AddressSanitizer: rustc's own coverage passes feed libFuzzer
# (fuzz/coverage.sh). Built as tests are, with what others wrote from the same folder: that is built once for both.
# All are built by one call of cargo, for a call of each would leave a core idle while it links. Finds are kept in
# fuzz/artifacts/, new inputs in fuzz/corpus/; to run one again: fuzz/run.sh TARGET 0 FILE.
# Exit status: 0 nothing found, 1 a find or no build, 2 bad usage.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: $0 TARGET SECONDS [libFuzzer options]" >&2
    exit 2
fi
target=$1
seconds=$2
shift 2
fuzz=$(cd "$(dirname "$0")" && pwd)
if [ "$target" != all ] && [ ! -d "$fuzz/seeds/$target" ]; then
    echo "$0: no target '$target'; there are: all $(ls "$fuzz/seeds" | tr '\n' ' ')" >&2
    exit 2
fi

# Says the paths of the programs of some targets. What is fuzzed is optimised a little, so that more inputs are tried; of
# the engine hardly anything is run.
build() {
    for name; do set -- "$@" --bin "$name"; shift; done
    for crate in diagnose observe remote servers; do
        set -- "$@" --config "profile.dev.package.plimsoll-$crate.opt-level=1"
    done
    RUSTC_WORKSPACE_WRAPPER="$fuzz/coverage.sh" cargo test --quiet --manifest-path "$fuzz/../Cargo.toml" --workspace \
        --no-run --message-format json-render-diagnostics "$@" --config 'profile.dev.package.plimsoll-engine.opt-level=0' |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}
if [ "$target" = all ]; then
    # shellcheck disable=SC2046
    programs=$(build $(ls "$fuzz/seeds"))
    [ -n "$programs" ] || exit 1
    ls "$fuzz/seeds" | xargs -P 2 -I NAME "$0" NAME "$seconds" "$@"
    exit
fi
binary=$(build "$target")
[ -n "$binary" ] || exit 1

corpus="$fuzz/corpus/$target"
artifacts="$fuzz/artifacts/$target"
log="$artifacts/last.log"
mkdir -p "$corpus" "$artifacts"
common="-rss_limit_mb=512 -timeout=5 -artifact_prefix=$artifacts/"

# One or more files: run just these.
if [ $# -gt 0 ] && [ -f "$1" ]; then
    # shellcheck disable=SC2086
    exec "$binary" $common "$@"
fi
[ ! -f "$fuzz/dictionaries/$target" ] || common="$common -dict=$fuzz/dictionaries/$target"
status=0
# shellcheck disable=SC2086
"$binary" $common -max_total_time="$seconds" -max_len=4096 -use_value_profile=1 -print_final_stats=1 \
    "$@" "$corpus" "$fuzz/seeds/$target" >"$log" 2>&1 || status=$?
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
coverage=$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
if [ "$status" -ne 0 ]; then
    tail -n 40 "$log" >&2
    echo "fuzz $target: FOUND something after ${runs:-?} inputs; the input is in $artifacts"
    exit 1
fi
echo "fuzz $target: nothing found in $seconds s, $runs inputs, $coverage edges covered, peak memory $peak MB"
