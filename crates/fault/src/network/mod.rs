//! What is done to packets: whose they are, and the two means by which it is done.
//!
//! [`firewall`] has rules in a table of its own (nftables), by which packets are refused, answered by a reset, dropped, lost or
//! sent elsewhere; [`queue`] gives them to a process, which holds, changes or doubles them. Only packets of a port that was named
//! are touched. In the host's own network namespace these are those of the loopback interface alone: a fault must not
//! reach who only shares the machine.

pub mod firewall;
mod program;
pub mod queue;

use crate::error::ApplyError;
use crate::place;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A TCP port that was named, and where packets to it are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its number.
    pub port: u16,
    /// Only what arrives on the loopback interface; else what arrives on any.
    pub is_loopback: bool,
    /// The number of the network namespace it is in.
    pub network: u64,
}

/// Why packets of a port are not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortError {
    /// Which namespace this is cannot be read.
    NoNamespace,
    /// The whole machine's network, and not only its loopback interface.
    Host,
}

impl PortError {
    /// What there should be.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            PortError::NoNamespace => "to read which network namespace this is",
            PortError::Host => "a network namespace other than the host's, or only the loopback interface",
        }
    }

    /// What there is, and what to do.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            PortError::NoNamespace => "/proc cannot be read: mount it",
            PortError::Host => {
                "packets that others send to this machine are not touched: leave any-interface out, or run it in a namespace \
                 (ip netns exec NAME plimsoll ...)"
            }
        }
    }
}

impl Port {
    /// The port in this thread's network namespace. `is_any_interface` asks for packets that come by any interface, which
    /// is what is done in a namespace that was made for it, and never in the host's.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn here(port: u16, is_any_interface: bool) -> Result<Self, PortError> {
        let network = place::network().ok_or(PortError::NoNamespace)?;
        let is_host = is_hosts(network);
        match is_any_interface {
            true if is_host => Err(PortError::Host),
            _ => Ok(Port { port, is_loopback: !is_any_interface, network }),
        }
    }

    /// The same, with the error of a fault.
    pub(crate) fn named(port: u16, is_any_interface: bool) -> Result<Self, ApplyError> {
        Port::here(port, is_any_interface).map_err(|error| ApplyError::Missing {
            name: format!("port {port}"),
            expected: error.expected().to_owned(),
            reason: error.reason().to_owned(),
        })
    }

    /// What a journal says of a port, looked at as input is.
    pub(crate) fn is_allowed(&self) -> bool {
        self.port != 0 && (self.is_loopback || !is_hosts(self.network))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} ({})", self.port, if self.is_loopback { "loopback" } else { "any interface" })
    }
}

/// Whether a network namespace is the host's: that of the first process, pid_namespaces(7). Where that cannot be read, this
/// namespace is taken to be the host's, as then less is allowed. In a container the first process is the container's.
pub(crate) fn is_hosts(network: u64) -> bool {
    place::network_of(1).is_none_or(|first| first == network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_other_interfaces_are_refused() {
        let here = Port::here(80, false).unwrap();
        assert!(here.is_loopback && here.is_allowed());
        if is_hosts(here.network) {
            assert_eq!(Port::here(80, true), Err(PortError::Host));
            assert!(!Port { is_loopback: false, ..here }.is_allowed());
        }
    }
}
