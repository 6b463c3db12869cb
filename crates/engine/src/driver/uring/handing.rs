//! What goes to the kernel: entries of the submission queue, and the one call that hands them over and sleeps.

use super::*;
use crate::driver::clock::sleep_ns;
use crate::driver::socket::{bind_to, stream};
use crate::driver::{SENT_BYTES_MAX, stamps};
use buffers::{GROUP, fd};

/// Attempts to make room in a full submission queue. The first one does, unless the kernel refuses.
pub const ATTEMPTS_MAX: u32 = 8;
/// Calls in a row that the kernel may refuse for want of memory or room before that is an error, and the sleep after
/// each: a second together.
const REFUSED_MAX: u32 = 1000;
const REFUSED_SLEEP_NS: u64 = 1_000_000;

impl Uring {
    /// Puts an entry into the submission queue; makes room there first, if there is none.
    #[inline]
    pub(super) fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: every pointer in an entry made here is to a blob, a buffer of the outbox, a socket address, the boxed
        // message header or timer, or nothing: these never move, are not changed or freed before the entry has completed
        // (a buffer is released by its send's completion alone), and outlive the ring (it is the first field).
        // Descriptors are checked by the kernel.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            self.queued += 1;
        } else {
            self.push_later(entry);
        }
    }

    #[cold]
    fn push_later(&mut self, entry: &squeue::Entry) {
        for _ in 0..ATTEMPTS_MAX {
            if self.broken.is_some() {
                return;
            }
            self.submit();
            // SAFETY: as in `push`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.queued += 1;
                return;
            }
            // It may take no more because its completions have no room (EBUSY).
            let into = &mut self.taken;
            self.ring.completion().for_each(|completion| into.push(completion));
        }
        self.broken = Some(stuck());
    }

    pub(super) fn submit(&mut self) {
        self.queued = 0;
        if let Err(error) = self.ring.submit()
            && !is_passing(&error)
        {
            // What cannot be handed over now never can; the worker hears of it when it waits.
            self.broken.get_or_insert(refused(&error));
        }
    }

    pub(super) fn start_connect(&mut self, slot: Slot, address: usize) -> io::Result<()> {
        let socket = stream(&self.addresses[address], false)?;
        if self.stamping.is_some() {
            stamps::enable(&socket)?;
        }
        if let Some(source) = self.sources.of_slot(slot, &self.addresses[address]) {
            bind_to(&socket, source)?;
        }
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1) & GENERATION_MASK;
        entry.connecting = true;
        let address = &self.addresses[address];
        let op = opcode::Connect::new(fd(&socket), address.as_ptr().cast(), address.len()).build().user_data(key(
            Op::Connect,
            slot,
            entry.generation,
        ));
        entry.socket = Some(socket);
        self.push(&op);
        Ok(())
    }

    pub(super) fn start_receive(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        entry.receiving = true;
        let op = match &self.stamping {
            None => opcode::RecvMulti::new(fd(socket), GROUP).build(),
            Some((_, header)) => opcode::RecvMsgMulti::new(fd(socket), &raw const **header, GROUP).build(),
        };
        let op = op.user_data(key(Op::Receive, slot, entry.generation));
        self.push(&op);
    }

    /// Queues a send whose completion is waited for, behind those of its connection.
    pub(super) fn queue_send(&mut self, slot: Slot, payload: Payload) {
        if self.entries[slot as usize].socket.is_none() {
            return self.outbox.release(payload);
        }
        let unsent = &mut self.rests[slot as usize].unsent;
        unsent.push_back(payload);
        if unsent.len() == 1 {
            self.start_send(slot, payload, Self::sending_of(payload));
        }
    }

    /// How a send is asked to complete, the first time. What is small hardly ever finds no room, so it is told not to wait
    /// for any: then it is known when its completion is there, and a wait can tell it from a reply.
    pub(super) fn sending_of(payload: Payload) -> Sending {
        if payload.length <= SMALL_SEND_BYTES { Sending::AtOnce } else { Sending::InTime }
    }

    /// Hands a send to the kernel, of a large one the beginning. With [`Sending::Nothing`] only a failure is told.
    #[inline]
    pub(super) fn start_send(&mut self, slot: Slot, payload: Payload, sending: Sending) {
        let entry = &mut self.entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        let bytes = self.outbox.bytes(payload);
        let (told_as, flags, wait) = match sending {
            Sending::Nothing => (Op::QuietSend, squeue::Flags::SKIP_SUCCESS, 0),
            Sending::AtOnce => (Op::Send, squeue::Flags::empty(), libc::MSG_DONTWAIT),
            Sending::InTime => (Op::Send, squeue::Flags::empty(), 0),
        };
        if sending != Sending::Nothing {
            entry.sending = sending;
            self.at_once += usize::from(sending == Sending::AtOnce);
        }
        let (start, length) = (bytes.as_ptr(), bytes.len().min(SENT_BYTES_MAX) as u32);
        let send = if sending == Sending::Nothing && entry.quiet_sends == IN_TABLE {
            opcode::Send::new(types::Fixed(slot), start, length)
        } else {
            opcode::Send::new(fd(socket), start, length)
        };
        let op = send.flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | wait).build().flags(flags).user_data(key(
            told_as,
            slot,
            entry.generation,
        ));
        self.push(&op);
    }

    /// Counts a quiet send of a connection, and puts its socket into the ring's table when there were enough of them that
    /// more are likely: the kernel then need not look it up for each.
    #[inline]
    pub(super) fn count_quiet_send(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        if entry.quiet_sends < IN_TABLE - 1 {
            entry.quiet_sends += 1;
            if entry.quiet_sends == IN_TABLE - 1 {
                self.put_into_table(slot);
            }
        }
    }

    #[cold]
    fn put_into_table(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        if let Some(socket) = &entry.socket
            && self.has_table
        {
            match self.ring.submitter().register_files_update(slot, &[fd(socket).0]) {
                Ok(1) => entry.quiet_sends = IN_TABLE,
                // Without the table, sends name their sockets by descriptor.
                Ok(_) | Err(_) => self.has_table = false,
            }
        }
    }

    /// Takes a connection's socket out of the table, which would hold it open.
    #[cold]
    pub(super) fn take_out_of_table(&mut self, slot: Slot) {
        // It cannot fail for a place that is in use.
        let _ = self.ring.submitter().register_files_update(slot, &[-1]);
    }

    /// Waits for one completion. The end of the wait is a timer that stays with the kernel over many waits: a timeout
    /// given to each would be started and cancelled for each reply.
    pub(super) fn wait_for_one(&mut self, until_ns: u64) -> io::Result<()> {
        if until_ns < self.timer_ns {
            let at_ns = self.origin_ns.saturating_add(until_ns);
            *self.timer = types::Timespec::new().sec(at_ns / 1_000_000_000).nsec((at_ns % 1_000_000_000) as u32);
            let op = opcode::Timeout::new(&raw const *self.timer)
                .flags(types::TimeoutFlags::ABS)
                .build()
                .user_data(key(Op::Timer, 0, 0));
            // The moment is read at submission, so an entry that is not submitted yet must not see it change.
            self.push(&op);
            self.submit();
            self.timer_ns = until_ns;
        }
        if !self.may_sleep()? {
            return Ok(());
        }
        let outcome = self.ring.submit_and_wait(1 + self.at_once);
        self.take_after(outcome)
    }

    /// Waits for so many completions, but no longer than `left_ns`; one is enough after `min_wait_us`, if that is not 0.
    pub(super) fn wait_for(&mut self, completions: usize, left_ns: u64, min_wait_us: u32) -> io::Result<()> {
        if !self.may_sleep()? {
            return Ok(());
        }
        let timeout = types::Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        let mut args = types::SubmitArgs::new().timespec(&timeout);
        if min_wait_us > 0 {
            args = args.min_wait_usec(min_wait_us);
        }
        let outcome = self.ring.submitter().submit_with_args(completions + self.at_once, &args);
        self.take_after(outcome)
    }

    /// Whether nothing is left to look at: completions may have been taken to make room.
    fn may_sleep(&mut self) -> io::Result<bool> {
        self.queued = 0;
        match self.broken.take() {
            None => Ok(self.cursor >= self.taken.len()),
            Some(error) => Err(error),
        }
    }

    fn take_after(&mut self, waited: io::Result<usize>) -> io::Result<()> {
        self.take();
        match waited {
            Ok(_) => self.refused = 0,
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => self.refused = 0,
            Err(e) if is_passing(&e) => {
                // Completions that are taken make room; where there are none, time may.
                self.refused = if self.taken.is_empty() { self.refused + 1 } else { 0 };
                if self.refused > REFUSED_MAX {
                    return Err(e);
                }
                if self.refused > 0 {
                    sleep_ns(REFUSED_SLEEP_NS);
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn take(&mut self) {
        self.taken.clear();
        self.cursor = 0;
        let into = &mut self.taken;
        // `TAKEN` is less than what the queue may hold: the others are there for the next time.
        into.extend(self.ring.completion().take(TAKEN));
        self.taken_at_ns = monotonic_ns().saturating_sub(self.origin_ns);
    }
}

/// Whether what the kernel refuses now it may do later (io_uring_enter(2)).
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR))
}

/// The kernel's refusal as what ends a run.
pub fn refused(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the kernel refuses what is handed over: {error}"))
}

/// What ends a run whose submission queue stays full.
pub fn stuck() -> io::Error {
    io::Error::other(format!("the kernel took nothing of a full submission queue in {ATTEMPTS_MAX} attempts"))
}
