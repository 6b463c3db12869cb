//! One io_uring as the loops use it: single issuer, deferred task run, one multishot receive a
//! connection into a ring of provided buffers, one `io_uring_enter` a turn.
//! Successful sends are silent, so every completion waited for is a reply.
//! Cost: a buffer of [`BUFFER_BYTES`] per connection, at most [`BUFFERS_MAX`] of them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

/// Size of one provided buffer: a small page with its head fits in.
pub const BUFFER_BYTES: usize = 4096;
/// Most provided buffers.
pub const BUFFERS_MAX: usize = 4096;
/// Longest sleep of one turn when the caller sets no bound, in ns.
pub const SLEEP_NS_MAX: u64 = 100_000_000;

const GROUP: u16 = 0;
/// `IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG`, io_uring_enter(2).
const ENTER_FLAGS: u32 = 1 | 8;

/// What a completion was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Bytes arrived, the peer left, or the receive ended.
    Recv,
    /// A send that failed or was short.
    Send,
}

/// A completion, its bytes still in the provided buffer.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// Index of the connection.
    pub connection: u32,
    /// How often that connection had been replaced when the operation began.
    pub generation: u16,
    /// What completed.
    pub operation: Operation,
    /// Bytes, or a negated errno.
    pub result: i32,
    /// The multishot receive goes on.
    pub armed: bool,
    buffer: Option<u16>,
}

/// How long a turn may sleep.
#[derive(Debug, Clone, Copy)]
pub struct Sleep {
    /// Completions to wait for.
    pub completions: u32,
    /// When not that many came within this time, one is enough; 0: no such bound.
    /// The ring's minimal wait (Linux 6.12), or a plain timeout before it.
    pub gather_us: u32,
    /// Return after this time in any case, in ns.
    pub at_most_ns: u64,
}

/// `struct io_uring_getevents_arg`, io_uring_enter(2).
#[repr(C)]
struct EventsArg {
    signal_mask: u64,
    signal_mask_bytes: u32,
    min_wait_us: u32,
    timeout: u64,
}

/// An io_uring with its provided buffers.
pub struct Ring {
    uring: IoUring,
    buffers: Buffers,
    gather_supported: bool,
}

impl Ring {
    /// A ring with room for `connections` operations at once.
    ///
    /// # Errors
    /// What the kernel says: io_uring missing, forbidden, or older than 6.1.
    pub fn new(connections: usize) -> io::Result<Self> {
        let entries = connections.next_power_of_two().clamp(64, 32_768) as u32;
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(entries.saturating_mul(4).max(4096))
            .build(entries)?;
        let buffers = Buffers::new(connections)?;
        // SAFETY: the ring of entries is page-aligned, as long as told, and lives in `Ring` as
        // long as the io_uring (fields drop in order: the io_uring first).
        unsafe {
            uring.submitter().register_buf_ring_with_flags(buffers.entries as u64, buffers.count, GROUP, 0)?;
        }
        Ok(Self { uring, buffers, gather_supported: true })
    }

    /// Arms the multishot receive of a connection.
    ///
    /// # Errors
    /// What `io_uring_enter` says when the queue had to be emptied first.
    pub fn arm(&mut self, fd: RawFd, connection: u32, generation: u16) -> io::Result<()> {
        let entry =
            opcode::RecvMulti::new(Fd(fd), GROUP).build().user_data(token(connection, generation, Operation::Recv));
        // SAFETY: the entry refers to a descriptor and to provided buffers that outlive the ring.
        unsafe { self.push(entry) }
    }

