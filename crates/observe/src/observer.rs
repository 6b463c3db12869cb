//! The observer: all samplers on one watch list, read together at one moment.
//!
//! Taking a snapshot never fails and never waits. It allocates (names, thread lists), so it belongs on the session's
//! thread, never on a worker's.

use crate::samplers::{SAMPLERS, Sampler};
use crate::source::proc::Buffers;
use crate::watch::Watch;
use model::plan::Address;
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};

/// What is to be observed.
#[derive(Debug, Clone, Default)]
pub struct ObserveSpec {
    /// The target's processes; empty: none is known.
    pub target: Vec<u32>,
    /// Why none is known, in a sentence (see [`crate::target::NotFound`]).
    pub target_unknown: Option<String>,
    /// Where the target listens: looked up again when a process of it has gone.
    pub addresses: Vec<Address>,
    /// The generator's process.
    pub own_pid: u32,
}

/// Reads the host and the processes of a spec, as often as it is asked.
#[derive(Debug)]
pub struct Observer {
    watch: Watch,
    samplers: Vec<Running>,
    buffers: Buffers,
}

#[derive(Debug)]
struct Running {
    name: &'static str,
    sampler: Box<dyn Sampler>,
    /// Why the last reading failed.
    failure: Option<String>,
}

impl Observer {
    /// Starts observing; what cannot be read shows in [`Observer::statuses`].
    pub fn new(spec: ObserveSpec) -> Self {
        let mut buffers = Buffers::default();
        let watch = Watch::new(spec, &mut buffers);
        let samplers =
            SAMPLERS.iter().map(|entry| Running { name: entry.name, sampler: (entry.make)(), failure: None }).collect();
        Observer { watch, samplers, buffers }
    }

    /// Reads everything now. `at_ns`: the moment, in nanoseconds since the run's start.
    pub fn snapshot(&mut self, at_ns: i64) -> Snapshot {
        let mut snapshot = Snapshot { at_ns, ..Snapshot::default() };
        self.watch.sample(&mut self.buffers, &mut snapshot);
        for running in &mut self.samplers {
            let outcome = running.sampler.sample(&mut self.buffers, &mut snapshot);
            running.failure = outcome.err().map(|error| error.to_string());
        }
        snapshot
    }

    /// What happened to the watched processes since this was last asked: `target-gone`, `target-restarted`,
    /// `target-processes-bound`.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.watch.events)
    }

    /// How each sampler fared at the last snapshot, the watch on the target's processes (`process/target`) first.
    pub fn statuses(&self) -> Vec<SamplerStatus> {
        let of_samplers = self.samplers.iter().map(|running| SamplerStatus {
            name: running.name.to_owned(),
            status: if running.failure.is_some() { SamplerState::Failed } else { SamplerState::Active },
            reason: running.failure.clone().unwrap_or_default(),
        });
        std::iter::once(self.watch.status()).chain(of_samplers).collect()
    }
}
