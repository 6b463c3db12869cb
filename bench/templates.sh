#!/usr/bin/env bash
# What values in requests cost the generator: requests a CPU-second beside the same requests written out, in pairs that take turns.
#   bench/templates.sh [PAIRS [SECONDS]]      20 pairs of 2 s
# `fill`: of each request the path has a random number, and a field a name from a file. `take`: of two requests in turn the first one's reply gives
# a token (a JSON pointer), which the second one shows in a field. nginx is on CPU 0, the generator on CPU 1; nothing is observed.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
PAIRS=${1:-20} SECONDS_=${2:-2} exec python3 - <<'PYTHON'
import json, math, os, random, signal, statistics, subprocess, sys, tempfile, time

# Ended early, it still ends nginx.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
pairs, seconds = int(os.environ["PAIRS"]), os.environ["SECONDS_"]
PORT = 18_082
ONE = """[[request]]
path = "/items?page={page}"
headers = ["X-User: {name}"]
"""
TWO = """[[request]]
name = "login"
path = "/login"
headers = ["X-User: someone"]
{take}
[[request]]
name = "look"
path = "/items?page=7"
headers = ["Authorization: Bearer {token}"]
"""
TOKEN = "5f2b9c1e8d7a4036"
# What is written out, and what has values in it.
KINDS = {
    "fill": (ONE.format(page=7, name="user-12"), ONE.format(page="{{random:1..9}}", name="{{name}}"), ["--data"]),
    "take": (TWO.format(take="", token=TOKEN), TWO.format(take='take = ["token = json /token"]', token="{{token}}"), ["--sequence"]),
}

with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/users.csv", "w") as users:
        users.write("name\n" + "".join(f"user-{number}\n" for number in range(10, 99)))
    with open(f"{folder}/nginx.conf", "w") as conf:
        conf.write(f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen 127.0.0.1:{PORT};
    location / {{ default_type application/json; return 200 '{{"state":"fine","token":"{TOKEN}","items":[{{"id":7}},{{"id":8}}]}}'; }} }} }}
""")
    nginx = subprocess.Popen(["taskset", "-c", "0", "nginx", "-c", f"{folder}/nginx.conf"], start_new_session=True)

    def per_cpu_second(text, options):
        with open(f"{folder}/requests.toml", "w") as file:
            file.write(text)
        more = [word for option in options for word in ([option, f"{folder}/users.csv"] if option == "--data" else [option])]
        done = subprocess.run(
            ["taskset", "-c", "1", "target/release/plimsoll", "load", f"http://127.0.0.1:{PORT}", "--requests-from",
             f"{folder}/requests.toml", *more, "-c", "64", "-d", f"{seconds}s", "--threads", "1", "--no-observe", "--no-record",
             "-q", "--json"], text=True, capture_output=True)
        if not done.stdout:
            sys.exit(done.stderr.strip())
        document = json.loads(done.stdout)
        if document["totals"]["failed"]:
            sys.exit(f"expected that no request fails, got {document['totals']['failed']} that did")
        return document["totals"]["ok"] / document["generator"]["cpu_seconds"]

    try:
        time.sleep(0.5)
        for kind, (plain, with_values, options) in KINDS.items():
            logs, figures = [], {"plain": [], "values": []}
            for _ in range(pairs):
                each = {}
                for which in random.sample(["plain", "values"], 2):
                    # Rows are read where they are used: a file of data that nobody names is refused.
                    more = [option for option in options if which == "values" or option != "--data"]
                    each[which] = per_cpu_second(plain if which == "plain" else with_values, more)
                    figures[which].append(each[which])
                logs.append(math.log(each["values"] / each["plain"]))
            logs.sort()
            least = max(0, int(len(logs) / 2 - 0.98 * math.sqrt(len(logs))))
            middle, low, high = (math.exp(x) for x in (statistics.median(logs), logs[least], logs[-1 - least]))
            print(f"{kind}: {statistics.median(figures['values']):,.0f} requests a CPU-second, written out "
                  f"{statistics.median(figures['plain']):,.0f}: {middle:.3f} of it, 95 % {low:.3f} to {high:.3f} ({pairs} pairs)", flush=True)
    finally:
        nginx.terminate()
        nginx.wait()
PYTHON
