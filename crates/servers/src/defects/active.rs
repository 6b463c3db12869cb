//! The defects that one server was asked for, and which of them have begun.

use super::hook::Hook;
use super::server::Server;
use crate::clock;
use crate::error::ServeError;
use crate::options::ServeOptions;
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
    /// Makes what `options` ask for, and lets it change them. The time of `@START` counts from here.
    pub(crate) fn new(server: &str, options: &mut ServeOptions) -> Result<Self, ServeError> {
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
                hook.carried_by(server);
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

    /// The number of the worker that asks, from 0.
    pub(super) fn next_worker(&self) -> usize {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn on(&self, now_ns: u64) -> impl Iterator<Item = &dyn Hook> {
        self.between(0, now_ns)
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
