//! Bounds of this crate.

use std::time::Duration;

/// Longest journal that is read, bytes: some 60,000 changes.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 16 << 20;
/// How long another process that holds the journal is waited for: it changes a few settings, no more.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Between two attempts to get the journal.
pub(crate) const LOCK_RETRY: Duration = Duration::from_millis(20);
/// Longest value of a setting, bytes: those of the kernel fit a page.
pub(crate) const VALUE_BYTES_MAX: u64 = 4096;
/// Most sockets dropped by one call: some 60 bytes of memory each.
pub(crate) const SOCKETS_MAX: usize = 4_000_000;
/// Longest wait for a part of the kernel's list of sockets, or for its answer.
pub(crate) const KERNEL_WAIT: Duration = Duration::from_secs(5);
/// How often a control group is looked at until all processes have left it.
pub(crate) const GROUP_LOOKS: u32 = 100;
/// Between two looks at it.
pub(crate) const GROUP_LOOK: Duration = Duration::from_millis(20);
/// How often a program that was killed is looked for until it is gone.
pub(crate) const CHILD_LOOKS: u32 = 250;
/// How long a process that is told to end may take, before it is killed.
pub(crate) const END_WAIT: Duration = Duration::from_secs(5);
/// How long a server may take to answer an OOPS, or to end the connection.
pub(crate) const OOPS_WAIT: Duration = Duration::from_secs(2);
/// Between two looks at a process that is to end.
pub(crate) const LOOK: Duration = Duration::from_millis(5);
/// The longest that a helper works, whoever forgets it.
pub(crate) const HELPER_LIFE: Duration = Duration::from_secs(3600);
/// How long one may take until it says that it is ready.
pub(crate) const HELPER_READY: Duration = Duration::from_secs(5);
/// How long one that is told to end may take, before it is killed.
pub(crate) const HELPER_END: Duration = Duration::from_secs(2);
/// How long one that is asked what it did is waited for.
pub(crate) const HELPER_ANSWER: Duration = Duration::from_millis(500);
/// How often a helper writes down what it did.
pub(crate) const HELPER_REPORT: Duration = Duration::from_millis(100);
/// The longest text that a helper writes, bytes.
pub(crate) const HELPER_STATE_BYTES_MAX: u64 = 64 << 10;
/// Packets that the kernel holds for a helper; beyond, it drops.
pub(crate) const PACKETS_HELD_MAX: u32 = 65_536;
/// The longest that a packet is held, nanoseconds.
pub(crate) const DELAY_NS_MAX: u64 = 60_000_000_000;
/// Most rude clients of one fault.
pub(crate) const CLIENTS_MAX: u32 = 60_000;
/// Most connections or packets a second of a flood.
pub(crate) const FLOOD_PER_S_MAX: u32 = 100_000;
/// Most connections of a flood that are on their way at a time.
pub(crate) const ON_THEIR_WAY_MAX: usize = 4096;
/// How long a rude client waits after the server ended it, or it could not be made.
pub(crate) const CLIENT_AGAIN: Duration = Duration::from_millis(100);
/// Longest request of a rude client, bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Most connections that are answered in a server's place at a time.
pub(crate) const ANSWERED_MAX: usize = 10_000;
/// Longest head of a request that is answered in a server's place, bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most bytes that a file may take of a file system: more is no small one.
pub(crate) const FILL_BYTES_MAX: u64 = 4 << 30;
