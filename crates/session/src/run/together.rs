//! Several loads put on together: each with workers, connections, pace and recording of its own; one clock, one observation.
//!
//! A session's thread follows each load as it follows a single one, so nothing is shared but the readings of the machine
//! ([`super::shared`]) and the word that ends all of them early. A recording for each load, and not one for all, so that
//! whatever reads a recording reads each of them: report, comparison, trend. Each names the others
//! ([`model::recording::Together`]). What belongs to the process (its CPU time, its memory) is in each, for all loads
//! together. Faults are those of the main load's plan, and every load is told of them. A canary ends when every other load has. Where
//! agents put the others on, they are runs of theirs, and a canary is one of this process ([`run_beside`]). Cost: two threads a load that mostly sleep, and a copy of each reading.

use super::isolation::Isolation;
use super::shared::{Broadcaster, shared};
use super::start::{Prepared, begin, capsule, give_back, observation, path_of, probed};
use super::{EndOfAll, Options, Outcome, RunError, Watch};
use crate::faults::{Ready, Setup};
use crate::observation::Off;
use engine::link::Control;
use engine::{Fleet, StartError};
use model::finding::Diagnosis;
use model::plan::{Origin, Plan};
use model::recording::{Capsule, LoadOfRun, LoadRole, Row, Together};
use model::{Event, Interval, Recording, Snapshot, event};
use observe::Observation;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A load among others.
#[derive(Debug, Clone)]
pub struct Load {
    /// What it is called; no two have the same name.
    pub name: String,
    /// What it is among the others.
    pub role: LoadRole,
    /// What it does.
    pub plan: Plan,
    /// Why its driver, for its recording.
    pub driver_reason: String,
}

/// Runs several loads to their ends: what each left, in their order. The main one comes first.
///
/// # Errors
/// [`RunError`], before any load was put on (or after a panic of a worker).
pub fn run_together(
    loads: &[Load],
    options: &Options,
    setup: &Setup,
    watch: &mut dyn Watch,
) -> Result<Vec<Outcome>, RunError> {
    run_together_on(loads, options, setup, watch, Fleet::start_together)
}

/// The same on workers that `start` makes, a fleet for each plan.
///
/// # Errors
/// As [`run_together`].
pub fn run_together_on(
    loads: &[Load],
    options: &Options,
    setup: &Setup,
    watch: &mut dyn Watch,
    start: impl FnOnce(&[&Plan]) -> Result<Vec<Fleet>, StartError>,
) -> Result<Vec<Outcome>, RunError> {
    if loads.is_empty() {
        return Ok(Vec::new());
    }
    let everywhere = with_all_origins(loads);
    let ready = Ready::check(&everywhere, setup)?;
    let places = places(loads, options)?;
    let observations = shared(observation(options, &everywhere)?, loads.len());
    let broadcaster = observations.first().map(super::shared::Shared::broadcaster);

    let mut prepared = Vec::with_capacity(loads.len());
    for ((load, (path, together)), observation) in loads.iter().zip(places).zip(observations) {
        let capsule = capsule_of(load, together, options);
        let observation: Box<dyn Observation> = Box::new(observation);
        prepared.push(Prepared::new(&load.plan, capsule, path, options, observation)?);
    }
    let mut isolation = Isolation::begin(&everywhere, setup);
    give_back(&everywhere);
    let fleets = start(&loads.iter().map(|load| &load.plan).collect::<Vec<_>>())?;

    // A load without workers has no clock, and no faults either.
    let mut faults = match fleets.first() {
        Some(fleet) => begin(ready, fleet)?,
        None => None,
    };

    let controls: Vec<Control> = fleets.iter().map(|fleet| fleet.control().clone()).collect();
    let left = AtomicUsize::new(loads.iter().filter(|load| load.role != LoadRole::Canary).count());
    let is_over = || left.load(Ordering::Acquire) == 0;
    let (watch, end_of_all) = (Mutex::new(watch), EndOfAll::default());
    // Threads take these by reference.
    let (left, watch, is_over) = (&left, &watch, &is_over);
    std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(loads.len());
        for ((load, prepared), fleet) in loads.iter().zip(prepared).zip(fleets) {
            let one = OneOf { broadcaster: broadcaster.as_ref(), ..OneOf::new(load, watch, is_over) };
            let end_of_all = EndOfAll::clone(&end_of_all);
            // The first load's, which is the main one.
            let (faults, isolation, broadcaster) = (faults.take(), isolation.take(), broadcaster.clone());
            let carry_through = move || {
                let mut one = one;
                let _ended = Ended { load, left };
                let mut session = prepared.session(&fleet, &mut one, end_of_all);
                (session.faults, session.isolation, session.broadcaster) = (faults, isolation, broadcaster);
                session.carry_through(fleet, &options.interrupted)
            };
            let thread = std::thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, carry_through);
            running.push(thread.map_err(|source| {
                controls.iter().for_each(Control::stop);
                StartError::Thread { worker: 0, source }
            })?);
        }
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Where each load's recording goes, and what it says of the others.
///
/// # Errors
/// [`RunError::Store`]: the folder cannot be written to.
pub fn places(loads: &[Load], options: &Options) -> Result<Vec<(Option<PathBuf>, Together)>, RunError> {
    let Some(main) = loads.first() else { return Ok(Vec::new()) };
    let folder = probed(&options.record)?;
    let first = path_of(&options.record, folder, &capsule(options, &main.plan, &main.driver_reason), &main.plan);
    let paths: Vec<Option<PathBuf>> =
        loads.iter().map(|load| first.as_deref().map(|first| path_beside(first, load))).collect();
    let of_run: Vec<LoadOfRun> = loads.iter().zip(&paths).map(|(load, path)| of_run(load, path.as_deref())).collect();
    let together = |number| Together { number, loads: of_run.clone() };
    Ok(paths.into_iter().enumerate().map(|(number, path)| (path, together(number))).collect())
}

