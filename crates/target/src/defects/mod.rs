//! Named faults that a reference server carries on purpose, so that a diagnosis is proved on known causes.
//!
//! A file a defect; `DEFECTS` lists them all. Each says what it makes and how to see it without plimsoll. A server
//! without defects does not contain them: they are a layer of their own around its protocol (`link`), put there only
//! when one is asked for. Not here: parsing of `--defect`, and faults done to the host from outside.

mod accept_imbalance;
mod background;
mod blocked_loop;
mod connection_leak;
mod corrupted_reply;
mod cpu_heavy;
mod crash;
mod error_status;
mod every;
mod fd_leak;
mod fd_limit;
mod fixed_size_reply;
mod fsync_log;
mod full_buffer_reply;
mod global_lock;
mod head_of_line;
mod keepalive_off;
mod link;
mod lost_wakeup;
mod memory_kept;
mod memory_leak;
mod memory_per_connection;
mod missing_reply;
mod nagle;
mod one_receive_reply;
mod padded_reply;
mod pages;
mod payload;
mod sigpipe;
mod single_thread;
mod slow_accept;
mod slow_backend;
mod slow_log_reader;
mod stop_the_world;
mod strlen_reply;
mod thundering_herd;
mod tls_rsa_4096;
mod truncated_reply;
mod worker_starvation;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Accepting;

pub(crate) use link::Defective;

/// Every defect, in the order they are listed.
pub const DEFECTS: &[&Defect] = &[
    &nagle::DEFECT,
    &sigpipe::DEFECT,
    &crash::DEFECT,
    &single_thread::DEFECT,
    &cpu_heavy::DEFECT,
    &global_lock::DEFECT,
    &blocked_loop::DEFECT,
    &stop_the_world::DEFECT,
    &head_of_line::DEFECT,
    &worker_starvation::DEFECT,
    &lost_wakeup::DEFECT,
    &slow_backend::DEFECT,
    &fsync_log::DEFECT,
    &slow_log_reader::DEFECT,
    &fd_leak::DEFECT,
    &fd_limit::DEFECT,
    &slow_accept::DEFECT,
    &thundering_herd::DEFECT,
    &accept_imbalance::DEFECT,
    &connection_leak::DEFECT,
    &memory_per_connection::DEFECT,
    &memory_leak::DEFECT,
    &memory_kept::DEFECT,
    &tls_rsa_4096::DEFECT,
    &keepalive_off::DEFECT,
    &error_status::DEFECT,
    &truncated_reply::DEFECT,
    &one_receive_reply::DEFECT,
    &strlen_reply::DEFECT,
    &padded_reply::DEFECT,
    &fixed_size_reply::DEFECT,
    &corrupted_reply::DEFECT,
    &missing_reply::DEFECT,
    &full_buffer_reply::DEFECT,
];

/// A fault that can be built into a reference server.
#[derive(Debug)]
pub struct Defect {
    /// The name on the command line.
    pub name: &'static str,
    /// The servers that can carry it.
    pub servers: &'static [Server],
    /// What its strength means, and how strong it is when nothing is said.
    pub strength: Strength,
    /// What the server does wrong, in one sentence.
    pub about: &'static str,
    /// What that makes: the finding's id and what a client and the kernel's counters show.
    pub makes: &'static str,
    /// A command that shows it without plimsoll. `PID` and `PORT` stand for the server's.
    pub see: &'static str,
    make: fn(Setting) -> Result<Box<dyn Hook>, ServeError>,
}

impl Defect {
    /// Refuses TLS, under which the socket is not what the protocol receives from and writes to.
    fn without_tls(&self, options: &ServeOptions) -> Result<(), ServeError> {
        if options.tls.is_none() {
            return Ok(());
        }
        let (expected, got) = ("no --tls".to_owned(), "--tls".to_owned());
        Err(ServeError::DefectMisused {
            defect: self.name,
            expected,
            got,
            next: "it is one of plain sockets, leave --tls out",
        })
    }

    /// Refuses a single worker.
    fn with_workers(&self, options: &ServeOptions) -> Result<(), ServeError> {
        if options.workers > 1 {
            return Ok(());
        }
        let (expected, got) = ("--workers 2 or more".to_owned(), options.workers.to_string());
        Err(ServeError::DefectMisused {
            defect: self.name,
            expected,
            got,
            next: "it lies between workers, set --workers",
        })
    }
}

/// A reference server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// `serve echo`.
    Echo,
    /// `serve http`.
    Http,
    /// `serve proxy`.
    Proxy,
    /// `serve names`.
    Names,
}

impl Server {
    const ALL: [Self; 4] = [Self::Echo, Self::Http, Self::Proxy, Self::Names];

    /// As in `plimsoll serve NAME`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Http => "http",
            Self::Proxy => "proxy",
            Self::Names => "names",
        }
    }
}

/// What the number behind `=` is, with the one taken where none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// It takes no number.
    None,
    /// A time.
    Time(Duration),
    /// A number of bytes.
    Bytes(u64),
    /// A number of things, which `about` names.
    Count(u64),
    /// `STATUS/N`: this HTTP status in one of so many replies.
    Status {
        /// From 200 to 599.
        code: u16,
        /// One of so many.
        of: u64,
    },
}

/// A defect as it was asked for: `--defect NAME=STRENGTH@START`.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Which.
    pub defect: &'static Defect,
    /// How strong, of the kind its [`Defect::strength`] is.
    pub strength: Strength,
    /// How long after the server's start it begins.
    pub from: Duration,
}

