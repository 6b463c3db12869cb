//! Metrics over a run: of each name the last reading, the least and most, and the difference; of every reading there was
//! ([`model::courses`]).
//!
//! Of a counter the difference is what happened; of a gauge the extremes. Which is which says `docs/metrics.md`.

use model::courses::RunCourses;
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
    /// Those of a run.
    pub fn of(run: &RunCourses) -> Self {
        let listener = |(address, listener): (&String, &model::courses::ListenerCourse)| Listener {
            address: address.clone(),
            waiting_max: listener.waiting_max,
            backlog: listener.backlog,
        };
        let network = run.network();
        Readings {
            host: courses(&run.host),
            disks: each(&run.disks),
            network: network.map(|network| courses(&network.own)).unwrap_or_default(),
            interfaces: network.map(|network| each(&network.interfaces)).unwrap_or_default(),
            network_pid: run.last_network,
            listeners: run.listeners.iter().map(listener).collect(),
        }
    }
}

/// The course of each name.
pub(crate) fn courses(of: &model::courses::Courses) -> Courses {
    let course = |course: &model::courses::Course| Course {
        last: course.last,
        min: course.min,
        max: course.max,
        delta: course.delta(),
    };
    of.0.iter().map(|(name, of)| (name.clone(), course(of))).collect()
}

fn each(devices: &BTreeMap<String, model::courses::Courses>) -> BTreeMap<String, Courses> {
    devices.iter().map(|(name, of)| (name.clone(), courses(of))).collect()
}
