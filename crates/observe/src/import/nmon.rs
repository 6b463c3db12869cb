//! A file of nmon for Linux (`nmon -f`): a line a section and snapshot, `SECTION,T0001,…`, under a header
//! `SECTION,words,column…`; `ZZZZ,T0001,time,date` says when. Sorted files are read, too: there the times come last,
//! and are made from the start and the interval in the lines `AAA`.
//!
//! nmon prints its times to the second: where the interval fits, moments are that far apart. Rates are per second,
//! counts of `VM` per interval. The first line of `PROC` has no rates yet. Processes (`TOP`) are not taken.

use super::lines::{Line, Lines, figure, shown};
use super::series::{Place, Series};
use super::time::{DAY_S, SECOND, date, of_day};
use super::{Format, ImportError, Options, Taken};
use crate::limits::IMPORT_SECTIONS_MAX;
use std::collections::BTreeMap;

pub(super) const FORMAT: Format = Format {
    name: "nmon",
    about: "a file of nmon for Linux",
    made_by: "nmon -f -s 5 -c 100",
    parse,
    is_mine: |line| line.starts_with("AAA,") || line.starts_with("ZZZZ,T") || line.starts_with("CPU_ALL,"),
};

const MIB: f64 = 1024.0 * 1024.0;
const KIB: f64 = 1024.0;
/// Longest interval that is one.
const INTERVAL_MAX_S: i64 = 2 * DAY_S;

const MEM: &[(&str, &str)] = &[
    ("memtotal", "memory_total_bytes"),
    ("memfree", "memory_free_bytes"),
    ("cached", "memory_cached_bytes"),
    ("active", "memory_active_bytes"),
    ("inactive", "memory_inactive_bytes"),
    ("buffers", "memory_buffers_bytes"),
    ("swaptotal", "swap_total_bytes"),
    ("swapfree", "swap_free_bytes"),
];

/// Counts of an interval, and their scale.
const VM: &[(&str, &str, f64)] = &[
    ("pgpgin", "page_in_bytes", KIB),
    ("pgpgout", "page_out_bytes", KIB),
    ("pswpin", "swap_in_pages", 1.0),
    ("pswpout", "swap_out_pages", 1.0),
    ("pgfault", "page_faults", 1.0),
    ("pgmajfault", "major_faults", 1.0),
    ("allocstall", "allocation_stalls", 1.0),
];

const CPU: &[(&str, &str)] = &[
    ("User%", "user_ns"),
    ("Sys%", "system_ns"),
    ("Wait%", "iowait_ns"),
    ("Idle%", "idle_ns"),
    ("Steal%", "steal_ns"),
];

fn parse(lines: &mut Lines<'_>, _: &Options, taken: &mut Taken) -> Result<(), ImportError> {
    let mut nmon = Nmon {
        taken,
        headers: BTreeMap::new(),
        day: None,
        start_s: None,
        interval_s: None,
        number: 0,
        at_ns: None,
        before_ns: None,
        length_ns: 0,
        has_procs: false,
        has_dates: false,
    };
    while let Some(line) = lines.next() {
        nmon.line(&line);
    }
    if !nmon.taken.series.is_empty() {
        nmon.taken.about.what = "file of nmon".to_owned();
        nmon.taken.is_dated = nmon.has_dates;
        nmon.taken.note("times are taken as they are printed, as if they were UTC: the file names no zone");
        nmon.taken.note("soft interrupts are in system time");
    }
    Ok(())
}

struct Nmon<'t> {
    taken: &'t mut Taken,
    headers: BTreeMap<String, Vec<String>>,
    day: Option<i64>,
    /// When the file begins, seconds of the day.
    start_s: Option<i64>,
    interval_s: Option<i64>,
    /// The snapshot that is read.
    number: u64,
    at_ns: Option<i64>,
    before_ns: Option<i64>,
    length_ns: i64,
    has_procs: bool,
    has_dates: bool,
}

