//! The workers of a plan, all on one clock, and the session's end of their links: on threads of this machine, or
//! simulated.
//!
//! Setting up (sockets' rings, buffers, payloads) happens before the clock starts, so no worker begins late. A simulated
//! fleet steps its workers in turn on the caller's thread, always the one whose clock is furthest back, and only when it
//! is asked for a message: a whole run is then a function of its seed, whatever the machine does.

use crate::assembly::{Parts, assemble, assemble_simulated};
use crate::driver::clock::monotonic_ns;
use crate::driver::sim::Sim;
use crate::driver::{Setup, thread};
use crate::link::{Control, MESSAGES_MAX, Message, SPARE_INTERVALS, WorkerLink};
use crate::share::{Share, shares, shares_of};
use crate::start_error::StartError;
use crate::worker::Work;
use crate::worker::burst::Rendezvous;
use model::Interval;
use model::plan::{Pace, Plan};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Descriptors that are not for connections: the program's own, with room.
const DESCRIPTORS_SPARE: u64 = 64;

/// Running workers.
pub struct Fleet {
    messages: Receiver<Message>,
    empties: Vec<SyncSender<Box<Interval>>>,
    control: Control,
    crew: Crew,
    origin_ns: u64,
}

/// What the workers run on.
enum Crew {
    /// A thread each.
    Threads { handles: Vec<JoinHandle<()>>, ids: Vec<u32> },
    /// Steps taken in turn, and intervals that wait to be given back.
    Simulated {
        workers: Vec<Option<Box<dyn Work + Send>>>,
        held_back: VecDeque<(u64, Box<Interval>)>,
        session: SimSession,
    },
}

/// How the session of a simulated fleet behaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimSession {
    /// How long an interval is on its way back to its worker, nanoseconds: a session that is kept from running.
    pub give_back_after_ns: u64,
    /// When the user interrupts the run, nanoseconds since its start.
    pub interrupt_at_ns: Option<u64>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// The session's ends of the links, and what each worker is made of but its driver.
struct Links {
    messages: Receiver<Message>,
    empties: Vec<SyncSender<Box<Interval>>>,
    control: Control,
    shares: Vec<(Share, WorkerLink)>,
    rendezvous: Arc<Rendezvous>,
}

impl Links {
    fn of(plan: &Plan, shares: Vec<Share>, rendezvous: Arc<Rendezvous>) -> Self {
        let control = Control::new();
        let (to_session, messages) = sync_channel(shares.len() * MESSAGES_MAX);
        let mut empties = Vec::with_capacity(shares.len());
        let links = shares.into_iter().map(|share| {
            let (empty_sender, empty_receiver) = sync_channel(SPARE_INTERVALS + 1);
            for _ in 0..SPARE_INTERVALS {
                let mut empty = Box::new(Interval::new(share.index));
                crate::ledger::reserve(&mut empty, plan);
                // There is room: the channel was made one larger.
                let _ = empty_sender.try_send(empty);
            }
            empties.push(empty_sender);
            let link = WorkerLink { messages: to_session.clone(), empties: empty_receiver, control: control.clone() };
            (share, link)
        });
        let shares: Vec<_> = links.collect();
        Links { messages, empties, control, shares, rendezvous }
    }
}

/// A fleet whose threads set themselves up. Dropped before it begins, it ends them.
struct Starting {
    messages: Receiver<Message>,
    empties: Vec<SyncSender<Box<Interval>>>,
    control: Control,
    handles: Vec<JoinHandle<()>>,
    starts: Vec<SyncSender<u64>>,
    ready: Receiver<Result<u32, StartError>>,
    ids: Vec<u32>,
}

/// All shares of a plan, and where their workers meet.
fn whole(plan: &Plan) -> (Vec<Share>, Arc<Rendezvous>) {
    let shares = shares(plan);
    let rendezvous = Arc::new(Rendezvous::new(shares.len() as u16));
    (shares, rendezvous)
}

impl Starting {
    fn alone(plan: &Plan) -> Result<Self, StartError> {
        let (shares, rendezvous) = whole(plan);
        Self::of(plan, shares, rendezvous)
    }

    fn of(plan: &Plan, shares: Vec<Share>, rendezvous: Arc<Rendezvous>) -> Result<Self, StartError> {
        let Links { messages, empties, control, shares, rendezvous } = Links::of(plan, shares, rendezvous);
        let plan = Arc::new(plan.clone());
        let (mut handles, mut starts) = (Vec::new(), Vec::new());
        let (ready_sender, ready) = sync_channel::<Result<u32, StartError>>(shares.len());
        for (share, link) in shares {
            let (start_sender, start) = sync_channel::<u64>(1);
            let worker = share.index;
            let parts = Parts { plan: Arc::clone(&plan), share, link, rendezvous: Arc::clone(&rendezvous) };
            let ready = ready_sender.clone();
            let thread = std::thread::Builder::new()
                .name(format!("worker-{worker}"))
                .spawn(move || work(parts, &ready, &start))
                .map_err(|source| StartError::Thread { worker, source })?;
            handles.push(thread);
            starts.push(start_sender);
        }
        Ok(Starting { messages, empties, control, handles, starts, ready, ids: Vec::new() })
    }

