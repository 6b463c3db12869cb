//! A thread's table of descriptors.

use std::io;

/// Gives the calling thread a table of descriptors of its own, in which only the standard ones are open
/// (close_range(2), Linux 5.9; no privilege).
///
/// # Errors
/// The kernel's, where a seccomp filter forbids it: the table is shared as before.
pub(crate) fn own_table() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: it touches no memory. Nobody's descriptors but this thread's are closed, as its table becomes its own in the
    // same call, and the caller holds none that was opened before.
    let outcome = unsafe { libc::close_range(FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_int) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
