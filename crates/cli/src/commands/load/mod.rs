//! `plimsoll load`: a scenario from the arguments, a plan from the scenario, the run, its report.
//!
//! Warnings go to stderr before any load is put on. With `--explain` the plan is printed and nothing runs. Several loads
//! together, and a canary beside one, are [`together`].

mod explain;
mod repeats;
pub mod together;
mod variants;

pub use variants::{Wanted, run as run_variants};

use super::agents::{self, Had, PutOnBy};
use super::output::intervals::{self, Csv, What};
use super::output::live::Live;
use super::output::progress::Shown;
use super::output::view::When;
use super::output::{results, terminal, together as shown_together};
use super::{command_line, interrupt};
use crate::args::agents::ByAgentsArgs;
use crate::args::load::{LoadArgs, OutputArgs};
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use model::error_kind::Phase;
use model::plan::Address;
use model::recording::LoadRole;
use model::{ErrorKind, Plan, Scenario};
use session::faults::Setup;
use session::target;
use session::tls_matrix::{MatrixError, tls_matrix};
use session::{Options, Outcome, RecordTo};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use together::{Asked, Loads, Repeat};

/// Puts load on, or says what would be put on.
pub fn run(args: LoadArgs) -> Result<Exit, Failure> {
    let main = Asked { name: "load".to_owned(), role: LoadRole::Main, scenario: scenario_of(&args)? };
    run_scenarios(args, vec![main], None, Repeat::Once, &|_, failure| failure)
}

/// The same of scenarios that are run together, the main one first; `blamed` says of what was written wrongly in the load of a
/// number where that stands.
pub fn run_scenarios(
    mut args: LoadArgs,
    mut asked: Vec<Asked>,
    target: Option<&target::Spec>,
    repeat: Repeat,
    blamed: &dyn Fn(usize, Failure) -> Failure,
) -> Result<Exit, Failure> {
    args.output.no_color |= std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let output = &args.output;
    intervals::refuse_with_json(output.csv.as_deref(), What::Intervals, output.json)?;
    let is_remote = args.remote.observe_at.is_some();
    super::raise_descriptor_limit();
    with_canary(&args, &mut asked)?;
    if args.tls.tls_matrix {
        if output.live.live.is_some() {
            return Err(Failure::usage("--live cannot be used with --tls-matrix: leave one of them out"));
        }
        if is_remote {
            return Err(Failure::usage("--observe-at cannot be used with --tls-matrix: leave one of them out"));
        }
        let scenario = &asked[0].scenario;
        let expects =
            !scenario.expect.is_empty() || scenario.expect_errors.is_some() || !scenario.abort_when.is_empty();
        if expects || asked.len() > 1 {
            return Err(Failure::usage(
                "--expect, --expect-errors, --abort-when and --canary cannot be used with --tls-matrix: leave them out",
            ));
        }
        ByAgentsArgs::refuse(&args, "--tls-matrix")?;
        return matrix(scenario, output);
    }
    if matches!(repeat, Repeat::Times(_)) && output.csv.is_some() {
        return Err(Failure::usage("--csv is of one run: leave it out, or repeats"));
    }
    if output.live.live.is_some() && matches!(repeat, Repeat::Times(_)) {
        return Err(Failure::usage("--live shows one run: leave it out, or repeats"));
    }
    if args.by_agents.agents.is_some() {
        agents::refuse(&args)?;
        args.by_agents.count()?;
    }
    if asked.len() > 1 && !args.remote.behind.is_empty() {
        return Err(Failure::usage(
            "--behind cannot be used with a canary or several loads yet: leave one of them out",
        ));
    }
    let loads = loads_of(asked, is_remote, blamed)?;
    if output.explain {
        return explain::run(loads, target, repeat, output);
    }
    let mut shown = Shown::new(output.quiet);
    for (load, warning) in loads.warnings() {
        shown.say(&format!("plimsoll: warning: {load}{}", crate::flags::shown(warning)));
    }
    let csv = output.csv.as_deref().map(|path| Csv::open(path, What::Intervals)).transpose()?;
    let options = options(&args, &loads, args.observe_at()?, interrupt::flag()?)?;
    shown.draw(When::of(output, matches!(repeat, Repeat::Times(_))), &options.interrupted);
    if let Repeat::Times(times) = repeat {
        let mut by = PutOnBy::of(&args, &loads)?;
        return repeats::run(times, &loads, target, &options, &mut by, &mut shown, output);
    }
    let plan = &loads.all[0].resolved.plan;
    let what = plan.origins.first().map_or("a run", |origin| &origin.name);
    let by_agents = args.by_agents.count()?;
    // From the page a load of agents can be ended. Its rate cannot be changed, so the page is not told that there is one.
    let live = Live::start(&output.live, what, Some(plan).filter(|_| by_agents.is_none()), &options.interrupted)?;
    live.iter().for_each(|live| shown.show_live(live));
    let put_on = match by_agents {
        Some(count) => {
            let by_agents = |setup: &Setup, shown: &mut Shown| match &loads.all[..] {
                [_] => agents::put_on(&args, plan, count, &options, setup.clone(), shown),
                _ => {
                    let wait_ns = args.by_agents.agents_wait;
                    agents::put_on_together(&args, &loads, count, wait_ns, &options, setup, shown)
                }
            };
            let Some((had, ended)) = loads.at_target(target, &options, &mut shown, by_agents)? else {
                return Ok(Exit::Interrupted);
            };
            had?.map(|had| (had, ended))
        }
        None => loads
            .put_on(target, &options, &mut PutOnBy::This, &mut shown)?
            .map(|(outcomes, ended)| (Had { outcomes, streams: Vec::new() }, ended)),
    };
    let Some((Had { outcomes, streams }, ended)) = put_on else {
        shown.clear();
        return Ok(if by_agents.is_some() { Exit::Fine } else { Exit::Interrupted });
    };
    shown.clear();
    shown.also.clear();
    interrupt::end_at_once(&options.interrupted);
    let exit = finish(&outcomes, output, csv);
    // Who is killed until here has lost nothing: `attach` comes to the same.
    drop(streams);
    if let Some(live) = live {
        let Outcome { recording, diagnosis, recorded_at, .. } = &outcomes[0];
        live.end_with(recording, diagnosis, recorded_at.as_deref())?;
    }
    let exit = exit?;
    ended?;
    Ok(exit)
}

