//! Requests that differ, on every driver: values put in, rows given once, values taken from replies and used, checks.
//!
//! The application parses requests on its own and knows which tokens it gave: a request with none, or with another user's,
//! is refused, so that a mix-up is seen by the one who asked.

use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use model::data::{Column, DataFile, Order, PackedRows, RowBuffer, RowSource};
use model::plan::*;
use model::replies::{ReplyCheck, Take};
use model::{ErrorKind, Interval};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A request as the application read it: target, header fields, body.
type Read = (String, BTreeMap<String, String>, String);

/// An application with a login.
#[derive(Clone, Default)]
struct Application {
    seen: Arc<Mutex<Vec<Read>>>,
    /// Whom each token was given to.
    tokens: Arc<Mutex<HashMap<String, String>>>,
    rest: HashMap<u64, Vec<u8>>,
    /// Every so manieth login brings no token; 0: each does.
    forgets_each: usize,
    /// Every so manieth reply is the connection's last; 0: none.
    closes_each: usize,
}

impl Service for Application {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let mut rest = self.rest.remove(&connection).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let mut actions = Vec::new();
        while let Some((read, length)) = parse(&rest) {
            rest.drain(..length);
            let number = {
                let mut seen = self.seen.lock().unwrap();
                seen.push(read.clone());
                seen.len()
            };
            let is_last = self.closes_each > 0 && number.is_multiple_of(self.closes_each);
            actions.push(reply(self.answer(&read, is_last).as_bytes()));
            if is_last {
                actions.push(Action::Close { after_ns: 0 });
                return actions;
            }
        }
        self.rest.insert(connection, rest);
        actions
    }
}

impl Application {
    fn answer(&self, (target, fields, body): &Read, is_last: bool) -> String {
        let (status, body) = match target.as_str() {
            "/login" => {
                let mut tokens = self.tokens.lock().unwrap();
                let number = tokens.len() + 1;
                let token = format!("t-{number}");
                tokens.insert(token.clone(), body.clone());
                match self.forgets_each > 0 && number.is_multiple_of(self.forgets_each) {
                    true => ("200 OK", "{\"token\":null}".to_owned()),
                    false => ("200 OK", format!("{{\"more\":[1,{{}}],\"token\":\"{token}\"}}")),
                }
            }
            "/use" => {
                let token = fields.get("authorization").and_then(|field| field.strip_prefix("Bearer "));
                match token.and_then(|token| self.tokens.lock().unwrap().get(token).cloned()) {
                    Some(login) if login == *body => ("200 OK", "{\"state\":\"fine\"}".to_owned()),
                    _ => ("401 Unauthorized", String::new()),
                }
            }
            _ => ("200 OK", "{\"state\":\"fine\"}".to_owned()),
        };
        let close = if is_last { "Connection: close\r\n" } else { "" };
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nSet-Cookie: sid=s-{length}; Path=/\r\n{close}Content-Length: {length}\r\n\r\n{body}"
        )
    }
}

fn parse(bytes: &[u8]) -> Option<(Read, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let target = lines.next()?.split(' ').nth(1)?.to_owned();
    let field = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()));
    let fields: BTreeMap<String, String> = lines.filter_map(field).collect();
    let length: usize = fields.get("content-length").map_or(0, |length| length.parse().unwrap());
    let body = String::from_utf8(bytes.get(end..end + length)?.to_vec()).unwrap();
    Some(((target, fields, body), end + length))
}

fn request(name: &str, method: &str, target: &str, body: &str) -> HttpRequest {
    HttpRequest {
        weight: 1.0,
        method: method.to_owned(),
        target: target.into(),
        headers: vec![("Host".into(), "local".into())],
        body: Body::new(body.into(), String::new()),
        name: Some(name.to_owned()),
        is_template: true,
        ..HttpRequest::default()
    }
}

fn workload(requests: Vec<HttpRequest>, sequence: bool, data: Vec<DataFile>) -> Plan {
    plan(Workload::Http1(Http1 { requests, keep_alive: true, head_bytes_max: 65_536, sequence, data, keys: None }))
}

