//! A ring of receive buffers that the kernel picks from: memory in proportion to what arrives at once, not to
//! connections. Each buffer goes back as soon as its bytes have been looked at.
//!
//! The kernel takes them in turn, so a ring of all of them would touch megabytes for a few kilobytes that are under way:
//! few go round, whose memory stays in the cache, and more are added when these were not enough.

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, types};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The only buffer group of a worker's ring.
pub const GROUP: u16 = 0;
const PAGE: usize = 4096;
/// Buffers that go round at first.
const FIRST: u16 = 16;
/// Between buffers: without it their beginnings, which are what short replies fill, would share a few sets of the cache.
const GAP_BYTES: usize = 17 * 64;
/// As the allocator aligns by itself: then it need not touch the memory to clear it.
const ALIGN: usize = 16;
/// Memory for all buffers of a worker together, bytes.
const BUDGET_BYTES: usize = 2 * 1024 * 1024;

/// The ring of entries and the buffers it points to.
pub struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    count: u16,
    size: usize,
    tail: u16,
    /// Those that go round are `0..round`.
    round: u16,
}

impl Buffers {
    /// Makes the buffers and registers them: as many as connections (64 to 4096), sharing 2 MiB.
    ///
    /// # Errors
    /// The kernel's, where it has no buffer rings (before 5.19).
    pub fn register(ring: &IoUring, slots: u32) -> io::Result<Self> {
        let count = (slots.next_power_of_two()).clamp(64, 4096) as u16;
        Self::register_of(ring, count, (BUDGET_BYTES / usize::from(count)).clamp(2048, 32 * 1024), FIRST)
    }

    /// Makes `count` (a power of two) buffers of `size` bytes and registers them; `first` go round until there are more.
    ///
    /// # Errors
    /// As [`Buffers::register`].
    pub fn register_of(ring: &IoUring, count: u16, size: usize, first: u16) -> io::Result<Self> {
        let mut buffers = Buffers {
            entries: allocate(Self::ring_layout(count)).cast(),
            memory: allocate(Self::memory_layout(count, size)),
            count,
            size,
            tail: 0,
            round: 0,
        };
        // SAFETY: the ring's memory is page-aligned, zeroed, holds `count` entries, and lives until `self` is dropped,
        // which the owner does after the io_uring is closed.
        unsafe { ring.submitter().register_buf_ring_with_flags(buffers.entries.as_ptr() as u64, count, GROUP, 0)? };
        buffers.add(first);
        Ok(buffers)
    }

    /// They were not enough: twice as many go round, if there are.
    pub fn grow(&mut self) {
        self.add(self.round);
    }

    fn add(&mut self, more: u16) {
        let round = self.round.saturating_add(more).min(self.count);
        (self.round..round).for_each(|id| self.recycle(id));
        self.round = round;
    }

    fn start(&self, id: u16) -> *mut u8 {
        self.memory.as_ptr().wrapping_add(usize::from(id) * (self.size + GAP_BYTES))
    }

    /// The first `length` bytes of a buffer that the kernel has handed over and that was not yet given back.
    pub fn bytes(&self, id: u16, length: usize) -> &[u8] {
        debug_assert!(id < self.count && length <= self.size);
        // SAFETY: `id` names one of `count` buffers of `size` bytes; the kernel does not write to it until it is
        // recycled, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start(id), length.min(self.size)) }
    }

    /// The same bytes, to be changed in place.
    pub fn bytes_mut(&mut self, id: u16, length: usize) -> &mut [u8] {
        debug_assert!(id < self.count && length <= self.size);
        // SAFETY: as in `bytes`; the slice borrows `self` alone, so there is no other to the same memory.
        unsafe { std::slice::from_raw_parts_mut(self.start(id), length.min(self.size)) }
    }

    /// Gives a buffer back to the kernel.
    pub fn recycle(&mut self, id: u16) {
        let index = usize::from(self.tail & (self.count - 1));
        let address = self.start(id) as u64;
        // SAFETY: `index` is within the ring; entries at and beyond the tail are ours to write until the tail moves.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(index);
            entry.set_addr(address);
            entry.set_len(self.size as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry's reserved field and is only ever accessed atomically by the kernel;
        // release order makes the entry visible before it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    fn ring_layout(count: u16) -> Layout {
        layout(usize::from(count) * size_of::<BufRingEntry>(), PAGE)
    }

    fn memory_layout(count: u16, size: usize) -> Layout {
        layout(usize::from(count) * (size + GAP_BYTES), ALIGN)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: both were allocated with these layouts; the io_uring that used them is closed before this (field
        // order of the driver), so the kernel no longer writes to them.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), Self::ring_layout(self.count));
            dealloc(self.memory.as_ptr(), Self::memory_layout(self.count, self.size));
        }
    }
}

#[expect(clippy::expect_used, reason = "sizes are bounded by constants")]
fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).expect("a few MiB, aligned to a page at the most")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Whether this process may use io_uring with all that the driver needs.
///
/// # Errors
/// Why not, in one sentence.
pub fn available() -> Result<(), String> {
    let ring = super::build(8, 16).map_err(|e| explain(&e))?;
    let mut probe = io_uring::register::Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(|e| explain(&e))?;
    let needed = [
        ("connect", io_uring::opcode::Connect::CODE),
        ("send", io_uring::opcode::Send::CODE),
        ("receive", io_uring::opcode::Recv::CODE),
        ("cancel", io_uring::opcode::AsyncCancel::CODE),
    ];
    for (name, code) in needed {
        if !probe.is_supported(code) {
            return Err(format!("this kernel's io_uring lacks the operation '{name}'"));
        }
    }
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_skip_cqe_on_success() {
        return Err("this kernel's io_uring is too old (6.1 or newer is needed)".to_owned());
    }
    Buffers::register(&ring, 1).map_err(|e| explain(&e)).map(|buffers| {
        drop(ring);
        drop(buffers);
    })
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring, or a seccomp filter hides it".to_owned(),
        Some(libc::EPERM) => {
            "io_uring is forbidden here (kernel.io_uring_disabled, or a seccomp filter as containers have)".to_owned()
        }
        Some(libc::EINVAL) => "this kernel's io_uring is too old (6.1 or newer is needed)".to_owned(),
        Some(libc::ENOMEM) => "io_uring cannot lock memory (ulimit -l)".to_owned(),
        _ => format!("io_uring cannot be set up: {error}"),
    }
}

/// A file descriptor as io_uring wants it.
pub fn fd(socket: &socket2::Socket) -> types::Fd {
    use std::os::fd::AsRawFd;
    types::Fd(socket.as_raw_fd())
}
