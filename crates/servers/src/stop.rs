//! The handle that ends a server: an eventfd every worker has in its epoll set.
//!
//! It is never read, so it stays readable: one write wakes all workers, now and later ones alike.
//! `stop` is a single `write(2)` and so may be called from a signal handler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Ends a server from another thread or a signal handler; clones end the same server.
#[derive(Debug, Clone)]
pub struct Stop {
    event: Arc<OwnedFd>,
}

impl Stop {
    /// A handle that has not been pulled.
    ///
    /// # Errors
    /// No descriptor is left, or the kernel has no memory for one.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Asks the server to finish the replies in flight and end. Async-signal-safe; more than once is
    /// as good as once.
    pub fn stop(&self) {
        // The only failure left is a full counter (2^64 - 2), at which the event is readable anyway.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// Whether `stop` was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let mut fds = [PollFd::new(&*self.event, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1))
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulled_stop_stays_pulled_for_every_clone() {
        let stop = Stop::new().unwrap();
        let other = stop.clone();
        assert!(!other.is_stopped());
        stop.stop();
        stop.stop();
        assert!(other.is_stopped());
        assert!(other.is_stopped(), "looking does not reset it");
    }
}
