//! Every bound of the reference servers, in one place: what a peer can make a server hold or do.
//!
//! Memory of one worker is at most `connections × (HEAD_BYTES_MAX + buffer + OUT_BATCH_BYTES + body limit)`
//! plus `FILE_CACHE_BYTES_MAX`; a connection with nothing pending holds none of these buffers. TLS adds at
//! most `2 × TLS_INPUT_BYTES + TLS_WRITE_BYTES` a connection, and its keys (some KiB).
//! A ring of the `uring` design has 2 MiB of buffers for all its connections.

use std::time::Duration;

/// The longest request head (request line, headers, final empty line); longer is answered 431.
/// 64 KiB is what the client side of this project accepts of a reply's head, too.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long a request head may take, unless the options say otherwise (nginx's `client_header_timeout`).
pub const HEAD_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// The longest request line; longer is answered 414. RFC 9112 §3 recommends at least 8000.
pub const REQUEST_LINE_BYTES_MAX: usize = 16 * 1024;
/// Empty lines tolerated before a request line (RFC 9112 §2.2 asks for "at least one").
pub const LEADING_EMPTY_LINES_MAX: usize = 4;
/// All chunk-size lines' extensions and trailers of one chunked request body together; beyond is 431.
pub const CHUNK_OVERHEAD_BYTES_MAX: u64 = 64 * 1024;
/// Request bodies larger than this are answered 413, unless the options say otherwise.
pub const BODY_BYTES_MAX_DEFAULT: u64 = 16 * 1024 * 1024;

/// Replies gathered for one write before it is made, however many requests still wait in the input.
pub const OUT_BATCH_BYTES: usize = 64 * 1024;
/// Reply bodies up to this size are copied behind their head; larger ones go by `sendmsg` or `sendfile`.
pub const COPY_BODY_BYTES_MAX: usize = 8 * 1024;
/// A generated reply body (`/bytes`, `/chunked`) is made in pieces of this size.
pub const GENERATED_PIECE_BYTES: usize = 64 * 1024;
/// One `sendfile` call moves at most this, so that one download does not hold the worker.
pub const SENDFILE_BYTES_MAX: usize = 512 * 1024;
/// Turns (receive, send) a connection may take before the others get theirs.
pub const TURNS_MAX: usize = 16;

/// Files up to this size are answered from memory; larger ones by `sendfile`, which copies nothing and on
/// loopback was ahead from about 24 KiB on (2026-11, one worker: 12 KiB equal, 48 KiB 1.5 times as many
/// requests a CPU-second).
pub const CACHED_FILE_BYTES_MAX: u64 = 16 * 1024;
/// File contents one worker keeps in memory.
pub const FILE_CACHE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Files one worker knows (contents, or an open descriptor).
pub const FILE_CACHE_ENTRIES_MAX: usize = 4096;
/// Of those, the ones that hold a descriptor.
pub const FILE_CACHE_DESCRIPTORS_MAX: usize = 64;
/// The longest request path that is worth a cache entry.
pub const FILE_CACHE_KEY_BYTES_MAX: usize = 1024;
/// A cached file is compared with the disk at most this often, in nanoseconds.
pub const FILE_CACHE_FRESH_NS: u64 = 1_000_000_000;

/// `/sleep?ms=` at most: an hour.
pub const SLEEP_MS_MAX: u64 = 3_600_000;
/// `/cpu?us=` at most: ten seconds.
pub const CPU_US_MAX: u64 = 10_000_000;
/// `/bytes?n=`, and `n × size` of `/chunked`, at most: 10 GiB.
pub const GENERATED_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// `/chunked?n=` at most.
pub const CHUNKS_MAX: u64 = 100_000_000;

/// Ciphertext a worker receives at once, and so what a TLS connection keeps at most of a message that has not
/// come whole: the largest handshake message (64 KiB, rustls' own limit) and what its records add.
pub const TLS_INPUT_BYTES: usize = 80 * 1024;
/// Plain bytes sealed for one write; what the peer does not take of it is kept with its connection.
pub const TLS_WRITE_BYTES: usize = 64 * 1024;
/// Plain bytes of one record at most (RFC 8446 §5.1).
pub const TLS_RECORD_BYTES: usize = 16 * 1024;
/// Sessions kept for TLS 1.2 clients without tickets, some 100 bytes each.
pub const TLS_SESSIONS_MAX: usize = 4096;

