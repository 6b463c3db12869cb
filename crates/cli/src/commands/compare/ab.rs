//! `plimsoll ab`: two servers, or two ways to start or ask one, under load in turn.
//!
//! Each slice is a recording; beside them `comparison.json` names them all, written anew after each repeat. Status 0 whatever
//! was found, 3 where B is worse by more than the tolerance for certain, 4 where every repeat was disturbed, 130 interrupted.

use super::{FILE, exit_of, print};
use crate::args::compare::ab::AbArgs;
use crate::args::load::LoadArgs;
use crate::args::scenario::scenario_of;
use crate::commands::output::progress::Shown;
use crate::commands::{agents, command_line, host, interrupt, raise_descriptor_limit};
use crate::exit::{Exit, Failure};
use diagnose::comparison::{Comparison, Quantity, Slice};
use model::Event;
use model::hide;
use model::plan::Plan;
use model::recording::Row;
use session::check::journal_folder;
use session::comparison::{Arm, ComparisonError, Follow, Spec, compare};
use session::{Options, RecordTo, ThisProcess, Watch};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A slice shorter than this has no ticks to speak of.
const SLICE_NS_MIN: u64 = 500_000_000;
/// Load before the figures count, where nothing was said: connections are made in it, caches filled.
const WARMUP_NS: u64 = 500_000_000;

/// Compares them.
pub fn run(mut args: AbArgs) -> Result<Exit, Failure> {
    if args.sides.slice < SLICE_NS_MIN {
        return Err(Failure::usage("--slice: expected 500ms at the least: each is a run with its own connections"));
    }
    let loads = args.loads.take().ok_or_else(|| Failure::usage("expected two sides: give --a and --b"))?;
    let command = command_line::of_ab(&args.sides, &args.load, &loads);
    let [a, b] = *loads;
    if [&a, &b].iter().any(|side| side.by_agents.agents != args.load.by_agents.agents) {
        return Err(Failure::usage("--agents is of both sides alike: give it beside --a and --b"));
    }
    let quiet = args.load.output.quiet;
    let mut shown = Shown::new(quiet);
    let a = arm("--a", &args.sides.a, a, args.sides.slice, args.load.machine.seed, &mut shown)?;
    // One that was not given was drawn with the first plan: the sides share it.
    let seed = a.plan.seed;
    let b = arm("--b", &args.sides.b, b, args.sides.slice, Some(seed), &mut shown)?;
    let declared = match &args.bounds.declare[..] {
        [] => Quantity::declared_by_default(&a.plan.pace),
        declared => declared.to_vec(),
    };
    let output = &args.load.output;
    let folder = (!output.no_record).then(|| output.record.clone().map_or_else(own_folder, Ok)).transpose()?;
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder).map_err(|error| cannot_keep(folder, &error))?;
        if folder.join(FILE).exists() {
            return Err(Failure::usage(format!(
                "--record: expected a folder without a comparison, but '{}' has one: name another",
                folder.display()
            )));
        }
    }
    raise_descriptor_limit();
    let options = Options {
        record: RecordTo::Nothing,
        command,
        record_secrets: output.record_secrets,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        driver_reason: String::new(),
        observe: !output.no_observe,
        probes: output.probes(),
        observe_at: args.load.observe_at()?,
        behind: args.load.behind()?,
        interrupted: interrupt::flag()?,
    };
    let starts = a.command.is_some() || b.command.is_some();
    let mut team = agents::team(&args.load)?;
    let journal = if starts { journal_folder()? } else { PathBuf::new() };
    let spec = Spec {
        a,
        b,
        journal,
        repeats: args.sides.repeats,
        slice: Duration::from_nanos(args.sides.slice),
        seed,
        tolerance: args.bounds.tolerance,
        confidence: args.bounds.confidence,
        declared,
        folder: folder.clone(),
    };
    let file = folder.map(|folder| folder.join(FILE));
    let mut slices = Slices { shown, file: file.clone(), failed: None };
    let mut own = ThisProcess;
    let comparison = match compare(&spec, &options, agents::hands(&mut team, &mut own), &mut slices) {
        Ok(comparison) => comparison,
        Err(ComparisonError::Interrupted) => return Ok(Exit::Interrupted),
        Err(ComparisonError::Run(error)) => return Err(error.into()),
        Err(error) => return Err(Failure::could_not_run(error.to_string())),
    };
    slices.shown.clear();
    interrupt::end_at_once(&options.interrupted);
    slices.on_repeat(&comparison);
    let shown = super::Shown { file: file.as_deref(), json: output.json, html: None, no_color: output.no_color };
    print(&comparison, file.as_deref(), &shown)?;
    match slices.failed {
        Some(failed) => Err(failed),
        None => Ok(exit_of(&comparison)),
    }
}

