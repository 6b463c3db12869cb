//! The design `supervised`: tokio's threads, a task a connection, and the supervision tree beside them.
//!
//! Workers are tokio's: connections move between them, and there is one listening socket an address, not one a worker.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::connection::{self, Service};
use super::counters::{Gauges, NamesCounters, count};
use super::error::NamesError;
use super::queue::Queue;
use super::store::StoreParts;
use super::supervisor::{self, SupervisorParts};
use super::{Design, NamesOptions, OnCrash, journal};
use crate::defects::{Able, Among, Defects};
use crate::error::ServeError;
use crate::limits::{self, ACCEPT_PAUSE, DRAIN};
use crate::listen;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

/// The only design.
pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "supervised",
        about: "tokio; one actor owns the map, a supervisor starts it again after a crash",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Connections,
            Able::Loop,
            Able::Unbounded,
            Able::OneProcess,
            Able::Lasting,
        ],
    },
    serve,
};

fn serve(
    options: &ServeOptions,
    names: &NamesOptions,
    stop: &Stop,
    ready: Ready<'_>,
) -> Result<NamesCounters, ServeError> {
    listen::check_bounds("workers", options.workers, 1, limits::WORKERS_MAX)?;
    let mut options = options.clone();
    let defects = Defects::new("names", Among::Threads, &mut options)?;
    let (options, ready) = (&options, defects.told(ready));
    let mut bound = listen::open(&ServeOptions { workers: 1, ..options.clone() })?;
    let _lock = names.journal.as_deref().map(journal::lock).transpose()?;
    let queue = Arc::new(Queue::new(if names.on_crash == OnCrash::Wait { names.wait_queue } else { 0 }));
    let gauges = Arc::new(Gauges::default());
    let service = Arc::new(Service {
        queue: Arc::clone(&queue),
        gauges: Arc::clone(&gauges),
        names: names.clone(),
        idle_timeout: options.idle_timeout,
        buffer_bytes: options.buffer_bytes,
        started: Instant::now(),
        jobs: Default::default(),
        sums: Default::default(),
        defects: defects.clone(),
    });
    let store = StoreParts {
        queue,
        gauges: Arc::clone(&gauges),
        journal: names.journal.clone(),
        rewrite_factor: names.rewrite_factor,
        store_bytes_max: names.store_bytes_max,
        defects,
    };
    let sockets = bound.workers.pop().map(|listeners| listeners.sockets).unwrap_or_default();
    let runtime = runtime(options)?;
    let served = runtime.block_on(async {
        let (gave_up, giving_up) = oneshot::channel();
        supervisor::spawn(SupervisorParts { store, names: names.clone(), gave_up }).await?;
        let listeners = listeners(&sockets, bound.addrs.len())?;
        drop(sockets);
        let stopping = watch_stop(stop)?;
        ready(&bound.addrs);
        run(&service, listeners, &stopping, giving_up).await
    });
    // Connections that are still there are dropped and counted as cut; a commit under way is waited for.
    runtime.shutdown_timeout(DRAIN);
    served?;
    let common = *service.sums.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(gauges.sums(common))
}

async fn run(
    service: &Arc<Service>,
    listeners: Vec<Listener>,
    stopping: &AsyncFd<OwnedFd>,
    giving_up: oneshot::Receiver<NamesError>,
) -> Result<(), ServeError> {
    let (stop, stopped) = watch::channel(false);
    // All who serve have a clone; it is closed when the last is gone.
    let (alive, mut gone) = mpsc::channel::<()>(1);
    for listener in listeners {
        let (service, stopped, alive) = (Arc::clone(service), stopped.clone(), alive.clone());
        tokio::spawn(accept(service, listener, stopped, alive));
    }
    drop(alive);
    tokio::select! {
        gave_up = giving_up => if let Ok(why) = gave_up { return Err(why.into()) },
        readable = stopping.readable() => readable.map_err(no_descriptor)?.retain_ready(),
    }
    // It fails only if no connection is left to be told.
    let _ = stop.send(true);
    let _ = timeout(DRAIN, gone.recv()).await;
    Ok(())
}

