//! What grows with what is over and stays: `fd-leak`, `connection-leak`, `memory-leak`, `memory-per-connection`.
//!
//! Each compares a reading near the beginning of the load with one near its end, and how much went by meanwhile. Nothing is
//! lost by them until a limit is reached (of descriptors: `fd-exhaustion`), so they are for information till then. Refuted
//! where it does not grow, or grew only at first: half of the growth must lie in either half of the time, less a quarter.

use super::fd_exhaustion;
use crate::evidence::{Client, Process, Sockets};
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{LEAK_CLOSE_WAIT, LEAK_DESCRIPTORS, LEAK_MEMORY, MEMORY_PER_CONNECTION};
use model::finding::Severity;
use model::snapshot::{Role, Snapshot};
use model::units::{show_bytes, show_grouped};

/// Each half must have so much of the growth.
const HALF_MIN: f64 = 0.2;
const READINGS_MIN: usize = 4;
/// What leaks is not given back.
const KEPT: f64 = 0.95;
/// A leak of connections or descriptors is at least so many of the connections, or requests, that ended.
const OF_ENDED_MIN: f64 = 0.2;

/// How well a line must fit readings of memory against connections (r²): the catalogue's.
const FIT_MIN: f64 = 0.95;
/// Readings between none and all of them that make a line one, and not two points.
const STEPS_MIN: usize = 2;
/// Or so much of it is given back as soon as they have gone: the readings end some milliseconds later, and a heap does not shrink in these.
const RETURNED_MIN: f64 = 0.1;
/// Of fewer connections what each takes is lost in what a program takes at its start.
const CONNECTIONS_MIN: f64 = 32.0;

/// Descriptors.
pub const DESCRIPTORS: CauseRule =
    CauseRule { id: "fd-leak", needs: Needs::Connections, reads: &[&["process/memory"]], judge: descriptors };
/// Connections in CLOSE-WAIT.
pub const CONNECTIONS: CauseRule = CauseRule {
    id: "connection-leak",
    needs: Needs::Connections,
    reads: &[&["network/connections"]],
    judge: connections,
};
/// Memory with requests.
pub const MEMORY: CauseRule =
    CauseRule { id: "memory-leak", needs: Needs::Connections, reads: &[&["process/memory"]], judge: memory };
/// Memory with connections.
pub const PER_CONNECTION: CauseRule = CauseRule {
    id: "memory-per-connection",
    needs: Needs::Connections,
    reads: &[&["process/memory"], &["network/connections"]],
    judge: per_connection,
};

/// Readings of the measured time.
fn readings(facts: &Facts<'_>, of: impl Fn(&Snapshot) -> Option<u64>) -> Vec<f64> {
    facts.snapshots().filter_map(of).map(|value| value as f64).collect()
}

/// Something of all the target's processes together; `None` where none was read.
pub(crate) fn of_target(
    snapshot: &Snapshot,
    of: impl Fn(&model::snapshot::ProcessSample) -> Option<u64>,
) -> Option<u64> {
    let target = snapshot.processes.iter().filter(|process| process.role == Role::Target);
    target.filter_map(of).reduce(u64::saturating_add)
}

/// By how much it grew, where it did so all the time.
fn steady(values: &[f64]) -> Option<f64> {
    let (first, last, middle) = (values.first()?, values.last()?, values.get(values.len() / 2)?);
    let grown = last - first;
    let is_both = (middle - first) >= HALF_MIN * grown && (last - middle) >= HALF_MIN * grown;
    (values.len() >= READINGS_MIN && grown > 0.0 && is_both).then_some(grown)
}

fn closed(facts: &Facts<'_>) -> f64 {
    let counts = &facts.recording.totals.sum.counts;
    counts.closed_by_us.saturating_add(counts.closed_by_peer) as f64
}

