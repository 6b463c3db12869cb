//! One io_uring: made for a single thread that asks for its completions, with a table of direct descriptors.
//!
//! Completions are made only when this thread enters (deferred task work), so a ring with work to do must be
//! entered; [`Ring::has_work`] says so from memory both sides share. A ring's own descriptor cannot be watched for
//! that: with deferred task work the kernel wakes its pollers only once completions are *made* (tried on 6.18), so a
//! thread with several rings registers an eventfd with them and sleeps on that.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{CancelBuilder, Timespec};
use io_uring::{IoUring, opcode, squeue};

/// Submission entries of a ring; more are handed over in between.
const SUBMISSIONS: u32 = 256;
/// Completion entries of a ring; the kernel keeps what does not fit until there is room.
const COMPLETIONS: u32 = 4096;
/// `IORING_ENTER_GETEVENTS`: run deferred work, bring completions.
const GET_EVENTS: u32 = 1;

/// What an operation was for; in a completion's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    /// The outcome does not matter.
    Ignore,
    /// Take a connection from a listener (its number is the slot).
    Accept,
    /// Wait until something can be received.
    Poll,
    /// Receive into a buffer of the pool.
    Receive,
    /// Send from a buffer of the pool; told only if the peer does not take all of it at once.
    SendPool,
    /// Send what the peer has not taken yet, from memory of the connection's own.
    SendKept,
    /// The server is told to stop.
    Stop,
    /// Another ring of this thread has work.
    Wake,
    /// A deadline has come.
    Timer,
}

const OPS: [Op; 9] =
    [Op::Ignore, Op::Accept, Op::Poll, Op::Receive, Op::SendPool, Op::SendKept, Op::Stop, Op::Wake, Op::Timer];

/// Names an operation in its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) op: Op,
    pub(super) slot: u32,
}

impl Key {
    pub(super) fn new(op: Op, slot: u32) -> Self {
        Self { op, slot }
    }

    fn bits(self) -> u64 {
        (self.op as u64) << 32 | u64::from(self.slot)
    }

    fn from_bits(bits: u64) -> Self {
        let op = OPS.get((bits >> 32) as usize).copied().unwrap_or(Op::Ignore);
        Self { op, slot: bits as u32 }
    }
}

/// What became of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub(super) key: Key,
    /// Negative: an errno.
    pub(super) result: i32,
    /// The buffer of the pool that was filled.
    pub(super) buffer: Option<u16>,
}

/// An io_uring with a table of `slots` direct descriptors.
pub(super) struct Ring {
    uring: IoUring,
}

impl Ring {
    /// Makes a ring for the calling thread and its table of descriptors.
    pub(super) fn new(slots: u32) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        // Saves the look-up of the ring's descriptor in each call. Only the first rings of a thread get it (16).
        let _ = uring.submitter().register_ring_fd();
        uring.submitter().register_files_sparse(slots)?;
        Ok(Self { uring })
    }

    /// For what is registered with the ring.
    pub(super) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.uring.submitter()
    }

    /// Signals `event` when work for this ring comes up while it has none.
    pub(super) fn signal(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.uring.submitter().register_eventfd(event.as_raw_fd())
    }

    /// Queues an operation.
    ///
    /// # Safety
    /// Memory the operation points to must stay as it is until its completion, or until the ring is dropped.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry, key: Key) {
        let entry = entry.user_data(key.bits());
        loop {
            // SAFETY: the caller's promise.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return;
            }
            // A full queue is handed over. What the kernel cannot take for want of memory it will later.
            let _ = self.uring.submit();
        }
    }

    /// Queues an operation whose success is not told.
    ///
    /// # Safety
    /// As for [`Self::push`]; an operation that does not wait has completed once it has been handed over.
    pub(super) unsafe fn push_quietly(&mut self, entry: squeue::Entry, key: Key) {
        // SAFETY: the caller's promise.
        unsafe { self.push(entry.flags(squeue::Flags::SKIP_SUCCESS), key) };
    }

    /// Queues the end of all operations with this key, which then complete with `ECANCELED`, unless they were faster.
    pub(super) fn cancel(&mut self, key: Key) {
        let which = CancelBuilder::user_data(key.bits()).all();
        // SAFETY: points to nothing.
        unsafe { self.push_quietly(opcode::AsyncCancel2::new(which).build(), Key::new(Op::Ignore, 0)) };
    }

    /// Hands over what is queued, runs the kernel's part, and waits until `want` completions are there.
    pub(super) fn enter(&mut self, want: u32) -> io::Result<()> {
        let queued = self.uring.submission().len() as u32;
        // SAFETY: no argument is passed beyond numbers, and what is queued was vouched for when it was pushed.
        let entered = unsafe { self.uring.submitter().enter::<libc::sigset_t>(queued, want, GET_EVENTS, None) };
        match entered {
            Ok(_) => Ok(()),
            // Interrupted, no memory for the moment, or completions must be taken first: what is queued stays.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether entering would bring something on: queued operations, deferred work, completions.
    pub(super) fn has_work(&mut self) -> bool {
        let queue = self.uring.submission();
        let has_work = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        has_work || !self.uring.completion().is_empty()
    }

    /// Whether all that was queued has been handed over.
    pub(super) fn is_handed_over(&mut self) -> bool {
        self.uring.submission().is_empty()
    }

    /// Takes all completions there are.
    pub(super) fn take(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.uring.completion().map(|entry| Completion {
            key: Key::from_bits(entry.user_data()),
            result: entry.result(),
            buffer: io_uring::cqueue::buffer_select(entry.flags()),
        }));
    }
}

impl Drop for Ring {
    /// Ends all operations and closes all direct descriptors, so that peers see the end now and not when the kernel has
    /// taken the ring apart, and nothing points to the owner's memory any more.
    fn drop(&mut self) {
        let _ = self.enter(0);
        // Nothing to cancel is an error, too; whatever is left ends with the ring.
        let _ = self.uring.submitter().register_sync_cancel(Some(Timespec::new().sec(1)), CancelBuilder::any());
        let _ = self.uring.submitter().unregister_files();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_kernel() {
        for (number, op) in OPS.into_iter().enumerate() {
            assert_eq!(op as usize, number, "the order of OPS");
            let key = Key { op, slot: u32::MAX - 1 };
            assert_eq!(Key::from_bits(key.bits()), key);
        }
    }
}
