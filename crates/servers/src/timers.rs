//! Deadlines of connections: a heap with at most a few entries a connection, however often it moves.
//!
//! Pushing a deadline later costs nothing: the old entry stays, and when it comes up the owner says
//! that its time has not come. That is right for idle timeouts, which move with every request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::slab::Token;

/// No deadline.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// The deadlines of one worker.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new() }
    }

    /// Makes `token` come up at `at_ns`.
    pub(crate) fn push(&mut self, at_ns: u64, token: Token) {
        self.heap.push(Reverse((at_ns, token.bits())));
    }

    /// When the next entry comes up.
    pub(crate) fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(NEVER_NS, |Reverse((at_ns, _))| *at_ns)
    }

    /// The next entry whose time has come: when it was for, and for whom.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Token)> {
        if self.next_ns() > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, bits))| (at_ns, Token::from_bits(bits)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_up_in_order_and_not_before() {
        let mut timers = Timers::new();
        assert_eq!(timers.next_ns(), NEVER_NS);
        timers.push(30, Token::from_bits(3));
        timers.push(10, Token::from_bits(1));
        assert_eq!(timers.next_ns(), 10);
        assert_eq!(timers.pop_due(9), None);
        assert_eq!(timers.pop_due(30), Some((10, Token::from_bits(1))));
        assert_eq!(timers.pop_due(30), Some((30, Token::from_bits(3))));
        assert_eq!(timers.pop_due(u64::MAX - 1), None);
    }
}
