//! The load line over one parameter of the load, or two: as a document (`plimsoll.surface/1`), which is also what a search goes on
//! from, and as a map in text.
//!
//! Each cell of the map has its figure beside its shade and a letter for what gives first there, so that nothing is said by shade or
//! colour alone. One parameter is a list with bars. A line of the map has room for six columns of 80.

use super::document::{Document, End};
use crate::text::page::Page;
use crate::text::{Paint, Style};
use model::units::{show_bytes, show_count, show_duration_ns, show_grouped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// The document's version.
pub const SURFACE_SCHEMA: &str = "plimsoll.surface/1";

/// Characters before what a line says.
const INDENT: usize = 12;
/// Characters of a cell.
const CELL: usize = 12;
/// Characters of a row's name.
const NAME: usize = 8;
/// Characters of the longest bar.
const BAR: usize = 24;
/// From which share of the highest line on a cell is so dark; with the shade where only ASCII can be shown.
const SHADES: [(f64, &str, &str); 5] =
    [(0.75, "██", "##"), (0.5, "▓▓", "%%"), (0.25, "▒▒", "++"), (0.1, "░░", "--"), (0.0, "··", "..")];

/// A surface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surface {
    /// [`SURFACE_SCHEMA`].
    pub schema: String,
    /// The tool's version.
    pub version: String,
    /// What the load was put on, without secrets.
    pub target: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// How long it took, seconds, of the process that wrote this.
    pub took_s: f64,
    /// How it ended.
    pub end: End,
    /// How requests were due.
    pub pace: String,
    /// What a step had to hold.
    pub slo: String,
    /// What loads are a number of.
    pub unit: String,
    /// Wanted width of each line's interval, as a share of the line.
    pub precision: f64,
    /// Time of each search, seconds, at most.
    pub cell_time_s: f64,
    /// In a sentence.
    pub sentence: String,
    /// What it is spanned over: one parameter, or two.
    pub over: Vec<Spanned>,
    /// Every cell, the last parameter varying fastest.
    pub cells: Vec<Cell>,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spanned {
    /// Its name: size, connections, think.
    pub name: String,
    /// What its values are: bytes, connections, ns.
    pub unit: String,
    /// They, ascending.
    pub values: Vec<u64>,
}

/// The line at one value of each parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The values, in the parameters' order.
    pub at: Vec<u64>,
    /// Its search; null: it has not begun, or found nothing.
    pub search: Option<Box<Document>>,
    /// Why it found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Cell {
    /// The line, or the highest load that held where it was not enclosed, and whether it is that.
    pub fn load(&self) -> Option<(f64, bool)> {
        let capacity = &self.search.as_ref()?.capacity;
        capacity.load_line.map(|load| (load, false)).or(capacity.held.or(capacity.low).map(|load| (load, true)))
    }

    /// What gives first there.
    pub fn gives(&self) -> Option<&str> {
        self.search.as_ref()?.capacity.first_to_give.as_deref()
    }
}

impl Surface {
    /// What a colleague would say: from where to where the line goes, and what gives in how many places.
    pub fn summary(&self) -> String {
        let with = |cell: &Cell| Some((cell.load()?.0, self.place(cell)));
        let mut known: Vec<(f64, String)> = self.cells.iter().filter_map(with).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(least), Some(most)) = (known.first(), known.last()) else {
            return format!("no line is known yet within {}", self.slo);
        };
        let of = |load: f64| show_count(load.round());
        let mut text =
            format!("the line goes from {} {} ({}) to {} ({})", of(least.0), self.unit, least.1, of(most.0), most.1);
        if known.len() < self.cells.len() {
            text += &format!("; {} of {} cells have one", known.len(), self.cells.len());
        }
        let causes = self.causes();
        if let Some((id, count)) = causes.iter().max_by_key(|(_, count)| *count) {
            text += &format!("; {id} gives first in {count} of {}", self.cells.len());
        }
        text
    }

    /// What gives first, in the order of the cells, with how many.
    pub(crate) fn causes(&self) -> Vec<(&str, usize)> {
        let mut causes: Vec<(&str, usize)> = Vec::new();
        for id in self.cells.iter().filter_map(Cell::gives) {
            match causes.iter_mut().find(|(known, _)| *known == id) {
                Some((_, count)) => *count += 1,
                None => causes.push((id, 1)),
            }
        }
        causes
    }

    pub(crate) fn place(&self, cell: &Cell) -> String {
        let all: Vec<String> =
            self.over.iter().zip(&cell.at).map(|(one, value)| format!("{} {}", one.name, one.show(*value))).collect();
        all.join(", ")
    }

    /// The highest line, 0 where none is known.
    pub(crate) fn highest(&self) -> f64 {
        self.cells.iter().filter_map(|cell| cell.load()).map(|(load, _)| load).fold(0.0, f64::max)
    }

    /// The figure of a cell, with the letter of what gives first.
    pub(crate) fn figure(&self, cell: &Cell, unicode: bool) -> String {
        let letter = cell
            .gives()
            .and_then(|id| self.causes().iter().map(|(id, _)| *id).zip('a'..='z').find(|(one, _)| *one == id));
        let letter = letter.map_or(String::new(), |(_, letter)| format!(" {letter}"));
        match (cell.load(), &cell.why) {
            (Some((load, is_least)), _) => {
                let least = if is_least { if unicode { "≥" } else { ">" } } else { "" };
                format!("{least}{}{letter}", show_count(load.round()))
            }
            (None, Some(_)) => if unicode { "–" } else { "-" }.to_owned(),
            (None, None) => match cell.search.as_ref().and_then(|search| search.capacity.missed) {
                Some(missed) => format!("<{}{letter}", show_count(missed.round())),
                None => "?".to_owned(),
            },
        }
    }
}

