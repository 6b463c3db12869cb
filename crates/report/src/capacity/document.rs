//! A search for the load line as a document: the line, each step with its blocks, the curve, what gives first.
//!
//! `capacity` has the fixed names that scripts lean on. Loads are achieved ones, in `capacity.unit`; shares are 0..=1.

use model::finding::{Finding, ValidityState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document's version.
pub const SCHEMA: &str = "plimsoll.capacity/1";

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The line is known as narrowly as was asked, or the time was used up.
    Complete,
    /// By Ctrl-C or SIGTERM.
    Interrupted,
    /// Steps could not be measured, or the generator was at its limit.
    Disturbed,
    /// It is under way, or was killed.
    Partial,
}

/// How a step, or all of a load's, went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every objective was met.
    Held,
    /// One was not.
    Missed,
    /// Neither could be said.
    Undecided,
}

impl Verdict {
    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Missed => "missed",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// The tool's version.
    pub version: String,
    /// What the load was put on, without secrets.
    pub target: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// How long it took, seconds.
    pub took_s: f64,
    /// How it ended.
    pub end: End,
    /// Why it ended so, where it was disturbed.
    pub why: Option<String>,
    /// How requests were due, and over how many connections.
    pub pace: String,
    /// Wanted width of the interval, as a share of the line.
    pub precision: f64,
    /// The command line, without secrets; empty in files of older versions.
    #[serde(default)]
    pub command: Vec<String>,
    /// What had to hold, one by one, in the order of every list of shares; empty in files of older versions.
    #[serde(default)]
    pub objectives: Vec<Objective>,
    /// In a sentence.
    pub sentence: String,
    /// The line.
    pub capacity: Capacity,
    /// What gives first beyond it; null: nothing that a rule found evidence of.
    pub gives: Option<Gives>,
    /// Connections of an open pace, where they were asked for or settled by what the server answers; null: the default, or a
    /// file of an older version.
    #[serde(default)]
    pub connections: Option<u32>,
    /// That the load's own connections are what is full beyond the line, and not the server; null: they are not, or it is not known.
    #[serde(default)]
    pub own_connections: Option<OwnConnections>,
    /// What is seen beyond the line, in a sentence, where nothing is known to give, or what does explains less than half of the loss;
    /// null in files of older versions.
    #[serde(default)]
    pub unexplained: Option<String>,
    /// Whether the steps at the line may be believed.
    pub validity: ValidityState,
    /// What disturbed the step at the line that held all the same: it can only have added to a time, so that the step holds,
    /// but times of its recording are not the target's. Null in files of older versions.
    #[serde(default)]
    pub held_in_spite_of: Option<String>,
    /// Who kept CPUs busy beside.
    pub busy: Option<String>,
    /// The generator's lag at the line, 99th percentile, microseconds.
    pub lag_p99_us: Option<f64>,
    /// The curve: each load once, ascending.
    pub curve: Vec<Point>,
    /// How throughput scales over connections; only of `--of connections`.
    pub scaling: Option<Scaling>,
    /// Every step, in order.
    pub steps: Vec<Step>,
}

/// Connections that are all taken beyond the line, where a request takes no longer than below it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnConnections {
    /// How many there are.
    pub connections: u32,
    /// What half of the requests take from being sent to their reply, microseconds.
    pub each_us: f64,
    /// Requests a second that so many carry at the most.
    pub at_most_per_s: f64,
}

/// What had to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// As it is written.
    pub text: String,
    /// The share of bad requests that it allows.
    pub allowed: f64,
    /// The time beyond which a request is bad, microseconds; null: only failures are.
    pub late_us: Option<f64>,
}

/// The line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// The line; null: it was not enclosed.
    pub load_line: Option<f64>,
    /// What loads are a number of.
    pub unit: String,
    /// The ends of the 95 % interval; null where it is open.
    pub low: Option<f64>,
    /// See `low`.
    pub high: Option<f64>,
    /// What a step had to hold.
    pub slo: String,
    /// The finding that gives first, by id.
    pub first_to_give: Option<String>,
    /// The highest load that held below all that missed.
    pub held: Option<f64>,
    /// The lowest that missed.
    pub missed: Option<f64>,
    /// How steep the knee is, d ln(share of bad) / d ln(load); null at a jump, where the interval is the bracket alone.
    pub steepness: Option<f64>,
}

