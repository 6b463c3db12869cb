//! Where a defect can act: the moments at which the layer calls it, and what it can change there.

use super::deferred::Done;
use super::server::Server;
use super::shared::Among;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Accepting;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

/// The moments at which a defect may act. Each is called only while the defect is on (but for `change`), from the
/// worker that has the connection; what takes time there takes the worker's.
pub(crate) trait Hook: std::fmt::Debug + Send + Sync {
    /// Which server carries the defect, and what its workers are; called once, before everything else.
    fn carried_by(&mut self, _server: Server, _among: Among) -> Result<(), ServeError> {
        Ok(())
    }

    /// Before the server listens, whenever the defect is to begin: what it is told can be changed.
    fn change(&self, _options: &mut ServeOptions) -> Result<(), ServeError> {
        Ok(())
    }

    /// Its descriptors, which a forked process that serves must keep open.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// The server listens at these addresses, whenever the defect is to begin.
    fn listening(&self, _addrs: &[SocketAddr]) {}

    /// The defect begins. Once in each worker, on its thread: at its start or at its first wake-up behind `@START`.
    fn begin(&self) {}

    /// How connections are taken from the listeners.
    fn accepting(&self, _accepting: &mut Accepting) {}

    /// A connection was accepted.
    fn accepted(&self) -> Taken {
        Taken::AsEver
    }

    /// A connection is woken, for whatever reason.
    fn woken(&self) {}

    /// A request has come, and its reply, made already, is about to leave.
    fn request(&self, _request: &Request<'_>) {}

    /// A request has come, and somebody else than its worker is to serve it: the reply leaves once `done` is told. False:
    /// nobody does, and it leaves at once.
    fn hands_over(&self, _done: Done) -> bool {
        false
    }

    /// As [`Self::hands_over`], of a worker that has nothing else to do than to wait for it.
    fn waits(&self) {}

    /// How the socket is used for one reply.
    fn manner(&self, _manner: &mut Manner) {}

    /// The bytes of a reply, as they are to leave (`Manner::rewrites` must have been set). All that is known of the
    /// reply is here: of a large one only its first piece.
    fn reply(&self, _bytes: &mut Vec<u8>) -> After {
        After::GoOn
    }

    /// The peer has ended a connection, and it is about to be closed. False: it is not, ever.
    fn closes(&self) -> bool {
        true
    }
}

/// What becomes of a connection that was accepted.
pub(crate) enum Taken {
    /// Nothing special.
    AsEver,
    /// It holds this.
    Holding(Kept),
    /// It is closed at once.
    TurnedAway,
}

/// Anything that a connection is to hold until it closes; dropping it gives it back.
pub(crate) type Kept = Box<dyn std::any::Any + Send>;

/// The request whose reply is about to leave.
pub(crate) struct Request<'a> {
    /// The connection's socket, where it is a descriptor of this process.
    pub(crate) socket: Option<BorrowedFd<'a>>,
    /// The worker's number, from 0.
    pub(crate) worker: usize,
    /// How it begins, as far as one receive brought it; of `names` the command's key. Empty unless [`Manner::hears`].
    pub(crate) text: &'a [u8],
    /// Bytes of it, likewise.
    pub(crate) length: usize,
}

/// How bytes are received and sent while defects are on. The default is how they are without.
#[derive(Debug, Default)]
pub(crate) struct Manner {
    /// Bytes one receive may bring; after it the socket is taken for empty, whatever is left.
    pub(crate) receive_once: Option<usize>,
    /// The head, or the first bytes of a reply, leave in a write of their own.
    pub(crate) splits: bool,
    /// `write(2)`, which may raise SIGPIPE.
    pub(crate) raises_sigpipe: bool,
    /// `Hook::reply` is asked for each reply.
    pub(crate) rewrites: bool,
    /// Each reply is its connection's last, where the protocol has such a thing.
    pub(crate) keeps_none: bool,
    /// The worker stays with the connection until it closes.
    pub(crate) stays: bool,
    /// `Hook::request` is told what was asked.
    pub(crate) hears: bool,
    /// `Hook::hands_over` is asked for each request.
    pub(crate) hands_over: bool,
    /// Connections of the server's own to whom it asks, at most.
    pub(crate) outgoing_max: Option<usize>,
}

/// What follows a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing special.
    GoOn,
    /// The connection is closed behind it.
    Close,
    /// Whatever more belongs to it is thrown away.
    Swallow,
}
