//! What diagnosis says: findings with their evidence, and the validity of the run's own figures: of all of them, of
//! each, and of the part of the run in which nothing disturbed the generator.

use crate::ErrorKind;
use crate::recovery::Recovery;
use crate::slow::{Concentration, SlowTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// At least two independent pieces of evidence, and nothing that refutes it.
    Supported,
    /// The evidence was there to be read and speaks against it.
    Refuted,
    /// What would be needed was not read. Never to be shown as "fine".
    NotObservable,
    /// There was nothing to look at: the plan, the protocol or the target has no such thing.
    NotApplicable,
}

impl Status {
    /// The word in reports and in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Supported => "supported",
            Status::Refuted => "refuted",
            Status::NotObservable => "not-observable",
            Status::NotApplicable => "not-applicable",
        }
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Worth acting on.
    Warning,
    /// Explains the loss, or makes the result invalid.
    Error,
}

/// Who saw a piece of evidence. Two sources do not depend on each other: a fault in one does not show in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The load's own stamps and counters.
    Client,
    /// What the target's replies held: its own word.
    Replies,
    /// Single sockets: listeners, connections, their queues (`sock_diag`).
    Sockets,
    /// The kernel's counters, its log, and what its probes saw.
    Kernel,
    /// The target's processes and threads (`/proc/<pid>`).
    Process,
}

impl Source {
    /// The word in reports and in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Client => "client",
            Source::Replies => "replies",
            Source::Sockets => "sockets",
            Source::Kernel => "kernel",
            Source::Process => "process",
        }
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// A sentence for people, the figure in it.
    pub text: String,
    /// The metric's name, as in the docs.
    pub metric: String,
    /// Its value; null where it could not be read.
    pub value: Option<f64>,
    /// The value's unit, such as `ratio`, `us`, `1/s`.
    pub unit: String,
    /// The seconds of the run it was read over, from and to.
    pub window_s: [f64; 2],
    /// Who saw it; null in diagnoses that do not say it, and where nobody did.
    #[serde(default)]
    pub source: Option<Source>,
    /// Whether it speaks against the cause.
    #[serde(default)]
    pub is_against: bool,
    /// The value from which on it speaks, in the value's unit; null where it is no matter of degree.
    #[serde(default)]
    pub threshold: Option<f64>,
}

/// Whose a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// The target's: how it serves.
    #[default]
    Target,
    /// The load's: what was put on, against what was asked, and how much can be read from it.
    Load,
    /// The generator's.
    Generator,
    /// A clock's.
    Clock,
    /// The machine's under the generator.
    Host,
}

/// One cause, with what speaks for or against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Fixed id, such as `single-thread-bound`.
    pub id: String,
    /// Whose cause it is; the target's in diagnoses that do not say it.
    #[serde(default)]
    pub about: About,
    /// Supported, refuted or not observable.
    pub status: Status,
    /// How much it matters.
    pub severity: Severity,
    /// One line for people.
    pub title: String,
    /// The evidence; for `not-observable`, what was missing.
    pub because: Vec<Evidence>,
    /// What to do about it.
    pub remedy: String,
    /// A command that checks it by hand.
    pub check_yourself: String,
    /// 0..=1: how much of the rule's evidence was there and how far past its threshold.
    pub confidence: f64,
    /// Supported findings that this one brings about, by id, along the declared graph of causes.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Supported findings that bring this one about, by id.
    #[serde(default)]
    pub because_of: Vec<String>,
    /// How much of the loss it explains; null where that is not known.
    #[serde(default)]
    pub explains: Option<Explains>,
}

/// What users of the target lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Requests that failed, or were never answered.
    Failed,
    /// Connections that starved while others were served.
    Starved,
    /// Time of slow requests beyond what quick ones of their own kind take.
    Slow,
    /// Time that requests waited in the target while its processors were free.
    Waiting,
    /// What was due and was not carried.
    Capacity,
}

impl LossKind {
    /// The word in reports and in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            LossKind::Failed => "failed",
            LossKind::Starved => "starved",
            LossKind::Slow => "slow",
            LossKind::Waiting => "waiting",
            LossKind::Capacity => "capacity",
        }
    }
}

