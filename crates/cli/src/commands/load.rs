//! `plimsoll load`: a scenario from the arguments, a plan from the scenario, the run, its report.
//!
//! Warnings go to stderr before any load is put on. With `--explain` the plan is printed and nothing runs.

use super::shown::Shown;
use super::{command_line, explain, interrupt, show, terminal};
use crate::args::load::{LoadArgs, ObserveArg, OutputArgs};
use crate::args::scenario::scenario_of;
use crate::exit::{Exit, Failure};
use model::plain::plain;
use model::plan::Address;
use model::{ErrorKind, Plan, Scenario};
use session::resolve::{SystemHost, resolve};
use session::tls_matrix::{MatrixError, tls_matrix};
use session::{Options, Outcome, RecordTo};
use std::io::Write;

/// Puts load on, or says what would be put on.
pub fn run(mut args: LoadArgs) -> Result<Exit, Failure> {
    args.output.no_color |= std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let scenario = scenario_of(&args)?;
    let output = &args.output;
    let observe_at = args.remote.observe_at()?;
    super::raise_descriptor_limit();
    if args.tls.tls_matrix {
        if observe_at.is_some() {
            return Err(Failure::usage("--observe-at cannot be used with --tls-matrix: leave one of them out"));
        }
        return matrix(&scenario, output);
    }
    let mut resolved = resolve(&scenario, &SystemHost::new(engine::driver::uring::available))?;
    if observe_at.is_some() && !has_tcp_address(&resolved.plan) {
        return Err(Failure::usage(
            "--observe-at: expected a target with a TCP address, got unix sockets, which are on this machine: leave it out",
        ));
    }
    if output.explain {
        resolved.plan = model::hide::plan(&resolved.plan);
        return explain::run(&resolved, output);
    }
    if !output.quiet {
        let mut stderr = std::io::stderr().lock();
        for warning in &resolved.warnings {
            // Nothing is left to do where stderr is closed.
            let _ = writeln!(stderr, "plimsoll: warning: {}", plain(warning));
        }
    }
    let options = Options {
        record: record_to(output)?,
        command: command_line::of_load(&args),
        record_secrets: args.output.record_secrets,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        driver_reason: resolved.driver_reason,
        observe: !args.output.no_observe,
        probes: args.output.observe.unwrap_or(ObserveArg::Light).into(),
        observe_at,
        interrupted: interrupt::flag()?,
    };
    let mut shown = Shown::new(output.quiet);
    let outcome = session::run(resolved.plan, &options, &mut shown)?;
    shown.clear();
    finish(&outcome, output)
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
        interrupted: interrupt::flag()?,
    };
    let host = SystemHost::new(engine::driver::uring::available);
    let mut shown = Shown::new(output.quiet);
    let lines = match tls_matrix(&program, scenario, &host, &options, &mut shown) {
        Ok(lines) => lines,
        Err(MatrixError::Interrupted) => return Ok(Exit::Interrupted),
        Err(MatrixError::Resolve(error)) => return Err(error.into()),
        Err(error) => return Err(Failure::could_not_run(error.to_string())),
    };
    shown.clear();
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
fn finish(outcome: &Outcome, output: &OutputArgs) -> Result<Exit, Failure> {
    let (recording, diagnosis) = (&outcome.recording, &outcome.diagnosis);
    let kept = outcome.recorded_at.as_deref();
    if output.json {
        show::json(recording, diagnosis, kept)?;
    } else {
        show::text(recording, diagnosis, kept, output.no_color)?;
    }
    let mut exit = show::exit_of(recording, diagnosis);
    if let Some(path) = &output.csv {
        show::csv(path, recording.timeline.rows().iter().copied())?;
    }
    if let Some(error) = &outcome.recording_error {
        exit = exit.worst(Failure::could_not_run(format!("the recording is partial: {error}")).show());
    }
    if exit == Exit::CouldNotRun && outcome.recording_error.is_none() {
        return Err(Failure::could_not_run(no_connection(outcome)));
    }
    Ok(exit)
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
    format!("expected a connection to {origin}, got none ({why}): check that the server listens there")
}

fn record_to(output: &OutputArgs) -> Result<RecordTo, Failure> {
    Ok(match (&output.record, output.no_record) {
        (Some(file), _) => RecordTo::File(file.clone()),
        (None, true) => RecordTo::Nothing,
        (None, false) => RecordTo::Folder(store::default_folder()?),
    })
}
