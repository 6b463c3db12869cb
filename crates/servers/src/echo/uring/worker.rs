//! A worker: a thread with one ring or several, which sleeps on the first.
//!
//! New connections go to one ring at a time, the one being filled, whichever listener they come from; the next ring is
//! begun when it is full. So a few connections share one ring however many there are, and no hash of the kernel's can
//! fill one ring while others have room. With all rings full nothing is accepted until a connection closes: who comes
//! then waits in the accept queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::opcode;
use io_uring::types::{Fd, TimeoutFlags, Timespec};
use rustix::event::{EventfdFlags, eventfd};

use super::ring::{Key, Op};
use super::table::{Shared, Table};
use crate::clock;
use crate::counters::{Counters, Published};
use crate::defects::beside::Carries;
use crate::limits;
use crate::stop::Stop;
use crate::timers::NEVER_NS;

/// Accepts with the kernel at once for each listener: as many connections can be let in a turn.
const ACCEPT_DEPTH: u32 = 16;
/// Connections of a ring asked whether they are idle, a turn, when the server ends.
const ASK_BATCH: usize = 512;
/// A connection is fast when its messages come at least this often.
const FAST_NS: u64 = 1_000_000_000;
/// Longest tick of the clock that idle times are measured with.
const TICK_NS_MAX: u64 = 1_000_000_000;
/// Tick while draining.
const DRAIN_TICK_NS: u64 = 10_000_000;

/// When connections that idle are looked for.
struct Sweep {
    every_ns: u64,
    next_ns: u64,
    /// Ticks without a move after which one is closed.
    ticks: u32,
}

enum Phase {
    Serving,
    /// Told to stop: who already stands in the accept queue is let in. Turns left, accepted before.
    LettingIn(usize, u64),
    Draining,
}

/// What a worker is given.
pub(super) struct Setup {
    pub(super) listeners: Vec<Arc<OwnedFd>>,
    pub(super) stop: Stop,
    pub(super) rings: usize,
    pub(super) slots: u32,
    pub(super) buffer_bytes: usize,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) published: Published,
}

/// See the module's head.
pub(super) struct Worker<C> {
    carries: C,
    tables: Vec<Table>,
    listeners: Vec<Arc<OwnedFd>>,
    stop: Stop,
    /// Signalled by the other rings than the first; the first watches it.
    event: Option<OwnedFd>,
    is_watching: bool,
    /// The table new connections go to.
    filling: usize,
    is_full: bool,
    shared: Shared,
    phase: Phase,
    now_ns: u64,
    tick_ns: u64,
    sweep: Option<Sweep>,
    /// When accepting goes on after a failure; [`NEVER_NS`] while there is none.
    accept_resume_ns: u64,
    drain_until_ns: u64,
    /// When the earliest timer with the kernel fires.
    timer_ns: u64,
    /// Read by the kernel when the timer is handed over.
    timer: Box<Timespec>,
    published: Published,
}

