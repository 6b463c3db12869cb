//! The course of a run as two lines of blocks: throughput, and the 99th percentile of the response time.
//!
//! Scales begin at zero. A cell is the mean rate, and the largest p99, of the ticks it stands for. Not drawn for
//! runs of three seconds or less, where there is nothing to see.

use super::Paint;
use super::page::Page;
use crate::figures::{measured_rows, per_s};
use crate::words::{bounded, length, rate};
use model::latency::AtLeast;
use model::recording::{Recording, Row};
use std::io::{self, Write};

const RUN_NS_MIN: u64 = 3_000_000_000;
const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ',', '-', '=', '+', '*', '#'];

/// Writes both lines.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let rows: Vec<&Row> = measured_rows(recording).collect();
    let length_ns = rows.last().map_or(0, |last| last.end_ns.saturating_sub(rows[0].start_ns));
    if length_ns <= RUN_NS_MIN || rows.len() < 3 {
        return Ok(());
    }
    let cells = page.style().width.saturating_sub(48).clamp(16, 72);
    let per_cell = rows.len().div_ceil(cells);
    let rates: Vec<Option<f64>> = rows
        .chunks(per_cell)
        .map(|chunk| {
            let requests = chunk.iter().map(|row| row.counts.arrived()).sum();
            let time_ns = chunk.iter().map(|row| row.end_ns.saturating_sub(row.start_ns)).sum::<u64>();
            (time_ns > 0).then(|| per_s(requests, time_ns))
        })
        .collect();
    let p99s: Vec<Option<f64>> = rows
        .chunks(per_cell)
        .map(|chunk| chunk.iter().filter_map(|row| row.response_p99_ns).max().map(|ns| ns as f64))
        .collect();
    page.gap()?;
    let each = length(length_ns / rates.len() as u64);
    page.line(&[(Paint::Heading, "Course".to_owned()), (Paint::Dim, format!("       each mark {each}"))])?;
    let name = if recording.plan.is_handshake_only() { "handsh./s" } else { "requests/s" };
    line(page, name, &rates, rate)?;
    // Which of the largest it is does not matter: a bound is one wherever it stands.
    let bounds: Vec<u64> = rows.iter().filter(|row| row.is_bound).filter_map(|row| row.response_p99_ns).collect();
    line(page, "p99", &p99s, |ns| bounded(AtLeast { ns: ns as u64, is_bound: bounds.contains(&(ns as u64)) }))
}

fn line<W: Write>(
    page: &mut Page<'_, W>,
    name: &str,
    values: &[Option<f64>],
    show: impl Fn(f64) -> String,
) -> io::Result<()> {
    let known = || values.iter().flatten().copied();
    if known().next().is_none() {
        return Ok(());
    }
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    let marks = if page.style().unicode { UNICODE } else { ASCII };
    let drawn: String = values
        .iter()
        .map(|value| match value {
            None => ' ',
            Some(_) if high <= 0.0 => marks[0],
            Some(value) => marks[((value / high * 8.0).ceil() as usize).clamp(1, 8) - 1],
        })
        .collect();
    page.line(&[
        (Paint::Plain, format!("  {name:11}")),
        (Paint::Bar, drawn),
        (Paint::Dim, format!("  {} to {}", show(low), show(high))),
    ])
}
