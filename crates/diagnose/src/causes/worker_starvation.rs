//! `worker-starvation`: each worker of the target stays with one connection, and there are more connections than workers.
//!
//! Evidence: (client) some connections never got a reply while as many as there are workers were served; (process) the
//! workers wait in a receive on one connection and none of them for events, or run whenever they are looked at and those that were not
//! served never were. Or, where other clients hold the workers: (process) in
//! several readings one after the other each worker waits in a receive, and none of them for a reply of a server that the
//! target itself asks (`backend-wait`); and (client) meanwhile requests were under way and none was answered. Refuted where
//! workers wait for events, or where the served are not as many as the workers (`connection-limit`). Source: measured, 4
//! threads and 256 work items of the kernel; Gunicorn's sync workers.

use super::of_loss;
use crate::evidence::{Client, Process};
use crate::facts::{Facts, Stand, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::finding::{LossKind, Severity};
use model::snapshot::Snapshot;

/// Of the readings in which a worker was not running, so many must show it in a receive.
const RECEIVES_MIN: f64 = 0.5;
const READINGS_MIN: usize = 3;
/// Workers that run in so many of the readings are not seen to wait for anything.
const BUSY_MIN: f64 = 0.8;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "worker-starvation",
    needs: Needs::Connections,
    reads: &[&["process/stands"], &["process/threads"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(users) = facts.recording.totals.users.filter(|users| users.connections > 0) else {
        return Verdict::not_observable("connections never served", "the replies of each connection were not counted");
    };
    if let Some(verdict) = held_by_others(facts) {
        return verdict;
    }
    if users.starved == 0 {
        return Verdict::refuted("no connection starved while others were served");
    }
    let stands = facts.stands(&facts.working());
    if stands.readings.len() < READINGS_MIN {
        return Verdict::not_observable(
            "where the workers stood",
            "fewer than three readings of the target's working threads were made",
        );
    }
    let (running, receiving, waiting) =
        (share(&stands, Stand::Running), share(&stands, Stand::Receive), share(&stands, Stand::Events));
    let idle = (1.0 - running).max(f64::MIN_POSITIVE);
    let served = users.connections.saturating_sub(users.starved);
    let text = format!("{} of {} connections starved, and {served} were served", users.starved, users.connections);
    let client = facts.piece::<Client>(text, "users.starved", users.starved as f64, "connections").from(1.0);
    let text = format!(
        "{} working threads: when they did not run, they waited in a receive on one connection in {} of the readings",
        stands.threads,
        percent(receiving / idle)
    );
    let process =
        facts.piece::<Process>(text, "target.threads_receiving", receiving / idle, "ratio").from(RECEIVES_MIN);
    // A loop that has connections waiting turns to them, however busy it is.
    let is_busy = running >= BUSY_MIN && waiting <= 0.0 && users.never_served == users.starved;
    let process = if is_busy {
        let text = format!(
            "{} working threads: in {} of the time they ran or wanted to, and never waited for events",
            stands.threads,
            percent(running)
        );
        facts.piece::<Process>(text, "target.threads_running", running, "ratio").from(BUSY_MIN)
    } else {
        process
    };
    if waiting > 0.1 || !is_busy && receiving < RECEIVES_MIN * idle {
        return Verdict::refuted("the target's workers do not stay with one connection").because(process.into());
    }
    if served != stands.threads as u64 {
        return Verdict::refuted("the connections that were served are not as many as the workers")
            .because(client.into())
            .because(process.into());
    }
    let title = match served {
        1 => format!(
            "the target's one worker stays with one connection: the other {} wait for that to close",
            users.starved
        ),
        _ => format!(
            "each of the target's {served} workers stays with one connection: the other {} wait for one of those to close",
            users.starved
        ),
    };
    Verdict::proved(Severity::Error, title, client, process)
        // All that starved: those that were served are as many as the workers.
        .explains(LossKind::Starved, 1.0, 0.9, 1.0)
        .remedy("Serve many connections with each worker (an event loop), or have as many workers as connections; until then close idle connections soon")
        .check("for t in /proc/PID/task/*; do cat $t/wchan; echo; done; ss -tn state established # Recv-Q of those that wait")
        .confidence(0.9)
}

/// Where clients that send nothing hold all workers: nobody else is served from then on.
fn held_by_others(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let working = facts.working();
    // The second that a reading ends: it is made right after.
    let is_dead = |snapshot: &Snapshot| {
        let at_ns = snapshot.at_ns.max(0).unsigned_abs();
        let row = facts.recording.timeline.rows().iter().rfind(|row| row.end_ns <= at_ns);
        row.is_some_and(|row| row.counts.ok == 0 && row.gauges.connections > 0)
    };
    let (mut held, mut longest, mut most) = (0_usize, 0_usize, 0_usize);
    let (mut since_ns, mut longest_since_ns) = (0, 0);
    for snapshot in facts.snapshots() {
        let stands = facts.stands_at(snapshot, &working);
        let asks = snapshot.outgoing.iter().any(|o| o.metrics.of("awaiting").unwrap_or(0) > 0);
        let is_held = !stands.is_empty() && stands.iter().all(|stand| *stand == Stand::Receive);
        held = if is_held && !asks && is_dead(snapshot) { held + 1 } else { 0 };
        if held == 0 {
            // It begins after this reading, if at all.
            since_ns = snapshot.at_ns;
        }
        if held > longest {
            (longest, most, longest_since_ns) = (held, stands.len(), since_ns);
        }
    }
    if longest < READINGS_MIN {
        return None;
    }
    let text = format!(
        "in {longest} readings one after the other all {most} workers waited in a receive on one connection, and none for a server that it asks"
    );
    let process = facts
        .piece::<Process>(text, "target.readings_all_receiving", longest as f64, "readings")
        .from(READINGS_MIN as f64);
    let unanswered = crate::ledger::failures(facts) + facts.recording.totals.in_flight_at_end as f64;
    let text = format!("not one request was answered meanwhile; {unanswered:.0} had no reply in all");
    let client = facts.piece::<Client>(text, "requests.unanswered", unanswered, "requests").from(1.0);
    if unanswered < 1.0 {
        return None;
    }
    let share = of_loss::unanswered_since(facts, longest_since_ns.max(0).unsigned_abs());
    let title =
        format!("each of the target's {most} workers waits for a client that sends nothing: nobody else is served");
    Some(
        Verdict::proved(Severity::Error, title, client, process)
            .explains(LossKind::Failed, share, share * 0.8, 1.0)
            .remedy("Read requests without holding a worker (an event loop, or a proxy in front that reads them whole), or end silent connections soon")
            .check("for t in /proc/PID/task/*; do cat $t/wchan; echo; done; ss -tnp state established # Recv-Q 0 at the server's end, none sent")
            .confidence(0.85),
    )
}

fn share(stands: &crate::facts::Stands, of: Stand) -> f64 {
    stands.share(of).unwrap_or(0.0)
}
