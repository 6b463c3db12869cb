//! Another instrument's text as snapshots: what `sar`, `nmon` and `vmstat` printed, mailed by who has the machine.
//!
//! A parser takes lines and gives readings by their moment (`series`); columns are found by their names, so that
//! versions may differ. No file is opened here and no clock is read. What is not understood is counted and named with its
//! line, never guessed: only where nothing at all can be read is there no result. Names are those of the samplers
//! where the meaning is the same, else those of [`names`]; what has neither is listed as not taken.
//! Memory is bounded whatever the length of the text. To add a format: a file beside the others, a line in [`FORMATS`].

mod dmesg;
mod lines;
pub mod names;
mod nmon;
mod sar;
mod series;
mod time;
mod vmstat;

pub use series::Snapshots;

use crate::limits::{IMPORT_EXAMPLES_MAX, IMPORT_NOT_TAKEN_MAX};
use lines::Lines;
use model::Event;
use model::event::Events;
use model::import::{Import, Misread};
use series::Series;
use std::collections::BTreeSet;
use std::io::BufRead;

/// A format as it is listed.
#[derive(Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a phrase.
    pub about: &'static str,
    /// How such a text is made.
    pub made_by: &'static str,
    parse: fn(&mut Lines<'_>, &Options, &mut Taken) -> Result<(), ImportError>,
    /// Whether a line is one that only this format has.
    is_mine: fn(&str) -> bool,
}

/// Every format.
pub const FORMATS: &[Format] = &[sar::FORMAT, nmon::FORMAT, vmstat::FORMAT, dmesg::FORMAT];

/// What the text itself does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Time between two readings, nanoseconds, where the text has no time of day; `None`: a second.
    pub every_ns: Option<u64>,
    /// Wall clock of the first reading, nanoseconds since 1970; wins over the text's own.
    pub started_at_unix_ns: Option<u64>,
    /// `vmstat -y`: the first line is of an interval, too, and not since boot.
    pub is_first_interval: bool,
}