    /// Waits until every worker is ready.
    fn ready(mut self) -> Result<Self, StartError> {
        for _ in 0..self.handles.len() {
            // Dropping `starts` on an error ends the threads that are ready.
            match self.ready.recv() {
                Ok(outcome) => self.ids.push(outcome?),
                Err(_) => break,
            }
        }
        Ok(self)
    }

    fn begin(self, origin_ns: u64) -> Fleet {
        let Starting { messages, empties, control, handles, starts, ready: _, ids } = self;
        for start in &starts {
            let _ = start.send(origin_ns);
        }
        Fleet { messages, empties, control, crew: Crew::Threads { handles, ids }, origin_ns }
    }
}

impl Fleet {
    /// Starts the load, a thread for each worker. Returns when it has begun.
    ///
    /// # Errors
    /// [`StartError`], before any connection was made.
    pub fn start(plan: &Plan) -> Result<Self, StartError> {
        let started = Starting::alone(plan)?.ready()?;
        Ok(started.begin(monotonic_ns()))
    }

    /// Starts some of a plan's workers; the others are in other processes, and `rendezvous` is where those of a burst meet
    /// ([`Rendezvous::among_others`]). `when` is asked once, when all of these are ready:
    /// it waits for the moment at which the load begins everywhere, and says when that was on CLOCK_MONOTONIC, nanoseconds;
    /// `None`: it is not to begin.
    ///
    /// # Errors
    /// [`StartError`], before any connection was made.
    pub fn start_part(
        plan: &Plan,
        workers: &Range<u16>,
        rendezvous: Arc<Rendezvous>,
        when: impl FnOnce() -> Option<u64>,
    ) -> Result<Self, StartError> {
        let started = Starting::of(plan, shares_of(plan, workers), rendezvous)?.ready()?;
        Ok(started.begin(when().ok_or(StartError::NotBegun)?))
    }

    /// Starts several loads on one clock: each has its own workers, and all begin at the same moment, once all are ready.
    ///
    /// # Errors
    /// [`StartError`], before any connection was made.
    pub fn start_together(plans: &[&Plan]) -> Result<Vec<Self>, StartError> {
        let starting = plans.iter().map(|plan| Starting::alone(plan)).collect::<Result<Vec<_>, _>>()?;
        let ready = starting.into_iter().map(Starting::ready).collect::<Result<Vec<_>, _>>()?;
        let origin_ns = monotonic_ns();
        Ok(ready.into_iter().map(|starting| starting.begin(origin_ns)).collect())
    }

    /// A simulated load: `network` makes each worker's network, by its share. Its clock stands still until
    /// [`Fleet::receive`] is called.
    ///
    /// # Errors
    /// [`StartError`], where the plan's driver is not the simulated one, or as [`Fleet::start`].
    pub fn simulated(
        plan: &Plan,
        session: SimSession,
        network: impl Fn(&Setup, &Share) -> Sim,
    ) -> Result<Self, StartError> {
        let (shares, rendezvous) = whole(plan);
        let Links { messages, empties, control, shares, rendezvous } = Links::of(plan, shares, rendezvous);
        let plan = Arc::new(plan.clone());
        let mut workers = Vec::with_capacity(shares.len());
        for (share, link) in shares {
            let parts = Parts { plan: Arc::clone(&plan), share, link, rendezvous: Arc::clone(&rendezvous) };
            let mut worker = assemble_simulated(parts, &network)?;
            worker.begin(0);
            workers.push(Some(worker));
        }
        let crew = Crew::Simulated { workers, held_back: VecDeque::new(), session };
        Ok(Fleet { messages, empties, control, crew, origin_ns: 0 })
    }