impl Setting {
    /// The strength as a number: nanoseconds, bytes, a count, the one of so many; 0 where there is none.
    pub(crate) fn number(&self) -> u64 {
        match self.strength {
            Strength::None => 0,
            Strength::Time(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Strength::Bytes(number) | Strength::Count(number) => number,
            Strength::Status { of, .. } => of,
        }
    }

    /// The strength as a number of bytes that fits into memory's addresses.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    /// The strength as a time; none where it is not one.
    fn time(&self) -> Duration {
        match self.strength {
            Strength::Time(time) => time,
            _ => Duration::ZERO,
        }
    }

    /// Refuses a start: the defect cannot begin later than the server.
    fn only_from_the_start(&self) -> Result<(), ServeError> {
        if self.from.is_zero() { Ok(()) } else { Err(ServeError::DefectFromStart { defect: self.defect.name }) }
    }
}

/// The defect of that name.
#[must_use]
pub fn defect(name: &str) -> Option<&'static Defect> {
    DEFECTS.iter().find(|defect| defect.name == name).copied()
}

/// A size that must not be 0.
fn at_least_one_byte(setting: &Setting) -> Result<usize, ServeError> {
    match usize::try_from(setting.number()).unwrap_or(usize::MAX) {
        0 => Err(ServeError::DefectStrength {
            defect: setting.defect.name,
            expected: "1 byte or more",
            got: "0".to_owned(),
        }),
        bytes => Ok(bytes),
    }
}

/// The moments at which a defect may act. Each is called only while the defect is on (but for `change`), from the
/// worker that has the connection; what takes time there takes the worker's.
pub(crate) trait Hook: std::fmt::Debug + Send + Sync {
    /// Which server carries it, said before anything else.
    fn carried_by(&mut self, _server: Server) {}

    /// Before the server listens, whenever the defect is to begin: what it is told can be changed.
    fn change(&self, _options: &mut ServeOptions) -> Result<(), ServeError> {
        Ok(())
    }

    /// The defect begins. Once in each worker, on its thread: at its start or at its first wake-up behind `@START`.
    fn begin(&self) {}

    /// How connections are taken from the listeners.
    fn accepting(&self, _accepting: &mut Accepting) {}

    /// A connection was accepted; what is returned is kept until it closes.
    fn accepted(&self, _worker: usize) -> Option<Kept> {
        None
    }

    /// A connection is woken, for whatever reason.
    fn woken(&self) {}

    /// A request has come, and its reply, made already, is about to leave.
    fn request(&self, _at: &At<'_>) {}

    /// How the socket is used for one reply.
    fn manner(&self, _manner: &mut Manner) {}

    /// The bytes of a reply, as they are to leave (`Manner::rewrites` must have been set). All that is known of the
    /// reply is here: of a large one only its first piece.
    fn reply(&self, _bytes: &mut Vec<u8>) -> After {
        After::GoOn
    }

    /// The peer has ended a connection, and it is about to be closed. False: it is not, ever.
    fn closes(&self) -> bool {
        true
    }
}

/// Something a connection holds until it closes.
pub(crate) type Kept = Box<dyn std::any::Any + Send>;

/// Where a request is.
pub(crate) struct At<'a> {
    /// The connection's socket.
    pub(crate) socket: BorrowedFd<'a>,
    /// The worker's number, from 0.
    pub(crate) worker: usize,
}

/// How bytes are received and sent while defects are on. The default is how they are without.
#[derive(Debug, Default)]
pub(crate) struct Manner {
    /// Bytes one receive may bring; after it the socket is taken for empty, whatever is left.
    pub(crate) receive_once: Option<usize>,
    /// The head, or the first bytes of a reply, leave in a write of their own.
    pub(crate) splits: bool,
    /// `write(2)`, which may raise SIGPIPE.
    pub(crate) raises_sigpipe: bool,
    /// `Hook::reply` is asked for each reply.
    pub(crate) rewrites: bool,
    /// Each reply is its connection's last, where the protocol has such a thing.
    pub(crate) keeps_none: bool,
    /// The worker stays with the connection until it closes.
    pub(crate) stays: bool,
}

/// What follows a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing special.
    GoOn,
    /// The connection is closed behind it.
    Close,
    /// Whatever more belongs to it is thrown away.
    Swallow,
}

/// The defects of one server, shared by its workers.
#[derive(Debug, Clone)]
pub(crate) struct Defects {
    all: Arc<Vec<Active>>,
    workers: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Active {
    from_ns: u64,
    hook: Box<dyn Hook>,
}

impl Defects {
    /// Makes what `options` ask for, and lets it change them. The time of `@START` counts from here.
    pub(crate) fn new(server: &str, options: &mut ServeOptions) -> Result<Self, ServeError> {
        let server = Server::ALL.into_iter().find(|known| known.name() == server);
        let now_ns = clock::monotonic_ns();
        let mut all = Vec::with_capacity(options.defects.len());
        for setting in options.defects.clone() {
            let mut hook = (setting.defect.make)(setting)?;
            if let Some(server) = server {
                hook.carried_by(server);
            }
            hook.change(options)?;
            let from_ns = now_ns.saturating_add(u64::try_from(setting.from.as_nanos()).unwrap_or(u64::MAX));
            all.push(Active { from_ns, hook });
        }
        Ok(Self { all: Arc::new(all), workers: Arc::new(AtomicUsize::new(0)) })
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of the worker that asks, from 0.
    fn next_worker(&self) -> usize {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    fn on(&self, now_ns: u64) -> impl Iterator<Item = &dyn Hook> {
        self.between(0, now_ns)
    }

    /// Those that began from `from_ns` on and no later than `to_ns`.
    fn between(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &dyn Hook> {
        self.all.iter().filter(move |active| (from_ns..=to_ns).contains(&active.from_ns)).map(|active| &*active.hook)
    }
}
