//! Readings by their moment, out of order and bounded, and the snapshots that are made of them.
//!
//! Other instruments print rates; snapshots hold counters. A rate times its interval is what the counter grew by in it:
//! a growth is kept with the moment its interval ends, and the snapshots hold the running sum, rounded to a whole number
//! where it is written (so a counter is off by the text's own rounding, times the interval, and never by more than one
//! for ours). Of moments between which a counter was not measured the snapshots do not have it at both: no rate can be
//! made of a gap.
//!
//! When there are more moments or values than the limits allow, neighbours are merged: growths add up, of gauges the
//! later stays. It knows no format, and does no I/O.

use crate::limits::{DEVICES_MAX, IMPORT_CORES_MAX, IMPORT_SAMPLES_MAX, IMPORT_VALUES_MAX};
use model::Snapshot;
use model::snapshot::CpuTimes;
use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;

/// Of what a reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Host,
    Network,
    Disk(u16),
    Interface(u16),
    /// The machine's CPU time, as if it had one core.
    Cpu,
    Core(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: Place,
    name: &'static str,
    is_growth: bool,
}

#[derive(Debug, Default)]
struct Sample {
    values: Vec<(u32, f64)>,
}

/// Readings by their moment.
#[derive(Debug, Default)]
pub(crate) struct Series {
    samples: BTreeMap<i64, Sample>,
    ids: BTreeMap<Key, u32>,
    keys: Vec<Key>,
    disks: Vec<String>,
    interfaces: Vec<String>,
    devices_left_out: BTreeMap<String, ()>,
    values: usize,
    /// How many moments of the text one of the newest stands for.
    stride: u64,
    pending: u64,
    merged: bool,
}

impl Series {
    /// Sees to it that there is a moment to begin from.
    pub(crate) fn touch(&mut self, at_ns: i64) {
        self.sample(at_ns);
    }

    /// A counter grew by so much until this moment, since the one before.
    pub(crate) fn grow(&mut self, at_ns: i64, place: Place, name: &'static str, by: f64) {
        self.keep(at_ns, Key { place, name, is_growth: true }, by);
    }

    /// A reading as it is: a gauge, or a counter as the kernel gives it.
    pub(crate) fn is(&mut self, at_ns: i64, place: Place, name: &'static str, value: f64) {
        self.keep(at_ns, Key { place, name, is_growth: false }, value);
    }

    /// The place of a disk; `None`: there are more than are kept.
    pub(crate) fn disk(&mut self, name: &str) -> Option<Place> {
        device(&mut self.disks, &mut self.devices_left_out, name).map(Place::Disk)
    }

    /// The place of a network interface; `None`: there are more than are kept.
    pub(crate) fn interface(&mut self, name: &str) -> Option<Place> {
        device(&mut self.interfaces, &mut self.devices_left_out, name).map(Place::Interface)
    }

    /// The place of a core; `None`: more than can be.
    pub(crate) fn core(number: u64) -> Option<Place> {
        u16::try_from(number).ok().filter(|n| *n < IMPORT_CORES_MAX).map(Place::Core)
    }

    /// Whether nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// Moments there are.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// First and last moment.
    pub(crate) fn ends(&self) -> Option<(i64, i64)> {
        Some((*self.samples.first_key_value()?.0, *self.samples.last_key_value()?.0))
    }

