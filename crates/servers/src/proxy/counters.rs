//! What a proxy counted towards its origins, beside the [`Counters`](crate::Counters) of its clients' side.

use crate::counters::counters;

counters! {
    /// Sums over all workers of one proxy.
    pub struct ProxyCounters {
        /// Connections to origins begun.
        upstream_connects,
        /// Requests sent on a connection kept from an earlier one.
        upstream_reused,
        /// Requests sent again: to another origin, or on a fresh connection after a kept one had closed.
        upstream_retries,
        /// Origins that refused, closed early, timed out or replied what is not HTTP.
        upstream_errors,
        /// Replies answered from the cache, 304 among them.
        cache_hits,
        /// Requests the cache might have answered and did not.
        cache_misses,
        /// Bytes written to temp files.
        temp_bytes,
        /// Temp files that could not be made or written; the origin is then held back instead.
        temp_errors,
    }
}
