//! What the first lines of a report must say: of a target that died, was silent, failed, or served only some.

use crate::common::judged::sampled;
use crate::common::{Build, SECOND, check, closed, judge, open};
use diagnose::diagnose;
use model::event::Details;
use model::finding::{Diagnosis, Reason, Severity, Standing, Status, ValidityState, WhatGives};
use model::interval::Counts;
use model::recording::{End, Generator, Generators, Row};
use model::request::IntervalRequests;
use model::units::show_grouped;
use model::users::Users;
use model::{ErrorKind, Event, Gap, LatencyKind, Request};

fn remarks(diagnosis: &Diagnosis) -> Vec<(&str, &str)> {
    diagnosis.summary.iter().map(|remark| (&*remark.id, &*remark.text)).collect()
}

/// Dead in the middle of the sixth second: then every connect is refused.
fn dead() -> Build {
    closed().with(|b| {
        b.connect_failed = 1200;
        b.seconds[5].ok = 3200;
        for second in &mut b.seconds[6..] {
            (second.ok, second.failed, second.connections) = (0, vec![(ErrorKind::Refused, 300)], 0);
        }
    })
}

fn exited(at_ns: u64) -> Event {
    let text = "the target's process nginx (77) was ended by SIGKILL, in its own code".to_owned();
    Event::new(at_ns as i64, "target-exit", text)
}

const DEAD: [&str; 3] = ["valid", "supported not-steady", "supported connections-not-reached"];

#[test]
fn a_target_that_died_is_said_with_second_signal_and_rate() {
    assert!(remarks(&check("sound", closed(), &["valid"])).is_empty());
    let killed = dead().with(|b| b.events.push(exited(5_500_000_000)));
    let diagnosis = check("killed", killed, &DEAD);
    let [(id, text)] = remarks(&diagnosis)[..] else { panic!("{:?}", diagnosis.summary) };
    assert_eq!(id, "target-died");
    assert!(text.starts_with("the target died at second 5.5") && text.contains("SIGKILL"), "{text}");
    assert!(text.contains("6,400 requests/s succeeded until then"), "{text}");
    // Nobody saw it go, and nobody is there.
    let diagnosis = check("refused", dead(), &DEAD);
    let said = remarks(&diagnosis)[0].1;
    assert!(said.starts_with("nobody took connections from second 6.0 on"), "{said}");
    // No cause can be looked at, and still the first line has what is plain to see.
    let gives = diagnosis.gives.as_ref().unwrap().text.clone();
    assert!(
        gives.contains("had no good reply, as nobody took connections from second 6.0 on; why is not known"),
        "{gives}"
    );
    // One of its workers went, and the others served on; the last one goes when the run is over.
    let served_on = closed().with(|b| b.events = vec![exited(3 * SECOND), exited(10 * SECOND)]);
    assert!(remarks(&check("served on", served_on, &["valid"])).is_empty());
    // A server that makes a process for each connection: one ends every moment, and resets are not far.
    let forks = closed().with(|b| b.events = (0..100).map(|i| exited(i * SECOND / 10)).collect());
    let forks = forks.at(9, |s| s.failed = vec![(ErrorKind::Reset, 3)]);
    assert!(remarks(&check("forks", forks, &["valid"])).is_empty());
}

