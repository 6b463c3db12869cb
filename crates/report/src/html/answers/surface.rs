//! The page of a load line over one parameter of the load, or two: a heat map of two, a curve of one, and a table of every cell.
//!
//! A cell of the map has its figure and the letter of what gives first beside its shade, so nothing is said by shade alone. What a cell's
//! search was is in the document that the page carries, and in the cell's own recordings.

use crate::capacity::{Cell, End, Spanned, Surface};
use crate::html::page::{Page, Part, file_name, title};
use crate::html::plots::{Axis, Line, Plot, Point, Series, Shape, Tone};
use crate::html::run::sections::{cards, command};
use crate::html::table::{Cell as TableCell, Table};
use crate::html::unit::Unit;
use crate::html::{data, frame, lines, pack};
use crate::text::Paint;
use crate::words::capitalized;
use maud::{Markup, html};
use model::units::show_grouped;
use std::io::{self, Write};

/// From this factor between the largest and the smallest value on, an axis is logarithmic.
const WIDE: f64 = 12.0;
/// The palest shade of a line that is known: none looks like a cell without one.
const PALEST: f64 = 0.06;

/// Writes the page. `again` shows the surface again.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, surface: &Surface, again: Option<&str>) -> io::Result<()> {
    let plots: Vec<Plot> = curve(surface).into_iter().filter(Plot::has_any).collect();
    let drawn = match &surface.over[..] {
        [rows, columns] => vec![map(surface, rows, columns)],
        _ => plots.iter().map(Plot::markup).collect(),
    };
    let names: Vec<&str> = surface.over.iter().map(|one| &*one.name).collect();
    let page = Page {
        heading: surface.target.clone(),
        plan: format!("the load line over {}, {}", names.join(" and "), surface.pace),
        started_at_unix_ns: surface.started_at_unix_ns,
        command: again,
        alert: match surface.end {
            End::Complete | End::Disturbed => None,
            End::Interrupted => Some("it was interrupted: what was known by then is shown".to_owned()),
            End::Partial => Some("it is under way or was cut off: what is known by now is shown".to_owned()),
        },
        version: &surface.version,
        goes_on: false,
        verdict: verdict(surface),
        parts: vec![
            Part::new("surface", "Surface", "The surface", drawn),
            Part::new("cells", "Cells", "Each cell", vec![cells(surface).markup()]),
            Part::new(
                "again",
                "Do it again",
                "Do it again",
                vec![html! {
                    @if let Some(again) = again { (command(again)) }
                    p #download { "All figures are in this file, as JSON (" code { (surface.schema) } ")." }
                }],
            ),
        ],
    };
    let frame = frame::Frame {
        title: &title(&format!("Load lines of {}", surface.target)),
        body: page.markup(),
        data: &data::packed_plots(&plots)?,
        document: &pack::encoded(&[&serde_json::to_vec(surface)?])?,
        name: &file_name("surface-", surface.started_at_unix_ns),
        asks: None,
    };
    to.write_all(frame.markup().into_string().as_bytes())
}

fn verdict(surface: &Surface) -> Markup {
    let row =
        |label: &str, lines: Vec<Vec<(Paint, String)>>| lines::Row { label: (Paint::Dim, label.to_owned()), lines };
    let strong = |text: String| vec![(Paint::Strong, text)];
    let plain = |text: &str| vec![(Paint::Plain, text.to_owned())];
    let known = surface.cells.iter().filter(|cell| cell.load().is_some()).count();
    let mood = match surface.end {
        End::Complete if known == surface.cells.len() => "good",
        _ => "warn",
    };
    let facts = [
        row("objective", vec![strong(surface.slo.clone()), plain("what a step had to hold")]),
        row(
            "how it was found",
            vec![
                strong(format!("{known} of {} cells in {:.0} s", surface.cells.len(), surface.took_s)),
                plain(&format!("{}; a search of {:.0} s at most for each", surface.pace, surface.cell_time_s)),
            ],
        ),
    ];
    html! {
        section #verdict aria-labelledby="verdict-title" {
            div class={ "gives " (mood) } { h2 #verdict-title { (lines::shown(&capitalized(&surface.sentence))) } }
            (cards(&facts))
        }
    }
}

