//! The text of sysstat's sar(1), and of `sadf -d`: tables of rates and readings, a section a kind, a row a moment and
//! device. Read from a file (`sar -A -f`) all moments of a section come before the next section, live all sections of
//! a moment; both are read by the rows' own times. A row's interval is from the moment before it in its section,
//! or from the time in the section's header. Averages are skipped; a restart of the machine is an event.
//!
//! Times have no date but the banner's and no zone: a time that goes back by more than half a day is of the next day,
//! one that goes back by less was read before and is left out. `sadf -j` and `-x`, and the binary file, are refused.

mod columns;

use super::lines::{Line, Lines, figure, shown};
use super::series::{Place, Series};
use super::time::{DAY_S, SECOND, date, of_day, of_half_day};
use super::{Format, ImportError, Options, Taken};
use crate::limits::IMPORT_SECTIONS_MAX;
use columns::{Act, KEYS, TABLES, Table};
use std::collections::BTreeMap;

pub(super) const FORMAT: Format = Format {
    name: "sar",
    about: "sysstat's sar, all sections and versions, and sadf -d",
    made_by: "sar -A, sar -A -f FILE, or sadf -d FILE -- -A",
    parse,
    is_mine: |line| line.starts_with("# hostname;") || (line.starts_with("Linux ") && line.contains(" CPU)")),
};

/// Days a section may go on past its banner's.
const DAYS_MAX: i64 = 3660;
/// Longest interval that is one; a longer one is a gap.
const INTERVAL_MAX_S: i64 = 2 * DAY_S;

fn parse(lines: &mut Lines<'_>, _: &Options, taken: &mut Taken) -> Result<(), ImportError> {
    let mut sar =
        Sar { taken, base_day: None, sections: Vec::new(), known: BTreeMap::new(), current: None, repeated: 0 };
    while let Some(line) = lines.next() {
        let text = line.text.trim_start();
        if line.number == 1 && (text.starts_with('{') || text.starts_with('<')) {
            return Err(ImportError::Sadf(if text.starts_with('{') { "JSON (sadf -j)" } else { "XML (sadf -x)" }));
        }
        if line.is_garbage {
            sar.taken.misread(line.number, "it is no text");
        } else if text.contains(';') {
            sar.separated(&line);
        } else {
            sar.printed(&line);
        }
    }
    if sar.repeated > 0 {
        let text = format!("{} rows of moments that had been read before were left out", sar.repeated);
        sar.taken.note(text);
    }
    Ok(())
}

struct Sar<'t> {
    taken: &'t mut Taken,
    /// The banner's day, days since 1970.
    base_day: Option<i64>,
    sections: Vec<Section>,
    known: BTreeMap<String, usize>,
    current: Option<usize>,
    repeated: u64,
}

/// A section and how far it was read.
#[derive(Debug)]
struct Section {
    /// The words of its header, without the time.
    columns: Vec<String>,
    table: Option<&'static Table>,
    /// Which of the columns names the device.
    key: Option<usize>,
    /// What becomes of each column.
    acts: Vec<Option<Act>>,
    /// Days past the banner's.
    days: i64,
    /// Time of the last row or header, seconds since the banner's day began.
    now_s: Option<i64>,
    /// The moment before that, from where its interval runs.
    before_s: Option<i64>,
    /// The last moment whose rows were taken, seconds since 1970.
    taken_s: i64,
}

/// A row and where it belongs.
struct Row<'r> {
    number: u64,
    cells: Vec<&'r str>,
    at_ns: i64,
    interval_s: f64,
}

