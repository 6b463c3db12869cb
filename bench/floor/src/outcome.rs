//! What a loop has to show, as one line of JSON written by hand: the numbers are all there is.
//! CPU seconds are this process's own, user and system, since it began; the peak of memory is
//! `VmHWM`, because `ru_maxrss` also holds what the parent used before `exec`.

use std::fmt::Write as _;

use crate::sys;

/// The counters of one finished loop.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Whole replies (for `connect`: connections made).
    pub requests: u64,
    /// Connections that broke, and replies that did not fit.
    pub errors: u64,
    /// Wall time of the loop, in seconds, without connecting.
    pub seconds: f64,
    /// 99th percentile of (released − due), in µs: open loops only.
    pub release_error_p99_us: Option<f64>,
    /// Most requests that were due and found no free connection at one time: open loops only.
    pub queue_depth_max: Option<u64>,
}

impl Outcome {
    /// The line that is printed.
    #[must_use]
    pub fn json(&self, tool: &str) -> String {
        let mut line = format!(
            "{{\"tool\":\"{tool}\",\"requests\":{},\"seconds\":{:.6},\"cpu_seconds\":{:.6},\"errors\":{},\"peak_rss_bytes\":{}",
            self.requests,
            self.seconds,
            sys::own_cpu_seconds(),
            self.errors,
            peak_rss_bytes().unwrap_or(0),
        );
        // Writing into a String cannot fail.
        if let Some(error_us) = self.release_error_p99_us {
            let _ = write!(line, ",\"release_error_p99_us\":{error_us:.3}");
        }
        if let Some(queue_depth_max) = self.queue_depth_max {
            let _ = write!(line, ",\"queue_depth_max\":{queue_depth_max}");
        }
        line.push('}');
        line
    }
}

fn peak_rss_bytes() -> Option<u64> {
    peak_rss_in(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// `VmHWM` of a `/proc/PID/status`, in bytes; see proc_pid_status(5). A process that has ended has
/// none.
#[must_use]
pub fn peak_rss_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_every_field_asked_for() {
        let outcome = Outcome { requests: 3, release_error_p99_us: Some(1.5), ..Outcome::default() };
        let line = outcome.json("floor-due");
        assert!(line.starts_with("{\"tool\":\"floor-due\",\"requests\":3,\"seconds\":0.000000,"), "{line}");
        assert!(line.ends_with(",\"release_error_p99_us\":1.500}"), "{line}");
    }

    #[test]
    fn this_process_has_a_peak() {
        assert!(peak_rss_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
