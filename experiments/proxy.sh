#!/bin/sh
# A reverse proxy, the origin behind it with a file, and a link to its clients that carries so much; for experiments/proxy-*.toml.
#
#     proxy.sh PROXY ADDRESS RATE SIZE BUFFERING BUFFERS [SWAP]
#
# PROXY: nginx, or plimsoll; ADDRESS: where it listens; RATE: of the link, as tc(8) has it, in a network namespace of its own, or -;
# SIZE: of the file, MiB; BUFFERING: on, off or cache; BUFFERS: how many of which size each connection has, such as "1024 256k";
# SWAP: MiB of a swap file, as root, which is removed when all has ended.
set -eu
proxy=$1 address=$2 rate=$3 size=$4 buffering=$5 buffers=$6 swap=${7-}
folder=$(mktemp -d /var/tmp/plimsoll-proxy.XXXXXX)
servers=
swaps=
end() {
    trap '' TERM INT
    # Of those that have ended by themselves there is nothing to end.
    for pid in $servers; do if kill -0 "$pid" 2>/dev/null; then kill "$pid"; fi; done
    wait
    # Only now: what was swapped of them is read back into memory that they may not have.
    if [ -n "$swaps" ] && ! swapoff "$swaps"; then
        echo "$swaps is still in use as swap, and stays: 'swapoff $swaps', then remove $folder" >&2
        exit 1
    fi
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 0' TERM INT
chmod 755 "$folder"
mkdir "$folder/www"
head -c "${size}M" /dev/urandom >"$folder/www/file"
echo here >"$folder/www/small"
if [ "$rate" != - ]; then
    # Of a network namespace that was made for it, the address is one for measurements (RFC 2544), on its only link.
    case "$address" in
    198.1[89].*) ;;
    *)
        echo "expected an address of 198.18.0.0/15 for a link of $rate, got $address: the host's own link would be made so slow" >&2
        exit 2
        ;;
    esac
    if ! ip -o address show dev eth0 | grep -qF " ${address%:*}/"; then
        echo "expected ${address%:*} on eth0 of a network namespace of its own, got none: have 'namespace' in [target]" >&2
        exit 2
    fi
    tc qdisc add dev eth0 root tbf rate "$rate" burst 256k latency 50ms
fi
if [ -n "$swap" ]; then
    dd if=/dev/zero of="$folder/swap" bs=1M count="$swap" status=none
    chmod 600 "$folder/swap"
    mkswap -q "$folder/swap"
    swapon "$folder/swap"
    swaps=$folder/swap
fi
origin=127.0.0.1:$((${address##*:} + 1))
plimsoll serve http --root "$folder/www" --listen "$origin" &
servers=$!
case $proxy in
nginx)
    more=
    case $buffering in
    off) more="proxy_buffering off;" ;;
    cache) more="proxy_cache files; proxy_cache_valid 1m; proxy_cache_lock on;" ;;
    esac
    cat >"$folder/nginx.conf" <<CONF
daemon off;
pid $folder/pid;
error_log $folder/error.log;
worker_processes 1;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
    proxy_cache_path $folder/cache keys_zone=files:1m;
    server {
        listen $address;
        location / {
            proxy_pass http://$origin;
            proxy_buffer_size ${buffers#* };
            proxy_buffers $buffers;
            proxy_busy_buffers_size ${buffers#* };
            $more
        }
    }
}
CONF
    nginx -p "$folder" -c "$folder/nginx.conf" -e "$folder/error.log" &
    ;;
plimsoll)
    each=${buffers#* } cache=0 switch=on
    case $buffering in
    off) switch=off ;;
    cache) cache=256MiB ;;
    esac
    plimsoll serve proxy --origin "http://$origin" --buffering $switch --buffers "${buffers% *}" --buffer-size "${each%k}KiB" \
        --cache $cache --temp-dir "$folder" --listen "$address" &
    ;;
*)
    echo "expected nginx or plimsoll, got '$proxy'" >&2
    exit 2
    ;;
esac
servers="$servers $!"
wait
