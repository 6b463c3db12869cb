//! The steps of a search as runs: each has warm-up, blocks until it is decided, a short drain, and a recording of its own.
//!
//! What the server answers at all is known first ([`super::calibration`]). A step that was disturbed is run again. Where the same load is disturbed time and again, what cannot put it on is the generator,
//! or its machine: a lower one is tried while none missed, and the search says what it was that could not be put on. A search that was interrupted goes on from the steps that its file has. Where no
//! step says what gives first, the last one is put on beyond the line for longer than it needs to be decided, to be looked at.
//!
//! Cost: what was measured in a step goes with it; its verdict, blocks and diagnosis stay.

use super::axis::{Axis, AxisError, Of, warmup_ns};
use super::beyond::gives::{at_line, gives};
use super::beyond::places::Places;
use super::beyond::without::Cores;
use super::blocks::{BLOCK_S, Block};
use super::calibration::Settles;
use super::decision::{Bound, Judge, Verdict};
use super::objective::Objective;
use super::over::OverError;
use super::search::{Line, Purpose, Search, Settings, Step, Trial};
use crate::run::{Hands, Options, Outcome, RunError, Watch};
use model::finding::{Diagnosis, Figure, ValidityState};
use model::plan::{Pace, Plan};
use model::recording::Row;
use model::units::show_grouped;
use model::{Event, Interval, LatencyKind, Scenario};
use resolve::{Host, ResolveError, resolve};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for what is unanswered at a step's end: the next one is not to find it there.
const DRAIN_NS: u64 = 1_000_000_000;
/// What a step takes beside its length and its warm-up, seconds: threads, the last replies, the reading of the machine.
const BESIDE_S: f64 = 0.4;
/// So often in a row a step may be disturbed before the search ends.
const DISTURBED_MAX: usize = 4;
/// After so many in a row that the generators could not put on, more of them are called where there are any: one may be chance.
const LIMITED_MAX: usize = 2;
/// Time before a disturbed step is run again: what disturbed it may pass.
const PAUSE: Duration = Duration::from_millis(500);
/// A step to be looked at is so long, seconds, and as this part of the time at most: some pauses of one a second, which a step that is
/// decided need not have. A shorter one would say no more than the others did.
const EXPLAIN_S: f64 = 8.0;
const EXPLAIN_PART: f64 = 1.0 / 6.0;
const EXPLAIN_S_MIN: f64 = 3.0;
/// A search takes at least so long.
pub const TIME_MIN: Duration = Duration::from_secs(8);

/// What is searched for.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The server, and what is asked of it; pace, length, warm-up and tick are overwritten.
    pub scenario: Scenario,
    /// What a step must hold.
    pub objectives: Vec<Objective>,
    /// What the load is.
    pub of: Of,
    /// Wanted width of the interval, as a share of the line.
    pub precision: f64,
    /// How long it may take.
    pub time: Duration,
    /// Steps of a search that goes on, in order.
    pub known: Vec<Step>,
    /// Seed of the order of replicates.
    pub seed: u64,
    /// What of this nobody asked for.
    pub settles: Settles,
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    /// A step could not be planned.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A step could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Such a load has no single requests.
    #[error(
        "expected a URL of http, https, echo, resp or ws, got one of another kind: only single requests have a load line"
    )]
    Protocol,
    /// What the load is a number of is not in the scenario.
    #[error(transparent)]
    Axis(#[from] AxisError),
    /// The load has no such parameter as it is to be varied over.
    #[error(transparent)]
    Over(#[from] OverError),
    /// Nothing was answered.
    #[error(
        "expected {target} to answer a request, got {why}: {}",
        .ended.as_ref().map_or("check the URL and what listens there".to_owned(), |ended| format!("{ended}; start it again, and ask less of it at once (-c)"))
    )]
    Silent {
        /// The server.
        target: String,
        /// What came instead.
        why: String,
        /// How it ended meanwhile, where it did.
        ended: Option<String>,
    },
    /// It was told to end before its first step.
    #[error("interrupted before the first step had ended")]
    Interrupted,
    /// Users think for so long that there is no time for steps.
    #[error(
        "expected a time in which users ask more than once: a step's warm-up is {warmup_s:.1} s, twice the time they think, and a search some ten steps: give --time {time_s:.0}s or a shorter --think"
    )]
    Thinking {
        /// What a step takes beside its length, seconds.
        warmup_s: f64,
        /// The time in which there are enough steps, seconds.
        time_s: f64,
    },
    /// The objective needs more requests than there are in the time.
    #[error(
        "expected a time in which '{slo}' can be decided: a step needs {needed} requests, which are {step_s:.0} s at about {per_s:.0}/s, and a search some ten steps: give --time {time_s:.0}s, a lower quantile or a larger share of errors{}",
        .busy.as_ref().map_or(String::new(), |busy| format!(" ({busy})"))
    )]
    Undecidable {
        /// The objective that needs most.
        slo: String,
        /// Requests a step needs.
        needed: u64,
        /// How long that takes, seconds.
        step_s: f64,
        /// At this rate.
        per_s: f64,
        /// The time in which it could be decided.
        time_s: f64,
        /// Who kept this machine's CPUs busy meanwhile, which may be why so few are answered.
        busy: Option<String>,
    },
}

