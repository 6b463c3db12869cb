//! What a run observes: all on this host, or the target on its own machine and the generator here.
//!
//! Of a target elsewhere a snapshot of the recording is what came from there, with what is read here at the session's
//! tick put beside it ([`model::Snapshot::beside`]). Several that came within a tick are kept with the same reading of
//! the generator; while none comes but the link is up, the tick has none: the next ones do. While it is broken the
//! generator's own reading is kept alone, and nothing in it is the target's.

use super::client::{Client, ObserveAt, RemoteError, Seen};
use super::limits::{ADDRESSES_MAX, FIRST_WAIT};
use super::message::{Start, Whom};
use model::bpf::Level;
use model::plan::{Address, Plan};
use model::remote::TargetHost;
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};
use observe::target::NotFound;
use observe::{Apart, ObserveSpec, WindowShare};
use std::time::{Duration, Instant};

/// The name under which the link is reported, beside the samplers.
const LINK: &str = "remote/link";

/// What is read, and from where.
#[derive(Debug)]
pub(crate) enum Observation {
    /// Nothing.
    Off,
    /// All on this host.
    Here(Box<Apart>),
    /// The target elsewhere.
    There(Box<There>),
}

#[derive(Debug)]
pub(crate) struct There {
    own: Apart,
    client: Client,
    /// The run's start, CLOCK_MONOTONIC.
    origin_ns: i64,
    /// What happened and was not asked for yet.
    events: Vec<Event>,
}

impl Observation {
    /// Begins, before any load is put on.
    ///
    /// # Errors
    /// [`RemoteError`], where a target elsewhere cannot be observed.
    pub fn start(plan: &Plan, probes: Level, at: Option<&ObserveAt>) -> Result<Self, RemoteError> {
        let addresses: Vec<Address> = plan.origins.iter().flat_map(|o| o.addresses.iter().cloned()).collect();
        let Some(at) = at else { return Ok(Observation::Here(Box::new(here(addresses, probes, windows(plan))))) };
        let mut asked = Vec::new();
        for address in addresses {
            match address {
                Address::Tcp(socket) if !asked.contains(&socket) && asked.len() < ADDRESSES_MAX => asked.push(socket),
                _ => {}
            }
        }
        let start = Start { whom: Whom::Addresses(asked), tick_ns: plan.tick_ns, probes };
        let client = Client::start(at, start)?;
        let own = Apart::new(ObserveSpec {
            target_unknown: Some(format!("the target is observed at {}", at.address)),
            own_pid: std::process::id(),
            ..ObserveSpec::default()
        });
        Ok(Observation::There(Box::new(There { own, client, origin_ns: 0, events: Vec::new() })))
    }

    /// The target's machine, where it is another.
    pub fn target_host(&self) -> Option<TargetHost> {
        match self {
            Observation::Off | Observation::Here(_) => None,
            Observation::There(there) => Some(there.client.host.clone()),
        }
    }

    /// The reading before the load; one from elsewhere is waited for. [`Observation::place`] puts it in time.
    pub fn before(&mut self) -> Option<Snapshot> {
        match self {
            Observation::Off => None,
            Observation::Here(observer) => Some(observer.snapshot(-1)),
            Observation::There(there) => Some(there.before()),
        }
    }

    /// The tick that has just ended was slow: probes that run in windows may look at once.
    pub fn hint_slow(&mut self) {
        match self {
            Observation::Off => {}
            Observation::Here(observer) => observer.hint_slow(),
            Observation::There(there) => there.client.hint_slow(),
        }
    }

    /// The run starts: a reading from before it gets its time.
    pub fn place(&mut self, before: Snapshot, origin_ns: u64) -> Snapshot {
        let there = match self {
            Observation::Off => return before,
            Observation::Here(observer) => {
                observer.begin();
                return before;
            }
            Observation::There(there) => there,
        };
        there.origin_ns = i64::try_from(origin_ns).unwrap_or(i64::MAX);
        for event in &mut there.events {
            event.at_ns = event.at_ns.saturating_sub(there.origin_ns);
        }
        Snapshot { at_ns: there.at(before.at_ns), ..before }
    }

    /// What a tick has: one reading here, of a target elsewhere those that came meanwhile.
    pub fn snapshots(&mut self, at_ns: i64) -> Vec<Snapshot> {
        match self {
            Observation::Off => Vec::new(),
            Observation::Here(observer) => vec![observer.snapshot(at_ns)],
            Observation::There(there) => {
                let seen = there.client.take();
                there.beside(at_ns, seen)
            }
        }
    }

    /// One last reading of a target elsewhere; here, the last tick had it.
    pub fn finish(&mut self) -> Vec<Snapshot> {
        let Observation::There(there) = self else { return Vec::new() };
        let seen = there.client.finish();
        let at_ns = there.at(super::monotonic_ns());
        if seen.is_empty() { Vec::new() } else { there.beside(at_ns, seen) }
    }

    /// What happened since this was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        match self {
            Observation::Off => Vec::new(),
            Observation::Here(observer) => observer.take_events(),
            Observation::There(there) => std::mem::take(&mut there.events),
        }
    }

    /// How each sampler fared: of a target elsewhere the link first, then those there, then those of the generator's
    /// machine that tell of a machine, under `generator:`.
    pub fn statuses(&self) -> Vec<SamplerStatus> {
        match self {
            Observation::Off => {
                let reason = "nothing was observed (--no-observe)".to_owned();
                vec![SamplerStatus { name: "observe/all".to_owned(), status: SamplerState::Disabled, reason }]
            }
            Observation::Here(observer) => observer.statuses(),
            Observation::There(there) => there.statuses(),
        }
    }
}

