#!/bin/bash
# How often `plimsoll ab` finds that a server takes a little more CPU time for each request, and after how many repeats it would have:
#   bench/found.sh [COMPARISONS [PERCENT [SLICE]]]
#
# So many comparisons (10) of two `serve http` whose requests burn 100 µs, and PERCENT (3) % more: ten repeats of three slices each
# (1s), `cpu` declared alone, at 98 %, a tolerance of 1 %. Prints each verdict with its interval, and the fewest of its repeats, from the first on, that
# would have been called worse. Eight minutes at 1 s a slice. For a quiet machine. PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
PLIMSOLL=$PLIMSOLL COMPARISONS=${1:-10} PERCENT=${2:-3} SLICE=${3:-1s} exec python3 - <<'PYTHON'
import json, math, os, shutil, statistics, subprocess, tempfile

program, count, slice_ = os.environ["PLIMSOLL"], int(os.environ["COMPARISONS"]), os.environ["SLICE"]
more = 1 + float(os.environ["PERCENT"]) / 100
# Student's t at 98 %, two-sided, by degrees of freedom from 1 on.
T = [31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821]
state = tempfile.mkdtemp()
environment = dict(os.environ, XDG_STATE_HOME=state)
servers = []

def serve(us):
    arguments = [program, "serve", "http", "--listen", "127.0.0.1:0", "--defect", f"cpu-heavy={1000 * us:.0f}ns"]
    server = subprocess.Popen(arguments, env=environment, text=True, stdout=subprocess.PIPE)
    servers.append(server)
    return next(word for line in server.stdout for word in line.split() if word.startswith("http://"))

def needed(ratios):
    """The fewest repeats, from the first on, whose interval leaves out "no change"."""
    for n in range(3, len(ratios) + 1):
        logs = [math.log(one) for one in ratios[:n]]
        mean, spread = statistics.mean(logs), statistics.stdev(logs)
        if mean - T[n - 2] * spread / math.sqrt(n) > 0:
            return n

found, fewest, spreads = 0, [], []
try:
    a, b = serve(100), serve(100 * more)
    for number in range(1, count + 1):
        record = os.path.join(state, f"ab-{number}")
        arguments = ["ab", "--a", a, "--b", b, "-c", "8", "--slice", slice_, "--declare", "cpu", "--tolerance", "1%",
                     "--seed", str(number), "-q", "--json",
                     "--record", record]
        done = subprocess.run([program, *arguments], env=environment, text=True, capture_output=True)
        if not done.stdout:
            raise SystemExit(f"plimsoll {' '.join(arguments)}: {done.stderr.strip()}")
        document = json.loads(done.stdout)
        cpu = next(one for one in document["judgements"] if one["quantity"] == "cpu")
        change = cpu["change"]
        found += cpu["state"] == "different" and change["value"] > 0
        ratios = []
        for repeat in range(1, document["repeats"] + 1):
            of = {one["side"]: one["figures"]["cpu"] for one in document["slices"]
                  if one["repeat"] == repeat and not one["disturbed"] and "cpu" in one["figures"]}
            if len(of) == 3:
                ratios.append(2 * of["b"] / (of["a"] + of["again-a"]))
        enough = needed(ratios)
        if enough:
            fewest.append(enough)
        if len(ratios) > 1:
            spreads.append(100 * statistics.stdev([math.log(one) for one in ratios]))
        low, high = change["low"], change["high"]
        print(f"{number}: {cpu['state']}, {100 * change['value']:+.2f} % ({100 * low:+.2f} to {100 * high:+.2f}); enough: {enough}", flush=True)
        shutil.rmtree(record, ignore_errors=True)
finally:
    for server in servers:
        server.terminate()
        server.wait()
    shutil.rmtree(state, ignore_errors=True)
spread = f"{statistics.median(spreads):.2f} %" if spreads else "not known"
print(f"{found} of {count} comparisons found it; repeats that would have been enough: {sorted(fewest)}; spread of a repeat's ratio: {spread}")
PYTHON
