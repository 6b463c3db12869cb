//! All samplers and probes as a list: what each reads, needs and costs, and whether it works here.
//!
//! Whether it works is tried and not guessed: two readings of this process as if it were the target, with a listening
//! socket and a connection of its own on the loopback, and with every probe. Costs some tenths of a second, most of it
//! for loading the probes.

use crate::observer::{ObserveSpec, Observer};
use crate::samplers::{SAMPLERS, TARGET, bpf};
use model::bpf::Level;
use model::plan::Address;
use model::snapshot::Listed;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Every sampler and probe, in the order they are read.
pub fn list() -> Vec<Listed> {
    let mut known =
        vec![(TARGET.0, TARGET.1, "nothing; with hidepid, to be root or in its group", "1 file a process a tick")];
    known.extend(SAMPLERS.iter().map(|entry| (entry.name, entry.about, entry.needs, entry.cost)));
    known.extend(bpf::listed());
    let own_pid = std::process::id();
    // Something to see for those who look at listeners and connections. Without one they say so.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok();
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let _connection = address.and_then(|address| TcpStream::connect(address).ok());
    let mut observer = Observer::new(ObserveSpec {
        target: vec![own_pid],
        addresses: address.map(Address::Tcp).into_iter().collect(),
        own_pid,
        has_requests: true,
        probes: Level::Full,
        ..ObserveSpec::default()
    });
    observer.snapshot(0);
    observer.snapshot(1);
    let statuses = observer.statuses();
    let one = |status: model::snapshot::SamplerStatus| {
        let of = known.iter().find(|(name, ..)| *name == status.name);
        let (about, needs, cost) = of.map_or(("", "", ""), |(_, about, needs, cost)| (*about, *needs, *cost));
        Listed {
            name: status.name,
            about: about.to_owned(),
            needs: needs.to_owned(),
            cost: cost.to_owned(),
            status: status.status,
            reason: status.reason,
        }
    };
    statuses.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::snapshot::SamplerState;

    #[test]
    fn every_sampler_is_listed_with_what_it_needs_and_costs() {
        let list = list();
        for entry in SAMPLERS {
            let listed = list.iter().find(|listed| listed.name == entry.name).unwrap();
            assert_eq!((&*listed.about, &*listed.needs), (entry.about, entry.needs));
        }
        for listed in &list {
            assert!(!listed.about.is_empty() && !listed.needs.is_empty() && !listed.cost.is_empty(), "{listed:?}");
            assert!(listed.status == SamplerState::Active || !listed.reason.is_empty(), "{listed:?}");
        }
        assert!(list.iter().any(|listed| listed.name == "host/cpu" && listed.status == SamplerState::Active));
    }
}
