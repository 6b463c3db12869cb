//! A process beside the server, as the backend that it asks or the reader of its log is one.
//!
//! It is no child of the server: it is forked twice, so that what observes the server and its descendants does not take it
//! for a part of them. It ends with the server, `kill -9` of that included, by a pidfd of it: `PR_SET_PDEATHSIG` would
//! bind it to its own parent, which is gone at once. Its work may neither allocate nor lock nor panic, as in
//! `echo::process`: the process it was forked from may have other threads.

use crate::echo::process::{ExitOnDrop, block_all_signals, close_all_but, set_signal_mask};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, getpid, pidfd_open, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// What the process is called; any other program could be.
const NAME: &std::ffi::CStr = c"daemon";

/// Starts a process that keeps the descriptor `keep`, if any, and runs `work` with a pidfd that is readable once the server is gone.
pub(super) fn start(keep: Option<RawFd>, work: impl FnOnce(BorrowedFd<'_>)) -> io::Result<()> {
    let server = pidfd_open(getpid(), PidfdFlags::empty())?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mask = block_all_signals();
    // SAFETY: what the child does until it ends is safe after a fork, as the module's head says.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let _ended = ExitOnDrop;
        let _ = setsid();
        // SAFETY: as above.
        if unsafe { libc::fork() } == 0 {
            settle(keep, &server, &null, &mask);
            work(rustix::fd::AsFd::as_fd(&server));
        }
        return Ok(());
    }
    let error = io::Error::last_os_error();
    set_signal_mask(&mask);
    let Some(child) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Err(error) };
    // It has ended once the other is there. It fails only where SIGCHLD is ignored, and children are nobody's.
    while matches!(waitpid(Some(child), WaitOptions::empty()), Err(Errno::INTR)) {}
    Ok(())
}

/// The first steps of the new process: a name, signals and descriptors of its own.
fn settle(keep: Option<RawFd>, server: &OwnedFd, null: &OwnedFd, mask: &libc::sigset_t) {
    // SAFETY: numbers, and a pointer to a constant; both calls are safe after a fork. Handlers of the server's would act
    // on memory that is only a copy here.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    // Whoever reads what the server prints waits for its end, not for this process's.
    let _ = dup2_stdin(null).and_then(|()| dup2_stdout(null)).and_then(|()| dup2_stderr(null));
    let server = server.as_raw_fd();
    let mut kept = [keep.unwrap_or(server), server];
    kept.sort_unstable();
    close_all_but(&kept);
    set_signal_mask(mask);
}
