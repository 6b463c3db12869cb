//! Replies that never come, on connections that stay open.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "missing-reply",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Count(10),
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "one reply of this many is not sent at all; the connection stays open",
    makes: "missing-reply: the request times out, while the connection and the server are well",
    see: "curl -s -m 1 -o /dev/null -w '%{exitcode}\\n' 'http://127.0.0.1:PORT/?[1-20]': 28 for each that is missing",
    make: |setting| Ok(Box::new(MissingReply { every: EveryNth::of(&setting)? })),
};

#[derive(Debug)]
struct MissingReply {
    every: EveryNth,
}

impl Hook for MissingReply {
    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, _: &mut Vec<u8>) -> After {
        if self.every.is_due() { After::Swallow } else { After::GoOn }
    }
}
