//! One thread that is held while requests stand before it: where it stood, what it did, and what the others did meanwhile.

use super::causes_of_real_servers::{stand, with};
use crate::common::judged::{of, sampled, status};
use crate::common::stalled::{pausing, pausing_among, pausing_with};
use crate::common::{SECOND, open};
use diagnose::diagnose;
use model::Recording;
use model::finding::{Status, ValidityState};
use model::plan::{Address, Arrivals};
use model::request::{Gap, IntervalRequests, Request};
use model::snapshot::{ListenerSample, Outgoing, Role, Switches};
use model::users::Users;
use testkit::recordings::steady;

#[test]
fn the_only_thread_that_did_nothing_while_requests_waited_was_held_whatever_held_it() {
    // Pauses of 80 ms, six of which take 6 % of the time; it wants 2 % of a core, and is looked at between them.
    let judged = |threads: usize, run: f64, asked: Option<u64>, at_ms: u64, wchan: &'static str| {
        let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(run, 0.0); threads]));
        let recording = with(&build, move |_, s| {
            stand(s, wchan);
            if let Some(open) = asked {
                s.network.set("outgoing_connections", open);
                s.outgoing
                    .extend((open > 0).then(|| Outgoing { remote: "127.0.0.1:1".to_owned(), ..Outgoing::default() }));
            }
        });
        pausing(recording, &[500, 1300, 2300, 3700, 4300, 5800].map(|ms| ms + at_ms), 80)
    };
    let is = |recording: &Recording| status(recording, "event-loop-blocked");
    let held = judged(1, 0.02, Some(0), 0, "ep_poll");
    assert_eq!(is(&held), Status::Supported);
    let why = of(&diagnose(&held), "event-loop-blocked").because.clone();
    assert!(why.iter().any(|piece| piece.text.contains("for most of the pauses it did nothing")), "{why:?}");
    assert_eq!(is(&judged(1, 0.02, Some(1), 0, "ep_poll")), Status::NotObservable, "it may wait for whom it asks");
    assert_eq!(is(&judged(1, 0.02, None, 0, "ep_poll")), Status::NotObservable, "whom it asks was not read");
    assert_eq!(is(&judged(2, 0.02, Some(0), 0, "ep_poll")), Status::NotObservable, "another may have had them");
    assert_eq!(
        is(&judged(1, 0.02, Some(0), 680, "ep_poll")),
        Status::NotObservable,
        "it was seen to wait for work in one"
    );
    let mut remote = held;
    let far = Address::Tcp("192.0.2.1:80".parse().unwrap());
    remote.plan.origins[0].addresses = vec![far];
    assert_eq!(is(&remote), Status::NotObservable, "the path may have stalled");
}

#[test]
fn of_several_workers_one_that_is_full_is_told_where_the_others_have_room() {
    let judged = |third: f64, others: f64, behind: bool| {
        let target = vec![(others, 0.0), (others, 0.0), (third, 0.02), (others, 0.0)];
        let build = open().each(|s| (s.response_ns, s.target) = (200_000, target.clone()));
        let mut recording =
            with(&build, |second, s| stand(s, if second % 2 == 0 { "ep_poll" } else { "do_epoll_wait" }));
        for snapshot in &mut recording.snapshots {
            let listener =
                |inode| ListenerSample { inode, address: "127.0.0.1:80".to_owned(), ..ListenerSample::default() };
            snapshot.listeners = (1..=4).map(listener).collect();
        }
        sampled(&mut recording, 400, |n| behind_a_slow_one(n % 20 == 0, behind));
        recording
    };
    let full = judged(0.97, 0.2, true);
    assert_eq!(status(&full, "event-loop-blocked"), Status::Supported);
    let text = diagnose(&full).gives.unwrap().text;
    let expected = "one of the target's 4 workers is full (99 % of a core) while the others have room";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(status(&judged(0.97, 0.7, true), "event-loop-blocked"), Status::Refuted, "all of them work hard");
    assert_eq!(status(&judged(0.7, 0.2, true), "event-loop-blocked"), Status::Refuted, "it has room itself");
    assert_eq!(
        status(&judged(0.97, 0.2, false), "event-loop-blocked"),
        Status::Refuted,
        "any connection has slow ones"
    );
}

