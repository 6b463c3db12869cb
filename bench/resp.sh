#!/bin/bash
# resp:// beside redis-benchmark on redis-server: requests per generator CPU-second, 64 clients, GET, with and without
# pipelining:  bench/resp.sh [ROUNDS]
#
# The server on CPU 0, the generators on CPU 1, one after the other. Needs redis-server and redis-tools. plimsoll compares
# each value it gets; redis-benchmark does not look at them.
set -euo pipefail
rounds=${1:-5}
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
program=$PWD/target/release/plimsoll
port=7392
folder=$(mktemp -d)
taskset -c 0 redis-server --port $port --save "" --appendonly no --dir "$folder" >/dev/null &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
sleep 1
url=resp://127.0.0.1:$port
"$program" load $url --mix SET --key-distribution sequential -n 10000 --no-record -q >/dev/null
redis-cli -p $port set key:__rand_int__ "$(head -c 96 /dev/zero | tr '\0' x)" >/dev/null

of_redis() {
    local TIMEFORMAT='%U %S'
    local used
    used=$( { time taskset -c 1 redis-benchmark -p $port -t get -c 64 -P "$1" -n "$2" -r 10000 -q >/dev/null 2>&1; } 2>&1 )
    echo "$used" | awk -v n="$2" -v p="$1" '{printf "redis-benchmark -P %-28s %9.0f per CPU-s\n", p, n / ($1 + $2)}'
}

of_plimsoll() {
    local pipeline=$1 requests=$2
    shift 2
    taskset -c 1 "$program" load $url --mix GET -c 64 -t 1 --pipeline "$pipeline" -n "$requests" "$@" --no-record -q --json |
        what="--pipeline $pipeline $*" python3 -c '
import json, os, sys
report = json.load(sys.stdin)
print("plimsoll %-35s %9.0f per CPU-s  %d failed" % (
    os.environ["what"], report["generator"]["requests_per_cpu_second"], report["totals"]["failed"]))'
}

for round in $(seq "$rounds"); do
    echo "round $round of $rounds"
    of_redis 1 200000
    of_plimsoll 1 200000
    of_plimsoll 1 200000 --driver uring
    of_plimsoll 1 200000 --batch
    of_redis 16 1000000
    of_plimsoll 16 1000000
    of_plimsoll 16 1000000 --no-validate
done
