//! `plimsoll confirm`: a finding's remedy toggled, and whether what the finding claims goes away with it.
//!
//! Status 0 confirmed, 3 not confirmed (what the run expected of the remedy did not come), 4 undetermined, 130 interrupted with
//! what was known by then. What is changed is journalled first and undone after each run; see `plimsoll fault list`.

use crate::args::diagnose::{ConfirmArgs, ToggleArgs};
use crate::args::load_of;
use crate::args::scenario::scenario_of;
use crate::commands::output::progress::Shown;
use crate::commands::output::{results, terminal};
use crate::commands::{host, interrupt, raise_descriptor_limit};
use crate::exit::{Exit, Failure};
use ::diagnose::experiment::{Claim, Confirmed, Pair};
use ::fault::Asked;
use model::finding::{About, Diagnosis, Finding, Status};
use model::plan::{Address, Plan};
use model::recording::{End, Row};
use model::secret::HIDDEN;
use model::{Event, Recording};
use session::check::journal_folder;
use session::confirm::{ConfirmError, Follow, Spec, confirm, cpu_limit_of, is_read_at_start, remedy_of};
use session::{MadeError, Options, RecordTo, Watch};
use std::io::Write;
use std::time::Duration;
use store::Reader;

/// A run shorter than this has no rounds of anything.
const LENGTH_NS_MIN: u64 = 200_000_000;

/// Toggles it.
pub fn run(args: &ConfirmArgs) -> Result<Exit, Failure> {
    if args.duration < LENGTH_NS_MIN {
        return Err(Failure::usage("-d: expected 200ms at the least: each is a run with its own connections"));
    }
    let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
    let reader = Reader::open(&store::find(folder, &args.run)?)?;
    let (recording, history) = reader.load_with_history()?;
    let finding = found(&args.finding, &::diagnose::diagnose_with(&recording, &history))?;
    let is_url = args.against.split_whitespace().count() == 1 && args.against.contains("://");
    let plan = plan_of(&recording, is_url.then_some(&*args.against))?;
    let command = (!is_url).then(|| args.against.clone());
    let pid = match (&command, args.pid) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "--pid cannot be used where --against is a command: its process is the one started",
            ));
        }
        (Some(_), None) => None,
        (None, Some(pid)) => Some(pid),
        (None, None) => listener(&plan),
    };
    let toggle = toggled(&args.toggle, pid)
        .and_then(|told| told.map_or_else(|| remedy_of(&finding.id, pid).map_err(Failure::usage), Ok))?;
    if is_read_at_start(&toggle) && command.is_none() {
        return Err(Failure::usage(
            "--against: expected the command that starts the server, as net.core.somaxconn is read when it listens",
        ));
    }
    let spec = Spec {
        plan,
        finding,
        command,
        pid,
        toggle,
        pairs: args.repeats,
        length: Duration::from_nanos(args.duration),
        journal: args.journal.clone().map_or_else(journal_folder, Ok)?,
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
    let mut pairs = Pairs(Shown::new(args.quiet));
    let answer = match confirm(&spec, &options, &mut pairs) {
        Ok(answer) => answer,
        Err(ConfirmError::Interrupted) => return Ok(Exit::Interrupted),
        Err(error @ ConfirmError::Nothing(_)) => return Err(Failure::usage(error.to_string())),
        Err(ConfirmError::Run(error)) => return Err(error.into()),
        Err(ConfirmError::Made(MadeError::Journal(error))) => return Err(error.into()),
        Err(error) => return Err(Failure::could_not_run(error.to_string())),
    };
    pairs.0.clear();
    interrupt::end_at_once(&options.interrupted);
    results::to_stdout(|out| match args.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &answer)?;
            writeln!(out)
        }
        false => report::answer::confirmation::write(out, &answer, &spec.finding, terminal::style(args.no_color)),
    })?;
    let exit = match answer.state {
        Confirmed::Confirmed => Exit::Fine,
        Confirmed::NotConfirmed => Exit::ExpectationFailed,
        Confirmed::Undetermined => Exit::NotValid,
    };
    Ok(if answer.end == End::Interrupted { exit.worst(Exit::Interrupted) } else { exit })
}

/// The finding, where the run has it.
fn found(id: &str, diagnosis: &Diagnosis) -> Result<Finding, Failure> {
    let of_target = || diagnosis.findings.iter().filter(|finding| finding.about == About::Target);
    if let Some(finding) = of_target().find(|finding| finding.id == id && finding.status == Status::Supported) {
        return Ok(finding.clone());
    }
    let known = of_target().find(|finding| finding.id == id);
    let supported: Vec<&str> = of_target().filter(|f| f.status == Status::Supported).map(|f| f.id.as_str()).collect();
    let has = if supported.is_empty() { "has none".to_owned() } else { format!("has {}", supported.join(", ")) };
    let got = known.map_or("no cause that is known".to_owned(), |finding| finding.status.name().to_owned());
    Err(Failure::usage(format!("expected a finding of the run, which {has}; got '{id}', {got}")))
}

