//! The latency table, and the response times as bars one can look at.
//!
//! Bars: log-spaced bins on preferred numbers (ISO 3: R10, R5, or 1-2-5), the finest that needs at most
//! [`BINS_MAX`] rows from the first to the last thousandth; the thousandth beyond on either side is a row each, so a
//! single outlier does not squeeze the rest. A bar's length is the share of requests, linear, from zero.

pub mod gaps;
pub mod phases;

use super::page::Page;
use super::{Paint, Style};
use crate::figures::{Permille, quantile};
use crate::words::{bounded, length, percent};
use model::latency::AtLeast;
use model::recording::Recording;
use model::{Histogram, LatencyKind};
use std::io::{self, Write};

/// Rows of bars, those for the two ends apart.
const BINS_MAX: usize = 14;

/// Preferred numbers a decade, from fine to coarse, in hundredths.
const SERIES: [&[u64]; 4] =
    [&[100, 125, 160, 200, 250, 315, 400, 500, 630, 800], &[100, 160, 250, 400, 630], &[100, 200, 500], &[100]];

pub(crate) const QUANTILES: [(u64, &str); 4] = [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")];
/// Where a page is too narrow for all of them.
const FEWER: [(u64, &str); 3] = [(500, "p50"), (990, "p99"), (999, "p99.9")];
/// Columns that the table of all of them takes.
const TABLE_WIDTH: usize = 68;

/// What each kind measures, in the order of the table.
pub(crate) const KINDS: [(LatencyKind, &str, &str); 8] = [
    (LatencyKind::Response, "response", "from when it was due to its reply"),
    (LatencyKind::Service, "service", "from sending it to its reply"),
    (LatencyKind::FirstByte, "first byte", "from sending it to the reply's first byte"),
    (LatencyKind::Queue, "queue", "for a free connection"),
    (LatencyKind::Lag, "lag", "the generator's own"),
    (LatencyKind::Connect, "connect", "opening a connection"),
    (LatencyKind::Tls, "tls", "the TLS handshake"),
    (LatencyKind::Failed, "failed", "from when it was due to its failure"),
];

/// Quantiles of every kind that was measured.
pub fn table<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let latency = &recording.totals.sum.latency;
    if KINDS.iter().all(|(kind, ..)| latency.count(*kind) == 0) {
        return Ok(());
    }
    page.gap()?;
    // What each row means is said where there is room for it.
    let explained = page.style().width >= 98;
    let quantiles = if page.style().width >= TABLE_WIDTH { &QUANTILES[..] } else { &FEWER };
    let columns: String = quantiles.iter().map(|(_, name)| format!("{name:>11}")).collect();
    page.line(&[(Paint::Heading, format!("{:13}", "Latency")), (Paint::Dim, format!("{columns}{:>11}", "max"))])?;
    for (kind, name, meaning) in KINDS {
        let max = latency.max(kind);
        // A queue that nobody waited in is no news.
        if max.is_none_or(|max| kind == LatencyKind::Queue && max.ns == 0) {
            continue;
        }
        let shown = |value: Option<AtLeast>| format!("{:>11}", value.map_or("–".to_owned(), bounded));
        let cells: String = quantiles.iter().map(|(q, _)| shown(quantile(latency, kind, Permille(*q)))).collect();
        let paint = if kind == LatencyKind::Response { Paint::Strong } else { Paint::Plain };
        let mut spans = vec![(paint, format!("  {name:11}")), (paint, cells + &shown(max))];
        if explained {
            spans.push((Paint::Dim, format!("   {meaning}")));
        }
        page.line(&spans)?;
    }
    if !explained && latency.count(LatencyKind::Response) > 0 {
        let text = "response: from when a request was due; service: from when it was sent";
        page.wrapped(2, (Paint::Plain, String::new()), Paint::Dim, text)?;
    }
    Ok(())
}

/// The response times of successes, and how many requests had not ended.
pub fn bars<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let latency = &recording.totals.sum.latency;
    let (h, all) = (latency.of(LatencyKind::Response), latency.count(LatencyKind::Response));
    if h.len() < Permille(500).samples_needed() {
        return Ok(());
    }
    page.gap()?;
    page.line(&[(Paint::Heading, "Response time".to_owned())])?;
    let bins = bins(h);
    let unfinished = latency.of(LatencyKind::ResponseCensored);
    let largest = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(unfinished.len());
    let marks_of = |is_here: &dyn Fn(AtLeast) -> bool| {
        let marks: Vec<&str> = QUANTILES
            .iter()
            .filter(|(q, _)| quantile(latency, LatencyKind::Response, Permille(*q)).is_some_and(is_here))
            .map(|(_, name)| *name)
            .collect();
        marks.join(" ")
    };
    let room = page.style().width.saturating_sub(52).clamp(10, 64);
    let last = bins.last().map_or(0, |bin| bin.high_ns);
    let mut row = |label: String, count: u64, marks: String| {
        let share = percent(100.0 * count as f64 / all as f64);
        let bar = bar(count as f64 / largest as f64, room, page.style());
        let blank = if bar.is_empty() { "" } else { " " };
        page.line(&[
            (Paint::Plain, format!("{label:>19}")),
            (Paint::Dim, format!("{share:>10}  ")),
            (Paint::Bar, bar),
            (Paint::Strong, format!("{blank}{marks}")),
        ])
    };
    // A bound beyond all that ended is of those that did not.
    let is_beyond = |figure: AtLeast| figure.is_bound && (figure.ns > last || figure.ns >= unfinished.min());
    for (i, bin) in bins.iter().enumerate() {
        let is_here = |figure: AtLeast| !is_beyond(figure) && index_of(&bins, figure.ns) == i;
        row(bin.label(), bin.count, marks_of(&is_here))?;
    }
    if !unfinished.is_empty() {
        row(format!("≥ {} unfinished", length(unfinished.min())), unfinished.len(), marks_of(&is_beyond))?;
    }
    Ok(())
}

