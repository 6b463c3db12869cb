//! Who is blamed for a loss: not whom it cannot be, and whom the target asks, who stopped it, and who else asks it.

use super::causes_of_real_servers::{stand, waiting, with};
use crate::common::judged::{of, one_of_all, status};
use crate::common::stalled::pausing;
use crate::common::{SECOND, closed, open};
use diagnose::diagnose;
use model::bpf::{BpfSample, FutexUse};
use model::courses::RunCourses;
use model::event::{Details, Event};
use model::finding::{Standing, Status, ValidityState};
use model::plan::Address;
use model::recording::Timeline;
use model::request::{IntervalRequests, Request, RequestEnd};
use model::snapshot::{ListenerSample, Outgoing, Role, Runtime, Switches};
use model::threads::{FutexHolder, ThreadStates, ThreadTime};
use model::users::Users;
use model::{ErrorKind, LatencyKind, Recording};

const MS: u64 = 1_000_000;
/// Of a generator that was disturbed.
const MAY_BE: &str = "that may be the generator's";

#[test]
fn what_takes_long_by_itself_is_no_pause_of_all() {
    // Six spans of 80 ms, at regular times, without a reply; whoever stood in one was under way for so long.
    let at_ms = [1000, 1500, 2000, 2500, 3000, 3500];
    let judged = |took_ms: u64| {
        let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0); 12]));
        let mut recording = pausing(build.recording(), &at_ms, 80);
        for at in at_ms {
            let mut tick = IntervalRequests::default();
            for n in 0..8 {
                let sent_ns = (at - 2) * MS + n;
                let request =
                    Request { ready_ns: sent_ns, sent_ns, ended_ns: sent_ns + took_ms * MS, ..Request::default() };
                tick.slowest.offer(64, one_of_all(at * 10 + n, request));
            }
            recording.requests.push(at, 8, &tick);
        }
        status(&recording, "stop-the-world")
    };
    assert_eq!(judged(85), Status::Supported);
    assert_eq!(judged(200), Status::Supported, "and waited as long behind each other");
    assert_eq!(judged(400), Status::Refuted, "each takes so long");
}

#[test]
fn a_generator_that_was_kept_from_running_made_none_of_the_targets_refusals() {
    let gives = |kind: ErrorKind| {
        let diagnosis = diagnose(
            &open()
                .each(|s| {
                    (s.busy, s.wait, s.late_share, s.reap_delay_ns) = (0.4, 0.55, 0.5, 60_000_000);
                    (s.response_ns, s.target, s.failed) = (200_000, vec![(0.01, 0.0)], vec![(kind, 500)]);
                })
                .recording(),
        );
        assert_eq!(diagnosis.validity.state, ValidityState::NotValid);
        diagnosis.gives.unwrap().text
    };
    let mut open_at_its_end = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0)]));
    (open_at_its_end.in_flight_at_end, open_at_its_end.unfinished) = (2_000, (5 * SECOND, 2_000));
    open_at_its_end.seconds.iter_mut().for_each(|s| {
        (s.busy, s.wait, s.late_share, s.reap_delay_ns) = (0.4, 0.55, 0.5, 60_000_000);
    });
    let unfinished = diagnose(&open_at_its_end.recording()).gives.unwrap().text;
    assert!(unfinished.contains("may be"), "requests without an end may be the generator's: {unfinished}");
    let late = gives(ErrorKind::ConnectTimeout);
    assert!(late.contains(MAY_BE), "{late}");
    for kind in [ErrorKind::ClosedEarly, ErrorKind::Reset] {
        let text = gives(kind);
        assert!(
            text.starts_with("5,000 of 55,000 requests had no good reply: their connections were ")
                && !text.contains("may be why"),
            "{text}"
        );
    }
}

/// A run of which some connections starved, while its generator was kept from running; its target's threads have a state in some seconds.
fn starving(threads: u16, state: char, seconds: &[u64]) -> Recording {
    let build = open().each(|s| {
        (s.response_ns, s.target, s.lag_ns) = (200_000, vec![(0.01, 0.0)], 20_000_000);
        (s.busy, s.wait, s.late_share, s.reap_delay_ns) = (0.4, 0.55, 0.5, 60_000_000);
    });
    let mut recording = with(&build, |second, s| {
        let of_target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
        if seconds.contains(&second) {
            of_target.flat_map(|process| &mut process.threads).for_each(|thread| thread.state = state);
        }
    });
    recording.plan.threads = threads;
    let users = Users { connections: 64, served: 50_000, served_min: 400, served_max: 1_000, ..Users::default() };
    recording.totals.users = Some(Users { jain_index: 0.8, starved: 20, starved_since_ms: Some(3_000), ..users });
    recording
}

