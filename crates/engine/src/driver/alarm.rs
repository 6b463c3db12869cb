//! The end of a sleep in an epoll set: a timerfd that stays armed over many waits.
//!
//! A timeout given to each wait would cost a kernel timer started and cancelled for each reply, and is rounded up to a
//! millisecond where `epoll_pwait2` is missing.

use rustix::event::Timespec;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::io;
use std::os::fd::OwnedFd;

/// See the module's head. Add it to the set edge-triggered.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    /// When it will fire, nanoseconds since the run's start; `u64::MAX`: it is not armed.
    at_ns: u64,
}

impl Alarm {
    /// An alarm that is not set.
    ///
    /// # Errors
    /// The kernel's, where it gives no descriptor.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { timer, at_ns: u64::MAX })
    }

    /// What to watch.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.timer
    }

    /// Makes sure that it fires by `until_ns`; it may fire earlier, which costs one more turn of the loop. Returns the
    /// timeout of the wait: none, or at once when the time has come.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&mut self, until_ns: u64, now_ns: u64, origin_ns: u64) -> io::Result<Option<Timespec>> {
        if until_ns < self.at_ns {
            if until_ns <= now_ns {
                return Ok(Some(timespec(0)));
            }
            let fires = Itimerspec { it_interval: timespec(0), it_value: timespec(origin_ns.saturating_add(until_ns)) };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &fires)?;
            self.at_ns = until_ns;
        }
        Ok(None)
    }

    /// It has fired.
    pub fn fired(&mut self) {
        self.at_ns = u64::MAX;
    }
}

/// Nanoseconds in the kernel's form.
pub fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}
