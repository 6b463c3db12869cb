//! Whole scenarios through `resolve`, on the machine of the tests.

use super::*;
use crate::fake::FakeHost;
use model::plan::Workload;
use model::plan::{Batch, OnFull, Pace, Segment, Sizes, Think};
use model::scenario::WeightedUrl;
use model::workload::echo::EchoAsked;
use model::workload::http::HttpAsked;

const S: u64 = 1_000_000_000;

fn scenario(urls: &[&str]) -> Scenario {
    let urls = urls.iter().map(|url| WeightedUrl { url: (*url).into(), weight: 1.0 }).collect();
    Scenario { urls, ..Scenario::default() }
}

fn resolved(urls: &[&str], change: impl FnOnce(&mut Scenario)) -> Result<Resolved, ResolveError> {
    let mut scenario = scenario(urls);
    change(&mut scenario);
    resolve(&scenario, &FakeHost::default())
}

#[test]
fn a_bare_url_is_a_whole_plan() {
    let Resolved { plan, warnings, .. } = resolved(&["http://localhost/"], |_| {}).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(plan.pace, Pace::Closed { think: Think::None });
    assert_eq!((plan.connections, plan.threads, plan.pipeline), (50, 2, 1));
    assert_eq!((plan.stop.duration_ns, plan.stop.requests), (Some(10 * S), None));
    assert_eq!((plan.warmup_ns, plan.drain_ns, plan.tick_ns), (0, 5 * S, S));
    assert_eq!((plan.timeouts.connect_ns, plan.timeouts.reply_ns), (10 * S, 30 * S));
    assert_eq!((plan.reconnect.first_ns, plan.reconnect.max_ns), (10_000_000, S));
    assert_eq!((plan.driver, plan.batch, plan.receive_stamps), (DriverKind::Epoll, None, false));
    assert_eq!((plan.seed, plan.requests_per_connection), (4711, None));
    assert_eq!((plan.on_full, plan.queue_capacity), (OnFull::Wait, 0));
    assert!(plan.pin.is_empty());
}

#[test]
fn receive_stamps_are_on_where_they_tell_something() {
    let of = |url, change: fn(&mut Scenario)| resolved(&[url], change).unwrap().plan.receive_stamps;
    let open: fn(&mut Scenario) = |s| s.profile = pace::parse_rate("1k/s").unwrap();
    assert!(of("http://localhost/", open));
    assert!(!of("http://localhost/", |_| {}));
    assert!(!of("unix:/s", open));
    assert!(!of("http://localhost/", |s| (s.profile, s.pipeline) = (pace::parse_rate("1k/s").unwrap(), Some(2))));
    assert!(
        !of("http://localhost/", |s| (s.profile, s.receive_stamps) = (pace::parse_rate("1k/s").unwrap(), Some(false)))
    );
}

#[test]
fn a_remote_target_leaves_all_cores_to_the_workers() {
    let threads = |url| resolved(&[url], |_| {}).unwrap().plan.threads;
    assert_eq!(threads("http://four.test/"), 4);
    assert_eq!(threads("http://127.0.0.2/"), 2);
    assert_eq!(threads("unix:/s:/"), 2);
    let mixed = resolved(&["http://127.0.0.1/", "http://four.test/"], |_| {}).unwrap();
    assert_eq!(mixed.plan.threads, 4, "one remote address suffices");
}

#[test]
fn weights_of_one_origin_add_up() {
    let plan = resolved(&["http://localhost/a", "http://four.test/", "http://localhost/b"], |s| {
        s.urls[0].weight = 0.5;
        s.urls[2].weight = 3.0;
    });
    let plan = plan.unwrap().plan;
    assert_eq!(plan.origins.iter().map(|o| o.weight).collect::<Vec<_>>(), [3.5, 1.0]);
    let Workload::Http1(http) = plan.workload else { panic!("expected http") };
    let got: Vec<_> = http.requests.iter().map(|r| (r.origin, r.weight, r.target.expose_text().into_owned())).collect();
    assert_eq!(got, [(0, 0.5, "/a".into()), (1, 1.0, "/".into()), (0, 3.0, "/b".into())]);
}

