//! A small descriptor limit, and a server that asks the listener again at once when it has none left.
//!
//! The listener stays readable while a connection waits at it, so asking again burns a core. The sound server leaves it
//! alone for a while instead.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::reactor::Accepting;
use rustix::process::{Resource, getrlimit, setrlimit};

pub(super) const DEFECT: Defect = Defect {
    name: "fd-limit",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(40),
    parts: &[],
    ways: &[],
    needs: &[Able::Listeners],
    about: "the process may have so many descriptors, and goes on accepting at once when it has no more",
    makes: "fd-exhaustion: accept fails with EMFILE hundreds of thousands of times a second in a worker that burns its core; then ListenOverflows",
    see: "strace -c -f -e trace=accept4 -p PID, with more connections than the limit; grep 'open files' /proc/PID/limits",
    make: |setting| {
        let limit = setting.number();
        match getrlimit(Resource::Nofile).maximum {
            Some(hard) if limit > hard => Err(ServeError::DefectMisused {
                defect: setting.defect.name,
                expected: format!("a limit up to {hard}"),
                got: limit.to_string(),
                next: "that is the hard limit (ulimit -Hn), name a smaller one",
            }),
            _ => Ok(Box::new(FdLimit { limit })),
        }
    },
};

#[derive(Debug)]
struct FdLimit {
    limit: u64,
}

impl Hook for FdLimit {
    fn begin(&self) {
        let mut limits = getrlimit(Resource::Nofile);
        limits.current = Some(self.limit);
        // Below the hard limit it cannot fail.
        let _ = setrlimit(Resource::Nofile, limits);
    }

    fn accepting(&self, accepting: &mut Accepting) {
        accepting.spins = true;
    }
}
