//! The observer: all samplers on one watch list, read together at one moment.
//!
//! Taking a snapshot never fails and never waits. It allocates (names, thread lists), so it belongs on the session's
//! thread, never on a worker's.
//!
//! In a run whose ticks are short, what moves slowly or costs much is read once a second only ([`Entry::every_ns`]), and is
//! absent in the readings between: it is never repeated as if it were new. The first reading has everything, and so has
//! each that is asked for with [`Extent::Whole`].

use crate::limits::BPF_SOCKETS_MAX;
use crate::samplers::bpf::Family;
use crate::samplers::{Entry, SAMPLERS, Sampler, network};
use crate::source::proc::{Buffers, SampleError};
use crate::watch::Watch;
use model::bpf::Level;
use model::plan::Address;
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};

/// What the status says of a sampler that was not read at each reading.
const ONCE_A_SECOND: &str = "read once a second, not at each reading";

/// What is to be observed.
#[derive(Debug, Clone)]
pub struct ObserveSpec {
    /// The target's processes; empty: none is known.
    pub target: Vec<u32>,
    /// Why none is known, in a sentence (see [`crate::target::NotFound`]).
    pub target_unknown: Option<String>,
    /// Where the target listens: looked up again when a process of it has gone.
    pub addresses: Vec<Address>,
    /// The generator's process.
    pub own_pid: u32,
    /// Whether a run's requests go to those addresses over TCP: only then single requests are looked for.
    pub has_requests: bool,
    /// Whether it is known that those requests are without TLS: the light probes then leave its handshakes out.
    pub is_plain: bool,
    /// Which probes run in the kernel.
    pub probes: Level,
    /// Sockets whose state they keep, at the most.
    pub sockets_max: u32,
    /// How much of the time windows of probes may take.
    pub windows: WindowShare,
}

/// How much a reading takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// What is due: of samplers that read once a second, those whose second has passed.
    #[default]
    Due,
    /// Everything: at the beginning and at the end of what is measured.
    Whole,
}

/// How much of the time the windows of probes may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowShare {
    /// A second in ten, from tick to tick, the first one at once: where nobody measures.
    #[default]
    SecondInTen,
    /// At most a tenth of the measured time, however long that is.
    TenthOfMeasured {
        /// How long the run measures; `None`: it may end at any moment, so at most a tenth of what has passed.
        measured_ns: Option<u64>,
        /// How long it does not before that.
        warmup_ns: u64,
        /// The time between two readings.
        tick_ns: u64,
    },
}

impl Default for ObserveSpec {
    fn default() -> Self {
        ObserveSpec {
            target: Vec::new(),
            target_unknown: None,
            addresses: Vec::new(),
            own_pid: 0,
            has_requests: false,
            is_plain: false,
            probes: Level::default(),
            sockets_max: BPF_SOCKETS_MAX,
            windows: WindowShare::default(),
        }
    }
}

/// Reads the host and the processes of a spec, as often as it is asked.
#[derive(Debug)]
pub struct Observer {
    watch: Watch,
    samplers: Vec<Running>,
    probes: Family,
    events: Vec<Event>,
    buffers: Buffers,
}

#[derive(Debug)]
struct Running {
    name: &'static str,
    every_ns: i64,
    /// When it last read, by the run's clock.
    read_ns: Option<i64>,
    /// How often it was passed over, as it was not due.
    passed_over: u64,
    sampler: Box<dyn Sampler>,
    /// How the last reading went.
    state: SamplerState,
    /// Why it did not read, or what it left out.
    reason: String,
    has_read: bool,
}

impl Observer {
    /// Starts observing; what cannot be read shows in [`Observer::statuses`].
    pub fn new(spec: ObserveSpec) -> Self {
        let mut observer = Self::without_probes(spec);
        while observer.load_next() {}
        observer
    }

    /// The same without probes, which [`Observer::load_next`] loads: that takes a tenth of a second.
    pub(crate) fn without_probes(spec: ObserveSpec) -> Self {
        let mut buffers = Buffers::default();
        let target = match (&spec.target_unknown, &*spec.target) {
            (Some(why), _) => Err(&**why),
            (None, []) => Err("no process of the target was named"),
            (None, target) => Ok(target),
        };
        let probes = Family::pending(target, &spec);
        let samplers = SAMPLERS.iter().map(|entry| Running::new(entry, &spec)).collect();
        let watch = Watch::new(spec, &mut buffers);
        Observer { watch, samplers, probes, events: Vec::new(), buffers }
    }