impl Nmon<'_> {
    fn line(&mut self, line: &Line) {
        if line.is_garbage {
            return self.taken.misread(line.number, "it is no text");
        }
        let cells: Vec<&str> = line.text.split(',').map(str::trim).collect();
        let [section, second, rest @ ..] = cells.as_slice() else {
            return self.taken.misread(line.number, format!("expected SECTION,…, got '{}'", shown(&line.text)));
        };
        let number = second.strip_prefix('T').and_then(|n| n.parse::<u64>().ok()).filter(|n| (1..1 << 32).contains(n));
        match (*section, number) {
            ("AAA", _) => self.about(second, rest),
            // Free text of the machine, and who owned the processes.
            ("BBBP" | "BBBB" | "BBBC" | "BBBD" | "BBBL" | "BBBN" | "BBBR" | "BBBV" | "UARG" | "ERROR", _) => {}
            ("TOP", _) => self.taken.not_taken("TOP"),
            ("ZZZZ", Some(number)) => self.moment(line, number, rest),
            (_, Some(number)) => self.row(line, section, number, rest),
            (section, None) if is_section(section) => self.header(line, section, rest),
            _ => self.taken.misread(line.number, format!("expected SECTION,T0001,…, got '{}'", shown(&line.text))),
        }
    }

    fn about(&mut self, what: &str, rest: &[&str]) {
        let Some(value) = rest.first() else { return };
        match what {
            "host" => self.taken.about.host = shown(value),
            "OS" => self.taken.about.kernel = rest.get(1).map(|kernel| shown(kernel)).unwrap_or_default(),
            "cpus" => self.taken.about.cores = value.parse().ok().filter(|n| (1..=4096).contains(n)),
            "interval" => self.interval_s = value.parse().ok().filter(|s| (1..=DAY_S).contains(s)),
            "time" => self.start_s = of_day(value),
            "date" => self.day = date(value).map(|date| date.days),
            _ => {}
        }
    }

    /// `ZZZZ,T0001,19:50:23,21-NOV-2026`.
    fn moment(&mut self, line: &Line, number: u64, rest: &[&str]) {
        let [time, day @ ..] = rest else {
            return self.taken.misread(line.number, "expected ZZZZ,T0001,time,date");
        };
        let Some(seconds) = of_day(time) else {
            return self.taken.misread(line.number, format!("expected a time of day, got '{}'", shown(time)));
        };
        if let Some(date) = day.first().and_then(|day| date(day)) {
            self.day = Some(date.days);
        }
        if number <= self.number && self.at_ns.is_some() {
            // Of a sorted file, whose rows have been read.
            return;
        }
        let printed_ns = (self.day.unwrap_or(0) * DAY_S + seconds) * SECOND;
        self.has_dates |= self.day.is_some();
        let due_ns = self.at_ns.zip(self.interval_s).map(|(at_ns, interval_s)| at_ns + interval_s * SECOND);
        self.go_to(number, due_ns.filter(|due_ns| (due_ns - printed_ns).abs() <= SECOND).unwrap_or(printed_ns));
    }

    fn go_to(&mut self, number: u64, at_ns: i64) {
        let usual_ns = self.interval_s.map_or(0, |s| s * SECOND);
        let before_ns = match self.at_ns {
            Some(before_ns) if before_ns < at_ns => before_ns,
            // The first, or a clock that was set back.
            _ => at_ns.saturating_sub(usual_ns),
        };
        let length_ns = at_ns.saturating_sub(before_ns);
        self.length_ns = if length_ns <= INTERVAL_MAX_S * SECOND { length_ns } else { 0 };
        (self.number, self.at_ns, self.before_ns) = (number, Some(at_ns), Some(before_ns));
        self.taken.series.touch(before_ns);
    }

    /// Makes the moment of a row that comes before its time; whether there is one.
    fn find(&mut self, number: u64) -> bool {
        if number == self.number && self.at_ns.is_some() {
            return true;
        }
        let Some((start_s, interval_s)) = self.start_s.zip(self.interval_s) else { return false };
        let steps = i64::try_from(number).unwrap_or(0);
        // Ten years, at the most.
        if steps.saturating_mul(interval_s) > 3660 * DAY_S {
            return false;
        }
        self.has_dates |= self.day.is_some();
        self.taken.note(
            "lines are not in the order of time (a sorted file?): times are made from its start and its interval",
        );
        let first_ns = (self.day.unwrap_or(0) * DAY_S + start_s) * SECOND;
        self.at_ns = Some(first_ns + (steps - 1) * interval_s * SECOND);
        self.go_to(number, first_ns + steps * interval_s * SECOND);
        true
    }

    fn header(&mut self, line: &Line, section: &str, rest: &[&str]) {
        if self.headers.len() >= IMPORT_SECTIONS_MAX + usize::from(crate::limits::IMPORT_CORES_MAX) {
            return self.taken.misread(line.number, "it begins one section more than nmon has");
        }
        let columns: Vec<String> = rest.iter().map(|column| (*column).to_owned()).collect();
        let is_taken = |column: &str| match section {
            "MEM" => MEM.iter().any(|(name, _)| *name == column),
            "VM" => VM.iter().any(|(name, ..)| *name == column),
            "PROC" => ["Runnable", "Blocked", "pswitch", "fork"].contains(&column),
            "JFSFILE" | "DISKBSIZE" => false,
            _ => true,
        };
        match section {
            "MEM" | "VM" | "PROC" => {
                for column in columns.iter().filter(|column| !is_taken(column)) {
                    self.taken.not_taken(&format!("{section} {column}"));
                }
            }
            section if place_of(section).is_none() => self.taken.not_taken(section),
            _ => {}
        }
        self.headers.insert(section.to_owned(), columns);
    }

    fn row(&mut self, line: &Line, section: &str, number: u64, rest: &[&str]) {
        let Some(of) = place_of(section) else { return };
        let Some(columns) = self.headers.get(section) else {
            return self.taken.misread(line.number, format!("there was no header of {} before it", shown(section)));
        };
        if rest.len() < columns.len() {
            let why = format!("expected {} columns, got {}: is it cut off?", columns.len(), rest.len());
            return self.taken.misread(line.number, why);
        }
        let columns = columns.clone();
        let values: Vec<Option<f64>> = rest.iter().take(columns.len()).map(|word| figure(word)).collect();
        if values.iter().zip(rest).any(|(value, word)| value.is_none() && !word.is_empty()) {
            return self.taken.misread(line.number, "expected a figure, got something else in one of its columns");
        }
        if !self.find(number) {
            return self.taken.misread(line.number, "nothing says when its snapshot was");
        }
        // -1 stands for what a kernel does not have.
        let cells =
            columns.iter().zip(values).filter_map(|(name, value)| Some((name.as_str(), value.filter(|v| *v >= 0.0)?)));
        match of {
            Of::Cpu(place) => self.cpu(line, place, cells),
            Of::Memory => {
                for (to, value) in cells.filter_map(|(name, v)| Some((MEM.iter().find(|(n, _)| *n == name)?.1, v))) {
                    self.is(Place::Host, to, value * MIB);
                }
            }
            Of::Paging => {
                for ((_, to, scale), value) in
                    cells.filter_map(|(name, v)| Some((VM.iter().find(|(n, ..)| *n == name)?, v)))
                {
                    self.grow(Place::Host, to, value * scale);
                }
            }
            Of::Processes => self.processes(cells),
            Of::Interfaces(scale) => self.interfaces(scale, cells),
            Of::Disks(to, scale) => {
                let scale = scale * self.seconds();
                for (name, value) in cells {
                    if let Some(place) = self.taken.series.disk(name) {
                        self.grow(place, to, value * scale);
                    }
                }
            }
        }
    }

    fn cpu<'c>(&mut self, line: &Line, place: Place, cells: impl Iterator<Item = (&'c str, f64)>) {
        for (to, percent) in cells.filter_map(|(name, v)| Some((CPU.iter().find(|(n, _)| *n == name)?.1, v))) {
            if percent > 100.5 {
                return self.taken.misread(line.number, "expected shares of a core's time, got more than 100 %");
            }
            self.grow(place, to, percent / 100.0 * self.length_ns as f64);
        }
    }

    fn processes<'c>(&mut self, cells: impl Iterator<Item = (&'c str, f64)>) {
        // The first has nothing to be a difference to: it says 0.
        let has_rates = std::mem::replace(&mut self.has_procs, true);
        let seconds = self.seconds();
        for (name, value) in cells {
            match name {
                "Runnable" => self.is(Place::Host, "runnable", value),
                "Blocked" => self.is(Place::Host, "blocked", value),
                "pswitch" if has_rates => self.grow(Place::Host, "context_switches", value * seconds),
                "fork" if has_rates => self.grow(Place::Host, "forks", value * seconds),
                _ => {}
            }
        }
    }

    /// `eth0-read-KB/s`, `eth0-write/s`.
    fn interfaces<'c>(&mut self, scale: f64, cells: impl Iterator<Item = (&'c str, f64)>) {
        let is_bytes = scale != 1.0;
        let seconds = self.seconds();
        for (column, value) in cells {
            let end = if is_bytes { "-KB/s" } else { "/s" };
            let Some((name, way)) = column.strip_suffix(end).and_then(|column| column.rsplit_once('-')) else {
                continue;
            };
            let to = match (way, is_bytes) {
                ("read", true) => "received_bytes",
                ("write", true) => "sent_bytes",
                ("read", false) => "received_packets",
                ("write", false) => "sent_packets",
                _ => continue,
            };
            if let Some(place) = self.taken.series.interface(name) {
                self.grow(place, to, value * scale * seconds);
            }
        }
    }

    fn seconds(&self) -> f64 {
        self.length_ns as f64 / 1e9
    }

    fn grow(&mut self, place: Place, name: &'static str, by: f64) {
        if self.length_ns > 0 {
            self.taken.series.grow(self.at_ns.unwrap_or(0), place, name, by);
        }
    }

    fn is(&mut self, place: Place, name: &'static str, value: f64) {
        self.taken.series.is(self.at_ns.unwrap_or(0), place, name, value);
    }
}

