#!/bin/bash
# How near the load line of a server is to its limit, where that is known, and how often the 95 % interval has it inside:
#   bench/lines.sh [RUNS [slots|bucket]]
#
# So many searches each (20), of 50 s, of two servers on this machine: `serve http` with four slots of 2 ms, whose limit is what it
# answers when it is kept busy for 5 s, before and after (2,000/s less what each sleep is late by); and, where nginx is installed, its
# limit_req, a token bucket of exactly 2,000/s with a credit of 100 that refuses what is beyond; as 1 % may fail, its limit is
# 2,000/0.99. Named, one of the two alone. Prints a line a search and a sum a server. For a quiet machine: what others take of it is
# in the line. PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
PLIMSOLL=$PLIMSOLL RUNS=${1:-20} ONLY=${2:-} exec python3 - <<'PYTHON'
import atexit, json, os, shutil, subprocess, tempfile, time

program, runs, only = os.environ["PLIMSOLL"], int(os.environ["RUNS"]), os.environ["ONLY"]
if only not in ["", "slots", "bucket"]:
    raise SystemExit(f"expected slots or bucket, got {only}")
state = tempfile.mkdtemp()
atexit.register(shutil.rmtree, state, True)
environment = dict(os.environ, XDG_STATE_HOME=state)

def document(*arguments):
    done = subprocess.run([program, *arguments, "-q", "--json"], env=environment, text=True, capture_output=True)
    if not done.stdout:
        raise SystemExit(f"plimsoll {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)

def busy(url):
    return document("load", url, "-c", "16", "-d", "5s", "--no-record", "--no-observe")["achieved"]["rate_per_s"]

def searches(name, url, limit):
    errors, covered, took, without = [], 0, [], 0
    for run in range(runs):
        before = limit or busy(url)
        found = document("capacity", url, "-c", "100", "--slo", "p95 < 50 ms, errors < 1 %", "--no-record")
        after = limit or busy(url)
        line = found["capacity"]
        truth = (before + after) / 2
        if line["load_line"] is None:
            without += 1
            print(f"{name} {run + 1}: no line ({found['sentence']})", flush=True)
            continue
        low, high = line["low"] or 0, line["high"] or float("inf")
        inside = low <= max(before, after) and high >= min(before, after)
        errors.append(abs(line["load_line"] / truth - 1))
        covered += inside
        took.append(found["took_s"])
        print(f"{name} {run + 1}: limit {truth:.0f}, line {line['load_line']:.0f} ({low:.0f}-{high:.0f}), "
              f"{'inside' if inside else 'OUTSIDE'}, {found['took_s']:.0f} s, {found['validity']}", flush=True)
    if errors:
        errors.sort()
        print(f"{name}: error median {100 * errors[len(errors) // 2]:.2f} %, largest {100 * errors[-1]:.2f} %; "
              f"{covered} of {runs} intervals have the limit inside; {without} without a line; {max(took):.0f} s at most", flush=True)

if only != "bucket":
    server = subprocess.Popen([program, "serve", "http", "--listen", "127.0.0.1:0", "--defect", "pool-exhausted=2ms:slots=4"],
                              env=environment, text=True, stdout=subprocess.PIPE)
    try:
        url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        searches("four slots of 2 ms", url, None)
    finally:
        server.terminate()
        server.wait()

if only == "slots":
    raise SystemExit(0)
nginx = shutil.which("nginx") or next((path for path in ["/usr/sbin/nginx"] if os.path.exists(path)), None)
if nginx is None:
    raise SystemExit("nginx is not installed: no token bucket")
folder = tempfile.mkdtemp()
# nginx's worker may be another user. A file, as `return` answers before the limit is asked; and
# the port, as requests whose key is empty (a server without a name) are not counted.
os.chmod(folder, 0o755)
with open(f"{folder}/index.html", "w") as file:
    file.write("ok")
with open(f"{folder}/nginx.conf", "w") as file:
    file.write(f"""
worker_processes 1; daemon off; pid {folder}/pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    limit_req_zone $server_port zone=all:1m rate=2000r/s;
    server {{ listen 127.0.0.1:18099; root {folder}; location / {{ limit_req zone=all burst=100 nodelay; }} }}
}}""")
server = subprocess.Popen([nginx, "-p", folder, "-c", f"{folder}/nginx.conf"], stderr=subprocess.DEVNULL)
try:
    time.sleep(1)
    searches("token bucket", "http://127.0.0.1:18099/", 2000.0 / 0.99)
finally:
    server.terminate()
    server.wait()
PYTHON
