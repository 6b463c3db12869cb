//! A recording made of another instrument's text: read, kept, diagnosed as a run's, without a load.
//!
//! What a run has and an import has not is left empty; that it is one stands in the capsule
//! ([`model::recording::Capsule::import`]). Its plan only names where it comes from.

use crate::run::{Outcome, RecordTo};
use crate::without_load::{open, plan_without_load};
use diagnose::history::History;
use model::Recording;
use model::recording::{Capsule, End};
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};
use observe::import::{Format, ImportError, Imported, Options};
use std::io::BufRead;
use std::time::{SystemTime, UNIX_EPOCH};
use store::{StoreError, Writer};

/// Snapshots kept in one transaction.
const BATCH: usize = 200;

/// What an import needs beside the text.
#[derive(Debug)]
pub struct ImportSpec<'a> {
    /// The text's format.
    pub format: &'static Format,
    /// The file's name, for the recording.
    pub file: String,
    /// What the text does not say.
    pub options: Options,
    /// Where the recording goes.
    pub record: &'a RecordTo,
    /// The command line, for the recording.
    pub command: Vec<String>,
    /// The tool's version.
    pub version: String,
}

/// Why there is no import.
#[derive(Debug, thiserror::Error)]
pub enum ImportingError {
    /// Nothing in the text could be read.
    #[error(transparent)]
    Text(#[from] ImportError),
    /// The recording cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads the text and keeps what it says.
///
/// # Errors
/// [`ImportingError`]; a recording that fails later is in the outcome.
pub fn import(from: &mut dyn BufRead, spec: &ImportSpec<'_>) -> Result<Outcome, ImportingError> {
    let imported = observe::import::read(spec.format, from, &spec.options)?;
    let Imported { mut about, started_at_unix_ns, events, snapshots } = imported;
    about.file.clone_from(&spec.file);
    about.is_dated = started_at_unix_ns.is_some();
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let started_at_unix_ns =
        started_at_unix_ns.unwrap_or_else(|| u64::try_from(now_ns).unwrap_or(0).saturating_sub(about.span_ns));
    let why_partial = about.why_partial();
    let plan = plan_without_load(about.name(), about.interval_ns);
    let samplers = vec![sampler(spec.format.name, &about.what)];
    let capsule = Capsule {
        version: spec.version.clone(),
        command: spec.command.clone(),
        started_at_unix_ns,
        kernel: about.kernel.clone(),
        cpu: about.cores.map_or_else(String::new, |cores| format!("{cores} cores")),
        cores: about.cores.unwrap_or(0),
        import: Some(about.clone()),
        ..Capsule::default()
    };
    let writer = open(spec.record, &capsule, &plan)?;
    let recorded_at = writer.as_ref().map(|writer| writer.path().to_owned());
    let mut kept = Kept { writer, error: None, batch: Vec::new() };
    let mut recording = Recording::new(capsule, plan);
    let mut history = History::default();
    for (number, snapshot) in (0..).zip(snapshots) {
        kept.keep(&snapshot);
        history.push(&snapshot);
        recording.push_snapshot(number, snapshot);
        kept.merge(&recording, &history);
    }
    kept.flush();
    kept.events(&events);
    events.into_iter().for_each(|event| recording.push_event(event));
    // The window that rules look at: all of it.
    recording.totals.measured_ns = about.span_ns;
    recording.samplers = samplers;
    recording.end = if why_partial.is_some() { End::Partial } else { End::Complete };
    let diagnosis = diagnose::diagnose_with(&recording, &history);
    let recording_error = kept.finish(&recording, &diagnosis, why_partial.as_deref());
    Ok(Outcome { recording, diagnosis, recorded_at, recording_error })
}

/// Writes, as long as writing works.
struct Kept {
    writer: Option<Writer>,
    error: Option<StoreError>,
    batch: Vec<Snapshot>,
}

impl Kept {
    fn keep(&mut self, snapshot: &Snapshot) {
        if self.writer.is_some() {
            self.batch.push(snapshot.clone());
            if self.batch.len() >= BATCH {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.write(|writer| writer.append_snapshots(&batch));
    }

    /// Lets old readings be merged, where there are many; only once all that was read is written.
    fn merge(&mut self, recording: &Recording, history: &History) {
        if self.batch.is_empty() && self.writer.as_ref().is_some_and(Writer::is_merge_due) {
            self.write(|writer| writer.merge(recording, history));
        }
    }

    fn events(&mut self, events: &[Event]) {
        self.write(|writer| writer.append(None, None, events));
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer) -> Result<(), StoreError>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = write(writer) {
            // The mark is best effort: a file without it reads as partial too.
            let _ = writer.mark_partial(&error.to_string());
            (self.error, self.writer) = (Some(error), None);
        }
    }

    fn finish(
        mut self,
        recording: &Recording,
        diagnosis: &model::finding::Diagnosis,
        why_partial: Option<&str>,
    ) -> Option<StoreError> {
        if let Some(why) = why_partial {
            self.write(|writer| writer.mark_partial(why));
        }
        let finished = self
            .writer
            .map(|writer| writer.finish(&recording.totals, &recording.samplers, recording.end, Some(diagnosis)));
        self.error.or(finished.and_then(Result::err))
    }
}

/// The text stands where a run's samplers do.
fn sampler(format: &str, what: &str) -> SamplerStatus {
    SamplerStatus {
        name: format!("import/{format}"),
        status: SamplerState::Active,
        reason: format!("only what the {what} shows was read"),
    }
}
