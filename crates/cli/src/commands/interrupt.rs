//! Ctrl-C, SIGTERM and a terminal that is closed: the first ends the run and prints it, the second ends the process at once.
//! While the report of a run that has ended is printed, the first does: nobody may read it, and all is recorded. One that
//! comes while the run winds up, with its last second over, still counts as the run's, so that its report is not lost. Two different
//! signals that two threads take at the very same moment may count as one: the next one ends the process.

use crate::exit::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From here on the first signal ends the process at once: the run has ended, and is recorded.
pub fn end_at_once(interrupted: &AtomicBool) {
    interrupted.store(true, Ordering::Relaxed);
}

/// A flag that a signal sets.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicBool::new(false));
    // Who starts us with nohup wants the run to outlive the terminal.
    let hangup = (!is_ignored_here(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // In this order: the second signal finds the flag set. One that comes before both are there is seen all the same.
        flag::register(signal, Arc::clone(&seen))
            .and_then(|_| flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupted)))
            .and_then(|_| flag::register(signal, Arc::clone(&interrupted)))
            .map_err(|error| Failure::could_not_run(format!("expected to handle Ctrl-C, but {error}")))?;
    }
    if seen.load(Ordering::Relaxed) {
        interrupted.store(true, Ordering::Relaxed);
    }
    Ok(interrupted)
}

/// Whether this process ignores a signal: who started it wants that so.
pub fn is_ignored_here(signal: i32) -> bool {
    is_ignored(signal, &std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Whether a process ignores a signal, by its `/proc/<pid>/status` (proc_pid_status(5): `SigIgn`, a mask in hex).
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_in_the_mask() {
        let status = |mask: &str| format!("Name:\tplimsoll\nSigIgn:\t{mask}\nSigCgt:\tffffffffffffffff\n");
        assert!(is_ignored(SIGHUP, &status("0000000000000001")) && !is_ignored(SIGINT, &status("0000000000000001")));
        assert!(is_ignored(SIGINT, &status("0000000000001003")));
        assert!(
            !is_ignored(SIGHUP, &status("0000000000001000"))
                && !is_ignored(SIGHUP, "")
                && !is_ignored(SIGHUP, &status("?"))
        );
    }
}
