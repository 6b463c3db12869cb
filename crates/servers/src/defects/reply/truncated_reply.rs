//! Replies that end before they should.

use super::payload;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::defects::shared::Among;
use crate::error::ServeError;

pub(super) const DEFECT: Defect = Defect {
    name: "truncated-reply",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(10),
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "one reply of this many has half of its bytes (http: of its body, under its whole Content-Length), then the connection closes",
    makes: "truncated-reply: what came is less than what was due, at any size",
    see: "curl -s -o /dev/null -w '%{exitcode}\\n' 'http://127.0.0.1:PORT/?[1-20]': 18 for each that is cut (echo: a client of your own)",
    make: |setting| Ok(Box::new(TruncatedReply { server: Server::Echo, every: EveryNth::of(&setting)? })),
};

#[derive(Debug)]
struct TruncatedReply {
    server: Server,
    every: EveryNth,
}

impl Hook for TruncatedReply {
    fn carried_by(&mut self, server: Server, _: Among) -> Result<(), ServeError> {
        self.server = server;
        Ok(())
    }

    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        match payload::last(self.server, bytes) {
            Some(payload) if self.every.is_due() => {
                bytes.truncate(payload.at.start + payload.at.len() / 2);
                After::Close
            }
            _ => After::GoOn,
        }
    }
}