fn watch_stop(stop: &Stop) -> Result<AsyncFd<OwnedFd>, ServeError> {
    let fd = stop.as_fd().try_clone_to_owned().map_err(no_descriptor)?;
    // SAFETY: an `OwnedFd` is open, and the same descriptor, from here until `AsyncFd` drops it, deregistered by then.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(|error| no_descriptor(error.into()))
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The first `tcp` sockets are TCP's, the rest are unix sockets.
fn listeners(sockets: &[Arc<OwnedFd>], tcp: usize) -> Result<Vec<Listener>, ServeError> {
    let listener = |(at, socket): (usize, &Arc<OwnedFd>)| {
        let socket = socket.try_clone()?;
        if at < tcp {
            TcpListener::from_std(socket.into()).map(Listener::Tcp)
        } else {
            UnixListener::from_std(socket.into()).map(Listener::Unix)
        }
    };
    sockets.iter().enumerate().map(listener).collect::<std::io::Result<_>>().map_err(no_descriptor)
}

async fn accept(service: Arc<Service>, listener: Listener, mut stop: watch::Receiver<bool>, alive: mpsc::Sender<()>) {
    let stopped = stop.clone();
    let accepting = async {
        loop {
            while service.defects.is_full() {
                sleep(ACCEPT_PAUSE).await;
            }
            let accepted = match &listener {
                Listener::Tcp(tcp) => tcp.accept().await.map(|(socket, _)| start(&service, socket, &stopped, &alive)),
                Listener::Unix(unix) => {
                    unix.accept().await.map(|(socket, _)| start(&service, socket, &stopped, &alive))
                }
            };
            if let Err(error) = accepted {
                count(&service.gauges.accept_error, 1);
                // Without a descriptor or memory the connection stays in the queue: asking again at once would spin.
                if error.kind() != std::io::ErrorKind::ConnectionAborted {
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        // Ends, and closes the listener, when it is pulled or nobody can pull it any more.
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

fn start<S>(service: &Arc<Service>, socket: S, stop: &watch::Receiver<bool>, alive: &mpsc::Sender<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    count(&service.gauges.accepted, 1);
    let Some(kept) = service.defects.accepted() else {
        count(&service.gauges.closed, 1);
        return;
    };
    let (service, stop, alive) = (Arc::clone(service), stop.clone(), alive.clone());
    tokio::spawn(async move {
        connection::run(service, socket, stop).await;
        drop((kept, alive));
    });
}

fn runtime(options: &ServeOptions) -> Result<Runtime, ServeError> {
    let cpus = options.pin.clone().unwrap_or_default();
    for &cpu in &cpus {
        // Tried on a thread that ends: tokio's threads have nobody to tell.
        let tried = std::thread::spawn(move || pin_to(cpu)).join().map_err(|_| ServeError::WorkerPanicked)?;
        tried.map_err(|source| ServeError::Pin { cpu, source })?;
    }
    let (workers, started) = (options.workers, AtomicUsize::new(0));
    Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("names")
        .enable_all()
        .on_thread_start(move || {
            let index = started.fetch_add(1, Relaxed);
            // Threads for blocking calls start later, and run where the one that asked for them does.
            if index < workers && !cpus.is_empty() {
                // Cannot fail: each CPU was tried above.
                let _ = pin_to(cpus[index % cpus.len()]);
            }
        })
        .build()
        .map_err(|source| ServeError::Worker { doing: "start its threads", source })
}

fn pin_to(cpu: usize) -> std::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(rustix::io::Errno::INVAL.into());
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(None, &cpus)?)
}

fn no_descriptor(source: std::io::Error) -> ServeError {
    ServeError::Worker { doing: "watch its listeners", source }
}
