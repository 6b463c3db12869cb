//! Readings by time: a row a snapshot, a column a metric. Counters are shown as a rate since the row before.
//!
//! Rows may be written as they come; of a recording, events stand between them at their time. A cell without a reading is a dash, never a zero.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use diagnose::usage::{HostTime, processes};
use model::metrics::Metrics;
use model::snapshot::{ProcessSample, Role};
use model::units::{show_bytes, show_count};
use model::{Event, Snapshot};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A metric to show by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// In what it is counted.
    pub unit: String,
    /// Whether it grows.
    pub is_counter: bool,
}

type Of = Box<dyn Fn(&Snapshot, &Snapshot, f64) -> Option<String>>;

/// The table.
pub struct Timeline {
    columns: Vec<(String, Of)>,
}

impl std::fmt::Debug for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.columns.iter().map(|(title, _)| title)).finish()
    }
}

impl Timeline {
    /// The columns that say most about most targets.
    pub fn usual() -> Self {
        let mut columns: Vec<(String, Of)> = Vec::new();
        let mut column = |title: &str, of: Of| columns.push((title.to_owned(), of));
        column("host CPU", Box::new(|a, b, _| host_busy(a, b)));
        column("softirq", Box::new(|a, b, _| softirq_max(a, b)));
        column("target CPU", Box::new(|a, b, s| of_target(a, b, ProcessSample::cpu_ns).map(|ns| share(ns, s))));
        column("CPU wait", Box::new(|a, b, s| of_target(a, b, wait_ns).map(|ns| share(ns, s))));
        column(
            "throttled",
            Box::new(|a, b, s| first_of_target(a, b, "cgroup_cpu_throttled_ns").map(|ns| share(ns, s))),
        );
        column("memory", Box::new(|_, b, _| now(b, |p| p.rss_bytes).map(|bytes| show_bytes(bytes as f64))));
        column("descr.", Box::new(|_, b, _| now(b, |p| p.descriptors).map(|n| show_count(n as f64))));
        column("to accept", Box::new(|_, b, _| b.listeners.iter().map(|l| l.waiting).max().map(|n| n.to_string())));
        column("drops/s", Box::new(|a, b, s| grown(&a.network, &b.network, "listen_drops").map(|n| rate(n, s))));
        column("resent/s", Box::new(|a, b, s| grown(&a.network, &b.network, "tcp_retransmits").map(|n| rate(n, s))));
        column("swap-in/s", Box::new(|a, b, s| grown(&a.host, &b.host, "swap_in_pages").map(|n| rate(n, s))));
        for (title, name) in [
            ("PSI cpu", "pressure_cpu_some_ns"),
            ("PSI mem", "pressure_memory_some_ns"),
            ("PSI io", "pressure_io_some_ns"),
        ] {
            column(title, Box::new(move |a, b, s| grown(&a.host, &b.host, name).map(|ns| share(ns, s))));
        }
        Timeline { columns }
    }

