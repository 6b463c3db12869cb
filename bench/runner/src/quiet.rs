//! Whether anything else used the machine during a run: the time its CPUs were not idle, less the
//! CPU time of the generator, the target and this process. Its unit is cores: 0.10 is a tenth of
//! one. Read from the idle time of `/proc/stat`, which the kernel measures; the busy times beside
//! it are sampled at the timer tick, and a load that sleeps to a timer hides from that (seen here:
//! a third of its cost). Interrupts taken while idle count as other load: about 0.02 of a core.
//! Time stolen by a hypervisor does too: it spoils a run as much.

use std::time::Instant;

use anyhow::{Context as _, Result};

/// Ticks per second of `/proc/stat`: USER_HZ, 100 on every Linux of x86-64 and arm64.
const TICKS_PER_SECOND: f64 = 100.0;

/// A reading before a run.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    started: Instant,
    idle_s: f64,
    own_s: f64,
}

impl Watch {
    /// Reads the counters.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn start() -> Result<Self> {
        Ok(Self { started: Instant::now(), idle_s: idle()?.seconds, own_s: floor::sys::own_cpu_seconds() })
    }

    /// Cores' worth of load since the start that neither `known_cpu_s` nor this process explain.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn other_load(&self, known_cpu_s: f64) -> Result<f64> {
        let wall_s = self.started.elapsed().as_secs_f64();
        let own_s = floor::sys::own_cpu_seconds() - self.own_s;
        let idle = idle()?;
        let busy_s = wall_s * idle.cpus as f64 - (idle.seconds - self.idle_s);
        Ok((busy_s - own_s - known_cpu_s) / wall_s.max(1e-3))
    }
}

/// CPU seconds of a process, all its living threads together, from `schedstat` (exact, in ns).
/// A process that is gone has none.
pub fn cpu_seconds_of(pid: u32) -> f64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0.0;
    };
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e9
}

/// Idle time of all CPUs together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Idle {
    cpus: usize,
    seconds: f64,
}

fn idle() -> Result<Idle> {
    let text = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    read_idle(&text).context("/proc/stat has no idle time of all CPUs")
}

/// Idle and iowait of the first line, and how many CPUs are in it; see proc_stat(5).
fn read_idle(text: &str) -> Option<Idle> {
    let all = text.lines().next()?.strip_prefix("cpu ")?;
    let mut fields = all.split_whitespace().skip(3);
    let idle: u64 = fields.next()?.parse().ok()?;
    let iowait: u64 = fields.next()?.parse().ok()?;
    let lines = text.lines().skip(1);
    let cpus = lines.take_while(|line| line.starts_with("cpu")).count();
    (cpus > 0).then(|| Idle { cpus, seconds: (idle + iowait) as f64 / TICKS_PER_SECOND })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_iowait_are_idle() {
        let text = "cpu  1 20 300 4000 500 6 7 8 9 9\ncpu0 1\ncpu1 1\nintr 5";
        let expected = Idle { cpus: 2, seconds: 45.0 };
        assert_eq!(read_idle(text), Some(expected));
        assert_eq!(read_idle("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(read_idle("cpu  1 2 3 4\ncpu0 1"), None);
        assert_eq!(read_idle("cpu  1 2 3 4 5\nintr 5"), None);
    }

    #[test]
    fn this_process_has_used_some_cpu() {
        assert!(cpu_seconds_of(std::process::id()) > 0.0);
        assert_eq!(cpu_seconds_of(u32::MAX), 0.0);
    }
}
