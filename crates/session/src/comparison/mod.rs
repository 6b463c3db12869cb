//! Two sides under load in turn: slices of A, A again and B in random order, repeat by repeat.
//!
//! The order within each repeat is drawn from a seed, so that nothing that drifts or beats in time goes with a side. Where a
//! side is a command it is started anew for each of its slices and ended with its process group, so what differs from one start
//! to the next is in the spread and not in the difference. A slice in which the generator was disturbed, by its own signals, is
//! run once more at the end of its repeat; one that is disturbed again leaves its repeat out of the verdict. Each slice is a
//! recording where a folder is given. Judged by `diagnose::comparison`, after each repeat anew: an interrupt leaves what is
//! known by then.
//!
//! It does not run both sides at once: they would share the machine.

use crate::run::{Hands, Options, Outcome, RecordTo, RunError, Watch};
use crate::target::{self, Target, TargetError};
use diagnose::comparison::{
    Comparison, Figures, Pairing, Quantity, SCHEMA, Seen, Side, Slice, differences, findings_seen,
};
use diagnose::history::History;
use model::Recording;
use model::finding::ValidityState;
use model::plan::Plan;
use model::recording::End;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One side.
#[derive(Debug, Clone)]
pub struct Arm {
    /// Its load, as long as a slice.
    pub plan: Plan,
    /// Why its driver.
    pub driver_reason: String,
    /// What starts its server, where it is started for each slice: for `sh -c`.
    pub command: Option<String>,
    /// What it is called, without secrets.
    pub shown: String,
}

/// What is compared, and how.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A.
    pub a: Arm,
    /// B.
    pub b: Arm,
    /// Repeats, each of three slices.
    pub repeats: u32,
    /// Length of a slice, its warm-up left out.
    pub slice: Duration,
    /// Seed of the order.
    pub seed: u64,
    /// Relative changes that do not matter.
    pub tolerance: f64,
    /// How sure a verdict "different" has to be.
    pub confidence: f64,
    /// What verdicts are about.
    pub declared: Vec<Quantity>,
    /// The journal's folder, for servers that are started.
    pub journal: PathBuf,
    /// Where the slices' recordings go; `None`: none is kept.
    pub folder: Option<PathBuf>,
}

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// A slice could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A side's command did not come up.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Nothing was answered at all.
    #[error("expected {target} to answer a request, got {why}: check what listens there")]
    Silent {
        /// Which side, and its name.
        target: String,
        /// What came instead.
        why: String,
    },
    /// It was told to end before a slice had.
    #[error("interrupted before the first slice had ended")]
    Interrupted,
}

/// Sees the slices as they come.
pub trait Follow: Watch {
    /// A slice begins.
    fn on_begin(&mut self, label: &str);
    /// A slice has ended.
    fn on_slice(&mut self, slice: &Slice);
    /// What is known so far, after each repeat: kept, so that nothing is lost with the process.
    fn on_repeat(&mut self, comparison: &Comparison);
}

/// Compares them; every slice is put on by `hands`.
///
/// # Errors
/// [`ComparisonError`], before the first repeat was whole; a later one ends the comparison, which is marked partial.
pub fn compare(
    spec: &Spec,
    options: &Options,
    hands: &mut dyn Hands,
    follow: &mut dyn Follow,
) -> Result<Comparison, ComparisonError> {
    let mut bench = Bench::new(spec, options, hands);
    let mut random = StdRng::seed_from_u64(spec.seed);
    for repeat in 1..=spec.repeats {
        let mut order = [Side::A, Side::AgainA, Side::B];
        order.shuffle(&mut random);
        match bench.repeat(repeat, order, follow) {
            Ok(()) => {}
            Err(error) if bench.comparison.slices.is_empty() || repeat == 1 => return Err(error),
            Err(ComparisonError::Interrupted) => break,
            Err(error) => {
                bench.comparison.end = End::Partial;
                bench.judge();
                let what = format!("{}; it ended at repeat {repeat}: {error}", bench.comparison.sentence);
                bench.comparison.sentence = what;
                return Ok(bench.comparison);
            }
        }
        bench.judge();
        follow.on_repeat(&bench.comparison);
    }
    bench.comparison.end = if bench.is_interrupted() { End::Interrupted } else { End::Complete };
    bench.judge();
    Ok(bench.comparison)
}

/// A comparison under way.
struct Bench<'a> {
    spec: &'a Spec,
    options: &'a Options,
    hands: &'a mut dyn Hands,
    began: Instant,
    comparison: Comparison,
    seen: Vec<Seen>,
    /// The first recording of each side, without its readings: what settings are compared by.
    first: [Option<Box<Recording>>; 2],
}

