//! The course of a run as CSV (RFC 4180): a row a tick, units in the names of the columns.
//!
//! Streams: rows come from an iterator, so a day costs no more memory than a minute. An empty field is "not measured".

pub mod requests;

use model::recording::Row;
use std::io::{self, Write};

const COLUMNS: [&str; 37] = [
    "start_s",
    "end_s",
    "is_drain",
    "requests",
    "ok",
    "failed",
    "started",
    "dropped",
    "warmup",
    "requests_per_s",
    "response_p50_us",
    "response_p99_us",
    "lag_p99_us",
    "connections",
    "in_flight",
    "queued",
    "bytes_sent",
    "bytes_received",
    "connected",
    "connect_failed",
    "closed_by_us",
    "closed_by_peer",
    "cpu_user_s",
    "cpu_system_s",
    "worker_busy_max_ratio",
    "reap_delay_max_us",
    "handshakes_full",
    "handshakes_resumed",
    "never_taken_up",
    "carried_over",
    "worker_wait_max_ratio",
    "worker_late_max_ratio",
    "is_lower_bound",
    "is_disturbed",
    "in_window",
    "failed_p50_us",
    "failed_p99_us",
];

/// Writes the header and a line for each row, lines ended by CR LF as the RFC has it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, rows: impl IntoIterator<Item = Row>) -> io::Result<()> {
    line(to, &COLUMNS.map(str::to_owned))?;
    for row in rows {
        line(to, &fields(&row))?;
    }
    Ok(())
}

fn fields(row: &Row) -> [String; COLUMNS.len()] {
    let (c, g) = (&row.counts, &row.gauges);
    let s = |ns: u64| format!("{:.6}", ns as f64 / 1e9);
    let us = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{:.3}", ns as f64 / 1e3));
    let per_s = crate::figures::per_s(c.arrived(), row.end_ns.saturating_sub(row.start_ns));
    [
        s(row.start_ns),
        s(row.end_ns),
        u8::from(row.is_drain).to_string(),
        c.requests().to_string(),
        c.ok.to_string(),
        c.failed.to_string(),
        c.started.to_string(),
        c.dropped.to_string(),
        c.warmup.to_string(),
        format!("{per_s:.3}"),
        us(row.response_p50_ns),
        us(row.response_p99_ns),
        us(row.lag_p99_ns),
        g.connections.to_string(),
        g.in_flight.to_string(),
        g.queued.to_string(),
        c.bytes_sent.to_string(),
        c.bytes_received.to_string(),
        c.connected.to_string(),
        c.connect_failed.to_string(),
        c.closed_by_us.to_string(),
        c.closed_by_peer.to_string(),
        s(c.cpu_user_ns),
        s(c.cpu_system_ns),
        format!("{:.4}", row.worker_busy_max),
        us(Some(g.reap_delay_ns_max)),
        c.handshakes_full.to_string(),
        c.handshakes_resumed.to_string(),
        c.never_taken_up.to_string(),
        (c.carried_ok + c.carried_failed).to_string(),
        format!("{:.4}", row.worker_wait_max),
        format!("{:.4}", row.worker_late_max),
        u8::from(row.is_bound).to_string(),
        u8::from(row.disturbance.is_any()).to_string(),
        u8::from(row.in_window).to_string(),
        us(row.failed_p50_ns),
        us(row.failed_p99_ns),
    ]
}

fn line(to: &mut impl Write, fields: &[String]) -> io::Result<()> {
    write!(to, "{}\r\n", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::interval::{Counts, Gauges};

    #[test]
    fn a_row_has_its_units_and_what_is_not_measured_is_empty() {
        let row = Row {
            start_ns: 1_000_000_000,
            end_ns: 1_500_000_000,
            counts: Counts { ok: 9, failed: 1, cpu_user_ns: 250_000_000, ..Counts::default() },
            gauges: Gauges { connections: 50, reap_delay_ns_max: 1500, ..Gauges::default() },
            response_p50_ns: Some(1_234),
            worker_busy_max: 0.5,
            ..Row::default()
        };
        let mut out = Vec::new();
        write(&mut out, [row, Row::default()]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text.split_terminator("\r\n").map(|l| l.split(',').collect()).collect();
        assert!(lines.len() == 3 && lines.iter().all(|fields| fields.len() == COLUMNS.len()));
        let of = |name: &str| lines[1][COLUMNS.iter().position(|c| *c == name).unwrap()];
        assert_eq!([of("start_s"), of("requests"), of("requests_per_s")], ["1.000000", "10", "20.000"]);
        assert_eq!([of("response_p50_us"), of("response_p99_us"), of("reap_delay_max_us")], ["1.234", "", "1.500"]);
        assert_eq!([of("cpu_user_s"), of("connections"), of("worker_busy_max_ratio")], ["0.250000", "50", "0.5000"]);
    }
}
