//! `process-restart`: another process serves the target's address than at the start of the load.
//!
//! Evidence: (process) a new process holds the address; or (kernel) processes of the target ended in order, with code 0, within a
//! short part of the load, and requests succeeded after it, as in a reload, where the one that listens stays. And (client) connections
//! lost at about that moment; or (client) again and again nobody was answered while one ended, as where a worker may answer so many requests and
//! no more. Refuted where neither was; where nothing was lost by it, it is a restart in order. By itself it says what
//! happened and not why: `process-crash` and its like do.

use super::deaths::{self, Recycled, Replaced};
use super::pauses::excess_within;
use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Facts, duration};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::finding::{LossKind, Severity};

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "process-restart", needs: Needs::Load, reads: &[&["process/target"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    if let Some(recycled) = deaths::recycled(facts) {
        return renewed(facts, &recycled);
    }
    let Some(event) = deaths::in_load(facts).find(|event| event.kind == "target-restarted") else {
        return deaths::replaced(facts).map_or_else(
            || {
                Verdict::refuted(
                    "no other process took the target's address, and none ended in order with something lost by it",
                )
            },
            |replaced| reloaded(facts, replaced),
        );
    };
    let gone_ns = deaths::gone(facts).or_else(|| deaths::told(facts)).map_or(event.at_ns, |gone| gone.at_ns);
    let Some((lost, _)) = deaths::lost_from(facts, gone_ns) else {
        return Verdict::refuted("another process took the target's address, and the load lost nothing by it");
    };
    let at_s = event.at_ns as f64 / 1e9;
    let text = format!("at second {at_s:.1} {}", event.text);
    let process = facts.piece::<Process>(text, "target.restarted_s", at_s, "s");
    let title = format!("the target was started anew: since second {at_s:.1} another process serves");
    Verdict::proved(Severity::Warning, title, process, lost)
        .remedy("Find out why the first one ended; a second process that listens meanwhile (SO_REUSEPORT) would carry the load over")
        .check("systemctl status SERVICE; ps -o lstart,pid,cmd -C NAME")
        .confidence(0.95)
}

/// Processes that ended in order, and others that serve since.
fn reloaded(facts: &Facts<'_>, Replaced { ends, lost, share }: Replaced<'_>) -> Verdict<OfTarget> {
    let (first_ns, at_s) = (ends[0].at_ns, ends[0].at_ns as f64 / 1e9);
    let who = ends[0].details.process.as_deref().unwrap_or("of the target");
    let ended = match ends.len() {
        1 => format!("a process of the target ({who}) ended in order at second {at_s:.1}, and others serve since"),
        n => format!(
            "{n} processes of the target ({who}) ended in order from second {at_s:.1} on, and others serve since"
        ),
    };
    let asked = deaths::asked_for(facts, first_ns);
    let why = asked.map_or(String::new(), |event| format!(": {}", event.text));
    Verdict::proved(Severity::Warning, format!("{ended}, as in a reload{why}"), deaths::kernel(facts, ends[0]), lost)
        .explains(LossKind::Failed, share, share * 0.9, share)
        .remedy("Nothing broke. What is under way on a connection that an ending process closes is lost: give it longer to answer what it has, or let clients send that again")
        .check("plimsoll report last --timeline")
        .confidence(0.9)
}

/// Workers that are replaced again and again.
fn renewed(facts: &Facts<'_>, Recycled { ends, spans }: &Recycled<'_>) -> Verdict<OfTarget> {
    let who = ends[0].details.process.as_deref().unwrap_or("of the target");
    let longest_ns = spans.iter().map(|(from_ns, to_ns)| to_ns - from_ns).max().unwrap_or(0);
    let total_ns: u64 = spans.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    let text = format!("{} processes of the target ({who}) ended with code 0 during the load", ends.len());
    let kernel = facts.piece::<Kernel>(text, "lifecycle.ends", ends.len() as f64, "processes");
    let text = format!(
        "nobody was answered {} times while one ended, for up to {}, {} in all",
        spans.len(),
        duration(longest_ns as f64),
        duration(total_ns as f64)
    );
    let client = facts
        .piece::<Client>(text, "pauses.with_an_end", spans.len() as f64, "pauses")
        .from(Recycled::PAUSES_MIN as f64);
    let share = excess_within(facts, spans);
    let title = format!(
        "workers of the target ({who}) end and are replaced again and again, and nobody is answered until others are ready, for up to {}",
        duration(longest_ns as f64)
    );
    Verdict::proved(Severity::Error, title, kernel, client)
        .explains(LossKind::Slow, share, share * 0.7, 1.0)
        .remedy("Let a worker answer more requests before it is replaced (gunicorn --max-requests, uwsgi max-requests, php-fpm pm.max_requests), not all at once (--max-requests-jitter), and load what takes long before workers are made (gunicorn --preload)")
        .check("watch -n 1 ps -o pid,etime,cmd -C NAME # workers that are seconds old")
        .confidence(0.9)
}