#[test]
fn a_process_that_somebody_stopped_is_named_where_connections_starve() {
    let text = |recording: &Recording| diagnose(recording).gives.unwrap().text;
    let seen = text(&starving(1, 'T', &[3, 4, 5, 6]));
    assert!(seen.contains("hardly got a reply") && seen.contains("; meanwhile the target's process"), "{seen}");
    assert!(seen.ends_with("was stopped (state T), and stood still from second 3.0 to 6.0"), "{seen}");
    let unseen = text(&starving(1, 'S', &[3, 4, 5, 6]));
    assert!(!unseen.contains("stood still") && !unseen.contains("may be why"), "some of one worker's: {unseen}");
    let of_two = text(&starving(2, 'S', &[3, 4, 5, 6]));
    assert!(of_two.contains("may be why"), "they may be all of one worker's: {of_two}");
    assert!(!text(&starving(1, 'T', &[3])).contains("stood still"), "of one reading no length is known");
    let twice = text(&starving(1, 'T', &[2, 3, 6, 7, 8]));
    assert!(twice.ends_with("stood still from second 6.0 to 8.0"), "it went on between: {twice}");
    let all: Vec<u64> = (0..=10).collect();
    assert!(!text(&starving(1, 'T', &all)).contains("stood still"), "it served nobody before, either");
    // By an event it is known who did it, and since when.
    let mut told = starving(1, 'T', &[3, 4, 5, 6]);
    let pid = told.snapshots[0].processes.iter().find(|process| process.role == Role::Target).unwrap().pid;
    let details = Details { signal: Some(19), pid: Some(pid), ..Details::default() };
    let event = Event::new(2_600 * MS as i64, "target-signal", "the target's process web took SIGSTOP from process 7");
    told.push_event(event.with(details));
    let seen = text(&told);
    let said =
        "; meanwhile the target's process web took SIGSTOP from process 7, and stood still from second 2.6 to 6.0";
    assert!(seen.ends_with(said), "{seen}");
}

/// A target that fails requests by what its replies say, each after so long, and what it asks.
fn failing(took_ns: u64, asked: &[(&'static str, u64)], failed_connects: u64) -> Recording {
    let asked = asked.to_vec();
    let build = open().each(|s| {
        (s.ok, s.failed) = (0, vec![(ErrorKind::UnexpectedStatus, 50)]);
        (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0)]);
    });
    let mut recording = with(&build.with(|b| b.status = vec![(504, 500)]), move |second, s| {
        s.network.set("outgoing_connections", asked.len() as u64);
        s.network.set("tcp_attempt_fails", 1_000 + second * failed_connects);
        let mut metrics = model::metrics::Metrics::default();
        asked.iter().for_each(|(name, value)| metrics.set(name, *value));
        s.outgoing = vec![Outgoing { remote: "10.0.0.7:8080".to_owned(), metrics }];
    });
    let times = recording.totals.sum.latency.of_mut(LatencyKind::Failed);
    times.reset();
    times.record_n(took_ns, 500);
    recording
}

