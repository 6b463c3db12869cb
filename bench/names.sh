#!/bin/bash
# The name service beside redis: 200 clients, half GET and half SET, not durable and durable:
#   bench/names.sh [ROUNDS [SECONDS]]
#
# Servers on CPU 0, plimsoll on CPU 1, interleaved; a line a run: requests/s, p99, requests per server CPU-second. Needs
# redis-server (scripts/packages.sh test). Journals are written in a temporary folder of /var/tmp, on a real disk.
set -euo pipefail
rounds=${1:-5}
seconds=${2:-3}
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
program=$PWD/target/release/plimsoll
folder=$(mktemp -d /var/tmp/plimsoll-names.XXXXXX)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

cpu_ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

one() {
    local label=$1 port=$2
    shift 2
    taskset -c 0 "$@" >"$folder/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        redis-cli -p "$port" ping >/dev/null 2>&1 && break
        sleep 0.05
    done
    local before after
    before=$(cpu_ticks "$server")
    taskset -c 1 "$program" load "resp://127.0.0.1:$port" -c 200 -t 1 -d "${seconds}s" --mix GET=50,SET=50 --json \
        --no-record -q >"$folder/report" || true
    after=$(cpu_ticks "$server")
    ticks=$((after - before)) label=$label python3 - "$folder/report" <<'PYTHON'
import json, os, sys
report = json.load(open(sys.argv[1]))
seconds = int(os.environ["ticks"]) / os.sysconf("SC_CLK_TCK")
totals, response = report["totals"], report["latency"]["response"]
print("%-24s %9.0f requests/s  p99 %7.2f ms  %9.0f per server CPU-s  %d failed" % (
    os.environ["label"], report["achieved"]["ok_per_s"], (response["p99_us"] or 0) / 1000,
    totals["ok"] / max(seconds, 0.01), totals["failed"]))
PYTHON
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

for round in $(seq "$rounds"); do
    echo "round $round of $rounds"
    rm -rf "$folder/data"
    mkdir "$folder/data"
    one "names" 7001 "$program" serve names --listen 127.0.0.1:7001
    one "redis, no file" 7002 redis-server --port 7002 --save "" --appendonly no --dir "$folder/data"
    one "names --durable" 7003 "$program" serve names --listen 127.0.0.1:7003 --journal "$folder/data/journal"
    one "redis, always" 7004 redis-server --port 7004 --save "" --appendonly yes --appendfsync always --dir "$folder/data"
    rm -rf "$folder/data/appendonlydir"
    one "redis, everysec" 7005 redis-server --port 7005 --save "" --appendonly yes --appendfsync everysec --dir "$folder/data"
done
