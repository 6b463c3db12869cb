//! One worker of bursts: everything is made ready, all workers meet, and all is released at one moment; round by round.
//!
//! What is due is due at the moment of release, so response times hold the queue that the burst itself makes, and the
//! lag is the release's skew: how much later than the moment a request was given to the driver. The `uring` driver hands
//! all of a worker's over in one call; what the kernel then needs to send them is in the service time. Released is either the request, on connections that are there ([`BurstAt::Send`]), or the
//! connect, with its request behind it ([`BurstAt::Connect`]).

mod events;
mod rendezvous;

pub use rendezvous::Rendezvous;

use super::Work;
use crate::driver::{Driver, Slot, Wake, send_request};
use crate::ledger::{Ledger, Stamps};
use crate::link::WorkerLink;
use crate::share::{Dealt, Share};
use model::plan::{BurstAt, Pace, Plan};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use wire::{Protocol, Stream};

/// From the meeting of all workers to the release: time for the last to hear of it, nanoseconds.
const LEAD_NS: u64 = 3_000_000;
/// The last stretch before a release is not slept: a sleep ends some 50 µs late.
const SPIN_NS: u64 = 200_000;
/// The longest sleep, nanoseconds.
const SLEEP_NS_MAX: u64 = 5_000_000;

/// A request on its way.
#[derive(Debug, Clone, Copy)]
struct InFlight<R> {
    /// Its number on its connection, and what was asked; `None`: it waits for its connect.
    sent: Option<(u32, R)>,
    /// Sent is when it, or its connect, was given to the driver.
    stamps: Stamps,
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
struct Member<C, R> {
    state: State,
    origin: u16,
    /// Its number among its origin's connections.
    turn: u32,
    connect_ns: u64,
    protocol: C,
    request: Option<InFlight<R>>,
    /// Requests sent on this connection: the number of the next.
    sent: u32,
    /// Whether the peer has said that it takes no more of them.
    ends: bool,
}

/// What the worker does until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Connections are made, until all are there or it has taken too long.
    Connect { until_ns: u64 },
    /// Ready; waits for the others.
    Meet,
    /// All know the moment of release.
    Lead { release_ns: u64 },
    /// Replies are awaited.
    Reply { until_ns: u64 },
    /// Between two rounds.
    Pause { until_ns: u64 },
    /// No round follows.
    Over,
}

/// One worker. See the module's head.
pub struct BurstWorker<P: Protocol<Transport = Stream>, D: Driver> {
    driver: D,
    protocol: P,
    ledger: Ledger,
    rendezvous: Attendance,
    random: SmallRng,
    phase: Phase,
    /// The round under way.
    round: u32,
    rounds: u32,
    at: BurstAt,
    pause_ns: u64,
    connect_timeout_ns: u64,
    reply_timeout_ns: u64,
    /// Of each origin: its first address in the driver's list, and how many it has.
    addresses: Vec<(usize, usize)>,
    members: Vec<Member<P::Connection, P::Request>>,
    connecting: usize,
    load_end_ns: u64,
    /// When the loop is to look again at the latest.
    wakes_ns: u64,
}

/// A worker's place at the meetings: given up when the worker ends, however it does, so that nobody waits for it.
struct Attendance(Arc<Rendezvous>);

impl Drop for Attendance {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<P: Protocol<Transport = Stream>, D: Driver> BurstWorker<P, D> {
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
        let member = |slot: &Dealt| Member {
            state: State::Down,
            origin: slot.origin,
            turn: slot.turn,
            connect_ns: 0,
            protocol: protocol.connection(),
            request: None,
            sent: 0,
            ends: false,
        };
        BurstWorker {
            addresses: addresses.collect(),
            members: share.slots.iter().map(member).collect(),
            driver,
            protocol,
            ledger: Ledger::new(plan, share.index, link, 0),
            rendezvous: Attendance(rendezvous),
            random: SmallRng::seed_from_u64(plan.seed ^ (u64::from(share.worker) << 48)),
            phase: if rounds == 0 { Phase::Over } else { Phase::Pause { until_ns: 0 } },
            round: 0,
            rounds,
            at,
            pause_ns,
            connect_timeout_ns: plan.timeouts.connect_ns,
            reply_timeout_ns: plan.timeouts.reply_ns,
            connecting: 0,
            load_end_ns: 0,
            wakes_ns: u64::MAX,
        }
    }

    /// Prepares a round.
    fn begin_round(&mut self, now_ns: u64) -> Phase {
        match self.at {
            BurstAt::Send => {
                self.connect_all();
                Phase::Connect { until_ns: now_ns.saturating_add(self.connect_timeout_ns) }
            }
            BurstAt::Connect => {
                self.close_all();
                self.arrive(now_ns)
            }
        }
    }

    fn arrive(&mut self, now_ns: u64) -> Phase {
        self.rendezvous.0.arrive(self.round, now_ns + LEAD_NS);
        Phase::Meet
    }

