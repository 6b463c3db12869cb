//! One worker of held connections: makes them at a rate, keeps them, sends on each by the clock, sees who closes.
//!
//! The request worker keeps hundreds of bytes for a connection; this one keeps eight bytes and what the protocol needs (four
//! of an echo), and a record for each that connects or waits for its reply (`pending`). When messages are due needs no
//! timer: message `m` of a worker is due at `m × every / connections` and belongs to connection
//! `m × stride % connections`, so phases are spread evenly by arithmetic (in steps of the golden ratio, so that they are
//! even while connections are still being made). Connections that are lost stay lost: that they were, by whom and when is
//! what is measured. Messages due before all workers have made their connections are warm-up, but where the ramp itself is
//! the measurement (until something gives).

mod events;
mod frames;
mod pending;

use super::Work;
use crate::driver::{Driver, Slot, Wake, send_request};
use crate::ledger::{Ledger, OVERDUE_NS_MAX, SLEEP_NS_MAX, Stamps};
use crate::link::{Ramp, WorkerLink};
use crate::share::Share;
use model::Request;
use model::plan::{Pace, Plan};
use pending::{NOTHING, Pending, Waiting};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use wire::{Protocol, Stream};

/// Connects under way at once, per worker: more would only wait in the target's queue.
const CONNECTING_MAX: usize = 512;
/// Messages whose reply is awaited at once, per worker; further ones are dropped and counted.
const AWAITED_MAX: usize = 131_072;
/// Connects or messages begun before events are looked at again.
const BATCH: usize = 64;
/// How often the probe connection sends while connections are added until something gives, nanoseconds.
const PROBE_EVERY_NS: u64 = 100_000_000;
/// The connection that is the probe: the first of the first worker.
const PROBE: Slot = 0;

/// What a held connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// Not made yet.
    New,
    /// Connecting.
    Connecting,
    /// Established; what the protocol says first is not answered yet.
    Greeting,
    /// Established, and messages may be sent.
    Open,
    /// Could not be made, or was lost.
    Gone,
}

/// All that is kept of a connection that rests.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Its record in [`Waiting`]; [`NOTHING`] while it rests.
    pending: u32,
    state: State,
}

/// One worker. See the module's head.
pub struct HoldWorker<P: Protocol, D: Driver> {
    driver: D,
    protocol: P,
    /// Whether messages are answered; otherwise one is done when the kernel has taken it.
    is_awaited: bool,
    until_failure: bool,
    ledger: Ledger,
    random: SmallRng,
    seed: u64,
    /// The origin of each address.
    origins: Vec<u16>,

    held: Vec<Held>,
    /// What the protocol keeps of each.
    talks: Vec<P::Connection>,
    waiting: Waiting<P::Request>,
    /// What the protocol says beside messages, until it is sent: empty between the worker's steps.
    said: Vec<u8>,

    /// Nanoseconds between two connects of this worker.
    connect_step_ns: f64,
    made: usize,
    connecting: usize,
    /// Nanoseconds between two messages of this worker; `None`: nothing is sent.
    message_step_ns: Option<f64>,
    messages_due: u64,
    /// When the probe sends next; `u64::MAX`: there is none.
    probe_due_ns: u64,
    /// From the connection of one message to that of the next: coprime to their number, so each has its turn.
    stride: u64,
    connect_timeout_ns: u64,
    reply_timeout_ns: u64,

    /// How long connections are kept after the last was made.
    keep_ns: u64,
    ramp: Ramp,
    /// Workers whose ramps must have ended.
    workers: usize,
    /// When the ramp ended, of all workers.
    ramp_end_ns: Option<u64>,
    /// When the load ends at the latest.
    load_end_ns: u64,
    /// Connections open when the load ended.
    held_at_end: Option<u64>,
    /// When the loop is to look again at the latest.
    wakes_ns: u64,
}