    /// The most frequent time between two neighbours, nanoseconds.
    pub(crate) fn interval_ns(&self) -> u64 {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for (a, b) in self.samples.keys().zip(self.samples.keys().skip(1)) {
            if counts.len() < 10_000 || counts.contains_key(&(b - a)) {
                *counts.entry(b.saturating_sub(*a)).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map_or(0, |(ns, _)| u64::try_from(ns).unwrap_or(0))
    }

    /// The names of what was read, `disks[].` and the like before those of which there are several.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.keys.iter().map(Key::shown).collect();
        names.sort();
        names.dedup();
        names
    }

    /// What was left out for the limits' sake, in sentences.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.merged {
            said.push(format!(
                "there were more readings than are kept: neighbouring moments were merged, up to {} in one",
                self.stride.max(1)
            ));
        }
        if !self.devices_left_out.is_empty() {
            let count = self.devices_left_out.len();
            let more = if count >= DEVICES_MAX { "or more " } else { "" };
            said.push(format!("{count} {more}disks or interfaces beyond the first {DEVICES_MAX} were left out"));
        }
        said
    }

    /// Puts a moment without readings where growth was measured up to one moment and again from the next one on, but
    /// not between: or the counters would stand still there.
    pub(crate) fn open_gaps(&mut self) {
        let grows = |sample: &Sample| {
            sample.values.iter().any(|(id, _)| self.keys.get(*id as usize).is_some_and(|key| key.is_growth))
        };
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let gaps: Vec<i64> = pairs
            .filter(|((a_ns, a), (b_ns, b))| grows(a) && !grows(b) && b_ns.saturating_sub(**a_ns) > 1)
            .map(|((a_ns, _), (b_ns, _))| a_ns + b_ns.saturating_sub(*a_ns) / 2)
            .collect();
        self.samples.extend(gaps.into_iter().map(|at_ns| (at_ns, Sample::default())));
    }

    /// The snapshots, oldest first; `cores` where the text says how many there are.
    pub(crate) fn into_snapshots(self, cores: Option<u32>) -> Snapshots {
        let seen = self.keys.iter().filter_map(|key| match key.place {
            Place::Core(number) => Some(u32::from(number) + 1),
            _ => None,
        });
        let cores_seen = seen.max().unwrap_or(0);
        Snapshots {
            origin_ns: self.samples.first_key_value().map_or(0, |(at_ns, _)| *at_ns),
            totals: vec![0.0; self.keys.len()],
            cores: usize::try_from(cores_seen).unwrap_or(0),
            cores_scale: f64::from(cores.unwrap_or(cores_seen).max(1)),
            keys: self.keys,
            disks: self.disks,
            interfaces: self.interfaces,
            samples: self.samples.into_iter().peekable(),
        }
    }

    fn keep(&mut self, at_ns: i64, key: Key, value: f64) {
        if !value.is_finite() {
            return;
        }
        let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry(key).or_insert_with(|| {
            self.keys.push(key);
            next
        });
        let most = 2 * self.keys.len() + 64;
        let sample = self.sample(at_ns);
        sample.values.push((id, value));
        let length = sample.values.len();
        self.values += 1;
        if length > most {
            self.fold_one(at_ns);
        }
        if self.values > IMPORT_VALUES_MAX {
            self.fold();
            while self.values > IMPORT_VALUES_MAX / 2 && self.samples.len() > 2 {
                self.merge();
            }
        }
    }

    fn sample(&mut self, at_ns: i64) -> &mut Sample {
        let mut at_ns = at_ns;
        if !self.samples.contains_key(&at_ns) {
            let later = self.samples.range(at_ns..).next().map(|(later_ns, _)| *later_ns);
            match later {
                // In merged moments, the one whose stretch it lies in.
                Some(later_ns) if self.stride > 1 => at_ns = later_ns,
                None if self.stride > 1 && self.pending < self.stride => {
                    if let Some((_, last)) = self.samples.pop_last() {
                        self.samples.insert(at_ns, last);
                    }
                    self.pending += 1;
                }
                _ => {
                    if self.samples.len() >= IMPORT_SAMPLES_MAX {
                        self.fold();
                        self.merge();
                    }
                    self.pending = 1;
                }
            }
        }
        self.samples.entry(at_ns).or_default()
    }

    /// Merges neighbours in pairs. The first moment stays as it is where it only begins.
    fn merge(&mut self) {
        self.stride = self.stride.max(1) * 2;
        self.merged = true;
        let mut old = std::mem::take(&mut self.samples).into_iter().peekable();
        if let Some((at_ns, first)) = old.next_if(|(_, first)| first.values.is_empty()) {
            self.samples.insert(at_ns, first);
        }
        while let Some((mut at_ns, mut sample)) = old.next() {
            if let Some((later_ns, later)) = old.next() {
                at_ns = later_ns;
                sample.values.extend(later.values);
            }
            self.samples.insert(at_ns, sample);
        }
        self.fold();
    }

    /// One value of a key in one moment: many rows may be merged into it.
    fn fold_one(&mut self, at_ns: i64) {
        let keys = &self.keys;
        if let Some((_, sample)) = self.samples.range_mut(at_ns..).next() {
            let before = sample.values.len();
            sample.values = folded(keys, std::mem::take(&mut sample.values));
            self.values -= before - sample.values.len();
        }
    }

    /// One value of a key in each moment.
    fn fold(&mut self) {
        self.values = 0;
        for sample in self.samples.values_mut() {
            sample.values = folded(&self.keys, std::mem::take(&mut sample.values));
            self.values += sample.values.len();
        }
    }
}