impl Sar<'_> {
    /// A line as sar prints it.
    fn printed(&mut self, line: &Line) {
        let mut words: Vec<&str> = line.text.split_whitespace().collect();
        let Some(first) = words.first().copied() else { return };
        if first == "Linux" && line.text.contains('(') {
            return self.banner(line, &words);
        }
        // `Average:`, in any language, and `Summary:`: figures, or a header that was seen.
        let has_figures = words.iter().any(|word| figure(word).is_some());
        if first.ends_with(':') && (has_figures || self.known.contains_key(&words[1..].join(" "))) {
            return;
        }
        let Some(mut seconds) = of_day(first) else {
            return self.taken.misread(line.number, format!("expected a time of day, got '{}'", shown(first)));
        };
        words.remove(0);
        if let Some(of_day) = words.first().and_then(|half| of_half_day(seconds, half)) {
            seconds = of_day;
            words.remove(0);
        }
        let rest = words.join(" ");
        if rest.contains("LINUX RESTART") {
            return self.restarted(seconds, &rest);
        }
        if words.first() == Some(&"COM") {
            return;
        }
        if words.is_empty() {
            return self.taken.misread(line.number, "it ends after its time");
        }
        if words.iter().all(|word| figure(word).is_none()) {
            self.header(line.number, &words);
            self.move_to(seconds, true);
        } else if self.current.is_none() {
            self.taken.misread(line.number, "it stands before any header");
        } else {
            let Some((at_s, interval_s)) = self.move_to(seconds, false) else { return };
            self.row(&Row { number: line.number, cells: words, at_ns: at_s * SECOND, interval_s: interval_s as f64 });
        }
    }

    /// `Linux 6.1.0 (host)  2026-11-21  _x86_64_  (2 CPU)`.
    fn banner(&mut self, line: &Line, words: &[&str]) {
        let about = &mut self.taken.about;
        about.what = "text of sysstat's sar".to_owned();
        about.kernel = words.get(1).map(|word| shown(word)).unwrap_or_default();
        let host = line.text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(host, _)| host);
        about.host = host.map(shown).unwrap_or_default();
        let cores = words.iter().rposition(|word| *word == "CPU)").and_then(|at| words.get(at.checked_sub(1)?));
        let cores = cores.and_then(|word| word.trim_start_matches('(').parse().ok());
        about.cores = cores.filter(|n| (1..=4096).contains(n)).or(about.cores);
        match words.iter().skip(2).find_map(|word| date(word)) {
            Some(date) => {
                self.base_day = Some(date.days);
                self.taken.is_dated = true;
                if date.is_ambiguous {
                    self.taken.note(format!("line {}: its date was read as month/day/year", line.number));
                }
                self.taken.note("times are taken as they are printed, as if they were UTC: the text names no zone");
            }
            None => self.taken.misread(line.number, "its banner has no date that is understood"),
        }
        for section in &mut self.sections {
            (section.days, section.now_s, section.before_s) = (0, None, None);
        }
        self.current = None;
    }

    /// The section of a header, made when it is first seen.
    fn header(&mut self, number: u64, words: &[&str]) {
        let name = words.join(" ");
        if let Some(at) = self.known.get(&name) {
            self.current = Some(*at);
            return;
        }
        if self.sections.len() >= IMPORT_SECTIONS_MAX {
            self.current = None;
            return self.taken.misread(number, "it begins one section more than sar has");
        }
        let section = Section::of(words);
        for (column, act) in section.columns.iter().zip(&section.acts) {
            let is_key = section.key.is_some_and(|key| section.columns.get(key) == Some(column));
            // Each core's share of an interrupt, and what goes into others.
            let is_used = act.is_some() || is_key || column.starts_with("CPU") || is_derived(column);
            if !is_used && section.table.is_none_or(|table| table.key != "INTR") {
                self.taken.not_taken(column);
            }
        }
        self.known.insert(name, self.sections.len());
        self.current = Some(self.sections.len());
        self.sections.push(section);
    }

    /// Goes on to a time of day in the current section: the moment, in seconds since 1970, and its interval. `None` for
    /// a moment that was read before, and for a header.
    fn move_to(&mut self, seconds: i64, is_header: bool) -> Option<(i64, i64)> {
        let base_s = self.base_day.unwrap_or(0) * DAY_S;
        let section = self.sections.get_mut(self.current?)?;
        let mut at_s = section.days * DAY_S + seconds;
        if let Some(now_s) = section.now_s
            && at_s < now_s - DAY_S / 2
            && section.days < DAYS_MAX
        {
            section.days += 1;
            at_s += DAY_S;
        }
        if is_header {
            if section.now_s != Some(at_s) {
                (section.now_s, section.before_s) = (Some(at_s), None);
            }
            if section.table.is_some() && base_s + at_s > section.taken_s {
                self.taken.series.touch((base_s + at_s) * SECOND);
            }
            return None;
        }
        if section.now_s != Some(at_s) {
            if base_s + at_s <= section.taken_s {
                self.repeated += 1;
                (section.now_s, section.before_s) = (Some(at_s), None);
                return None;
            }
            (section.before_s, section.now_s) = (section.now_s, Some(at_s));
        } else if base_s + at_s < section.taken_s || section.before_s.is_none() {
            // Rows of a moment that was skipped, or that only began the section: nothing says how long it was.
            self.repeated += 1;
            return None;
        }
        section.taken_s = base_s + at_s;
        let interval_s = at_s - section.before_s.unwrap_or(at_s);
        ((1..=INTERVAL_MAX_S).contains(&interval_s)).then_some((base_s + at_s, interval_s))
    }

    fn restarted(&mut self, seconds: i64, text: &str) {
        let base_s = self.base_day.unwrap_or(0) * DAY_S;
        let mut days = 0;
        if let Some(section) = self.current.and_then(|at| self.sections.get_mut(at)) {
            days = section.days;
            let is_next = section.now_s.is_some_and(|now_s| days * DAY_S + seconds < now_s - DAY_S / 2);
            if is_next && days < DAYS_MAX {
                section.days += 1;
                days += 1;
            }
            (section.now_s, section.before_s) = (Some(days * DAY_S + seconds), None);
        }
        self.event_of_restart(base_s + days * DAY_S + seconds, text);
    }

    fn event_of_restart(&mut self, at_s: i64, text: &str) {
        let text = format!("the machine was started again ({})", shown(text));
        self.taken.event(at_s * SECOND, "host-restarted", text);
    }

    /// `host;interval;timestamp;column…`, the header with `# ` before it.
    fn separated(&mut self, line: &Line) {
        let cells: Vec<&str> = line.text.trim().split(';').map(str::trim).collect();
        let [host, interval, stamp, rest @ ..] = cells.as_slice() else {
            return self.taken.misread(line.number, "expected host;interval;timestamp;… of sadf -d");
        };
        if host.starts_with('#') {
            if rest.first().is_some_and(|column| *column != "LINUX-RESTART") {
                self.taken.about.what = "sadf -d of sysstat".to_owned();
                self.header(line.number, rest);
            }
            return;
        }
        let Some(at_s) = self.stamp(stamp) else {
            return self.taken.misread(line.number, format!("expected a date and a time, got '{}'", shown(stamp)));
        };
        if self.taken.about.host.is_empty() {
            self.taken.about.host = shown(host);
        }
        self.taken.is_dated = true;
        if let Some(restart) = rest.first().filter(|cell| cell.starts_with("LINUX-RESTART")) {
            if let Some(section) = self.current.and_then(|at| self.sections.get_mut(at)) {
                (section.now_s, section.before_s) = (None, None);
            }
            return self.event_of_restart(at_s, restart);
        }
        if rest.first() == Some(&"COM") {
            return;
        }
        let Some(section) = self.current.and_then(|at| self.sections.get_mut(at)) else {
            return self.taken.misread(line.number, "it stands before any header");
        };
        let Some(interval_s) = figure(interval).filter(|s| (0.0..=INTERVAL_MAX_S as f64).contains(s)) else {
            return self
                .taken
                .misread(line.number, format!("expected an interval in seconds, got '{}'", shown(interval)));
        };
        if section.now_s != Some(at_s) {
            if at_s <= section.taken_s {
                self.repeated += 1;
                return;
            }
            // The interval is rounded: the row before says better when it began, where it is that one.
            let began_s = at_s - interval_s.max(1.0) as i64;
            section.before_s = section.now_s.filter(|before_s| (before_s - began_s).abs() <= 1).or(Some(began_s));
            (section.now_s, section.taken_s) = (Some(at_s), at_s);
        }
        let before_s = section.before_s.unwrap_or(at_s);
        if section.table.is_some() {
            self.taken.series.touch(before_s * SECOND);
        }
        let row = Row {
            number: line.number,
            cells: rest.to_vec(),
            at_ns: at_s * SECOND,
            interval_s: (at_s - before_s) as f64,
        };
        self.row(&row);
    }

    /// `2026-11-21 19:46:06 UTC`, or seconds since 1970.
    fn stamp(&mut self, text: &str) -> Option<i64> {
        if text.len() >= 9 && text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().ok().filter(|s| *s < 1 << 33);
        }
        let mut words = text.split_whitespace();
        let at_s = date(words.next()?)?.days * DAY_S + of_day(words.next()?)?;
        if words.next().is_none() {
            self.taken.note("times are taken as they are printed, as if they were UTC: the text names no zone");
        }
        Some(at_s)
    }

    fn row(&mut self, row: &Row<'_>) {
        let Some(section) = self.current.and_then(|at| self.sections.get(at)) else { return };
        let Some(table) = section.table else { return };
        let has_open_end = section.columns.last().is_some_and(|column| column.ends_with('*'));
        let (wanted, got) = (section.columns.len(), row.cells.len());
        if got < wanted || (got > wanted && !has_open_end) {
            let why = format!("expected {wanted} columns, got {got}: is it cut off?");
            return self.taken.misread(row.number, why);
        }
        let values: Option<Vec<Option<f64>>> = (0..wanted)
            .map(|at| match section.acts.get(at).copied().flatten() {
                None if !is_derived(&section.columns[at]) => Some(None),
                _ => value(&section.columns[at], row.cells[at]).map(Some),
            })
            .collect();
        let Some(values) = values else {
            return self.taken.misread(row.number, "expected a figure, got something else in one of its columns");
        };
        let Some(place) = place(table, section.key.and_then(|key| row.cells.get(key)), &mut self.taken.series) else {
            return;
        };
        if let Err(why) = section.keep(row, place, &values, &mut self.taken.series) {
            self.taken.misread(row.number, why);
        }
    }
}

