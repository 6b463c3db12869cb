#!/usr/bin/env python3
"""Requests per CPU-second of plimsoll beside the bare loop, the two taking turns on one CPU, 320 and 80 ms.

A machine whose cores are shared works at half or twice the speed for seconds at a time, so runs after one another differ by more than
one wants to tell apart. Here both processes of a pair run at once and one of them is always stopped (SIGSTOP, SIGCONT), in turns of 320 ms for plimsoll and
80 ms for the bare loop: both meet the same machine. CPU time is that of the whole process (wait4), from its start to its end. A run goes
on until its own clock ends it, so what plimsoll does by the clock (ticks, readings of the observer) weighs a quarter more than without
pauses, to its disadvantage. The bare loop's own start (its CPU time in a run of 1 ms) weighs as in a run as long as plimsoll's. The first
requests of a turn find their replies waiting and cost less, which favours who has the short turns: a bare loop in long turns beside one in short
ones is what `bare` shows (with 1000 connections 0.967 [0.950, 0.984] of twelve pairs of 3 s, with 64 0.998 [0.978, 1.004]). Where it is among the
variants, each ratio is divided by its, too.

  make release && cargo build --release -p plimsoll-bench-floor
  bench/slices.py [--pairs 12] [--seconds 10] [--connections 64,1000] [--targets responder,nginx] [--variants default,no-observe]

Variants: default; no-observe (nor recording); none (--observe none); bare (the loop beside itself: what the method cannot tell apart).
Medians of the pairs' ratios, and their 95 % interval by ranks.
"""

import argparse, itertools, math, os, pathlib, re, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "target/release"
TURN_S, BARE_TURN_S = 0.32, 0.08
VARIANTS = {
    "default": [],
    "no-observe": ["--no-observe", "--no-record"],
    "none": ["--observe", "none"],
    "bare": None,
}
NGINX = """daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600;
client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0}; uwsgi_temp_path {0}; scgi_temp_path {0};
server {{ listen 127.0.0.1:{1} backlog=4096; location / {{ return 200 "{2}"; }} }} }}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_target(name, folder):
    port = free_port()
    if name == "responder":
        command = [RELEASE / "floor", "responder", "--port", str(port), "--cpu", "0"]
    else:
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        config = pathlib.Path(folder) / "nginx.conf"
        config.write_text(NGINX.format(folder, port, "x" * 612))
        command = ["taskset", "-c", "0", nginx, "-c", config, "-e", f"{folder}/error.log"]
    target = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return target, port
        except OSError:
            time.sleep(0.02)
    target.kill()
    sys.exit(f"slices: {name} does not listen within 4 s")


def command_of(variant, port, connections, wall_s):
    pinned = ["taskset", "-c", "1"]
    if VARIANTS[variant] is None:
        return pinned + [RELEASE / "floor", "epoll", "--addr", f"127.0.0.1:{port}", "--connections", str(connections), "--seconds", str(wall_s)]
    load = [RELEASE / "plimsoll", "load", f"http://127.0.0.1:{port}/", "-c", str(connections), "-d", f"{wall_s}s", "--threads", "1", "--json"]
    return pinned + load + VARIANTS[variant]


def requests_in(text):
    found = re.search(rb'"(?:requests|ok)":\s*(\d+)', text)
    if not found:
        sys.exit(f"slices: a run has no count of requests: {text[:400]!r}")
    return int(found.group(1))


def pair(variant, port, connections, seconds):
    """CPU seconds a request of the variant and of the bare loop in a run as long."""
    runs = []
    try:
        wall_s = seconds * (TURN_S + BARE_TURN_S) / TURN_S
        for who, turn_s in ((variant, TURN_S), ("bare", BARE_TURN_S)):
            out = tempfile.TemporaryFile()
            process = subprocess.Popen(command_of(who, port, connections, wall_s), stdout=out, stderr=subprocess.DEVNULL)
            os.kill(process.pid, signal.SIGSTOP)
            runs.append(Run(process, out, turn_s))
        while left := [run for run in runs if run.cpu_s is None]:
            for run in left:
                run.take_turn()
    finally:
        for run in runs:
            run.process.kill()
    start_s = alone(command_of("bare", port, connections, 0.001))
    (own_s, own), (bare_s, bare) = ((run.cpu_s, requests_in(run.text())) for run in runs)
    return own_s / own, (bare_s - start_s) / bare + start_s / own


def alone(command):
    """CPU seconds of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


class Run:
    """A process that is stopped between its turns."""

    def __init__(self, process, out, turn_s):
        self.process, self.out, self.turn_s, self.cpu_s = process, out, turn_s, None

    def take_turn(self):
        os.kill(self.process.pid, signal.SIGCONT)
        time.sleep(self.turn_s)
        ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if ended:
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = usage.ru_utime + usage.ru_stime
        else:
            os.kill(self.process.pid, signal.SIGSTOP)

    def text(self):
        self.out.seek(0)
        return self.out.read()


def interval(values):
    """The 95 % interval of the median by ranks; all there is where there are fewer than six."""
    ordered, n = sorted(values), len(values)
    outside = lambda rank: sum(math.comb(n, k) for k in range(rank)) / 2**n
    rank = max((rank for rank in range(1, n // 2 + 1) if outside(rank) <= 0.025), default=1)
    return ordered[rank - 1], ordered[n - rank]


def main():
    wants = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wants.add_argument("--pairs", type=int, default=12)
    wants.add_argument("--seconds", type=float, default=10)
    wants.add_argument("--connections", default="64,1000")
    wants.add_argument("--targets", default="responder,nginx")
    wants.add_argument("--variants", default="default,no-observe")
    wants = wants.parse_args()
    print(f"{wants.pairs} pairs, {wants.seconds:g} s of each; µs of CPU a request; × bare")
    for target_name, connections in itertools.product(wants.targets.split(","), map(int, wants.connections.split(","))):
        with tempfile.TemporaryDirectory() as folder:
            target, port = start_target(target_name, folder)
            try:
                got = {variant: [] for variant in wants.variants.split(",")}
                for _ in range(wants.pairs):
                    for variant, pairs in got.items():
                        pairs.append(pair(variant, port, connections, wants.seconds))
            finally:
                target.kill()
                target.wait()
        of_method = statistics.median(bare / own for own, bare in got["bare"]) if "bare" in got else None
        for variant, pairs in got.items():
            ratios = [bare / own for own, bare in pairs]
            over = f"  ÷ bare {statistics.median(ratios) / of_method:.3f}" if of_method else ""
            low, high = interval(ratios)
            own, bare = (statistics.median(one[side] for one in pairs) * 1e6 for side in (0, 1))
            print(f"{target_name:10} {connections:5} {variant:11} {own:6.3f} {bare:6.3f}  × {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]{over}", flush=True)


if __name__ == "__main__":
    main()
