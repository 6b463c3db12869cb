//! A finding confirmed by toggling its remedy: short runs of the recording's own load with it and without it, in pairs.
//!
//! Each "with" is made right before its run and undone right after, journalled first ([`fault`]): an interrupt, an error or a
//! panic undoes it, and after a `kill -9` `plimsoll fault undo` does. The order within pairs alternates. A command is started
//! anew for each run. Judged by `diagnose::experiment`. Nothing is changed but what was named or is the finding's own remedy.

pub(crate) mod command;
mod remedy;

pub use remedy::{Toggle, cpu_limit_of, remedy_of};

use crate::run::{Options, Outcome, RecordTo, RunError, Watch, run};
use command::Started;
use diagnose::experiment::{Arm, Claim, Confirmation, Pair};
use fault::{ApplyError, Journal, JournalError, Live};
use model::LatencyKind;
use model::finding::{Figure, Finding, ValidityState};
use model::plan::{Address, Pace, Plan, Segment, Stop};
use model::recording::End;
use std::path::{Path, PathBuf};
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
    pub toggle: Toggle,
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
    /// The remedy could not be made.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The remedy could not be undone.
    #[error("{what} was not undone ({why}): it stays in the journal, see `plimsoll fault list`")]
    NotUndone {
        /// What was changed.
        what: String,
        /// Why it is as it was changed.
        why: String,
    },
    /// A run could not take place.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The server's command did not come up.
    #[error("expected '{command}' to listen at {address} within 10 s, but {why}: run it by hand")]
    Command {
        /// The command.
        command: String,
        /// Where it should have.
        address: String,
        /// What it did.
        why: String,
    },
    /// Which process is to be changed is not known.
    #[error("expected to know the server's process, but {0}: name it with --pid")]
    NoProcess(String),
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
    let toggle = spec.toggle.words(spec.pid);
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
    let before = if with && !spec.toggle.is_of_process() { Some(Made::make(spec, None)?) } else { None };
    let started = spec.command.as_ref().map(|command| Started::start(command, plan)).transpose()?;
    let pid = started.as_ref().map(Started::pid).or(spec.pid);
    let after = if with && spec.toggle.is_of_process() { Some(Made::make(spec, pid)?) } else { None };
    let options = Options { record: RecordTo::Nothing, ..options.clone() };
    let outcome = run(plan.clone(), &options, follow);
    // Whatever came of the run, what was changed is put back first.
    let undone = [after, before].into_iter().flatten().try_for_each(Made::undo);
    drop(started);
    undone?;
    Ok(outcome?)
}

/// A change that was made, and is undone when this is dropped.
struct Made {
    journal: PathBuf,
    id: Option<u64>,
}

impl Made {
    fn make(spec: &Spec, pid: Option<u32>) -> Result<Self, ConfirmError> {
        let mut journal = Journal::open(&spec.journal)?;
        let id = match &spec.toggle {
            Toggle::Setting(setting) => {
                let is_new =
                    |open: &[fault::Entry], entry: &fault::Entry| open.iter().all(|other| other.id != entry.id);
                let open = journal.entries().to_vec();
                fault::apply(&mut journal, setting, &mut |_| {})?;
                journal.entries().iter().find(|entry| is_new(&open, entry)).map(|entry| entry.id)
            }
            Toggle::Live(live) => fault::change(&mut journal, &of_process(live, pid)?, &mut |_| {})?,
        };
        Ok(Made { journal: spec.journal.clone(), id })
    }

    fn undo(mut self) -> Result<(), ConfirmError> {
        let Some(id) = self.id.take() else { return Ok(()) };
        undo(&self.journal, id)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What cannot be undone here is in the journal, and another error is on its way.
        if let Some(id) = self.id.take() {
            let _ = undo(&self.journal, id);
        }
    }
}

fn undo(folder: &Path, id: u64) -> Result<(), ConfirmError> {
    let mut journal = Journal::open(folder)?;
    for undone in fault::undo_only(&mut journal, &[id], &mut |_| {})? {
        if !undone.outcome.is_closed() {
            let why = match undone.outcome {
                fault::Outcome::Failed(error) => error.to_string(),
                fault::Outcome::Foreign { found } => format!("somebody else has changed it to {found} since"),
                _ => "it holds in another network namespace".to_owned(),
            };
            return Err(ConfirmError::NotUndone { what: undone.entry.what.name(), why });
        }
    }
    Ok(())
}

/// The change of the process that serves now.
fn of_process(live: &Live, pid: Option<u32>) -> Result<Live, ConfirmError> {
    let known = || pid.ok_or_else(|| ConfirmError::NoProcess("none was named or found".to_owned()));
    Ok(match live {
        Live::Descriptors { limit, .. } => Live::Descriptors { pid: known()?, limit: *limit },
        Live::Nice { nice, .. } => Live::Nice { pid: known()?, nice: *nice },
        other => other.clone(),
    })
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

/// Where a plan's load goes first; `None` for unix sockets.
pub(crate) fn address_of(plan: &Plan) -> Option<std::net::SocketAddr> {
    plan.origins.iter().flat_map(|origin| &origin.addresses).find_map(|address| match address {
        Address::Tcp(socket) => Some(*socket),
        Address::Unix(_) => None,
    })
}
