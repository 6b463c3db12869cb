//! Requests that others than their worker serve: who tells the worker's loop that a reply may leave.
//!
//! A worker has one [`Inbox`], an eventfd with the connections that are done behind it, registered with its loop.

use crate::slab::Token;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a worker learns which of its connections may go on.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) event: OwnedFd,
    done: Mutex<Vec<Token>>,
}

/// Tells the worker of one request that it was served.
#[derive(Debug)]
pub(crate) struct Done {
    inbox: Arc<Inbox>,
    connection: Token,
}

impl Inbox {
    /// The name of `event` in the loop: of no connection, as there cannot be so many.
    pub(super) const ID: u64 = u64::MAX >> 2;

    pub(super) fn new() -> rustix::io::Result<Arc<Self>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { event, done: Mutex::default() }))
    }

    /// A connection that may go on.
    pub(super) fn take(&self) -> Option<Token> {
        self.done().pop()
    }

    /// Forgets that it was signalled; before the connections are taken.
    pub(super) fn settle(&self) {
        // It fails where it was not signalled.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    fn done(&self) -> MutexGuard<'_, Vec<Token>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Done {
    pub(super) fn of(inbox: &Arc<Inbox>, connection: Token) -> Self {
        Self { inbox: Arc::clone(inbox), connection }
    }

    /// The reply may leave.
    pub(super) fn tell(self) {
        self.inbox.done().push(self.connection);
        // It fails only if the count is full, and then it is signalled.
        let _ = rustix::io::write(&self.inbox.event, &1_u64.to_ne_bytes());
    }
}