/// Rows `0,name-0` and so on, of columns `id` and `name`.
fn rows(count: u64, order: Order) -> DataFile {
    let (mut packed, mut row) = (PackedRows::new(2), RowBuffer::default());
    for n in 0..count {
        row.clear();
        row.bytes.extend_from_slice(n.to_string().as_bytes());
        row.end_field();
        row.bytes.extend_from_slice(format!("name-{n} \"ü\"").as_bytes());
        row.end_field();
        assert!(packed.push(&row));
    }
    let column = |name: &str, longest| Column { name: name.to_owned(), longest };
    DataFile {
        name: String::new(),
        path: PathBuf::from("rows.csv"),
        columns: vec![column("id", 20), column("name", 40)],
        rows: count,
        order,
        source: RowSource(Some(Arc::new(packed))),
    }
}

/// Runs on every driver against an application of its own.
fn on_all(plan: &Plan, application: impl Fn() -> Application, check: impl Fn(&str, &Sum, &Application)) {
    for driver in DRIVERS {
        let application = application();
        if let Some(sum) = run(driver, plan.clone(), Weather::default(), || application.clone()) {
            sum.assert_conserved(driver.name());
            check(driver.name(), &sum, &application);
        }
    }
}

fn seen(application: &Application) -> Vec<Read> {
    application.seen.lock().unwrap().clone()
}

#[test]
fn values_are_put_in_and_numbers_are_given_once() {
    let mut post = request(
        "all",
        "POST",
        "/{{name}}?u={{user}}&r={{random:3..5}}",
        "{\"seq\":{{seq}},\"id\":\"{{id}}\",\"name\":\"{{name}}\",\"raw\":{{name}},\"uuid\":\"{{uuid}}\"}",
    );
    post.headers.push(("X-Name".into(), "{{name}}".into()));
    let mut plan = workload(vec![post], false, vec![rows(7, Order::Sequential)]);
    plan.threads = 2;
    plan.pipeline = 3;
    plan.stop.requests = Some(600);
    plan.stop.duration_ns = None;
    on_all(&plan, Application::default, |driver, sum, application| {
        assert_eq!(sum.total.counts.ok, 600, "{driver}: {:?}", sum.total.errors.seen().collect::<Vec<_>>());
        let (mut numbers, mut users, mut draws, mut uuids) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut of_rows: BTreeMap<String, u64> = BTreeMap::new();
        for (target, fields, body) in seen(application) {
            let json: serde_json::Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{body}: {error}"));
            let id = json["id"].as_str().unwrap().to_owned();
            let name = format!("name-{id} \"ü\"");
            assert_eq!((json["name"].as_str(), json["raw"].as_str()), (Some(&*name), Some(&*name)), "{driver}");
            assert_eq!(fields["x-name"], name, "{driver}");
            let (path, query) = target.split_once('?').unwrap();
            assert_eq!(path, format!("/name-{id}%20%22%C3%BC%22"), "{driver}");
            let (user, random) = query.split_once('&').unwrap();
            users.insert(user.to_owned());
            draws.insert(random.to_owned());
            assert!(numbers.insert(json["seq"].as_u64().unwrap()), "{driver}: given twice: {body}");
            assert!(uuids.insert(json["uuid"].as_str().unwrap().to_owned()), "{driver}: {body}");
            *of_rows.entry(id).or_default() += 1;
        }
        assert_eq!(draws.into_iter().collect::<Vec<_>>(), ["r=3", "r=4", "r=5"], "{driver}");
        assert!(users.iter().all(|user| ["u=1", "u=2", "u=3", "u=4"].contains(&&**user)), "{driver}: {users:?}");
        if driver == DriverKind::Sim.name() {
            assert_eq!(numbers, (1..=600).collect(), "{driver}: two workers count on together");
            assert!(of_rows.len() == 7 && of_rows.values().all(|n| (84..=88).contains(n)), "{driver}: {of_rows:?}");
        }
    });
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let plan = |seed| {
        let template = request("r", "GET", "/{{uuid}}/{{random:0..18446744073709551615}}/{{id}}", "");
        let mut plan = workload(vec![template], false, vec![rows(1000, Order::Random)]);
        plan.seed = seed;
        plan.stop.requests = Some(200);
        plan
    };
    let targets = |seed| {
        let application = Application::default();
        run(DriverKind::Sim, plan(seed), Weather::default(), || application.clone()).unwrap();
        seen(&application)
    };
    assert_eq!(targets(1), targets(1));
    assert_ne!(targets(1), targets(2));
}

