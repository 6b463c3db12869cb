//! Experiments on a server from the load side: which steps are run, in which order, how long; judged by
//! `diagnose::experiment`.
//!
//! Rounds of short steps, every dose of every experiment once a round, each second round in reverse, so that a machine that
//! drifts does so for all doses. A step is a run of its own, unrecorded, without probes: nothing is needed at the server. The
//! time is bounded: no step begins that would not end in it. What was done when it ends, or is told to, is judged. Only what
//! the user named is sent, only to the server named; silent connections and bursts are bounded by `connections_max`.

mod idle;
mod steps;

use crate::run::{Options, Outcome, RecordTo, RunError, Watch, run};
use diagnose::experiment::{Decision, Experiment, Record, SCHEMA, decide, sentence};
use idle::Idle;
use model::finding::Status;
use model::plan::{Pace, Plan};
use model::recording::End;
use model::{Scenario, hide};
use resolve::{Host, ResolveError, resolve};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use steps::{Dose, doses};

/// A step's own time beside its load, guessed before any was run: threads, readings, the drain.
const OVERHEAD: Duration = Duration::from_millis(150);
/// Rounds that the time is divided by: three are the least that have an interval worth its name.
const ROUNDS: u32 = 3;
/// A step is at least so long, and at most.
const STEP_MIN: Duration = Duration::from_millis(250);
const STEP_MAX: Duration = Duration::from_secs(2);
/// From this share of the time on.
const REST_FROM: f64 = 0.7;
/// The shortest time in which two rounds are run.
pub const TIME_MIN: Duration = Duration::from_secs(5);
/// A request that is not answered in this time is lost. A server that takes long for a single one is given more: see [`LINE`].
const TIMEOUT: Duration = Duration::from_secs(1);
/// So many clients may stand in line before a request: it is given as many times what a single one takes.
const LINE: u32 = 40;
/// However slow the server is, a request that is not answered in this time is lost.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// A SYN is sent again after one second and after three: both must be seen (RFC 6298).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// What is asked of the experiments.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The server and what is asked of it; what experiments vary is overwritten.
    pub scenario: Scenario,
    /// How long all of it may take.
    pub time: Duration,
    /// Requests a second that the rate is varied around; `None`: half of what the server answered at most.
    pub rate_per_s: Option<f64>,
    /// Paths (of http) that sizes are varied by.
    pub paths: Vec<String>,
    /// Silent or new connections at once, at most.
    pub connections_max: u32,
    /// Which experiments; empty: all.
    pub only: Vec<Experiment>,
    /// The tool's version.
    pub version: String,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A step could not be planned.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A step could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Such a load has no single requests to vary.
    #[error(
        "expected a URL of http, https, echo, resp or ws, got one of another kind: experiments vary single requests"
    )]
    Protocol,
    /// Nothing was answered.
    #[error("expected {target} to answer a request, got {why}: check the URL and what listens there")]
    Silent {
        /// The server.
        target: String,
        /// What came instead.
        why: String,
    },
    /// It was told to end before anything was known.
    #[error("interrupted before the first step had ended")]
    Interrupted,
}

/// Sees the steps as they come.
pub trait Follow: Watch {
    /// A step begins: its label, and how much of the time is used up, 0..=1.
    fn on_begin(&mut self, label: &str, used: f64);
    /// What is known so far, after each round: kept, so that nothing is lost with the process.
    fn on_round(&mut self, record: &Record);
}

/// Runs them.
///
/// # Errors
/// [`ExperimentError`], before anything was found out.
pub fn experiment(
    spec: &Spec,
    host: &dyn Host,
    options: &Options,
    follow: &mut dyn Follow,
) -> Result<Record, ExperimentError> {
    let plan = resolve(&spec.scenario, host)?.plan;
    if matches!(plan.pace, Pace::Held { .. }) {
        return Err(ExperimentError::Protocol);
    }
    let mut lab = Lab::new(spec, host, options, plan);
    lab.first(follow)?;
    let doses = doses(spec, &lab.plan);
    lab.share_out(doses.len());
    while lab.has_time() && !lab.leaves_the_rest() {
        let order: Vec<&Dose> = match lab.record.rounds % 2 {
            0 => doses.iter().collect(),
            _ => doses.iter().rev().collect(),
        };
        let is_whole = order
            .into_iter()
            .map(|dose| lab.dose(dose, follow))
            .try_fold(true, |all, one| Ok::<_, ExperimentError>(one? && all))?;
        if is_whole {
            lab.record.rounds += 1;
        }
        lab.judge();
        follow.on_round(&lab.record);
        lab.share_out(doses.len());
    }
    lab.narrow(follow)?;
    Ok(lab.finish())
}

