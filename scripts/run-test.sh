#!/usr/bin/env bash
# Runs one of the test programs, as cargo asks for it. The tests of some wait for time to pass and use less than two thirds of two cores:
# of those half as many again run at a time, and of those that hardly use any three times as many. Of the others that would
# keep a generator from running, for which a test fails. Says how long each took, and for how long it had a CPU: so one sees what to make faster.
set -euo pipefail
name=$(basename "$1")
case ${name%-*} in
    agents | serving) export RUST_TEST_THREADS=$((RUST_TEST_THREADS * 3 / 2)) ;;
    waiting) export RUST_TEST_THREADS=$((RUST_TEST_THREADS * 3)) ;;
esac
status=0
TIMEFORMAT="${name%-*}: %R s, %U + %S CPU-s"
time "$@" || status=$?
exit "$status"
