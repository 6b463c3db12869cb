//! `backend-wait`: requests wait for a server that the target itself asks.
//!
//! Evidence: (sockets) connections that the target made itself have a reply due, in most readings, and for how long; or (kernel) its
//! working threads waited at such connections for a fifth of the probes' windows; (client) requests take far longer than the work
//! in them; the processor is free. Refuted without such connections, or where no reply is due on them and nobody waits there; where
//! a reply is due since one tick of the sockets' clock, and requests take half a millisecond and less; and where the backend is on
//! a machine that is full and owes replies for no longer than the target waits for a CPU. Of unix sockets the kernel keeps no times: how
//! long replies are due follows from how many connections are new (Little's law), in a target whose threads wait for events; not observable
//! where such connections stay open, or threads do something else meanwhile, and none waits at one. A pool of connections that is full is
//! `backend-limited`. Source: tcp_info (tcpi_last_data_sent, tcpi_last_data_recv), which tick with the kernel's clock: every 4 ms or
//! 1 ms.

use super::backend_limited::is_loopback;
use crate::evidence::{Client, Kernel, Piece, Sockets};
use crate::facts::{Asked, Facts, duration, percent};
use crate::ledger::{in_target_at_a_time, in_target_ns};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{BACKEND_SHARE, WAITING_NS};
use model::finding::{LossKind, Severity};

/// In so many of the readings a reply must be due.
const DUE_MIN: f64 = 0.5;
const READINGS_MIN: usize = 3;
/// Requests must take so many times the work in them.
const TIMES_WORK: f64 = 3.0;
/// The coarsest of the usual ticks of the clock by which sockets tell since when a reply is due (HZ=250; HZ=1000 has 1 ms).
const TICK_NS: f64 = 4e6;

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
    let (Some(in_ns), Some(cost_ns)) = (in_target_ns(facts), facts.cpu_ns_per_request()) else {
        return Verdict::not_observable(
            "waits for a backend",
            "no request succeeded, or the target's CPU time was not read",
        );
    };
    let text = format!("requests were {} in the target, of which it worked {}", duration(in_ns), duration(cost_ns));
    let client = facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us").from(TIMES_WORK * cost_ns / 1e3);
    let is_waiting = in_ns >= TIMES_WORK * cost_ns;
    let due = Due::of(&all, asked);
    // The clock by which sockets tell that a reply is due ticks every few milliseconds: of one that is asked again as soon as it
    // answered, it does not tell. Threads that wait in a receive on such a connection are seen by the probes all the same.
    let working = facts.working();
    let at_backend = facts.share_at(&working, "backend").filter(|share| *share >= BACKEND_SHARE.value);
    // A connection to a unix socket that was made for a request tells that somebody has the request, and not who: a worker may sleep
    // or hold a lock while it has one open. Who serves many at a time in one thread does nothing else while it waits for its events.
    // Where no window told where they waited, readings do.
    let at = |kind| facts.share_at(&working, kind).or_else(|| facts.share_standing_at(&working, kind));
    let is_told = !asked.is_unix()
        || at("epoll").is_none_or(|share| share >= BACKEND_SHARE.value)
        || at("backend").is_some_and(|share| share >= BACKEND_SHARE.value);
    let is_due =
        is_told && due.share >= DUE_MIN && 2.0 * due.age_ns >= BACKEND_SHARE.value * waiting_for_one_ns(facts, in_ns);
    if is_waiting
        && !is_due
        && at_backend.is_none()
        && let Some(untold) = all.iter().find(|asked| asked.is_untold())
    {
        let remote = untold.remote;
        return Verdict::not_observable(
            "replies due on unix sockets",
            format!("the kernel keeps no times of them, and no thread is seen to wait at the target's connections to {remote}"),
        )
        .because(client.into());
    }
    if !is_waiting || (!is_due && at_backend.is_none()) {
        let verdict = Verdict::refuted(match due.most {
            0 => "no reply was due to the target when it was looked at",
            _ => "requests hardly waited for a backend",
        });
        return verdict.because(due.piece(facts).into()).because(client.into());
    }
    // On a machine that is full a backend waits for a CPU as the target does: what is due no longer than that is the machine's.
    let of_cpu_ns = TIMES_WORK * (cost_ns + facts.wait_ns_per_request().unwrap_or(0.0));
    let is_full = facts.host.is_some_and(|host| host.is_full());
    // One tick of that clock, where whole requests take less, is the clock's: whoever reads right after it ticked sees it of all.
    let is_of_clock = due.age_ns <= TICK_NS && due.age_ns > in_ns;
    if is_of_clock && at_backend.is_none() && in_ns < WAITING_NS.value {
        return Verdict::refuted(
            "replies are due for no longer than the sockets' clock can tell, of requests that take less",
        )
        .because(due.piece(facts).into())
        .because(client.into());
    }
    if is_loopback(due.remote) && is_full && is_due && (due.age_ns < of_cpu_ns || is_of_clock) {
        return Verdict::refuted("the machine is full, and replies are due for no longer than waits for a CPU last")
            .because(due.piece(facts).into())
            .because(client.into());
    }
    // Where requests stand in line for a connection to it, it has only the rest.
    let beside_line = super::backend_limited::share_at_backend(facts).unwrap_or(1.0);
    if beside_line < BACKEND_SHARE.value {
        return Verdict::refuted("requests wait for a connection to the backend, not for its replies")
            .because(due.piece(facts).into())
            .because(client.into());
    }
    let share = if is_due { due.share.max(at_backend.unwrap_or(0.0)) } else { at_backend.unwrap_or(0.0) };
    let explained = (beside_line * share * (1.0 - cost_ns / in_ns)).min(1.0);
    let remote = due.remote;
    let title = format!("requests wait for {remote}, which the target asks");
    let waits = facts.waits_at(&working);
    let verdict = match at_backend {
        Some(share) if !is_due => {
            let text = format!(
                "its working threads spent {} of the probes' windows waiting at connections that it made",
                percent(share)
            );
            let kernel = facts.piece::<Kernel>(text, "threads.waited_at", share, "ratio").from(BACKEND_SHARE.value);
            Verdict::proved(Severity::Error, title, kernel, client)
        }
        _ => Verdict::proved(Severity::Error, title, due.piece(facts), client),
    };
    verdict
        .because_all(waits)
        .explains(LossKind::Waiting, explained, explained * 0.5, beside_line)
        .remedy(format!("Look at {remote} first; ask it less (cache, batch), at the same time instead of one after the other, or without holding a worker"))
        .check(check(asked))
        .confidence(0.85)
}

