//! A line per request into a pipe that is read slowly: when it is full, writing blocks the worker.
//!
//! The reader is a thread of this process, as `| tee` or a logging daemon would be beside it. A pipe holds 64 KiB,
//! 512 lines, and a writer that waits is let go on when a page of them has been read.

use super::background::{Background, refused};
use crate::clock;
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use std::io::{PipeWriter, Read, Write};
use std::time::Duration;

const LINE_BYTES: usize = 128;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-log-reader",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(1)),
    about: "each request writes a line to a pipe of 512 lines, whose reader takes this long for each",
    makes: "log-bound: when the pipe is full workers are in write on it, no processor is used, and throughput is the reader's",
    see: "timeout 5 strace -f -T -e trace=write -p PID under load: writes of 128 bytes that take long; ls -l /proc/PID/fd: to a pipe",
    make: |setting| Ok(Box::new(SlowLogReader::new(&setting)?)),
};

/// Dropped in this order: at the pipe's end the reader ends.
#[derive(Debug)]
struct SlowLogReader {
    pipe: PipeWriter,
    _reader: Background,
}

impl SlowLogReader {
    fn new(setting: &Setting) -> Result<Self, ServeError> {
        let (mut read_end, pipe) = std::io::pipe().map_err(|source| refused(setting, "make its pipe", source))?;
        let takes = setting.time();
        let reader = Background::start(setting, "log-reader", move |end| {
            let mut line = [0; LINE_BYTES];
            while matches!(read_end.read(&mut line), Ok(1..)) && !end.within(takes) {}
        })?;
        Ok(Self { pipe, _reader: reader })
    }
}

impl Hook for SlowLogReader {
    fn request(&self, request: &Request<'_>) {
        let text = format!("{} worker {} answered", clock::unix_seconds(), request.worker);
        let line = format!("{text:<width$}\n", width = LINE_BYTES - 1);
        // Whole or not at all: it is smaller than PIPE_BUF.
        let _ = (&self.pipe).write(line.as_bytes());
    }
}
