//! `getrusage(2)` of this process, for which there is no safe wrapper.
//!
//! CPU times only: `ru_maxrss` survives `execve`, so it would show the parent's size; see [`crate::own`].

/// User and system CPU time of all threads of this process, living and gone, nanoseconds.
pub(crate) fn own_cpu_ns() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one `rusage` to the pointer, which is valid for it; zeroed is a valid `rusage` too, so
    // the value is initialised even if the call failed.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    (nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime))
}

fn nanoseconds(time: libc::timeval) -> u64 {
    // Neither is ever negative; the casts are of non-negative numbers.
    (time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec.max(0) as u64 * 1000)
}