#[track_caller]
fn refused(urls: &[&str], change: impl FnOnce(&mut Scenario), expected: &str) {
    let error = resolved(urls, change).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert!(error.is_usage());
}

#[test]
fn contradictions_are_usage_errors() {
    refused(&[], |_| {}, "expected a URL to put load on, got none: name one, such as http://127.0.0.1:8080/");
    refused(
        &["http://localhost/", "echo://localhost"],
        |_| {},
        "expected URLs of one protocol, got 'http://localhost/' and 'echo://localhost': put load on them in separate runs",
    );
    refused(
        &["echo://localhost"],
        |s| s.ask(|h: &mut HttpAsked| h.method = Some("GET".into())),
        "expected http URLs for what is asked of http, got 'echo://localhost': name one, or leave that out",
    );
    refused(
        &["http://localhost/"],
        |s| s.ask(|e: &mut EchoAsked| e.sizes = Some(Sizes::Fixed(1))),
        "expected echo URLs for what is asked of echo, got 'http://localhost/': name one, or leave that out",
    );
    refused(
        &["http://localhost/"],
        |s| s.tls.insecure = true,
        "insecure is for https, echo+tls, hold+tls, resp+tls, rediss, wss and hold+wss URLs, got 'http://localhost/': leave it out",
    );
    refused(&["http://localhost/"], |s| s.pin = vec![3, 4], "pin: expected CPUs that are online (0,1,2,3), got '4'");
    refused(
        &["unix:/s"],
        |s| s.receive_stamps = Some(true),
        "receive_stamps on cannot be used with a unix socket: the kernel stamps only network packets, leave it out",
    );
    refused(
        &["http://localhost/"],
        |s| (s.receive_stamps, s.pipeline) = (Some(true), Some(2)),
        "receive_stamps on cannot be used with pipeline: replies that come together have one stamp, leave one out",
    );
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = resolved(&["http://localhost/"], |s| s.urls[0].weight = weight).unwrap_err();
        assert!(error.to_string().starts_with("weight of a URL: expected more than 0"), "{weight}");
    }
    refused(
        &["http://localhost/"],
        |s| s.source = vec!["::1".parse().unwrap()],
        "source: expected an address of the same family as a target's, got '::1'",
    );
    let sources = vec!["127.0.0.9".parse().unwrap()];
    let plan = resolved(&["http://localhost/"], |s| s.source.clone_from(&sources)).unwrap().plan;
    assert_eq!(plan.sources, sources);
}

#[test]
fn what_is_wrong_with_the_machine_is_no_usage_error() {
    assert!(!resolved(&["http://none.test/"], |_| {}).unwrap_err().is_usage());
    let error = resolved(&["http://empty.test/"], |_| {}).unwrap_err();
    assert!(error.to_string().contains("the resolver found none (an empty answer)"));
    let host = FakeHost { uring: Err("no".into()), ..FakeHost::default() };
    let uring = Scenario { driver: Some(DriverKind::Uring), ..scenario(&["http://localhost/"]) };
    assert!(!resolve(&uring, &host).unwrap_err().is_usage());
}

#[track_caller]
fn warns(urls: &[&str], change: impl FnOnce(&mut Scenario), expected: &[&str]) {
    let warnings: Vec<String> = resolved(urls, change).unwrap().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, expected);
}

const HTTP: &[&str] = &["http://localhost/"];

fn rate(scenario: &mut Scenario, per_s: f64) {
    scenario.profile = vec![Segment { from_per_s: per_s, to_per_s: per_s, for_ns: 0 }];
}

/// Connections closed after each reply, which are replaced after so many requests, too.
fn closing(requests: u32) -> impl FnOnce(&mut Scenario) {
    move |s| {
        s.ask(|h: &mut HttpAsked| h.disable_keepalive = true);
        s.requests_per_connection = Some(requests);
    }
}

