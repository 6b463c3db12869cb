//! Metrics over a run: of each name the first and last reading, the least and most, and the difference.
//!
//! Of a counter the difference is what happened; of a gauge the extremes. Which is which says `docs/metrics.md`.

use model::Snapshot;
use model::metrics::Metrics;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A metric over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Course {
    /// The last reading.
    pub last: u64,
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
    /// The last less the first.
    pub delta: i64,
}

/// Metrics over the run, by name.
pub type Courses = BTreeMap<String, Course>;

/// All readings that belong to no process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Readings {
    /// The machine's.
    pub host: Courses,
    /// Each disk's.
    pub disks: BTreeMap<String, Courses>,
    /// Those of the network namespace.
    pub network: Courses,
    /// Each interface's of that namespace.
    pub interfaces: BTreeMap<String, Courses>,
    /// The process of the target whose network namespace it is; null: the generator's, as no target is known.
    pub network_pid: Option<u32>,
    /// The target's listening sockets.
    pub listeners: Vec<Listener>,
}

/// A listening socket over the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listener {
    /// Where it is bound.
    pub address: String,
    /// Most connections that waited to be accepted.
    pub waiting_max: u32,
    /// How many may wait; one more fits.
    pub backlog: u32,
}

impl Readings {
    /// Those of some snapshots.
    pub fn of(snapshots: &[Snapshot]) -> Self {
        // Readings of another namespace are of other things: those of the last one count.
        let network_pid = snapshots.iter().rev().find(|s| !s.network.is_empty()).and_then(|s| s.network_pid);
        let of_network = || snapshots.iter().filter(move |s| s.network_pid == network_pid);
        let mut listeners: BTreeMap<&str, Listener> = BTreeMap::new();
        for sample in snapshots.iter().flat_map(|s| &s.listeners) {
            let address = sample.address.clone();
            let of_first = Listener { address, waiting_max: sample.waiting, backlog: sample.backlog };
            let listener = listeners.entry(&sample.address).or_insert(of_first);
            listener.waiting_max = listener.waiting_max.max(sample.waiting);
            listener.backlog = sample.backlog;
        }
        Readings {
            host: courses(snapshots.iter().map(|s| &s.host)),
            disks: each(snapshots.iter().map(|s| &s.disks)),
            network: courses(of_network().map(|s| &s.network)),
            interfaces: each(of_network().map(|s| &s.interfaces)),
            network_pid,
            listeners: listeners.into_values().collect(),
        }
    }
}

/// The course of each name, from readings in order.
pub(crate) fn courses<'r>(readings: impl Iterator<Item = &'r Metrics>) -> Courses {
    let mut firsts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut courses = Courses::new();
    for (name, value) in readings.flat_map(Metrics::iter) {
        let first = *firsts.entry(name).or_insert(value);
        let delta = i64::try_from(i128::from(value) - i128::from(first)).unwrap_or(i64::MAX);
        match courses.get_mut(name) {
            Some(course) => {
                *course = Course { last: value, min: course.min.min(value), max: course.max.max(value), delta }
            }
            None => {
                courses.insert(name.to_owned(), Course { last: value, min: value, max: value, delta });
            }
        }
    }
    courses
}

fn each<'r>(readings: impl Iterator<Item = &'r BTreeMap<String, Metrics>> + Clone) -> BTreeMap<String, Courses> {
    let mut all = BTreeMap::new();
    for name in readings.clone().flat_map(BTreeMap::keys) {
        if !all.contains_key(name) {
            all.insert(name.clone(), courses(readings.clone().filter_map(|devices| devices.get(name))));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::snapshot::ListenerSample;

    #[test]
    fn a_course_has_its_ends_and_extremes() {
        let snapshot = |value: u64, waiting| {
            let mut snapshot = Snapshot { network_pid: Some(7), ..Snapshot::default() };
            snapshot.host.set("memory_free_bytes", value);
            snapshot.network.set("listen_drops", 100 - value);
            snapshot.disks.entry("sda".to_owned()).or_default().set("reads", value);
            let address = "127.0.0.1:80".to_owned();
            snapshot.listeners.push(ListenerSample { address, waiting, backlog: 128, ..ListenerSample::default() });
            snapshot
        };
        let mut other = Snapshot::default();
        other.network.set("listen_drops", 9999);
        let readings = Readings::of(&[other, snapshot(50, 3), snapshot(70, 129), snapshot(20, 0)]);
        assert_eq!(readings.host["memory_free_bytes"], Course { last: 20, min: 20, max: 70, delta: -30 });
        assert_eq!(readings.network["listen_drops"], Course { last: 80, min: 30, max: 80, delta: 30 });
        assert_eq!(readings.disks["sda"]["reads"].delta, -30);
        assert_eq!((readings.network_pid, readings.listeners[0].waiting_max), (Some(7), 129));
        assert_eq!(Readings::of(&[]), Readings::default());
    }
}
