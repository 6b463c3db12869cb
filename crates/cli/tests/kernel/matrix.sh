# The comparison: every experiment of the folder, one CPU, by a clock that counts instructions.
cd /
export XDG_STATE_HOME=/tmp/state
for name in ${PARTS:-burst idle designs sizes flags}; do
    record=--no-record
    [ $name != burst ] || record="--record /tmp/results/burst.plimsoll"
    plimsoll run experiments/kernel/$name.toml --json $record -q >/tmp/results/$name.json 2>/tmp/results/$name.log
    status=$?
    # 4: not valid, as client and server share the CPU here, which is what is asked for.
    case $status in 0 | 4) ;; *) cat /tmp/results/$name.log && fail "$name ended with $status" ;; esac
    echo "proved: $name is measured"
done
complaints && fail "the kernel complains"
exit 0
