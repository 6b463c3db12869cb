#!/usr/bin/env bash
# Installs the Debian packages that are missing, and says which. Nothing else is changed.
#   scripts/packages.sh build        what compiling needs
#   scripts/packages.sh test         and what the tests run against (real servers and clients)
#   scripts/packages.sh real         and the servers of truth/real
#   scripts/packages.sh bench        and the peers that bench/ compares with
#   scripts/packages.sh instructions what counting instructions needs
#   scripts/packages.sh lint         what compiling needs, and the spell checker
#   scripts/packages.sh kernel       and the headers of a newer kernel, with what looks at C for the kernel
#   scripts/packages.sh cluster      and what a cluster's nodes are made of
#   scripts/packages.sh arm64        what compiling for arm64 needs on x86-64, and a machine to try it on
#   scripts/packages.sh web          a browser, for the tests of the HTML report
set -euo pipefail

build=(gcc g++ libc6-dev make clang pkg-config libelf-dev zlib1g-dev)
test=(python3 nginx-light curl openssl tmux wrk apache2-utils procps util-linux iproute2 iptables redis-server redis-tools nats-server strace sysstat nmon nghttp2-client qemu-system-x86 busybox-static stress-ng nftables)
kernel=()
if [ "$(uname -m)" = x86_64 ]; then
    # To build the echo module of kernel/ for the kernel that is booted in a guest.
    test+=(kmod xz-utils linux-headers-cloud-amd64)
    kernel=(linux-headers-6.12-cloud-amd64 sparse)
fi
real=(apache2-bin h2o libmojolicious-perl libnginx-mod-http-lua libtomcat10-embed-java libtomcat10-java lighttpd caddy varnish squid yaws starman php-cli python3-tornado python3-cherrypy3 python3-gevent python3-twisted uwsgi-core uwsgi-plugin-python3 php-fpm python3-waitress python3-uvicorn python3-aiohttp gunicorn ruby unicorn haproxy pgbouncer postgresql mariadb-server puma dnsmasq-base python3-psycopg2 python3-pymysql nodejs default-jdk-headless golang-go)
cluster=(etcd-server containerd runc containernetworking-plugins iptables)
bench=(python3)
lint=(codespell)
arm64=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-arm busybox-static kmod)
instructions=(valgrind)
web=(chromium fonts-dejavu-core xz-utils)

case "${1:-test}" in
build) wanted=("${build[@]}") ;;
test) wanted=("${build[@]}" "${test[@]}") ;;
kernel) wanted=("${build[@]}" "${test[@]}" "${kernel[@]}") ;;
real) wanted=("${build[@]}" "${test[@]}" "${real[@]}") ;;
cluster) wanted=("${build[@]}" "${test[@]}" "${cluster[@]}") ;;
bench) wanted=("${build[@]}" "${test[@]}" "${bench[@]}") ;;
lint) wanted=("${build[@]}" "${lint[@]}") ;;
arm64) wanted=("${build[@]}" "${arm64[@]}") ;;
web) wanted=("${web[@]}") ;;
instructions) wanted=("${build[@]}" "${instructions[@]}") ;;
*)
    echo "usage: $0 build|test|real|bench|instructions|lint|kernel|cluster|arm64|web (got '$1')" >&2
    exit 2
    ;;
esac

installed() {
    # Any nginx will do in place of nginx-light.
    [ "$1" = nginx-light ] && [ -x /usr/sbin/nginx ] && return 0
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

missing=()
for package in "${wanted[@]}"; do
    installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "missing: ${missing[*]}; this script knows only Debian's apt-get: install them by your system's means" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "missing: ${missing[*]}; installing needs root: run as root  apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "installing Debian packages: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# A package's own service is not wanted: tests start their servers themselves.
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod +x $policy
    made_policy=1
fi
finish() { [ -z "$made_policy" ] || "${as_root[@]}" rm -f $policy; }
trap finish EXIT
if ! "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
