//! Puts a worker together: its part of the plan, the protocol, the driver, TLS between them.
//!
//! The one place where workloads, paces and drivers meet: a worker is generic over its driver, so each pair is compiled by
//! itself and nothing is looked up while load is put on. What is done with the finished worker is the caller's: a thread
//! runs it to its end, a simulation steps it.

use crate::driver::epoll::Epoll;
use crate::driver::rings::Rings;
use crate::driver::sim::Sim;
use crate::driver::uring::Uring;
use crate::driver::{Driver, Idle, Setup};
use crate::link::WorkerLink;
use crate::share::Share;
use crate::start_error::StartError;
use crate::tls::{Tls, TlsConfig};
use crate::worker::Work;
use crate::worker::burst::{BurstWorker, Rendezvous};
use crate::worker::held::HoldWorker;
use crate::worker::requests::Worker;
use model::plan::{DriverKind, Pace, Plan, Workload};
use std::sync::Arc;
use wire::echo::EchoProtocol;
use wire::http1::Http1Protocol;
use wire::resp::RespProtocol;
use wire::websocket::{HoldProtocol, WebSocketProtocol};
use wire::{Protocol, Stream};

/// All that a worker is made of.
pub(crate) struct Parts {
    pub(crate) plan: Arc<Plan>,
    pub(crate) share: Share,
    pub(crate) link: WorkerLink,
    pub(crate) rendezvous: Arc<Rendezvous>,
}

/// A kind of worker that only lacks its driver.
trait Role {
    /// The worker, boxed as the maker likes.
    fn with<D: Driver + 'static, B: Boxes<D>>(self, parts: Parts, driver: D) -> B::Boxed;
}

/// Requests, as the pace says.
struct Requests<P>(P);

impl<P: Protocol<Transport = Stream, Connection: 'static> + 'static> Role for Requests<P> {
    fn with<D: Driver + 'static, B: Boxes<D>>(self, parts: Parts, driver: D) -> B::Boxed {
        let Parts { plan, share, link, rendezvous } = parts;
        match plan.pace {
            Pace::Burst { .. } => B::burst(BurstWorker::new(&plan, &share, self.0, driver, link, rendezvous)),
            Pace::Closed { .. } | Pace::Open { .. } | Pace::Held { .. } => {
                B::requests(Worker::new(&plan, &share, self.0, driver, link))
            }
        }
    }
}

/// Connections that are held.
struct Holding<P> {
    protocol: P,
    /// Whether messages are answered.
    is_awaited: bool,
}

impl<P: Protocol<Transport = Stream, Connection: 'static> + 'static> Role for Holding<P> {
    fn with<D: Driver + 'static, B: Boxes<D>>(self, parts: Parts, driver: D) -> B::Boxed {
        let Parts { plan, share, link, .. } = parts;
        B::held(HoldWorker::new(&plan, self.is_awaited, &share, self.protocol, driver, link))
    }
}

/// How workers on one kind of driver are boxed.
trait Boxes<D: Driver> {
    /// The box.
    type Boxed;
    /// One of requests.
    fn requests<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: Worker<P, D>) -> Self::Boxed;
    /// One of held connections.
    fn held<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: HoldWorker<P, D>) -> Self::Boxed;
    /// One of bursts.
    fn burst<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: BurstWorker<P, D>) -> Self::Boxed;
}

/// For the thread that made it.
struct Here;

impl<D: Driver + 'static> Boxes<D> for Here {
    type Boxed = Box<dyn Work>;

    fn requests<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: Worker<P, D>) -> Self::Boxed {
        Box::new(worker)
    }

    fn held<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: HoldWorker<P, D>) -> Self::Boxed {
        Box::new(worker)
    }

    fn burst<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: BurstWorker<P, D>) -> Self::Boxed {
        Box::new(worker)
    }
}

/// For a thread that takes it over: drivers of the kernel stay where they were made, the simulated one need not.
struct Anywhere;

impl<D: Driver + Send + 'static> Boxes<D> for Anywhere {
    type Boxed = Box<dyn Work + Send>;

    fn requests<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: Worker<P, D>) -> Self::Boxed {
        Box::new(worker)
    }

    fn held<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: HoldWorker<P, D>) -> Self::Boxed {
        Box::new(worker)
    }

    fn burst<P: Protocol<Transport = Stream, Connection: 'static> + 'static>(worker: BurstWorker<P, D>) -> Self::Boxed {
        Box::new(worker)
    }
}

/// What makes the driver of a worker, once what it is to carry is known.
trait Drivers {
    /// The boxed worker.
    type Boxed;
    /// Makes the driver and gives it to the role.
    fn give(self, parts: Parts, setup: Setup, role: impl Role) -> Result<Self::Boxed, StartError>;
}

/// The kernel's.
struct Kernel;

impl Drivers for Kernel {
    type Boxed = Box<dyn Work>;

