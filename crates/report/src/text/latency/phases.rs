//! The phases of a run, a line each: when, how much, how fast.

use crate::figures::{Permille, quantile};
use crate::text::Paint;
use crate::text::page::Page;
use crate::words::{bounded, grouped, rate};
use model::LatencyKind;
use model::recording::Recording;
use std::io::{self, Write};

/// Writes them; nothing of a run without phases.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let phases = &recording.plan.phases;
    if phases.is_empty() {
        return Ok(());
    }
    page.gap()?;
    page.line(&[(Paint::Heading, "Phases".to_owned())])?;
    let widest = phases.iter().map(|phase| phase.name.chars().count()).max().unwrap_or(0);
    for (at, phase) in phases.iter().enumerate() {
        let when = format!("{:.1} s to {:.1} s", phase.start_ns as f64 / 1e9, phase.end_ns as f64 / 1e9);
        let head = (Paint::Dim, format!("  {:widest$}  {when:>18}  ", phase.name));
        let Some(part) = recording.totals.phases.get(at).filter(|part| part.is_reached(recording.plan.tick_ns)) else {
            page.line(&[head, (Paint::Warn, "not reached".to_owned())])?;
            continue;
        };
        let of = |permille| {
            quantile(&part.sum.latency, LatencyKind::Response, Permille(permille)).map_or("-".to_owned(), bounded)
        };
        let figures = format!("{:>12}   p50 {:>9}   p99 {:>9}", rate(part.requests_per_s()), of(500), of(990));
        let mut line = vec![head, (Paint::Plain, figures)];
        for (n, what) in [(part.sum.counts.failed, "failed"), (part.sum.counts.dropped, "dropped")] {
            if n > 0 {
                line.push((Paint::Bad, format!("   {} {what}", grouped(n))));
            }
        }
        page.line(&line)?;
    }
    Ok(())
}
