//! RESP2 on every driver, against a store that parses commands on its own: pipelining, wrong values, errors, logins.

use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use model::Secret;
use model::error_kind::Phase;
use model::plan::*;
use model::resp::{Login, tally};
use model::{ErrorKind, LatencyKind};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A store of strings, one for all connections.
#[derive(Clone, Default)]
struct Store {
    values: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>,
    /// Bytes of each connection that are no whole command yet.
    rest: HashMap<u64, Vec<u8>>,
    /// The password that AUTH must bring; empty: none.
    password: &'static [u8],
    spoils_values: bool,
    logged_in: HashMap<u64, bool>,
    /// Those that came; of them it takes the first ones.
    clients: Arc<AtomicUsize>,
    clients_max: Option<usize>,
}

/// What redis says to a client too many, before it closes.
const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

impl Service for Store {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        let clients = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        match self.clients_max {
            Some(most) if clients > most => vec![reply(FULL), Action::Close { after_ns: 0 }],
            _ => Vec::new(),
        }
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let mut rest = self.rest.remove(&connection).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let (mut at, mut replies) = (0, Vec::new());
        while let Some((words, length)) = parse(&rest[at..]) {
            at += length;
            replies.extend(self.answer(connection, &words));
        }
        self.rest.insert(connection, rest.split_off(at));
        if replies.is_empty() { Vec::new() } else { vec![reply(&replies)] }
    }
}

impl Store {
    fn answer(&mut self, connection: u64, words: &[Vec<u8>]) -> Vec<u8> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let may = self.password.is_empty() || self.logged_in.get(&connection) == Some(&true);
        match words[..] {
            [b"AUTH", password] if password == self.password => {
                self.logged_in.insert(connection, true);
                b"+OK\r\n".to_vec()
            }
            [b"AUTH", ..] => b"-WRONGPASS invalid\r\n".to_vec(),
            _ if !may => b"-NOAUTH Authentication required.\r\n".to_vec(),
            [b"SELECT", b"3"] => b"+OK\r\n".to_vec(),
            [b"SELECT", _] => b"-ERR DB index is out of range\r\n".to_vec(),
            [b"SET", key, value] => {
                let mut value = value.to_vec();
                if self.spoils_values {
                    value[0] ^= 1;
                }
                self.values.lock().unwrap().insert(key.to_vec(), value);
                b"+OK\r\n".to_vec()
            }
            [b"GET", key] => match self.values.lock().unwrap().get(key) {
                Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
                None => b"$-1\r\n".to_vec(),
            },
            _ => b"-ERR unknown command\r\n".to_vec(),
        }
    }
}

/// The words of a whole command at the beginning of some bytes, and its length.
fn parse(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let line = |from: usize| {
        let end = from + bytes.get(from..)?.windows(2).position(|w| w == b"\r\n")?;
        let number: usize = std::str::from_utf8(&bytes[from + 1..end]).unwrap().parse().unwrap();
        Some((number, end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, start) = line(at)?;
        words.push(bytes.get(start..start + length)?.to_vec());
        at = start + length + 2;
        if at > bytes.len() {
            return None;
        }
    }
    Some((words, at))
}

fn counted(requests: u64) -> Plan {
    let mut plan = plan(resp());
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    plan
}

fn with_login(login: Login) -> Plan {
    let mut plan = counted(200);
    let Workload::Resp(resp) = &mut plan.workload else { unreachable!() };
    resp.logins = vec![login];
    plan
}

#[test]
fn values_come_back_as_they_were_set_whatever_the_pipeline() {
    for pipeline in [1, 2, 16] {
        let mut plan = counted(2001);
        plan.pipeline = pipeline;
        on_all(&plan, Store::default, |name, sum| {
            let (commands, words) = tally(&sum.total.outcomes, 2);
            assert_eq!((sum.total.counts.ok, words.len()), (2001, 0), "{name} × {pipeline}");
            assert_eq!(commands[0].replies + commands[1].replies, 2001, "{name} × {pipeline}");
            assert!(commands.iter().all(|c| c.replies > 800), "{name} × {pipeline}: {commands:?}");
            assert!(commands[0].nil > 0 && commands[0].nil < commands[0].replies, "{name}: {commands:?}");
        });
    }
}

#[test]
fn an_open_pace_and_batches_work_as_for_any_protocol() {
    let mut open_pace = plan(resp());
    open_pace.pace = open(1000.0);
    on_all(&open_pace, Store::default, |name, sum| {
        assert_eq!((sum.due(name), sum.total.counts.ok), (200, sum.total.counts.started), "{name}");
    });
    let mut batched = counted(500);
    batched.batch = Some(Batch { completions: 2, delay_ns: MS });
    on_all(&batched, Store::default, |name, sum| assert_eq!(sum.total.counts.ok, 500, "{name}"));
    let mut burst = plan(resp());
    burst.pace = Pace::Burst { rounds: 3, at: BurstAt::Send, pause_ns: MS };
    burst.stop = Stop { duration_ns: None, requests: Some(12) };
    on_all(&burst, Store::default, |name, sum| assert_eq!(sum.total.counts.ok, 12, "{name}"));
}

#[test]
fn a_wrong_value_is_found_and_the_connection_stays() {
    let store = || Store { spoils_values: true, ..Store::default() };
    on_all(&counted(1000), store, |name, sum| {
        let corrupted = sum.of(ErrorKind::CorruptedReply);
        let (commands, _) = tally(&sum.total.outcomes, 2);
        assert!(corrupted > 100, "{name}");
        assert_eq!((commands[0].wrong, sum.total.counts.failed), (corrupted, corrupted), "{name}");
        sum.assert_connected(name, 4, sum.total.counts.connected);
    });
}

#[test]
fn error_replies_are_counted_by_their_word() {
    let store = || Store { password: b"secret", ..Store::default() };
    on_all(&counted(300), store, |name, sum| {
        assert_eq!(sum.of(ErrorKind::ErrorReply), 300, "{name}");
        assert_eq!(tally(&sum.total.outcomes, 2).1, [("NOAUTH", 300)], "{name}");
    });
}

#[test]
fn requests_wait_for_the_greeting() {
    let store = || Store { password: b"secret", ..Store::default() };
    let good = Login { auth: true, password: Secret::from("secret"), database: Some(3), ..Login::default() };
    for requests_per_connection in [None, Some(10)] {
        let mut plan = with_login(good.clone());
        plan.requests_per_connection = requests_per_connection;
        on_all(&plan, store, |name, sum| {
            assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (200, 0), "{name}");
        });
    }
}