    /// Of a machine without a target, as another instrument saw it: only columns there are readings for.
    pub fn machine(snapshots: &[Snapshot]) -> Self {
        let mut columns: Vec<(String, Of)> = Vec::new();
        let mut column = |title: &str, of: Of| columns.push((title.to_owned(), of));
        for (title, name) in [("runnable", "runnable"), ("blocked", "blocked")] {
            column(title, Box::new(move |_, b, _| b.host.of(name).map(|n| n.to_string())));
        }
        column("load 1m", Box::new(|_, b, _| Some(format!("{:.2}", b.host.of("load_1m_hundredths")? as f64 / 100.0))));
        for (title, name) in
            [("available", "memory_available_bytes"), ("free", "memory_free_bytes"), ("swapped", "swap_used_bytes")]
        {
            column(title, Box::new(move |_, b, _| b.host.of(name).map(|bytes| show_bytes(bytes as f64))));
        }
        for (title, name) in
            [("swap-out/s", "swap_out_pages"), ("maj.flt/s", "major_faults"), ("switches/s", "context_switches")]
        {
            column(title, Box::new(move |a, b, s| grown(&a.host, &b.host, name).map(|n| rate(n, s))));
        }
        column("disk busy", Box::new(|a, b, s| most(&a.disks, &b.disks, "busy_ns").map(|ns| share(ns, s))));
        for (title, name) in [("received", "received_bytes"), ("sent", "sent_bytes")] {
            let of = move |a: &Snapshot, b: &Snapshot, s: f64| {
                most(&a.interfaces, &b.interfaces, name).map(|bytes| format!("{}/s", show_bytes(bytes as f64 / s)))
            };
            column(title, Box::new(of));
        }
        let mut all = Timeline::usual().columns;
        // The share of the CPU stays first.
        all.splice(1..1, columns);
        all.retain(|(_, of)| {
            snapshots.windows(2).any(|pair| {
                let passed_s = pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64 / 1e9;
                passed_s > 0.0 && of(&pair[0], &pair[1], passed_s).is_some()
            })
        });
        // What is free says little where it is known what could be had.
        if all.iter().any(|(title, _)| title == "available") {
            all.retain(|(title, _)| title != "free");
        }
        Timeline { columns: all }
    }

    /// Metrics by name: of the host, the network, else of the target's processes together.
    pub fn of(metrics: Vec<Column>) -> Self {
        let column = |column: Column| {
            let title = if column.is_counter && column.unit != "ns" {
                format!("{}/s", column.name)
            } else {
                column.name.clone()
            };
            let of = move |a: &Snapshot, b: &Snapshot, s: f64| {
                let value = match column.is_counter {
                    true => grown(&a.host, &b.host, &column.name)
                        .or_else(|| grown(&a.network, &b.network, &column.name))
                        .or_else(|| of_target(a, b, |p| of_process(p, &column.name)))?,
                    false => b
                        .host
                        .of(&column.name)
                        .or_else(|| b.network.of(&column.name))
                        .or_else(|| now(b, |p| of_process(p, &column.name)))?,
                };
                Some(match (column.is_counter, &*column.unit) {
                    (true, "ns") => share(value, s),
                    (true, "bytes") => format!("{}/s", show_bytes(value as f64 / s)),
                    (true, _) => rate(value, s),
                    (false, "ns") => crate::words::duration(value),
                    (false, "bytes") => show_bytes(value as f64),
                    (false, "bytes/s") => format!("{}/s", show_bytes(value as f64)),
                    (false, _) => show_count(value as f64),
                })
            };
            (title, Box::new(of) as Of)
        };
        Timeline { columns: metrics.into_iter().map(column).collect() }
    }

