//! What `plimsoll diagnose` says of a recording: the sentence, what proves it, the remedy, the command that checks it.
//!
//! As text, as Markdown for pasting, and as the document `plimsoll.diagnosis/1`. A recording that is damaged or was cut off
//! says so first.

use super::escaped;
use crate::damage;
use crate::figures::rfc3339;
use crate::text::page::Page;
use crate::text::{Options, Paint, Style, findings, headline};
use crate::words::capitalized;
use model::finding::{Diagnosis, Finding, Loss, Segment, Status, Validity, WhatGives};
use model::integrity::Damage;
use model::plain::plain;
use model::recording::{End, Recording};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.diagnosis/1";

/// A recording and what is made of it.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// What is made of it.
    pub diagnosis: &'a Diagnosis,
    /// Why it stops where it does, of one that was cut off.
    pub partial: Option<&'a str>,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Always `plimsoll.diagnosis/1`.
    pub schema: &'static str,
    /// The version that made the recording.
    pub version: String,
    /// When the run began: RFC 3339, UTC.
    pub started_at: String,
    /// The recording's file.
    pub recording: Option<String>,
    /// How the run ended.
    pub end: End,
    /// What of the recording is damaged.
    pub damage: Vec<Damage>,
    /// Where the load went, or what was watched or imported.
    pub target: Vec<String>,
    /// Whether the figures may be believed.
    pub validity: Validity,
    /// What gives first, in one sentence.
    pub gives: Option<WhatGives>,
    /// What users lost, the weightiest first.
    pub losses: Vec<Loss>,
    /// Causes that the evidence supports, those that explain most first.
    pub findings: Vec<Finding>,
    /// Every other cause that was looked for, of the same shape.
    pub judged: Vec<Finding>,
    /// The stretches of the measured time in which the figures kept their levels.
    pub segments: Vec<Segment>,
}

impl Document {
    /// Of an answer, with the recording's file.
    pub fn of(answer: &Answer<'_>, path: Option<&str>) -> Self {
        let Answer { recording, diagnosis, .. } = answer;
        let (findings, judged) = diagnosis.findings.iter().cloned().partition(|f| f.status == Status::Supported);
        Document {
            schema: SCHEMA,
            version: recording.capsule.version.clone(),
            started_at: rfc3339(recording.capsule.started_at_unix_ns),
            recording: path.map(str::to_owned),
            end: recording.end,
            damage: recording.integrity.damage.clone(),
            target: recording.plan.origins.iter().map(|origin| origin.name.clone()).collect(),
            validity: diagnosis.validity.clone(),
            gives: diagnosis.gives.clone(),
            losses: diagnosis.losses.clone(),
            findings,
            judged,
            segments: diagnosis.segments.clone(),
        }
    }

    /// Writes it, indented, with an end of line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *to, self)?;
        writeln!(to)
    }
}

/// Writes it as text: the answer alone, or with all findings, all their evidence and what could not be judged.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, answer: &Answer<'_>, all: bool, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    for warning in warnings(answer) {
        page.wrapped(0, (Paint::Plain, String::new()), Paint::Bad, &warning)?;
    }
    let options = Options { style, describe: &|_| None, all, kept: None };
    headline::gives(&mut page, answer.diagnosis, &options)?;
    if all {
        findings::write(&mut page, answer.diagnosis, &options)?;
    }
    Ok(())
}

/// Writes it as Markdown.
///
/// # Errors
/// Those of the writer.
pub fn write_markdown(to: &mut impl Write, answer: &Answer<'_>, all: bool) -> io::Result<()> {
    for warning in warnings(answer) {
        writeln!(to, "> **{}**\n", escaped(&warning))?;
    }
    let gives = answer.diagnosis.gives.as_ref();
    let sentence = gives.map_or("What gives first is not known.".to_owned(), |gives| capitalized(&gives.text));
    let id = gives.and_then(|gives| gives.finding.as_ref()).map_or(String::new(), |id| format!(" (`{id}`)"));
    writeln!(to, "## {}{id}\n", escaped(&sentence))?;
    let first = answer.diagnosis.first_to_give();
    if let Some(finding) = first {
        markdown_of(to, finding, all)?;
    }
    let others = answer.diagnosis.findings.iter().filter(|finding| finding.status == Status::Supported);
    for finding in others.filter(|finding| all && first.is_none_or(|first| first.id != finding.id)) {
        writeln!(to, "\n### {} (`{}`)\n", escaped(&capitalized(&finding.title)), finding.id)?;
        markdown_of(to, finding, all)?;
    }
    Ok(())
}

fn markdown_of(to: &mut impl Write, finding: &Finding, all: bool) -> io::Result<()> {
    for evidence in finding.because.iter().take(if all { usize::MAX } else { findings::PIECES_MAX }) {
        let although = if evidence.is_against { "although " } else { "" };
        writeln!(to, "- {although}{}", escaped(&evidence.text))?;
    }
    if !finding.remedy.is_empty() {
        writeln!(to, "\n**Remedy:** {}", escaped(&finding.remedy))?;
    }
    if !finding.check_yourself.is_empty() {
        // A command may hold backticks; a fence of four does not end at three.
        writeln!(to, "\n````sh\n{}\n````", plain(&finding.check_yourself))?;
    }
    Ok(())
}

/// What must be known before the answer.
fn warnings(answer: &Answer<'_>) -> Vec<String> {
    let damage = damage::sentence(&answer.recording.integrity).map(|damage| capitalized(&damage));
    let partial = (answer.recording.end == End::Partial).then(|| match answer.partial {
        Some(reason) => format!("This recording is partial: {reason}"),
        None => "This recording is partial: it stops in the middle of the run".to_owned(),
    });
    damage.into_iter().chain(partial).collect()
}
