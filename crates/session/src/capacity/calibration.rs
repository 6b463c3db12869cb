//! What a server answers at all, before a search's first step; and what is settled by that, where nobody asked for something else.
//!
//! A closed run of a second says about how much it answers, and what a request moves ([`Axis`]). Then, each only where it was not asked
//! for ([`Settles`]):
//!
//! - **Connections** of an open pace. So many requests are under way at once at the most, so where each takes 30 ms by itself, 50
//!   connections carry 1,700 a second, whatever the server could: a line of theirs is none of its. While twice as many carry much
//!   more, there are twice as many.
//! - **Objectives**. A share is decided by the bad ones among so many requests; a server that answers a hundred a second has not
//!   enough of them for `errors < 0.1 %`.
//! - **Time**, where it is too short for the objectives that were asked for.
//!
//! What was asked for and cannot be decided is refused, with what it would take.

use super::axis::{Axis, Of, closed};
use super::decision::requests_needed;
use super::live::{CapacityError, Follow, Runner, Spec};
use super::objective::Objective;
use super::search::STEP_PART_MAX;
use crate::run::Outcome;
use model::Scenario;
use model::plan::Pace;
use model::units::{show_duration_ns, show_grouped};
use resolve::resolve;
use std::time::Duration;

const CALIBRATION_NS: u64 = 1_000_000_000;
/// Steps that a search has room for at least.
const STEPS_MIN: f64 = 10.0;
/// A time that is settled has room for so many steps of the requests that the objectives need.
const STEPS_SETTLED: f64 = 12.0;
/// Twice the connections must carry so many times as much, or it was not for want of them: a request that waits for its turn in the
/// server gains nothing by it, and between two runs of a second a machine that is shared differs by some 10 to 20 %.
const MORE: f64 = 1.3;
/// No more connections than this are tried.
const CONNECTIONS_MOST: u32 = 1600;
/// A time that is settled is no longer than this.
const TIME_MOST: Duration = Duration::from_secs(600);

/// What nobody asked for, which a search settles by what the server answers. By default: nothing.
#[derive(Debug, Clone, Default)]
pub struct Settles {
    /// How many connections an open pace has.
    pub connections: bool,
    /// Objectives for a server that answers too few requests for those of the search.
    pub objectives: Option<Vec<Objective>>,
    /// How long it may take.
    pub time: bool,
}

/// What a closed run said.
struct Answered {
    axis: Axis,
    /// Who kept this machine's CPUs busy meanwhile.
    busy: Option<String>,
}

