//! The moments of defects for designs that are not made of a [`Protocol`](crate::reactor::Protocol): a value a worker, a
//! process or a thread, that the design asks at each of them.
//!
//! Designs are compiled once for [`Sound`], which is nothing, and once for [`Carried`]. A defect that needs a moment which
//! such a design has not is refused before (`able`).

use super::active::Defects;
use super::hook::{After, Kept, Manner, Request};
use crate::clock;
use std::os::fd::{BorrowedFd, RawFd};

/// What a design asks while it serves.
pub(crate) trait Carries {
    /// What a connection holds until it closes.
    type Kept: Default;

    /// A connection was accepted. `None`: it is to be closed at once.
    fn accepted(&mut self) -> Option<Self::Kept>;

    /// Whether connections are to stay in the accept queue for now.
    fn is_full(&self) -> bool;

    /// A message has come, and is about to go back. `None`: as it came.
    fn answer(&mut self, socket: Option<BorrowedFd<'_>>, message: &[u8]) -> Option<Answer>;
}

/// What leaves in place of a message that came.
pub(crate) struct Answer {
    /// Nothing, where no reply is sent.
    pub(crate) bytes: Vec<u8>,
    /// How many of them leave in a send of their own; all, usually.
    pub(crate) first: usize,
    /// The connection is closed behind it.
    pub(crate) closes: bool,
}

/// No defect at all.
#[derive(Clone, Copy)]
pub(crate) struct Sound;

impl Carries for Sound {
    type Kept = ();

    #[inline(always)]
    fn accepted(&mut self) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }

    #[inline(always)]
    fn answer(&mut self, _: Option<BorrowedFd<'_>>, _: &[u8]) -> Option<Answer> {
        None
    }
}

/// The defects of a server, as one worker has them.
pub(crate) struct Carried {
    defects: Defects,
    worker: usize,
}

impl Carried {
    /// For one more worker.
    pub(crate) fn new(defects: &Defects) -> Self {
        Self { defects: defects.clone(), worker: defects.next_worker() }
    }
}

impl Carries for Carried {
    type Kept = Vec<Kept>;

    fn accepted(&mut self) -> Option<Vec<Kept>> {
        self.defects.accepted()
    }

    fn is_full(&self) -> bool {
        self.defects.is_full()
    }

    fn answer(&mut self, socket: Option<BorrowedFd<'_>>, message: &[u8]) -> Option<Answer> {
        let now_ns = clock::monotonic_ns();
        let mut manner = Manner::default();
        for hook in self.defects.on(now_ns) {
            hook.woken();
            hook.manner(&mut manner);
            hook.request(&Request { socket, worker: self.worker, text: message, length: message.len() });
            hook.waits();
        }
        if !manner.rewrites && !manner.splits {
            return None;
        }
        let (mut bytes, mut closes) = (message.to_vec(), false);
        for hook in self.defects.on(now_ns).filter(|_| manner.rewrites) {
            match hook.reply(&mut bytes) {
                After::GoOn => {}
                After::Close => closes = true,
                After::Swallow => bytes.clear(),
            }
        }
        let first = if manner.splits && bytes.len() > 1 { bytes.len() / 2 } else { bytes.len() };
        Some(Answer { bytes, first, closes })
    }
}

/// The descriptors of a server's defects, which its forked processes must keep.
pub(crate) fn descriptors(defects: &Defects) -> Vec<RawFd> {
    defects.all().flat_map(|hook| hook.descriptors()).collect()
}