/// Connections an echo server of the `uring` design can hold, unless it is told another number.
pub const CONNECTIONS_DEFAULT: usize = 10_000;
/// Connections it may be asked to hold, at most.
pub const CONNECTIONS_MAX: usize = 100_000_000;
/// Slots in a ring's table of direct descriptors at most (`IORING_MAX_FIXED_FILES` in the kernel); `nofile` bounds it,
/// too.
pub const TABLE_SLOTS_MAX: u32 = 1 << 20;
/// Addresses one server listens on at most.
pub const ADDRESSES_MAX: usize = 1024;
/// Connections accepted in a row before the others get their turn.
pub const ACCEPT_BATCH: usize = 64;
/// How long a worker leaves its listeners alone when there is no descriptor or memory for a connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a closing connection is still read, so that a reset does not destroy the last reply
/// (RFC 9112 §9.6 describes the problem; 2 s is our choice).
pub const LINGER: Duration = Duration::from_secs(2);
/// How long replies in flight may take once the server was told to stop.
pub const DRAIN: Duration = Duration::from_secs(2);
/// An echo connection that was still moving when the server was told to stop is closed once nothing came
/// for this long: what its peer had written but not yet sent is echoed, too.
pub const DRAIN_QUIET: Duration = Duration::from_millis(100);
/// Readiness events taken from the kernel at once.
pub const EVENTS_MAX: usize = 512;
/// Workers of one server at most.
pub const WORKERS_MAX: usize = 1024;
/// The smallest and largest receive buffer a worker may be given, in bytes.
pub const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 1..=16 * 1024 * 1024;

/// Connections the `thread` and `fork` designs serve at once at most, whatever they are asked to hold: beyond this the
/// machine is the subject (`kernel.pid_max` is 32,768 by default), and not the design.
pub const HANDLERS_MAX: usize = 16_384;
/// Stack of a thread that serves one connection, in bytes; only what is touched of it takes memory.
pub const HANDLER_STACK_BYTES: usize = 128 * 1024;
/// How long processes may take to end in order, after the time to drain, before they are killed.
pub const PROCESS_GRACE: Duration = Duration::from_secs(1);

/// Clients that may wait at the control socket.
pub const CONTROL_BACKLOG: i32 = 64;
/// How long an answer waits for workers that are in the middle of their turn.
pub const CONTROL_SETTLE: Duration = Duration::from_millis(100);
/// How long a reader of the control socket waits for its answer.
pub const CONTROL_READ: Duration = Duration::from_secs(10);
/// The longest answer taken, in bytes.
pub const CONTROL_LINE_BYTES_MAX: u64 = 1024 * 1024;
/// Origins of one proxy at most.
pub const ORIGINS_MAX: usize = 1024;
/// How long an origin that refused, or did not accept in time, is asked last.
pub const ORIGIN_DOWN: Duration = Duration::from_secs(1);
/// How long a connection to an origin is kept idle (nginx's `keepalive_timeout` of an upstream).
pub const UPSTREAM_IDLE: Duration = Duration::from_secs(60);
/// Interim replies (1xx) taken from an origin before its reply.
pub const INTERIM_REPLIES_MAX: u8 = 16;
/// Options in the `Connection` fields of one message; RFC 9110 knows two, and each names a field to be left out.
pub const CONNECTION_OPTIONS_MAX: usize = 32;
/// Buffers of one proxied connection at most.
pub const PROXY_BUFFERS_MAX: usize = 1 << 20;
/// The smallest and largest of them, in bytes.
pub const PROXY_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 1024..=16 * 1024 * 1024;
/// What framing adds to one piece of a body at most: a chunk's size line and end, and the last chunk.
pub const CHUNK_FRAME_BYTES: usize = 32;