#[test]
fn replies_that_say_failure_are_of_whom_the_target_asks_where_that_does_not_answer() {
    let title = |recording: &Recording| of(&diagnose(recording), "error-status").title.clone();
    let plain = title(&failing(MS, &[], 0));
    assert_eq!(plain, "100 % of the replies say failure (status 504)");
    let unanswered = failing(1_000 * MS, &[("connecting", 30)], 0);
    let expected =
        "100 % of the replies say failure (status 504): 10.0.0.7:8080, which it asks, does not answer its connects";
    assert_eq!(title(&unanswered), expected);
    assert_eq!(status(&unanswered, "error-status"), Status::Supported);
    assert_eq!(title(&failing(1_000 * MS, &[("connecting", 4)], 0)), plain, "a few, of something else");
    assert_eq!(title(&failing(MS, &[("connecting", 30)], 0)), plain, "they do not wait for that");
    // 50 a second that take a second each are 50 at a time.
    let due = [("established", 60), ("awaiting", 30), ("awaiting_p50_ns", 500_000_000)];
    let expected =
        "100 % of the replies say failure (status 504), after 1.00 s: 10.0.0.7:8080, which it asks, does not answer it";
    assert_eq!(title(&failing(1_000 * MS, &due, 0)), expected);
    let few = [("established", 60), ("awaiting", 20), ("awaiting_p50_ns", 500_000_000)];
    assert_eq!(title(&failing(1_000 * MS, &few, 0)), plain, "most of the time they are elsewhere");
    assert_eq!(title(&failing(20 * MS, &due, 0)), plain, "it does not wait for that");
    let gone = "100 % of the replies say failure (status 504), and as many of its own connects fail: it does not reach a server that it asks";
    assert_eq!(title(&failing(MS, &[], 50)), gone);
    assert_eq!(title(&failing(MS, &[], 40)), plain, "others' connects fail, too");
    let mut own = failing(MS, &[], 50);
    own.totals.sum.counts.connect_failed = 100;
    assert_eq!(title(&own), plain, "of those some are the load's own");
}

#[test]
fn other_clients_are_told_where_they_ask_much() {
    let said = |all: u64, others: u64, change: fn(&mut Recording)| {
        let mut recording = with(&open(), move |_, s| {
            let mut bpf = BpfSample { window_ns: SECOND, ..BpfSample::default() };
            bpf.counts.insert("sockets.requests".to_owned(), all);
            bpf.counts.insert("sockets.others_requests".to_owned(), others);
            s.bpf = Some(bpf);
        });
        change(&mut recording);
        let remark = diagnose(&recording).summary.into_iter().find(|remark| remark.id == "other-clients");
        remark.map(|remark| remark.text)
    };
    let text = said(400, 300, |_| {}).unwrap();
    assert!(text.contains("75 % of the requests") && text.ends_with("answered about 20,000/s in all"), "{text}");
    assert_eq!(said(400, 30, |_| {}), None, "a health check");
    assert_eq!(said(20, 15, |_| {}), None, "too few");
    let older = |recording: &mut Recording| {
        for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
            bpf.counts.insert("sockets.generator_ports".to_owned(), 300);
        }
    };
    assert_eq!(said(400, 300, older), None, "its own connections, older than the probe");
    let together = |recording: &mut Recording| {
        recording.capsule.together = Some(model::recording::Together { number: 0, loads: Vec::new() });
    };
    assert_eq!(said(400, 300, together), None, "they are plimsoll's own");
    let itself = |recording: &mut Recording| {
        let remote = "127.0.0.1:2379".to_owned();
        for snapshot in &mut recording.snapshots {
            snapshot.outgoing = vec![Outgoing { remote: remote.clone(), metrics: model::metrics::Metrics::default() }];
            snapshot.listeners = vec![ListenerSample { address: "[::]:2379".to_owned(), ..ListenerSample::default() }];
        }
    };
    assert_eq!(said(400, 300, itself), None, "a gateway that asks its own port");
}

/// Half of the requests go to a second address, where they fail so.
fn two_origins(kind: ErrorKind) -> Recording {
    let build = open().each(|s| {
        (s.ok, s.failed, s.response_ns) = (2_500, vec![(kind, 2_500)], 200_000);
        s.target = vec![(0.05, 0.0)];
    });
    let mut recording = with(&build, |_, s| s.network.set("connections_looked_at", 32));
    let mut second = recording.plan.origins[0].clone();
    second.addresses = vec![Address::Tcp("127.0.0.1:81".parse().unwrap())];
    recording.plan.origins.push(second);
    for second in 0..10 {
        let mut tick = IntervalRequests::default();
        for n in 0..40 {
            let sent_ns = second * SECOND + n * MS;
            let (ended_ns, connection) = (sent_ns + 200_000, (n % 32) as u32);
            let sent = Request { ready_ns: sent_ns, sent_ns, ended_ns, ..Request::default() };
            let one = Request { connection, ordinal: 3 + n as u32, ..sent };
            tick.sampled.offer(1000, one_of_all(second * 100 + n, one));
            let end = RequestEnd::Failed(kind);
            let failed = Request { end, origin: 1, ordinal: 1, connection: 32 + connection, ..sent };
            tick.failed.offer(1000, one_of_all(second * 100 + n, failed));
        }
        recording.requests.push(second, 80, &tick);
    }
    recording
}