/// What gives first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gives {
    /// The finding, of a step at the lowest missed load that shows one.
    pub finding: Finding,
    /// Whether it was not there at the held load.
    pub is_new: bool,
    /// That load, where it is not the lowest that missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_load: Option<f64>,
    /// What would be carried without it; null: the evidence does not allow that sum.
    #[serde(default)]
    pub without: Option<Without>,
}

/// A bound on what would be carried without what gives first: the held load times the machine's cores over those that were used, as
/// a request's CPU time stays what it was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Without {
    /// At most so much, in `capacity.unit`.
    pub at_most: f64,
    /// Cores that the target used at the held load, and the generator where it is on the same machine.
    pub cores_used: f64,
    /// Cores of the target's machine, whoever used them.
    pub cores_all: f64,
}

/// A load, and what all of its steps say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Achieved load.
    pub load: f64,
    /// What they say.
    pub verdict: Verdict,
    /// How many they are.
    pub steps: usize,
    /// Shares of bad requests, by objective.
    pub bad_shares: Vec<f64>,
    /// 99th percentile of the response time, the median of its steps', microseconds.
    pub response_p99_us: Option<f64>,
}

/// The Universal Scalability Law's parameters, each with the ends of its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scaling {
    /// What one connection gets, requests a second.
    pub single_per_s: [f64; 3],
    /// The serial share.
    pub contention: [f64; 3],
    /// What each pair costs.
    pub coherency: [f64; 3],
    /// Where throughput turns, connections; null: nothing says that it does.
    pub peak_at: Option<f64>,
    /// The ends of its 95 % interval; where it is not known, it is not before `peak_low`.
    #[serde(default)]
    pub peak_low: Option<f64>,
    /// See `peak_low`.
    #[serde(default)]
    pub peak_high: Option<f64>,
    /// The throughput there, requests a second.
    pub peak_per_s: Option<f64>,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What for: find, narrow, hold, replicate.
    pub purpose: String,
    /// The load that was asked for.
    pub asked: f64,
    /// The load that was achieved.
    pub load: f64,
    /// How long it took, seconds.
    pub took_s: f64,
    /// How it went.
    pub verdict: Verdict,
    /// Whether the backlog grew.
    pub is_growing: bool,
    /// Median of the response time, microseconds.
    pub response_p50_us: Option<f64>,
    /// 99th percentile of the response time, microseconds.
    pub response_p99_us: Option<f64>,
    /// Its recording.
    pub recording: Option<String>,
    /// What it saw, in blocks of time.
    pub blocks: Vec<Block>,
}

impl Document {
    /// The recordings of the highest step that held and of the lowest that missed.
    pub fn recordings_at_line(&self) -> [Option<&str>; 2] {
        let of = |load: Option<f64>, verdict: Verdict| {
            let near = |step: &Step| (step.load - load.unwrap_or(f64::NAN)).abs();
            let with = self.steps.iter().filter(|step| step.verdict == verdict && step.recording.is_some());
            let finite = with.filter(|step| near(step).is_finite());
            finite.min_by(|a, b| near(a).total_cmp(&near(b)))?.recording.as_deref()
        };
        [of(self.capacity.held, Verdict::Held), of(self.capacity.missed, Verdict::Missed)]
    }
}

impl Step {
    /// How many requests ended in it.
    pub fn requests(&self) -> u64 {
        self.blocks.iter().map(|block| block.requests).sum()
    }

    /// Requests that ended in a second.
    pub fn per_s(&self) -> Option<f64> {
        let seconds: f64 = self.blocks.iter().map(|block| block.seconds).sum();
        (seconds > 0.0).then(|| self.requests() as f64 / seconds)
    }

    /// The share of bad requests by an objective's place; `None`: nothing ended.
    pub fn bad_share(&self, objective: usize) -> Option<f64> {
        let bad: u64 = self.blocks.iter().filter_map(|block| block.bad.get(objective)).sum();
        (self.requests() > 0).then(|| (bad as f64 / self.requests() as f64).min(1.0))
    }
}

/// A block of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Its length, seconds.
    pub seconds: f64,
    /// Requests that ended in it.
    pub requests: u64,
    /// Bad ones, by objective.
    pub bad: Vec<u64>,
    /// Requests at its end that were due and had not ended.
    pub backlog: f64,
}
