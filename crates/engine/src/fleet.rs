//! Starts the workers of a plan, each on its own thread, all on one clock, and is the session's end of their links.
//!
//! Setting up (sockets' rings, buffers, payloads) happens before the clock starts, so no worker begins late.

use crate::burst::Rendezvous;
use crate::driver::epoll::monotonic_ns;
use crate::link::{Control, Message, NOTES_MAX, SPARE_INTERVALS, WorkerLink};
use crate::seat::{Ready, Seat};
use crate::share::shares;
use crate::tls::TlsError;
use model::Interval;
use model::plan::Plan;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why the workers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The requests cannot be written.
    #[error("{0}")]
    Wire(#[from] wire::WireError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The driver could not be set up.
    #[error(
        "the {driver} driver cannot be set up: {source}; try --driver epoll, or raise the limit it names (ulimit -n, ulimit -l)"
    )]
    Driver {
        /// Which driver.
        driver: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The thread could not be kept on its CPU.
    #[error(
        "worker {worker} cannot be pinned to CPU {cpu}: {source}; choose CPUs of this machine that the process may use (--pin)"
    )]
    Pin {
        /// Which worker.
        worker: u16,
        /// Which CPU.
        cpu: u16,
        /// The kernel's reason.
        source: io::Error,
    },
    /// No thread could be made.
    #[error("no thread for worker {worker}: {source}; use fewer (--threads)")]
    Thread {
        /// Which worker.
        worker: u16,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The plan asks for the simulated network.
    #[error("the driver 'sim' is for tests of the engine; use --driver uring or --driver epoll")]
    SimDriver,
}

/// Running workers.
#[derive(Debug)]
pub struct Fleet {
    messages: Receiver<Message>,
    empties: Vec<SyncSender<Box<Interval>>>,
    control: Control,
    threads: Vec<JoinHandle<()>>,
    thread_ids: Vec<u32>,
    origin_ns: u64,
}

impl Fleet {
    /// Starts the load. Returns when it has begun.
    ///
    /// # Errors
    /// [`StartError`], before any connection was made.
    pub fn start(plan: &Plan) -> Result<Self, StartError> {
        let shares = shares(plan);
        let control = Control::new();
        let (to_session, messages) = sync_channel(shares.len() * (SPARE_INTERVALS + NOTES_MAX + 3));
        let (mut empties, mut threads, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let (ready_sender, ready) = sync_channel::<Ready>(shares.len());
        let rendezvous = Arc::new(Rendezvous::new(plan.threads));
        for share in shares {
            let (empty_sender, empty_receiver) = sync_channel(SPARE_INTERVALS + 1);
            for _ in 0..SPARE_INTERVALS {
                // There is room: the channel was made one larger.
                let _ = empty_sender.try_send(Box::new(Interval::new(share.worker)));
            }
            let link = WorkerLink { messages: to_session.clone(), empties: empty_receiver, control: control.clone() };
            let (start_sender, start) = sync_channel::<u64>(1);
            let worker = share.worker;
            let (ready, rendezvous) = (ready_sender.clone(), Arc::clone(&rendezvous));
            let seat = Seat { plan: plan.clone(), share, link, ready, start, rendezvous };
            let thread = std::thread::Builder::new()
                .name(format!("worker-{worker}"))
                .spawn(move || seat.work())
                .map_err(|source| StartError::Thread { worker, source })?;
            empties.push(empty_sender);
            threads.push(thread);
            starts.push(start_sender);
        }
        drop((to_session, ready_sender));
        let mut thread_ids = Vec::with_capacity(threads.len());
        for _ in 0..threads.len() {
            // Dropping `starts` on an error ends the threads that are ready.
            match ready.recv() {
                Ok(outcome) => thread_ids.push(outcome?),
                Err(_) => break,
            }
        }
        let origin_ns = monotonic_ns();
        for start in &starts {
            let _ = start.send(origin_ns);
        }
        Ok(Fleet { messages, empties, control, threads, thread_ids, origin_ns })
    }

    /// The next message; `None` when none came in time, or when all workers have ended.
    pub fn receive(&self, timeout: Duration) -> Option<Message> {
        self.messages.recv_timeout(timeout).ok()
    }

    /// Gives an interval back to its worker, emptied.
    pub fn give_back(&self, mut interval: Box<Interval>) {
        let worker = usize::from(interval.worker);
        interval.clear();
        if let Some(empties) = self.empties.get(worker) {
            let _ = empties.try_send(interval);
        }
    }

    /// Stops the load.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.threads.len()
    }

    /// The workers' thread ids.
    pub fn thread_ids(&self) -> &[u32] {
        &self.thread_ids
    }

    /// The run's start on CLOCK_MONOTONIC, nanoseconds.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Whether every worker's thread has ended (by itself, or by a panic).
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the threads; says how many ended by a panic.
    pub fn join(self) -> usize {
        drop(self.messages);
        self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count()
    }
}
