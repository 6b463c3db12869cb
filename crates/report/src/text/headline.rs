//! The first lines: what was done, how much, how fast, how sure.
//!
//! If someone reads no further, they have read the result and whether to believe it.

use super::Paint;
use super::page::{Page, Span};
use crate::figures::{Permille, quantile, requested_per_s};
use crate::words::{byte_rate, counted, duration, figure, grouped, listed, of_plan, percent, rate};
use model::LatencyKind;
use model::finding::Diagnosis;
use model::recording::{End, Recording};
use std::io::{self, Write};

/// Where text begins beside the three questions.
const INDENT: usize = 13;

/// Writes them.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording, diagnosis: &Diagnosis) -> io::Result<()> {
    let names: Vec<&str> = recording.plan.origins.iter().map(|o| o.name.as_str()).collect();
    let target = match names.as_slice() {
        [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} more", rest.len()),
        _ => names.join(", "),
    };
    page.line(&[(Paint::Strong, target)])?;
    page.wrapped(0, (Paint::Plain, String::new()), Paint::Dim, &of_plan(&recording.plan))?;
    page.gap()?;
    how_much(page, recording)?;
    how_fast(page, recording)?;
    how_sure(page, recording, diagnosis)?;
    asked_for(page, recording)
}

fn label(text: &str) -> Span {
    (Paint::Dim, format!("  {text}"))
}

fn how_much<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let totals = &recording.totals;
    let counts = &totals.sum.counts;
    let requests_per_s = totals.requests_per_s();
    let unit = recording.plan.unit();
    let mut first = vec![
        (Paint::Dim, format!("{:INDENT$}", "  how much")),
        (Paint::Strong, format!("{} {unit}s/s", figure(requests_per_s))),
    ];
    let in_time = &totals.in_time;
    for (bytes, way) in [(in_time.bytes_received, "received"), (in_time.bytes_sent, "sent")] {
        if bytes > 0 && totals.measured_ns > 0 {
            first.push((Paint::Plain, format!("   {} {way}", byte_rate(totals.per_s(bytes)))));
        }
    }
    page.line(&first)?;
    let mut second =
        vec![(Paint::Plain, format!("{:INDENT$}", "")), (Paint::Plain, format!("{} ok", grouped(counts.ok)))];
    if counts.failed > 0 {
        second.push((Paint::Plain, format!(" ({})", rate(totals.per_s(in_time.ok)))));
    }
    let failed = if counts.failed > 0 {
        let share = 100.0 * counts.failed as f64 / counts.requests() as f64;
        (Paint::Bad, format!("{} failed ({})", grouped(counts.failed), percent(share)))
    } else {
        (Paint::Plain, "0 failed".to_owned())
    };
    second.extend([(Paint::Plain, ", ".to_owned()), failed]);
    for (n, what) in [(counts.dropped, "dropped"), (totals.in_flight_at_end, "without an end")] {
        if n > 0 {
            second.extend([(Paint::Plain, ", ".to_owned()), (Paint::Warn, format!("{} {what}", grouped(n)))]);
        }
    }
    page.line(&second)
}

fn how_fast<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let response = recording.totals.sum.latency.of(LatencyKind::Response);
    let failed = recording.totals.sum.latency.of(LatencyKind::Failed);
    let quantiles = |h: &hdrhistogram::Histogram<u64>| -> Vec<String> {
        [(500, "p50"), (990, "p99"), (999, "p99.9")]
            .into_iter()
            .filter_map(|(q, name)| Some(format!("{name} {}", duration(quantile(h, Permille(q))?))))
            .collect()
    };
    let text = if response.is_empty() && failed.is_empty() {
        format!("no {} ended", recording.plan.unit())
    } else if response.is_empty() {
        let shown = quantiles(failed);
        let shown = if shown.is_empty() { format!("up to {}", duration(failed.max())) } else { shown.join(", ") };
        format!("no {} succeeded; those that failed took {shown}", recording.plan.unit())
    } else {
        let shown = quantiles(response);
        if shown.is_empty() {
            let mean = duration(response.mean() as u64);
            let (least, most) = (duration(response.min()), duration(response.max()));
            format!("mean {mean}, {least} to {most} (too few for a quantile)")
        } else {
            let max = format!("max {} from due to done", duration(response.max()));
            listed(&[shown, vec![max]].concat())
        }
    };
    page.wrapped(INDENT, label("how fast"), if response.is_empty() { Paint::Bad } else { Paint::Strong }, &text)
}

fn how_sure<W: Write>(page: &mut Page<'_, W>, recording: &Recording, diagnosis: &Diagnosis) -> io::Result<()> {
    let lag = recording.totals.sum.latency.of(LatencyKind::Lag);
    let validity = &diagnosis.validity;
    let unit = recording.plan.unit();
    let late = quantile(lag, Permille(990)).map(|ns| format!("99 % of {unit}s left at most {} late", duration(ns)));
    if validity.valid {
        let because = late.unwrap_or_else(|| "nothing speaks against the figures".to_owned());
        page.wrapped(INDENT, label("how sure"), Paint::Good, &format!("valid: {because}"))?;
    } else {
        let verdict = "not valid: these figures are not a result";
        page.wrapped(INDENT, label("how sure"), Paint::Bad, verdict)?;
        for reason in &validity.reasons {
            let mark = (Paint::Plain, String::new());
            page.wrapped(INDENT, mark, Paint::Bad, &format!("{}: {}", reason.id, reason.text))?;
        }
    }
    let end = match recording.end {
        End::Complete => return Ok(()),
        End::Interrupted => "interrupted: the figures cover what was done until then",
        End::Partial => "partial: the recording stops in the middle of the run",
    };
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, end)
}

/// Requested beside achieved, a line each.
fn asked_for<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let totals = &recording.totals;
    let wanted = u64::from(recording.plan.connections);
    let requested = requested_per_s(recording);
    let achieved = totals.requests_per_s();
    let short = requested.is_some_and(|r| achieved < 0.99 * r);
    let held = (Paint::Dim, format!("{:INDENT$}", "  asked for"));
    let connections = if totals.connections_max < wanted {
        (Paint::Warn, format!("{}, {} reached", counted(wanted, "connection"), grouped(totals.connections_max)))
    } else {
        (Paint::Plain, format!("{}, reached", counted(wanted, "connection")))
    };
    let mut spans = vec![held];
    if let Some(requested) = requested {
        let paint = if short { Paint::Warn } else { Paint::Plain };
        spans.push((paint, format!("{}, {} reached; ", rate(requested), rate(achieved))));
    }
    spans.push(connections);
    page.line(&spans)
}
