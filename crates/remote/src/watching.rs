//! `plimsoll watch --at`: a target on another machine observed without load, as `session::observing` does here.

use super::client::{Client, Seen};
use super::dial::ObserveAt;
use super::failure::RemoteError;
use super::limits::LOOK_EVERY;
use super::message::{Start, Whom};
use super::monotonic_ns;
use model::bpf::Level;
use model::snapshot::{SamplerState, SamplerStatus};
use model::watched::{Kept, Watched, Whom as Asked};
use model::{Event, Snapshot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Observes until the time is up, a signal sets the flag, or a process that was named is gone. `whom`: `None` where the
/// observer knows it itself. `each` is given every snapshot with what happened since the one before.
///
/// # Errors
/// [`RemoteError`], before anything is observed.
pub fn watch(
    at: &ObserveAt,
    whom: Option<Asked>,
    for_at_most: Option<Duration>,
    tick: Duration,
    probes: Level,
    interrupted: &AtomicBool,
    mut each: impl FnMut(&Snapshot, &[Event]),
) -> Result<Watched, RemoteError> {
    let is_pid = matches!(whom, Some(Asked::Pid(_)));
    let whom = match whom {
        Some(Asked::Pid(pid)) => Whom::Pid(pid),
        Some(Asked::Port(port)) => Whom::Port(port),
        None => Whom::Addresses(Vec::new()),
    };
    let started_at_unix_ns = observe::capsule().started_at_unix_ns;
    let used = observe::own::rusage();
    let tick_ns = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX);
    let mut client = Client::start(at, Start { whom, tick_ns, probes }, interrupted)?;
    if let Some(why) = &client.unknown {
        return Err(RemoteError::Refused { address: at.address.clone(), why: why.clone() });
    }
    let (began, origin_ns) = (Instant::now(), monotonic_ns());
    let mut kept = Kept::default();
    let mut take = |seen: Seen| {
        let place = |at_ns: i64| at_ns.saturating_sub(origin_ns).max(0);
        let events: Vec<Event> =
            seen.events.into_iter().map(|event| Event { at_ns: place(event.at_ns), ..event }).collect();
        let Some(mut snapshot) = seen.snapshot else {
            kept.push_events(events);
            return true;
        };
        snapshot.at_ns = place(snapshot.at_ns);
        snapshot.processes.retain(|process| process.role == model::snapshot::Role::Target);
        each(&snapshot, &events);
        let is_there = !snapshot.processes.is_empty();
        kept.push(*snapshot, events);
        is_there || !is_pid
    };
    while !interrupted.load(Ordering::Relaxed) && for_at_most.is_none_or(|most| began.elapsed() < most) {
        let left = for_at_most.map_or(LOOK_EVERY, |most| most.saturating_sub(began.elapsed()).min(LOOK_EVERY));
        let Some(seen) = client.next(left) else { continue };
        if !take(seen) {
            break;
        }
    }
    for seen in client.finish() {
        take(seen);
    }
    let (state, now) = (client.state(), observe::own::rusage());
    let mut samplers = state.samplers;
    if state.broken_since_ns.is_some() {
        let reason = format!("broken at the end: {}", state.why);
        samplers.insert(0, SamplerStatus { name: "remote/link".to_owned(), status: SamplerState::Failed, reason });
    }
    Ok(Watched {
        started_at_unix_ns,
        watched_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        own_cpu_ns: (now.user_ns + now.system_ns).saturating_sub(used.user_ns + used.system_ns),
        courses: kept.courses,
        snapshots: kept.snapshots,
        events: kept.events,
        samplers,
        profile: kept.profile,
        target_host: Some(client.host.clone()),
    })
}
