//! A line per request, written to the disk before the reply may leave.
//!
//! The file is made in the folder for temporary files (`TMPDIR`, else /tmp) and has no name any more from then on, so
//! nothing of it stays however the server ends. Where that folder is in memory, fsync costs nothing.

use super::background::refused;
use crate::clock;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::error::ServeError;
use rustix::fs::{Mode, OFlags, fsync, ftruncate, open};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The log begins anew at this size.
const LOG_BYTES_MAX: u64 = 64 << 20;

pub(super) const DEFECT: Defect = Defect {
    name: "fsync-log",
    servers: &[Server::Echo, Server::Http, Server::Proxy, Server::Names],
    strength: Strength::Count(1),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests],
    about: "each request writes a line to a log in TMPDIR, and one of this many waits for fsync",
    makes: "log-bound: most of a request's time is in fsync on the log; workers are in D or waiting for the disk",
    see: "timeout 5 strace -f -T -e trace=write,fsync -p PID under load: a write and an fsync for each request",
    make: |setting| Ok(Box::new(FsyncLog::new(&setting)?)),
};

#[derive(Debug)]
struct FsyncLog {
    file: OwnedFd,
    written: AtomicU64,
    every: EveryNth,
}

impl FsyncLog {
    fn new(setting: &Setting) -> Result<Self, ServeError> {
        let every = EveryNth::of(setting)?;
        let failed = |source: rustix::io::Errno| refused(setting, "make its log in TMPDIR", source);
        let name = format!("plimsoll-access-{}-{}", std::process::id(), clock::monotonic_ns());
        let path = std::env::temp_dir().join(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        rustix::fs::unlink(&path).map_err(failed)?;
        Ok(Self { file, written: AtomicU64::new(0), every })
    }
}

impl Hook for FsyncLog {
    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.file.as_raw_fd()]
    }

    fn request(&self, request: &Request<'_>) {
        let line = format!("{} worker {} answered\n", clock::unix_seconds(), request.worker);
        // A log that cannot be written is no reason not to serve.
        let Ok(n) = rustix::io::write(&self.file, line.as_bytes()) else { return };
        if self.written.fetch_add(n as u64, Ordering::Relaxed) > LOG_BYTES_MAX {
            self.written.store(0, Ordering::Relaxed);
            let _ = ftruncate(&self.file, 0);
        }
        if self.every.is_due() {
            let _ = fsync(&self.file);
        }
    }
}
