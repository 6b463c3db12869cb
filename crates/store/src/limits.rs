//! The limits only this crate knows.
//!
//! They bound memory and disk overhead while writing, and what a hostile file can make the reader do.

/// SQLite's page cache of a recording being written, KiB.
pub const WRITER_CACHE_KIB: i64 = 128;
/// SQLite's page cache of a recording being read, KiB.
pub const READER_CACHE_KIB: i64 = 2048;
/// Pages (of 4 KiB) the write-ahead log may hold before they are moved into the file.
pub const WAL_PAGES: i64 = 128;
/// What the write-ahead log is cut back to after it was moved, bytes.
pub const WAL_BYTES: i64 = 1024 * 1024;
/// How long a writer waits for a reader that holds the file, milliseconds.
pub const BUSY_MS: u64 = 1000;
/// Largest text or blob a reader accepts, bytes: a plan of about a million different requests.
pub const VALUE_BYTES_MAX: i32 = 256 * 1024 * 1024;
/// Rows a reader fetches at once, at the most.
pub const ROWS_AT_ONCE: usize = 256;
/// Bytes of rows after which it fetches no more at once.
pub const BYTES_AT_ONCE: usize = 1024 * 1024;
/// The newest ticks and snapshots of a run, which stay as they were: of older ones, when there are twice as many as these.
pub const FINE_TICKS: usize = 600;
/// Rows of merged ticks of one length; beyond, the older half of them is merged in pairs again.
pub const LEVEL_ROWS_MAX: usize = 600;
/// Largest merged tick after it was inflated, bytes: thirteen kinds of latency with every bucket full take less.
pub const MERGED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The same of what was made of the older part of a run: several times what a history at all its bounds takes.
pub const STATE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// How much trouble deflate takes over them, 0..=9. Three: six makes merged ticks smaller by
/// one part in a hundred, in a third more time (zlib; docs/decisions/2026-11-23-days-recording.md).
pub const DEFLATE_LEVEL: u32 = 3;
/// Longest name of a host in a file name, bytes.
pub const HOST_NAME_MAX: usize = 48;
/// Names tried for a new recording before giving up.
pub const NAMES_TRIED_MAX: usize = 16;
/// Damaged places of a recording that are named; further ones are counted.
pub const DAMAGE_NAMED_MAX: usize = 50;
/// Largest recording of which a list checks every row, bytes; of a larger one its head.
pub const LIST_CHECKS_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Largest index of a folder that is read, bytes: of some hundred thousand recordings.
pub const INDEX_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long a file must not have changed before it is taken into the index, milliseconds: within a tick of the kernel's
/// clock a change would leave no trace.
pub const INDEX_SETTLED_MS: i64 = 2000;
/// How often a log that does not read well is read again: it may be written just now.
pub const LOG_READ_TIMES: usize = 3;

/// A recording whose log was written so short a time ago may be of a run that goes on, milliseconds: longer than the longest tick.
pub const GOES_ON_MS: u64 = 90_000;
