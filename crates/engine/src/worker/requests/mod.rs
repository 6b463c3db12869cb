//! One worker of requests: the loop in which pace, source, machine, driver and stop meet. The only place that knows them
//! all.
//!
//! Reap a batch of events, advance the machines, release what is due, hand over once, sleep until the next due moment.
//! After warm-up it does not allocate, lock, log or format. It owns everything it touches; its books are the
//! [`Ledger`]'s. Time comes from the driver, randomness from a seed: on the simulated driver a run is a function of that
//! seed.

mod connection;
mod frames;
mod gathered;
mod handshakes;
mod life;
mod network;
mod retries;
mod seen;

use super::Work;
use crate::driver::{Driver, Event, Slot, Wake, ahead};
use crate::ledger::{Ledger, SLEEP_NS_MAX};
use crate::link::{Tally, WorkerLink};
use crate::pace::Schedule;
use crate::share::Share;
use crate::timers::{Timer, Timers};
use connection::{Connection, Outstanding, Said, State};
use gathered::Gathered;
use model::Request;
use model::error_kind::{ErrorExample, Phase};
use model::plan::{OnFull, Pace, Plan, Think};
use network::Why;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use retries::Retries;
use seen::Seen;
use std::cell::Cell;
use std::collections::VecDeque;
use wire::{Protocol, Stream};

/// Open pace: when the next request is due sooner than this, replies are taken then and not before, nanoseconds.
pub const REAP_DELAY_NS_MAX: u64 = 500_000;
/// Due requests released before events are looked at again.
const RELEASE_BATCH: usize = 64;
/// First connects begun in a turn: more at once would keep the loop from what is due meanwhile.
const CONNECTS_A_TURN: usize = 64;
/// First connects under way at once, per worker: more would only fill the target's queue of connections to be accepted.
const CONNECTING_MAX: u64 = 256;

/// A due request that waits for a connection.
#[derive(Debug, Clone, Copy)]
struct Pending {
    intended_ns: u64,
    ready_ns: u64,
    /// The place of what is known of earlier attempts; [`retries::NONE`]: there was none.
    retry: u32,
}

/// What a worker keeps for each origin.
#[derive(Debug)]
struct OriginState {
    /// Index of its first address in the driver's list, and how many it has.
    addresses: (usize, u32),
    /// Open pace: its share of what this worker draws; 0 where the worker has no connection to it.
    weight: f64,
    /// Open pace: connections that can take a request, with the life the place belongs to.
    free: VecDeque<(Slot, u32)>,
    /// Open pace: due requests that wait, oldest first.
    pending: VecDeque<Pending>,
}

/// One worker. See the module's head.
///
/// It carries protocols of byte streams:
/// ```
/// fn carries<P: wire::Protocol<Transport = wire::Stream>>(_: engine::worker::requests::Worker<P, engine::driver::sim::Sim>) {}
/// ```
/// A protocol of datagrams does not compile with it:
/// ```compile_fail
/// fn carries<P: wire::Protocol<Transport = wire::Datagrams>>(_: engine::worker::requests::Worker<P, engine::driver::sim::Sim>) {}
/// ```
pub struct Worker<P: Protocol<Transport = Stream>, D: Driver> {
    driver: D,
    protocol: P,
    ledger: Ledger,
    random: SmallRng,
    seed: u64,

    connections: Vec<Connection<P::Connection, P::Request>>,
    origins: Vec<OriginState>,
    timers: Timers,

    schedule: Option<Schedule>,
    next_due_ns: u64,
    think: Think,
    is_open_pace: bool,
    on_full: OnFull,
    queue_capacity: usize,
    pipeline: u16,
    requests_per_connection: u32,
    connect_timeout_ns: u64,
    reply_timeout_ns: u64,
    backoff_first_ns: u64,
    backoff_max_ns: u64,
    /// Whether one connection of this worker tries again soon while there is none: see `network`.
    looks_out: bool,
    /// Until when its attempts are of the lookout alone.
    lookout_until_ns: u64,
    wake: Wake,
    stamped_by_kernel: bool,
    /// Closed pace: a reply's stamp serves as the moment of the request that follows it. Each read is stamped; or replies
    /// are reaped in batches, whose requests leave together when all have been looked at: their moment is then early by
    /// that work, so the service time is never flattered, and the clock is not read for each.
    reply_stamps_serve: bool,
    /// The load is handshakes alone: see `handshakes`.
    handshake_only: bool,
    /// Whether the target sends tickets; `None`: not known yet.
    tickets_come: Option<bool>,