impl CapacityError {
    /// Whether another load on the same server may well have a line.
    pub fn is_of_this_load(&self) -> bool {
        matches!(self, Self::Silent { .. } | Self::Undecidable { .. } | Self::Thinking { .. })
    }
}

/// A step that was run, and what is kept of its run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// What the search has of it.
    pub step: Step,
    /// What was made of its run; `None` of a step that another process ran.
    pub diagnosis: Option<Diagnosis>,
    /// Who kept CPUs busy meanwhile.
    pub busy: Option<String>,
    /// How many of its requests had no good reply, in a sentence without an end; of one that missed.
    pub failures: Option<String>,
    /// What the CPUs of the target's machine did meanwhile; `None`: it was not read.
    pub cores: Option<Cores>,
    /// Its recording.
    pub recorded_at: Option<PathBuf>,
    /// Median and 99th percentile of the response time, and 99th of the lag, nanoseconds.
    pub response_p50_ns: Option<u64>,
    /// See `response_p50_ns`.
    pub response_p99_ns: Option<u64>,
    /// See `response_p50_ns`.
    pub lag_p99_ns: Option<u64>,
    /// Its connections, and what became of them; `None` of a step that another process ran.
    pub places: Option<Places>,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The line is known as narrowly as was asked, or the time is used up.
    Done,
    /// It was told to.
    Interrupted,
    /// A load could not be put on undisturbed: by whom or what.
    Disturbed {
        /// What spoke against the steps.
        why: String,
        /// Whether it is the generator that is at its limit.
        is_generator: bool,
        /// Where it stands, as a number.
        load: u64,
    },
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The search.
    pub search: Search,
    /// Its steps, in order.
    pub ran: Vec<Ran>,
    /// How it ended.
    pub ended: Ended,
    /// How long it took, seconds.
    pub took_s: f64,
}

/// Sees a search while it goes.
pub trait Follow: Watch {
    /// What it will take, once the closed run is over, and what is searched for, with what nobody had asked for settled.
    fn on_plan(&mut self, spec: &Spec, sentence: &str);
    /// A step begins.
    fn on_trial(&mut self, number: usize, trial: &Trial);
    /// A step has ended; where the line lies by now.
    fn on_step(&mut self, ran: &[Ran], line: &Line);
    /// A step was disturbed, and is run again.
    fn on_disturbed(&mut self, trial: &Trial, why: &str);
    /// The generators were the limit, and more of them put on what comes; in a sentence.
    fn on_added(&mut self, what: &str);
}

