//! `cpu-contention`: other processes had the CPU that the target wanted.
//!
//! Evidence: (process) the busiest thread of the target waited for a CPU more than 20 % of what it wanted to run; (kernel)
//! others than the target and the generator used at least a quarter of a core meanwhile, and hardly a core was idle. Refuted
//! where the target's own threads, or the generator beside it, are all that ran: that is no fault of a neighbour. A quota's
//! stops are `cpu-throttled`, which schedstat does not count. Source: sched-stats(5) of the kernel's documentation.

use crate::busy;
use crate::evidence::{Kernel, Process};
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
    let others: f64 = facts.neighbours.iter().map(|neighbour| neighbour.cores).sum();
    let waited = facts.target_threads.iter().filter_map(|thread| Some((thread.run?, thread.wait?)));
    let is_kept = |(run, wait): (f64, f64)| run + wait >= WANTED_MIN && wait > THREAD_WAIT.value * (run + wait);
    !facts.is_target_elsewhere() && others >= NEIGHBOURS.value && waited.into_iter().any(is_kept)
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    if facts.is_target_elsewhere() {
        return Verdict::not_observable(
            "who had the target's CPU",
            "the other processes of the target's machine were not read, only the generator's",
        );
    }
    let wanting = facts.target_threads.iter().filter_map(|thread| Some((thread, thread.run?, thread.wait?)));
    let Some((thread, run, wait)) = wanting.max_by(|a, b| (a.1 + a.2).total_cmp(&(b.1 + b.2))) else {
        return Verdict::not_observable("waits for a CPU", "this kernel keeps no schedstat of the target's threads");
    };
    let wanted = run + wait;
    let share = if wanted > 0.0 { wait / wanted } else { 0.0 };
    let text =
        format!("{} of the target waited for a CPU {} of the time it wanted to run", thread.name, percent(share));
    let process = facts.piece::<Process>(text, "target.thread_wait_share", share, "ratio").from(THREAD_WAIT.value);
    if wanted < WANTED_MIN || share <= THREAD_WAIT.value {
        return Verdict::refuted("the target had the CPU it wanted").because(process.into());
    }
    let others: f64 = facts.neighbours.iter().map(|neighbour| neighbour.cores).sum();
    let who = busy::neighbours(facts);
    let text = match who.is_empty() {
        true => format!("others used {others:.2} cores"),
        false => format!("meanwhile {}", busy::sentence(&who)),
    };
    let kernel = facts.piece::<Kernel>(text, "neighbours.cores", others, "cores").from(NEIGHBOURS.value);
    if others < NEIGHBOURS.value {
        return Verdict::refuted("it waited for its own threads and for the generator beside it")
            .because(process.into())
            .because(kernel.into());
    }
    if share < PINNED && facts.host.is_some_and(|host| host.idle_cores > IDLE_MAX) {
        return Verdict::refuted("cores stood idle").because(process.into());
    }
    let title = format!(
        "others on its machine had the CPU that the target wanted: it waited {} of the time it wanted to run",
        percent(share)
    );
    let verdict = Verdict::proved(Severity::Warning, title, process, kernel);
    let verdict = match (facts.wait_ns_per_request(), in_target_ns(facts)) {
        (Some(wait_ns), Some(in_ns)) if in_ns > 0.0 => {
            // Where one thread serves all, every request that comes while it waits for a CPU waits with it.
            let most = if facts.working().len() == 1 { share } else { (wait_ns / in_ns).min(1.0) };
            verdict.explains(LossKind::Slow, most / 2.0, 0.0, most)
        }
        _ => verdict,
    };
    verdict
        .remedy("End or move the others, or give the target CPUs of its own (cpusets, taskset, CPUAffinity=)")
        .check("top -d 1; cat /proc/PID/task/*/schedstat (second figure: ns waited)")
        .confidence(0.85)
}
