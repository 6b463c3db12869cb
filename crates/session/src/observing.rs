//! A target observed without load: its processes by their id or by the port they listen on, a snapshot a tick.
//!
//! Nothing is sent to the target, and nothing is kept on disk.

use model::bpf::Level;
use model::plan::Address;
use model::watched::{Kept, Watched, Whom};
use model::{Event, Snapshot};
use observe::target::NotFound;
use observe::{Extent, ObserveSpec, ObserverThread};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why nothing is observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// There is no such process.
    #[error("expected the id of a process, and there is no process {0}: see `pgrep -a NAME`, or give --port")]
    NoProcess(u32),
    /// There is one, but `/proc` does not show it.
    #[error(
        "process {0} is not shown to this user: /proc is mounted with hidepid; run as root or as its user, or give \
         plimsoll CAP_SYS_PTRACE"
    )]
    Hidden(u32),
    /// Nobody listens there, or it cannot be seen.
    #[error("{0}")]
    NotFound(#[from] NotFound),
}

/// Observes until the time is up, a signal sets the flag, or the target is gone for good. `each` is given every snapshot
/// with what happened since the one before.
///
/// # Errors
/// [`ObserveError`], before anything is observed.
pub fn observe(
    whom: Whom,
    for_at_most: Option<Duration>,
    tick: Duration,
    probes: Level,
    interrupted: &AtomicBool,
    mut each: impl FnMut(&Snapshot, &[Event]),
) -> Result<Watched, ObserveError> {
    let (target, addresses) = find(whom)?;
    let started_at_unix_ns = observe::capsule().started_at_unix_ns;
    let used = observe::own::rusage();
    let own_pid = std::process::id();
    let mut observer =
        ObserverThread::new(ObserveSpec { target, addresses, own_pid, probes, ..ObserveSpec::default() });
    let began = Instant::now();
    let mut kept = Kept::default();
    let mut due = Duration::ZERO;
    loop {
        let is_last = for_at_most.is_some_and(|most| began.elapsed() >= most);
        let extent = if is_last { Extent::Whole } else { Extent::Due };
        let snapshot = observer.reading(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX), extent);
        let events = observer.take_events();
        each(&snapshot, &events);
        let is_gone = is_gone_for_good(&snapshot, whom);
        kept.push(snapshot, events);
        if is_gone || is_last {
            break;
        }
        // What a reading took is not added to the tick; ticks that were missed are not made up for.
        while due <= began.elapsed() {
            due += tick;
        }
        if !sleep_until(began, for_at_most.map_or(due, |most| due.min(most)), interrupted) {
            break;
        }
    }
    let now = observe::own::rusage();
    Ok(Watched {
        started_at_unix_ns,
        watched_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        own_cpu_ns: (now.user_ns + now.system_ns).saturating_sub(used.user_ns + used.system_ns),
        courses: kept.courses,
        snapshots: kept.snapshots,
        profile: kept.profile,
        events: kept.events,
        samplers: observer.statuses(),
        target_host: None,
    })
}

fn find(whom: Whom) -> Result<(Vec<u32>, Vec<Address>), ObserveError> {
    match whom {
        Whom::Pid(pid) if std::path::Path::new(&format!("/proc/{pid}/stat")).exists() => Ok((vec![pid], Vec::new())),
        Whom::Pid(pid) if observe::target::exists(pid) => Err(ObserveError::Hidden(pid)),
        Whom::Pid(pid) => Err(ObserveError::NoProcess(pid)),
        Whom::Port(port) => Ok(observe::target::find_port(port)?),
    }
}

/// A process that was named and has ended does not come back; a port may find another holder.
fn is_gone_for_good(snapshot: &Snapshot, whom: Whom) -> bool {
    let has_target = snapshot.processes.iter().any(|p| p.role == model::snapshot::Role::Target);
    matches!(whom, Whom::Pid(_)) && !has_target
}

/// Sleeps in short pieces, so that a signal is heeded; whether there was none.
fn sleep_until(began: Instant, due: Duration, interrupted: &AtomicBool) -> bool {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return false;
        }
        let left = due.saturating_sub(began.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(200)));
    }
}
