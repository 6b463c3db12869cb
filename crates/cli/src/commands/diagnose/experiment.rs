//! `plimsoll diagnose URL --experiment`: the load varied, and what the answers decide; and a result shown again.
//!
//! The result is a JSON document, kept after each round: what is known is not lost with the process. Status 0 where
//! something could be judged, whatever was found; 130 where it was interrupted, with what was known by then.

use crate::args::diagnose::DiagnoseArgs;
use crate::args::load_of;
use crate::args::scenario::scenario_of;
use crate::commands::output::progress::Shown;
use crate::commands::output::{results, terminal};
use crate::commands::{host, interrupt, raise_descriptor_limit};
use crate::exit::{Exit, Failure};
use ::diagnose::experiment::{Record, SCHEMA};
use model::Event;
use model::plan::Plan;
use model::recording::{End, Row};
use report::answer::experiment as answer;
use session::experiment::{ExperimentError, Follow, Spec, TIME_MIN, experiment};
use session::{Options, RecordTo, Watch};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A result is no longer than this, bytes.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// Runs them.
pub fn run(args: &DiagnoseArgs) -> Result<Exit, Failure> {
    let of = &args.of_experiment;
    if !args.run.contains("://") {
        return Err(Failure::usage(format!(
            "expected the URL of a server with --experiment, got '{}': name one such as http://HOST:8080/",
            args.run
        )));
    }
    let time = Duration::from_nanos(of.time);
    if time < TIME_MIN {
        return Err(Failure::usage("--for: expected 5s at the least: less has no two rounds of every dose"));
    }
    let scenario = scenario_of(&load_of([args.run.clone()].into_iter().chain(of.load.iter().cloned()))?)?;
    if scenario.urls.len() != 1 {
        return Err(Failure::usage("expected one URL with --experiment: give others as --path"));
    }
    let file = (!of.no_record).then(|| of.record.clone().map_or_else(own_file, Ok)).transpose()?;
    let spec = Spec {
        scenario,
        time,
        rate_per_s: of.rate.as_ref().and_then(|profile| profile.0.first()).map(|segment| segment.from_per_s),
        paths: of.paths.clone(),
        connections_max: of.connections_max,
        only: of.only.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    raise_descriptor_limit();
    let options = Options {
        record: RecordTo::Nothing,
        command: Vec::new(),
        record_secrets: false,
        version: spec.version.clone(),
        driver_reason: String::new(),
        observe: true,
        probes: model::bpf::Level::None,
        observe_at: None,
        behind: Vec::new(),
        interrupted: interrupt::flag()?,
    };
    let mut steps = Steps { shown: Shown::new(of.quiet), file: file.clone(), failed: None };
    let record = match experiment(&spec, &host(), &options, &mut steps) {
        Ok(record) => record,
        Err(ExperimentError::Interrupted) => return Ok(Exit::Interrupted),
        Err(ExperimentError::Resolve(error)) => return Err(error.into()),
        Err(ExperimentError::Run(error)) => return Err(error.into()),
        Err(error @ ExperimentError::Protocol) => return Err(Failure::usage(error.to_string())),
        Err(error @ ExperimentError::Silent { .. }) => return Err(Failure::could_not_run(error.to_string())),
    };
    steps.shown.clear();
    interrupt::end_at_once(&options.interrupted);
    steps.on_round(&record);
    print(args, &record, file.as_deref())?;
    if let Some(failed) = steps.failed {
        return Err(failed);
    }
    Ok(if record.end == End::Interrupted { Exit::Interrupted } else { Exit::Fine })
}

/// Whether a file holds a result: it begins as a JSON document does, and no recording does.
pub fn is_result(path: &str) -> bool {
    // A pipe is not waited for: a result is a file.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut first = [0];
    let read = |mut file: std::fs::File| file.read(&mut first).is_ok();
    is_file && std::fs::File::open(path).is_ok_and(read) && first == [b'{']
}

/// Shows a result again.
pub fn show(args: &DiagnoseArgs) -> Result<Exit, Failure> {
    let wrong =
        |why: String| Failure::could_not_run(format!("expected a result of experiments in '{}', but {why}", args.run));
    let path = Path::new(&args.run);
    let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if length > RESULT_BYTES_MAX {
        return Err(wrong(format!("it has {length} bytes, and none is longer than 64 MiB")));
    }
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let record: Record = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if record.schema != SCHEMA {
        return Err(wrong(format!("it is a '{}' and not a '{SCHEMA}'", record.schema)));
    }
    print(args, &record, None)?;
    Ok(Exit::Fine)
}

fn print(args: &DiagnoseArgs, record: &Record, file: Option<&Path>) -> Result<(), Failure> {
    results::to_stdout(|out| match (args.json, args.markdown) {
        (true, _) => {
            serde_json::to_writer_pretty(&mut *out, record)?;
            writeln!(out)
        }
        (false, true) => answer::write_markdown(out, record),
        (false, false) => {
            answer::write(out, record, args.all, terminal::style(args.no_color))?;
            file.map_or(Ok(()), |file| writeln!(out, "\nKept: plimsoll diagnose {}", file.display()))
        }
    })
}

/// A file of its own beside the recordings.
fn own_file() -> Result<PathBuf, Failure> {
    let runs = store::default_folder()?;
    let folder = runs.parent().unwrap_or(&runs).join("experiments");
    std::fs::create_dir_all(&folder).map_err(|error| cannot_keep(&folder, &error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(folder.join(format!("{}-{:09}-{}.json", now.as_secs(), now.subsec_nanos(), std::process::id())))
}

fn cannot_keep(path: &Path, error: &std::io::Error) -> Failure {
    Failure::could_not_run(format!(
        "expected to keep the result in '{}', but {error}: name another place with --record, or give --no-record",
        path.display()
    ))
}

/// Shows the steps on stderr, and keeps what is known after each round.
struct Steps {
    shown: Shown,
    file: Option<PathBuf>,
    failed: Option<Failure>,
}

impl Watch for Steps {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.shown.on_tick(row, plan);
    }
    fn on_event(&mut self, _: &Event) {
        // A step's own events (a server that is away, a run given up) are what it is run for.
    }
}

impl Follow for Steps {
    fn on_begin(&mut self, label: &str, used: f64) {
        self.shown.label = format!("{:3.0} %  {label}  ", 100.0 * used);
    }

    fn on_round(&mut self, record: &Record) {
        let Some(path) = &self.file else { return };
        let write = || -> std::io::Result<()> {
            // The old one stays until the new one is whole.
            let beside = path.with_extension("json.new");
            std::fs::write(&beside, serde_json::to_vec_pretty(record)?)?;
            std::fs::rename(&beside, path)
        };
        self.failed = write().err().map(|error| cannot_keep(path, &error));
        if record.end == End::Partial {
            self.shown.say(&format!("after round {}: {}", record.rounds, record.sentence));
        }
    }
}
