//! An in-memory network with a seed: delay, loss, resets, partial reads, clock jumps. For tests.
//!
//! Time is virtual and moves only in [`Driver::wait`], so a run on it is a function of its seed and takes no time.
//! The other end is a [`Service`]: bytes in, actions out, without sockets; the tests run the same service behind real
//! sockets for the other drivers. Not a model of TCP: bytes of a connection arrive in order, or the connection breaks.

use super::{Driver, Event, Setup, Slot, Wake};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use wire::Payload;

/// What a service does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends bytes, so long after.
    Reply {
        /// The bytes.
        bytes: Vec<u8>,
        /// Nanoseconds from now.
        after_ns: u64,
    },
    /// Closes the connection in order, after what was sent before.
    Close {
        /// Nanoseconds from now.
        after_ns: u64,
    },
    /// Resets it; what was sent before and has not arrived is lost.
    Reset {
        /// Nanoseconds from now.
        after_ns: u64,
    },
}

/// The other end of the network: one value serves all connections.
pub trait Service: Send {
    /// A connection was established.
    fn connected(&mut self, connection: u64) -> Vec<Action>;
    /// Bytes came on it.
    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action>;
}

/// What the network does to what passes through it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weather {
    /// One-way delay, nanoseconds: uniform between the two.
    pub delay_ns: (u64, u64),
    /// Share of connects refused.
    pub refuse: f64,
    /// Share of connects that get no answer.
    pub blackhole: f64,
    /// Share of deliveries that reset the connection instead.
    pub reset: f64,
    /// Share of deliveries cut into pieces that arrive apart.
    pub cut: f64,
    /// From one moment to another everything stands still: (start, length), nanoseconds.
    pub stall_ns: Option<(u64, u64)>,
    /// The clock leaps forward by so much at the given moment: (moment, leap), as when the process was stopped.
    pub leap_ns: Option<(u64, u64)>,
    /// The first send from a moment on takes so long: (moment, length), as when the process was stopped in the midst of a turn.
    pub leap_in_send_ns: Option<(u64, u64)>,
    /// The target dies at this moment: what it has is reset, connects are refused from then on.
    pub dies_ns: Option<u64>,
}

/// What passed between a worker and its network: the simulation's own list, to hold the books against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// When, by the worker's clock.
    pub at_ns: u64,
    /// On which connection; each has a number of its own.
    pub connection: u64,
    /// The address it was made to, by its place among all of the plan.
    pub address: usize,
    /// How many bytes.
    pub bytes: usize,
    /// Whether they were sent by the worker; otherwise they were received by it.
    pub is_sent: bool,
}

/// Where the simulation keeps its list.
pub type Log = Arc<Mutex<Vec<Passed>>>;

