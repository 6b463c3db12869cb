#!/bin/sh
# Fuzzes one target for some seconds:  fuzz/run.sh TARGET SECONDS [further libFuzzer options]
# or every target, two at a time:      fuzz/run.sh all SECONDS
#
# Works on stable Rust, without cargo-fuzz and without AddressSanitizer: rustc's own coverage passes feed libFuzzer.
# All are built by one call of cargo, for a call of each would leave a core idle while it links.
# With --target the flags reach the fuzzed code only, not build scripts and macros. Finds are kept in fuzz/artifacts/,
# new inputs in fuzz/corpus/; to run one again: fuzz/run.sh TARGET 0 FILE.
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
triple=$(rustc -vV | sed -n 's/^host: //p')

export CARGO_TARGET_DIR="$fuzz/target"
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
build() {
    cargo build --quiet --release --manifest-path "$fuzz/Cargo.toml" --target "$triple" "$@"
}
if [ "$target" = all ]; then
    build --bins
    ls "$fuzz/seeds" | xargs -P 2 -I NAME "$0" NAME "$seconds" "$@"
    exit
fi
build --bin "$target"

corpus="$fuzz/corpus/$target"
artifacts="$fuzz/artifacts/$target"
log="$artifacts/last.log"
mkdir -p "$corpus" "$artifacts"
binary="$CARGO_TARGET_DIR/$triple/release/$target"
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
