//! A worker's books, kept once for every kind of worker: what was due, sent, answered, failed and left over, tick by
//! tick, and how the worker's own turns went.
//!
//! The ledger owns the interval under way and decides when it is cut: at each tick, at the end of warm-up, at the end of
//! the load. Counters, histograms and the link to the session are touched here and nowhere else. It knows no sockets and
//! no clock: every moment is passed in. After warm-up it does not allocate, lock, log or format.
//!
//! Accounting, over a run: `started = ok + failed + unfinished`; what was dropped or never taken up was not started.
//! Requests due before measuring began are warm-up: they are counted apart, and in rates only where they end after it.

mod failing;
mod outage;
pub mod picking;
mod room;
mod stamps;

pub use room::{recorded, reserve};
pub use stamps::Stamps;

use crate::driver::{Driver, Wake};
use crate::link::{Control, Finished, Message, Tally, WorkerLink};
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use model::interval::{Counts, LATE_NS_MIN};
use model::plan::Plan;
use model::request::Gap;
use model::{Histogram, Interval, LatencyKind};
use outage::Outages;
use picking::{Picking, Witness};
use room::{can_be_late, reserved};

/// The longest sleep of a worker: how late it may see that it was told to stop, nanoseconds.
pub const SLEEP_NS_MAX: u64 = 50_000_000;
/// How long requests in flight are waited for when the run was interrupted, nanoseconds.
const INTERRUPTED_DRAIN_NS: u64 = 200_000_000;
/// At the end of the load a request that is so little overdue is still sent, nanoseconds; what is later was not taken up
/// in time.
pub const OVERDUE_NS_MAX: u64 = 10 * LATE_NS_MIN;
/// A piece of an interval shorter than this in which nothing happened is not worth one of its own, nanoseconds.
const INTERVAL_NS_MIN: u64 = 1_000_000;

/// The kinds of latency that are one figure of a plain request.
const PLAIN: [LatencyKind; 3] = [LatencyKind::Response, LatencyKind::Service, LatencyKind::FirstByte];

/// One worker's books. See the module's head.
#[derive(Debug)]
pub struct Ledger {
    link: WorkerLink,
    worker: u16,
    interval: Box<Interval>,
    tick_ns: u64,
    next_tick_ns: u64,
    /// The end of warm-up is a boundary of intervals; 0: there is none.
    warmup_ns: u64,
    measured_from_ns: u64,
    load_end_ns: u64,
    drain_ns: u64,
    is_load_over: bool,
    /// Whether requests have a moment to be late for, so that lag is not zero by definition.
    can_be_late: bool,

    /// Requests sent and without an end.
    in_flight: u64,
    /// Started, measured, and without an end: sent, or waiting for a connection.
    unfinished: u64,
    queued: u64,
    open: u64,
    first_request_ns: Option<u64>,
    last_end_ns: u64,
    /// Requests that did not wait for a connection since the last cut: recorded together as a queue of zero.
    unqueued: u64,
    /// Times of requests that were sent when they were due and answered in one piece, since the last cut: response time,
    /// service time and first byte are one figure then, and are recorded together.
    plain: Histogram<u32>,
    /// Which single requests are kept.
    picking: Picking,
    /// Since when nothing succeeds.
    outages: Outages,

    /// User and system CPU time, and time spent runnable without a CPU, at the last cut.
    cpu_ns: (u64, u64),
    cpu_wait_ns: u64,
    /// CPU time when a long turn was last looked at.
    turn_cpu_ns: u64,
    error: Option<String>,
}

impl Ledger {
    /// Empty books of a worker. `measured_from_ns`: requests due from then on are measured; `u64::MAX`: not known yet
    /// ([`Ledger::measure_from`]).
    pub fn new(plan: &Plan, worker: u16, link: WorkerLink, measured_from_ns: u64) -> Self {
        let warmup_ns = if measured_from_ns == u64::MAX { 0 } else { measured_from_ns };
        let mut interval = Box::new(Interval::new(worker));
        reserve(&mut interval, plan);
        Ledger {
            link,
            worker,
            interval,
            tick_ns: plan.tick_ns,
            next_tick_ns: if warmup_ns > 0 { plan.tick_ns.min(warmup_ns) } else { plan.tick_ns },
            warmup_ns,
            measured_from_ns,
            load_end_ns: u64::MAX,
            drain_ns: plan.drain_ns,
            is_load_over: false,
            can_be_late: can_be_late(plan),
            in_flight: 0,
            unfinished: 0,
            queued: 0,
            open: 0,
            first_request_ns: None,
            last_end_ns: 0,
            unqueued: 0,
            plain: reserved(),
            picking: Picking::new(plan.seed, worker),
            outages: Outages::new(worker),
            cpu_ns: (0, 0),
            cpu_wait_ns: 0,
            turn_cpu_ns: 0,
            error: None,
        }
    }

