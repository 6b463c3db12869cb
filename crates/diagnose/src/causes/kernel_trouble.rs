//! `kernel-trouble`: the kernel itself was in trouble, and requests failed or stalled at that moment.
//!
//! Evidence: (kernel) its log has a bug, an oops, a warning, a lockup, a stall, a hung task, a failed allocation of pages, an
//! error of a disk, or a full table of connections or neighbours; (client) within seconds of it requests failed or were slow.
//! Refuted where nothing of that happened then: what is in the log is told all the same. What has a name of its own (`oom-kill`,
//! `syn-queue-full`, `tcp-memory`, a process's segfault: `process-crash`) is not counted here. Not observable where the log
//! cannot be read.

use super::pauses::excess_within;
use crate::evidence::{Client, Kernel};
use crate::facts::{Facts, percent, seconds};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::TROUBLE_LOSS;
use model::Event;
use model::finding::{LossKind, Severity};
use model::recording::Row;
use std::collections::BTreeMap;

/// What counts, in the words of `host/kernel_log`.
const TROUBLE: [(&str, &str); 12] = [
    ("kernel-panic", "a panic"),
    ("kernel-bug", "a bug"),
    ("kernel-oops", "an oops"),
    ("kernel-hard-lockup", "a CPU that answers no interrupt"),
    ("kernel-soft-lockup", "a CPU that is not given back"),
    ("kernel-stall", "a CPU that does not come to rest (RCU stall)"),
    ("kernel-hung-task", "a task that hangs"),
    ("kernel-allocation-failure", "pages of memory that could not be had"),
    ("kernel-io-error", "an error of a disk"),
    ("kernel-conntrack-full", "a full table of connections (conntrack)"),
    ("kernel-neighbour-full", "a full table of neighbours (ARP)"),
    ("kernel-warning", "a warning"),
];
/// From so long before a record to so long after it is its moment: some are written when what they tell of is over, others
/// at its beginning.
const BEFORE_NS: u64 = 1_000_000_000;
const AFTER_NS: u64 = 3_000_000_000;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "kernel-trouble", needs: Needs::Connections, reads: &[&["host/kernel_log"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let word = |event: &Event| TROUBLE.iter().find(|(kind, _)| *kind == event.kind).map(|(_, word)| *word);
    let is_then = |event: &Event| u64::try_from(event.at_ns).is_ok_and(|at_ns| at_ns <= facts.end_ns);
    let events = || facts.recording.events.iter().filter(|event| is_then(event) && word(event).is_some());
    let Some(first) = events().min_by_key(|event| rank(event)) else {
        return Verdict::refuted("the kernel's log had no trouble in it");
    };
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events() {
        *kinds.entry(word(event).unwrap_or_default()).or_default() += event.details.times.unwrap_or(1);
    }
    let all: Vec<String> = kinds.iter().map(|(word, times)| format!("{word} × {times}")).collect();
    let at_s = seconds(u64::try_from(first.at_ns).unwrap_or(0));
    let text = format!("the kernel's log: {}; at {at_s:.1} s \"{}\"", all.join(", "), first.text);
    let kernel = facts.piece::<Kernel>(text, "kernel_log_events", kinds.values().sum::<u64>() as f64, "records");
    let spans = spans(events());
    let rows = facts.rows.iter().filter(|row| is_in(row, &spans));
    let failed = rows.map(|row| row.counts.failed).fold(0, u64::saturating_add) as f64;
    let all_failed = crate::ledger::failures(facts);
    let of_failures = if all_failed > 0.0 { (failed / all_failed).min(1.0) } else { 0.0 };
    let of_slow = excess_within(facts, &spans);
    let slow_time = facts.kinds.slow_time.unwrap_or(0.0);
    let length: u64 = spans.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    // What falls on it by chance is as much of all as its moments are of the run.
    let by_chance = (length as f64 / 1e9 / facts.measured_s().max(1e-9)).min(1.0);
    let (kind, share, lost) = match of_failures > of_slow {
        true => (LossKind::Failed, of_failures, format!("{} of the failures", percent(of_failures))),
        false => (LossKind::Slow, of_slow, format!("{} of the slow requests' time", percent(of_slow))),
    };
    let text = format!("{lost} fell within seconds of it, {} of the measured time", percent(by_chance));
    let client = facts.piece::<Client>(text, "loss.at_that_moment", share, "ratio").from(TROUBLE_LOSS.value);
    let is_lost = (kind == LossKind::Failed && failed > 0.0) || slow_time > 0.0;
    if !is_lost || share < TROUBLE_LOSS.value || share < 2.0 * by_chance {
        return Verdict::refuted("the kernel's log has trouble in it, and requests did not fail or stall then")
            .because(kernel.into())
            .because(client.into());
    }
    let title = format!("the kernel was in trouble: {}, at {at_s:.1} s", word(first).unwrap_or_default());
    Verdict::proved(Severity::Error, title, kernel, client)
        .explains(kind, share, (share - by_chance).max(0.0), share)
        .remedy("Read the log around that moment; what it names (a driver, a disk, a file system, memory) comes before the server")
        .check("dmesg -T --level=emerg,alert,crit,err,warn | tail -50; journalctl -k -p warning")
        .confidence(0.75)
}

/// The worst first.
fn rank(event: &Event) -> usize {
    TROUBLE.iter().position(|(kind, _)| *kind == event.kind).unwrap_or(TROUBLE.len())
}

/// The moments of some records, those that overlap as one, in the order of time.
fn spans<'e>(events: impl Iterator<Item = &'e Event>) -> Vec<(u64, u64)> {
    let of = |event: &Event| {
        let at_ns = u64::try_from(event.at_ns).unwrap_or(0);
        (at_ns.saturating_sub(BEFORE_NS), at_ns.saturating_add(AFTER_NS))
    };
    super::pauses::joined(events.map(of).collect())
}

fn is_in(row: &Row, spans: &[(u64, u64)]) -> bool {
    spans.iter().any(|(from_ns, to_ns)| row.start_ns < *to_ns && *from_ns < row.end_ns)
}
