//! A server that ends each connection behind its reply, and says so.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Manner};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "keepalive-off",
    servers: &[Server::Http],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "each reply says Connection: close, and the connection is closed behind it, in order",
    makes: "keepalive-off: as many connections a second as requests, each with a handshake, the server's side in TIME-WAIT",
    see: "curl -sv http://127.0.0.1:PORT/ http://127.0.0.1:PORT/: Connection: close, twice connected",
    make: |_| Ok(Box::new(KeepaliveOff)),
};

#[derive(Debug)]
struct KeepaliveOff;

impl Hook for KeepaliveOff {
    fn manner(&self, manner: &mut Manner) {
        manner.keeps_none = true;
    }
}
