//! The moments of a request.

use model::error_kind::Phase;

/// The moments of a request, nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamps {
    /// When it was due.
    pub intended_ns: u64,
    /// When the worker took it up.
    pub ready_ns: u64,
    /// When it left on a connection.
    pub sent_ns: u64,
    /// When the first byte of its reply came; 0: none has.
    pub first_byte_ns: u64,
}

impl Stamps {
    /// Of a request that leaves now.
    pub fn sent(intended_ns: u64, ready_ns: u64, sent_ns: u64) -> Self {
        Stamps { intended_ns, ready_ns, sent_ns, first_byte_ns: 0 }
    }

    /// What a request that was sent is waiting for.
    pub fn phase(&self) -> Phase {
        if self.first_byte_ns > 0 { Phase::Reply } else { Phase::FirstByte }
    }
}
