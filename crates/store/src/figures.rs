//! The parts of an interval and of a run's totals that are maps, as the JSON in the file.
//!
//! Error kinds and statuses go by name and code, never by position, so that a list may grow. Everything read is
//! checked: a figure no real run could have is damage, and no sum of them can overflow.

use model::entries::ENTRIES_MAX;
use model::error_kind::ErrorExample;
use model::interval::{Counts, ErrorCounts, Gauges, Interval};
use model::outcomes::OutcomeCounts;
use model::phase::PHASES_MAX;
use model::recording::{Part, Totals};
use model::snapshot::{CpuTimes, Snapshot};
use model::users::Users;
use model::{ErrorKind, Histogram, LatencyKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Errors, statuses and examples of a tick or a run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    connection_errors: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    status: BTreeMap<u16, u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    examples: Vec<ErrorExample>,
    /// Counts of each entry of the workload, by its place; times are only in the totals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<StoredEntry>,
}

/// What became of one entry's requests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredEntry {
    ok: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<String, u64>,
}

impl Figures {
    /// Those of an interval.
    pub fn of<C: hdrhistogram::Counter>(interval: &Interval<C>) -> Self {
        let by_name = |counts: &ErrorCounts| counts.seen().map(|(kind, n)| (kind.name().to_owned(), n)).collect();
        Figures {
            errors: by_name(&interval.errors),
            connection_errors: by_name(&interval.connection_errors),
            status: interval.outcomes.seen().collect(),
            examples: interval.examples.iter().flatten().copied().collect(),
            entries: interval
                .entries
                .iter()
                .map(|entry| StoredEntry { ok: entry.ok, errors: by_name(&entry.errors) })
                .collect(),
        }
    }

    /// The largest count among them.
    pub fn largest(&self) -> u64 {
        self.errors
            .values()
            .chain(self.connection_errors.values())
            .chain(self.status.values())
            .chain(self.entries.iter().flat_map(|entry| entry.errors.values().chain([&entry.ok])))
            .copied()
            .max()
            .unwrap_or(0)
    }

    /// Whether every kind is a known one.
    ///
    /// # Errors
    /// In words, where one is not.
    pub fn check(&self) -> Result<(), String> {
        if self.entries.len() > ENTRIES_MAX + 1 {
            return Err(format!("it has {} entries, of at most {}", self.entries.len(), ENTRIES_MAX + 1));
        }
        let of_entries = self.entries.iter().flat_map(|entry| entry.errors.keys());
        let mut names = self.errors.keys().chain(self.connection_errors.keys()).chain(of_entries);
        match names.find(|name| ErrorKind::from_name(name).is_none()) {
            Some(name) => Err(format!("'{name}' is not a known kind of error")),
            None => Ok(()),
        }
    }

    /// Takes a later tick's in. An example that is there already stays.
    pub fn merge(&mut self, later: &Figures) {
        fn add<K: Ord + Clone>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, n) in from {
                let sum = into.entry(key.clone()).or_default();
                *sum = sum.saturating_add(*n);
            }
        }
        add(&mut self.errors, &later.errors);
        add(&mut self.connection_errors, &later.connection_errors);
        add(&mut self.status, &later.status);
        if self.entries.len() < later.entries.len() {
            self.entries.resize_with(later.entries.len(), StoredEntry::default);
        }
        for (into, from) in self.entries.iter_mut().zip(&later.entries) {
            into.ok = into.ok.saturating_add(from.ok);
            add(&mut into.errors, &from.errors);
        }
        for example in &later.examples {
            if self.examples.iter().all(|known| known.kind != example.kind) {
                self.examples.push(*example);
            }
        }
    }

    /// Adds them to a sum; of unknown kinds nothing. An example that is there already stays.
    pub fn add_to(&self, sum: &mut Interval<u64>) {
        add_errors(&self.errors, &mut sum.errors);
        add_errors(&self.connection_errors, &mut sum.connection_errors);
        add_status(&self.status, &mut sum.outcomes);
        for (place, entry) in self.entries.iter().enumerate() {
            let into = sum.entries.of_mut(place);
            into.ok = into.ok.saturating_add(entry.ok);
            add_errors(&entry.errors, &mut into.errors);
        }
        for example in &self.examples {
            let slot = &mut sum.examples[example.kind.index()];
            if slot.is_none() {
                *slot = Some(*example);
            }
        }
    }
}

fn add_errors(from: &BTreeMap<String, u64>, into: &mut ErrorCounts) {
    for (name, n) in from {
        if let Some(kind) = ErrorKind::from_name(name) {
            into.add(kind, *n);
        }
    }
}

