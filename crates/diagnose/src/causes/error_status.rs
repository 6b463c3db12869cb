//! `error-status`: whole, well-framed replies that say failure: which, how many.
//!
//! Evidence: (client) requests failed for what their replies said, and (replies) the counts of the outcomes that say so, as
//! their protocol names them (`model::workload`): statuses no request of the plan accepts, error replies by their first
//! word. Refuted where every reply was a good one (`--expect-status` may accept a 404) and for protocols whose replies have
//! no outcome. An error where more than a hundredth of the requests are concerned: they may be cheaper than what was meant
//! to be measured (see `fast-failures`), so throughput and latency are not the service's.
//!
//! What it says of a server that the target itself asks: (sockets) where replies that say failure come 50 ms and more after their requests, its
//! connections to that server stand unanswered (SYN-SENT), or a reply is due on them, in half of the readings and more, and on half as many as
//! there are requests at a time that will fail; or (kernel) at least nine tenths as many connects failed on this machine as replies say
//! failure, not counting the load's own.

use crate::evidence::{Client, Kernel, Piece, Replies, Sockets};
use crate::facts::{Asked, Facts, duration, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict, past};
use model::finding::{Evidence, LossKind, Severity};
use model::latency::Kind;
use model::units::show_grouped;
use model::workload::{FailureReplies, NamedOutcome};
use std::cmp::Reverse;

const MANY: f64 = 0.01;
/// Statuses named, the most frequent first.
const NAMED_MAX: usize = 5;

/// In so many of the readings, and so many there must be, connections stand unanswered or a reply is due.
const UNANSWERED_MIN: f64 = 0.5;
const READINGS_MIN: usize = 3;
/// Replies that say failure after so long (nanoseconds); and on so many connections, for each of them, the target waited meanwhile.
const LONG_NS: f64 = 50e6;
const WAITED_MIN: f64 = 0.5;
/// For each reply that says failure so many connects failed.
const FAILED_CONNECTS_MIN: f64 = 0.9;
/// Fewer of them may be anybody's.
const FAILED_MIN: f64 = 20.0;

/// See the file's head.
pub const RULE: CauseRule = CauseRule { id: "error-status", needs: Needs::Connections, reads: &[], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let sum = &facts.recording.totals.sum;
    let plan = &facts.recording.plan;
    let protocol = plan.workload.protocol();
    let Some(FailureReplies { kind, none, remedy }) = protocol.failure_replies() else {
        return Verdict::not_applicable("this protocol has no statuses");
    };
    let failed = sum.errors.of(kind);
    let text = format!("{} replies were whole and said failure", show_grouped(failed));
    let client = facts.piece::<Client>(text, &format!("errors.{}", kind.name()), failed as f64, "replies").from(1.0);
    if failed == 0 {
        return Verdict::refuted(none).because(client.into());
    }
    let share = failed as f64 / facts.ended.max(1.0);
    let (severity, title) = if share > MANY {
        (Severity::Error, format!("{} of the replies say failure", percent(share)))
    } else {
        (Severity::Warning, format!("{} replies say failure", show_grouped(failed)))
    };
    let mut named = named(facts).into_iter();
    let said = named.next().map_or_else(
        || facts.piece::<Replies>("each was whole, by its own length", "replies.whole", failed as f64, "replies"),
        Piece::of,
    );
    let backend = Backend::of(facts, failed as f64);
    let (title, remedy) = match &backend {
        Some(backend) => (format!("{title}{}", backend.text), backend.remedy),
        None => (title, remedy),
    };
    let of_failures = failed as f64 / crate::ledger::failures(facts).max(1.0);
    Verdict::proved(severity, title, client, said)
        .because_all(backend.map(|backend| backend.because))
        .because_all(named)
        .explains(LossKind::Failed, of_failures, of_failures * 0.9, of_failures)
        .remedy(remedy)
        .check(protocol.by_hand(plan.origins.first()))
        .confidence(past(share, MANY).max(0.5))
}

/// That the target cannot connect to a server that it asks.
struct Backend {
    text: String,
    because: Evidence,
    remedy: &'static str,
}