    /// When the load ends at the latest.
    load_end_ns: u64,
    /// Measured requests this worker may still start, and could at first.
    quota: u64,
    quota_at_first: u64,
    ends_by_count: bool,
    /// The first connection whose first connect has not begun.
    unmade: Slot,
    /// Connections whose connect is under way.
    connecting: u64,
    /// When the loop is to look again at the latest.
    wakes_ns: u64,
    /// What the protocol has written and is sent together.
    gathered: Gathered,
    /// Requests between two attempts.
    retries: Retries<P::Request>,
    /// Closed pace: users of the connection at hand whose request has failed and is to be tried again: they are not free.
    held_back: u16,
}

impl<P: Protocol<Transport = Stream>, D: Driver> Worker<P, D> {
    /// A worker with its share of the plan.
    pub fn new(plan: &Plan, share: &Share, protocol: P, driver: D, link: WorkerLink) -> Self {
        let seed = plan.seed ^ (u64::from(share.worker) << 48);
        let mut random = SmallRng::seed_from_u64(seed);
        let schedule = Schedule::of(&plan.pace, share.arrivals, &mut random);
        let mut first_address = 0;
        let mut origins = Vec::with_capacity(plan.origins.len());
        for (origin, weight) in plan.origins.iter().zip(&share.origin_weights) {
            let count = origin.addresses.len();
            let queue = if schedule.is_some() { plan.queue_capacity as usize } else { 0 };
            origins.push(OriginState {
                addresses: (first_address, count as u32),
                weight: *weight,
                free: VecDeque::with_capacity(share.slots.len() * usize::from(plan.pipeline)),
                pending: VecDeque::with_capacity(queue),
            });
            first_address += count;
        }
        let handshake_only = plan.is_handshake_only();
        let requests_per_connection = plan.requests_per_connection.unwrap_or(u32::MAX);
        let gathered = Gathered::new(protocol.written_bytes_max(), if P::FRAMED { u16::MAX } else { plan.pipeline });
        let connections = share.slots.iter().map(|slot| Connection {
            state: State::Down,
            origin: slot.origin,
            address_turn: slot.turn,
            life: 0,
            protocol: protocol.connection(),
            outstanding: Outstanding::with_depth(plan.pipeline),
            sent: 0,
            limit: requests_per_connection,
            given: 0,
            answered: 0,
            before_ns: 0,
            failures: 0,
            waiting: 0,
            waiting_since_ns: 0,
            retry: retries::NONE,
            connect_ns: 0,
            tcp_ns: 0,
            deadline_ns: u64::MAX,
            timer_ns: u64::MAX,
            tally: Tally { waits_since_ms: u32::MAX, ..Tally::default() },
            heard_ns: 0,
            said: Said::default(),
            local: Cell::default(),
        });
        let think = if let Pace::Closed { think } = plan.pace { think } else { Think::None };
        let timers_each = 3 + if think == Think::None { 0 } else { usize::from(plan.pipeline) };
        let retries = Retries::new(plan, share.slots.len(), schedule.is_some());
        Worker {
            connections: connections.collect(),
            timers: Timers::with_capacity(share.slots.len() * timers_each + retries.room() + 16),
            origins,
            driver,
            protocol,
            ledger: Ledger::new(plan, share.index, link, plan.warmup_ns),
            random,
            seed,
            is_open_pace: schedule.is_some(),
            schedule,
            next_due_ns: u64::MAX,
            think,
            on_full: plan.on_full,
            queue_capacity: plan.queue_capacity as usize,
            pipeline: plan.pipeline,
            requests_per_connection,
            connect_timeout_ns: plan.timeouts.connect_ns,
            reply_timeout_ns: plan.timeouts.reply_ns,
            backoff_first_ns: plan.reconnect.first_ns,
            backoff_max_ns: plan.reconnect.max_ns,
            looks_out: share.index == 0 && !handshake_only,
            lookout_until_ns: 0,
            wake: plan.batch.map_or(Wake::First, |b| Wake::Batch { completions: b.completions, delay_ns: b.delay_ns }),
            stamped_by_kernel: plan.receive_stamps,
            reply_stamps_serve: (D::STAMPS_EACH_READ || plan.batch.is_some()) && !plan.receive_stamps,
            handshake_only,
            tickets_come: None,
            load_end_ns: plan.planned_ns().unwrap_or(u64::MAX),
            quota: share.requests.unwrap_or(u64::MAX),
            quota_at_first: share.requests.unwrap_or(u64::MAX),
            ends_by_count: share.requests.is_some(),
            unmade: 0,
            connecting: 0,
            wakes_ns: u64::MAX,
            gathered,
            retries,
            held_back: 0,
        }
    }