#[test]
fn sound_scenarios_have_no_warning() {
    warns(HTTP, |s| rate(s, 20_000.0), &[]);
    warns(HTTP, |s| s.connections = Some(19_999), &[]);
    warns(&["unix:/s:/"], |s| s.requests = Some(7), &[]);
    warns(&["echo://localhost"], |s| s.batch = Some(Batch { completions: 16, delay_ns: 1000 }), &[]);
    warns(HTTP, closing(1), &[]);
    warns(HTTP, |s| s.profile = pace::parse_steps("1k/s,2k/s:5s").unwrap(), &[]);
}

#[test]
fn likely_mistakes_in_urls_and_addresses() {
    warns(&["http://localhost"], |_| {}, &["URL 'http://localhost' has no path: / is asked for"]);
    warns(
        &["http://localhost:443/"],
        |_| {},
        &["URL 'http://localhost:443/' speaks plain HTTP to port 443, where servers expect TLS: check scheme and port"],
    );
    let both = "http://two.test has addresses of both families (192.0.2.1:80, [2001:db8::1]:80) and all are used: a server that listens on one refuses the others, choose with ip_version 4 or ip_version 6";
    warns(&["http://two.test/"], |_| {}, &[both]);
    warns(&["http://two.test/"], |s| s.ip_version = Some(4), &[]);
    warns(
        HTTP,
        |s| s.resolve = vec!["localhost:81:127.0.0.1".into()],
        &["resolve localhost:81:127.0.0.1 matches no URL: check its host and port"],
    );
}

#[test]
fn likely_mistakes_in_numbers() {
    let ports = "connections 30000 is above the 28232 local ports (32768 to 60999) for each of 1 addresses: widen net.ipv4.ip_local_port_range, or ask for at most 28232";
    warns(&["http://four.test/"], |s| s.connections = Some(30_000), &[ports]);
    // On loopback further source addresses are there for the taking.
    warns(HTTP, |s| s.connections = Some(30_000), &[]);
    warns(&["http://localhost/", "http://localhost:81/"], |s| s.connections = Some(30_000), &[]);
    warns(&["unix:/s:/"], |s| s.connections = Some(30_000), &[]);
    warns(
        HTTP,
        |s| s.threads = Some(5),
        &["threads 5 is above the 4 CPUs this process may use: workers wait for each other, and it shows as lag"],
    );
    warns(
        HTTP,
        |s| (s.threads, s.connections) = (Some(4), Some(3)),
        &["threads 4 is above connections 3: 3 workers are used"],
    );
    warns(
        HTTP,
        |s| (s.pin, s.threads) = (vec![0, 1], Some(1)),
        &["pin names 2 CPUs for 1 workers: the last ones stay unused"],
    );
    warns(
        HTTP,
        |s| (s.requests, s.connections) = (Some(5), Some(6)),
        &["requests 5 is below connections 6: not every connection carries a request"],
    );
}

#[test]
fn likely_mistakes_in_pace_and_reuse() {
    let closed = "has no effect on a closed pace, which waits for its replies: add rate, ramp or steps";
    warns(HTTP, |s| s.on_full = Some(OnFull::Drop), &[&format!("on_full {closed}")]);
    warns(HTTP, |s| s.queue_capacity = Some(1), &[&format!("queue {closed}")]);
    let change = |s: &mut Scenario| {
        rate(s, 1000.0);
        s.queue_capacity = Some(1000);
    };
    warns(
        HTTP,
        change,
        &[
            "the queue of 1000 requests per worker holds 2.00 s at the highest rate: a longer stall drops requests (counted); queue may be up to 262144, more workers have more queues",
        ],
    );
    let found = resolved(HTTP, |s| rate(s, 1e6)).unwrap().warnings;
    assert!(
        found.len() == 1 && found[0].to_string().starts_with("the queue of 262144 requests per worker holds 524 ms"),
        "{found:?}"
    );
    let dropping = |s: &mut Scenario| {
        rate(s, 1000.0);
        (s.queue_capacity, s.on_full) = (Some(1000), Some(OnFull::Drop));
    };
    warns(HTTP, dropping, &["queue has no effect with on_full drop: nothing waits"]);
    let found = resolved(HTTP, |s| {
        rate(s, 1000.0);
        s.pipeline = Some(4);
    });
    assert!(
        found.unwrap().warnings[0]
            .to_string()
            .starts_with("pipeline 4 with an open pace: requests wait behind each other")
    );
    let idle = |s: &mut Scenario| {
        rate(s, 10.0);
        s.connections = Some(301);
    };
    warns(HTTP, idle, &["connections 301 is more than 10 requests/s can occupy: most connections stay idle"]);
    warns(
        HTTP,
        |s| (s.profile, s.duration_ns) = (pace::parse_ramp("1k..2k:30s").unwrap(), Some(10 * S)),
        &["duration 10.0 s ends before the profile of 30.0 s: its end is never reached"],
    );
    warns(
        HTTP,
        closing(9),
        &["requests_per_connection 9 has no effect with disable_keepalive: every connection carries 1"],
    );
    warns(
        HTTP,
        |s| (s.pipeline, s.requests_per_connection) = (Some(9), Some(8)),
        &["requests_per_connection 8 is below pipeline 9: the pipeline never fills"],
    );
    warns(
        HTTP,
        |s| s.ask(|h: &mut HttpAsked| h.method = Some("get".into())),
        &["methods are case-sensitive: 'get' is sent as written, most servers know GET"],
    );
}