impl Spanned {
    /// A value for people.
    pub fn show(&self, value: u64) -> String {
        match &*self.unit {
            "bytes" => show_bytes(value as f64),
            "ns" => show_duration_ns(value as f64),
            _ => show_grouped(value),
        }
    }
}

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write_surface(to: &mut impl Write, surface: &Surface, file: Option<&str>, style: Style) -> io::Result<()> {
    let page = &mut Page::new(to, style);
    let label = |text: &str, paint| (paint, format!("{text:INDENT$}"));
    page.wrapped(INDENT, label("Surface", Paint::Heading), Paint::Plain, &surface.sentence)?;
    page.wrapped(INDENT, label("Objective", Paint::Plain), Paint::Plain, &surface.slo)?;
    let load =
        format!("{}, at most {:.0} s for each of {} cells", surface.pace, surface.cell_time_s, surface.cells.len());
    page.wrapped(INDENT, label("Load", Paint::Plain), Paint::Plain, &load)?;
    page.gap()?;
    match &surface.over[..] {
        [rows, columns] => map(page, surface, rows, columns)?,
        _ => list(page, surface)?,
    }
    page.gap()?;
    for (id, letter) in surface.causes().iter().map(|(id, _)| *id).zip('a'..='z') {
        page.wrapped(INDENT, label(&format!("  {letter}"), Paint::Plain), Paint::Plain, &format!("{id} gives first"))?;
    }
    for cell in surface.cells.iter().filter(|cell| cell.why.is_some()) {
        let text = format!("{}: {}", surface.place(cell), cell.why.as_deref().unwrap_or_default());
        page.wrapped(INDENT, label("  –", Paint::Plain), Paint::Plain, &text)?;
    }
    if surface.end != End::Complete {
        let left = surface.cells.iter().filter(|cell| cell.load().is_none() && cell.why.is_none()).count();
        let text = format!("not whole: of {left} of {} cells nothing is known yet", surface.cells.len());
        page.wrapped(INDENT, label("Verdict", Paint::Plain), Paint::Warn, &text)?;
    }
    if let Some(file) = file {
        page.wrapped(INDENT, label("All steps", Paint::Plain), Paint::Plain, file)?;
    }
    Ok(())
}

/// The shade of a load, where that is the highest.
fn shade(load: f64, highest: f64, unicode: bool) -> &'static str {
    let share = if highest > 0.0 { load / highest } else { 0.0 };
    let found = SHADES.iter().find(|(from, _, _)| share >= *from).or(SHADES.last());
    found.map_or("", |(_, shade, ascii)| if unicode { shade } else { ascii })
}

fn map<W: Write>(page: &mut Page<'_, W>, surface: &Surface, rows: &Spanned, columns: &Spanned) -> io::Result<()> {
    let (unicode, top) = (page.style().unicode, surface.highest());
    let head: String = columns.values.iter().map(|value| format!("{:>CELL$}", columns.show(*value))).collect();
    page.row(&[(Paint::Dim, format!("{} by {}, {}", rows.name, columns.name, surface.unit))])?;
    page.row(&[(Paint::Dim, format!("{:NAME$}{head}", ""))])?;
    for (row, cells) in rows.values.iter().zip(surface.cells.chunks(columns.values.len().max(1))) {
        let mut spans = vec![(Paint::Dim, format!("{:>NAME$}", rows.show(*row)))];
        for cell in cells {
            let mark = cell.load().map_or("  ", |(load, _)| shade(load, top, unicode));
            spans.push((Paint::Plain, "  ".to_owned()));
            spans.push((Paint::Bar, mark.to_owned()));
            spans.push((Paint::Plain, format!("{:>width$}", surface.figure(cell, unicode), width = CELL - 4)));
        }
        page.row(&spans)?;
    }
    page.gap()?;
    let legend: Vec<String> = SHADES
        .iter()
        .map(|(from, shade, ascii)| {
            let shade = if unicode { shade } else { ascii };
            if *from > 0.0 { format!("{shade} from {:.0} %", 100.0 * from) } else { format!("{shade} less") }
        })
        .collect();
    let least = if unicode { "≥" } else { ">" };
    page.wrapped(
        INDENT,
        (Paint::Plain, format!("{:INDENT$}", "Legend")),
        Paint::Plain,
        &format!(
            "{} of the highest line; {least} at least, < below: the line was not enclosed; ? not known yet",
            legend.join(", ")
        ),
    )
}

fn list<W: Write>(page: &mut Page<'_, W>, surface: &Surface) -> io::Result<()> {
    let Some(over) = surface.over.first() else { return Ok(()) };
    let (unicode, top) = (page.style().unicode, surface.highest());
    page.row(&[(Paint::Dim, format!("{:>INDENT$}  {:>10}  {}", over.name, "line", surface.unit))])?;
    for cell in &surface.cells {
        let value = cell.at.first().map_or(String::new(), |value| over.show(*value));
        let length = match cell.load() {
            Some((load, _)) if top > 0.0 => ((load / top * BAR as f64).round() as usize).max(1),
            _ => 0,
        };
        let interval = cell.search.as_ref().and_then(|search| {
            let (low, high) = (search.capacity.low?, search.capacity.high?);
            Some(format!("{}–{}", show_count(low.max(0.0).round()), show_count(high.round())))
        });
        page.row(&[
            (Paint::Plain, format!("{value:>INDENT$}  {:>10}  ", surface.figure(cell, unicode))),
            (Paint::Bar, "#".repeat(length)),
            (Paint::Dim, format!("{} {}", " ".repeat(BAR - length.min(BAR)), interval.unwrap_or_default())),
        ])?;
    }
    Ok(())
}
