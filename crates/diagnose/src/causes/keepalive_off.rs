//! `keepalive-off`: the target closes after each reply, so every request pays for a connection.
//!
//! Evidence: (client) connections made, and as many closed, for each request ≥ 0.9 (as many made alone may be a first request
//! on each of many that are still there), and (replies) that they were good ones, as a close after a good reply is what tells
//! this from connections that break (failures below a tenth). Refuted where we close ourselves (`--disable-keepalive`,
//! `--requests-per-connection 1`, `--handshake-only`), and where connections last. Needs twenty requests.
//!
//! One that closes and does not say so (no `Connection: close`) makes the next request on the connection fail. Evidence: (client)
//! a good reply for each connection made, and no more; (replies) the failures are of second requests, closed or reset before
//! a byte came. Source: RFC 9112, 9.6 (a server that closes should say so with its last reply); measured with uWSGI's
//! `http-socket`. Needs twenty failures.

use crate::evidence::{Client, Replies};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict, past};
use crate::thresholds::CLOSES;
use model::ErrorKind;
use model::finding::{LossKind, Severity};
use model::latency::Kind;
use model::request::{Request, RequestEnd};
use model::units::{show_figure, show_grouped};

const FAILED_MAX: f64 = 0.1;
const REQUESTS_MIN: f64 = 20.0;

/// See the file's head.
pub const RULE: CauseRule = CauseRule { id: "keepalive-off", needs: Needs::Connections, reads: &[], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let title = "the target closes the connection after each reply";
    let plan = &facts.recording.plan;
    let closes = plan.workload.protocol().closes_after_each();
    if closes || plan.is_handshake_only() || plan.requests_per_connection == Some(1) {
        return Verdict::not_applicable("connections were closed by us, as asked");
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
    let connections = facts.piece::<Client>(text, "connections.per_request", per_request, "ratio").from(CLOSES.value);
    let text = format!("{} of the requests failed, so it was not failures that ended them", percent(failed));
    let successes = facts.piece::<Replies>(text, "totals.failed_share", failed, "ratio");
    if let Some(verdict) = unsaid(facts) {
        return verdict;
    }
    if per_request.min(closes as f64 / facts.ended) < CLOSES.value {
        return Verdict::refuted("connections lasted").because(connections.into());
    }
    if failed > FAILED_MAX {
        return Verdict::refuted("connections ended by failures").because(connections.into());
    }
    let connect = facts.latency(Kind::Connect);
    let cost = (!connect.is_empty()).then(|| {
        let text = format!("making one took {} on average", duration(connect.mean()));
        facts.evidence(text, "connect.mean_us", connect.mean() / 1e3, "us")
    });
    // A request pays for the connection it is on: what of its time that is.
    let service = facts.latency(Kind::Service);
    let of_time = match connect.is_empty() || service.is_empty() {
        true => 0.0,
        false => connect.mean() / (connect.mean() + service.mean()),
    };
    Verdict::proved(Severity::Warning, title, connections, successes)
        .explains(LossKind::Slow, of_time, of_time * 0.5, of_time)
        .because_all(cost)
        .remedy("Turn keep-alive on in the target; if its clients really come without it, ask for that (--disable-keepalive)")
        .check("curl -sv -o /dev/null -o /dev/null URL URL 2>&1 | grep -i -e '^< connection' -e re-us")
        .confidence(past(per_request, CLOSES.value).max(0.8))
}

/// Where the target closes after each reply without saying so, and what is sent next on the connection fails; `None`: not so.
fn unsaid(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let failed: Vec<_> =
        facts.recording.requests.failed().filter(|request| matches!(request.end, RequestEnd::Failed(_))).collect();
    let counts = &facts.recording.totals.sum.counts;
    let replies_each = counts.ok as f64 / counts.connected.max(1) as f64;
    if (failed.len() as f64) < REQUESTS_MIN || !(CLOSES.value..=2.0 - CLOSES.value).contains(&replies_each) {
        return None;
    }
    let is_second = |request: &&&Request| {
        let is_closed = matches!(request.end, RequestEnd::Failed(ErrorKind::ClosedEarly | ErrorKind::Reset));
        is_closed && request.ordinal == 2 && request.first_byte_ns == 0
    };
    let second = failed.iter().filter(is_second).count() as f64 / failed.len() as f64;
    if second < CLOSES.value {
        return None;
    }
    let text = format!(
        "{} good replies on {} connections: one on each",
        show_grouped(counts.ok),
        show_grouped(counts.connected)
    );
    let connections = facts.piece::<Client>(text, "connections.replies_each", replies_each, "replies");
    let text = format!(
        "{} of the failed requests were the second on their connection, closed before the first byte of a reply",
        percent(second)
    );
    let replies = facts.piece::<Replies>(text, "failed.second_share", second, "ratio").from(CLOSES.value);
    let title = "the target closes the connection after each reply and does not say so: the next request on it fails";
    Some(
        Verdict::proved(Severity::Error, title, connections, replies)
            .explains(LossKind::Failed, second, second * 0.9, 1.0)
            .remedy("Turn keep-alive on in the target, or let it send `Connection: close` with its replies; until then load it with --disable-keepalive")
            .check("curl -sv -o /dev/null -o /dev/null URL URL 2>&1 | grep -i -e '^< connection' -e re-us -e 'died'")
            .confidence(0.9),
    )
}
