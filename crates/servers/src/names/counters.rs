//! What the name service counted, besides what every server counts; and the figures that INFO reads while it runs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::Counters;

/// Declares the figures once: as sums ([`NamesCounters`]), and while the server runs ([`Gauges`]).
macro_rules! figures {
    ($($(#[$what:meta])* $figure:ident,)*) => {
        /// Sums of one name service.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct NamesCounters {
            /// What every server counts. `requests` were answered, `refused` of them with an error.
            pub common: Counters,
            $($(#[$what])* pub $figure: u64,)*
        }

        impl NamesCounters {
            /// Names and values, those of every server first.
            #[must_use]
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                let mut rows = self.common.rows().to_vec();
                rows.extend([$((stringify!($figure), self.$figure)),*]);
                rows
            }
        }

        /// The same while the server runs, shared by all of it; written a batch at a time.
        #[derive(Debug, Default)]
        pub(super) struct Gauges {
            pub(super) accepted: AtomicU64,
            pub(super) closed: AtomicU64,
            pub(super) accept_error: AtomicU64,
            pub(super) requests: AtomicU64,
            pub(super) store_bytes: AtomicU64,
            $($(#[$what])* pub(super) $figure: AtomicU64,)*
        }

        impl Gauges {
            /// The figures of the end; `common` comes from the connections.
            pub(super) fn sums(&self, common: Counters) -> NamesCounters {
                NamesCounters {
                    common: Counters {
                        accepted: self.accepted.load(Relaxed),
                        closed: self.closed.load(Relaxed),
                        accept_error: self.accept_error.load(Relaxed),
                        requests: self.requests.load(Relaxed),
                        ..common
                    },
                    $($figure: self.$figure.load(Relaxed),)*
                }
            }
        }
    };
}

figures! {
    /// Values saved.
    saves,
    /// Values asked for, there or not; LOADALL counts as one.
    loads,
    /// Names removed, and REMOVEALL as one.
    removes,
    /// Requests refused because the store was down.
    unavailable,
    /// Writes refused because the journal could not take them, or the store was full.
    writes_refused,
    /// Times the store crashed.
    crashes,
    /// Times it was started again.
    restarts,
    /// Batches of requests the store took at once.
    batches,
    /// Of those, the ones made durable, with one fdatasync each.
    commits,
    /// Records read back from the journal, at the start and after crashes.
    recovered,
    /// Bytes of torn ends cut off it.
    cut_bytes,
    /// Times it was rewritten.
    rewrites,
    /// Times that failed; the old one stays.
    rewrites_failed,
    /// Its size at the end, in bytes.
    journal_bytes,
    /// Names at the end.
    keys,
}

/// Adds to a figure.
pub(super) fn count(figure: &AtomicU64, n: u64) {
    figure.fetch_add(n, Relaxed);
}