/// What a section is of.
#[derive(Debug, Clone, Copy)]
enum Of {
    Cpu(Place),
    Memory,
    Paging,
    Processes,
    Interfaces(f64),
    Disks(&'static str, f64),
}

/// `None`: of nothing that is taken. More than 150 disks go on in `DISKBUSY1` and so forth.
fn place_of(section: &str) -> Option<Of> {
    let disks = section.trim_end_matches(|c: char| c.is_ascii_digit());
    Some(match section {
        "CPU_ALL" => Of::Cpu(Place::Cpu),
        "MEM" => Of::Memory,
        "VM" => Of::Paging,
        "PROC" => Of::Processes,
        "NET" => Of::Interfaces(KIB),
        "NETPACKET" => Of::Interfaces(1.0),
        _ if disks == "DISKBUSY" => Of::Disks("busy_ns", 1e7),
        _ if disks == "DISKREAD" => Of::Disks("read_bytes", KIB),
        _ if disks == "DISKWRITE" => Of::Disks("write_bytes", KIB),
        _ if disks == "DISKXFER" => Of::Disks("transfers", 1.0),
        // CPU001 is the first core.
        _ => Of::Cpu(Series::core(section.strip_prefix("CPU")?.parse::<u64>().ok()?.checked_sub(1)?)?),
    })
}

/// Capitals, digits and underlines.
fn is_section(word: &str) -> bool {
    let is_of_one = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.len() <= 32 && word.chars().all(is_of_one)
}