    /// Loads one more probe; whether any is left to load.
    pub(crate) fn load_next(&mut self) -> bool {
        self.probes.load_next()
    }

    /// The load begins now: from here on time is measured. `origin_ns`: the run's moment 0 by CLOCK_MONOTONIC.
    pub(crate) fn begin(&mut self, origin_ns: i64) {
        self.probes.begin(origin_ns);
    }

    /// Reads everything now. `at_ns`: the moment, in nanoseconds since the run's start.
    pub fn snapshot(&mut self, at_ns: i64) -> Snapshot {
        self.reading(at_ns, Extent::Whole)
    }

    /// Reads everything, or what is due.
    pub fn reading(&mut self, at_ns: i64, extent: Extent) -> Snapshot {
        let mut snapshot = Snapshot { at_ns, ..Snapshot::default() };
        self.watch.sample(&mut self.buffers, &mut snapshot);
        for running in &mut self.samplers {
            if extent == Extent::Due && !running.is_due(at_ns) {
                running.passed_over += 1;
                snapshot.is_partial = true;
                continue;
            }
            running.read_ns = Some(at_ns);
            if extent == Extent::Whole {
                running.sampler.be_whole();
            }
            let outcome = running.sampler.sample(&mut self.buffers, &mut snapshot);
            running.note(outcome);
            self.watch.events.append(&mut running.sampler.take_events());
            self.buffers.turn.give_way();
        }
        snapshot.network_pid = network::folder(&snapshot).1;
        self.probes.sample(&mut self.buffers.turn, &mut snapshot, &mut self.events);
        snapshot
    }

    /// Says that the target was slow just now: probes that run in windows begin one, if none is open.
    pub fn hint_slow(&mut self) {
        self.probes.hint_slow();
    }

    /// How soon [`Observer::relieve`] is wanted; `None`: not before the next snapshot.
    pub fn relieve_in(&self) -> Option<std::time::Duration> {
        self.probes.relieve_in()
    }

    /// Ends the probes that cost most, of an open window, where they have seen enough. Who does not call it has them run
    /// until the window ends.
    pub fn relieve(&mut self) {
        self.probes.relieve();
    }

    /// What happened to the watched processes since this was last asked: `target-gone`, `target-restarted`,
    /// `target-executed`, `target-processes-bound`; what samplers found (`kernel-…`), and what the probes saw:
    /// `target-signal`, `target-exit`, `target-oom-kill`, `target-listening`.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.watch.events.append(&mut self.events);
        std::mem::take(&mut self.watch.events)
    }

    /// How each sampler fared at the last snapshot, the watch on the target's processes (`process/target`) first.
    pub fn statuses(&self) -> Vec<SamplerStatus> {
        let of_samplers = self.samplers.iter().map(|running| SamplerStatus {
            name: running.name.to_owned(),
            status: running.state,
            reason: running.said(),
        });
        std::iter::once(self.watch.status()).chain(of_samplers).chain(self.probes.statuses()).collect()
    }
}

impl Running {
    fn new(entry: &Entry, spec: &ObserveSpec) -> Self {
        let mut sampler = (entry.make)();
        sampler.begin(spec);
        Running {
            name: entry.name,
            every_ns: entry.every_ns,
            read_ns: None,
            passed_over: 0,
            sampler,
            state: SamplerState::Active,
            reason: String::new(),
            has_read: false,
        }
    }

    fn is_due(&self, at_ns: i64) -> bool {
        self.read_ns.is_none_or(|read_ns| at_ns.saturating_sub(read_ns) >= self.every_ns)
    }

    /// Its reason, and how often it reads where that is not at each reading.
    fn said(&self) -> String {
        let seldom = self.passed_over > 0 && self.state == SamplerState::Active;
        match (seldom, &*self.reason) {
            (false, reason) => reason.to_owned(),
            (true, "") => ONCE_A_SECOND.to_owned(),
            (true, reason) => format!("{reason}; {}", ONCE_A_SECOND),
        }
    }

    fn note(&mut self, outcome: Result<(), SampleError>) {
        match outcome {
            Ok(()) => {
                (self.state, self.reason) = (SamplerState::Active, self.sampler.leaves_out().unwrap_or_default());
                self.has_read = true;
            }
            // What it read while there was something, it has read; what ends in between is gone at the next snapshot.
            Err(error) if error.is_nothing() && self.has_read || error.is_gone() => {}
            Err(error) if error.is_nothing() => {
                (self.state, self.reason) = (SamplerState::Disabled, error.to_string());
            }
            Err(error) => (self.state, self.reason) = (SamplerState::Failed, error.to_string()),
        }
    }
}
