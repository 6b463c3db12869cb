//! When each fault of a run is done and undone: one thread, one thing after the other, by the run's clock.
//!
//! What takes long (a process that does not end, a command) holds up the next; each event says when it began to act and how
//! long that took. Two at one moment are done in the order in which they were asked for. When the load is over, by whatever
//! reason, what is not undone is, the last first; also where the run's own thread panics, as [`Running`] is dropped.

use super::{FaultError, Setup, Whom, understood};
use crate::faults::Started;
use fault::{Asked, Begun, Deed, Step, Undoing};
use model::Event;
use model::event::{Details, FAULT_BEGAN, FAULT_REFUSED, FAULT_UNDONE};
use model::fault::LoadFault;
use model::plan::{Address, Plan};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest that the thread sleeps without looking at the clock: a machine may have been suspended.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Faults that can be done as far as can be told before the load.
#[derive(Debug)]
pub struct Ready {
    faults: Vec<(LoadFault, Asked)>,
    journal: PathBuf,
    addresses: Vec<Address>,
    started: Option<Started>,
}

impl Ready {
    /// Understands a plan's faults and asks for the rights; `None`: there are none.
    ///
    /// # Errors
    /// [`FaultError`]; nothing was done.
    pub fn check(plan: &Plan, setup: &Setup) -> Result<Option<Self>, FaultError> {
        if plan.faults.is_empty() {
            return Ok(None);
        }
        let faults: Result<Vec<(LoadFault, Asked)>, FaultError> =
            plan.faults.iter().map(|fault| Ok((fault.clone(), understood(fault)?))).collect();
        let addresses = plan.origins.iter().flat_map(|origin| origin.addresses.iter().cloned()).collect();
        let journal = setup.journal.clone().map_or_else(crate::check::journal_folder, Ok)?;
        let ready = Ready { faults: faults?, journal, addresses, started: setup.started.clone() };
        // It can be kept, and nobody else's.
        drop(fault::Journal::open(&ready.journal)?);
        for (fault, asked) in &ready.faults {
            let not_possible =
                |why: fault::ApplyError| FaultError::NotPossible { fault: fault.fault.clone(), why: why.to_string() };
            let deeds = asked.plan(&ready.around()).map_err(not_possible)?;
            deeds.iter().try_for_each(Deed::may).map_err(not_possible)?;
        }
        Ok(Some(ready))
    }

    fn around(&self) -> Whom {
        Whom::of_run(&self.addresses, self.started.as_ref())
    }

    /// Begins: `origin_ns` is the run's start on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn start(self, origin_ns: u64) -> std::io::Result<Running> {
        let (send, events) = channel();
        let phase = Arc::new((Mutex::new(Phase::Load), Condvar::new()));
        let work = Work { ready: self, origin_ns, phase: Arc::clone(&phase), send, begun: Vec::new() };
        let thread = std::thread::Builder::new().name("faults".to_owned()).spawn(move || work.work())?;
        Ok(Running { phase, events, thread: Some(thread) })
    }
}

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Faults are done when they are due.
    Load,
    /// The load is over: what is not undone is undone.
    Over,
    /// The thread ends. Not before: the kernel ends a target that it has started, with it (`PR_SET_PDEATHSIG` of prctl(2)).
    Closed,
}

/// Faults that are under way.
#[derive(Debug)]
pub struct Running {
    phase: Arc<(Mutex<Phase>, Condvar)>,
    events: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// What has happened since it was asked for last.
    pub fn take_events(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }

    /// Undoes what is not undone, and returns when it is; what happened.
    pub fn end(&self) -> Vec<Event> {
        self.set(Phase::Over);
        let mut events = Vec::new();
        // The thread says when all is undone by an event that is none; it has ended where there is none to come.
        while let Ok(event) = self.events.recv() {
            if event.kind.is_empty() {
                break;
            }
            events.push(event);
        }
        events
    }

    fn set(&self, phase: Phase) {
        *self.phase.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.phase.1.notify_all();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.set(Phase::Closed);
        if let Some(thread) = self.thread.take() {
            // What it had begun is undone by its own drop, also where it panicked.
            let _ = thread.join();
        }
    }
}

/// A fault is begun, or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    End,
    Begin,
}

struct Work {
    ready: Ready,
    origin_ns: u64,
    phase: Arc<(Mutex<Phase>, Condvar)>,
    send: Sender<Event>,
    /// By the number of the fault, from 0.
    begun: Vec<(usize, Begun)>,
}

