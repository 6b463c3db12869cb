#!/usr/bin/env bash
# What it takes of a command to follow and join a thousand agents, a tick a second, over a real NATS:
#   bench/thousand.sh [AGENTS [SECONDS]]      1000 agents, 31 s
# One real agent puts a load on first, and all that it says is kept. Then AGENTS of its like say the same, each under its own name, as
# the protocol has it: they answer who is there, agree, are ready, answer for their clocks, begin, send a tick a second and
# signs of life, and hand their recordings over. So of a machine there is what it costs to follow them and not what they cost.
# Printed are the command's CPU time while it follows, its memory, how far behind the ticks it shows them, and how long the end takes. The
# result is checked: as many requests as the one agent's, times AGENTS.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
command -v nats-server >/dev/null || { echo "expected nats-server: scripts/packages.sh test installs it" >&2; exit 1; }
PLIMSOLL=$PLIMSOLL AGENTS=${1:-1000} SECONDS_=${2:-31} exec python3 - <<'PYTHON'
import asyncio, json, os, re, signal, socket, subprocess, sys, tempfile, time

# Ended early, it still ends what it started.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
program, number, seconds = os.environ["PLIMSOLL"], int(os.environ["AGENTS"]), int(os.environ["SECONDS_"])
state = tempfile.TemporaryDirectory()
environment = dict(os.environ, XDG_STATE_HOME=state.name)
started = []
# Recordings on their way at a time.
AT_A_TIME = 16

def start(*arguments, **more):
    process = subprocess.Popen(arguments, env=environment, **more)
    started.append(process)
    return process

def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]

