//! What the first line says beside what is not known: failures, a resource that is full, processes that are started.

use super::causes_of_real_servers::{alone, waiting};
use crate::common::judged::{of, sampled, status, with};
use crate::common::stalled::paused;
use crate::common::{SECOND, closed, open};
use diagnose::diagnose;
use model::bpf::BpfSample;
use model::event::{Details, Event};
use model::finding::{Standing, Status};
use model::plan::{Arrivals, Pace, Think};
use model::request::{Gap, IntervalRequests, Kept, Request, slowness_key};
use model::snapshot::Role;
use model::{ErrorKind, LatencyKind, Recording};
use testkit::recordings::steady;

const WAIT: &str = "requests were 40.0 ms in the target on average";

/// A target whose requests take 40 ms, nobody knows why, and of which so many a second fail besides, of 400 that do not.
fn failing(kind: ErrorKind, failed: u64) -> Recording {
    with(waiting().each(move |s| s.failed = vec![(kind, failed)]), |_, _| ())
}

#[test]
fn many_failures_are_said_before_how_long_the_others_took() {
    let first = |recording: &Recording| diagnose(recording).gives.unwrap();
    let closed = first(&failing(ErrorKind::ClosedEarly, 20));
    let said = "200 of 4,200 requests had no good reply: their connections were closed instead, and the target lived on; besides, ";
    assert!(closed.text.starts_with(&format!("{said}{WAIT}")), "{closed:?}");
    assert_eq!(closed.standing, Standing::Unexplained);
    let late = first(&failing(ErrorKind::ReplyTimeout, 20)).text;
    assert!(!late.contains("instead"), "{late}");
    let few = first(&failing(ErrorKind::ClosedEarly, 3)).text;
    assert!(few.starts_with(WAIT) && !few.contains("had no good reply"), "{few}");
    // A process that ended may have had their connections.
    let mut ended = failing(ErrorKind::ClosedEarly, 20);
    let details = Details { pid: Some(20), signal: Some(11), ..Details::default() };
    ended.events.push(Event::new(5 * SECOND as i64, "target-exit", "process 20 ended of signal 11").with(details));
    let ended = first(&ended).text;
    assert!(!ended.contains("lived on"), "{ended}");
}

#[test]
fn that_nobody_was_answered_any_more_is_said_before_how_long_the_others_took() {
    let first = |mut recording: Recording, from_ms: u64, failed: u64| {
        recording.totals.in_flight_at_end = 160;
        recording.totals.sum.errors.add(ErrorKind::Reset, failed);
        recording.totals.sum.counts.failed += failed;
        let (from_ns, to_ns) = (from_ms * 1_000_000, 12 * SECOND);
        let gap = Gap { from_ns, to_ns, in_flight: 160, connections: 160, open: 160, ..Gap::default() };
        recording.requests.push(0, 0, &IntervalRequests { gaps: vec![gap], ..IntervalRequests::default() });
        diagnose(&recording).gives.unwrap()
    };
    let text = |from_ms: u64, failed: u64| first(waiting().recording(), from_ms, failed).text;
    // What is to blame for the time of those that were answered did not end it.
    let pool = || alone("hrtimer_nanosleep", 400, SECOND);
    let cut = first(pool(), 6_000, 0);
    assert_eq!((cut.standing, cut.finding), (Standing::Unexplained, None));
    assert!(
        cut.text.starts_with("160 of 4,160 requests") && cut.text.contains("; besides, the target's only"),
        "{}",
        cut.text
    );
    let late = first(pool(), 8_000, 0);
    assert_eq!(late.finding.as_deref(), Some("pool-exhausted"));
    assert!(late.text.contains("any more from second 8.0 on"), "{}", late.text);
    let silent = text(6_000, 0);
    let said = "160 of 4,160 requests had no good reply: nobody was answered any more from second 6.0 on, while 160 waited; besides, ";
    assert!(silent.starts_with(&format!("{said}{WAIT}")), "{silent}");
    assert!(!text(9_500, 0).contains("any more"), "the last half second");
    let by_the_clock = waiting().with(|b| b.plan.pace = steady(400.0, Arrivals::Constant)).recording();
    let by_the_clock = first(by_the_clock, 6_000, 0).text;
    assert!(by_the_clock.contains(": nobody was answered any more from second 6.0 on"), "{by_the_clock}");
    assert!(!text(6_000, 300).contains("any more"), "most had failed otherwise");
}

#[test]
fn behind_a_cause_the_failures_that_it_does_not_explain_are_said() {
    let mut recording = alone("hrtimer_nanosleep", 400, SECOND);
    let text = |recording: &Recording| diagnose(recording).gives.unwrap().text;
    assert!(text(&recording).starts_with("the target's only worker") && !text(&recording).contains("besides"));
    recording.totals.sum.errors.add(ErrorKind::ClosedEarly, 200);
    recording.totals.sum.counts.failed = 200;
    let both = text(&recording);
    let said = "; besides, 200 of 4,200 requests had no good reply: their connections were closed instead, and the target lived on";
    assert!(both.starts_with("the target's only worker") && both.ends_with(said), "{both}");
}

