//! Loads that were put on together: figures of each beside the others, the canary's time line, what is each load's own.
//!
//! The page is the main load's. Of the others there is what is not the same: figures, course, failures; the machine that
//! carried them is one, and is in the page already. All are on the main load's axis of time: they share one clock, so faults
//! and disruptions are marked in each.

use crate::answer::canary::Canary;
use crate::figures::{Permille, quantile};
use crate::html::Report;
use crate::html::charts::{Chart, Drawn, Role, Times, middles_s, of_load};
use crate::html::lines::{self, list, shown};
use crate::html::run::numbers;
use crate::html::table::{Cell, Table, figures};
use crate::html::unit::Unit;
use crate::json::{Document, LoadBeside};
use crate::text::together::{LoadShown, how, paint_of, verdict};
use crate::text::{Kept, Options, Paint, failures};
use crate::words::{bounded, capitalized, of_plan, rate};
use crate::{Describe, entries};
use maud::{Markup, html};
use model::finding::Diagnosis;
use model::recording::{LoadRole, Row};
use model::{LatencyKind, Recording};
use std::io;

/// Loads of which there are charts; all others are in the table.
const CHARTED_MAX: usize = 8;

/// A load beside the main one.
pub struct Beside<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it is among the others.
    pub role: LoadRole,
    /// What was measured.
    pub recording: &'a Recording,
    /// What is made of it.
    pub diagnosis: &'a Diagnosis,
    /// The protocol's words for its error details.
    pub describe: Describe<'a>,
    /// Where its recording is.
    pub kept: Option<Kept<'a>>,
    /// Its course.
    pub rows: Vec<Row>,
    /// Its place among those beside the main one.
    pub place: usize,
}

impl std::fmt::Debug for Beside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl Beside<'_> {
    /// Its report as a document.
    pub(in crate::html) fn document(&self) -> LoadBeside {
        let path = self.kept.map(|kept| kept.path);
        LoadBeside {
            name: self.name.to_owned(),
            role: self.role,
            canary: (self.role == LoadRole::Canary).then(|| Canary::of(self.recording)),
            report: Document::of(self.recording, self.diagnosis, self.describe, path),
        }
    }

    /// Its course on the main load's axis.
    pub(in crate::html) fn charts(&self) -> Vec<Chart> {
        if self.place >= CHARTED_MAX && self.role != LoadRole::Canary {
            return Vec::new();
        }
        if self.role == LoadRole::Canary {
            return self.canary().into_iter().collect();
        }
        let is_its = |chart: &Chart| ["response", "throughput"].contains(&&*chart.id);
        let its = |chart: Chart| Chart {
            id: format!("load{}-{}", self.place, chart.id),
            title: format!("Load ‘{}’: {}", self.name, chart.title.to_lowercase()),
            times: Times::Own(middles_s(&self.rows)),
            ..chart
        };
        of_load(self.recording, &self.rows).into_iter().filter(is_its).map(its).collect()
    }

    /// The canary's time line: how long its answers took, and where there were none.
    fn canary(&self) -> Option<Chart> {
        let seen = Canary::of(self.recording);
        let mean = |row: &Row| (row.counts.ok > 0).then(|| row.response_sum_ns as f64 / row.counts.ok as f64);
        let known = |row: &Row| mean(row).filter(|ns| *ns > 0.0).or(row.response_p50_ns.map(|ns| ns as f64));
        let line = |name: &str, role, values| Drawn { name: name.to_owned(), role, values };
        let end_s = self.rows.last().map_or(0.0, |row| row.end_ns as f64 / 1e9);
        let silences = seen.longest_silence.map(|silence| (silence.from_s, silence.to_s));
        let silences = silences.into_iter().chain(seen.unanswered_since_s.map(|from_s| (from_s, end_s)));
        let chart = Chart {
            id: "canary".to_owned(),
            title: "Canary".to_owned(),
            about: format!("{}; logarithmic, shaded where nothing was answered", seen.words(self.recording)),
            unit: Unit::Ns,
            is_log: true,
            times: Times::Own(middles_s(&self.rows)),
            lines: vec![
                line("answered after", Role::Plain, self.rows.iter().map(known).collect()),
                line(
                    "failed after",
                    Role::Bad,
                    self.rows.iter().map(|row| row.failed_p50_ns.map(|ns| ns as f64)).collect(),
                ),
            ],
            silences: silences.collect(),
        };
        let lines: Vec<Drawn> =
            chart.lines.into_iter().filter(|line| line.values.iter().flatten().next().is_some()).collect();
        (!lines.is_empty() && self.rows.len() > 1).then_some(Chart { lines, ..chart })
    }

    fn options(&self) -> Options<'_> {
        let style = crate::text::Style { color: true, width: usize::MAX / 2, unicode: true };
        Options { style, describe: self.describe, all: true, kept: self.kept }
    }
}

