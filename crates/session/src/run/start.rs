//! How a run begins and ends: its recording and its observation before the load, its figures and its diagnosis after it.

use super::abort::Aborting;
use super::behind::Behind;
use super::isolation::Isolation;
use super::outages::Outages;
use super::{EndOfAll, Options, Outcome, RecordTo, RunError, Session, Watch};
use crate::faults::{Ready, Running, Setup};
use crate::observation::{Here, Off, is_long};
use crate::ticks::Ticks;
use diagnose::history::History;
use diagnose::split::Joiner;
use engine::{Fleet, StartError};
use model::plan::{DriverKind, Plan};
use model::recording::{Capsule, Recording};
use observe::Observation;
use observe::own::{self, Usage};
use remote::Elsewhere;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use store::{StoreError, Writer};

/// Runs a plan to its end.
///
/// # Errors
/// [`RunError`], before any load was put on (or after a panic of a worker).
pub fn run(plan: Plan, options: &Options, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    run_on(plan, options, watch, Fleet::start)
}

/// The same with what the plan's faults need to know: where the journal is, and the target that was started for the run.
///
/// # Errors
/// As [`run`]; [`RunError::Fault`] where a fault could not be done.
pub fn run_with_faults(
    plan: Plan,
    options: &Options,
    setup: &Setup,
    watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    run_all(plan, options, setup, watch, Prepared::new, Fleet::start)
}

/// Runs a plan to its end on workers that `start` makes: on the machine's threads, or simulated ones, whose run is a
/// function of its seed ([`Fleet::simulated`]).
///
/// # Errors
/// As [`run`].
pub fn run_on(
    plan: Plan,
    options: &Options,
    watch: &mut dyn Watch,
    start: impl FnOnce(&Plan) -> Result<Fleet, StartError>,
) -> Result<Outcome, RunError> {
    run_all(plan, options, &Setup::default(), watch, Prepared::new, start)
}

/// The same in a process that does other things before it and after: what CPU time that took, the memory it had at most and its age are
/// not the run's.
///
/// # Errors
/// As [`run`].
pub fn run_among_others(
    plan: Plan,
    options: &Options,
    watch: &mut dyn Watch,
    start: impl FnOnce(&Plan) -> Result<Fleet, StartError>,
) -> Result<Outcome, RunError> {
    run_all(plan, options, &Setup::default(), watch, Prepared::among_others, start)
}

/// Makes all of a run but its workers.
type Prepare = fn(&Plan, Capsule, Option<PathBuf>, &Options, Box<dyn Observation>) -> Result<Prepared, RunError>;

fn run_all(
    plan: Plan,
    options: &Options,
    setup: &Setup,
    watch: &mut dyn Watch,
    prepare: Prepare,
    start: impl FnOnce(&Plan) -> Result<Fleet, StartError>,
) -> Result<Outcome, RunError> {
    let ready = Ready::check(&plan, setup)?;
    let folder = probed(&options.record)?;
    let capsule = capsule(options, &plan, &options.driver_reason);
    give_back(&plan);
    let observation = observation(options, &plan)?;
    let path = path_of(&options.record, folder, &capsule, &plan);
    let prepared = prepare(&plan, capsule, path, options, observation)?;
    let behind = Behind::start(&options.behind, plan.tick_ns, &options.version, &options.interrupted)?;
    let isolation = Isolation::begin(&plan, setup);
    give_back(&plan);
    let fleet = start(&plan)?;
    let faults = begin(ready, &fleet)?;
    let mut session = prepared.session(&fleet, watch, EndOfAll::default());
    (session.faults, session.isolation, session.behind) = (faults, isolation, Some(behind));
    session.carry_through(fleet, &options.interrupted)
}

/// Begins the faults of a run whose workers have begun.
pub(super) fn begin(ready: Option<Ready>, fleet: &Fleet) -> Result<Option<Running>, RunError> {
    ready.map(|ready| ready.start(fleet.origin_ns())).transpose().map_err(RunError::FaultThread)
}

/// Gives back the memory of what has done its part, before another part of the run. A run that is over in no time
/// is not held up by it, and simulated ones, of which a process does thousands, are not either.
pub(super) fn give_back(plan: &Plan) {
    if is_long(plan) && plan.driver != DriverKind::Sim {
        own::give_back();
    }
}

/// The folder of the recording, tried before anything is done.
pub(super) fn probed(record: &RecordTo) -> Result<Option<&Path>, StoreError> {
    match record {
        RecordTo::Folder(folder) => {
            store::probe(folder)?;
            Ok(Some(folder.as_path()))
        }
        RecordTo::File(_) | RecordTo::Nothing => Ok(None),
    }
}

/// The recording's file; `None`: there is to be none.
pub(super) fn path_of(record: &RecordTo, folder: Option<&Path>, capsule: &Capsule, plan: &Plan) -> Option<PathBuf> {
    match (record, folder) {
        (RecordTo::File(path), _) => Some(path.clone()),
        (RecordTo::Folder(_), Some(folder)) => Some(store::new_path(folder, capsule, plan)),
        (RecordTo::Folder(_) | RecordTo::Nothing, _) => None,
    }
}

pub(super) fn capsule(options: &Options, plan: &Plan, driver_reason: &str) -> Capsule {
    let mut capsule = observe::capsule();
    capsule.version.clone_from(&options.version);
    capsule.command.clone_from(&options.command);
    capsule.driver = plan.driver.name().to_owned();
    capsule.driver_reason = driver_reason.to_owned();
    capsule
}