impl<P: Protocol<Transport = Stream>, D: Driver> HoldWorker<P, D> {
    /// A worker with its share of the plan; `is_awaited`: whether messages are answered.
    pub fn new(plan: &Plan, is_awaited: bool, share: &Share, protocol: P, driver: D, link: WorkerLink) -> Self {
        let (every_ns, connects_per_s) = match plan.pace {
            Pace::Held { every_ns, connects_per_s } => (every_ns, connects_per_s),
            Pace::Closed { .. } | Pace::Open { .. } | Pace::Burst { .. } => (None, f64::from(plan.connections)),
        };
        let connections = share.slots.len();
        let until_failure = plan.workload.protocol().is_until_failure();
        let seed = plan.seed ^ (u64::from(share.worker) << 48);
        let origins = plan.origins.iter().zip(0..).flat_map(|(o, i)| o.addresses.iter().map(move |_| i));
        HoldWorker {
            held: vec![Held { pending: NOTHING, state: State::New }; connections],
            waiting: Waiting::with_capacity(connections.min(AWAITED_MAX + CONNECTING_MAX)),
            talks: (0..connections).map(|_| protocol.connection()).collect(),
            said: Vec::with_capacity(frames::SAID_AT_ONCE + protocol.written_bytes_max()),
            driver,
            protocol,
            is_awaited,
            until_failure,
            ramp: Ramp::new(&link.control),
            workers: usize::from(share.workers_here),
            ledger: Ledger::new(plan, share.index, link, if plan.is_ramp_warmup() { u64::MAX } else { 0 }),
            random: SmallRng::seed_from_u64(seed),
            seed,
            origins: origins.collect(),
            connect_step_ns: f64::from(plan.threads) * 1e9 / connects_per_s,
            made: 0,
            connecting: 0,
            message_step_ns: every_ns.map(|every_ns| every_ns as f64 / connections.max(1) as f64),
            messages_due: 0,
            probe_due_ns: if until_failure && is_awaited && share.index == 0 { 0 } else { u64::MAX },
            stride: stride_of(connections as u64),
            connect_timeout_ns: plan.timeouts.connect_ns,
            reply_timeout_ns: plan.timeouts.reply_ns,
            keep_ns: plan.stop.duration_ns.unwrap_or(u64::MAX),
            ramp_end_ns: None,
            load_end_ns: u64::MAX,
            held_at_end: None,
            wakes_ns: u64::MAX,
        }
    }

    /// Which of the addresses a connection is to.
    fn address_of(&self, slot: Slot) -> usize {
        slot as usize % self.origins.len().max(1)
    }

    /// What is known of a message beside its moments.
    fn known_of(&self, slot: Slot) -> Request {
        Request { connection: slot, origin: self.origin_of(slot), ..Request::default() }
    }

    fn origin_of(&self, slot: Slot) -> u16 {
        self.origins.get(self.address_of(slot)).copied().unwrap_or(0)
    }

    fn connect_due_ns(&self) -> u64 {
        let may = self.made < self.held.len() && self.ramp_end_ns.is_none() && !self.ledger.is_load_over();
        if may && self.connecting < CONNECTING_MAX {
            (self.made as f64 * self.connect_step_ns) as u64
        } else {
            u64::MAX
        }
    }

    fn message_due_ns(&self) -> u64 {
        match self.message_step_ns {
            Some(step_ns) if !self.ledger.is_load_over() => ((self.messages_due as f64 + 0.5) * step_ns) as u64,
            _ => u64::MAX,
        }
    }

    /// Connects that are due, a bounded number at a time.
    fn release_connects(&mut self, now_ns: u64) {
        for _ in 0..BATCH {
            if self.connect_due_ns() > now_ns {
                return;
            }
            let slot = self.made as Slot;
            self.made += 1;
            self.connecting += 1;
            let deadline_ns = now_ns.saturating_add(self.connect_timeout_ns);
            let pending = self.waiting.push(Pending::connect(slot, now_ns), deadline_ns);
            self.held[slot as usize] = Held { pending, state: State::Connecting };
            self.driver.connect(slot, self.address_of(slot));
        }
    }

