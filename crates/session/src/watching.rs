//! A target watched without load, as a recording: kept as it is read where a file was named, and diagnosed at the end.
//!
//! What was seen goes through the same diagnosis as a run's recording, which says of causes that need a load that there was
//! none. A file that cannot be written any more ends the keeping and not the watching.

use crate::run::{Outcome, RecordTo};
use crate::without_load::{open, plan_without_load};
use diagnose::history::History;
use model::finding::Diagnosis;
use model::recording::{Capsule, End};
use model::watched::{Watched, Whom};
use model::{Event, Recording, Snapshot};
use store::{StoreError, Writer};

/// What is known of a watch before its first reading.
#[derive(Debug)]
pub struct WatchSpec<'a> {
    /// Who is watched; `None`: whoever an observer elsewhere was started for.
    pub whom: Option<Whom>,
    /// The address of the observer elsewhere, where there is one.
    pub at: Option<&'a str>,
    /// Time between two readings, nanoseconds.
    pub tick_ns: u64,
    /// Where the recording goes.
    pub record: &'a RecordTo,
    /// The command line, for the recording.
    pub command: Vec<String>,
    /// The tool's version.
    pub version: String,
}

/// Takes readings in as they come.
#[derive(Debug)]
pub struct Keeper {
    writer: Option<Writer>,
    error: Option<StoreError>,
    recording: Recording,
    history: History,
    number: u64,
}

impl Keeper {
    /// Begins, before anything is read.
    ///
    /// # Errors
    /// The recording cannot be kept.
    pub fn start(spec: &WatchSpec<'_>) -> Result<Self, StoreError> {
        let watched = match (spec.whom, spec.at) {
            (Some(Whom::Pid(pid)), None) => format!("process {pid}"),
            (Some(Whom::Port(port)), None) => format!("port {port}"),
            (Some(Whom::Pid(pid)), Some(at)) => format!("process {pid} at {at}"),
            (Some(Whom::Port(port)), Some(at)) => format!("port {port} at {at}"),
            (None, at) => format!("the target at {}", at.unwrap_or("an observer")),
        };
        let capsule = Capsule {
            version: spec.version.clone(),
            command: spec.command.clone(),
            watched: Some(watched.clone()),
            ..observe::capsule()
        };
        let plan = plan_without_load(format!("watch {watched}"), spec.tick_ns);
        let writer = open(spec.record, &capsule, &plan)?;
        let recording = Recording::new(capsule, plan);
        Ok(Keeper { writer, error: None, recording, history: History::default(), number: 0 })
    }

    /// Takes in a reading, and what happened since the one before.
    pub fn push(&mut self, snapshot: &Snapshot, events: &[Event]) {
        self.write(|writer| writer.append(None, Some(snapshot), events));
        self.history.push(snapshot);
        self.recording.push_snapshot(self.number, snapshot.clone());
        self.number += 1;
        events.iter().for_each(|event| self.recording.push_event(event.clone()));
        if self.writer.as_ref().is_some_and(Writer::is_merge_due) {
            let (recording, history) = (&self.recording, &self.history);
            if let Some(Err(error)) = self.writer.as_mut().map(|writer| writer.merge(recording, history)) {
                self.give_up(error);
            }
        }
    }

    /// How it stands: what was read so far, and what would be said of it if it ended now, so many nanoseconds after its start.
    pub fn standing(&mut self, at_ns: u64) -> (&Recording, Diagnosis) {
        self.recording.totals.measured_ns = at_ns;
        self.recording.end = End::Complete;
        let diagnosis = diagnose::diagnose_with(&self.recording, &self.history);
        self.recording.end = End::Partial;
        (&self.recording, diagnosis)
    }

    /// What came of it.
    pub fn finish(mut self, watched: &Watched, end: End) -> Outcome {
        self.recording.totals.measured_ns = watched.watched_ns;
        self.recording.samplers.clone_from(&watched.samplers);
        self.recording.end = end;
        let diagnosis = diagnose::diagnose_with(&self.recording, &self.history);
        let mut recorded_at = None;
        if let Some(writer) = self.writer.take() {
            let (totals, samplers) = (&self.recording.totals, &self.recording.samplers);
            recorded_at = Some(writer.path().to_owned());
            self.error = writer.finish(totals, samplers, end, Some(&diagnosis)).err();
        }
        Outcome { recording: self.recording, diagnosis, recorded_at, recording_error: self.error }
    }

    /// Writes, as long as writing works.
    fn write(&mut self, write: impl FnOnce(&mut Writer) -> Result<(), StoreError>) {
        if let Some(Err(error)) = self.writer.as_mut().map(write) {
            self.give_up(error);
        }
    }

    fn give_up(&mut self, error: StoreError) {
        if let Some(mut writer) = self.writer.take() {
            // The mark is best effort: a file without it reads as partial too.
            let _ = writer.mark_partial(&error.to_string());
        }
        self.error = Some(error);
    }
}
