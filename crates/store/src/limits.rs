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
/// Longest name of a host in a file name, bytes.
pub const HOST_NAME_MAX: usize = 48;
/// Names tried for a new recording before giving up.
pub const NAMES_TRIED_MAX: usize = 16;
