//! What connects or waits for a reply: a record each, in the order of its deadline.
//!
//! All connects have one timeout and all replies another, so each kind expires in the order it was begun: a queue of
//! each, and no heap. A record is freed at once; its place in the queue is skipped when its turn comes.

use crate::driver::Slot;
use crate::ledger::Stamps;
use std::collections::VecDeque;

/// No record.
pub const NOTHING: u32 = u32::MAX;

/// Something that has begun and not ended.
#[derive(Debug, Clone, Copy)]
pub struct Pending<R> {
    /// Whose.
    pub slot: Slot,
    /// Its moments; of a connect, `sent_ns` is when it began and `first_byte_ns` when TCP was there.
    pub stamps: Stamps,
    /// What was sent; `None`: it is a connect, or what the protocol says first on one.
    pub request: Option<R>,
}

impl<R> Pending<R> {
    /// A connect.
    pub fn connect(slot: Slot, now_ns: u64) -> Self {
        Pending { slot, stamps: Stamps::sent(now_ns, now_ns, now_ns), request: None }
    }

    /// A message.
    pub fn message(slot: Slot, stamps: Stamps, request: R) -> Self {
        Pending { slot, stamps, request: Some(request) }
    }
}

/// A record's place, with the use of it that is meant.
#[derive(Debug, Clone, Copy)]
struct Turn {
    deadline_ns: u64,
    place: u32,
    use_number: u32,
}

/// All that is pending.
#[derive(Debug)]
pub struct Waiting<R> {
    records: Vec<(u32, Option<Pending<R>>)>,
    free: Vec<u32>,
    connects: VecDeque<Turn>,
    replies: VecDeque<Turn>,
}

impl<R: Copy> Waiting<R> {
    /// Room for `capacity` at once.
    pub fn with_capacity(capacity: usize) -> Self {
        let first = capacity.min(4096);
        Waiting {
            records: Vec::with_capacity(first),
            free: Vec::with_capacity(first),
            connects: VecDeque::with_capacity(first),
            replies: VecDeque::with_capacity(first),
        }
    }

    /// Adds one; returns its place.
    pub fn push(&mut self, pending: Pending<R>, deadline_ns: u64) -> u32 {
        let is_connect = pending.request.is_none();
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.records.push((0, None));
                (self.records.len() - 1) as u32
            }
        };
        let record = &mut self.records[place as usize];
        record.0 = record.0.wrapping_add(1);
        record.1 = Some(pending);
        let turn = Turn { deadline_ns, place, use_number: record.0 };
        if is_connect {
            self.connects.push_back(turn)
        } else {
            self.replies.push_back(turn)
        }
        place
    }

    /// The record of a place.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Pending<R>> {
        self.records.get_mut(place as usize)?.1.as_mut()
    }

    /// Takes a record out.
    pub fn take(&mut self, place: u32) -> Option<Pending<R>> {
        let pending = self.records.get_mut(place as usize)?.1.take()?;
        self.free.push(place);
        Some(pending)
    }

    /// Every record that is still pending.
    pub fn all(&self) -> impl Iterator<Item = &Pending<R>> {
        self.records.iter().filter_map(|(_, pending)| pending.as_ref())
    }

    /// The earliest deadline of something still pending, or an earlier moment.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let first = |queue: &VecDeque<Turn>| queue.front().map(|turn| turn.deadline_ns);
        [first(&self.connects), first(&self.replies)].into_iter().flatten().min()
    }

    /// The next record whose deadline has passed, with that deadline. It is left in its place.
    pub fn expired(&mut self, now_ns: u64) -> Option<(u64, Pending<R>)> {
        for queue in [&mut self.connects, &mut self.replies] {
            while let Some(turn) = queue.front().copied() {
                let record = &self.records[turn.place as usize];
                let is_over = record.0 != turn.use_number || record.1.is_none();
                if !is_over && turn.deadline_ns > now_ns {
                    break;
                }
                queue.pop_front();
                if let (false, Some(pending)) = (is_over, record.1) {
                    return Some((turn.deadline_ns, pending));
                }
            }
        }
        None
    }

    /// Forgets turns at the front that have ended, so that the next deadline is that of something pending.
    pub fn tidy(&mut self) {
        for queue in [&mut self.connects, &mut self.replies] {
            while let Some(turn) = queue.front() {
                let record = &self.records[turn.place as usize];
                if record.0 == turn.use_number && record.1.is_some() {
                    break;
                }
                queue.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_expire_in_order_and_their_places_are_used_again() {
        let mut waiting = Waiting::<u32>::with_capacity(4);
        let a = waiting.push(Pending::connect(1, 0), 10);
        let b = waiting.push(Pending::connect(2, 0), 20);
        assert_eq!(waiting.take(a).unwrap().slot, 1);
        assert!(waiting.take(a).is_none());
        let c = waiting.push(Pending::connect(3, 5), 30);
        assert_eq!(a, c);
        waiting.tidy();
        assert_eq!(waiting.next_deadline_ns(), Some(20));
        assert!(waiting.expired(19).is_none());
        let (deadline_ns, pending) = waiting.expired(40).unwrap();
        assert_eq!((deadline_ns, pending.slot), (20, 2));
        waiting.take(b);
        assert_eq!(waiting.expired(40).unwrap().1.slot, 3);
        assert!(waiting.expired(40).is_none());
        assert_eq!(waiting.get_mut(c).unwrap().slot, 3);
    }
}
