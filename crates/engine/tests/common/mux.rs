//! A small protocol of several requests at once on one connection, answered in any order: what HTTP/2, gRPC and WebSocket
//! ask of the engine, and nothing else. A greeting with a key of the connection's own, frames with numbers, pings, word
//! that the peer takes no more, and a close that wants one back.
//!
//! A frame is a kind, a number (`2 n + 1` of the connection's request n, as HTTP/2 numbers streams), a length, and bytes.

use super::*;
use engine::driver::clock::monotonic_ns;
use engine::driver::epoll::Epoll;
use engine::driver::rings::Rings;
use engine::driver::uring::Uring;
use engine::driver::{Driver, Idle};
use engine::link::{Control, MESSAGES_MAX, WorkerLink};
use engine::share::shares;
use engine::tls::{Tls, TlsConfig};
use engine::worker::Work;
use engine::worker::burst::{BurstWorker, Rendezvous};
use engine::worker::requests::Worker;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use wire::{Failure, Fed, Progress, Protocol, Reply, Source, Stream};

/// Bytes of a frame's head.
pub const HEAD: usize = 7;
/// Bytes of the greeting, and of its answer.
pub const HELLO: usize = 13;
pub const WELCOME: usize = 15;
/// Bytes of a request's content at the most.
pub const CONTENT_MAX: usize = 60;
/// What a server makes of the key to prove that it has read it.
const PROOF: u64 = 0x5eed_5eed_5eed_5eed;
/// Requests given up that a connection remembers.
const GIVEN_UP_MAX: usize = 8;

/// The head of a frame.
pub fn head(kind: u8, id: u32, length: usize) -> [u8; HEAD] {
    let mut head = [kind; HEAD];
    head[1..5].copy_from_slice(&id.to_be_bytes());
    head[5..].copy_from_slice(&(length as u16).to_be_bytes());
    head
}

/// A whole frame.
pub fn frame(kind: u8, number: u32, content: &[u8]) -> Vec<u8> {
    [&head(kind, 2 * number + 1, content.len())[..], content].concat()
}

/// The client's machine.
#[derive(Clone, Copy)]
pub struct Mux {
    /// Requests outstanding on a connection at the most.
    pub depth: usize,
    /// Whether a connection begins with a greeting.
    pub greets: bool,
}

/// A request: a row, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    pub row: u32,
    pub size: u8,
}

impl Asked {
    fn byte(self, at: usize) -> u8 {
        (self.row.wrapping_mul(31) as usize + at) as u8
    }
}

#[derive(Debug, Default)]
pub struct Connection {
    key: u64,
    welcome: usize,
    head: [u8; HEAD],
    got: usize,
    came: usize,
    is_wrong: bool,
    asked: Vec<(u32, Asked)>,
    given_up: Vec<u32>,
    /// Frames that are owed, at most one of each kind.
    pong: Option<u32>,
    cancel: Option<u32>,
    closes: bool,
}

impl Connection {
    fn id(&self) -> u32 {
        u32::from_be_bytes([self.head[1], self.head[2], self.head[3], self.head[4]])
    }

    fn length(&self) -> usize {
        usize::from(u16::from_be_bytes([self.head[5], self.head[6]]))
    }