fn descriptors(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let values = readings(facts, |s| of_target(s, |process| process.descriptors));
    // They may have come to their limit meanwhile: that they stay is enough.
    let most = values.iter().copied().fold(0.0, f64::max);
    let is_kept = values.len() >= READINGS_MIN && values.last().is_some_and(|last| *last >= KEPT * most);
    let grown = values.first().zip(values.last()).filter(|_| is_kept).map_or(0.0, |(first, last)| last - first);
    if grown < LEAK_DESCRIPTORS.value {
        return Verdict::refuted("the target's descriptors did not grow with time");
    }
    let text =
        format!("its open descriptors grew by {} from the first reading to the last", show_grouped(grown as u64));
    let process =
        facts.piece::<Process>(text, "target.descriptors_grown", grown, "descriptors").from(LEAK_DESCRIPTORS.value);
    let open = facts.recording.totals.connections_max;
    let ended = closed(facts);
    // Where connections last, what is left is a request's.
    let is_requests = ended < LEAK_DESCRIPTORS.value;
    let over = if is_requests { facts.recording.totals.sum.counts.ok as f64 } else { ended };
    let (what, metric) = if is_requests { ("request", "requests.ok") } else { ("connection", "connections.closed") };
    let verb = if is_requests { "succeeded" } else { "ended" };
    let text =
        format!("{} {what}s {verb} meanwhile, and {open} connections were open at a time", show_grouped(over as u64));
    let client = facts.piece::<Client>(text, metric, over, if is_requests { "requests" } else { "connections" });
    if grown < OF_ENDED_MIN * over || over < LEAK_DESCRIPTORS.value || grown <= open as f64 {
        return Verdict::refuted("descriptors are those of open connections, or grew without any that ended")
            .because(process.into())
            .because(client.into());
    }
    let title = format!("the target leaks descriptors: {:.2} for each {what} that is over", grown / over);
    // At the limit all that is lost by that is the leak's.
    let verdict = match fd_exhaustion::lost(facts) {
        Some((kind, share)) => {
            let title =
                format!("the target leaks descriptors with each {what} that is over, until it may open no more");
            Verdict::proved(Severity::Error, title, process, client).explains(kind, share, share * 0.8, 1.0)
        }
        None => Verdict::proved(Severity::Info, title, process, client),
    };
    verdict
        .remedy("Close what a connection or a request opened when it ends, errors and early closes included")
        .check("ls -l /proc/PID/fd | awk '{print $NF}' | sort | uniq -c | sort -n | tail")
        .confidence(0.9)
}

fn connections(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let values = readings(facts, |s| s.network.of("connections_close_wait"));
    let grown = steady(&values).unwrap_or(0.0);
    if grown < LEAK_CLOSE_WAIT.value {
        return Verdict::refuted("connections in CLOSE-WAIT did not grow with time");
    }
    let ended = facts.recording.totals.sum.counts.closed_by_us as f64;
    let text = format!(
        "{} more connections of the target in CLOSE-WAIT than at first: closed by their client, not by it",
        show_grouped(grown as u64)
    );
    let sockets =
        facts.piece::<Sockets>(text, "connections_close_wait", grown, "connections").from(LEAK_CLOSE_WAIT.value);
    let text = format!("{} connections were closed by the load meanwhile", show_grouped(ended as u64));
    let client = facts.piece::<Client>(text, "connections.closed_by_us", ended, "connections");
    if grown < OF_ENDED_MIN * ended {
        return Verdict::refuted("few of the connections that ended stay")
            .because(sockets.into())
            .because(client.into());
    }
    Verdict::proved(
        Severity::Info,
        "the target does not close connections that its clients have closed",
        sockets,
        client,
    )
    .remedy("Close a connection where a receive returns 0, or EPOLLRDHUP comes")
    .check("ss -tanp state close-wait")
    .confidence(0.9)
}

fn memory(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let values = readings(facts, |s| of_target(s, |process| process.rss_bytes));
    let grown = steady(&values).unwrap_or(0.0);
    if grown < LEAK_MEMORY.value {
        return Verdict::refuted("the target's resident memory did not grow with time");
    }
    let open = readings(facts, |s| s.network.of("connections_looked_at"));
    let most = open.iter().copied().fold(0.0, f64::max);
    let least = open.iter().copied().fold(f64::INFINITY, f64::min);
    let ended = facts.ended.max(1.0);
    let each = grown / ended;
    let text = format!("its resident memory grew by {}, all the time", show_bytes(grown));
    let process = facts.piece::<Process>(text, "target.rss_grown_bytes", grown, "bytes").from(LEAK_MEMORY.value);
    let text = format!("{} requests ended meanwhile: {} for each", show_grouped(ended as u64), show_bytes(each));
    let client = facts.piece::<Client>(text, "target.rss_per_request", each, "bytes");
    if !open.is_empty() && most > 1.5 * least.max(1.0) {
        return Verdict::refuted("connections grew meanwhile").because(process.into());
    }
    Verdict::proved(Severity::Info, format!("the target's memory grows with its requests: {} for each", show_bytes(each)), process, client)
        .remedy("Look at what a request leaves behind (a heap profile, valgrind --tool=massif); a cache that fills looks alike, and stops")
        .check("watch -n 5 'grep VmRSS /proc/PID/status' # at a constant load")
        .confidence(0.6)
}

