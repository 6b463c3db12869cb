//! The scenario: what the user wrote, before names are resolved and defaults filled in.
//!
//! Every field is optional or has the user's own text; `session::resolve` makes a [`crate::Plan`] of it or says
//! in one sentence why it cannot. Units are parsed already ([`crate::units`]).

use crate::plan::{Arrivals, Batch, BurstAt, Content, DriverKind, OnFull, Segment, Sizes, Think};
use crate::resp::KeyDistribution;
use crate::secret::Secret;
use crate::tls::TlsAsked;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// What the user wrote.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// URLs with their weights.
    pub urls: Vec<WeightedUrl>,
    /// HTTP method; default GET, or POST with a body.
    pub method: Option<String>,
    /// Header fields as written, `Name: value`.
    pub headers: Vec<String>,
    /// Body text.
    pub body: Option<Secret>,
    /// Body from a file.
    pub body_file: Option<PathBuf>,
    /// `user:password` for Basic authentication, or AUTH.
    pub user: Option<Secret>,
    /// Accepted statuses, such as `200`, `200-299`, `404`.
    pub expect_status: Vec<String>,
    /// SHA-256 (hex) that every body must have.
    pub expect_body_sha256: Option<String>,
    /// Regular expression every body must match.
    pub expect_body: Option<String>,
    /// Close after each reply.
    pub disable_keepalive: bool,
    /// Bound of a reply's head, bytes.
    pub head_bytes_max: Option<u32>,
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
    /// Sizes of a held connection's messages.
    pub message: Option<Sizes>,
    /// Time from one message of a held connection to its next, nanoseconds; 0: none is sent.
    pub every_ns: Option<u64>,
    /// Messages of held connections are not expected back.
    pub sent_only: bool,
    /// Held connections made a second.
    pub connects_per_s: Option<f64>,
    /// How often a held connection that rests is looked at, nanoseconds.
    pub sweep_ns: Option<u64>,
    /// Every held connection is watched all the time.
    pub watch_close: bool,
    /// Held connections are added until something gives.
    pub until_failure: bool,
    /// Echo payload sizes.
    pub sizes: Option<Sizes>,
    /// Echo payload content.
    pub content: Option<Content>,
    /// RESP commands with their weights, `GET=80,SET=20`.
    pub mix: Option<String>,
    /// Distinct RESP keys.
    pub keys: Option<u32>,
    /// What every RESP key begins with.
    pub key_prefix: Option<String>,
    /// How RESP keys are drawn.
    pub key_distribution: Option<KeyDistribution>,
    /// Sizes of RESP values.
    pub value_sizes: Option<Sizes>,
    /// RESP values are not compared.
    pub no_validate: bool,
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
    /// Capacity of the queue for a free connection.
    pub queue_capacity: Option<u32>,
    /// Workers.
    pub threads: Option<u16>,
    /// CPUs to pin workers to.
    pub pin: Vec<u16>,
    /// Connect timeout, nanoseconds.
    pub connect_timeout_ns: Option<u64>,
    /// When a run is given up in which nothing has connected, nanoseconds; 0: never.
    pub give_up_ns: Option<u64>,
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
}

/// A URL and its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightedUrl {
    /// The URL as written.
    pub url: String,
    /// Its share, relative to the others'.
    pub weight: f64,
}
