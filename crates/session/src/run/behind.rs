//! Machines behind the target, which the target asks: each observed where it is, while the load is on.
//!
//! Nothing is put on them by the run itself, so each is watched as `plimsoll watch --at` does it, at the run's tick, and judged by what can
//! be told without a load. What was found of each becomes an event of the run ([`model::event::BEHIND`]): so the recording has it, and the
//! run's own diagnosis goes on from a target that waits to whom it waits for. Its readings are not kept: `watch --at HOST --record` does.
//! One that cannot be reached before the load fails the run, as the target's own observer does; one whose link breaks later does not.

use super::{Outcome, RecordTo, RunError};
use crate::watching::{Keeper, WatchSpec};
use model::Event;
use model::bpf::Level;
use model::event::{BEHIND, Details};
use model::finding::{About, Finding, Status};
use model::plain::plain;
use model::recording::End;
use model::watched::Whom;
use remote::ObserveAt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a start that takes its time looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A machine behind the target.
#[derive(Debug, Clone)]
pub struct BehindSpec {
    /// The observer there.
    pub at: ObserveAt,
    /// The port that it serves the target on; `None`: whoever the observer was started for.
    pub port: Option<u16>,
    /// Which probes it is asked for.
    pub probes: Level,
}

/// Those that are watched.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    watched: Vec<One>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct One {
    spec: BehindSpec,
    thread: JoinHandle<Result<Outcome, RunError>>,
}

impl Behind {
    /// Begins with all of them, and waits until each was read once.
    ///
    /// # Errors
    /// [`RunError::Remote`]: one is not reached; [`RunError::Interrupted`].
    pub(crate) fn start(
        specs: &[BehindSpec],
        tick_ns: u64,
        version: &str,
        interrupted: &AtomicBool,
    ) -> Result<Self, RunError> {
        let mut behind = Behind::default();
        let mut readies: Vec<Receiver<()>> = Vec::new();
        for spec in specs {
            let (ready, is_ready) = channel();
            let (spec_of_thread, stop, version) = (spec.clone(), Arc::clone(&behind.stop), version.to_owned());
            // Only the first is waited for.
            let ready = move || ready.send(()).unwrap_or_default();
            let watching = move || watched(&spec_of_thread, tick_ns, version, &stop, ready);
            let thread = std::thread::Builder::new().name("behind".to_owned()).spawn(watching);
            behind.watched.push(One { spec: spec.clone(), thread: thread.map_err(RunError::BehindThread)? });
            readies.push(is_ready);
        }
        for (at, ready) in readies.iter().enumerate() {
            loop {
                match ready.recv_timeout(LOOK) {
                    Ok(()) => break,
                    Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                        return Err(RunError::Interrupted);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    // It ended before its first reading.
                    Err(RecvTimeoutError::Disconnected) => match behind.watched.swap_remove(at).thread.join() {
                        Ok(Err(error)) => return Err(error),
                        Ok(Ok(_)) => return Err(RunError::Interrupted),
                        Err(panic) => std::panic::resume_unwind(panic),
                    },
                }
            }
        }
        Ok(behind)
    }

    /// The load is over: what was found of each.
    pub(crate) fn end(mut self, at_ns: i64) -> Vec<Event> {
        self.stop.store(true, Ordering::Relaxed);
        let event = |One { spec, thread }: One| {
            let outcome = match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            found(&spec, outcome.ok(), at_ns)
        };
        std::mem::take(&mut self.watched).into_iter().map(event).collect()
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // Of a run that did not come to its load.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Watches one until it is told to end.
fn watched(
    spec: &BehindSpec,
    tick_ns: u64,
    version: String,
    stop: &AtomicBool,
    ready: impl Fn(),
) -> Result<Outcome, RunError> {
    let whom = spec.port.map(Whom::Port);
    let mut keeper = Keeper::start(&WatchSpec {
        whom,
        at: Some(&spec.at.address),
        tick_ns,
        record: &RecordTo::Nothing,
        command: Vec::new(),
        version,
    })?;
    let watched =
        remote::watch(&spec.at, whom, None, Duration::from_nanos(tick_ns), spec.probes, stop, |snapshot, events| {
            ready();
            keeper.push(snapshot, events);
        })?;
    Ok(keeper.finish(&watched, End::Complete))
}

/// What was found of a machine, as an event; `None`: its observer could not be followed to the end.
fn found(spec: &BehindSpec, outcome: Option<Outcome>, at_ns: i64) -> Event {
    let address = plain(&spec.at.address).into_owned();
    let details =
        |of_kind| Details { socket_local: Some(address.clone()), port: spec.port, of_kind, ..Details::default() };
    // The causes that want a load to be judged are many, and no news here.
    let first_part = |text: String| text.split("; ").next().unwrap_or_default().to_owned();
    let Some(Outcome { diagnosis, .. }) = outcome else {
        let text = format!("at {address} nothing is known: its observer could not be followed to the end");
        return Event::new(at_ns, BEHIND, text).with(details(None));
    };
    let is_it = |finding: &&Finding| finding.about == About::Target && finding.status == Status::Supported;
    match diagnosis.findings.iter().find(is_it) {
        Some(first) => {
            let text = format!("at {address}, watched as a target of its own: {}", first.title);
            Event::new(at_ns, BEHIND, text).with(details(Some(first.id.clone())))
        }
        None => {
            let text = diagnosis.gives.map_or_else(|| "nothing was found".to_owned(), |gives| first_part(gives.text));
            Event::new(at_ns, BEHIND, format!("at {address}, watched as a target of its own: {text}"))
                .with(details(None))
        }
    }
}
