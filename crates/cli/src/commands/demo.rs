//! `plimsoll demo`: the main job on embedded defaults: a reference target, its load line, what gives first, a report.

use super::shown::Shown;
use super::{interrupt, terminal};
use crate::args::runs::DemoArgs;
use crate::exit::{Exit, Failure};
use model::finding::{Diagnosis, Finding, Status};
use model::plain::plain;
use model::plan::Plan;
use model::recording::Row;
use model::units::{show_count, show_duration_ns};
use model::{Event, LatencyKind};
use session::demo::{CPU_US, DemoError, Follow, Found, OBJECTIVE, Step};
use session::resolve::SystemHost;
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
    let host = SystemHost::new(engine::driver::uring::available);
    let found = match session::demo::demo(&program, &host, &options, &mut steps) {
        Ok(found) => found,
        Err(DemoError::Interrupted) => return Ok(Exit::Interrupted),
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
        self.0.label = format!("step {number}, {rate_per_s:.0}/s  ");
    }
    fn on_result(&mut self, step: &Step) {
        let p99 = step.outcome.recording.totals.sum.latency.quantile(LatencyKind::Response, 0.99);
        let verdict = if step.is_met { "holds" } else { "gives" };
        let shown = p99.map_or("–".to_owned(), |p99| show_duration_ns(p99.ns as f64));
        self.0.say(&format!("  {:>7.0}/s  p99 {shown:>9}  {verdict}", step.rate_per_s));
    }
    fn on_disturbed(&mut self, rate_per_s: f64, outcome: &Outcome) {
        let busy = diagnose::busy(&outcome.recording);
        let why = busy.clone().unwrap_or_else(|| first_reason(&outcome.diagnosis));
        self.1 = busy.or(self.1.take());
        self.0.say(&format!("  {rate_per_s:>7.0}/s  disturbed, once more: {why}"));
    }
}

fn print(found: &Found, seen_busy: Option<&str>, args: &DemoArgs) -> Result<Exit, Failure> {
    let style = terminal::style(args.no_color);
    let (bold, unbold) = if style.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut out = std::io::stdout().lock();
    let line = match (found.line.met_per_s, found.line.missed_per_s) {
        (Some(met), Some(missed)) => {
            format!("{met:.0} requests/s ({} holds, {} does not)", show_count(met), show_count(missed))
        }
        (Some(met), None) => format!("at least {met:.0} requests/s: no step went beyond it"),
        (None, Some(missed)) if found.disturbed.is_some() => format!("below {missed:.0} requests/s"),
        (None, None) if found.disturbed.is_some() => "not found".to_owned(),
        (None, _) => "none: not even the lowest rate tried met the objective".to_owned(),
    };
    writeln!(out, "{bold}Load line{unbold}   {line}")?;
    writeln!(out, "Objective   {}, open loop, {} steps", OBJECTIVE.words(), found.steps)?;
    // What gives first shows where it gave.
    let shows = found.missed.as_ref().or(found.met.as_ref());
    let finding = shows.and_then(|step| first_to_give(&step.outcome.diagnosis.findings));
    match finding {
        Some(finding) => write_finding(&mut out, finding, bold, unbold)?,
        None => writeln!(out, "Gives first not known: no rule found its evidence in this run")?,
    }
    let verdicts: Vec<&Step> = found.met.iter().chain(&found.missed).collect();
    if let Some(busy) = verdicts.iter().find_map(|step| diagnose::busy(&step.outcome.recording)) {
        writeln!(out, "Busy        {}: the line is that of what is left of it", plain(&busy))?;
    }
    let is_valid = found.disturbed.is_none();
    match &found.disturbed {
        None => writeln!(out, "Verdict     valid: the generator kept up, {}", lag_words(&verdicts))?,
        Some(step) => {
            let busy = diagnose::busy(&step.outcome.recording).or_else(|| seen_busy.map(str::to_owned));
            let why = busy.unwrap_or_else(|| first_reason(&step.outcome.diagnosis));
            let state = step.outcome.diagnosis.validity.state.name();
            writeln!(out, "Verdict     {state}: {}; {:.0}/s could not be measured", plain(&why), step.rate_per_s)?;
        }
    }
    for (what, step) in [("at the line", &found.met), ("beyond it", &found.missed)] {
        if let Some(path) = step.as_ref().and_then(|step| step.outcome.recorded_at.as_ref()) {
            writeln!(out, "Report      {what}: plimsoll report {}", plain(&path.display().to_string()))?;
        }
    }
    out.flush()?;
    Ok(if is_valid { Exit::Fine } else { Exit::NotValid })
}

/// What speaks against a step, in a sentence.
fn first_reason(diagnosis: &Diagnosis) -> String {
    diagnosis.validity.reasons.first().map_or_else(|| "it was disturbed".to_owned(), |reason| reason.text.clone())
}

/// The supported finding about the target that explains most. Findings come ranked.
fn first_to_give(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|f| f.status == Status::Supported && f.id == "single-thread-bound")
}

fn write_finding(out: &mut impl Write, finding: &Finding, bold: &str, unbold: &str) -> std::io::Result<()> {
    writeln!(out, "{bold}Gives first{unbold} {} ({})", plain(&finding.title), finding.id)?;
    for evidence in &finding.because {
        writeln!(out, "            - {}", plain(&evidence.text))?;
    }
    writeln!(out, "  remedy    {}", plain(&finding.remedy))?;
    writeln!(out, "  check     {}", plain(&finding.check_yourself))
}

fn lag_words(steps: &[&Step]) -> String {
    let lag = steps
        .iter()
        .map(|step| step.outcome.recording.totals.sum.latency.of(LatencyKind::Lag).value_at_quantile(0.99))
        .max()
        .unwrap_or(0);
    format!("lag p99 {}", show_duration_ns(lag as f64))
}