/// How to see the same by hand.
fn check(asked: &Asked<'_>) -> String {
    match asked.remote.split_once(':') {
        Some((_, path)) if asked.is_unix() => format!("ss -xp | grep -F {path}"),
        _ => format!("ss -tnpi dst {}; plimsoll load against it alone", asked.remote),
    }
}

/// What was due to the target when its connections were looked at.
struct Due<'f> {
    /// From whom most.
    remote: &'f str,
    /// The most replies that it owed at a time.
    most: u64,
    /// Of all readings those in which somebody owed one, 0..=1.
    share: f64,
    /// Since when, the median, nanoseconds.
    age_ns: f64,
}

impl<'f> Due<'f> {
    fn of(all: &[Asked<'f>], first: &Asked<'f>) -> Self {
        let readings = first.due.len();
        let owed = (0..readings).filter(|at| all.iter().any(|asked| asked.due.get(*at) > Some(&0))).count();
        Due {
            remote: first.remote,
            most: first.due.iter().copied().max().unwrap_or(0),
            share: owed as f64 / readings.max(1) as f64,
            age_ns: first.age_ns(),
        }
    }

    fn piece(&self, facts: &Facts<'_>) -> Piece<Sockets> {
        let text = match self.most {
            0 => format!("no reply was due from {} at any reading", self.remote),
            most => format!(
                "up to {most} replies were due from {} in {} of the readings, for {} by then",
                self.remote,
                percent(self.share),
                duration(self.age_ns)
            ),
        };
        facts.piece::<Sockets>(text, "outgoing.awaiting", self.share, "ratio").from(DUE_MIN)
    }
}

/// What of a request's time it can have been at a worker: the rest it stood in line for one.
fn waiting_for_one_ns(facts: &Facts<'_>, in_ns: f64) -> f64 {
    let under_way = in_target_at_a_time(facts, in_ns);
    in_ns / (under_way / facts.working().len().max(1) as f64).max(1.0)
}