impl Default for Weather {
    fn default() -> Self {
        Weather {
            delay_ns: (20_000, 50_000),
            refuse: 0.0,
            blackhole: 0.0,
            reset: 0.0,
            cut: 0.0,
            stall_ns: None,
            leap_ns: None,
            leap_in_send_ns: None,
            dies_ns: None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrival {
    Established,
    Refused,
    AtService(Vec<u8>),
    AtClient(Vec<u8>),
    CloseAtClient,
    ResetAtClient,
}

/// The simulated driver. See the module's head.
pub struct Sim {
    now_ns: u64,
    weather: Weather,
    random: SmallRng,
    service: Box<dyn Service>,
    /// The connection a slot has, and to which address; a number is never used again.
    connections: Vec<Option<(u64, usize)>>,
    slots: BTreeMap<u64, Slot>,
    /// Earliest moment the next bytes of a connection may arrive, in each direction: keeps them in order.
    last_ns: BTreeMap<u64, [u64; 2]>,
    next_connection: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, u64, Arrival)>>,
    sequence: u64,
    ready: VecDeque<(Event, Vec<u8>)>,
    bytes: Vec<u8>,
    sent_bytes: u64,
    blobs: Vec<Arc<[u8]>>,
    log: Option<Log>,
}

impl Sim {
    /// A network in which nothing has happened yet.
    pub fn new(setup: &Setup, service: Box<dyn Service>, weather: Weather, seed: u64) -> Self {
        Sim {
            now_ns: 0,
            weather,
            random: SmallRng::seed_from_u64(seed),
            service,
            connections: vec![None; setup.slots as usize],
            slots: BTreeMap::new(),
            last_ns: BTreeMap::new(),
            next_connection: 0,
            agenda: BinaryHeap::new(),
            sequence: 0,
            ready: VecDeque::new(),
            bytes: Vec::new(),
            sent_bytes: 0,
            blobs: setup.blobs.clone(),
            log: None,
        }
    }

    /// The same, which lists what passes through it.
    pub fn logged(self, log: Log) -> Self {
        Sim { log: Some(log), ..self }
    }

    fn note(&self, slot: Slot, bytes: usize, is_sent: bool, at_ns: u64) {
        if let (Some(log), Some((connection, address))) = (&self.log, self.connections[slot as usize])
            && let Ok(mut log) = log.lock()
        {
            log.push(Passed { at_ns, connection, address, bytes, is_sent });
        }
    }

    fn is_dead(&self, at_ns: u64) -> bool {
        self.weather.dies_ns.is_some_and(|dies_ns| at_ns >= dies_ns)
    }

    fn delay_ns(&mut self) -> u64 {
        let (low, high) = self.weather.delay_ns;
        self.random.random_range(low..=high.max(low))
    }

    fn schedule(&mut self, at_ns: u64, connection: u64, arrival: Arrival) {
        let at_ns = match self.weather.stall_ns {
            Some((start, length)) if (start..start + length).contains(&at_ns) => start + length,
            _ => at_ns,
        };
        self.sequence += 1;
        self.agenda.push(Reverse((at_ns, self.sequence, connection, arrival)));
    }

    /// A moment `after_ns` from now plus the network's delay, not before what went the same way earlier.
    fn arrives_ns(&mut self, connection: u64, direction: usize, after_ns: u64) -> u64 {
        let at_ns = self.now_ns + after_ns + self.delay_ns();
        let last = &mut self.last_ns.entry(connection).or_default()[direction];
        *last = at_ns.max(*last);
        *last
    }

    fn act(&mut self, connection: u64, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Reply { bytes, after_ns } => {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let piece = if rest.len() > 1 && self.random.random_bool(self.weather.cut) {
                            self.random.random_range(1..rest.len())
                        } else {
                            rest.len()
                        };
                        let at_ns = self.arrives_ns(connection, 1, after_ns);
                        let arrival = if self.random.random_bool(self.weather.reset) {
                            Arrival::ResetAtClient
                        } else {
                            Arrival::AtClient(rest[..piece].to_vec())
                        };
                        self.schedule(at_ns, connection, arrival);
                        rest = &rest[piece..];
                    }
                }
                Action::Close { after_ns } => {
                    let at_ns = self.arrives_ns(connection, 1, after_ns);
                    self.schedule(at_ns, connection, Arrival::CloseAtClient);
                }
                Action::Reset { after_ns } => {
                    let at_ns = self.now_ns + after_ns + self.delay_ns();
                    self.schedule(at_ns, connection, Arrival::ResetAtClient);
                }
            }
        }
    }

    fn arrive(&mut self, connection: u64, arrival: Arrival) {
        let Some(&slot) = self.slots.get(&connection) else {
            // What was sent before we closed arrives all the same; nobody is there to hear the answer.
            if let Arrival::AtService(bytes) = arrival
                && !self.is_dead(self.now_ns)
            {
                self.service.received(connection, &bytes);
            }
            return;
        };
        let arrival = match arrival {
            Arrival::Established if self.is_dead(self.now_ns) => Arrival::Refused,
            Arrival::AtService(_) | Arrival::AtClient(_) if self.is_dead(self.now_ns) => Arrival::ResetAtClient,
            arrival => arrival,
        };
        match arrival {
            Arrival::Established => {
                self.ready.push_back((Event::Connected { slot }, Vec::new()));
                let actions = self.service.connected(connection);
                self.act(connection, actions);
            }
            Arrival::Refused => {
                self.close(slot);
                self.ready.push_back((Event::ConnectFailed { slot, errno: libc::ECONNREFUSED }, Vec::new()));
            }
            Arrival::AtService(bytes) => {
                let actions = self.service.received(connection, &bytes);
                self.act(connection, actions);
            }
            Arrival::AtClient(bytes) => {
                self.ready.push_back((Event::Received { slot, at_ns: self.now_ns }, bytes));
            }
            Arrival::CloseAtClient => self.ready.push_back((Event::Closed { slot }, Vec::new())),
            Arrival::ResetAtClient => {
                self.ready.push_back((Event::Failed { slot, errno: libc::ECONNRESET }, Vec::new()));
            }
        }
    }

    fn advance(&mut self, to_ns: u64) {
        let to_ns = match self.weather.leap_ns {
            Some((moment, leap)) if self.now_ns < moment && to_ns >= moment => {
                self.weather.leap_ns = None;
                to_ns + leap
            }
            _ => to_ns,
        };
        self.now_ns = self.now_ns.max(to_ns);
    }
}

