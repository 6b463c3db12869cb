//! A port that answers every HTTP request with one status: a backend that is up and of no use, without a proxy in front of it.
//!
//! A process of the fault's own answers (`crate::answer`), and the firewall sends new connections of this host there; open ones are
//! reset, so that who keeps connections to the backend notices ([`crate::network::firewall::Packets::Redirected`]). The server itself
//! is not asked, and sees clients that fall silent. Only what this host connects to itself by the loopback interface: a
//! proxy and its backend on one machine or in one namespace.

use super::port::port;
use super::{Around, Deed, Fault, Kind, Undoing};
use crate::answer::free_port;
use crate::change::Change;
use crate::error::ApplyError;
use crate::helper::{Helper, Job};
use crate::limits::DELAY_NS_MAX;
use crate::network::Port;
use crate::network::firewall::{Firewall, Packets};
use model::units::duration_ns;
use std::sync::Arc;

/// See the file's head.
pub(crate) const KIND: Kind = Kind {
    name: "port-answer",
    takes: "PORT STATUS [after TIME]",
    example: "8080 503",
    does: "answers every HTTP request to a port with a status, in the server's place; what is open is reset first",
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
        // Who answers is there before the first is sent to it, and until after the last.
        Ok(vec![Deed::Change(Change::Helper(helper)), Deed::Change(Change::Firewall(rules))])
    }
}