#[test]
fn of_several_workers_one_that_computes_while_the_others_hardly_work_is_told_below_its_limit() {
    // Of so many requests a second one in twenty is slow, for 20 ms.
    let judged = |one: f64, others: f64, ok: u64| {
        let target = vec![(others, 0.0), (others, 0.0), (one, 0.0), (others, 0.0)];
        let build = open().each(|s| (s.ok, s.response_ns, s.target) = (ok, 200_000, target.clone()));
        let mut recording = with(&build, |_, s| {
            stand(s, "ep_poll");
            let listener =
                |inode| ListenerSample { inode, address: "127.0.0.1:80".to_owned(), ..ListenerSample::default() };
            s.listeners = (1..=4).map(listener).collect();
        });
        sampled(&mut recording, 400, |n| behind_a_slow_one(n % 20 == 0, true));
        recording
    };
    let busy = judged(0.6, 0.07, 1000);
    assert_eq!(status(&busy, "event-loop-blocked"), Status::Supported);
    let text = diagnose(&busy).gives.unwrap().text;
    let expected = "one of the target's 4 workers computes for 60 % of the time while the others do hardly anything";
    assert!(text.starts_with(expected), "{text}");
    let of = |recording: Recording| status(&recording, "event-loop-blocked");
    assert_eq!(of(judged(0.35, 0.06, 1000)), Status::Refuted, "it hardly works");
    assert_eq!(of(judged(0.6, 0.15, 1000)), Status::Refuted, "so do the others");
    assert_eq!(of(judged(0.6, 0.07, 5000)), Status::Refuted, "2.4 ms of its time are no 20 ms");
}

/// A request that follows one as slow on its connection, or not.
fn behind_a_slow_one(is_slow: bool, behind: bool) -> Request {
    let took_ns = |is_slow: bool| if is_slow { 20_000_000 } else { 200_000 };
    let sent = Request { ready_ns: SECOND, sent_ns: SECOND, ended_ns: SECOND + took_ns(is_slow), ..Request::default() };
    Request { ordinal: 2, before_ns: Some(took_ns(is_slow && behind)), ..sent }
}

/// Four workers with as many listeners: where each stands, and how often a second the third leaves its CPU. Five in a hundred of 5,000
/// requests a second are slow.
fn workers(listeners: u64, leaves: u64, of: impl Fn(u64, u64) -> &'static str) -> Recording {
    let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0); 4]));
    with(&build, move |second, s| {
        stand(s, "ep_poll");
        let listener =
            |inode| ListenerSample { inode, address: "127.0.0.1:80".to_owned(), ..ListenerSample::default() };
        s.listeners = (1..=listeners).map(listener).collect();
        let threads = s.processes.iter_mut().filter(|p| p.role == Role::Target).flat_map(|p| &mut p.threads);
        for (index, thread) in (0..).zip(threads) {
            let each = if index == 2 { leaves } else { 1000 };
            thread.switches = Some(Switches { voluntary: second * each, involuntary: 0 });
            if let Some(stands) = &mut thread.stands {
                stands.wchan = Some(of(second, index).to_owned());
            }
        }
    })
}

/// That the third sleeps.
fn third(_: u64, thread: u64) -> &'static str {
    if thread == 2 { "hrtimer_nanosleep" } else { "io_cqring_wait" }
}

