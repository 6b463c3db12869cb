//! The text of procps' vmstat(8): `vmstat [-a] [-t] [-w] N`, `vmstat -d N` and `vmstat -s`.
//!
//! A row of plain vmstat holds rates over its interval and readings at its end; the first row's rates are since boot: its
//! readings are taken, its rates are not. Without `-t` nothing says when a row was: an interval is assumed. `-d` and `-s`
//! give counters as the kernel has them. Sizes are taken as KiB: `vmstat -S` does not say in its text that it was given.
//! Its CPU shares are whole percents, interrupts are in system time, and swapped pages are taken as 4 KiB.

use super::lines::{Line, Lines, figure, shown};
use super::series::Place;
use super::time::{DAY_S, SECOND, date, of_day};
use super::{Format, ImportError, Options, Taken};

pub(super) const FORMAT: Format = Format {
    name: "vmstat",
    about: "procps' vmstat, plain or with -a, -t, -w; -d and -s",
    made_by: "vmstat -t 1",
    parse,
    is_mine: |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.starts_with(&["r", "b", "swpd", "free"]) || line.starts_with("procs ") || line.starts_with("disk- ")
    },
};

const KIB: f64 = 1024.0;
/// KiB/s of swapping in pages.
const SWAP_PAGES: f64 = 0.25;
/// Clock ticks of `-s`, nanoseconds (USER_HZ is 100 on every architecture that Linux has today).
const TICK_NS: f64 = 1e7;

