//! What the target's machine saw of single requests: when each came, was read, and was answered.
//!
//! Only in windows of the observer's probes, and only until they have been joined with the client's own stamps
//! ([`crate::split`]): a recording keeps what was joined.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A request on a socket of the target, up to one send of its reply: a reply of several sends is several of these, with the
/// same arrival. Moments are nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exchange {
    /// The other end, as the target's machine has it.
    pub peer: SocketAddr,
    /// The target's port.
    pub port: u16,
    /// When the first bytes were in the socket, for the target to read.
    pub arrived_ns: i64,
    /// When the target first read of them.
    pub read_ns: i64,
    /// When what it then sent left.
    pub written_ns: i64,
}

/// Those of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Exchanges {
    /// Since when all of them were seen: the window's begin, nanoseconds since the run's start.
    pub from_ns: i64,
    /// Until when: its end, or the reading.
    pub to_ns: i64,
    /// From when on some did not fit; `None`: all did.
    pub lost_from_ns: Option<i64>,
    /// How far their moments may be from the run's clock, nanoseconds; 0: it is the same clock.
    pub clock_error_ns: u64,
    /// All of them since the reading before, in no order.
    pub list: Vec<Exchange>,
}

impl Exchanges {
    /// Sets all moments to another clock that shows less by so much.
    pub fn set_back(&mut self, by_ns: i64) {
        let back = |at_ns: &mut i64| *at_ns = at_ns.saturating_sub(by_ns);
        [&mut self.from_ns, &mut self.to_ns].into_iter().chain(&mut self.lost_from_ns).for_each(back);
        for exchange in &mut self.list {
            [&mut exchange.arrived_ns, &mut exchange.read_ns, &mut exchange.written_ns].into_iter().for_each(back);
        }
    }
}