impl<C: Carries> Worker<C> {
    /// Makes all rings, for the calling thread.
    pub(super) fn new(setup: Setup, carries: C) -> io::Result<Self> {
        let idle_ns = setup.idle_timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NEVER_NS));
        let part_ns = idle_ns.map_or(NEVER_NS, |idle_ns| idle_ns / 64);
        let tick_ns = part_ns.clamp(1_000_000, TICK_NS_MAX);
        let now_ns = clock::monotonic_ns();
        let sweep = idle_ns.map(|idle_ns| {
            let every_ns = part_ns.max(tick_ns);
            // A timeout of more than 2^31 s is none.
            let ticks = u32::try_from(idle_ns.div_ceil(tick_ns)).unwrap_or(u32::MAX);
            Sweep { every_ns, next_ns: now_ns.saturating_add(every_ns), ticks }
        });
        let mut tables = Vec::with_capacity(setup.rings);
        for _ in 0..setup.rings {
            tables.push(Table::new(setup.slots, setup.listeners.len(), setup.buffer_bytes)?);
        }
        let mut event = None;
        if let [_, others @ ..] = &mut tables[..]
            && !others.is_empty()
        {
            let shared = event.insert(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            for table in others {
                table.ring().signal(shared.as_fd())?;
            }
        }
        let shared = Shared { fast_ticks: (FAST_NS / tick_ns) as u32, accept_changed: true, ..Shared::default() };
        Ok(Self {
            carries,
            tables,
            listeners: setup.listeners,
            stop: setup.stop,
            event,
            is_watching: false,
            filling: 0,
            is_full: false,
            shared,
            phase: Phase::Serving,
            now_ns,
            tick_ns,
            sweep,
            accept_resume_ns: NEVER_NS,
            drain_until_ns: NEVER_NS,
            timer_ns: NEVER_NS,
            timer: Box::new(Timespec::new()),
            published: setup.published,
        })
    }

    /// Serves until the stop is pulled and what was in flight is done, or `limits::DRAIN` is over.
    pub(super) fn run(mut self) -> io::Result<Counters> {
        self.watch(self.stop.as_fd().as_raw_fd(), Op::Stop);
        while !self.is_drained() {
            self.act();
            self.turn()?;
        }
        for table in &self.tables {
            self.shared.counters.cut_at_stop += u64::from(table.live());
            self.shared.counters.closed += u64::from(table.live());
        }
        self.published.sleep(&self.shared.counters);
        Ok(self.shared.counters)
    }

    fn watch(&mut self, fd: i32, op: Op) {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).build();
        // SAFETY: points to nothing.
        unsafe { self.tables[0].ring().push(entry, Key::new(op, 0)) };
    }

    /// What is due by the clock or by what happened.
    fn act(&mut self) {
        if let Some(sweep) = &mut self.sweep
            && sweep.next_ns <= self.now_ns
        {
            sweep.next_ns = self.now_ns.saturating_add(sweep.every_ns);
            for table in &mut self.tables {
                table.sweep(sweep.ticks, &mut self.shared);
            }
        }
        if std::mem::take(&mut self.shared.accept_failed) {
            self.accept_resume_ns = self.now_ns.saturating_add(limits::ACCEPT_PAUSE.as_nanos() as u64);
        }
        if self.accept_resume_ns <= self.now_ns {
            self.accept_resume_ns = NEVER_NS;
            self.shared.accept_changed = true;
        }
        match self.phase {
            Phase::Serving => self.steer(),
            Phase::LettingIn(turns, before) => {
                let accepted = self.shared.counters.accepted;
                if turns == 0 || accepted == before {
                    self.begin_drain();
                } else {
                    self.phase = Phase::LettingIn(turns - 1, accepted);
                    self.steer();
                }
            }
            Phase::Draining => {
                let mut is_asking = false;
                for table in &mut self.tables {
                    is_asking |= table.ask(ASK_BATCH, &self.shared);
                }
                if is_asking {
                    self.drain_until_ns = self.now_ns.saturating_add(limits::DRAIN.as_nanos() as u64);
                }
            }
        }
        self.set_timer();
    }

    /// Keeps accepts with the kernel, on the table that is being filled.
    fn steer(&mut self) {
        if self.accept_resume_ns != NEVER_NS || !std::mem::take(&mut self.shared.accept_changed) {
            return;
        }
        let listeners = (self.listeners.len() as u32).max(1);
        // Every listener gets as many of the free slots as the others: none can wait for ever behind a quiet one.
        let depth_of = |table: &Table| (table.free() / listeners).min(ACCEPT_DEPTH);
        let mut depth = depth_of(&self.tables[self.filling]);
        if depth == 0
            && let Some(emptiest) = (0..self.tables.len()).max_by_key(|index| self.tables[*index].free())
        {
            depth = depth_of(&self.tables[emptiest]);
            if depth > 0 {
                self.tables[self.filling].stop_accepting();
                self.filling = emptiest;
            }
        }
        let was_full = std::mem::replace(&mut self.is_full, depth == 0);
        self.shared.counters.accept_error += u64::from(self.is_full && !was_full);
        let table = &mut self.tables[self.filling];
        for (number, listener) in self.listeners.iter().enumerate() {
            table.accept(number, listener.as_fd(), depth);
        }
        if depth > 0 && !table.accepts_from_all() {
            // The free slots are taken by accepts of quiet listeners, from when there were more: deal them out anew
            // when these have ended.
            table.stop_accepting();
        }
    }

    /// Hands over what is queued on every ring that has something to do, and acts on what they bring. Sleeps, where no
    /// ring has.
    fn turn(&mut self) -> io::Result<()> {
        let is_idle = self.may_sleep();
        self.publish(is_idle);
        if !is_idle {
            self.read_clock();
        }
        for index in 0..self.tables.len() {
            let ring = self.tables[index].ring();
            let sleeps = is_idle && index == 0;
            if !sleeps && !ring.has_work() {
                continue;
            }
            ring.enter(u32::from(sleeps))?;
            if sleeps {
                self.published.wake();
                // What the sleep brought came now, not before it.
                self.read_clock();
            }
            self.tables[index].reap(&mut self.shared, &mut self.carries, |op| match op {
                Op::Stop => self.phase = Phase::LettingIn(limits::ACCEPT_BATCH, NEVER_NS),
                Op::Wake => self.is_watching = false,
                Op::Timer => self.timer_ns = NEVER_NS,
                _ => {}
            });
        }
        Ok(())
    }

    /// What is queued on the first ring is done when the sleep begins, and counted after it: the sends are published
    /// before. Those that take less end the sleep.
    fn publish(&self, is_idle: bool) {
        let mut counters = self.shared.counters;
        if is_idle {
            self.tables[0].count_queued_sends(&mut counters);
        }
        self.published.sleep(&counters);
        if !is_idle {
            self.published.wake();
        }
    }

    /// Whether only the first ring can bring something on. Another ring that has work after this signals the event.
    fn may_sleep(&mut self) -> bool {
        if !matches!(self.phase, Phase::Serving) && self.must_go_on() {
            return false;
        }
        let Some(event) = &self.event else { return true };
        let mut count = [0; 8];
        if !self.is_watching {
            // Forgets the signals for work that is already done; what comes after the look below signals anew.
            let _ = rustix::io::read(event, &mut count);
        }
        let event = event.as_raw_fd();
        if self.tables[1..].iter_mut().any(|table| table.ring().has_work()) {
            return false;
        }
        if !std::mem::replace(&mut self.is_watching, true) {
            self.watch(event, Op::Wake);
        }
        true
    }

    fn must_go_on(&self) -> bool {
        matches!(self.phase, Phase::LettingIn(..)) || self.tables.iter().any(Table::has_to_ask)
    }

    fn begin_drain(&mut self) {
        self.phase = Phase::Draining;
        self.shared.draining = true;
        for table in &mut self.tables {
            table.stop_accepting();
        }
        self.listeners.clear();
        self.accept_resume_ns = NEVER_NS;
        self.drain_until_ns = self.now_ns.saturating_add(limits::DRAIN.as_nanos() as u64);
        self.tick_ns = DRAIN_TICK_NS;
        self.read_clock();
        let ticks = limits::DRAIN_QUIET.as_nanos() as u64 / DRAIN_TICK_NS;
        self.sweep = Some(Sweep { every_ns: DRAIN_TICK_NS, next_ns: self.now_ns, ticks: ticks as u32 });
    }

    fn read_clock(&mut self) {
        self.now_ns = clock::monotonic_ns();
        self.shared.tick = (self.now_ns / self.tick_ns) as u32;
    }

    fn is_drained(&self) -> bool {
        let is_empty = || self.tables.iter().all(|table| table.live() == 0 && !table.is_accepting());
        matches!(self.phase, Phase::Draining) && (self.now_ns >= self.drain_until_ns || is_empty())
    }

    /// Sees that the first ring wakes at the next deadline. The timer stays with the kernel over many turns: a timeout
    /// for each sleep would be started and cancelled for each message.
    fn set_timer(&mut self) {
        let sweep_ns = self.sweep.as_ref().map_or(NEVER_NS, |sweep| sweep.next_ns);
        let next_ns = sweep_ns.min(self.accept_resume_ns).min(self.drain_until_ns);
        if next_ns >= self.timer_ns {
            return;
        }
        self.timer_ns = next_ns;
        *self.timer = Timespec::new().sec(next_ns / 1_000_000_000).nsec((next_ns % 1_000_000_000) as u32);
        let entry = opcode::Timeout::new(&raw const *self.timer).flags(TimeoutFlags::ABS).build();
        // SAFETY: the moment is boxed, lives as long as the ring, and is read when this is handed over in the turn
        // that follows; should that be delayed, a later moment is as good.
        unsafe { self.tables[0].ring().push(entry, Key::new(Op::Timer, 0)) };
    }
}
