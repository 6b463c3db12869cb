//! A server that receives once a message, into a buffer of fixed size.

use super::at_least_one_byte;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "one-receive-reply",
    servers: &[Server::Echo],
    strength: Strength::Bytes(4096),
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "of each message only what fits a receive buffer of this size is answered, the rest is thrown away",
    makes: "truncated-reply, at sizes above the buffer and at no other",
    see: "exec 3<>/dev/tcp/127.0.0.1/PORT; dd if=/dev/zero bs=5000 count=1 >&3; timeout 1 cat <&3 | wc -c (bash): 4096",
    make: |setting| Ok(Box::new(OneReceiveReply { bytes: at_least_one_byte(&setting)? })),
};

#[derive(Debug)]
struct OneReceiveReply {
    bytes: usize,
}

impl Hook for OneReceiveReply {
    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        bytes.truncate(self.bytes);
        After::GoOn
    }
}
