#!/usr/bin/env python3
"""What plimsoll's observing does to requests of others, within one load: runs after one another differ by more than one wants to tell apart.

nginx on CPU 0 is kept busy by the bare loop on CPU 1, which notes when each reply came and how long it took. Beside it plimsoll, on CPU 1
too, as a generator's own observer would be, puts one request a second on the same server and observes it.

Without --turns all seconds of its run are laid over one another: what it does at each of them shows as a phase in which more requests than
elsewhere were slow. With --turns it is stopped (SIGSTOP) for some seconds and let on for as many, by a coin for each pair: medians of the
pairs' ratios, on over off, and their 95 % interval by ranks. The first second of each turn does not count: a reading that was due
while it was stopped is made then. Programs in the kernel that a level keeps attached stay so; windows, which it opens for less than a
second after a reading, are in the turns in which it is on.

  make release && cargo build --release -p plimsoll-bench-floor
  bench/phases.py [--seconds 26] [--rounds 1] [--turns] [--connections 64] [--observe light] [--program target/release/plimsoll]...

A row a phase: replies a millisecond, mean and p99 of their latency, how many took longer than 99 % of those of the whole run, and how many
twice as long as half of them.
"""

import argparse, array, bisect, os, pathlib, random, signal, sqlite3, statistics, subprocess, tempfile, time

import slices

# Phases, milliseconds: fine where a second begins, as readings are made then.
EDGES_MS = [*range(0, 60, 5), 60, 90, 120, 240, 360, 480, 600, 720, 840, 1000]
STAMPS_MAX = 50_000_000
# Seconds of a turn, of which the first does not count.
TURN_S = 3


def quantile(ordered, q):
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


