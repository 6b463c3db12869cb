//! Requests that name keys, on every driver, against a store that parses them on its own: what it forgets after it was
//! acknowledged is found lost, and a store that forgets nothing has lost nothing.

use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use model::ErrorKind;
use model::plan::*;
use model::resp::KeyDistribution;
use model::workload::http::HttpKeys;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

/// A store of names, one for all connections.
#[derive(Clone, Default)]
struct Store {
    held: Arc<Mutex<Held>>,
    rest: HashMap<u64, Vec<u8>>,
    /// With every so manieth request it forgets all; 0: never.
    forgets_each: usize,
}

#[derive(Default)]
struct Held {
    names: BTreeSet<String>,
    /// All that were ever asked for.
    seen: BTreeSet<String>,
    requests: usize,
}

impl Service for Store {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let mut rest = self.rest.remove(&connection).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let mut replies = String::new();
        while let Some((line, length)) = parse(&rest) {
            rest.drain(..length);
            replies += &self.answer(&line);
        }
        self.rest.insert(connection, rest);
        if replies.is_empty() { Vec::new() } else { vec![reply(replies.as_bytes())] }
    }
}

impl Store {
    fn answer(&self, line: &str) -> String {
        let mut held = self.held.lock().unwrap();
        held.requests += 1;
        if self.forgets_each > 0 && held.requests.is_multiple_of(self.forgets_each) {
            held.names.clear();
        }
        let words: Vec<&str> = line.split(' ').collect();
        let name = words[1].to_owned();
        held.seen.insert(name.clone());
        let status = match words[0] {
            "GET" if held.names.contains(&name) => "200 OK",
            "PUT" if held.names.insert(name.clone()) => "201 Created",
            "PUT" => "200 OK",
            "DELETE" if held.names.remove(&name) => "200 OK",
            _ => "404 Not Found",
        };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    }
}

/// The line of a whole request, and how long that is.
fn parse(bytes: &[u8]) -> Option<(String, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    bytes.get(end..end + length)?;
    Some((head.lines().next()?.to_owned(), end + length))
}

fn workload(methods: &[&str], count: u32) -> Plan {
    let request = |method: &&str| HttpRequest {
        weight: 1.0,
        method: (*method).to_owned(),
        target: "/items/{{key}}".into(),
        headers: vec![("Host".into(), "local".into())],
        body: Body::new(if *method == "PUT" { b"value {{key}}".to_vec() } else { Vec::new() }, String::new()),
        expect: Expect {
            status: if *method == "PUT" { vec![] } else { vec![(200, 200), (404, 404)] },
            ..Expect::default()
        },
        is_template: true,
        ..HttpRequest::default()
    };
    let keys = HttpKeys { count, distribution: KeyDistribution::Uniform, verify_writes: true };
    let requests = methods.iter().map(request).collect();
    let http = Http1 { requests, keep_alive: true, head_bytes_max: 65_536, keys: Some(keys), ..Http1::default() };
    let mut plan = plan(Workload::Http1(http));
    plan.threads = 2;
    plan.pipeline = 3;
    plan
}

/// Runs on every driver against a store of its own.
fn on_all(plan: &Plan, forgets_each: usize, check: impl Fn(&str, &Sum, &Held)) {
    for driver in DRIVERS {
        let store = Store { forgets_each, ..Store::default() };
        if let Some(sum) = run(driver, plan.clone(), Weather::default(), || store.clone()) {
            sum.assert_conserved(driver.name());
            check(driver.name(), &sum, &store.held.lock().unwrap());
        }
    }
}

#[test]
fn a_store_that_forgets_nothing_has_lost_nothing() {
    for methods in [&["GET", "PUT"][..], &["GET", "PUT", "DELETE"]] {
        on_all(&workload(methods, 20), 0, |driver, sum, held| {
            let what = format!("{driver}, {methods:?}");
            assert!(sum.total.counts.ok > 100, "{what}: {:?}", sum.total.counts);
            assert_eq!(sum.total.counts.failed, 0, "{what}: {:?}", sum.total.errors.seen().collect::<Vec<_>>());
            let all: BTreeSet<String> = (1..=20).map(|key| format!("/items/{key}")).collect();
            assert_eq!(held.seen, all, "{what}");
        });
    }
}

#[test]
fn what_is_forgotten_is_found_lost() {
    for methods in [&["GET", "PUT"][..], &["GET", "PUT", "DELETE"]] {
        on_all(&workload(methods, 20), 40, |driver, sum, held| {
            let (lost, failed) = (sum.of(ErrorKind::LostWrite), sum.total.counts.failed);
            assert!(
                lost > 0 && lost == failed,
                "{driver}, {methods:?}: {lost} of {failed}, of {} asked",
                held.requests
            );
            // Each key that was forgotten is missed by each worker once.
            let most = (held.requests / 40) * 20 * 2;
            assert!(lost as usize <= most, "{driver}, {methods:?}: {lost}, expected at most {most}");
            let of_reads = sum.total.entries.iter().next().unwrap();
            assert_eq!(of_reads.errors.of(ErrorKind::LostWrite), lost, "{driver}");
        });
    }
}
