//! Every bound of the name service: what a client can make it hold or do.
//!
//! A connection holds at most `INPUT_BYTES_MAX` of a command that has not come whole, and `OUT_BYTES` of replies plus
//! the one reply that goes beyond it. The store holds `store_bytes_max`, as its options say.

use std::time::Duration;

/// The longest name or value (redis' own default is 512 MiB).
pub const BULK_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Arguments of one command, its own name among them.
pub const ARGUMENTS_MAX: usize = 1024;
/// Bytes of one command in all; also what is buffered of one that has not come whole.
pub const INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest line: an inline command, or a length (redis' `PROTO_INLINE_MAX_SIZE`).
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Commands of one connection handed to the store together.
pub const PIPELINE_MAX: usize = 1024;
/// Replies gathered before they are written, however many commands still wait.
pub const OUT_BYTES: usize = 256 * 1024;
/// The largest reply to LOADALL; above, it is refused.
pub const LOADALL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Journal bytes after which a batch is committed, whoever still waits.
pub const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// The longest frame that a journal can hold: a batch of `BATCH_BYTES` and the largest pipeline behind it.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A journal smaller than this is not rewritten.
pub const REWRITE_BYTES_MIN: u64 = 1024 * 1024;
/// Bytes looked through for a sound frame behind a damaged one; beyond, the journal counts as damaged.
pub const DAMAGE_SEARCH_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// What an entry is counted as besides its name and value: two boxed slices, their allocations, a slot of the table.
pub const ENTRY_BYTES: u64 = 80;

/// Restarts within the period before the supervisor gives up.
pub const RESTARTS_MAX_DEFAULT: u32 = 5;
/// The period.
pub const RESTART_PERIOD_DEFAULT: Duration = Duration::from_secs(10);
/// The pause before the first restart, and the longest.
pub const BACKOFF_DEFAULT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long a request is held while the store is down.
pub const WAIT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// How many are held.
pub const WAIT_QUEUE_DEFAULT: usize = 10_000;
/// What the store may hold.
pub const STORE_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;
/// A journal is rewritten when it is this many times as large as what it would be then.
pub const REWRITE_FACTOR_DEFAULT: u32 = 4;
