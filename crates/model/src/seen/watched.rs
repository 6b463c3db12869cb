//! A target observed without load: whose processes, and what was seen of them.

use crate::courses::RunCourses;
use crate::event::Events;
use crate::profile::RunProfile;
use crate::recording::thin_and_keep;
use crate::remote::TargetHost;
use crate::snapshot::SamplerStatus;
use crate::{Event, Snapshot};

/// Whose processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// That one and its children.
    Pid(u32),
    /// Those that listen on it, in whatever network namespace.
    Port(u16),
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Wall clock at the start, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// How long it was looked at, nanoseconds.
    pub watched_ns: u64,
    /// CPU time that looking took, nanoseconds.
    pub own_cpu_ns: u64,
    /// What every reading came to, those that are not kept as well.
    pub courses: RunCourses,
    /// Snapshots, thinned where there were many.
    pub snapshots: Vec<Snapshot>,
    /// Where the target's threads ran and waited, all snapshots together.
    pub profile: RunProfile,
    /// Events, oldest first, and how many of which kind were not kept.
    pub events: Events,
    /// How each sampler fared.
    pub samplers: Vec<SamplerStatus>,
    /// The machine it was seen on, where that is another.
    pub target_host: Option<TargetHost>,
}

/// Snapshots as a run keeps them, thinned, and the first events of each kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// What every reading came to, those that are not kept as well.
    pub courses: RunCourses,
    /// Snapshots, thinned where there were many.
    pub snapshots: Vec<Snapshot>,
    /// All their profiles together.
    pub profile: RunProfile,
    number: u64,
    stride: u64,
    /// Events, oldest first, and how many of which kind were not kept.
    pub events: Events,
}

impl Default for Kept {
    fn default() -> Self {
        Kept {
            courses: RunCourses::default(),
            snapshots: Vec::new(),
            profile: RunProfile::default(),
            number: 0,
            stride: 1,
            events: Events::default(),
        }
    }
}

impl Kept {
    /// Keeps a snapshot, and what happened since the one before.
    pub fn push(&mut self, mut snapshot: Snapshot, events: Vec<Event>) {
        if let Some(profile) = snapshot.profile.take() {
            self.profile.add(&profile);
        }
        self.courses.push(&snapshot);
        thin_and_keep(&mut self.snapshots, &mut self.stride, self.number, snapshot);
        self.number += 1;
        self.push_events(events);
    }

    /// Keeps what happened.
    pub fn push_events(&mut self, events: Vec<Event>) {
        self.events.extend(events);
    }
}
