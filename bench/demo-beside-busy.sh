#!/usr/bin/env bash
# The demo beside a process that uses a whole CPU: what it answers, how often. No benchmark: each run either ends with a line
# and a verdict that can be leaned on, or says who uses the machine, and never blames its own generator for what a neighbour took.
#   bench/demo-beside-busy.sh [RUNS]     20 runs of half a minute and more; half of them beside a loop on each of CPU 0 and 1
# Counts "line" (status 0, a load line, valid), "line, busy" (the same, and it says who uses the machine), "busy" (no line that
# could be leaned on, and it says who uses the machine) and "wrong" (anything else, with what was said). Fails where one was wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
RUNS=${1:-20} exec python3 - <<'PYTHON'
import collections, os, re, subprocess, sys, tempfile

runs, program = int(os.environ["RUNS"]), os.path.abspath("target/release/plimsoll")
busy_loop = "while True: pass"
found = collections.Counter()

def judge(run, loop):
    said = run.stdout + run.stderr
    # "this machine is busy: NAME (pid N) takes x cores", and it is the loop that is named.
    names = re.search(r"\((?:pid )?%d\) takes [0-9.]+ cores" % loop.pid, " ".join(said.split()))
    blames = "generator-cpu" in said or "was the bottleneck" in said
    line = next((line for line in run.stdout.splitlines() if line.startswith("Load line")), None)
    has_line = run.returncode == 0 and line is not None and "not-valid" not in said
    if blames:
        return "wrong", said
    if has_line:
        return ("line, busy" if names else "line"), line
    return ("busy" if names else "wrong"), said

with tempfile.TemporaryDirectory() as state:
    for number in range(1, runs + 1):
        cpu = number % 2
        loop = subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", busy_loop])
        try:
            environment = {**os.environ, "XDG_STATE_HOME": state}
            run = subprocess.run([program, "demo", "-q", "--no-color"], capture_output=True, text=True, env=environment)
        finally:
            loop.kill()
            loop.wait()
        outcome, said = judge(run, loop)
        found[outcome] += 1
        shown = said if outcome == "wrong" else said.splitlines()[0]
        print(f"{number} of {runs}, loop on CPU {cpu}, status {run.returncode}: {outcome}: {shown}", flush=True)

print(", ".join(f"{count} × {outcome}" for outcome, count in sorted(found.items())), f"of {runs}")
sys.exit(1 if found["wrong"] else 0)
PYTHON