    /// Begins the first connects, a bounded number at a time; one whose place is free is not waited for by others.
    fn make_connections(&mut self, now_ns: u64) {
        for _ in 0..CONNECTS_A_TURN {
            if self.unmade as usize >= self.connections.len() || self.connecting >= CONNECTING_MAX {
                return;
            }
            let slot = self.unmade;
            self.unmade += 1;
            if self.handshake_only {
                self.slot_is_free(slot, now_ns);
                continue;
            }
            if !self.is_open_pace {
                // Its users come when their connection is begun.
                let connection = &mut self.connections[slot as usize];
                connection.waiting = self.pipeline;
                connection.waiting_since_ns = now_ns;
            }
            self.connect(slot, now_ns);
        }
    }

    /// Whether the next first connects may begin without anything else happening.
    fn makes_more(&self) -> bool {
        (self.unmade as usize) < self.connections.len() && self.connecting < CONNECTING_MAX
    }

    /// One turn of the loop, up to the sleep: events, timers, due requests, ticks. Returns when it began and ended.
    fn turn(&mut self) -> (u64, u64) {
        let (mut began_ns, mut stamp_ns) = (None, None);
        while let Some(event) = self.driver.next() {
            if let Some(connection) = self.driver.upcoming().and_then(|slot| self.connections.get(slot as usize)) {
                ahead::fetch(connection);
            }
            if D::STAMPS_EACH_READ
                && !self.stamped_by_kernel
                && let Event::Received { at_ns, .. } = event
            {
                stamp_ns = Some(at_ns);
            } else {
                stamp_ns = None;
            }
            if began_ns.is_none() {
                began_ns = Some(stamp_ns.unwrap_or_else(|| self.driver.now_ns()));
            }
            self.on_event(event);
            if self.is_open_pace {
                // A long batch of replies must not hold up what is due.
                let now_ns = self.driver.now_ns();
                if self.next_due_ns <= now_ns {
                    self.release_due(now_ns, RELEASE_BATCH);
                }
            }
        }
        let now_ns = stamp_ns.unwrap_or_else(|| self.driver.now_ns());
        if (self.unmade as usize) < self.connections.len() && !self.ledger.is_load_over() {
            self.make_connections(now_ns);
        }
        while let Some((due_ns, slot, timer)) = self.timers.pop(now_ns) {
            self.on_timer(due_ns, slot, timer, now_ns);
        }
        self.follow_rate();
        if self.next_due_ns <= now_ns {
            self.release_due(now_ns, RELEASE_BATCH);
        }
        if self.ledger.queued() > 0 {
            self.expire_queued(now_ns);
        }
        let connections = self.connections_now();
        if self.ledger.tick(&mut self.driver, connections, now_ns) {
            self.forget_tallies();
        }
        self.look_whether_to_stop(now_ns);
        (began_ns.unwrap_or(now_ns), now_ns)
    }

