//! What a server counted, to be set beside what the client and the kernel counted.
//!
//! Each worker counts for itself without sharing; it publishes what it has before it sleeps (`board`), and the sums are
//! made once, at the end.

/// Sums over all workers of one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections taken from the accept queue.
    pub accepted: u64,
    /// Connections closed, for whatever reason. Equal to `accepted` at the end.
    pub closed: u64,
    /// Receive calls that brought bytes.
    pub recv: u64,
    /// Send calls that took bytes.
    pub send: u64,
    /// Connections whose peer ended them in order (its FIN was read).
    pub shutdown: u64,
    /// Receive calls that failed, mostly by a reset.
    pub recv_error: u64,
    /// Send calls that failed, and files that ended before their promised length.
    pub send_error: u64,
    /// Connections given up because memory for their pending bytes was refused.
    pub memory_error: u64,
    /// Accept calls that failed (descriptors or memory ran out, or the peer had gone).
    pub accept_error: u64,
    /// Work that failed on the server's own side (a file that could not be read, an epoll registration).
    pub work_error: u64,
    /// Connections closed because nothing moved on them for the idle timeout.
    pub idle_closed: u64,
    /// Connections still busy when the time to drain was over.
    pub cut_at_stop: u64,
    /// Requests answered (`http` only).
    pub requests: u64,
    /// Of those, the ones refused with a status of 400 to 505 of the server's own judgement.
    pub refused: u64,
    /// Bytes received; with TLS the protocol's own, without records and handshakes.
    pub bytes_in: u64,
    /// Bytes sent; with TLS the protocol's own, as above.
    pub bytes_out: u64,
    /// TLS handshakes done in full. The three together are the TLS connections closed.
    pub tls_full: u64,
    /// TLS handshakes that resumed an earlier session.
    pub tls_resumed: u64,
    /// Connections that ended before their TLS handshake was done, whoever was at fault.
    pub tls_failed: u64,
}

impl Counters {
    /// Adds another worker's figures to these.
    pub fn add(&mut self, other: &Self) {
        // Taken apart without `..`: a new counter that is not summed does not compile.
        let Self {
            accepted,
            closed,
            recv,
            send,
            shutdown,
            recv_error,
            send_error,
            memory_error,
            accept_error,
            work_error,
            idle_closed,
            cut_at_stop,
            requests,
            refused,
            bytes_in,
            bytes_out,
            tls_full,
            tls_resumed,
            tls_failed,
        } = other;
        self.accepted += accepted;
        self.closed += closed;
        self.recv += recv;
        self.send += send;
        self.shutdown += shutdown;
        self.recv_error += recv_error;
        self.send_error += send_error;
        self.memory_error += memory_error;
        self.accept_error += accept_error;
        self.work_error += work_error;
        self.idle_closed += idle_closed;
        self.cut_at_stop += cut_at_stop;
        self.requests += requests;
        self.refused += refused;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
        self.tls_full += tls_full;
        self.tls_resumed += tls_resumed;
        self.tls_failed += tls_failed;
    }
    /// Every counter with its name, in the order they are shown in.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); COUNTERS] {
        // As above: what is not listed does not compile.
        let Self {
            accepted,
            closed,
            recv,
            send,
            shutdown,
            recv_error,
            send_error,
            memory_error,
            accept_error,
            work_error,
            idle_closed,
            cut_at_stop,
            requests,
            refused,
            bytes_in,
            bytes_out,
            tls_full,
            tls_resumed,
            tls_failed,
        } = *self;
        [
            ("accepted", accepted),
            ("closed", closed),
            ("recv", recv),
            ("send", send),
            ("shutdown", shutdown),
            ("recv_error", recv_error),
            ("send_error", send_error),
            ("memory_error", memory_error),
            ("accept_error", accept_error),
            ("work_error", work_error),
            ("idle_closed", idle_closed),
            ("cut_at_stop", cut_at_stop),
            ("requests", requests),
            ("refused", refused),
            ("bytes_in", bytes_in),
            ("bytes_out", bytes_out),
            ("tls_full", tls_full),
            ("tls_resumed", tls_resumed),
            ("tls_failed", tls_failed),
        ]
    }

    /// The same from the values of [`Self::rows`], in their order.
    pub(crate) fn from_values(values: [u64; COUNTERS]) -> Self {
        let [
            accepted,
            closed,
            recv,
            send,
            shutdown,
            recv_error,
            send_error,
            memory_error,
            accept_error,
            work_error,
            idle_closed,
            cut_at_stop,
            requests,
            refused,
            bytes_in,
            bytes_out,
            tls_full,
            tls_resumed,
            tls_failed,
        ] = values;
        Self {
            accepted,
            closed,
            recv,
            send,
            shutdown,
            recv_error,
            send_error,
            memory_error,
            accept_error,
            work_error,
            idle_closed,
            cut_at_stop,
            requests,
            refused,
            bytes_in,
            bytes_out,
            tls_full,
            tls_resumed,
            tls_failed,
        }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// How many counters there are.
pub(crate) const COUNTERS: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_values_and_counters_again() {
        let values = std::array::from_fn(|at| at as u64 * 3 + 1);
        let counters = Counters::from_values(values);
        assert_eq!(counters.rows().map(|(_, value)| value), values);
        assert_eq!((counters.accepted, counters.tls_failed), (1, 3 * (COUNTERS as u64 - 1) + 1));
        let names: std::collections::BTreeSet<_> = counters.rows().iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), COUNTERS);
    }
}
