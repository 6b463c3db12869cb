//! Lines of the text report as markup: a label and what stands beside it, in the paint it has there.
//!
//! So a sentence is written once, for terminals and for this page. A line's first part is its label where it ends in a blank
//! and is no longer than labels are; a line whose label is blank goes on with the one above it.

use crate::text::Paint;
use crate::text::page::{LABEL_MAX, Page, Span};
use maud::{Markup, html};
use std::io::{self, Sink};

/// More characters of one text than this are not shown: the JSON has them.
const SHOWN_MAX: usize = 2000;

/// A line.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// What stands at its beginning; `None`: it goes on.
    pub label: Option<Span>,
    /// The rest of it.
    pub text: Vec<Span>,
}

/// Lines with one label.
#[derive(Debug, Clone)]
pub struct Row {
    /// The label; empty: none.
    pub label: Span,
    /// Its lines.
    pub lines: Vec<Vec<Span>>,
}

/// The rows that a part of the text report writes, without gaps.
///
/// # Errors
/// Those of the part.
pub fn rows(write: impl FnOnce(&mut Page<'_, Sink>) -> io::Result<()>) -> io::Result<Vec<Row>> {
    let mut lines = Vec::new();
    write(&mut Page::keeping(&mut lines))?;
    let mut rows: Vec<Row> = Vec::new();
    let mut is_new = true;
    for spans in lines {
        if spans.is_empty() {
            is_new = true;
            continue;
        }
        let line = Line::of(spans);
        match (line.label, rows.last_mut()) {
            (None, Some(last)) if !is_new => last.lines.push(line.text),
            (label, _) => {
                let label = label.unwrap_or((Paint::Plain, String::new()));
                rows.push(Row { label, lines: vec![line.text] });
            }
        }
        is_new = false;
    }
    Ok(rows)
}

impl Line {
    fn of(spans: Vec<Span>) -> Self {
        let trimmed = |(paint, text): Span| (paint, text.trim().to_owned());
        let is_label = |text: &str| text.ends_with(' ') && text.chars().count() <= LABEL_MAX;
        match spans.split_first() {
            Some(((_, blank), rest)) if blank.trim().is_empty() => {
                Line { label: None, text: without_edges(rest.to_vec()) }
            }
            Some(((paint, label), rest)) if !rest.is_empty() && is_label(label) => {
                Line { label: Some(trimmed((*paint, label.clone()))), text: without_edges(rest.to_vec()) }
            }
            Some(((_, first), _)) if first.starts_with(' ') => Line { label: None, text: without_edges(spans) },
            _ => Line { label: Some((Paint::Plain, String::new())), text: without_edges(spans) },
        }
    }
}

fn without_edges(mut spans: Vec<Span>) -> Vec<Span> {
    if let Some((_, first)) = spans.first_mut() {
        *first = first.trim_start_matches(' ').to_owned();
    }
    spans.retain(|(_, text)| !text.is_empty());
    spans
}

/// Rows as a list of what is asked and what is so.
pub fn list(rows: &[Row]) -> Markup {
    html! {
        @if !rows.is_empty() {
            dl.facts {
                @for row in rows {
                    div {
                        dt { (name(&row.label.1)) }
                        dd { @for line in &row.lines { p { (spans(line)) } } }
                    }
                }
            }
        }
    }
}

/// A label without what only sets it off from others in a text.
fn name(label: &str) -> &str {
    label.trim()
}

/// The parts of a line.
pub fn spans(line: &[Span]) -> Markup {
    html! {
        @for (paint, text) in line {
            @match class(*paint) {
                Some(class) => span class=(class) { (shown(text)) },
                None => (shown(text)),
            }
        }
    }
}

/// The class of a paint. What it means is in the words as well.
pub fn class(paint: Paint) -> Option<&'static str> {
    match paint {
        Paint::Plain | Paint::Heading | Paint::Bar => None,
        Paint::Strong => Some("strong"),
        Paint::Dim => Some("dim"),
        Paint::Good => Some("good"),
        Paint::Warn => Some("warn"),
        Paint::Bad => Some("bad"),
    }
}

/// Text that may have come from outside: without what steers, and not endless.
pub fn shown(text: &str) -> String {
    let plain = model::plain::plain(text);
    match plain.char_indices().nth(SHOWN_MAX) {
        None => plain.into_owned(),
        Some((cut, _)) => {
            let all = crate::words::grouped(plain.chars().count() as u64);
            format!("{}… ({all} characters; all of them are in the JSON)", &plain[..cut])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lines_that_go_on_and_gaps() {
        let rows = rows(|page| {
            page.wrapped(13, (Paint::Heading, "Target".to_owned()), Paint::Plain, "nginx")?;
            page.wrapped(13, (Paint::Plain, String::new()), Paint::Dim, "more of it")?;
            page.gap()?;
            page.line(&[(Paint::Dim, "  how much   ".to_owned()), (Paint::Strong, "5 requests/s".to_owned())])?;
            page.line(&[(Paint::Heading, "Alone".to_owned())])
        })
        .unwrap();
        let shown: Vec<(&str, usize)> = rows.iter().map(|row| (&*row.label.1, row.lines.len())).collect();
        assert_eq!(shown, [("Target", 2), ("how much", 1), ("", 1)]);
        assert_eq!(rows[1].lines[0], [(Paint::Strong, "5 requests/s".to_owned())]);
        let markup = list(&rows).into_string();
        assert!(markup.contains("<dt>Target</dt>") && markup.contains("<span class=\"dim\">more of it</span>"));
    }

    #[test]
    fn what_came_from_outside_is_text_and_not_endless() {
        let line = [(Paint::Bad, "</script><b>\u{202e}".to_owned()), (Paint::Plain, "x".repeat(100_000))];
        let markup = spans(&line).into_string();
        assert!(markup.contains("&lt;/script&gt;&lt;b&gt;?") && markup.len() < 3000, "{}", markup.len());
        assert!(markup.contains("100,000 characters"));
    }
}
