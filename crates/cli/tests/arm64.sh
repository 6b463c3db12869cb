# What is done on the arm64 machine, as busybox's shell reads it.
results=/tmp/results
uname -m >$results/machine
plimsoll --version || exit 1

# Where a server listens that was started with these arguments; `server` is its process.
serve() {
    plimsoll serve "$@" --listen 127.0.0.1:0 >listening 2>serve.log &
    server=$!
    tries=0
    until grep -q 127.0.0.1: listening; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "the server does not listen" && cat listening serve.log && exit 1; }
        sleep 0.1
    done
    url=$(grep -o 'http://[0-9.:]*' listening | head -n 1)
}
# Status 4 says "not valid", which an emulated machine may well be.
load() {
    to=$1
    shift
    plimsoll load "$url/" --json --no-record --timeout 30s "$@" >$results/$to.json 2>$to.log
    status=$?
    [ $status = 0 ] || [ $status = 4 ] || { echo "$to ended with $status" && cat $to.log && exit 1; }
}

serve http --workers 1
load uring -n 2000 -c 8 --driver uring --observe full
load epoll -n 2000 -c 8 --driver epoll
kill $server
# It dies of a signal, which only the probes see.
serve http --workers 1 --defect crash=500
load defect -d 5s -c 4 --observe windows
exit 0