    /// Writes the line of titles.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn head(&self, to: &mut impl Write, style: Style) -> io::Result<()> {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| format!("  {title:>WIDTH$}")).collect();
        Page::new(to, style).row(&[(Paint::Heading, format!("{:>8}{}", "time", titles.concat()))])
    }

    /// Writes one row, from the snapshots before, the oldest first, and this one. What is read once a second only is set
    /// against the last snapshot that has it.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row(&self, to: &mut impl Write, before: &[Snapshot], now: &Snapshot, style: Style) -> io::Result<()> {
        let mut line = format!("{:>6.1} s", now.at_ns as f64 / 1e9);
        for (title, of) in &self.columns {
            let width = title.chars().count().max(WIDTH);
            let mut values = before.iter().rev().take(LOOKED_BACK_MAX).filter_map(|before| {
                let passed_s = now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
                if passed_s > 0.0 { of(before, now, passed_s) } else { None }
            });
            let value = values.next();
            let value = value.unwrap_or_else(|| "-".to_owned());
            line.push_str(&format!("  {value:>width$}"));
        }
        Page::new(to, style).row(&[(Paint::Plain, line)])
    }

    /// Writes the whole table.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write, snapshots: &[Snapshot], style: Style) -> io::Result<()> {
        if snapshots.len() < 2 {
            let text = "the recording has fewer than two snapshots: there is no course to show";
            return Page::new(to, style).row(&[(Paint::Plain, text.to_owned())]);
        }
        self.head(to, style)?;
        (1..snapshots.len()).try_for_each(|i| self.row(to, &snapshots[..i], &snapshots[i], style))
    }

    /// The same, with each event at its time: below the row in whose time it fell.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_with(
        &self,
        to: &mut impl Write,
        snapshots: &[Snapshot],
        events: &[Event],
        style: Style,
    ) -> io::Result<()> {
        if snapshots.len() < 2 {
            return self.write(to, snapshots, style);
        }
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_by_key(|event| event.at_ns);
        let mut events = events.into_iter().peekable();
        self.head(to, style)?;
        for i in 1..snapshots.len() {
            self.row(to, &snapshots[..i], &snapshots[i], style)?;
            while let Some(event) = events.next_if(|event| event.at_ns <= snapshots[i].at_ns) {
                write_event(to, event, style)?;
            }
        }
        // After the last reading.
        events.try_for_each(|event| write_event(to, event, style))
    }
}

/// An event, in the rows' column of times.
fn write_event(to: &mut impl Write, event: &Event, style: Style) -> io::Result<()> {
    let at = format!("{:>6.1} s  ", event.at_ns as f64 / 1e9);
    Page::new(to, style).wrapped(at.len(), (Paint::Dim, at), Paint::Warn, &format!("{}: {}", event.kind, event.text))
}

/// Narrowest column.
const WIDTH: usize = 9;
/// Snapshots that are looked back through for one that has what the row's has: ticks of a tenth of a second, and a second.
pub const LOOKED_BACK_MAX: usize = 12;

/// How much something of the target grew, all its processes together.
fn of_target(a: &Snapshot, b: &Snapshot, of: impl Fn(&ProcessSample) -> Option<u64>) -> Option<u64> {
    let each = processes(a, b, Role::Target).filter_map(|(before, now)| Some(of(now)?.saturating_sub(of(before)?)));
    each.reduce(u64::saturating_add)
}

/// The same of one process only: where all have the same group, its figure is each one's.
fn first_of_target(a: &Snapshot, b: &Snapshot, name: &str) -> Option<u64> {
    processes(a, b, Role::Target).find_map(|(before, now)| grown(&before.metrics, &now.metrics, name))
}

/// What the target has now, all its processes together.
fn now(b: &Snapshot, of: impl Fn(&ProcessSample) -> Option<u64>) -> Option<u64> {
    b.processes.iter().filter(|p| p.role == Role::Target).filter_map(of).reduce(u64::saturating_add)
}

fn of_process(process: &ProcessSample, name: &str) -> Option<u64> {
    match name {
        "rss_bytes" => process.rss_bytes,
        "descriptors" => process.descriptors,
        "threads_total" => Some(process.threads_total.into()),
        "user_ns" => process.user_ns,
        "system_ns" => process.system_ns,
        name => process.metrics.of(name),
    }
}

/// Time its threads waited for a CPU.
fn wait_ns(process: &ProcessSample) -> Option<u64> {
    process.threads.iter().filter_map(|thread| thread.wait_ns).reduce(u64::saturating_add)
}

fn grown(a: &Metrics, b: &Metrics, name: &str) -> Option<u64> {
    Some(b.of(name)?.saturating_sub(a.of(name)?))
}

/// What the device that did most of it did.
fn most(a: &BTreeMap<String, Metrics>, b: &BTreeMap<String, Metrics>, name: &str) -> Option<u64> {
    b.iter().filter_map(|(device, now)| grown(a.get(device)?, now, name)).max()
}

fn host_busy(a: &Snapshot, b: &Snapshot) -> Option<String> {
    let used = HostTime::between(&a.cpu?, &b.cpu?).shares()?;
    Some(crate::words::percent(100.0 * used.busy))
}

