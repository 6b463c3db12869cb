//! The table of `plimsoll runs`: a recording, the newest last, damaged ones with their reason; below each what it came to: the
//! figure, whether to believe it, what gives first.
//!
//! It is given the lines; what is in the folder is read elsewhere.

use crate::figures::rfc3339;
use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::{figure, grouped};
use model::Head;
use model::finding::{ValidityState, WhatGives};
use model::recording::End;
use std::io::{self, Write};

/// One recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// What it holds, or why that cannot be read.
    pub head: Result<Head, String>,
    /// What it came to, as it was said at its end; `None`: nothing was said.
    pub verdict: Option<Verdict>,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Requests that ended, a second of measured time.
    pub rate_per_s: f64,
    /// What such a request is called.
    pub unit: String,
    /// Whether the figures may be believed.
    pub validity: ValidityState,
    /// What gives first.
    pub gives: Option<WhatGives>,
}

/// Where what a run came to begins.
const INDENT: usize = 4;

/// Writes the table, or one line saying that there is nothing.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, runs: &[Run], style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    if runs.is_empty() {
        return page.row(&[(Paint::Plain, "no runs yet: `plimsoll load URL` makes one".to_owned())]);
    }
    let id_width = runs.iter().map(|run| run.id.chars().count()).max().unwrap_or(0).max(2);
    let title = format!("{:id_width$}  {:16}  {:>13}  {:11}  target", "id", "started (UTC)", "requests", "end");
    page.row(&[(Paint::Heading, title)])?;
    for run in runs {
        let id = format!("{:id_width$}  ", run.id);
        match &run.head {
            Ok(head) => {
                let started = rfc3339(head.started_at_unix_ns).chars().take(16).collect::<String>().replace('T', " ");
                let (paint, end) = match head.end {
                    _ if head.is_damaged => (Paint::Bad, "damaged"),
                    End::Complete => (Paint::Plain, "complete"),
                    End::Interrupted => (Paint::Warn, "interrupted"),
                    End::Partial => (Paint::Warn, "partial"),
                };
                page.row(&[
                    (Paint::Plain, id),
                    (Paint::Dim, format!("{started}  ")),
                    (Paint::Plain, format!("{:>13}  ", grouped(head.requests))),
                    (paint, format!("{end:11}  ")),
                    (Paint::Plain, head.target.clone()),
                ])?;
                if let Some(verdict) = &run.verdict {
                    came_to(&mut page, verdict)?;
                }
            }
            Err(reason) => page.row(&[(Paint::Plain, id), (Paint::Bad, format!("unreadable: {reason}"))])?,
        }
    }
    let is_damaged = |run: &Run| run.head.as_ref().is_ok_and(|head| head.is_damaged);
    if let Some(first) = runs.iter().find(|run| is_damaged(run)) {
        let text = format!("damaged: what is left is shown, and what is not said, by `plimsoll report {}`", first.id);
        page.line(&[(Paint::Dim, text)])?;
    }
    Ok(())
}

/// The figure, whether to believe it, what gives first.
fn came_to<W: Write>(page: &mut Page<'_, W>, verdict: &Verdict) -> io::Result<()> {
    let (paint, valid) = match verdict.validity {
        ValidityState::Valid => (Paint::Dim, "valid"),
        ValidityState::Undetermined => (Paint::Warn, "undetermined"),
        ValidityState::NotValid => (Paint::Bad, "not valid"),
    };
    let gives = verdict.gives.as_ref().map_or(String::new(), |gives| {
        let id = gives.finding.as_ref().map_or(String::new(), |id| format!(" [{id}]"));
        format!(": {}{id}", gives.text)
    });
    let text = format!("{} {}s/s, {valid}{gives}", figure(verdict.rate_per_s), verdict.unit);
    page.wrapped(INDENT, (Paint::Plain, String::new()), paint, &text)
}