impl Driver for Sim {
    const NAME: &'static str = "sim";
    const STAMPS_EACH_READ: bool = true;

    fn begin(&mut self, _origin_ns: u64) {}

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn connect(&mut self, slot: Slot, address: usize) {
        let connection = self.next_connection;
        self.next_connection += 1;
        self.connections[slot as usize] = Some((connection, address));
        self.slots.insert(connection, slot);
        let fate = self.random.random::<f64>();
        let at_ns = self.now_ns + 2 * self.delay_ns();
        if fate < self.weather.refuse {
            self.schedule(at_ns, connection, Arrival::Refused);
        } else if fate >= self.weather.refuse + self.weather.blackhole {
            self.schedule(at_ns, connection, Arrival::Established);
        }
    }

    fn send(&mut self, slot: Slot, payload: Payload) {
        let start = payload.start as usize;
        let bytes = self.blobs[payload.blob as usize][start..start + payload.length as usize].to_vec();
        self.send_bytes(slot, bytes);
    }

    fn lend(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn send_bytes(&mut self, slot: Slot, bytes: Vec<u8>) {
        let Some((connection, _)) = self.connections[slot as usize] else { return };
        self.sent_bytes += bytes.len() as u64;
        self.note(slot, bytes.len(), true, self.now_ns);
        if let Some((_, leap)) = self.weather.leap_in_send_ns.take_if(|(moment, _)| self.now_ns >= *moment) {
            self.now_ns += leap;
        }
        let at_ns = self.arrives_ns(connection, 0, 0);
        let arrival = if self.random.random_bool(self.weather.reset) {
            Arrival::ResetAtClient
        } else {
            Arrival::AtService(bytes)
        };
        self.schedule(at_ns, connection, arrival);
    }

    fn unsent_bytes(&self, _slot: Slot) -> u64 {
        0
    }

    fn take_sent_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sent_bytes)
    }

    fn close(&mut self, slot: Slot) {
        if let Some((connection, _)) = self.connections[slot as usize].take() {
            self.slots.remove(&connection);
            self.last_ns.remove(&connection);
            self.ready.retain(|(event, _)| event.slot() != slot);
        }
    }

    fn wait(&mut self, until_ns: u64, wake: Wake) -> io::Result<()> {
        let mut batch_ends_ns = u64::MAX;
        loop {
            let enough = match wake {
                Wake::First => !self.ready.is_empty(),
                Wake::Batch { completions, .. } => self.ready.len() >= completions as usize,
                Wake::Never => false,
            };
            if enough {
                return Ok(());
            }
            if let Wake::Batch { delay_ns, .. } = wake
                && !self.ready.is_empty()
            {
                batch_ends_ns = batch_ends_ns.min(self.now_ns + delay_ns);
            }
            let ends_ns = until_ns.min(batch_ends_ns);
            match self.agenda.peek() {
                Some(Reverse((at_ns, ..))) if *at_ns <= ends_ns => {
                    let at_ns = *at_ns;
                    self.advance(at_ns);
                    if let Some(Reverse((_, _, connection, arrival))) = self.agenda.pop() {
                        self.arrive(connection, arrival);
                    }
                }
                _ => {
                    self.advance(ends_ns);
                    return Ok(());
                }
            }
        }
    }

    fn spin_until(&mut self, at_ns: u64) {
        self.advance(at_ns);
    }

    fn next(&mut self) -> Option<Event> {
        let (event, bytes) = self.ready.pop_front()?;
        self.bytes = bytes;
        if let Event::Received { slot, at_ns } = event {
            self.note(slot, self.bytes.len(), false, at_ns);
        }
        Some(event)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Nothing here costs real time.
    fn cpu_ns(&self) -> (u64, u64) {
        (0, 0)
    }

    fn cpu_wait_ns(&self) -> u64 {
        0
    }
}