impl Key {
    fn shown(&self) -> String {
        match self.place {
            Place::Host | Place::Network => self.name.to_owned(),
            Place::Disk(_) => format!("disks[].{}", self.name),
            Place::Interface(_) => format!("interfaces[].{}", self.name),
            Place::Cpu => format!("cpu.{}", self.name),
            Place::Core(_) => format!("cores[].{}", self.name),
        }
    }
}

fn device(known: &mut Vec<String>, left_out: &mut BTreeMap<String, ()>, name: &str) -> Option<u16> {
    if let Some(at) = known.iter().position(|one| one == name) {
        return u16::try_from(at).ok();
    }
    if known.len() < DEVICES_MAX {
        known.push(name.to_owned());
        return u16::try_from(known.len() - 1).ok();
    }
    if left_out.len() < DEVICES_MAX {
        left_out.insert(name.to_owned(), ());
    }
    None
}

/// Growths of a key added up, of gauges the last; by key.
fn folded(keys: &[Key], mut values: Vec<(u32, f64)>) -> Vec<(u32, f64)> {
    // Stable: of equal keys the later stays behind.
    values.sort_by_key(|(id, _)| *id);
    values.dedup_by(|later, kept| {
        if later.0 != kept.0 {
            return false;
        }
        let is_growth = usize::try_from(kept.0).ok().and_then(|id| keys.get(id)).is_some_and(|key| key.is_growth);
        kept.1 = if is_growth { kept.1 + later.1 } else { later.1 };
        true
    });
    values.shrink_to_fit();
    values
}

/// Snapshots made one at a time.
#[derive(Debug)]
pub struct Snapshots {
    origin_ns: i64,
    samples: Peekable<btree_map::IntoIter<i64, Sample>>,
    keys: Vec<Key>,
    totals: Vec<f64>,
    disks: Vec<String>,
    interfaces: Vec<String>,
    cores: usize,
    cores_scale: f64,
}

impl Iterator for Snapshots {
    type Item = Snapshot;

    fn next(&mut self) -> Option<Snapshot> {
        let (at_ns, sample) = self.samples.next()?;
        let mut snapshot = Snapshot { at_ns: at_ns.saturating_sub(self.origin_ns), ..Snapshot::default() };
        let here = folded(&self.keys, sample.values);
        let mut is_here = vec![false; self.keys.len()];
        for (id, value) in here {
            let id = id as usize;
            if self.keys[id].is_growth {
                self.totals[id] += value;
                is_here[id] = true;
            } else {
                self.put(&mut snapshot, id, value);
            }
        }
        // What begins to grow here is measured from here.
        if let Some((_, next)) = self.samples.peek() {
            next.values.iter().for_each(|(id, _)| is_here[*id as usize] |= self.keys[*id as usize].is_growth);
        }
        for id in (0..self.keys.len()).filter(|id| is_here[*id]) {
            self.put(&mut snapshot, id, self.totals[id]);
        }
        snapshot.memory_available_bytes = snapshot.host.of("memory_available_bytes");
        snapshot.slab_bytes = snapshot.host.of("slab_bytes");
        snapshot.time_wait = snapshot.network.of("tcp_time_wait_sockets");
        Some(snapshot)
    }
}

impl Snapshots {
    fn put(&self, snapshot: &mut Snapshot, id: usize, value: f64) {
        let Key { place, name, .. } = self.keys[id];
        match place {
            Place::Host => snapshot.host.set(name, whole(value)),
            Place::Network => snapshot.network.set(name, whole(value)),
            Place::Disk(at) => {
                let disk = self.disks.get(usize::from(at)).cloned().unwrap_or_default();
                snapshot.disks.entry(disk).or_default().set(name, whole(value));
            }
            Place::Interface(at) => {
                let interface = self.interfaces.get(usize::from(at)).cloned().unwrap_or_default();
                snapshot.interfaces.entry(interface).or_default().set(name, whole(value));
            }
            Place::Cpu => set(snapshot.cpu.get_or_insert_default(), name, value * self.cores_scale),
            Place::Core(number) => {
                if snapshot.cores.is_empty() {
                    snapshot.cores = vec![CpuTimes::default(); self.cores];
                }
                if let Some(core) = snapshot.cores.get_mut(usize::from(number)) {
                    set(core, name, value);
                }
            }
        }
    }
}

