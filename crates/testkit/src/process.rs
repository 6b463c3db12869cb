//! A child process that does not outlive its test.

use std::io;
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

/// Whether a process has a handler for a signal, by proc_pid_status(5): from then on the signal does what the program makes
/// of it.
pub fn catches(pid: u32, signal: i32) -> bool {
    is_in_mask(pid, "SigCgt:", signal)
}

/// Whether a process ignores a signal.
pub fn ignores(pid: u32, signal: i32) -> bool {
    is_in_mask(pid, "SigIgn:", signal)
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
