//! One ring with a file table of its own: submits, and has its completions taken.
//!
//! A table holds as many files as the process may have descriptors, but takes none of them: that is how one process
//! holds more connections than its descriptor limit, a table at a time.

use crate::driver::uring::buffers::Buffers;
use crate::driver::uring::{build, is_passing, refused};
use io_uring::{IoUring, cqueue, squeue};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Entries of a ring's submission queue; for bursts, as many as it has files, up to the largest queue
/// (io_uring_setup(2)).
const SUBMISSIONS: u32 = 256;
const SUBMISSIONS_MAX: u32 = 32_768;
/// Entries of its completion queue; more than that the kernel keeps for later.
const COMPLETIONS: u32 = 2048;
/// Receive buffers of a ring, and their size, bytes: what arrives at once, not what is held.
const BUFFERS: u16 = 64;
const BUFFER_BYTES: usize = 4096;

/// One ring.
pub struct Ring {
    // First, so that it is dropped first: the kernel then no longer writes to the buffers.
    ring: IoUring,
    /// Signalled when there is work that will make completions.
    signal: OwnedFd,
    /// Its receive buffers.
    pub buffers: Buffers,
    /// Entries that were pushed and not handed over.
    queued: usize,
}

impl Ring {
    /// A ring with an empty table of `files`; with room to hand over as many entries at once, where all of them send
    /// together.
    ///
    /// # Errors
    /// The kernel's: EMFILE for a table larger than the descriptor limit.
    pub fn new(files: u32, is_burst: bool) -> io::Result<Self> {
        let together =
            if is_burst { files.next_power_of_two().clamp(SUBMISSIONS, SUBMISSIONS_MAX) } else { SUBMISSIONS };
        let ring = build(together, COMPLETIONS.max(together))?;
        ring.submitter().register_files_sparse(files)?;
        let buffers = Buffers::register_of(&ring, BUFFERS, BUFFER_BYTES, BUFFERS)?;
        // The ring's own descriptor does not become readable for work that is put off until the thread asks for it
        // (deferred task runs); an event descriptor is signalled for that too.
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(signal.as_raw_fd())?;
        Ok(Ring { ring, signal, buffers, queued: 0 })
    }

    /// What to watch, edge-triggered: an edge says that there are completions, or work that makes some.
    pub fn signal(&self) -> &OwnedFd {
        &self.signal
    }

    /// Puts entries of a table in place: the descriptors may be closed afterwards.
    ///
    /// # Errors
    /// The kernel's.
    pub fn put_file(&self, index: u32, descriptor: RawFd) -> io::Result<()> {
        self.ring.submitter().register_files_update(index, &[descriptor]).map(drop)
    }

    /// Adds linked entries, all of them or none. Says whether there was room.
    ///
    /// # Safety
    /// Every pointer in them is valid until the operation has completed.
    pub unsafe fn push(&mut self, entries: &[squeue::Entry]) -> bool {
        // SAFETY: the caller's promise.
        let is_in = unsafe { self.ring.submission().push_multiple(entries) }.is_ok();
        if is_in {
            self.queued += entries.len();
        }
        is_in
    }

    /// Whether something waits to be handed over.
    pub fn is_queued(&self) -> bool {
        self.queued > 0
    }

    /// Hands over what is queued and lets the kernel make completions. Does not sleep.
    ///
    /// # Errors
    /// The kernel's, where it will never take anything again. What it does not take for want of memory, or of room for
    /// completions (EAGAIN, EBUSY), stays queued and goes next time.
    pub fn hand_over(&mut self) -> io::Result<()> {
        let to_submit = self.ring.submission().len() as u32;
        self.queued = 0;
        // SAFETY: no argument is passed (null, size 0); the queue's entries obey `push`.
        let taken =
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(to_submit, 0, IORING_ENTER_GETEVENTS, None) };
        if !matches!(taken, Ok(n) if n as u32 >= to_submit) {
            self.queued = self.ring.submission().len();
        }
        match taken {
            Err(e) if !is_passing(&e) => Err(refused(&e)),
            _ => Ok(()),
        }
    }

    /// Moves at most `most` completions to `into`.
    pub fn take(&mut self, into: &mut Vec<cqueue::Entry>, most: usize) {
        into.extend(self.ring.completion().take(most));
    }
}

/// `io_uring_enter(2)`: make completions of work that is done.
const IORING_ENTER_GETEVENTS: u32 = 1;
