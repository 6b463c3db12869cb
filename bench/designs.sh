#!/bin/bash
# Every design of the echo server over 1, 100 and 1000 connections, then epoll-edge and uring beside a bare loop:
#   bench/designs.sh [SECONDS [ROUNDS]]
#
# The server on CPU 0, plimsoll on CPU 1. A line a run: requests/s, p99, CPU-microseconds of the server a request (children
# included). The last lines are rounds of bare loop, epoll-edge and uring, interleaved.
set -euo pipefail
seconds=${1:-2}
rounds=${2:-5}
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll -p plimsoll-bench-floor
export seconds rounds
exec python3 - <<'PYTHON'
import json, os, resource, signal, statistics, subprocess, time

PROGRAM, FLOOR = "target/release/plimsoll", "target/release/floor"
SECONDS, ROUNDS, PORT = os.environ["seconds"], int(os.environ["rounds"]), "7900"
LISTED = json.loads(subprocess.run([PROGRAM, "serve", "--list", "--json"], capture_output=True, check=True).stdout)
DESIGNS = [d["name"] for s in LISTED["servers"] if s["name"] == "echo" for d in s["designs"]]


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(server, connections):
    """Starts a server, loads it, ends it: requests/s, p99 in ms, its CPU in microseconds a request, valid."""
    process = subprocess.Popen(["taskset", "-c", "0", *server], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    load = [PROGRAM, "load", f"echo://127.0.0.1:{PORT}", "-c", str(connections), "-d", SECONDS + "s", "--threads", "1",
            "--json", "--no-record", "-q"]
    done = subprocess.run(["taskset", "-c", "1", *load], capture_output=True)
    before = cpu()
    process.send_signal(signal.SIGTERM)
    process.wait()
    report = json.loads(done.stdout)
    requests = report["totals"]["ok"]
    p99 = report["latency"]["response"]["p99_us"]
    return report["achieved"]["ok_per_s"], (p99 or 0) / 1000, 1e6 * (cpu() - before) / max(requests, 1), report["validity"]["valid"]


def echo(design, connections):
    serve = [PROGRAM, "serve", "echo", "--listen", f"127.0.0.1:{PORT}", "--design", design]
    return serve + (["--workers", str(connections)] if design in ("pool", "prefork") else [])


print(f"{'design':<12} {'connections':>11} {'requests/s':>11} {'p99 ms':>8} {'server us each':>15}")
for design in DESIGNS:
    for connections in (1, 100, 1000):
        rate, p99, each, valid = run(echo(design, connections), connections)
        print(f"{design:<12} {connections:>11} {rate:>11.0f} {p99:>8.2f} {each:>15.2f}{'' if valid else '  not valid'}", flush=True)

print("\nserver us a request: bare loop, epoll-edge, uring; bare / design")
for connections in (64, 1000):
    ratios = {"epoll-edge": [], "uring": []}
    for _ in range(ROUNDS):
        bare = run([FLOOR, "echo-server", "--port", PORT, "--seconds", "600"], connections)[2]
        for design in ratios:
            ratios[design].append(bare / run(echo(design, connections), connections)[2])
    for design, all in ratios.items():
        print(f"{connections:>5} {design:<12} {statistics.median(all):.3f} ({min(all):.3f}-{max(all):.3f})", flush=True)
PYTHON