/// One kind of loss of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Which.
    pub kind: LossKind,
    /// How much of the whole was lost, 0..=1.
    pub share: f64,
    /// A sentence for people.
    pub text: String,
    /// The part of it that no supported finding explains, 0..=1.
    pub unexplained: f64,
    /// Of slow requests, where their time went; null of other losses.
    #[serde(default)]
    pub time: Option<SlowTime>,
    /// Where the requests that were lost or slow concentrate; empty where they are spread as the others are.
    #[serde(default)]
    pub concentrated: Vec<Concentration>,
}

/// How much of a loss a finding explains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explains {
    /// Share of the loss, 0..=1.
    pub share: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// Of which loss.
    pub of: LossKind,
}

/// Whether something of the target gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Something gave: there is a loss, and a cause of it.
    Gives,
    /// Nothing is wrong with it: a resource is full.
    AtItsLimit,
    /// Nothing gives yet.
    BelowItsLimit,
    /// There is a loss, and no cause was found.
    Unexplained,
    /// Too little was seen to say.
    Unknown,
    /// Something is there that costs users, or a resource is full; what it costs was not seen, as no load was put on.
    SeenWithoutLoad,
}

/// What gives first: the one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhatGives {
    /// Whether something gave.
    pub standing: Standing,
    /// The sentence.
    pub text: String,
    /// The finding it speaks of, by id.
    pub finding: Option<String>,
    /// Where that is a wait for another server: what was found there, where it was observed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
}

/// What was found at a machine behind the target, which the target waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Behind {
    /// The observer there, as it was written.
    pub observer: String,
    /// The first finding, by id; `None`: nothing was found.
    pub finding: Option<String>,
    /// In a sentence.
    pub text: String,
}

/// Why a result is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The finding's id.
    pub id: String,
    /// What it was and what to change.
    pub text: String,
}

/// Whether figures may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValidityState {
    /// Nothing speaks against them.
    #[default]
    Valid,
    /// Something that would speak against them is there in part, and the rest of it could not be seen.
    Undetermined,
    /// They are the generator's, a broken clock's, or contradict each other.
    NotValid,
}

impl ValidityState {
    /// The word in reports and in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            ValidityState::Valid => "valid",
            ValidityState::Undetermined => "undetermined",
            ValidityState::NotValid => "not-valid",
        }
    }
}

/// A figure that has a verdict of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Requests a second.
    Throughput,
    /// The response time.
    Response,
    /// The service time.
    Service,
    /// Connections held.
    Connections,
}

impl Figure {
    /// The word in reports and in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::Throughput => "throughput",
            Figure::Response => "response",
            Figure::Service => "service",
            Figure::Connections => "connections",
        }
    }
}

/// Whether one figure may be believed, and how much of it can be the generator's doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureVerdict {
    /// Which.
    pub figure: Figure,
    /// Whether it may be believed.
    pub state: ValidityState,
    /// A sentence for people, such as "p99 10.7 ms, up to 1.2 ms of it the generator's lag".
    pub text: String,
    /// The most that generator and machine can have added to the 99th percentile (of a time), microseconds; null where
    /// nothing bounds it, or the figure is no time.
    #[serde(default)]
    pub up_to_us: Option<f64>,
    /// The most that they can have added to the figure (of a time) or taken from it (of a rate), as a share of it, 0..=1;
    /// null where nothing bounds it.
    #[serde(default)]
    pub up_to_share: Option<f64>,
    /// The findings that speak against it, by id; empty where it is valid.
    #[serde(default)]
    pub because_of: Vec<String>,
}