impl Work {
    fn work(mut self) {
        // At one moment the ends come first, then by number.
        let moments = |(number, (fault, _)): (usize, &(LoadFault, Asked))| {
            let end = fault.for_ns.map(|for_ns| (fault.at_ns.saturating_add(for_ns), What::End, number));
            [Some((fault.at_ns, What::Begin, number)), end].into_iter().flatten()
        };
        let mut due: Vec<(u64, What, usize)> = self.ready.faults.iter().enumerate().flat_map(moments).collect();
        due.sort_unstable();
        for (at_ns, what, number) in due {
            if !self.is_load_until(at_ns) {
                break;
            }
            match what {
                What::Begin => self.begin(number),
                What::End => self.end(number),
            }
        }
        self.wait_for(Phase::Over);
        while let Some(number) = self.begun.last().map(|(number, _)| *number) {
            self.end(number);
        }
        // Nobody is left to be told where the run is gone.
        let _ = self.send.send(Event::new(self.now_ns(), "", ""));
        self.wait_for(Phase::Closed);
    }

    fn begin(&mut self, number: usize) {
        let Some((fault, asked)) = self.ready.faults.get(number).cloned() else { return };
        let mut at_ns = self.now_ns();
        let mut is_acting = false;
        let origin_ns = self.origin_ns;
        let mut watch = |step: Step| match step {
            Step::Permitted | Step::Journalled if !is_acting => at_ns = since(origin_ns),
            Step::Changed => is_acting = true,
            _ => {}
        };
        let made = asked.plan(&self.ready.around()).and_then(|deeds| {
            let words: Vec<String> = deeds.iter().map(Deed::words).collect();
            Begun::make(&self.ready.journal, deeds, &mut watch).map(|begun| (begun, words.join("; ")))
        });
        let (kind, text) = match made {
            Ok((begun, words)) => {
                self.begun.push((number, begun));
                let is_to_the_end = fault.for_ns.is_none() && matches!(asked.kind().undone, Undoing::Back(_));
                let until = if is_to_the_end { ", to the end of the load" } else { "" };
                (FAULT_BEGAN, format!("fault {}: {words}{until}", fault.fault))
            }
            Err(error) => (FAULT_REFUSED, format!("fault {} was not done: {error}", fault.fault)),
        };
        self.tell(number, kind, at_ns, text);
        // One that is over with its beginning has no end to wait for; one with a second half has it at once.
        if fault.for_ns.is_none() && matches!(asked.kind().undone, Undoing::Never(_)) {
            self.begun.retain(|(of, _)| *of != number);
        } else if fault.for_ns.is_none() && matches!(asked.kind().undone, Undoing::SecondHalf(_)) {
            self.end(number);
        }
    }

    fn end(&mut self, number: usize) {
        let Some(at) = self.begun.iter().position(|(of, _)| *of == number) else { return };
        let (_, begun) = self.begun.remove(at);
        let Some(fault) = self.ready.faults.get(number).map(|(fault, _)| fault.fault.clone()) else { return };
        let mut at_ns = self.now_ns();
        let mut is_first = true;
        let origin_ns = self.origin_ns;
        let mut watch = |step: Step| {
            if step == Step::PutBack && is_first {
                (at_ns, is_first) = (since(origin_ns), false);
            }
        };
        let (kind, text) = match begun.end_watched(&mut watch) {
            Ok(said) if said.is_empty() => (FAULT_UNDONE, format!("fault {fault} is over: there was nothing to undo")),
            Ok(said) => (FAULT_UNDONE, format!("fault {fault} is undone: {}", said.join("; "))),
            Err(error) => (FAULT_REFUSED, format!("fault {fault} was not undone: {error}")),
        };
        self.tell(number, kind, at_ns, text);
    }

    fn tell(&self, number: usize, kind: &str, at_ns: i64, text: String) {
        let name = self.ready.faults.get(number).map(|(fault, _)| fault.name().to_owned());
        let took_ns = u64::try_from(self.now_ns().saturating_sub(at_ns)).ok();
        let details = Details { fault: u32::try_from(number + 1).ok(), of_kind: name, took_ns, ..Details::default() };
        // Nobody is left to be told where the run is gone.
        let _ = self.send.send(Event::new(at_ns, kind, text).with(details));
    }

    /// Sleeps until a moment of the run; whether the load still goes on.
    fn is_load_until(&self, at_ns: u64) -> bool {
        let mut phase = self.phase.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *phase != Phase::Load {
                return false;
            }
            let now_ns = u64::try_from(self.now_ns()).unwrap_or(0);
            let left = Duration::from_nanos(at_ns.saturating_sub(now_ns));
            if left.is_zero() {
                return true;
            }
            let waited = self.phase.1.wait_timeout(phase, left.min(SLEEP_MAX));
            phase = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sleeps until the run is as far as that.
    fn wait_for(&self, wanted: Phase) {
        let mut phase = self.phase.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *phase != wanted && *phase != Phase::Closed {
            phase = self.phase.1.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn now_ns(&self) -> i64 {
        since(self.origin_ns)
    }
}

/// Nanoseconds since a moment of CLOCK_MONOTONIC.
fn since(origin_ns: u64) -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
    now_ns.saturating_sub(i64::try_from(origin_ns).unwrap_or(i64::MAX))
}
