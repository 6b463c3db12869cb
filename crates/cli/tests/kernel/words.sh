# What the scripts of the guest begin with: words to load, to count and to compare.
load() { insmod /plimsoll_echo.ko port=7000 "$@"; }
unload() { rmmod plimsoll_echo; }
count() { awk -v name="$1" '$1 == name { print $2 }' /proc/plimsoll_echo; }
fail() {
    echo "FAILED: $*"
    cat /proc/plimsoll_echo 2>/dev/null
    dmesg | tail -n 20
    exit 1
}
is() { [ "$2" = "$3" ] || fail "$1: expected $3, got $2"; }
# Until a condition holds, five seconds at the most.
until_so() {
    local tries=0
    while ! "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "never so: $*"
        sleep 0.05
    done
}
is_count() { [ "$(count "$1")" = "$2" ]; }
# Everything that was accepted was given back.
is_settled() { is_count live 0 && is_count released "$(count accepted)"; }
# What the kernel complains of; the taint of a module that is not Debian's is none.
complaints() {
    dmesg | grep -E 'BUG|WARNING:|Oops|Call Trace|refcount_t|corrupt|overwritten|Objects remaining|blocked for more|self-detected stall|leak' |
        sed 's/^/complaint: /' | grep .
}