/// The figures without the intervals in which something kept the generator from running.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Quiet {
    /// Share of the measured time, 0..=1.
    pub share: f64,
    /// Intervals that are left.
    pub intervals: u64,
    /// Intervals set apart.
    pub disturbed_intervals: u64,
    /// What disturbed those, in words.
    pub disturbed_by: Vec<String>,
    /// The time that is left, seconds.
    pub measured_s: f64,
    /// Requests that ended, a second of that time, failed ones included.
    pub rate_per_s: f64,
    /// Successes whose times the quantiles are of.
    pub count: u64,
    /// Response time, microseconds; null with fewer than 10 / (1 − q) successes, as everywhere.
    pub response_p50_us: Option<f64>,
    /// See `response_p50_us`.
    pub response_p90_us: Option<f64>,
    /// See `response_p50_us`.
    pub response_p99_us: Option<f64>,
    /// See `response_p50_us`.
    pub response_p999_us: Option<f64>,
    /// The longest response time, microseconds.
    pub response_max_us: Option<f64>,
    /// Which of these figures are lower bounds, as requests that had not ended are at or below them.
    pub at_least: Vec<String>,
    /// Whether these are the run's answer: those of the whole run are not valid, and these are.
    pub is_used: bool,
}

/// Whether the run's figures may be believed. Only the generator, its machine, a clock or the audit speaks against them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Validity {
    /// Whether the state is `valid`: false also where it is undetermined.
    pub valid: bool,
    /// The verdict on the figures that a run of this pace is made for: throughput and response time, or the connections
    /// held. Of the quiet part, where that is used.
    pub state: ValidityState,
    /// What speaks against them; empty when valid.
    pub reasons: Vec<Reason>,
    /// The figures without the disturbed intervals; null where none was disturbed, or none is left.
    pub quiet: Option<Quiet>,
    /// The verdict on each figure that there is.
    pub figures: Vec<FigureVerdict>,
}

impl Validity {
    /// A state with its reasons, nothing set apart.
    pub fn of(state: ValidityState, reasons: Vec<Reason>) -> Self {
        Validity { valid: state == ValidityState::Valid, state, reasons, quiet: None, figures: Vec::new() }
    }

    /// The verdict on one figure; `None` where there is no such figure.
    pub fn figure(&self, figure: Figure) -> Option<&FigureVerdict> {
        self.figures.iter().find(|verdict| verdict.figure == figure)
    }

    /// The quiet part, where its figures are the answer.
    pub fn used_quiet(&self) -> Option<&Quiet> {
        self.quiet.as_ref().filter(|quiet| quiet.is_used)
    }
}

impl Default for Validity {
    fn default() -> Self {
        Validity::of(ValidityState::NotValid, Vec::new())
    }
}

impl<'de> Deserialize<'de> for Validity {
    /// Older diagnoses say only whether they are valid.
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            valid: bool,
            state: Option<ValidityState>,
            reasons: Vec<Reason>,
            quiet: Option<Quiet>,
            #[serde(default)]
            figures: Vec<FigureVerdict>,
        }
        let stored = Stored::deserialize(from)?;
        let of_flag = if stored.valid { ValidityState::Valid } else { ValidityState::NotValid };
        let state = stored.state.unwrap_or(of_flag);
        Ok(Validity { quiet: stored.quiet, figures: stored.figures, ..Validity::of(state, stored.reasons) })
    }
}

/// Something that must be known before any figure is read: the first lines of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// A fixed kebab-case word, such as `target-died`.
    pub id: String,
    /// One sentence.
    pub text: String,
}

/// How an expectation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectationState {
    /// The figure is on the side of the limit that was expected.
    Met,
    /// It is not, or there is none.
    NotMet,
    /// The figure may be the generator's: it shows neither.
    Undetermined,
}

impl ExpectationState {
    /// The word in reports and in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            ExpectationState::Met => "met",
            ExpectationState::NotMet => "not-met",
            ExpectationState::Undetermined => "undetermined",
        }
    }
}

/// What was expected of a figure, and what came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The expectation, such as `p99 < 50.0 ms`.
    pub expected: String,
    /// Whether the user stated it; else it is what goes without saying.
    pub is_stated: bool,
    /// How it went.
    pub state: ExpectationState,
    /// The figure in words.
    pub got: String,
    /// The figure: nanoseconds of a time, 0..=1 of errors, a second of a rate, a number of connections; null where there is
    /// none.
    pub value: Option<f64>,
}

