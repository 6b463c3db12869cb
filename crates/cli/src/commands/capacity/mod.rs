//! `plimsoll capacity`: the search for a server's load line, shown as it narrows, kept after each step.
//!
//! Each step is a recording; the search is a JSON document beside them, replaced as a whole after each step, so that one that
//! was killed can be gone on with (`--continue`). Status 0 where the line is enclosed, or no load missed; 3 where none held;
//! 4 where the generator or its machine is what ended it; 130 where it was interrupted, with what is known by then.

pub mod document;
pub mod surface;

use super::output::live::Live;
use super::output::progress::Shown;
use super::output::view::When;
use super::output::{results, terminal};
use super::{agents, command_line, host, interrupt, raise_descriptor_limit};
use crate::args::agents::{ByAgentsArgs, Count};
use crate::args::capacity::{CapacityArgs, OfArg};
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use document::{About, document, known};
use model::plan::{Arrivals, Plan, Segment, Think};
use model::recording::Row;
use model::units::show_duration_ns;
use model::{Event, hide};
use report::capacity::{Document, End};
use session::capacity::axis::Of;
use session::capacity::calibration::Settles;
use session::capacity::live::{CapacityError, Follow, Found, Ran, Spec, TIME_MIN, capacity};
use session::capacity::objective::Objective;
use session::capacity::search::{Line, Search, Trial};
use session::{Options, RecordTo, ThisProcess, Watch};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs it.
pub fn run(args: &CapacityArgs) -> Result<Exit, Failure> {
    let output = &args.load.output;
    let time = Duration::from_nanos(args.search.time);
    let is_surface = !args.search.over.is_empty();
    if time < TIME_MIN {
        return Err(Failure::usage(format!(
            "--time: expected {} s at the least, got {:.1} s: fewer have no steps on both sides of a line",
            TIME_MIN.as_secs(),
            time.as_secs_f64()
        )));
    }
    let objectives = Objective::list(&args.search.slo).map_err(|error| Failure::usage(format!("--slo: {error}")))?;
    let mut scenario = scenario_of(&args.load)?;
    // What the environment says to `load` is not said to a search.
    (scenario.requests, scenario.duration_ns, scenario.burst, scenario.after_ns) = (None, None, None, None);
    scenario.profile = Vec::<Segment>::new();
    let of: Of = args.search.of.unwrap_or(OfArg::Rate).into();
    let target = scenario.urls.first().map_or_else(String::new, |url| hide::url(&url.url.expose_text()));
    let spec = Spec {
        seed: scenario.seed.unwrap_or(1),
        scenario,
        objectives,
        of,
        precision: args.search.precision,
        time,
        known: Vec::new(),
        settles: Settles::default(),
    };
    let mut team = agents::team_of_search(&args.load, of.is_closed())?;
    if is_surface && output.live.live.is_some() {
        return Err(Failure::usage("--live shows one search, not the map of --over: leave one of them out"));
    }
    if is_surface {
        let options = options(args)?;
        return surface::run(args, spec, target, &options, &mut team);
    }
    let about = About::of(&spec, target, whole_pace(&spec, args), command_line::of_load(&args.load));
    let (spec, about) = match args.search.go_on.as_deref() {
        Some(path) => go_on(path, spec, about, args)?,
        None => (Spec { settles: settles(args, &spec)?, ..spec }, about),
    };
    let own = || args.search.go_on.clone().map_or_else(own_file, Ok);
    let file = (!output.no_record).then(|| output.record.clone().map_or_else(own, Ok)).transpose()?;
    let options = options(args)?;
    let mut steps = Steps::new(output.quiet, about, &spec, file);
    steps.shown.draw(When::of(output, true), &options.interrupted);
    steps.show_live(Live::start(&output.live, &steps.about.target, None, &options.interrupted)?);
    steps.shown.say(&format!("Looking for the load line of {} ({}).", steps.about.target, steps.about.slo));
    let mut own = ThisProcess;
    let found = match capacity(&spec, &host(), &options, agents::hands(&mut team, &mut own), &mut steps) {
        Ok(found) => found,
        Err(error) => return failed(error),
    };
    steps.shown.clear();
    interrupt::end_at_once(&options.interrupted);
    steps.finish(&found, output.json, output.no_color)
}

