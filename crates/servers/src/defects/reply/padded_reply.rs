//! Replies with more behind them than is due.

use super::payload;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;

/// As rest of a buffer that was longer than its message.
const PADDING: [u8; 16] = [0; 16];

pub(super) const DEFECT: Defect = Defect {
    name: "padded-reply",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(10),
    about: "one reply of this many has 16 NUL bytes behind it that are not part of it (http: of those up to 64 KiB)",
    makes: "padded-reply: more comes than was due, and the next reply on the connection does not begin where it should",
    see: "exec 3<>/dev/tcp/127.0.0.1/PORT; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -c 16 <&3 | od -An -tx1 (bash, with padded-reply=1): NULs",
    make: |setting| Ok(Box::new(PaddedReply { server: Server::Echo, every: EveryNth::of(&setting)? })),
};

#[derive(Debug)]
struct PaddedReply {
    server: Server,
    every: EveryNth,
}

impl Hook for PaddedReply {
    fn carried_by(&mut self, server: Server) {
        self.server = server;
    }

    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        if payload::last(self.server, bytes).is_some_and(|payload| payload.is_whole) && self.every.is_due() {
            bytes.extend_from_slice(&PADDING);
        }
        After::GoOn
    }
}
