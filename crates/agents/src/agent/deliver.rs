//! Hands over what an agent has for a run: states, ticks, its recording; in order, each acknowledged before the next.
//!
//! What is not acknowledged is sent again, with the same id, until it is; so a NATS node that dies, a cut link or a full disk delays it
//! and loses nothing. Ticks that wait are bounded: of more the oldest are left to the recording, which has them all. Once the load is
//! over there is an end to trying, and the recording stays where it is.

use super::Own;
use crate::document::hex;
use crate::error::AgentsError;
use crate::limits::{CHUNK_BYTES, DELIVER_FOR, DELIVER_HOPELESS_FOR, TICKS_WAITING_MAX};
use crate::message::{State, write};
use crate::subject;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Pauses between two attempts: at first, and at most.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// What is to be handed over.
enum Item {
    State(State),
    Tick(Vec<u8>),
    Recording(PathBuf),
}

/// Takes what is to be handed over; copies share one line.
#[derive(Clone)]
pub(super) struct Outbox {
    line: UnboundedSender<Item>,
    waiting: Arc<AtomicUsize>,
    left_out: Arc<AtomicUsize>,
}

/// How it goes.
#[derive(Debug, Default)]
pub(super) struct Way {
    trouble: Mutex<Option<String>>,
}

impl Way {
    /// Why nothing gets through at the moment.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

impl Outbox {
    /// A line, and who stands at its end.
    pub(super) fn new(own: &Arc<Own>, run: &str) -> (Self, Deliverer) {
        let (line, items) = unbounded_channel();
        let (waiting, left_out) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let outbox = Outbox { line, waiting: Arc::clone(&waiting), left_out: Arc::clone(&left_out) };
        let deliverer = Deliverer {
            own: Arc::clone(own),
            run: run.to_owned(),
            items,
            waiting,
            left_out,
            way: Arc::new(Way::default()),
            ticks: 0,
            states: 0,
        };
        (outbox, deliverer)
    }

    /// A line at whose end nobody stands.
    #[cfg(test)]
    pub(super) fn to_nobody() -> Self {
        Outbox { line: unbounded_channel().0, waiting: Arc::default(), left_out: Arc::default() }
    }

    /// How it fares.
    pub(super) fn state(&self, state: State) {
        // Nobody is at the end only when all is over.
        let _ = self.line.send(Item::State(state));
    }

    /// A tick, packed.
    pub(super) fn tick(&self, bytes: Vec<u8>) {
        if self.waiting.load(Ordering::Relaxed) >= TICKS_WAITING_MAX {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.line.send(Item::Tick(bytes));
    }

    /// Its recording; the last thing.
    pub(super) fn recording(&self, path: PathBuf) {
        let _ = self.line.send(Item::Recording(path));
    }
}

/// Hands over.
pub(super) struct Deliverer {
    own: Arc<Own>,
    run: String,
    items: UnboundedReceiver<Item>,
    waiting: Arc<AtomicUsize>,
    left_out: Arc<AtomicUsize>,
    pub(super) way: Arc<Way>,
    ticks: u64,
    states: u64,
}

impl Deliverer {
    /// Until everybody has left the line. `false`: not all of it could be handed over.
    pub(super) async fn deliver(mut self, load_ended: Arc<Mutex<Option<Instant>>>) -> bool {
        let mut is_whole = true;
        while let Some(item) = self.items.recv().await {
            let done = match item {
                Item::State(state) => self.state(&state, &load_ended).await,
                Item::Tick(bytes) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    let number = self.ticks;
                    self.ticks += 1;
                    self.put("tick", number, bytes, &load_ended).await
                }
                Item::Recording(path) => self.recording(&path, &load_ended).await,
            };
            is_whole &= done;
        }
        is_whole
    }

    async fn state(&mut self, state: &State, load_ended: &Mutex<Option<Instant>>) -> bool {
        let number = self.states;
        self.states += 1;
        self.put("state", number, write(state), load_ended).await
    }

    async fn recording(&mut self, path: &Path, load_ended: &Mutex<Option<Instant>>) -> bool {
        let Ok(mut file) = std::fs::File::open(path) else {
            self.way.set(Some(format!("its recording {} cannot be read", path.display())));
            return false;
        };
        let (mut digest, mut chunks, mut bytes) = (Sha256::new(), 0u64, 0u64);
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            if (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).is_err() {
                return false;
            }
            if chunk.is_empty() {
                break;
            }
            digest.update(&chunk);
            bytes += chunk.len() as u64;
            if !self.put("recording", chunks, chunk, load_ended).await {
                return false;
            }
            chunks += 1;
        }
        let ticks_left_out = self.left_out.load(Ordering::Relaxed) as u64;
        let state = State::Delivered { chunks, bytes, sha256: hex(&digest.finalize()), ticks_left_out };
        self.state(&state, load_ended).await
    }

    /// Puts one message into the stream, again and again until it is acknowledged or, after the load, there is no time left.
    async fn put(&self, what: &str, number: u64, body: Vec<u8>, load_ended: &Mutex<Option<Instant>>) -> bool {
        let name = &self.own.options.name;
        let subject = subject::of_agent(&self.run, name, what);
        let id = format!("{}/{name}/{what}/{number}", self.run);
        let [mut pause, longest] = AGAIN_AFTER;
        loop {
            let Err(why) = self.own.link.put(&subject, &id, body.clone()).await else {
                self.way.set(None);
                return true;
            };
            self.way.set(Some(format!("handing over its {what} failed: {}", crate::message::tamed(&why))));
            let ended = *load_ended.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(ended) = ended {
                let is_hopeless = why.contains("maximum bytes exceeded")
                    || matches!(self.own.link.stream_of(&self.run).await, Err(AgentsError::NoRun(_)));
                if ended.elapsed() > if is_hopeless { DELIVER_HOPELESS_FOR } else { DELIVER_FOR } {
                    return false;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }
}