/// Soft interrupts that were measured are at least 1 ns: 0 since boot says that they were not.
fn set(times: &mut CpuTimes, name: &str, value: f64) {
    let field = match name {
        "user_ns" => &mut times.user_ns,
        "system_ns" => &mut times.system_ns,
        "idle_ns" => &mut times.idle_ns,
        "iowait_ns" => &mut times.iowait_ns,
        "irq_ns" => &mut times.irq_ns,
        "softirq_ns" => &mut times.softirq_ns,
        "steal_ns" => &mut times.steal_ns,
        _ => return,
    };
    *field = whole(value).max(u64::from(name == "softirq_ns"));
}

/// The nearest whole number; no sum over it can overflow.
fn whole(value: f64) -> u64 {
    (value.round() as u64).min(1 << 58)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_become_counters_and_gaps_have_no_rate() {
        let mut series = Series::default();
        series.touch(1_000);
        for at_ns in [2_000, 3_000, 5_000] {
            series.grow(at_ns, Place::Host, "forks", 2.4);
        }
        series.is(3_000, Place::Host, "runnable", 7.0);
        series.grow(5_000, Place::Host, "interrupts", 9.0);
        let snapshots: Vec<Snapshot> = series.into_snapshots(None).collect();
        let of = |name: &str| snapshots.iter().map(|s| s.host.of(name)).collect::<Vec<_>>();
        assert_eq!(of("forks"), [Some(0), Some(2), Some(5), Some(7)], "0, 2.4, 4.8, 7.2");
        assert_eq!(of("runnable"), [None, None, Some(7), None]);
        assert_eq!(of("interrupts"), [None, None, Some(0), Some(9)], "measured from the third on");
        assert_eq!(snapshots.iter().map(|s| s.at_ns).collect::<Vec<_>>(), [0, 1_000, 2_000, 4_000]);
    }

    #[test]
    fn a_long_text_is_merged_and_nothing_of_it_is_lost() {
        let mut series = Series::default();
        let disk = series.disk("sda").unwrap();
        series.touch(0);
        let moments = 3 * IMPORT_SAMPLES_MAX as i64 + 5;
        for at in 1..=moments {
            series.grow(at * 1_000, disk, "reads", 1.0);
            series.is(at * 1_000, Place::Host, "runnable", at as f64);
        }
        // A section that comes later, of the same moments.
        for at in 1..=moments {
            series.grow(at * 1_000, disk, "writes", 2.0);
        }
        assert!(series.len() <= IMPORT_SAMPLES_MAX && series.values <= IMPORT_VALUES_MAX);
        assert!(series.left_out()[0].contains("merged"));
        let snapshots: Vec<Snapshot> = series.into_snapshots(None).collect();
        let last = snapshots.last().unwrap();
        assert_eq!(last.disks["sda"].of("reads"), Some(moments as u64));
        assert_eq!(last.disks["sda"].of("writes"), Some(2 * moments as u64));
        assert_eq!((last.at_ns, last.host.of("runnable")), (moments * 1_000, Some(moments as u64)));
        for pair in snapshots.windows(2) {
            let grown = |name| pair[1].disks["sda"].of(name).unwrap() - pair[0].disks["sda"].of(name).unwrap();
            assert_eq!(grown("reads") * 1_000, (pair[1].at_ns - pair[0].at_ns) as u64, "the rate is what it was");
            assert_eq!(grown("writes"), 2 * grown("reads"));
        }
    }

    #[test]
    fn what_may_be_many_is_bounded() {
        let mut series = Series::default();
        for name in 0..1000 {
            let place = series.interface(&format!("veth{name}"));
            assert_eq!(place.is_some(), name < DEVICES_MAX);
        }
        assert!(series.left_out()[0].contains("left out"), "{:?}", series.left_out());
        for _ in 0..IMPORT_VALUES_MAX + 10 {
            series.grow(5, Place::Host, "forks", 1.0);
        }
        assert!(series.values <= IMPORT_VALUES_MAX);
        series.grow(9, Place::Cpu, "user_ns", f64::INFINITY);
        series.grow(9, Place::Cpu, "user_ns", 1e300);
        assert!(Series::core(u64::MAX).is_none());
        let last = series.into_snapshots(Some(64)).last().unwrap();
        assert_eq!(last.cpu.unwrap().user_ns, 1 << 58);
    }
}