#[test]
fn silence_and_errors_are_said() {
    let failing = |kind: ErrorKind| closed().each(move |s| (s.ok, s.failed) = (0, vec![(kind, 640)]));
    let said = |build: Build, expected: &[&str]| {
        let diagnosis = diagnose(&build.recording());
        judge("failing", &diagnosis, expected);
        let [remark] = &diagnosis.summary[..] else { panic!("{:?}", diagnosis.summary) };
        (remark.id.clone(), remark.text.clone())
    };
    let silent = said(failing(ErrorKind::ReplyTimeout), &["valid", "refuted too-few"]);
    assert_eq!(silent.0, "never-answered");
    assert!(silent.1.contains("no request was ever answered: all 6,400 failed (reply-timeout)"), "{silent:?}");
    let nobody = failing(ErrorKind::Refused).with(|b| b.connected = 0);
    assert!(said(nobody, &["undetermined"]).1.starts_with("no connection was ever made"));
    let errors = failing(ErrorKind::UnexpectedStatus).with(|b| b.status = vec![(503, 6400)]);
    let errors = said(errors, &["valid", "refuted too-few", "supported error-status"]);
    assert_eq!(errors.0, "errors-only");
    assert!(errors.1.starts_with("every reply said failure (6,400 of 6,400, mostly status 503)"), "{errors:?}");
    // A handshake that is refused, as of WebSocket by a server of HTTP.
    let refused = failing(ErrorKind::UnexpectedStatus).with(|b| b.connected = 0);
    let refused = said(refused, &["undetermined"]);
    assert_eq!(refused.0, "errors-only");
    assert!(refused.1.starts_with("no connection got as far as its first request: each was refused"), "{refused:?}");
}

#[test]
fn where_nothing_connects_the_first_line_says_where_to_look() {
    let first = |kind: ErrorKind| {
        let nobody = closed().each(move |s| (s.ok, s.failed) = (0, vec![(kind, 640)])).with(|b| b.connected = 0);
        diagnose(&nobody.recording()).gives.unwrap().text
    };
    let refused = first(ErrorKind::Refused);
    assert!(refused.starts_with("nothing ever connected: 127.0.0.1:"), "{refused}");
    assert!(
        refused.ends_with(" refuses, as where nobody listens: does the server run, and at that address (ss -ltn)?"),
        "{refused}"
    );
    let dropped = first(ErrorKind::ConnectTimeout);
    assert!(
        dropped.ends_with(" does not answer, as where a firewall drops packets or the machine is off"),
        "{dropped}"
    );
    let far = first(ErrorKind::Unreachable);
    assert!(far.starts_with("nothing ever connected: no way leads to 127.0.0.1:"), "{far}");
    let other = first(ErrorKind::ConnectFailed);
    assert_eq!(other, "nothing ever connected: connect-failed; what the target can do is not known");
}

/// A machine that others use makes requests late, and has none refused.
#[test]
fn who_takes_the_cpu_of_a_target_that_fails_is_not_why_it_fails() {
    let crowd = |build: Build| {
        let crowded = build.each(|s| (s.target, s.idle_cores, s.neighbours) = (vec![(0.5, 0.4)], 0.0, [0.9, 0.0]));
        let diagnosis = diagnose(&crowded.recording());
        let is_seen = diagnosis.findings.iter().any(|f| f.id == "neighbour" && f.status == Status::Supported);
        assert!(is_seen, "{:?}", diagnosis.findings);
        diagnosis.gives.unwrap()
    };
    let late = crowd(closed().each(|s| s.failed = vec![(ErrorKind::ReplyTimeout, 64)]));
    assert!(late.text.contains("yes (pid 30) holds CPUs that the target wants"), "{}", late.text);
    for (gives, said) in [
        (crowd(dead()), "had no good reply, as nobody took connections from second 6.0 on"),
        (
            crowd(closed().each(|s| (s.ok, s.failed) = (0, vec![(ErrorKind::Reset, 640)]))),
            "6,400 of 6,400 requests had no good reply: their connections were reset instead, and the target lived on; why is not known",
        ),
        (
            crowd(closed().each(|s| s.failed = vec![(ErrorKind::Reset, 64)])),
            "640 of 64,640 requests had no good reply: their connections were reset instead, and the target lived on; why is not known",
        ),
    ] {
        assert!(gives.finding.is_none() && !gives.text.contains("holds CPUs"), "{}", gives.text);
        assert!(gives.text.contains(said), "{}", gives.text);
    }
}