/// The experiments under way.
struct Lab<'a> {
    spec: &'a Spec,
    host: &'a dyn Host,
    options: &'a Options,
    plan: Plan,
    began: Instant,
    /// The time of a single request.
    single: Duration,
    length: Duration,
    /// The longest that a step took beside its load.
    overhead: Duration,
    record: Record,
}

impl<'a> Lab<'a> {
    fn new(spec: &'a Spec, host: &'a dyn Host, options: &'a Options, plan: Plan) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let shown = spec.scenario.urls.first().map_or_else(String::new, |url| hide::url(&url.url.expose_text()));
        Lab {
            spec,
            host,
            options,
            plan,
            began: Instant::now(),
            single: Duration::ZERO,
            length: STEP_MIN,
            overhead: OVERHEAD,
            record: Record {
                schema: SCHEMA.to_owned(),
                version: spec.version.clone(),
                started_at_unix_ns: u64::try_from(started).unwrap_or(u64::MAX),
                target: shown,
                end: End::Partial,
                took_s: 0.0,
                for_s: spec.time.as_secs_f64(),
                rounds: 0,
                sentence: String::new(),
                decisions: Vec::new(),
                steps: Vec::new(),
            },
        }
    }

    fn is_interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
    }

    /// Whether another step would end in time.
    fn has_time(&self) -> bool {
        !self.is_interrupted() && self.began.elapsed() + self.length.mul_f64(1.2) + self.overhead <= self.spec.time
    }

    /// Whether what is left of the time is better spent on finding where silent connections begin to cost others the server.
    fn leaves_the_rest(&self) -> bool {
        self.record.rounds >= 2 && self.has_lost_to_silent() && self.began.elapsed() > self.spec.time.mul_f64(REST_FROM)
    }

    fn has_lost_to_silent(&self) -> bool {
        let is_it =
            |decision: &Decision| decision.experiment == Experiment::Idle && decision.status == Status::Supported;
        self.record.decisions.iter().any(is_it)
    }

    /// Shares what is left of the time out among the steps of the rounds that are due, one of them more than is needed: a lost
    /// reply takes longer than its step.
    fn share_out(&mut self, doses: usize) {
        let rounds = (ROUNDS + 1).saturating_sub(self.record.rounds).max(1);
        let doses = u32::try_from(doses.max(1)).unwrap_or(u32::MAX);
        let left = self.spec.time.saturating_sub(self.began.elapsed());
        let share = left / rounds.saturating_mul(doses);
        // A step in which single requests have no room says nothing: replies come in waves of so many clients.
        let least = (self.single * 10).clamp(STEP_MIN, STEP_MAX * 5);
        self.length = share.saturating_sub(self.overhead).clamp(least, STEP_MAX.max(least));
    }

    /// How long a step takes: those that count rates need the whole of it, others a few requests.
    fn length_of(&self, experiment: Experiment) -> Duration {
        match experiment {
            Experiment::Clients | Experiment::Rate => self.length,
            _ => self.length.min(STEP_MIN.max(self.single * 4)),
        }
    }

    /// A few single requests: is anybody there, and how long does one take?
    fn first(&mut self, follow: &mut dyn Follow) -> Result<(), ExperimentError> {
        follow.on_begin("one client, to begin with", 0.0);
        let scenario = Scenario {
            connections: Some(1),
            requests: Some(5),
            duration_ns: Some(nanos(self.spec.time / 4)),
            ..self.base(self.length)
        };
        let outcome = self.load(&scenario, follow)?;
        if self.is_interrupted() {
            return Err(ExperimentError::Interrupted);
        }
        let sum = &outcome.recording.totals.sum;
        if sum.counts.ok == 0 {
            let why = outcome.recording.totals.came_instead();
            return Err(ExperimentError::Silent { target: self.record.target.clone(), why });
        }
        let mean_ns = sum.latency.of(model::LatencyKind::Response).mean();
        self.single = Duration::from_nanos(mean_ns as u64);
        Ok(())
    }

    /// What every step has in common.
    fn base(&self, length: Duration) -> Scenario {
        let timeout = (self.single * LINE).clamp(TIMEOUT, TIMEOUT_MAX);
        Scenario {
            connections: Some(1),
            requests: None,
            duration_ns: Some(nanos(length)),
            warmup_ns: None,
            drain_ns: Some(nanos(timeout)),
            profile: Vec::new(),
            burst: None,
            threads: Some(1),
            timeout_ns: Some(nanos(timeout)),
            connect_timeout_ns: Some(nanos(CONNECT_TIMEOUT)),
            give_up_ns: Some(nanos(CONNECT_TIMEOUT)),
            requests_per_connection: None,
            tick_ns: Some(100_000_000),
            expect: Vec::new(),
            expect_errors: Some("any".to_owned()),
            ..self.spec.scenario.clone()
        }
    }

    fn load(&self, scenario: &Scenario, follow: &mut dyn Follow) -> Result<Outcome, ExperimentError> {
        let resolved = resolve(scenario, self.host)?;
        let options =
            Options { record: RecordTo::Nothing, driver_reason: resolved.driver_reason, ..self.options.clone() };
        Ok(run(resolved.plan, &options, follow)?)
    }

    /// Runs a dose once, if there is time; whether it was.
    fn dose(&mut self, dose: &Dose, follow: &mut dyn Follow) -> Result<bool, ExperimentError> {
        if !self.has_time() {
            return Ok(false);
        }
        let Some(scenario) = dose.scenario(
            self.base(self.length_of(dose.experiment)),
            self.spec.rate_per_s.or_else(|| self.base_rate()),
            self.rate_connections(),
        ) else {
            return Ok(true);
        };
        let used = self.began.elapsed().as_secs_f64() / self.spec.time.as_secs_f64();
        follow.on_begin(&format!("{}: {}", dose.experiment.name(), dose.label), used.min(1.0));
        let at = Instant::now();
        let idle = (dose.experiment == Experiment::Idle).then(|| Idle::hold(&self.plan, dose.dose as usize));
        let outcome = self.load(&scenario, follow)?;
        if self.is_interrupted() {
            return Ok(false);
        }
        let mut step = steps::step(&outcome, dose, self.record.rounds);
        step.at_s = at.duration_since(self.began).as_secs_f64();
        step.turned_away = idle.map_or(0, Idle::turned_away);
        self.record.steps.push(step);
        self.overhead = at.elapsed().saturating_sub(self.length).clamp(OVERHEAD, TIMEOUT);
        Ok(true)
    }

    /// The most clients that were all answered: a rate is put on no more connections than get an answer.
    fn rate_connections(&self) -> Option<u32> {
        let clients = || self.record.steps.iter().filter(|step| step.experiment == Experiment::Clients);
        let loses = |dose: f64| clients().any(|step| step.dose <= dose && step.failed + step.unfinished > 0);
        clients().map(|step| step.dose).filter(|dose| !loses(*dose)).reduce(f64::max).map(|most| most as u32)
    }

    /// Half of the most that was answered.
    fn base_rate(&self) -> Option<f64> {
        let clients =
            self.record.steps.iter().filter(|step| step.experiment == Experiment::Clients && step.lost_share() < 0.1);
        let most = clients.map(|step| step.throughput_per_s).fold(0.0, f64::max);
        (most > 0.0).then_some(most / 2.0)
    }

    /// Where silent connections cost others the server, between which numbers of them: halved as long as there is time.
    fn narrow(&mut self, follow: &mut dyn Follow) -> Result<(), ExperimentError> {
        if !self.has_lost_to_silent() {
            return Ok(());
        }
        // What was kept back for the rounds is enough for a few short steps.
        self.length = STEP_MIN.max(self.single * 2);
        loop {
            let of_idle = || self.record.steps.iter().filter(|step| step.experiment == Experiment::Idle);
            let served = of_idle().filter(|step| step.lost_share() <= 0.1).map(|step| step.dose).fold(0.0, f64::max);
            let lost =
                of_idle().filter(|step| step.lost_share() >= 0.9).map(|step| step.dose).fold(f64::INFINITY, f64::min);
            let middle = ((served + lost) / 2.0).floor();
            let is_timely = !self.is_interrupted() && self.began.elapsed() + self.length + TIMEOUT <= self.spec.time;
            if !is_timely || !lost.is_finite() || middle <= served || middle >= lost {
                break;
            }
            if !self.dose(&Dose::idle(middle), follow)? {
                break;
            }
        }
        self.judge();
        Ok(())
    }

    fn judge(&mut self) {
        self.record.decisions = decide(&self.record.steps);
        self.record.sentence = sentence(&self.record.decisions);
        self.record.took_s = self.began.elapsed().as_secs_f64();
    }

    fn finish(mut self) -> Record {
        self.judge();
        self.record.end = if self.is_interrupted() { End::Interrupted } else { End::Complete };
        self.record
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Asks an echo for payloads of one size.
fn sized(scenario: &mut Scenario, bytes: u32) {
    scenario.ask::<model::workload::echo::EchoAsked>(|asked| asked.sizes = Some(model::plan::Sizes::Fixed(bytes)));
}
