//! What a disruption of the target did, for whom, and how long it took until all was as before.
//!
//! Data only; `diagnose::recovery` finds it out. Moments are seconds of the run. Every figure says how exact it is
//! ([`Resolution`]), and one that is not known is null, which is not "nothing".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One disruption: a fault of the run, or what befell the target by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// The fault's number in the run, from 1 on; null of what befell the target by itself.
    pub fault: Option<u32>,
    /// The fault's name; else `process-crash`, `oom-kill`, `process-restart`, or `outage` where it is not known what it was.
    pub name: String,
    /// What was done or happened, in a sentence.
    pub what: String,
    /// When.
    pub at_s: f64,
    /// When it was undone; null: it was not.
    pub undone_at_s: Option<f64>,
    /// Why it was not done, or could not be undone; null: nothing was wrong with it.
    pub refused: Option<String>,
    /// Until when its figures are counted: until all was as before, another disruption, or the end of the load.
    pub until_s: f64,
    /// The last success before it; null: nothing was interrupted.
    pub last_success_s: Option<f64>,
    /// The first failure after it; null: nothing failed, or it is not known.
    pub first_failure_s: Option<f64>,
    /// The first success after it; null: nothing was interrupted, or there was none.
    pub first_success_s: Option<f64>,
    /// How long nothing succeeded, all such spans together, seconds; null: it went on to the end of the run.
    pub outage_s: Option<f64>,
    /// How many such spans there were.
    pub outages: u32,
    /// Requests that failed.
    pub failed: Failed,
    /// Connections that the target closed or reset, beyond those that it closed before as a rule.
    pub aborted_connections: u64,
    /// Successes a second, against those before.
    pub throughput: Option<Return>,
    /// The 99th percentile of the response time, microseconds, against that before.
    pub response_p99_us: Option<Return>,
    /// When throughput and response time were as before, and something succeeded; null: not until [`Recovery::until_s`].
    pub recovered_s: Option<f64>,
    /// By how much the throughput went beyond that before when it was back, as a share of it; null: it did not.
    pub overshoot: Option<f64>,
    /// The target's resident memory; null: it was not read.
    pub memory: Option<Memory>,
    /// Its connections; null: their number changes anyway.
    pub connections: Option<Connections>,
    /// How exact all of this is.
    pub resolution: Resolution,
}

/// Requests that failed, by what that is to who asked.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Failed {
    /// All together.
    pub requests: u64,
    /// No connection could be had.
    pub refused: u64,
    /// Their connection was cut.
    pub aborted: u64,
    /// Nothing came in time.
    pub unanswered: u64,
    /// The most in one interval, a second.
    pub per_s_max: f64,
}

/// A figure that left its level and came back to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Return {
    /// Its level before: the median of the intervals.
    pub before: f64,
    /// From where on it counts as being as before: 95 % of the throughput, 110 % of the response time, or what a tenth of the
    /// intervals before had passed.
    pub limit: f64,
    /// The worst of an interval; null: nothing succeeded in one.
    pub worst: Option<f64>,
    /// Whether it was beyond the limit at all.
    pub has_left: bool,
    /// Since when it is as before, where it had left: at the latest; null: not until [`Recovery::until_s`].
    pub back_s: Option<f64>,
}

/// The target's resident memory, all its processes together, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// The last reading before.
    pub before: u64,
    /// The least after.
    pub least: u64,
    /// The last of those that were counted.
    pub after: u64,
}

impl Memory {
    /// What it gave back, bytes.
    pub fn freed(&self) -> u64 {
        self.before.saturating_sub(self.least)
    }
}

/// Connections of the load to the target at intervals' ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Before: the median.
    pub before: u64,
    /// The fewest after.
    pub least: u64,
    /// How many never came back: less than before by so many at the best interval after the first success.
    pub never_back: u64,
}

/// How exact the figures are, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resolution {
    /// Moments of single requests: successes and failures.
    pub moments_s: f64,
    /// What is counted or compared by intervals: failures by class, throughput, response time, connections.
    pub intervals_s: f64,
    /// Memory: between two readings; null: it was not read.
    pub memory_s: Option<f64>,
}

impl Recovery {
    /// Whether it did anything to the load that can be seen.
    pub fn has_done_anything(&self) -> bool {
        let has_left = |figure: Option<Return>| figure.is_some_and(|figure| figure.has_left);
        self.outages > 0 || self.failed.requests > 0 || has_left(self.throughput) || has_left(self.response_p99_us)
    }
}
