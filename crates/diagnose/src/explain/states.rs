//! What the target's serving threads did with the time they had work, in the probes' windows: by what the time of requests in
//! the target is cut.
//!
//! Of the threads that do the work. What they ran for fast requests is left out, and so are waits for something to do:
//! for events, for a client's next request, in futex with a time limit or at a place where more threads wait than work. A wait
//! for a lock is charged with what its holder did meanwhile, as far as that ran: it is then the lock's all the same, since
//! nobody would have waited without it; of a holder that waited itself for a disk, a backend or its log, those have it.
//! Where requests were in the target for longer than its threads had anything to do (an event loop that waits for somebody
//! else's reply), only so much is said as the threads did.

use crate::facts::{Facts, SYNCS_TO_DISK};
use model::slow::Wait;
use model::threads::{ThreadStates, ThreadTime};
use std::collections::BTreeMap;

/// A thread that ran less than this share of what the busiest did helps, and does not serve.
const WORKING_SHARE: f64 = 0.1;
/// The parts of the time in the target that are known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct States {
    /// By wait: 0..=1 each, and not more than 1 together.
    pub(super) shares: Vec<(Wait, f64)>,
}

impl States {
    /// Of slow requests that were joined and so long in the target beyond fast ones, together; and so long is a fast one there.
    pub(super) fn of(facts: &Facts<'_>, in_server_ns: f64, fast_ns: f64) -> Option<Self> {
        let read = facts.recording.snapshots.iter().rev();
        let states = read.filter_map(|snapshot| snapshot.bpf.as_ref()).find_map(|bpf| bpf.threads.as_ref())?;
        if states.window_ns == 0 || in_server_ns <= 0.0 {
            return None;
        }
        let requests = facts.recording.totals.requests_per_s() * states.window_ns as f64 / 1e9;
        let mut ns = times(facts, states);
        let on_cpu = ns.entry(Wait::OnCpu).or_default();
        *on_cpu = (*on_cpu - requests * fast_ns).max(0.0);
        let busy_ns: f64 = ns.values().sum();
        let all_ns = (in_server_ns * requests).max(busy_ns);
        let shares: Vec<(Wait, f64)> =
            ns.into_iter().filter(|(_, ns)| *ns > 0.0).map(|(w, ns)| (w, ns / all_ns)).collect();
        (!shares.is_empty()).then_some(States { shares })
    }
}

/// Nanoseconds of the serving threads by what they did while they had work.
fn times(facts: &Facts<'_>, states: &ThreadStates) -> BTreeMap<Wait, f64> {
    let of = |thread: &ThreadTime, state: &str| thread.ns.get(state).copied().unwrap_or(0) as f64;
    let most = states.threads.iter().map(|thread| of(thread, "on-cpu")).fold(0.0, f64::max);
    let working: Vec<&ThreadTime> =
        states.threads.iter().filter(|thread| of(thread, "on-cpu") >= WORKING_SHARE * most).collect();
    let mut ns: BTreeMap<Wait, f64> = BTreeMap::new();
    let mut futex_ns = 0.0;
    for thread in &working {
        for (state, wait) in [("on-cpu", Wait::OnCpu), ("runnable", Wait::Runnable), ("throttled", Wait::Throttled)] {
            *ns.entry(wait).or_default() += of(thread, state);
        }
        *ns.entry(Wait::Sleep).or_default() += of(thread, "sleep");
        futex_ns += of(thread, "futex");
        let disk_ns = of(thread, "disk") + of(thread, "uninterruptible");
        let mut log_ns = 0.0;
        for place in &thread.waits {
            let is_write = place.call.starts_with("write") || place.call.starts_with("pwrite");
            let is_log = place.at == "log" || SYNCS_TO_DISK.contains(&&*place.call) || (place.at == "pipe" && is_write);
            match &*place.state {
                "disk" | "uninterruptible" if is_log => log_ns += place.ns as f64,
                "pipe" if is_write => *ns.entry(Wait::Log).or_default() += place.ns as f64,
                "socket" if place.at == "backend" => *ns.entry(Wait::Backend).or_default() += place.ns as f64,
                _ => {}
            }
        }
        let log_ns = log_ns.min(disk_ns);
        *ns.entry(Wait::Log).or_default() += log_ns;
        *ns.entry(Wait::Disk).or_default() += disk_ns - log_ns;
    }
    let (lock_ns, held) = locks(facts, states, working.len(), futex_ns, &ns);
    *ns.entry(Wait::Lock).or_default() += lock_ns;
    for (wait, held_ns) in held {
        *ns.entry(wait).or_default() += held_ns;
    }
    ns
}

/// Waits for locks, as far as they are such: the lock's own, and those that their holders spent in a wait of their own.
fn locks(
    facts: &Facts<'_>,
    states: &ThreadStates,
    working: usize,
    futex_ns: f64,
    ns: &BTreeMap<Wait, f64>,
) -> (f64, Vec<(Wait, f64)>) {
    let places = facts.probes().map_or(&[][..], |probes| &probes.futexes);
    let is_lock = |pid: u32, address: u64| {
        places.iter().any(|f| (f.pid, f.address) == (pid, address) && f.waiters >= 1 && f.waiters as usize <= working)
    };
    let holders = || states.holders.iter().filter(|holder| is_lock(holder.pid, holder.address));
    let waited_ns: f64 = holders().map(|holder| holder.ns as f64).sum();
    let lock_ns = waited_ns.min(futex_ns);
    if lock_ns <= 0.0 {
        return (0.0, Vec::new());
    }
    // Of one that let waiters go it is known how long it ran at the least: what it did else is not.
    let owners = || holders().filter(|holder| holder.known_by == "owner");
    let idle_ns: f64 = owners().map(|holder| holder.ns.saturating_sub(holder.ran_ns) as f64).sum();
    let waits = [Wait::Disk, Wait::Log, Wait::Backend];
    let all_ns: f64 = waits.iter().filter_map(|wait| ns.get(wait)).sum();
    let charged_ns = lock_ns * (idle_ns / waited_ns).min(1.0);
    // A holder that slept, or whose waits are not known, leaves it to the lock.
    if all_ns < charged_ns || charged_ns <= 0.0 {
        return (lock_ns, Vec::new());
    }
    let parts = waits.iter().filter_map(|wait| Some((*wait, charged_ns * ns.get(wait)? / all_ns)));
    (lock_ns - charged_ns, parts.collect())
}
