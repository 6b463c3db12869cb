//! The steps of an experiment, as judges ask for them: by dose, by round, with intervals over the rounds.
//!
//! A dose's response is the mean over its rounds with Student's 95 % interval: rounds are a handful and independent, requests
//! of a step are neither. Rounds in which the generator's own figures were not valid are left out where two others are left.

use super::{Experiment, ROUNDS_MIN, Response};
use crate::statistics::mean_95;
use model::units::show_duration_ns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One short run of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What was varied.
    pub experiment: Experiment,
    /// How much of it.
    pub dose: f64,
    /// The dose in words.
    pub label: String,
    /// The round, from 0.
    pub round: u32,
    /// When it began, seconds from the first step's start.
    pub at_s: f64,
    /// How long was measured, seconds.
    pub measured_s: f64,
    /// Requests with the reply that was due.
    pub ok: u64,
    /// Requests without.
    pub failed: u64,
    /// Requests that had not ended.
    pub unfinished: u64,
    /// Failures by kind, of requests and of connections.
    pub errors: BTreeMap<String, u64>,
    /// Requests that ended in the measured time, a second.
    pub throughput_per_s: f64,
    /// Requests due, a second; null where the next was due after the reply.
    pub asked_per_s: Option<f64>,
    /// Response times of successes, microseconds; null where none succeeded.
    pub response_mean_us: Option<f64>,
    /// The median.
    pub response_p50_us: Option<f64>,
    /// Time to make a connection, microseconds, on average; null where none was made.
    pub connect_mean_us: Option<f64>,
    /// The longest, also of one that failed for its timeout.
    pub connect_max_us: Option<f64>,
    /// Connections made.
    pub connected: u64,
    /// Connections that were closed while requests went on, by the peer or at its word.
    pub closed: u64,
    /// Bytes received for each success.
    pub reply_bytes: Option<f64>,
    /// Cores busy for the server on this machine: its processes' where they are known, else all but what other processes took; null
    /// where the server is not known to be on it.
    pub busy_cores: Option<f64>,
    /// Of the silent connections held beside it, those that were refused or closed.
    pub turned_away: u64,
    /// Whether the generator's own figures are not valid.
    pub is_disturbed: bool,
}

impl Step {
    /// The share of the requests that failed or never ended; 1 where none was begun.
    pub fn lost_share(&self) -> f64 {
        let lost = (self.failed + self.unfinished) as f64;
        let all = self.ok as f64 + lost;
        if all > 0.0 { lost / all } else { 1.0 }
    }
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// The 95 % interval's lower end; null of a single value.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// Of some values; `None` of none, or of one that is no number.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (value, margin) = mean_95(values)?;
        let end = |sign: f64| margin.map(|margin| sign.mul_add(margin, value));
        Some(Estimate { value, low: end(-1.0), high: end(1.0) })
    }

    /// Whether all of the interval lies above a value. Of a single one never: nothing is known of its scatter.
    pub fn is_above(&self, value: f64) -> bool {
        self.low.is_some_and(|low| low > value)
    }

    /// Whether all of the interval lies below a value.
    pub fn is_below(&self, value: f64) -> bool {
        self.high.is_some_and(|high| high < value)
    }
}

/// The steps of one experiment.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    all: Vec<&'a Step>,
}

impl<'a> Steps<'a> {
    pub(super) fn of(steps: &'a [Step], experiment: Experiment) -> Self {
        Steps { all: steps.iter().filter(|step| step.experiment == experiment).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The doses, the least first.
    pub(super) fn doses(&self) -> Vec<f64> {
        let mut doses: Vec<f64> = self.all.iter().map(|step| step.dose).collect();
        doses.sort_by(f64::total_cmp);
        doses.dedup();
        doses
    }

    /// The steps of a dose, those left out that were disturbed, where enough others are left to decide by: where the whole
    /// machine is disturbed, one round that happened not to be would count for less than none.
    pub(super) fn at(&self, dose: f64) -> Vec<&'a Step> {
        let all: Vec<&Step> = self.all.iter().copied().filter(|step| step.dose == dose).collect();
        let quiet: Vec<&Step> = all.iter().copied().filter(|step| !step.is_disturbed).collect();
        if quiet.len() < ROUNDS_MIN { all } else { quiet }
    }

    /// The mean of something over the rounds of a dose.
    pub(super) fn mean(&self, dose: f64, of: impl Fn(&Step) -> Option<f64>) -> Option<Estimate> {
        let values: Vec<f64> = self.at(dose).into_iter().filter_map(of).collect();
        Estimate::of(&values)
    }

    /// The difference of something between two doses, round by round.
    pub(super) fn difference(&self, from: f64, to: f64, of: impl Fn(&Step) -> Option<f64>) -> Option<Estimate> {
        let from = self.at(from);
        let pairs = self.at(to).into_iter().filter_map(|step| {
            let other = from.iter().find(|other| other.round == step.round)?;
            Some(of(step)? - of(other)?)
        });
        Estimate::of(&pairs.collect::<Vec<f64>>())
    }

    /// Whether something holds in every round of a dose, and there are rounds.
    pub(super) fn always(&self, dose: f64, is: impl Fn(&Step) -> bool) -> bool {
        let steps = self.at(dose);
        !steps.is_empty() && steps.into_iter().all(is)
    }

    /// The response of every dose.
    pub(super) fn responses(&self, metric: &str, unit: &str, of: impl Fn(&Step) -> Option<f64>) -> Vec<Response> {
        let one = |dose: f64| {
            let steps = self.at(dose);
            Response {
                dose,
                label: steps.first().map_or_else(String::new, |step| step.label.clone()),
                metric: metric.to_owned(),
                value: self.mean(dose, &of),
                unit: unit.to_owned(),
                rounds: steps.len(),
            }
        };
        self.doses().into_iter().map(one).collect()
    }
}

/// Microseconds for people.
pub(super) fn us(us: f64) -> String {
    show_duration_ns(us * 1e3)
}
