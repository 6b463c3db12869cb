//! What a server counted, to be set beside what the client and the kernel counted.
//!
//! Each worker counts for itself without sharing; the sums are made once, at the end.

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
}
