//! Readings of who waits, and for what: connections beyond a bound, requests behind a pool, a path, a neighbour, a backend.

use crate::readings::{Task, connections};
use crate::subject::{Client, Subject};
use crate::work::asks;
use crate::{BOTH_PROXIED_NAMED, EVERY, PROXIED, cases};
use std::thread;
use std::time::{Duration, Instant};
use testkit::wait_until;

cases! {
    connection_limit: "connection-limit" "=8", 2, EVERY => the_ninth_connection_is_closed;
    pool_exhausted: "pool-exhausted" "=1s:slots=1", 1, PROXIED => requests_queue_in_user_space;
    slow_path: "slow-path" "=20ms", 1, EVERY => what_is_asked_decides;
    neighbour_request: "neighbour-request" "=20ms:every=100ms", 1, BOTH_PROXIED_NAMED => it_computes_for_somebody_else;
    backend_limited: "backend-limited" "=2", 1, &["proxy"] => two_connections_go_to_the_origin;
}

/// After so long without a byte nothing comes.
const SILENT: Duration = Duration::from_millis(100);

fn the_ninth_connection_is_closed(subject: &Subject) -> Option<bool> {
    let mut eight: Vec<_> = (0..8).map(|_| subject.connect()).collect();
    eight.iter_mut().for_each(Client::exchange);
    let is_closed = subject.connect_silently().ends_within(SILENT);
    // What was closed for want of a place harmed none of the others, and a place that is free is given.
    eight.iter_mut().for_each(Client::exchange);
    drop(eight);
    wait_until("a place is free", || !subject.connect_silently().ends_within(Duration::from_millis(10)));
    Some(is_closed)
}

#[test]
fn beyond_a_limit_that_waits_connections_stay_in_the_accept_queue() {
    for server in EVERY {
        let subject = Subject::start(server, 1, Some("connection-limit=4:wait"));
        let mut four: Vec<_> = (0..4).map(|_| subject.connect()).collect();
        four.iter_mut().for_each(Client::exchange);
        let mut fifth = subject.connect_silently();
        fifth.send(b"GET");
        assert!(!fifth.ends_within(SILENT), "{server}: it is closed");
        assert_eq!(fifth.unread_bytes(), 3, "{server}: what it sent is received");
        assert!(connections(subject.pid()).iter().filter(|(here, _)| *here == subject.addr.port()).count() <= 4);
        four.iter_mut().for_each(Client::exchange);
        drop(four.pop());
        wait_until("the fifth has its turn", || fifth.unread_bytes() == 0);
    }
}

fn requests_queue_in_user_space(subject: &Subject) -> Option<bool> {
    let mut clients: Vec<_> = (0..2).map(|_| subject.connect()).collect();
    let (cpu, start) = (subject.cpu(), Instant::now());
    clients.iter_mut().for_each(Client::ask);
    wait_until("all is received", || unread(subject) == 0);
    thread::sleep(SILENT);
    let is_unanswered = !clients.iter().any(Client::has_reply);
    clients.iter_mut().for_each(Client::take_reply);
    let took = start.elapsed();
    wait_until("its workers rest", || subject.workers().iter().all(Task::is_asleep));
    // One at a time. Its threads are called as the worker that they were started by, and use no processor either.
    Some(is_unanswered && took >= Duration::from_secs(2) && subject.cpu() - cpu < took / 2)
}

/// Bytes that clients have sent and a server has not received, of all its connections.
fn unread(subject: &Subject) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{:04X}", subject.addr.port());
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // 01: established (include/net/tcp_states.h).
    let ours = rows.filter(|words| words.len() > 4 && words[1].ends_with(&local) && words[3] == "01");
    ours.map(|words| u64::from_str_radix(words[4].split_once(':').unwrap().1, 16).unwrap()).sum()
}

fn what_is_asked_decides(subject: &Subject) -> Option<bool> {
    let mut client = subject.connect();
    let mut slow = || -> Vec<usize> {
        let is_slow = |n: &usize| {
            let before = subject.cpu();
            ask(subject, &mut client, *n);
            wait_until("its workers rest", || subject.workers().iter().all(Task::is_asleep));
            subject.cpu() - before >= Duration::from_millis(20) * 9 / 10
        };
        (1..=24).filter(is_slow).collect()
    };
    let (first, second) = (slow(), slow());
    Some(first == second && !first.is_empty() && first.len() < 16)
}

/// Asks for one of several things: a path, a name, a message of another length.
fn ask(subject: &Subject, client: &mut Client, n: usize) {
    match subject.server {
        "http" | "proxy" => assert!(!client.get(&format!("/bytes?n={n}")).is_cut),
        "names" => assert_eq!(client.load(&format!("key{n}")), *b"$-1\r\n"),
        _ => client.exchange_bytes(if n.is_multiple_of(8) { 2000 } else { 100 + n }),
    }
}

fn it_computes_for_somebody_else(subject: &Subject) -> Option<bool> {
    // Nobody here asks for anything meanwhile.
    let (before, start) = (subject.cpu(), Instant::now());
    let computes = || subject.cpu() - before >= Duration::from_millis(20) * 9 / 10;
    while !computes() && start.elapsed() < Duration::from_millis(1500) {
        thread::sleep(Duration::from_millis(20));
    }
    Some(computes())
}

#[test]
fn others_on_the_loop_wait_for_the_neighbour() {
    for server in BOTH_PROXIED_NAMED {
        let subject = Subject::start(server, 1, Some("neighbour-request=150ms:every=200ms:sleep"));
        let mut client = subject.connect();
        wait_until("a request waits", || {
            let start = Instant::now();
            client.exchange();
            start.elapsed() >= Duration::from_millis(70)
        });
    }
}

fn two_connections_go_to_the_origin(subject: &Subject) -> Option<bool> {
    let mut clients: Vec<_> = (0..6).map(|_| subject.connect()).collect();
    let start = Instant::now();
    let asked = thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert!(!client.get("/sleep?ms=100").is_cut));
        }
        thread::sleep(Duration::from_millis(60));
        asks(subject).len()
    });
    // All are answered, two at a time.
    Some(asked == 2 && start.elapsed() >= Duration::from_millis(300))
}

#[test]
fn who_waits_for_a_connection_to_the_origin_and_goes_leaves_its_turn_to_the_next() {
    let subject = Subject::start("proxy", 1, Some("backend-limited=1"));
    let mut clients: Vec<_> = (0..4).map(|_| subject.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /sleep?ms=100 HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    wait_until("the origin is asked", || !asks(&subject).is_empty());
    let mut last = clients.pop().unwrap();
    // Those in between go, by a reset or by their end.
    drop(clients.drain(1..));
    assert!(!last.reply().is_cut);
    assert!(!clients[0].reply().is_cut);
}