#[test]
fn where_one_worker_is_held_and_the_others_wait_for_work_the_world_does_not_stop() {
    let judged = |recording: Recording| {
        let recording = pausing(recording, &[1000, 2000, 3000, 4000, 5000, 6000], 80);
        (status(&recording, "event-loop-blocked"), status(&recording, "stop-the-world"))
    };
    let held = (Status::Supported, Status::Refuted);
    assert_eq!(judged(workers(4, 250, third)), held);
    assert_eq!(judged(workers(4, 700, third)), held, "it waits for work between them, too");
    let world = (Status::Refuted, Status::Supported);
    assert_eq!(judged(workers(4, 250, |_, _| "hrtimer_nanosleep")), world, "all of them are held");
    let of_it = |_, thread| if thread == 2 { "hrtimer_nanosleep" } else { "futex_wait_queue" };
    assert_eq!(judged(workers(4, 250, of_it)), world, "the others wait for it");
    let seldom = |second, thread| if thread == 2 && second % 3 == 0 { "hrtimer_nanosleep" } else { "ep_poll" };
    assert_eq!(judged(workers(4, 250, seldom)), world, "it waits for work most of the time");
    let in_turn = |second, thread| if second % 4 == thread { "hrtimer_nanosleep" } else { "ep_poll" };
    assert_eq!(judged(workers(4, 250, in_turn)), world, "it is another one each time");
    assert_eq!(judged(workers(5, 250, third)), held, "one more has no connection, and does nothing");
    assert_eq!(judged(workers(1, 250, third)), world, "with one listener it may be a timer's");
    assert_eq!(judged(workers(4, 5_000, third)), world, "it wakes far more often than there are slow replies");
    assert_eq!(judged(workers(4, 100, third)), world, "it wakes more seldom than that");
}

#[test]
fn requests_behind_slow_ones_on_their_connection_are_the_held_workers() {
    // Nobody else waits: there is no pause.
    let judged = |behind: bool, slow_in: u64, connections: u32| {
        let mut recording = workers(4, 250, third);
        recording.plan.connections = connections;
        sampled(&mut recording, 400, |n| behind_a_slow_one(n % slow_in == 0, behind));
        recording
    };
    let held = judged(true, 20, 64);
    assert_eq!(status(&held, "event-loop-blocked"), Status::Supported);
    let text = diagnose(&held).gives.unwrap().text;
    assert!(text.starts_with("one of the target's 4 workers is held up (it slept 99 % of the time)"), "{text}");
    assert_eq!(status(&judged(false, 20, 64), "event-loop-blocked"), Status::Refuted, "any connection has slow ones");
    assert_eq!(status(&judged(true, 20, 4), "event-loop-blocked"), Status::Refuted, "each has a connection of its own");
    // Where hardly any of a closed loop's replies are its, its connections starve beside the others.
    let mut starving = judged(true, 400, 64);
    let users = Users { connections: 64, served: 50_000, served_min: 125, served_max: 1_000, ..Users::default() };
    starving.totals.users = Some(Users { jain_index: 0.7, starved: 16, starved_since_ms: Some(0), ..users });
    assert_eq!(status(&starving, "event-loop-blocked"), Status::Supported);
    let diagnosis = diagnose(&starving);
    assert_eq!(
        diagnosis.first_to_give().map(|first| first.id.as_str()),
        Some("event-loop-blocked"),
        "{:?}",
        diagnosis.gives
    );
}