    /// The frame is complete.
    fn end(&mut self) -> Option<Progress> {
        let (kind, number) = (self.head[0], self.id() / 2);
        let is_wrong = std::mem::take(&mut self.is_wrong);
        (self.got, self.came) = (0, 0);
        match kind {
            b'P' => {
                self.pong = Some(self.id());
                Some(Progress::Say)
            }
            b'C' => {
                self.closes = true;
                Some(Progress::Ending)
            }
            b'G' => Some(Progress::Ending),
            b'B' if self.given_up.contains(&number) => None,
            b'B' => Some(Progress::Begun(number)),
            _ => {
                if let Some(place) = self.given_up.iter().position(|given_up| *given_up == number) {
                    self.given_up.swap_remove(place);
                    return None;
                }
                self.asked.retain(|(asked, _)| *asked != number);
                let failed = |kind| Some(Failure { kind, detail: 0 });
                let failure = match kind {
                    b'E' => failed(ErrorKind::ErrorReply),
                    _ if is_wrong => failed(ErrorKind::CorruptedReply),
                    _ => None,
                };
                Some(Progress::ReplyTo(number, Reply { status: 200, keep: kind != b'L', failure }))
            }
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Fed {
        let mut consumed = 0;
        while consumed < bytes.len() {
            if self.got < HEAD {
                self.head[self.got] = bytes[consumed];
                (self.got, consumed) = (self.got + 1, consumed + 1);
                if self.got < HEAD {
                    continue;
                }
                if !b"PCGBRELE".contains(&self.head[0]) || self.id().is_multiple_of(2) {
                    let failure = Failure { kind: ErrorKind::BadFraming, detail: 0 };
                    return Fed { consumed, progress: Progress::Broken(failure) };
                }
                let number = self.id() / 2;
                if self.length() > 0 && !self.given_up.contains(&number) {
                    return Fed { consumed, progress: Progress::Begun(number) };
                }
            } else {
                let number = self.id() / 2;
                let asked = self.asked.iter().find(|(asked, _)| *asked == number);
                self.is_wrong |= asked.is_some_and(|(_, asked)| asked.byte(self.came) != bytes[consumed]);
                (self.came, consumed) = (self.came + 1, consumed + 1);
            }
            if self.came == self.length()
                && let Some(progress) = self.end()
            {
                return Fed { consumed, progress };
            }
        }
        Fed { consumed, progress: Progress::More }
    }
}

impl Protocol for Mux {
    type Connection = Connection;
    type Request = Asked;
    type Transport = Stream;

    const FRAMED: bool = true;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        Vec::new()
    }

    fn connection(&self) -> Connection {
        Connection {
            asked: Vec::with_capacity(self.depth),
            given_up: Vec::with_capacity(GIVEN_UP_MAX),
            ..Connection::default()
        }
    }

    fn next_request(&mut self, _origin: u16, random: u64) -> Asked {
        Asked { row: random as u32, size: 1 + ((random >> 32) % CONTENT_MAX as u64) as u8 }
    }

    fn source(&self, _request: Asked) -> Source {
        Source::Template
    }

    fn write(&self, connection: &mut Connection, number: u32, request: Asked, to: &mut Vec<u8>) {
        connection.asked.push((number, request));
        to.extend_from_slice(&head(b'Q', 2 * number + 1, usize::from(request.size)));
        to.extend((0..usize::from(request.size)).map(|at| request.byte(at)));
    }

    fn written_bytes_max(&self) -> usize {
        HEAD + CONTENT_MAX
    }

    fn greeting(&self, connection: &mut Connection, _origin: u16, random: u64, to: &mut Vec<u8>) {
        if self.greets {
            connection.key = random;
            to.extend_from_slice(b"HELLO");
            to.extend_from_slice(&random.to_be_bytes());
        }
    }

    fn greeted(&self, connection: &mut Connection, _origin: u16, bytes: &[u8]) -> Fed {
        let expected = [&b"WELCOME"[..], &(connection.key ^ PROOF).to_be_bytes()].concat();
        for (consumed, byte) in bytes.iter().enumerate() {
            if expected[connection.welcome] != *byte {
                let failure = Failure { kind: ErrorKind::LoginRefused, detail: 0 };
                return Fed { consumed, progress: Progress::Broken(failure) };
            }
            connection.welcome += 1;
            if connection.welcome == WELCOME {
                let reply = Reply { status: 0, keep: true, failure: None };
                return Fed { consumed: consumed + 1, progress: Progress::Reply(reply) };
            }
        }
        Fed { consumed: bytes.len(), progress: Progress::More }
    }

    fn feed(&self, connection: &mut Connection, _oldest: Asked, bytes: &[u8]) -> Fed {
        connection.read(bytes)
    }

    fn feed_idle(&self, connection: &mut Connection, bytes: &[u8]) -> Fed {
        connection.read(bytes)
    }

    fn say(&self, connection: &mut Connection, to: &mut Vec<u8>) {
        if let Some(id) = connection.pong.take() {
            to.extend_from_slice(&head(b'A', id, 0));
        }
        if let Some(number) = connection.cancel.take() {
            to.extend_from_slice(&head(b'X', 2 * number + 1, 0));
        }
        if std::mem::take(&mut connection.closes) {
            to.extend_from_slice(&head(b'C', 1, 0));
        }
    }

    fn closed(&self, _connection: &mut Connection, _oldest: Asked) -> Progress {
        Progress::Broken(Failure { kind: ErrorKind::ClosedEarly, detail: 0 })
    }

    /// The detail says which it was.
    fn timed_out(&self, _connection: &mut Connection, number: u32, _request: Asked) -> Failure {
        Failure { kind: ErrorKind::ReplyTimeout, detail: number + 1 }
    }

    fn gives_up(&self, connection: &mut Connection, number: u32) -> bool {
        if connection.given_up.len() == GIVEN_UP_MAX {
            return false;
        }
        connection.given_up.push(number);
        connection.asked.retain(|(asked, _)| *asked != number);
        connection.cancel = Some(number);
        true
    }

    fn describe(_detail: u32) -> Option<&'static str> {
        None
    }
}