#[test]
fn replies_that_are_still_coming_are_no_silence() {
    let beside = |neighbours: [f64; 2], under_way: u64, bytes: fn(usize) -> u64| {
        let build = closed().with(|b| b.in_flight_at_end = under_way).each(|s| {
            (s.ok, s.in_flight) = (0, 64);
            if neighbours[0] > 0.0 {
                (s.target, s.idle_cores, s.neighbours) = (vec![(0.5, 0.4)], 0.0, neighbours);
            }
        });
        let mut recording = build.recording();
        let mut rows = recording.timeline.rows().to_vec();
        recording.timeline = model::recording::Timeline::default();
        for (second, row) in rows.iter_mut().enumerate() {
            row.counts.bytes_received = bytes(second);
            recording.timeline.push(*row);
        }
        let diagnosis = diagnose(&recording);
        (diagnosis.gives.as_ref().unwrap().text.clone(), diagnosis.summary[0].clone())
    };
    let longer_than_the_run = |under_way, bytes| beside([0.0; 2], under_way, bytes);
    let (first, remark) = longer_than_the_run(64, |_| 1 << 20);
    assert_eq!(
        first,
        "no reply was whole when the run ended: 64 were still coming; what the target can do is not known"
    );
    assert_eq!(remark.id, "still-coming");
    assert!(
        remark
            .text
            .ends_with("64 were still coming, at 1.00 MiB/s in all: run longer (-d), or ask for something smaller")
    );
    // Who has the CPU meanwhile is no answer to it: it may be slower for that.
    let (first, _) = beside([0.9, 0.0], 64, |_| 1 << 20);
    assert!(first.starts_with("no reply was whole when the run ended") && first.contains("; meanwhile yes"), "{first}");
    // By the clock more were due than there are connections.
    let (first, _) = longer_than_the_run(100, |_| 1 << 20);
    assert!(first.contains(": 64 were still coming, and 36 waited behind; "), "{first}");
    // On a busy machine they come in lumps: the same bytes in every third interval, and in the last.
    let (_, remark) = longer_than_the_run(64, |second| if second % 3 == 0 { 3 << 20 } else { 0 });
    assert_eq!(remark.id, "still-coming");
    // They stopped at two thirds, most of them having come in the second half or not.
    for stopped in
        [|second| if second < 6 { 1 << 20 } else { 0 }, |second| if (4..7).contains(&second) { 1 << 20 } else { 0 }]
    {
        let (_, remark) = longer_than_the_run(64, stopped);
        assert_eq!(remark.id, "never-answered");
    }
    // Their heads came, and nothing more.
    let (first, remark) = longer_than_the_run(64, |second| if second == 0 { 1 << 20 } else { 0 });
    assert_eq!(remark.id, "never-answered");
    assert!(first.starts_with("64 of 64 requests had no good reply"), "{first}");
}

#[test]
fn users_that_starve_are_said_and_found() {
    let some = |connections, never_served, starved| {
        closed().with(move |b| {
            b.users = Some(Users {
                connections,
                never_served,
                starved,
                served_max: 10_000,
                served: 64_000,
                jain_index: 0.2,
                starved_since_ms: Some(0),
                ..Users::default()
            });
        })
    };
    let diagnosis = check("8 of 40 served", some(40, 32, 32), &["valid", "supported starved-users"]);
    assert_eq!(diagnosis.findings[0].severity, Severity::Error);
    assert_eq!(remarks(&diagnosis)[0].0, "users-starved");
    assert!(remarks(&diagnosis)[0].1.starts_with("32 of 40 connections never got a reply"), "{:?}", diagnosis.summary);
    let diagnosis = check("20 of 60 served", some(60, 10, 40), &["valid", "supported starved-users"]);
    assert!(
        remarks(&diagnosis)[0].1.starts_with("40 of 60 connections starved, 10 of them never"),
        "{:?}",
        diagnosis.summary
    );
    check("one of a thousand", some(1000, 1, 1), &["valid", "supported starved-users"]);
    check("all served", some(40, 0, 0), &["valid", "refuted starved-users"]);
    check("not counted", closed().with(|b| b.users = None), &["valid", "not-observable starved-users"]);
}

