//! Receive buffers of a ring, which the kernel picks from when bytes are there: memory in proportion to what arrives
//! at once, not to connections. A buffer goes back as soon as its bytes were sent or kept elsewhere.
//!
//! The memory is only reserved at first; pages come with use.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::ring::Ring;

/// The only buffer group of a ring.
pub(super) const GROUP: u16 = 0;
/// Address space for the buffers of a ring, unless they are so large that fewer than the least number fit.
const BYTES: usize = 8 * 1024 * 1024;
const COUNT_MIN: usize = 8;
const COUNT_MAX: usize = 256;

/// The buffers and the ring of entries that points to them.
pub(super) struct Pool {
    entries: Block,
    memory: Block,
    count: u16,
    size: usize,
    tail: u16,
}

impl Pool {
    /// Makes buffers of `size` bytes, known to `ring`. It must be closed before they are dropped.
    pub(super) fn register(ring: &Ring, size: usize) -> io::Result<Self> {
        let count = (BYTES / size).clamp(COUNT_MIN, COUNT_MAX).next_power_of_two().min(COUNT_MAX);
        let entries = Block::new(count * size_of::<BufRingEntry>())?;
        let memory = Block::new(count * size)?;
        let mut pool = Self { entries, memory, count: count as u16, size, tail: 0 };
        // SAFETY: the entries' memory is page-aligned, zeroed, holds `count` of them, and outlives the ring's use.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(pool.entries.start.as_ptr() as u64, pool.count, GROUP, 0)?;
        }
        for number in 0..pool.count {
            pool.give_back(number);
        }
        Ok(pool)
    }

    /// The first `length` bytes of a buffer the kernel has filled and that was not given back yet.
    pub(super) fn bytes(&self, number: u16, length: usize) -> &[u8] {
        let number = usize::from(number.min(self.count - 1));
        // SAFETY: the buffer is within the memory and initialised (zeroed at first); the kernel does not write to it
        // until it is given back, which needs `&mut self`.
        unsafe {
            let start = self.memory.start.as_ptr().cast::<u8>().add(number * self.size);
            std::slice::from_raw_parts(start, length.min(self.size))
        }
    }

    /// Gives a buffer back to the kernel.
    pub(super) fn give_back(&mut self, number: u16) {
        let entries = self.entries.start.as_ptr().cast::<BufRingEntry>();
        let index = usize::from(self.tail & (self.count - 1));
        let start = usize::from(number.min(self.count - 1)) * self.size;
        // SAFETY: `index` is within the entries, `start` within the memory; entries from the tail on are ours to
        // write until the tail moves.
        unsafe {
            let entry = &mut *entries.add(index);
            entry.set_addr(self.memory.start.as_ptr().cast::<u8>().add(start) as u64);
            entry.set_len(self.size as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry's reserved field, and both sides access it atomically; release
        // order makes the entry visible before it.
        unsafe {
            let tail = BufRingEntry::tail(entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Zeroed pages, given by the kernel when they are first touched (which an aligned allocation would do at once).
struct Block {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Block {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: new memory at a place the kernel chooses, which nothing else refers to.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        Ok(Self { start: NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?, bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing refers to it any more. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}