enum Act {
    Gauge(&'static str, f64),
    Rate(&'static str, f64),
    Percent(&'static str),
}

const COLUMNS: &[(&str, Act)] = &[
    ("r", Act::Gauge("runnable", 1.0)),
    ("b", Act::Gauge("blocked", 1.0)),
    ("swpd", Act::Gauge("swap_used_bytes", KIB)),
    ("free", Act::Gauge("memory_free_bytes", KIB)),
    ("buff", Act::Gauge("memory_buffers_bytes", KIB)),
    ("cache", Act::Gauge("memory_reclaimable_bytes", KIB)),
    ("inact", Act::Gauge("memory_inactive_bytes", KIB)),
    ("active", Act::Gauge("memory_active_bytes", KIB)),
    ("si", Act::Rate("swap_in_pages", SWAP_PAGES)),
    ("so", Act::Rate("swap_out_pages", SWAP_PAGES)),
    ("bi", Act::Rate("page_in_bytes", KIB)),
    ("bo", Act::Rate("page_out_bytes", KIB)),
    ("in", Act::Rate("interrupts", 1.0)),
    ("cs", Act::Rate("context_switches", 1.0)),
    ("us", Act::Percent("user_ns")),
    ("gu", Act::Percent("user_ns")),
    ("sy", Act::Percent("system_ns")),
    ("id", Act::Percent("idle_ns")),
    ("wa", Act::Percent("iowait_ns")),
    ("st", Act::Percent("steal_ns")),
];

/// The lines of `vmstat -s` that are taken: the words behind the number, where they go, the scale.
const SUMS: &[(&str, Place, &str, f64)] = &[
    ("K total memory", Place::Host, "memory_total_bytes", KIB),
    ("K active memory", Place::Host, "memory_active_bytes", KIB),
    ("K inactive memory", Place::Host, "memory_inactive_bytes", KIB),
    ("K free memory", Place::Host, "memory_free_bytes", KIB),
    ("K buffer memory", Place::Host, "memory_buffers_bytes", KIB),
    ("K total swap", Place::Host, "swap_total_bytes", KIB),
    ("K used swap", Place::Host, "swap_used_bytes", KIB),
    ("K free swap", Place::Host, "swap_free_bytes", KIB),
    ("system cpu ticks", Place::Cpu, "system_ns", TICK_NS),
    ("idle cpu ticks", Place::Cpu, "idle_ns", TICK_NS),
    ("IO-wait cpu ticks", Place::Cpu, "iowait_ns", TICK_NS),
    ("IRQ cpu ticks", Place::Cpu, "irq_ns", TICK_NS),
    ("softirq cpu ticks", Place::Cpu, "softirq_ns", TICK_NS),
    ("stolen cpu ticks", Place::Cpu, "steal_ns", TICK_NS),
    ("K paged in", Place::Host, "page_in_bytes", KIB),
    ("K paged out", Place::Host, "page_out_bytes", KIB),
    ("pages paged in", Place::Host, "page_in_bytes", KIB),
    ("pages paged out", Place::Host, "page_out_bytes", KIB),
    ("pages swapped in", Place::Host, "swap_in_pages", 1.0),
    ("pages swapped out", Place::Host, "swap_out_pages", 1.0),
    ("interrupts", Place::Host, "interrupts", 1.0),
    ("CPU context switches", Place::Host, "context_switches", 1.0),
    ("forks", Place::Host, "forks", 1.0),
];

/// A row of `-d` behind the disk's name: reads, merged, sectors, ms; the same of writes; under way, seconds.
const DISK: [Option<(&str, f64)>; 10] = [
    Some(("reads", 1.0)),
    None,
    Some(("read_bytes", 512.0)),
    Some(("read_ns", 1e6)),
    Some(("writes", 1.0)),
    None,
    Some(("write_bytes", 512.0)),
    Some(("write_ns", 1e6)),
    Some(("in_flight", 1.0)),
    Some(("busy_ns", 1e9)),
];

fn parse(lines: &mut Lines<'_>, options: &Options, taken: &mut Taken) -> Result<(), ImportError> {
    let every_ns = options.every_ns.and_then(|ns| i64::try_from(ns).ok()).filter(|ns| *ns > 0);
    let mut vmstat = Vmstat {
        taken,
        kind: Kind::Unknown,
        columns: Vec::new(),
        every_ns: every_ns.unwrap_or(SECOND),
        is_assumed: every_ns.is_none(),
        is_first_interval: options.is_first_interval,
        now_ns: None,
        block: 0,
        user_ticks: None,
        disks: Vec::new(),
    };
    while let Some(line) = lines.next() {
        vmstat.line(&line);
    }
    vmstat.say();
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unknown,
    Rows,
    Disks,
    Sums,
}

struct Vmstat<'t> {
    taken: &'t mut Taken,
    kind: Kind,
    columns: Vec<String>,
    every_ns: i64,
    is_assumed: bool,
    is_first_interval: bool,
    /// The last row's moment.
    now_ns: Option<i64>,
    /// Blocks of `-d` and `-s` so far.
    block: i64,
    user_ticks: Option<f64>,
    /// Disks of this block, to see where the next begins.
    disks: Vec<String>,
}

impl Vmstat<'_> {
    fn line(&mut self, line: &Line) {
        if line.is_garbage {
            return self.taken.misread(line.number, "it is no text");
        }
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let Some(first) = words.first().copied() else { return };
        if words.contains(&"swpd") && words.contains(&"free") {
            self.kind = Kind::Rows;
            self.columns = words.iter().map(|word| (*word).to_owned()).collect();
        } else if first.starts_with("procs") || first.starts_with("--procs") {
            self.kind = Kind::Rows;
        } else if first.starts_with("disk-") {
            self.kind = Kind::Disks;
        } else if self.kind == Kind::Disks && words.starts_with(&["total", "merged", "sectors"]) {
        } else if self.kind == Kind::Disks {
            self.disk(line, &words);
        } else if self.kind == Kind::Rows && !self.columns.is_empty() {
            self.row(line, &words);
        } else if figure(first).is_some() && words.len() > 1 {
            self.kind = Kind::Sums;
            self.sum(line, first, &words[1..].join(" "));
        } else {
            let why = format!("expected a header or a row of vmstat, got '{}'", shown(&line.text));
            self.taken.misread(line.number, why);
        }
    }

    fn row(&mut self, line: &Line, words: &[&str]) {
        let is_known = |name: &str| COLUMNS.iter().any(|(known, _)| *known == name);
        // Behind the known ones stands the time zone's name, over a date and a time.
        let wanted = self.columns.iter().take_while(|name| is_known(name)).count();
        let stamp = match words.get(wanted..) {
            Some([]) if wanted == self.columns.len() => None,
            Some([day, time]) => match (date(day), of_day(time)) {
                (Some(day), Some(time)) => Some((day.days * DAY_S + time) * SECOND),
                _ => {
                    return self
                        .taken
                        .misread(line.number, format!("expected a date and a time, got '{}'", shown(day)));
                }
            },
            _ => {
                let got = words.len();
                return self
                    .taken
                    .misread(line.number, format!("expected {wanted} columns, got {got}: is it cut off?"));
            }
        };
        let values: Option<Vec<f64>> = words.iter().take(wanted).map(|word| figure(word)).collect();
        let Some(values) = values else {
            return self.taken.misread(line.number, "expected a figure, got something else in one of its columns");
        };
        let of_cpu = |name: &str| COLUMNS.iter().any(|(known, act)| *known == name && matches!(act, Act::Percent(_)));
        let cpu = self.columns.iter().zip(&values).filter(|(name, _)| of_cpu(name));
        if cpu.into_iter().any(|(_, percent)| !(0.0..=101.0).contains(percent)) {
            return self.taken.misread(line.number, "expected shares of CPU time, got more than 100 %");
        }
        let (at_ns, interval_ns) = match (stamp, self.now_ns) {
            (Some(at_ns), Some(before_ns)) if at_ns <= before_ns => {
                // Two rows in one second of the clock, or a clock that was set back.
                (before_ns, 0)
            }
            (Some(at_ns), Some(before_ns)) => (at_ns, at_ns - before_ns),
            (None, Some(before_ns)) => (before_ns.saturating_add(self.every_ns), self.every_ns),
            (stamp, None) => (stamp.unwrap_or(0), if self.is_first_interval { self.every_ns } else { 0 }),
        };
        self.name(stamp.is_some());
        let is_first = self.now_ns.is_none();
        if is_first && self.is_first_interval {
            self.taken.series.touch(at_ns.saturating_sub(self.every_ns));
        }
        self.now_ns = Some(at_ns);
        let interval_s = interval_ns.min(2 * DAY_S * SECOND) as f64 / 1e9;
        for (name, value) in self.columns.iter().zip(&values) {
            let Some((_, act)) = COLUMNS.iter().find(|(known, _)| known == name) else { continue };
            let value = value.max(0.0);
            match *act {
                Act::Gauge(name, scale) => self.taken.series.is(at_ns, Place::Host, name, value * scale),
                _ if is_first && !self.is_first_interval => {}
                Act::Rate(name, scale) => {
                    self.taken.series.grow(at_ns, Place::Host, name, value * scale * interval_s);
                }
                Act::Percent(name) => {
                    self.taken.series.grow(at_ns, Place::Cpu, name, value / 100.0 * interval_s * 1e9);
                }
            }
        }
    }

    fn disk(&mut self, line: &Line, words: &[&str]) {
        let Some((name, numbers)) = words.split_first() else { return };
        let values: Option<Vec<f64>> = numbers.iter().map(|word| figure(word)).collect();
        let Some(values) = values.filter(|values| values.len() == DISK.len()) else {
            let why = format!("expected a disk's name and ten figures, got '{}'", shown(&line.text));
            return self.taken.misread(line.number, why);
        };
        if self.disks.iter().any(|disk| disk == name) {
            self.disks.clear();
            self.block += 1;
        }
        if self.disks.len() < 4096 {
            self.disks.push((*name).to_owned());
        }
        // Never used: loop0 and its like.
        if values.iter().all(|value| *value == 0.0) {
            return;
        }
        self.name(false);
        let at_ns = self.block.saturating_mul(self.every_ns);
        let Some(place) = self.taken.series.disk(name) else { return };
        for (value, (metric, scale)) in values.iter().zip(DISK).filter_map(|(value, to)| Some((value, to?))) {
            self.taken.series.is(at_ns, place, metric, value.max(0.0) * scale);
        }
    }

    fn sum(&mut self, line: &Line, number: &str, what: &str) {
        let Some(value) = figure(number).filter(|value| *value >= 0.0) else {
            return self.taken.misread(line.number, format!("expected a number, got '{}'", shown(number)));
        };
        if what == "K total memory" && !self.taken.series.is_empty() {
            self.block += 1;
        }
        self.name(false);
        let at_ns = self.block.saturating_mul(self.every_ns);
        if what.ends_with("nice user cpu ticks") || what.ends_with("user cpu ticks") {
            // "non-nice" comes first, "nice" behind it.
            let sum = value + self.user_ticks.take().unwrap_or(0.0);
            self.user_ticks = what.starts_with("non-nice").then_some(value);
            self.taken.series.is(at_ns, Place::Cpu, "user_ns", sum * TICK_NS);
        } else if let Some((_, place, name, scale)) = SUMS.iter().find(|(known, ..)| *known == what) {
            self.taken.series.is(at_ns, *place, name, value * scale);
        } else {
            self.taken.not_taken(what);
        }
    }

    fn name(&mut self, is_dated: bool) {
        self.taken.is_dated |= is_dated;
        if self.taken.about.what.is_empty() {
            self.taken.about.what = match self.kind {
                Kind::Disks => "text of vmstat -d",
                Kind::Sums => "text of vmstat -s",
                Kind::Rows | Kind::Unknown if is_dated => "text of vmstat -t",
                Kind::Rows | Kind::Unknown => "text of vmstat",
            }
            .to_owned();
        }
    }

    /// How it was read.
    fn say(&mut self) {
        if self.kind == Kind::Rows && !self.is_first_interval {
            self.taken.note("the first row's rates are since boot and of no interval: only its readings are taken (--first-interval for vmstat -y)");
        }
        let is_dated = self.taken.is_dated;
        if !is_dated && self.is_assumed && !self.taken.series.is_empty() {
            self.taken.note("nothing says how long an interval was: 1 s is assumed (--every says otherwise)");
        }
        if is_dated {
            self.taken.note("times are taken as they are printed, as if they were UTC");
        }
        if self.kind == Kind::Rows {
            self.taken.note("CPU shares are whole percents, and interrupts are in system time");
        }
    }
}
