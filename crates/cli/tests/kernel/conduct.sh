# How the module behaves: whole messages of every kind, silent clients, failures, removal at any moment.

for model in workqueue kthread callback; do
    # A buffer that no message's size is a multiple of, and messages of all sizes, NULs among them.
    load model=$model buffer=1000 || fail "$model does not load"
    plimsoll load echo://127.0.0.1:7000 -n 300 -c 7 --size 1..9000 --content binary --no-record --observe none --json >out.json
    is "$model: good replies" "$(awk -F'[:,]' '/"ok"/ { print $2 + 0; exit }' out.json)" 300
    until_so is_settled
    is "$model: bytes sent back" "$(count send_bytes)" "$(count recv_bytes)"
    is "$model: ends of streams seen" "$(count shutdown)" "$(count accepted)"
    # Half-closed: what was sent before is sent back, all of it.
    head -c 100000 /dev/urandom >in
    nc 127.0.0.1 7000 <in >out
    cmp in out || fail "$model: a half-closed connection got something else back"
    # Clients that send and never read, killed in the middle: a reset each.
    for i in 1 2 3 4 5; do
        (nc 127.0.0.1 7000 </dev/zero | sleep 100) &
    done
    until_so is_count accepted $((7 + 1 + 5))
    sleep 1
    kill $(pidof nc)
    until_so is_settled
    is "$model: resets" $(($(count error_recv_reset) + $(count error_send_reset))) 5
    # And as many that are there when it is removed.
    for i in 1 2 3 4 5; do
        (nc 127.0.0.1 7000 </dev/zero | sleep 100) &
    done
    until_so is_count live 5
    sleep 0.5
    unload || fail "$model is not removed with connections that are full"
    kill $(pidof nc sleep) 2>/dev/null
    echo "proved: $model echoes, and is removed"
done

# Sends that take a part: a large buffer, little room to send from, and a client that reads late.
room=$(cat /proc/sys/net/ipv4/tcp_wmem)
echo 4096 16384 16384 >/proc/sys/net/ipv4/tcp_wmem
load model=callback buffer=1048576
head -c 12000000 /dev/urandom >in
nc 127.0.0.1 7000 <in | (sleep 1 && cat >out)
cmp in out || fail "what was sent in parts came back as something else"
[ "$(count send_partial)" -gt 0 ] || fail "nothing was sent in parts"
until_so is_settled
unload
echo "$room" >/proc/sys/net/ipv4/tcp_wmem
echo "proved: sent in parts"

# A server that is no process is said to be the kernel's own, and not to be looked for with more rights.
load
plimsoll load echo://127.0.0.1:7000 -n 10 --no-record -q >out 2>&1
tr '\n' ' ' <out | tr -s ' ' >line
grep -q "it is the kernel's own" line || { cat out && fail "it is not said whose the socket is"; }
grep -q "cannot be seen: run as root" line && fail "root is told to be root"
unload
echo "proved: whose the socket is"

# Silent clients. With a work item for each, as many as there may be of these keep everybody else out.
silent() {
    plimsoll load hold://127.0.0.1:7000 -c "$1" --every never -d 60s --no-record --observe none -q >/dev/null 2>&1 &
    held=$!
    until_so is_count live "$1"
    plimsoll load echo://127.0.0.1:7000 -n 1 -c 1 --timeout 1s --size 16 --no-record --observe none -q >/dev/null 2>&1
    answered=$(count recv)
    kill -9 $held
    wait $held 2>/dev/null
    until_so is_settled
    unload
}
load model=workqueue max_active=64
silent 63
is "answered beside 63 silent ones, of 64 work items" "$answered" 1
load model=workqueue max_active=64
silent 64
is "answered beside 64 silent ones, of 64 work items" "$answered" 0
for model in callback kthread; do
    load model=$model max_active=64
    silent 300
    is "answered beside 300 silent ones, model $model" "$answered" 1
done
echo "proved: silent clients"

# A failure at each step of loading leaves nothing behind: the next one loads.
for step in 1 2 3 4 5; do
    load fail_at=$step 2>/dev/null && fail "it loads with step $step failing"
    [ ! -e /proc/plimsoll_echo ] || fail "step $step left its counters"
    load || fail "step $step left something behind"
    unload
done
for wrong in model=x flags=unbound,fast max_active=0 buffer=0 buffer=9999999 address=1.2 backlog=0 port=0; do
    load $wrong 2>/dev/null && fail "it loads with $wrong"
done
load address=192.0.2.1 2>/dev/null && fail "it loads at an address that is not this machine's"
# Connections that find no memory are closed, and counted.
load refuse_every=3
plimsoll load echo://127.0.0.1:7000 -n 30 -c 1 --requests-per-connection 1 --no-record --observe none -q >/dev/null 2>&1
until_so is_settled
[ "$(count error_memory)" -ge 9 ] || fail "$(count error_memory) connections found no memory"
unload
echo "proved: failures are undone"

# Loaded and removed again and again while clients never stop.
plimsoll load echo://127.0.0.1:7000 -c 16 -d 1h --size 1..9000 --no-record --observe none -q >/dev/null 2>&1 &
clients=$!
round=0
served=0
while [ $round -lt $ROUNDS ]; do
    for model in workqueue kthread callback; do
        load model=$model || fail "$model does not load in round $round"
        # No longer than it takes some of them to come.
        sleep 0.0$((round % 7))
        served=$((served + $(count recv)))
        unload || fail "$model is not removed in round $round"
    done
    round=$((round + 1))
done
[ "$served" -gt 0 ] || fail "nobody was served meanwhile"
kill -0 $clients || fail "the clients ended"
kill -9 $clients
wait $clients 2>/dev/null
echo "proved: removed $((3 * ROUNDS)) times under load, $served messages meanwhile"

complaints && fail "the kernel complains"
exit 0