#[test]
fn what_had_not_ended_is_said_where_it_reaches_a_quantile() {
    let stuck = |n: u64| {
        open().with(|b| (b.in_flight_at_end, b.unfinished) = (n, (2_500_000_000, n))).at(9, move |s| {
            (s.ok, s.in_flight) = (5010 - n, 10);
        })
    };
    let diagnosis = check("a tenth", stuck(2766), &["valid"]);
    let text = remarks(&diagnosis)[0].1;
    assert!(text.starts_with("2,766 of 50,010 requests (5.5 %) were unfinished") && text.contains("2.50 s"), "{text}");
    let response = diagnosis.validity.figure(model::finding::Figure::Response).unwrap();
    assert!(response.text.starts_with("p99 ≥ 2.50 s"), "{response:?}");
    assert!(remarks(&check("ten", stuck(10), &["valid"])).is_empty());
}

#[test]
fn who_had_the_targets_cpu_is_said_and_the_figures_stand() {
    // It wants all of a CPU, and a neighbour has most of it.
    let crowded = || closed().each(|s| (s.target, s.neighbours, s.idle_cores) = (vec![(0.4, 0.6)], [1.2, 0.02], 0.0));
    let said = check("crowded", crowded(), &["valid"]);
    let [("target-crowded", text)] = remarks(&said)[..] else { panic!("{:?}", said.summary) };
    assert!(text.contains("yes (pid 30) takes 1.2 cores") && text.contains("60 %"), "{text}");
    let none = |what: &str, build: Build| {
        let diagnosis = diagnose(&build.recording());
        assert!(remarks(&diagnosis).iter().all(|(id, _)| *id != "target-crowded"), "{what}: {:?}", diagnosis.summary);
    };
    // Its own threads stand in each other's way.
    none("alone", crowded().each(|s| s.neighbours = [0.02, 0.02]));
    none("on another CPU", crowded().each(|s| s.target = vec![(0.4, 0.02)]));
    none("hardly awake", crowded().each(|s| s.target = vec![(0.03, 0.03)]));
    none("nobody looked", crowded().with(|b| b.has_target = false));
}

#[test]
fn what_others_on_its_cpu_do_not_explain_is_said_behind_them() {
    // Requests take 10 ms, of which the target's thread wants a CPU for two, and waits half of that.
    let beside = closed().each(|s| {
        (s.ok, s.target, s.neighbours, s.idle_cores) = (200, vec![(0.2, 0.2)], [1.2, 0.0], 0.2);
    });
    let first = diagnose(&beside.recording()).gives.unwrap().text;
    assert!(first.ends_with("1.2 cores (about 25 % of the time requests waited, 75 % unexplained)"), "{first}");
}

#[test]
fn a_target_that_was_away_for_long_and_came_back_is_said() {
    // After ten seconds nobody is there for so long, which so many connections were refused by; then it goes on.
    let away = |for_s: u64, refused: u64| {
        let mut recording = closed().recording();
        let last = *recording.timeline.rows().last().unwrap();
        for second in 10..40 {
            let mut row = Row { start_ns: second * SECOND, end_ns: (second + 1) * SECOND, ..last };
            row.counts.connected = 1;
            if second < 10 + for_s {
                row.counts = Counts { connect_failed: refused, ..Counts::default() };
                row.gauges.connections = 0;
            }
            recording.timeline.push(row);
        }
        diagnose(&recording).summary.into_iter().find(|remark| remark.id == "target-away").map(|remark| remark.text)
    };
    let said = away(12, 3).unwrap();
    assert!(said.starts_with("nobody took connections from second 10.0 to 22.0"), "{said}");
    assert_eq!(away(9, 3), None, "a restart");
    assert_eq!(away(12, 0), None, "nobody asked");
}

#[test]
fn of_what_was_watched_without_a_load_a_full_thread_is_not_said_to_be_nothing() {
    let watched = |run: f64, wait: f64| {
        let mut recording = open().each(|s| s.target = vec![(run, wait)]).recording();
        recording.capsule.watched = Some("port 80".to_owned());
        diagnose(&recording).gives.unwrap().text
    };
    // It ran for half of the time, and wanted all of it: no core was left, and whose doing that was is not told.
    let full = watched(0.5, 0.48);
    assert!(full.contains("98 % of a core, so it is near its limit, or others keep it from running"), "{full}");
    let idle = watched(0.1, 0.01);
    assert!(idle.starts_with("nothing gives that can be told without a load"), "{idle}");
}