/// Runs a search whose steps are put on by `hands`.
///
/// # Errors
/// [`CapacityError`], before anything was found out.
pub fn capacity(
    spec: &Spec,
    host: &dyn Host,
    options: &Options,
    hands: &mut dyn Hands,
    follow: &mut dyn Follow,
) -> Result<Found, CapacityError> {
    let began = Instant::now();
    let scenario = spec.of.scenario(spec.scenario.clone())?;
    let bounds = spec.objectives.iter().map(Objective::bound).collect();
    let mut runner = Runner { spec, scenario, host, options, hands, bounds, ended: None };
    let (spec, axis) = runner.calibrate(follow)?;
    let target_ended = runner.ended.take();
    let bounds = spec.objectives.iter().map(Objective::bound).collect();
    let scenario = spec.of.scenario(spec.scenario.clone())?;
    let mut runner = Runner { spec: &spec, scenario, host, options, hands, bounds, ended: target_ended };
    let first = spec.known.last().map_or(axis.first(spec.scenario.connections), |step| step.asked);
    let settings = Settings {
        bounds: runner.bounds.clone(),
        precision: spec.precision,
        time_s: spec.time.saturating_sub(began.elapsed()).as_secs_f64(),
        beside_s: runner.beside_s(),
        requests: axis.requests(),
        is_whole: spec.of.is_closed(),
        load_max: spec.of.load_max(),
        seed: spec.seed,
    };
    let mut search = Search::new(first, settings);
    let mut ran = Vec::new();
    for step in &spec.known {
        // Their time was another search's.
        search.observe(Step { took_s: 0.0, ..step.clone() });
        ran.push(Ran::known(step.clone()));
    }
    let (mut disturbed, mut limited) = (0, 0);
    let mut ended = Ended::Done;
    let mut is_explained = false;
    let mut too_high = None;
    loop {
        let next = search.next_trial();
        let explaining = if is_explained { None } else { to_explain(&search, &ran, next.as_ref()) };
        let Some(trial) = explaining.or(next) else { break };
        follow.on_trial(ran.len() + 1, &trial);
        let at = Instant::now();
        let tried = runner.trial(&axis, &trial, follow);
        let took_s = at.elapsed().as_secs_f64();
        if runner.is_interrupted() {
            ended = Ended::Interrupted;
            break;
        }
        let (one, against) = match tried {
            Ok((outcome, judge)) => {
                let one = ran_of(&axis, &trial, &outcome, judge, took_s);
                let against = disturbance(&outcome, one.step.verdict, runner.ended.as_deref());
                (Some(one), against)
            }
            // Who is away may come back, and what is known stays known.
            Err(CapacityError::Run(RunError::ByOthers { text, is_usage: false })) => (None, Some((text, false))),
            Err(error) => return Err(error),
        };
        if let Some((why, is_generator)) = against {
            disturbed += 1;
            limited = if is_generator { limited + 1 } else { 0 };
            search.disturbed(took_s + PAUSE.as_secs_f64());
            let is_out_of_time = search.left_s() <= 0.0;
            let added = if limited >= LIMITED_MAX && !is_out_of_time { runner.hands.add() } else { None };
            let is_limit = limited >= LIMITED_MAX && !is_out_of_time && added.is_none();
            if let Some(added) = &added {
                (disturbed, limited) = (0, 0);
                follow.on_added(added);
            } else if is_limit && search.is_too_high(trial.load) {
                // The line may lie below what the generators can put on.
                (disturbed, limited) = (0, 0);
                too_high = Some((why.clone(), trial.load));
            } else if disturbed == DISTURBED_MAX || is_out_of_time {
                ended = runner.disturbed(&why, is_generator, trial.load);
                break;
            }
            follow.on_disturbed(&trial, &why);
            std::thread::sleep(PAUSE);
            continue;
        }
        (disturbed, limited) = (0, 0);
        let Some(one) = one else { continue };
        is_explained |= trial.purpose == Purpose::Explain;
        search.observe(one.step.clone());
        ran.push(one);
        follow.on_step(&ran, &search.line());
    }
    // What none could put on is no line of the server.
    if let Some((why, load)) = too_high.filter(|_| ended == Ended::Done && search.line().missed.is_none()) {
        ended = runner.disturbed(&why, true, load);
    }
    if runner.is_interrupted() && ran.is_empty() {
        return Err(CapacityError::Interrupted);
    }
    Ok(Found { search, ran, ended, took_s: began.elapsed().as_secs_f64() })
}

/// A step beyond the line to be looked at, where none so far says what gives first and the search, whose `next` step is this, has no time
/// for another one behind it; `None`: it is known, no load missed, it has to find the line yet, or there is no time for it.
fn to_explain(search: &Search, ran: &[Ran], next: Option<&Trial>) -> Option<Trial> {
    let line = search.line();
    let (held, missed) = at_line(ran, &line);
    let missed = missed.filter(|_| gives(ran, &line).is_none())?;
    let is_found = next.is_none() || held.is_some() || search.flat().is_some();
    let Settings { beside_s, time_s, .. } = *search.settings();
    let left_s = search.left_s() - beside_s;
    let length_s = EXPLAIN_S.min(EXPLAIN_PART * time_s).min(left_s);
    let is_last = next.is_none_or(|next| left_s - next.most_s - beside_s < length_s);
    let trial = Trial { load: missed.step.asked, length_s, most_s: length_s, purpose: Purpose::Explain };
    (is_found && is_last && length_s >= EXPLAIN_S_MIN).then_some(trial)
}