#[test]
fn unique_rows_are_given_once_over_all_workers_and_then_the_load_ends() {
    for count in [1, 101] {
        let mut plan = workload(vec![request("once", "GET", "/{{id}}", "")], false, vec![rows(count, Order::Unique)]);
        plan.threads = 2;
        plan.pipeline = 2;
        plan.stop.duration_ns = Some(60 * S);
        on_all(&plan, Application::default, |driver, sum, application| {
            let all = seen(application);
            let given: BTreeSet<String> = all.iter().map(|(target, ..)| target.clone()).collect();
            assert_eq!((all.len() as u64, given.len() as u64), (count, count), "{driver}");
            assert_eq!((sum.total.counts.ok, sum.in_flight()), (count, 0), "{driver}");
            assert!(sum.finished.iter().all(|f| f.load_end_ns < 60 * S), "{driver}: it ends with its rows");
        });
    }
}

#[test]
fn unique_rows_are_given_once_to_requests_that_wait_too() {
    let mut plan = workload(vec![request("once", "GET", "/{{id}}", "")], false, vec![rows(20, Order::Unique)]);
    plan.pace = open(20_000.0);
    plan.connections = 1;
    plan.stop.duration_ns = Some(60 * S);
    on_all(&plan, Application::default, |driver, sum, application| {
        let all = seen(application);
        let given: BTreeSet<String> = all.iter().map(|(target, ..)| target.clone()).collect();
        assert_eq!((all.len(), given.len(), sum.total.counts.ok), (20, 20, 20), "{driver}");
    });
}

/// Login, then twice a use of what it gave.
fn session() -> Vec<HttpRequest> {
    let mut login = request("login", "POST", "/login", "{{name}}");
    login.take = vec![Take::parse("token = json /token").unwrap(), Take::parse("sid = cookie sid").unwrap()];
    let mut uses = request("use", "POST", "/use", "{{name}}");
    uses.headers.push(("Authorization".into(), "Bearer {{token}}".into()));
    uses.headers.push(("Cookie".into(), "sid={{sid}}".into()));
    uses.checks = vec![ReplyCheck::parse("json /state = fine", |_| None).unwrap()];
    let mut again = uses.clone();
    again.name = Some("again".to_owned());
    vec![login, uses, again]
}

#[test]
fn what_a_reply_gave_is_used_by_the_same_user_and_no_other() {
    for (closes_each, think) in [(0, Think::None), (7, Think::None), (0, Think::FixedNs(MS))] {
        let mut plan = workload(session(), true, vec![rows(50, Order::Sequential)]);
        plan.threads = 2;
        plan.pace = Pace::Closed { think };
        let application = || Application { closes_each, ..Application::default() };
        on_all(&plan, application, |driver, sum, application| {
            let what = format!("{driver}, closes {closes_each}");
            let Interval { counts, errors, entries, .. } = &sum.total;
            assert!(counts.ok > 20 && counts.failed == 0, "{what}: {:?}", errors.seen().collect::<Vec<_>>());
            let ok: Vec<u64> = entries.iter().map(|entry| entry.ok).collect();
            assert_eq!(ok.iter().sum::<u64>(), counts.ok, "{what}");
            // Each user is at one place of the sequence.
            assert!(ok[0] >= ok[1] && ok[1] >= ok[2] && ok[0] - ok[2] <= 4, "{what}: {ok:?}");
            for (target, fields, body) in seen(application).iter().filter(|(target, ..)| target == "/use") {
                let token = fields["authorization"].strip_prefix("Bearer ").unwrap();
                assert_eq!(application.tokens.lock().unwrap()[token], *body, "{what}: {target}");
                assert!(fields["cookie"].starts_with("sid=s-"), "{what}: {fields:?}");
            }
        });
    }
}

