//! What passes between a worker and its session: full intervals one way, empty ones back.
//!
//! Both channels are bounded and made beforehand; a worker never blocks on them. When no empty interval has come
//! back, it goes on filling the one it has, and nothing is lost but the resolution of a tick.

use crate::driver::Driver;
use model::Interval;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

pub use model::users::Tally;

/// Empty intervals a worker has beside the one it fills.
pub const SPARE_INTERVALS: usize = 1;

/// Messages of one worker that may lie in the channel: its intervals, one more that it may make at the end of the load,
/// its notes, and its last word.
pub const MESSAGES_MAX: usize = SPARE_INTERVALS + 2 + NOTES_MAX + 1;

/// Notes a worker sends at the most.
pub const NOTES_MAX: usize = 2;

/// From a worker to its session.
#[derive(Debug)]
pub enum Message {
    /// A tick has ended.
    Interval(Box<Interval>),
    /// Something worth an event of the recording.
    Note {
        /// When, nanoseconds since the run's start.
        at_ns: u64,
        /// What.
        note: Box<crate::driver::Note>,
    },
    /// The worker has ended; no more comes from it.
    Finished(Finished),
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its index.
    pub worker: u16,
    /// Requests started and without an end: sent, or still waiting for a connection.
    pub unfinished: u64,
    /// From when on requests are measured, nanoseconds since the run's start: the end of warm-up, or of the making of
    /// held connections. Not before `load_end_ns` where nothing was measured.
    pub measured_from_ns: u64,
    /// Held connections that were open when it stopped putting load on; `None` of other loads.
    pub held_at_end: Option<u64>,
    /// When it stopped putting load on: as planned, when told to, or when its last counted reply came.
    pub load_end_ns: u64,
    /// When its first request left, nanoseconds since the run's start.
    pub first_request_ns: Option<u64>,
    /// What each of its connections was asked and gave, warm-up excluded; empty where that is not counted.
    pub tallies: Vec<Tally>,
    /// Why it could not go on, if it could not.
    pub error: Option<String>,
}

/// Tells workers to stop.
#[derive(Debug, Clone, Default)]
pub struct Control {
    state: Arc<AtomicU8>,
    ramps_ended: Arc<AtomicUsize>,
    /// The factor of the planned rate, as bits, and from when on it is wanted; no bits: as planned.
    rate_bits: Arc<AtomicU64>,
    rate_from_ns: Arc<AtomicU64>,
}

impl Control {
    /// A control that says "go on".
    pub fn new() -> Self {
        Self::default()
    }

    /// No new requests; those in flight are waited for, shortly.
    pub fn stop(&self) {
        self.state.store(1, Ordering::Relaxed);
    }

    /// From a moment on an open pace goes on at so many times its planned rate. Workers know of it with their next tick, so the
    /// moment is that or later; and the moment before must be over, as each worker knows of one alone.
    pub fn set_rate(&self, from_ns: u64, factor: f64) {
        self.rate_from_ns.store(from_ns, Ordering::Relaxed);
        self.rate_bits.store(factor.to_bits(), Ordering::Release);
    }

    /// How many times the planned rate is wanted, and from when on; `None`: as planned.
    #[inline]
    pub fn rate(&self) -> Option<(u64, f64)> {
        match self.rate_bits.load(Ordering::Acquire) {
            0 => None,
            bits => Some((self.rate_from_ns.load(Ordering::Relaxed), f64::from_bits(bits))),
        }
    }

    /// No further connections: something gave while they were added.
    pub fn end_ramp(&self) {
        let _ = self.state.compare_exchange(0, 2, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether [`Control::end_ramp`] was called, or [`Control::stop`].
    #[inline]
    pub fn is_ramp_ended(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0
    }

    /// Workers that have made their share of held connections, or ended before.
    pub fn ramps_ended(&self) -> usize {
        self.ramps_ended.load(Ordering::Acquire)
    }

    /// Whether [`Control::stop`] was called.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) == 1
    }
}

/// A worker's share of the ramp: over when it says so, or when it is gone.
#[derive(Debug)]
pub struct Ramp {
    control: Control,
    is_over: bool,
}

impl Ramp {
    /// One that has begun.
    pub fn new(control: &Control) -> Self {
        Ramp { control: control.clone(), is_over: false }
    }

    /// Counts it as ended, once.
    pub fn end(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.control.ramps_ended.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Ramp {
    fn drop(&mut self) {
        // The others wait for all: not for one that has failed.
        self.end();
    }
}

/// A worker's end.
#[derive(Debug)]
pub struct WorkerLink {
    /// To the session.
    pub messages: SyncSender<Message>,
    /// Empty intervals from the session.
    pub empties: Receiver<Box<Interval>>,
    /// How the session tells it to stop.
    pub control: Control,
}

impl WorkerLink {
    /// Passes on what the driver has to tell, once.
    pub fn tell<D: Driver>(&self, driver: &mut D) {
        if let Some(note) = driver.take_note() {
            let at_ns = driver.now_ns();
            // There is room for the few notes a worker sends; one that finds none is not worth waiting for.
            let _ = self.messages.try_send(Message::Note { at_ns, note: Box::new(note) });
        }
    }
}
