#!/usr/bin/env bash
# docs/pictures/report.png: the first screen of a real report, of a server whose requests all take one lock, and which is
# then slowed down. Wants a machine that does nothing else; needs npm and Chromium (scripts/packages.sh web).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/packages.sh web
${CARGO:-cargo} build -p plimsoll
program=target/debug/plimsoll
folder=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
address=127.0.0.1:8094
$program serve http --defect global-lock=200us@5s --workers 4 --listen $address >"$folder/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
    grep -q "$address" "$folder/server.log" && break
    sleep 0.1
done
$program load "http://$address/" -c 32 -t 1 -d 20s --observe windows --record "$folder/run.plimsoll" --quiet >/dev/null || true
$program report "$folder/run.plimsoll" --html "$folder/run.html"
cd web
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent
node picture.mjs "$folder/run.html" ../docs/pictures/report.png