impl Section {
    fn of(words: &[&str]) -> Section {
        // With --pretty the device stands last.
        let key = words.iter().position(|word| KEYS.contains(word)).filter(|at| *at == 0 || at + 1 == words.len());
        let key_name = key.and_then(|at| words.get(at)).copied().unwrap_or("");
        let fits = |table: &&Table| {
            table.key == key_name
                && (table.needs.is_empty() || words.contains(&table.needs))
                && table.columns.iter().any(|(name, _)| words.contains(name))
        };
        let table = TABLES.iter().find(fits);
        let act = |word: &&str| table?.columns.iter().find(|(name, _)| name == word).map(|(_, act)| *act);
        Section {
            columns: words.iter().map(|word| (*word).to_owned()).collect(),
            table,
            key,
            acts: words.iter().map(act).collect(),
            days: 0,
            now_s: None,
            before_s: None,
            taken_s: i64::MIN,
        }
    }

    fn keep(&self, row: &Row<'_>, place: Place, values: &[Option<f64>], series: &mut Series) -> Result<(), String> {
        let of = |name: &str| values.get(self.columns.iter().position(|column| column == name)?).copied().flatten();
        let is_cpu = matches!(place, Place::Cpu | Place::Core(_)) && self.columns.iter().any(|c| c == "%idle");
        if is_cpu && values.iter().flatten().any(|percent| !(-0.5..=100.5).contains(percent)) {
            return Err("expected shares of a core's time, got more than 100 %".to_owned());
        }
        let at_ns = row.at_ns;
        for (act, value) in self.acts.iter().zip(values) {
            let (Some(act), Some(value)) = (act, value) else { continue };
            let value = value.max(0.0);
            match *act {
                Act::Rate(name, scale) => series.grow(at_ns, place, name, value * scale * row.interval_s),
                Act::NetRate(name, scale) => series.grow(at_ns, Place::Network, name, value * scale * row.interval_s),
                Act::Gauge(name, scale) => series.is(at_ns, place, name, value * scale),
                Act::NetGauge(name, scale) => series.is(at_ns, Place::Network, name, value * scale),
                Act::PercentNs(name) | Act::Core(name) => {
                    series.grow(at_ns, place, name, value / 100.0 * row.interval_s * 1e9);
                }
            }
        }
        if let (Some(tps), Some(await_ms)) = (of("tps"), of("await")) {
            series.grow(at_ns, place, "transfer_ns", tps * row.interval_s * await_ms * 1e6);
        }
        if let (Some(free), Some(used)) = (of("kbswpfree"), of("kbswpused")) {
            series.is(at_ns, place, "swap_total_bytes", (free + used) * 1024.0);
        }
        let share = self.columns.iter().position(|column| column == "%memused").and_then(|at| row.cells.get(at));
        if let Some(total) = share.and_then(|share| memory_total(&of, digits(share))) {
            series.is(at_ns, place, "memory_total_bytes", total * 1024.0);
        }
        Ok(())
    }
}