/// What was asked of a target when it ended, in words.
fn under(plan: &Plan) -> String {
    let connections = show_grouped(u64::from(plan.connections));
    match &plan.pace {
        Pace::Open { profile, .. } => {
            let most = profile.iter().map(|part| part.from_per_s.max(part.to_per_s)).fold(0.0, f64::max);
            format!("under {} {}s/s", show_grouped(most.round() as u64), plan.unit())
        }
        _ => format!("while {connections} connections asked as fast as it answered"),
    }
}

/// What speaks against a step, and whether that is the generator's own limit. What disturbs only ever adds to a time: an
/// objective that is held all the same is held, if the load was put on. `ended` is how the target ended, where it did.
fn disturbance(outcome: &Outcome, verdict: Verdict, ended: Option<&str>) -> Option<(String, bool)> {
    if !outcome.recording.has_connected() {
        // A server that is gone does not miss an objective: nothing was put on it.
        let why = ended.map_or_else(|| outcome.recording.totals.came_instead(), str::to_owned);
        return Some((format!("the server takes no connection any more ({why})"), false));
    }
    let validity = &outcome.diagnosis.validity;
    let rate = validity.figure(Figure::Throughput).map(|verdict| verdict.state);
    if validity.state != ValidityState::NotValid || (verdict == Verdict::Held && rate == Some(ValidityState::Valid)) {
        return None;
    }
    let busy = diagnose::busy(&outcome.recording);
    let reason = validity.reasons.first();
    let is_generator = busy.is_none() && reason.is_some_and(|reason| reason.id.starts_with("generator-"));
    let why = reason.map_or_else(|| "it was disturbed".to_owned(), |reason| reason.text.clone());
    Some((busy.unwrap_or(why), is_generator))
}

impl Ran {
    /// A step that another process ran.
    pub(super) fn known(step: Step) -> Self {
        Ran {
            step,
            diagnosis: None,
            busy: None,
            failures: None,
            cores: None,
            recorded_at: None,
            response_p50_ns: None,
            response_p99_ns: None,
            lag_p99_ns: None,
            places: None,
        }
    }
}

/// Runs what a search asks for.
pub(super) struct Runner<'a> {
    pub(super) spec: &'a Spec,
    /// Of the axis.
    pub(super) scenario: Scenario,
    pub(super) host: &'a dyn Host,
    options: &'a Options,
    hands: &'a mut dyn Hands,
    bounds: Vec<Bound>,
    /// How the target ended, and what was asked of it then: the last time.
    pub(super) ended: Option<String>,
}

impl Runner<'_> {
    pub(super) fn is_interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
    }

    /// A load that could not be put on, and what stood in the generators' place.
    fn disturbed(&mut self, why: &str, is_generator: bool, load: f64) -> Ended {
        let standing = if is_generator { self.hands.standing() } else { None };
        let why = standing.map_or(why.to_owned(), |standing| format!("{why} ({standing})"));
        Ended::Disturbed { why, is_generator, load: load.round() as u64 }
    }

    /// What a step takes beside its length, seconds.
    pub(super) fn beside_s(&self) -> f64 {
        let beside_s = self.hands.beside().map_or(BESIDE_S, |beside| beside.as_secs_f64().max(BESIDE_S));
        beside_s + warmup_ns(self.spec.of, &self.scenario) as f64 / 1e9
    }

    /// What all runs have in common.
    pub(super) fn base(&self) -> Scenario {
        Scenario {
            requests: None,
            warmup_ns: Some(warmup_ns(self.spec.of, &self.scenario)),
            drain_ns: Some(DRAIN_NS),
            after_ns: None,
            burst: None,
            rounds: None,
            tick_ns: Some((BLOCK_S * 1e9) as u64),
            expect: Vec::new(),
            expect_errors: Some("any".to_owned()),
            ..self.scenario.clone()
        }
    }

    pub(super) fn run(&mut self, scenario: &Scenario, watch: &mut dyn Watch) -> Result<Outcome, CapacityError> {
        let resolved = resolve(scenario, self.host)?;
        let options = Options { driver_reason: resolved.driver_reason, ..self.options.clone() };
        let under = under(&resolved.plan);
        let outcome = self.hands.put_on(resolved.plan, &options, watch)?;
        match diagnose::target_ended(&outcome.recording) {
            Some(text) => self.ended = Some(format!("{text} {under}")),
            // It answers: somebody has started it again, or another of its processes does.
            None if outcome.recording.totals.sum.counts.ok > 0 => self.ended = None,
            None => {}
        }
        Ok(outcome)
    }

    fn trial(
        &mut self,
        axis: &Axis,
        trial: &Trial,
        follow: &mut dyn Follow,
    ) -> Result<(Outcome, Judge), CapacityError> {
        let spec = self.spec;
        let most_ns = (trial.most_s * 1e9) as u64;
        let base = Scenario { duration_ns: Some(most_ns), ..self.base() };
        let scenario = axis.put(trial.load, most_ns, base);
        let mut counting = Counting {
            follow,
            objectives: &spec.objectives,
            judge: Judge::new(&self.bounds, trial.length_s),
            is_decided: false,
            is_to_end: trial.purpose == Purpose::Explain,
            late: None,
        };
        let outcome = self.run(&scenario, &mut counting)?;
        let Counting { mut judge, late, .. } = counting;
        if let (Some(last), late) = (judge.blocks.last_mut(), late.unwrap_or_default()) {
            // What ended after the load, and what never did, is of the load.
            let unfinished = outcome.recording.totals.in_flight_at_end;
            last.requests += late.requests + unfinished;
            for (bad, late) in last.bad.iter_mut().zip(late.bad.iter().chain(std::iter::repeat(&0))) {
                *bad += late + unfinished;
            }
        }
        Ok((outcome, judge))
    }
}

