//! `keepalive-off`: the target closes after each reply, so every request pays for a connection.
//!
//! Evidence: connections made, and as many closed, for each request ≥ 0.9 (as many made alone may be a first request on each
//! of many that are still there), and successes, as a close after a good reply is what tells this from
//! connections that break (failures below a tenth). Refuted where we close ourselves (`--disable-keepalive`,
//! `--requests-per-connection 1`, `--handshake-only`), and where connections last. Needs twenty requests.

use crate::facts::{Facts, duration, percent};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::finding::{About, Severity};
use model::latency::Kind;
use model::units::{show_figure, show_grouped};

const PER_REQUEST: f64 = 0.9;
const FAILED_MAX: f64 = 0.1;
const REQUESTS_MIN: f64 = 20.0;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "keepalive-off", about: About::Target, needs: Needs::Connections, bearing: Bearing::None, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the target closes the connection after each reply";
    let plan = &facts.recording.plan;
    let closes = plan.workload.protocol().closes_after_each();
    if closes || plan.is_handshake_only() || plan.requests_per_connection == Some(1) {
        return Verdict::refuted("connections were closed by us, as asked");
    }
    if facts.ended < REQUESTS_MIN {
        return Verdict::not_observable(title, format!("{:.0} requests ended, and twenty are needed", facts.ended));
    }
    let counts = &facts.recording.totals.sum.counts;
    let per_request = counts.connected as f64 / facts.ended;
    let failed = counts.failed as f64 / facts.ended;
    let closes = counts.closed_by_peer.saturating_add(counts.closed_by_us);
    let (made, closed, ended) = (show_grouped(counts.connected), show_grouped(closes), show_figure(facts.ended));
    let text = format!("{made} connections for {ended} requests, {closed} of them closed");
    let connections = facts.evidence(text, "connections.per_request", per_request, "ratio");
    let text = format!("{} of the requests failed, so it was not failures that ended them", percent(failed));
    let successes = facts.evidence(text, "totals.failed_share", failed, "ratio");
    if per_request.min(closes as f64 / facts.ended) < PER_REQUEST {
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
