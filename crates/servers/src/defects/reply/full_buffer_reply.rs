//! A server that takes a message for ended when a receive did not fill its buffer.

use super::at_least_one_byte;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "full-buffer-reply",
    servers: &[Server::Echo],
    strength: Strength::Bytes(4096),
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "a message that fills receive buffers of this size to the last byte is taken for one that goes on: no reply",
    makes: "missing-reply, at sizes that are a multiple of the buffer and at no other",
    see: "exec 3<>/dev/tcp/127.0.0.1/PORT; dd if=/dev/zero bs=8192 count=1 >&3; timeout 1 cat <&3 | wc -c (bash): 0; with bs=8191, all",
    make: |setting| Ok(Box::new(FullBufferReply { bytes: at_least_one_byte(&setting)? })),
};

#[derive(Debug)]
struct FullBufferReply {
    bytes: usize,
}

impl Hook for FullBufferReply {
    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        if bytes.len().is_multiple_of(self.bytes) { After::Swallow } else { After::GoOn }
    }
}
