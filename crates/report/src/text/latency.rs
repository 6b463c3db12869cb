//! The latency table, and the response times as bars one can look at.
//!
//! Bars: log-spaced bins on preferred numbers (ISO 3: R10, R5, or 1-2-5), the finest that needs at most
//! [`BINS_MAX`] rows from the first to the last thousandth; the thousandth beyond on either side is a row each, so a
//! single outlier does not squeeze the rest. A bar's length is the share of requests, linear, from zero.

use super::headline::percent;
use super::page::{Page, Span};
use super::{Paint, Style};
use crate::figures::{Permille, quantile};
use crate::words::{duration, length};
use hdrhistogram::Histogram;
use model::LatencyKind;
use model::recording::Recording;
use std::io::{self, Write};

/// Rows of bars, those for the two ends apart.
const BINS_MAX: usize = 14;

/// Preferred numbers a decade, from fine to coarse, in hundredths.
const SERIES: [&[u64]; 4] =
    [&[100, 125, 160, 200, 250, 315, 400, 500, 630, 800], &[100, 160, 250, 400, 630], &[100, 200, 500], &[100]];

const QUANTILES: [(u64, &str); 4] = [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")];

/// What each kind measures, in the order of the table.
const KINDS: [(LatencyKind, &str, &str); 8] = [
    (LatencyKind::Response, "response", "from due to done"),
    (LatencyKind::Service, "service", "from sent to done"),
    (LatencyKind::FirstByte, "first byte", "from sent to its first byte"),
    (LatencyKind::Queue, "queue", "for a free connection"),
    (LatencyKind::Lag, "lag", "the generator's own"),
    (LatencyKind::Connect, "connect", "opening a connection"),
    (LatencyKind::Tls, "tls", "the TLS handshake"),
    (LatencyKind::Failed, "failed", "from due to failed"),
];

/// Quantiles of every kind that was measured.
pub fn table<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let latency = &recording.totals.sum.latency;
    if KINDS.iter().all(|(kind, ..)| latency.of(*kind).is_empty()) {
        return Ok(());
    }
    page.gap()?;
    // What each row means is said where there is room for it.
    let explained = page.style().width >= 98;
    let columns: String = QUANTILES.iter().map(|(_, name)| format!("{name:>11}")).collect();
    page.line(&[(Paint::Heading, format!("{:13}", "Latency")), (Paint::Dim, format!("{columns}{:>11}", "max"))])?;
    for (kind, name, meaning) in KINDS {
        let h = latency.of(kind);
        // A queue that nobody waited in is no news.
        if h.is_empty() || (kind == LatencyKind::Queue && h.max() == 0) {
            continue;
        }
        let shown = |value: Option<u64>| format!("{:>11}", value.map_or("–".to_owned(), duration));
        let cells: String = QUANTILES.iter().map(|(q, _)| shown(quantile(h, Permille(*q)))).collect();
        let paint = if kind == LatencyKind::Response { Paint::Strong } else { Paint::Plain };
        let mut spans = vec![(paint, format!("  {name:11}")), (paint, cells + &shown(Some(h.max())))];
        if explained {
            spans.push((Paint::Dim, format!("   {meaning}")));
        }
        page.line(&spans)?;
    }
    Ok(())
}

/// The response times of successes.
pub fn bars<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let h = recording.totals.sum.latency.of(LatencyKind::Response);
    if h.len() < Permille(500).samples_needed() {
        return Ok(());
    }
    page.gap()?;
    page.line(&[(Paint::Heading, "Response time".to_owned())])?;
    let bins = Bins::of(h);
    let largest = bins.counts.iter().copied().max().unwrap_or(1);
    let room = page.style().width.saturating_sub(44).clamp(10, 60);
    for (i, count) in bins.counts.iter().enumerate() {
        let share = percent(100.0 * *count as f64 / h.len() as f64);
        let bar = bar(*count as f64 / largest as f64, room, page.style());
        let marks: Vec<&str> = QUANTILES
            .iter()
            .filter(|(q, _)| quantile(h, Permille(*q)).is_some_and(|value| bins.index_of(value) == i))
            .map(|(_, name)| *name)
            .collect();
        let label: Span = (Paint::Plain, format!("{:>21}", bins.label(i)));
        let blanks = if bar.is_empty() { "" } else { " " };
        page.line(&[
            label,
            (Paint::Dim, format!("{share:>10}  ")),
            (Paint::Bar, bar),
            (Paint::Strong, format!("{blanks}{}", marks.join(" "))),
        ])?;
    }
    Ok(())
}

/// Bins by their lower edges; the first reaches down to 0 and the last up without end.
struct Bins {
    edges_ns: Vec<u64>,
    counts: Vec<u64>,
    min_ns: u64,
    max_ns: u64,
}

