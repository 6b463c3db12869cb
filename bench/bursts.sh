#!/bin/bash
# How far apart several agents release a burst that is to have one moment:
#   bench/bursts.sh [ROUNDS] [AGENTS]
#
# AGENTS (8) agents, each in a network namespace of its own with a route to a hub, where NATS, the target and the command are; ROUNDS (50)
# bursts of 8 requests an agent. Says how long after the common moment requests left (the lag, over all agents), and within what the
# agents' clocks were one. All of it is on this machine, whose CPUs the agents share: with fewer than one each, some wait for others at
# the moment itself. Needs root (namespaces), nats-server and ip(8). PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
[ "$(id -u)" = 0 ] || { echo "expected root, which namespaces need" >&2; exit 1; }
for tool in nats-server ip; do
    command -v "$tool" >/dev/null || { echo "expected $tool: scripts/packages.sh test installs it" >&2; exit 1; }
done
rounds=${1:-50} agents=${2:-8} hub=plimsoll-hub-$$ folder=$(mktemp -d) started=() spaces=()
export XDG_STATE_HOME=$folder
# Ends what was started, and takes away what was made; what has ended by itself meanwhile needs no more.
ended() {
    local status=$? pid space
    for pid in "${started[@]}"; do
        if kill -0 "$pid" 2>/dev/null; then kill "$pid"; fi
    done
    for pid in "${started[@]}"; do
        # Its status is that of a signal.
        wait "$pid" || :
    done
    for space in "${spaces[@]}"; do ip netns del "$space"; done
    rm -rf "$folder"
    exit "$status"
}
trap ended EXIT
ip netns add "$hub"
spaces+=("$hub")
ip -n "$hub" link set lo up
ip -n "$hub" address add 10.77.0.1/32 dev lo
in_hub=(ip netns exec "$hub")
"${in_hub[@]}" nats-server -js -sd "$folder/nats" -a 10.77.0.1 >"$folder/nats.log" 2>&1 &
started+=($!)
"${in_hub[@]}" "$PLIMSOLL" serve http --listen 10.77.0.1:8080 >"$folder/target.log" 2>&1 &
started+=($!)
for n in $(seq "$agents"); do
    space=plimsoll-$n-$$
    ip netns add "$space"
    spaces+=("$space")
    ip -n "$space" link set lo up
    ip -n "$space" link add eth0 type veth peer name "agent$n" netns "$hub"
    ip -n "$space" address add "10.77.$n.2/30" dev eth0
    ip -n "$hub" address add "10.77.$n.1/30" dev "agent$n"
    ip -n "$hub" link set "agent$n" up
    ip -n "$space" link set eth0 up
    ip -n "$space" route add default via "10.77.$n.1"
    ip netns exec "$space" "$PLIMSOLL" agent --nats nats://10.77.0.1:4222 --name "a$n" --cores 1 --allow-target 10.77.0.1:8080 \
        >"$folder/a$n.log" 2>&1 &
    started+=($!)
done
# Status 4 is that of figures that are no result: with fewer CPUs than agents it is to be expected, and the skew is measured all the same.
status=0
"${in_hub[@]}" "$PLIMSOLL" load http://10.77.0.1:8080/ --agents "$agents" --nats nats://10.77.0.1:4222 --burst $((8 * agents)) \
    --rounds "$rounds" --no-record -q --json >"$folder/all.json" || status=$?
if [ "$status" != 0 ] && [ "$status" != 4 ]; then
    echo "the load ended with status $status; what its parts said:" >&2
    tail -n 5 "$folder"/*.log >&2
    exit 1
fi
python3 - "$folder/all.json" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[1]))
lag = document["latency"]["lag"]
of = lambda ns: "%.0f µs" % (ns / 1e3)
all = document["generators"]
print(f"{document['totals']['ok']} requests of {len(all['generators'])} agents; {document['validity']['state']}")
print("after the common moment they left: " + ", ".join(f"{name} {lag[name + '_us']:.0f} µs" for name in ("p50", "p90", "p99", "max") if lag.get(name + "_us") is not None))
print(f"the agents' clocks were at one within {of(all['release_bound_ns'])}")
for one in all["generators"]:
    print(f"  {one['name']}: p99 {of(one['lag_p99_ns'])}")
PYTHON
