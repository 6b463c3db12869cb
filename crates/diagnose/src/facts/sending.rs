//! What bounded the target's sending, of its clients' connections together: for which share of the requests' time it had data
//! under way, and of that, what kept it from sending more.
//!
//! The kernel counts by connection how long it had data that was not acknowledged (busy), and how much of that it could not send
//! more because the peer's window was full, or because the send buffer held no more (tcp_info(7): tcpi_busy_time,
//! tcpi_rwnd_limited, tcpi_sndbuf_limited). Summed up, busy time a second is the mean number of connections that were sending;
//! requests a second × their time is the mean number of requests under way (Little's law); the one over the other is the share
//! of a request's time. Connections that began and ended between two readings are in none of these.

use super::Facts;
use crate::history::{Metric, Subject};
use model::latency::Kind;

/// See the file's head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sending {
    /// The share of the requests' time in which the target had data under way to their clients, 0..=1.
    pub of_requests: f64,
    /// Connections that had data under way at a time, on average.
    pub busy: f64,
    /// Of the time with data under way, the share bound by the peer's window.
    pub window: f64,
    /// The same, by the own send buffer.
    pub buffer: f64,
    /// Smoothed round trip, the median of the connections, mean of the readings, nanoseconds.
    pub rtt_ns: Option<f64>,
    /// The least round trip of a connection, the median of the connections, nanoseconds.
    pub rtt_min_ns: Option<f64>,
    /// Segments under way for each connection that was sending.
    pub unacked: f64,
}

impl Facts<'_> {
    /// What bounded the target's sending; `None`: the kernel did not say, or no request succeeded.
    pub fn sending(&self) -> Option<Sending> {
        let window = self.read_window()?;
        let rate = |name| Some(self.history.rate(Metric::new(Subject::Network, name), window).ok()?.value / 1e9);
        let level = |name| Some(self.level(Subject::Network, name)?.mean);
        let service = self.latency(Kind::Service);
        let busy = rate("send_busy_ns")?;
        let under_way = self.recording.totals.requests_per_s() * service.mean() / 1e9;
        if service.is_empty() || under_way <= 0.0 {
            return None;
        }
        let of_busy = |name| Some(if busy > 0.0 { (rate(name)? / busy).clamp(0.0, 1.0) } else { 0.0 });
        Some(Sending {
            busy,
            of_requests: (busy / under_way).clamp(0.0, 1.0),
            window: of_busy("send_window_limited_ns")?,
            buffer: of_busy("send_buffer_limited_ns")?,
            rtt_ns: level("rtt_p50_ns"),
            rtt_min_ns: level("rtt_min_p50_ns"),
            unacked: level("unacked_segments").unwrap_or(0.0) / busy.max(f64::MIN_POSITIVE),
        })
    }
}