#[test]
fn an_open_pace_goes_through_the_sequence_too() {
    let mut plan = workload(session(), true, vec![rows(50, Order::Random)]);
    plan.pace = open(500.0);
    on_all(&plan, Application::default, |driver, sum, _| {
        assert!(
            sum.total.counts.ok > 20 && sum.total.counts.failed == 0,
            "{driver}: {:?}",
            sum.total.errors.seen().collect::<Vec<_>>()
        );
    });
}

#[test]
fn a_value_that_is_missing_is_a_failure_of_its_own_and_the_user_begins_anew() {
    let plan = workload(session(), true, vec![rows(50, Order::Sequential)]);
    let application = || Application { forgets_each: 3, ..Application::default() };
    on_all(&plan, application, |driver, sum, application| {
        let missing = sum.of(ErrorKind::MissingValue);
        assert!(
            missing > 0 && sum.total.counts.failed == missing,
            "{driver}: {:?}",
            sum.total.errors.seen().collect::<Vec<_>>()
        );
        let example = sum.total.examples[ErrorKind::MissingValue.index()].unwrap();
        assert_eq!(
            wire::words(&plan.workload, example.detail).unwrap(),
            "the reply to 'login' has no value for 'token = json /token'",
            "{driver}"
        );
        let of_login = sum.total.entries.iter().next().unwrap();
        assert_eq!(of_login.errors.of(ErrorKind::MissingValue), missing, "{driver}");
        let without = seen(application)
            .iter()
            .filter(|(_, fields, _)| fields.get("authorization").is_some_and(|f| f == "Bearer "))
            .count();
        assert_eq!(without, 0, "{driver}: no request is sent without its value");
    });
}

#[test]
fn a_reply_that_does_not_pass_a_check_has_failed() {
    for (check, passes) in [
        ("json /state = fine", true),
        ("json /state = bad", false),
        ("json /state contains in", true),
        ("json /nothing", false),
        ("header content-type contains json", true),
        ("header X-None", false),
        ("cookie sid", true),
        ("body contains \"state\"", true),
        ("body contains other", false),
        ("body matches fi.e", true),
        ("body matches ^fine", false),
        ("status 200", true),
        ("status 201", false),
    ] {
        let mut asked = request("asked", "GET", "/x", "");
        asked.is_template = false;
        let status = |text: &str| text.parse().ok().map(|status| (status, status));
        asked.checks =
            vec![ReplyCheck::parse("status 200", status).unwrap(), ReplyCheck::parse(check, status).unwrap()];
        let mut plan = workload(vec![asked], false, vec![]);
        plan.stop = Stop { duration_ns: Some(10 * S), requests: Some(20) };
        on_all(&plan, Application::default, |driver, sum, _| {
            let (ok, failed) = (sum.total.counts.ok, sum.of(ErrorKind::Check));
            assert_eq!((ok, failed), if passes { (20, 0) } else { (0, 20) }, "{driver}: {check}");
            if !passes {
                let example = sum.total.examples[ErrorKind::Check.index()].unwrap();
                let words = wire::words(&plan.workload, example.detail).unwrap();
                assert_eq!(words, format!("the reply to 'asked' does not pass '{check}'"), "{driver}");
            }
        });
    }
}

#[test]
fn replies_in_pieces_give_the_same() {
    let plan = workload(session(), true, vec![rows(50, Order::Sequential)]);
    let weather = Weather { cut: 1.0, ..Weather::default() };
    let application = Application::default();
    let sum = run(DriverKind::Sim, plan, weather, || application.clone()).unwrap();
    assert!(
        sum.total.counts.ok > 20 && sum.total.counts.failed == 0,
        "{:?}",
        sum.total.errors.seen().collect::<Vec<_>>()
    );
}
