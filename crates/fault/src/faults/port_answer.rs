//! A port that answers every HTTP request with one status: a backend that is up and of no use, without a proxy in front of it.
//!
//! A process of the fault's own answers (`crate::answer`), and the firewall sends new connections of this host there
//! ([`crate::network::firewall::Packets::Redirected`]). Open ones are ended ([`crate::sockets`]), so that who keeps connections to the
//! backend, or waits for a reply, notices; one that the kernel cannot end, or to another address of this host, is reset when
//! it is spoken on. Only what this host connects to itself by the loopback interface: a
//! proxy and its backend on one machine or in one namespace.

use super::port::port;
use super::{Act, Around, Deed, Fault, Kind, Undoing};
use crate::answer::free_port;
use crate::change::Change;
use crate::error::ApplyError;
use crate::helper::{Helper, Job};
use crate::limits::DELAY_NS_MAX;
use crate::network::Port;
use crate::network::firewall::{Firewall, Packets};
use crate::sockets::{DropError, State, drop_all};
use model::units::duration_ns;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// See the file's head.
pub(crate) const KIND: Kind = Kind {
    name: "port-answer",
    takes: "PORT STATUS [after TIME]",
    example: "8080 503",
    does: "answers every HTTP request to a port with a status, in the server's place; what is open is ended first",
    needs: "CAP_NET_ADMIN, nftables, a kernel with NAT; only loopback",
    undone: Undoing::Back("the table of its rules is removed, and who answered is ended; an hour at the longest"),
    parse: |words| {
        let port = port(words)?;
        let status = words.parsed("a status from 200 to 599", |word| {
            word.parse().ok().filter(|status| (200..=599).contains(status))
        })?;
        let time = |word: &str| duration_ns(word).ok().filter(|ns| *ns <= DELAY_NS_MAX);
        let after_ns = if words.take("after") { words.parsed("a time up to 60s", time)? } else { 0 };
        Ok(Arc::new(Answering { port, status, after_ns }))
    },
};

#[derive(Debug)]
struct Answering {
    port: u16,
    status: u16,
    after_ns: u64,
}

impl Fault for Answering {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let to =
            free_port().map_err(|error| ApplyError::unreadable("a free port of the loopback interface", &error))?;
        let helper = Helper::planned(Job::Answers { port: to, status: self.status, after_ns: self.after_ns })?;
        let rules = Firewall::new(Port::named(self.port, false)?, Packets::Redirected { to });
        let open = Open { to: [(Ipv4Addr::LOCALHOST, self.port).into(), (Ipv6Addr::LOCALHOST, self.port).into()] };
        // Who answers is there before the first is sent to it, and until after the last; and who is ended comes to it.
        let changes = [Change::Helper(helper), Change::Firewall(rules)].map(Deed::Change);
        Ok(changes.into_iter().chain([Deed::Act(Box::new(open))]).collect())
    }
}

/// Connections that are open to a server: what is done to them once is not undone.
#[derive(Debug)]
struct Open {
    to: [SocketAddr; 2],
}

impl Act for Open {
    fn words(&self) -> String {
        format!("connections open to port {} (loopback): ended", self.to[0].port())
    }

    /// The right is that of the rules.
    fn may(&self) -> Result<(), ApplyError> {
        Ok(())
    }

    fn begin(&mut self) -> Result<(), ApplyError> {
        match drop_all(State::Established, &self.to) {
            Ok(_) | Err(DropError::NotSupported { .. }) => Ok(()),
            Err(error) => Err(ApplyError::Missing {
                name: format!("port {}", self.to[0].port()),
                expected: "to end connections that are open".to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}
