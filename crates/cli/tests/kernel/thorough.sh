# A hundred thousand connections, and what is left of them; what TIME-WAIT is, and who ends it. Slab debugging is on, so objects
# that wait in caches of a CPU do not count as used.
slabs() {
    plimsoll drop time-wait --to 127.0.0.1:7000 >/dev/null 2>&1
    echo 3 >/proc/sys/vm/drop_caches
    sleep 1
    awk '$1 ~ /^(TCP|sock_inode_cache|request_sock_TCP|tw_sock_TCP|skbuff_head_cache|kmalloc-8k)$/ { print "slab " $1 " " $2 }' /proc/slabinfo
    echo "slab sockets $(awk '/^TCP:/ { print $3 }' /proc/net/sockstat)"
    echo "slab descriptors $(cut -f1 /proc/sys/fs/file-nr)"
}
waiting() { awk '/^TCP:/ { print $7 }' /proc/net/sockstat; }
new_each() {
    plimsoll load echo://127.0.0.1:7000 -n "$1" -c 50 --requests-per-connection 1 --size 16..32 --no-record --observe none -q >/dev/null 2>&1
    until_so is_settled
}
for model in workqueue callback; do
    load model=$model
    new_each 2000
    slabs >before
    new_each 100000
    slabs >after
    # At the end some clients have connected and there is no message left for them.
    [ "$(count accepted)" -ge 102000 ] || fail "$model: $(count accepted) connections"
    is "$model: messages" "$(count recv)" 102000
    is "$model: ends" $(($(count shutdown) + $(count error_recv_reset) + $(count error_send_reset))) "$(count accepted)"
    cat /proc/plimsoll_echo | sed "s/^/counter $model /"
    sed "s/^/before $model /" before
    sed "s/^/after $model /" after
    unload
done
load
new_each 5000
echo "waiting before $(waiting)"
plimsoll drop time-wait --to 127.0.0.1:7000
echo "waiting after $(waiting)"
[ "$(waiting)" -lt 100 ] || fail "sockets are in TIME-WAIT all the same"
unload
