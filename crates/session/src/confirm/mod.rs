//! A finding confirmed by toggling its remedy: short runs of the recording's own load with it and without it, in pairs.
//!
//! Each "with" is made right before its run and undone right after, journalled first ([`fault`]): an interrupt, an error or a
//! panic undoes it, and after a `kill -9` `plimsoll fault undo` does. The order within pairs alternates. A command is started
//! anew for each run. Judged by `diagnose::experiment`. Nothing is changed but what was named or is the finding's own remedy.

mod remedy;

pub use remedy::{cpu_limit_of, is_read_at_start, remedy_of};

use crate::faults::Whom;
use crate::made::MadeError;
use crate::run::{Options, Outcome, RecordTo, RunError, Watch, run};
use crate::target::{self, Target, TargetError};
use diagnose::experiment::{Arm, Claim, Confirmation, Pair};
use fault::{Asked, Begun, Deed};
use model::LatencyKind;
use model::finding::{Figure, Finding, ValidityState};
use model::plan::{Pace, Plan, Segment, Stop};
use model::recording::End;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A request that is not answered in this time is lost: a step must not take as long as the recorded run's patience.
const TIMEOUT_NS: u64 = 5_000_000_000;
const DRAIN_NS: u64 = 2_000_000_000;
const TICK_NS: u64 = 100_000_000;

/// What is to be confirmed, and how.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The load: the recording's own plan, its addresses those to go to.
    pub plan: Plan,
    /// The finding.
    pub finding: Finding,
    /// The server, where it is started for each run: for `sh -c`.
    pub command: Option<String>,
    /// The process that is changed, where the server is not started here.
    pub pid: Option<u32>,
    /// The remedy.
    pub toggle: Asked,
    /// Pairs of runs.
    pub pairs: u32,
    /// Length of each run.
    pub length: Duration,
    /// The journal's folder.
    pub journal: PathBuf,
    /// The tool's version.
    pub version: String,
}

/// Why nothing was confirmed.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// The remedy could not be made, or not be undone.
    #[error(transparent)]
    Made(#[from] MadeError),
    /// A run could not take place.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The server's command did not come up.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Which process is to be changed is not known.
    #[error("expected to know the server's process, but {0}: name it with --pid")]
    NoProcess(String),
    /// The remedy is there already.
    #[error(
        "the remedy would change nothing: {0}: name another (--sysctl, --descriptors, --nice, --stop, --cpu-limit), or say how with --with COMMAND --without COMMAND"
    )]
    Nothing(String),
    /// It was told to end before a pair was whole.
    #[error("interrupted before the first pair of runs had ended")]
    Interrupted,
}

/// Sees the runs as they come.
pub trait Follow: Watch {
    /// A run begins.
    fn on_begin(&mut self, label: &str);
    /// A pair has ended.
    fn on_pair(&mut self, number: u32, claim: Claim, pair: &Pair);
}

/// Toggles the remedy.
///
/// # Errors
/// [`ConfirmError`]; what was changed is undone, or in the journal.
pub fn confirm(spec: &Spec, options: &Options, follow: &mut dyn Follow) -> Result<Confirmation, ConfirmError> {
    let claim = Claim::of(spec.finding.explains.map(|explains| explains.of));
    let plan = short(&spec.plan, spec.length);
    let is_interrupted = || options.interrupted.load(Ordering::Relaxed);
    // Before the first run, where whom it is done to is there already.
    if spec.command.is_none() || !spec.toggle.is_of_target() {
        planned(spec, spec.pid)?;
    }
    let mut pairs = Vec::new();
    for number in 0..spec.pairs {
        let with_first = number % 2 == 1;
        let order = if with_first { [true, false] } else { [false, true] };
        let mut arms = [None, None];
        for with in order {
            let label = if with { "with the remedy" } else { "without it" };
            follow.on_begin(&format!("pair {} of {}, {label}", number + 1, spec.pairs));
            let outcome = arm(spec, &plan, with, options, follow)?;
            if is_interrupted() {
                break;
            }
            arms[usize::from(with)] = Some(measured(&outcome, claim));
        }
        let [Some(without), Some(with)] = arms else { break };
        let pair = Pair { with_first, without, with };
        follow.on_pair(number + 1, claim, &pair);
        pairs.push(pair);
    }
    if pairs.is_empty() {
        return Err(ConfirmError::Interrupted);
    }
    let end = if is_interrupted() { End::Interrupted } else { End::Complete };
    let toggle = remedy::words(&spec.toggle, spec.pid);
    Ok(Confirmation::of(&spec.version, &spec.finding.id, &toggle, claim, end, pairs))
}

