//! A few places in which requests are worked on, each asleep for a while: who finds none free waits, in user space.
//!
//! Servers with an event loop hand the request to a pool of threads, as those do that have one for blocking calls, and
//! go on receiving. Where each connection has a thread or process of its own, that one waits for a place itself, as for a
//! connection of a pool to a database.

use super::background::refused;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Setting, Strength};
use crate::defects::deferred::Done;
use crate::defects::hook::{Hook, Manner};
use crate::defects::server::Server;
use crate::defects::shared::{Among, Places};
use crate::error::ServeError;
use crate::options::ServeOptions;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// More threads than any server has for such work.
const SLOTS_MAX: u64 = 1024;

pub(super) const DEFECT: Defect = Defect {
    name: "pool-exhausted",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Time(Duration::from_millis(50)),
    parts: &[Part { name: "slots", default: Strength::Count(4) }],
    ways: &[],
    needs: &[Able::Requests, Able::Queues],
    about: "each request is given to one of so few threads (slots=4), which sleeps this long for it; the others wait for one, received and unanswered (not with --tls)",
    makes: "pool-exhausted: throughput stops at slots / time, latency is clients / throughput, no processor is used, and nothing is left unread in the sockets",
    see: "timeout 5 strace -f -c -e trace=futex,recvfrom -p PID under load; ss -tn 'sport = :PORT': Recv-Q is 0 while requests wait",
    make: |setting| Ok(Box::new(PoolExhausted::new(setting)?)),
};

#[derive(Debug)]
struct PoolExhausted {
    takes: Duration,
    slots: u32,
    /// For workers that wait themselves.
    places: Places,
    /// For those that hand over. Its threads are started when the first request may come.
    pool: Pool,
    started: Once,
}

/// Ended and waited for when dropped.
#[derive(Debug, Default)]
struct Pool {
    shared: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    came: Condvar,
    ends: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Done>,
    is_over: bool,
}

impl PoolExhausted {
    fn new(setting: Setting) -> Result<Self, ServeError> {
        let slots = setting.part("slots");
        if slots > SLOTS_MAX {
            return Err(ServeError::DefectPart {
                defect: setting.defect.name,
                part: "slots",
                expected: format!("{SLOTS_MAX} or less"),
                got: slots.to_string(),
            });
        }
        let slots = slots as u32;
        let places = places(&setting, Among::Processes, slots)?;
        Ok(Self { takes: setting.time(), slots, places, pool: Pool::default(), started: Once::new() })
    }
}

fn places(setting: &Setting, among: Among, slots: u32) -> Result<Places, ServeError> {
    Places::new(among, slots).map_err(|source| refused(setting, "make its places", source))
}

impl Hook for PoolExhausted {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        // A record that is sealed for one reply holds those behind it, whoever serves them.
        DEFECT.without_tls(options)
    }

    fn begin(&self) {
        self.started.call_once(|| self.pool.start(self.slots, self.takes));
    }

    fn manner(&self, manner: &mut Manner) {
        manner.hands_over = true;
    }

    fn hands_over(&self, done: Done) -> bool {
        self.pool.shared.push(done)
    }

    fn waits(&self) {
        self.places.within(|| std::thread::sleep(self.takes));
    }
}

impl Pool {
    /// As many threads as the machine lets there be.
    fn start(&self, slots: u32, takes: Duration) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..slots {
            let queue = Arc::clone(&self.shared);
            // They have no name of their own: as the worker is called that starts them, so are they.
            threads.extend(std::thread::Builder::new().spawn(move || queue.serve(takes)));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.came.notify_all();
        self.shared.ends.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic of it was printed; there is nothing else to learn from it.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False once it is over.
    fn push(&self, done: Done) -> bool {
        let mut state = self.state();
        state.waiting.push_back(done);
        self.came.notify_one();
        !state.is_over
    }

    fn serve(&self, takes: Duration) {
        let mut state = self.state();
        while !state.is_over {
            let Some(done) = state.waiting.pop_front() else {
                state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let until = Instant::now() + takes;
            while !state.is_over && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                state = self.ends.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            done.tell();
        }
    }
}
