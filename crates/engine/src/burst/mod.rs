//! One worker of bursts: everything is made ready, all workers meet, and all is released at one moment; round by round.
//!
//! What is due is due at the moment of release, so response times hold the queue that the burst itself makes, and the
//! lag is the release's skew: how much later than the moment a request was given to the driver. The `uring` driver hands
//! all of a worker's over in one call; what the kernel then needs to send them is in the service time. Released is either the request, on connections that are there ([`BurstAt::Send`]), or the
//! connect, with its request behind it ([`BurstAt::Connect`]).

mod events;
mod rendezvous;

pub use rendezvous::Rendezvous;

use crate::driver::{Driver, Slot, Wake, send_request};
use crate::link::{Finished, Message, WorkerLink};
use crate::share::Share;
use model::plan::{BurstAt, Pace, Plan};
use model::{Interval, LatencyKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use wire::{Payload, Protocol};

/// From the meeting of all workers to the release: time for the last to hear of it, nanoseconds.
const LEAD_NS: u64 = 3_000_000;
/// The last stretch before a release is not slept: a sleep ends some 50 µs late.
const SPIN_NS: u64 = 200_000;
/// The longest sleep, nanoseconds.
const SLEEP_NS_MAX: u64 = 5_000_000;

/// A request on its way.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    /// `None`: it waits for its connect.
    payload: Option<Payload>,
    intended_ns: u64,
    sent_ns: u64,
    first_byte_ns: u64,
}

/// What a member of the burst is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Down,
    Connecting,
    Open,
}

/// One connection.
#[derive(Debug)]
struct Member<C> {
    state: State,
    origin: u16,
    connect_ns: u64,
    protocol: C,
    request: Option<InFlight>,
}

/// One worker. See the module's head.
pub struct BurstWorker<P: Protocol, D: Driver> {
    driver: D,
    protocol: P,
    link: WorkerLink,
    rendezvous: Arc<Rendezvous>,
    random: SmallRng,
    index: u16,
    rounds: u32,
    at: BurstAt,
    pause_ns: u64,
    connect_timeout_ns: u64,
    reply_timeout_ns: u64,
    /// Of each origin: its first address in the driver's list, and how many it has.
    addresses: Vec<(usize, usize)>,
    members: Vec<Member<P::Connection>>,
    connecting: usize,
    in_flight: u64,
    open: u64,
    interval: Box<Interval>,
    tick_ns: u64,
    next_tick_ns: u64,
    first_request_ns: Option<u64>,
    load_end_ns: u64,
    last_cpu_ns: (u64, u64),
    error: Option<String>,
}

impl<P: Protocol, D: Driver> BurstWorker<P, D> {
    /// A worker with its share of the plan. All workers of a run have the same `rendezvous`.
    pub fn new(
        plan: &Plan,
        share: &Share,
        protocol: P,
        driver: D,
        link: WorkerLink,
        rendezvous: Arc<Rendezvous>,
    ) -> Self {
        let (rounds, at, pause_ns) = match plan.pace {
            Pace::Burst { rounds, at, pause_ns } => (rounds, at, pause_ns),
            Pace::Closed { .. } | Pace::Open { .. } | Pace::Held { .. } => (1, BurstAt::Send, 0),
        };
        let mut first = 0;
        let addresses = plan.origins.iter().map(|origin| {
            let at = first;
            first += origin.addresses.len();
            (at, origin.addresses.len())
        });
        let member = |origin: &u16| Member {
            state: State::Down,
            origin: *origin,
            connect_ns: 0,
            protocol: protocol.connection(),
            request: None,
        };
        BurstWorker {
            addresses: addresses.collect(),
            members: share.slots.iter().map(member).collect(),
            driver,
            protocol,
            link,
            rendezvous,
            random: SmallRng::seed_from_u64(plan.seed ^ (u64::from(share.worker) << 48)),
            index: share.worker,
            rounds,
            at,
            pause_ns,
            connect_timeout_ns: plan.timeouts.connect_ns,
            reply_timeout_ns: plan.timeouts.reply_ns,
            connecting: 0,
            in_flight: 0,
            open: 0,
            interval: Box::new(Interval::new(share.worker)),
            tick_ns: plan.tick_ns,
            next_tick_ns: plan.tick_ns,
            first_request_ns: None,
            load_end_ns: 0,
            last_cpu_ns: (0, 0),
            error: None,
        }
    }

    /// Runs all rounds.
    pub fn run(mut self) {
        self.last_cpu_ns = self.driver.cpu_ns();
        for round in 0..self.rounds {
            if !self.round(round) {
                break;
            }
        }
        // Whoever still waits for this worker must not wait for ever.
        self.rendezvous.leave();
        self.finish();
    }

    /// One round; `false`: the run is to end.
    fn round(&mut self, round: u32) -> bool {
        match self.at {
            BurstAt::Send => {
                self.connect_all();
                let deadline_ns = self.driver.now_ns().saturating_add(self.connect_timeout_ns);
                if !self.go_on_until(deadline_ns, |worker| worker.connecting == 0) {
                    return false;
                }
                self.give_up_connects();
            }
            BurstAt::Connect => self.close_all(),
        }
        let now_ns = self.driver.now_ns();
        self.rendezvous.arrive(round, now_ns + LEAD_NS);
        let mut release_ns = None;
        let met = self.go_on_until(u64::MAX, |worker| {
            release_ns = worker.rendezvous.release_of(round);
            release_ns.is_some() || worker.rendezvous.is_left()
        });
        let (true, Some(release_ns)) = (met, release_ns) else { return false };
        if !self.go_on_until(release_ns.saturating_sub(SPIN_NS), |_| false) {
            return false;
        }
        self.driver.spin_until(release_ns);
        self.release(release_ns);
        let deadline_ns = release_ns.saturating_add(self.reply_timeout_ns);
        let is_running = self.go_on_until(deadline_ns, |worker| worker.in_flight == 0);
        self.time_out(deadline_ns);
        self.load_end_ns = self.driver.now_ns();
        let pause_end_ns = self.load_end_ns.saturating_add(self.pause_ns);
        is_running && (round + 1 == self.rounds || self.go_on_until(pause_end_ns, |_| false))
    }

