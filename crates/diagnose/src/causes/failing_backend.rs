//! Whose doing it is that replies say failure, where it is that of a server which the target itself asks.
//!
//! Evidence: (sockets) such replies come 50 ms and more after their requests, and the target's connections to that server stand unanswered
//! (SYN-SENT), or a reply is due on them, in half of the readings and more, and on half as many as there are requests at a time that will fail;
//! or (kernel) nine tenths as many connects failed on this machine as replies say failure, not counting the load's own. An application that has
//! one connection to somebody else who does not answer fails no request for that.

use crate::evidence::{Kernel, Sockets};
use crate::facts::{Asked, Facts, duration, percent};
use crate::history::Subject;
use crate::thresholds::{BACKEND_GONE, BACKEND_WAITED};
use model::finding::Evidence;
use model::latency::Kind;
use model::units::show_grouped;

/// In so many of the readings, and so many there must be.
const UNANSWERED_MIN: f64 = 0.5;
const READINGS_MIN: usize = 3;
/// Replies that come so late (nanoseconds) may have been waited for.
const LONG_NS: f64 = 50e6;
/// Fewer failures may be anybody's.
const FAILED_MIN: f64 = 20.0;

/// A server that the target asks, and that does not answer it, or cannot be reached.
pub(super) struct FailingBackend {
    /// Behind the sentence that replies say failure.
    pub(super) text: String,
    pub(super) because: Evidence,
    pub(super) remedy: &'static str,
}

impl FailingBackend {
    /// `None`: it can, it asks nobody, or it was not seen.
    pub(super) fn of(facts: &Facts<'_>, failed: f64) -> Option<Self> {
        let asked = facts.asked(READINGS_MIN).unwrap_or_default();
        // Their time was spent in waiting for it: by Little's law as many stand there at a time as come in the time that each takes, of those that
        // have a connection.
        let took = facts.latency(Kind::Failed);
        let at_a_time = failed / facts.measured_s().max(1e-9) * took.mean() / 1e9;
        let at_a_time = at_a_time.min(f64::from(facts.recording.plan.connections));
        let is_long = !took.is_empty() && took.mean() >= LONG_NS;
        let is_unanswered = |asked: &&Asked<'_>| {
            asked.connecting_share() >= UNANSWERED_MIN && asked.connecting_mean() >= BACKEND_WAITED.value * at_a_time
        };
        if let Some(asked) = asked.iter().find(is_unanswered).filter(|_| is_long) {
            let (share, mean) = (asked.connecting_share(), asked.connecting_mean());
            let because = format!(
                "in {} of the readings connections to {} stood unanswered (SYN-SENT), {mean:.1} at a time, with {at_a_time:.1} requests at a \
                 time that failed",
                percent(share),
                asked.remote
            );
            return Some(Self {
                text: format!(": {}, which it asks, does not answer its connects", asked.remote),
                because: facts
                    .piece::<Sockets>(because, "outgoing.connecting_at_a_time", mean, "connections")
                    .from(BACKEND_WAITED.value * at_a_time)
                    .into(),
                remedy: "Look at the server that it asks, and the way there: is it alive, is the queue of its listener full (ss -ltn), is there a filter",
            });
        }
        let is_waited_for = |asked: &&Asked<'_>| {
            asked.due_share() >= UNANSWERED_MIN
                && asked.due_mean() >= BACKEND_WAITED.value * at_a_time
                && !asked.is_unix()
        };
        let slow = asked.iter().find(is_waited_for).filter(|_| is_long);
        if let Some(asked) = slow {
            let because = format!(
                "on {:.1} of its connections to {} a reply was due at a time, with {at_a_time:.1} requests at a time that failed after {}",
                asked.due_mean(),
                asked.remote,
                duration(took.mean())
            );
            return Some(Self {
                text: format!(", after {}: {}, which it asks, does not answer it", duration(took.mean()), asked.remote),
                because: facts
                    .piece::<Sockets>(because, "outgoing.due_at_a_time", asked.due_mean(), "replies")
                    .from(BACKEND_WAITED.value * at_a_time)
                    .into(),
                remedy: "Look at the server that it asks: what keeps it from answering in the time that the target gives it",
            });
        }
        let own = facts.recording.totals.sum.counts.connect_failed as f64;
        let connects = facts.grown(Subject::Network, "tcp_attempt_fails")? - own;
        if failed < FAILED_MIN || connects < BACKEND_GONE.value * failed {
            return None;
        }
        let because = format!(
            "{} connects failed on this machine meanwhile, and none of them is this load's",
            show_grouped(connects as u64)
        );
        Some(Self {
            text: ", and as many of its own connects fail: it does not reach a server that it asks".to_owned(),
            because: facts
                .piece::<Kernel>(because, "tcp_attempt_fails", connects, "connections")
                .from(BACKEND_GONE.value * failed)
                .into(),
            remedy: "Look at the server that the target asks: is it running, and where the target expects it (its error log says whom it asks)",
        })
    }
}
