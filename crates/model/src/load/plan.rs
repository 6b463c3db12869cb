//! The plan: a scenario fully resolved. Every address, share, phase, limit and seed is in it.
//!
//! After this nothing that must exist is optional: an `Option` here means "not wanted", never "not known yet".
//! What is secret in it is a [`crate::Secret`], which is neither stored nor shown; of request bodies and what TLS reads from files
//! length or number and digest are kept.

use crate::abort::AbortWhen;
use crate::expectation::Expectation;
use crate::fault::LoadFault;
use crate::finding_expectation::FindingExpectation;
pub use crate::on_error::OnError;
pub use crate::payload::{Content, Sizes};
use crate::phase::LoadPhase;
use crate::tls::TlsPlan;
pub use crate::workload::Workload;
pub use crate::workload::echo::Echo;
pub use crate::workload::hold::Hold;
pub use crate::workload::http::{Body, Expect, Http1, HttpRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// All that a run needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// What is spoken, and what is asked.
    pub workload: Workload,
    /// Where the load goes. Never empty.
    pub origins: Vec<Origin>,
    /// Addresses that connections come from, in turn; empty: the kernel's choice.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// When requests are due.
    pub pace: Pace,
    /// Connections held open at once, over all workers. At least 1.
    pub connections: u32,
    /// Workers. At least 1, at most `connections`.
    pub threads: u16,
    /// CPUs the workers are pinned to, worker i to `pin[i % len]`; empty: not pinned.
    pub pin: Vec<u16>,
    /// Whether the machine is held still for the run, and which CPUs are whose; null: it is taken as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// When the load ends.
    pub stop: Stop,
    /// Load before the figures count, nanoseconds.
    pub warmup_ns: u64,
    /// How long requests in flight at the end are waited for, nanoseconds.
    pub drain_ns: u64,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// What becomes of a request after an attempt at it failed.
    #[serde(default, skip_serializing_if = "OnError::is_fail_fast")]
    pub on_error: OnError,
    /// What happens after a connection is lost or refused.
    pub reconnect: Backoff,
    /// How long a run goes on in which nothing has ever connected, nanoseconds; `None`: to its end. Looked at once a tick.
    #[serde(default)]
    pub give_up_ns: Option<u64>,
    /// How long the machine is read on after the last request and its drain, nanoseconds; 0: not at all.
    #[serde(default)]
    pub after_ns: u64,
    /// Requests after which a connection is closed by us and opened anew; `None`: never. 1: no keep-alive.
    pub requests_per_connection: Option<u32>,
    /// Requests outstanding on one connection at once. At least 1.
    pub pipeline: u16,
    /// Open pace: what a due request does when no connection is free.
    pub on_full: OnFull,
    /// Open pace: how many requests wait for a connection, per worker; further ones are dropped and counted.
    pub queue_capacity: u32,
    /// How the sockets are driven.
    pub driver: DriverKind,
    /// Completions reaped together, on request.
    pub batch: Option<Batch>,
    /// Whether kernel receive stamps are used for `done`.
    pub receive_stamps: bool,
    /// Length of an interval, nanoseconds.
    pub tick_ns: u64,
    /// Seed of all randomness.
    pub seed: u64,
    /// TLS between TCP and the protocol; `None`: plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPlan>,
    /// What is expected of the figures, each by its own; empty: nothing was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// What is expected of the findings; empty: nothing was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finding_expectations: Vec<FindingExpectation>,
    /// When the run ends early; empty: never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub abort_when: Vec<AbortWhen>,
    /// Named parts of an open pace; empty: there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<LoadPhase>,
    /// What is done to the target or its host meanwhile, in the order in which it was asked for; empty: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<LoadFault>,
}

/// Who has which CPUs while a machine is held still for a run; the generator's workers have those of [`Plan::pin`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// The target's; empty: none is left for it, or it is on another machine.
    pub target_cpus: Vec<u16>,
    /// Those that take the interrupts of devices; empty: none is left for them.
    pub interrupt_cpus: Vec<u16>,
}