    /// Messages that are due. Those of connections that are not there are not: they were never asked for.
    fn release_messages(&mut self, now_ns: u64) {
        let mut sent = 0;
        while sent < BATCH {
            let due_ns = self.message_due_ns();
            if due_ns > now_ns {
                return;
            }
            let slot = self.slot_of_message();
            self.messages_due += 1;
            sent += usize::from(self.release_message(slot, due_ns));
        }
    }

    /// A connection's message is due; whether the connection is there.
    fn release_message(&mut self, slot: Slot, due_ns: u64) -> bool {
        let held = self.held[slot as usize];
        if held.state != State::Open {
            return false;
        }
        if held.pending != NOTHING || self.ledger.in_flight() >= AWAITED_MAX as u64 {
            // Its last one still has no reply: it would wait behind it, and is not sent.
            self.ledger.dropped(due_ns);
        } else {
            self.send(slot, due_ns);
        }
        true
    }

    /// Whose the next message is.
    fn slot_of_message(&self) -> Slot {
        (u128::from(self.messages_due) * u128::from(self.stride) % self.held.len() as u128) as Slot
    }

    /// The probe's message: whether one that has long been connected is still served while others are added. While its
    /// last one is under way there is no other; that it takes too long is seen by its timeout.
    fn release_probe(&mut self, now_ns: u64) {
        if self.probe_due_ns > now_ns {
            return;
        }
        let due_ns = if self.probe_due_ns == 0 { now_ns } else { self.probe_due_ns };
        self.probe_due_ns = now_ns + PROBE_EVERY_NS;
        let is_idle = self.held.get(PROBE as usize).is_some_and(|h| h.state == State::Open && h.pending == NOTHING);
        if is_idle && !self.ledger.is_load_over() {
            self.send(PROBE, due_ns);
        }
    }

    fn send(&mut self, slot: Slot, due_ns: u64) {
        let random = self.random.next_u64();
        let request = self.protocol.next_request(self.origin_of(slot), random);
        let now_ns = self.driver.now_ns();
        let stamps = Stamps::sent(due_ns, now_ns, now_ns);
        self.ledger.started(due_ns);
        self.ledger.lag(due_ns, now_ns);
        self.ledger.sent(&stamps);
        let deadline_ns = now_ns.saturating_add(self.reply_timeout_ns);
        self.held[slot as usize].pending = self.waiting.push(Pending::message(slot, stamps, request), deadline_ns);
        // One message is under way at most, so none needs a number.
        send_request(&mut self.driver, &self.protocol, &mut self.talks[slot as usize], slot, 0, request);
        if !self.is_awaited {
            self.driver.rest(slot);
            self.message_is_done(slot, now_ns);
        }
    }

    fn wakes_ns(&self, now_ns: u64) -> u64 {
        let mut until_ns = self.ledger.next_tick_ns().min(now_ns + SLEEP_NS_MAX);
        until_ns = until_ns.min(self.connect_due_ns()).min(self.message_due_ns()).min(self.probe_due_ns);
        if let Some(deadline_ns) = self.waiting.next_deadline_ns() {
            until_ns = until_ns.min(deadline_ns);
        }
        if !self.ledger.is_load_over() {
            until_ns = until_ns.min(self.load_end_ns);
        }
        until_ns
    }

    fn look_whether_to_stop(&mut self, now_ns: u64) {
        if self.ledger.control().is_stopped() {
            self.load_end_ns = self.load_end_ns.min(now_ns);
        }
        if self.ramp_end_ns.is_none() {
            if self.made == self.held.len() && self.connecting == 0 {
                self.ramp.end();
            }
            let all_made = self.ledger.control().ramps_ended() >= self.workers;
            if all_made || (self.until_failure && self.ledger.control().is_ramp_ended()) {
                self.ramp_end_ns = Some(now_ns);
                // What was sent in this very turn was sent as warm-up.
                self.ledger.measure_from(&mut self.driver, now_ns + 1);
                self.load_end_ns = self.load_end_ns.min(now_ns.saturating_add(self.keep_ns));
            }
        }
        if !self.ledger.is_load_over() && now_ns >= self.load_end_ns {
            self.end_load(now_ns);
        }
    }

