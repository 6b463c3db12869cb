#!/bin/bash
# What it costs that agents put a load on, and not the command itself:
#   bench/agents.sh [PAIRS]
#
# One: requests a CPU-second of the generator, by one agent and by the command alone, PAIRS (15) pairs of 4 s in turn, in an order that
# changes, of `serve http` over 8 connections; nothing is observed, as agents load no probes. Two: from the command's start to the first
# request at the target, over 16 agents, five times. Three: what following 64 agents takes of a core and of memory, at a tick a
# second. NATS and all agents are on this machine, which should be quiet. PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
command -v nats-server >/dev/null || { echo "expected nats-server: scripts/packages.sh test installs it" >&2; exit 1; }
PLIMSOLL=$PLIMSOLL PAIRS=${1:-15} exec python3 - <<'PYTHON'
import json, os, random, resource, signal, socket, statistics, subprocess, tempfile, threading, time

program, pairs = os.environ["PLIMSOLL"], int(os.environ["PAIRS"])
state = tempfile.TemporaryDirectory()
environment = dict(os.environ, XDG_STATE_HOME=state.name)
started = []

def start(*arguments, **more):
    process = subprocess.Popen(arguments, env=environment, **more)
    started.append(process)
    return process

def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]

port = free_port()
nats = f"nats://127.0.0.1:{port}"
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
start("nats-server", "-js", "-sd", state.name + "/nats", "-a", "127.0.0.1", "-p", str(port), **quiet)

def until(what, is_so):
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > 60:
            raise SystemExit(f"waited 60 s in vain until {what}")
        time.sleep(0.1)

def listens():
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False

def agents(number, before=0):
    for n in range(before, number):
        start(program, "agent", "--nats", nats, "--name", f"a{n}", "--cores", "1", "--allow-target", "127.0.0.1", **quiet)
    until_idle(number)

def listed():
    done = subprocess.run([program, "agents", "--nats", nats, "--json"], env=environment, text=True, capture_output=True)
    return [one for one in json.loads(done.stdout)["agents"] if one["state"] == "idle"] if done.stdout else []

def load(*arguments):
    done = subprocess.run([program, "load", *arguments, "-q", "--json", "--no-record"], env=environment, text=True, capture_output=True)
    if not done.stdout:
        raise SystemExit(f"plimsoll load {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)

def until_idle(number):
    until(f"{number} agents are idle", lambda: len(listed()) >= number)

def interval(values):
    """The median, and the two of the sorted values between which the true one is in 95 of 100 cases (binomial)."""
    values, n = sorted(values), len(values)
    chance, below = 0.5 ** n, 0
    while chance <= 0.025:
        below += 1
        term = 0.5 ** n
        chance = 0.0
        for k in range(below + 1):
            chance += term
            term *= (n - k) / (k + 1)
    low, high = max(below - 1, 0), n - 1 - max(below - 1, 0)
    return statistics.median(values), values[low], values[high]

class Sink:
    """A server that answers everything, and knows when the first request came."""
    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}/"
        self.first = None
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.answer, args=(self.server.accept()[0],), daemon=True).start()

    def answer(self, stream):
        try:
            while stream.recv(4096):
                self.first = self.first or time.monotonic()
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            pass

try:
    until("NATS listens", listens)
    agents(1)
    server = start(program, "serve", "http", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE, text=True)
    url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    ratios = []
    for pair in range(pairs):
        each = {}
        for by in random.sample(["agent", "alone"], 2):
            more = ("--agents", "1", "--nats", nats) if by == "agent" else ()
            document = load(url, "-c", "8", "-d", "4s", "--threads", "1", "--no-observe", *more)
            each[by] = document["totals"]["ok"] / document["generator"]["cpu_seconds"]
            until_idle(1)
        ratios.append(each["agent"] / each["alone"])
        print(f"pair {pair + 1}: {each['agent']:,.0f} requests a CPU-second by an agent, {each['alone']:,.0f} alone: {ratios[-1]:.3f}", flush=True)
    print("efficiency of an agent: %.3f of a load alone (95 %%: %.3f to %.3f)" % interval(ratios), flush=True)

    agents(16, 1)
    firsts = []
    for _ in range(5):
        sink, began = Sink(), time.monotonic()
        load(sink.url, "--rate", "320", "-d", "1s", "-c", "16", "--agents", "16", "--nats", nats)
        firsts.append(sink.first - began)
        until_idle(16)
    print(f"from the command to the first request over 16 agents: {statistics.median(firsts):.2f} s ({min(firsts):.2f} to {max(firsts):.2f})", flush=True)

    agents(64, 16)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    sink = Sink()
    command = [program, "load", sink.url, "--rate", "640", "-d", "20s", "-c", "64", "--agents", "64", "--nats", nats, "-q", "--json", "--no-record"]
    follower = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(6)
    def spent():
        with open(f"/proc/{follower.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    first, at = spent(), time.monotonic()
    time.sleep(12)
    share = (spent() - first) / (time.monotonic() - at)
    with open(f"/proc/{follower.pid}/status") as file:
        peak = next(line.split()[1] for line in file if line.startswith("VmHWM"))
    out, said = follower.communicate()
    document = json.loads(out) if out else {}
    print(f"following 64 agents, a tick a second: {100 * share:.1f} % of a core, {int(peak) / 1024:.0f} MiB at the most so far; "
          f"{document.get('totals', {}).get('ok')} of 12800 requests, status {follower.returncode} {said.strip()}", flush=True)
finally:
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
PYTHON
