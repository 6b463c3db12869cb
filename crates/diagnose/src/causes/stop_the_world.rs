//! `stop-the-world`: now and then nobody in the target answers, at regular times and for about as long.
//!
//! Evidence: (client) pauses of all requests under way, beginning at regular distances; (process) more than one thread does the
//! target's work, so that one that is busy with a request does not explain it, and none had to wait for a CPU as long. Refuted
//! where pauses are irregular (`event-loop-blocked`), where a quota's periods explain them (`cpu-throttled`), where others
//! had the CPU (`cpu-contention`), and where one worker was held up and the others were not (`event-loop-blocked`). A single thread's pauses are `event-loop-blocked`. Regular: the distances' standard
//! deviation, an eighth left out that fits least, is at most a quarter of their mean; chance has 1.

use super::pauses::{pauses, slow_share};
use crate::evidence::{Client, Process};
use crate::explain::standstill::stopped_again;
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::PERIODIC;
use model::finding::{LossKind, Severity};

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "stop-the-world", needs: Needs::Connections, reads: &[&["process/threads"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(pauses) = pauses(facts) else {
        return Verdict::refuted("there was no pause of all requests that came again");
    };
    if let Some(recycled) = super::deaths::recycled(facts) {
        return recycled.refutes();
    }
    if let Some(stopped) =
        stopped_again(facts).filter(|stopped| stopped.times.saturating_mul(2) >= pauses.all.len() as u64)
    {
        return stopped.refutes(facts);
    }
    let scatter = pauses.scatter.unwrap_or(f64::INFINITY);
    let text = format!(
        "{} pauses of all requests under way, {} long each (median), one every {}",
        pauses.all.len(),
        duration(pauses.median_ns),
        duration(pauses.every_ns)
    );
    let client = facts
        .piece::<Client>(text, "pauses.scatter", scatter.is_finite().then_some(scatter), "ratio")
        .from(PERIODIC.value);
    if scatter > PERIODIC.value {
        return Verdict::refuted("pauses came at no regular times").because(client.into());
    }
    if let Some(held) = super::held_worker::held_worker(facts) {
        return Verdict::refuted("one worker was held up, and the others were not: nobody stopped those")
            .because(client.into())
            .because(held.process.into());
    }
    let working = facts.working().len();
    let wait = facts.target_threads.iter().filter_map(|thread| thread.wait).fold(0.0, f64::max);
    let text = format!(
        "{working} threads do its work, and waited for a CPU at most {} of the time, less than the pauses took ({})",
        percent(wait),
        percent(pauses.share)
    );
    let process = facts.piece::<Process>(text, "target.threads_working", working as f64, "threads").from(2.0);
    if working < 2 || wait > pauses.share {
        return Verdict::refuted("one thread does the work, or it had to wait for a CPU")
            .because(client.into())
            .because(process.into());
    }
    let title =
        format!("every {} nobody in the target answers for {}", duration(pauses.every_ns), duration(pauses.median_ns));
    Verdict::proved(Severity::Error, title, client, process)
        .explains(LossKind::Slow, slow_share(facts), 0.5, 1.0)
        .remedy("Find what stops all threads: a collector, a snapshot's fork, a lock that all take; report --flame off-cpu shows where they wait meanwhile")
        .check("timeout 5 strace -f -T -e trace=futex -p PID # waits of all threads at the same moment")
        .confidence(0.85)
}