fn add_status(from: &BTreeMap<u16, u64>, into: &mut OutcomeCounts) {
    for (status, n) in from {
        into.add(*status, *n);
    }
}

/// A run's totals without their histograms.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredTotals {
    start_ns: u64,
    end_ns: u64,
    counts: Counts,
    in_time: Counts,
    gauges: Gauges,
    figures: Figures,
    in_flight_at_end: u64,
    measured_from_ns: u64,
    measured_ns: u64,
    peak_rss_bytes: u64,
    cpu_user_ns: u64,
    cpu_system_ns: u64,
    first_request_ns: Option<u64>,
    connections_max: u64,
    held_at_end: Option<u64>,
    users: Option<Users>,
    disturbed: Option<StoredPart>,
    in_windows: Option<StoredPart>,
    phases: Vec<StoredPart>,
}

/// A part of a run without its histograms.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredPart {
    counts: Counts,
    in_time: Counts,
    measured_ns: u64,
    intervals: u64,
}

impl StoredPart {
    fn of(part: &Part) -> Self {
        StoredPart {
            counts: part.sum.counts,
            in_time: part.in_time,
            measured_ns: part.measured_ns,
            intervals: part.intervals,
        }
    }

    fn largest(&self) -> u64 {
        let counts = largest_count(&self.counts).max(largest_count(&self.in_time));
        counts.max(self.measured_ns).max(self.intervals)
    }

    fn into_part(self) -> Box<Part> {
        let mut part =
            Part { in_time: self.in_time, measured_ns: self.measured_ns, intervals: self.intervals, ..Part::default() };
        part.sum.counts = self.counts;
        Box::new(part)
    }
}

/// The histograms of a run's totals, each with the name under which it is stored.
pub fn histograms(totals: &Totals) -> Vec<(String, &Histogram<u64>)> {
    let mut all = Vec::new();
    let parts =
        [("", Some(&totals.sum)), part_of("disturbed.", &totals.disturbed), part_of("in_windows.", &totals.in_windows)];
    for (part, sum) in parts {
        let Some(sum) = sum else { continue };
        all.extend(LatencyKind::ALL.map(|kind| (format!("{part}{}", kind.name()), sum.latency.of(kind))));
    }
    for (at, part) in totals.phases.iter().enumerate() {
        all.extend(LatencyKind::ALL.map(|kind| (format!("phase-{at}.{}", kind.name()), part.sum.latency.of(kind))));
    }
    all.extend(totals.sum.entries.iter().enumerate().map(|(place, entry)| (entry_name(place), &entry.response)));
    all
}

fn part_of<'a>(name: &'static str, part: &'a Option<Box<Part>>) -> (&'static str, Option<&'a Interval<u64>>) {
    (name, part.as_deref().map(|part| &part.sum))
}

/// The same, to be filled in.
pub fn histograms_mut(totals: &mut Totals) -> Vec<(String, &mut Histogram<u64>)> {
    let mut all = Vec::new();
    let Interval { latency, entries, .. } = &mut totals.sum;
    let parts = [
        ("", Some(latency)),
        ("disturbed.", totals.disturbed.as_mut().map(|part| &mut part.sum.latency)),
        ("in_windows.", totals.in_windows.as_mut().map(|part| &mut part.sum.latency)),
    ];
    for (part, latency) in parts {
        let Some(latency) = latency else { continue };
        all.extend(latency.each_mut().map(|(kind, histogram)| (format!("{part}{}", kind.name()), histogram)));
    }
    for (at, part) in totals.phases.iter_mut().enumerate() {
        let latency = part.sum.latency.each_mut();
        all.extend(latency.map(|(kind, histogram)| (format!("phase-{at}.{}", kind.name()), histogram)));
    }
    all.extend(entries.iter_mut().enumerate().map(|(place, entry)| (entry_name(place), &mut entry.response)));
    all
}

/// What the response times of an entry are stored as.
fn entry_name(place: usize) -> String {
    format!("entry.{place}")
}

