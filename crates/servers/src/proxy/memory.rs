//! What the proxy will use, said before it does: resident memory and temp files, by a formula.
//!
//! A client that reads slower than its origin writes fills its buffers first, then its temp file. What the
//! sockets hold is the kernel's and not in it; nor is the page cache of temp files.

use super::ProxyOptions;
use crate::options::ServeOptions;

/// What an allocation of a buffer costs beyond its bytes: glibc's header, rounded.
const ALLOCATION_BYTES: u64 = 16;
/// A client's connection, its exchange and its connection to an origin, with their heads: measured, rounded up.
const CONNECTION_BYTES: u64 = 4 * 1024;

/// What a proxy may use, in bytes of resident memory and of temp files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Independent of connections: the workers' buffers and a full cache.
    pub fixed: u64,
    /// For one connection whose client takes nothing.
    pub per_connection: u64,
    /// `fixed` and `per_connection` of all connections together.
    pub total: u64,
    /// Temp files of one slow connection, on disk.
    pub temp_per_connection: u64,
    /// Temp files of all.
    pub temp_total: u64,
}

/// What `slow_connections` clients cost that take nothing of an object of `object_bytes` each, beyond the process's
/// size at rest.
#[must_use]
pub fn memory_bytes(
    options: &ServeOptions,
    proxy: &ProxyOptions,
    slow_connections: u64,
    object_bytes: u64,
) -> MemoryEstimate {
    let size = proxy.buffer_bytes.max(1) as u64;
    let bounds = proxy.bounds();
    let buffers = object_bytes.div_ceil(size).min(bounds.buffers as u64);
    let per_connection = CONNECTION_BYTES + buffers * (size + ALLOCATION_BYTES);
    // Receiving, writing, reframing: three of the receive buffer's size.
    let fixed = options.workers as u64 * 3 * options.buffer_bytes as u64 + proxy.cache_bytes;
    let temp_per_connection = object_bytes.saturating_sub(bounds.buffers as u64 * size).min(bounds.temp_bytes_max);
    MemoryEstimate {
        fixed,
        per_connection,
        total: fixed + slow_connections.saturating_mul(per_connection),
        temp_per_connection,
        temp_total: slow_connections.saturating_mul(temp_per_connection),
    }
}

/// The most buffers a connection can have, so that all this fits into `memory_bytes`; no more than an object fills. `None`: not
/// even one each does.
#[must_use]
pub fn buffers_within(
    options: &ServeOptions,
    proxy: &ProxyOptions,
    slow_connections: u64,
    object_bytes: u64,
    most_bytes: u64,
) -> Option<usize> {
    let one = ProxyOptions { buffering: true, buffers: 1, ..proxy.clone() };
    let least = memory_bytes(options, &one, slow_connections, object_bytes.max(1));
    let left = most_bytes.checked_sub(least.total)?;
    let size = proxy.buffer_bytes.max(1) as u64;
    let more = left / slow_connections.max(1).saturating_mul(size + ALLOCATION_BYTES);
    let filled = object_bytes.max(1).div_ceil(size);
    usize::try_from(more.saturating_add(1).min(filled)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_filled_first_and_the_file_takes_the_rest() {
        let options = ServeOptions { buffer_bytes: 1 << 16, ..ServeOptions::default() };
        let proxy =
            ProxyOptions { buffers: 16, buffer_bytes: 32 << 10, temp_bytes_max: 1 << 20, ..ProxyOptions::default() };
        let check = |proxy: &ProxyOptions, object| {
            let estimate = memory_bytes(&options, proxy, 2, object);
            (estimate.per_connection, estimate.temp_total, estimate.total - estimate.fixed)
        };
        assert_eq!(check(&proxy, 0), (4096, 0, 8192));
        assert_eq!(check(&proxy, 1), (4096 + 32_784, 0, 2 * (4096 + 32_784)));
        assert_eq!(check(&proxy, 600_000).1, 2 * (600_000 - (512 << 10)));
        assert_eq!(check(&proxy, 26_000_000), (4096 + 16 * 32_784, 2 << 20, 2 * (4096 + 16 * 32_784)));
        // As many as fit, and one more does not.
        for (slow, object, most) in
            [(40, 26_000_000, 1 << 30), (1000, 26_000_000, 1 << 30), (2, 600_000, 1 << 20), (7, 1, 1 << 20)]
        {
            let buffers = buffers_within(&options, &proxy, slow, object, most).unwrap();
            let total = |buffers| {
                let proxy = ProxyOptions { buffers, temp_bytes_max: 0, ..proxy.clone() };
                memory_bytes(&options, &proxy, slow, object).total
            };
            let is_whole = buffers as u64 * (32 << 10) >= object;
            assert!(
                total(buffers) <= most && (is_whole || total(buffers + 1) > most),
                "{slow} {object} {most}: {buffers}"
            );
        }
        assert_eq!(buffers_within(&options, &proxy, 1000, 26_000_000, 1 << 20), None);
        let off = ProxyOptions { buffering: false, ..proxy };
        assert_eq!(check(&off, 26_000_000), (4096 + 32_784, 0, 2 * (4096 + 32_784)));
    }
}
