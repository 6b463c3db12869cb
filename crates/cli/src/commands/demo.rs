//! `plimsoll demo`: the main job on embedded defaults: a reference target, its load line, what gives first, a report.

use super::interrupt;
use super::output::progress::Shown;
use super::output::terminal;
use crate::args::runs::DemoArgs;
use crate::exit::{Exit, Failure};
use crate::flags;
use model::Event;
use model::plan::Plan;
use model::recording::Row;
use model::units::show_figure;
use report::text::load_line::{self, LoadLine};
use session::demo::{CPU_US, DemoError, Follow, Found, OBJECTIVE, Step};
use session::{Options, Outcome, RecordTo, Watch};
use std::io::Write;

/// Runs it.
pub fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    super::raise_descriptor_limit();
    let program = std::env::current_exe()
        .map_err(|error| Failure::could_not_run(format!("expected to find this program's own file, but {error}")))?;
    let options = Options {
        record: if args.no_record { RecordTo::Nothing } else { RecordTo::Folder(store::default_folder()?) },
        command: super::command_line::whole(),
        record_secrets: false,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        observe: true,
        observe_at: None,
        probes: model::bpf::Level::Light,
        driver_reason: String::new(),
        interrupted: interrupt::flag()?,
    };
    let mut steps = Steps(Shown::new(args.quiet), None);
    steps.0.say(&format!(
        "Looking for the load line of `plimsoll serve http`, one thread, {CPU_US} µs of CPU a request ({}).",
        OBJECTIVE.words()
    ));
    let host = super::host();
    let found = match session::demo::demo(&program, &host, &options, &mut steps) {
        Ok(found) => found,
        Err(DemoError::Interrupted) => return Ok(Exit::Interrupted),
        Err(DemoError::Resolve(error)) => return Err(Failure::could_not_run(flags::shown(&error.words()))),
        Err(error) => return Err(Failure::could_not_run(error.to_string())),
    };
    steps.0.clear();
    print(&found, steps.1.as_deref(), args)
}

/// Shows the steps on stderr, and remembers who was last seen to disturb one.
struct Steps(Shown, Option<String>);

impl Watch for Steps {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.0.on_tick(row, plan);
    }
    fn on_event(&mut self, event: &Event) {
        self.0.on_event(event);
    }
}

impl Follow for Steps {
    fn on_step(&mut self, number: u32, rate_per_s: f64) {
        self.0.label = format!("step {number}, {}/s  ", show_figure(rate_per_s.round()));
    }
    fn on_result(&mut self, step: &Step) {
        self.0.say(&load_line::step(step.rate_per_s, &step.outcome.recording, step.is_met));
    }
    fn on_disturbed(&mut self, rate_per_s: f64, outcome: &Outcome) {
        let busy = diagnose::busy(&outcome.recording);
        let why = busy.clone().unwrap_or_else(|| load_line::first_reason(&outcome.diagnosis));
        self.1 = busy.or(self.1.take());
        self.0.say(&load_line::disturbed(rate_per_s, &why));
    }
}

fn print(found: &Found, seen_busy: Option<&str>, args: &DemoArgs) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    let shown = LoadLine {
        met_per_s: found.line.met_per_s,
        missed_per_s: found.line.missed_per_s,
        objective: &OBJECTIVE.words(),
        steps: found.steps,
        met: found.met.as_ref().map(drawn),
        missed: found.missed.as_ref().map(drawn),
        disturbed: found.disturbed.as_ref().map(drawn),
        seen_busy,
    };
    load_line::write(&mut out, &shown, terminal::style(args.no_color))?;
    out.flush()?;
    Ok(if found.disturbed.is_none() { Exit::Fine } else { Exit::NotValid })
}

fn drawn(step: &Step) -> load_line::Step<'_> {
    load_line::Step {
        rate_per_s: step.rate_per_s,
        recording: &step.outcome.recording,
        diagnosis: &step.outcome.diagnosis,
        recorded_at: step.outcome.recorded_at.as_deref(),
    }
}
