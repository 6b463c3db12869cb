#!/bin/sh
# A million connections held, both ends on this machine, for five minutes:  bench/million.sh [CONNECTIONS [HOLD [RATE]]]
#
# Each sends 128 bytes a minute and gets them back. Needs io_uring, about 10 KB of memory for each connection, and two
# cores; takes CONNECTIONS / RATE and then HOLD. Prints plimsoll's report and the server's memory; the recording stays in
# $PLIMSOLL_RECORD or the usual folder. Exit status: plimsoll's.
set -eu
connections=${1:-1m}
hold=${2:-5m}
rate=${3:-10k/s}
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
program=target/release/plimsoll
ports=127.0.0.1:9000-9004

"$program" serve echo --design uring --connections-max "$connections" --listen "$ports" --idle-timeout never >&2 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
sleep 2
status=0
"$program" load "hold://$ports" -c "$connections" --message 128B --every 60s -d "$hold" --connect-rate "$rate" || status=$?
echo "server: $(grep VmRSS "/proc/$server/status" | tr -s '\t ' ' ')"
exit "$status"
