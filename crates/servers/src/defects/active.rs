//! The defects that one server was asked for, and which of them have begun.

use super::hook::{Hook, Kept, Request, Taken};
use super::server::Server;
use super::shared::Among;
use crate::clock;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Accepting;
use crate::workers::Ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Makes what `options` ask for, for workers that are threads or processes, and lets it change them. The time of
    /// `@START` counts from here.
    pub(crate) fn new(server: &str, among: Among, options: &mut ServeOptions) -> Result<Self, ServeError> {
        let server = Server::ALL.into_iter().find(|known| known.name() == server);
        if !options.defects.is_empty() {
            clock::calibrate();
        }
        let now_ns = clock::monotonic_ns();
        let mut all = Vec::with_capacity(options.defects.len());
        for setting in options.defects.clone() {
            let mut hook = (setting.defect.make)(setting)?;
            setting.check()?;
            if let Some(server) = server {
                hook.carried_by(server, among)?;
            }
            hook.change(options)?;
            let from_ns = now_ns.saturating_add(u64::try_from(setting.from.as_nanos()).unwrap_or(u64::MAX));
            all.push(Active { from_ns, hook });
        }
        Ok(Self { all: Arc::new(all), workers: Arc::new(AtomicUsize::new(0)) })
    }

    /// Whether the server was asked for no defect at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Has them told where the server listens, before `ready` is.
    pub(crate) fn told<'a>(&self, ready: Ready<'a>) -> Ready<'a> {
        let defects = self.clone();
        Box::new(move |addrs| {
            defects.all().for_each(|hook| hook.listening(addrs));
            ready(addrs);
        })
    }

    /// The number of the worker that asks, from 0.
    pub(super) fn next_worker(&self) -> usize {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn on(&self, now_ns: u64) -> impl Iterator<Item = &dyn Hook> {
        self.between(0, now_ns)
    }

    /// A connection is woken, of a server that asks for the moments of its defects itself.
    pub(crate) fn woken(&self) {
        if !self.is_empty() {
            self.on(clock::monotonic_ns()).for_each(|hook| hook.woken());
        }
    }

    /// A request came, likewise; `subject` is what it is about.
    pub(crate) fn asked(&self, subject: &[u8]) {
        if !self.is_empty() {
            let request = Request { socket: None, worker: 0, text: subject, length: subject.len() };
            self.on(clock::monotonic_ns()).for_each(|hook| hook.request(&request));
        }
    }

    /// Whether connections are to stay in the accept queue for now.
    pub(crate) fn is_full(&self) -> bool {
        let mut accepting = Accepting::default();
        if !self.is_empty() {
            self.on(clock::monotonic_ns()).for_each(|hook| hook.accepting(&mut accepting));
        }
        accepting.is_full
    }

    /// What a connection that was accepted is to hold. `None`: it is to be closed at once.
    pub(crate) fn accepted(&self) -> Option<Vec<Kept>> {
        let mut kept = Vec::new();
        if self.is_empty() {
            return Some(kept);
        }
        for hook in self.on(clock::monotonic_ns()) {
            match hook.accepted() {
                Taken::AsEver => {}
                Taken::Holding(held) => kept.push(held),
                Taken::TurnedAway => return None,
            }
        }
        Some(kept)
    }

    /// All of them, also those that have not begun.
    pub(super) fn all(&self) -> impl Iterator<Item = &dyn Hook> {
        self.all.iter().map(|active| &*active.hook)
    }

    /// The hooks of defects that begin at `from_ns` or later, and at `to_ns` at the latest.
    pub(super) fn between(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &dyn Hook> {
        self.all.iter().filter(move |active| (from_ns..=to_ns).contains(&active.from_ns)).map(|active| &*active.hook)
    }
}
