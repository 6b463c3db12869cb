#!/usr/bin/env bash
# What a further worker costs, beside what a further thread costs the bare epoll loop: requests per second of the generator's
# CPU time, 64 connections, runs of 2 s that take turns in random order.
#   bench/workers-beside-bare.sh [ROUNDS]     24 rounds
# Two bare threads are two processes of the bare loop with half of the connections each. `plimsoll serve http` is on CPU 0, all
# generators on CPU 1. Prints medians of the rounds' ratios with their 95 % interval, by order statistics.
set -euo pipefail
cd "$(dirname "$0")/.."
# Each by itself: together they would have other features, and all would be built anew.
cargo build --quiet --release -p plimsoll
cargo build --quiet --release -p plimsoll-bench-floor
ROUNDS=${1:-24} exec python3 - <<'PYTHON'
import json, os, random, statistics, subprocess

rounds = int(os.environ["ROUNDS"])
serve = ["taskset", "-c", "0", "target/release/plimsoll", "serve", "http", "--listen", "127.0.0.1:0"]
server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
url = next(word for word in server.stdout.readline().split() if "://" in word)
address = url.split("//")[1].strip("/")

def bare(workers):
    command = ["taskset", "-c", "1", "target/release/floor", "epoll", "--addr", address, "--seconds", "2", "--connections", str(64 // workers)]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    told = [json.loads(loop.communicate()[0]) for loop in loops]
    return sum(one["requests"] for one in told) / sum(one["cpu_seconds"] for one in told)

def plimsoll(workers):
    command = ["taskset", "-c", "1", "target/release/plimsoll", "load", url, "-c", "64", "-d", "2s", "-t", str(workers)]
    run = subprocess.run([*command, "--no-observe", "--no-record", "--json", "-q"], capture_output=True, text=True)
    return json.loads(run.stdout)["generator"]["requests_per_cpu_second"]

try:
    cases = [(tool, workers) for tool in (bare, plimsoll) for workers in (1, 2, 4)]
    got = {case: [] for case in cases}
    for _ in range(rounds):
        for tool, workers in random.sample(cases, len(cases)):
            got[tool, workers].append(tool(workers))

    def ratio(over, under):
        ratios = sorted(a / b for a, b in zip(got[over], got[under]))
        middle, reach = rounds / 2, 0.98 * rounds ** 0.5
        low, high = ratios[max(0, int(middle - reach))], ratios[min(rounds - 1, int(middle + reach))]
        return f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]"

    for workers in (2, 4):
        for tool in (bare, plimsoll):
            print(f"{tool.__name__}, {workers} over 1: {ratio((tool, workers), (tool, 1))}")
    for workers in (1, 2, 4):
        print(f"plimsoll over bare, {workers}: {ratio((plimsoll, workers), (bare, workers))}")
finally:
    server.terminate()
    server.wait()
PYTHON
