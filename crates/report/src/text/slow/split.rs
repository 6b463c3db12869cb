//! Where the time of requests went: a column a band, a row a part, the sum last. Where nothing could be split, why.

use crate::json::split::{Split, SplitBand, SplitParts};
use crate::text::Paint;
use crate::text::page::Page;
use crate::words::length;
use model::Recording;
use model::units::show_grouped;
use std::io::{self, Write};

const INDENT: usize = 13;

/// A part: its name, what it is, and the part of a band; `None`: it is not known apart from another.
pub(crate) type Row = (&'static str, &'static str, fn(&SplitParts) -> Option<f64>);

pub(crate) const ROWS: [Row; 9] = [
    ("lag", "the generator's own", |parts| Some(parts.lag_us)),
    ("queue", "for a free connection", |parts| Some(parts.queue_us)),
    ("connect", "for its own connection to be made", |parts| Some(parts.connect_us)),
    ("way there", "to the target's socket", |parts| parts.there_us),
    ("in socket", "until the target read it", |parts| Some(parts.socket_us)),
    ("server", "first read to last send", |parts| Some(parts.server_us)),
    ("way back", "until all of it was here", |parts| parts.back_us),
    ("both ways", "two clocks: known as a sum", |parts| parts.there_us.is_none().then_some(parts.network_us)),
    ("not split", "sending to reply", |parts| Some(parts.unsplit_us)),
];

/// Writes the table, or why there is none.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let Some(split) = Split::of(recording) else { return Ok(()) };
    page.gap()?;
    if let Some(why) = &split.why_not {
        let text = format!("where the time of requests went is not known: {why}");
        return page.wrapped(INDENT, (Paint::Heading, "Split".to_owned()), Paint::Dim, &text);
    }
    let columns: String = split.bands.iter().map(|band| format!("{:>11}", near(band))).collect();
    page.line(&[(Paint::Heading, format!("{:13}", "Split")), (Paint::Dim, columns)])?;
    let explained = page.style().width >= 98;
    for (name, meaning, part) in ROWS {
        let cells: Vec<Option<f64>> = split.bands.iter().map(|band| part(&band.parts)).collect();
        // A part that nobody waited in is no news.
        if is_no_news(&cells) {
            continue;
        }
        let cells: String =
            cells.into_iter().map(|cell| format!("{:>11}", cell.map_or("–".to_owned(), shown))).collect();
        let mut spans = vec![(Paint::Plain, format!("  {name:11}")), (Paint::Plain, cells)];
        if explained {
            spans.push((Paint::Dim, format!("   {meaning}")));
        }
        page.line(&spans)?;
    }
    let sums: String = split.bands.iter().map(|band| format!("{:>11}", shown(band.response_us))).collect();
    page.line(&[(Paint::Strong, format!("  {:11}", "response")), (Paint::Strong, sums)])?;
    page.wrapped(2, (Paint::Plain, String::new()), Paint::Dim, &said_of(&split))
}

/// Whether nobody waited in a part.
pub(crate) fn is_no_news(cells: &[Option<f64>]) -> bool {
    cells.iter().all(|cell| cell.is_none_or(|us| us.abs() < 0.05))
}

pub(crate) fn near(band: &SplitBand) -> String {
    if band.from_rank.is_some() { format!("near {}", band.band) } else { band.band.to_owned() }
}

pub(crate) fn shown(us: f64) -> String {
    // Of two clocks a way may be less than nothing by what they are off; their sum is not.
    if us < 0.0 { format!("-{}", length((-us * 1e3) as u64)) } else { length((us * 1e3) as u64) }
}

/// What the figures are of.
pub(crate) fn said_of(split: &Split) -> String {
    let mut text = format!(
        "means of {} requests within windows of the probes, {} of them joined with the target's sockets",
        show_grouped(split.requests),
        show_grouped(split.joined)
    );
    if split.cut > 0 {
        text += &format!(
            "; {} more were under way when a window began or ended, so long ones are missing",
            show_grouped(split.cut)
        );
    }
    let most = split.unsplit.iter().max_by_key(|(_, count)| **count);
    if let Some((why, count)) = most {
        text += &format!("; not split, mostly: {why} ({})", show_grouped(*count));
    }
    text
}
