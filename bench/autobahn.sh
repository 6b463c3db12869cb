#!/usr/bin/env bash
# The Autobahn test suite for WebSocket (crossbario/autobahn-testsuite) before both of our machines: its cases against
# `plimsoll serve ws`, and against the client's machine (crates/wire/examples/autobahn.rs). Prints how many cases ended how,
# and each that is neither OK nor of what is not offered. It takes about twenty minutes.
#   bench/autobahn.sh [CASES]     cases as the suite names them, such as '1.*' (default: all)
# Needs `wstest`, or WSTEST=its path. The suite runs on Python 2.7 only, which Debian 12 has not: build one (pyenv), make a
# virtual environment of it and `pip install autobahntestsuite`.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=${1:-*}
wstest=${WSTEST:-$(command -v wstest || true)}
if [ -z "$wstest" ]; then
    echo "expected wstest, found none: install autobahntestsuite for Python 2.7, or name it: WSTEST=path $0" >&2
    exit 2
fi
cargo build --release -q -p plimsoll
cargo build --release -q -p plimsoll-wire --example autobahn
folder=$(mktemp -d)
pids=()
end() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap end EXIT

# Waits until somebody listens at a port of the loopback.
listens() {
    for _ in $(seq 300); do
        if (: </dev/tcp/127.0.0.1/"$1") 2>/dev/null; then return; fi
        sleep 0.1
    done
    echo "expected a listener at 127.0.0.1:$1 within 30 s, got none" >&2
    exit 1
}

# Counts a report's cases by how they ended: behaviour, then how the connection was closed.
sum() {
    python3 - "$1" "$2" <<'PY'
import collections, json, sys
title, index = sys.argv[1:]
cases = next(iter(json.load(open(index)).values()))
for field in ("behavior", "behaviorClose"):
    ends = collections.Counter(case[field] for case in cases.values())
    print(f"{title}, {len(cases)} cases, {field}: " + ", ".join(f"{count} {end}" for end, count in ends.most_common()))
for name, case in sorted(cases.items(), key=lambda item: [int(part) for part in item[0].split(".")]):
    if not {case["behavior"], case["behaviorClose"]} <= {"OK", "UNIMPLEMENTED"}:
        print(f"  {name}: {case['behavior']}, close {case['behaviorClose']}")
PY
}

target/release/plimsoll serve ws --listen 127.0.0.1:9101 --max-message 64MiB >"$folder/serve.log" 2>&1 &
pids+=($!)
listens 9101
cat >"$folder/client.json" <<JSON
{"outdir": "$folder/server", "cases": ["$cases"], "exclude-cases": [], "exclude-agent-cases": {},
 "servers": [{"agent": "plimsoll serve ws", "url": "ws://127.0.0.1:9101"}]}
JSON
(cd "$folder" && "$wstest" -m fuzzingclient -s client.json >client.log 2>&1)
sum "server" "$folder/server/index.json"

cat >"$folder/server.json" <<JSON
{"url": "ws://127.0.0.1:9102", "outdir": "$folder/clients", "cases": ["$cases"], "exclude-cases": [],
 "exclude-agent-cases": {}}
JSON
(cd "$folder" && exec "$wstest" -m fuzzingserver -s server.json >server.log 2>&1) &
pids+=($!)
listens 9102
target/release/examples/autobahn 127.0.0.1:9102
sum "client" "$folder/clients/index.json"