#[test]
fn a_refused_greeting_lets_no_request_through() {
    let store = || Store { password: b"secret", ..Store::default() };
    let wrong = Login { auth: true, password: Secret::from("guess"), ..Login::default() };
    let elsewhere = Login { auth: true, password: Secret::from("secret"), database: Some(4), ..Login::default() };
    for login in [wrong, elsewhere] {
        let mut plan = with_login(login);
        plan.stop = Stop { duration_ns: Some(S), requests: None };
        on_all(&plan, store, |name, sum| {
            let counts = &sum.total.counts;
            assert!(sum.of(ErrorKind::LoginRefused) > 0 && counts.connect_failed > 0, "{name}: {counts:?}");
            assert_eq!((counts.ok, counts.connected), (0, 0), "{name}");
            assert_eq!(sum.total.latency.of(LatencyKind::Service).len(), 0, "{name}");
        });
    }
}

#[test]
fn a_server_that_speaks_before_anything_was_asked_has_answered_nothing() {
    // Nobody's requests wait for the connections that are too many.
    let mut spare = plan(resp());
    spare.pace = open(200.0);
    spare.stop = Stop { duration_ns: Some(500 * MS), requests: None };
    let store = || Store { clients_max: Some(2), ..Store::default() };
    on_all(&spare, store, |name, sum| {
        assert!(sum.total.counts.ok > 50, "{name}");
        // The last one may be under way when the load ends.
        let spoke = sum.total.connection_errors.of(ErrorKind::SpokeFirst);
        assert!(spoke > 2 && spoke + 4 >= sum.total.counts.connected, "{name}: {:?}", sum.total.connection_errors);
        assert_eq!(sum.total.connection_errors.of(ErrorKind::UnsolicitedReply), 0, "{name}");
        assert_eq!(sum.total.examples[ErrorKind::SpokeFirst.index()].unwrap().phase, Phase::Idle, "{name}");
    });
    let mut burst = plan(resp());
    burst.pace = Pace::Burst { rounds: 1, at: BurstAt::Send, pause_ns: 50 * MS };
    burst.stop = Stop { duration_ns: None, requests: Some(4) };
    on_all(&burst, store, |name, sum| {
        let spoke = sum.of(ErrorKind::ErrorReply) + sum.total.connection_errors.of(ErrorKind::SpokeFirst);
        assert_eq!((sum.total.counts.ok, spoke), (2, 2), "{name}: {:?}", sum.total.errors);
    });
}

#[test]
fn bytes_that_are_not_the_protocol_end_the_connection() {
    fn other(_: &[u8]) -> Vec<Action> {
        vec![reply(b"HTTP/1.1 400 Bad Request\r\n\r\n")]
    }
    let mut plan = plan(resp());
    plan.stop = Stop { duration_ns: Some(S), requests: None };
    for driver in DRIVERS {
        if let Some(sum) = run(driver, plan.clone(), Weather::default(), answering(other)) {
            sum.assert_conserved(driver.name());
            assert!(sum.of(ErrorKind::BadFraming) > 0 && sum.total.counts.ok == 0, "{}", driver.name());
        }
    }
}