/// A tenth of what the run measures, or of what has passed where a count may end it at any moment.
fn windows(plan: &Plan) -> WindowShare {
    let warmup_ns = plan.warmup_ns.saturating_add(plan.ramp_ns());
    let measured_ns = plan.stop.duration_ns.filter(|_| plan.stop.requests.is_none());
    WindowShare::TenthOfMeasured { measured_ns, warmup_ns, tick_ns: plan.tick_ns }
}

fn here(addresses: Vec<Address>, probes: Level, windows: WindowShare) -> Apart {
    let (target, target_unknown) = match observe::target::find(&addresses) {
        Ok(pids) => (pids, None),
        Err(why @ NotFound::Remote { .. }) => (
            Vec::new(),
            Some(format!("{why}; to see it, run `plimsoll watch --serve` where it is and give --observe-at here")),
        ),
        Err(why) => (Vec::new(), Some(why.to_string())),
    };
    Apart::with_probes_later(ObserveSpec {
        target,
        target_unknown,
        addresses,
        own_pid: std::process::id(),
        probes,
        windows,
        ..ObserveSpec::default()
    })
}

impl There {
    /// A moment of the clock here as one of the run.
    fn at(&self, monotonic_ns: i64) -> i64 {
        monotonic_ns.saturating_sub(self.origin_ns)
    }

    fn before(&mut self) -> Snapshot {
        let until = Instant::now() + FIRST_WAIT;
        let mut own = self.own.snapshot(super::monotonic_ns());
        own.keep_as_generators();
        self.keep_own();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.client.next(left) {
                Some(Seen { snapshot: Some(snapshot), events }) => {
                    self.keep(events);
                    return snapshot.beside(&own);
                }
                Some(Seen { snapshot: None, events }) => self.keep(events),
                // It broke between its start and its first reading: the run goes on, and says so.
                None => return own,
            }
            if self.client.state().broken_since_ns.is_some() {
                return own;
            }
        }
    }

    fn beside(&mut self, at_ns: i64, seen: Vec<Seen>) -> Vec<Snapshot> {
        let mut own = self.own.snapshot(at_ns);
        own.keep_as_generators();
        self.keep_own();
        let mut snapshots = Vec::new();
        for Seen { snapshot, events } in seen {
            self.keep(events);
            snapshots.extend(snapshot.map(|snapshot| {
                let at_ns = self.at(snapshot.at_ns);
                Snapshot { at_ns, ..*snapshot }.beside(&own)
            }));
        }
        let state = self.client.state();
        if let Some(since_ns) = state.broken_since_ns.filter(|_| snapshots.is_empty()) {
            let mut link = state.link;
            let gap_ns = super::monotonic_ns().saturating_sub(since_ns).max(0).unsigned_abs();
            link.broken_ns = link.broken_ns.saturating_add(gap_ns);
            own.link = Some(link);
            snapshots.push(own);
        }
        snapshots
    }

    /// What happened on the generator's machine must not be taken for what happened on the target's.
    fn keep_own(&mut self) {
        for mut event in self.own.take_events() {
            event.text = format!("on the generator's machine: {}", event.text);
            self.events.push(event);
        }
    }

    fn keep(&mut self, events: Vec<Event>) {
        // Before the start is known this changes nothing, and `place` does it.
        let origin_ns = self.origin_ns;
        self.events
            .extend(events.into_iter().map(|event| Event { at_ns: event.at_ns.saturating_sub(origin_ns), ..event }));
    }

    fn statuses(&self) -> Vec<SamplerStatus> {
        let state = self.client.state();
        let second = |ns: i64| self.at(ns) as f64 / 1e9;
        let (status, reason) = match state.broken_since_ns {
            Some(since_ns) => {
                let attempt = if state.attempt.is_empty() {
                    String::new()
                } else {
                    format!("; the last attempt: {}", state.attempt)
                };
                let reason = format!("broken since second {:.1}: {}{attempt}", second(since_ns), state.why);
                (SamplerState::Failed, reason)
            }
            None if state.link.breaks > 0 => {
                // What it left out.
                let broken_s = Duration::from_nanos(state.link.broken_ns).as_secs_f64();
                let times =
                    if state.link.breaks == 1 { "once".to_owned() } else { format!("{} times", state.link.breaks) };
                let reason = format!("it broke {times}, for {broken_s:.1} s in all; the last time: {}", state.why);
                (SamplerState::Active, reason)
            }
            None => (SamplerState::Active, String::new()),
        };
        let link = SamplerStatus { name: LINK.to_owned(), status, reason };
        // What was last read of the target says nothing of it any more; of the other samplers it is the last word.
        let samplers = state.samplers.into_iter().map(|sampler| match state.broken_since_ns {
            Some(since_ns) if sampler.name == observe::samplers::TARGET.0 => SamplerStatus {
                status: SamplerState::Failed,
                reason: format!("not read since second {:.1}: the link to the observer broke", second(since_ns)),
                ..sampler
            },
            _ => sampler,
        });
        let own =
            self.own.statuses().into_iter().filter(|s| s.name.starts_with("host/") || s.name == "network/time_wait");
        let own = own.map(|s| SamplerStatus { name: format!("generator:{}", s.name), ..s });
        std::iter::once(link).chain(samplers).chain(own).collect()
    }
}
