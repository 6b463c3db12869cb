//! `backend-wait`: requests wait for a server that the target itself asks.
//!
//! Evidence: (sockets) connections that the target made itself have a reply due, in most readings, and for how long; (client)
//! requests take at least that long and far longer than the work in them; the processor is free. Refuted without such
//! connections, or where no reply is due on them. A pool of connections that is full is `backend-limited`. Source: tcp_info
//! (tcpi_last_data_sent, tcpi_last_data_recv).

use crate::evidence::{Client, Sockets};
use crate::facts::{Facts, duration, percent};
use crate::ledger::in_target_ns;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::BACKEND_SHARE;
use model::finding::{LossKind, Severity};

/// In so many of the readings a reply must be due.
const DUE_MIN: f64 = 0.5;
const READINGS_MIN: usize = 3;
/// Requests must take so many times the work in them.
const TIMES_WORK: f64 = 3.0;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "backend-wait", needs: Needs::Connections, reads: &[&["network/outgoing"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(all) = facts.asked(READINGS_MIN) else {
        return Verdict::not_observable(
            "replies due to the target",
            "fewer than three readings of the target's own connections",
        );
    };
    let Some(asked) = all.first() else {
        return Verdict::not_applicable("the target made no connection of its own");
    };
    let (remote, age_ns) = (asked.remote, asked.age_ns());
    let owed =
        (0..asked.due.len()).filter(|reading| all.iter().any(|asked| asked.due.get(*reading) > Some(&0))).count();
    let share = owed as f64 / asked.due.len() as f64;
    let Some(most) = asked.due.iter().max().filter(|most| **most > 0) else {
        return Verdict::refuted("no reply was due to the target when it was looked at");
    };
    let text = format!(
        "up to {most} replies were due from {remote} in {} of the readings, for {} by then",
        percent(share),
        duration(age_ns)
    );
    let sockets = facts.piece::<Sockets>(text, "outgoing.awaiting", share, "ratio").from(DUE_MIN);
    let (Some(in_ns), Some(cost_ns)) = (in_target_ns(facts), facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "waits for a backend",
            "no request succeeded, or the target's CPU time was not read",
        )
        .because(sockets.into());
    };
    let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
    let client = facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us");
    // A reply is met half-way on average: it takes about twice as long as it was due when it was looked at.
    let is_much = 2.0 * age_ns >= BACKEND_SHARE.value * waiting_for_one_ns(facts, in_ns);
    if share < DUE_MIN || !is_much || in_ns < TIMES_WORK * cost_ns {
        return Verdict::refuted("requests hardly waited for a backend").because(sockets.into()).because(client.into());
    }
    // Where requests stand in line for a connection to it, it has only the rest.
    let at_backend = super::backend_limited::share_at_backend(facts).unwrap_or(1.0);
    if at_backend < BACKEND_SHARE.value {
        return Verdict::refuted("requests wait for a connection to the backend, not for its replies")
            .because(sockets.into())
            .because(client.into());
    }
    let explained = (at_backend * share * (1.0 - cost_ns / in_ns)).min(1.0);
    let title = format!("requests wait for {remote}, which the target asks");
    Verdict::proved(Severity::Error, title, sockets, client)
        .because_all(facts.waits_at(&facts.working()))
        .explains(LossKind::Waiting, explained, explained * 0.5, at_backend)
        .remedy(format!("Look at {remote} first; ask it less (cache, batch), at the same time instead of one after the other, or without holding a worker"))
        .check(format!("ss -tnpi dst {remote}; plimsoll load against it alone"))
        .confidence(0.85)
}

/// What of a request's time it can have been at a worker: the rest it stood in line for one.
fn waiting_for_one_ns(facts: &Facts<'_>, in_ns: f64) -> f64 {
    let under_way = facts.recording.totals.requests_per_s() * in_ns / 1e9;
    in_ns / (under_way / facts.working().len().max(1) as f64).max(1.0)
}
