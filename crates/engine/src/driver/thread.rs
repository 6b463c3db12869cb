//! What a worker asks of its own thread: a CPU to stay on, exact sleeps, its CPU time.

use std::io;

/// User and system CPU time of the calling thread, nanoseconds.
pub fn cpu_ns() -> (u64, u64) {
    // SAFETY: all-zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place to write to; RUSAGE_THREAD needs nothing else.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return (0, 0);
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Time the calling thread was runnable and had no CPU since it began, nanoseconds: the second figure of
/// `/proc/thread-self/schedstat` (proc(5)); 0 where the kernel does not say. Does not allocate.
pub fn wait_ns() -> u64 {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(c"/proc/thread-self/schedstat", flags, Mode::empty()) else { return 0 };
    let mut buffer = [0u8; 96];
    let Ok(length) = rustix::io::read(&file, &mut buffer) else { return 0 };
    let second = buffer[..length].split(|byte| byte.is_ascii_whitespace()).nth(1).unwrap_or_default();
    second
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0, |ns: u64, digit| ns.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

/// Lets sleeps of the calling thread end when asked, not up to 50 µs later (the default timer slack, prctl(2)).
pub fn sleep_exactly() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Gives the calling thread a descriptor table of its own with nothing in it but standard input, output and error
/// (close_range(2), CLOSE_RANGE_UNSHARE, Linux 5.9). Needs no privilege.
///
/// The kernel counts who uses a file in each call on a descriptor, by two atomic operations, unless the calling thread is the only one
/// that has the table (`fdget`, fs/file.c). So a call on a table of one's own is cheaper; and the descriptor limit is the thread's own
/// too, as it bounds the numbers in a table, not the files of a process.
///
/// What other threads have opened is not there for this one, before or after: neither may the thread use it, nor does it keep it open.
///
/// # Errors
/// The kernel's, where it is older or a seccomp filter forbids it.
pub fn own_descriptors() -> io::Result<()> {
    const FIRST: libc::c_uint = libc::STDERR_FILENO as libc::c_uint + 1;
    // SAFETY: the calling thread owns no descriptor yet, which its caller sees to; those of others stay open in their table.
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread a copy of the descriptor table (unshare(2), CLONE_FILES): as [`own_descriptors`], but what was open is open
/// in both, until both have closed it. What is opened from now on is the thread's own and must be closed by it.
///
/// # Errors
/// The kernel's, where a seccomp filter forbids it.
pub fn copied_descriptors() -> io::Result<()> {
    // SAFETY: the worker's thread makes all its descriptors after this and closes them itself; none crosses threads.
    if unsafe { libc::unshare(libc::CLONE_FILES) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Descriptors a table may hold: the soft limit; `None`: no limit.
pub fn descriptors_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// The calling thread's id.
pub fn id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// EINVAL where the machine has no such CPU or this process may not use it.
pub fn pin(cpu: u16) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(usize::from(cpu));
    rustix::thread::sched_setaffinity(None, &set).map_err(io::Error::from)
}
