//! `lost-wakeup`: data lies unread at the target while all its threads wait for events.
//!
//! Evidence: (sockets) connections with unread data in nearly every reading; (process) the serving threads stood in a wait for
//! events in nearly every one, and hardly ran; or, where it began part-way, both in all of the last readings; requests without a
//! reply say that it matters. Where the sockets are known that an epoll instance watches, it is said for which of them a thread
//! waits. Refuted where nothing lies unread, or threads run: a busy server has unread data too. Source: epoll(7), on
//! edge-triggered notification.

use super::of_loss;
use crate::evidence::{Process, Sockets};
use crate::facts::{Facts, Stand, percent};
use crate::history::{Metric, Subject, Window};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::Snapshot;
use model::finding::{LossKind, Severity};
use model::snapshot::Role;

const NEARLY_ALL: f64 = 0.8;
const READINGS_MIN: usize = 3;
/// Threads that ran for more of the time may yet come to it.
const RUN_MAX: f64 = 0.05;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "lost-wakeup",
    needs: Needs::Connections,
    reads: &[&["network/connections"], &["process/stands"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let read = || facts.snapshots().filter(|s| s.network.of("receive_queue_connections").is_some());
    let unread_of = |s: &Snapshot| s.network.of("receive_queue_connections").unwrap_or(0);
    let unread: Vec<u64> = read().map(unread_of).collect();
    if unread.len() < READINGS_MIN {
        return Verdict::not_observable(
            "data that lies unread",
            "the target's connections were read fewer than three times",
        );
    }
    let with = unread.iter().filter(|connections| **connections > 0).count() as f64 / unread.len() as f64;
    let most = unread.iter().max().copied().unwrap_or(0);
    // A thread that missed its wake-up did nothing since: all are looked at, and not only those that work.
    let threads = facts.all_threads();
    let waits = |reading: &[Stand]| reading.contains(&Stand::Events) && !reading.contains(&Stand::Running);
    let is_stuck = |s: &&Snapshot| unread_of(s) > 0 && waits(&facts.stands_at(s, &threads));
    // Since when it has been so until the end.
    let all: Vec<&Snapshot> = read().collect();
    let last = all.iter().rev().take_while(|snapshot| is_stuck(snapshot)).count();
    let since_ns = all.get(all.len() - last).map_or(i64::MAX, |snapshot| snapshot.at_ns);
    let readings = match last {
        all if all == unread.len() => format!("in all {all} readings"),
        _ if last >= READINGS_MIN => {
            format!("in the last {last} readings, all from second {:.1} on", since_ns as f64 / 1e9)
        }
        _ => format!("in {} of the readings", percent(with)),
    };
    let text = format!("up to {most} connections had data that the target did not read, {readings}");
    let sockets = facts.piece::<Sockets>(text, "receive_queue_connections", with, "ratio").from(NEARLY_ALL);
    if last < READINGS_MIN && with < NEARLY_ALL {
        return Verdict::refuted("nothing lay unread for long").because(sockets.into());
    }
    let since_ns = if last >= READINGS_MIN { since_ns } else { i64::MIN };
    let looked = || facts.snapshots().filter(|snapshot| snapshot.at_ns >= since_ns);
    let waiting_to_be_accepted = looked().filter(|s| s.listeners.iter().any(|l| l.waiting > 0)).count();
    if waiting_to_be_accepted * 2 >= looked().count() {
        return Verdict::refuted("what lies unread is of connections that were not accepted yet")
            .because(sockets.into());
    }
    let stands: Vec<Vec<Stand>> =
        looked().map(|snapshot| facts.stands_at(snapshot, &threads)).filter(|reading| !reading.is_empty()).collect();
    let run = demand_since(facts, since_ns);
    if stands.len() < READINGS_MIN {
        return Verdict::not_observable(
            "where the threads stood",
            "fewer than three readings of the target's threads were made",
        )
        .because(sockets.into());
    }
    let waiting = stands.iter().filter(|reading| waits(reading)).count() as f64 / stands.len() as f64;
    let text = format!(
        "in {} of those readings a thread of it waited for events and none ran; the busiest ran {} of the time",
        percent(waiting),
        percent(run)
    );
    let process = facts.piece::<Process>(text, "target.threads_events", waiting, "ratio").from(NEARLY_ALL);
    if waiting < NEARLY_ALL || run > RUN_MAX {
        return Verdict::refuted("the target's threads were at work").because(sockets.into()).because(process.into());
    }
    // It began between the reading before and this one.
    let before_ns = all.iter().rfind(|snapshot| snapshot.at_ns < since_ns).map_or(0, |snapshot| snapshot.at_ns);
    let share = of_loss::unanswered_since(facts, before_ns.max(0).unsigned_abs());
    if share <= 0.0 {
        return Verdict::refuted("no request was left without an answer").because(sockets.into());
    }
    let watched = watched(facts);
    let is_by_edge = watched.is_some_and(|(_, by_edge)| by_edge > 0);
    let watched = watched.filter(|(all, _)| *all > 0).map(|(all, by_edge)| {
        let text = format!(
            "up to {all} connections whose data lay unread from one reading to the next were watched by an epoll instance \
             at which a thread waited, {by_edge} of them by edge"
        );
        facts.evidence(text, "unread_watched_connections", all as f64, "connections")
    });
    Verdict::proved(
        Severity::Error,
        "data lies unread at the target while its threads wait for events: a wake-up was lost",
        sockets,
        process,
    )
    .because_all(watched)
    .explains(LossKind::Failed, share, share * 0.8, 1.0)
    .remedy("With edge-triggered epoll, receive until EAGAIN before waiting again; or use level-triggered")
    .check(
        "cat /proc/PID/task/*/wchan; grep tfd /proc/PID/fdinfo/*; ss -tne 'sport = :PORT' # Recv-Q above 0 and still",
    )
    // By edge nobody is told of it a second time: then it is that very connection for which a thread waits in vain.
    .confidence(if is_by_edge { 0.95 } else { 0.9 })
}

/// How much of a core the target's busiest thread wanted from a moment on: ran, or waited for a CPU.
fn demand_since(facts: &Facts<'_>, since_ns: i64) -> f64 {
    let to_ns = facts.snapshots().last().map_or(i64::MIN, |snapshot| snapshot.at_ns);
    if since_ns == i64::MIN || since_ns >= to_ns {
        return facts.busiest_demand().unwrap_or(0.0);
    }
    let window = Window::new(since_ns, to_ns);
    let rate = |process, tid, name| {
        let metric = Metric::new(Subject::Thread(process, tid), name);
        facts.history.rate(metric, window).map_or(0.0, |rate| rate.value / 1e9)
    };
    let threads = facts.history.threads(Role::Target, window);
    threads.map(|(process, tid, _)| rate(process, tid, "run_ns") + rate(process, tid, "wait_ns")).fold(0.0, f64::max)
}

/// Of the connections whose data lay unread from one reading to the next, the most that were watched where a thread waited,
/// and by edge; `None`: nobody looked.
fn watched(facts: &Facts<'_>) -> Option<(u64, u64)> {
    let of =
        |s: &Snapshot| Some((s.network.of("unread_watched_connections")?, s.network.of("unread_edge_connections")?));
    facts.snapshots().filter_map(of).max()
}