#[test]
fn a_loop_that_slept_while_nothing_ended_is_held_also_where_no_call_was_counted() {
    let stood = |wchan: &'static str, pause_ms: u64| {
        let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0)]));
        let recording = with(&build, move |_, s| stand(s, wchan));
        pausing(recording, &[500, 1000, 2300, 3900, 4300, 5800], pause_ms)
    };
    assert_eq!(status(&stood("hrtimer_nanosleep", 80), "event-loop-blocked"), Status::Supported);
    assert_eq!(status(&stood("do_wait", 80), "event-loop-blocked"), Status::Supported, "for a process it had started");
    let unseen = stood("ep_poll", 80);
    assert_eq!(status(&unseen, "event-loop-blocked"), Status::NotObservable, "it waited for work");
    // What is plain to see is said all the same.
    let text = diagnose(&unseen).gives.unwrap().text;
    assert!(text.starts_with("nobody was answered 6 times, for 80.0 ms at a time (median), while several requests waited: nearly all of the slow requests' time; why is not known"), "{text}");
    // Of a disturbed generator too, if it looked on.
    let disturbed = |own: f64| {
        let build = open().each(|s| {
            (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0)]);
            (s.busy, s.wait, s.late_share, s.reap_delay_ns) = (0.4, 0.55, 0.5, 60_000_000);
        });
        let diagnosis = diagnose(&pausing_with(build.recording(), &[500, 1000, 2300, 3900, 4300, 5800], 80, own));
        assert_eq!(diagnosis.validity.state, ValidityState::NotValid, "{:?}", diagnosis.validity);
        diagnosis.gives.unwrap().text
    };
    let looked_on = disturbed(0.05);
    assert!(looked_on.starts_with("nobody was answered 6 times") && !looked_on.contains("may be why"), "{looked_on}");
    let took_part = disturbed(0.3);
    assert!(!took_part.contains("nobody was answered") && took_part.contains("may be why"), "{took_part}");
}

#[test]
fn pauses_that_held_those_late_by_far_are_said_though_many_more_were_late_by_a_turn() {
    let at_ms = [500, 1000, 2300, 3900, 4300, 5800];
    let judged = |length_ms: u64| {
        let build = open().each(|s| (s.response_ns, s.ok, s.target) = (200_000, 60, vec![(0.01, 0.0)]));
        let build = build.with(|b| b.plan.pace = steady(60.0, Arrivals::Constant));
        let recording =
            pausing_among(with(&build, |_, s| stand(s, "ep_poll")), &at_ms, length_ms, 0.0, |n| match n % 20 {
                0 => (SECOND, 80_000_000),
                1..=9 => (SECOND + 200_000_000, 10_000_000),
                _ => (SECOND, 200_000),
            });
        diagnose(&recording).gives.unwrap().text
    };
    let told = judged(80);
    assert!(told.starts_with("nobody was answered 6 times, for 80.0 ms at a time (median)"), "{told}");
    let brief = judged(15);
    assert!(!brief.contains("nobody was answered"), "pauses that hold hardly any of it: {brief}");
}

#[test]
fn of_one_connection_only_stalls_at_regular_times_are_the_threads() {
    // With one request under way at a time a slow one looks like a pause.
    let judged = |at_ms: [u64; 6], connections: u32, threads: usize| {
        let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.01, 0.0); threads]));
        let mut recording = with(&build, |_, s| stand(s, "hrtimer_nanosleep"));
        recording.plan.connections = connections;
        let gaps = at_ms.map(|ms| Gap {
            from_ns: ms * 1_000_000,
            to_ns: (ms + 80) * 1_000_000,
            in_flight: 1,
            connections: 1,
            open: u64::from(connections),
            ..Gap::default()
        });
        recording.requests.push(0, 0, &IntervalRequests { gaps: gaps.into(), ..IntervalRequests::default() });
        recording
    };
    let regular = [500, 1500, 2500, 3500, 4500, 5500];
    let one = judged(regular, 1, 1);
    assert_eq!(status(&one, "event-loop-blocked"), Status::Supported);
    let found = of(&diagnose(&one), "event-loop-blocked").clone();
    assert!(found.title.contains("whatever is asked stalls every 1.00 s, for 80.0 ms"), "{}", found.title);
    assert!(found.because[0].text.starts_with("6 pauses in which the only request under way did not end"), "{found:?}");
    assert_eq!(
        status(&judged([500, 700, 2900, 3100, 3200, 6700], 1, 1), "event-loop-blocked"),
        Status::Refuted,
        "by what is asked"
    );
    assert_eq!(status(&judged(regular, 8, 1), "event-loop-blocked"), Status::Refuted, "others had nothing to ask");
    assert_eq!(
        status(&judged(regular, 1, 2), "event-loop-blocked"),
        Status::Refuted,
        "the other thread may serve others"
    );
}