impl<'a> Bench<'a> {
    fn new(spec: &'a Spec, options: &'a Options, hands: &'a mut dyn Hands) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Bench {
            spec,
            options,
            hands,
            began: Instant::now(),
            comparison: Comparison {
                schema: SCHEMA.to_owned(),
                version: options.version.clone(),
                started_at_unix_ns: u64::try_from(now).unwrap_or(u64::MAX),
                a: spec.a.shown.clone(),
                b: spec.b.shown.clone(),
                end: End::Partial,
                pairing: Pairing::Paired,
                repeats: spec.repeats,
                slice_s: Some(spec.slice.as_secs_f64()),
                seed: Some(spec.seed),
                tolerance: spec.tolerance,
                confidence: spec.confidence,
                declared: spec.declared.clone(),
                command: options.command.clone(),
                sentence: String::new(),
                judgements: Vec::new(),
                differences: Vec::new(),
                findings: Vec::new(),
                slices: Vec::new(),
            },
            seen: Vec::new(),
            first: [None, None],
        }
    }

    fn is_interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
    }

    fn judge(&mut self) {
        self.comparison.findings = findings_seen(&self.seen);
        if let [Some(a), Some(b)] = &self.first {
            self.comparison.differences = differences(a, b);
        }
        self.comparison.judge();
    }

    /// A repeat; slices that were disturbed once more.
    fn repeat(&mut self, repeat: u32, order: [Side; 3], follow: &mut dyn Follow) -> Result<(), ComparisonError> {
        let mut again = Vec::new();
        for side in order {
            if self.slice(repeat, side, "", follow)? {
                again.push(side);
            }
        }
        for side in again {
            self.slice(repeat, side, ", once more", follow)?;
        }
        Ok(())
    }

    /// A slice, and whether it was disturbed.
    fn slice(&mut self, repeat: u32, side: Side, note: &str, follow: &mut dyn Follow) -> Result<bool, ComparisonError> {
        if self.is_interrupted() {
            return Err(ComparisonError::Interrupted);
        }
        let spec = self.spec;
        let arm = if side == Side::B { &spec.b } else { &spec.a };
        let name = match side {
            Side::A => "A",
            Side::AgainA => "A again",
            Side::B => "B",
        };
        follow.on_begin(&format!("repeat {repeat} of {}, {name}{note}", spec.repeats));
        let number = self.comparison.slices.len() + 1;
        let file = spec.folder.as_ref().map(|folder| {
            folder.join(format!("{number:03}-{}.{}", name.to_lowercase().replace(' ', "-"), store::EXTENSION))
        });
        let at_s = self.began.elapsed().as_secs_f64();
        let target = arm.command.as_ref().map(|command| target::Spec::of_command(command, &spec.journal));
        let interrupted = &self.options.interrupted;
        let started = match target.map(|target| Target::start(&target, &arm.plan, interrupted)).transpose() {
            Err(TargetError::Interrupted) => return Err(ComparisonError::Interrupted),
            started => started?,
        };
        let options = Options {
            record: file.clone().map_or(RecordTo::Nothing, RecordTo::File),
            driver_reason: arm.driver_reason.clone(),
            ..self.options.clone()
        };
        let outcome = self.hands.put_on(arm.plan.clone(), &options, follow);
        let ended = started.map_or(Ok(()), Target::end);
        let mut outcome = match outcome {
            Err(RunError::Interrupted) => return Err(ComparisonError::Interrupted),
            outcome => outcome?,
        };
        ended?;
        if let Some(error) = outcome.recording_error.take() {
            return Err(RunError::Store(error).into());
        }
        // One that was cut short says nothing.
        if self.is_interrupted() {
            return Err(ComparisonError::Interrupted);
        }
        self.silent(name, arm, &outcome)?;
        let history = History::of(&outcome.recording.snapshots);
        let slice = Slice {
            repeat,
            side,
            at_s,
            recording: outcome.recorded_at.as_ref().map(|path| path.display().to_string()),
            figures: Figures::of(&outcome.recording, &history),
            own_margin: Figures::own_margin(&outcome.recording, &history),
            disturbed: disturbed(&outcome),
            gives: outcome.diagnosis.gives.as_ref().map(|gives| gives.text.clone()),
        };
        follow.on_slice(&slice);
        let is_disturbed = slice.disturbed.is_some();
        self.comparison.slices.push(slice);
        if !is_disturbed {
            self.seen.push(Seen::of(side, &outcome.diagnosis));
        }
        let first = &mut self.first[usize::from(side == Side::B)];
        if first.is_none() {
            *first = Some(Box::new(outcome.recording));
        }
        Ok(is_disturbed)
    }

    /// A side that takes no connection at all is no side.
    fn silent(&self, name: &str, arm: &Arm, outcome: &Outcome) -> Result<(), ComparisonError> {
        if outcome.recording.has_connected() {
            return Ok(());
        }
        let why = outcome.recording.totals.came_instead();
        Err(ComparisonError::Silent { target: format!("{name} ({})", arm.shown), why })
    }
}

/// What disturbed the generator, where its figures may not be believed.
fn disturbed(outcome: &Outcome) -> Option<String> {
    let validity = &outcome.diagnosis.validity;
    (validity.state == ValidityState::NotValid).then(|| {
        validity.reasons.first().map_or_else(|| "the generator was disturbed".to_owned(), |reason| reason.text.clone())
    })
}