#[test]
fn an_address_at_which_nobody_listens_is_named_and_is_no_limit_of_connections() {
    let refused = two_origins(ErrorKind::Refused);
    assert_eq!(status(&refused, "connection-limit"), Status::Refuted);
    let gives = diagnose(&refused).gives.unwrap();
    let expected = "25,000 of 50,000 requests had no good reply: 127.0.0.1:81 refuses, as where nobody listens: does the server run, and at that address (ss -ltn)?";
    assert_eq!((gives.standing, &*gives.text), (Standing::Gives, expected));
    assert_eq!(
        status(&two_origins(ErrorKind::ClosedEarly), "connection-limit"),
        Status::Refuted,
        "nobody was served there"
    );
    assert!(!diagnose(&two_origins(ErrorKind::ClosedEarly)).gives.unwrap().text.contains("nobody listens"));
}

#[test]
fn a_target_that_closes_idle_connections_to_make_room_is_at_a_limit_of_connections() {
    // Of ten failures so many are of new connections; of 64 connections so many are held, with so many descriptors.
    let judged = |first: u64, closed: u64, held: u64, descriptors: u64| {
        let build = open().with(|b| (b.connected, b.closed_by_peer) = (1_000, closed)).each(|s| {
            (s.failed, s.response_ns, s.target) = (vec![(ErrorKind::ClosedEarly, 100)], 200_000, vec![(0.05, 0.0)]);
        });
        let mut recording = with(&build, |_, s| {
            s.network.set("connections_looked_at", held);
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            target.for_each(|process| process.descriptors = Some(descriptors));
        });
        recording.courses = RunCourses::of(&recording.snapshots);
        for second in 0..10 {
            let mut tick = IntervalRequests::default();
            for n in 0..10 {
                let sent_ns = second * SECOND + n * MS;
                let sent = Request { ready_ns: sent_ns, sent_ns, ended_ns: sent_ns + 200_000, ..Request::default() };
                let one = Request { connection: n as u32, ordinal: 9, ..sent };
                tick.sampled.offer(1000, one_of_all(second * 100 + n, one));
                let end = RequestEnd::Failed(ErrorKind::ClosedEarly);
                let failed = Request { end, ordinal: if n < first { 1 } else { 9 }, ..one };
                tick.failed.offer(1000, one_of_all(second * 100 + n, failed));
            }
            recording.requests.push(second, 20, &tick);
        }
        status(&recording, "connection-limit")
    };
    assert_eq!(judged(7, 990, 28, 33), Status::Supported);
    assert_eq!(judged(3, 990, 28, 33), Status::Refuted, "most failed on connections that had been served");
    assert_eq!(judged(7, 500, 28, 33), Status::Refuted, "half of the connections stay");
    assert_eq!(judged(7, 990, 60, 33), Status::Refuted, "nearly all are held");
    assert_eq!(judged(7, 990, 28, 80), Status::Refuted, "it had descriptors for all of them");
}

#[test]
fn of_few_replies_that_took_much_of_the_run_nothing_is_known() {
    // They come after the load has ended.
    let gives = |replies: u64, response_ns: u64| {
        let build = closed().with(|b| b.plan.connections = 16).each(|s| {
            (s.ok, s.in_flight, s.connections, s.response_ns) = (0, 16, 16, response_ns);
            s.target = vec![(0.001, 0.0)];
        });
        let mut recording = build.recording();
        recording.totals.sum.counts.ok = replies;
        recording.totals.sum.latency.record_n(LatencyKind::Response, response_ns, replies);
        diagnose(&recording).gives.unwrap()
    };
    let few = gives(20, 8_000 * MS);
    assert_eq!(few.standing, Standing::Unknown, "{few:?}");
    assert!(few.text.starts_with("the 20 replies that came took 8.0"), "{few:?}");
    assert!(!gives(60, 8_000 * MS).text.contains("replies that came"), "more than three each");
    assert!(!gives(20, 2_000 * MS).text.contains("replies that came"), "a fifth of the run");
}

