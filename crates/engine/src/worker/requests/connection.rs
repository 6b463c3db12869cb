//! The state of one connection in the worker's slab.

use crate::ledger::Stamps;
use crate::link::Tally;
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};

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

impl State {
    /// Whether it is on its way to take requests.
    pub fn is_being_made(self) -> bool {
        matches!(self, State::Connecting | State::Securing | State::Greeting)
    }
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub struct InFlight<R> {
    /// What was sent, in the protocol's words.
    pub request: R,
    /// Its number on its connection, from 0 on.
    pub number: u32,
    /// Bytes that were given to be sent.
    pub length: u32,
    /// Bytes of its reply that have come.
    pub received: u32,
    /// Where it ends in all that the connection was given to send, bytes.
    pub ends_at: u64,
    /// Attempts at it that have failed.
    pub failed: u32,
    /// Its moments.
    pub stamps: Stamps,
}

/// Requests on their way on one connection, oldest first, which is the order of their numbers and of their timeouts. One
/// alone needs no memory of its own. A reply may take any of them out: those behind it, or before it, move up.
#[derive(Debug, Default)]
pub struct Outstanding<R> {
    first: Option<InFlight<R>>,
    rest: VecDeque<InFlight<R>>,
}

impl<R> Outstanding<R> {
    /// Memory for `depth` requests.
    pub fn with_depth(depth: u16) -> Self {
        Outstanding { first: None, rest: VecDeque::with_capacity(usize::from(depth.saturating_sub(1))) }
    }