    /// Queues a send of `bytes`; only a failure is reported.
    ///
    /// # Safety
    /// `bytes` must stay valid and unchanged until the ring is dropped.
    ///
    /// # Errors
    /// What `io_uring_enter` says when the queue had to be emptied first.
    #[inline]
    pub unsafe fn send(&mut self, fd: RawFd, bytes: &[u8], connection: u32, generation: u16) -> io::Result<()> {
        let entry = opcode::Send::new(Fd(fd), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(token(connection, generation, Operation::Send));
        // SAFETY: the caller keeps the bytes.
        unsafe { self.push(entry) }
    }

    /// Queues an entry, submitting what is queued when there is no room.
    ///
    /// # Safety
    /// What the entry points to must stay valid until it completes.
    #[inline]
    unsafe fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        while unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.uring.submit()?;
        }
        Ok(())
    }

    /// Submits what is queued, sleeps as told, and hands over what completed.
    ///
    /// # Errors
    /// What `io_uring_enter` says, but for a timeout, a signal or a full completion queue.
    #[inline]
    pub fn turn(&mut self, sleep: Sleep, into: &mut Vec<Completion>) -> io::Result<()> {
        let gather_us = if self.gather_supported { sleep.gather_us } else { 0 };
        let at_most_ns = match sleep.gather_us {
            gather_us if gather_us > 0 && !self.gather_supported => u64::from(gather_us) * 1000,
            _ => sleep.at_most_ns,
        };
        let timeout = Timespec::new().sec(at_most_ns / 1_000_000_000).nsec((at_most_ns % 1_000_000_000) as u32);
        let arg = EventsArg {
            signal_mask: 0,
            signal_mask_bytes: 8,
            min_wait_us: gather_us,
            timeout: &raw const timeout as u64,
        };
        let queued = {
            let mut submission = self.uring.submission();
            submission.sync();
            submission.len() as u32
        };
        // SAFETY: `arg` has the layout EXT_ARG asks for, and it and the timeout outlive the call.
        let entered = unsafe { self.uring.submitter().enter(queued, sleep.completions, ENTER_FLAGS, Some(&arg)) };
        match entered {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => {}
                Some(libc::EINVAL) if gather_us > 0 => self.gather_supported = false,
                _ => return Err(error),
            },
        }
        into.clear();
        into.extend(self.uring.completion().map(|entry| read(&entry)));
        Ok(())
    }

    /// The bytes of a completed receive.
    #[inline]
    #[must_use]
    pub fn bytes(&self, completion: &Completion) -> &[u8] {
        match (completion.buffer, usize::try_from(completion.result)) {
            (Some(buffer), Ok(length)) => self.buffers.bytes(buffer, length),
            _ => &[],
        }
    }

    /// Gives the buffers of these completions back to the kernel.
    #[inline]
    pub fn recycle(&mut self, completions: &[Completion]) {
        for buffer in completions.iter().filter_map(|done| done.buffer) {
            self.buffers.give(buffer);
        }
        self.buffers.publish();
    }
}

fn token(connection: u32, generation: u16, operation: Operation) -> u64 {
    u64::from(connection) | u64::from(generation) << 32 | u64::from(operation == Operation::Send) << 48
}

#[inline]
fn read(entry: &cqueue::Entry) -> Completion {
    let data = entry.user_data();
    Completion {
        connection: data as u32,
        generation: (data >> 32) as u16,
        operation: if data >> 48 & 1 == 1 { Operation::Send } else { Operation::Recv },
        result: entry.result(),
        armed: cqueue::more(entry.flags()),
        buffer: cqueue::buffer_select(entry.flags()),
    }
}

/// The ring of buffer entries, and the buffers.
struct Buffers {
    entries: *mut BufRingEntry,
    layout: Layout,
    memory: Vec<u8>,
    count: u16,
    tail: u16,
}

impl Buffers {
    fn new(connections: usize) -> io::Result<Self> {
        let count = connections.next_power_of_two().clamp(64, BUFFERS_MAX);
        let layout = Layout::from_size_align(count * size_of::<BufRingEntry>(), 4096).map_err(io::Error::other)?;
        // SAFETY: the layout is not empty.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        if entries.is_null() {
            handle_alloc_error(layout);
        }
        let mut buffers = Self { entries, layout, memory: vec![0; count * BUFFER_BYTES], count: count as u16, tail: 0 };
        for buffer in 0..buffers.count {
            buffers.give(buffer);
        }
        buffers.publish();
        Ok(buffers)
    }

    #[inline]
    fn give(&mut self, buffer: u16) {
        let slot = usize::from(self.tail & (self.count - 1));
        let start = usize::from(buffer) * BUFFER_BYTES;
        // SAFETY: `slot` is below the number of entries, which are zeroed and thus initialised;
        // entry 0's tail field is not among the three set here.
        let entry = unsafe { &mut *self.entries.add(slot) };
        entry.set_addr(self.memory[start..].as_ptr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    fn publish(&self) {
        // SAFETY: the tail lies in entry 0 of the zeroed, live ring; it is 2-byte aligned, and
        // the kernel reads it as an atomic.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    #[inline]
    fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        let start = usize::from(buffer) * BUFFER_BYTES;
        &self.memory[start..start + length.min(BUFFER_BYTES)]
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout, and the io_uring is already gone.
        unsafe { dealloc(self.entries.cast(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back() {
        for operation in [Operation::Recv, Operation::Send] {
            let data = token(59_999, 65_535, operation);
            assert_eq!(data as u32, 59_999);
            assert_eq!((data >> 32) as u16, 65_535);
            assert_eq!(data >> 48, u64::from(operation == Operation::Send));
        }
    }

    #[test]
    fn the_events_argument_has_the_kernels_size() {
        assert_eq!(size_of::<EventsArg>(), 24);
    }
}
