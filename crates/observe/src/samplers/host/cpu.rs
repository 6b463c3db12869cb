//! CPU time of the machine and of each core, from `/proc/stat`.
//! Resolution is the clock tick (usually 10 ms); guest time is in user time. Not limited to a container's share.
//! Cost: one read a tick, which the kernel makes in time linear in the cores. Needs no privilege.

use crate::samplers::{Entry, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, number, words};
use crate::source::stat::ticks_ns;
use model::Snapshot;
use model::snapshot::CpuTimes;

pub(crate) const ENTRY: Entry = Entry {
    name: "host/cpu",
    about: "CPU time of the machine and of each core (/proc/stat)",
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
        let (all, cores) = parse(buffers.read_hot(&mut self.stat)?);
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