    /// Connections there are. Of handshakes alone those that are being made count too: there is hardly another.
    fn connections_now(&self) -> u64 {
        if self.handshake_only { self.ledger.in_flight() + self.ledger.open() } else { self.ledger.open() }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Received { slot, at_ns } => self.on_received(slot, at_ns),
            Event::Connected { slot } => self.on_connected(slot),
            Event::ConnectFailed { slot, errno } => self.on_connect_failed(slot, Why::errno(errno, Phase::Connect)),
            Event::Handshaking { slot } => self.on_handshaking(slot),
            Event::Secured { slot, resumed, ticket_follows } => self.on_secured(slot, resumed, ticket_follows),
            Event::Ticket { slot } => self.on_ticket(slot),
            Event::Refused { slot, detail, in_handshake } => self.on_refused(slot, detail, in_handshake),
            Event::Drained { .. } => {}
            Event::Closed { slot } => self.on_closed(slot, false),
            Event::Truncated { slot } => self.on_closed(slot, true),
            Event::Failed { slot, errno } => self.on_broken(slot, errno),
        }
    }

    fn on_timer(&mut self, due_ns: u64, slot: Slot, timer: Timer, now_ns: u64) {
        match timer {
            Timer::Connect => {
                if self.connections[slot as usize].state == State::Down && !self.ledger.is_load_over() {
                    if self.handshake_only {
                        self.slot_is_free(slot, now_ns);
                    } else {
                        self.connect(slot, now_ns);
                    }
                }
            }
            Timer::Deadline => self.on_deadline(slot, due_ns, now_ns),
            // A loop that wakes late must not start what is due after the end.
            Timer::Retry => self.retry_is_due(slot, now_ns),
            Timer::Think if due_ns < self.load_end_ns => self.user_is_due(slot, due_ns, now_ns),
            Timer::Think => {}
        }
    }

    /// How long to sleep, and what may wake it.
    fn sleep(&self, now_ns: u64) -> (u64, Wake) {
        let mut until_ns = self.timers.next_ns().min(self.ledger.next_tick_ns()).min(now_ns + SLEEP_NS_MAX);
        if self.makes_more() && !self.ledger.is_load_over() {
            return (now_ns, Wake::First);
        }
        if !self.ledger.is_load_over() {
            until_ns = until_ns.min(self.load_end_ns);
        }
        if self.is_open_pace {
            until_ns = until_ns.min(self.next_due_ns);
            // Nobody waits for a connection and the next request is due soon: replies are taken then, which halves
            // the wake-ups. How late they are stamped is bounded, and in the report.
            // A handshake takes several round trips, each of which would wait.
            let is_due_soon = self.next_due_ns <= now_ns + REAP_DELAY_NS_MAX;
            if !self.handshake_only && self.ledger.queued() == 0 && is_due_soon {
                return (until_ns, Wake::Never);
            }
            return (until_ns, Wake::First);
        }
        (until_ns, self.wake)
    }

    fn look_whether_to_stop(&mut self, now_ns: u64) {
        if self.ledger.is_load_over() {
            return;
        }
        if self.ledger.control().is_stopped() {
            self.load_end_ns = self.load_end_ns.min(now_ns);
        }
        let nothing_waits = self.ledger.queued() == 0 || self.protocol.is_used_up();
        let nothing_to_start = self.quota == 0 || self.protocol.is_used_up();
        let nothing_waits = nothing_waits && (self.retries.len() == 0 || self.protocol.is_used_up());
        let all_is_done = nothing_to_start && nothing_waits && self.ledger.in_flight() == 0;
        if now_ns >= self.load_end_ns || all_is_done {
            self.stop_load(now_ns);
        }
    }

    fn stop_load(&mut self, now_ns: u64) {
        if self.is_open_pace {
            self.release_the_last(now_ns);
        }
        let load_end_ns = if (self.ends_by_count && self.quota == 0) || self.protocol.is_used_up() {
            self.ledger.last_end_ns().max(self.ledger.measured_from_ns())
        } else {
            self.load_end_ns.min(now_ns)
        };
        for slot in 0..self.connections.len() as Slot {
            self.waiting_users_are_the_last(slot, now_ns);
        }
        let connections = self.connections_now();
        self.ledger.end_load(&mut self.driver, connections, load_end_ns, now_ns);
        self.next_due_ns = u64::MAX;
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        if !self.ledger.is_load_over() {
            return false;
        }
        let nothing_waits = self.ledger.queued() == 0 || self.protocol.is_used_up();
        let nothing_left = self.ledger.in_flight() == 0 && nothing_waits;
        nothing_left || now_ns >= self.ledger.drain_end_ns()
    }

    /// Measuring begins: what connections gave in warm-up is not theirs.
    #[cold]
    fn forget_tallies(&mut self) {
        for connection in &mut self.connections {
            connection.tally.forget(connection.sent, connection.answered);
        }
    }

    /// An example of a failure, as facts.
    fn example(why: Why, origin: u16, at_ns: u64) -> ErrorExample {
        let Why { kind, phase, errno, detail, unsent_bytes } = why;
        ErrorExample { kind, phase, errno, detail, unsent_bytes, at_ns, origin }
    }
}

