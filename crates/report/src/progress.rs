//! What is shown while a run goes on: one live line on a terminal, or now and then a line of its own.
//!
//! Pure: a row and a clock in, a line out, never longer than the width. Writing it, and when, is the command's part.

use crate::words::{bounded, duration, grouped, rate};
use model::latency::AtLeast;
use model::recording::Row;

/// Cells of the bar.
const BAR_CELLS: usize = 16;

/// Where a run stands.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The last tick.
    pub row: &'a Row,
    /// Since the start, nanoseconds.
    pub elapsed_ns: u64,
    /// The planned length, warm-up included; `None` when only a count ends the run.
    pub planned_ns: Option<u64>,
    /// The length of the warm-up, nanoseconds.
    pub warmup_ns: u64,
    /// Requests failed so far.
    pub failed: u64,
}

/// Takes the live line away: to the line's start, and erase it (ECMA-48, 8.3.41).
pub const CLEAR: &str = "\r\x1b[K";

impl Progress<'_> {
    /// The live line behind its label, in the place of the one before, on a terminal so wide.
    pub fn redrawn(&self, label: &str, width: usize, unicode: bool) -> String {
        let room = width.saturating_sub(label.chars().count() + 1);
        format!("{CLEAR}{label}{}", self.live(room, unicode))
    }

    /// The live line, without an end of line and without control characters. What does not fit is left out, the
    /// least important first.
    pub fn live(&self, width: usize, unicode: bool) -> String {
        let mut parts = vec![self.time()];
        parts.extend(self.planned_ns.map(|planned_ns| bar(self.elapsed_ns, planned_ns, BAR_CELLS, unicode)));
        parts.extend(self.facts());
        let mut line = String::new();
        for part in parts {
            let separator = if line.is_empty() { 0 } else { 2 };
            let room = width.saturating_sub(line.chars().count() + separator);
            if part.chars().count() > room {
                break;
            }
            line.push_str(&"  "[..separator]);
            line.push_str(&part);
        }
        plain(line, unicode)
    }

    /// A line of its own, for logs.
    pub fn logged(&self, unicode: bool) -> String {
        plain(format!("{}: {}", self.time(), self.facts().join(", ")), unicode)
    }

    /// How long it has gone on, and of how long.
    pub(crate) fn time(&self) -> String {
        let elapsed = format!("{:.0}", self.elapsed_ns as f64 / 1e9);
        match self.planned_ns {
            // Both in seconds: a length in minutes beside them would be read as one of them.
            Some(planned_ns) => format!("{elapsed} of {:.0} s", planned_ns as f64 / 1e9),
            None => format!("{elapsed} s"),
        }
    }

    fn facts(&self) -> Vec<String> {
        let row = self.row;
        // Messages sent while held connections are made are warm-up, too.
        let is_warmup = row.end_ns <= self.warmup_ns || (row.counts.warmup > 0 && row.counts.requests() == 0);
        if is_warmup {
            return vec!["warming up".to_owned(), format!("{} conns", grouped(row.gauges.connections))];
        }
        let mut facts =
            vec![rate(crate::figures::per_s(row.counts.arrived(), row.end_ns.saturating_sub(row.start_ns)))];
        let is_bound = row.is_bound;
        facts.extend(
            row.response_p99_ns.map(|ns| format!("p99 {}", bounded(AtLeast { ns, is_bound }).replace('\u{a0}', " "))),
        );
        facts.push(format!("{} failed", grouped(self.failed)));
        facts.push(format!("{} conns", grouped(row.gauges.connections)));
        if row.gauges.queued > 0 {
            facts.push(format!("{} queued", grouped(row.gauges.queued)));
        }
        facts.extend(row.response_p50_ns.map(|ns| format!("p50 {}", duration(ns))));
        facts
    }
}

/// So much of a length, in so many cells.
pub(crate) fn bar(elapsed_ns: u64, planned_ns: u64, cells: usize, unicode: bool) -> String {
    let share = if planned_ns == 0 { 1.0 } else { (elapsed_ns as f64 / planned_ns as f64).min(1.0) };
    let full = (share * cells as f64) as usize;
    let (on, off) = if unicode { ("━", "─") } else { ("=", "-") };
    format!("{}{}", on.repeat(full), off.repeat(cells.saturating_sub(full)))
}

fn plain(line: String, unicode: bool) -> String {
    if unicode { line } else { line.replace('µ', "u").replace('≥', ">=") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::interval::{Counts, Gauges};

    fn row() -> Row {
        Row {
            start_ns: 3_000_000_000,
            end_ns: 4_000_000_000,
            counts: Counts { ok: 228_000, failed: 3, ..Counts::default() },
            gauges: Gauges { connections: 50, queued: 12, ..Gauges::default() },
            response_p50_ns: Some(210_000),
            response_p99_ns: Some(512_000),
            ..Row::default()
        }
    }

    fn at(row: &Row, elapsed_s: u64, planned_s: Option<u64>) -> Progress<'_> {
        let ns = |s: u64| s * 1_000_000_000;
        Progress { row, elapsed_ns: ns(elapsed_s), planned_ns: planned_s.map(ns), warmup_ns: ns(1), failed: 1234 }
    }

    #[test]
    fn the_live_line_says_the_most_important_first_and_never_wraps() {
        let row = row();
        let p = at(&row, 4, Some(10));
        assert_eq!(
            p.live(120, true),
            "4 of 10 s  ━━━━━━──────────  228k/s  p99 512 µs  1,234 failed  50 conns  12 queued  p50 210 µs"
        );
        assert_eq!(p.live(61, false), "4 of 10 s  ======----------  228k/s  p99 512 us  1,234 failed");
        for width in 0..130 {
            assert!(p.live(width, true).chars().count() <= width);
        }
    }

    #[test]
    fn a_logged_line_and_a_warm_up() {
        let row = row();
        assert_eq!(
            at(&row, 4, None).logged(true),
            "4 s: 228k/s, p99 512 µs, 1,234 failed, 50 conns, 12 queued, p50 210 µs"
        );
        let early = Row { end_ns: 1_000_000_000, start_ns: 0, ..row };
        assert_eq!(at(&early, 1, Some(10)).logged(true), "1 of 10 s: warming up, 50 conns");
    }
}