    fn give(self, parts: Parts, setup: Setup, role: impl Role) -> Result<Self::Boxed, StartError> {
        let driver = parts.plan.driver;
        let failed = |source| StartError::Driver { driver: driver.name(), source };
        match driver {
            DriverKind::Epoll => {
                let driver = Epoll::new(&setup).map_err(failed)?;
                with_tls::<_, Here, Here>(parts, driver, setup, role)
            }
            DriverKind::Uring => {
                let driver = Uring::new(&setup).map_err(failed)?;
                with_tls::<_, Here, Here>(parts, driver, setup, role)
            }
            DriverKind::Rings => {
                let driver = Rings::new(&setup).map_err(failed)?;
                with_tls::<_, Here, Here>(parts, driver, setup, role)
            }
            DriverKind::Sim => Err(StartError::SimDriver),
        }
    }
}

/// A simulated network.
struct Simulated<N>(N);

impl<N: Fn(&Setup, &Share) -> Sim> Drivers for Simulated<N> {
    type Boxed = Box<dyn Work + Send>;

    fn give(self, parts: Parts, setup: Setup, role: impl Role) -> Result<Self::Boxed, StartError> {
        let driver = (self.0)(&setup, &parts.share);
        with_tls::<_, Anywhere, Anywhere>(parts, driver, setup, role)
    }
}

/// Puts a worker together for the thread that calls. Its memory is touched here, before the clock starts.
///
/// # Errors
/// [`StartError`], where requests cannot be written, TLS cannot be set up, or there is no such driver.
pub(crate) fn assemble(parts: Parts) -> Result<Box<dyn Work>, StartError> {
    assemble_with(parts, Kernel)
}

/// The same on a simulated network.
///
/// # Errors
/// As [`assemble`].
pub(crate) fn assemble_simulated(
    parts: Parts,
    network: impl Fn(&Setup, &Share) -> Sim,
) -> Result<Box<dyn Work + Send>, StartError> {
    assemble_with(parts, Simulated(network))
}

fn assemble_with<K: Drivers>(parts: Parts, drivers: K) -> Result<K::Boxed, StartError> {
    let plan = Arc::clone(&parts.plan);
    let worker = parts.share.worker;
    let seed = plan.seed ^ u64::from(worker);
    let setup = |blobs: Vec<Arc<[u8]>>, idle| Setup {
        slots: parts.share.slots.len() as u32,
        addresses: plan.origins.iter().flat_map(|o| o.addresses.iter().cloned()).collect(),
        blobs,
        pipeline: plan.pipeline,
        receive_stamps: plan.receive_stamps,
        sources: plan.sources.clone(),
        is_burst: matches!(plan.pace, Pace::Burst { .. }),
        idle,
    };
    match &plan.workload {
        Workload::Http1(http) => {
            let protocol = Http1Protocol::of_worker(http, worker, plan.threads)?;
            let setup = setup(protocol.blobs(), Idle::Watched);
            drivers.give(parts, setup, Requests(protocol))
        }
        Workload::Echo(echo) => {
            let protocol = EchoProtocol::new(echo, seed)?.pipelined(plan.pipeline > 1);
            let setup = setup(protocol.blobs(), Idle::Watched);
            drivers.give(parts, setup, Requests(protocol))
        }
        Workload::Resp(resp) => {
            let protocol = RespProtocol::new(resp, worker, plan.threads)?;
            let setup = setup(protocol.blobs(), Idle::Watched);
            drivers.give(parts, setup, Requests(protocol))
        }
        Workload::WebSocket(websocket) => {
            let protocol = WebSocketProtocol::new(websocket, seed)?;
            let setup = setup(protocol.blobs(), Idle::Watched);
            drivers.give(parts, setup, Requests(protocol))
        }
        Workload::Hold(hold) => {
            let protocol = EchoProtocol::new(&hold.message, seed)?;
            let setup = setup(protocol.blobs(), hold.sweep_ns.map_or(Idle::Watched, Idle::Swept));
            drivers.give(parts, setup, Holding { protocol, is_awaited: hold.is_echoed })
        }
        Workload::HoldWebSocket(held) => {
            let protocol = HoldProtocol::new(held);
            let setup = setup(protocol.blobs(), Idle::Watched);
            drivers.give(parts, setup, Holding { protocol, is_awaited: true })
        }
    }
}

/// TLS between driver and worker, where the plan has it; without it nothing stands between.
fn with_tls<D, B, T>(parts: Parts, driver: D, setup: Setup, role: impl Role) -> Result<B::Boxed, StartError>
where
    D: Driver + 'static,
    B: Boxes<D>,
    T: Boxes<Tls<D>, Boxed = B::Boxed>,
{
    let plan = Arc::clone(&parts.plan);
    let Some(tls) = &plan.tls else { return Ok(role.with::<D, B>(parts, driver)) };
    let config = TlsConfig::new(tls, setup.slots)?;
    let origins = plan.origins.iter().zip(0..);
    let of_address = origins.flat_map(|(o, i)| o.addresses.iter().map(move |_| i)).collect();
    let driver = Tls::new(driver, config, setup.slots, setup.blobs, of_address);
    Ok(role.with::<Tls<D>, T>(parts, driver))
}
