#!/usr/bin/env bash
# What it costs a server that a clock beats on a CPU (perf_event_open(2), cpu-clock), which is how `bpf/oncpu` samples: within one
# load, half a second without and half a second with it in random order, so that a pair of figures is a second apart and the
# machine's slow changes fall out. Nothing is sampled or kept: it is the beats alone. Beside them a process on the generator's CPU that
# wakes 100 times a second and does nothing: is it the clock that costs, or being woken?
#   bench/clocks.sh [ROUNDS [HERTZ]]      40 rounds, 99 beats a second
# Needs root. nginx is on CPU 0, the generator on CPU 1 and half idle.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release -p plimsoll
ROUNDS=${1:-40} HERTZ=${2:-99} exec python3 - <<'PYTHON'
import atexit, ctypes, fcntl, math, os, platform, random, signal, statistics, struct, subprocess, sys, tempfile, time, urllib.request

# Ended early, it still ends nginx.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
rounds, hertz = int(os.environ["ROUNDS"]), int(os.environ["HERTZ"])
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[platform.machine()]
# linux/perf_event.h: PERF_TYPE_SOFTWARE with PERF_COUNT_SW_CPU_CLOCK; the bits `disabled` and `freq`; the two ioctls.
SOFTWARE, CPU_CLOCK, FLAGS, ENABLE, DISABLE = 1, 0, 1 | 1 << 10, 0x2400, 0x2401
PORT, STATUS = 18_080, 18_081
libc = ctypes.CDLL(None, use_errno=True)

def clock(cpu):
    """A clock of a CPU that does not beat yet."""
    attributes = struct.pack("<IIQQQQQ", SOFTWARE, 64, CPU_CLOCK, hertz, 0, 0, FLAGS).ljust(64, b"\0")
    descriptor = libc.syscall(PERF_EVENT_OPEN, ctypes.create_string_buffer(attributes, 64), -1, cpu, -1, 8)
    if descriptor < 0:
        sys.exit(f"expected to open the clock of CPU {cpu}, but {os.strerror(ctypes.get_errno())}: run it as root")
    return descriptor

of_server, of_generator = clock(0), clock(1)
# Stopped but for its turns.
sleeper = subprocess.Popen(
    ["taskset", "-c", "1", "perl", "-e", "select(undef, undef, undef, 0.01) while 1"], start_new_session=True)
sleeper.send_signal(signal.SIGSTOP)
atexit.register(sleeper.kill)
STATES = {"none": [], "server's CPU": [of_server], "generator's CPU": [of_generator], "both": [of_server, of_generator], "a sleeper there": [sleeper]}

def turn(what, on):
    for one in what:
        if one is sleeper:
            sleeper.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        else:
            fcntl.ioctl(one, ENABLE if on else DISABLE, 0)

os.sched_setaffinity(0, {1})
with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/small", "w") as small:
        small.write("hello\n")
    with open(f"{folder}/nginx.conf", "w") as conf:
        conf.write(f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error; user root;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen 127.0.0.1:{PORT}; root {folder}; }}
  server {{ listen 127.0.0.1:{STATUS}; location / {{ stub_status; }} }} }}
""")
    nginx = subprocess.Popen(["taskset", "-c", "0", "nginx", "-c", f"{folder}/nginx.conf"], start_new_session=True)
    try:
        for _ in range(50):
            time.sleep(0.1)
            workers = open(f"/proc/{nginx.pid}/task/{nginx.pid}/children").read().split()
            if workers or nginx.poll() is not None:
                break
        if not workers:
            sys.exit(f"expected nginx to start: {open(f'{folder}/error').read().strip() or 'is it installed?'}")
        worker = workers[0]

        def reading():
            """Requests, and CPU time in nanoseconds, of nginx's worker until now."""
            text = urllib.request.urlopen(f"http://127.0.0.1:{STATUS}/").read().decode()
            return int(text.splitlines()[2].split()[2]), int(open(f"/proc/{worker}/schedstat").read().split()[0])

        length = f"{rounds * len(STATES) * 0.65 + 10:.0f}s"
        load = subprocess.Popen(
            ["taskset", "-c", "1", "target/release/plimsoll", "load", f"http://127.0.0.1:{PORT}/small", "-c", "64", "-d", length,
             "--threads", "1", "--no-observe", "--no-record", "-q"], stdout=subprocess.DEVNULL)
        time.sleep(1)
        cost, rate = ({state: [] for state in STATES} for _ in range(2))
        for _ in range(rounds):
            for state in random.sample(list(STATES), len(STATES)):
                turn(STATES[state], True)
                time.sleep(0.05)
                (requests, cpu_ns), began = reading(), time.monotonic()
                time.sleep(0.5)
                (requests_then, cpu_ns_then), took = reading(), time.monotonic() - began
                turn(STATES[state], False)
                cost[state].append((cpu_ns_then - cpu_ns) / (requests_then - requests))
                rate[state].append((requests_then - requests) / took)
        load.send_signal(signal.SIGINT)
        load.wait()
    finally:
        nginx.terminate()
        nginx.wait()

def ratio(values):
    """The median of the ratios to none, and its 95 % interval by order statistics."""
    logs = sorted(math.log(one / none) for one, none in zip(values, of_none))
    least = max(0, int(len(logs) / 2 - 0.98 * math.sqrt(len(logs))))
    return "{:.3f} [{:.3f}, {:.3f}]".format(*(math.exp(x) for x in (statistics.median(logs), logs[least], logs[-1 - least])))

print(f"{rounds} rounds, {hertz} beats a second; × none: median, 95 % interval by ranks")
print(f"{'a clock beats on':18}{'CPU-ns a request':>18}  {'× none':24}{'requests/s':>12}  × none")
for state in STATES:
    of_none = cost["none"]
    costs = ratio(cost[state])
    of_none = rate["none"]
    print(f"{state:18}{statistics.median(cost[state]):18,.0f}  {costs:24}{statistics.median(rate[state]):12,.0f}  {ratio(rate[state])}")
PYTHON
