//! What rules ask of the kernel's counters and probes over the measured time.
//!
//! Counters are asked of the history. What the probes count grows from the start of the observation, so the last sample of a
//! run has all of it; system calls and waits are those of the windows, whose length divides them.

use super::Facts;
use crate::history::{Level, Metric, Subject};
use model::bpf::{BpfSample, CallUse, Log2};
use model::snapshot::{Role, SamplerState, SamplerStatus};

/// Replies in the windows below which nothing is said of one.
const REPLIES_MIN: u64 = 20;

/// Who counts system calls.
const CALLS: &str = "bpf/syscalls";

/// System calls that return when what was written is on the disk (fsync(2), msync(2), sync_file_range(2), syncfs(2)).
pub(crate) const SYNCS_TO_DISK: [&str; 5] = ["fsync", "fdatasync", "msync", "sync_file_range", "syncfs"];

impl Facts<'_> {
    /// By how much a counter grew over the measured time; `None`: it was not read.
    pub fn grown(&self, of: Subject<'_>, name: &str) -> Option<f64> {
        Some(self.history.growth(Metric::new(of, name), self.read_window()?).ok()?.value)
    }

    /// By how much all of the target's processes grew in something.
    pub fn target_grown(&self, name: &str) -> Option<f64> {
        self.grown(Subject::All(Role::Target), name)
    }

    /// The levels of a gauge over the measured time; `None`: it was not read.
    pub fn level(&self, of: Subject<'_>, name: &str) -> Option<Level> {
        Some(self.history.level(Metric::new(of, name), self.read_window()?).ok()?.value)
    }

    /// What the probes had counted at the end; `None`: none ran.
    pub fn probes(&self) -> Option<&BpfSample> {
        self.recording.snapshots.iter().rev().find_map(|snapshot| snapshot.bpf.as_ref())
    }

    /// What a probe counted.
    pub fn counted(&self, name: &str) -> Option<u64> {
        self.probes()?.counts.get(name).copied()
    }

    /// A probe's histogram, where it has so many values.
    pub fn histogram(&self, name: &str, values_min: u64) -> Option<&Log2> {
        self.probes()?.histograms.get(name).filter(|histogram| histogram.count() >= values_min)
    }

    /// A system call of the target in the windows.
    pub fn call(&self, name: &str) -> Option<&CallUse> {
        self.probes()?.calls.iter().find(|call| call.name == name)
    }

    /// Several system calls of the target together: how often, and for how long in nanoseconds.
    pub fn calls(&self, names: &[&str]) -> (u64, f64) {
        let all = names.iter().filter_map(|name| self.call(name));
        all.fold((0, 0.0), |(count, ns), call| (count.saturating_add(call.count), ns + call.ns as f64))
    }

    /// Replies that the target began in the windows in which its calls were counted; `None` where too few, or none were.
    pub fn window_replies(&self) -> Option<f64> {
        let replies = self.probes_of_calls()?.window_replies;
        (replies >= REPLIES_MIN).then_some(replies as f64)
    }

    /// How long system calls were counted, nanoseconds.
    pub fn calls_window_ns(&self) -> Option<f64> {
        Some(self.probes_of_calls()?.calls_window_ns as f64).filter(|ns| *ns > 0.0)
    }

    /// The probes, where those of system calls were among them. The light ones have windows too, in which no call is counted: that none
    /// was seen then does not say that none was made.
    fn probes_of_calls(&self) -> Option<&BpfSample> {
        let was_left_out = |status: &&SamplerStatus| status.name == CALLS && status.status != SamplerState::Active;
        if self.recording.samplers.iter().any(|status| was_left_out(&status)) {
            return None;
        }
        self.probes()
    }

    /// The share of its working threads' time that went by in some system calls, 0..=1.
    pub fn share_in_calls(&self, names: &[&str]) -> Option<f64> {
        let threads = self.working().len().max(1) as f64;
        let (_, ns) = self.calls(names);
        Some((ns / (self.calls_window_ns()? * threads)).min(1.0))
    }

    /// How long the target took from a request's arrival at its socket to its reply on average, nanoseconds, as the kernel saw
    /// it; `None`: it was not read, or too seldom.
    pub fn served_ns(&self) -> Option<f64> {
        self.histogram("sockets.service_ns", REPLIES_MIN)?.mean()
    }

    /// The same, at most what nine of ten took, nanoseconds: where one in a hundred takes long, so is the mean.
    pub fn usually_served_ns(&self) -> Option<f64> {
        let served = self.histogram("sockets.service_ns", REPLIES_MIN)?;
        Some(served.mean()?.min(served.at_most(0.9)? as f64))
    }

    /// CPU time of the target for each request that ended, nanoseconds.
    pub fn cpu_ns_per_request(&self) -> Option<f64> {
        let ended = self.recording.totals.in_time.arrived() as f64;
        (ended > 0.0).then_some(())?;
        Some(self.target_cores? * 1e9 * self.measured_s() / ended)
    }

    /// Time that the target's threads were runnable and without a CPU, for each request that ended, nanoseconds.
    pub fn wait_ns_per_request(&self) -> Option<f64> {
        let ended = self.recording.totals.in_time.arrived() as f64;
        let wait: f64 = self.target_threads.iter().filter_map(|thread| thread.wait).reduce(|a, b| a + b)?;
        (ended > 0.0).then(|| wait * 1e9 * self.measured_s() / ended)
    }

    /// How much of a core the busiest thread of the target wanted: ran, or waited for a CPU.
    pub fn busiest_demand(&self) -> Option<f64> {
        let demand = |thread: &crate::usage::ThreadUse<'_>| Some(thread.run? + thread.wait.unwrap_or(0.0));
        self.target_threads.iter().filter_map(demand).reduce(f64::max)
    }
}
