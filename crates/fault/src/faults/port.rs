//! A TCP port that refuses, resets, or says nothing: a server that is gone, a proxy that gives up, a firewall in the way.
//!
//! Rules of nftables for packets that come to the port ([`crate::network::firewall`]), counted. Only what comes by the loopback
//! interface; in a network namespace other than the host's, with `any-interface`, what comes by any. The server itself is not
//! touched, and sees clients that fall silent.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::error::{ApplyError, BadArgument};
use crate::network::Port;
use crate::network::firewall::{Firewall, Packets};
use crate::words::Words;
use std::sync::Arc;

/// Arguments of all of them.
pub(crate) const TAKES: &str = "PORT [any-interface]";
/// What all of them need.
pub(crate) const NEEDS: &str =
    "CAP_NET_ADMIN, nftables; only loopback, but for a network namespace other than the host's";
/// How all of them are undone.
pub(crate) const UNDONE: Undoing = Undoing::Back("the table of its rules is removed");

/// See the file's head.
pub(crate) const REFUSED: Kind = Kind {
    name: "port-refused",
    takes: TAKES,
    example: "8080",
    does: "answers a connect as if nobody listened; what is open goes on",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| packets(words, Packets::Refused),
};
/// See the file's head.
pub(crate) const RESET: Kind = Kind {
    name: "port-reset",
    takes: TAKES,
    example: "8080",
    does: "lets a connect succeed, and answers whatever is sent then by a reset, to both ends",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| packets(words, Packets::Reset),
};
/// See the file's head.
pub(crate) const DROPPED: Kind = Kind {
    name: "port-dropped",
    takes: TAKES,
    example: "8080",
    does: "drops all that comes to a port, without a word",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| packets(words, Packets::Dropped),
};

fn packets(words: &mut Words<'_>, packets: Packets) -> Result<Arc<dyn Fault>, BadArgument> {
    let port = port(words)?;
    Ok(Arc::new(Rules { port, is_any_interface: words.take("any-interface"), packets }))
}

/// The port's number.
pub(crate) fn port(words: &mut Words<'_>) -> Result<u16, BadArgument> {
    words.parsed("a port from 1 to 65535", |word| word.parse().ok().filter(|port| *port > 0))
}

/// Rules for packets of a port.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) port: u16,
    pub(crate) is_any_interface: bool,
    pub(crate) packets: Packets,
}

impl Fault for Rules {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let port = Port::named(self.port, self.is_any_interface)?;
        Ok(vec![Deed::Change(Change::Firewall(Firewall::new(port, self.packets)))])
    }
}