/// Objectives of a server that answers too few requests to decide those of `--slo`'s default.
const SLO_OF_FEW: &str = "p99 < 50 ms, errors < 1 %";

/// What nobody asked for.
fn settles(args: &CapacityArgs, spec: &Spec) -> Result<Settles, Failure> {
    let given = &args.search.given;
    let of_few = || Objective::list(SLO_OF_FEW).map_err(|error| Failure::usage(format!("--slo: {error}")));
    Ok(Settles {
        connections: spec.scenario.connections.is_none(),
        objectives: if given.slo { None } else { Some(of_few()?) },
        time: !given.time,
    })
}

/// A search goes on from its file, with what it had settled.
fn go_on(path: &Path, spec: Spec, about: About, args: &CapacityArgs) -> Result<(Spec, About), Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("--continue: expected a search's file, got '{}' ({why}): name another", path.display()))
    };
    let document = document::read(path).map_err(wrong)?;
    let its = Objective::list(&document.capacity.slo).ok().filter(|_| !args.search.given.slo);
    // Its time is its own: what is left to do may need more of it.
    let settles = Settles { time: !args.search.given.time, ..Settles::default() };
    let mut spec = Spec { objectives: its.unwrap_or(spec.objectives), known: known(&document), settles, ..spec };
    spec.scenario.connections = spec.scenario.connections.or(document.connections);
    let about = About { command: about.command, ..About::of(&spec, about.target, whole_pace(&spec, args), Vec::new()) };
    let own = (&*about.target, &*about.slo, about.of.unit(), without_agents(&about.pace));
    let its = (&*document.target, &*document.capacity.slo, &*document.capacity.unit, without_agents(&document.pace));
    if own != its {
        return Err(wrong(format!("it is of {} within {}, {} over {}", its.0, its.1, its.2, its.3)));
    }
    Ok((spec, about))
}

/// How requests are due, and by whom.
fn whole_pace(spec: &Spec, args: &CapacityArgs) -> String {
    format!("{}{}", pace(spec), by_agents(&args.load.by_agents))
}

/// How each step is run.
fn options(args: &CapacityArgs) -> Result<Options, Failure> {
    let output = &args.load.output;
    raise_descriptor_limit();
    Ok(Options {
        record: if output.no_record { RecordTo::Nothing } else { RecordTo::Folder(store::default_folder()?) },
        command: command_line::of_load(&args.load),
        record_secrets: output.record_secrets,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        driver_reason: String::new(),
        observe: !output.no_observe,
        probes: output.probes(),
        observe_at: args.load.observe_at()?,
        behind: args.load.behind()?,
        interrupted: interrupt::flag()?,
    })
}

/// What an error of the search means for the exit status.
pub fn failed(error: CapacityError) -> Result<Exit, Failure> {
    match error {
        CapacityError::Interrupted => Ok(Exit::Interrupted),
        CapacityError::Resolve(error) => Err(error.into()),
        CapacityError::Run(error) => Err(error.into()),
        error @ (CapacityError::Protocol
        | CapacityError::Axis(_)
        | CapacityError::Over(_)
        | CapacityError::Thinking { .. }
        | CapacityError::Undecidable { .. }) => Err(Failure::usage(error.to_string())),
        error @ CapacityError::Silent { .. } => Err(Failure::could_not_run(error.to_string())),
    }
}

