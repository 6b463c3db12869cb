//! One run: load, observation and recording on one clock, then diagnosis.
//!
//! The session's thread takes full intervals from the workers, reads the host once a tick, appends both to the
//! recording and shows progress. It never blocks a worker. A recording that can no longer be written is given up with
//! its reason; the run goes on and is reported from memory.

mod abort;
mod behind;
mod hands;
mod isolation;
mod outages;
mod rate;
mod remarks;
mod shared;
mod standing;
mod start;
mod together;

use crate::faults::{FaultError, Running};
use crate::ticks::Ticks;
pub use crate::watch::Watch;
pub use abort::Aborting;
use behind::Behind;
pub use behind::BehindSpec;
use diagnose::history::History;
use diagnose::split::Joiner;
use engine::link::Tally;
use engine::{Fleet, Message, StartError};
pub use hands::{Hands, ThisProcess};
use isolation::Isolation;
use model::plan::Plan;
use model::recording::{End, Recording, Row, Tick};
use model::units::show_duration_ns;
use model::users::Users;
use model::{Event, Snapshot};
use observe::{Extent, FOLLOW_NICE, Observation};
use outages::Outages;
use remarks::Away;
use remote::{ObserveAt, RemoteError};
pub use standing::Standing;
pub use start::{run, run_among_others, run_on, run_with_faults};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::{StoreError, Writer};
pub use together::{Load, OneOf, places, run_beside, run_together, run_together_on};

/// Where the recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordTo {
    /// Nowhere.
    Nothing,
    /// To this file.
    File(PathBuf),
    /// To a file of its own in this folder.
    Folder(PathBuf),
}

/// What a run needs beside its plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the recording goes.
    pub record: RecordTo,
    /// The command line, for the recording, without secrets.
    pub command: Vec<String>,
    /// Whether the recording keeps the plan with its secrets; else, and in all that is shown, they are hidden.
    pub record_secrets: bool,
    /// The tool's version.
    pub version: String,
    /// Why this driver, for the recording.
    pub driver_reason: String,
    /// Whether host, target and generator are read at each tick; without, neither probes nor samplers run.
    pub observe: bool,
    /// Which probes run in the kernel.
    pub probes: model::bpf::Level,
    /// Where the target is observed; `None`: on this host.
    pub observe_at: Option<ObserveAt>,
    /// Machines behind the target that are observed too; of several loads none.
    pub behind: Vec<BehindSpec>,
    /// Becomes true when the run is to end early (Ctrl-C).
    pub interrupted: Arc<AtomicBool>,
}

/// What a run leaves.
#[derive(Debug)]
pub struct Outcome {
    /// All that was measured.
    pub recording: Recording,
    /// What is made of it.
    pub diagnosis: model::finding::Diagnosis,
    /// The recording's file, where there is one (partial if `recording_error` is set).
    pub recorded_at: Option<PathBuf>,
    /// Why the recording could not be kept to the end.
    pub recording_error: Option<StoreError>,
}

/// Why a run could not take place.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The recording cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target cannot be observed where it was said to be.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The workers could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A fault of the plan could not be done.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// There is no thread for the faults.
    #[error("expected a thread for the run's faults, but {0}: end other processes")]
    FaultThread(std::io::Error),
    /// There is no thread for a machine behind the target.
    #[error("expected a thread for an observer behind the target, but {0}: end other processes")]
    BehindThread(std::io::Error),
    /// Others were to put it on, and could not; in their words.
    #[error("{text}")]
    ByOthers {
        /// Why.
        text: String,
        /// What was asked is at fault: it cannot be put on by them, now or later.
        is_usage: bool,
    },
    /// It was told to end before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// A worker's thread panicked: a defect of plimsoll.
    #[error(
        "{count} of the generator's workers ended by a panic, so the figures are incomplete; please report this with the message above"
    )]
    Panicked {
        /// How many.
        count: usize,
    },
}

/// Why every load of a run ends early, once one has said so.
pub(crate) type EndOfAll = Arc<OnceLock<String>>;

/// Time after a reading of everything before which a drain does not ask for another, nanoseconds.
const WHOLE_AGAIN_NS: u64 = 100_000_000;

