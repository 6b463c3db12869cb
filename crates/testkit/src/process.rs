//! A child process that does not outlive its test.

use crate::HANG_GUARD;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Ends its process, by id, when dropped.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a command.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        Ok(Guard { child: command.spawn()? })
    }

    /// The child.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill(2) touches no memory; the id is of a child not yet waited for, so it cannot have been reused.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits until somebody listens at an address, or the process has ended.
    pub(crate) fn until_it_listens(&mut self, name: &str, address: SocketAddr) -> io::Result<()> {
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("{name} was to listen at {address} and ended with {status}")));
            }
            if start.elapsed() > HANG_GUARD {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} does not listen at {address}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for its end, at most so long; `None` when it goes on.
    pub fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if start.elapsed() > at_most {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Copies a program, to be started from there.
///
/// By cp(1): a file that this process has open to write could not be started (ETXTBSY) as long as a child that another test
/// starts at that moment holds it too, between its fork and its exec.
///
/// # Errors
/// Where cp cannot be started, or fails.
pub fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let ended = Command::new("cp").arg("--").args([from, to]).status()?;
    if ended.success() { Ok(()) } else { Err(io::Error::other(format!("cp ended with {ended}"))) }
}

/// Whether a process has a handler for a signal, by proc_pid_status(5): from then on the signal does what the program makes
/// of it.
pub fn catches(pid: u32, signal: i32) -> bool {
    is_in_mask(pid, "SigCgt:", signal)
}

/// Whether a process ignores a signal.
pub fn ignores(pid: u32, signal: i32) -> bool {
    is_in_mask(pid, "SigIgn:", signal)
}

/// Whether a signal was sent to a process and no thread of it has taken it yet.
pub fn is_pending(pid: u32, signal: i32) -> bool {
    is_in_mask(pid, "ShdPnd:", signal)
}

fn is_in_mask(pid: u32, mask: &str, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap_or_default();
    u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits >> (signal - 1) & 1 == 1)
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
