//! A server with all it starts: its workers end with it, whatever it makes of a signal, and with the test that started it.
//!
//! It is a process group of its own, so that a Ctrl-C meant for the test does not reach it first; the kernel ends it when the
//! thread that started it ends (PR_SET_PDEATHSIG), also by `kill -9`. Its descendants are found through `/proc` and ended by id:
//! some servers' workers have groups and sessions of their own. A child that has lost its parent before is not found.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// So long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);

/// Ends a process and all its descendants when dropped: by SIGTERM first, by SIGKILL what is left after three seconds.
#[derive(Debug)]
pub struct Family {
    child: Child,
}

impl Family {
    /// Starts a command.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0);
        // SAFETY: between fork and exec the closure makes one system call, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Ok(Family { child: command.spawn()? })
    }

    /// The child.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let started = descendants(self.pid());
        signal(self.pid(), libc::SIGTERM);
        let start = Instant::now();
        while start.elapsed() < GRACE && !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        kill(&started);
    }
}

/// Ends processes, each known with its start, with SIGKILL.
pub(crate) fn kill(all: &[(u32, u64)]) {
    for (pid, start_ticks) in all {
        // An id may be another's by now: its start tells.
        if stat(*pid).is_some_and(|(_, ticks)| ticks == *start_ticks) {
            signal(*pid, libc::SIGKILL);
        }
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: kill(2) touches no memory.
    unsafe { libc::kill(pid as i32, signal) };
}

/// All that a process started and what those did, each with its start, in clock ticks since boot.
pub fn descendants(pid: u32) -> Vec<(u32, u64)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: BTreeMap<u32, (u32, u64)> = ids.filter_map(|id| Some((id, stat(id)?))).collect();
    let is_below = |mut at: u32| {
        // No chain is longer than there are processes.
        for _ in 0..all.len() {
            match all.get(&at) {
                Some((parent, _)) if *parent == pid => return true,
                Some((parent, _)) => at = *parent,
                None => return false,
            }
        }
        false
    };
    all.iter().filter(|(id, _)| is_below(**id)).map(|(id, (_, ticks))| (*id, *ticks)).collect()
}

/// A process's parent and start, by proc_pid_stat(5), fields 4 and 22; the name before them may hold anything.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_grandchild_in_a_session_of_its_own_ends_too() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & sleep 1000"]).stdout(Stdio::null());
        let family = Family::spawn(&mut command).unwrap();
        crate::wait_until("all of them run", || descendants(family.pid()).len() >= 3);
        let started = descendants(family.pid());
        drop(family);
        crate::wait_until("none is left", || started.iter().all(|(pid, ticks)| is_over(*pid, *ticks)));
    }

    /// Gone, or dead and not yet waited for by whoever inherited it.
    fn is_over(pid: u32, start_ticks: u64) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat(pid).is_none_or(|(_, ticks)| ticks != start_ticks) || text.contains(") Z ")
    }
}
