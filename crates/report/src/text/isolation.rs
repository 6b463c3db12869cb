//! What held the machine still for the run, and what could not be set: a line each.

use super::Paint;
use super::page::Page;
use crate::json::{Isolated, IsolatedState};
use model::recording::Recording;
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes the lines.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let all = Isolated::all_of(recording);
    if all.is_empty() {
        return Ok(());
    }
    page.gap()?;
    for (at, one) in all.iter().enumerate() {
        let label = if at == 0 { "Isolated" } else { "" };
        let first = one.said.first().map_or("", String::as_str);
        let (paint, text) = match one.state {
            IsolatedState::Set => (Paint::Plain, first.to_owned()),
            IsolatedState::Undone => (Paint::Plain, format!("{first}; undone")),
            IsolatedState::WasSo => (Paint::Dim, first.to_owned()),
            IsolatedState::NotSet => (Paint::Warn, first.to_owned()),
            IsolatedState::NotUndone => (Paint::Bad, one.said.join("; ")),
        };
        page.wrapped(INDENT, (Paint::Heading, label.to_owned()), paint, &text)?;
    }
    Ok(())
}
