#!/bin/bash
# How far "would be carried without it, at most" of `plimsoll capacity` is from what is carried without it:
#   bench/without.sh [TIME]
#
# Searches of TIME (40s) of `serve http` with a first cause and without: one thread that is full (cpu-heavy of 1 ms, --workers 1 against
# as many as there are CPUs), and, as root, a CPU quota (0.2 cores by a control group, against none). Prints the bound and the line
# without. For a quiet machine with two CPUs and more. PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
PLIMSOLL=$PLIMSOLL TIME_=${1:-40s} exec python3 - <<'PYTHON'
import json, os, shutil, subprocess, tempfile

program, time_ = os.environ["PLIMSOLL"], os.environ["TIME_"]
state = tempfile.mkdtemp()
environment = dict(os.environ, XDG_STATE_HOME=state)
group = "/sys/fs/cgroup/cpu/plimsoll-bench-without"

def line(workers, quota_us=None):
    arguments = [program, "serve", "http", "--listen", "127.0.0.1:0", "--workers", str(workers), "--defect", "cpu-heavy=1ms"]
    server = subprocess.Popen(arguments, env=environment, text=True, stdout=subprocess.PIPE)
    try:
        url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        if quota_us:
            with open(f"{group}/cgroup.procs", "w") as file:
                file.write(str(server.pid))
        done = subprocess.run([program, "capacity", url, "-c", "64", "--slo", "p95 < 50 ms", "--time", time_, "--no-record", "-q",
                               "--json"], env=environment, text=True, capture_output=True)
        if not done.stdout:
            raise SystemExit(done.stderr.strip())
        return json.loads(done.stdout)
    finally:
        server.terminate()
        server.wait()

def show(name, bound, truth):
    gives, without = bound["gives"], bound["gives"] and bound["gives"]["without"]
    found = bound["capacity"]
    real = truth["capacity"]["load_line"] or truth["capacity"]["held"]
    if real is None:
        print(f"{name}: no line without it ({truth['why'] or truth['sentence']})")
        return
    cause = gives["finding"]["id"] if gives else "nothing"
    print(f"{name}: with it {found['held']}/s held, {cause} gives first", end="")
    if without:
        print(f"; without it at most {without['at_most']:.0f}/s ({without['cores_used']:.2f} of {without['cores_all']:.2f} cores used)"
              f"; without it {real:.0f}/s, {real / without['at_most']:.2f} of the bound")
    else:
        print(f"; nothing is said of it; without it {real:.0f}/s")

try:
    every = len(os.sched_getaffinity(0))
    whole = line(every)
    show("one full thread", line(1), whole)
    try:
        os.mkdir(group)
        with open(f"{group}/cpu.cfs_period_us", "w") as file:
            file.write("100000")
        with open(f"{group}/cpu.cfs_quota_us", "w") as file:
            file.write("20000")
    except OSError as error:
        raise SystemExit(f"no quota: {error}")
    show("a quota of 0.2 cores", line(every, 20000), whole)
finally:
    if os.path.isdir(group):
        os.rmdir(group)
    shutil.rmtree(state, ignore_errors=True)
PYTHON
