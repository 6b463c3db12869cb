//! Replies with more behind them than is due.

use super::payload;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Setting, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::defects::shared::Among;
use crate::error::ServeError;

/// A larger buffer than any server has.
const BYTES_MAX: u64 = 64 << 20;

pub(super) const DEFECT: Defect = Defect {
    name: "padded-reply",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(10),
    parts: &[Part { name: "bytes", default: Strength::Bytes(16) }],
    ways: &[],
    needs: &[Able::Replies],
    about: "one reply of this many has NUL bytes (bytes=16) behind it that are not part of it (http: of those up to 64 KiB)",
    makes: "padded-reply: more comes than was due, and the next reply on the connection does not begin where it should",
    see: "exec 3<>/dev/tcp/127.0.0.1/PORT; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -c 16 <&3 | od -An -tx1 (bash, with padded-reply=1): NULs",
    make: |setting| {
        Ok(Box::new(PaddedReply { server: Server::Echo, every: EveryNth::of(&setting)?, padding: padding(&setting)? }))
    },
};

#[derive(Debug)]
struct PaddedReply {
    server: Server,
    every: EveryNth,
    /// How much, as rest of a buffer that was longer than its message.
    padding: usize,
}

impl Hook for PaddedReply {
    fn carried_by(&mut self, server: Server, _: Among) -> Result<(), ServeError> {
        self.server = server;
        Ok(())
    }

    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        if payload::last(self.server, bytes).is_some_and(|payload| payload.is_whole) && self.every.is_due() {
            bytes.resize(bytes.len() + self.padding, 0);
        }
        After::GoOn
    }
}

fn padding(setting: &Setting) -> Result<usize, ServeError> {
    match setting.part("bytes") {
        bytes if bytes <= BYTES_MAX => Ok(bytes as usize),
        bytes => Err(ServeError::DefectPart {
            defect: DEFECT.name,
            part: "bytes",
            expected: format!("{BYTES_MAX} or less"),
            got: bytes.to_string(),
        }),
    }
}
