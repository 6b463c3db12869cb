//! Something is opened for each connection and stays open when it is gone.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Taken};
use crate::defects::server::Server;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::os::fd::IntoRawFd;

pub(super) const DEFECT: Defect = Defect {
    name: "fd-leak",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(1),
    parts: &[],
    ways: &[],
    needs: &[Able::Connections, Able::Lasting],
    about: "so many descriptors (of /dev/null) are opened for each connection and never closed",
    makes: "fd-leak: descriptors grow with the connections that are over and stay; in the end accepting fails with EMFILE",
    see: "ls /proc/PID/fd | wc -l, before and after 100 connections that were closed",
    make: |setting| Ok(Box::new(FdLeak { number: setting.number() })),
};

#[derive(Debug)]
struct FdLeak {
    number: u64,
}

impl Hook for FdLeak {
    fn accepted(&self) -> Taken {
        for _ in 0..self.number {
            // Without a descriptor left the leak has done its work.
            let opened = openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            let Ok(opened) = opened else { break };
            let _ = opened.into_raw_fd();
        }
        Taken::AsEver
    }
}
