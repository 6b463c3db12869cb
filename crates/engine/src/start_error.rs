//! Why a load could not be put on: what the making of a worker, and of its thread, may run into.

use crate::tls::TlsError;
use std::io;

/// Why the workers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The requests cannot be written.
    #[error("{0}")]
    Wire(#[from] wire::WireError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The driver could not be set up.
    #[error(
        "the {driver} driver cannot be set up: {source}; try --driver epoll, or raise the limit it names (ulimit -n, ulimit -l)"
    )]
    Driver {
        /// Which driver.
        driver: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The thread could not be kept on its CPU.
    #[error(
        "worker {worker} cannot be pinned to CPU {cpu}: {source}; choose CPUs of this machine that the process may use (--pin)"
    )]
    Pin {
        /// Which worker.
        worker: u16,
        /// Which CPU.
        cpu: u16,
        /// The kernel's reason.
        source: io::Error,
    },
    /// No thread could be made.
    #[error("no thread for worker {worker}: {source}; use fewer (--threads)")]
    Thread {
        /// Which worker.
        worker: u16,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Whoever was to say when the load begins said that it does not.
    #[error("the load was not begun: the word to begin did not come")]
    NotBegun,
    /// The plan asks for the simulated network.
    #[error("the driver 'sim' is for tests of the engine; use --driver uring or --driver epoll")]
    SimDriver,
}
