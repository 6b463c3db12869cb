//! A reply in two small writes on a socket with Nagle's algorithm on: the second waits for the peer's delayed ACK.
//!
//! Linux delays an ACK by 40 ms at least (`TCP_DELACK_MIN`); the first reply of a connection is spared, because a
//! connection begins in quick-ACK mode.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Manner, Request};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "nagle",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Writes],
    about: "TCP_NODELAY is off, and a reply leaves in two writes",
    makes: "nagle-delayed-ack: from a connection's second request on, replies take 40 ms longer, and DelayedACKs rises by one each",
    see: "strace -f -e trace=network -p PID: two sends a reply, TCP_NODELAY 0; nstat -z TcpExtDelayedACKs",
    make: |_| Ok(Box::new(Nagle)),
};

#[derive(Debug)]
struct Nagle;

impl Hook for Nagle {
    fn request(&self, request: &Request<'_>) {
        if let Some(socket) = request.socket {
            // A unix socket has no such option, and no such defect.
            let _ = rustix::net::sockopt::set_tcp_nodelay(socket, false);
        }
    }

    fn manner(&self, manner: &mut Manner) {
        manner.splits = true;
    }
}
