//! A network namespace for a target: its kernel counters are its own, and nothing else on the machine can reach it.
//!
//! A pair of virtual Ethernet devices (veth(4)) joins it with the namespace that plimsoll runs in, a network of two addresses.
//! Made by `ip` of iproute2, as root; making and removing it are two commands in the journal of [`fault`], so that
//! `plimsoll fault undo` removes it after a `kill -9`. Not made: routes, names, a way out of it.

use super::TargetError;
use crate::made::MadeError;
use fault::faults::command::Commands;
use fault::{Begun, Change, Deed};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;

/// The two ends of a namespace's network, a /30.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Where plimsoll is.
    near: Ipv4Addr,
    /// Where the target is.
    far: Ipv4Addr,
}

impl Addresses {
    /// Where nothing else is said: of the network that RFC 2544 sets apart for measuring.
    pub const DEFAULT: Addresses = Addresses { near: Ipv4Addr::new(198, 18, 0, 1), far: Ipv4Addr::new(198, 18, 0, 2) };

    /// Those of a target's address: the second of a /30, whose first is the near end's. `None` of any other.
    pub fn of_target(far: Ipv4Addr) -> Option<Self> {
        let [a, b, c, d] = far.octets();
        let is_second = d % 4 == 2 && !far.is_loopback() && !far.is_multicast() && a != 0;
        is_second.then(|| Addresses { near: Ipv4Addr::new(a, b, c, d - 1), far })
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the target at {}, plimsoll at {}", self.far, self.near)
    }
}

/// A namespace that was made, and is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
    made: Begun,
}

impl Namespace {
    /// Makes one with these addresses; `None` where there are none.
    pub(super) fn make(addresses: Option<Addresses>, journal: &Path) -> Result<Option<Self>, TargetError> {
        let Some(addresses) = addresses else { return Ok(None) };
        if !rustix::process::geteuid().is_root() {
            return Err(TargetError::NeedsRoot);
        }
        let name = format!("plimsoll-{}", std::process::id());
        // A device's name has at most 15 bytes.
        let device = format!("pl{}", std::process::id());
        let commands = Commands { after: with(&name, &device, addresses), before: without(&name, &device) };
        let made = Begun::make(journal, vec![Deed::Change(Change::Command(commands))], &mut |_| {})
            .map_err(MadeError::from)?;
        Ok(Some(Namespace { name, made }))
    }

    /// What a command is run through to be in it.
    pub(super) fn through(&self) -> String {
        format!("ip netns exec {} ", self.name)
    }

    /// Removes it.
    pub(super) fn undo(self) -> Result<(), MadeError> {
        Ok(self.made.end().map(drop)?)
    }
}

fn with(name: &str, device: &str, Addresses { near, far }: Addresses) -> String {
    [
        format!("ip netns add {name}"),
        format!("ip link add {device} type veth peer name eth0 netns {name}"),
        format!("ip addr add {near}/30 dev {device}"),
        format!("ip link set {device} up"),
        format!("ip -n {name} addr add {far}/30 dev eth0"),
        format!("ip -n {name} link set eth0 up"),
        format!("ip -n {name} link set lo up"),
    ]
    .join(" && ")
}

/// Removes what is there of it, with whatever still runs in it; nothing where it is gone.
fn without(name: &str, device: &str) -> String {
    format!(
        "if ip link show {device} > /dev/null 2>&1; then ip link del {device} || exit 1; fi; \
         if test -e /run/netns/{name}; then for pid in $(ip netns pids {name}); do kill -9 $pid; done; ip netns del {name}; fi"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_the_second_address_of_four() {
        let of = |text: &str| Addresses::of_target(text.parse().unwrap()).map(|addresses| addresses.to_string());
        assert_eq!(of("10.77.0.6").as_deref(), Some("the target at 10.77.0.6, plimsoll at 10.77.0.5"));
        for wrong in ["10.77.0.5", "10.77.0.4", "10.77.0.7", "127.0.0.2", "224.0.0.2", "0.0.0.2"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(Addresses::of_target(Ipv4Addr::new(198, 18, 0, 2)), Some(Addresses::DEFAULT));
    }
}
