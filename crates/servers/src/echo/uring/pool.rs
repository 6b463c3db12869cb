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
/// Buffers of a ring: so many connections can be served in a turn; the others get theirs in the next.
pub(super) const COUNT: u16 = 128;
/// Largest buffer: with longer ones, little would be gained and 2 MiB a ring exceeded.
const SIZE_MAX: usize = 16 * 1024;

/// The buffers and the ring of entries that points to them.
pub(super) struct Pool {
    entries: Block,
    memory: Block,
    size: usize,
    tail: u16,
}

impl Pool {
    /// Makes buffers of at most `size` bytes, known to `ring`, which must end before they are dropped.
    pub(super) fn register(ring: &Ring, size: usize) -> io::Result<Self> {
        let size = size.min(SIZE_MAX);
        let entries = Block::new(usize::from(COUNT) * size_of::<BufRingEntry>())?;
        let memory = Block::new(usize::from(COUNT) * size)?;
        let mut pool = Self { entries, memory, size, tail: 0 };
        // SAFETY: the entries' memory is page-aligned, zeroed, holds `COUNT` of them, and outlives the ring's use.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(pool.entries.start.as_ptr() as u64, COUNT, GROUP, 0)?;
        }
        for number in 0..COUNT {
            pool.give_back(number);
        }
        Ok(pool)
    }

    /// The first `length` bytes of a buffer the kernel has filled and that was not given back yet.
    pub(super) fn bytes(&self, number: u16, length: usize) -> &[u8] {
        let number = usize::from(number.min(COUNT - 1));
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
        let index = usize::from(self.tail & (COUNT - 1));
        let start = usize::from(number.min(COUNT - 1)) * self.size;
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
