//! `fast-failures`: failing is quicker than serving, so a mean over both improves while the target gets worse.
//!
//! Evidence: (client) a twentieth of the requests failed and more, and half of the failures took less than half of what half of the
//! successes took; (replies) those that were kept said failure, or nothing at all. For information: it is a trap in reading
//! figures, and what fails has a name of its own.
//! Refuted where failures take as long, as timeouts do. Source: the name service of the catalogue, whose response time fell when
//! it was crashed.

use crate::evidence::{Client, Replies};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{FAST_FAILURE_TIMES, FAST_FAILURES};
use model::finding::Severity;
use model::latency::Kind;
use model::request::{Request, RequestEnd};

const SEEN_MIN: usize = 5;

/// See the file's head.
pub const RULE: CauseRule = CauseRule { id: "fast-failures", needs: Needs::Connections, reads: &[], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let (good, failed) = (facts.latency(Kind::Response), facts.latency(Kind::Failed));
    if failed.is_empty() || good.is_empty() {
        return Verdict::not_applicable("no request failed, or none succeeded");
    }
    let share = crate::ledger::failures(facts) / facts.ended.max(1.0);
    let (good_ns, failed_ns) = (good.value_at_quantile(0.5) as f64, failed.value_at_quantile(0.5) as f64);
    let text = format!(
        "{} of the requests failed, half of them within {}, where half of the good ones took {} and more",
        percent(share),
        duration(failed_ns),
        duration(good_ns)
    );
    let client = facts.piece::<Client>(text, "failed.share", share, "ratio").from(FAST_FAILURES.value);
    if share < FAST_FAILURES.value {
        return Verdict::refuted("hardly a request failed").because(client.into());
    }
    if failed_ns * FAST_FAILURE_TIMES.value > good_ns {
        return Verdict::refuted("failures take as long as good replies, or longer").because(client.into());
    }
    let examples: Vec<&Request> =
        facts.recording.requests.failed().filter(|r| matches!(r.end, RequestEnd::Failed(_))).collect();
    if examples.len() < SEEN_MIN {
        return Verdict::not_observable("how requests failed", "fewer than five failures were kept as examples")
            .because(client.into());
    }
    let silent = examples.iter().filter(|request| request.received_bytes == 0).count();
    let text = match silent * 2 > examples.len() {
        true => format!("of {} failures that were kept, {silent} brought not a byte", examples.len()),
        false => format!("of {} failures that were kept, {} brought a reply", examples.len(), examples.len() - silent),
    };
    let replies = facts.piece::<Replies>(text, "failed.silent", silent as f64, "requests");
    let title = format!(
        "failing is quicker than serving ({} against {}): a mean over both would improve with every failure",
        duration(failed_ns),
        duration(good_ns)
    );
    Verdict::proved(Severity::Info, title, client, replies)
        .remedy("Judge by the share that failed and by the successes' times, never by all replies' mean; have clients wait before they ask again")
        .check("plimsoll report last --json | jq '.latency.response, .latency.failed'")
        .confidence(0.9)
}
