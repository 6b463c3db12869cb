#!/usr/bin/env bash
# This build of the generator beside another one, such as the commit before: requests per second of its own CPU time, in runs
# that take turns.
#   bench/beside.sh PROGRAM [ROUNDS [FLAGS…]]     PROGRAM: the other release build; 24 rounds; FLAGS for `load` (--no-observe)
# Servers are of this build, on CPU 0, the generator has CPU 1. Prints the median of the rounds' ratios (this build over the
# other) and its 95 % interval, by order statistics. To have another build:
#   git worktree add --detach target/other REVISION && (cd target/other && cargo build --release -p plimsoll)
set -euo pipefail
cd "$(dirname "$0")/.."
other=${1:?expected the other program, such as target/other/target/release/plimsoll}
rounds=${2:-24}
shift $(($# < 2 ? $# : 2))
cargo build --quiet --release -p plimsoll
OTHER=$other ROUNDS=$rounds exec python3 - "${@:---no-observe}" <<'PYTHON'
import json, os, statistics, subprocess, sys

ours, other, rounds, flags = "target/release/plimsoll", os.environ["OTHER"], int(os.environ["ROUNDS"]), sys.argv[1:]

def run(program, url):
    command = ["taskset", "-c", "1", program, "load", url, "-c", "64", "-t", "1", "-d", "1s", "--no-record", "--json", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return json.loads(out)["totals"]["ok"] / (usage.ru_utime + usage.ru_stime)

for kind in ("http", "echo"):
    serve = ["taskset", "-c", "0", ours, "serve", kind, "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = next(word for word in server.stdout.readline().split() if "://" in word)
        got = {ours: [], other: []}
        for turn in range(rounds):
            for program in ((ours, other) if turn % 2 == 0 else (other, ours)):
                got[program].append(run(program, url))
        ratios = sorted(a / b for a, b in zip(got[ours], got[other]))
        middle, reach = rounds / 2, 0.98 * rounds ** 0.5
        low, high = ratios[max(0, int(middle - reach))], ratios[min(rounds - 1, int(middle + reach))]
        print(f"{kind}: {statistics.median(got[ours]):,.0f} requests per CPU-second, the other {statistics.median(got[other]):,.0f}; "
              f"ratio {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}], {rounds} rounds, {' '.join(flags)}", flush=True)
    finally:
        server.terminate()
        server.wait()
PYTHON
