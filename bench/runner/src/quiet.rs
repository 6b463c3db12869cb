//! Whether anything else used the machine during a run, in cores: 0.10 is a tenth of one.
//! `/proc/stat` is read in two ways, each less the CPU time of generator, target and this process,
//! because each errs to one side. Its busy times are sampled at the timer tick: a load that sleeps
//! to a timer hides from that (seen here: 0.3 of a core). Its idle times are measured, but the way
//! into and out of idleness is in neither (seen here: 0.14 of a core at 100,000 sleeps a second).
//! So the second reading counts only beyond an allowance, and the higher of the two is taken.
//! Time stolen by a hypervisor counts as other load: it spoils a run as much.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Ticks per second of `/proc/stat`: USER_HZ, 100 on every Linux of x86-64 and arm64.
const TICKS_PER_SECOND: f64 = 100.0;

/// What going idle may cost, in cores.
const IDLING: f64 = 0.15;

/// How long one look at the machine takes.
const LOOK: Duration = Duration::from_millis(500);

/// A reading before a run.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    started: Instant,
    stat: Stat,
    own_s: f64,
}

impl Watch {
    /// Reads the counters.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn start() -> Result<Self> {
        Ok(Self { started: Instant::now(), stat: stat()?, own_s: floor::sys::own_cpu_seconds() })
    }

    /// Cores' worth of load since the start that neither `known_cpu_s` nor this process explain.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn other_load(&self, known_cpu_s: f64) -> Result<f64> {
        let wall_s = self.started.elapsed().as_secs_f64().max(1e-3);
        let known_s = known_cpu_s + floor::sys::own_cpu_seconds() - self.own_s;
        Ok(other_load(&self.stat, &stat()?, wall_s, known_s))
    }
}

fn other_load(before: &Stat, after: &Stat, wall_s: f64, known_s: f64) -> f64 {
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let sampled_s = seconds(after.busy_ticks.saturating_sub(before.busy_ticks));
    let idle_s = seconds(after.idle_ticks.saturating_sub(before.idle_ticks));
    let measured_s = wall_s * after.cpus as f64 - idle_s;
    let by_samples = (sampled_s - known_s) / wall_s;
    let by_idleness = (measured_s - known_s) / wall_s - IDLING;
    by_samples.max(by_idleness)
}

/// Waits until no more than `other_load_max` cores are busy beyond this process, at most `limit`.
///
/// # Errors
/// `/proc/stat` cannot be read.
pub fn await_quiet(other_load_max: f64, limit: Duration) -> Result<()> {
    let give_up = Instant::now() + limit;
    while Instant::now() < give_up {
        let watch = Watch::start()?;
        std::thread::sleep(LOOK);
        if watch.other_load(0.0)? <= other_load_max {
            break;
        }
    }
    Ok(())
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

/// Time of all CPUs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    cpus: usize,
    busy_ticks: u64,
    idle_ticks: u64,
}

fn stat() -> Result<Stat> {
    let text = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    read(&text).context("/proc/stat has no line of all CPUs")
}

/// The first line, and how many CPUs are in it; guest time is already in user time. proc_stat(5).
fn read(text: &str) -> Option<Stat> {
    let all = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = all.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    let cpus = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    (cpus > 0).then_some(Stat {
        cpus,
        busy_ticks: user + nice + system + irq + softirq + steal,
        idle_ticks: idle + iowait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_time_is_not_counted_twice() {
        let text = "cpu  1 20 300 4000 500 6000 70000 800000 9 9\ncpu0 1\ncpu1 1\nintr 5";
        assert_eq!(read(text), Some(Stat { cpus: 2, busy_ticks: 876_321, idle_ticks: 4500 }));
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7\ncpu0 1", "cpu  1 2 3 4 5 6 7 8\nintr 5"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// Other load on two CPUs over 10 s, of which the processes known used 5 s.
    fn check(busy_ticks: u64, idle_ticks: u64, expected: f64) {
        let before = Stat { cpus: 2, busy_ticks: 77, idle_ticks: 99 };
        let after = Stat { cpus: 2, busy_ticks: 77 + busy_ticks, idle_ticks: 99 + idle_ticks };
        let got = other_load(&before, &after, 10.0, 5.0);
        assert!((got - expected).abs() < 1e-9, "{got} is not {expected}");
    }

    #[test]
    fn each_reading_catches_what_the_other_misses() {
        // Nothing else: the samples say so, and going idle stays inside its allowance.
        check(500, 1400, 0.0);
        // Two more seconds of CPU, seen by both.
        check(700, 1300, 0.2);
        // The samples caught two of the five seconds known and three of another load; the idle time
        // tells that eight were used, and a half more going idle and back.
        check(500, 1150, 0.2);
    }

    #[test]
    fn this_process_has_used_some_cpu() {
        assert!(cpu_seconds_of(std::process::id()) > 0.0);
        assert_eq!(cpu_seconds_of(u32::MAX), 0.0);
    }
}
