//! `error-status`: whole, well-framed replies that say failure: which, how many.
//!
//! Evidence: requests failed for their status, and the counts of the statuses no request of the plan accepts (by default
//! those of 400 and above). Refuted where every status was an accepted one (`--expect-status` may accept a 404) and for
//! protocols without statuses. An error where more than a hundredth of the requests are concerned: they may
//! be cheaper than what was meant to be measured (see `fast-failures`), so throughput and latency are not the service's.

use crate::facts::{Facts, percent};
use crate::rule::{Rule, Verdict, past};
use model::ErrorKind;
use model::finding::{Evidence, Severity};
use model::plan::Workload;

const MANY: f64 = 0.01;
/// Statuses named, the most frequent first.
const NAMED_MAX: usize = 5;

/// See the file's head.
#[derive(Debug)]
pub struct ErrorStatus;

impl Rule for ErrorStatus {
    fn id(&self) -> &'static str {
        "error-status"
    }

    fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let Workload::Http1(http) = &facts.recording.plan.workload else {
            return Verdict::refuted("this protocol has no statuses");
        };
        let sum = &facts.recording.totals.sum;
        let failed = sum.errors.of(ErrorKind::UnexpectedStatus);
        let text = format!("{failed} replies were whole and said failure");
        let evidence = facts.evidence(text, "errors.unexpected-status", failed as f64, "replies");
        if failed == 0 {
            return Verdict::refuted("every reply had an accepted status").because(evidence);
        }
        let mut seen: Vec<(u16, u64)> = sum.status.seen().collect();
        seen.retain(|(status, _)| !http.requests.iter().all(|r| r.expect.accepts(*status)));
        seen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let share = failed as f64 / facts.ended.max(1.0);
        let (severity, title) = if share > MANY {
            (Severity::Error, format!("{} of the replies say failure", percent(share)))
        } else {
            (Severity::Warning, format!("{failed} replies say failure"))
        };
        Verdict::supported(severity, title)
            .because(evidence)
            .because_all(seen.iter().take(NAMED_MAX).map(|(status, count)| status_evidence(facts, *status, *count)))
            .remedy("Look at the target's error log; if these replies are meant, accept them (--expect-status)")
            .check(check(facts))
            .confidence(past(share, MANY).max(0.5))
    }
}

fn status_evidence(facts: &Facts<'_>, status: u16, count: u64) -> Evidence {
    let name = if status == 0 { "outside 100 to 599".to_owned() } else { status.to_string() };
    facts.evidence(format!("{count} × status {name}"), &format!("status.{status}"), count as f64, "replies")
}

fn check(facts: &Facts<'_>) -> String {
    let origin = facts.recording.plan.origins.first().map_or("URL", |o| o.name.as_str());
    match &facts.recording.plan.workload {
        Workload::Http1(http) => {
            let target = http.requests.first().map_or("/", |r| r.target.as_str());
            format!("curl -sv -o /dev/null '{origin}{target}'")
        }
        Workload::Echo(_) | Workload::Hold(_) => String::new(),
    }
}
