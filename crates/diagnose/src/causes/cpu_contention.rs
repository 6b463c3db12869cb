//! `cpu-contention`: other processes had the CPU that the target wanted.
//!
//! Evidence: (process) the busiest thread of the target waited for a CPU more than 20 % of what it wanted to run; (kernel) others
//! than the target and the generator used at least a quarter of a core meanwhile, and hardly a core was idle. Refuted where the
//! target's own threads, servers that it asks, or the generator beside it are all that ran: that is no fault of a neighbour. Nor
//! are a quota's stops (`cpu-throttled`), which some kernels count among the waits (6.18 does). Source: sched-stats(5) of the
//! kernel's documentation.

use super::cpu_throttled;
use crate::busy;
use crate::evidence::{Kernel, Piece, Process};
use crate::facts::{Facts, percent};
use crate::ledger::in_target_ns;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{NEIGHBOURS, THREAD_WAIT};
use model::finding::{LossKind, Severity};

/// A thread that wanted less of the time is not held up by much, whatever share of it.
const WANTED_MIN: f64 = 0.1;
/// More idle cores than this: whoever waited could have had one.
const IDLE_MAX: f64 = 0.5;
/// Who waits so much of the time is not let onto the cores that idle: an affinity or a cpuset keeps it where others are, or
/// they came part-way.
const PINNED: f64 = 0.4;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "cpu-contention",
    needs: Needs::Nothing,
    reads: &[&["process/threads"], &["process/neighbours"]],
    judge,
};

/// Whether others had the CPU that the target wanted, for whoever asks whose doing late replies are.
pub(crate) fn is_contended(facts: &Facts<'_>) -> bool {
    let others: f64 = facts.strangers().map(|neighbour| neighbour.cores).sum();
    let waited = facts.target_threads.iter().filter_map(|thread| Some((thread.run?, thread.wait?)));
    let is_kept = |(run, wait): (f64, f64)| run + wait >= WANTED_MIN && wait > THREAD_WAIT.value * (run + wait);
    !facts.is_target_elsewhere() && others >= NEIGHBOURS.value && waited.into_iter().any(is_kept)
}

/// That the target waited for CPUs that others had.
pub(super) struct Contention {
    /// How much its thread that wanted most waited.
    pub(super) waited: Piece<Process>,
    /// That, of the time it wanted to run, 0..=1.
    share: f64,
    /// Of a request's time in the target, what its threads waited at most, 0..=1; `None`: it was not seen.
    pub(super) of_time: Option<f64>,
    others: Piece<Kernel>,
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    if facts.is_target_elsewhere() {
        return Verdict::not_observable(
            "who had the target's CPU",
            "the other processes of the target's machine were not read, only the generator's",
        );
    }
    let Contention { waited, share, of_time, others } = match contention(facts) {
        Ok(contention) => contention,
        Err(verdict) => return *verdict,
    };
    let title = format!(
        "others on its machine had the CPU that the target wanted: it waited {} of the time it wanted to run",
        percent(share)
    );
    let verdict = Verdict::proved(Severity::Warning, title, waited, others);
    let verdict = match of_time {
        Some(most) => verdict.explains(LossKind::Slow, most / 2.0, 0.0, most),
        None => verdict,
    };
    verdict
        .remedy("End or move the others, or give the target CPUs of its own (cpusets, taskset, CPUAffinity=)")
        .check("cat /proc/PID/task/*/schedstat; top -d 1 # second figure of each: ns waited")
        .confidence(0.85)
}

/// Whether the target waited for CPUs that others had; else the verdict that it did not.
pub(super) fn contention(facts: &Facts<'_>) -> Result<Contention, Box<Verdict<OfTarget>>> {
    let wanting = facts.target_threads.iter().filter_map(|thread| Some((thread, thread.run?, thread.wait?)));
    let Some((thread, run, wait)) = wanting.max_by(|a, b| (a.1 + a.2).total_cmp(&(b.1 + b.2))) else {
        return Err(Box::new(Verdict::not_observable(
            "waits for a CPU",
            "this kernel keeps no schedstat of the target's threads",
        )));
    };
    let wanted = run + wait;
    let share = if wanted > 0.0 { wait / wanted } else { 0.0 };
    let text =
        format!("{} of the target waited for a CPU {} of the time it wanted to run", thread.name, percent(share));
    let waited = facts.piece::<Process>(text, "target.thread_wait_share", share, "ratio").from(THREAD_WAIT.value);
    if wanted < WANTED_MIN || share <= THREAD_WAIT.value {
        return Err(Box::new(Verdict::refuted("the target had the CPU it wanted").because(waited.into())));
    }
    if let Some(stops) = cpu_throttled::stops(facts).filter(|stops| wait - stops.held <= THREAD_WAIT.value * wanted) {
        let why = format!("{}, which is what it waited for", stops.shown());
        return Err(Box::new(Verdict::refuted(why).because(waited.into())));
    }
    let cores: f64 = facts.strangers().map(|neighbour| neighbour.cores).sum();
    let who = busy::neighbours(facts);
    let text = match who.is_empty() {
        true => format!("others used {cores:.2} cores"),
        false => format!("meanwhile {}", busy::sentence(&who)),
    };
    let others = facts.piece::<Kernel>(text, "neighbours.cores", cores, "cores").from(NEIGHBOURS.value);
    let refuted = |why| Box::new(Verdict::refuted(why).because(waited.clone().into()).because(others.clone().into()));
    if cores < NEIGHBOURS.value {
        return Err(refuted("it waited for its own threads, for servers that it asks, or for the generator beside it"));
    }
    if share < PINNED && facts.host.is_some_and(|host| host.idle_cores > IDLE_MAX) {
        return Err(refuted("cores stood idle"));
    }
    let of_time = facts.wait_ns_per_request().zip(in_target_ns(facts)).filter(|(_, in_ns)| *in_ns > 0.0);
    // Where one thread serves all, every request that comes while it waits for a CPU waits with it.
    let serves_alone = facts.working().len() == 1;
    let of_time = of_time.map(|(wait_ns, in_ns)| if serves_alone { share } else { (wait_ns / in_ns).min(1.0) });
    Ok(Contention { waited, share, of_time, others })
}
