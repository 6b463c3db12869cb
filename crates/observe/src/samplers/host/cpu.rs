//! CPU time of the machine and of each core, interrupts, context switches and new processes, from `/proc/stat`.
//! Resolution is the clock tick (usually 10 ms); guest time is in user time. Not limited to a container's share.
//! Cost: one read a tick, which the kernel makes in time linear in the cores. Needs no privilege.

use crate::metric::{Metric, counter, fill, gauge};
use crate::samplers::{EACH, Entry, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, number, number_after, words};
use crate::source::stat::ticks_ns;
use model::Snapshot;
use model::snapshot::CpuTimes;

const METRICS: &[Metric] = &[
    counter("cores[].user_ns", "ns", "cpuN, user + nice", "user CPU time of a core; also of all, as cpu.user_ns")
        .otel("system.cpu.time"),
    counter("cores[].system_ns", "ns", "cpuN, system", "system CPU time").otel("system.cpu.time"),
    counter("cores[].idle_ns", "ns", "cpuN, idle", "idle").otel("system.cpu.time"),
    counter("cores[].iowait_ns", "ns", "cpuN, iowait", "idle with I/O outstanding").otel("system.cpu.time"),
    counter("cores[].irq_ns", "ns", "cpuN, irq", "hard interrupts").otel("system.cpu.time"),
    counter("cores[].softirq_ns", "ns", "cpuN, softirq", "soft interrupts, the network's among them")
        .otel("system.cpu.time"),
    counter("cores[].steal_ns", "ns", "cpuN, steal", "taken by the hypervisor").otel("system.cpu.time"),
    counter("interrupts", "interrupts", "intr ", "hard interrupts served"),
    counter("context_switches", "switches", "ctxt ", "of all cores"),
    counter("forks", "processes", "processes ", "processes and threads begun").otel("system.process.created"),
    gauge("runnable", "threads", "procs_running ", "threads that run or could"),
    gauge("blocked", "threads", "procs_blocked ", "threads that wait for I/O"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/cpu",
    about: "CPU time of the machine and of each core (/proc/stat)",
    needs: "nothing",
    cost: "1 read a tick",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(Cpu::new()),
};

#[derive(Debug)]
struct Cpu {
    stat: HotFile,
}

impl Cpu {
    fn new() -> Self {
        Cpu { stat: HotFile::new("/proc/stat") }
    }
}

impl Sampler for Cpu {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let path = self.stat.path();
        let stat = buffers.read_hot(&mut self.stat)?;
        let (all, cores) = parse(stat);
        fill(METRICS, &mut snapshot.host, |key| number_after(stat, key.as_bytes()));
        snapshot.cores = cores;
        snapshot.cpu = Some(all.ok_or_else(|| SampleError::lacks(path, "its line 'cpu'"))?);
        Ok(())
    }
}

/// The machine's times, and each core's that is on line, in order.
fn parse(stat: &[u8]) -> (Option<CpuTimes>, Vec<CpuTimes>) {
    let (mut all, mut cores) = (None, Vec::new());
    for line in lines(stat) {
        let Some(rest) = line.strip_prefix(b"cpu") else { break };
        match rest.first() {
            Some(b' ') => all = times(rest),
            Some(b'0'..=b'9') => cores.extend(times(&rest[rest.iter().position(|b| *b == b' ').unwrap_or(0)..])),
            _ => {}
        }
    }
    (all, cores)
}

/// `user nice system idle iowait irq softirq steal …`, clock ticks; kernels before 2.6.11 have fewer, read as zero.
fn times(fields: &[u8]) -> Option<CpuTimes> {
    let mut ticks = [0u64; 8];
    let mut count = 0;
    for (into, word) in ticks.iter_mut().zip(words(fields)) {
        *into = ticks_ns(number(word)?);
        count += 1;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    (count >= 4).then_some(CpuTimes {
        user_ns: user.saturating_add(nice),
        system_ns: system,
        idle_ns: idle,
        iowait_ns: iowait,
        irq_ns: irq,
        softirq_ns: softirq,
        steal_ns: steal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_goes_to_its_place() {
        let (all, cores) = parse(b"cpu  10 1 20 30 40 50 60 70 8 9\ncpu0 4 0 0 0 0 0 0 0 0 0\ncpu11 6 0 0 5 0 0 0 0 0 0\nintr 9 9\ncpu 7 7 7 7\n");
        let s = ticks_ns(1);
        assert_eq!(
            all,
            Some(CpuTimes {
                user_ns: 11 * s,
                system_ns: 20 * s,
                idle_ns: 30 * s,
                iowait_ns: 40 * s,
                irq_ns: 50 * s,
                softirq_ns: 60 * s,
                steal_ns: 70 * s
            })
        );
        assert_eq!(cores.iter().map(|c| (c.user_ns / s, c.idle_ns / s)).collect::<Vec<_>>(), [(4, 0), (6, 5)]);
    }

    #[test]
    fn garbage_is_nothing() {
        for text in ["", "cpu", "cpu ", "cpu  1 2 x 4", "cpu 1 2 3", "cpuX 1 2 3 4", "\0\0"] {
            assert_eq!(parse(text.as_bytes()), (None, Vec::new()), "{text}");
        }
    }
}
