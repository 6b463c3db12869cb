//! Replies of the right length with a wrong byte.

use super::payload;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::defects::shared::Among;
use crate::error::ServeError;

pub(super) const DEFECT: Defect = Defect {
    name: "corrupted-reply",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(10),
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "one reply of this many has a bit flipped in the middle of its payload (of a large one, of its first 64 KiB)",
    makes: "corrupted-reply: as many bytes as were due, one of them wrong, at any size",
    see: "curl -s 'http://127.0.0.1:PORT/bytes?n=1000&[1-20]' -o '/tmp/reply#1'; md5sum /tmp/reply* | cut -c -32 | sort | uniq -c: not all the same",
    make: |setting| Ok(Box::new(CorruptedReply { server: Server::Echo, every: EveryNth::of(&setting)? })),
};

#[derive(Debug)]
struct CorruptedReply {
    server: Server,
    every: EveryNth,
}

impl Hook for CorruptedReply {
    fn carried_by(&mut self, server: Server, _: Among) -> Result<(), ServeError> {
        self.server = server;
        Ok(())
    }

    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        if let Some(payload) = payload::last(self.server, bytes)
            && self.every.is_due()
        {
            bytes[payload.at.start + payload.at.len() / 2] ^= 1;
        }
        After::GoOn
    }
}
