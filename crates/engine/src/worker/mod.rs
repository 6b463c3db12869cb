//! One worker: the loop in which pace, source, machine, driver and stop meet. The only place that knows them all.
//!
//! Reap a batch of events, advance the machines, release what is due, hand over once, sleep until the next due moment.
//! After warm-up it does not allocate, lock, log or format. It owns everything it touches; full intervals leave and
//! empty ones come back over bounded channels. Time comes from the driver, randomness from a seed: on the simulated
//! driver a run is a function of that seed.

mod connection;
mod handshakes;
mod network;
mod requests;

use crate::driver::{Driver, Event, Slot, Wake};
use crate::link::{Finished, Message, WorkerLink};
use crate::pace::Schedule;
use crate::share::Share;
use crate::timers::{Timer, Timers};
use connection::{Connection, Outstanding, State};
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use model::plan::{OnFull, Pace, Plan, Think};
use model::{Interval, LatencyKind};
use network::Why;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::VecDeque;
use wire::Protocol;

/// The longest sleep: how late a worker may see that it was told to stop, nanoseconds.
const SLEEP_NS_MAX: u64 = 50_000_000;
/// Open pace: when the next request is due sooner than this, replies are taken then and not before, nanoseconds.
pub const REAP_DELAY_NS_MAX: u64 = 500_000;
/// How long requests in flight are waited for when the run was interrupted, nanoseconds.
const INTERRUPTED_DRAIN_NS: u64 = 200_000_000;
/// A piece of an interval shorter than this is not worth one of its own, nanoseconds.
const INTERVAL_NS_MIN: u64 = 1_000_000;
/// Due requests released before events are looked at again.
const RELEASE_BATCH: usize = 64;

/// A due request that waits for a connection.
#[derive(Debug, Clone, Copy)]
struct Pending {
    intended_ns: u64,
    ready_ns: u64,
}

/// What a worker keeps for each origin.
#[derive(Debug)]
struct OriginState {
    /// Index of its first address in the driver's list, and how many it has.
    addresses: (usize, u32),
    /// Open pace: connections that can take a request, with the life the place belongs to.
    free: VecDeque<(Slot, u32)>,
    /// Open pace: due requests that wait, oldest first.
    pending: VecDeque<Pending>,
}

/// One worker. See the module's head.
pub struct Worker<P: Protocol, D: Driver> {
    driver: D,
    protocol: P,
    link: WorkerLink,
    random: SmallRng,
    index: u16,

    connections: Vec<Connection<P::Connection>>,
    origins: Vec<OriginState>,
    origin_weights: Vec<f64>,
    timers: Timers,
    interval: Box<Interval>,

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
    wake: Wake,
    stamped_by_kernel: bool,
    /// The load is handshakes alone: see `handshakes`.
    handshake_only: bool,
    /// Whether the target sends tickets; `None`: not known yet.
    tickets_come: Option<bool>,

    warmup_ns: u64,
    load_end_ns: u64,
    drain_ns: u64,
    tick_ns: u64,
    next_tick_ns: u64,
    /// Measured requests this worker may still start.
    quota: u64,
    ends_by_count: bool,

    stopping: bool,
    in_flight: u64,
    /// Of those, the ones due after warm-up.
    in_flight_measured: u64,
    queued: u64,
    open: u64,
    first_request_ns: Option<u64>,
    last_reply_ns: u64,
    /// Requests that did not wait for a connection since the last tick: recorded together as a queue of zero.
    unqueued: u64,
    last_cpu_ns: (u64, u64),
    /// Requests that the protocol has written and that are sent together, while some are gathered.
    gathered: Vec<u8>,
    gathers: bool,
    /// Room for all that may be gathered.
    gathered_bytes: usize,
    error: Option<String>,
}