    /// The oldest.
    #[inline]
    pub fn oldest(&mut self) -> Option<&mut InFlight<R>> {
        self.first.as_mut()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &InFlight<R>> {
        self.first.iter().chain(&self.rest)
    }

    /// Adds the youngest.
    #[inline]
    pub fn push(&mut self, request: InFlight<R>) {
        if self.first.is_none() { self.first = Some(request) } else { self.rest.push_back(request) }
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<InFlight<R>> {
        let oldest = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        oldest
    }

    /// The one of a number.
    pub fn of_number(&mut self, number: u32) -> Option<&mut InFlight<R>> {
        let first = self.first.as_mut()?;
        if first.number == number {
            return Some(first);
        }
        let place = place_of(&self.rest, first.number, number)?;
        self.rest.get_mut(place)
    }

    /// Takes the one of a number.
    pub fn take(&mut self, number: u32) -> Option<InFlight<R>> {
        let first = self.first.as_ref()?.number;
        if first == number {
            return self.pop();
        }
        let place = place_of(&self.rest, first, number)?;
        self.rest.remove(place)
    }
}

/// Where a number is among those that follow `first`; it counts on from there, over the end of its range.
fn place_of<R>(rest: &VecDeque<InFlight<R>>, first: u32, number: u32) -> Option<usize> {
    rest.binary_search_by_key(&number.wrapping_sub(first), |request| request.number.wrapping_sub(first)).ok()
}

/// What a connection's protocol has said that was no request, as far as the kernel may not have taken it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Said {
    /// Bytes said since then.
    bytes: usize,
    /// Where that was in all that the connection was given to send.
    since: u64,
}

impl Said {
    /// So many more bytes are said, as the last of the `given` ones, of which the kernel had taken `taken` before. Returns a
    /// figure that what lies unsent is never more than twice of.
    pub fn add(&mut self, bytes: usize, given: u64, taken: u64) -> usize {
        if taken >= self.since {
            *self = Said { bytes: 0, since: given };
        }
        self.bytes += bytes;
        self.bytes
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection<C, R> {
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
    pub outstanding: Outstanding<R>,
    /// Requests sent in this life: the number of the next.
    pub sent: u32,
    /// Requests it may carry in this life.
    pub limit: u32,
    /// Bytes it was given to send in this life.
    pub given: u64,
    /// Replies received in this life.
    pub answered: u32,
    /// Service time of the last of them, nanoseconds.
    pub before_ns: u64,
    /// Failures to connect in a row, and lives that ended without a reply.
    pub failures: u32,
    /// Closed pace: users whose request is due and waits for the connection.
    pub waiting: u16,
    /// Closed pace: since when.
    pub waiting_since_ns: u64,
    /// Closed pace: the first of the requests that are to be tried again as soon as it is there.
    pub retry: u32,
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
    /// Framed protocols: when anything last came.
    pub heard_ns: u64,
    /// Framed protocols: what was said and is no request.
    pub said: Said,
    /// Our end in this life, once it was asked for; an IPv6 one is asked for each time, as it is four times as long.
    pub local: Cell<Option<SocketAddrV4>>,
}

impl<C, R> Connection<C, R> {
    /// A life ends: what it was asked and gave goes to the tally.
    pub fn end_life(&mut self) {
        self.tally.add(self.sent, self.answered);
        (self.sent, self.answered) = (0, 0);
    }

    /// Another life begins, of at most `limit` requests, with a protocol that knows nothing yet.
    pub fn begin_life(&mut self, protocol: C, limit: u32) {
        self.end_life();
        self.protocol = protocol;
        self.limit = limit;
        self.given = 0;
        self.said = Said::default();
        self.local = Cell::default();
    }

    /// Our end of it: `ask` is a system call, and a connection has many requests that are kept.
    pub fn local(&self, ask: impl FnOnce() -> Option<SocketAddr>) -> Option<SocketAddr> {
        if let Some(known) = self.local.get() {
            return Some(known.into());
        }
        let asked = ask();
        if let Some(SocketAddr::V4(v4)) = asked {
            self.local.set(Some(v4));
        }
        asked
    }

    /// Whether it may be given another request.
    #[inline]
    pub fn takes_more(&self) -> bool {
        self.sent < self.limit
    }

    /// A handshake begins that no request follows.
    pub fn await_handshake(&mut self, stamps: Stamps)
    where
        R: Default,
    {
        self.outstanding.push(InFlight {
            request: R::default(),
            number: 0,
            length: 0,
            received: 0,
            ends_at: 0,
            failed: 0,
            stamps,
        });
    }

    /// A request leaves, as the last of what the connection was given; `length`: bytes.
    #[inline]
    pub fn push(&mut self, request: R, length: u64, stamps: Stamps) {
        self.push_again(request, length, stamps, 0);
    }

    /// The same of one of which so many attempts have failed.
    #[inline]
    pub fn push_again(&mut self, request: R, length: u64, stamps: Stamps, failed: u32) {
        self.given += length;
        self.outstanding.push(InFlight {
            request,
            number: self.sent,
            length: length.min(u64::from(u32::MAX)) as u32,
            received: 0,
            ends_at: self.given,
            failed,
            stamps,
        });
        self.sent = self.sent.wrapping_add(1);
    }

    /// What it was asked and gave in all.
    pub fn tally_at_end(&self) -> Tally {
        let mut tally = Tally { origin: self.origin, ..self.tally };
        tally.add(self.sent, self.answered);
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u32) -> InFlight<u32> {
        InFlight { request: number, number, length: 0, received: 0, ends_at: 0, failed: 0, stamps: Stamps::default() }
    }

    #[test]
    fn outstanding_requests_leave_in_order() {
        let mut o = Outstanding::with_depth(3);
        for round in 0..3 {
            assert!(o.is_empty());
            for n in 0..=round {
                o.push(request(n));
            }
            assert_eq!(o.iter().count(), round as usize + 1);
            assert_eq!(o.oldest().unwrap().request, 0);
            for n in 0..=round {
                assert_eq!(o.pop().unwrap().request, n);
            }
            assert!(o.pop().is_none());
        }
    }

    #[test]
    fn any_of_the_outstanding_leaves_by_its_number() {
        for start in [0, 7, u32::MAX - 2] {
            let mut o = Outstanding::with_depth(6);
            (0..6u32).for_each(|n| o.push(request(start.wrapping_add(n))));
            let number = |n: u32| start.wrapping_add(n);
            assert!(o.take(number(6)).is_none() && o.take(start.wrapping_sub(1)).is_none());
            for (n, left) in [(3, [0, 1, 2, 4, 5].as_slice()), (0, &[1, 2, 4, 5]), (5, &[1, 2, 4]), (2, &[1, 4])] {
                assert_eq!(o.of_number(number(n)).unwrap().number, number(n));
                assert_eq!(o.take(number(n)).unwrap().number, number(n));
                assert!(o.take(number(n)).is_none() && o.of_number(number(n)).is_none(), "only once");
                let numbers: Vec<u32> = o.iter().map(|r| r.number).collect();
                assert_eq!(numbers, left.iter().map(|n| number(*n)).collect::<Vec<_>>(), "the order stays");
            }
            o.push(request(number(6)));
            assert_eq!(o.oldest().unwrap().number, number(1));
            assert_eq!([1, 4, 6].map(|n| o.take(number(n)).is_some()), [true; 3]);
            assert!(o.is_empty());
        }
    }

    #[test]
    fn what_is_said_is_forgotten_when_it_was_taken() {
        let mut said = Said::default();
        assert_eq!(said.add(10, 110, 100), 10);
        assert_eq!(said.add(10, 130, 109), 20, "the first may still lie there");
        assert_eq!(said.add(10, 150, 110), 10, "the kernel has come by it");
    }
}