/// The parts of the section; none where there is one load alone.
///
/// # Errors
/// Those of the parts of the text report.
pub fn parts(report: &Report<'_>) -> io::Result<Vec<Markup>> {
    if report.beside.is_empty() {
        return Ok(Vec::new());
    }
    let together = report.recording.capsule.together.as_ref();
    let main = together.and_then(|together| together.this()).map_or("main", |this| &this.name);
    let mut all = vec![LoadShown {
        name: main,
        role: LoadRole::Main,
        recording: report.recording,
        diagnosis: report.diagnosis,
        options: report.options(),
    }];
    all.extend(report.beside.iter().map(|load| LoadShown {
        name: load.name,
        role: load.role,
        recording: load.recording,
        diagnosis: load.diagnosis,
        options: load.options(),
    }));
    let judged = lines::rows(|page| verdict(page, &all))?;
    let mut parts = vec![html! {
        @for row in &judged { @for line in &row.lines { p { (lines::spans(line)) } } }
        (table(&all).markup())
    }];
    for load in &report.beside {
        parts.push(if load.role == LoadRole::Canary { canary(load) } else { own(load)? });
    }
    Ok(parts)
}

/// A line for each load.
fn table(loads: &[LoadShown<'_>]) -> Table {
    let row = |load: &LoadShown<'_>| {
        let totals = &load.recording.totals;
        let time = |q| {
            let figure = quantile(&totals.sum.latency, LatencyKind::Response, Permille(q));
            Cell {
                text: figure.map_or("–".to_owned(), bounded),
                value: figure.map(|figure| figure.ns as f64),
                paint: Paint::Plain,
            }
        };
        let failed = totals.sum.counts.failed;
        vec![
            Cell::text(load.name),
            Cell::figure(Some(totals.requests_per_s()), rate),
            time(500),
            time(990),
            Cell::count(failed).painted(if failed > 0 { Paint::Bad } else { Paint::Plain }),
            Cell::count(totals.in_flight_at_end),
            Cell::text(match load.role {
                LoadRole::Main => "the main load, which this page is of".to_owned(),
                LoadRole::Canary => "asks now and then whether the target still answers".to_owned(),
                LoadRole::Beside => of_plan(&load.recording.plan),
            }),
        ]
    };
    let mut columns = figures(&["load", "throughput", "p50", "p99", "failed", "unfinished", "what it does"]);
    if let Some((_, is_figure)) = columns.last_mut() {
        *is_figure = false;
    }
    Table { caption: "Every load".to_owned(), columns, rows: loads.iter().map(row).collect() }
}

fn canary(load: &Beside<'_>) -> Markup {
    let seen = Canary::of(load.recording);
    let paint = if seen.is_well() { Paint::Good } else { Paint::Bad };
    let stated = load.diagnosis.expectations.iter().filter(|judgement| judgement.is_stated);
    html! {
        h3 #canary { "Canary" }
        p class=[lines::class(paint)] { (capitalized(&shown(&seen.words(load.recording)))) }
        @for judgement in stated {
            p class=[lines::class(paint_of(judgement.state))] {
                (shown(&format!("{}: {}: {}", judgement.expected, how(judgement.state), judgement.got)))
            }
        }
        @if load.rows.len() > 1 { p { a href="#chart-canary" { "Its time line" } } }
    }
}

/// What is a load's own.
fn own(load: &Beside<'_>) -> io::Result<Markup> {
    let failed = lines::rows(|page| failures::errors(page, load.recording, load.describe))?;
    let status = lines::rows(|page| failures::status(page, load.recording))?;
    let charts = load.charts();
    Ok(html! {
        h3 id={ "load" (load.place) } { "Load ‘" (shown(load.name)) "’" }
        p { (capitalized(&shown(&of_plan(&load.recording.plan)))) }
        (numbers::quantiles(load.recording).markup())
        (crate::html::run::sections::groups(&failed))
        (numbers::by_entry(&entries::of(load.recording)))
        (list(&status))
        @if let Some(chart) = charts.first() { p { a href={ "#chart-" (chart.id) } { "Its course" } } }
        @if let Some(kept) = load.kept { (crate::html::run::sections::command(kept.command)) }
    })
}
