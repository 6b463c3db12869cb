//! What a server counted, to be set beside what the client and the kernel counted.
//!
//! Each worker counts for itself without sharing; it publishes what it has before it sleeps (`shared`), and the sums
//! are made once, at the end. A counter is declared once, by [`counters!`]: its name in the source is the one shown.

mod shared;

pub(crate) use shared::Published;
pub use shared::{Live, Reading};

/// Declares a struct of counters, with what follows from their names: how many there are, rows to show, and sums.
macro_rules! counters {
    ($(#[$about:meta])* pub struct $Counters:ident { $($(#[$what:meta])* $counter:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $Counters {
            $($(#[$what])* pub $counter: u64,)*
        }

        impl $Counters {
            /// How many counters there are.
            pub const NUMBER: usize = [$(stringify!($counter)),*].len();

            /// Every counter with its name, in the order they are shown in.
            #[must_use]
            pub fn rows(&self) -> [(&'static str, u64); Self::NUMBER] {
                [$((stringify!($counter), self.$counter)),*]
            }

            /// Adds another worker's figures to these.
            pub fn add(&mut self, other: &Self) {
                $(self.$counter += other.$counter;)*
            }

            /// The same from the values of [`Self::rows`], in their order.
            #[must_use]
            pub fn from_values(values: [u64; Self::NUMBER]) -> Self {
                let [$($counter),*] = values;
                Self { $($counter),* }
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// Sums over all workers of one server.
    pub struct Counters {
        /// Connections taken from the accept queue.
        accepted,
        /// Connections closed, for whatever reason. Equal to `accepted` at the end.
        closed,
        /// Receive calls that brought bytes.
        recv,
        /// Send calls that took bytes.
        send,
        /// Connections whose peer ended them in order (its FIN was read).
        shutdown,
        /// Receive calls that failed, mostly by a reset.
        recv_error,
        /// Send calls that failed, and files that ended before their promised length.
        send_error,
        /// Connections given up because memory for their pending bytes was refused.
        memory_error,
        /// Accept calls that failed (descriptors or memory ran out, or the peer had gone).
        accept_error,
        /// Work that failed on the server's own side (a file that could not be read, an epoll registration).
        work_error,
        /// Connections closed because nothing moved on them for the idle timeout, or a request's head took too long.
        idle_closed,
        /// Connections still busy when the time to drain was over.
        cut_at_stop,
        /// Requests answered (`http`), messages echoed (`ws`).
        requests,
        /// Of those, the ones refused with a status of 400 to 505 of the server's own judgement (`http`); handshakes refused
        /// and connections closed for what came on them (`ws`).
        refused,
        /// Bytes received; with TLS the protocol's own, without records and handshakes.
        bytes_in,
        /// Bytes sent; with TLS the protocol's own, as above.
        bytes_out,
        /// TLS handshakes done in full. The three together are the TLS connections closed.
        tls_full,
        /// TLS handshakes that resumed an earlier session.
        tls_resumed,
        /// Connections that ended before their TLS handshake was done, whoever was at fault.
        tls_failed,
    }
}

impl Counters {
    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_values_and_counters_again() {
        let values = std::array::from_fn(|at| at as u64 * 3 + 1);
        let mut counters = Counters::from_values(values);
        assert_eq!(counters.rows().map(|(_, value)| value), values);
        assert_eq!((counters.accepted, counters.tls_failed), (1, 3 * (Counters::NUMBER as u64 - 1) + 1));
        let names: std::collections::BTreeSet<_> = counters.rows().iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), Counters::NUMBER);
        assert_eq!((counters.rows()[0].0, names.contains("tls_failed")), ("accepted", true));
        counters.add(&Counters::from_values(values));
        assert_eq!(counters, Counters::from_values(values.map(|value| value * 2)));
    }
}
