//! Between the connections and the store: requests wait here while it works, and perhaps while it is down.
//!
//! One `Wake` is sent when the store has nothing to do and something comes; it then takes all there is, again and
//! again, so that a batch grows with the load. A connection has one job here at most: that bounds the queue.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::command::Op;

/// Tells the store that jobs are there.
pub(super) struct Wake;

/// Requests of one connection, in order.
pub(super) struct Job {
    /// Its number, by which it can be withdrawn.
    pub(super) id: u64,
    pub(super) ops: Vec<Op>,
    /// Those before were done, and their replies are in `out`.
    pub(super) next: usize,
    pub(super) out: Vec<u8>,
    /// Of the replies, the ones that are errors.
    pub(super) refused: u64,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// A job that comes back: done, or as far as it went.
pub(super) struct Answer {
    pub(super) ops: Vec<Op>,
    pub(super) next: usize,
    pub(super) out: Vec<u8>,
    pub(super) refused: u64,
    pub(super) end: End,
}

/// Why a job came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The store worked on it; what is not done it can be given again.
    Worked,
    /// The operation at `next` crashed the store.
    Crashed,
    /// The store is down.
    Down,
}

impl Job {
    /// Gives the job back to its connection, if that is still there.
    pub(super) fn finish(self, end: End) {
        let Job { ops, next, out, refused, answer, .. } = self;
        let _ = answer.send(Answer { ops, next, out, refused, end });
    }
}

/// The queue.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Jobs held while the store is down.
    held_max: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Where the store is woken; `None` while it is down.
    store: Option<ActorRef<Wake>>,
    /// It has been sent a `Wake` and has not yet found the queue empty.
    woken: bool,
}

impl Queue {
    /// `held_max`: jobs held while the store is down; 0: they come back at once.
    pub(super) fn new(held_max: usize) -> Self {
        Self { state: Mutex::default(), held_max }
    }

    /// Hands a job over, or back where the store is down and no more are held.
    pub(super) fn submit(&self, job: Job) -> Result<(), Job> {
        let mut state = self.lock();
        if state.store.is_none() && state.jobs.len() >= self.held_max {
            return Err(job);
        }
        state.jobs.push_back(job);
        state.wake();
        Ok(())
    }

    /// Takes a job back that the store has not taken.
    pub(super) fn withdraw(&self, id: u64) -> Option<Job> {
        let mut state = self.lock();
        let at = state.jobs.iter().position(|job| job.id == id)?;
        state.jobs.remove(at)
    }

    /// Moves all jobs into `jobs`, which must be empty. Where there are none, the next job wakes the store.
    pub(super) fn take(&self, jobs: &mut VecDeque<Job>) {
        let mut state = self.lock();
        std::mem::swap(&mut state.jobs, jobs);
        state.woken = !jobs.is_empty();
    }

    /// The store is up again; it is woken if jobs were held.
    pub(super) fn store_is_up(&self, store: ActorRef<Wake>) {
        let mut state = self.lock();
        state.store = Some(store);
        state.woken = false;
        if !state.jobs.is_empty() {
            state.wake();
        }
    }

    /// The store is down, and did not touch `untouched`, which came before all that wait.
    pub(super) fn store_is_down(&self, mut untouched: VecDeque<Job>) {
        let mut state = self.lock();
        state.store = None;
        state.woken = false;
        untouched.append(&mut state.jobs);
        let held = self.held_max.min(untouched.len());
        let back = untouched.split_off(held);
        state.jobs = untouched;
        drop(state);
        back.into_iter().for_each(|job| job.finish(End::Down));
    }

    /// Whether the store is up.
    pub(super) fn is_up(&self) -> bool {
        self.lock().store.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&mut self) {
        if self.woken {
            return;
        }
        if let Some(store) = &self.store {
            // A store that is gone is reported by its supervisor, which wakes the next.
            self.woken = store.cast(Wake).is_ok();
        }
    }
}
