//! Tables of figures: quantiles, the distribution, parts of a response time, stretches, entries.

use crate::entries::Entry;
use crate::figures::{Permille, quantile};
use crate::html::Report;
use crate::html::run::sections::bar;
use crate::html::table::{Cell, Table, figures};
use crate::json::split::Split;
use crate::text::Paint;
use crate::text::latency::{KINDS, QUANTILES, bins};
use crate::text::split::{ROWS, is_no_news, near, said_of, shown};
use crate::words::{bounded, grouped, percent, rate};
use maud::{Markup, html};
use model::LatencyKind;
use model::latency::AtLeast;
use model::units::show_duration_ns;

/// Latency: by quantile as a picture and a table, its distribution, and where it went.
pub fn speed(report: &Report<'_>) -> Vec<Markup> {
    let latency = &report.recording.totals.sum.latency;
    if KINDS.iter().all(|(kind, ..)| latency.count(*kind) == 0) {
        return Vec::new();
    }
    vec![html! {
        figure.chart #chart-quantiles data-chart="quantiles" {
            figcaption {
                h3 { "By quantile" }
                p { "how long all but the slowest took, logarithmic in both: each nine more to the right is a tenth of the requests" }
            }
            div.plot {}
        }
        (quantiles(report.recording).markup())
        @if let Some(split) = Split::of(report.recording) { (of_split(&split)) }
    }]
}

fn cell(figure: Option<AtLeast>) -> Cell {
    Cell {
        text: figure.map_or("–".to_owned(), bounded),
        value: figure.map(|figure| figure.ns as f64),
        paint: Paint::Plain,
    }
}

/// Quantiles of every kind that was measured.
pub fn quantiles(recording: &model::Recording) -> Table {
    let latency = &recording.totals.sum.latency;
    let titles: Vec<&str> = ["latency", "count"]
        .into_iter()
        .chain(QUANTILES.iter().map(|(_, name)| *name))
        .chain(["max", "from … to …"])
        .collect();
    let mut columns = figures(&titles);
    if let Some((_, is_figure)) = columns.last_mut() {
        *is_figure = false;
    }
    // A queue that nobody waited in is no news.
    let is_shown = |kind: LatencyKind| latency.max(kind).is_some_and(|max| kind != LatencyKind::Queue || max.ns > 0);
    let row = |(kind, name, meaning): &(LatencyKind, &str, &str)| {
        let mut cells = vec![Cell::text(*name), Cell::count(latency.count(*kind))];
        cells.extend(QUANTILES.iter().map(|(q, _)| cell(quantile(latency, *kind, Permille(*q)))));
        cells.extend([cell(latency.max(*kind)), Cell::text(*meaning).painted(Paint::Dim)]);
        cells
    };
    Table {
        caption: "Latency".to_owned(),
        columns,
        rows: KINDS.iter().filter(|(kind, ..)| is_shown(*kind)).map(row).collect(),
    }
}

/// The response times of successes, as shares.
pub fn distribution(report: &Report<'_>) -> Markup {
    let latency = &report.recording.totals.sum.latency;
    let (h, all) = (latency.of(LatencyKind::Response), latency.count(LatencyKind::Response));
    if h.len() < Permille(500).samples_needed() {
        return html! {};
    }
    let row = |bin: &crate::text::latency::Bin| {
        let share = bin.count as f64 / all as f64;
        vec![
            Cell { text: bin.label(), value: Some(bin.low_ns as f64), paint: Paint::Plain },
            Cell::count(bin.count),
            Cell::figure(Some(share), |share| percent(100.0 * share)),
        ]
    };
    let table = Table {
        caption: "Response times of successes".to_owned(),
        columns: figures(&["response time", "requests", "share"]),
        rows: bins(h).iter().map(row).collect(),
    };
    table.markup()
}

/// Stretches of the run that kept their level.
pub fn segments(report: &Report<'_>) -> Markup {
    let time = |us: Option<f64>| Cell::figure(us, |us| show_duration_ns(us * 1e3));
    let row = |segment: &model::finding::Segment| {
        vec![
            Cell::figure(Some(segment.from_s), |from| format!("{from:.1} to {:.1} s", segment.to_s)),
            Cell::figure(Some(segment.requests_per_s), rate),
            time(segment.response_p50_us),
            time(segment.response_p99_us),
            Cell::figure(Some(segment.failed_per_s), rate),
        ]
    };
    let table = Table {
        caption: "Stretches of the run in which throughput, response time and failures kept their levels".to_owned(),
        columns: figures(&["stretch", "throughput", "p50", "p99", "failed"]),
        rows: report.diagnosis.segments.iter().map(row).collect(),
    };
    table.markup()
}