/// The heat map.
fn map(surface: &Surface, rows: &Spanned, columns: &Spanned) -> Markup {
    let highest = surface.highest();
    let cell = |cell: &Cell| {
        let share = cell.load().filter(|_| highest > 0.0).map(|(load, _)| (load / highest).clamp(PALEST, 1.0));
        let of_highest = share.map(|share| format!("{:.0} % of the highest line", 100.0 * share));
        html! {
            td.figure title=[of_highest] {
                svg width="44" height="18" viewBox="0 0 44 18" aria-hidden="true" {
                    @match share {
                        Some(share) => rect width="44" height="18" rx="2" fill="currentColor" fill-opacity=(format!("{share:.2}")) {},
                        None => rect x="0.5" y="0.5" width="43" height="17" rx="2" fill="none" stroke="currentColor" stroke-opacity="0.3" {},
                    }
                }
                br;
                (lines::shown(&surface.figure(cell, true)))
            }
        }
    };
    let causes = surface.causes();
    html! {
        div.scroll {
            table {
                caption { (surface.unit) ", " (rows.name) " down and " (columns.name) " across: the darker, the nearer to the highest line" }
                thead { tr {
                    th scope="col" { (rows.name) " ↓ " (columns.name) " →" }
                    @for value in &columns.values { th.figure scope="col" { (columns.show(*value)) } }
                } }
                tbody {
                    @for (value, cells) in rows.values.iter().zip(surface.cells.chunks(columns.values.len().max(1))) {
                        tr {
                            th scope="row" { (rows.show(*value)) }
                            @for one in cells { (cell(one)) }
                        }
                    }
                }
            }
        }
        p.dim {
            @for ((id, _), letter) in causes.iter().zip('a'..='z') { (letter) ": " (lines::shown(id)) " gives first. " }
            "≥ at least, < below: the line was not enclosed; – none was found; ? not known yet."
        }
    }
}

/// The line over one parameter, with its interval.
fn curve(surface: &Surface) -> Option<Plot> {
    let [over] = &surface.over[..] else { return None };
    let axis = |name: &str, unit: Unit, values: Vec<f64>| {
        let (least, most) = values.iter().fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
        let axis = Axis::new(name, unit);
        if least > 0.0 && most > WIDE * least { axis.logarithmic() } else { axis }
    };
    let unit = match &*over.unit {
        "bytes" => Unit::Bytes,
        "ns" => Unit::Ns,
        _ => Unit::Count,
    };
    let of_loads = if surface.unit.ends_with("/s") { Unit::PerS } else { Unit::Count };
    let loads = surface.cells.iter().filter_map(|cell| Some(cell.load()?.0)).collect();
    let mut plot = Plot::new(
        "over",
        format!("The load line over {}", over.name),
        "the line at each value, with the ends of its 95 % interval where it was enclosed",
        axis(&over.name, unit, over.values.iter().map(|value| *value as f64).collect()),
        axis(&surface.unit, of_loads, loads),
    );
    let points = |of: &dyn Fn(&Cell) -> Option<f64>| -> Vec<Point> {
        let point = |cell: &Cell| {
            let note = format!("{}: {}", surface.place(cell), surface.figure(cell, true));
            Some(Point { x: *cell.at.first()? as f64, y: of(cell)?, note })
        };
        surface.cells.iter().filter_map(point).collect()
    };
    let end = |cell: &Cell, of: fn(&crate::capacity::Capacity) -> Option<f64>| of(&cell.search.as_ref()?.capacity);
    plot.series = vec![
        Series::points("load line", Shape::Disc, Tone::First, points(&|cell| Some(cell.load()?.0))).joined(Line::Whole),
        Series::points("its interval, low", Shape::Ring, Tone::Dim, points(&|cell| end(cell, |found| found.low))),
        Series::points("its interval, high", Shape::Ring, Tone::Dim, points(&|cell| end(cell, |found| found.high))),
    ];
    Some(plot)
}

fn cells(surface: &Surface) -> Table {
    let whole = |load: f64| show_grouped(load.max(0.0).round() as u64);
    let mut columns: Vec<(String, bool)> = surface.over.iter().map(|one| (one.name.clone(), true)).collect();
    let unit = &surface.unit;
    columns.extend([
        (format!("line, {unit}"), true),
        ("low".to_owned(), true),
        ("high".to_owned(), true),
        ("gives first".to_owned(), false),
        ("remarks".to_owned(), false),
    ]);
    let row = |cell: &Cell| {
        let found = cell.search.as_ref().map(|search| &search.capacity);
        let places = surface.over.iter().zip(&cell.at);
        let mut row: Vec<TableCell> =
            places.map(|(one, value)| TableCell::figure(Some(*value as f64), |_| one.show(*value))).collect();
        row.extend([
            TableCell::figure(cell.load().map(|(load, _)| load), |load| {
                let is_least = cell.load().is_some_and(|(_, is_least)| is_least);
                format!("{}{}", if is_least { "≥ " } else { "" }, whole(load))
            }),
            TableCell::figure(found.and_then(|found| found.low), whole),
            TableCell::figure(found.and_then(|found| found.high), whole),
            TableCell::text(cell.gives().unwrap_or("–")),
            TableCell::text(cell.why.as_deref().unwrap_or_default()),
        ]);
        row
    };
    Table {
        caption: "Every cell, a search of its own".to_owned(),
        columns,
        rows: surface.cells.iter().map(row).collect(),
    }
}
