//! What diagnosis says: findings with their evidence, and the validity of the run's own figures.

use crate::ErrorKind;
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
}

/// One cause, with what speaks for or against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Fixed id, such as `single-thread-bound`.
    pub id: String,
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
}

/// Why a result is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The finding's id.
    pub id: String,
    /// What it was and what to change.
    pub text: String,
}

/// Whether the run's figures may be believed. Invalid only through the generator, a clock or the audit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// No reason against it.
    pub valid: bool,
    /// The reasons; empty when valid.
    pub reasons: Vec<Reason>,
}

/// What `diagnose` makes of a recording.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// May the figures be believed?
    pub validity: Validity,
    /// Every rule's answer: supported ones first, by how much they explain.
    pub findings: Vec<Finding>,
    /// What held connections came to; `None` of a run that held none.
    #[serde(default)]
    pub held: Option<HeldLine>,
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
    /// Memory for each connection.
    pub memory: MemorySlopes,
    /// Connections that fit into the memory that was available at the start, by these slopes.
    pub fits_in_memory: Option<u64>,
    /// Where connections were added until something gave: what did first.
    pub first_to_give: Option<ErrorKind>,
    /// When it did, seconds of the run.
    pub gave_at_s: Option<f64>,
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