    fn end_load(&mut self, now_ns: u64) {
        self.load_end_ns = self.load_end_ns.min(now_ns);
        self.release_the_last(now_ns);
        let open = self.ledger.open();
        self.ledger.end_load(&mut self.driver, open, self.load_end_ns, now_ns);
        self.held_at_end = Some(open);
    }

    /// The load ends now. Messages that are a little overdue are still sent; what is more so had not been come to in time.
    fn release_the_last(&mut self, now_ns: u64) {
        while self.message_due_ns() < self.load_end_ns {
            let due_ns = self.message_due_ns();
            let slot = self.slot_of_message();
            self.messages_due += 1;
            if due_ns.saturating_add(OVERDUE_NS_MAX) >= now_ns {
                self.release_message(slot, due_ns);
            } else if self.held[slot as usize].state == State::Open {
                self.ledger.never_taken_up(due_ns, now_ns);
            }
        }
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        let nothing_left = self.ledger.in_flight() == 0;
        self.ledger.is_load_over() && (nothing_left || now_ns >= self.ledger.drain_end_ns())
    }
}

impl<P: Protocol<Transport = Stream>, D: Driver> Work for HoldWorker<P, D> {
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
        self.expire(now_ns);
        self.release_connects(now_ns);
        self.release_messages(now_ns);
        self.release_probe(now_ns);
        let open = self.ledger.open();
        self.ledger.tick(&mut self.driver, open, now_ns);
        self.look_whether_to_stop(now_ns);
        self.ledger.turned(&mut self.driver, to_begin_ns, began_ns, now_ns);
        if self.is_over(now_ns) {
            return false;
        }
        let until_ns = self.wakes_ns(now_ns);
        if let Err(error) = self.driver.wait(until_ns, Wake::First) {
            self.ledger.fail(format!("the {} driver cannot wait: {error}", D::NAME));
            return false;
        }
        self.wakes_ns = until_ns.max(now_ns);
        true
    }

    fn finish(mut self: Box<Self>) {
        let now_ns = self.driver.now_ns();
        if !self.ledger.is_load_over() {
            // The driver gave up.
            self.end_load(now_ns);
        }
        for message in self.waiting.all().filter(|pending| pending.request.is_some()) {
            let known = self.known_of(message.slot);
            self.ledger.unfinished(&message.stamps, now_ns, &known);
        }
        let held_at_end = Some(self.held_at_end.unwrap_or(self.ledger.open()));
        let HoldWorker { mut driver, ledger, ramp, .. } = *self;
        drop(ramp);
        ledger.finish(&mut driver, held_at_end, Vec::new());
        // The driver closes what is left: a call for each would take as long as they took to make.
        drop(driver);
    }

    fn now_ns(&mut self) -> u64 {
        self.driver.now_ns()
    }
}

/// A step through `connections` that comes by each once a round and is spread evenly over any part of a round: the golden
/// section of their number, or the next number after it that is coprime to it.
fn stride_of(connections: u64) -> u64 {
    let golden = (connections as f64 * 0.618_033_988_749_895) as u64;
    (golden.max(1)..=connections.max(1)).find(|step| coprime(*step, connections)).unwrap_or(1)
}

fn coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_turn_and_a_part_of_them_its_part() {
        for connections in [1u64, 2, 3, 10, 50, 1000, 65_536, 99_999] {
            let stride = stride_of(connections);
            let mut seen = vec![false; connections as usize];
            for m in 0..connections {
                seen[(m * stride % connections) as usize] = true;
            }
            assert!(seen.iter().all(|seen| *seen), "{connections} by {stride}");
        }
        // A tenth of a round falls on the first tenth of the connections for a tenth of its messages, nearly.
        let (n, stride) = (10_000, stride_of(10_000));
        let hits = (0..n / 10).filter(|m| m * stride % n < n / 10).count();
        assert!((80..=120).contains(&hits), "{hits}");
    }
}
