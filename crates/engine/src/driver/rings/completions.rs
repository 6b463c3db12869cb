//! What comes back from the rings, and the events that it means.

use super::*;

impl Rings {
    pub(super) fn on_completion(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let (op, slot, generation) = parts(completion.user_data());
        let result = completion.result();
        let buffer = cqueue::buffer_select(completion.flags());
        let ring = self.ring_of(slot);
        let entry = *self.entries.get(slot as usize)?;
        if op == Op::Send as u8 && entry.generation != generation {
            if let Some(at) = self.orphans.iter().position(|(s, g, _)| (*s, *g) == (slot, generation)) {
                // What was taken before it was cancelled.
                self.sent_bytes += u64::try_from(result).unwrap_or(0);
                self.outbox.release(self.orphans.swap_remove(at).2);
            }
            return None;
        }
        if op == Op::Ignore as u8 || entry.generation != generation || !entry.is(OPEN | CONNECTING) {
            if let Some(id) = buffer {
                self.rings[ring].buffers.recycle(id);
            }
            return None;
        }
        match op {
            // What comes after the failed one is cancelled, and of an earlier life by then.
            op if op == Op::Prepare as u8 || op == Op::Connect as u8 => {
                if result < 0 {
                    self.close(slot);
                    return Some(Event::ConnectFailed { slot, errno: -result });
                }
                let entry = &mut self.entries[slot as usize];
                entry.set(CONNECTING, false);
                entry.set(OPEN, true);
                if self.idle == Idle::Watched {
                    self.start_receive(slot);
                }
                Some(Event::Connected { slot })
            }
            op if op == Op::Send as u8 => self.on_sent(slot, result),
            op if op == Op::Look as u8 => {
                self.entries[slot as usize].set(LOOKING, false);
                match -result {
                    libc::EAGAIN => {}
                    0 if !entry.is(RECEIVING) => return Some(self.ended(slot)),
                    errno if errno > 0 && !entry.is(RECEIVING) => return Some(Event::Failed { slot, errno }),
                    _ if !entry.is(RECEIVING) => self.start_receive(slot),
                    _ => {}
                }
                None
            }
            _ => {
                self.entries[slot as usize].set(RECEIVING, false);
                if result > 0
                    && let Some(id) = buffer
                {
                    self.held = Some((ring, id, result as usize, slot));
                    return Some(Event::Received { slot, at_ns: self.taken_at_ns });
                }
                if let Some(id) = buffer {
                    self.rings[ring].buffers.recycle(id);
                }
                match -result {
                    0 => Some(self.ended(slot)),
                    libc::ENOBUFS => {
                        self.starved.push(slot);
                        None
                    }
                    errno => Some(Event::Failed { slot, errno }),
                }
            }
        }
    }

    /// The peer will send no more.
    fn ended(&self, slot: Slot) -> Event {
        match self.send_errors.get(&slot) {
            None => Event::Closed { slot },
            Some(errno) => Event::Failed { slot, errno: *errno },
        }
    }

    fn on_sent(&mut self, slot: Slot, result: i32) -> Option<Event> {
        if result < 0 {
            let unsent = self.unsent.remove(&slot).unwrap_or_default();
            unsent.into_iter().for_each(|payload| self.outbox.release(payload));
            if self.entries[slot as usize].is(RECEIVING) {
                // What the peer said before it closed may still be on its way: the receive reports the end.
                self.send_errors.insert(slot, -result);
                return None;
            }
            return Some(Event::Failed { slot, errno: -result });
        }
        let queue = self.unsent.get_mut(&slot)?;
        let first = queue.front_mut()?;
        let sent = result as u32;
        self.sent_bytes += u64::from(sent);
        let mut drained = false;
        if sent < first.length {
            first.start += sent;
            first.length -= sent;
        } else if let Some(done) = queue.pop_front() {
            drained = Outbox::is_owned(done);
            self.outbox.release(done);
        }
        match queue.front().copied() {
            Some(next) => {
                self.start_send(slot, next, false);
                None
            }
            None => {
                self.unsent.remove(&slot);
                drained.then_some(Event::Drained { slot })
            }
        }
    }
}
