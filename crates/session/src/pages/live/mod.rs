//! A run that goes on: it is handed what to show, whole, and shows each viewer the newest.
//!
//! Who comes late, or slept, misses nothing, and one who takes nothing holds nothing up. Nothing is made while nobody looks.
//! On loopback anybody of this machine may look; elsewhere, and wherever orders are taken, only who has the token.

mod routes;

use super::{PageError, Serving, Spec};
use crate::pages::access::Access;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Viewers at most; one more is asked to come later.
pub const VIEWERS_MAX: usize = 64;
/// Orders that may wait to be followed; one more is refused.
const ORDERS_MAX: usize = 16;

/// What a viewer asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// To end the run as Ctrl-C does.
    Stop,
    /// To ask for so many times the planned rate from now on.
    Rate(f64),
}

/// What viewers are shown.
#[derive(Debug, Clone)]
enum Showing {
    /// Nothing yet.
    Nothing,
    /// How it stands.
    Frame(Arc<str>),
    /// It is over, and the report is there.
    Ended,
}

/// What server and routes share.
#[derive(Debug)]
struct Shared {
    /// The page around what is shown.
    shell: String,
    showing: watch::Sender<Showing>,
    viewers: AtomicUsize,
    /// The report of the run that has ended.
    report: OnceLock<Vec<u8>>,
    /// How often it was fetched.
    fetched: AtomicUsize,
    orders: SyncSender<Order>,
    /// Whether there is a rate to change.
    has_rate: bool,
}

/// A page that is served.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    orders: Receiver<Order>,
    serving: Serving,
}

impl Server {
    /// Listens, and shows `shell` until there is something to show in it. `has_rate`: the run has a rate to change.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn start(spec: &Spec, shell: String, has_rate: bool) -> Result<Self, PageError> {
        let (order, orders) = sync_channel(ORDERS_MAX);
        let shared = Arc::new(Shared {
            shell,
            showing: watch::Sender::new(Showing::Nothing),
            viewers: AtomicUsize::new(0),
            report: OnceLock::new(),
            fetched: AtomicUsize::new(0),
            orders: order,
            has_rate,
        });
        let of = |access: &Arc<Access>| routes::routes(Arc::clone(&shared), Arc::clone(access));
        let serving = Serving::start(spec, of)?;
        Ok(Server { shared, orders, serving })
    }

    /// Where it is.
    pub fn serving(&self) -> &Serving {
        &self.serving
    }

    /// How many look.
    pub fn viewers(&self) -> usize {
        self.shared.viewers.load(Ordering::Relaxed)
    }

    /// Whether somebody looks who has been shown nothing yet.
    pub fn is_awaited(&self) -> bool {
        self.viewers() > 0 && matches!(*self.shared.showing.borrow(), Showing::Nothing)
    }

    /// Shows how it stands; whoever has not taken the one before gets this one in its place.
    pub fn show(&self, frame: String) {
        self.shared.showing.send_replace(Showing::Frame(frame.into()));
    }

    /// The next order that was given, if any.
    pub fn order(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// The run has ended: whoever looks gets the report, for which he is waited for so long; then nothing is served.
    pub fn end(self, report: Vec<u8>, wait: Duration) {
        let looking = self.viewers();
        let _ = self.shared.report.set(report);
        self.shared.showing.send_replace(Showing::Ended);
        let began = Instant::now();
        while self.shared.fetched.load(Ordering::Relaxed) < looking && began.elapsed() < wait {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
