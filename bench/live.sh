#!/bin/bash
# What the live page costs a run: CPU-seconds of plimsoll with nobody looking and with VIEWERS (10) browsers' worth of readers.
#   bench/live.sh [PAIRS] [VIEWERS]
#
# Pairs (5) of runs of 20 s at 2,000/s of `serve http`, in turn, in an order that changes; each viewer reads all that it is sent. Prints
# per pair the CPU time of the page's thread and of the session's, and of the whole process, as shares of one core. For a quiet
# machine; PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
PLIMSOLL=$PLIMSOLL PAIRS=${1:-5} VIEWERS=${2:-10} exec python3 - <<'PYTHON'
import os, random, re, socket, statistics, subprocess, threading, time

program, pairs, viewers = os.environ["PLIMSOLL"], int(os.environ["PAIRS"]), int(os.environ["VIEWERS"])
SECONDS, TICKS = 20, os.sysconf("SC_CLK_TCK")

def threads(pid):
    """CPU-seconds of each thread by name."""
    spent = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                ns = int(file.read().split()[0])
            with open(f"/proc/{pid}/task/{task}/comm") as file:
                name = file.read().strip()
        except OSError:
            continue
        spent[name] = spent.get(name, 0) + ns / 1e9
    return spent

def view(host, port, counted):
    stream = socket.create_connection((host, port))
    stream.sendall(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    while True:
        read = stream.recv(1 << 20)
        if not read:
            return
        counted[0] += len(read)
        counted[1] += read.count(b"event: frame")
        if b"event: ended" in read:
            # A browser fetches the report then.
            report = socket.create_connection((host, port))
            report.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            while report.recv(1 << 20):
                pass
            return

def run(url, looking):
    load = subprocess.Popen([program, "load", url, "--rate", "2000", "-d", f"{SECONDS}s", "-c", "20", "--no-record",
                             "--live", "127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    host, port = re.search(r"http://([\d.]+):(\d+)", load.stderr.readline()).groups()
    counted = [0, 0]
    all_ = [threading.Thread(target=view, args=(host, int(port), counted)) for _ in range(looking)]
    [one.start() for one in all_]
    time.sleep(SECONDS - 2)
    spent = threads(load.pid)
    load.stderr.read()
    load.wait()
    [one.join() for one in all_]
    return spent, counted

server = subprocess.Popen([program, "serve", "http", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
try:
    url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    more = {"page": [], "session": [], "whole": []}
    for pair in range(pairs):
        order = [0, viewers]
        random.shuffle(order)
        results = {looking: run(url, looking) for looking in order}
        (none, _), (some, counted) = results[0], results[viewers]
        share = lambda spent, name: spent.get(name, 0) / (SECONDS - 2)
        row = {name: share(some, name) - share(none, name) for name in ("page", "session")}
        row["whole"] = (sum(some.values()) - sum(none.values())) / (SECONDS - 2)
        [more[name].append(value) for name, value in row.items()]
        print(f"pair {pair + 1}: {viewers} viewers cost " + ", ".join(f"{name} {100 * value:.2f} %" for name, value in row.items())
              + f" of a core; {counted[1] / max(viewers, 1):.0f} frames, {counted[0] / max(counted[1], 1) / 1024:.0f} KiB each", flush=True)
    for name, values in more.items():
        print(f"{name}: median {100 * statistics.median(values):.2f} % of a core ({100 * min(values):.2f} to {100 * max(values):.2f} %)")
finally:
    server.terminate()
    server.wait()
PYTHON
