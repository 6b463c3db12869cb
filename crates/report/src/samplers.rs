//! The list of samplers and probes: text, a paragraph each, or a document, `plimsoll.samplers/1`.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use model::snapshot::{Listed, SamplerState};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.samplers/1";

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Document {
    /// Always `plimsoll.samplers/1`.
    pub schema: &'static str,
    /// The tool's version.
    pub version: String,
    /// All of them, in the order they are read.
    pub samplers: Vec<Listed>,
}

/// Writes the document, indented, with an end of line.
///
/// # Errors
/// Those of the writer.
pub fn json(to: &mut impl Write, samplers: Vec<Listed>, version: &str) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *to, &Document { schema: SCHEMA, version: version.to_owned(), samplers })?;
    writeln!(to)
}

/// Writes them as text.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, samplers: &[Listed], style: Style) -> io::Result<()> {
    const INDENT: usize = 10;
    let mut page = Page::new(to, style);
    for listed in samplers {
        let (paint, word) = match listed.status {
            SamplerState::Active => (Paint::Good, "active"),
            SamplerState::Disabled => (Paint::Dim, "disabled"),
            SamplerState::Failed => (Paint::Warn, "failed"),
        };
        page.line(&[(Paint::Heading, format!("{:24}", listed.name)), (paint, word.to_owned())])?;
        let mut part = |label: &str, paint, text: &str| {
            if text.is_empty() {
                return Ok(());
            }
            page.wrapped(INDENT, (Paint::Dim, format!("  {label}")), paint, text)
        };
        part("reads", Paint::Plain, &listed.about)?;
        part("needs", Paint::Plain, &listed.needs)?;
        part("costs", Paint::Plain, &listed.cost)?;
        let label = if listed.status == SamplerState::Active { "lacks" } else { "why" };
        part(label, if listed.status == SamplerState::Failed { Paint::Warn } else { Paint::Plain }, &listed.reason)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_whether_it_works_and_why_not() {
        let listed = |name: &str, status, reason: &str| Listed {
            name: name.to_owned(),
            about: "the machine (/proc/stat)".to_owned(),
            needs: "nothing".to_owned(),
            cost: "1 read a tick".to_owned(),
            status,
            reason: reason.to_owned(),
        };
        let samplers = vec![
            listed("host/cpu", SamplerState::Active, ""),
            listed("host/kernel_log", SamplerState::Failed, "give plimsoll CAP_SYSLOG"),
        ];
        let mut out = Vec::new();
        write(&mut out, &samplers, Style { color: false, width: 80, unicode: true }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "host/cpu                active");
        assert_eq!(lines[4], "host/kernel_log         failed");
        assert_eq!(lines.last().unwrap().trim(), "why     give plimsoll CAP_SYSLOG");
        let mut out = Vec::new();
        json(&mut out, samplers, "0.1.0").unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&value["schema"], &value["samplers"][1]["status"]), (&SCHEMA.into(), &"failed".into()));
        let schema = schemars::schema_for!(Document).to_value();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value));
    }
}