/// Columns that have no metric of their own and from which one is made.
fn is_derived(column: &str) -> bool {
    ["await", "kbmemused", "%memused"].contains(&column)
}

/// All memory, KiB. Up to sysstat 11.6 `kbmemused` is all that is not free; later it is without buffers, cache and slab.
/// `%memused`, the share of all memory, says which, to the digits it is printed with. Where little is used both fit: then it
/// is the later one, if there is `kbavail` (sysstat 11.5 and later). Of the later one nothing is told without `kbslab`
/// (`sar -r` without `ALL`): all memory cannot be told to the slab.
fn memory_total(of: &impl Fn(&str) -> Option<f64>, share_digits: i32) -> Option<f64> {
    let (free, used, percent) = (of("kbmemfree")?, of("kbmemused")?, of("%memused")?);
    let cached = of("kbbuffers").unwrap_or(0.0) + of("kbcached").unwrap_or(0.0) + of("kbslab").unwrap_or(0.0);
    // Half of the last digit; sizes with a unit (`--human`) are rounded too.
    let slack = 0.51 * 10f64.powi(-share_digits) + percent * 0.001;
    let fits = |total: &f64| *total > 0.0 && (100.0 * used / total - percent).abs() <= slack;
    let (earlier, later) = (Some(free + used).filter(fits), Some(free + used + cached).filter(fits));
    match (of("kbavail"), of("kbslab")) {
        (None, _) => earlier,
        (Some(_), Some(_)) => later.or(earlier),
        // Without slab the later sum is too small, and good only to tell that it is not the other.
        (Some(_), None) => earlier.filter(|_| later.is_none()),
    }
}

