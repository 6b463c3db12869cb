//! The main job on embedded defaults: a reference target in a process of its own, its load line, what gives first.
//!
//! The target is one thread on one CPU that burns a stated CPU time for each request, so that on two cores it gives
//! first and not the generator. A short closed run says about how much it answers at all; open-loop steps then find
//! the highest rate it still answers within the objective. Each step is a run of its own, with a recording.

use crate::capacity::{Bounds, LoadLine, Next, Objective, Search};
use crate::embedded::Embedded;
use crate::run::{Options, Outcome, RunError, Watch, run};
use model::Scenario;
use model::finding::{Figure, ValidityState};
use model::plan::Segment;
use model::scenario::WeightedUrl;
use resolve::{Host, ResolveError, resolve};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// CPU time the target burns for a request, microseconds. So much that the generator has half of its CPU to spare even
/// unoptimised, on a machine whose CPUs are not whole ones.
pub const CPU_US: u32 = 200;
/// Connections the demo holds.
const CONNECTIONS: u32 = 64;
const CALIBRATION_NS: u64 = 1_000_000_000;
const STEP_NS: u64 = 1_500_000_000;
const WARMUP_NS: u64 = 300_000_000;
/// Each tick the session reads the host on a CPU that target and generator need too: seldom, so that it stays out of p99.
const TICK_NS: u64 = 500_000_000;
/// A step that was disturbed is tried again, so often in all,
const RETRIES: u32 = 6;
/// after a pause that grows by so much each time: what disturbed it may pass.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// What the demo asks of its target.
pub const OBJECTIVE: Objective = Objective { quantile: 0.99, response_ns_max: 10_000_000, failed_share_max: 0.001 };
const BOUNDS: Bounds = Bounds { steps: 9, ratio: 1.02, growth: 1.15 };

/// Why the demo could not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The target did not start.
    #[error("the demo's target did not start: {0}")]
    Target(io::Error),
    /// A step could not be planned.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A step could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It was told to end.
    #[error("interrupted before the load line was found")]
    Interrupted,
    /// The target answered nothing in the first, closed run.
    #[error("the demo's target answered no request in its first second")]
    Silent,
}

/// One step of the search.
#[derive(Debug)]
pub struct Step {
    /// The rate asked for, requests a second.
    pub rate_per_s: f64,
    /// Whether the objective was met.
    pub is_met: bool,
    /// The run.
    pub outcome: Outcome,
}

/// What the demo found.
#[derive(Debug)]
pub struct Found {
    /// Where the line lies.
    pub line: LoadLine,
    /// The highest step that met the objective.
    pub met: Option<Step>,
    /// The lowest step that missed it: the one that shows what gives first.
    pub missed: Option<Step>,
    /// A step that could not be measured however often it was tried: the search ended there.
    pub disturbed: Option<Step>,
    /// Steps run.
    pub steps: u32,
}

/// Sees the demo while it goes.
pub trait Follow: Watch {
    /// A step begins.
    fn on_step(&mut self, number: u32, rate_per_s: f64);
    /// A step has ended.
    fn on_result(&mut self, step: &Step);
    /// A step was disturbed, and will be tried again.
    fn on_disturbed(&mut self, rate_per_s: f64, outcome: &Outcome);
}

/// Runs the demo with `program` (this program) as the target.
///
/// # Errors
/// [`DemoError`].
pub fn demo(program: &Path, host: &dyn Host, options: &Options, follow: &mut dyn Follow) -> Result<Found, DemoError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let target = Embedded::serve_http(program, &["--pin", "0"]).map_err(DemoError::Target)?;
    let scenario = |rate: Option<f64>, duration_ns| Scenario {
        urls: vec![WeightedUrl { url: format!("{}cpu?us={CPU_US}", target.url).into(), weight: 1.0 }],
        connections: Some(CONNECTIONS),
        threads: Some(1),
        pin: if cores > 1 { vec![1] } else { vec![] },
        duration_ns: Some(duration_ns),
        warmup_ns: Some(WARMUP_NS),
        tick_ns: Some(TICK_NS),
        profile: rate.map(|r| vec![Segment { from_per_s: r, to_per_s: r, for_ns: duration_ns }]).unwrap_or_default(),
        ..Scenario::default()
    };
    let one = |scenario: &Scenario, follow: &mut dyn Follow| -> Result<Outcome, DemoError> {
        let resolved = resolve(scenario, host)?;
        let options = Options { driver_reason: resolved.driver_reason, ..options.clone() };
        let outcome = run(resolved.plan, &options, follow)?;
        if options.interrupted.load(Ordering::Relaxed) { Err(DemoError::Interrupted) } else { Ok(outcome) }
    };

    let calibration = one(&scenario(None, CALIBRATION_NS), follow)?;
    let capacity = calibration.recording.totals.requests_per_s();
    if capacity <= 0.0 {
        return Err(DemoError::Silent);
    }
    let mut search = Search::new(capacity * 0.9, BOUNDS);
    let mut found = Found {
        line: LoadLine { met_per_s: None, missed_per_s: None },
        met: None,
        missed: None,
        disturbed: None,
        steps: 0,
    };
    let mut retries = RETRIES;
    loop {
        let rate_per_s = match search.next() {
            Next::Done(line) => return Ok(Found { line, ..found }),
            Next::Try(rate) => rate.round(),
        };
        found.steps += 1;
        follow.on_step(found.steps, rate_per_s);
        let outcome = one(&scenario(Some(rate_per_s), STEP_NS), follow)?;
        let validity = &outcome.diagnosis.validity;
        let is_met = OBJECTIVE.is_met(&outcome.recording.totals, validity.used_quiet().is_some());
        // What disturbs only ever adds to a time: an objective that is met all the same is met, if the rate was put on.
        let rate = validity.figure(Figure::Throughput).map(|verdict| verdict.state);
        let holds_anyway = is_met && rate == Some(ValidityState::Valid);
        if !validity.valid && !holds_anyway {
            if retries == 0 {
                let line = search.line();
                let disturbed = Some(Step { rate_per_s, is_met: false, outcome });
                return Ok(Found { line, disturbed, ..found });
            }
            retries -= 1;
            follow.on_disturbed(rate_per_s, &outcome);
            pause(RETRY_PAUSE * (RETRIES - retries), options)?;
            continue;
        }
        search.observe(rate_per_s, is_met);
        let step = Step { rate_per_s, is_met, outcome };
        follow.on_result(&step);
        found.keep(step);
    }
}

/// Waits, but not on when the user wants to stop.
fn pause(length: Duration, options: &Options) -> Result<(), DemoError> {
    let began = Instant::now();
    while began.elapsed() < length {
        if options.interrupted.load(Ordering::Relaxed) {
            return Err(DemoError::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

impl Found {
    /// Keeps the steps on either side of the line, and no others: a step's figures take a few MiB.
    fn keep(&mut self, step: Step) {
        if step.is_met {
            if self.met.as_ref().is_none_or(|met| met.rate_per_s < step.rate_per_s) {
                self.met = Some(step);
            }
        } else if self.missed.as_ref().is_none_or(|missed| missed.rate_per_s > step.rate_per_s) {
            self.missed = Some(step);
        }
    }
}
