//! A server that sends its whole buffer, however long the message in it was.

use super::at_least_one_byte;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::server::Server;

/// A larger buffer than any server has.
const BYTES_MAX: usize = 64 << 20;

pub(super) const DEFECT: Defect = Defect {
    name: "fixed-size-reply",
    servers: &[Server::Echo],
    strength: Strength::Bytes(4096),
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "each reply has exactly this size: shorter ones are filled up with NUL bytes, longer ones cut",
    makes: "padded-reply at sizes below, truncated-reply at sizes above",
    see: "exec 3<>/dev/tcp/127.0.0.1/PORT; printf x >&3; timeout 1 cat <&3 | wc -c (bash): 4096",
    make: |setting| Ok(Box::new(FixedSizeReply { bytes: at_least_one_byte(&setting)?.min(BYTES_MAX) })),
};

#[derive(Debug)]
struct FixedSizeReply {
    bytes: usize,
}

impl Hook for FixedSizeReply {
    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        bytes.resize(self.bytes, 0);
        After::GoOn
    }
}
