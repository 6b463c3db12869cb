//! Threads that block in calls on connections, and how they are told to end: the roster of who serves what.
//!
//! At the stop each connection's timeouts are made short, and its thread's call is interrupted by SIGURG: a signal that
//! does nothing by default, sent to these threads alone, with a handler that does nothing either.
//! Also the designs made of a fixed number of such threads (`iterative` is one of them).

use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::acceptor::Acceptor;
use super::blocking::{self, Manners, QUIET, attend, converse, set_timeouts};
use super::drain::Drain;
use crate::counters::Counters;
use crate::defects::beside::{Carried, Carries, Sound};
use crate::defects::{Among, Defects};
use crate::error::ServeError;
use crate::limits;
use crate::listen::{self, Bound, UnixFile};
use crate::options::ServeOptions;
use crate::stop::Stop;
use crate::workers::{Ready, run_threads};

/// Serves by threads that take one connection each from the same listeners: as many as `options` say, or one.
pub(super) fn serve(options: &ServeOptions, stop: &Stop, ready: Ready<'_>, one: bool) -> Result<Counters, ServeError> {
    let mut options = options.clone();
    let defects = Defects::new("echo", Among::Threads, &mut options)?;
    let workers = if one { 1 } else { options.workers };
    if defects.is_empty() {
        return serve_carrying(&options, stop, ready, workers, || Sound);
    }
    serve_carrying(&options, stop, ready, workers, || Carried::new(&defects))
}

fn serve_carrying<C: Carries>(
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    workers: usize,
    carrying: impl Fn() -> C + Sync,
) -> Result<Counters, ServeError> {
    listen::check_bounds("workers", workers, 1, limits::WORKERS_MAX)?;
    // The unix socket's file is removed when this function ends, however it does.
    let Shared { listeners, addrs, unix_file: _unix_file } = shared_listeners(options)?;
    let published = options.live.open(workers)?;
    let mut seeds = Vec::with_capacity(workers);
    for (index, published) in published.into_iter().enumerate() {
        let acceptor = Acceptor::new(listeners.clone(), stop).map_err(blocking::failed("watch its listeners"))?;
        seeds.push((index, acceptor, published));
    }
    drop(listeners);
    let roster = Roster::new(workers);
    let done = Stop::new().map_err(|source| ServeError::Worker { doing: "watch for its end", source })?;
    let work = |(index, mut acceptor, published): (usize, Acceptor, _), mut buffer: Box<[MaybeUninit<u8>]>| {
        let mut counters = Counters::default();
        let mut carries = carrying();
        let manners = Manners { idle: options.idle_timeout, drain: &roster.drain, published: &published };
        let one = |connection: OwnedFd, counters: &mut Counters| {
            let connection = Arc::new(connection);
            roster.enter(index, &connection);
            converse(connection.as_fd(), &mut buffer, &manners, &mut carries, counters);
            roster.leave(index);
        };
        attend(&mut acceptor, &roster.drain, &published, &mut counters, one)
            .map_err(blocking::failed("wait for connections"))?;
        Ok(counters)
    };
    thread::scope(|scope| {
        let _ended = EndOnDrop(&done);
        scope.spawn(|| roster.end_at(stop, &done));
        let start = |seed| match blocking::buffer(options.buffer_bytes) {
            Some(buffer) => Ok((seed, buffer)),
            None => Err(blocking::failed("have its buffer")(Errno::NOMEM)),
        };
        run_threads("echo", options, stop, ready, &addrs, seeds, start, |(seed, buffer)| work(seed, buffer))
    })
}

/// One set of listening sockets, and what belongs to it.
pub(super) struct Shared {
    pub(super) listeners: Vec<Arc<OwnedFd>>,
    pub(super) addrs: Vec<SocketAddr>,
    pub(super) unix_file: Option<UnixFile>,
}

/// One set of listening sockets for all workers, in place of one for each.
pub(super) fn shared_listeners(options: &ServeOptions) -> Result<Shared, ServeError> {
    let Bound { mut workers, addrs, unix_file } = listen::open(&ServeOptions { workers: 1, ..options.clone() })?;
    let listeners = workers.pop().map(|worker| worker.sockets).unwrap_or_default();
    Ok(Shared { listeners, addrs, unix_file })
}

/// Which thread serves which connection, so that all can be told to end.
pub(super) struct Roster {
    pub(super) drain: Drain,
    serving: Mutex<Vec<Option<Serving>>>,
}

struct Serving {
    connection: Arc<OwnedFd>,
    thread: libc::pid_t,
}

impl Roster {
    pub(super) fn new(handlers: usize) -> Self {
        catch_wake_signal();
        Self { drain: Drain::new(), serving: Mutex::new((0..handlers).map(|_| None).collect()) }
    }

    /// The calling thread serves this connection from here on.
    pub(super) fn enter(&self, index: usize, connection: &Arc<OwnedFd>) {
        // SAFETY: takes nothing, touches no memory.
        let thread = unsafe { libc::gettid() };
        self.serving()[index] = Some(Serving { connection: Arc::clone(connection), thread });
    }

    /// The calling thread no longer serves a connection.
    pub(super) fn leave(&self, index: usize) {
        self.serving()[index] = None;
    }

    /// Ends all conversations, now and later ones alike: each goes on only as long as bytes come.
    pub(super) fn end(&self) {
        self.drain.begin();
        let process = std::process::id() as libc::pid_t;
        for serving in self.serving().iter().flatten() {
            set_timeouts(serving.connection.as_fd(), QUIET);
            // SAFETY: touches no memory. The thread is there: it takes itself off the roster, under the same lock,
            // before it ends.
            unsafe { libc::syscall(libc::SYS_tgkill, process, serving.thread, libc::SIGURG) };
        }
    }

    fn end_at(&self, stop: &Stop, done: &Stop) {
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(done, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => break,
            }
        }
        self.end();
    }

    fn serving(&self) -> MutexGuard<'_, Vec<Option<Serving>>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct EndOnDrop<'a>(&'a Stop);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Without a handler the signal would be ignored, and a call not interrupted. One that is already there does as well:
/// calls on a socket with timeouts are not taken up again after any handler (signal(7)).
fn catch_wake_signal() {
    extern "C" fn nothing(_: libc::c_int) {}
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all-zero is a valid sigaction, the pointers are to locals, and the handler does nothing.
        unsafe {
            let mut found: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGURG, ptr::null(), &raw mut found);
            if matches!(found.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
                let mut action: libc::sigaction = mem::zeroed();
                action.sa_sigaction = nothing as *const () as libc::sighandler_t;
                libc::sigaction(libc::SIGURG, &raw const action, ptr::null_mut());
            }
        }
    });
}
