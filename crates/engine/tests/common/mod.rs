//! The same test on every driver: one service, behind real sockets for epoll and io_uring, in memory for sim.
#![allow(dead_code, reason = "each test file uses its part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

pub mod mux;

use engine::driver::sim::{Action, Service, Sim, Weather};
use engine::driver::uring;
use engine::driver::{Note, Setup};
use engine::share::Share;
use engine::{Finished, Fleet, Message, SimSession};
use model::plan::*;
use model::resp::{KeyDistribution, Resp, RespCommand, RespExpect};
use model::run_requests::RunRequests;
use model::{ErrorKind, Interval};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::recordings;

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const DRIVERS: [DriverKind; 4] = [DriverKind::Epoll, DriverKind::Uring, DriverKind::Rings, DriverKind::Sim];

/// What a run came to.
#[derive(Debug)]
pub struct Sum {
    pub total: Interval<u64>,
    pub requests: RunRequests,
    pub finished: Vec<Finished>,
    pub notes: Vec<Note>,
}

impl Sum {
    /// Requests without an end.
    pub fn in_flight(&self) -> u64 {
        self.finished.iter().map(|f| f.unfinished).sum()
    }

    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.total.errors.of(kind)
    }

    /// Every started request is accounted for.
    pub fn assert_conserved(&self, what: &str) {
        let c = &self.total.counts;
        assert_eq!(c.started, c.ok + c.failed + self.in_flight(), "{what}: {c:?}, in flight {}", self.in_flight());
        assert_eq!(c.failed, self.total.errors.total(), "{what}: {:?}", self.total.errors.seen().collect::<Vec<_>>());
    }

    /// Requests that were due: what a worker could not come to before the load ended is counted, too, and is none where time
    /// is simulated.
    pub fn due(&self, driver: &str) -> u64 {
        let c = &self.total.counts;
        assert!(c.never_taken_up == 0 || driver != DriverKind::Sim.name(), "{c:?}");
        c.started + c.dropped + c.never_taken_up
    }

    /// As many connections as were asked for. On a machine that is busy elsewhere the first ones may have done all
    /// that was to be done before the last was made; in the simulation they are all made.
    pub fn assert_connected(&self, driver: &str, asked: u64, got: u64) {
        let least = if driver == DriverKind::Sim.name() { asked } else { 1 };
        assert!((least..=asked).contains(&got), "{driver}: {got} of {asked} connections: {:?}", self.total.counts);
    }
}

/// Runs on every driver and gives each outcome to the check, with its name.
pub fn on_all<V: Service + Clone + 'static>(plan: &Plan, service: impl Fn() -> V, check: impl Fn(&str, &Sum)) {
    for driver in DRIVERS {
        if let Some(sum) = run(driver, plan.clone(), Weather::default(), &service) {
            sum.assert_conserved(driver.name());
            check(driver.name(), &sum);
        }
    }
}

/// A plan of one worker against one address, to be changed by the test.
pub fn plan(workload: Workload) -> Plan {
    Plan {
        connections: 4,
        stop: Stop { duration_ns: Some(S / 5), requests: None },
        // A busy machine must not look like a silent peer.
        drain_ns: 20 * S,
        timeouts: Timeouts { connect_ns: 20 * S, reply_ns: 20 * S },
        on_error: OnError::FailFast,
        reconnect: Backoff { first_ns: 5 * MS, max_ns: 50 * MS },
        queue_capacity: 10_000,
        tick_ns: 100 * MS,
        seed: 7,
        ..recordings::plan(workload, vec![recordings::origin("test://local", 9)])
    }
}

pub fn echo() -> Workload {
    Workload::Echo(Echo { sizes: Sizes::Range(1, 2000), content: Content::Binary })
}

pub fn http() -> Workload {
    recordings::http1(HttpRequest { headers: vec![("Host".into(), "local".into())], ..recordings::get() })
}

/// Half GET, half SET, on a hundred keys.
pub fn resp() -> Workload {
    let command = |words: &str, expect| {
        RespCommand::new(words[..3].to_owned(), 1.0, words.split(' ').map(str::to_owned).collect(), expect)
    };
    Workload::Resp(Resp {
        commands: vec![command("GET {key}", RespExpect::Value), command("SET {key} {value}", RespExpect::Ok)],
        keys: 100,
        key_prefix: "k:".to_owned(),
        key_distribution: KeyDistribution::Uniform,
        values: Sizes::Range(1, 300),
        content: Content::Binary,
        value_seed: 3,
        validate: true,
        verify_writes: false,
        logins: vec![],
    })
}

pub fn open(rate: f64) -> Pace {
    let profile = vec![Segment { from_per_s: rate, to_per_s: rate, for_ns: S }];
    Pace::Open { profile, arrivals: Arrivals::Constant }
}

/// Runs a plan on one driver against a service; `None` where the driver cannot run here (the reason is printed).
pub fn run<F, V>(driver: DriverKind, mut plan: Plan, weather: Weather, service: F) -> Option<Sum>
where
    F: Fn() -> V,
    V: Service + Clone + 'static,
{
    plan.driver = driver;
    if driver == DriverKind::Sim {
        return Some(run_sim(&plan, service, weather));
    }
    if matches!(driver, DriverKind::Uring | DriverKind::Rings)
        && let Err(why) = uring::available()
    {
        testkit::skip(&format!("no io_uring: {why}"));
        return None;
    }
    let server = Server::start(service());
    for origin in &mut plan.origins {
        origin.addresses = vec![Address::Tcp(server.address)];
    }
    let sum = run_real(&plan);
    server.settle();
    Some(sum)
}