impl Bins {
    fn of(h: &Histogram<u64>) -> Self {
        let (low, high) = (h.value_at_quantile(0.001).max(1), h.value_at_quantile(0.999).max(1));
        let edges_ns = SERIES
            .iter()
            .map(|series| edges(series, low, high))
            .find(|edges| edges.len() <= BINS_MAX + 1)
            .unwrap_or_else(|| vec![low]);
        let mut bins = Bins { counts: vec![0; edges_ns.len() + 1], edges_ns, min_ns: h.min(), max_ns: h.max() };
        for value in h.iter_recorded() {
            let index = bins.index_of(h.lowest_equivalent(value.value_iterated_to()));
            bins.counts[index] += value.count_at_value();
        }
        // The ends are rows only where they hold something.
        if bins.counts.first() == Some(&0) && bins.counts.len() > 1 {
            bins.counts.remove(0);
            bins.edges_ns.remove(0);
        }
        if bins.counts.last() == Some(&0) && bins.counts.len() > 1 {
            bins.counts.pop();
            bins.edges_ns.pop();
        }
        bins
    }

    fn index_of(&self, value_ns: u64) -> usize {
        self.edges_ns.partition_point(|edge| *edge <= value_ns).min(self.counts.len() - 1)
    }

    fn label(&self, i: usize) -> String {
        let from = if i == 0 { None } else { self.edges_ns.get(i - 1) };
        let low = from.copied().unwrap_or(self.min_ns);
        let high = self.edges_ns.get(i).copied().unwrap_or(self.max_ns);
        let ((low_text, low_unit), (high_text, high_unit)) = (split(low), split(high));
        if low_unit == high_unit {
            format!("{low_text} – {high_text} {high_unit}")
        } else {
            format!("{low_text} {low_unit} – {high_text} {high_unit}")
        }
    }
}

fn split(ns: u64) -> (String, String) {
    let text = if ns == 0 { "0 ns".to_owned() } else { length(ns) };
    text.split_once(' ').map(|(n, unit)| (n.to_owned(), unit.to_owned())).unwrap_or((text, String::new()))
}

/// The preferred numbers from the one at or below `low` to the one above `high`, nanoseconds.
fn edges(series: &[u64], low: u64, high: u64) -> Vec<u64> {
    let mut all = Vec::new();
    let mut decade = 1u64;
    // The range ends at an hour: below 10^13 ns.
    for _ in 0..14 {
        all.extend(series.iter().map(|n| n * decade / 100));
        decade *= 10;
    }
    all.dedup();
    let first = all.partition_point(|edge| *edge <= low).saturating_sub(1);
    let last = all.partition_point(|edge| *edge <= high).min(all.len() - 1);
    all.drain(first..=last).collect()
}

/// A bar to an eighth of a cell; what is not nothing is at least the thinnest.
fn bar(share: f64, cells: usize, style: Style) -> String {
    let eighths = (share * cells as f64 * 8.0).round() as usize;
    if share <= 0.0 {
        return String::new();
    }
    if !style.unicode {
        return "#".repeat(eighths.div_ceil(8).max(1));
    }
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = eighths.max(1);
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(values: &[(u64, u64)]) -> Bins {
        let mut h = model::latency::histogram::<u64>();
        values.iter().for_each(|(value, n)| h.saturating_record_n(*value, *n));
        let bins = Bins::of(&h);
        assert_eq!(bins.counts.iter().sum::<u64>(), h.len());
        assert!(bins.counts.len() <= BINS_MAX + 2, "{} rows", bins.counts.len());
        assert_eq!(bins.edges_ns.len() + 1, bins.counts.len());
        assert!(bins.edges_ns.is_sorted_by(|a, b| a < b));
        bins
    }

    #[test]
    fn every_sample_is_in_a_row_and_rows_are_few_whatever_the_spread() {
        bins(&[(1, 20)]);
        bins(&[(0, 20)]);
        bins(&[(u64::MAX, 20)]);
        bins(&[(0, 1), (1, 1), (u64::MAX, 1)]);
        bins(&(0..42).map(|i| (1 << i, 10)).collect::<Vec<_>>());
        let one_outlier = bins(&[(100_000, 5000), (150_000, 5000), (200_000, 5000), (3_000_000_000, 1)]);
        assert_eq!(one_outlier.counts.last(), Some(&1));
        assert_eq!(one_outlier.label(0), "100 – 125 µs");
        assert!(one_outlier.label(one_outlier.counts.len() - 1).ends_with("s"));
    }

    #[test]
    fn bars_are_linear_and_never_vanish() {
        let (u, a) =
            (Style { color: false, width: 80, unicode: true }, Style { color: false, width: 80, unicode: false });
        assert_eq!([bar(1.0, 4, u), bar(0.5, 4, u), bar(1e-9, 4, u), bar(0.0, 4, u)], ["████", "██", "▏", ""]);
        assert_eq!([bar(1.0, 4, a), bar(1e-9, 4, a), bar(0.0, 4, a)], ["####", "#", ""]);
    }
}
