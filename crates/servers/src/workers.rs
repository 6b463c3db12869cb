//! The threads of a server: each pinned if asked, all set up before anybody is told the server is ready.
//!
//! The calling thread only waits. A worker that fails or panics ends the whole server: half a server
//! would give figures nobody can read.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::counters::Counters;
use crate::error::ServeError;
use crate::listen::{self, Bound};
use crate::options::ServeOptions;
use crate::reactor::{Protocol, Reactor};
use crate::stop::Stop;

/// Called once, when every worker can serve, with the addresses bound.
pub(crate) type Ready<'a> = Box<dyn FnOnce(&[SocketAddr]) + 'a>;

/// Runs one reactor a worker, each with a protocol of its own made by `make` on its thread.
pub(crate) fn run_reactors<P: Protocol>(
    name: &str,
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    make: impl Fn() -> P + Sync,
) -> Result<Counters, ServeError> {
    // The unix socket's file is removed when this function ends, however it does.
    let Bound { workers, addrs, unix_file: _unix_file } = listen::open(options)?;
    let mut reactors = Vec::with_capacity(options.workers);
    let published = options.live.open(options.workers)?;
    for (listeners, published) in workers.into_iter().zip(published) {
        let reactor =
            Reactor::new(listeners, stop, published).map_err(|error| worker_error("watch its listeners", error))?;
        reactors.push(reactor);
    }
    let run = |reactor: Reactor| reactor.run(&mut make()).map_err(|error| worker_error("wait for events", error));
    run_threads(name, options, stop, ready, &addrs, reactors, Ok, run)
}

/// Runs one thread a seed: `start` makes the worker of it, on the thread; `run` serves, once all have started.
#[expect(clippy::too_many_arguments, reason = "what a server is told, and the two halves of what its threads do")]
pub(crate) fn run_threads<T: Send, W>(
    name: &str,
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    addrs: &[SocketAddr],
    seeds: Vec<T>,
    start: impl Fn(T) -> Result<W, ServeError> + Sync,
    run: impl Fn(W) -> Result<Counters, ServeError> + Sync,
) -> Result<Counters, ServeError> {
    let (start, run) = (&start, &run);
    thread::scope(|scope| {
        let (report, reports) = mpsc::channel();
        let mut goes = Vec::with_capacity(seeds.len());
        let mut threads = Vec::with_capacity(seeds.len());
        for (index, seed) in seeds.into_iter().enumerate() {
            let (go, wait) = mpsc::channel::<()>();
            let report = report.clone();
            let cpu = options.pin.as_ref().filter(|cpus| !cpus.is_empty()).map(|cpus| cpus[index % cpus.len()]);
            let worker = move || {
                let _guard = StopOnPanic(stop);
                let (started, told) = match prepare(cpu).and_then(|()| start(seed)) {
                    Ok(worker) => (Some(worker), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // Main gives up on its own if it cannot be told.
                let _ = report.send(told);
                // Main reads reports until every worker has let go of its end.
                drop(report);
                let (Some(worker), Ok(())) = (started, wait.recv()) else { return Ok(Counters::default()) };
                run(worker).inspect_err(|_| stop.stop())
            };
            let spawned = thread::Builder::new().name(format!("{name}-{index}")).spawn_scoped(scope, worker);
            // On failure `goes` is dropped: the workers already there end without serving.
            threads.push(spawned.map_err(|source| ServeError::Worker { doing: "start its thread", source })?);
            goes.push(go);
        }
        drop(report);
        for told in reports {
            told?;
        }
        ready(addrs);
        for go in goes {
            // A worker that is gone has panicked, which its join says.
            let _ = go.send(());
        }
        let mut sum = Counters::default();
        let mut first_error = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(counters)) => sum.add(&counters),
                Ok(Err(error)) => first_error = first_error.or(Some(error)),
                Err(_) => first_error = Some(ServeError::WorkerPanicked),
            }
        }
        first_error.map_or(Ok(sum), Err)
    })
}

/// Ends the server should its thread panic.
pub(crate) struct StopOnPanic<'a>(pub(crate) &'a Stop);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// Readies the calling thread: pinned if asked, without SIGPIPE.
pub(crate) fn prepare(cpu: Option<usize>) -> Result<(), ServeError> {
    block_sigpipe();
    if let Some(cpu) = cpu {
        pin(None, cpu)?;
    }
    Ok(())
}

/// Binds a process, or the calling thread, to one CPU.
pub(crate) fn pin(process: Option<Pid>, cpu: usize) -> Result<(), ServeError> {
    let refused = |source| ServeError::Pin { cpu, source };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(rustix::io::Errno::INVAL.into()));
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(process, &cpus).map_err(|error| refused(error.into()))
}

/// `sendfile` has no `MSG_NOSIGNAL`: without this, a download given up by its client could end the
/// process, should the program have SIGPIPE at its default.
fn block_sigpipe() {
    // SAFETY: `set` is a plain value that sigemptyset initialises before it is used; the calls change
    // only this thread's mask, and their pointers are valid for their duration.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

fn worker_error(doing: &'static str, error: rustix::io::Errno) -> ServeError {
    ServeError::Worker { doing, source: error.into() }
}
