//! The report one reads: how much, how fast, how sure; then what lies behind it, each part only where it has something
//! to say.
//!
//! A line is never longer than the width except where a word is; 80 columns are enough for everything. Nothing in
//! colour is not also in words.

pub(crate) mod blocks;
pub(crate) mod disruptions;
pub mod explain;
pub(crate) mod failures;
pub(crate) mod findings;
pub(crate) mod generator;
pub(crate) mod generators;
pub(crate) mod headline;
pub(crate) mod held;
pub(crate) mod imported;
pub(crate) mod isolation;
pub(crate) mod kernel;
pub(crate) mod latency;
pub(crate) mod page;
pub(crate) mod remote;
pub(crate) mod segments;
pub(crate) mod slow;
pub mod together;

pub(crate) use disruptions::faults;
pub(crate) use slow::split;

use crate::{Describe, damage, words};
use model::Recording;
use model::finding::Diagnosis;
use page::Page;
use std::io::{self, Write};

/// How text is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// With colour.
    pub color: bool,
    /// Columns.
    pub width: usize,
    /// Whether more than ASCII can be shown.
    pub unicode: bool,
}

/// What a span of text means; its colour follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    /// A section's name.
    Heading,
    /// The figure that matters in its place.
    Strong,
    /// What one need not read.
    Dim,
    Good,
    Warn,
    Bad,
    /// Bars.
    Bar,
}

impl Paint {
    /// The SGR parameters (ECMA-48, 8.3.117).
    fn code(self) -> Option<&'static str> {
        match self {
            Paint::Plain => None,
            Paint::Heading | Paint::Strong => Some("1"),
            Paint::Dim => Some("2"),
            Paint::Good => Some("32"),
            Paint::Warn => Some("33"),
            Paint::Bad => Some("31"),
            Paint::Bar => Some("36"),
        }
    }
}

/// What the report needs beside the recording.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How it is drawn.
    pub style: Style,
    /// The protocol's words for its error details.
    pub describe: Describe<'a>,
    /// Whether all evidence is shown and every finding in full; else three pieces of each.
    pub all: bool,
    /// Where the recording is and the command that reads it; `None`: it was not kept.
    pub kept: Option<Kept<'a>>,
}

/// Where the recording is.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    /// The file, as text.
    pub path: &'a str,
    /// The command that shows it again.
    pub command: &'a str,
}

/// Writes the report.
///
/// # Errors
/// Those of the writer.
pub fn write(
    to: &mut impl Write,
    recording: &Recording,
    diagnosis: &Diagnosis,
    options: &Options<'_>,
) -> io::Result<()> {
    write_part(&mut Page::new(to, options.style), recording, diagnosis, options, false)
}

/// The same on a page; of a load `beside` another, without what was read of the machine.
fn write_part<W: Write>(
    page: &mut Page<'_, W>,
    recording: &Recording,
    diagnosis: &Diagnosis,
    options: &Options<'_>,
    beside: bool,
) -> io::Result<()> {
    if let Some(damage) = damage::sentence(&recording.integrity) {
        page.wrapped(0, (Paint::Plain, String::new()), Paint::Bad, &words::capitalized(&damage))?;
        page.gap()?;
    }
    if let Some(import) = &recording.capsule.import {
        imported::write(page, recording, import)?;
        page.gap()?;
        headline::gives(page, diagnosis, options)?;
        findings::write(page, diagnosis, options)?;
    } else if let Some(whom) = &recording.capsule.watched {
        page.line(&[(Paint::Strong, format!("watch {whom}")), (Paint::Dim, "  no load was put on".to_owned())])?;
        headline::gives(page, diagnosis, options)?;
        kernel::write(page, &recording.snapshots)?;
        crate::profile::write(page, &recording.profile)?;
        findings::write(page, diagnosis, options)?;
    } else {
        headline::write(page, recording, diagnosis, options)?;
        latency::phases::write(page, recording)?;
        faults::write(page, recording)?;
        disruptions::write(page, recording, diagnosis)?;
        segments::write(page, diagnosis)?;
        held::write(page, recording, diagnosis)?;
        latency::table(page, recording)?;
        latency::bars(page, recording)?;
        split::write(page, recording)?;
        slow::slowest(page, diagnosis)?;
        latency::gaps::write(page, recording)?;
        failures::errors(page, recording, options.describe)?;
        crate::entries::write(page, recording)?;
        failures::status(page, recording)?;
        blocks::write(page, recording)?;
        if !beside {
            generators::write(page, recording)?;
            generator::write(page, recording)?;
            isolation::write(page, recording)?;
            kernel::write(page, &recording.snapshots)?;
            crate::profile::write(page, &recording.profile)?;
        }
        findings::write(page, diagnosis, options)?;
    }
    if let Some(kept) = options.kept {
        page.gap()?;
        page.row(&[(Paint::Heading, format!("{:11}", "Recording")), (Paint::Plain, kept.path.to_owned())])?;
        page.row(&[(Paint::Dim, format!("{:11}{}", "", kept.command))])?;
        if recording.integrity.without_checksums {
            page.wrapped(11, (Paint::Plain, String::new()), Paint::Dim, damage::WITHOUT_CHECKSUMS)?;
        }
    }
    Ok(())
}
