//! Every fixed limit that more than one crate must agree on, in one place.
//!
//! A limit that only one crate knows stands in that crate's own `limits.rs`.

/// Lowest latency a histogram tells apart, in nanoseconds.
pub const LATENCY_NS_MIN: u64 = 1;
/// Highest latency a histogram holds, in nanoseconds (one hour); longer ones are recorded as this.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of every latency histogram.
pub const LATENCY_DIGITS: u8 = 3;

/// Rows a run's in-memory timeline holds before neighbours are merged in pairs.
pub const TIMELINE_ROWS_MAX: usize = 600;
/// Snapshots a run keeps in memory before every second one is dropped (all stay in the recording file).
pub const SNAPSHOTS_MAX: usize = 60;
/// Nodes of the tree of folded stacks of a whole run; further stacks are counted as lost.
pub const PROFILE_NODES_MAX: usize = 65_536;
/// Nodes of that of a tick, the stacks counted most first.
pub const PROFILE_TICK_NODES_MAX: usize = 4096;
/// Frames of a folded stack, the innermost; inlined ones included.
pub const PROFILE_DEPTH_MAX: usize = 256;
/// Other processes named in a snapshot.
pub const NEIGHBOURS_MAX: usize = 8;
/// Processes of which the least and the most of each reading are kept, at the most.
pub const COURSES_PROCESSES_MAX: usize = 256;
/// Threads of one of them.
pub const COURSES_THREADS_MAX: usize = 256;
/// Disks, interfaces, namespaces or listening sockets of which they are kept.
pub const COURSES_DEVICES_MAX: usize = 256;
/// Requests kept of an interval as a uniform sample of all that ended: in ten intervals enough for shares within three
/// points (95 %, of a half).
pub const REQUESTS_KEPT: usize = 128;
/// Requests kept of an interval as its slowest.
pub const REQUESTS_SLOWEST_KEPT: usize = 16;
/// Requests kept of an interval as a sample of those without the reply that was due.
pub const REQUESTS_FAILED_KEPT: usize = 16;
/// Ticks of which all of that is kept; of later ones, a part.
pub const REQUESTS_FULL_TICKS: u64 = 600;
/// The longest gaps kept of a worker's interval.
pub const GAPS_KEPT: usize = 8;
/// The longest gaps kept of a tick of all workers.
pub const TICK_GAPS_KEPT: usize = 512;
/// The longest outages kept of a worker's interval.
pub const OUTAGES_KEPT: usize = 8;
/// Outages kept of a tick of all workers.
pub const TICK_OUTAGES_KEPT: usize = 4096;
/// An outage shorter than this is no event of a run, nanoseconds.
pub const OUTAGE_NS_MIN: u64 = 10_000_000;
/// While connections are refused, one of a run's tries again so long after, nanoseconds: how exactly it is known when they are
/// taken again.
pub const LOOKOUT_NS: u64 = 2_000_000;
/// A pause of replies shorter than this is as any between two, nanoseconds.
pub const GAP_NS_MIN: u64 = 5_000_000;
/// Requests of a run that are kept in memory as a uniform sample (those of every interval stay in the recording file).
pub const RUN_REQUESTS_KEPT: usize = 4096;
/// Requests kept in memory of a run as the slowest of each stretch of it, as failures, and gaps: so many of each.
pub const RUN_EXAMPLES_KEPT: usize = 2048;
/// Of the slowest requests of a run that lay within windows of probes, so many are kept with what the target saw of them.
pub const RUN_SPLIT_SLOWEST_KEPT: usize = 256;
/// Events of one kind that a run keeps; further ones are counted, not kept.
pub const EVENTS_OF_KIND_MAX: usize = 500;
/// Kinds of events that a run keeps; those of others are counted.
pub const EVENT_KINDS_MAX: usize = 64;

/// How long nobody takes connections before a run that once had some says so, in nanoseconds: longer than a server takes
/// to be started anew.
pub const GONE_NS: u64 = 10_000_000_000;
/// Largest number of connections one plan may ask for.
pub const CONNECTIONS_MAX: u32 = 4_000_000;
/// Largest number of bursts.
pub const ROUNDS_MAX: u32 = 1_000_000;
/// Largest number of workers.
pub const THREADS_MAX: u16 = 1024;
/// Largest pipeline depth of one connection.
pub const PIPELINE_MAX: u16 = 256;
/// Shortest and longest tick, in nanoseconds.
pub const TICK_NS_MIN: u64 = 100_000_000;
/// See [`TICK_NS_MIN`].
pub const TICK_NS_MAX: u64 = 60_000_000_000;
/// Default bound of a reply's head, bytes (status line and header fields together).
pub const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// Largest echo payload, bytes.
pub const ECHO_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Largest RESP string of a reply, bytes: redis' own `proto-max-bulk-len`.
pub const RESP_BULK_BYTES_MAX: u32 = 512 * 1024 * 1024;
/// Longest line of a RESP reply, bytes.
pub const RESP_LINE_BYTES_MAX: u32 = 64 * 1024;
/// Arrays within arrays of a RESP reply.
pub const RESP_DEPTH_MAX: usize = 8;
/// Elements of all arrays of a RESP reply together.
pub const RESP_ELEMENTS_MAX: u32 = 16 * 1024 * 1024;
/// Body bytes kept for a regular expression to look at; longer bodies fail the check with the reason.
pub const BODY_CHECK_BYTES_MAX: u32 = 1024 * 1024;
/// Requests that wait for a free connection, per worker, at the most (open pace).
pub const QUEUE_MAX: u32 = 262_144;
/// Wake-ups of a target's threads, and holders of the futexes that they waited for, that a reading tells, those of the longest waits.
pub const THREAD_EDGES_KEPT: usize = 64;
