#!/bin/sh
# The compiler of what is fuzzed, as cargo asks for it (RUSTC_WORKSPACE_WRAPPER): rustc's own coverage passes feed libFuzzer.
# Only what is ours has hooks; what others wrote is built once for this and for the tests. Build scripts and macros run
# without libFuzzer, so they have none.
set -eu
case " $* " in
    *" --crate-name build_script_"* | *" --crate-type proc-macro "* | *" -vV "* | *" --print="* | *" --crate-name ___ "*) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
