//! What the page's script draws: charts, map, single requests, pauses, quantiles, flame graphs, what happened when.
//!
//! All columns are in one packed text, with a head that says where each is.

use super::Report;
use super::charts::{self, Chart};
use super::flames;
use super::heat;
use super::pack::{Column, Columns};
use super::plots::{self, Plot};
use crate::figures::s;
use crate::text::latency::gaps::told;
use model::LatencyKind;
use model::event::COLLECTOR_PAUSE;
use model::request::{Request, RequestEnd};
use serde::Serialize;
use std::io;

/// Points of a line of quantiles for each tenfold of 1 / (1 − q).
const OF_TENFOLD: i32 = 20;
/// Events that are marked on the axis of time: those that come often would cover it.
const MARKS_MAX: usize = 60;
/// Pauses that are shaded, the longest.
const PAUSES_MAX: usize = 200;
/// Single requests that are drawn.
const REQUESTS_MAX: usize = 6000;

#[derive(Debug, Default, Serialize)]
struct Head {
    /// The middle of each interval, seconds.
    intervals: Column,
    /// The moment of each snapshot, seconds.
    snapshots: Column,
    /// Where the axis of time ends, seconds.
    end_s: f64,
    charts: Vec<charts::Places>,
    heat: Option<heat::Places>,
    requests: Option<Requests>,
    quantiles: Vec<Quantiles>,
    flames: Vec<flames::Places>,
    /// Pictures without an axis of time.
    plots: Vec<plots::Places>,
    marks: Vec<Mark>,
    /// Stretches of time that are shaded, with why.
    spans: Vec<Span>,
}

#[derive(Debug, Serialize)]
struct Mark {
    s: f64,
    kind: String,
    text: String,
}

#[derive(Debug, Serialize)]
struct Span {
    from_s: f64,
    to_s: f64,
    /// `window`, `warmup`, `drain`, `disruption` or `pause`.
    kind: &'static str,
}

/// Single requests: when each ended, how long it took from when it was due, and what it is (0: drawn by chance from
/// its tick, 1: one of the slowest, 2: failed).
#[derive(Debug, Serialize)]
struct Requests {
    ended_us: Column,
    response_us: Column,
    what: Column,
}

/// Quantiles of a kind of latency: at 1 / (1 − q), nanoseconds; from where on they are lower bounds.
#[derive(Debug, Serialize)]
struct Quantiles {
    name: &'static str,
    at: Column,
    ns: Column,
    /// The place of the first lower bound; null: none is one.
    bound_from: Option<usize>,
}

/// All of it, packed.
///
/// # Errors
/// None that can come: the writing is to memory.
pub(super) fn packed(report: &Report<'_>, charts: &[Chart]) -> io::Result<String> {
    let mut columns = Columns::default();
    let seconds = |values: Vec<f64>| values.into_iter().map(Some);
    let intervals = columns.push(1e6, seconds(charts::middles_s(&report.rows)));
    let at_s = report.course.at_ns().iter().map(|ns| *ns as f64 / 1e9).collect();
    let snapshots = columns.push(1e6, seconds(at_s));
    let charts = charts.iter().map(|chart| chart.packed(&mut columns, intervals, snapshots)).collect();
    let rows = std::iter::once(&report.rows).chain(report.beside.iter().map(|load| &load.rows));
    let end_s = rows.filter_map(|rows| Some(s(rows.last()?.end_ns))).fold(0.0, f64::max);
    let head = Head {
        intervals,
        snapshots,
        end_s: end_s.max(report.course.at_ns().last().map_or(0.0, |ns| *ns as f64 / 1e9)),
        charts,
        heat: report.heat.packed(&mut columns),
        requests: requests(report, &mut columns),
        quantiles: quantiles(report, &mut columns),
        flames: report.flames.iter().map(|flame| flame.packed(&mut columns)).collect(),
        plots: Vec::new(),
        marks: marks(report),
        spans: spans(report),
    };
    columns.packed(&head)
}

/// Pictures without an axis of time, packed.
///
/// # Errors
/// None that can come: the writing is to memory.
pub(super) fn packed_plots(plots: &[Plot]) -> io::Result<String> {
    let mut columns = Columns::default();
    let none = columns.push_whole([]);
    let plots = plots.iter().map(|plot| plot.packed(&mut columns)).collect();
    columns.packed(&Head { intervals: none, snapshots: none, plots, ..Head::default() })
}