#[test]
fn behind_replies_that_say_failure_what_requests_wait_for_is_said() {
    let mut recording = alone("hrtimer_nanosleep", 400, SECOND);
    recording.totals.sum.errors.add(ErrorKind::UnexpectedStatus, 2_000);
    recording.totals.sum.counts.failed = 2_000;
    let both = diagnose(&recording).gives.unwrap().text;
    let said =
        "replies say failure (nearly all of the failures); besides, the target's only worker waits in each request";
    assert!(both.contains(said), "{both}");
}

#[test]
fn processes_that_are_started_for_each_request_are_said_where_why_they_wait_is_not_known() {
    let text = |forks: u64| {
        let recording = with(waiting(), move |second, s| {
            let counts = [("lifecycle.forks".to_owned(), forks * second)].into();
            s.bpf = Some(BpfSample { counts, ..BpfSample::default() });
        });
        diagnose(&recording).gives.unwrap().text
    };
    let one = text(440);
    assert!(one.starts_with(WAIT) && one.ends_with("; meanwhile it started a process for each request"), "{one}");
    assert!(text(1_320).contains("; meanwhile it started 3.30 processes for each request"), "{}", text(1_320));
    assert!(!text(40).contains("started"), "one for ten requests");
}

#[test]
fn who_traces_the_target_is_said_where_why_it_waits_is_not_known() {
    let text = |from: u64, tracer: u64| {
        let recording = with(waiting(), move |second, s| {
            let of_target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            of_target.for_each(|process| process.metrics.set("tracer_pid", if second >= from { tracer } else { 0 }));
        });
        diagnose(&recording).gives.unwrap().text
    };
    let traced = text(4, 77);
    let said = "; meanwhile process (77) traced ";
    assert!(traced.starts_with(WAIT) && traced.contains(said), "{traced}");
    assert!(traced.ends_with("which stops at each of its system calls for that"), "{traced}");
    assert!(!text(10, 77).contains("traced"), "once, at the end");
    assert!(!text(0, 0).contains("traced"));
}

#[test]
fn a_process_that_is_stopped_again_and_again_is_not_held_by_a_request() {
    let told = |stops: i64, signal: i32| {
        let mut recording = paused(&[1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000], 250, 1);
        for n in 0..stops {
            let details = Details { pid: Some(20), signal: Some(signal), sender_pid: Some(77), ..Details::default() };
            let details = Details { process: Some("nginx".to_owned()), ..details };
            recording
                .events
                .push(Event::new((n + 1) * SECOND as i64, "target-signal", "it took SIGSTOP").with(details));
        }
        let diagnosis = diagnose(&recording);
        let is_blocked = status(&recording, "event-loop-blocked") == Status::Supported;
        (is_blocked, diagnosis.gives.unwrap().text)
    };
    let (text, text_of) = (|stops| told(stops, 19), |signal| told(8, signal).1);
    let (is_blocked, plain) = text(0);
    assert!(is_blocked && plain.starts_with("all requests of a thread stall"), "{plain}");
    let (is_blocked, stopped) = text(8);
    let said = "; meanwhile the target's process nginx (20) was stopped 8 times by process 77 (SIGSTOP) and let go on";
    assert!(!is_blocked && stopped.ends_with(said), "{stopped}");
    assert!(text(3).0, "three are too few for eight pauses");
    let by_terminal = text_of(20);
    assert!(
        !by_terminal.contains("SIGSTOP") && by_terminal.contains("was stopped 8 times by process 77 and let go on"),
        "{by_terminal}"
    );
}

/// Fifty thousand a second, and eight pauses of a quarter of a second with 32 requests in each: a sample of four hundred has none of those.
#[test]
fn requests_of_long_pauses_that_the_sample_lacks_stand_for_their_time() {
    let at_ms = [1000, 1700, 2400, 3100, 3800, 4500, 5200, 5900];
    let build = closed().each(|s| {
        (s.ok, s.response_ns, s.in_flight, s.connections) = (50_000, 400_000, 32, 32);
        (s.target, s.idle_cores) = (vec![(0.97, 0.0)], 1.0);
    });
    let mut recording = build.recording();
    sampled(&mut recording, 400, |n| {
        let ready_ns = SECOND + n * 1_000_000;
        Request { ready_ns, sent_ns: ready_ns, ended_ns: ready_ns + 400_000, ordinal: 2, ..Request::default() }
    });
    for kind in [LatencyKind::Response, LatencyKind::Undelayed, LatencyKind::Service] {
        recording.totals.sum.latency.of_mut(kind).record_n(262_000_000, 32 * at_ms.len() as u64);
    }
    let mut tick = IntervalRequests::default();
    for from_ns in at_ms.map(|ms| ms * 1_000_000) {
        let to_ns = from_ns + 262_000_000;
        tick.gaps.push(Gap { from_ns, to_ns, in_flight: 32, connections: 32, open: 32, ..Gap::default() });
    }
    recording.requests.push(0, 0, &tick);
    for (sequence, from_ns) in (1..).zip(at_ms.map(|ms| ms * 1_000_000)) {
        let mut tick = IntervalRequests::default();
        for connection in 0..8 {
            let request = Request { ready_ns: from_ns, sent_ns: from_ns, connection, ordinal: 9, ..Request::default() };
            let request = Request { ended_ns: from_ns + 262_000_000, ..request };
            tick.slowest.offer(16, Kept::new(slowness_key(request.response_ns()), request));
        }
        recording.requests.push(sequence, 0, &tick);
    }
    let diagnosis = diagnose(&recording);
    let text = diagnosis.gives.unwrap().text;
    assert!(text.starts_with("all requests of a thread stall together, for 262 ms at a time (nearly all of"), "{text}");
}