class Run:
    """One of the bare loop beside one of plimsoll, which begins before it and lasts longer."""

    def __init__(self, program, options, target, port, folder):
        folder = tempfile.mkdtemp(dir=folder)
        record, stamps = f"{folder}/run.db", f"{folder}/stamps"
        observing = ["taskset", "-c", "1", program, "load", f"http://127.0.0.1:{port}/", "-c", "1", "--rate", "1"]
        observing += ["-d", f"{options.seconds + 3}s", "--threads", "1", "--observe", options.observe, "--record", record, "-q"]
        watcher = subprocess.Popen(observing, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        began = self.wait_for(record)
        self.began_ns = began - (time.time_ns() - time.monotonic_ns())
        loop = ["taskset", "-c", "1", slices.RELEASE / "floor", "epoll", "--addr", f"127.0.0.1:{port}", "--seconds", str(options.seconds)]
        loop += ["--connections", str(options.connections), "--stamps", stamps, "--stamps-max", str(STAMPS_MAX)]
        busy = subprocess.Popen(loop, stdout=subprocess.DEVNULL)
        self.turns = self.take_turns(watcher, target, options.seconds) if options.turns else []
        failed = busy.wait()
        watcher.wait()
        if failed:
            raise RuntimeError(f"the bare loop ended with status {failed}")
        # Millions: by column.
        self.at_ns, self.took_ns = array.array("q"), array.array("q")
        with open(stamps) as lines:
            for at, took in map(str.split, lines):
                self.at_ns.append(int(at))
                self.took_ns.append(int(took))

    @staticmethod
    def wait_for(record):
        """When the run began, by the wall clock, as its recording has it."""
        for _ in range(50):
            try:
                return sqlite3.connect(f"file:{record}?mode=ro", uri=True).execute("select started_at_unix_ns from run").fetchone()[0]
            except (sqlite3.OperationalError, TypeError):
                time.sleep(0.1)
        raise SystemExit("phases: plimsoll has written no recording within 6 s")

    def take_turns(self, watcher, target, seconds):
        """Stops it and lets it on, half a second after its readings: (is it on, from ns, to ns, CPU ns of the target)."""
        turns, end_ns = [], time.monotonic_ns() + int((seconds - 0.5) * 1e9)
        next_ns = time.monotonic_ns() + 1_000_000_000
        next_ns += (self.began_ns + 500_000_000 - next_ns) % 1_000_000_000
        while next_ns + 2 * TURN_S * 1_000_000_000 < end_ns:
            for is_on in random.sample([True, False], 2):
                time.sleep(max(0, next_ns - time.monotonic_ns()) / 1e9)
                watcher.send_signal(signal.SIGCONT if is_on else signal.SIGSTOP)
                time.sleep(max(0, next_ns + 1_000_000_000 - time.monotonic_ns()) / 1e9)
                from_ns, cpu_ns = time.monotonic_ns(), cpu_of(target)
                next_ns += TURN_S * 1_000_000_000
                time.sleep(max(0, next_ns - time.monotonic_ns() - 5_000_000) / 1e9)
                turns.append((is_on, from_ns, time.monotonic_ns(), cpu_of(target) - cpu_ns))
        watcher.send_signal(signal.SIGCONT)
        return turns

    def phases(self):
        """Latencies (ns) by phase."""
        found = [[] for _ in EDGES_MS[1:]]
        for at, took in zip(self.at_ns, self.took_ns):
            # By when it was sent: what delayed it came after that.
            phase_ms = (at - took - self.began_ns) % 1_000_000_000 // 1_000_000
            found[bisect.bisect_right(EDGES_MS, phase_ms) - 1].append(took)
        return found

    def ratios(self):
        """On over off, by pair: CPU time of the target a request, and latencies."""
        figures = []
        for is_on, from_ns, to_ns, cpu_ns in self.turns:
            times = sorted(self.took_ns[bisect.bisect(self.at_ns, from_ns) : bisect.bisect(self.at_ns, to_ns)])
            if times:
                figures.append((is_on, [cpu_ns / len(times), *(quantile(times, q) for q in (0.5, 0.9, 0.99, 0.999))]))
        for first, second in zip(figures[::2], figures[1::2]):
            (_, on), (_, off) = (first, second) if first[0] else (second, first)
            yield [a / b for a, b in zip(on, off)]


def cpu_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def show_phases(name, phases, seconds):
    every = sorted(took for phase in phases for took in phase)
    limit = quantile(every, 0.99)
    p50, p999 = quantile(every, 0.5), quantile(every, 0.999)
    twice = lambda times: sum(took > 2 * p50 for took in times) / len(times)
    print(f"{name}: {len(every):,} replies, p50 {p50 / 1e3:.0f}, p99 {limit / 1e3:.0f}, p99.9 {p999 / 1e3:.0f} µs, {twice(every):.3%} above twice p50")
    print("      phase  a ms of it  mean µs   p99 µs  above p99  above 2 x p50")
    for (low, high), phase in zip(zip(EDGES_MS, EDGES_MS[1:]), phases):
        if phase:
            phase.sort()
            above = sum(took > limit for took in phase) / len(phase)
            a_ms = len(phase) / (high - low) / seconds
            print(f"{low:5}-{high:4} ms {a_ms:10.0f} {sum(phase) / len(phase) / 1e3:8.0f} {quantile(phase, 0.99) / 1e3:8.0f} {above:10.2%} {twice(phase):14.2%}")


def show_ratios(name, ratios):
    print(f"{name}: on over off, {len(ratios)} pairs of turns")
    for what, of in zip(["CPU a request", "p50", "p90", "p99", "p99.9"], zip(*ratios)):
        low, high = slices.interval(list(of))
        print(f"  {what:14} {statistics.median(of):.3f} [{low:.3f}, {high:.3f}]", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=26)
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--turns", action="store_true")
    arguments.add_argument("--connections", type=int, default=64)
    arguments.add_argument("--observe", default="light")
    arguments.add_argument("--program", action="append")
    options = arguments.parse_args()
    programs = options.program or [str(slices.RELEASE / "plimsoll")]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        target, port = slices.start_target("nginx", folder)
        try:
            phases = {program: [[] for _ in EDGES_MS[1:]] for program in programs}
            ratios = {program: [] for program in programs}
            for _ in range(options.rounds):
                for program in programs:
                    try:
                        run = Run(program, options, target.pid, port, folder)
                    except RuntimeError as error:
                        print(f"phases: a run is left out: {error}", flush=True)
                        continue
                    ratios[program].extend(run.ratios())
                    for kept, more in zip(phases[program], run.phases() if not options.turns else []):
                        kept.extend(more)
            for program in programs:
                if options.turns:
                    show_ratios(os.path.basename(program), ratios[program])
                else:
                    show_phases(os.path.basename(program), phases[program], options.seconds * options.rounds)
        finally:
            target.terminate()
            target.wait()


if __name__ == "__main__":
    main()