impl StoredTotals {
    /// Those of a run.
    pub fn of(totals: &Totals) -> Self {
        StoredTotals {
            start_ns: totals.sum.start_ns,
            end_ns: totals.sum.end_ns,
            counts: totals.sum.counts,
            in_time: totals.in_time,
            gauges: totals.sum.gauges,
            figures: Figures::of(&totals.sum),
            in_flight_at_end: totals.in_flight_at_end,
            measured_from_ns: totals.measured_from_ns,
            measured_ns: totals.measured_ns,
            peak_rss_bytes: totals.peak_rss_bytes,
            cpu_user_ns: totals.cpu_user_ns,
            cpu_system_ns: totals.cpu_system_ns,
            first_request_ns: totals.first_request_ns,
            connections_max: totals.connections_max,
            held_at_end: totals.held_at_end,
            users: totals.users,
            disturbed: totals.disturbed.as_deref().map(StoredPart::of),
            in_windows: totals.in_windows.as_deref().map(StoredPart::of),
            phases: totals.phases.iter().map(StoredPart::of).collect(),
        }
    }

    /// The model's totals, with empty histograms.
    ///
    /// # Errors
    /// In words, when a figure is not one a run could have.
    pub fn into_totals(self) -> Result<Totals, String> {
        let scalars = [
            self.start_ns,
            self.end_ns,
            self.in_flight_at_end,
            self.measured_from_ns,
            self.measured_ns,
            self.peak_rss_bytes,
            self.cpu_user_ns,
            self.cpu_system_ns,
            self.first_request_ns.unwrap_or(0),
            self.connections_max,
            self.held_at_end.unwrap_or(0),
            largest_count(&self.counts),
            largest_count(&self.in_time),
            largest_gauge(&self.gauges),
            self.figures.largest(),
            self.disturbed.as_ref().map_or(0, StoredPart::largest),
            self.in_windows.as_ref().map_or(0, StoredPart::largest),
            self.phases.iter().map(StoredPart::largest).max().unwrap_or(0),
            // More phases than a plan has would be memory for whoever wrote the file.
            if self.phases.len() > PHASES_MAX { u64::MAX } else { 0 },
        ];
        if scalars.into_iter().any(is_absurd) {
            return Err("a figure of the totals is larger than can be".to_owned());
        }
        let mut totals = Totals {
            in_time: self.in_time,
            in_flight_at_end: self.in_flight_at_end,
            measured_from_ns: self.measured_from_ns,
            measured_ns: self.measured_ns,
            peak_rss_bytes: self.peak_rss_bytes,
            cpu_user_ns: self.cpu_user_ns,
            cpu_system_ns: self.cpu_system_ns,
            first_request_ns: self.first_request_ns,
            connections_max: self.connections_max,
            held_at_end: self.held_at_end,
            users: self.users,
            disturbed: self.disturbed.map(StoredPart::into_part),
            in_windows: self.in_windows.map(StoredPart::into_part),
            phases: self.phases.into_iter().map(|part| *part.into_part()).collect(),
            ..Totals::default()
        };
        totals.sum.start_ns = self.start_ns;
        totals.sum.end_ns = self.end_ns;
        totals.sum.counts = self.counts;
        totals.sum.gauges = self.gauges;
        self.figures.check()?;
        self.figures.add_to(&mut totals.sum);
        Ok(totals)
    }
}

/// Whether a figure is beyond 2⁶¹: more bytes, nanoseconds or requests than any run has, and small enough below it
/// that seven such figures can be added.
pub fn is_absurd(figure: u64) -> bool {
    figure > 1 << 61
}

/// The largest counter.
pub fn largest_count(c: &Counts) -> u64 {
    let all = [
        c.started,
        c.ok,
        c.failed,
        c.dropped,
        c.never_taken_up,
        c.warmup,
        c.carried_ok,
        c.carried_failed,
        c.bytes_sent,
        c.bytes_received,
        c.connected,
        c.connect_failed,
        c.handshakes_full,
        c.handshakes_resumed,
        c.closed_by_us,
        c.closed_by_peer,
        c.wakeups,
        c.cpu_user_ns,
        c.cpu_system_ns,
        c.cpu_wait_ns,
        c.late_ns,
    ];
    all.into_iter().max().unwrap_or(0)
}

/// The largest gauge.
pub fn largest_gauge(g: &Gauges) -> u64 {
    g.connections.max(g.in_flight).max(g.queued).max(g.reap_delay_ns_max)
}

/// Whether every CPU time of a snapshot can be added up.
pub fn is_plausible(snapshot: &Snapshot) -> bool {
    let fits = |t: &CpuTimes| {
        ![t.user_ns, t.system_ns, t.idle_ns, t.iowait_ns, t.irq_ns, t.softirq_ns, t.steal_ns].into_iter().any(is_absurd)
    };
    let of_generator = snapshot.generator_cpu().into_iter().chain(snapshot.generator_cores());
    snapshot.cpu.iter().chain(&snapshot.cores).chain(of_generator).all(fits)
}