/// How requests are due, in words.
pub fn pace(spec: &Spec) -> String {
    let scenario = &spec.scenario;
    let connections = scenario.connections.unwrap_or(resolve::defaults::CONNECTIONS);
    let arrivals = match scenario.arrivals {
        Some(Arrivals::Poisson) => "Poisson arrivals",
        _ => "even arrivals",
    };
    let open = format!("open loop, {arrivals}, over {connections} connections");
    match spec.of {
        Of::Connections => "closed loop, the next request after the reply".to_owned(),
        Of::Users => {
            let think = match scenario.think.unwrap_or(Think::None) {
                Think::None => "nothing".to_owned(),
                Think::FixedNs(ns) => show_duration_ns(ns as f64),
                Think::UniformNs(least, most) => {
                    format!("{} to {}", show_duration_ns(least as f64), show_duration_ns(most as f64))
                }
                Think::ExponentialNs(ns) => format!("{} on average (exponential)", show_duration_ns(ns as f64)),
            };
            format!("closed loop, users think for {think} after each reply")
        }
        Of::Handshakes => {
            let kind = if scenario.tls.resume == Some(true) { "resumed where the server does" } else { "in full" };
            format!("open loop, {arrivals}, a connection and a handshake each ({kind}), {connections} at once")
        }
        Of::Bytes => format!("{open}, bytes of requests and replies"),
        Of::Rate => open,
    }
}

/// Between how requests are due and by how many agents.
const BY: &str = ", by ";

/// By how many agents a search is made, in words behind how requests are due; nothing where it is by this process.
fn by_agents(args: &ByAgentsArgs) -> String {
    match args.agents {
        None => String::new(),
        Some(Count { least: 1, most: 1 }) => format!("{BY}1 agent"),
        Some(Count { least, most }) if least == most => format!("{BY}{least} agents"),
        Some(Count { least, most }) => format!("{BY}{least} to {most} agents"),
    }
}

/// How requests are due, whoever puts them on: the line is the server's.
fn without_agents(pace: &str) -> &str {
    let is_by = |(_, by): &(&str, &str)| by.ends_with(" agents") || *by == "1 agent";
    pace.rsplit_once(BY).filter(is_by).map_or(pace, |(before, _)| before)
}

/// A file of its own beside the recordings.
pub fn own_file() -> Result<PathBuf, Failure> {
    let runs = store::default_folder()?;
    let folder = runs.parent().unwrap_or(&runs).join("capacity");
    std::fs::create_dir_all(&folder).map_err(|error| cannot_keep(&folder, &error))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(folder.join(format!("{}-{:09}-{}.json", now.as_secs(), now.subsec_nanos(), std::process::id())))
}

fn cannot_keep(path: &Path, error: &std::io::Error) -> Failure {
    Failure::could_not_run(format!(
        "expected to keep the search in '{}', but {error}: name another place with --record, or give --no-record",
        path.display()
    ))
}

/// The commands that show the recordings at the line, and the search's file.
pub fn files(document: &Document, file: Option<&Path>) -> Vec<String> {
    let [held, missed] = document.recordings_at_line();
    let command =
        |what: &str, path: Option<&str>| path.map(|path| format!("{what}: {}", results::command_for(Path::new(path))));
    let file = file.map(|file| format!("all steps: plimsoll report {}", file.display()));
    [command("at the line", held), command("beyond it", missed), file].into_iter().flatten().collect()
}

/// What a search's end means for the exit status.
pub fn exit_of(document: &Document) -> Exit {
    match (document.end, document.capacity.held.or(document.capacity.load_line)) {
        (End::Partial, _) => Exit::CouldNotRun,
        (End::Interrupted, _) => Exit::Interrupted,
        (End::Disturbed, _) => Exit::NotValid,
        (End::Complete, None) => Exit::ExpectationFailed,
        (End::Complete, Some(_)) => Exit::Fine,
    }
}

/// What a search has, of which only the steps are known: for what is said of it while it goes.
fn settings_of(spec: &Spec) -> session::capacity::search::Settings {
    session::capacity::search::Settings {
        bounds: spec.objectives.iter().map(Objective::bound).collect(),
        precision: spec.precision,
        time_s: spec.time.as_secs_f64(),
        beside_s: 0.0,
        requests: session::capacity::axis::Requests::RATE,
        is_whole: spec.of.is_closed(),
        load_max: spec.of.load_max(),
        seed: spec.seed,
    }
}

/// Writes a document in the place of the one that is there, which stays until the new one is whole.
fn keep_whole(path: &Path, document: &impl serde::Serialize) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let beside = path.with_extension("json.new");
        std::fs::write(&beside, serde_json::to_vec_pretty(document)?)?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|error| cannot_keep(path, &error))
}

