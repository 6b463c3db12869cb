//! What a proxy counted towards its origins, beside the [`Counters`](crate::Counters) of its clients' side.

/// Sums over all workers of one proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounters {
    /// Connections to origins begun.
    pub upstream_connects: u64,
    /// Requests sent on a connection kept from an earlier one.
    pub upstream_reused: u64,
    /// Requests sent again: to another origin, or on a fresh connection after a kept one had closed.
    pub upstream_retries: u64,
    /// Origins that refused, closed early, timed out or replied what is not HTTP.
    pub upstream_errors: u64,
    /// Replies answered from the cache, 304 among them.
    pub cache_hits: u64,
    /// Requests the cache might have answered and did not.
    pub cache_misses: u64,
    /// Bytes written to temp files.
    pub temp_bytes: u64,
    /// Temp files that could not be made or written; the origin is then held back instead.
    pub temp_errors: u64,
}

impl ProxyCounters {
    /// Each by its name, in the order they are printed in.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); 8] {
        [
            ("upstream_connects", self.upstream_connects),
            ("upstream_reused", self.upstream_reused),
            ("upstream_retries", self.upstream_retries),
            ("upstream_errors", self.upstream_errors),
            ("cache_hits", self.cache_hits),
            ("cache_misses", self.cache_misses),
            ("temp_bytes", self.temp_bytes),
            ("temp_errors", self.temp_errors),
        ]
    }

    /// Adds another worker's figures to these.
    pub fn add(&mut self, other: &Self) {
        // Taken apart without `..`: a new counter that is not summed does not compile.
        let Self {
            upstream_connects,
            upstream_reused,
            upstream_retries,
            upstream_errors,
            cache_hits,
            cache_misses,
            temp_bytes,
            temp_errors,
        } = other;
        self.upstream_connects += upstream_connects;
        self.upstream_reused += upstream_reused;
        self.upstream_retries += upstream_retries;
        self.upstream_errors += upstream_errors;
        self.cache_hits += cache_hits;
        self.cache_misses += cache_misses;
        self.temp_bytes += temp_bytes;
        self.temp_errors += temp_errors;
    }
}