/// A closed loop of 32 users whose requests take 0.16 ms, in whose midst nobody was answered for some time: no sample has those that waited.
fn stood_still(gaps_ms: &[(u64, u64)], own: f64, stopped_at_ms: Option<u64>, others: f64) -> WhatGives {
    let diagnosis = stood_still_beside(gaps_ms, own, stopped_at_ms, others, false);
    assert_eq!(diagnosis.validity.state, ValidityState::Valid, "{:?}", diagnosis.validity);
    diagnosis.gives.unwrap()
}

/// The same, and the generator was kept from running in the rest of the run or was not.
fn stood_still_beside(
    gaps_ms: &[(u64, u64)],
    own: f64,
    stopped_at_ms: Option<u64>,
    others: f64,
    is_disturbed: bool,
) -> Diagnosis {
    let build = closed().each(|s| {
        (s.ok, s.response_ns, s.in_flight) = (200_000, 160_000, 32);
        (s.target, s.neighbours, s.idle_cores) = (vec![(0.1, 0.9 * others); 8], [others, 0.0], 1.0 - others);
        if is_disturbed {
            (s.busy, s.wait, s.late_share, s.reap_delay_ns) = (0.4, 0.55, 0.5, 3_000_000);
        }
    });
    let mut recording = build.recording();
    sampled(&mut recording, 400, |n| {
        let ready_ns = SECOND + n * 1_000_000;
        Request { ready_ns, sent_ns: ready_ns, ended_ns: ready_ns + 160_000, ordinal: 2, ..Request::default() }
    });
    let gaps = gaps_ms.iter().map(|(from_ms, length_ms)| Gap {
        from_ns: from_ms * 1_000_000,
        to_ns: (from_ms + length_ms) * 1_000_000,
        in_flight: 32,
        connections: 32,
        open: 32,
        own_ns_max: (own * (length_ms * 1_000_000) as f64) as u64,
        ..Gap::default()
    });
    let gaps: Vec<Gap> = gaps.collect();
    for kind in [LatencyKind::Response, LatencyKind::Undelayed, LatencyKind::Service] {
        let times = recording.totals.sum.latency.of_mut(kind);
        let quick = times.len() - 32 * gaps.len() as u64;
        times.reset();
        times.record_n(160_000, quick);
        gaps.iter().for_each(|gap| times.record_n(gap.length_ns(), 32));
    }
    recording.requests.push(0, 0, &IntervalRequests { gaps, ..IntervalRequests::default() });
    if let Some(ms) = stopped_at_ms {
        let text = "the target's process web (20) took SIGSTOP from process 7";
        let details = Details { signal: Some(19), ..Details::default() };
        recording.push_event(Event::new(ms as i64 * 1_000_000, "target-signal", text).with(details));
    }
    diagnose(&recording)
}