/// Runs one load of those that are put on together, where the others are put on elsewhere: without faults, and nothing is observed. Its
/// recording goes to `path`.
///
/// # Errors
/// As [`super::run`].
pub fn run_beside(
    load: &Load,
    (path, together): (Option<PathBuf>, Together),
    options: &Options,
    watch: &mut dyn Watch,
    start: impl FnOnce(&Plan) -> Result<Fleet, StartError>,
) -> Result<Outcome, RunError> {
    let capsule = capsule_of(load, together, options);
    let prepared = Prepared::new(&load.plan, capsule, path, options, Box::new(Off))?;
    let fleet = start(&load.plan)?;
    prepared.session(&fleet, watch, EndOfAll::default()).carry_through(fleet, &options.interrupted)
}

fn capsule_of(load: &Load, together: Together, options: &Options) -> Capsule {
    Capsule { together: Some(together), ..capsule(options, &load.plan, &load.driver_reason) }
}

/// The main load's file, or one beside it with the load's name behind: `run.plimsoll`, `run-slow.plimsoll`.
fn path_beside(first: &Path, load: &Load) -> PathBuf {
    if load.role == LoadRole::Main {
        return first.to_owned();
    }
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    let plain: String = load.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let extension = first.extension().map_or(store::EXTENSION.into(), |extension| extension.to_string_lossy());
    first.with_file_name(format!("{stem}-{plain}.{extension}"))
}

fn of_run(load: &Load, path: Option<&Path>) -> LoadOfRun {
    let recording = path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    LoadOfRun { name: load.name.clone(), role: load.role, recording }
}

/// The main load's plan with wherever any load goes: all of it is observed.
fn with_all_origins(loads: &[Load]) -> Plan {
    let mut plan = loads[0].plan.clone();
    for origin in loads.iter().skip(1).flat_map(|load| &load.plan.origins) {
        let is_there = |known: &Origin| known.addresses == origin.addresses;
        if !plan.origins.iter().any(is_there) {
            plan.origins.push(origin.clone());
        }
    }
    // Whichever of them asks for it, there is one machine.
    if let Some(asks) = loads.iter().map(|load| &load.plan).find(|plan| plan.isolation.is_some()) {
        (plan.isolation, plan.pin) = (asks.isolation.clone(), asks.pin.clone());
    }
    plan
}

/// Counts a load that has ended, however it did.
struct Ended<'a> {
    load: &'a Load,
    left: &'a AtomicUsize,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if self.load.role != LoadRole::Canary {
            self.left.fetch_sub(1, Ordering::Release);
        }
    }
}

/// What one load tells whoever watches the run: of the main one everything, of the others what is theirs alone.
pub struct OneOf<'a, 'w> {
    load: &'a Load,
    watch: &'a Mutex<&'w mut dyn Watch>,
    broadcaster: Option<&'a Broadcaster>,
    /// Whether every load but canaries has ended.
    is_over: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for OneOf<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneOf").field("load", &self.load.name).finish_non_exhaustive()
    }
}

impl<'a, 'w> OneOf<'a, 'w> {
    /// Of a load; `is_over`: whether every load but canaries has ended, with which a canary ends.
    pub fn new(load: &'a Load, watch: &'a Mutex<&'w mut dyn Watch>, is_over: &'a (dyn Fn() -> bool + Sync)) -> Self {
        OneOf { load, watch, broadcaster: None, is_over }
    }

    fn watch(&self) -> MutexGuard<'_, &'w mut dyn Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_main(&self) -> bool {
        self.load.role == LoadRole::Main
    }
}

impl Watch for OneOf<'_, '_> {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        if self.is_main() {
            self.watch().on_tick(row, plan);
        }
    }

    fn on_event(&mut self, event: &Event) {
        if self.is_main() {
            self.watch().on_event(event);
        } else if event::is_of_one_load(&event.kind) {
            let text = format!("load '{}': {}", self.load.name, event.text);
            self.watch().on_event(&Event { text, ..event.clone() });
        }
    }

    fn happened(&mut self, at_ns: i64) -> Option<Event> {
        let event = self.watch().happened(at_ns)?;
        // Of the target, which is every load's: each finds it among what was observed.
        match self.broadcaster {
            Some(broadcaster) => {
                broadcaster.tell(&event);
                None
            }
            None => Some(event),
        }
    }

    fn on_interval(&mut self, interval: &Interval<u32>, plan: &Plan) {
        if self.is_main() {
            self.watch().on_interval(interval, plan);
        }
    }

    fn on_snapshot(&mut self, snapshot: &Snapshot) {
        if self.is_main() {
            self.watch().on_snapshot(snapshot);
        }
    }

    fn wants_standing(&mut self) -> bool {
        self.is_main() && self.watch().wants_standing()
    }

    fn on_standing(&mut self, recording: &Recording, diagnosis: &Diagnosis) {
        self.watch().on_standing(recording, diagnosis);
    }

    fn rate_from(&mut self) -> Option<(u64, f64)> {
        if self.is_main() { self.watch().rate_from() } else { None }
    }

    fn is_enough(&self) -> bool {
        match self.load.role {
            LoadRole::Canary => (self.is_over)(),
            LoadRole::Main | LoadRole::Beside => self.watch().is_enough(),
        }
    }
}