/// What `diagnose` makes of a recording.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// May the figures be believed?
    pub validity: Validity,
    /// What the figures do not show by themselves: a target that died, or answered only some; the weightiest first.
    #[serde(default)]
    pub summary: Vec<Remark>,
    /// What was expected of the figures, and whether it is so.
    #[serde(default)]
    pub expectations: Vec<Judgement>,
    /// Every rule's answer: supported ones first, by how much they explain.
    pub findings: Vec<Finding>,
    /// What gives first; null of a diagnosis that does not say it, and where no load was put on.
    #[serde(default)]
    pub gives: Option<WhatGives>,
    /// What users lost, the weightiest first; empty where nothing was.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// What held connections came to; `None` of a run that held none.
    #[serde(default)]
    pub held: Option<HeldLine>,
    /// The stretches of the measured time in which the figures kept their levels, in order: one, where nothing changed.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// What faults did, and what befell the target by itself, oldest first: for whom, and how long until all was as before.
    #[serde(default)]
    pub recoveries: Vec<Recovery>,
}

/// A stretch of a run in which throughput, response time and failures kept their levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// From, seconds of the run.
    pub from_s: f64,
    /// To, seconds of the run.
    pub to_s: f64,
    /// Requests that ended, a second, failed ones included.
    pub requests_per_s: f64,
    /// The median of its intervals' 50th percentiles of the response time, microseconds; null where nothing ended well.
    pub response_p50_us: Option<f64>,
    /// The median of its intervals' 99th percentiles of the response time, microseconds; null where nothing ended well.
    pub response_p99_us: Option<f64>,
    /// Requests that failed, a second.
    pub failed_per_s: f64,
}

impl Diagnosis {
    /// What of the target gave first: the finding that the sentence speaks of ([`WhatGives`]); of a diagnosis without one the
    /// supported finding about the target that explains most. Findings come ranked.
    pub fn first_to_give(&self) -> Option<&Finding> {
        let mut of_target = self.findings.iter().filter(|f| f.status == Status::Supported && f.about == About::Target);
        match &self.gives {
            Some(gives) => of_target.find(|finding| gives.finding.as_deref() == Some(&*finding.id)),
            None => of_target.next(),
        }
    }
}

/// What a run that held connections came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HeldLine {
    /// Most connections established at once.
    pub established_max: u64,
    /// Connections established at the end of the load.
    pub established_at_end: u64,
    /// How long making them took, seconds; `None` where they never were all made, or where that is what is measured.
    pub made_in_s: Option<f64>,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
    /// Connections the peer closed or reset.
    pub closed_by_peer: u64,
    /// Connections closed by us before the end: a reply that did not come, or not as it was due.
    pub closed_by_us: u64,
    /// The start of the first interval of the load in which one was closed, by the peer or by us, seconds of the run.
    #[serde(default)]
    pub lost_from_s: Option<f64>,
    /// The end of the last.
    #[serde(default)]
    pub lost_until_s: Option<f64>,
    /// Memory for each connection.
    pub memory: MemorySlopes,
    /// Connections that fit into the memory that was available at the start, by these slopes; `None` also where something
    /// gave before: what comes of a broken ramp is not drawn out.
    pub fits_in_memory: Option<u64>,
    /// Where connections were added until something gave: what did first.
    pub first_to_give: Option<ErrorKind>,
    /// When it did, seconds of the run.
    pub gave_at_s: Option<f64>,
    /// Most connections established until then.
    #[serde(default)]
    pub held_when_it_gave: Option<u64>,
    /// The limit that gave, in words with its value; `None` where none is known to have.
    #[serde(default)]
    pub limit_that_gave: Option<String>,
}

/// Memory for each held connection, bytes: slopes of least squares over the ramp. `None`: not read, or too few points.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemorySlopes {
    /// Resident memory of the generator.
    pub generator_bytes: Option<f64>,
    /// Resident memory of the target's processes.
    pub target_bytes: Option<f64>,
    /// The kernel's slab (`Slab` of `/proc/meminfo`): sockets, inodes, files.
    pub slab_bytes: Option<f64>,
    /// Bytes in TCP socket buffers (`mem` of `/proc/net/sockstat`), which are not in the slab.
    pub socket_bytes: Option<f64>,
    /// Whether both ends are on this machine: the kernel's part is then that of two.
    pub is_both_ends: bool,
}