#[test]
fn that_nobody_was_answered_for_seconds_is_said_first_though_hardly_a_request_waited() {
    let once = stood_still(&[(4_000, 1_500)], 0.0, None, 0.0);
    assert_eq!(once.standing, Standing::Unexplained, "{once:?}");
    let said =
        "nobody was answered for 1.50 s, from second 4.0 on, while 32 requests waited: 13 % of all requests' time; ";
    assert!(once.text.starts_with(said), "{once:?}");
    let stopped = stood_still(&[(4_000, 1_500)], 0.0, Some(3_990), 0.0).text;
    assert_eq!(stopped, format!("{said}meanwhile the target's process web (20) took SIGSTOP from process 7"));
    assert!(!stood_still(&[(4_000, 1_500)], 0.0, Some(1_000), 0.0).text.contains("SIGSTOP"), "long before");
    let twice = stood_still(&[(4_000, 1_500), (7_000, 800)], 0.0, None, 0.0);
    assert!(
        twice.text.starts_with("nobody was answered 2 times, the longest for 1.50 s, from second 4.0 on, "),
        "{twice:?}"
    );
    // Those that it shares its CPUs with have delayed others.
    let shared = stood_still(&[(4_000, 1_500)], 0.0, Some(3_990), 1.0).text;
    assert!(shared.starts_with(&stopped), "{shared}");
    assert!(
        shared.contains("; a small part is another matter: yes (pid 30) holds CPUs that the target wants"),
        "{shared}"
    );
    // The generator was kept from running, and not then: it looked on.
    let disturbed = |own: f64| {
        let diagnosis = stood_still_beside(&[(4_000, 1_500)], own, None, 0.0, true);
        assert_eq!(diagnosis.validity.state, ValidityState::NotValid, "{:?}", diagnosis.validity);
        diagnosis.gives.unwrap().text
    };
    let looked_on = disturbed(0.05);
    assert!(looked_on.starts_with(said) && !looked_on.contains("may be why"), "{looked_on}");
    assert!(!disturbed(0.3).contains("nobody was answered"));
    // Half of it the generator's own, or so short that it is a twentieth of the time.
    assert!(!stood_still(&[(4_000, 1_500)], 0.6, None, 0.0).text.contains("nobody was answered"));
    assert!(!stood_still(&[(4_000, 300)], 0.0, None, 0.0).text.contains("nobody was answered"));
}

#[test]
fn a_cause_of_a_part_says_that_the_generator_was_disturbed_too() {
    // A fifth of the requests take twenty times as long; the target's threads wait a little for a CPU that another has.
    let crowded = |is_disturbed: bool, generators: &[(&str, &str)]| {
        let build = closed().each(move |s| {
            (s.ok, s.response_ns, s.in_flight) = (4_000, 480_000, 2);
            (s.target, s.neighbours, s.idle_cores) = (vec![(0.2, 0.1); 2], [1.2, 0.0], 0.0);
            if is_disturbed {
                (s.busy, s.wait, s.late_share, s.reap_delay_ns) = (0.4, 0.55, 0.5, 3_000_000);
            }
        });
        let mut recording = build.recording();
        sampled(&mut recording, 400, |n| {
            let ready_ns = SECOND + n * 1_000_000;
            let took_ns = if n % 5 == 0 { 2_000_000 } else { 100_000 };
            Request { ready_ns, sent_ns: ready_ns, ended_ns: ready_ns + took_ns, ordinal: 2, ..Request::default() }
        });
        recording.capsule.generators = (!generators.is_empty()).then(|| not_valid_for(generators));
        diagnose(&recording)
    };
    let sound = crowded(false, &[]);
    assert_eq!(sound.validity.state, ValidityState::Valid, "{:?}", sound.validity);
    let sound = sound.gives.unwrap().text;
    assert!(sound.starts_with("yes (pid 30) holds CPUs") && sound.ends_with(" unexplained)"), "{sound}");
    let disturbed = crowded(true, &[]);
    assert_eq!(disturbed.validity.state, ValidityState::NotValid, "{:?}", disturbed.validity);
    let disturbed = disturbed.gives.unwrap().text;
    assert!(disturbed.starts_with("yes (pid 30) holds CPUs"), "{disturbed}");
    assert!(
        disturbed
            .ends_with(" unexplained); the generator was kept from running meanwhile, which may be why: see below"),
        "{disturbed}"
    );
    // Of several, each may be disturbed by something else: none of it is left out, and whose CPU it was is said.
    let of_several = |generators: &[(&str, &str)]| crowded(false, generators).gives.unwrap().text;
    let (stolen, starved) = ("cpu-stolen", "generator-starved");
    let both = of_several(&[("near", stolen), ("slow", starved), ("sound", "")]);
    assert!(
        both.ends_with(
            "; the hypervisor took CPU time from generator 'near' and generator 'slow' was kept from running meanwhile, \
             which may be why: see below"
        ),
        "{both}"
    );
    let all = of_several(&[("near", starved), ("slow", starved)]);
    assert!(all.ends_with("; all generators were kept from running meanwhile, which may be why: see below"), "{all}");
}

