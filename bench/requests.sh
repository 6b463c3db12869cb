#!/usr/bin/env bash
# What requests that differ cost: requests a CPU-second of the generator, plain × templates × a sequence with data, a value taken
# and checks, interleaved, against our own server on another core. Prints each round, and the ratios' median and range.
#   bench/requests.sh [PLIMSOLL [ROUNDS [SECONDS]]]
set -euo pipefail
plimsoll=${1:-target/release/plimsoll}
rounds=${2:-7}
seconds=${3:-3}
folder=$(mktemp -d)
coproc server { exec "$plimsoll" serve http --listen 127.0.0.1:0; }
trap 'kill "$server_PID" 2>/dev/null || true; rm -r "$folder"' EXIT
read -r -u "${server[0]}" line
url=${line##* }
url=${url%/}
{
    echo id,name
    for n in $(seq 1000); do echo "$n,name of $n"; done
} >"$folder/rows.csv"
cat >"$folder/sequence.toml" <<'TOML'
[[request]]
name = "first"
path = "/"
take = ["kind = header Content-Type"]
check = ["status 200"]

[[request]]
name = "second"
path = "/?id={{id}}&name={{name}}&n={{random:1..1000}}"
headers = ["X-Kind: {{kind}}"]
check = ["status 200"]
TOML
load() {
    "$plimsoll" load "$@" -c 32 -t 1 -d "$seconds" --observe none --no-record --json |
        python3 -c 'import json, sys; d = json.load(sys.stdin); t = d["totals"]; assert t["failed"] == 0 and t["ok"] > 0, t; print(round(d["generator"]["requests_per_cpu_second"]))'
}
for round in $(seq "$rounds"); do
    plain=$(load "$url/")
    templates=$(load "$url/?id={{seq}}&n={{random:1..1000}}&u={{uuid}}")
    sequence=$(load "$url" --requests-from "$folder/sequence.toml" --data "$folder/rows.csv" --sequence)
    echo "$round $plain $templates $sequence"
done | tee "$folder/rounds"
python3 - "$folder/rounds" <<'PYTHON'
import statistics, sys
rows = [list(map(float, line.split()[1:])) for line in open(sys.argv[1])]
for name, column in (("templates", 1), ("sequence with data, take, check", 2)):
    ratios = [row[column] / row[0] for row in rows]
    print(f"{name}: {statistics.median(ratios):.3f} of plain ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} rounds)")
PYTHON
