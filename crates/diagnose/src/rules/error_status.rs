//! `error-status`: whole, well-framed replies that say failure: which, how many.
//!
//! Evidence: requests failed for their status, and the counts of the statuses no request of the plan accepts (by default
//! those of 400 and above); of RESP, error replies by their first word. Refuted where every status was an accepted one (`--expect-status` may accept a 404) and for
//! protocols without statuses. An error where more than a hundredth of the requests are concerned: they may
//! be cheaper than what was meant to be measured (see `fast-failures`), so throughput and latency are not the service's.

use crate::facts::{Facts, percent};
use crate::rule::{Needs, Rule, Verdict, past};
use model::ErrorKind;
use model::finding::{Evidence, Severity};
use model::plan::{Address, Workload};
use model::resp::tally;
use std::cmp::Reverse;

const MANY: f64 = 0.01;
/// Statuses named, the most frequent first.
const NAMED_MAX: usize = 5;

const HTTP_REMEDY: &str = "Look at the target's error log; if these replies are meant, accept them (--expect-status)";
const RESP_REMEDY: &str = "Send the command by hand and read the error's text; the target's log may say more";

/// See the file's head.
#[derive(Debug)]
pub struct ErrorStatus;

impl Rule for ErrorStatus {
    fn id(&self) -> &'static str {
        "error-status"
    }

    fn needs(&self) -> Needs {
        Needs::Connections
    }

    fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let sum = &facts.recording.totals.sum;
        let (kind, good, remedy) = match &facts.recording.plan.workload {
            Workload::Http1(_) => (ErrorKind::UnexpectedStatus, "every reply had an accepted status", HTTP_REMEDY),
            Workload::Resp(_) => (ErrorKind::ErrorReply, "no reply was an error", RESP_REMEDY),
            Workload::Echo(_) | Workload::Hold(_) => return Verdict::refuted("this protocol has no statuses"),
        };
        let failed = sum.errors.of(kind);
        let text = format!("{failed} replies were whole and said failure");
        let evidence = facts.evidence(text, &format!("errors.{}", kind.name()), failed as f64, "replies");
        if failed == 0 {
            return Verdict::refuted(good).because(evidence);
        }
        let share = failed as f64 / facts.ended.max(1.0);
        let (severity, title) = if share > MANY {
            (Severity::Error, format!("{} of the replies say failure", percent(share)))
        } else {
            (Severity::Warning, format!("{failed} replies say failure"))
        };
        Verdict::supported(severity, title)
            .because(evidence)
            .because_all(named(facts))
            .remedy(remedy)
            .check(check(facts))
            .confidence(past(share, MANY).max(0.5))
    }
}

/// The statuses or words that say failure, the most frequent first.
fn named(facts: &Facts<'_>) -> Vec<Evidence> {
    let status = &facts.recording.totals.sum.status;
    match &facts.recording.plan.workload {
        Workload::Http1(http) => {
            let mut seen: Vec<(u16, u64)> = status.seen().collect();
            seen.retain(|(status, _)| !http.requests.iter().all(|r| r.expect.accepts(*status)));
            seen.sort_by_key(|(_, count)| Reverse(*count));
            seen.iter().take(NAMED_MAX).map(|(status, count)| status_evidence(facts, *status, *count)).collect()
        }
        Workload::Resp(resp) => {
            let (_, mut words) = tally(status, resp.commands.len());
            words.sort_by_key(|(_, count)| Reverse(*count));
            let evidence = |(word, count): &(&str, u64)| {
                facts.evidence(format!("{count} × -{word}"), &format!("error_replies.{word}"), *count as f64, "replies")
            };
            words.iter().take(NAMED_MAX).map(evidence).collect()
        }
        Workload::Echo(_) | Workload::Hold(_) => Vec::new(),
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
        Workload::Resp(resp) => {
            let command = resp.commands.first().map_or(String::new(), |c| c.words.join(" "));
            let key = format!("{}{:012}", resp.key_prefix, 0);
            let address = facts.recording.plan.origins.first().and_then(|o| o.addresses.first());
            let to = match address {
                Some(Address::Tcp(at)) => format!("-h {} -p {}", at.ip(), at.port()),
                Some(Address::Unix(path)) => format!("-s {}", path.display()),
                None => String::new(),
            };
            format!("redis-cli {to} {}", command.replace("{key}", &key).replace("{value}", "x"))
        }
        Workload::Echo(_) | Workload::Hold(_) => String::new(),
    }
}