    /// The next message; `None` when none came in time, or when all workers have ended.
    pub fn receive(&mut self, timeout: Duration) -> Option<Message> {
        let Crew::Simulated { workers, held_back, session } = &mut self.crew else {
            return self.messages.recv_timeout(timeout).ok();
        };
        loop {
            if let Ok(message) = self.messages.try_recv() {
                return Some(message);
            }
            let mut furthest_back: Option<(u64, usize)> = None;
            for (i, worker) in workers.iter_mut().enumerate() {
                let at = worker.as_mut().map(|worker| (worker.now_ns(), i));
                furthest_back = furthest_back.into_iter().chain(at).min();
            }
            let (now_ns, i) = furthest_back?;
            if session.interrupt_at_ns.is_some_and(|at_ns| now_ns >= at_ns) {
                self.control.stop();
            }
            while held_back.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
                let Some((_, interval)) = held_back.pop_front() else { break };
                let _ = self.empties[usize::from(interval.worker)].try_send(interval);
            }
            let is_over = workers[i].as_mut().is_some_and(|worker| !worker.step());
            if is_over && let Some(worker) = workers[i].take() {
                worker.finish();
            }
        }
    }

    /// Gives an interval back to its worker, emptied.
    pub fn give_back(&mut self, mut interval: Box<Interval>) {
        interval.clear();
        match &mut self.crew {
            Crew::Simulated { workers, held_back, session } if session.give_back_after_ns > 0 => {
                let clocks = workers.iter_mut().flatten().map(|worker| worker.now_ns());
                let due_ns = clocks.min().unwrap_or(0).saturating_add(session.give_back_after_ns);
                held_back.push_back((due_ns, interval));
            }
            Crew::Simulated { .. } | Crew::Threads { .. } => {
                if let Some(empties) = self.empties.get(usize::from(interval.worker)) {
                    let _ = empties.try_send(interval);
                }
            }
        }
    }

    /// Stops the load.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.empties.len()
    }

    /// The workers' thread ids; none where they are simulated.
    pub fn thread_ids(&self) -> &[u32] {
        match &self.crew {
            Crew::Threads { ids, .. } => ids,
            Crew::Simulated { .. } => &[],
        }
    }

    /// The run's start on CLOCK_MONOTONIC, nanoseconds; 0 of a simulated one.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Nanoseconds since the run's start; of a simulated one by the clock that is furthest back.
    pub fn now_ns(&mut self) -> i64 {
        match &mut self.crew {
            Crew::Threads { .. } => monotonic_ns() as i64 - self.origin_ns as i64,
            Crew::Simulated { workers, .. } => {
                let clocks = workers.iter_mut().flatten().map(|worker| worker.now_ns());
                clocks.min().unwrap_or(0) as i64
            }
        }
    }

    /// Whether every worker has ended (by itself, or by a panic).
    pub fn has_ended(&self) -> bool {
        match &self.crew {
            Crew::Threads { handles, .. } => handles.iter().all(JoinHandle::is_finished),
            Crew::Simulated { workers, .. } => workers.iter().all(Option::is_none),
        }
    }

    /// Waits for the threads; says how many ended by a panic.
    pub fn join(self) -> usize {
        drop(self.messages);
        match self.crew {
            Crew::Threads { handles, .. } => handles.into_iter().map(JoinHandle::join).filter(Result::is_err).count(),
            Crew::Simulated { .. } => 0,
        }
    }
}

/// What a worker's thread does, from its first moment to its last. `ready` is told its id, or why it cannot; `start`
/// brings the moment the run began.
fn work(parts: Parts, ready: &SyncSender<Result<u32, StartError>>, start: &Receiver<u64>) {
    match set_up(parts) {
        Err(error) => drop(ready.send(Err(error))),
        Ok(mut worker) => {
            let _ = ready.send(Ok(thread::id()));
            let Ok(origin_ns) = start.recv() else { return };
            worker.begin(origin_ns);
            while worker.step() {}
            worker.finish();
        }
    }
}

fn set_up(parts: Parts) -> Result<Box<dyn Work>, StartError> {
    let (plan, worker) = (&parts.plan, parts.share.index);
    if !plan.pin.is_empty() {
        let cpu = plan.pin[usize::from(worker) % plan.pin.len()];
        thread::pin(cpu).map_err(|source| StartError::Pin { worker, cpu, source })?;
    }
    thread::sleep_exactly();
    take_descriptors(plan);
    assemble(parts)
}

/// Descriptors of the worker's own, which make each call on one cheaper, or room for more of them where they are many.
fn take_descriptors(plan: &Plan) {
    // Rows are read from files that others have opened; and who hears that all are ready for a burst may have to write to one.
    let uses_others = plan.workload.protocol().reads_files() || matches!(plan.pace, Pace::Burst { .. });
    if !uses_others && thread::own_descriptors().is_ok() {
        return;
    }
    if thread::descriptors_max().is_some_and(|most| u64::from(plan.connections) + DESCRIPTORS_SPARE > most) {
        // Where it is refused all workers share one table, and what does not fit fails as EMFILE, counted.
        let _ = thread::copied_descriptors();
    }
}