#[test]
fn threads_that_live_for_a_request_are_at_a_lock_where_as_many_as_replies_waited_there() {
    let judged = |waiters: u64, ns: u64, first_share: u64| {
        let futex = FutexUse { pid: 20, address: 7, waiters: waiters as _, count: waiters, ns, ..FutexUse::default() };
        let holder = |tid: u32, ns| FutexHolder { pid: 20, tid, address: 7, ns, waits: 1, ..FutexHolder::default() };
        let states = ThreadStates {
            window_ns: SECOND,
            threads: vec![ThreadTime { pid: 20, tid: 20, alive_ns: SECOND, ..ThreadTime::default() }],
            holders: (0..10).map(|n| holder(100 + n, if n == 0 { first_share } else { 10 })).collect(),
            ..ThreadStates::default()
        };
        let build = waiting().each(|s| s.target = vec![(0.05, 0.0)]);
        let recording = with(&build, move |_, s| {
            let bpf = BpfSample { calls_window_ns: SECOND, window_replies: 400, ..BpfSample::default() };
            s.bpf = Some(BpfSample { threads: Some(states.clone()), futexes: vec![futex.clone()], ..bpf });
            stand(s, "do_poll");
        });
        status(&recording, "lock-contention")
    };
    // Sixteen requests at a time.
    assert_eq!(judged(400, 12 * SECOND, 10), Status::Supported);
    assert_eq!(judged(100, 12 * SECOND, 10), Status::NotApplicable, "a pool's threads, that wait for work");
    assert_eq!(judged(400, SECOND, 10), Status::NotApplicable, "one of sixteen");
    assert_eq!(judged(400, 40 * SECOND, 10), Status::NotApplicable, "more than there are requests");
    assert_eq!(judged(400, 12 * SECOND, 500), Status::NotApplicable, "one lets them all go: it hands out work");
}

#[test]
fn a_single_worker_that_sleeps_in_futex_in_each_request_is_a_pool_of_one() {
    let of = |runtime: Option<Runtime>, leaves: u64, sleeps: bool| {
        let recording = with(&waiting().each(|s| s.target = vec![(0.05, 0.0)]), move |second, s| {
            stand(s, "futex_do_wait");
            let of_target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            of_target.for_each(|process| process.runtime = runtime);
            for thread in s.processes.iter_mut().filter(|p| p.role == Role::Target).flat_map(|p| &mut p.threads) {
                thread.switches = Some(Switches { voluntary: second * leaves, involuntary: 0 });
                thread.stands.as_mut().unwrap().sleeps = sleeps;
            }
        });
        status(&recording, "pool-exhausted")
    };
    let judged = |leaves, sleeps| of(None, leaves, sleeps);
    assert_eq!(judged(400, true), Status::Supported);
    assert_eq!(judged(100, true), Status::Refuted, "it sleeps in one of four");
    assert_eq!(judged(400, false), Status::Refuted, "it waits for somebody");
    assert_eq!(of(Some(Runtime::Go), 400, true), Status::Refuted, "it waits for the timers of many goroutines");
}

#[test]
fn a_run_that_is_over_at_once_says_that_it_was_short_and_what_it_lacked() {
    let judged = |measured_ns: u64| {
        let build = closed().with(|b| b.seconds.truncate(1)).each(|s| (s.ok, s.target) = (100, vec![(0.1, 0.0)]));
        let mut recording = build.recording();
        recording.totals.measured_ns = measured_ns;
        // Of the only interval the wait is known, and whose share it was is not.
        let mut row = recording.timeline.rows()[0];
        (row.end_ns, row.counts.cpu_wait_ns, row.worker_wait_max) = (row.start_ns + measured_ns, measured_ns / 3, 0.0);
        recording.timeline = Timeline::default();
        recording.timeline.push(row);
        of(&diagnose(&recording), "generator-lag").clone()
    };
    let short = judged(5 * MS);
    assert_eq!(short.status, Status::Supported, "{short:?}");
    assert_eq!(short.title, "the generator was kept from running, in a run of 5.00 ms");
    assert!(short.remedy.starts_with("Run for longer"), "{short:?}");
    let why = "its workers wanted to run and did not for 33 % of the time";
    assert!(short.because.iter().any(|piece| piece.text == why), "{short:?}");
    let long = judged(1_000 * MS);
    assert_eq!(long.title, "the generator was kept from running, and what kept it is not seen");
}
