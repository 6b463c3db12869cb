//! The target as its machine saw it: processes, what the kernel's probes saw, where it ran and waited.

use crate::html::Report;
use crate::html::flames::Flame;
use crate::html::lines::{self, list};
use crate::html::run::sections::bar;
use crate::html::table::{Cell, Table, figures};
use crate::profile::places;
use crate::text::{generator, kernel};
use crate::words::{counted, percent};
use maud::{Markup, html};
use model::threads::{STATES, ThreadStates};
use std::io;

/// Threads that are drawn.
const THREADS_MAX: usize = 12;
/// Places of a flame graph in its table.
const PLACES_MAX: usize = 25;

/// The parts of the section.
///
/// # Errors
/// Those of the parts of the text report.
pub fn parts(report: &Report<'_>) -> io::Result<Vec<Markup>> {
    let recording = report.recording;
    let machine = lines::rows(|page| generator::machines(page, recording))?;
    let probes = lines::rows(|page| kernel::write(page, &recording.snapshots))?;
    let states = recording.snapshots.iter().rev().find_map(|snapshot| snapshot.bpf.as_ref()?.threads.as_ref());
    Ok(vec![html! {
        (list(&machine))
        @if let Some(states) = states { (threads(states)) }
        @if !probes.is_empty() {
            details { summary { "What the kernel’s probes saw, " (counted(probes.len() as u64, "reading")) } (list(&probes)) }
        }
        @for flame in &report.flames {
            figure.flame data-flame=(flame.id()) {
                figcaption { h3 { (flame.title()) } p { (flame.about()) } }
                div.plot {}
                details.figures { summary { "Figures of this graph" } (heaviest(flame).markup()) }
            }
        }
    }])
}

/// The places that were counted most: from the leaf to the function.
fn heaviest(flame: &Flame) -> Table {
    let total = flame.stacks.total().max(1) as f64;
    let row = |(place, count): (String, u64)| {
        vec![
            Cell::text(place),
            Cell::count(count),
            Cell::figure(Some(count as f64 / total), |share| percent(100.0 * share)),
        ]
    };
    Table {
        caption: format!("{}: the innermost function, and who asked for it", flame.title()),
        columns: figures(&["place", flame.kind.unit(), "share"]),
        rows: places(&flame.stacks).into_iter().take(PLACES_MAX).map(row).collect(),
    }
}

/// How each thread spent the probes' windows: a bar a thread.
fn threads(states: &ThreadStates) -> Markup {
    let shown: Vec<_> =
        states.threads.iter().chain(&states.others).filter(|thread| thread.alive_ns > 0).take(THREADS_MAX).collect();
    let present: Vec<&str> = STATES
        .into_iter()
        .filter(|state| shown.iter().any(|thread| thread.ns.get(*state).copied().unwrap_or(0) * 200 >= thread.alive_ns))
        .collect();
    html! {
        @if !shown.is_empty() {
            h3 { "Its threads, by state" }
            figure.split {
                @for thread in &shown {
                    @let parts: Vec<(&str, f64)> = present.iter().map(|state| (*state, thread.ns.get(*state).copied().unwrap_or(0) as f64)).collect();
                    @let alive = thread.alive_ns as f64;
                    div.band {
                        span {
                            @if thread.tid == 0 { (thread.threads) " others" } @else { (lines::shown(&thread.name)) " " span.dim { (thread.tid) } }
                        }
                        (bar(&parts))
                        span.figure { (percent(100.0 * thread.ns.get("on-cpu").copied().unwrap_or(0) as f64 / alive)) " on-cpu" }
                    }
                }
                ul.legend { @for (i, state) in present.iter().enumerate() { li { span class={ "swatch part" (i) } aria-hidden="true" {} (state) } } }
            }
        }
    }
}