impl<P: Protocol, D: Driver> Worker<P, D> {
    /// A worker with its share of the plan.
    pub fn new(plan: &Plan, share: &Share, protocol: P, driver: D, link: WorkerLink) -> Self {
        let mut random = SmallRng::seed_from_u64(plan.seed ^ (u64::from(share.worker) << 48));
        let schedule = Schedule::of(&plan.pace, share.worker, plan.threads, &mut random);
        let mut first_address = 0;
        let mut origins = Vec::with_capacity(plan.origins.len());
        for origin in &plan.origins {
            let count = origin.addresses.len();
            let queue = if schedule.is_some() { plan.queue_capacity as usize } else { 0 };
            origins.push(OriginState {
                addresses: (first_address, count as u32),
                free: VecDeque::with_capacity(share.slots.len() * usize::from(plan.pipeline)),
                pending: VecDeque::with_capacity(queue),
            });
            first_address += count;
        }
        let handshake_only = plan.is_handshake_only();
        let connections = share.slots.iter().enumerate().map(|(i, origin)| Connection {
            state: State::Down,
            origin: *origin,
            address_turn: (i * usize::from(plan.threads) + usize::from(share.worker)) as u32,
            life: 0,
            protocol: protocol.connection(),
            outstanding: Outstanding::with_depth(plan.pipeline),
            sent: 0,
            answered: 0,
            failures: 0,
            waiting: if schedule.is_some() || handshake_only { 0 } else { plan.pipeline },
            waiting_since_ns: 0,
            connect_ns: 0,
            tcp_ns: 0,
            deadline_ns: u64::MAX,
            timer_ns: u64::MAX,
        });
        let longest = protocol.written_bytes_max();
        let gathered_bytes = (longest * usize::from(plan.pipeline)).min(requests::GATHERED_BYTES) + longest;
        let think = if let Pace::Closed { think } = plan.pace { think } else { Think::None };
        let timers_each = 3 + if think == Think::None { 0 } else { usize::from(plan.pipeline) };
        Worker {
            connections: connections.collect(),
            timers: Timers::with_capacity(share.slots.len() * timers_each + 16),
            interval: Box::new(Interval::new(share.worker)),
            origin_weights: plan.origins.iter().map(|o| o.weight).collect(),
            origins,
            driver,
            protocol,
            link,
            random,
            index: share.worker,
            is_open_pace: schedule.is_some(),
            schedule,
            next_due_ns: u64::MAX,
            think,
            on_full: plan.on_full,
            queue_capacity: plan.queue_capacity as usize,
            pipeline: plan.pipeline,
            requests_per_connection: plan.requests_per_connection.unwrap_or(u32::MAX),
            connect_timeout_ns: plan.timeouts.connect_ns,
            reply_timeout_ns: plan.timeouts.reply_ns,
            backoff_first_ns: plan.reconnect.first_ns,
            backoff_max_ns: plan.reconnect.max_ns,
            wake: plan.batch.map_or(Wake::First, |b| Wake::Batch { completions: b.completions, delay_ns: b.delay_ns }),
            stamped_by_kernel: plan.receive_stamps,
            handshake_only,
            tickets_come: None,
            warmup_ns: plan.warmup_ns,
            load_end_ns: plan.planned_ns().unwrap_or(u64::MAX),
            drain_ns: plan.drain_ns,
            tick_ns: plan.tick_ns,
            next_tick_ns: if plan.warmup_ns > 0 { plan.tick_ns.min(plan.warmup_ns) } else { plan.tick_ns },
            quota: share.requests.unwrap_or(u64::MAX),
            ends_by_count: share.requests.is_some(),
            stopping: false,
            in_flight: 0,
            in_flight_measured: 0,
            queued: 0,
            open: 0,
            first_request_ns: None,
            last_reply_ns: 0,
            unqueued: 0,
            last_cpu_ns: (0, 0),
            gathered: Vec::new(),
            gathers: false,
            gathered_bytes,
            error: None,
        }
    }

    /// Puts the load on, from the first connect to the last interval.
    pub fn run(mut self) {
        self.last_cpu_ns = self.driver.cpu_ns();
        if let Some(schedule) = &mut self.schedule {
            self.next_due_ns = schedule.next(&mut self.random);
        }
        let now_ns = self.driver.now_ns();
        for slot in 0..self.connections.len() as Slot {
            if self.handshake_only {
                self.slot_is_free(slot, now_ns);
            } else {
                self.connections[slot as usize].waiting_since_ns = now_ns;
                self.connect(slot, now_ns);
            }
        }
        loop {
            let (began_ns, now_ns) = self.turn();
            if self.is_over(now_ns) {
                break;
            }
            let (until_ns, wake) = self.sleep(now_ns);
            if let Err(error) = self.driver.wait(until_ns, wake) {
                self.error = Some(format!("the {} driver cannot wait: {error}", D::NAME));
                break;
            }
            self.interval.counts.wakeups += 1;
            // What came while we worked, or while we chose not to look, waited at most so long.
            let unseen_ns = match wake {
                Wake::First => 0,
                Wake::Batch { delay_ns, .. } => self.driver.now_ns().saturating_sub(now_ns).min(delay_ns),
                Wake::Never => self.driver.now_ns().saturating_sub(now_ns),
            };
            self.note_reap_delay(now_ns.saturating_sub(began_ns) + unseen_ns);
        }
        self.finish();
    }