struct Session<'a> {
    recording: Recording,
    /// The plan as the file has it, where that keeps secrets.
    kept_plan: Option<Plan>,
    /// The rate that was last asked for while the run went on.
    rate: rate::Changed,
    /// All that was read so far; the recording keeps only some snapshots.
    history: History,
    /// Joins single requests with what the target's machine saw of them.
    joiner: Joiner,
    writer: Option<Writer>,
    recording_error: Option<StoreError>,
    observation: Box<dyn Observation>,
    snapshots: u64,
    ticks: Ticks,
    /// When nothing succeeded.
    outages: Outages,
    /// What each connection was asked and gave, of the workers that have ended.
    tallies: Vec<Tally>,
    /// The tick before, and the latest reading of the machine: what tells whether the generator was disturbed since.
    last_row: Option<Row>,
    last_snapshot: Option<Snapshot>,
    /// Since when nobody takes connections.
    away: Option<Away>,
    /// When the recording is next told how the samplers fare.
    samplers_due_ns: u64,
    /// Workers that have not ended.
    workers_left: usize,
    /// The machine was read on after the load.
    has_read_on: bool,
    /// The end of the last tick of which everything was read.
    whole_ns: u64,
    /// What is done to the target meanwhile.
    faults: Option<Running>,
    /// What holds the machine still meanwhile.
    isolation: Option<Isolation>,
    /// What is behind the target.
    behind: Option<Behind>,
    /// Tells every load of the run; `None`: this one is alone.
    broadcaster: Option<shared::Broadcaster>,
    watch: &'a mut dyn Watch,
    /// What ends the run early.
    aborting: Aborting,
    /// Said by the load that ends the run early: every load of it then ends.
    end_of_all: EndOfAll,
    /// The recording's file.
    recorded_at: Option<PathBuf>,
    /// How old this process was before the load.
    since_process_start_ns: Option<u64>,
    /// CPU time of this process that is not the run's.
    used_before: observe::own::Usage,
}

