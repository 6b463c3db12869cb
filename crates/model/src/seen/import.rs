//! Where a recording without load comes from: text that another instrument wrote, and what was made of it.
//!
//! Data only. It stands in the capsule ([`crate::recording::Capsule::import`]); where it does, no load was put on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Import {
    /// The format, as it is named on the command line: `sar`, `nmon`, `vmstat`.
    pub format: String,
    /// What the text was found to be, in words.
    pub what: String,
    /// The file.
    pub file: String,
    /// The machine it is of; empty where the text does not say.
    pub host: String,
    /// Its kernel; empty where the text does not say.
    pub kernel: String,
    /// Its cores; null where the text does not say.
    pub cores: Option<u32>,
    /// Whether the text has the time of day; otherwise its start was given, or is when it was imported.
    pub is_dated: bool,
    /// Lines read.
    pub lines: u64,
    /// Lines that were not understood, the cut one at the end among them.
    pub not_understood: u64,
    /// The first of those.
    pub examples: Vec<Misread>,
    /// Moments there are readings of, and those put into gaps.
    pub samples: u64,
    /// From the first to the last, nanoseconds.
    pub span_ns: u64,
    /// The usual time between two, nanoseconds.
    pub interval_ns: u64,
    /// The metrics there are readings of.
    pub metrics: Vec<String>,
    /// Columns and sections that have no metric here.
    pub not_taken: Vec<String>,
    /// How the text was read where that is not plain.
    pub notes: Vec<String>,
}

/// A line that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Misread {
    /// Its number, from 1.
    pub line: u64,
    /// What was expected, and what came.
    pub why: String,
}

impl Import {
    /// The name it has in lists: `import sar FILE`, without the file's folders.
    pub fn name(&self) -> String {
        format!("import {} {}", self.format, self.file.rsplit('/').next().unwrap_or(&self.file))
    }

    /// Why the recording is not the whole of the file; `None`: it is.
    pub fn why_partial(&self) -> Option<String> {
        let first = self.examples.first()?;
        let plural = if self.not_understood == 1 { " was" } else { "s were" };
        Some(format!("{} line{plural} not understood, first line {}: {}", self.not_understood, first.line, first.why))
    }
}
