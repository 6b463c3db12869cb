//! INFO: the figures of the running server, in redis' format.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::counters::Gauges;

/// The text of INFO: one section, or all of them if none is named.
pub(super) fn text(section: Option<&str>, gauges: &Gauges, uptime: Duration, is_up: bool, is_durable: bool) -> String {
    let at = |figure: &AtomicU64| figure.load(Relaxed);
    let keys = at(&gauges.keys);
    let resident = resident_bytes().unwrap_or(0);
    let sections: [(&str, &[(&str, u64)]); 7] = [
        ("Server", &[("process_id", u64::from(std::process::id())), ("uptime_in_seconds", uptime.as_secs())]),
        ("Clients", &[("connected_clients", at(&gauges.accepted) - at(&gauges.closed).min(at(&gauges.accepted)))]),
        ("Memory", &[("used_memory", at(&gauges.store_bytes)), ("used_memory_rss", resident)]),
        (
            "Persistence",
            &[
                ("loading", u64::from(!is_up)),
                ("aof_enabled", u64::from(is_durable)),
                ("aof_current_size", at(&gauges.journal_bytes)),
                ("journal_bytes", at(&gauges.journal_bytes)),
                ("journal_commits", at(&gauges.commits)),
                ("journal_rewrites", at(&gauges.rewrites)),
                ("journal_rewrites_failed", at(&gauges.rewrites_failed)),
                ("recovered_records", at(&gauges.recovered)),
                ("cut_bytes", at(&gauges.cut_bytes)),
            ],
        ),
        (
            "Stats",
            &[
                ("total_connections_received", at(&gauges.accepted)),
                ("total_commands_processed", at(&gauges.requests)),
                ("saves", at(&gauges.saves)),
                ("loads", at(&gauges.loads)),
                ("removes", at(&gauges.removes)),
                ("unavailable", at(&gauges.unavailable)),
                ("writes_refused", at(&gauges.writes_refused)),
                ("batches", at(&gauges.batches)),
            ],
        ),
        (
            "Supervision",
            &[
                ("store_up", u64::from(is_up)),
                ("crashes", at(&gauges.crashes)),
                ("restarts", at(&gauges.restarts)),
                ("keys", keys),
            ],
        ),
        ("Keyspace", &[]),
    ];
    let mut text = String::new();
    let all = section.is_none_or(|section| matches!(section, "all" | "default" | "everything"));
    for (name, fields) in sections.iter().filter(|(name, _)| all || section == Some(&name.to_ascii_lowercase())) {
        // Writing into a String cannot fail.
        let gap = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{gap}# {name}\r\n");
        if *name == "Server" {
            let _ = write!(text, "plimsoll_version:{}\r\nredis_mode:standalone\r\n", env!("CARGO_PKG_VERSION"));
        }
        for (field, value) in *fields {
            let _ = write!(text, "{field}:{value}\r\n");
        }
        if *name == "Keyspace" && keys > 0 {
            let _ = write!(text, "db0:keys={keys},expires=0,avg_ttl=0\r\n");
        }
    }
    text
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