    /// The clock has begun: CPU time counts from here.
    pub fn begin<D: Driver>(&mut self, driver: &mut D) {
        self.cpu_ns = driver.cpu_ns();
        self.cpu_wait_ns = driver.cpu_wait_ns();
        self.picking.waited(self.cpu_wait_ns, 0, 0);
        self.turn_cpu_ns = self.cpu_ns.0 + self.cpu_ns.1;
    }

    /// The counters of the interval under way.
    #[inline]
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.interval.counts
    }

    /// Whether a request due then is measured, and not warm-up.
    #[inline]
    pub fn is_measured(&self, intended_ns: u64) -> bool {
        intended_ns >= self.measured_from_ns
    }

    /// When measuring begins, where it was not known from the start: what was sent until now is not measured.
    pub fn measure_from<D: Driver>(&mut self, driver: &mut D, now_ns: u64) {
        self.measured_from_ns = self.measured_from_ns.min(now_ns);
        driver.take_sent_bytes();
    }

    /// When measuring began; `u64::MAX`: it has not yet.
    pub fn measured_from_ns(&self) -> u64 {
        self.measured_from_ns
    }

    /// Requests sent and without an end.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Requests that wait for a connection.
    #[inline]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Connections established.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// The stop button, as the session has set it.
    pub fn control(&self) -> &Control {
        &self.link.control
    }

    /// Passes on what the driver has to tell, once.
    pub fn tell<D: Driver>(&self, driver: &mut D) {
        self.link.tell(driver);
    }

    /// The worker cannot go on.
    pub fn fail(&mut self, why: String) {
        self.error = Some(why);
    }

    // Requests.

    /// A request that was due is taken up: it will be sent, or waits for a connection.
    #[inline]
    pub fn started(&mut self, intended_ns: u64) {
        if self.is_measured(intended_ns) {
            self.interval.counts.started += 1;
            self.unfinished += 1;
        }
    }

    /// How late a request was taken up.
    #[inline]
    pub fn lag(&mut self, intended_ns: u64, ready_ns: u64) {
        if self.is_measured(intended_ns) {
            self.interval.latency.record(LatencyKind::Lag, ready_ns.saturating_sub(intended_ns));
        }
    }

    /// A request that was taken up waits for a connection.
    pub fn enqueued(&mut self) {
        self.queued += 1;
    }

    /// It waits no more: it is sent, or fails.
    pub fn dequeued(&mut self) {
        self.queued -= 1;
    }

    /// A request that was due was not started, for want of room to wait in, or because the run was told to.
    pub fn dropped(&mut self, intended_ns: u64) {
        if self.is_measured(intended_ns) {
            self.interval.counts.dropped += 1;
        }
    }

    /// A request was due before the end of the load, and the worker had not come to it by `now_ns`.
    pub fn never_taken_up(&mut self, intended_ns: u64, now_ns: u64) {
        if self.is_measured(intended_ns) {
            self.interval.counts.never_taken_up += 1;
            self.interval.latency.record(LatencyKind::LagCensored, now_ns.saturating_sub(intended_ns));
        }
    }

    /// A started request is on its way.
    #[inline]
    pub fn sent(&mut self, stamps: &Stamps) {
        if self.in_flight == 0 {
            self.picking.first_in_flight(stamps.sent_ns);
        }
        self.in_flight += 1;
        if self.first_request_ns.is_none() {
            self.first_request_ns = Some(stamps.sent_ns);
        }
        if self.is_measured(stamps.intended_ns) {
            if stamps.sent_ns == stamps.ready_ns {
                self.unqueued += 1;
            } else {
                let queue_ns = stamps.sent_ns.saturating_sub(stamps.ready_ns);
                self.interval.latency.record(LatencyKind::Queue, queue_ns);
            }
        }
    }

    /// A request that was sent has the reply that was due.
    #[inline]
    pub fn succeeded(&mut self, stamps: &Stamps, at_ns: u64, witness: &impl Witness) {
        self.look_for_gap(at_ns, witness);
        if self.outages.is_open() {
            self.outages.succeeded(&mut self.interval.requests, at_ns);
        }
        if !self.ended(stamps.intended_ns, at_ns, true) {
            return;
        }
        self.interval.counts.ok += 1;
        if self.interval.entries.is_on() {
            self.interval.entries.succeeded(witness.entry(), at_ns.saturating_sub(stamps.intended_ns));
        }
        self.picking.succeeded(&mut self.interval.requests, stamps, at_ns, witness);
        if stamps.intended_ns == stamps.sent_ns && stamps.first_byte_ns == at_ns && !self.can_be_late {
            return self.plain.record(at_ns.saturating_sub(stamps.sent_ns));
        }
        let latency = &mut self.interval.latency;
        latency.record(LatencyKind::Response, at_ns.saturating_sub(stamps.intended_ns));
        latency.record(LatencyKind::Service, at_ns.saturating_sub(stamps.sent_ns));
        if stamps.first_byte_ns > 0 {
            latency.record(LatencyKind::FirstByte, stamps.first_byte_ns.saturating_sub(stamps.sent_ns));
        }
        if self.can_be_late {
            latency.record(LatencyKind::Undelayed, at_ns.saturating_sub(stamps.ready_ns));
        }
    }

    /// A request that was under way ends: keeps the gap before it, where there was one.
    #[inline]
    fn look_for_gap(&mut self, at_ns: u64, witness: &impl Witness) {
        if let Some(from_ns) = self.picking.ended(at_ns) {
            self.gap(from_ns, at_ns, witness.busy_connections(self.in_flight));
        }
    }

    #[cold]
    fn gap(&mut self, from_ns: u64, to_ns: u64, connections: u64) {
        let (in_flight, open) = (self.in_flight, self.open);
        self.picking.gap(Gap { from_ns, to_ns, in_flight, connections, open, ..Gap::default() });
    }

    /// Takes a request out of those in flight; whether it is measured.
    #[inline]
    fn ended(&mut self, intended_ns: u64, at_ns: u64, well: bool) -> bool {
        self.in_flight -= 1;
        self.last_end_ns = self.last_end_ns.max(at_ns);
        if self.is_measured(intended_ns) {
            self.unfinished -= 1;
            return true;
        }
        let counts = &mut self.interval.counts;
        counts.warmup += 1;
        if at_ns >= self.measured_from_ns && !self.is_load_over {
            *(if well { &mut counts.carried_ok } else { &mut counts.carried_failed }) += 1;
        }
        false
    }

    /// The status of a measured reply.
    #[inline]
    pub fn status(&mut self, stamps: &Stamps, status: u16) {
        if status != 0 && self.is_measured(stamps.intended_ns) {
            self.interval.outcomes.record(status);
        }
    }

    /// Something came on a held connection that is no reply, or the end of it: counted whenever it was.
    #[inline]
    pub fn outcome(&mut self, outcome: u16) {
        self.interval.outcomes.record(outcome);
    }

    // Connections.

    /// TCP is there: how long it took, where it was begun in the measured time.
    pub fn connect_time(&mut self, began_ns: u64, now_ns: u64) {
        if began_ns >= self.warmup_ns {
            self.interval.latency.record(LatencyKind::Connect, now_ns.saturating_sub(began_ns));
        }
    }

    /// A TLS handshake is done, of a connection that was begun at `connect_ns` and had TCP at `tcp_ns`.
    pub fn handshake(&mut self, is_resumed: bool, connect_ns: u64, tcp_ns: u64, now_ns: u64) {
        let counts = &mut self.interval.counts;
        *(if is_resumed { &mut counts.handshakes_resumed } else { &mut counts.handshakes_full }) += 1;
        if connect_ns >= self.warmup_ns {
            self.interval.latency.record(LatencyKind::Tls, now_ns.saturating_sub(tcp_ns));
        }
    }

    /// A connection can be used.
    pub fn opened(&mut self) {
        self.open += 1;
        self.interval.counts.connected += 1;
    }

    /// A connection that could be used is no more.
    pub fn closed(&mut self) {
        self.open -= 1;
    }

    /// Counts what befell a connection while no request was its to fail.
    pub fn connection_error(&mut self, example: ErrorExample) {
        if example.phase == Phase::Connect {
            self.outages.failed(self.last_end_ns, example.at_ns);
        }
        self.interval.connection_errors.record(example.kind);
        let slot = &mut self.interval.examples[example.kind.index()];
        if slot.is_none() {
            *slot = Some(example);
        }
    }

    /// The example of a kind in the interval under way.
    pub fn example_mut(&mut self, kind: ErrorKind) -> Option<&mut ErrorExample> {
        self.interval.examples[kind.index()].as_mut()
    }

    // The worker's turns.

    /// A turn of the worker's loop has ended: when it was to begin at the latest, when it began, and ended.
    #[inline]
    pub fn turned<D: Driver>(&mut self, driver: &mut D, to_begin_ns: u64, began_ns: u64, ended_ns: u64) {
        self.interval.counts.wakeups += 1;
        let overslept_ns = began_ns.saturating_sub(to_begin_ns);
        if overslept_ns > LATE_NS_MIN {
            self.interval.counts.late_ns += overslept_ns;
        }
        self.picking.late(overslept_ns);
        let is_long = ended_ns.saturating_sub(began_ns) > LATE_NS_MIN;
        let stood_ns = if is_long { self.look_at_long_turn(driver, ended_ns - began_ns) } else { 0 };
        if self.picking.has_gap() {
            self.picking.judge_gap(&mut self.interval.requests, driver.cpu_wait_ns());
        }
        self.picking.turn_is_over(began_ns, stood_ns);
    }

    /// What of a long turn was not work, nanoseconds. CPU time is known since the last look only, so what is called late is
    /// at the least that late.
    #[cold]
    fn look_at_long_turn<D: Driver>(&mut self, driver: &mut D, length_ns: u64) -> u64 {
        let (user_ns, system_ns) = driver.cpu_ns();
        let worked_ns = (user_ns + system_ns).saturating_sub(self.turn_cpu_ns);
        self.turn_cpu_ns = user_ns + system_ns;
        let late_ns = length_ns.saturating_sub(worked_ns);
        if late_ns <= LATE_NS_MIN {
            return 0;
        }
        self.interval.counts.late_ns += late_ns;
        self.picking.late(late_ns);
        late_ns
    }

    /// How long a completion may have waited to be looked at.
    #[inline]
    pub fn reap_delay(&mut self, delay_ns: u64) {
        let longest = &mut self.interval.gauges.reap_delay_ns_max;
        *longest = (*longest).max(delay_ns);
    }

    // Intervals.

    /// When the interval under way is to be cut.
    #[inline]
    pub fn next_tick_ns(&self) -> u64 {
        self.next_tick_ns
    }

    /// Cuts the interval where its time has come, if an empty one is there to take its place; whether measuring begins
    /// with the next one.
    pub fn tick<D: Driver>(&mut self, driver: &mut D, connections: u64, now_ns: u64) -> bool {
        if now_ns < self.next_tick_ns {
            return false;
        }
        let end_ns = self.next_tick_ns.min(now_ns);
        let ends_warmup = self.warmup_ns > 0 && end_ns == self.warmup_ns;
        self.next_tick_ns = (now_ns / self.tick_ns + 1) * self.tick_ns;
        // The end of warm-up is a boundary too, so that no interval has both sides of it.
        if self.warmup_ns > now_ns {
            self.next_tick_ns = self.next_tick_ns.min(self.warmup_ns);
        }
        if let Ok(empty) = self.link.empties.try_recv() {
            self.hand_over(driver, connections, end_ns, empty);
        }
        ends_warmup
    }

    /// The load is over; what follows is the drain, in intervals of its own. `at_ns`: when it ended, by the plan or by
    /// the last reply.
    pub fn end_load<D: Driver>(&mut self, driver: &mut D, connections: u64, at_ns: u64, now_ns: u64) {
        self.load_end_ns = at_ns;
        let Counts { started, ok, failed, dropped, never_taken_up, warmup, .. } = self.interval.counts;
        let is_empty = started + ok + failed + dropped + never_taken_up + warmup == 0;
        if !is_empty || now_ns > self.interval.start_ns + INTERVAL_NS_MIN {
            // The load is over, so memory may be taken where none has come back: the drain is never mixed with it.
            let empty = self.link.empties.try_recv().unwrap_or_else(|_| Box::new(self.interval.another()));
            self.hand_over(driver, connections, now_ns, empty);
        }
        self.is_load_over = true;
        self.interval.is_drain = true;
    }

    /// When the load ended, where nothing follows it.
    pub fn ended_at(&mut self, at_ns: u64) {
        self.load_end_ns = at_ns;
    }

    /// Whether the load is over.
    #[inline]
    pub fn is_load_over(&self) -> bool {
        self.is_load_over
    }

    /// When the load ended; before that, `u64::MAX`.
    pub fn load_end_ns(&self) -> u64 {
        self.load_end_ns
    }

    /// When the last request ended; 0: none has.
    pub fn last_end_ns(&self) -> u64 {
        self.last_end_ns
    }

    /// Until when requests in flight are waited for. Told to stop, shortly.
    pub fn drain_end_ns(&mut self) -> u64 {
        if self.link.control.is_stopped() {
            self.drain_ns = self.drain_ns.min(INTERRUPTED_DRAIN_NS);
        }
        self.load_end_ns.saturating_add(self.drain_ns)
    }

    fn hand_over<D: Driver>(&mut self, driver: &mut D, connections: u64, end_ns: u64, mut empty: Box<Interval>) {
        self.complete(driver, connections, end_ns);
        empty.outcomes.count_as(&self.interval.outcomes);
        empty.entries.count_as(&self.interval.entries);
        empty.worker = self.worker;
        empty.start_ns = end_ns;
        empty.is_drain = self.is_load_over;
        empty.sequence = self.interval.sequence + 1;
        self.picking.restart();
        let full = std::mem::replace(&mut self.interval, empty);
        // The channel holds as many messages as there are intervals: it cannot be full. A session that is gone is
        // seen by the control.
        let _ = self.link.messages.try_send(Message::Interval(full));
    }

    fn complete<D: Driver>(&mut self, driver: &mut D, connections: u64, end_ns: u64) {
        let (cpu_ns, cpu_wait_ns) = (driver.cpu_ns(), driver.cpu_wait_ns());
        let interval = &mut *self.interval;
        interval.end_ns = end_ns.max(interval.start_ns);
        interval.counts.cpu_user_ns += cpu_ns.0.saturating_sub(self.cpu_ns.0);
        interval.counts.cpu_system_ns += cpu_ns.1.saturating_sub(self.cpu_ns.1);
        interval.counts.cpu_wait_ns += cpu_wait_ns.saturating_sub(self.cpu_wait_ns);
        self.turn_cpu_ns = cpu_ns.0 + cpu_ns.1;
        (self.cpu_ns, self.cpu_wait_ns) = (cpu_ns, cpu_wait_ns);
        self.picking.waited(cpu_wait_ns, end_ns, self.in_flight);
        let sent_bytes = driver.take_sent_bytes();
        if self.measured_from_ns != u64::MAX {
            interval.counts.bytes_sent += sent_bytes;
        }
        interval.gauges.connections = connections;
        interval.gauges.in_flight = self.in_flight;
        interval.gauges.queued = self.queued;
        if self.unqueued > 0 {
            interval.latency.record_n(LatencyKind::Queue, 0, self.unqueued.min(u64::from(u32::MAX)) as u32);
            self.unqueued = 0;
        }
        for kind in PLAIN {
            interval.latency.of_mut(kind).add(&self.plain);
        }
        self.plain.reset();
        self.outages.cut(&mut interval.requests);
    }

    /// The worker has ended: the last interval, and how it ended.
    pub fn finish<D: Driver>(mut self, driver: &mut D, held_at_end: Option<u64>, tallies: Vec<Tally>) {
        // What the kernel had taken of requests that are given up now is told by their cancelled sends.
        if driver.wait(0, Wake::Never).is_ok() {
            while driver.next().is_some() {}
        }
        let now_ns = driver.now_ns();
        if self.in_flight > 0
            && let Some(from_ns) = self.picking.open_gap(now_ns)
        {
            // Nobody counts the connections any more: at most one for each request.
            self.gap(from_ns, now_ns, self.in_flight.min(self.open));
        }
        if self.picking.has_gap() {
            self.picking.judge_gap(&mut self.interval.requests, driver.cpu_wait_ns());
        }
        let connections = self.open;
        self.complete(driver, connections, now_ns);
        let finished = Finished {
            worker: self.worker,
            unfinished: self.unfinished,
            measured_from_ns: self.measured_from_ns,
            held_at_end,
            load_end_ns: if self.load_end_ns == u64::MAX { now_ns } else { self.load_end_ns },
            first_request_ns: self.first_request_ns,
            tallies,
            error: self.error.take(),
        };
        // The last two messages may wait for room: the load is over.
        let _ = self.link.messages.send(Message::Interval(self.interval));
        let _ = self.link.messages.send(Message::Finished(finished));
    }
}
