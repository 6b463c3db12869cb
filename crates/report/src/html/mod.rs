//! The report as one page of HTML: a file that needs nothing else, for people who look before they read.
//!
//! Words and figures are those of the text report: its lines are taken as they are (`lines`) and set in another type. What is
//! drawn goes along packed (`pack`) and is drawn by the script in `assets/`, which is made of `web/` and checked to be
//! (`crates/report/tests/pages/html.rs`). The page asks nobody for anything: its Content-Security-Policy allows its own script and
//! style by their hashes, and nothing more. What came from outside is text, or packed: it can end no element.
//!
//! Without its script the page is whole but for pictures: every chart has its figures as a table.

mod answers;
pub mod charts;
pub mod course;
mod data;
pub mod flames;
mod frame;
pub mod heat;
mod lines;
mod pack;
mod page;
pub mod periods;
pub mod plots;
mod run;
mod served;
mod table;
pub mod unit;

use crate::Describe;
use crate::json::Document;
use crate::text::{Kept, Options, Style};
use course::Course;
use flames::Flame;
use heat::Heat;
use loads::Beside;
use model::Recording;
use model::finding::Diagnosis;
use model::recording::Row;
use std::io::{self, Write};

pub use answers::{capacity, comparison, surface};
pub use frame::{BUNDLE_HASH, SCRIPT};
pub use run::loads;
pub use served::{library, live};

/// What the page is made of.
pub struct Report<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// What is made of it.
    pub diagnosis: &'a Diagnosis,
    /// The protocol's words for its error details.
    pub describe: Describe<'a>,
    /// Where the recording is.
    pub kept: Option<Kept<'a>>,
    /// The course of the run: every tick, or the timeline.
    pub rows: Vec<Row>,
    /// Response times over time.
    pub heat: Heat,
    /// What was read of machine and target.
    pub course: Course,
    /// Where the target ran and waited.
    pub flames: Vec<Flame>,
    /// Loads that were put on beside it.
    pub beside: Vec<Beside<'a>>,
    /// Whether the run goes on: it is then shown as if it ended now.
    pub goes_on: bool,
}

impl std::fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Report").field("rows", &self.rows.len()).field("heat", &self.heat.len()).finish_non_exhaustive()
    }
}

impl Report<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let document = Document::of(self.recording, self.diagnosis, self.describe, self.kept.map(|kept| kept.path))
            .with_loads(self.beside.iter().map(Beside::document).collect());
        let charts = self.charts();
        let page = frame::Frame {
            title: &page::title(&run::sections::target_of(self)),
            body: run::sections::body(self, &document, &charts)?,
            data: &data::packed(self, &charts)?,
            document: &pack::encoded(&[&serde_json::to_vec(&document)?])?,
            name: &page::file_name("", self.recording.capsule.started_at_unix_ns),
            asks: None,
        };
        to.write_all(page.markup().into_string().as_bytes())
    }

    /// How parts of the text report are asked to be.
    fn options(&self) -> Options<'_> {
        let style = Style { color: true, width: usize::MAX / 2, unicode: true };
        Options { style, describe: self.describe, all: true, kept: self.kept }
    }
}