impl Session<'_> {
    /// Follows the run on a thread that gives way to the workers: what a tick takes must not become their lag.
    fn follow_aside(&mut self, fleet: &mut Fleet, interrupted: &AtomicBool) {
        let followed = std::thread::scope(|scope| {
            let follow = || {
                // A thread may always lower its own priority; on Linux, the calling thread's alone.
                let _ = rustix::process::setpriority_process(None, FOLLOW_NICE);
                if let Some(writer) = &mut self.writer {
                    writer.pause_by(observe::give_way);
                }
                self.follow(fleet, interrupted);
            };
            std::thread::Builder::new()
                .name("session".to_owned())
                .spawn_scoped(scope, follow)
                .map(|thread| thread.join())
        });
        match followed {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // No thread to be had: at full priority, rather than not at all.
            Err(_) => self.follow(fleet, interrupted),
        }
    }

    /// Reads the machine on without load, for as long as the plan says or until it is told to end (`--after`). A run that was
    /// told to end, or in which nothing connected, has nothing to show there.
    fn read_on(&mut self, load_end_ns: i64, interrupted: &AtomicBool) {
        let plan = &self.recording.plan;
        let (whole, tick) = (Duration::from_nanos(plan.after_ns), Duration::from_nanos(plan.tick_ns.max(1)));
        if whole.is_zero() || self.recording.end == End::Interrupted || !self.recording.has_connected() {
            return;
        }
        let began = Instant::now();
        let now_ns = || load_end_ns.saturating_add(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
        let text = format!(
            "the load has ended; the machine is read on for {} (--after)",
            show_duration_ns(whole.as_nanos() as f64)
        );
        self.event(Event::new(load_end_ns, model::event::LOAD_ENDED, text));
        self.has_read_on = true;
        let mut due = tick;
        loop {
            let until = due.min(whole);
            while began.elapsed() < until && !interrupted.load(Ordering::Relaxed) {
                std::thread::sleep(until.saturating_sub(began.elapsed()).min(Duration::from_millis(50)));
            }
            let is_last = began.elapsed() >= whole || interrupted.load(Ordering::Relaxed);
            let extent = if is_last { Extent::Whole } else { Extent::Due };
            for mut snapshot in self.observation.snapshots(now_ns(), extent) {
                self.join(&mut snapshot);
                self.keep_snapshot(Snapshot { is_after_load: true, ..snapshot });
            }
            self.merge();
            for event in self.observation.take_events() {
                self.event(event);
            }
            if is_last {
                break;
            }
            while due <= began.elapsed() {
                due += tick;
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            let text = "reading on after the load was ended early (Ctrl-C or SIGTERM)".to_owned();
            self.event(Event::new(now_ns(), "interrupted", text));
        }
    }

    /// Takes what the workers send until the last has ended.
    fn follow(&mut self, fleet: &mut Fleet, interrupted: &AtomicBool) {
        while self.workers_left > 0 {
            if interrupted.load(Ordering::Relaxed) && !fleet.control().is_stopped() {
                fleet.control().stop();
                self.recording.end = End::Interrupted;
                let text = "the run was told to end early (Ctrl-C or SIGTERM)";
                self.event(Event::new(fleet.now_ns(), "interrupted", text));
            }
            if self.watch.is_enough() && !fleet.control().is_stopped() {
                fleet.control().stop();
            }
            self.change_rate(fleet);
            self.tell_faults();
            self.end_with_the_others(fleet);
            match fleet.receive(Duration::from_millis(50)) {
                Some(Message::Interval(interval)) => {
                    fleet.give_back(self.ticks.push(interval));
                    self.complete_ticks(fleet);
                }
                Some(Message::Note { at_ns, note }) => self.note(at_ns, *note),
                Some(Message::Finished(finished)) => {
                    self.workers_left -= 1;
                    self.ticks.worker_ended(finished.worker);
                    self.outages.worker_ended(finished.worker);
                    self.finished(&finished);
                    self.complete_ticks(fleet);
                }
                None if fleet.has_ended() => break,
                None => {}
            }
        }
        while let Some(tick) = self.ticks.take_oldest() {
            self.tick(tick, fleet);
        }
        if let Some(event) = self.outages.finish() {
            self.keep_event(event);
        }
    }

    /// Tells what faults have done.
    fn tell_faults(&mut self) {
        for event in self.faults.as_ref().map(Running::take_events).unwrap_or_default() {
            self.tell_fault(event);
        }
    }

    /// The load is over: what faults have done is undone.
    fn end_faults(&mut self) {
        for event in self.faults.as_ref().map(Running::end).unwrap_or_default() {
            self.tell_fault(event);
        }
    }

    /// Keeps what was set to hold the machine still, and what could not be: it is for the report, and no news meanwhile.
    pub(crate) fn keep_isolation(&mut self) {
        for event in self.isolation.as_mut().map(Isolation::take_events).unwrap_or_default() {
            self.keep_of_machine(event);
        }
    }

    /// The load is over: the machine is as before.
    fn end_isolation(&mut self, at_ns: i64) {
        for event in self.isolation.take().map(|mut isolation| isolation.end(at_ns)).unwrap_or_default() {
            self.keep_of_machine(event);
        }
    }

    /// Of the machine, which is every load's.
    fn keep_of_machine(&mut self, event: Event) {
        match &self.broadcaster {
            Some(broadcaster) => broadcaster.tell(&event),
            None => self.keep_event(event),
        }
    }

    /// Of the target, which is every load's: where there are several, each finds it among what was observed.
    fn tell_fault(&mut self, event: Event) {
        match &self.broadcaster {
            Some(broadcaster) => broadcaster.tell(&event),
            None => self.event(event),
        }
    }

    fn complete_ticks(&mut self, fleet: &mut Fleet) {
        while let Some(tick) = self.ticks.take() {
            self.tick(tick, fleet);
        }
    }

    fn finished(&mut self, finished: &engine::Finished) {
        self.tallies.extend_from_slice(&finished.tallies);
        let totals = &mut self.recording.totals;
        totals.in_flight_at_end += finished.unfinished;
        if let Some(held) = finished.held_at_end {
            *totals.held_at_end.get_or_insert(0) += held;
        }
        // Workers begin to measure together; one that never did leaves it to the others.
        if finished.measured_from_ns < finished.load_end_ns || totals.measured_ns == 0 {
            let from_ns = finished.measured_from_ns.min(finished.load_end_ns);
            totals.measured_from_ns = totals.measured_from_ns.max(from_ns);
            totals.measured_ns = totals.measured_ns.max(finished.load_end_ns - from_ns);
        }
        totals.first_request_ns = match (totals.first_request_ns, finished.first_request_ns) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some(error) = &finished.error {
            let text = format!("worker {} could not go on: {error}", finished.worker);
            self.event(Event::new(finished.load_end_ns as i64, "worker-failed", text));
        }
    }

    /// A tick of all workers is complete: read the host, keep all of it, show it.
    fn tick(&mut self, mut tick: Tick, fleet: &mut Fleet) {
        let extent = self.extent(&tick.row, fleet);
        let mut snapshots = self.observation.snapshots(fleet.now_ns(), extent);
        tick.sum.requests.thin(tick.sum.sequence);
        self.joiner.push_requests(tick.sum.sequence, &tick.sum.requests);
        snapshots.iter_mut().for_each(|snapshot| self.join(snapshot));
        let events = self.observation.take_events();
        let snapshot = snapshots.pop();
        snapshots.into_iter().for_each(|earlier| self.keep_snapshot(earlier));
        self.mark(&mut tick.row, snapshot.as_ref());
        observe::give_way();
        standing::add(&mut self.recording, &tick);
        observe::give_way();
        self.say_if_phase_begins(&tick.row);
        if diagnose::slow::is_last_slow(self.recording.timeline.rows()) {
            self.observation.hint_slow();
        }
        self.append(|writer| writer.append(Some(&tick), snapshot.as_ref(), &events));
        for event in events {
            self.watch.on_event(&event);
            self.recording.push_event(event);
        }
        self.abort_if_due(&tick, fleet);
        self.watch.on_tick(&tick.row, &self.recording.plan);
        self.watch.on_interval(&tick.sum, &self.recording.plan);
        if let Some(snapshot) = snapshot {
            self.watch.on_snapshot(&snapshot);
            self.history.push(&snapshot);
            self.recording.push_snapshot(self.snapshots, snapshot);
            self.snapshots += 1;
            observe::give_way();
        }
        for event in self.outages.push(&tick.sum.requests.outages) {
            self.keep_event(event);
        }
        if let Some(event) = self.watch.happened(tick.row.end_ns as i64) {
            self.event(event);
        }
        self.keep_samplers(tick.row.end_ns);
        self.give_up_if_hopeless(tick.row.end_ns, fleet);
        self.say_if_away(&tick.row);
        self.tell_standing(&tick.row);
        self.ticks.recycle(tick);
        self.merge();
    }

    fn tell_standing(&mut self, row: &Row) {
        let known = || standing::Known { samplers: self.observation.statuses(), used: observe::own::rusage() };
        standing::tell(&mut self.recording, &self.history, row, known, self.watch);
    }

    /// Lets the recording merge its old ticks, where it has many.
    fn merge(&mut self) {
        if let Some(writer) = self.writer.as_mut().filter(|writer| writer.is_merge_due())
            && let Err(error) = writer.merge(&self.recording, &self.history)
        {
            self.stop_recording(error);
        }
    }

    /// Everything is read where what is measured begins and ends, and at the end of a run that ends otherwise; else what
    /// is due. The drain's reading, right after the one at the end of the load, is not another whole one.
    fn extent(&mut self, row: &Row, fleet: &Fleet) -> Extent {
        let plan = &self.recording.plan;
        let begin_ns = plan.warmup_ns.saturating_add(plan.ramp_ns());
        let is_begin = row.end_ns >= begin_ns && row.start_ns < begin_ns;
        let end_ns = plan.stop.duration_ns.map(|duration_ns| begin_ns.saturating_add(duration_ns));
        let is_end = end_ns.is_some_and(|end_ns| row.end_ns >= end_ns) || fleet.has_ended() || self.workers_left == 0;
        let is_long_ago = row.end_ns >= self.whole_ns.saturating_add(WHOLE_AGAIN_NS);
        if is_begin || is_end && (!row.is_drain || is_long_ago) {
            self.whole_ns = row.end_ns;
            return Extent::Whole;
        }
        Extent::Due
    }

    /// Says of a tick what disturbed the generator in it, and whether the observer's probes had a window in it.
    fn mark(&mut self, row: &mut Row, snapshot: Option<&Snapshot>) {
        let before = self.last_snapshot.as_ref();
        row.disturbance = diagnose::quiet::disturbance(row, self.last_row.as_ref(), before, snapshot);
        let windows = |snapshot: Option<&Snapshot>| snapshot.and_then(|s| s.windows).unwrap_or(0);
        row.in_window = before.is_some_and(|before| before.is_in_window)
            || (snapshot.is_some() && windows(snapshot) > windows(before));
        self.last_row = Some(*row);
        if let Some(snapshot) = snapshot {
            // Stacks are large, and are not looked at here.
            self.last_snapshot = Some(Snapshot { profile: None, ..snapshot.clone() });
        }
    }

    /// Joins single requests with what the target's machine saw of them, in a reading.
    fn join(&mut self, snapshot: &mut Snapshot) {
        let split = self.joiner.push_reading(snapshot.at_ns, snapshot.exchanges.take().map(|exchanges| *exchanges));
        if !split.is_empty() {
            self.append(|writer| writer.append_split(&split));
            self.recording.split.push(&split);
        }
    }

    fn keep_snapshot(&mut self, snapshot: Snapshot) {
        if self.last_snapshot.is_none() {
            self.last_snapshot = Some(Snapshot { profile: None, ..snapshot.clone() });
        }
        self.append(|writer| writer.append(None, Some(&snapshot), &[]));
        self.history.push(&snapshot);
        self.recording.push_snapshot(self.snapshots, snapshot);
        self.snapshots += 1;
    }

    /// What a worker tells: the first of its kind is enough.
    fn note(&mut self, at_ns: u64, note: engine::driver::Note) {
        if self.recording.events.iter().all(|event| event.kind != note.kind) {
            let event = Event::new(at_ns as i64, note.kind, note.text).with(note.details);
            if note.kind == model::event::TLS_FAILED {
                self.watch.on_event(&event);
            }
            self.keep_event(event);
        }
    }

    fn event(&mut self, event: Event) {
        self.watch.on_event(&event);
        self.keep_event(event);
    }

    fn keep_event(&mut self, event: Event) {
        self.append(|writer| writer.append(None, None, std::slice::from_ref(&event)));
        self.recording.push_event(event);
    }

    /// Writes, as long as writing works; the first failure ends the recording, not the run.
    fn append(&mut self, write: impl FnOnce(&mut Writer) -> Result<(), StoreError>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = write(writer) {
            self.stop_recording(error);
        }
    }

    fn stop_recording(&mut self, error: StoreError) {
        let Some(mut writer) = self.writer.take() else { return };
        // The mark is best effort: a file without it reads as partial too.
        let _ = writer.mark_partial(&error.to_string());
        let at_ns = self.recording.timeline.rows().last().map_or(0, |row| row.end_ns as i64);
        let event = Event::new(at_ns, "recording-stopped", format!("the recording stopped: {error}"));
        self.watch.on_event(&event);
        self.recording.push_event(event);
        self.recording_error = Some(error);
    }

    fn finish(mut self) -> Outcome {
        let is_after_load = self.has_read_on;
        for mut snapshot in self.observation.finish() {
            self.join(&mut snapshot);
            self.keep_snapshot(Snapshot { is_after_load, ..snapshot });
        }
        for event in self.observation.take_events() {
            self.event(event);
        }
        let usage = observe::own::rusage();
        let totals = &mut self.recording.totals;
        if !self.tallies.is_empty() {
            let ms = |ns: u64| ns / 1_000_000;
            let (from_ns, length_ns) = (totals.measured_from_ns, totals.measured_ns);
            let always_asks = self.recording.plan.always_asks();
            let to_ns = from_ns.saturating_add(length_ns);
            totals.users = Some(Users::of(&self.tallies, ms(from_ns), ms(to_ns), always_asks));
        }
        totals.cpu_user_ns = usage.user_ns.saturating_sub(self.used_before.user_ns);
        totals.cpu_system_ns = usage.system_ns.saturating_sub(self.used_before.system_ns);
        totals.peak_rss_bytes = usage.peak_rss_bytes;
        totals.first_request_ns =
            totals.first_request_ns.map(|first_ns| first_ns + self.since_process_start_ns.unwrap_or(0));
        if self.recording.end == End::Partial {
            self.recording.end = End::Complete;
        }
        self.recording.samplers = self.observation.statuses();
        let diagnosis = diagnose::diagnose_with(&self.recording, &self.history);
        if let Some(writer) = self.writer.take() {
            let end = self.recording.end;
            let finished = writer.finish(&self.recording.totals, &self.recording.samplers, end, Some(&diagnosis));
            self.recording_error = finished.err();
        }
        let Session { recording, recorded_at, recording_error, .. } = self;
        Outcome { recording, diagnosis, recorded_at, recording_error }
    }
}