impl<P: Protocol<Transport = Stream>, D: Driver> Work for Worker<P, D> {
    fn begin(&mut self, origin_ns: u64) {
        self.driver.begin(origin_ns);
        self.ledger.begin(&mut self.driver);
        if let Some(schedule) = &mut self.schedule {
            self.next_due_ns = schedule.next(&mut self.random);
        }
    }

    fn step(&mut self) -> bool {
        let to_begin_ns = self.wakes_ns;
        let (began_ns, now_ns) = self.turn();
        self.ledger.turned(&mut self.driver, to_begin_ns, began_ns, now_ns);
        if self.is_over(now_ns) {
            return false;
        }
        let (until_ns, wake) = self.sleep(now_ns);
        if let Err(error) = self.driver.wait(until_ns, wake) {
            self.ledger.fail(format!("the {} driver cannot wait: {error}", D::NAME));
            return false;
        }
        self.wakes_ns = until_ns.max(now_ns);
        if !self.stamped_by_kernel {
            // What came while we worked, or while we chose not to look, waited at most so long.
            let unseen_ns = match wake {
                Wake::First => 0,
                Wake::Batch { delay_ns, .. } => self.driver.now_ns().saturating_sub(now_ns).min(delay_ns),
                Wake::Never => self.driver.now_ns().saturating_sub(now_ns),
            };
            self.ledger.reap_delay(now_ns.saturating_sub(began_ns) + unseen_ns);
        }
        true
    }

    fn finish(mut self: Box<Self>) {
        let now_ns = self.driver.now_ns();
        let is_stopped_early = !self.ledger.is_load_over();
        if is_stopped_early {
            // The driver gave up: what was asked for until now is all there is.
            self.load_end_ns = self.load_end_ns.min(now_ns);
            self.stop_load(now_ns);
        }
        for slot in 0..self.connections.len() as Slot {
            self.waiting_users_are_unfinished(slot, now_ns);
            let requests = self.connections[slot as usize].outstanding.iter();
            for request in requests {
                let seen = Seen::of(&self.driver, &self.protocol, &self.connections, &self.origins, slot, request, 0);
                self.ledger.unfinished(&request.stamps, now_ns, &seen);
            }
            let connection = &mut self.connections[slot as usize];
            for request in connection.outstanding.iter() {
                if self.ledger.is_measured(request.stamps.intended_ns) {
                    connection.tally.waits_for(request.stamps.intended_ns);
                }
            }
            self.driver.close(slot);
        }
        for (origin, number) in self.origins.iter().zip(0..) {
            let known = Request { origin: number, ..Request::default() };
            for pending in origin.pending.iter().filter(|pending| pending.retry == retries::NONE) {
                self.ledger.unfinished_unsent(pending.intended_ns, pending.ready_ns, now_ns, &known);
            }
        }
        self.retries_are_unfinished(now_ns);
        let tallies = self.connections.iter().map(Connection::tally_at_end).collect();
        let Worker { mut driver, ledger, .. } = *self;
        ledger.finish(&mut driver, None, tallies);
    }

    fn now_ns(&mut self) -> u64 {
        self.driver.now_ns()
    }
}