impl Backend {
    /// `None`: it can, it asks nobody, or it was not seen.
    fn of(facts: &Facts<'_>, failed: f64) -> Option<Self> {
        let asked = facts.asked(READINGS_MIN).unwrap_or_default();
        // Their time was spent in waiting for it: by Little's law as many stand there at a time as come in the time that each takes, of those that
        // have a connection.
        let took = facts.latency(Kind::Failed);
        let at_a_time = failed / facts.measured_s().max(1e-9) * took.mean() / 1e9;
        let at_a_time = at_a_time.min(f64::from(facts.recording.plan.connections));
        let is_long = !took.is_empty() && took.mean() >= LONG_NS;
        let is_unanswered = |asked: &&Asked<'_>| {
            asked.connecting_share() >= UNANSWERED_MIN && asked.connecting_mean() >= WAITED_MIN * at_a_time
        };
        if let Some(asked) = asked.iter().find(is_unanswered).filter(|_| is_long) {
            let (share, mean) = (asked.connecting_share(), asked.connecting_mean());
            let because = format!(
                "in {} of the readings connections to {} stood unanswered (SYN-SENT), {mean:.1} at a time, with {at_a_time:.1} requests at a \
                 time that failed",
                percent(share),
                asked.remote
            );
            return Some(Self {
                text: format!(": {}, which it asks, does not answer its connects", asked.remote),
                because: facts
                    .piece::<Sockets>(because, "outgoing.connecting_at_a_time", mean, "connections")
                    .from(WAITED_MIN * at_a_time)
                    .into(),
                remedy: "Look at the server that it asks, and the way there: is it alive, is the queue of its listener full (ss -ltn), is there a filter",
            });
        }
        let is_waited_for = |asked: &&Asked<'_>| {
            asked.due_share() >= UNANSWERED_MIN && asked.due_mean() >= WAITED_MIN * at_a_time && !asked.is_unix()
        };
        let slow = asked.iter().find(is_waited_for).filter(|_| is_long);
        if let Some(asked) = slow {
            let because = format!(
                "on {:.1} of its connections to {} a reply was due at a time, with {at_a_time:.1} requests at a time that failed after {}",
                asked.due_mean(),
                asked.remote,
                duration(took.mean())
            );
            return Some(Self {
                text: format!(", after {}: {}, which it asks, does not answer it", duration(took.mean()), asked.remote),
                because: facts
                    .piece::<Sockets>(because, "outgoing.due_at_a_time", asked.due_mean(), "replies")
                    .from(WAITED_MIN * at_a_time)
                    .into(),
                remedy: "Look at the server that it asks: what keeps it from answering in the time that the target gives it",
            });
        }
        let own = facts.recording.totals.sum.counts.connect_failed as f64;
        let connects = facts.grown(Subject::Network, "tcp_attempt_fails")? - own;
        if failed < FAILED_MIN || connects < FAILED_CONNECTS_MIN * failed {
            return None;
        }
        let because = format!(
            "{} connects failed on this machine meanwhile, and none of them is this load's",
            show_grouped(connects as u64)
        );
        Some(Self {
            text: ", and as many of its own connects fail: it does not reach a server that it asks".to_owned(),
            because: facts
                .piece::<Kernel>(because, "tcp_attempt_fails", connects, "connections")
                .from(FAILED_CONNECTS_MIN * failed)
                .into(),
            remedy: "Look at the server that the target asks: is it running, and where the target expects it (its error log says whom it asks)",
        })
    }
}

/// The statuses or words that say failure, the most frequent first.
fn named(facts: &Facts<'_>) -> Vec<Evidence> {
    let recording = facts.recording;
    let mut named = recording.plan.workload.protocol().failures_by_name(&recording.totals.sum.outcomes);
    named.sort_by_key(|outcome| Reverse(outcome.count));
    let evidence = |NamedOutcome { name, metric, count }: &NamedOutcome| {
        facts.evidence(format!("{} × {name}", show_grouped(*count)), metric, *count as f64, "replies")
    };
    named.iter().take(NAMED_MAX).map(evidence).collect()
}