/// What was read.
#[derive(Debug)]
pub struct Imported {
    /// Where it is from and how it was read; the file's name is the caller's to fill in.
    pub about: Import,
    /// Wall clock of the first reading, nanoseconds since 1970; `None`: the text does not say, and nobody did.
    pub started_at_unix_ns: Option<u64>,
    /// What happened, oldest first.
    pub events: Vec<Event>,
    /// The readings, oldest first.
    pub snapshots: Snapshots,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImportError {
    /// It is a file of sysstat's collector, not a text.
    #[error(
        "expected the text of sar, got sysstat's binary file: run  sar -A -f FILE > FILE.txt  (with the sysstat that wrote it) and import that"
    )]
    SysstatBinary,
    /// It is packed.
    #[error("expected a text, got one packed by {with}: unpack it first ({how})")]
    Packed {
        /// The program.
        with: &'static str,
        /// A command.
        how: &'static str,
    },
    /// It is of another format.
    #[error("expected the text of {wanted}, got one of {found}: plimsoll import {found} FILE")]
    Other {
        /// What was asked for.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// It is `sadf -j`, `-x` or the like.
    #[error("expected the text of sar or sadf -d, got {0}: run  sadf -d FILE -- -A > FILE.txt  and import that")]
    Sadf(&'static str),
    /// Nothing was understood.
    #[error("expected the text of {format} ({made_by}), and none of its {lines} lines has a reading{why}")]
    Nothing {
        /// What was asked for.
        format: &'static str,
        /// How it is made.
        made_by: &'static str,
        /// How many lines there were.
        lines: u64,
        /// The first line that was not understood, if there is one.
        why: String,
    },
    /// The file could not be read.
    #[error("the text could not be read: {0}")]
    Io(String),
}

/// Reads a text.
///
/// # Errors
/// [`ImportError`], where nothing at all could be read.
pub fn read(format: &Format, from: &mut dyn BufRead, options: &Options) -> Result<Imported, ImportError> {
    refuse_binary(from)?;
    let mut lines = Lines::new(from);
    let mut taken = Taken::default();
    taken.about.format = format.name.to_owned();
    (format.parse)(&mut lines, options, &mut taken)?;
    if let Some(error) = lines.error() {
        if lines.number() == 0 {
            return Err(ImportError::Io(error.to_owned()));
        }
        taken.misread(lines.number() + 1, format!("reading stopped here: {error}"));
    }
    if taken.series.is_empty() {
        return Err(nothing(format, &lines, &taken));
    }
    Ok(taken.finish(&lines, options))
}

/// Binary files that are taken for texts, by their first bytes.
fn refuse_binary(from: &mut dyn BufRead) -> Result<(), ImportError> {
    let head = from.fill_buf().map_err(|error| ImportError::Io(error.to_string()))?;
    match head {
        // sysstat's magic number (sa.h, SYSSTAT_MAGIC 0xd596), in either byte order.
        [0x96, 0xd5, ..] | [0xd5, 0x96, ..] => Err(ImportError::SysstatBinary),
        [0x1f, 0x8b, ..] => Err(ImportError::Packed { with: "gzip", how: "gunzip FILE" }),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Err(ImportError::Packed { with: "xz", how: "unxz FILE" }),
        [b'B', b'Z', b'h', ..] => Err(ImportError::Packed { with: "bzip2", how: "bunzip2 FILE" }),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Err(ImportError::Packed { with: "zstd", how: "unzstd FILE" }),
        _ => Ok(()),
    }
}

fn nothing(format: &Format, lines: &Lines<'_>, taken: &Taken) -> ImportError {
    let mine = |line: &str| FORMATS.iter().find(|other| other.name != format.name && (other.is_mine)(line));
    if let Some(other) = lines.head().iter().find_map(|line| mine(line)) {
        return ImportError::Other { wanted: format.name, found: other.name };
    }
    let first = taken.about.examples.first();
    let why = first.map_or_else(String::new, |first| format!("; line {}: {}", first.line, first.why));
    ImportError::Nothing { format: format.name, made_by: format.made_by, lines: lines.number(), why }
}

/// What a parser fills.
#[derive(Debug, Default)]
struct Taken {
    about: Import,
    series: Series,
    not_taken: BTreeSet<String>,
    /// Moments and what happened at them, in the text's own time.
    events: Events,
    /// Whether the text has times that count from 1970.
    is_dated: bool,
}

impl Taken {
    /// A line was not understood.
    fn misread(&mut self, line: u64, why: impl Into<String>) {
        self.about.not_understood += 1;
        if self.about.examples.len() < IMPORT_EXAMPLES_MAX {
            self.about.examples.push(Misread { line, why: why.into() });
        }
    }

    /// A column or section has no metric here.
    fn not_taken(&mut self, what: &str) {
        if self.not_taken.len() < IMPORT_NOT_TAKEN_MAX && !self.not_taken.contains(what) {
            self.not_taken.insert(lines::shown(what));
        }
    }

    /// Something about how the text was read; each sentence once.
    fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.about.notes.len() < IMPORT_EXAMPLES_MAX && !self.about.notes.contains(&text) {
            self.about.notes.push(text);
        }
    }

    /// Something happened; each thing once.
    fn event(&mut self, at_ns: i64, kind: &str, text: String) {
        let event = Event::new(at_ns, kind, text);
        if !self.events.contains(&event) {
            self.events.push(event);
        }
    }

    fn finish(mut self, lines: &Lines<'_>, options: &Options) -> Imported {
        let (first_ns, last_ns) = self.series.ends().unwrap_or((0, 0));
        let from_text = self.is_dated.then(|| u64::try_from(first_ns).unwrap_or(0));
        for text in self.series.left_out() {
            self.note(text);
        }
        let interval_ns = self.series.interval_ns();
        self.series.open_gaps();
        let about = Import {
            is_dated: self.is_dated,
            lines: lines.number(),
            samples: self.series.len() as u64,
            span_ns: u64::try_from(last_ns.saturating_sub(first_ns)).unwrap_or(0),
            interval_ns,
            metrics: self.series.names(),
            not_taken: self.not_taken.into_iter().collect(),
            ..self.about
        };
        self.events.sort();
        let mut events = self.events.take(last_ns);
        for event in &mut events {
            event.at_ns = event.at_ns.saturating_sub(first_ns);
        }
        Imported {
            started_at_unix_ns: options.started_at_unix_ns.or(from_text),
            events,
            snapshots: self.series.into_snapshots(about.cores),
            about,
        }
    }
}