/// Runs a plan with real sockets.
pub fn run_real(plan: &Plan) -> Sum {
    follow(Fleet::start(plan).unwrap())
}

/// Runs a plan on the simulated network, each worker with a service and a network of its own.
pub fn run_sim<V: Service + 'static>(plan: &Plan, service: impl Fn() -> V, weather: Weather) -> Sum {
    let network = |setup: &Setup, share: &Share| {
        Sim::new(setup, Box::new(service()), weather, plan.seed ^ u64::from(share.worker))
    };
    follow(Fleet::simulated(plan, SimSession::default(), network).unwrap())
}

/// Takes what the workers send until the last has ended.
pub fn follow(mut fleet: Fleet) -> Sum {
    let began = Instant::now();
    let mut requests = RunRequests::default();
    let (mut total, mut finished, mut notes) = (Interval::<u64>::new(0), Vec::new(), Vec::new());
    while finished.len() < fleet.workers() {
        match fleet.receive(testkit::HANG_GUARD) {
            Some(Message::Interval(interval)) => {
                total.add(&interval);
                requests.push(interval.sequence, interval.counts.requests(), &interval.requests);
                fleet.give_back(interval);
            }
            Some(Message::Note { note, .. }) => notes.push(*note),
            Some(Message::Finished(f)) => finished.push(f),
            None => panic!("workers hang: {finished:?}"),
        }
        assert!(began.elapsed() < testkit::HANG_GUARD, "the run does not end");
    }
    assert_eq!(fleet.join(), 0, "a worker panicked");
    Sum { total, requests, finished, notes }
}

/// A [`Service`] behind a real listening socket: a thread for each connection.
pub struct Server {
    pub address: SocketAddr,
    /// Whose connection is the last.
    last: Arc<OnceLock<SocketAddr>>,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start<V: Service + Clone + 'static>(service: V) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let last = Arc::new(OnceLock::new());
        let ends_with = last.clone();
        let listening = std::thread::spawn(move || {
            let mut serving = Vec::new();
            for number in 0.. {
                let Ok((stream, peer)) = listener.accept() else { continue };
                if ends_with.get() == Some(&peer) {
                    break;
                }
                let mut service = service.clone();
                serving.push(std::thread::spawn(move || serve(number, stream, &mut service)));
            }
            drop(listener);
            serving.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Server { address, last, listening: Some(listening) }
    }

    /// Waits until all that its clients sent has been read; for when they have gone.
    pub fn settle(mut self) {
        let listening = self.listening.take().unwrap();
        self.end();
        listening.join().unwrap();
    }

    /// No connection is taken that comes after this.
    fn end(&self) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        if self.last.set(socket.local_addr().unwrap().as_socket().unwrap()).is_ok() {
            socket.connect(&self.address.into()).unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(number: u64, mut stream: TcpStream, service: &mut dyn Service) {
    stream.set_nodelay(true).unwrap();
    let actions = service.connected(number);
    if !act(&mut stream, actions) {
        return;
    }
    let mut buffer = vec![0; 65_536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => {
                let actions = service.received(number, &buffer[..n]);
                if !act(&mut stream, actions) {
                    return;
                }
            }
        }
    }
}

fn act(stream: &mut TcpStream, actions: Vec<Action>) -> bool {
    let wait = |ns| {
        if ns > 0 {
            std::thread::sleep(Duration::from_nanos(ns))
        }
    };
    for action in actions {
        match action {
            Action::Reply { bytes, after_ns } => {
                wait(after_ns);
                if stream.write_all(&bytes).is_err() {
                    return false;
                }
            }
            Action::Close { after_ns } => {
                wait(after_ns);
                return false;
            }
            Action::Reset { after_ns } => {
                wait(after_ns);
                // Linger of zero: close(2) sends a reset, socket(7).
                socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO)).unwrap();
                return false;
            }
        }
    }
    true
}

/// A service made of a function of the connection's number, its received bytes so far, and the new ones.
#[derive(Clone)]
pub struct Fixed {
    pub on_connect: fn() -> Vec<Action>,
    pub on_bytes: fn(&[u8]) -> Vec<Action>,
}

impl Service for Fixed {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        (self.on_connect)()
    }
    fn received(&mut self, _: u64, bytes: &[u8]) -> Vec<Action> {
        (self.on_bytes)(bytes)
    }
}

/// Answers to every chunk of bytes as the function says, silent on connect.
pub fn answering(on_bytes: fn(&[u8]) -> Vec<Action>) -> impl Fn() -> Fixed {
    move || Fixed { on_connect: Vec::new, on_bytes }
}

pub fn reply(bytes: &[u8]) -> Action {
    Action::Reply { bytes: bytes.to_vec(), after_ns: 0 }
}

pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A reply for each request whose head ends in the bytes.
pub fn http_ok(bytes: &[u8]) -> Vec<Action> {
    let heads = bytes.windows(4).filter(|w| w == b"\r\n\r\n").count();
    vec![reply(&OK.repeat(heads))]
}

pub fn echo_back(bytes: &[u8]) -> Vec<Action> {
    vec![reply(bytes)]
}
