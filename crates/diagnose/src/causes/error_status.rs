//! `error-status`: whole, well-framed replies that say failure: which, how many.
//!
//! Evidence: (client) requests failed for what their replies said, and (replies) the counts of the outcomes that say so, as
//! their protocol names them (`model::workload`): statuses no request of the plan accepts, error replies by their first
//! word. Refuted where every reply was a good one (`--expect-status` may accept a 404) and for protocols whose replies have
//! no outcome. An error where more than a hundredth of the requests are concerned: they may be cheaper than what was meant
//! to be measured (see `fast-failures`), so throughput and latency are not the service's.
//! Where they are of a server that the target itself asks, the sentence says so (`failing_backend`).

use super::failing_backend::FailingBackend;
use crate::evidence::{Client, Piece, Replies};
use crate::facts::{Facts, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict, past};
use model::finding::{Evidence, LossKind, Severity};
use model::units::show_grouped;
use model::workload::{FailureReplies, NamedOutcome};
use std::cmp::Reverse;

const MANY: f64 = 0.01;
/// So many of the replies that say failure say the same, to be named with them.
const OF_ONE: f64 = 0.9;
/// Statuses named, the most frequent first.
const NAMED_MAX: usize = 5;

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
    let outcomes = outcomes(facts);
    // Where nearly all say the same, it is said with them, and what to do about that.
    let most = outcomes.first().filter(|most| most.count as f64 >= OF_ONE * failed as f64);
    let title = match most {
        Some(most) => format!("{title} ({}{})", most.name, most.meaning),
        None => title,
    };
    let remedy = most.and_then(|most| most.remedy).unwrap_or(remedy);
    let mut named = named(facts, &outcomes).into_iter();
    let said = named.next().map_or_else(
        || facts.piece::<Replies>("each was whole, by its own length", "replies.whole", failed as f64, "replies"),
        Piece::of,
    );
    let backend = FailingBackend::of(facts, failed as f64);
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

/// The statuses or words that say failure, the most frequent first.
fn outcomes(facts: &Facts<'_>) -> Vec<NamedOutcome> {
    let recording = facts.recording;
    let mut outcomes = recording.plan.workload.protocol().failures_by_name(&recording.totals.sum.outcomes);
    outcomes.sort_by_key(|outcome| Reverse(outcome.count));
    outcomes
}

fn named(facts: &Facts<'_>, outcomes: &[NamedOutcome]) -> Vec<Evidence> {
    let evidence = |NamedOutcome { name, metric, count, .. }: &NamedOutcome| {
        facts.evidence(format!("{} × {name}", show_grouped(*count)), metric, *count as f64, "replies")
    };
    outcomes.iter().take(NAMED_MAX).map(evidence).collect()
}