    /// Handles what happens until a moment, or until `is_done`; `false`: the run is to end.
    fn go_on_until(&mut self, until_ns: u64, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            while let Some(event) = self.driver.next() {
                self.on_event(event);
            }
            let now_ns = self.driver.now_ns();
            if now_ns >= self.next_tick_ns {
                self.flush(now_ns);
            }
            if self.link.control.is_stopped() {
                return false;
            }
            if is_done(self) || now_ns >= until_ns {
                return true;
            }
            let wake_ns = until_ns.min(self.next_tick_ns).min(now_ns + SLEEP_NS_MAX);
            if let Err(error) = self.driver.wait(wake_ns, Wake::First) {
                self.error = Some(format!("the {} driver cannot wait: {error}", D::NAME));
                return false;
            }
            self.interval.counts.wakeups += 1;
        }
    }

    fn connect_all(&mut self) {
        for slot in 0..self.members.len() as Slot {
            if self.members[slot as usize].state == State::Down {
                self.connect(slot);
            }
        }
    }

    fn connect(&mut self, slot: Slot) {
        let now_ns = self.driver.now_ns();
        let member = &mut self.members[slot as usize];
        let (first, count) = self.addresses[usize::from(member.origin)];
        member.state = State::Connecting;
        member.connect_ns = now_ns;
        member.protocol = self.protocol.connection();
        self.connecting += 1;
        self.driver.connect(slot, first + slot as usize % count);
    }

    fn close_all(&mut self) {
        for slot in 0..self.members.len() as Slot {
            if self.members[slot as usize].state == State::Open {
                self.interval.counts.closed_by_us += 1;
                self.close(slot);
            }
        }
    }

    /// The moment: everything goes, as fast as it can.
    fn release(&mut self, release_ns: u64) {
        for slot in 0..self.members.len() as Slot {
            let member = &mut self.members[slot as usize];
            let is_ready = match self.at {
                BurstAt::Send => member.state == State::Open,
                BurstAt::Connect => member.state == State::Down,
            };
            if !is_ready {
                continue;
            }
            let now_ns = self.driver.now_ns();
            member.request =
                Some(InFlight { payload: None, intended_ns: release_ns, sent_ns: now_ns, first_byte_ns: 0 });
            self.in_flight += 1;
            self.interval.counts.started += 1;
            self.interval.latency.record(LatencyKind::Lag, now_ns.saturating_sub(release_ns));
            match self.at {
                BurstAt::Send => self.send(slot),
                BurstAt::Connect => self.connect(slot),
            }
        }
    }

    /// Sends a member's request.
    fn send(&mut self, slot: Slot) {
        let random = self.random.next_u64();
        let now_ns = self.driver.now_ns();
        let member = &mut self.members[slot as usize];
        let Some(request) = &mut member.request else { return };
        let payload = self.protocol.next_request(member.origin, random);
        request.payload = Some(payload);
        let waited_ns = now_ns.saturating_sub(request.sent_ns);
        request.sent_ns = now_ns;
        self.first_request_ns.get_or_insert(now_ns);
        self.interval.counts.bytes_sent += u64::from(payload.length);
        // A request behind its connect waited for that; one on an open connection for nothing.
        let queue_ns = if self.at == BurstAt::Connect { waited_ns } else { 0 };
        self.interval.latency.record(LatencyKind::Queue, queue_ns);
        send_request(&mut self.driver, &self.protocol, slot, payload);
    }

    fn flush(&mut self, now_ns: u64) {
        let end_ns = self.next_tick_ns.min(now_ns);
        self.next_tick_ns = (now_ns / self.tick_ns + 1) * self.tick_ns;
        let Ok(mut empty) = self.link.empties.try_recv() else { return };
        self.complete_interval(end_ns);
        empty.worker = self.index;
        empty.start_ns = end_ns;
        empty.sequence = self.interval.sequence + 1;
        let full = std::mem::replace(&mut self.interval, empty);
        // The channel holds as many messages as there are intervals: it cannot be full.
        let _ = self.link.messages.try_send(Message::Interval(full));
    }

    fn complete_interval(&mut self, end_ns: u64) {
        let cpu_ns = self.driver.cpu_ns();
        let interval = &mut *self.interval;
        interval.end_ns = end_ns.max(interval.start_ns);
        interval.counts.cpu_user_ns += cpu_ns.0.saturating_sub(self.last_cpu_ns.0);
        interval.counts.cpu_system_ns += cpu_ns.1.saturating_sub(self.last_cpu_ns.1);
        self.last_cpu_ns = cpu_ns;
        interval.gauges.connections = self.open;
        interval.gauges.in_flight = self.in_flight;
    }

    fn finish(mut self) {
        let now_ns = self.driver.now_ns();
        self.complete_interval(now_ns);
        let finished = Finished {
            measured_from_ns: 0,
            held_at_end: None,
            worker: self.index,
            in_flight: self.in_flight,
            load_end_ns: if self.load_end_ns == 0 { now_ns } else { self.load_end_ns },
            first_request_ns: self.first_request_ns,
            error: self.error.take(),
        };
        let _ = self.link.messages.send(Message::Interval(self.interval));
        let _ = self.link.messages.send(Message::Finished(finished));
    }
}