/// The canary that was typed takes the place of the file's.
fn with_canary(args: &LoadArgs, asked: &mut Vec<Asked>) -> Result<(), Failure> {
    if let Some(url) = &args.canary.canary {
        let canary = Asked::canary(url, args.canary.canary_every, &asked[0].scenario);
        asked.retain(|load| load.role != LoadRole::Canary);
        asked.push(canary);
    } else if args.canary.canary_every.is_some() && asked.iter().all(|load| load.role != LoadRole::Canary) {
        return Err(Failure::usage("--canary-every is of a canary, and there is none: give --canary URL"));
    }
    Ok(())
}

/// Loads, resolved, of which nothing is known to be impossible.
fn loads_of(asked: Vec<Asked>, is_remote: bool, blamed: &dyn Fn(usize, Failure) -> Failure) -> Result<Loads, Failure> {
    let loads = Loads::resolve(asked, &super::host(), blamed)?;
    for (at, load) in loads.all.iter().enumerate() {
        known_findings(&load.resolved.plan).map_err(|failure| blamed(at, failure))?;
    }
    if is_remote && !loads.all.iter().any(|load| has_tcp_address(&load.resolved.plan)) {
        return Err(Failure::usage(
            "--observe-at: expected a target with a TCP address, got unix sockets, which are on this machine: leave it out",
        ));
    }
    Ok(loads)
}

/// How a run of these loads is made.
fn options(
    args: &LoadArgs,
    loads: &Loads,
    observe_at: Option<remote::ObserveAt>,
    interrupted: Arc<AtomicBool>,
) -> Result<Options, Failure> {
    let output = &args.output;
    Ok(Options {
        record: record_to(output)?,
        command: command_line::of_load(args),
        record_secrets: output.record_secrets,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        driver_reason: loads.all[0].resolved.driver_reason.clone(),
        observe: !output.no_observe,
        probes: output.probes(),
        observe_at,
        behind: args.behind()?,
        interrupted,
    })
}

/// Refuses an expectation of a finding that nobody could ever find.
fn known_findings(plan: &Plan) -> Result<(), Failure> {
    let Some(wrong) = plan.finding_expectations.iter().find(|one| !diagnose::ids().any(|id| id == one.id)) else {
        return Ok(());
    };
    let nearest = diagnose::ids().min_by_key(|id| strsim::levenshtein(id, &wrong.id)).unwrap_or_default();
    let got = &wrong.id;
    Err(Failure::usage(format!("--expect: expected the id of a finding, got '{got}': did you mean '{nearest}'?")))
}

fn has_tcp_address(plan: &Plan) -> bool {
    plan.origins.iter().flat_map(|origin| &origin.addresses).any(|address| matches!(address, Address::Tcp(_)))
}