fn ran_of(axis: &Axis, trial: &Trial, outcome: &Outcome, judge: Judge, took_s: f64) -> Ran {
    let totals = &outcome.recording.totals;
    let load = axis.achieved(trial.load, totals);
    let verdict = judge.cut_off();
    let failures = Some(&outcome.recording).filter(|_| verdict == Verdict::Missed);
    let failures = failures.and_then(diagnose::failures_in_words);
    let response = |quantile| totals.sum.latency.quantile(LatencyKind::Response, quantile).map(|figure| figure.ns);
    Ran {
        step: Step {
            asked: trial.load,
            load,
            took_s,
            verdict,
            is_growing: judge.is_growing(),
            purpose: trial.purpose,
            blocks: judge.blocks,
        },
        diagnosis: Some(outcome.diagnosis.clone()),
        busy: diagnose::busy(&outcome.recording),
        failures,
        cores: Cores::of(&outcome.recording),
        recorded_at: outcome.recorded_at.clone(),
        response_p50_ns: response(0.5),
        response_p99_ns: response(0.99),
        lag_p99_ns: totals.sum.latency.quantile(LatencyKind::Lag, 0.99).map(|figure| figure.ns),
        places: Places::of(&outcome.recording),
    }
}

/// Counts a step's blocks, and ends it once it is decided.
struct Counting<'a> {
    follow: &'a mut dyn Follow,
    objectives: &'a [Objective],
    judge: Judge,
    is_decided: bool,
    /// It is there to be looked at, whatever it decides.
    is_to_end: bool,
    /// What ended after the load.
    late: Option<Block>,
}

impl Watch for Counting<'_> {
    fn on_tick(&mut self, row: &Row, plan: &Plan) {
        self.follow.on_tick(row, plan);
    }

    fn on_event(&mut self, event: &Event) {
        self.follow.on_event(event);
    }

    fn passes_on_to(&mut self) -> Option<&mut dyn Watch> {
        Some(self.follow)
    }

    fn on_interval(&mut self, interval: &Interval<u32>, plan: &Plan) {
        self.follow.on_interval(interval, plan);
        if interval.end_ns <= plan.warmup_ns {
            return;
        }
        let counts = &interval.counts;
        let block = Block {
            seconds: interval.end_ns.saturating_sub(interval.start_ns) as f64 / 1e9,
            requests: counts.requests() + counts.dropped + counts.never_taken_up,
            bad: self.objectives.iter().map(|objective| objective.bad(interval)).collect(),
            backlog: (interval.gauges.in_flight + interval.gauges.queued) as f64,
        };
        if interval.is_drain || self.is_decided {
            let late = self.late.get_or_insert(Block { bad: vec![0; block.bad.len()], ..Block::default() });
            late.requests += block.requests;
            late.bad.iter_mut().zip(&block.bad).for_each(|(sum, bad)| *sum += bad);
            return;
        }
        self.is_decided = self.judge.push(block).is_some() && !self.is_to_end;
    }

    fn is_enough(&self) -> bool {
        self.is_decided
    }
}