fn requests(report: &Report<'_>, to: &mut Columns) -> Option<Requests> {
    let kept = &report.recording.requests;
    let ended = |request: &&Request| request.end != RequestEnd::Unfinished;
    let mut all: Vec<(u64, u64, u64)> = Vec::new();
    let mut add = |request: &Request, what: u64| {
        if all.len() < REQUESTS_MAX {
            all.push((request.ended_ns / 1000, request.response_ns() / 1000, what));
        }
    };
    kept.slowest().filter(ended).for_each(|request| add(request, 1));
    kept.failed().filter(ended).for_each(|request| add(request, 2));
    let is_failed = |request: &Request| matches!(request.end, RequestEnd::Failed(_));
    kept.drawn().filter(ended).filter(|request| !is_failed(request)).for_each(|request| add(request, 0));
    all.sort_unstable();
    (!all.is_empty()).then(|| Requests {
        ended_us: to.push_whole(all.iter().map(|(ended, ..)| *ended)),
        response_us: to.push_whole(all.iter().map(|(_, response, _)| *response)),
        what: to.push_whole(all.iter().map(|(.., what)| *what)),
    })
}

fn quantiles(report: &Report<'_>, to: &mut Columns) -> Vec<Quantiles> {
    let latency = &report.recording.totals.sum.latency;
    let kinds = [
        (LatencyKind::Response, "response"),
        (LatencyKind::Service, "service"),
        (LatencyKind::Queue, "queue"),
        (LatencyKind::Lag, "lag"),
        (LatencyKind::Failed, "failed"),
    ];
    let of = |(kind, name)| {
        let count = latency.count(kind);
        let max = latency.max(kind).filter(|max| max.ns > 0 && count > 1)?;
        let tenfolds = (count as f64).log10();
        let steps = (tenfolds * f64::from(OF_TENFOLD)).floor() as i32;
        let at = (0..=steps).map(|step| 10f64.powf(f64::from(step) / f64::from(OF_TENFOLD)));
        let mut points: Vec<(f64, model::latency::AtLeast)> =
            at.filter_map(|at| Some((at, latency.quantile(kind, 1.0 - 1.0 / at)?))).collect();
        points.push((count as f64, max));
        Some(Quantiles {
            name,
            at: to.push(1000.0, points.iter().map(|(at, _)| Some(*at))),
            ns: to.push_whole(points.iter().map(|(_, figure)| figure.ns)),
            bound_from: points.iter().position(|(_, figure)| figure.is_bound),
        })
    };
    kinds.into_iter().filter_map(of).collect()
}

fn marks(report: &Report<'_>) -> Vec<Mark> {
    // Pauses of a collector come by the hundred: the table of events has them.
    let events = report.recording.events.iter().filter(|event| event.kind != COLLECTOR_PAUSE);
    let mark = |event: &model::Event| Mark {
        s: event.at_ns as f64 / 1e9,
        kind: super::lines::shown(&event.kind),
        text: super::lines::shown(&event.text),
    };
    events.take(MARKS_MAX).map(mark).collect()
}

fn spans(report: &Report<'_>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let warmup_ns = report.recording.plan.warmup_ns;
    if warmup_ns > 0 {
        spans.push(Span { from_s: 0.0, to_s: s(warmup_ns), kind: "warmup" });
    }
    let mut stretch = |from_ns: u64, to_ns: u64, kind: &'static str| match spans
        .iter_mut()
        .rfind(|span| span.kind == kind)
        .filter(|last| (last.to_s - s(from_ns)).abs() < 0.01)
    {
        Some(last) => last.to_s = s(to_ns),
        None => spans.push(Span { from_s: s(from_ns), to_s: s(to_ns), kind }),
    };
    for row in &report.rows {
        if row.in_window {
            stretch(row.start_ns, row.end_ns, "window");
        }
        if row.is_drain {
            stretch(row.start_ns, row.end_ns, "drain");
        }
    }
    let disrupted = report.diagnosis.recoveries.iter().filter(|recovery| recovery.until_s > recovery.at_s);
    spans.extend(disrupted.take(PAUSES_MAX).map(|recovery| {
        let back_s = recovery.recovered_s.map_or(recovery.until_s, |s| recovery.at_s + s);
        Span { from_s: recovery.at_s, to_s: back_s.clamp(recovery.at_s, recovery.until_s), kind: "disruption" }
    }));
    // Those that the text tells of: shorter ones are in the map.
    let gaps = told(report.recording).map_or_else(Vec::new, |(_, gaps)| gaps);
    spans.extend(gaps.iter().take(PAUSES_MAX).map(|gap| Span {
        from_s: s(gap.from_ns),
        to_s: s(gap.to_ns),
        kind: "pause",
    }));
    spans
}
