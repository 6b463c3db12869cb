//! What figures of a load were found to be when held against each other, for people and for scripts.

use crate::text::{Paint, Style, page::Page};
use diagnose::audit::{Checked, Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.audit/1";

const INDENT: usize = 22;

/// An audit as a document, `plimsoll.audit/1`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Always `plimsoll.audit/1`.
    pub schema: &'static str,
    /// The recording that the figures are of; null: they were given by hand.
    pub recording: Option<String>,
    /// Whether figures contradict each other.
    pub contradicts: bool,
    /// Every check that the figures allow.
    pub checks: Vec<Checked>,
}

impl Document {
    /// Of some checks.
    pub fn of(checks: Vec<Checked>, recording: Option<String>) -> Self {
        let contradicts = checks.iter().any(|checked| checked.outcome == Outcome::CannotBe);
        Document { schema: SCHEMA, recording, contradicts, checks }
    }

    /// Writes it as JSON, indented, with an end of line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_json(&self, to: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *to, self)?;
        writeln!(to)
    }

    /// Writes it as text: the verdict, then a line for each check.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_text(&self, to: &mut impl Write, style: Style) -> io::Result<()> {
        let page = &mut Page::new(to, style);
        let verdict = match self.contradicts {
            true => (Paint::Bad, "These figures cannot all be true.".to_owned()),
            false => (Paint::Good, "Nothing in these figures contradicts the rest.".to_owned()),
        };
        page.line(&[verdict])?;
        for checked in &self.checks {
            let paint = match checked.outcome {
                Outcome::Agrees => Paint::Good,
                Outcome::CannotBe => Paint::Bad,
                Outcome::Says => Paint::Plain,
            };
            page.wrapped(
                INDENT,
                (Paint::Dim, format!("  {}", checked.check)),
                paint,
                &format!("{}: {}", checked.outcome.name(), checked.text),
            )?;
        }
        Ok(())
    }
}
