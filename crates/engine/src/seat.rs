//! A worker's thread: where it runs, with which driver, and which worker does its part of the plan.
//!
//! The one place where workloads, paces and drivers are put together: a worker is generic over its driver, so each pair
//! is compiled by itself and nothing is looked up while load is put on.

use crate::burst::{BurstWorker, Rendezvous};
use crate::driver::epoll::Epoll;
use crate::driver::rings::Rings;
use crate::driver::uring::Uring;
use crate::driver::{Driver, Idle, Setup, thread};
use crate::fleet::StartError;
use crate::hold::HoldWorker;
use crate::link::WorkerLink;
use crate::share::Share;
use crate::tls::{Tls, TlsConfig};
use crate::worker::Worker;
use model::plan::{DriverKind, Hold, Pace, Plan, Workload};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use wire::Protocol;
use wire::echo::EchoProtocol;
use wire::http1::Http1Protocol;
use wire::resp::RespProtocol;

/// Descriptors that are not for connections: the program's own, with room.
const DESCRIPTORS_SPARE: u64 = 64;

/// What a worker's thread says before the clock starts: its id, or why it cannot.
pub(crate) type Ready = Result<u32, StartError>;

/// All that a worker's thread is given.
pub(crate) struct Seat {
    pub(crate) plan: Plan,
    pub(crate) share: Share,
    pub(crate) link: WorkerLink,
    pub(crate) ready: SyncSender<Ready>,
    /// Brings the moment the run began.
    pub(crate) start: Receiver<u64>,
    pub(crate) rendezvous: Arc<Rendezvous>,
}

/// A worker that only lacks its driver.
trait Work {
    /// Does the worker's part; the driver's clock has begun.
    fn run<D: Driver>(self, seat: Seat, driver: D);
}

/// Requests, as the pace says.
struct Requests<P>(P);

impl<P: Protocol> Work for Requests<P> {
    fn run<D: Driver>(self, seat: Seat, driver: D) {
        match seat.plan.pace {
            Pace::Burst { .. } => {
                BurstWorker::new(&seat.plan, &seat.share, self.0, driver, seat.link, seat.rendezvous).run();
            }
            Pace::Closed { .. } | Pace::Open { .. } | Pace::Held { .. } => {
                Worker::new(&seat.plan, &seat.share, self.0, driver, seat.link).run();
            }
        }
    }
}

/// Connections that are held.
struct Holding(EchoProtocol, Hold);

impl Work for Holding {
    fn run<D: Driver>(self, seat: Seat, driver: D) {
        HoldWorker::new(&seat.plan, &self.1, &seat.share, self.0, driver, seat.link).run();
    }
}

impl Seat {
    /// What the thread does, from its first moment to its last.
    pub(crate) fn work(self) {
        let ready = self.ready.clone();
        if let Err(error) = self.sit_down() {
            let _ = ready.send(Err(error));
        }
    }

    fn sit_down(self) -> Result<(), StartError> {
        let seed = self.plan.seed ^ u64::from(self.share.worker);
        match self.plan.workload.clone() {
            Workload::Http1(http) => {
                let protocol = Http1Protocol::new(&http)?;
                self.with_driver(protocol.blobs(), Idle::Watched, Requests(protocol))
            }
            Workload::Echo(echo) => {
                let protocol = EchoProtocol::new(&echo, seed)?.pipelined(self.plan.pipeline > 1);
                self.with_driver(protocol.blobs(), Idle::Watched, Requests(protocol))
            }
            Workload::Resp(resp) => {
                let protocol = RespProtocol::new(&resp, self.share.worker, self.plan.threads)?;
                self.with_driver(protocol.blobs(), Idle::Watched, Requests(protocol))
            }
            Workload::Hold(hold) => {
                let protocol = EchoProtocol::new(&hold.message, seed)?;
                let idle = hold.sweep_ns.map_or(Idle::Watched, Idle::Swept);
                self.with_driver(protocol.blobs(), idle, Holding(protocol, hold))
            }
        }
    }

    fn with_driver(self, blobs: Vec<Arc<[u8]>>, idle: Idle, work: impl Work) -> Result<(), StartError> {
        let plan = &self.plan;
        if !plan.pin.is_empty() {
            let cpu = plan.pin[usize::from(self.share.worker) % plan.pin.len()];
            thread::pin(cpu).map_err(|source| StartError::Pin { worker: self.share.worker, cpu, source })?;
        }
        thread::sleep_exactly();
        if thread::descriptors_max().is_some_and(|most| u64::from(plan.connections) + DESCRIPTORS_SPARE > most) {
            // Where it is refused all workers share one table, and what does not fit fails as EMFILE, counted.
            let _ = thread::own_descriptors();
        }
        let setup = Setup {
            slots: self.share.slots.len() as u32,
            addresses: plan.origins.iter().flat_map(|o| o.addresses.iter().cloned()).collect(),
            blobs,
            pipeline: plan.pipeline,
            receive_stamps: plan.receive_stamps,
            sources: plan.sources.clone(),
            is_burst: matches!(plan.pace, Pace::Burst { .. }),
            idle,
        };
        let driver = plan.driver;
        let failed = |source| StartError::Driver { driver: driver.name(), source };
        match driver {
            DriverKind::Epoll => self.with_tls(Epoll::new(&setup).map_err(failed)?, setup, work),
            DriverKind::Uring => self.with_tls(Uring::new(&setup).map_err(failed)?, setup, work),
            DriverKind::Rings => self.with_tls(Rings::new(&setup).map_err(failed)?, setup, work),
            DriverKind::Sim => Err(StartError::SimDriver),
        }
    }

    /// TLS between driver and worker, where the plan has it; without it nothing stands between.
    fn with_tls<D: Driver>(self, driver: D, setup: Setup, work: impl Work) -> Result<(), StartError> {
        match &self.plan.tls {
            None => self.go(driver, work),
            Some(tls) => {
                let config = TlsConfig::new(tls, setup.slots)?;
                let origins = self.plan.origins.iter().zip(0..);
                let of_address = origins.flat_map(|(o, i)| o.addresses.iter().map(move |_| i)).collect();
                let driver = Tls::new(driver, config, setup.slots, setup.blobs, of_address);
                self.go(driver, work);
            }
        }
        Ok(())
    }

    fn go<D: Driver>(self, mut driver: D, work: impl Work) {
        // First touches of all its memory happen here, before the clock starts.
        let _ = self.ready.send(Ok(thread::id()));
        let Ok(origin_ns) = self.start.recv() else { return };
        driver.begin(origin_ns);
        work.run(self, driver);
    }
}
