#!/usr/bin/env bash
# What each program in the kernel costs a request, by the kernel's own account (bpf_stats_enabled, sysctl/kernel.rst): how often
# it ran, how long, and what that is of the target's CPU time. It is no estimate from noisy runs, so one run says it; what it
# leaves out is the way into a program and out of it, and what it does to the caches: `bench observe` has all of that.
#   bench/probes-cost.sh [LEVEL [SECONDS]]      light, 10 s; LEVEL: light, windows or full
# Needs root. nginx is on CPU 0, the generator on CPU 1. Turns the kernel's account on for the run, and off again after it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
LEVEL=${1:-light} SECONDS_=${2:-10} exec python3 - <<'PYTHON'
import collections, ctypes, json, os, platform, signal, struct, subprocess, sys, tempfile, time

# Ended early, it still ends nginx and turns the account off.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
level, seconds = os.environ["LEVEL"], os.environ["SECONDS_"]
SWITCH = "/proc/sys/kernel/bpf_stats_enabled"
# bpf(2), and of linux/bpf.h its commands and where `struct bpf_prog_info` has what is read.
BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
GET_NEXT_ID, GET_FD_BY_ID, GET_INFO = 11, 13, 15
NAME, RUN_TIME, RUNS, INFO_BYTES = 64, 192, 200, 232
libc = ctypes.CDLL(None, use_errno=True)

def bpf(command, words):
    attributes = ctypes.create_string_buffer(words, 128)
    return libc.syscall(BPF, command, attributes, 128), attributes.raw

def programs():
    """Of every program in the kernel, by its id: name, how long it ran, how often."""
    found, number = {}, 0
    while True:
        failed, answer = bpf(GET_NEXT_ID, struct.pack("<II", number, 0))
        if failed:
            return found
        number = struct.unpack_from("<I", answer, 4)[0]
        descriptor, _ = bpf(GET_FD_BY_ID, struct.pack("<I", number))
        if descriptor < 0:
            continue
        info = ctypes.create_string_buffer(INFO_BYTES)
        failed, _ = bpf(GET_INFO, struct.pack("<IIQ", descriptor, INFO_BYTES, ctypes.addressof(info)))
        os.close(descriptor)
        if not failed:
            name = info.raw[NAME:NAME + 16].split(b"\0")[0].decode()
            found[number] = (name, *struct.unpack_from("<QQ", info.raw, RUN_TIME))

def cpu_ns(pids):
    return sum(int(open(f"/proc/{pid}/schedstat").read().split()[0]) for pid in pids)

with tempfile.TemporaryDirectory() as folder:
    port = 18473
    configuration = f"""worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error; events {{ worker_connections 4096; }}
        http {{ access_log off; keepalive_requests 1000000000;
        server {{ listen 127.0.0.1:{port}; location / {{ return 200 "{'x' * 600}"; }} }} }}"""
    open(f"{folder}/nginx.conf", "w").write(configuration)
    before = int(open(SWITCH).read())
    nginx = subprocess.Popen(["taskset", "-c", "0", "nginx", "-p", folder, "-c", f"{folder}/nginx.conf"])
    try:
        open(SWITCH, "w").write("1")
        time.sleep(0.5)
        children = open(f"/proc/{nginx.pid}/task/{nginx.pid}/children").read().split()
        others = programs()
        target_before = cpu_ns(children)
        command = ["taskset", "-c", "1", "target/release/plimsoll", "load", f"http://127.0.0.1:{port}/", "-c", "64", "-t", "1",
                   "-d", f"{seconds}s", "--observe", level, "--no-record", "--json", "-q"]
        # Into a file: a pipe that nobody reads meanwhile would hold it up.
        load = subprocess.Popen(command, stdout=open(f"{folder}/report", "w"))
        # A program's account goes with it, and it goes with the run: the last that was seen of each counts.
        last = {}
        while load.poll() is None:
            last.update({number: told for number, told in programs().items() if number not in others})
            time.sleep(0.02)
        document = json.load(open(f"{folder}/report"))
        target_ns = cpu_ns(children) - target_before
    finally:
        open(SWITCH, "w").write(str(before))
        nginx.terminate()
        nginx.wait()

requests = document["totals"]["ok"]
sums = collections.defaultdict(lambda: [0, 0])
for name, took_ns, runs in last.values():
    sums[name][0] += took_ns
    sums[name][1] += runs
print(f"{requests:,} requests in {seconds} s with --observe {level}; nginx used {target_ns / requests:,.0f} ns of CPU a request")
print(f"{'program':<16} {'runs a request':>14} {'ns a run':>9} {'ns a request':>13} {'of nginx':>9}")
for name, (took_ns, runs) in sorted(sums.items(), key=lambda one: -one[1][0]):
    if runs:
        print(f"{name:<16} {runs / requests:>14.4f} {took_ns / runs:>9.0f} {took_ns / requests:>13.2f} {took_ns / target_ns:>9.3%}")
whole = sum(took_ns for took_ns, _ in sums.values())
print(f"{'together':<16} {'':>14} {'':>9} {whole / requests:>13.2f} {whole / target_ns:>9.3%}  (on both CPUs; nginx's share is less)")
PYTHON