/// The recorded load, and where it goes now.
fn plan_of(recording: &Recording, url: Option<&str>) -> Result<Plan, Failure> {
    let mut plan = recording.plan.clone();
    if let Some(why) = recording.capsule.why_no_load() {
        return Err(Failure::usage(format!("expected a run with a load to put on again, but {why}")));
    }
    let is_hidden = serde_json::to_string(&plan).is_ok_and(|text| text.contains(HIDDEN));
    let has_body = serde_json::to_value(&plan.workload).is_ok_and(|workload| has_body(&workload));
    if is_hidden || has_body {
        return Err(Failure::usage(
            "expected a run whose load can be put on again, but its secrets or request bodies are not in the recording: \
             record one without them",
        ));
    }
    let Some(url) = url else {
        if plan.tls.is_some() {
            return Err(Failure::usage(
                "--against: expected a URL for a run over TLS: whom it trusted is not in the recording",
            ));
        }
        return Ok(plan);
    };
    let resolved = resolve::resolve(&scenario_of(&load_of([url.to_owned()])?)?, &host())?.plan;
    if std::mem::discriminant(&resolved.workload) != std::mem::discriminant(&plan.workload) || plan.origins.len() != 1 {
        return Err(Failure::usage(format!(
            "--against: expected a URL of the run's protocol for its one server, got '{}'",
            model::hide::url(url)
        )));
    }
    plan.origins = resolved.origins;
    plan.tls = resolved.tls;
    Ok(plan)
}

/// Whether any request of a mix has a body: its bytes are not stored.
fn has_body(workload: &serde_json::Value) -> bool {
    match workload {
        serde_json::Value::Object(fields) => fields.iter().any(|(name, value)| match name.as_str() {
            "body" => value["length"].as_u64().is_some_and(|length| length > 0),
            _ => has_body(value),
        }),
        serde_json::Value::Array(all) => all.iter().any(has_body),
        _ => false,
    }
}

/// The first of those who listen where the load goes; `None` where they cannot be seen.
fn listener(plan: &Plan) -> Option<u32> {
    let addresses: Vec<Address> = plan.origins.iter().flat_map(|origin| origin.addresses.iter().cloned()).collect();
    observe::target::find(&addresses).ok()?.into_iter().min()
}

/// What was named to be toggled, as a fault.
fn toggled(args: &ToggleArgs, pid: Option<u32>) -> Result<Option<Asked>, Failure> {
    let words = match args {
        ToggleArgs { sysctl: Some(text), .. } => {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            vec!["sysctl".to_owned(), name.to_owned(), value.to_owned()]
        }
        ToggleArgs { cpu_limit: Some(value), .. } => {
            let file = pid.and_then(cpu_limit_of).map(|(file, _)| file).ok_or_else(|| {
                Failure::usage("--cpu-limit: expected a running server whose control group has a CPU limit: name its process with --pid")
            })?;
            vec!["cpu-limit".to_owned(), file, value.clone()]
        }
        ToggleArgs { descriptors: Some(limit), .. } => {
            vec!["descriptors".to_owned(), "tree:target".to_owned(), limit.to_string()]
        }
        ToggleArgs { nice: Some(nice), .. } => vec!["nice".to_owned(), "tree:target".to_owned(), nice.to_string()],
        ToggleArgs { stop: Some(pid), .. } => vec!["stop".to_owned(), pid.to_string()],
        ToggleArgs { with_command: Some(with), without: Some(without), .. } => {
            vec!["command".to_owned(), with.clone(), without.clone()]
        }
        _ => return Ok(None),
    };
    let flag = if args.sysctl.is_some() { "--sysctl: expected NAME=VALUE: " } else { "" };
    Asked::of_words(&words).map(Some).map_err(|error| Failure::usage(format!("{flag}{error}")))
}

/// Shows the runs on stderr.
struct Pairs(Shown);

impl Watch for Pairs {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.0.on_tick(row, plan);
    }
    fn on_event(&mut self, _: &Event) {
        // A short run's own events (a server that is away) are what it is run for.
    }
}

impl Follow for Pairs {
    fn on_begin(&mut self, label: &str) {
        self.0.label = format!("{label}  ");
    }
    fn on_pair(&mut self, number: u32, claim: Claim, pair: &Pair) {
        self.0.say(&report::answer::confirmation::pair(number, claim, pair));
    }
}