/// Two hundred a second by the clock, and twelve pauses of 60 ms a second: half of all requests stand in one.
#[test]
fn by_the_clock_pauses_in_which_most_requests_stand_are_seen() {
    const MS: u64 = 1_000_000;
    let stood = |pace: Pace, length_ms: u64| {
        let build = open().each(|s| {
            (s.ok, s.response_ns, s.in_flight) = (200, 30 * MS, 6);
            s.target = vec![(0.97, 0.0)];
        });
        let mut recording = build.with(|b| b.plan.pace = pace).recording();
        // A fifth of them come between two pauses.
        sampled(&mut recording, 400, |n| {
            let ready_ns = SECOND + n * 20 * MS;
            let took_ns = if n % 5 == 0 { 500_000 } else { 10 * MS + n % 5 * 10 * MS };
            Request { ready_ns, sent_ns: ready_ns, ended_ns: ready_ns + took_ns, ordinal: 2, ..Request::default() }
        });
        for second in 0..10 {
            let mut tick = IntervalRequests::default();
            for from_ns in (0..8).map(|n| second * SECOND + n * 80 * MS) {
                let to_ns = from_ns + length_ms * MS;
                tick.gaps.push(Gap { from_ns, to_ns, in_flight: 6, connections: 6, open: 64, ..Gap::default() });
            }
            recording.requests.push(second, 0, &tick);
        }
        status(&recording, "event-loop-blocked")
    };
    let clock = || steady(200.0, Arrivals::Constant);
    assert_eq!(stood(clock(), 60), Status::Supported);
    assert_ne!(stood(clock(), 40), Status::Supported, "eight replies' distance");
    assert_ne!(
        stood(Pace::Closed { think: Think::None }, 60),
        Status::Supported,
        "users that wait for each other end together"
    );
}

/// Requests that were sent within the load and answered after it stood in pauses all the while, of which three began after the load.
#[test]
fn pauses_after_the_load_are_what_its_last_requests_stood_in() {
    const MS: u64 = 1_000_000;
    let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.97, 0.0)]));
    let mut recording = build.recording();
    let mut tick = IntervalRequests::default();
    for from_ms in [1000, 2000, 3000, 4000, 9900, 10_000, 10_100, 10_200] {
        let (from_ns, to_ns) = (from_ms * MS, (from_ms + 100) * MS);
        tick.gaps.push(Gap { from_ns, to_ns, in_flight: 10, connections: 10, open: 64, ..Gap::default() });
    }
    recording.requests.push(0, 0, &tick);
    sampled(&mut recording, 400, |n| {
        let (from_ns, took_ns) = if n < 20 { (9900 * MS, 400 * MS) } else { (SECOND + n * MS, 200_000) };
        Request { ready_ns: from_ns, sent_ns: from_ns, ended_ns: from_ns + took_ns, ordinal: 2, ..Request::default() }
    });
    let diagnosis = diagnose(&recording);
    assert_eq!(of(&diagnosis, "event-loop-blocked").status, Status::Supported);
    let text = diagnosis.gives.unwrap().text;
    assert!(text.contains("(nearly all of the slow requests' time)"), "{text}");
}

#[test]
fn replies_that_say_that_it_is_asked_too_often_are_said_to_be_that() {
    let judged = |status: Vec<(u16, u64)>| {
        let build = closed().with(|b| b.status = status).each(|s| s.failed = vec![(ErrorKind::UnexpectedStatus, 64)]);
        let diagnosis = diagnose(&build.recording());
        let finding = of(&diagnosis, "error-status").clone();
        assert_eq!(finding.status, Status::Supported);
        (finding.title, finding.remedy)
    };
    let (title, remedy) = judged(vec![(200, 6_400), (429, 640)]);
    assert!(title.ends_with("replies say failure (status 429: it is asked too often)"), "{title}");
    assert!(remedy.starts_with("Ask less often"), "{remedy}");
    let (title, remedy) = judged(vec![(200, 6_400), (429, 400), (500, 240)]);
    assert!(title.ends_with("replies say failure"), "{title}");
    assert!(remedy.starts_with("Look at the target's error log"), "{remedy}");
}
