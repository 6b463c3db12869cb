//! SIGPIPE at its default, and replies in two plain writes: a client that leaves early ends the server.
//!
//! The first write to a peer that has closed is answered with a reset; the second meets it, and the signal ends the
//! process. Rust programs ignore SIGPIPE from their start, and the workers block it: both is undone here.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Manner};
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;

pub(super) const DEFECT: Defect = Defect {
    name: "sigpipe",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Writes, Able::Sigpipe],
    about: "SIGPIPE has its default disposition, and a reply leaves in two calls of write(2) (not with --tls)",
    makes: "sigpipe-death: the process dies by signal 13 when a client sends a request and closes before its reply",
    see: "strace -f -e trace=write,sendto -p PID, while a client closes early: write = -1 EPIPE, then killed by SIGPIPE",
    make: |setting| Ok(Box::new(Sigpipe { defect: setting.defect })),
};

#[derive(Debug)]
struct Sigpipe {
    defect: &'static Defect,
}

impl Hook for Sigpipe {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        self.defect.without_tls(options)
    }

    fn begin(&self) {
        // SAFETY: the disposition is the default one, so no code of ours runs on the signal; `set` is a plain value that
        // sigemptyset initialises before it is used; the pointers are valid for the calls.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        }
    }

    fn manner(&self, manner: &mut Manner) {
        manner.splits = true;
        manner.raises_sigpipe = true;
    }
}
