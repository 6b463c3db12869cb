//! Every fixed limit of the link to an observer on another machine, in one place.
//!
//! A peer that has not proved to have the token may cost little; one that has may cost what a run is worth.

use std::time::Duration;

/// Number of the protocol. It changes with the messages; both sides must have the same.
pub const PROTOCOL: u32 = 3;

/// Shortest token, bytes: 128 random bits in base64 are longer. What a proof is made of must not be guessed off line.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Longest token, bytes.
pub const TOKEN_BYTES_MAX: usize = 1024;

/// Longest frame of a peer that has not proved to have the token, bytes.
pub const HELLO_BYTES_MAX: usize = 1024;
/// Longest frame from the run to the observer, bytes: the longest asks for [`ADDRESSES_MAX`] addresses.
pub const ASKED_BYTES_MAX: usize = 16 << 10;
/// Longest frame from the observer, bytes: a snapshot of 64 processes of 256 threads each has some 8 MiB.
pub const READING_BYTES_MAX: usize = 32 << 20;

/// Addresses of a target at the most; a plan with more names its first ones.
pub const ADDRESSES_MAX: usize = 64;
/// Longest text taken over from the other side, characters.
pub const TEXT_MAX: usize = 300;

/// Clients that are observed for at once.
pub const CLIENTS_MAX: usize = 4;
/// Connections that have not proved to have the token yet, all together. With one more the oldest goes, of whichever
/// network has the most; so somebody who needs a tenth of a second to prove it gets through where thousands come in one.
pub const STRANGERS_MAX: usize = 256;
/// Connections taken in a row before those that are there are looked at again: a proof that has come is read before
/// newcomers can take its place.
pub const ACCEPTS_MAX: usize = 64;
/// Connections that the kernel keeps until they are taken.
pub const BACKLOG: i32 = 1024;
/// Lines about strangers in [`STRANGER_LINES_EVERY`]; of more only the number is said.
pub const STRANGER_LINES_MAX: u32 = 20;
/// See [`STRANGER_LINES_MAX`].
pub const STRANGER_LINES_EVERY: Duration = Duration::from_secs(10);
/// Longest wait for clients at the end: one whose reading hangs must not hold up the end.
pub const END_WAIT: Duration = Duration::from_secs(3);

/// Longest wait for a TCP connection.
pub const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// From there to TLS and both proofs, at the most, however the bytes come.
pub const HELLO_WAIT: Duration = Duration::from_secs(5);
/// From there to the first snapshot, at the most: programs for the kernel may have to be loaded before.
pub const FIRST_WAIT: Duration = Duration::from_secs(20);
/// Longest wait for the last snapshot.
pub const LAST_WAIT: Duration = Duration::from_secs(2);
/// A peer that says nothing for so long is gone: the run exchanges stamps every second.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A peer that takes nothing for so long is gone.
pub const STALL_MAX: Duration = Duration::from_secs(10);
/// How often whoever waits looks whether it is to end.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Wait before a broken link is made again: the first, doubled each time, and the longest.
pub const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// See [`BACKOFF_MIN`].
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Wait before the first connection is tried again: the first, doubled each time, and the longest. Some of each is left to
/// chance, so that those who were refused together do not come back together.
pub const RETRY_MIN: Duration = Duration::from_millis(100);
/// See [`RETRY_MIN`].
pub const RETRY_MAX: Duration = Duration::from_secs(1);

/// Exchanges of stamps before the first snapshot.
pub const EXCHANGES_FIRST: usize = 8;
/// Time between two exchanges afterwards.
pub const EXCHANGE_EVERY: Duration = Duration::from_secs(1);
/// Exchanges that are kept, of which the best one counts (RFC 5905, section 10: a clock filter of eight).
pub const EXCHANGES_KEPT: usize = 8;
/// How far two clocks may drift apart, parts per million (PHI of RFC 5905, section 7.2, for each).
pub const DRIFT_PPM: u64 = 30;

/// Snapshots that wait for the session to take them; more are dropped and counted.
pub const READINGS_MAX: usize = 16;