/// What reads the machine that a plan's load goes to.
pub(super) fn observation(options: &Options, plan: &Plan) -> Result<Box<dyn Observation>, RunError> {
    Ok(match (options.observe, &options.observe_at) {
        (true, Some(at)) => Box::new(Elsewhere::start(plan, options.probes, at, &options.interrupted)?),
        (true, None) => Box::new(Here::start(plan, options.probes)),
        (false, _) => Box::new(Off),
    })
}

/// All of a run but its workers, before they start.
pub(super) struct Prepared {
    capsule: Capsule,
    hidden: Plan,
    /// The same as the file has it, where that keeps secrets.
    kept: Option<Plan>,
    writer: Option<Writer>,
    recorded_at: Option<PathBuf>,
    observation: Box<dyn Observation>,
    before: Option<model::Snapshot>,
    since_process_start_ns: Option<u64>,
    /// What the process had used before, of what is not the run's.
    used_before: Usage,
}

impl Prepared {
    /// As [`Prepared::new`], in a process that did other things before.
    fn among_others(
        plan: &Plan,
        capsule: Capsule,
        path: Option<PathBuf>,
        options: &Options,
        observation: Box<dyn Observation>,
    ) -> Result<Self, RunError> {
        own::forget_peak();
        let prepared = Prepared::new(plan, capsule, path, options, observation)?;
        Ok(Prepared { since_process_start_ns: None, used_before: own::rusage(), ..prepared })
    }

    pub(super) fn new(
        plan: &Plan,
        mut capsule: Capsule,
        path: Option<PathBuf>,
        options: &Options,
        mut observation: Box<dyn Observation>,
    ) -> Result<Self, RunError> {
        capsule.target_host = observation.target_host();
        // From here on only the workers know what is sent in the place of `***`.
        let hidden = model::hide::plan(plan);
        let kept = options.record_secrets.then(|| model::hide::plan_kept(plan));
        let writer = path.map(|path| Writer::create(&path, &capsule, kept.as_ref().unwrap_or(&hidden))).transpose()?;
        let recorded_at = writer.as_ref().map(|w| w.path().to_owned());
        let before = observation.before();
        let since_process_start_ns = own::since_process_start_ns();
        let used_before = Usage::default();
        Ok(Prepared {
            capsule,
            hidden,
            kept,
            writer,
            recorded_at,
            observation,
            before,
            since_process_start_ns,
            used_before,
        })
    }

    /// The session of a fleet that has just begun.
    pub(super) fn session<'a>(self, fleet: &Fleet, watch: &'a mut dyn Watch, end_of_all: EndOfAll) -> Session<'a> {
        let Prepared {
            mut capsule,
            hidden,
            kept: kept_plan,
            mut writer,
            recorded_at,
            observation,
            before,
            since_process_start_ns,
            used_before,
        } = self;
        // A simulated fleet has no such clock.
        capsule.clock = Some(fleet.origin_ns()).filter(|ns| *ns > 0).and_then(observe::run_clock);
        let kept = writer.as_mut().filter(|_| capsule.clock.is_some()).map(|writer| writer.keep_capsule(&capsule));
        let plan = &hidden;
        let (joiner, aborting) = (Joiner::new(plan.pipeline), Aborting::of(plan));
        let ticks = Ticks::new(fleet.workers(), plan.tick_ns);
        let mut session = Session {
            recording: Recording::new(capsule, hidden),
            kept_plan,
            rate: Default::default(),
            history: History::default(),
            joiner,
            writer,
            recording_error: None,
            observation,
            snapshots: 0,
            ticks,
            outages: Outages::new(fleet.workers()),
            tallies: Vec::new(),
            last_row: None,
            last_snapshot: None,
            away: None,
            samplers_due_ns: 0,
            workers_left: fleet.workers(),
            whole_ns: 0,
            has_read_on: false,
            faults: None,
            isolation: None,
            behind: None,
            broadcaster: None,
            watch,
            aborting,
            end_of_all,
            recorded_at,
            since_process_start_ns,
            used_before,
        };
        if let Some(Err(error)) = kept {
            session.stop_recording(error);
        }
        if let Some(before) = before {
            let mut before = session.observation.place(before, fleet.origin_ns());
            session.join(&mut before);
            session.keep_snapshot(before);
        }
        session
    }
}

impl Session<'_> {
    /// From the load's first moment to the diagnosis.
    pub(super) fn carry_through(mut self, mut fleet: Fleet, interrupted: &AtomicBool) -> Result<Outcome, RunError> {
        self.keep_isolation();
        self.follow_aside(&mut fleet, interrupted);
        let load_end_ns = fleet.now_ns();
        self.end_faults();
        self.end_isolation(load_end_ns);
        for event in self.behind.take().map(|behind| behind.end(load_end_ns)).unwrap_or_default() {
            self.event(event);
        }
        let panicked = fleet.join();
        if panicked > 0 {
            return Err(RunError::Panicked { count: panicked });
        }
        self.read_on(load_end_ns, interrupted);
        // Where another load of the run goes on, it would be held up by that.
        let is_over = self.broadcaster.is_none();
        let give_back = |plan: &Plan| is_over.then(|| give_back(plan));
        give_back(&self.recording.plan);
        let outcome = self.finish();
        give_back(&outcome.recording.plan);
        Ok(outcome)
    }
}
