//! Whether anything else used the machine during a run: the busy time of `/proc/stat` less the CPU
//! time of the generator, the target and this process. Its unit is cores: 0.10 is a tenth of one.
//! `/proc/stat` samples at the timer tick where the others are exact, so a few hundredths, either
//! way, mean nothing. Time stolen by a hypervisor is busy time here: it spoils a run as much.

use std::time::Instant;

use anyhow::{Context as _, Result};

/// Ticks per second of `/proc/stat`: USER_HZ, 100 on every Linux of x86-64 and arm64.
const TICKS_PER_SECOND: f64 = 100.0;

/// A reading before a run.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    started: Instant,
    busy_s: f64,
    own_s: f64,
}

impl Watch {
    /// Reads the counters.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn start() -> Result<Self> {
        Ok(Self { started: Instant::now(), busy_s: busy_seconds()?, own_s: floor::sys::own_cpu_seconds() })
    }

    /// Cores' worth of load since the start that neither `known_cpu_s` nor this process explain.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn other_load(&self, known_cpu_s: f64) -> Result<f64> {
        let wall_s = self.started.elapsed().as_secs_f64();
        let own_s = floor::sys::own_cpu_seconds() - self.own_s;
        let busy_s = busy_seconds()? - self.busy_s;
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

fn busy_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    busy_ticks(&text).map(|ticks| ticks as f64 / TICKS_PER_SECOND).context("/proc/stat has no line of all CPUs")
}

/// All but idle and iowait of the first line; guest time is already in user time. proc_stat(5).
fn busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let counted = [0, 1, 2, 5, 6, 7];
    (fields.len() >= 8).then(|| counted.iter().map(|&index| fields[index]).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_guest_are_not_busy() {
        let text = "cpu  1 20 300 999999 999999 4000 50000 600000 7 7\ncpu0 1 1 1";
        assert_eq!(busy_ticks(text), Some(654_321));
        assert_eq!(busy_ticks("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(busy_ticks("cpu  1 2 3"), None);
    }

    #[test]
    fn this_process_has_used_some_cpu() {
        assert!(cpu_seconds_of(std::process::id()) > 0.0);
        assert_eq!(cpu_seconds_of(u32::MAX), 0.0);
    }
}
