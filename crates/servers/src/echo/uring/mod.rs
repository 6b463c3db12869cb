//! Echo by io_uring with direct descriptors: any number of connections in one process, whatever `nofile` is.
//!
//! A direct descriptor lives in the table of its ring and takes none of the process's; a table holds as many as
//! `nofile` allows, and a process may have many rings. `ring` wraps one, `pool` is its receive buffers, `table` its
//! connections, `worker` a thread with its rings. An idle connection costs under 50 bytes of ours.
//! Not here: falling back where io_uring is forbidden; that is said, with the design to take instead.

mod pool;
mod ring;
mod table;
mod worker;

use std::io;

use rustix::process::{Resource, getrlimit};

use self::worker::{Setup, Worker};
use super::{Design, EchoOptions};
use crate::counters::Counters;
use crate::defects::beside::{Carried, Carries, Sound};
use crate::defects::{Able, Among, Defects};
use crate::error::ServeError;
use crate::limits;
use crate::listen::{self, Bound};
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::{Ready, run_threads};

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "uring",
        about: "each worker holds its connections as direct descriptors of one io_uring or several, beyond nofile",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Replies,
            Able::Loop,
            Able::OneProcess,
            Able::Lasting,
            Able::Workers,
            Able::Parallel,
            Able::OwnListeners,
        ],
    },
    serve,
};

/// Slots for each hundred connections asked for: workers get unequal numbers (the kernel shares by a hash).
const SLOTS_PERCENT: u64 = 110;
/// Descriptors left to the rest of the process: its streams, signals, the recording of whoever embeds the server.
const DESCRIPTORS_ELSEWHERE: u64 = 64;

fn serve(options: &ServeOptions, echo: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    let mut options = options.clone();
    let defects = Defects::new("echo", Among::Threads, &mut options)?;
    if defects.is_empty() {
        return serve_carrying(&options, echo, stop, ready, || Sound);
    }
    let ready = defects.told(ready);
    serve_carrying(&options, echo, stop, ready, || Carried::new(&defects))
}

fn serve_carrying<C: Carries>(
    options: &ServeOptions,
    echo: &EchoOptions,
    stop: &Stop,
    ready: Ready<'_>,
    carrying: impl Fn() -> C + Sync,
) -> Result<Counters, ServeError> {
    let budget = Budget::new(options, echo, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))?;
    // The unix socket's file is removed when this function ends, however it does.
    let Bound { workers, addrs, unix_file: _unix_file } = listen::open(options)?;
    for socket in workers.iter().flat_map(|worker| &worker.sockets) {
        // On a non-blocking listener an accept would fail where it is to wait.
        rustix::io::ioctl_fionbio(socket, false)
            .map_err(|error| ServeError::Worker { doing: "set up its listeners", source: error.into() })?;
    }
    let published = options.live.open(options.workers)?;
    let setups = workers
        .into_iter()
        .zip(published)
        .map(|(listeners, published)| Setup {
            listeners: listeners.sockets,
            stop: stop.clone(),
            rings: budget.rings,
            slots: budget.slots,
            buffer_bytes: options.buffer_bytes,
            idle_timeout: options.idle_timeout,
            published,
        })
        .collect();
    let start = |setup| Worker::new(setup, carrying()).map_err(explain);
    let run =
        |worker: Worker<C>| worker.run().map_err(|source| ServeError::Worker { doing: "wait for completions", source });
    run_threads("echo", options, stop, ready, &addrs, setups, start, run)
}

/// How many rings a worker needs, and how large their tables are.
#[derive(Debug, PartialEq, Eq)]
struct Budget {
    rings: usize,
    slots: u32,
}

impl Budget {
    fn new(options: &ServeOptions, echo: &EchoOptions, nofile: u64) -> Result<Self, ServeError> {
        listen::check_bounds("connections", echo.connections_max, 1, limits::CONNECTIONS_MAX)?;
        let workers = options.workers.clamp(1, limits::WORKERS_MAX) as u64;
        let slots_max = nofile.min(u64::from(limits::TABLE_SLOTS_MAX));
        let slots = u64::from(echo.table_slots.unwrap_or(u32::MAX)).min(slots_max).max(1);
        let share = (echo.connections_max as u64 * SLOTS_PERCENT).div_ceil(100 * workers);
        let rings = share.div_ceil(slots);
        // Each worker has its rings, a listener an address, and an event.
        let sockets = options.listen.len() as u64 + u64::from(options.unix.is_some());
        let needed = workers * (rings + sockets + 1) + DESCRIPTORS_ELSEWHERE;
        if needed > nofile {
            return Err(ServeError::TooFewDescriptors { connections: echo.connections_max, needed, nofile });
        }
        Ok(Self { rings: rings as usize, slots: slots as u32 })
    }
}

fn explain(source: io::Error) -> ServeError {
    let why = match source.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has none, or a seccomp filter hides it",
        Some(libc::EPERM) => "it is forbidden here (kernel.io_uring_disabled, or a seccomp filter as containers have)",
        Some(libc::EINVAL) => "this kernel's is too old (6.1 or newer is needed)",
        _ => return ServeError::Worker { doing: "set up io_uring", source },
    };
    ServeError::NoIoUring { why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(workers: usize, connections_max: usize, nofile: u64) -> Result<Budget, ServeError> {
        let options = ServeOptions { workers, ..ServeOptions::default() };
        Budget::new(&options, &EchoOptions { connections_max, ..EchoOptions::default() }, nofile)
    }

    #[test]
    fn rings_hold_a_tenth_more_than_asked_for_within_the_descriptors() {
        assert_eq!(budget(1, 10_000, 20_000).unwrap(), Budget { rings: 1, slots: 20_000 });
        assert_eq!(budget(1, 1_000_000, 20_000).unwrap(), Budget { rings: 55, slots: 20_000 });
        assert_eq!(budget(2, 1_000_000, 20_000).unwrap(), Budget { rings: 28, slots: 20_000 });
        assert_eq!(budget(1, 1_000_000, 1 << 30).unwrap(), Budget { rings: 2, slots: limits::TABLE_SLOTS_MAX });
        // 1,075 tables of 1,024 would need more descriptors than there are.
        let error = budget(1, 1_000_000, 1024).unwrap_err();
        assert!(matches!(error, ServeError::TooFewDescriptors { nofile: 1024, .. }), "{error:?}");
        assert!(matches!(budget(1, 0, 20_000), Err(ServeError::OutOfBounds { .. })));
    }
}