/// `--tls-matrix`: many short runs, one table.
fn matrix(scenario: &Scenario, output: &OutputArgs) -> Result<Exit, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::could_not_run(format!("expected to find this program's own file, but {error}")))?;
    let options = Options {
        record: RecordTo::Nothing,
        command: Vec::new(),
        record_secrets: false,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        driver_reason: String::new(),
        observe: true,
        // Handshakes of many short runs: nothing is observed but their latency.
        probes: model::bpf::Level::None,
        observe_at: None,
        behind: Vec::new(),
        interrupted: interrupt::flag()?,
    };
    let host = super::host();
    let mut shown = Shown::new(output.quiet);
    let lines = match tls_matrix(&program, scenario, &host, &options, &mut shown) {
        Ok(lines) => lines,
        Err(MatrixError::Interrupted) => return Ok(Exit::Interrupted),
        Err(MatrixError::Resolve(error)) => return Err(error.into()),
        Err(error) => return Err(Failure::could_not_run(error.to_string())),
    };
    shown.clear();
    interrupt::end_at_once(&options.interrupted);
    let mut stdout = std::io::stdout().lock();
    if output.json {
        report::tls_matrix::json(&mut stdout, &lines)?;
    } else {
        report::tls_matrix::write(&mut stdout, &lines, terminal::style(output.no_color))?;
    }
    let is_empty = lines.iter().all(|line| line.full.is_none() && line.kept.is_none());
    if is_empty {
        return Err(Failure::could_not_run(
            "expected TLS handshakes with the server, got none: check its URL".to_owned(),
        ));
    }
    Ok(Exit::Fine)
}

/// Prints the report and says how it went. A recording that could not be kept makes the run fail, after its report.
fn finish(outcomes: &[Outcome], output: &OutputArgs, csv: Option<Csv>) -> Result<Exit, Failure> {
    let shown: Vec<shown_together::Part<'_>> = outcomes.iter().map(shown_together::Part::of_outcome).collect();
    let main = &shown[0];
    if output.json {
        shown_together::json(&shown)?;
    } else if csv.as_ref().is_some_and(Csv::is_stdout) {
        match outcomes {
            [_] => results::text_aside(main.recording, main.diagnosis, main.kept, output.no_color),
            _ => shown_together::text_aside(&shown, output.no_color),
        }
    } else {
        shown_together::text(&shown, false, output.no_color)?;
    }
    let mut exit = shown_together::exit_of(&shown);
    if let Some(csv) = csv {
        csv.write(main.recording.timeline.rows().iter().copied())?;
    }
    for outcome in outcomes {
        if let Some(error) = &outcome.recording_error {
            exit = exit.worst(Failure::could_not_run(format!("the recording is partial: {error}")).show());
        }
        if !outcome.recording.has_connected() && outcome.recording_error.is_none() && !is_canary(outcome) {
            let failure = Failure::could_not_run(no_connection(outcome));
            // Who interrupts a run is not told that it could not be run; why nothing had come of it is still of use.
            if exit == Exit::CouldNotRun {
                return Err(failure);
            }
            failure.show();
        }
    }
    Ok(exit)
}

fn is_canary(outcome: &Outcome) -> bool {
    outcome.recording.capsule.together.as_ref().is_some_and(|together| together.is_canary())
}

/// Why no request ever got a connection, in one sentence.
fn no_connection(outcome: &Outcome) -> String {
    let plan = &outcome.recording.plan;
    let origin = plan.origins.first().map_or("the target", |origin| &origin.name);
    let sum = &outcome.recording.totals.sum;
    let kinds: Vec<String> = sum
        .errors
        .seen()
        .chain(sum.connection_errors.seen())
        .map(|(kind, n)| format!("{} × {n}", kind.name()))
        .collect();
    let why = if kinds.is_empty() { "none was answered in time".to_owned() } else { kinds.join(", ") };
    if let Some(told) = outcome.recording.events.iter().find(|event| event.kind == model::event::TLS_FAILED) {
        return format!("expected a TLS connection to {origin}, got none ({why}): {}", told.text);
    }
    let refused = sum.examples.iter().flatten().find(|example| example.kind == ErrorKind::LoginRefused);
    if let Some(example) = refused {
        let told = wire::words(&plan.workload, example.detail).unwrap_or_default();
        return format!(
            "expected {origin} to take AUTH or SELECT, but {told}: check user, password and database of the URL"
        );
    }
    // What a server answered that refused the protocol's own first words, in that protocol's words.
    let at_connect = sum.examples.iter().flatten().filter(|example| example.phase == Phase::Connect);
    let said = at_connect.filter_map(|example| wire::words(&plan.workload, example.detail)).next();
    if let Some(told) = said {
        return format!("expected {origin} to take a connection, but {told}: check the URL and what listens there");
    }
    let is_missing = sum.errors.of(ErrorKind::NoSocket) + sum.connection_errors.of(ErrorKind::NoSocket) > 0;
    let what_to_check =
        if is_missing { "there is no socket at that path, check it" } else { "check that the server listens there" };
    format!("expected a connection to {origin}, got none ({why}): {what_to_check}")
}

fn record_to(output: &OutputArgs) -> Result<RecordTo, Failure> {
    Ok(match (&output.record, output.no_record) {
        (Some(file), _) => RecordTo::File(file.clone()),
        (None, true) => RecordTo::Nothing,
        (None, false) => RecordTo::Folder(store::default_folder()?),
    })
}