/// A scheme, host and port that requests go to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// As the user wrote it, such as `http://localhost:8080`.
    pub name: String,
    /// All addresses found; connections take them in turn. Never empty.
    pub addresses: Vec<Address>,
    /// Share of the connections, relative to the other origins' (sum of its requests' weights).
    pub weight: f64,
}

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// When requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Pace {
    /// The next after the reply, and after thinking.
    Closed {
        /// Time between a reply and the next request of the same connection.
        think: Think,
    },
    /// By the clock, whatever the target does.
    Open {
        /// The rate over time; after the last segment its end rate holds. Never empty.
        profile: Vec<Segment>,
        /// How arrivals fall.
        arrivals: Arrivals,
    },
    /// All connections at once, round by round.
    Burst {
        /// How many times.
        rounds: u32,
        /// What all do at the moment of release.
        at: BurstAt,
        /// From the last reply of a round to the preparation of the next, nanoseconds.
        pause_ns: u64,
    },
    /// Connections are made at a rate and kept; each sends by the clock, on its own phase.
    Held {
        /// Time from one message of a connection to its next, nanoseconds; `None`: they send nothing.
        every_ns: Option<u64>,
        /// Connections made a second, over all workers.
        connects_per_s: f64,
    },
}

/// What is released at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BurstAt {
    /// The connect, with its request behind it.
    Connect,
    /// The request, on connections that are established.
    Send,
}

/// Think time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// None.
    None,
    /// Always as long, nanoseconds.
    FixedNs(u64),
    /// Uniform between two lengths, nanoseconds.
    UniformNs(u64, u64),
    /// Exponential with this mean, nanoseconds.
    ExponentialNs(u64),
}

/// A piece of a rate profile: from one rate to another, linearly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Rate at the start, requests a second over all workers.
    pub from_per_s: f64,
    /// Rate at the end.
    pub to_per_s: f64,
    /// Length, nanoseconds.
    pub for_ns: u64,
}

/// How open arrivals fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// As a Poisson process.
    Poisson,
}

/// When the load ends: whichever comes first. At least one is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// Nanoseconds after warm-up; of held connections, after the last was made.
    pub duration_ns: Option<u64>,
    /// Requests started after warm-up, over all workers.
    pub requests: Option<u64>,
}

/// Bounds on waiting, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeouts {
    /// For a connection.
    pub connect_ns: u64,
    /// For a complete reply, from `sent`; also for a free connection, from `ready`.
    pub reply_ns: u64,
}

/// Exponential backoff between attempts to connect, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backoff {
    /// After the first failure.
    pub first_ns: u64,
    /// At the most; each failure doubles the last.
    pub max_ns: u64,
}

/// What a due request does when no connection is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// Waits; the wait is measured as `queue`.
    Wait,
    /// Is dropped and counted.
    Drop,
}

/// How sockets are driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// io_uring, a receive armed on each connection.
    Uring,
    /// io_uring, sockets in the rings' own file tables: many connections that speak seldom.
    Rings,
    /// epoll.
    Epoll,
    /// The in-memory network of the tests.
    Sim,
}

impl DriverKind {
    /// The name in reports and flags.
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Uring => "uring",
            DriverKind::Rings => "rings",
            DriverKind::Epoll => "epoll",
            DriverKind::Sim => "sim",
        }
    }
}

/// Completions reaped together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    /// Wake when so many have come,
    pub completions: u32,
    /// or when the first has waited so long, nanoseconds.
    pub delay_ns: u64,
}

impl Plan {
    /// The run's planned length in nanoseconds, warm-up and the making of held connections included; `None` when only a
    /// count ends it.
    pub fn planned_ns(&self) -> Option<u64> {
        self.stop.duration_ns.map(|d| d.saturating_add(self.warmup_ns).saturating_add(self.ramp_ns()))
    }

    /// How long the making of held connections takes as asked, nanoseconds; 0 for any other pace.
    pub fn ramp_ns(&self) -> u64 {
        match self.pace {
            Pace::Held { connects_per_s, .. } => (f64::from(self.connections) / connects_per_s * 1e9) as u64,
            Pace::Closed { .. } | Pace::Open { .. } | Pace::Burst { .. } => 0,
        }
    }

    /// Whether what is sent while held connections are made is warm-up: it is, but where that is what is measured.
    pub fn is_ramp_warmup(&self) -> bool {
        self.workload.protocol().is_held() && !self.workload.protocol().is_until_failure()
    }

    /// Whether each unit of load is a TLS handshake, and no request is sent.
    pub fn is_handshake_only(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.handshake_only)
    }

    /// What one unit of load is called.
    pub fn unit(&self) -> &'static str {
        if self.is_handshake_only() { "handshake" } else { self.workload.protocol().unit() }
    }
}
