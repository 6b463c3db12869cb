//! Every fixed limit of this crate, in one place.
//!
//! Observation must not become load: what could grow with the target (processes, threads, table sizes) is bounded here.

use std::time::Duration;

/// Threads read of one process, the lowest ids first; `threads_total` says how many there are.
pub const THREADS_MAX: usize = 256;
/// Processes of the target that are watched, the lowest ids first; an event says when there are more.
pub const PROCESSES_MAX: usize = 64;
/// Processes of the target whose CPU time is summed, the oldest first.
pub(crate) const SUMMED_MAX: usize = 1024;
/// Other processes that are read at one reading: those that ran last time, new ones, then the rest in turn.
pub(crate) const OTHERS_MAX: usize = 512;
/// Ids of processes that are listed.
pub(crate) const PIDS_MAX: usize = 1 << 16;
/// A pass through the machine's processes is made in any case after so long, nanoseconds.
pub(crate) const PASS_EVERY_NS: i64 = 10_000_000_000;
/// Before that, where others used one part in so many of a core …
pub(crate) const PASS_SHARE: u64 = 100;
/// … and so many clock ticks: less may be the rounding of what is compared.
pub(crate) const PASS_TICKS: u64 = 3;
/// A pass through the machine's processes is not made again before so many times the CPU time that it took.
pub(crate) const PASS_SPARING: i64 = 200;
/// Sockets of the target whose state the probes keep, at the most (some 80 bytes each while they are open).
pub const BPF_SOCKETS_MAX: u32 = 65_536;
/// Costly probes run for at least so long, nanoseconds: ticks of a second may come a little early.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_NS_MIN: i64 = 900_000_000;
/// And then not for so many times as long, their own time included.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_EVERY: i64 = 10;
/// Longest window where time is measured: what is left of a tenth is for windows after slow ticks.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_NS_MAX: i64 = 600_000_000;
/// Shortest window that is worth attaching for: an acknowledgement is delayed by 40 ms.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_NS_LEAST: i64 = 45_000_000;
/// Measured time from which on something is left for slow ticks.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_SPARES_NS: i64 = 6_000_000_000;
/// How long after the start of the load probes are loaded: its connections are made first.
pub(crate) const LOAD_AFTER: Duration = Duration::from_millis(50);
/// What the dearest of them are to see in a window: system calls, receives and sends of the target. Busy servers come to
/// it at once, and a few per cent of their requests carry the cost; idle ones are looked at for the whole window.
#[cfg(feature = "bpf")]
pub(crate) const CALLS_ENOUGH: u64 = 20_000;
/// But for so long at least, nanoseconds: an acknowledgement is delayed by 40 ms.
#[cfg(feature = "bpf")]
pub(crate) const CALLS_NS_MIN: i64 = 200_000_000;
/// How often it is looked after that.
#[cfg(feature = "bpf")]
pub(crate) const CALLS_LOOK_NS: i64 = 100_000_000;
/// The same of the light probes, which see receives and sends alone, and whose windows each run has: of 2,500 requests a
/// hundredth is 25.
#[cfg(feature = "bpf")]
pub(crate) const LIGHT_ENOUGH: u64 = 5_000;
/// But for so long at least, nanoseconds: an acknowledgement is delayed by 40 ms.
#[cfg(feature = "bpf")]
pub(crate) const LIGHT_NS_MIN: i64 = 50_000_000;
/// How often it is looked after that: more often, as what it ends is dearer than the look.
#[cfg(feature = "bpf")]
pub(crate) const LIGHT_LOOK_NS: i64 = 10_000_000;
/// Places where threads wait that are kept, the longest waits first.
#[cfg(feature = "bpf")]
pub(crate) const WAITS_MAX: usize = 20;
/// Names of files that the target opens that are kept, those it opens most first.
#[cfg(feature = "bpf")]
pub(crate) const OPENED_MAX: usize = 20;
/// Addresses that threads wait at in futex that are kept, the longest waits first.
#[cfg(feature = "bpf")]
pub(crate) const FUTEXES_MAX: usize = 20;
/// Frames kept of each, innermost first.
#[cfg(feature = "bpf")]
pub(crate) const WAIT_FRAMES_MAX: usize = 24;
/// Addresses whose names are kept, and threads whose processes are.
#[cfg(feature = "bpf")]
pub(crate) const NAMES_KEPT_MAX: usize = 65_536;
/// Processes of which files and names are kept; beyond, all are read anew.
#[cfg(feature = "bpf")]
pub(crate) const PROCESSES_NAMED_MAX: usize = 256;
/// Longest wait of a tick for names; those that come later are there for the next.
#[cfg(feature = "bpf")]
pub(crate) const NAMES_WAIT: Duration = Duration::from_millis(500);
/// Longest wait before the load until the target's files are read for names.
#[cfg(feature = "bpf")]
pub(crate) const PREPARE_WAIT: Duration = Duration::from_secs(3);
/// Characters of a function's name that are kept.
#[cfg(feature = "bpf")]
pub(crate) const NAME_CHARACTERS_MAX: usize = 200;
/// Largest program whose debug information is read: it takes memory of about its size.
#[cfg(feature = "bpf")]
pub(crate) const SYMBOL_FILE_BYTES_MAX: u64 = 512 << 20;
/// Threads, states and places of waits that are told apart in a run.
#[cfg(feature = "bpf")]
pub(crate) const WAITS_COUNTED_MAX: usize = 4096;
/// Threads whose time by state is told, those that were on a CPU longest; the others are added up.
#[cfg(feature = "bpf")]
pub(crate) const THREAD_ROWS_MAX: usize = 64;
/// Threads whose time by state is kept from window to window.
#[cfg(feature = "bpf")]
pub(crate) const THREAD_ROWS_COUNTED_MAX: usize = 4096;
/// Threads without an event in a window whose state is read after it: some 30 microseconds each.
#[cfg(feature = "bpf")]
pub(crate) const UNTOUCHED_MAX: usize = 512;
/// Those that are kept from window to window.
#[cfg(feature = "bpf")]
pub(crate) const EDGES_COUNTED_MAX: usize = 4096;
/// Stalls, and pauses of all threads, that are kept, the longest.
#[cfg(feature = "bpf")]
pub(crate) const STALLS_MAX: usize = 64;
/// A process of a server that is younger, when it is first looked at, may be one for a moment, nanoseconds.
pub(crate) const HELPER_AGE_NS: i128 = 1_000_000_000;
/// Shortest time between two searches for a target that has gone, nanoseconds.
pub(crate) const SEARCH_EVERY_NS: i64 = 1_000_000_000;
/// Searches for a target that has gone, after which it is given up.
pub(crate) const SEARCHES_MAX: u32 = 120;
/// Bytes of one `/proc` file that are read at the most (a `/proc/stat` of 4,096 cores is about 400 KiB).
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;
/// Bytes of the list of listening sockets that are read by netlink at the most (some 120 a socket).
pub(crate) const LISTENERS_BYTES_MAX: usize = 16 << 20;
/// Longest wait for a part of that list, which the kernel makes while it is asked for.
pub(crate) const LISTENERS_WAIT: Duration = Duration::from_secs(1);
/// Threads of one process of which it is read how often they left a CPU and where they stand, the lowest ids first.
pub(crate) const THREADS_CLOSE_MAX: usize = 64;
/// Sockets whose kind is kept.
pub(crate) const DESCRIPTORS_KNOWN_MAX: usize = 16_384;
/// Addresses of waits in futex(2) of which it is kept who was seen there.
pub(crate) const FUTEXES_KNOWN_MAX: usize = 16_384;
/// Descriptors of one process that are looked at for files, the lowest first.
pub(crate) const FILES_MAX: usize = 1024;
/// Largest resident memory of a process whose shared pages are counted: the kernel walks through them page by page, and
/// the process cannot map memory meanwhile.
pub(crate) const SHARE_BYTES_MAX: u64 = 128 << 20;
/// Shortest time between two such countings, nanoseconds.
pub(crate) const SHARE_EVERY_NS: i64 = 10_000_000_000;
/// Disks and network interfaces that are kept, the first ones.
pub(crate) const DEVICES_MAX: usize = 32;
/// Records of the kernel's log that are read at one reading; the rest waits for the next.
pub(crate) const LOG_RECORDS_MAX: usize = 1000;
/// Events made of the kernel's log in a run.
pub(crate) const LOG_EVENTS_MAX: usize = 200;
/// Listening sockets of the target that are kept, the first ones.
pub(crate) const LISTENERS_MAX: usize = 64;
/// Ports of the target whose connections are looked at.
pub(crate) const PORTS_MAX: usize = 8;
/// Connections of the target whose `tcp_info` is read at one reading.
pub(crate) const CONNECTIONS_MAX: usize = 2048;
/// Connections that are not established and whose state is counted at one reading.
pub(crate) const STATES_MAX: usize = 16_384;
/// Epoll instances whose list of watched descriptors is read at one reading …
pub(crate) const EPOLLS_MAX: usize = 16;
/// … of processes with at most so many descriptors: the kernel writes a line for each, and nobody gets events meanwhile.
pub(crate) const EPOLL_WATCHED_MAX: u64 = 4096;
/// Shortest time between two looks through the target's descriptors for its listening sockets, nanoseconds.
pub(crate) const OWNERS_EVERY_NS: i64 = 10_000_000_000;
/// Descriptors that such a look goes through, of all processes together: looking at each costs a microsecond.
pub(crate) const DESCRIPTORS_MAX: usize = 1 << 20;
/// The same where it is done once a second, for the owners of connections that the target made.
pub(crate) const DESCRIPTORS_OFTEN_MAX: usize = 16_384;
/// Connections that are not of the target's ports and are looked at in one reading.
pub(crate) const OUTGOING_LOOKED_MAX: usize = 4096;
/// Unix sockets of a network namespace that are looked at in one reading.
pub(crate) const UNIX_SOCKETS_MAX: usize = 16_384;
/// Remote addresses of the target's own connections that are kept: those with most connections.
pub(crate) const REMOTES_MAX: usize = 8;
/// Remote addresses whose counters go on.
pub(crate) const REMOTES_COUNTED_MAX: usize = 256;
/// Network namespaces that are searched for a port.
pub(crate) const NAMESPACES_MAX: usize = 256;
/// Sockets of a network namespace above which its whole table is not walked for those that are not established.
pub(crate) const WALK_SOCKETS_MAX: u64 = 50_000;
/// Longest walk through more than these, nanoseconds, after which another is made.
pub(crate) const WALK_NS_MAX: i64 = 10_000_000;
/// A walk through sockets that took a time is not made again before so many times that.
pub(crate) const WALK_SPARING: i64 = 200;
/// So many walks leave out clients on the same machine after one that found that they are not the target's, …
pub(crate) const WALKS_WITHOUT_CLIENTS: u32 = 3;
/// … where they are at least so many.
pub(crate) const CLIENTS_MIN: usize = 16;
/// A look at the links of a process's descriptors is not made again before so many times its CPU time.
pub(crate) const FILES_SPARING: i64 = 1000;
/// The first walks of a load, of which a diagnosis needs some: so many are made again after so many times what one took. They may
/// have two hundredths of a CPU, for so long.
pub(crate) const FIRST_WALKS: u32 = 4;
pub(crate) const FIRST_WALK_SPARING: i64 = 50;
/// Moments of an imported text that are kept apart; beyond, neighbours are merged.
pub(crate) const IMPORT_SAMPLES_MAX: usize = 20_000;
/// Readings of an imported text that are kept at once (16 bytes each); beyond, neighbours are merged.
pub(crate) const IMPORT_VALUES_MAX: usize = 2_000_000;
/// Longest line of an imported text, bytes; a longer one is not understood.
pub(crate) const IMPORT_LINE_BYTES_MAX: usize = 256 * 1024;
/// Lines that were not understood and are shown, and sentences about how a text was read.
pub(crate) const IMPORT_EXAMPLES_MAX: usize = 10;
/// Columns and sections without a metric that are named.
pub(crate) const IMPORT_NOT_TAKEN_MAX: usize = 400;
/// Cores of an imported machine.
pub(crate) const IMPORT_CORES_MAX: u16 = 4096;
/// Kinds of sections of an imported text.
pub(crate) const IMPORT_SECTIONS_MAX: usize = 256;