/// What a server has read, over all its connections.
#[derive(Debug, Default)]
pub struct Heard {
    pub keys: Vec<u64>,
    pub requests: u64,
    pub pongs: u64,
    pub closes: u64,
    pub cancels: u64,
    /// Content bytes of requests.
    pub content: u64,
}

/// What a server does with the requests of one read: (number, content) of each, and how many came on the connection before.
pub type Answer = fn(&[(u32, Vec<u8>)], u64) -> Vec<Action>;

/// A server of the protocol.
#[derive(Clone)]
pub struct MuxServer {
    pub greets: bool,
    pub answer: Answer,
    /// What follows a request's cancellation.
    pub on_cancel: fn(u32) -> Vec<Action>,
    /// What follows the greeting at once, in the same piece.
    pub behind_welcome: Vec<u8>,
    pub heard: Arc<Mutex<Heard>>,
    /// Of each connection: bytes that are no whole frame yet, and requests that came before.
    pub rest: HashMap<u64, Vec<u8>>,
    pub greeted: HashMap<u64, u64>,
}

impl MuxServer {
    pub fn new(answer: Answer) -> Self {
        MuxServer {
            greets: true,
            answer,
            on_cancel: |_| Vec::new(),
            behind_welcome: Vec::new(),
            heard: Arc::default(),
            rest: HashMap::new(),
            greeted: HashMap::new(),
        }
    }
}

impl Service for MuxServer {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let mut rest = self.rest.remove(&connection).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let (mut at, mut actions, mut requests) = (0, Vec::new(), Vec::new());
        let mut heard = self.heard.lock().unwrap();
        if self.greets && !self.greeted.contains_key(&connection) && rest.len() >= HELLO {
            assert_eq!(&rest[..5], b"HELLO");
            let key = u64::from_be_bytes(rest[5..HELLO].try_into().unwrap());
            heard.keys.push(key);
            let welcome = [&b"WELCOME"[..], &(key ^ PROOF).to_be_bytes(), &self.behind_welcome].concat();
            actions.push(reply(&welcome));
            self.greeted.insert(connection, 0);
            at = HELLO;
        }
        if self.greets && !self.greeted.contains_key(&connection) {
            self.rest.insert(connection, rest);
            return actions;
        }
        while let Some(head) = rest.get(at..at + HEAD) {
            let length = usize::from(u16::from_be_bytes([head[5], head[6]]));
            let Some(content) = rest.get(at + HEAD..at + HEAD + length) else { break };
            let id = u32::from_be_bytes(head[1..5].try_into().unwrap());
            match head[0] {
                b'Q' => requests.push((id / 2, content.to_vec())),
                b'A' => heard.pongs += 1,
                b'C' => heard.closes += 1,
                b'X' => {
                    heard.cancels += 1;
                    actions.extend((self.on_cancel)(id / 2));
                }
                other => panic!("a frame of kind {other}"),
            }
            at += HEAD + length;
        }
        self.rest.insert(connection, rest.split_off(at));
        heard.requests += requests.len() as u64;
        heard.content += requests.iter().map(|(_, content)| content.len() as u64).sum::<u64>();
        let before = self.greeted.entry(connection).or_default();
        if !requests.is_empty() {
            actions.extend((self.answer)(&requests, *before));
            *before += requests.len() as u64;
        }
        actions
    }
}

