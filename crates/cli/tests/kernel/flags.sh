# Flags of the work queue on two CPUs, in turn with the default.
cd /
export XDG_STATE_HOME=/tmp/state
for flags in bound unbound,highpri unbound,cpu_intensive; do
    plimsoll ab --a 'experiments/kernel/serve.sh model=workqueue flags=unbound max_active=512' \
        --b "experiments/kernel/serve.sh model=workqueue flags=$flags max_active=512" echo://127.0.0.1:7000 -c 100 --size 16..32 \
        --slice 500ms --warmup 200ms --repeats 7 --declare throughput,p99 --observe none --json -q >/tmp/results/$flags.json 2>/tmp/results/$flags.log
    # 4: every slice was disturbed, as client and server share two CPUs; the page says so.
    status=$?
    case $status in 0 | 3 | 4) ;; *) cat /tmp/results/$flags.log && fail "$flags ended with $status" ;; esac
    echo "proved: $flags is compared"
done
exit 0