/// Digits behind the point or comma.
fn digits(word: &str) -> i32 {
    let digits =
        word.split(['.', ',']).nth(1).map_or(0, |behind| behind.bytes().take_while(u8::is_ascii_digit).count());
    i32::try_from(digits).unwrap_or(i32::MAX)
}

/// Of what a row is; `None`: of nothing that is taken.
fn place(table: &Table, key: Option<&&str>, series: &mut Series) -> Option<Place> {
    let Some(key) = key.copied() else { return Some(Place::Host) };
    match (table.key, key) {
        ("CPU", "all" | "-1") if table.needs == "%idle" => Some(Place::Cpu),
        ("CPU", "all" | "-1") => Some(Place::Host),
        ("CPU", number) if table.needs == "%idle" => Series::core(number.parse().ok()?),
        ("DEV", name) => series.disk(name),
        ("IFACE", name) => series.interface(name),
        ("INTR", "sum") => Some(Place::Host),
        _ => None,
    }
}

/// A figure; with `--human` sizes have a unit and shares a percent sign.
fn value(column: &str, word: &str) -> Option<f64> {
    if let Some(value) = figure(word) {
        return Some(value);
    }
    let (number, unit) = word.split_at(word.char_indices().next_back()?.0);
    let number = figure(number)?;
    let is_kib = column.starts_with("kb") || column.contains("kB");
    match unit {
        "%" => Some(number),
        "B" if is_kib => Some(number / 1024.0),
        "k" | "K" if is_kib => Some(number),
        "M" if is_kib => Some(number * 1024.0),
        "G" if is_kib => Some(number * 1024.0 * 1024.0),
        "T" if is_kib => Some(number * 1024.0 * 1024.0 * 1024.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memory_by_either_meaning_of_used() {
        let total = |row: &[(&str, f64)], share: &str| {
            memory_total(&|name| row.iter().find(|(column, _)| *column == name).map(|(_, value)| *value), digits(share))
        };
        let row = |percent: f64| {
            [
                ("kbmemfree", 24_232_644.0),
                ("kbmemused", 106_784.0),
                ("%memused", percent),
                ("kbbuffers", 356.0),
                ("kbcached", 284_300.0),
            ]
        };
        let newer = |percent: f64| [&row(percent)[..], &[("kbavail", 1.0)]].concat();
        let later = |percent: f64| [&newer(percent)[..], &[("kbslab", 60_000.0)]].concat();
        let (all, without_cached) = (Some(24_684_084.0), Some(24_339_428.0));
        // Both are near what is printed, and one of them is nearer than its last digit.
        assert_eq!(total(&later(0.43), "0.43"), all);
        assert_eq!(total(&later(0.44), "0.44"), without_cached);
        // Both fit: the later meaning, where its column is.
        assert_eq!(total(&later(0.4), "0.4"), all);
        assert_eq!(total(&row(0.4), "0.4"), without_cached);
        // Without its slab the later one cannot be told, the earlier one where it alone fits.
        assert_eq!(
            ["0.43", "0.44", "0.4"].map(|share| total(&newer(share.parse().unwrap()), share)),
            [None, without_cached, None]
        );
        // Neither fits: nothing is told.
        assert_eq!(total(&later(0.5), "0.50"), None);
        assert_eq!(["0.43", "4,2", "7", "12.5%"].map(digits), [2, 1, 0, 1]);
    }
}
