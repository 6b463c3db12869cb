//! A line per request into a pipe that is read slowly: when it is full, writing blocks the worker.
//!
//! The reader is a process of its own (`helper`), as a logging daemon is beside a server. A pipe holds 64 KiB,
//! 512 lines, and a writer that waits is let go on when a page of them has been read.

use super::background::refused;
use crate::clock;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::helper;
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

const LINE_BYTES: usize = 128;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-log-reader",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(1)),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests],
    about: "each request writes a line to a pipe of 512 lines, whose reader takes this long for each",
    makes: "log-bound: when the pipe is full workers are in write on it, no processor is used, and throughput is the reader's",
    see: "timeout 5 strace -f -T -e trace=write -p PID under load: writes of 128 bytes that take long; ls -l /proc/PID/fd: to a pipe",
    make: |setting| Ok(Box::new(SlowLogReader::new(&setting)?)),
};

/// The reader ends at the pipe's end.
#[derive(Debug)]
struct SlowLogReader {
    pipe: PipeWriter,
}

impl SlowLogReader {
    fn new(setting: &Setting) -> Result<Self, ServeError> {
        let (read_end, pipe) = std::io::pipe().map_err(|source| refused(setting, "make its pipe", source))?;
        let takes = setting.time();
        helper::start(Some(read_end.as_raw_fd()), |server| read_slowly(&read_end, takes, server))
            .map_err(|source| refused(setting, "start the reader of its log", source))?;
        Ok(Self { pipe })
    }
}

/// Reads line after line, until the pipe ends or the server is gone.
fn read_slowly(pipe: &PipeReader, takes: Duration, server: BorrowedFd<'_>) {
    let timeout = Timespec { tv_sec: takes.as_secs() as i64, tv_nsec: takes.subsec_nanos().into() };
    let mut line = [0; LINE_BYTES];
    loop {
        match rustix::io::read(pipe, &mut line) {
            Ok(1..) => {}
            Err(Errno::INTR) => continue,
            Ok(_) | Err(_) => return,
        }
        match poll(&mut [PollFd::new(&server, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

impl Hook for SlowLogReader {
    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.pipe.as_raw_fd()]
    }

    fn request(&self, request: &Request<'_>) {
        let text = format!("{} worker {} answered", clock::unix_seconds(), request.worker);
        let line = format!("{text:<width$}\n", width = LINE_BYTES - 1);
        // Whole or not at all: it is smaller than PIPE_BUF.
        let _ = (&self.pipe).write(line.as_bytes());
    }
}