class Nats:
    """As much of a client as is wanted here (docs.nats.io/reference/reference-protocols/nats-protocol)."""
    async def connect(self, port):
        for _ in range(100):
            try:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port, limit=4 << 20)
                break
            except OSError:
                await asyncio.sleep(0.1)
        await self.reader.readline()
        self.writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
        self.of, self.acknowledged, self.asked = {}, {}, 0
        self.subscribe("_INBOX.thousand.*", self.answered)
        asyncio.ensure_future(self.read())
        return self

    def subscribe(self, subject, take):
        self.of[str(len(self.of) + 1)] = take
        self.writer.write(f"SUB {subject} {len(self.of)}\r\n".encode())

    def publish(self, subject, body, reply="", message_id=None):
        if message_id is None:
            self.writer.write(f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n")
            return
        head = f"NATS/1.0\r\nNats-Msg-Id: {message_id}\r\n\r\n".encode()
        self.writer.write(f"HPUB {subject} {reply} {len(head)} {len(head) + len(body)}\r\n".encode() + head + body + b"\r\n")

    async def put(self, subject, body, message_id):
        """Into a stream, until it is acknowledged."""
        self.asked += 1
        done = self.acknowledged[f"_INBOX.thousand.{self.asked}"] = asyncio.get_event_loop().create_future()
        self.publish(subject, body, f"_INBOX.thousand.{self.asked}", message_id)
        await self.writer.drain()
        answer = json.loads(await asyncio.wait_for(done, 120))
        if "error" in answer:
            sys.exit(f"expected NATS to keep {subject}, but: {answer['error']}")

    def answered(self, subject, _, body):
        done = self.acknowledged.pop(subject, None)
        if done and not done.done():
            done.set_result(body)

    async def read(self):
        while line := await self.reader.readline():
            words = line.decode().split()
            if words[0] == "PING":
                self.writer.write(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                headed = words[0] == "HMSG"
                sizes = 2 if headed else 1
                body = await self.reader.readexactly(int(words[-1]) + 2)
                body = body[int(words[-2]) if headed else 0:-2]
                reply = words[3] if len(words) == 3 + sizes + 1 else ""
                self.of[words[2]](words[1], reply, body)

class Kept:
    """What the one agent said, and when after it began."""
    def __init__(self):
        self.card, self.ready, self.delivered, self.ticks, self.chunks, self.began = None, None, None, [], [], None

    def take(self, subject, _, body):
        what = subject.rsplit(".", 1)[1]
        if what == "state":
            said = json.loads(body)
            if said["state"] == "began":
                self.began = time.monotonic()
            if said["state"] in ("ready", "delivered"):
                setattr(self, said["state"], body)
        elif what == "tick":
            self.ticks.append((time.monotonic() - self.began, body))
        elif what == "recording":
            self.chunks.append(body)

class Crowd:
    """Agents of its like."""
    def __init__(self, nats, kept):
        self.nats, self.kept, self.run, self.handed_over = nats, kept, None, 0
        self.names = [f"a{at:04}" for at in range(number)]
        self.began_ns, self.last_ns, self.dealt = None, None, []
        nats.subscribe("plimsoll.agents.who", self.who)
        nats.subscribe("plimsoll.agent.*.take", self.asked_to_take_part)
        nats.subscribe("plimsoll.agent.*.clock", self.clock)
        nats.subscribe("plimsoll.run.*.*", self.word)

    def who(self, _, reply, __):
        for name in self.names:
            card = dict(self.kept.card, name=name, instance=name, doing="idle", run=None)
            self.nats.publish(reply, json.dumps(card).encode())

    def asked_to_take_part(self, _, reply, body):
        self.run = json.loads(body)["run"]
        self.nats.publish(reply, b'{"answer":"agreed","workers":1}')

    def clock(self, _, reply, __):
        now_ns = time.monotonic_ns()
        self.nats.publish(reply, json.dumps({"received_ns": now_ns, "sent_ns": time.monotonic_ns()}).encode())

    def say(self, name, what, at, body):
        self.nats.publish(f"plimsoll.run.{self.run}.agent.{name}.{what}", body, "", f"{self.run}/{name}/{what}/{at}")

    def word(self, subject, _, body):
        word = subject.rsplit(".", 1)[1]
        if word == "deal":
            self.dealt = [share["agent"] for share in json.loads(body)["shares"]]
            for name in self.dealt:
                self.say(name, "state", 0, self.kept.ready)
        elif word == "begin":
            asyncio.ensure_future(self.put_on(json.loads(body)["moments"]))

    async def put_on(self, moments):
        first = next(iter(moments.values()))
        self.began_ns = first["at_ns"] - first["offset_ns"]
        await asyncio.sleep((self.began_ns - time.monotonic_ns()) / 1e9)
        living = asyncio.ensure_future(self.live())
        for name in self.dealt:
            self.say(name, "state", 1, json.dumps({"state": "began", "at_ns": moments[name]["at_ns"], "late_ns": 0}).encode())
        for at, (after, body) in enumerate(self.kept.ticks):
            await asyncio.sleep(self.began_ns / 1e9 + after - time.monotonic())
            for name in self.dealt:
                self.say(name, "tick", at, body)
            await self.nats.writer.drain()
        gate = asyncio.Semaphore(AT_A_TIME)
        await asyncio.gather(*(self.hand_over(name, gate) for name in self.dealt))
        self.last_ns = time.monotonic_ns()
        living.cancel()

    async def live(self):
        while True:
            for name in self.dealt:
                alive = {"agent": name, "doing": "running", "trouble": None}
                self.nats.publish(f"plimsoll.alive.{self.run}", json.dumps(alive).encode())
            await asyncio.sleep(0.5)

    async def hand_over(self, name, gate):
        async with gate:
            for at, chunk in enumerate(self.kept.chunks):
                await self.nats.put(f"plimsoll.run.{self.run}.agent.{name}.recording", chunk, f"{self.run}/{name}/recording/{at}")
            await self.nats.put(f"plimsoll.run.{self.run}.agent.{name}.state", self.kept.delivered, f"{self.run}/{name}/state/2")

def cpu_and_memory(pid):
    """Seconds, and MiB at the most so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/status") as file:
        peak = next(line.split()[1] for line in file if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(peak) / 1024

def load(url, agents, nats):
    return [program, "load", url, "--rate", str(5 * agents), "-c", str(agents), "-d", f"{seconds}s", "--agents", str(agents),
            "--nats", nats, "--json", "--no-record"]

async def measured():
    port = free_port()
    nats = f"nats://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start("nats-server", "-js", "-sd", state.name + "/nats", "-a", "127.0.0.1", "-p", str(port), **quiet)
    client, kept = await Nats().connect(port), Kept()
    one = start(program, "agent", "--nats", nats, "--name", "one", "--cores", "1", "--allow-target", "127.0.0.1", **quiet)
    server = start(program, "serve", "http", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE, text=True)
    url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    client.subscribe("plimsoll.run.*.agent.one.*", kept.take)
    card = asyncio.get_event_loop().create_future()
    client.subscribe("_INBOX.who", lambda _, __, body: card.done() or card.set_result(json.loads(body)))
    for _ in range(100):
        client.publish("plimsoll.agents.who", b"", "_INBOX.who")
        await asyncio.wait([card], timeout=0.2)
        if card.done():
            break
    kept.card = await card
    child = await asyncio.create_subprocess_exec(*load(url, 1, nats), "-q", env=environment, stdout=asyncio.subprocess.PIPE, limit=64 << 20)
    document = json.loads((await child.communicate())[0])
    requests = document["totals"]["ok"]
    one.terminate()
    one.wait()
    print(f"one agent: {requests} requests, {len(kept.ticks)} ticks, a recording of {sum(map(len, kept.chunks)) / 1024:.0f} KiB", flush=True)

    crowd = Crowd(client, kept)
    began = time.monotonic_ns()
    child = await asyncio.create_subprocess_exec(
        *load(url, number, nats), env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=1 << 30)
    behind = []

    async def progress():
        while line := (await child.stderr.readline()).decode():
            if (at := re.search(r"(\d+) of \d+ s:", line)) and crowd.began_ns:
                behind.append((time.monotonic_ns() - crowd.began_ns) / 1e9 - int(at[1]))
            elif line.strip():
                print("  " + line.strip(), flush=True)

    said, out = asyncio.ensure_future(progress()), asyncio.ensure_future(child.stdout.read())
    while not crowd.began_ns and child.returncode is None:
        await asyncio.sleep(0.05)
    if child.returncode is not None:
        sys.exit(f"the load over {number} agents ended with status {child.returncode} before it began")
    print(f"from the command to the beginning: {(crowd.began_ns - began) / 1e9:.1f} s", flush=True)
    await asyncio.sleep(max(0, (crowd.began_ns - time.monotonic_ns()) / 1e9 + 2))
    (first, _), at = cpu_and_memory(child.pid), time.monotonic()
    await asyncio.sleep(seconds - 4)
    last, following = cpu_and_memory(child.pid)
    print(f"following {number} agents: {100 * (last - first) / (time.monotonic() - at):.0f} % of a core, {following:.0f} MiB at the most", flush=True)
    peak = following
    while child.returncode is None:
        try:
            total, peak = cpu_and_memory(child.pid)
        except (OSError, StopIteration):
            pass
        await asyncio.sleep(0.05)
    ended = time.monotonic_ns()
    await said
    document = json.loads(await out)
    shown = ", ".join(f"{one:.2f}" for one in behind)
    print(f"behind the ticks, s: {shown}")
    print(f"from the last recording to the result: {(ended - crowd.last_ns) / 1e9:.1f} s; {total:.1f} CPU-s in all, {peak:.0f} MiB at the most")
    print(f"{document['totals']['ok']:,} of {requests * number:,} requests, status {child.returncode}")
    if document["totals"]["ok"] != requests * number:
        sys.exit(f"expected as many requests as the one agent's times {number}")

try:
    asyncio.run(measured())
finally:
    for process in reversed(started):
        process.terminate()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
PYTHON