/// A side: its plan, as long as a slice.
fn arm(
    flag: &str,
    side: &str,
    mut load: LoadArgs,
    slice_ns: u64,
    seed: Option<u64>,
    shown: &mut Shown,
) -> Result<Arm, Failure> {
    refuse(&load)?;
    let is_url = side.split_whitespace().count() == 1 && (side.contains("://") || side.starts_with("unix:"));
    if is_url {
        if !load.place.url.is_empty() || load.place.urls.is_some() {
            return Err(Failure::usage(format!("{flag} is a URL already, got another one: leave that out")));
        }
        load.place.url = vec![side.to_owned()];
    } else if load.place.url.is_empty() && load.place.urls.is_none() {
        return Err(Failure::usage(format!(
            "{flag}: expected a URL, or with a command the URL where its server listens, got '{side}' and none: add it"
        )));
    }
    let mut scenario = scenario_of(&load)?;
    scenario.duration_ns = Some(slice_ns);
    scenario.warmup_ns = scenario.warmup_ns.or(Some(WARMUP_NS));
    scenario.seed = seed;
    // Failures are compared; how many there may be is nobody's expectation.
    scenario.expect_errors = Some("any".to_owned());
    let resolved = resolve::resolve(&scenario, &host())?;
    for warning in &resolved.warnings {
        shown.say(&format!("plimsoll: warning: {}", crate::flags::shown(warning)));
    }
    Ok(Arm {
        plan: resolved.plan,
        driver_reason: resolved.driver_reason,
        command: (!is_url).then(|| side.to_owned()),
        shown: if is_url { hide::url(side) } else { side.to_owned() },
    })
}

/// Flags of `load` that say something else here, or nothing.
fn refuse(load: &LoadArgs) -> Result<(), Failure> {
    let why = if load.pace.duration.is_some() || load.pace.requests.is_some() {
        Some("-d and -n say how long a run is, and slices are of one length: say it by --slice")
    } else if load.pace.ramp.is_some() || load.pace.steps.is_some() || load.pace.burst.is_some() {
        Some("--ramp, --steps and --burst have no level to compare: give --rate or a closed pace")
    } else if !load.expect.expect.is_empty() || load.expect.expect_errors.is_some() {
        Some("--expect is of one run: say by --tolerance what may differ")
    } else if !load.expect.abort_when.is_empty() || load.canary.canary.is_some() {
        Some("--abort-when and --canary are of one run: leave them out")
    } else if load.output.csv.is_some() || load.output.explain {
        Some("--csv and --explain are of one run: leave them out")
    } else if load.output.live.live.is_some() {
        Some("--live shows one run: leave it out")
    } else if load.tls.tls_matrix {
        Some("--tls-matrix compares by itself: leave it out")
    } else {
        None
    };
    why.map_or(Ok(()), |why| Err(Failure::usage(why)))
}

/// A folder of its own beside the recordings.
fn own_folder() -> Result<PathBuf, Failure> {
    let runs = store::default_folder()?;
    let folder = runs.parent().unwrap_or(&runs).join("comparisons");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(folder.join(format!("{}-{}", now.as_secs(), std::process::id())))
}

fn cannot_keep(path: &Path, error: &std::io::Error) -> Failure {
    Failure::could_not_run(format!(
        "expected to keep the comparison in '{}', but {error}: name another folder with --record, or give --no-record",
        path.display()
    ))
}

/// Shows the slices on stderr, and keeps what is known after each repeat.
struct Slices {
    shown: Shown,
    file: Option<PathBuf>,
    failed: Option<Failure>,
}

impl Watch for Slices {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.shown.on_tick(row, plan);
    }
    fn on_event(&mut self, _: &Event) {
        // A slice's own events are in its recording.
    }
}

impl Follow for Slices {
    fn on_begin(&mut self, label: &str) {
        self.shown.label = format!("{label}  ");
    }

    fn on_slice(&mut self, slice: &Slice) {
        self.shown.say(&report::answer::comparison::slice(slice));
    }

    fn on_repeat(&mut self, comparison: &Comparison) {
        let Some(path) = &self.file else { return };
        let write = || -> std::io::Result<()> {
            // The old one stays until the new one is whole.
            let beside = path.with_extension("json.new");
            std::fs::write(&beside, serde_json::to_vec_pretty(comparison)?)?;
            std::fs::rename(&beside, path)
        };
        self.failed = write().err().map(|error| cannot_keep(path, &error));
    }
}
