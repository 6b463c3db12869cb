//! What a server would carry without its first cause, where the evidence allows that sum: a bound, and never a figure of its own.
//!
//! Of two causes it does: one thread that is full while other cores have nothing to do (`single-thread-bound`), and a quota
//! (`cpu-throttled`). Without them the server could have all CPUs of its machine, those too that others use meanwhile. A request costs
//! so much CPU time of the machine as it did at the highest loads that held: that of the target, and of the generator where it runs on
//! the same machine, as more requests cost that more, too. So it is at most
//!
//! ```text
//! held load × cores of the machine / cores used by them
//! ```
//!
//! and of the steps that held near the line the largest such figure counts. It is a bound because whatever gives next, and every cost
//! of sharing, comes below it: it assumes that a request does not become cheaper than at the line, where batches are as large as they get.
//! Idle cores in the place of all would be nearer the truth beside no neighbour, and no bound beside one that gives way.
//! That CPU time bounds throughput by cost a request is the utilisation law (E. D. Lazowska and others, "Quantitative System
//! Performance", 1984, chapter 3: U = X·D).
//!
//! Not said: of causes whose requests wait (`nagle-delayed-ack`, `pool-exhausted`, `backend-wait`, `lock-contention`), as what they
//! would meet next is not in the evidence and a bound by CPU alone would be many times what is true; of those that cost CPU time a
//! request (`keepalive-off`), as no reading says what the same request costs without; and where the load is a number of
//! connections or users, which throughput is not proportional to. How far it was from the truth on reference servers:
//! docs/decisions/2026-11-24-without-the-first-cause.md.

use super::super::axis::Of;
use super::super::decision::Verdict;
use super::super::live::Ran;
use diagnose::usage::{HostTime, cores_used, processes};
use model::recording::Recording;
use model::snapshot::Role;

/// Causes that leave CPU time unused which the server could use without them.
const OF_UNUSED_CPU: [&str; 2] = ["single-thread-bound", "cpu-throttled"];
/// Held steps count from this share of the highest held load on.
const NEAR: f64 = 0.9;
/// With fewer cores used, their rounding is what would be told.
const USED_MIN: f64 = 0.02;

/// What the CPUs of the target's machine did during a step, cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cores {
    /// The target.
    pub target: f64,
    /// The generator, where it is on the same machine; else none.
    pub generator: f64,
    /// All there are, whoever used them.
    pub all: f64,
}

impl Cores {
    /// Of a step's recording; `None`: it was not read.
    pub fn of(recording: &Recording) -> Option<Self> {
        let totals = &recording.totals;
        let from_ns = i64::try_from(totals.measured_from_ns).ok()?;
        let to_ns = from_ns.saturating_add(i64::try_from(totals.measured_ns).ok()?);
        let is_read = |snapshot: &&model::Snapshot| {
            snapshot.cpu.is_some() && snapshot.processes.iter().any(|process| process.role == Role::Target)
        };
        let mut within =
            recording.snapshots.iter().filter(is_read).filter(|one| (from_ns..=to_ns).contains(&one.at_ns));
        let (first, last) = (within.next()?, within.next_back()?);
        let passed_ns = last.at_ns.saturating_sub(first.at_ns) as f64;
        let host = HostTime::between(first.cpu.as_ref()?, last.cpu.as_ref()?);
        let of_role = |role| {
            let used =
                processes(first, last, role).filter_map(|(a, b)| cores_used(a.cpu_ns()?, b.cpu_ns()?, passed_ns));
            used.sum::<f64>()
        };
        let generator = if last.generator_host.is_none() { of_role(Role::Generator) } else { 0.0 };
        (passed_ns > 0.0).then(|| Cores { target: of_role(Role::Target), generator, all: host.total_ns / passed_ns })
    }

    /// By target and generator.
    pub fn used(&self) -> f64 {
        self.target + self.generator
    }
}

/// A bound on what would be carried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Without {
    /// At most so much, in the load's unit.
    pub at_most: f64,
    /// The step that it is of: what its CPUs did.
    pub cores: Cores,
}

/// What would be carried without a cause; `None`: the evidence does not allow the sum. `held`: the highest load that held.
pub fn without(id: &str, of: Of, held: f64, ran: &[Ran]) -> Option<Without> {
    if of.is_closed() || !OF_UNUSED_CPU.contains(&id) {
        return None;
    }
    let is_near = |one: &&Ran| one.step.verdict == Verdict::Held && (NEAR * held..=held).contains(&one.step.load);
    let bound = |one: &Ran| {
        let cores = one.cores.filter(|cores| cores.used() >= USED_MIN)?;
        Some(Without { at_most: one.step.load * cores.all.max(cores.used()) / cores.used(), cores })
    };
    ran.iter().filter(is_near).filter_map(bound).max_by(|a, b| a.at_most.total_cmp(&b.at_most))
}

#[cfg(test)]
mod tests {
    use super::super::super::search::{Purpose, Step};
    use super::*;

    fn ran(load: f64, verdict: Verdict, cores: Option<Cores>) -> Ran {
        let step = Step {
            asked: load,
            load,
            took_s: 1.0,
            verdict,
            is_growing: false,
            purpose: Purpose::Find,
            blocks: Vec::new(),
        };
        Ran { cores, ..Ran::known(step) }
    }

    #[test]
    fn it_is_the_load_times_the_cores_there_are_over_those_used() {
        let cores = |target, generator| Some(Cores { target, generator, all: 3.75 });
        let steps = [
            // Far below the line a request costs more, as nothing is done together.
            ran(500.0, Verdict::Held, cores(0.9, 0.1)),
            ran(950.0, Verdict::Held, cores(1.0, 0.25)),
            ran(1000.0, Verdict::Held, cores(1.0, 0.25)),
            ran(1100.0, Verdict::Missed, cores(0.1, 0.0)),
        ];
        let found = |id, of| without(id, of, 1000.0, &steps).map(|without| without.at_most);
        assert_eq!(found("single-thread-bound", Of::Rate), Some(3000.0));
        assert_eq!(found("cpu-throttled", Of::Bytes), Some(3000.0));
        assert_eq!(found("single-thread-bound", Of::Users), None);
        assert_eq!(found("nagle-delayed-ack", Of::Rate), None);
        assert_eq!(without("cpu-throttled", Of::Rate, 1000.0, &[ran(1000.0, Verdict::Held, None)]), None);
        let idle = ran(1000.0, Verdict::Held, cores(0.001, 0.0));
        assert_eq!(without("cpu-throttled", Of::Rate, 1000.0, &[idle]), None);
    }
}
