//! What the bare servers have in common: a port of the loopback, a CPU, and an end.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::{Args, UsageError};
use crate::{process, sys};

/// How long a server lives when not told otherwise, in seconds.
const SECONDS_DEFAULT: f64 = 3600.0;

/// Connections that may wait to be accepted; `net.core.somaxconn` may allow fewer.
const BACKLOG: i32 = 4096;

/// Set by SIGTERM.
static END: AtomicBool = AtomicBool::new(false);

/// What a server is told.
#[derive(Debug)]
pub struct Server {
    port: u16,
    cpu: Option<usize>,
    seconds: f64,
}

impl Server {
    /// Reads it from the command line.
    ///
    /// # Errors
    /// No port, or values out of bounds.
    pub fn from_args(args: &Args) -> Result<Self, UsageError> {
        Ok(Self {
            port: args.required("port")?,
            cpu: args.optional("cpu")?,
            seconds: args.seconds(Some(SECONDS_DEFAULT))?,
        })
    }

    /// Goes to its CPU, sets the end of its time, and listens.
    ///
    /// # Errors
    /// The CPU or the port cannot be had.
    pub fn begin(&self) -> io::Result<TcpListener> {
        sys::end_after(self.seconds);
        if let Some(cpu) = self.cpu {
            process::pin_self(cpu)?;
        }
        end_on_sigterm();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
        listener.set_nonblocking(true)?;
        // std listens with a short queue, which a thousand connects at once overflow.
        // SAFETY: listen takes two integers; on a listening socket it only sets the queue's length.
        unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
        Ok(listener)
    }
}

/// Whether SIGTERM came.
#[must_use]
pub fn is_to_end() -> bool {
    END.load(Ordering::Relaxed)
}

extern "C" fn note_sigterm(_: libc::c_int) {
    END.store(true, Ordering::Relaxed);
}

/// SIGTERM interrupts the wait and ends the loop in order, so that its figures are written.
fn end_on_sigterm() {
    // SAFETY: the handler only stores into an atomic; without SA_RESTART the wait returns.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_sigterm as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut());
    }
}
