//! What befell the target, by a fault or by itself, for whom, and how long until all was as before: a block for each disruption, only where there
//! was one.

pub(crate) mod faults;

use super::Paint;
use super::page::Page;
use crate::words::{counted, listed, rate};
use diagnose::recovery::sentence::{bytes, failed, interrupted, is_state_lost, moment, share, until_as_before};
use model::Recording;
use model::finding::Diagnosis;
use model::recovery::{Recovery, Return};
use model::units::show_duration_ns;
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes the blocks.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording, diagnosis: &Diagnosis) -> io::Result<()> {
    let told: Vec<&Recovery> =
        diagnosis.recoveries.iter().filter(|recovery| recovery.until_s > recovery.at_s).collect();
    if told.is_empty() {
        return Ok(());
    }
    page.gap()?;
    let mut label = (Paint::Heading, "Disrupted".to_owned());
    for recovery in told {
        // What a fault did is said where faults are.
        let what = if recovery.fault.is_some() { String::new() } else { format!(": {}", recovery.what) };
        let head = format!("{} {}{what}", moment(recovery.at_s), recovery.name);
        page.wrapped(INDENT, std::mem::replace(&mut label, (Paint::Plain, String::new())), Paint::Strong, &head)?;
        for (name, paint, text) in lines(recovery, recording.plan.unit()) {
            page.wrapped(INDENT, (Paint::Dim, format!("  {name}")), paint, &text)?;
        }
    }
    Ok(())
}

fn lines(recovery: &Recovery, unit: &str) -> Vec<(&'static str, Paint, String)> {
    let mut lines = Vec::new();
    if !recovery.has_done_anything() {
        lines.push(("for whom", Paint::Good, "the load shows nothing of it".to_owned()));
        return lines;
    }
    lines.push(("for whom", Paint::Plain, for_whom(recovery, unit)));
    let mut long: Vec<String> = interrupted(recovery).into_iter().collect();
    long.push(until_as_before(recovery));
    lines.push(("how long", Paint::Strong, long.join("; ")));
    let returns: Vec<String> = [
        recovery.throughput.and_then(|figure| returned(recovery, figure, "throughput", &|per_s| rate(per_s))),
        recovery.response_p99_us.and_then(|figure| returned(recovery, figure, "p99", &|us| show_duration_ns(us * 1e3))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !returns.is_empty() {
        lines.push(("back", Paint::Plain, returns.join("; ")));
    }
    let after = after(recovery);
    if !after.is_empty() {
        lines.push(("after", Paint::Warn, listed(&after)));
    }
    lines
}

fn for_whom(recovery: &Recovery, unit: &str) -> String {
    let mut parts = match recovery.failed.requests {
        0 => vec![format!("no {unit} failed")],
        _ => vec![format!("{}, at most {}", failed(&recovery.failed, unit), rate(recovery.failed.per_s_max))],
    };
    if let Some(first_s) = recovery.first_failure_s {
        parts.push(format!("the first at {}", moment(first_s)));
    }
    if recovery.aborted_connections > 0 {
        parts.push(format!("{} closed or reset by the target", counted(recovery.aborted_connections, "connection")));
    }
    listed(&parts)
}

fn returned(recovery: &Recovery, figure: Return, name: &str, show: &dyn Fn(f64) -> String) -> Option<String> {
    if !figure.has_left {
        return Some(format!("{name} stayed at {}", show(figure.before)));
    }
    let worst = figure.worst.map_or("nothing".to_owned(), show);
    Some(match figure.back_s {
        Some(back_s) => {
            let after = show_duration_ns((back_s - recovery.at_s).max(0.0) * 1e9);
            format!("{name} {} → {worst}, back at {} after {after}", show(figure.before), show(figure.limit))
        }
        None => format!(
            "{name} {} → {worst}, not back at {} by {:.1} s",
            show(figure.before),
            show(figure.limit),
            recovery.until_s
        ),
    })
}

fn after(recovery: &Recovery) -> Vec<String> {
    let mut after = Vec::new();
    if let Some(beyond) = recovery.overshoot {
        after.push(format!("throughput overshot by {}", share(beyond)));
    }
    if let Some(connections) = recovery.connections.filter(|connections| connections.never_back > 0) {
        after.push(format!("{} never came back", counted(connections.never_back, "connection")));
    }
    if let Some(memory) = recovery.memory.filter(|memory| is_state_lost(recovery, memory)) {
        after.push(format!(
            "its memory fell from {} to {}: {} were freed by the disruption, and what they held may be lost",
            bytes(memory.before),
            bytes(memory.least),
            bytes(memory.freed())
        ));
    }
    after
}
