#!/bin/sh
# Two generators, one result: a name service is asked by two processes at once, and their recordings are made one.
#
#     sh experiments/two-generators.sh [SECONDS [FLAGS OF REPORT]]
#
# Published in 2009: two machines put load on, and their results were told apart, as means of means cannot be added. Here two processes
# of one machine do, each with 100 clients; on two machines each would have its line, and the third would be run where both
# recordings are. Counts are sums, histograms are added bucket by bucket, and the report has a line for each generator. A script, as a
# scenario file is one generator's.
set -eu
seconds=${1:-10}
[ $# -eq 0 ] || shift
folder=$(mktemp -d)
server=
trap 'if [ -n "$server" ] && kill -0 $server 2>/dev/null; then kill $server; fi; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
plimsoll serve names --listen 127.0.0.1:7789 >"$folder/listens" &
server=$!
until grep -q listening "$folder/listens"; do
    kill -0 $server || exit 1
    sleep 0.05
done
generate() {
    plimsoll load resp://127.0.0.1:7789 -c 100 --mix GET=80,SET=20 -d "${seconds}s" -q --record "$folder/$1.plimsoll" >"$folder/$1.txt"
}
# A generator that was disturbed ends with status 4, which the report of both says, too.
{ generate a || [ $? -eq 4 ]; } &
first=$!
{ generate b || [ $? -eq 4 ]; } &
second=$!
wait $first
wait $second
plimsoll runs merge "$folder/all.plimsoll" "$folder/a.plimsoll" "$folder/b.plimsoll" >"$folder/merged.txt"
plimsoll report "$folder/all.plimsoll" "$@"