/// Soft interrupts' share of the core that has most of them.
fn softirq_max(a: &Snapshot, b: &Snapshot) -> Option<String> {
    let shares = a.cores.iter().zip(&b.cores).filter_map(|(a, b)| {
        let total = b.total_ns().saturating_sub(a.total_ns());
        // None since boot: they were not read (sar without -u ALL counts them as system time).
        (total > 0 && b.softirq_ns > 0).then(|| b.softirq_ns.saturating_sub(a.softirq_ns) as f64 / total as f64)
    });
    shares.reduce(f64::max).map(|share| crate::words::percent(100.0 * share))
}

fn share(ns: u64, passed_s: f64) -> String {
    crate::words::percent(100.0 * ns as f64 / 1e9 / passed_s)
}

fn rate(count: u64, passed_s: f64) -> String {
    show_count((count as f64 / passed_s * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: false, width: 80, unicode: true };

    fn snapshot(at_s: i64, drops: Option<u64>) -> Snapshot {
        let mut snapshot = Snapshot { at_ns: at_s * 1_000_000_000, ..Snapshot::default() };
        snapshot.network.set_if("listen_drops", drops);
        snapshot.host.set("pressure_cpu_some_ns", at_s as u64 * 250_000_000);
        snapshot.host.set("memory_free_bytes", 2048);
        snapshot
    }

    fn text(timeline: &Timeline, snapshots: &[Snapshot]) -> String {
        let mut out = Vec::new();
        timeline.write(&mut out, snapshots, STYLE).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn counters_are_rates_and_what_was_not_read_is_a_dash() {
        let snapshots = [snapshot(0, Some(5)), snapshot(2, Some(25)), snapshot(4, None)];
        let usual = text(&Timeline::usual(), &snapshots);
        let lines: Vec<Vec<&str>> = usual.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{usual}");
        assert!(lines[1].contains(&"10") && usual.lines().nth(1).unwrap().contains("25"), "{usual}");
        assert!(!usual.lines().nth(2).unwrap().contains("10"), "{usual}");
        assert!(text(&Timeline::usual(), &snapshots[..1]).contains("fewer than two"));
    }

    #[test]
    fn metrics_are_shown_in_their_units() {
        let column =
            |name: &str, unit: &str, is_counter| Column { name: name.to_owned(), unit: unit.to_owned(), is_counter };
        let timeline = Timeline::of(vec![
            column("listen_drops", "connections", true),
            column("pressure_cpu_some_ns", "ns", true),
            column("memory_free_bytes", "bytes", false),
            column("no_such", "", false),
        ]);
        let shown = text(&timeline, &[snapshot(0, Some(5)), snapshot(2, Some(25))]);
        let words: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        assert!(shown.contains("listen_drops/s") && words.contains(&"10") && words.last() == Some(&"-"), "{shown}");
        assert!(shown.contains("25") && shown.contains('%') && shown.contains("2"), "{shown}");
    }

    #[test]
    fn events_stand_at_their_time() {
        let snapshots = [snapshot(0, None), snapshot(2, None), snapshot(4, None)];
        let event = |at_s: i64, kind: &str| Event::new(at_s * 1_000_000_000, kind, "x");
        let events = [event(9, "late"), event(1, "early"), event(4, "last")];
        let mut out = Vec::new();
        Timeline::usual().write_with(&mut out, &snapshots, &events, STYLE).unwrap();
        let text = String::from_utf8(out).unwrap();
        let words: Vec<&str> = text.lines().map(|line| line.split_whitespace().nth(2).unwrap_or_default()).collect();
        assert_eq!([words[2], words[4], words[5]], ["early:", "last:", "late:"], "{text}");
        assert!(text.lines().nth(2).unwrap().starts_with("   1.0 s  early: x"), "{text}");
    }
}
