//! A server that takes bytes for a C string.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "strlen-reply",
    servers: &[Server::Echo],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "a reply ends before the first NUL byte of its message, as strlen counts",
    makes: "truncated-reply where a payload has a NUL byte, missing-reply where it begins with one, nothing for text",
    see: "exec 3<>/dev/tcp/127.0.0.1/PORT; printf 'ab\\0cd' >&3; timeout 1 cat <&3 | wc -c (bash): 2",
    make: |_| Ok(Box::new(StrlenReply)),
};

#[derive(Debug)]
struct StrlenReply;

impl Hook for StrlenReply {
    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        if let Some(end) = memchr::memchr(0, bytes) {
            bytes.truncate(end);
        }
        After::GoOn
    }
}
