//! Where the run changed, in a line: only where it did. The change that weighs most, and how many stretches there are.

use super::Paint;
use super::page::Page;
use crate::words::{listed, rate};
use model::finding::{Diagnosis, Segment};
use model::units::show_duration_ns;
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes the line.
pub fn write<W: Write>(page: &mut Page<'_, W>, diagnosis: &Diagnosis) -> io::Result<()> {
    let pairs = diagnosis.segments.windows(2).map(|pair| (&pair[0], &pair[1]));
    let Some((before, after)) = pairs.max_by(|a, b| weight(a.0, a.1).total_cmp(&weight(b.0, b.1))) else {
        return Ok(());
    };
    page.gap()?;
    let more = match diagnosis.segments.len() {
        2 => String::new(),
        n => format!(" ({n} stretches of their own level in all)"),
    };
    let text = format!("from {:.1} s on: {}{more}", after.from_s, change(before, after));
    page.wrapped(INDENT, (Paint::Heading, "Changed".to_owned()), Paint::Warn, &text)
}

fn change(before: &Segment, after: &Segment) -> String {
    let mut parts = Vec::new();
    if let Some((a, b)) = before.response_p99_us.zip(after.response_p99_us) {
        parts.push(format!("p99 {} → {}", show_duration_ns(a * 1e3), show_duration_ns(b * 1e3)));
    }
    parts.push(format!("{} → {}", rate(before.requests_per_s), rate(after.requests_per_s)));
    if before.failed_per_s + after.failed_per_s > 0.0 {
        parts.push(format!("failed {} → {}", rate(before.failed_per_s), rate(after.failed_per_s)));
    }
    listed(&parts)
}

/// How much changed: the largest ratio of what is shown.
fn weight(before: &Segment, after: &Segment) -> f64 {
    let ratio = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).ln().abs();
    let times = before.response_p99_us.zip(after.response_p99_us).map_or(0.0, |(a, b)| ratio(a, b));
    let failed = ratio(before.failed_per_s, after.failed_per_s);
    times.max(failed).max(ratio(before.requests_per_s, after.requests_per_s))
}