/// Shows the steps on stderr, and keeps the search after each.
pub struct Steps {
    /// Stderr.
    pub shown: Shown,
    about: About,
    settings: session::capacity::search::Settings,
    file: Option<PathBuf>,
    failed: Option<Failure>,
    began: std::time::Instant,
    /// The page of the step that is run.
    live: Option<Live>,
}

impl Steps {
    /// Nothing has been run.
    pub fn new(quiet: bool, about: About, spec: &Spec, file: Option<PathBuf>) -> Self {
        let settings = settings_of(spec);
        let began = std::time::Instant::now();
        Steps { shown: Shown::new(quiet), about, settings, file, failed: None, began, live: None }
    }

    /// Shows each step on a page while it is run.
    fn show_live(&mut self, live: Option<Live>) {
        live.iter().for_each(|live| self.shown.show_live(live));
        self.live = live;
    }

    /// Prints what was found, keeps it, and says how it ended.
    ///
    /// # Errors
    /// It could not be printed or kept.
    pub fn finish(mut self, found: &Found, json: bool, no_color: bool) -> Result<Exit, Failure> {
        let document = document(&self.about, &found.search, &found.ran, Some(&found.ended), found.took_s);
        self.keep(&document);
        results::to_stdout(|out| {
            if json {
                serde_json::to_writer_pretty(&mut *out, &document)?;
                return std::io::Write::write_all(out, b"\n");
            }
            report::capacity::write(out, &document, &files(&document, self.file.as_deref()), terminal::style(no_color))
        })?;
        self.shown.also.clear();
        if let Some(live) = self.live.take() {
            let mut page = Vec::new();
            let command = self.file.as_deref().map(results::command_for);
            report::html::capacity::write(&mut page, &document, command.as_deref())?;
            live.end(page);
        }
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        Ok(exit_of(&document))
    }

    fn keep(&mut self, document: &Document) {
        let Some(path) = &self.file else { return };
        self.failed = keep_whole(path, document).err();
    }
}

impl Watch for Steps {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.shown.on_tick(row, plan);
    }
    fn passes_on_to(&mut self) -> Option<&mut dyn Watch> {
        Some(&mut self.shown)
    }
    fn on_event(&mut self, _: &Event) {
        // A step's own events (a server that is away, a backlog that is given up) are what it is run for.
    }
}

impl Follow for Steps {
    fn on_plan(&mut self, spec: &Spec, sentence: &str) {
        self.settings = settings_of(spec);
        let by_agents = self.about.pace.strip_prefix(without_agents(&self.about.pace)).unwrap_or_default();
        let pace = format!("{}{by_agents}", pace(spec));
        self.about.settle(spec, pace);
        self.shown.say(&format!("  {sentence}"));
    }

    fn on_trial(&mut self, number: usize, trial: &Trial) {
        let load = model::units::show_grouped(trial.load.round() as u64);
        self.shown.label = format!("step {number}, {load} {}  ", self.about.of.unit());
        if let Some(live) = &self.live {
            live.label(&self.shown.label);
        }
    }

    fn on_step(&mut self, ran: &[Ran], line: &Line) {
        let whole = |load: Option<f64>| load.map(|load| model::units::show_grouped(load.max(0.0).round() as u64));
        let by_now = match (whole(line.low), whole(line.high)) {
            (Some(low), Some(high)) => format!("line in {low}–{high}"),
            (Some(low), None) => format!("line above {low}"),
            (None, Some(high)) => format!("line below {high}"),
            (None, None) => String::new(),
        };
        if let Some(last) = ran.last() {
            self.shown.say(&report::capacity::step(&document::step(last), &by_now));
        }
        let mut search = Search::new(1.0, self.settings.clone());
        ran.iter().for_each(|one| search.observe(one.step.clone()));
        let document = document(&self.about, &search, ran, None, self.began.elapsed().as_secs_f64());
        self.keep(&document);
    }

    fn on_disturbed(&mut self, trial: &Trial, why: &str) {
        let load = model::units::show_grouped(trial.load.round() as u64);
        self.shown.say(&format!("  {load:>9}  disturbed, once more: {why}"));
    }

    fn on_added(&mut self, what: &str) {
        self.shown.say(&format!("  {what}"));
    }
}