    /// What follows the phase, where it is over; the same one, where it is not.
    fn next_phase(&mut self, now_ns: u64) -> Phase {
        match self.phase {
            Phase::Connect { until_ns } if self.connecting == 0 || now_ns >= until_ns => {
                self.give_up_connects();
                self.arrive(now_ns)
            }
            Phase::Meet => match self.rendezvous.0.release_of(self.round) {
                Some(release_ns) => Phase::Lead { release_ns },
                // One that has ended comes to no meeting.
                None if self.rendezvous.0.is_left() => Phase::Over,
                None => Phase::Meet,
            },
            Phase::Lead { release_ns } if now_ns >= release_ns.saturating_sub(SPIN_NS) => {
                self.driver.spin_until(release_ns);
                self.release(release_ns);
                Phase::Reply { until_ns: release_ns.saturating_add(self.reply_timeout_ns) }
            }
            Phase::Reply { until_ns } if self.under_way() == 0 || now_ns >= until_ns => {
                self.time_out(until_ns);
                self.load_end_ns = self.driver.now_ns();
                self.round += 1;
                if self.round == self.rounds {
                    Phase::Over
                } else {
                    Phase::Pause { until_ns: self.load_end_ns.saturating_add(self.pause_ns) }
                }
            }
            Phase::Pause { until_ns } if now_ns >= until_ns => self.begin_round(now_ns),
            same => same,
        }
    }

    /// When the phase is looked at again at the latest.
    fn phase_ends_ns(&self, now_ns: u64) -> u64 {
        match self.phase {
            Phase::Connect { until_ns } | Phase::Reply { until_ns } | Phase::Pause { until_ns } => until_ns,
            Phase::Lead { release_ns } => release_ns.saturating_sub(SPIN_NS),
            // The moment may be set while this worker sleeps: it must hear of it well before.
            Phase::Meet => now_ns + LEAD_NS / 3,
            Phase::Over => now_ns,
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
        let turn = member.turn;
        member.state = State::Connecting;
        member.connect_ns = now_ns;
        member.protocol = self.protocol.renewed(&mut member.protocol);
        (member.sent, member.ends) = (0, false);
        self.connecting += 1;
        self.driver.connect(slot, first + turn as usize % count);
    }

    fn close_all(&mut self) {
        for slot in 0..self.members.len() as Slot {
            if self.members[slot as usize].state == State::Open {
                self.ledger.counts().closed_by_us += 1;
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
            let stamps = Stamps::sent(release_ns, now_ns, now_ns);
            member.request = Some(InFlight { sent: None, stamps });
            self.ledger.started(release_ns);
            self.ledger.lag(release_ns, now_ns);
            if self.at == BurstAt::Connect {
                // On its way from here on; what it waits for its connection is known when it is sent.
                self.ledger.enqueued();
            }
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
        let drawn = self.protocol.next_of_user(&mut member.protocol, member.origin, random);
        let number = member.sent;
        request.sent = Some((number, drawn));
        member.sent += 1;
        if self.at == BurstAt::Connect {
            // It waited for its connect; one on an open connection waits for nothing.
            request.stamps.sent_ns = now_ns;
            self.ledger.dequeued();
        }
        let stamps = request.stamps;
        self.ledger.sent(&stamps);
        send_request(&mut self.driver, &self.protocol, &mut member.protocol, slot, number, drawn);
    }

    /// Requests on their way, those that wait for their connect included.
    fn under_way(&self) -> u64 {
        self.ledger.in_flight() + self.ledger.queued()
    }
}

impl<P: Protocol<Transport = Stream>, D: Driver> Work for BurstWorker<P, D> {
    fn begin(&mut self, origin_ns: u64) {
        self.driver.begin(origin_ns);
        self.ledger.begin(&mut self.driver);
    }

    fn step(&mut self) -> bool {
        let (to_begin_ns, began_ns) = (self.wakes_ns, self.driver.now_ns());
        while let Some(event) = self.driver.next() {
            self.on_event(event);
        }
        let now_ns = self.driver.now_ns();
        let open = self.ledger.open();
        self.ledger.tick(&mut self.driver, open, now_ns);
        if self.ledger.control().is_stopped() {
            self.phase = Phase::Over;
        }
        let mut ended_ns = now_ns;
        loop {
            let phase = self.next_phase(ended_ns);
            if phase == self.phase {
                break;
            }
            self.phase = phase;
            ended_ns = self.driver.now_ns();
        }
        self.ledger.turned(&mut self.driver, to_begin_ns, began_ns, now_ns);
        if self.phase == Phase::Over {
            return false;
        }
        let until_ns =
            self.phase_ends_ns(ended_ns).min(self.ledger.next_tick_ns()).min(ended_ns + SLEEP_NS_MAX).max(ended_ns);
        if let Err(error) = self.driver.wait(until_ns, Wake::First) {
            self.ledger.fail(format!("the {} driver cannot wait: {error}", D::NAME));
            return false;
        }
        self.wakes_ns = until_ns;
        true
    }

    fn finish(mut self: Box<Self>) {
        let now_ns = self.driver.now_ns();
        let end_ns = if self.load_end_ns == 0 { now_ns } else { self.load_end_ns };
        for slot in 0..self.members.len() as Slot {
            let Some(request) = self.members[slot as usize].request else { continue };
            let known = self.known_of(slot);
            match request.sent {
                Some(_) => self.ledger.unfinished(&request.stamps, now_ns, &known),
                None => {
                    let Stamps { intended_ns, ready_ns, .. } = request.stamps;
                    self.ledger.unfinished_unsent(intended_ns, ready_ns, now_ns, &known);
                }
            }
        }
        self.ledger.ended_at(end_ns);
        let BurstWorker { mut driver, ledger, rendezvous, .. } = *self;
        // Whoever still waits for this worker must not wait for ever.
        drop(rendezvous);
        ledger.finish(&mut driver, None, Vec::new());
    }

    fn now_ns(&mut self) -> u64 {
        self.driver.now_ns()
    }
}