    fn note_reap_delay(&mut self, delay_ns: u64) {
        if self.stamped_by_kernel {
            return;
        }
        let longest = &mut self.interval.gauges.reap_delay_ns_max;
        *longest = (*longest).max(delay_ns);
    }

    /// One turn of the loop, up to the sleep: events, timers, due requests, ticks. Returns when it began and ended.
    fn turn(&mut self) -> (u64, u64) {
        let (mut began_ns, mut stamp_ns) = (None, None);
        while let Some(event) = self.driver.next() {
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
                    self.release_due(now_ns);
                }
            }
        }
        let now_ns = stamp_ns.unwrap_or_else(|| self.driver.now_ns());
        while let Some((due_ns, slot, timer)) = self.timers.pop(now_ns) {
            self.on_timer(due_ns, slot, timer, now_ns);
        }
        if self.next_due_ns <= now_ns {
            self.release_due(now_ns);
        }
        if self.queued > 0 {
            self.expire_queued(now_ns);
        }
        if now_ns >= self.next_tick_ns {
            self.flush(now_ns);
        }
        self.look_whether_to_stop(now_ns);
        (began_ns.unwrap_or(now_ns), now_ns)
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
                if self.connections[slot as usize].state == State::Down && !self.stopping {
                    if self.handshake_only {
                        self.slot_is_free(slot, now_ns);
                    } else {
                        self.connect(slot, now_ns);
                    }
                }
            }
            Timer::Deadline => self.on_deadline(slot, due_ns, now_ns),
            Timer::Think => self.user_is_due(slot, due_ns, now_ns),
        }
    }

    /// How long to sleep, and what may wake it.
    fn sleep(&self, now_ns: u64) -> (u64, Wake) {
        let mut until_ns = self.timers.next_ns().min(self.next_tick_ns).min(now_ns + SLEEP_NS_MAX);
        if !self.stopping {
            until_ns = until_ns.min(self.load_end_ns);
        }
        if self.is_open_pace {
            until_ns = until_ns.min(self.next_due_ns);
            // Nobody waits for a connection and the next request is due soon: replies are taken then, which halves
            // the wake-ups. How late they are stamped is bounded, and in the report.
            // A handshake takes several round trips, each of which would wait.
            if !self.handshake_only && self.queued == 0 && self.next_due_ns <= now_ns + REAP_DELAY_NS_MAX {
                return (until_ns, Wake::Never);
            }
            return (until_ns, Wake::First);
        }
        (until_ns, self.wake)
    }

    fn look_whether_to_stop(&mut self, now_ns: u64) {
        let told = self.link.control.is_stopped();
        if self.stopping {
            if told {
                self.drain_ns = self.drain_ns.min(INTERRUPTED_DRAIN_NS);
            }
            return;
        }
        if told {
            self.drain_ns = self.drain_ns.min(INTERRUPTED_DRAIN_NS);
            self.load_end_ns = self.load_end_ns.min(now_ns);
        }
        if now_ns >= self.load_end_ns || (self.quota == 0 && self.in_flight == 0 && self.queued == 0) {
            self.stop_load(now_ns);
        }
    }

    fn stop_load(&mut self, now_ns: u64) {
        self.next_due_ns = u64::MAX;
        self.load_end_ns = if self.ends_by_count && self.quota == 0 {
            self.last_reply_ns.max(self.warmup_ns)
        } else {
            self.load_end_ns.min(now_ns)
        };
        // Users that wait for a connection have a request under way: it counts as one without an end.
        for connection in &mut self.connections {
            // Those that back off after a failure are not due yet.
            let is_due = (self.warmup_ns..=now_ns).contains(&connection.waiting_since_ns);
            if connection.waiting > 0 && is_due && self.quota > 0 {
                let waiting = u64::from(connection.waiting).min(self.quota);
                self.quota -= waiting;
                self.interval.counts.started += waiting;
                self.in_flight_measured += waiting;
            }
            connection.waiting = 0;
        }
        // What follows is the drain, in intervals of its own. A load that ends on a tick leaves nothing to hand over.
        if now_ns > self.interval.start_ns + INTERVAL_NS_MIN
            && let Ok(empty) = self.link.empties.try_recv()
        {
            self.hand_over(now_ns, empty);
        }
        self.stopping = true;
        self.interval.is_drain = true;
    }

    fn is_over(&self, now_ns: u64) -> bool {
        if !self.stopping {
            return false;
        }
        let nothing_left = self.in_flight == 0 && self.queued == 0;
        nothing_left || now_ns >= self.load_end_ns.saturating_add(self.drain_ns)
    }

    /// Hands the interval over, if an empty one is there to take its place.
    fn flush(&mut self, now_ns: u64) {
        let boundary_ns = self.next_tick_ns;
        self.next_tick_ns = (now_ns / self.tick_ns + 1) * self.tick_ns;
        // The end of warm-up is a boundary too, so that no interval has both sides of it.
        if self.warmup_ns > now_ns {
            self.next_tick_ns = self.next_tick_ns.min(self.warmup_ns);
        }
        let end_ns = boundary_ns.min(now_ns);
        if let Ok(empty) = self.link.empties.try_recv() {
            self.hand_over(end_ns, empty);
        }
    }

    fn hand_over(&mut self, end_ns: u64, mut empty: Box<Interval>) {
        self.complete_interval(end_ns);
        empty.worker = self.index;
        empty.start_ns = end_ns;
        empty.is_drain = self.stopping;
        empty.sequence = self.interval.sequence + 1;
        let full = std::mem::replace(&mut self.interval, empty);
        // The channel holds as many messages as there are intervals: it cannot be full. A session that is gone is
        // seen by the control.
        let _ = self.link.messages.try_send(Message::Interval(full));
    }

    fn complete_interval(&mut self, end_ns: u64) {
        let cpu_ns = self.driver.cpu_ns();
        let interval = &mut *self.interval;
        interval.end_ns = end_ns.max(interval.start_ns);
        interval.counts.cpu_user_ns += cpu_ns.0.saturating_sub(self.last_cpu_ns.0);
        interval.counts.cpu_system_ns += cpu_ns.1.saturating_sub(self.last_cpu_ns.1);
        self.last_cpu_ns = cpu_ns;
        // Of handshakes alone those that are being made count too: there is hardly another.
        interval.gauges.connections = if self.handshake_only { self.in_flight + self.open } else { self.open };
        interval.gauges.in_flight = self.in_flight;
        interval.gauges.queued = self.queued;
        if self.unqueued > 0 {
            interval.latency.record_n(LatencyKind::Queue, 0, self.unqueued.min(u64::from(u32::MAX)) as u32);
            self.unqueued = 0;
        }
    }

    fn finish(mut self) {
        let now_ns = self.driver.now_ns();
        for slot in 0..self.connections.len() as Slot {
            self.driver.close(slot);
        }
        self.complete_interval(now_ns);
        let queued =
            self.origins.iter().flat_map(|o| &o.pending).filter(|p| p.intended_ns >= self.warmup_ns).count() as u64;
        let finished = Finished {
            measured_from_ns: self.warmup_ns,
            held_at_end: None,
            worker: self.index,
            in_flight: self.in_flight_measured + queued,
            load_end_ns: if self.load_end_ns == u64::MAX { now_ns } else { self.load_end_ns },
            first_request_ns: self.first_request_ns,
            error: self.error.take(),
        };
        // The last two messages may wait for room: the load is over.
        let _ = self.link.messages.send(Message::Interval(self.interval));
        let _ = self.link.messages.send(Message::Finished(finished));
    }

    fn count_failure(&mut self, kind: ErrorKind, phase: Phase, errno: i32, detail: u32, origin: u16, at_ns: u64) {
        self.interval.counts.failed += 1;
        self.interval.record_error(ErrorExample { kind, phase, errno, detail, at_ns, origin });
    }
}
