//! `connections-not-reached`: fewer connections were open than asked for, and by whose doing.
//!
//! Evidence: connections established at each interval's end against the plan's; and why the others were not: attempts
//! that failed, connections the peer closed, the generator's own limits. Supported where none of the intervals had them
//! all, or more than a tenth of them lacked more than 5 %. Refuted where connections are closed all the time
//! (more than one for ten requests): then some are always being made, and their number is not what was asked. Not
//! observable without a measured interval, or where nothing ever connected: what to do about that is another question.
//! Never makes a result invalid; the generator's limits do, by rules of their own.

use crate::facts::{Facts, percent};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::ErrorKind;
use model::finding::{About, Severity};
use model::units::{show_figure, show_grouped};

const ROWS_SHARE: f64 = 0.1;
const LACK: f64 = 0.05;
const CHURN: f64 = 0.1;

/// See the file's head.
pub const RULE: Rule = Rule {
    id: "connections-not-reached",
    about: About::Load,
    needs: Needs::Connections,
    bearing: Bearing::None,
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the connections asked for were not all there";
    if facts.recording.plan.workload.protocol().is_until_failure() {
        return Verdict::refuted("connections were added until something gave: where that was is the answer");
    }
    let wanted = f64::from(facts.recording.plan.connections);
    let counts = &facts.recording.totals.sum.counts;
    let closed = counts.closed_by_us as f64 + counts.closed_by_peer as f64;
    if facts.rows.is_empty() {
        return Verdict::not_observable(title, "no interval was measured");
    }
    if closed > CHURN * facts.ended && counts.connected as f64 >= wanted {
        let text = format!("{} connections were closed for {} requests", show_figure(closed), show_figure(facts.ended));
        return Verdict::refuted("connections came and went: their number at a moment is not what was asked for")
            .because(facts.evidence(text, "connections.closed", closed, "connections"));
    }
    let open = |row: &&&model::recording::Row| row.gauges.connections as f64;
    let most =
        facts.rows.iter().map(|r| open(&r)).fold(0.0, f64::max).max(facts.recording.totals.connections_max as f64);
    let short = facts.rows.iter().filter(|r| open(r) < (1.0 - LACK) * wanted).count();
    let short_share = short as f64 / facts.rows.len() as f64;
    let text = format!(
        "{} connections were asked for; at the most {} were open at once",
        show_figure(wanted),
        show_figure(most)
    );
    let reached = facts.evidence(text, "achieved.connections", most, "connections");
    let text = format!("in {short} of {} intervals more than {} were missing", facts.rows.len(), percent(LACK));
    let rows = facts.evidence(text, "achieved.intervals_short_of_connections", short as f64, "intervals");
    if most >= wanted && short_share <= ROWS_SHARE {
        return Verdict::refuted("the connections asked for were open").because(reached).because(rows);
    }
    let own = [ErrorKind::TooManyFiles, ErrorKind::AddressNotAvailable, ErrorKind::OutOfMemory];
    let own: f64 = own.iter().map(|kind| facts.errors(*kind) as f64).sum();
    let refused = counts.connect_failed as f64 - own;
    let (whose, remedy) = if own > 0.0 {
        ("the generator's limits", "Raise the generator's limits, as its own findings say")
    } else if refused > 0.0 || counts.closed_by_peer > 0 {
        (
            "the target refused or closed them",
            "Look at the target's limits: its backlog, its descriptors, its own maximum of connections",
        )
    } else {
        ("they were still being made", "Give the target time to accept them (--warmup), or look at its accept queue")
    };
    let worst = (1.0 - most / wanted.max(1.0)).max(short_share);
    let severity = if worst > LACK { Severity::Warning } else { Severity::Info };
    Verdict::supported(severity, format!("{title}: {whose}"))
        .because(reached)
        .because(rows)
        .because(facts.evidence(
            format!(
                "{} attempts to connect failed, {} of them by the generator's limits",
                show_grouped(counts.connect_failed),
                show_figure(own)
            ),
            "connections.failed",
            counts.connect_failed as f64,
            "attempts",
        ))
        .because(facts.evidence(
            format!("the peer closed or reset {} connections", show_grouped(counts.closed_by_peer)),
            "connections.closed_by_peer",
            counts.closed_by_peer as f64,
            "connections",
        ))
        .remedy(remedy)
        .check("ss -tan state established | wc -l; nstat -az TcpExtListenOverflows TcpExtListenDrops")
        .confidence(past(worst, LACK))
}
