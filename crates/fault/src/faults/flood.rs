//! Floods of connections: made and left at once, or begun and never gone on with.
//!
//! A process of the fault's own makes them (`crate::clients::flood`, `crate::clients::syn`). Connections go where the user says. SYNs
//! go to a port of this host alone, from addresses of the loopback network, and what answers these is dropped, by rules of
//! their own; so nothing of a SYN flood leaves the machine, and whoever listens on another interface alone is not reached.
//! What a server has half open when it ends is given up by its kernel at the next answer that it sends.

use super::port::port;
use super::rude_clients::{NEEDS, UNDONE, looked_up};
use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::error::{ApplyError, BadArgument};
use crate::helper::{Helper, Job};
use crate::limits::FLOOD_PER_S_MAX;
use crate::network::Port;
use crate::network::firewall::{Firewall, Packets};
use crate::words::Words;
use model::units::rate_per_s;
use std::sync::Arc;

/// See the file's head.
pub(crate) const CONNECTIONS: Kind = Kind {
    name: "connection-flood",
    takes: "HOST:PORT RATE",
    example: "127.0.0.1:8080 500/s",
    does: "makes so many connections a second, and leaves each by a reset as soon as it is made",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| Ok(Arc::new(Connections { to: words.address()?, per_s: rate(words)? })),
};
/// See the file's head.
pub(crate) const SYN: Kind = Kind {
    name: "syn-flood",
    takes: "PORT RATE",
    example: "8080 500/s",
    does: "begins so many connections a second to a port of this host, and goes on with none (IPv4, loopback)",
    needs: "CAP_NET_RAW, CAP_NET_ADMIN, nftables",
    undone: Undoing::Back("its process is ended, and the table of its rules removed; an hour at the longest"),
    parse: |words| Ok(Arc::new(Syn { port: port(words)?, per_s: rate(words)? })),
};

fn rate(words: &mut Words<'_>) -> Result<u32, BadArgument> {
    let expected = format!("a rate from 1/s to {FLOOD_PER_S_MAX}/s, such as 500/s");
    words.parsed(&expected, |word| {
        let per_s = rate_per_s(word).ok()?.round();
        (1.0..=f64::from(FLOOD_PER_S_MAX)).contains(&per_s).then_some(per_s as u32)
    })
}

#[derive(Debug)]
struct Connections {
    to: String,
    per_s: u32,
}

impl Fault for Connections {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let job = Job::Flood { to: looked_up(&self.to)?, per_s: self.per_s };
        Ok(vec![Deed::Change(Change::Helper(Helper::planned(job)?))])
    }
}

#[derive(Debug)]
struct Syn {
    port: u16,
    per_s: u32,
}

impl Fault for Syn {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let unanswered = Firewall::new(Port::named(self.port, false)?, Packets::Unanswered);
        let helper = Helper::planned(Job::SynFlood { port: self.port, per_s: self.per_s })?;
        // Answers are dropped before the first comes, and until the last SYN is sent.
        Ok(vec![Deed::Change(Change::Firewall(unanswered)), Deed::Change(Change::Helper(helper))])
    }
}
