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