impl Runner<'_> {
    /// What the server answers at all, and what is searched for by that; says how long it takes.
    pub(super) fn calibrate(&mut self, follow: &mut dyn Follow) -> Result<(Spec, Axis), CapacityError> {
        // As it was asked: what a search sets beside would be refused of held connections, in words nobody wrote.
        let plan = resolve(&closed(self.spec.scenario.clone()), self.host)?.plan;
        if matches!(plan.pace, Pace::Held { .. } | Pace::Burst { .. }) {
            return Err(CapacityError::Protocol);
        }
        self.spec.of.check(&plan)?;
        let connections = match self.spec.of {
            // How many there are is what is looked for.
            Of::Users => None,
            _ => self.scenario.connections,
        };
        let outcome = self.closed_run(connections, follow)?;
        let totals = &outcome.recording.totals;
        let axis = self.axis(&outcome);
        if axis.per_s() <= 0.0 {
            let target = outcome.recording.plan.origins.first().map_or("the server", |origin| &origin.name).to_owned();
            return Err(CapacityError::Silent { target, why: totals.came_instead(), ended: self.ended.clone() });
        }
        let one = Answered { axis, busy: diagnose::busy(&outcome.recording) };
        let mut spec = self.spec.clone();
        let more = self.more_connections(plan.connections, one.axis, follow)?;
        let answered = match more {
            Some((count, axis)) => {
                spec.scenario.connections = Some(count);
                Answered { axis, ..one }
            }
            None => one,
        };
        let sentence = self.settle(&mut spec, &answered)?;
        follow.on_plan(&spec, &sentence);
        Ok((spec, answered.axis))
    }

    /// A closed run of a second, without thinking.
    fn closed_run(&mut self, connections: Option<u32>, follow: &mut dyn Follow) -> Result<Outcome, CapacityError> {
        let scenario = closed(Scenario {
            duration_ns: Some(CALIBRATION_NS),
            warmup_ns: Some(0),
            think: None,
            connections,
            ..self.base()
        });
        match self.run(&scenario, follow) {
            _ if self.is_interrupted() => Err(CapacityError::Interrupted),
            outcome => outcome,
        }
    }

    fn axis(&self, outcome: &Outcome) -> Axis {
        Axis::of(self.spec.of, &self.scenario, &outcome.recording.totals)
    }

    /// How many connections carry much more than so many do, and what they carry; `None`: so many are enough, or were asked for.
    fn more_connections(
        &mut self,
        from: u32,
        axis: Axis,
        follow: &mut dyn Follow,
    ) -> Result<Option<(u32, Axis)>, CapacityError> {
        let mut most = None;
        if !self.spec.settles.connections || self.spec.of.is_closed() {
            return Ok(most);
        }
        let (mut count, mut axis) = (from, axis);
        while 2 * count <= CONNECTIONS_MOST {
            let outcome = self.closed_run(Some(2 * count), follow)?;
            let twice = self.axis(&outcome);
            let has_failed = outcome.recording.totals.sum.counts.failed > 0;
            if has_failed || twice.per_s() < MORE * axis.per_s() {
                break;
            }
            (count, axis) = (2 * count, twice);
            most = Some((count, axis));
        }
        Ok(most)
    }

    /// Settles objectives and time, and says what it takes; refuses an objective that cannot be decided in it.
    fn settle(&self, spec: &mut Spec, answered: &Answered) -> Result<String, CapacityError> {
        let per_s = answered.axis.per_s();
        let beside_s = self.beside_s();
        if spec.of == Of::Users && beside_s > spec.time.as_secs_f64() / STEPS_MIN {
            return Err(CapacityError::Thinking { warmup_s: beside_s, time_s: (STEPS_MIN * beside_s).ceil() });
        }
        let step_s = |spec: &Spec| hardest(&spec.objectives).1 / per_s;
        let is_short = |spec: &Spec| step_s(spec) > STEP_PART_MAX * spec.time.as_secs_f64();
        let mut settled = String::new();
        if let Some(others) = spec.settles.objectives.clone().filter(|_| is_short(spec)) {
            let before = std::mem::replace(&mut spec.objectives, others);
            settled = format!(
                "too few for '{}' in {}: '{}' is looked for (--slo for others); ",
                Objective::words(&before),
                show_duration_ns(spec.time.as_nanos() as f64),
                Objective::words(&spec.objectives)
            );
        }
        let longer = Duration::from_secs_f64((STEPS_SETTLED * step_s(spec)).ceil().min(1e9));
        if spec.settles.time && is_short(spec) && longer <= TIME_MOST {
            spec.time = longer;
        }
        if is_short(spec) {
            let (slo, needed) = hardest(&spec.objectives);
            let step_s = step_s(spec);
            let busy = answered.busy.clone();
            let time_s = longer.as_secs_f64();
            return Err(CapacityError::Undecidable { slo, needed: needed.ceil() as u64, step_s, per_s, time_s, busy });
        }
        let time = show_duration_ns(spec.time.as_nanos() as f64);
        let each = answered.axis.each().map_or(String::new(), |each| format!(", {each}"));
        let over = match (spec.settles.connections && !spec.of.is_closed(), spec.scenario.connections) {
            (true, Some(count)) => {
                format!(" over {} connections, and less over half of them", show_grouped(u64::from(count)))
            }
            _ => String::new(),
        };
        Ok(format!(
            "it answers about {per_s:.0}/s{over}{each}; {settled}the search takes {time} at most, and ends earlier where the line is known within {} %",
            100.0 * spec.precision
        ))
    }
}

/// The objective that needs most requests in a step, and how many.
fn hardest(objectives: &[Objective]) -> (String, f64) {
    let needed = |one: &Objective| requests_needed(one.bound().share_max);
    let hardest = objectives.iter().max_by(|a, b| needed(a).total_cmp(&needed(b)));
    hardest.map_or((String::new(), 0.0), |one| (Objective::words(std::slice::from_ref(one)), needed(one)))
}