/// That a recording is of these generators, and what speaks against the figures of each; nothing, where that is empty.
pub fn not_valid_for(generators: &[(&str, &str)]) -> Generators {
    let one = |(name, id): &(&str, &str)| Generator {
        name: (*name).to_owned(),
        cpu: String::new(),
        kernel: String::new(),
        driver: String::new(),
        connections: 1,
        requests: 1,
        requests_per_s: 1.0,
        cpu_ns: 1,
        peak_rss_bytes: 1,
        lag_p99_ns: None,
        offset_ns: 0,
        offset_bound_ns: 0,
        end: End::Complete,
        is_damaged: false,
        has_readings: true,
        validity: if id.is_empty() { ValidityState::Valid } else { ValidityState::NotValid },
        figures: Vec::new(),
        reasons: (!id.is_empty())
            .then(|| Reason { id: (*id).to_owned(), text: "it was disturbed".to_owned() })
            .into_iter()
            .collect(),
    };
    Generators { generators: generators.iter().map(one).collect(), ..Generators::default() }
}

/// A server of which a sample has 400 quick requests, and its histogram so many of all that took so long.
fn with_a_tail(slow: u64, slow_ns: u64) -> WhatGives {
    let build = closed().each(|s| {
        (s.ok, s.response_ns, s.in_flight, s.target) = (4_000, 100_000, 1, vec![(0.2, 0.0)]);
    });
    let mut recording = build.recording();
    sampled(&mut recording, 400, |n| {
        let ready_ns = SECOND + n * 1_000_000;
        Request { ready_ns, sent_ns: ready_ns, ended_ns: ready_ns + 100_000, ordinal: 2, ..Request::default() }
    });
    for kind in [LatencyKind::Response, LatencyKind::Undelayed, LatencyKind::Service] {
        let times = recording.totals.sum.latency.of_mut(kind);
        let quick = times.len() - slow;
        times.reset();
        times.record_n(100_000, quick);
        times.record_n(slow_ns, slow);
    }
    diagnose(&recording).gives.unwrap()
}

#[test]
fn a_few_requests_late_for_turns_of_a_shared_machine_are_no_loss_and_late_for_seconds_they_are() {
    let turns = with_a_tail(160, 6_000_000);
    assert_eq!(turns.standing, Standing::BelowItsLimit, "four in a thousand, a fifth of all time: {turns:?}");
    let stuck = with_a_tail(12, 3_000_000_000);
    assert_eq!(stuck.standing, Standing::Unexplained, "{stuck:?}");
    assert!(stuck.text.starts_with("< 0.1 % of the requests were slow, and took 90 % of all time"), "{stuck:?}");
}

#[test]
fn by_the_clock_those_wait_too_that_no_connection_was_free_for() {
    let mut recording =
        open().each(|s| (s.response_ns, s.in_flight, s.target) = (100_000, 1, vec![(0.2, 0.0)])).recording();
    sampled(&mut recording, 400, |n| {
        let ready_ns = SECOND + n * 1_000_000;
        Request { ready_ns, sent_ns: ready_ns, ended_ns: ready_ns + 100_000, ordinal: 2, ..Request::default() }
    });
    let gap =
        Gap { from_ns: 4 * SECOND, to_ns: 11 * SECOND / 2, in_flight: 8, connections: 8, open: 8, ..Gap::default() };
    let due = recording.plan.due_between(gap.from_ns, gap.to_ns).unwrap() as u64;
    for kind in [LatencyKind::Response, LatencyKind::Undelayed] {
        let times = recording.totals.sum.latency.of_mut(kind);
        let quick = times.len() - due;
        times.reset();
        times.record_n(100_000, quick);
        times.record_n(gap.length_ns() / 2, due);
    }
    recording.requests.push(0, 0, &IntervalRequests { gaps: vec![gap], ..IntervalRequests::default() });
    let text = diagnose(&recording).gives.unwrap().text;
    let said =
        format!("nobody was answered for 1.50 s, from second 4.0 on, while {} requests waited: ", show_grouped(due));
    assert!(due > 1000 && text.starts_with(&said), "{text}");
}