/// One run, with the remedy or without.
fn arm(
    spec: &Spec,
    plan: &Plan,
    with: bool,
    options: &Options,
    follow: &mut dyn Follow,
) -> Result<Outcome, ConfirmError> {
    let before = if with && !spec.toggle.is_of_target() { Some(make(spec, None)?) } else { None };
    let target = spec.command.as_ref().map(|command| target::Spec::of_command(command, &spec.journal));
    let started = target.map(|target| Target::start(&target, plan, &options.interrupted)).transpose()?;
    let pid = started.as_ref().map(Target::pid).or(spec.pid);
    let after = if with && spec.toggle.is_of_target() { Some(make(spec, pid)?) } else { None };
    let options = Options { record: RecordTo::Nothing, ..options.clone() };
    let outcome = run(plan.clone(), &options, follow);
    // Whatever came of the run, what was changed is put back first.
    let undone = [after, before].into_iter().flatten().try_for_each(|made| made.end().map(drop));
    started.map_or(Ok(()), Target::end)?;
    undone.map_err(MadeError::from)?;
    Ok(outcome?)
}

/// What the remedy would do, where it would do something and may.
fn planned(spec: &Spec, pid: Option<u32>) -> Result<Vec<Deed>, ConfirmError> {
    if spec.toggle.is_of_target() && pid.is_none() {
        return Err(ConfirmError::NoProcess("none was named or found".to_owned()));
    }
    let deeds = spec.toggle.plan(&Whom::process(pid)).map_err(MadeError::from)?;
    // Runs with it and without it would be the same, and say that it does not help.
    let is_there =
        |deed: &Deed| matches!(deed, Deed::Change(change) if !change.is_blind() && change.before() == change.after());
    if let Some(Deed::Change(change)) = deeds.first().filter(|_| deeds.iter().all(is_there)) {
        return Err(ConfirmError::Nothing(format!("{} is {} already", change.name(), change.before())));
    }
    deeds.iter().try_for_each(Deed::may).map_err(MadeError::from)?;
    Ok(deeds)
}

/// Makes the remedy.
fn make(spec: &Spec, pid: Option<u32>) -> Result<Begun, ConfirmError> {
    Ok(Begun::make(&spec.journal, planned(spec, pid)?, &mut |_| {}).map_err(MadeError::from)?)
}

/// The recording's load, shorter, and with less patience.
fn short(plan: &Plan, length: Duration) -> Plan {
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let mut short = plan.clone();
    let is_burst = matches!(plan.pace, Pace::Burst { .. });
    short.stop = if is_burst { plan.stop } else { Stop { duration_ns: Some(length_ns), requests: None } };
    if let Pace::Open { profile, .. } = &mut short.pace {
        // The mean rate of the whole profile.
        let (due, all_ns) = profile
            .iter()
            .fold((0.0, 0.0), |(due, all), segment: &Segment| (due + segment.due(), all + segment.for_ns as f64));
        let per_s = if all_ns > 0.0 { due / (all_ns / 1e9) } else { 0.0 };
        *profile = vec![Segment { from_per_s: per_s, to_per_s: per_s, for_ns: length_ns }];
    }
    short.warmup_ns = 0;
    short.after_ns = 0;
    short.tick_ns = TICK_NS;
    short.drain_ns = plan.drain_ns.min(DRAIN_NS);
    short.timeouts.reply_ns = plan.timeouts.reply_ns.min(TIMEOUT_NS);
    short.timeouts.connect_ns = plan.timeouts.connect_ns.min(TIMEOUT_NS);
    short.give_up_ns = Some(TIMEOUT_NS);
    short.expectations = Vec::new();
    short.faults = Vec::new();
    short
}

fn measured(outcome: &Outcome, claim: Claim) -> Arm {
    let totals = &outcome.recording.totals;
    let counts = &totals.sum.counts;
    let lost = (counts.failed + counts.dropped + counts.never_taken_up + totals.in_flight_at_end) as f64;
    let all = counts.ok as f64 + lost;
    let lost_share = if all > 0.0 { lost / all } else { 1.0 };
    let response = totals.sum.latency.of(LatencyKind::Response);
    let value = match claim {
        Claim::LostShare => Some(lost_share),
        Claim::ResponseMeanUs => (!response.is_empty()).then(|| response.mean() / 1e3),
        Claim::ThroughputPerS => (totals.measured_ns > 0).then(|| totals.per_s(totals.in_time.ok_arrived())),
    };
    let validity = &outcome.diagnosis.validity;
    let figure = if claim == Claim::ResponseMeanUs { Figure::Response } else { Figure::Throughput };
    let is_disturbed = validity.figure(figure).is_some_and(|verdict| verdict.state == ValidityState::NotValid);
    Arm { value, lost_share, is_disturbed }
}
