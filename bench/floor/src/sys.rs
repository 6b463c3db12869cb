//! The few system calls the loops make, each behind a safe function with the same name.
//! Failures are `io::Error`s; nothing is retried here but `EINTR` where the caller could do
//! nothing else. Sockets are plain descriptors: the loops own them until they end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{IntoRawFd, RawFd};

/// CLOCK_MONOTONIC in nanoseconds.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until CLOCK_MONOTONIC reaches `due_ns`; returns early on a signal.
pub fn sleep_until(due_ns: u64) {
    let due = libc::timespec {
        tv_sec: (due_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (due_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `due` is a valid timespec; a null remainder is allowed with TIMER_ABSTIME.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const due, std::ptr::null_mut()) };
}

/// CPU time of this process so far, user and system, in seconds.
#[must_use]
pub fn own_cpu_seconds() -> f64 {
    // SAFETY: an all-zero rusage is a valid value, and getrusage only writes into it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Lets the kernel end this process after `seconds`, whatever it is stuck in: the guard that
/// keeps a loop bounded without a clock reading in it.
pub fn end_after(seconds: f64) {
    // SAFETY: alarm has no preconditions; SIGALRM's default action ends the process.
    unsafe { libc::alarm(seconds.ceil().clamp(1.0, f64::from(u32::MAX)) as libc::c_uint) };
}

/// Takes the 50 µs of timer slack a normal thread has down to 1 ns; see PR_SET_TIMERSLACK(2const).
pub fn tighten_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches only this thread's own setting.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Raises the soft limit of descriptors to the hard one; a refusal shows later as EMFILE.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a valid rlimit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// A connected socket: non-blocking if asked, without Nagle's delay.
///
/// # Errors
/// Whatever `connect` says.
pub fn connect(addr: SocketAddr, nonblocking: bool) -> io::Result<RawFd> {
    let stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(nonblocking)?;
    Ok(stream.into_raw_fd())
}

/// Closes a descriptor; its errors have no consequence for a loop.
pub fn close(fd: RawFd) {
    // SAFETY: the loops close only descriptors they made and forget them at once.
    unsafe { libc::close(fd) };
}

/// Receives without waiting; `Ok(0)` is the peer's end.
///
/// # Errors
/// `WouldBlock` when there is nothing, else what `recv` says.
#[inline]
pub fn recv(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe one valid, writable slice.
    let got = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Sends without waiting and without SIGPIPE; may send a part only.
///
/// # Errors
/// `WouldBlock` when the socket is full, else what `send` says.
#[inline]
pub fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe one valid slice.
    let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// An epoll instance with its list of events.
#[derive(Debug)]
pub struct Epoll {
    fd: RawFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
}

impl Epoll {
    /// An instance that takes up to `batch` events at once.
    ///
    /// # Errors
    /// What `epoll_create1` says.
    pub fn new(batch: usize) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; batch.max(1)];
        Ok(Self { fd, events, ready: 0 })
    }

    /// Watches `fd` for `interest` (EPOLLIN, …); `token` comes back with its events.
    ///
    /// # Errors
    /// What `epoll_ctl` says.
    pub fn add(&self, fd: RawFd, interest: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, token)
    }

    /// Changes what a watched `fd` is watched for.
    ///
    /// # Errors
    /// What `epoll_ctl` says.
    pub fn modify(&self, fd: RawFd, interest: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, token)
    }

    fn control(&self, operation: i32, fd: RawFd, interest: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest as u32, u64: token };
        // SAFETY: `event` is valid for the call; the kernel copies it.
        match unsafe { libc::epoll_ctl(self.fd, operation, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits at most `timeout_ms` (−1: for ever) and returns how many events there are.
    /// An interrupting signal is no event.
    ///
    /// # Errors
    /// What `epoll_wait` says, but for EINTR.
    #[inline]
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<usize> {
        let room = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: pointer and length describe the valid, writable list of events.
        let count = unsafe { libc::epoll_wait(self.fd, self.events.as_mut_ptr(), room, timeout_ms) };
        self.ready = usize::try_from(count).unwrap_or(0);
        if count < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(self.ready)
    }

    /// Token and flags of the `index`-th event of the last [`Epoll::wait`].
    #[inline]
    #[must_use]
    pub fn event(&self, index: usize) -> (u64, i32) {
        let event = self.events[index];
        (event.u64, event.events as i32)
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        close(self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_hands_back_the_token_and_the_bytes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = connect(listener.local_addr().unwrap(), true).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let mut epoll = Epoll::new(4).unwrap();
        epoll.add(fd, libc::EPOLLIN, 77).unwrap();
        assert_eq!(epoll.wait(0).unwrap(), 0);
        let mut buffer = [0_u8; 8];
        assert_eq!(recv(fd, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        io::Write::write_all(&mut &peer, b"abc").unwrap();
        assert_eq!(epoll.wait(5_000).unwrap(), 1);
        assert_eq!(epoll.event(0).0, 77);
        assert_eq!(recv(fd, &mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
        close(fd);
    }
}
