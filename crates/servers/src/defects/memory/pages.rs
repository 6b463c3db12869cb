//! Memory straight from the kernel, all of it touched: resident from when it is taken until it is given back.
//!
//! Not by the allocator, which may keep what is freed: here what is given back is gone from the resident memory.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Some pages of memory.
#[derive(Debug)]
pub(super) struct Pages {
    at: NonNull<libc::c_void>,
    bytes: usize,
}

impl Pages {
    /// Takes so many bytes. `None` where there is no memory, or none is asked for.
    pub(super) fn touched(bytes: usize) -> Option<Self> {
        // POPULATE makes the kernel give each page now, as if it had been written to (mmap(2)).
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping where the kernel finds room, so no other memory changes.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        Some(Self { at: NonNull::new(at.ok()?)?, bytes })
    }
}

// SAFETY: the memory belongs to this value alone, whatever thread has it.
unsafe impl Send for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `touched` with this length, unmapped only here, and nothing points into it.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}
