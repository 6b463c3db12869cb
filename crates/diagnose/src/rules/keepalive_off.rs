//! `keepalive-off`: the target closes after each reply, so every request pays for a connection.
//!
//! Evidence: connections made for each request ≥ 0.9, and successes, as a close after a good reply is what tells this from
//! connections that break (failures below a tenth). Refuted where we close ourselves (`--disable-keepalive`,
//! `--requests-per-connection 1`, `--handshake-only`), and where connections last. Needs twenty requests.

use crate::facts::{Facts, duration, percent};
use crate::rule::{Needs, Rule, Verdict, past};
use model::finding::Severity;
use model::latency::Kind;
use model::plan::Workload;

const PER_REQUEST: f64 = 0.9;
const FAILED_MAX: f64 = 0.1;
const REQUESTS_MIN: f64 = 20.0;

/// See the file's head.
#[derive(Debug)]
pub struct KeepaliveOff;

impl Rule for KeepaliveOff {
    fn id(&self) -> &'static str {
        "keepalive-off"
    }

    fn needs(&self) -> Needs {
        Needs::Connections
    }

    fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let title = "the target closes the connection after each reply";
        let plan = &facts.recording.plan;
        let is_kept = match &plan.workload {
            Workload::Http1(http) => http.keep_alive,
            Workload::Echo(_) | Workload::Hold(_) | Workload::Resp(_) => true,
        };
        if !is_kept || plan.is_handshake_only() || plan.requests_per_connection == Some(1) {
            return Verdict::refuted("connections were closed by us, as asked");
        }
        if facts.ended < REQUESTS_MIN {
            return Verdict::not_observable(title, format!("{:.0} requests ended, and twenty are needed", facts.ended));
        }
        let counts = &facts.recording.totals.sum.counts;
        let per_request = counts.connected as f64 / facts.ended;
        let failed = counts.failed as f64 / facts.ended;
        let text = format!("{} connections for {:.0} requests", counts.connected, facts.ended);
        let connections = facts.evidence(text, "connections.per_request", per_request, "ratio");
        let text = format!("{} of the requests failed, so it was not failures that ended them", percent(failed));
        let successes = facts.evidence(text, "totals.failed_share", failed, "ratio");
        if per_request < PER_REQUEST {
            return Verdict::refuted("connections lasted").because(connections);
        }
        if failed > FAILED_MAX {
            return Verdict::refuted("connections ended by failures").because(connections);
        }
        let connect = facts.latency(Kind::Connect);
        let cost = (!connect.is_empty()).then(|| {
            let text = format!("making one took {} on average", duration(connect.mean()));
            facts.evidence(text, "connect.mean_us", connect.mean() / 1e3, "us")
        });
        Verdict::supported(Severity::Warning, title)
            .because(connections)
            .because(successes)
            .because_all(cost)
            .remedy("Turn keep-alive on in the target; if its clients really come without it, ask for that (--disable-keepalive)")
            .check("curl -sv -o /dev/null -o /dev/null URL URL 2>&1 | grep -i -e '^< connection' -e re-us")
            .confidence(past(per_request, PER_REQUEST).max(0.8))
    }
}
