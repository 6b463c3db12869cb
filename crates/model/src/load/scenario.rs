//! The scenario: what the user wrote, before names are resolved and defaults filled in.
//!
//! Every field is optional or has the user's own text; `resolve::resolve` makes a [`crate::Plan`] of it or says
//! in one sentence why it cannot. Units are parsed already ([`crate::units`]).

use crate::fault::LoadFault;
use crate::phase::PhaseAsked;
use crate::plan::{Arrivals, Batch, BurstAt, DriverKind, OnError, OnFull, Segment, Think};
use crate::secret::Secret;
use crate::tls::TlsAsked;
use crate::workload::{Asked, What};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// What the user wrote.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// URLs with their weights.
    pub urls: Vec<WeightedUrl>,
    /// What is asked of the URLs' protocol; `None`: what it asks by default.
    pub what: Option<What>,
    /// Bounds on the figures, such as `p99 < 50 ms, errors < 0.1 %`; each entry a list.
    pub expect: Vec<String>,
    /// Bound on errors, such as `below 1 %`.
    pub expect_errors: Option<String>,
    /// When the run ends early, such as `errors > 10 % for 5s`, each entry one.
    pub abort_when: Vec<String>,
    /// Connect to this `HOST:PORT` (or `unix:PATH`), whatever the URL says.
    pub connect_to: Option<String>,
    /// `HOST:PORT:ADDRESS` entries that override name resolution.
    pub resolve: Vec<String>,
    /// Unix socket to connect to.
    pub unix_socket: Option<PathBuf>,
    /// Only addresses of this family: 4 or 6.
    pub ip_version: Option<u8>,
    /// Source addresses to bind.
    pub source: Vec<IpAddr>,
    /// Connections.
    pub connections: Option<u32>,
    /// Requests in all.
    pub requests: Option<u64>,
    /// Length, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Warm-up, nanoseconds.
    pub warmup_ns: Option<u64>,
    /// Longest wait for requests in flight at the end, nanoseconds.
    pub drain_ns: Option<u64>,
    /// Rate profile of an open pace; empty: closed.
    pub profile: Vec<Segment>,
    /// Named parts of an open pace, in the place of a profile.
    pub phases: Vec<PhaseAsked>,
    /// How arrivals fall.
    pub arrivals: Option<Arrivals>,
    /// So many at one moment; their number is that of the connections.
    pub burst: Option<u32>,
    /// How many bursts.
    pub rounds: Option<u32>,
    /// What a burst releases.
    pub burst_at: Option<BurstAt>,
    /// From the end of a round to the preparation of the next, nanoseconds.
    pub burst_pause_ns: Option<u64>,
    /// Think time of a closed pace.
    pub think: Option<Think>,
    /// When no connection is free.
    pub on_full: Option<OnFull>,
    /// What becomes of a request after an attempt at it failed.
    pub on_error: Option<OnError>,
    /// Which share of the requests may be retries, 0 to 1.
    pub retry_budget: Option<f64>,
    /// Capacity of the queue for a free connection.
    pub queue_capacity: Option<u32>,
    /// Workers.
    pub threads: Option<u16>,
    /// CPUs to pin workers to.
    pub pin: Vec<u16>,
    /// Whether the machine is held still for the run.
    pub isolate: bool,
    /// Connect timeout, nanoseconds.
    pub connect_timeout_ns: Option<u64>,
    /// When a run is given up in which nothing has connected, nanoseconds; 0: never.
    pub give_up_ns: Option<u64>,
    /// How long the machine is read on after the load, nanoseconds.
    pub after_ns: Option<u64>,
    /// Reply timeout, nanoseconds.
    pub timeout_ns: Option<u64>,
    /// Requests on a connection before it is replaced.
    pub requests_per_connection: Option<u32>,
    /// Requests outstanding on a connection.
    pub pipeline: Option<u16>,
    /// Driver; default chosen by measurement.
    pub driver: Option<DriverKind>,
    /// Completions reaped together.
    pub batch: Option<Batch>,
    /// Kernel receive stamps.
    pub receive_stamps: Option<bool>,
    /// Interval length, nanoseconds.
    pub tick_ns: Option<u64>,
    /// Seed.
    pub seed: Option<u64>,
    /// TLS.
    pub tls: TlsAsked,
    /// Faults, in the order in which they were asked for.
    pub faults: Vec<LoadFault>,
}

impl Scenario {
    /// What is asked of one protocol; its defaults where nothing is.
    pub fn asked<A: Asked>(&self) -> A {
        self.what.as_ref().and_then(A::of).cloned().unwrap_or_default()
    }

    /// Asks more of one protocol; what was asked of another is forgotten.
    pub fn ask<A: Asked>(&mut self, more: impl FnOnce(&mut A)) {
        let mut asked = self.asked::<A>();
        more(&mut asked);
        self.what = Some(asked.into());
    }
}

/// A URL and its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightedUrl {
    /// The URL as written; see [`crate::hide::secret_url`].
    pub url: Secret,
    /// Its share, relative to the others'.
    pub weight: f64,
}
