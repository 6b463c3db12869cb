//! `kernel-trouble`: the kernel itself was in trouble, and requests failed or stalled at that moment.
//!
//! Evidence: (kernel) its log has a bug, an oops, a warning, a lockup, a stall, a hung task, a failed allocation of pages, an
//! error of a disk, or a full table of connections or neighbours; (client) within seconds of it requests failed or were slow.
//! Refuted where nothing of that happened then: what is in the log is told all the same. What has a name of its own (`oom-kill`,
//! `syn-queue-full`, `tcp-memory`, a process's segfault: `process-crash`) is not counted here. Not observable where the log
//! cannot be read. Without a load (a console's text that was imported, a machine that was watched) a fault in the kernel is told by
//! the log and (process) the task in which it was, which does not outlive it; what it cost was not seen. A fault has a
//! fingerprint in the log's text (`observe`'s `kernel_text.rs`), by which one is known again.

use super::pauses::excess_within;
use crate::evidence::{Client, Kernel, Piece, Process};
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
    CauseRule { id: "kernel-trouble", needs: Needs::Nothing, reads: &[&["host/kernel_log", "import/dmesg"]], judge };

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
    // The worst may be the end of it (a panic); where it began is what has a place.
    let fault = events().find(|event| event.text.contains(", fingerprint "));
    let place = fault.filter(|fault| fault.text != first.text).map(|fault| {
        let at_s = seconds(u64::try_from(fault.at_ns).unwrap_or(0));
        let text = format!("at {at_s:.1} s \"{}\"", fault.text);
        facts.piece::<Kernel>(text, "kernel_log_events", fault.details.times.unwrap_or(1) as f64, "records")
    });
    if facts.recording.capsule.why_no_load().is_some() {
        return without_load(facts, events(), word(first).unwrap_or_default(), at_s, kernel, place);
    }
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
    let title = title(word(first).unwrap_or_default(), at_s);
    let verdict = Verdict::proved(Severity::Error, title, kernel, client);
    let verdict = place.into_iter().fold(verdict, |verdict, place| verdict.because(place.into()));
    advised(verdict.explains(kind, share, (share - by_chance).max(0.0), share))
}

fn title(word: &str, at_s: f64) -> String {
    format!("the kernel was in trouble: {word}, at {at_s:.1} s")
}

fn advised(verdict: Verdict<OfTarget>) -> Verdict<OfTarget> {
    verdict
        .remedy("Read the log around that moment; what it names (a driver, a disk, a file system, memory) comes before the server")
        .check("dmesg -T --level=emerg,alert,crit,err,warn | tail -50; journalctl -k -p warning")
        .confidence(0.75)
}

/// Of a recording in which nobody asked for anything.
fn without_load<'e>(
    facts: &Facts<'_>,
    mut events: impl Iterator<Item = &'e Event>,
    word: &str,
    at_s: f64,
    kernel: Piece<Kernel>,
    place: Option<Piece<Kernel>>,
) -> Verdict<OfTarget> {
    let Some((event, name)) = events.find_map(|event| Some((event, event.details.process.as_ref()?))) else {
        return Verdict::not_observable("whether requests failed or stalled then", "no load was put on")
            .because(kernel.into());
    };
    let pid = event.details.pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
    let text = format!("it was in {name}{pid}, which does not outlive it");
    let process = facts.piece::<Process>(text, "kernel_log_events", 1.0, "tasks");
    let verdict = Verdict::proved(Severity::Error, title(word, at_s), kernel, process);
    advised(place.into_iter().fold(verdict, |verdict, place| verdict.because(place.into())))
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
