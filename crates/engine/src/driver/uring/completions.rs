//! What comes back from the kernel, and the events that it means.

use super::*;
use crate::driver::stamps::stamp_of;

impl Uring {
    pub(super) fn on_completion(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let (op, slot, generation) = parts(completion.user_data());
        if op == Op::Timer as u8 {
            // One that is later than the earliest may still be on its way: it ends a wait early, which does no harm.
            self.timer_ns = u64::MAX;
            return None;
        }
        let (result, flags) = (completion.result(), completion.flags());
        let buffer = cqueue::buffer_select(flags);
        let entry = self.entries.get_mut(slot as usize)?;
        if op == Op::Send as u8 && entry.generation != generation {
            // What was taken before it was cancelled.
            self.sent_bytes += u64::try_from(result).unwrap_or(0);
            self.release_orphan(slot, generation);
            return None;
        }
        if op == Op::Ignore as u8 || entry.generation != generation || entry.socket.is_none() {
            if let Some(id) = buffer {
                self.buffers.recycle(id);
            }
            return None;
        }
        match op {
            op if op == Op::Connect as u8 => {
                entry.connecting = false;
                if result < 0 {
                    self.close(slot);
                    return Some(Event::ConnectFailed { slot, errno: -result });
                }
                self.start_receive(slot);
                Some(Event::Connected { slot })
            }
            op if op == Op::Send as u8 => self.on_sent(slot, result),
            op if op == Op::QuietSend as u8 => self.on_send_failed(slot, result),
            _ => {
                let more = cqueue::more(flags);
                entry.receiving = more;
                if result > 0
                    && let Some(id) = buffer
                {
                    let (start, length, stamp_ns) = self.unpack(id, result as usize);
                    if length > 0 {
                        self.held = Some((id, start, length));
                        if !more {
                            self.start_receive(slot);
                        }
                        return Some(Event::Received { slot, at_ns: self.arrival_ns(stamp_ns) });
                    }
                    // With a header before the bytes, the end of the stream is a header alone.
                    self.buffers.recycle(id);
                    return Some(self.ended(slot));
                }
                if let Some(id) = buffer {
                    self.buffers.recycle(id);
                }
                match -result {
                    0 => Some(self.ended(slot)),
                    // All buffers hold bytes that are still to be looked at: go on when they are back.
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
        match self.rests[slot as usize].send_errno {
            0 => Event::Closed { slot },
            errno => Event::Failed { slot, errno },
        }
    }

    /// Where the bytes are in a buffer of which the kernel filled `filled`, how many, and their stamp.
    fn unpack(&self, id: u16, filled: usize) -> (usize, usize, Option<u64>) {
        let Some((_, header)) = &self.stamping else { return (0, filled, None) };
        let buffer = self.buffers.bytes(id, filled);
        match types::RecvMsgOut::parse(buffer, header) {
            Ok(message) => {
                let length = message.payload_data().len();
                (buffer.len() - length, length, stamp_of(message.control_data()))
            }
            Err(()) => (0, 0, None),
        }
    }

    /// When bytes came, since the run's start: by the stamp where there is one, else when they were taken.
    fn arrival_ns(&mut self, stamp_ns: Option<u64>) -> u64 {
        let taken_ns = self.taken_at_ns + self.origin_ns;
        let moved_ns = match (&mut self.stamping, stamp_ns) {
            (Some((clock, _)), Some(stamp_ns)) => clock.monotonic_ns(stamp_ns, taken_ns),
            _ => None,
        };
        moved_ns.map_or(self.taken_at_ns, |ns| ns.saturating_sub(self.origin_ns))
    }

    fn on_sent(&mut self, slot: Slot, result: i32) -> Option<Event> {
        let (entry, rest) = (&mut self.entries[slot as usize], &mut self.rests[slot as usize]);
        let sending = std::mem::take(&mut entry.sending);
        self.at_once -= usize::from(sending == Sending::AtOnce);
        if result == -libc::EAGAIN && sending == Sending::AtOnce {
            // No room after all: handed over again, this time to wait for it.
            let first = rest.unsent.front().copied()?;
            self.start_send(slot, first, Sending::InTime);
            return None;
        }
        if result < 0 {
            rest.unsent.drain(..).for_each(|payload| self.outbox.release(payload));
            return self.on_send_failed(slot, result);
        }
        let first = rest.unsent.front_mut()?;
        let sent = result as u32;
        self.sent_bytes += u64::from(sent);
        if sent < first.length {
            first.start += sent;
            first.length -= sent;
            let left = *first;
            self.start_send(slot, left, Sending::InTime);
            return None;
        }
        let done = rest.unsent.pop_front()?;
        let next = rest.unsent.front().copied();
        self.outbox.release(done);
        if let Some(next) = next {
            self.start_send(slot, next, Self::sending_of(next));
            return None;
        }
        Outbox::is_owned(done).then_some(Event::Drained { slot })
    }

    /// What the peer said before it closed may still be on its way: the receive reports the end.
    fn on_send_failed(&mut self, slot: Slot, result: i32) -> Option<Event> {
        self.rests[slot as usize].send_errno = -result;
        (!self.entries[slot as usize].receiving).then_some(Event::Failed { slot, errno: -result })
    }

    /// A send of a connection's earlier life has completed: its buffer, if it had one, is free.
    fn release_orphan(&mut self, slot: Slot, generation: u32) {
        if let Some(at) = self.orphans.iter().position(|o| (o.slot, o.generation) == (slot, generation)) {
            let orphan = self.orphans.swap_remove(at);
            self.at_once -= usize::from(orphan.sending == Sending::AtOnce);
            self.outbox.release(orphan.payload);
        }
    }
}