/// The requests of a read in another order, the same each time.
pub fn shuffled(requests: &[(u32, Vec<u8>)]) -> Vec<&(u32, Vec<u8>)> {
    let mut order: Vec<_> = requests.iter().collect();
    order.sort_by_key(|(number, content)| {
        (u64::from(*number) ^ content.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    });
    order
}

/// Replies to all requests of a read, in another order, in one piece.
pub fn replies(requests: &[(u32, Vec<u8>)]) -> Vec<u8> {
    shuffled(requests).into_iter().flat_map(|(number, content)| frame(b'R', *number, content)).collect()
}

/// Runs a plan of one worker with a protocol of the test's own; `None` where the driver cannot run here.
pub fn run_protocol<P, V>(kind: DriverKind, mut plan: Plan, weather: Weather, protocol: P, service: V) -> Option<Sum>
where
    P: Protocol<Transport = Stream, Connection: 'static, Request: 'static> + 'static,
    V: Service + Clone + 'static,
{
    plan.driver = kind;
    if matches!(kind, DriverKind::Uring | DriverKind::Rings)
        && let Err(why) = uring::available()
    {
        testkit::skip(&format!("no io_uring: {why}"));
        return None;
    }
    let server = (kind != DriverKind::Sim).then(|| Server::start(service.clone()));
    if let Some(server) = &server {
        plan.origins[0].addresses = vec![Address::Tcp(server.address)];
    }
    let setup = Setup {
        slots: plan.connections,
        addresses: plan.origins[0].addresses.clone(),
        blobs: protocol.blobs(),
        pipeline: plan.pipeline,
        receive_stamps: false,
        sources: vec![],
        is_burst: matches!(plan.pace, Pace::Burst { .. }),
        idle: Idle::Watched,
    };
    let sum = match kind {
        DriverKind::Epoll => secure(&plan, &setup, protocol, Epoll::new(&setup).unwrap(), monotonic_ns()),
        DriverKind::Uring => secure(&plan, &setup, protocol, Uring::new(&setup).unwrap(), monotonic_ns()),
        DriverKind::Rings => secure(&plan, &setup, protocol, Rings::new(&setup).unwrap(), monotonic_ns()),
        DriverKind::Sim => {
            let driver = Sim::new(&setup, Box::new(service), weather, plan.seed);
            secure(&plan, &setup, protocol, driver, 0)
        }
    };
    // The ring of a burst keeps its connections until the thread that made it ends, and that is the test's own.
    if let Some(server) = server.filter(|_| !setup.is_burst) {
        server.settle();
    }
    Some(sum)
}

/// Puts TLS over the driver, where the plan has it.
fn secure<P, D>(plan: &Plan, setup: &Setup, protocol: P, driver: D, origin_ns: u64) -> Sum
where
    P: Protocol<Transport = Stream, Connection: 'static, Request: 'static> + 'static,
    D: Driver + 'static,
{
    let Some(tls) = &plan.tls else { return drive(plan, protocol, driver, origin_ns) };
    let config = TlsConfig::new(tls, setup.slots).unwrap();
    let driver = Tls::new(driver, config, setup.slots, setup.blobs.clone(), vec![0]);
    drive(plan, protocol, driver, origin_ns)
}

/// A worker's ends of its link.
struct Ends {
    messages: Receiver<Message>,
    empties: SyncSender<Box<Interval>>,
}

impl Ends {
    fn take(&self, sum: &mut Sum) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Interval(mut interval) => {
                    sum.total.add(&interval);
                    interval.clear();
                    let _ = self.empties.try_send(interval);
                }
                Message::Note { note, .. } => sum.notes.push(*note),
                Message::Finished(finished) => sum.finished.push(finished),
            }
        }
    }
}

/// Steps a worker to its end on this thread.
pub fn drive<P, D>(plan: &Plan, protocol: P, driver: D, origin_ns: u64) -> Sum
where
    P: Protocol<Transport = Stream, Connection: 'static, Request: 'static> + 'static,
    D: Driver + 'static,
{
    let (to_session, messages) = sync_channel(MESSAGES_MAX);
    let (empties, from_session) = sync_channel(2);
    empties.send(Box::new(Interval::new(0))).unwrap();
    let link = WorkerLink { messages: to_session, empties: from_session, control: Control::new() };
    let share = shares(plan).remove(0);
    let mut worker: Box<dyn Work> = if matches!(plan.pace, Pace::Burst { .. }) {
        Box::new(BurstWorker::new(plan, &share, protocol, driver, link, Arc::new(Rendezvous::new(1))))
    } else {
        Box::new(Worker::new(plan, &share, protocol, driver, link))
    };
    let ends = Ends { messages, empties };
    let mut sum =
        Sum { total: Interval::new(0), requests: RunRequests::default(), finished: Vec::new(), notes: Vec::new() };
    let began = Instant::now();
    worker.begin(origin_ns);
    while worker.step() {
        ends.take(&mut sum);
        assert!(began.elapsed() < Duration::from_secs(60), "the run does not end");
    }
    worker.finish();
    ends.take(&mut sum);
    sum
}
