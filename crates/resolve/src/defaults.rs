//! What a plan gets where the scenario says nothing, in one place: help texts and tests lean on it.
//!
//! Values only. Limits that several crates must agree on are in `model::limits`; those of resolving stand here.

/// Connections held open at once.
pub const CONNECTIONS: u32 = 50;
/// Length of a run with neither a duration, a count nor a profile of its own, nanoseconds.
pub const DURATION_NS: u64 = 10_000_000_000;
/// Longest wait for a complete reply, nanoseconds.
pub const REPLY_TIMEOUT_NS: u64 = 30_000_000_000;
/// The same where connections are added until something gives: what takes longer has given. A person takes a second for
/// a delay that breaks the train of thought (Nielsen, Usability Engineering, 1993, 5.5).
pub const PROBE_TIMEOUT_NS: u64 = 1_000_000_000;
/// Longest wait for a connection, nanoseconds.
pub const CONNECT_TIMEOUT_NS: u64 = 10_000_000_000;
/// A run in which nothing has connected for so long is given up, nanoseconds: two attempts by the kernel at least, the
/// second a second after the first (RFC 6298, 5.7).
pub const GIVE_UP_NS: u64 = 2_000_000_000;
/// Longest timeout that may be asked for: beyond it a latency could not be recorded as what it was.
pub const TIMEOUT_NS_MAX: u64 = model::limits::LATENCY_NS_MAX;
/// Longest wait for requests in flight at the end, nanoseconds; never longer than the reply timeout.
/// Five seconds let a reply that is merely late still be counted, and keep a run against a dead server short.
pub const DRAIN_NS: u64 = 5_000_000_000;
/// Length of an interval, nanoseconds.
pub const TICK_NS: u64 = 1_000_000_000;
/// Length of an interval of a run shorter than [`SHORT_RUN_NS`], nanoseconds. Shorter would show more of a course that
/// has little: a tick costs the generator about a millisecond.
pub const TICK_SHORT_NS: u64 = 250_000_000;
/// Runs shorter than this have the short tick, nanoseconds.
pub const SHORT_RUN_NS: u64 = 5_000_000_000;
/// Wait after the first failed connect, nanoseconds; each failure doubles it.
pub const BACKOFF_FIRST_NS: u64 = 10_000_000;
/// Longest wait between two attempts to connect, nanoseconds.
pub const BACKOFF_MAX_NS: u64 = 1_000_000_000;
/// Completions reaped together where `--batch` names no number.
pub const BATCH_COMPLETIONS: u32 = 128;
/// Longest wait for a batch to fill where `--batch` names none, nanoseconds.
pub const BATCH_DELAY_NS: u64 = 1_000_000;
/// Longest wait for a batch that may be asked for, nanoseconds.
pub const BATCH_DELAY_NS_MAX: u64 = 100_000_000;
/// Most completions that may be reaped together.
pub const BATCH_COMPLETIONS_MAX: u32 = 4096;
/// Seconds of a worker's share of the highest rate that its queue holds.
pub const QUEUE_SECONDS: f64 = 10.0;
/// Smallest default queue, requests per worker.
pub const QUEUE_MIN: u32 = 1024;
/// Echo payload, bytes.
pub const ECHO_BYTES: u32 = 128;

/// RESP commands with their weights.
pub const MIX: &str = "GET=80,SET=20";
/// Distinct RESP keys.
pub const KEYS: u32 = 10_000;
/// RESP value, bytes.
pub const VALUE_BYTES: u32 = 128;
/// Exponent of Zipf-distributed keys: that of YCSB.
pub const ZIPF_EXPONENT: f64 = 0.99;

/// Time from one message of a held connection to its next, nanoseconds.
pub const EVERY_NS: u64 = 60_000_000_000;
/// Held connections made a second.
pub const CONNECTS_PER_S: f64 = 10_000.0;
/// How often a held connection that rests is looked at, nanoseconds.
pub const SWEEP_NS: u64 = 10_000_000_000;
/// The shortest such time that may be asked for, nanoseconds.
pub const SWEEP_NS_MIN: u64 = 100_000_000;
/// Kernel memory of one end of an idle TCP connection, bytes: socket, inode, file and directory entry
/// (measured as the slope of `Slab` over 100,000 loopback connections: docs/decisions/2026-11-21-held-connections.md).
pub const SOCKET_BYTES: u64 = 4200;
/// A descriptor limit below this is a bound somebody chose.
pub const FILES_FEW: u64 = 1024;
/// Descriptors the generator needs for itself.
pub const FILES_OF_OUR_OWN: u64 = 64;

/// Port of `http` URLs without one.
pub const HTTP_PORT: u16 = 80;
/// Port of `https` URLs without one.
pub const HTTPS_PORT: u16 = 443;
/// Port of `echo` URLs without one: where `plimsoll serve echo` listens.
pub const ECHO_PORT: u16 = 7777;

/// Port of `resp` URLs without one: redis' own.
pub const RESP_PORT: u16 = 6379;

/// Bursts where none is named.
pub const ROUNDS: u32 = 10;
/// From the end of a burst to the preparation of the next, nanoseconds.
pub const BURST_PAUSE_NS: u64 = 100_000_000;
/// Most ports of one URL.
pub const PORTS_MAX: u16 = 4096;
/// Most URLs of one scenario.
pub const URLS_MAX: usize = 100_000;
/// Most origins of one scenario: their index has 16 bits.
pub const ORIGINS_MAX: usize = 65_535;
/// Largest weight of a URL.
pub const WEIGHT_MAX: f64 = 1e9;
/// Most bytes all request bodies may take together; each URL has its own copy.
pub const BODY_BYTES_MAX: u64 = 1 << 30;
/// Largest file of certificates or of a key, bytes.
pub const PEM_BYTES_MAX: u64 = 16 << 20;
/// Longest path of a unix socket, bytes: `sockaddr_un.sun_path` less its NUL, unix(7).
pub const UNIX_PATH_BYTES_MAX: usize = 107;