/// A band as a bar: its name, its mean, its parts in microseconds.
struct Bar {
    name: String,
    response: String,
    parts: [(&'static str, f64); ROWS.len()],
}

/// Where the time of requests went: a column a band.
fn of_split(split: &Split) -> Markup {
    if let Some(why) = &split.why_not {
        return html! { p.dim { "where the time of requests went is not known: " (crate::html::lines::shown(why)) } };
    }
    let mut titles = vec!["part".to_owned()];
    titles.extend(split.bands.iter().map(near));
    titles.push("what it is".to_owned());
    let last = titles.len() - 1;
    let columns = titles.into_iter().enumerate().map(|(i, title)| (title, i > 0 && i < last)).collect();
    let row = |(name, meaning, part): &crate::text::split::Row| {
        let cells: Vec<Option<f64>> = split.bands.iter().map(|band| part(&band.parts)).collect();
        if is_no_news(&cells) {
            return None;
        }
        let mut row = vec![Cell::text(*name)];
        row.extend(cells.into_iter().map(|us| Cell::figure(us, shown)));
        row.push(Cell::text(*meaning).painted(Paint::Dim));
        Some(row)
    };
    let mut rows: Vec<Vec<Cell>> = ROWS.iter().filter_map(row).collect();
    let mut sum = vec![Cell::text("response").painted(Paint::Strong)];
    sum.extend(split.bands.iter().map(|band| Cell::figure(Some(band.response_us), shown).painted(Paint::Strong)));
    sum.push(Cell::text(""));
    rows.push(sum);
    let bars: Vec<Bar> = split
        .bands
        .iter()
        .map(|band| Bar {
            name: near(band),
            response: shown(band.response_us),
            parts: ROWS.map(|(name, _, part)| (name, part(&band.parts).unwrap_or(0.0).max(0.0))),
        })
        .collect();
    let present: Vec<usize> = (0..ROWS.len()).filter(|i| bars.iter().any(|bar| bar.parts[*i].1 >= 0.05)).collect();
    html! {
        h3 #split { "Where the time of requests went" }
        figure.split {
            @for one in &bars {
                @let shown: Vec<(&str, f64)> = present.iter().map(|i| one.parts[*i]).collect();
                div.band { span { (one.name) } (bar(&shown)) span.figure { (one.response) } }
            }
            ul.legend { @for (i, part) in present.iter().enumerate() { li { span class={ "swatch part" (i) } aria-hidden="true" {} (ROWS[*part].0) } } }
        }
        (Table { caption: "Split: the mean of the requests near a quantile, part by part".to_owned(), columns, rows }.markup())
        p.hint { (said_of(split)) }
    }
}

/// Figures of each URL or command, where there are several.
pub fn by_entry(entries: &[Entry]) -> Markup {
    if entries.iter().all(|entry| entry.requests == 0) {
        return html! {};
    }
    let row = |entry: &Entry| {
        let time = |of: fn(&crate::json::Quantiles) -> Option<f64>, name: &str| {
            let us = entry.response.as_ref().and_then(of);
            let is_bound = entry.response.as_ref().is_some_and(|times| times.at_least.contains(&name));
            cell(us.map(|us| AtLeast { ns: (us * 1e3) as u64, is_bound }))
        };
        let kinds: Vec<String> = entry.errors.iter().map(|(kind, n)| format!("{kind} ×{}", grouped(*n))).collect();
        vec![
            Cell::text(&*entry.name),
            Cell::count(entry.requests),
            Cell::count(entry.failed).painted(if entry.failed > 0 { Paint::Bad } else { Paint::Plain }),
            time(|times| times.p50_us, "p50_us"),
            time(|times| times.p99_us, "p99_us"),
            time(|times| times.max_us, "max_us"),
            Cell::text(kinds.join(", ")),
        ]
    };
    let mut columns = figures(&["entry", "requests", "failed", "p50", "p99", "max", "failures by kind"]);
    if let Some((_, is_figure)) = columns.last_mut() {
        *is_figure = false;
    }
    Table { caption: "By URL or command".to_owned(), columns, rows: entries.iter().map(row).collect() }.markup()
}
