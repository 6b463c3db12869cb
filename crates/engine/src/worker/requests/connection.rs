//! The state of one connection in the worker's slab.

use crate::ledger::Stamps;
use crate::link::Tally;
use std::collections::VecDeque;
use wire::Payload;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No socket; a timer will connect it, or the load is ending.
    Down,
    /// Connecting.
    Connecting,
    /// In the TLS handshake.
    Securing,
    /// Established; what the protocol says first is not answered yet.
    Greeting,
    /// Established, and requests may be sent.
    Open,
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    /// What was sent.
    pub payload: Payload,
    /// Its moments.
    pub stamps: Stamps,
}

/// Requests on their way on one connection, oldest first. One alone needs no memory of its own.
#[derive(Debug, Default)]
pub struct Outstanding {
    first: Option<InFlight>,
    rest: VecDeque<InFlight>,
}

impl Outstanding {
    /// Memory for `depth` requests.
    pub fn with_depth(depth: u16) -> Self {
        Outstanding { first: None, rest: VecDeque::with_capacity(usize::from(depth.saturating_sub(1))) }
    }

    /// The oldest.
    #[inline]
    pub fn oldest(&mut self) -> Option<&mut InFlight> {
        self.first.as_mut()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.first.iter().chain(&self.rest)
    }

    /// Adds the youngest.
    #[inline]
    pub fn push(&mut self, request: InFlight) {
        if self.first.is_none() { self.first = Some(request) } else { self.rest.push_back(request) }
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<InFlight> {
        let oldest = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        oldest
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection<C> {
    /// What it is doing.
    pub state: State,
    /// The origin it belongs to.
    pub origin: u16,
    /// Which of the origin's addresses the next connect takes.
    pub address_turn: u32,
    /// Changes with every new life: tokens of an old one are void.
    pub life: u32,
    /// The protocol's state.
    pub protocol: C,
    /// Requests on their way.
    pub outstanding: Outstanding,
    /// Requests sent in this life.
    pub sent: u32,
    /// Replies received in this life.
    pub answered: u32,
    /// Failures to connect in a row, and lives that ended without a reply.
    pub failures: u32,
    /// Closed pace: users whose request is due and waits for the connection.
    pub waiting: u16,
    /// Closed pace: since when.
    pub waiting_since_ns: u64,
    /// When the connect began.
    pub connect_ns: u64,
    /// When TCP was there, where a TLS handshake follows.
    pub tcp_ns: u64,
    /// When what it is doing has taken too long; `u64::MAX`: never.
    pub deadline_ns: u64,
    /// The moment of its deadline timer in the heap; `u64::MAX`: it has none.
    pub timer_ns: u64,
    /// What it was asked and gave in its earlier lives.
    pub tally: Tally,
}

impl<C> Connection<C> {
    /// A life ends: what it was asked and gave goes to the tally.
    pub fn end_life(&mut self) {
        self.tally.add(self.sent, self.answered);
        (self.sent, self.answered) = (0, 0);
    }

    /// What it was asked and gave in all.
    pub fn tally_at_end(&self) -> Tally {
        let mut tally = self.tally;
        tally.add(self.sent, self.answered);
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_requests_leave_in_order() {
        let mut o = Outstanding::with_depth(3);
        let request = |n| InFlight { payload: Payload { blob: n, start: 0, length: 1 }, stamps: Stamps::default() };
        for round in 0..3 {
            assert!(o.is_empty());
            for n in 0..=round {
                o.push(request(n));
            }
            assert_eq!(o.len(), round as usize + 1);
            assert_eq!(o.oldest().unwrap().payload.blob, 0);
            for n in 0..=round {
                assert_eq!(o.pop().unwrap().payload.blob, n);
            }
            assert!(o.pop().is_none());
        }
    }
}
