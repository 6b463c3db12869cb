//! Several generators' recordings made one (`plimsoll runs merge`): whose they were, and how their clocks were laid together.
//!
//! Counts and histograms of the merged recording are the sums of theirs. What cannot be added, each generator's own verdict and
//! its machine, stands here: no rule could find it again in the sums.

use super::End;
use crate::finding::{FigureVerdict, Reason, ValidityState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a run began, by clocks that another run's beginning can be compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunClock {
    /// Which monotonic clock it is: the machine's boot id and the time namespace. Two runs that have the same were timed by one
    /// clock.
    pub id: String,
    /// The run's start on CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
    /// The same moment on the wall clock, nanoseconds since 1970.
    pub wall_ns: u64,
    /// How far that may be from true time, nanoseconds, as the kernel says of a synchronised clock (`maxerror`, adjtimex(2));
    /// `None`: nobody synchronises it, or it could not be asked.
    pub wall_error_ns: Option<u64>,
}

/// A generator whose recording is part of a merged one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// The name of its recording.
    pub name: String,
    /// Its machine: CPU and cores in words.
    pub cpu: String,
    /// Its machine's kernel.
    pub kernel: String,
    /// The driver that ran.
    pub driver: String,
    /// Connections it was asked for.
    pub connections: u32,
    /// Requests that ended, warm-up excluded.
    pub requests: u64,
    /// Requests that ended a second of its own measured time.
    pub requests_per_s: f64,
    /// CPU time of the process, nanoseconds.
    pub cpu_ns: u64,
    /// Highest resident memory, bytes.
    pub peak_rss_bytes: u64,
    /// 99th percentile of its lag, nanoseconds; `None`: too few requests.
    pub lag_p99_ns: Option<u64>,
    /// How long after the merged run's start it began, nanoseconds.
    pub offset_ns: u64,
    /// How far from that the true moment may be, nanoseconds; 0: by the same clock as the first.
    pub offset_bound_ns: u64,
    /// How its run ended.
    pub end: End,
    /// Whether something in its recording is not as it was written, and so is missing here.
    pub is_damaged: bool,
    /// Whether the readings of host and target are its own: of one generator's alone, as those of several cannot be added.
    pub has_readings: bool,
    /// Whether its own figures may be believed.
    pub validity: ValidityState,
    /// The verdict on each of them.
    pub figures: Vec<FigureVerdict>,
    /// What speaks against them.
    pub reasons: Vec<Reason>,
}

/// That a recording was made of several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Generators {
    /// Every one, the one that began first first.
    pub generators: Vec<Generator>,
    /// How long all of them measured at once, nanoseconds.
    pub together_ns: u64,
    /// What was not put on of a load that was divided over agents: of each that was lost or could not go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortfalls: Vec<Shortfall>,
    /// Of bursts over several agents: the moments of release of any two of them were one to within that, nanoseconds, as their clocks
    /// were laid beside the controller's before each burst. The skew (the lag) is after each agent's own moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_bound_ns: Option<u64>,
}

/// What an agent did not put on of its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shortfall {
    /// The agent.
    pub name: String,
    /// What happened, and what was not done for it, in a sentence.
    pub text: String,
    /// How much of the whole load that is, 0..=1.
    pub share: f64,
}

/// A shortfall of a smaller share of the load than this moves no figure by more, and leaves the verdict as it is.
pub const SHORTFALL_MAX: f64 = 0.01;
