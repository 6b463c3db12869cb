//! What a run observes of a target on its own machine, and of the generator here.
//!
//! Of a target elsewhere a snapshot of the recording is what came from there, with what is read here at the session's
//! tick put beside it ([`model::Snapshot::beside`]). Several that came within a tick are kept with the same reading of
//! the generator; while none comes but the link is up, the tick has none: the next ones do. While it is broken the
//! generator's own reading is kept alone, and nothing in it is the target's.

use super::client::{Client, Seen};
use super::dial::ObserveAt;
use super::failure::RemoteError;
use super::limits::{ADDRESSES_MAX, FIRST_WAIT};
use super::message::{Start, Whom};
use model::bpf::Level;
use model::plan::{Address, Plan};
use model::remote::TargetHost;
use model::snapshot::{SamplerState, SamplerStatus};
use model::{Event, Snapshot};
use observe::{Extent, Observation, ObserveSpec, ObserverThread};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The name under which the link is reported, beside the samplers.
const LINK: &str = "remote/link";

/// The target observed on its machine, the generator here.
#[derive(Debug)]
pub struct Elsewhere {
    own: ObserverThread,
    client: Client,
    /// The run's start, CLOCK_MONOTONIC.
    origin_ns: i64,
    /// What happened and was not asked for yet.
    events: Vec<Event>,
}

impl Observation for Elsewhere {
    fn target_host(&self) -> Option<TargetHost> {
        Some(self.client.host.clone())
    }

    fn before(&mut self) -> Option<Snapshot> {
        let until = Instant::now() + FIRST_WAIT;
        let mut own = self.own.snapshot(super::monotonic_ns());
        own.keep_as_generators();
        self.keep_own();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.client.next(left) {
                Some(Seen { snapshot: Some(snapshot), events }) => {
                    self.keep(events);
                    return Some(snapshot.beside(&own));
                }
                Some(Seen { snapshot: None, events }) => self.keep(events),
                // It broke between its start and its first reading: the run goes on, and says so.
                None => return Some(own),
            }
            if self.client.state().broken_since_ns.is_some() {
                return Some(own);
            }
        }
    }

    fn place(&mut self, before: Snapshot, origin_ns: u64) -> Snapshot {
        self.origin_ns = i64::try_from(origin_ns).unwrap_or(i64::MAX);
        for event in &mut self.events {
            event.at_ns = event.at_ns.saturating_sub(self.origin_ns);
        }
        Snapshot { at_ns: self.at(before.at_ns), ..before }
    }

    fn hint_slow(&mut self) {
        self.client.hint_slow();
    }

    fn snapshots(&mut self, at_ns: i64, extent: Extent) -> Vec<Snapshot> {
        let seen = self.client.take();
        self.beside(at_ns, seen, extent)
    }

    fn finish(&mut self) -> Vec<Snapshot> {
        let seen = self.client.finish();
        let at_ns = self.at(super::monotonic_ns());
        if seen.is_empty() { Vec::new() } else { self.beside(at_ns, seen, Extent::Whole) }
    }

    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The link first, then the samplers there, then those of the generator's machine that tell of a machine, under
    /// `generator:`.
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

impl Elsewhere {
    /// Begins, before any load is put on. An observer elsewhere is tried again for a while, unless interrupted.
    ///
    /// # Errors
    /// [`RemoteError`], where the target cannot be observed there.
    pub fn start(plan: &Plan, probes: Level, at: &ObserveAt, interrupted: &AtomicBool) -> Result<Self, RemoteError> {
        let mut asked = Vec::new();
        for address in plan.origins.iter().flat_map(|o| &o.addresses) {
            match address {
                Address::Tcp(socket) if !asked.contains(socket) && asked.len() < ADDRESSES_MAX => asked.push(*socket),
                _ => {}
            }
        }
        let start = Start { whom: Whom::Addresses(asked), tick_ns: plan.tick_ns, probes };
        let client = Client::start(at, start, interrupted)?;
        let own = ObserverThread::new(ObserveSpec {
            target_unknown: Some(format!("the target is observed at {}", at.address)),
            own_pid: std::process::id(),
            ..ObserveSpec::default()
        });
        Ok(Elsewhere { own, client, origin_ns: 0, events: Vec::new() })
    }

    /// A moment of the clock here as one of the run.
    fn at(&self, monotonic_ns: i64) -> i64 {
        monotonic_ns.saturating_sub(self.origin_ns)
    }

    fn beside(&mut self, at_ns: i64, seen: Vec<Seen>, extent: Extent) -> Vec<Snapshot> {
        let mut own = self.own.reading(at_ns, extent);
        own.keep_as_generators();
        self.keep_own();
        let mut snapshots = Vec::new();
        for Seen { snapshot, events } in seen {
            self.keep(events);
            snapshots.extend(snapshot.map(|snapshot| {
                let at_ns = self.at(snapshot.at_ns);
                let mut snapshot = Snapshot { at_ns, ..*snapshot };
                snapshot.exchanges.iter_mut().for_each(|exchanges| exchanges.set_back(self.origin_ns));
                snapshot.beside(&own)
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
}