#[test]
fn the_same_scenario_on_the_same_machine_is_the_same_plan() {
    let plan = || {
        resolved(&["http://two.test/", "unix:/s"], |s| s.ask(|h: &mut HttpAsked| h.body = Some("x".into())))
            .unwrap()
            .plan
    };
    assert_eq!(plan(), plan());
}

/// The scheme decides, and every scheme is somebody's alone.
#[test]
fn every_protocol_is_found_by_its_schemes_and_has_its_part_of_a_scenario() {
    let mut seen = std::collections::BTreeSet::new();
    for protocol in workload::PROTOCOLS {
        for scheme in protocol.schemes() {
            assert!(seen.insert(scheme.name), "{}", scheme.name);
            assert_eq!(protocol_of(&format!("{}:x", scheme.name.to_uppercase())), Some(protocol.name()));
        }
        assert!(protocol.forms().len() <= protocol.schemes().len() && !protocol.examples().is_empty());
    }
    assert_eq!((protocol_of("ftp://h"), protocol_of("h")), (None, None));
    let names: Vec<&str> = workload::PROTOCOLS.iter().map(|protocol| protocol.name()).collect();
    assert_eq!(names, model::workload::NAMES);
}

#[test]
fn an_isolated_machine_gives_each_its_own_cpus() {
    // Generator, target, interrupts.
    let of = |url: &str, pin: &[u16], threads: Option<u16>| {
        let change = |s: &mut Scenario| (s.isolate, s.pin, s.threads) = (true, pin.to_vec(), threads);
        let plan = resolved(&[url], change).unwrap().plan;
        let isolation = plan.isolation.unwrap();
        (plan.pin, isolation.target_cpus, isolation.interrupt_cpus)
    };
    let (here, away) = ("http://127.0.0.1/", "http://four.test/");
    assert_eq!(of(here, &[], None), (vec![2, 3], vec![0, 1], vec![]), "two of four are too few to give one away");
    assert_eq!(of(here, &[], Some(1)), (vec![3], vec![1, 2], vec![0]));
    assert_eq!(of(here, &[1], None), (vec![1], vec![2, 3], vec![0]));
    assert_eq!(of(here, &[0, 1, 2, 3], None), (vec![0, 1, 2, 3], vec![], vec![]));
    assert_eq!(of(away, &[], None), (vec![1, 2, 3], vec![], vec![0]), "one is left for the interrupts");
    assert_eq!(of(away, &[], Some(4)), (vec![0, 1, 2, 3], vec![], vec![]));
    assert_eq!(resolved(&[here], |_| {}).unwrap().plan.isolation, None);
    // A container that has two of the four.
    let mut host = FakeHost::default();
    host.machine.cpus_allowed = vec![0, 1];
    let plan = resolve(&Scenario { isolate: true, threads: Some(1), ..scenario(&[here]) }, &host).unwrap().plan;
    assert_eq!((plan.pin, plan.isolation.unwrap().target_cpus), (vec![1], vec![0]));
}
