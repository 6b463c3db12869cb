#!/bin/bash
# What strangers cost `plimsoll watch --serve`, and whether who has the token gets through them:
#   bench/strangers.sh [PER_MINUTE [SECONDS]]
#
# So many connections a minute (10,000), for so long (60 s), from addresses all over 127.0.0.0/8: a quarter is silent, a
# quarter says something that is no TLS, a quarter stops in the middle of TLS, a quarter completes it and proves nothing.
# All are held as long as the observer holds them. Every five seconds a client with the token tries once. Prints how many of
# those got through, and the observer's memory, threads and CPU. PLIMSOLL=PROGRAM takes that instead of a release build,
# WAIT=5s lets clients try again for so long.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
PLIMSOLL=$PLIMSOLL PER_MINUTE=${1:-10000} SECONDS_=${2:-60} exec python3 - <<'PYTHON'
import collections, concurrent.futures, os, random, re, signal, socket, ssl, subprocess, threading, time

program, seconds = os.environ["PLIMSOLL"], float(os.environ["SECONDS_"])
pause = 60 / float(os.environ["PER_MINUTE"])
environment = dict(os.environ, PLIMSOLL_TOKEN="a-token-for-this-bench-alone")
observer = subprocess.Popen([program, "watch", "--serve", "127.0.0.1:0"], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
at = observer.stdout.readline().split()[-1]
port = int(at.rsplit(":", 1)[1])

def status(field):
    with open(f"/proc/{observer.pid}/status") as file:
        return int(re.search(rf"^{field}:\s+(\d+)", file.read(), re.M).group(1))

def cpu_s():
    with open(f"/proc/{observer.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
tls.set_alpn_protocols(["plimsoll-observe"])
held, came, failed, over = collections.deque(maxlen=700), [0] * 4, 0, threading.Event()
half = bytes([22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xf0]) + bytes(4000)

def stranger(number):
    kind = number % 4
    source = (f"127.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}", 0)
    plain = socket.create_connection(("127.0.0.1", port), timeout=5, source_address=source)
    if kind == 1:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    elif kind == 2:
        plain.sendall(half)
    elif kind == 3:
        plain = tls.wrap_socket(plain)
    held.append(plain)
    came[kind] += 1

def flood():
    global failed
    begin, number, waiting = time.monotonic(), 0, collections.deque()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        while not over.is_set():
            time.sleep(max(0, begin + number * pause - time.monotonic()))
            waiting.append(pool.submit(stranger, number))
            number += 1
            while waiting and waiting[0].done():
                failed += waiting.popleft().exception() is not None

def client():
    begin = time.monotonic()
    done = subprocess.run([program, "watch", "--at", at, "--pid", str(observer.pid), "-d", "500ms", "--tick", "100ms",
                           "--observe-wait", os.environ.get("WAIT", "0s"), "--json"], env=environment, capture_output=True, text=True)
    return done.returncode == 0, time.monotonic() - begin, done.stderr.strip()

client()
print(f"before: {status('VmRSS')} KiB resident, {status('VmHWM')} at the most, {status('Threads')} threads")
thread, begin, used = threading.Thread(target=flood), time.monotonic(), cpu_s()
thread.start()
most, tries, next_try = {"VmRSS": 0, "Threads": 0}, [], begin + 2
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    while time.monotonic() < begin + seconds:
        for field in most:
            most[field] = max(most[field], status(field))
        if time.monotonic() >= next_try:
            tries.append(pool.submit(client))
            next_try += 5
        time.sleep(0.02)
over.set()
thread.join()
took, used = time.monotonic() - begin, cpu_s() - used
results = [one.result() for one in tries]
silent, noise, stopped, proved_nothing = came
print(f"strangers: {sum(came)} in {took:.0f} s ({silent} silent, {noise} no TLS, {stopped} half of TLS, {proved_nothing} TLS "
      f"and no proof), {failed} had no connection or were cut in TLS")
print(f"during: {most['VmRSS']} KiB resident, {max(status('VmHWM'), most['VmRSS'])} at the most, {most['Threads']} threads, "
      f"{100 * used / took:.1f} % of a CPU")
print(f"clients with the token: {sum(ok for ok, _, _ in results)} of {len(results)} got through, the "
      f"slowest run of 0.5 s took {max(s for _, s, _ in results):.2f} s")
for _, _, said in results:
    if said:
        print(f"  {said}")
observer.send_signal(signal.SIGTERM)
begin = time.monotonic()
status_ = observer.wait(20)
print(f"SIGTERM: status {status_} after {time.monotonic() - begin:.2f} s")
PYTHON