/// One row of bars: responses from `low_ns` on and below the next row's.
pub(crate) struct Bin {
    pub(crate) low_ns: u64,
    pub(crate) high_ns: u64,
    pub(crate) count: u64,
}

impl Bin {
    pub(crate) fn label(&self) -> String {
        let ((low, low_unit), (high, high_unit)) = (split(self.low_ns), split(self.high_ns));
        if low_unit == high_unit {
            format!("{low} – {high} {high_unit}")
        } else {
            format!("{low} {low_unit} – {high} {high_unit}")
        }
    }
}

pub(crate) fn bins(h: &Histogram<u64>) -> Vec<Bin> {
    let (low, high) = (h.value_at_quantile(0.001).max(1), h.value_at_quantile(0.999).max(1));
    // The coarsest, decades, needs at most fourteen rows for the whole range.
    let edges_ns = SERIES
        .iter()
        .map(|series| edges(series, low, high))
        .find(|edges| edges.len() <= BINS_MAX + 1)
        .unwrap_or_else(|| vec![low]);
    let (first, last) = (edges_ns.first().copied().unwrap_or(low), edges_ns.last().copied().unwrap_or(high));
    let mut bins = vec![Bin { low_ns: h.min().min(first), high_ns: first, count: 0 }];
    bins.extend(edges_ns.windows(2).map(|edge| Bin { low_ns: edge[0], high_ns: edge[1], count: 0 }));
    bins.push(Bin { low_ns: last, high_ns: h.max().max(last), count: 0 });
    for (value_ns, count) in h.iter_recorded() {
        let index = index_of(&bins, value_ns);
        bins[index].count += count;
    }
    // The ends are rows only where they hold something.
    if bins.last().is_some_and(|bin| bin.count == 0) {
        bins.pop();
    }
    if bins.first().is_some_and(|bin| bin.count == 0) {
        bins.remove(0);
    }
    bins
}

fn index_of(bins: &[Bin], value_ns: u64) -> usize {
    bins.iter().rposition(|bin| bin.low_ns <= value_ns).unwrap_or(0)
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

    fn check(values: &[(u64, u64)]) -> Vec<Bin> {
        let mut h = Histogram::<u64>::new();
        values.iter().for_each(|(value, n)| h.record_n(*value, *n));
        let bins = bins(&h);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), h.len());
        assert!(bins.len() <= BINS_MAX + 2, "{} rows", bins.len());
        assert!(bins.iter().all(|bin| bin.low_ns <= bin.high_ns));
        assert!(bins.windows(2).all(|pair| pair[0].high_ns == pair[1].low_ns));
        bins
    }

    #[test]
    fn every_sample_is_in_a_row_and_rows_are_few_whatever_the_spread() {
        check(&[(1, 20)]);
        check(&[(0, 20)]);
        check(&[(u64::MAX, 20)]);
        check(&[(0, 1), (1, 1), (u64::MAX, 1)]);
        check(&(0..42).map(|i| (1 << i, 10)).collect::<Vec<_>>());
        let outliers = check(&[(1_000, 1), (110_000, 5000), (150_000, 5000), (210_000, 5000), (3_000_000_000, 1)]);
        let labels: Vec<String> = outliers.iter().map(Bin::label).collect();
        assert_eq!(labels[..4], ["1 – 100 µs", "100 – 125 µs", "125 – 160 µs", "160 – 200 µs"]);
        assert_eq!(labels[5], "250 µs – 3 s");
        assert_eq!(outliers.iter().map(|bin| bin.count).collect::<Vec<_>>(), [1, 5000, 5000, 0, 5000, 1]);
    }

    #[test]
    fn bars_are_linear_and_never_vanish() {
        let (u, a) =
            (Style { color: false, width: 80, unicode: true }, Style { color: false, width: 80, unicode: false });
        assert_eq!([bar(1.0, 4, u), bar(0.5, 4, u), bar(1e-9, 4, u), bar(0.0, 4, u)], ["████", "██", "▏", ""]);
        assert_eq!([bar(1.0, 4, a), bar(1e-9, 4, a), bar(0.0, 4, a)], ["####", "#", ""]);
    }
}
