//! Brings memory into the cache before it is needed.
//!
//! With a thousand connections, what is kept of each has left the cache by the time its reply comes: half of a worker's
//! own time is then spent on waiting for memory. Which connection is next is known one event ahead.

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Begins to fetch all of a value.
#[inline]
pub fn fetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for at in (0..size_of_val(value)).step_by(LINE_BYTES) {
        fetch_line(start.wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program sees and does not fault, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch_line(_at: *const u8) {}
