//! Child processes of the `fork` and `prefork` designs: made, told to end, reaped; none outlives its parent.
//!
//! The process that forks may have other threads (a command's signal thread, the control socket), and one of them may
//! hold a lock of the allocator or of stdout at that moment, for ever in the child. So whatever is needed is made before
//! the fork, and a child makes system calls and touches atomics and memory that is already there, nothing else, until
//! `_exit`: no allocation, no lock, no output, no unwinding (fork(2), signal-safety(7)).
//!
//! - A child keeps only the descriptors it needs: a client's own end, a control client's or a pipe's that stayed open
//!   in it would hide their close. It ends with its parent by `PR_SET_PDEATHSIG`, `kill -9` of that included.
//! - SIGTERM ends a child in order. SIGINT is ignored: a terminal sends it to all, and the parent ends its children.
//! - The parent knows each by a pidfd, which becomes readable when it has ended, and waits for none but its own.

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getppid, kill_process, pidfd_open, pidfd_send_signal,
    waitid, waitpid,
};

use super::blocking::{QUIET, set_timeouts};
use super::drain::Drain;

/// In a child process: whether it was told to end. A static, because a signal handler sets it.
pub(super) static DRAIN: Drain = Drain::new();
/// In a child process: the descriptor of the connection it serves, -1 for none.
static SERVES: AtomicI32 = AtomicI32::new(-1);

/// A child process.
pub(super) struct Child {
    pidfd: OwnedFd,
    pid: Pid,
}

impl Child {
    /// Forks. The child keeps the descriptors `keep` (sorted) and the standard streams, runs `work` and ends.
    /// `work` must keep to what the module's head says. `handed_over` is the child's alone: the parent closes it first
    /// of all, so that its number can be the pidfd's where no other is left.
    pub(super) fn spawn(keep: &[RawFd], handed_over: Option<OwnedFd>, work: impl FnOnce()) -> io::Result<Self> {
        let parent = rustix::process::getpid();
        // No signal reaches the child before it has its own handlers: those it inherits act on the parent's behalf.
        let mask = block_all_signals();
        // SAFETY: what the child does until it ends is safe after a fork, as the module's head says.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let _ended = ExitOnDrop;
            settle(parent, keep, &mask);
            work();
            return Err(io::ErrorKind::Other.into());
        }
        let error = io::Error::last_os_error();
        set_signal_mask(&mask);
        drop(handed_over);
        let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Err(error) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { pidfd, pid }),
            Err(error) => {
                // Without it the child's end would not be seen.
                let _ = kill_process(pid, Signal::KILL);
                while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
                Err(error.into())
            }
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Asks the child to finish what is in flight and end (SIGTERM).
    pub(super) fn end(&self) {
        // It fails only if the child has ended already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::TERM);
    }

    /// Kills the child (SIGKILL).
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Waits until the child has ended. True if it exited by itself and without an error.
    pub(super) fn reap(self) -> bool {
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(status) => return status.is_some_and(|status| status.exit_status() == Some(0)),
                Err(Errno::INTR) => {}
                // Children are reaped by themselves where SIGCHLD is ignored: how it ended is not known.
                Err(_) => return true,
            }
        }
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// In a child: tells the handler of SIGTERM which connection it serves from here on.
pub(super) fn serves(connection: Option<RawFd>) {
    SERVES.store(connection.unwrap_or(-1), Ordering::SeqCst);
}

/// Nothing of the parent's code runs on in a child, however `work` ends.
pub(crate) struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        // SAFETY: ends the process without running anything of it.
        unsafe { libc::_exit(i32::from(std::thread::panicking())) };
    }
}

/// The first steps of a forked process: it dies with its parent, handles its own signals, and closes all but `keep`.
fn settle(parent: Pid, keep: &[RawFd], mask: &libc::sigset_t) {
    // SAFETY: numbers and pointers to locals; the handler is async-signal-safe; all calls are (signal-safety(7)).
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0_u64, 0_u64, 0_u64);
        // The parent may have ended before that.
        if getppid() != Some(parent) {
            libc::_exit(1);
        }
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = end_in_order as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGTERM, &raw const action, ptr::null_mut());
        action.sa_sigaction = libc::SIG_IGN;
        libc::sigaction(libc::SIGINT, &raw const action, ptr::null_mut());
    }
    close_all_but(keep);
    set_signal_mask(mask);
}

/// Closes all descriptors but these (sorted) and the standard streams. Whoever owned them is in the parent.
pub(crate) fn close_all_but(keep: &[RawFd]) {
    let mut from = 3;
    for fd in keep.iter().map(|fd| fd.unsigned_abs()) {
        if fd > from {
            close_range(from, fd - 1);
        }
        from = from.max(fd + 1);
    }
    close_range(from, u32::MAX);
}

fn close_range(from: u32, to: u32) {
    // SAFETY: numbers only; whoever owned these descriptors is in the parent, and no owner is dropped here.
    unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
}

extern "C" fn end_in_order(_: libc::c_int) {
    // SAFETY: the address of this thread's errno, which what was interrupted may be about to read.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    DRAIN.begin();
    let connection = SERVES.load(Ordering::SeqCst);
    if connection >= 0 {
        // SAFETY: set while the connection is open.
        set_timeouts(unsafe { BorrowedFd::borrow_raw(connection) }, QUIET);
    }
    *errno = before;
}

/// Returns the mask before.
pub(crate) fn block_all_signals() -> libc::sigset_t {
    // SAFETY: plain values that are initialised before they are read; only this thread's mask is changed.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        let mut before: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Of the calling thread.
pub(crate) fn set_signal_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask was given by the kernel; only this thread's is changed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}
