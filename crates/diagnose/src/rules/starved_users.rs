//! `starved-users`: connections that never or hardly got a reply, while others were served.
//!
//! Evidence: replies of each connection, summed up in [`model::users::Users`]: how many starved (never served, less than a
//! tenth of what those well served by its origin got, or silent for the last quarter of the run with a request due), how unevenly the
//! replies were spread (Jain's index), and the response time over users' time beside that over requests, in which fast
//! users outvote the rest. An error from a tenth of the connections on, else a warning. Refuted where none starved;
//! not observable where nobody counted (held connections, bursts, recordings that were cut off). The target's
//! doing, so it leaves the figures valid; they do not show it by themselves, so the report's first line does.

use crate::facts::{Facts, duration, percent};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::LatencyKind;
use model::finding::{About, Evidence, Severity};
use model::users::{Users, time_quantile};

/// So many of all connections are an error.
const MANY: f64 = 0.1;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "starved-users", about: About::Load, needs: Needs::Connections, bearing: Bearing::None, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "connections starved while others were served";
    let Some(users) = facts.recording.totals.users.filter(|users| users.connections > 0) else {
        return Verdict::not_observable(title, "the replies of each connection were not counted");
    };
    let spread = spread(facts, &users);
    if users.starved == 0 {
        return Verdict::refuted("no connection starved while others were served").because(spread);
    }
    let share = users.starved as f64 / users.connections as f64;
    let severity = if share >= MANY { Severity::Error } else { Severity::Warning };
    Verdict::supported(severity, words(&users))
        .because(spread)
        .because_all(since(facts, &users))
        .because_all(times(facts))
        .remedy(
            "Look at how many connections the target serves at once (workers, threads, its maximum of connections): \
             the others wait for one of them to close",
        )
        .check("ss -tnp state established | sort -k2 -n | tail; top -H")
        .confidence(past(share, 0.05))
}

/// Who starved, in a sentence without an end.
pub(crate) fn words(users: &Users) -> String {
    if users.never_served >= users.starved {
        format!("{} of {} connections never got a reply", users.never_served, users.connections)
    } else if users.never_served == 0 {
        format!("{} of {} connections hardly got a reply, or none any more", users.starved, users.connections)
    } else {
        format!(
            "{} of {} connections starved, {} of them never got a reply",
            users.starved, users.connections, users.never_served
        )
    }
}

fn spread(facts: &Facts<'_>, users: &Users) -> Evidence {
    let text = format!(
        "the connection served least got {} replies, the one served most {} (Jain's index {:.2})",
        users.served_min, users.served_max, users.jain_index
    );
    facts.evidence(text, "users.jain_index", users.jain_index, "ratio")
}

fn since(facts: &Facts<'_>, users: &Users) -> Option<Evidence> {
    let since_s = users.starved_since_ms? as f64 / 1e3;
    let text = format!(
        "{} of them starved, the first since second {since_s:.1}",
        percent(users.starved as f64 / users.connections.max(1) as f64)
    );
    Some(facts.evidence(text, "users.starved", users.starved as f64, "connections"))
}

fn times(facts: &Facts<'_>) -> Option<Evidence> {
    let latency = &facts.recording.totals.sum.latency;
    let of_users = time_quantile(latency, 0.5)?;
    let of_requests = latency.quantile(LatencyKind::Response, 0.99)?;
    let sign = if of_users.is_bound { "at least " } else { "" };
    let text = format!(
        "half of the users' time was spent in requests of {sign}{} and more, while p99 over requests is {}",
        duration(of_users.ns as f64),
        duration(of_requests.ns as f64)
    );
    Some(facts.evidence(text, "users.time_p50_us", of_users.ns as f64 / 1e3, "us"))
}