fn per_connection(facts: &Facts<'_>) -> Verdict<OfTarget> {
    // Before the load too: then there are none.
    let both = |s: &Snapshot| {
        let memory = of_target(s, |process| process.rss_bytes)? as f64;
        Some((s.network.of("connections_looked_at")? as f64, memory))
    };
    let readings: Vec<(f64, f64)> = facts.recording.snapshots.iter().filter_map(both).collect();
    let Some((least, most)) = readings.iter().map(|(open, _)| *open).fold(None, |range: Option<(f64, f64)>, open| {
        Some(range.map_or((open, open), |(least, most)| (least.min(open), most.max(open))))
    }) else {
        return Verdict::not_observable(
            "memory of a connection",
            "the target's memory was not read together with its connections",
        );
    };
    if most - least < CONNECTIONS_MIN || readings.len() < READINGS_MIN {
        return Verdict::refuted("too few connections came or went");
    }
    // Memory is given back while they end, and after: how it rose is told as long as they came, or stayed.
    let last_most = readings.iter().rposition(|(open, _)| *open >= most).unwrap_or(0);
    let rising = readings.get(..=last_most).unwrap_or(&[]);
    let (each, fit) = line_through(rising);
    let text = format!(
        "its resident memory rose by {} with each connection, from {least:.0} to {most:.0} of them (r² {fit:.2})",
        show_bytes(each.max(0.0))
    );
    let process =
        facts.piece::<Process>(text, "target.rss_per_connection", each, "bytes").from(MEMORY_PER_CONNECTION.value);
    if each < MEMORY_PER_CONNECTION.value {
        return Verdict::refuted("a connection takes little memory").because(process.into());
    }
    if rising.len() < READINGS_MIN || fit < FIT_MIN {
        return Verdict::refuted("its memory grew, and not as its connections did").because(process.into());
    }
    // A heap that grows when the load begins does so with the connections, too, where they come all at once.
    let is_ramp = rising.iter().filter(|(open, _)| *open > least && *open < most).count() >= STEPS_MIN;
    let grown = (each * (most - least)).max(1.0);
    // They go with the load: what is there after it, as far as it was looked at.
    let recording = facts.recording;
    let mut all = recording.snapshots.iter().chain(&recording.after).rev();
    let now = all.find_map(|snapshot| of_target(snapshot, |process| process.rss_bytes));
    let returned = rising.last().zip(now).map_or(0.0, |((_, then), now)| (then - now as f64) / grown);
    if !is_ramp && returned < RETURNED_MIN {
        return Verdict::refuted("its memory rose when they came, and did not fall when they went")
            .because(process.into());
    }
    let text = format!("up to {most:.0} connections were established");
    let sockets = facts.piece::<Sockets>(text, "connections_looked_at", most, "connections");
    let title = format!("each connection takes {} of the target's memory", show_bytes(each));
    Verdict::proved(Severity::Info, title, process, sockets)
        .remedy("Smaller buffers for each connection, or buffers only while a request is under way; limit what a slow reader can hold")
        .check("grep VmRSS /proc/PID/status # with 0, 100 and 200 connections open")
        .confidence(0.7)
}

/// The slope of the least-squares line through points, and r², the share of the spread that it explains.
fn line_through(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|dx, _| dx * dx), sum(&|dx, dy| dx * dy), sum(&|_, dy| dy * dy));
    if xx <= 0.0 || yy <= 0.0 { (0.0, 0.0) } else { (xy / xx, xy * xy / (xx * yy)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_how_well_it_fits() {
        let (slope, fit) = line_through(&[(0.0, 5.0), (10.0, 25.0), (20.0, 45.0)]);
        assert!((slope - 2.0).abs() < 1e-9 && (fit - 1.0).abs() < 1e-9, "{slope} {fit}");
        let (_, fit) = line_through(&[(0.0, 5.0), (10.0, 0.0), (20.0, 5.0), (30.0, 0.0)]);
        assert!(fit < 0.5, "{fit}");
        assert_eq!(line_through(&[(1.0, 2.0), (1.0, 3.0)]), (0.0, 0.0));
        assert_eq!(line_through(&[]), (0.0, 0.0));
    }
}
