//! Children of a measurement: pinned before `exec`, ended with their parent, and waited for with
//! `wait4(2)`, whose rusage holds the CPU seconds of the whole child (all its threads).
//! Here and not in the runner, because calling the kernel needs `unsafe`.
//! `ru_maxrss` is not offered: it also holds what the parent used before `exec`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How a child ended and what it cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// Exit status, or none when a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// User CPU time, in seconds.
    pub user_seconds: f64,
    /// System CPU time, in seconds.
    pub system_seconds: f64,
    /// How often its threads went to sleep (voluntary switches).
    pub sleeps: u64,
    /// It outlived its deadline and was killed.
    pub timed_out: bool,
}

impl Ended {
    /// User and system CPU time, in seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// Lets `command` run on these CPUs only (an empty list: on all), and gets it SIGTERM when the
/// thread that started it ends.
pub fn prepare(command: &mut Command, cpus: &[usize]) {
    let set = (!cpus.is_empty()).then(|| {
        // SAFETY: an all-zero cpu_set_t is a valid empty set; CPU_SET checks its bounds.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            for &cpu in cpus {
                libc::CPU_SET(cpu, &mut set);
            }
            set
        }
    });
    let in_child = move || {
        // SAFETY: both are plain system calls on plain values, safe between fork and exec.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, SIGTERM);
            match &set {
                Some(set) if libc::sched_setaffinity(0, size_of_val(set), set) != 0 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    };
    // SAFETY: the closure allocates nothing, takes no lock and calls only async-signal-safe
    // functions.
    unsafe { command.pre_exec(in_child) };
}

/// Pins this process to one CPU.
///
/// # Errors
/// What `sched_setaffinity` says, for instance when there is no such CPU.
pub fn pin_self(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set; CPU_SET checks its bounds; the set
    // lives for the call.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to one process.
///
/// # Errors
/// What `kill` says; `InvalidInput` for an id that would name a group or everything.
pub fn signal(pid: u32, number: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().filter(|&pid| pid > 1).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill takes plain integers; the id is a single process.
    match unsafe { libc::kill(pid, number) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// SIGTERM, SIGKILL, SIGSTOP and SIGCONT, so that the runner needs no libc.
pub use libc::{SIGCONT, SIGKILL, SIGSTOP, SIGTERM};

/// Waits for a child without taking part of its CPU; kills it when it outlives `limit`.
///
/// # Errors
/// What `pidfd_open`, `poll` or `wait4` say.
pub fn wait(child: Child, limit: Duration) -> io::Result<Ended> {
    let timed_out = !ends_within(child.id(), limit)?;
    if timed_out {
        signal(child.id(), SIGKILL)?;
    }
    let mut status = 0;
    // SAFETY: status and usage are valid and writable; `child` is not reaped yet and is dropped
    // unwaited below, so its id cannot have been given to another process.
    let (reaped, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = child.id().cast_signed();
        let reaped = libc::wait4(pid, &raw mut status, 0, &raw mut usage);
        (reaped, usage)
    };
    if reaped < 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Ended {
        status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        user_seconds: seconds(usage.ru_utime),
        system_seconds: seconds(usage.ru_stime),
        sleeps: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
        timed_out,
    })
}

/// Whether process `pid` ends within `limit`: sleeps on its pidfd, see pidfd_open(2).
fn ends_within(pid: u32, limit: Duration) -> io::Result<bool> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.cast_signed(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let deadline = Instant::now() + limit;
    loop {
        let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis();
        let mut polled = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `polled` is one valid pollfd.
        match unsafe { libc::poll(&raw mut polled, 1, i32::try_from(left_ms).unwrap_or(i32::MAX)) } {
            0 if left_ms < i32::MAX as u128 => return Ok(false),
            1 => return Ok(true),
            count if count < 0 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, cpus: &[usize], limit: Duration) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        prepare(&mut command, cpus);
        wait(command.spawn().unwrap(), limit).unwrap()
    }

    #[test]
    fn status_signal_and_deadline_are_told_apart() {
        let long = Duration::from_secs(30);
        let left = run("exit 3", &[], long);
        assert_eq!((left.status, left.signal, left.timed_out), (Some(3), None, false));
        let ended = run("kill -TERM $$", &[], long);
        assert_eq!((ended.status, ended.signal), (None, Some(SIGTERM)));
        let late = run("exec sleep 60", &[], Duration::from_millis(50));
        assert_eq!((late.signal, late.timed_out), (Some(SIGKILL), true));
    }

    #[test]
    fn the_child_is_pinned_and_its_cpu_time_is_its_own() {
        let script = "test \"$(taskset -pc $$ | sed 's/.*: //')\" = 0 \
                      && i=0 && while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let ended = run(script, &[0], Duration::from_secs(60));
        assert_eq!(ended.status, Some(0));
        assert!(ended.cpu_seconds() > 0.01, "{ended:?}");
    }

    #[test]
    fn no_group_and_no_init_is_signalled() {
        for pid in [0, 1, u32::MAX] {
            assert!(signal(pid, SIGTERM).is_err());
        }
    }
}
