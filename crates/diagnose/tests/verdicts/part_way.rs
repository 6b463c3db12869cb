//! Causes that begin part-way: they are judged in the stretch in which they are, and said with it.

use crate::common::judged::{of, one_of_all};
use crate::common::stalled::call;
use crate::common::{Build, SECOND, closed};
use diagnose::diagnose;
use model::bpf::{BpfSample, Log2};
use model::event::{Details, FAULT_BEGAN, FAULT_UNDONE};
use model::finding::{Diagnosis, LossKind, Severity, Standing, Status};
use model::request::{IntervalRequests, Kept, Request, RequestEnd};
use model::users::Users;
use model::{ErrorKind, Event, Recording};

/// When it begins, seconds, and how long the run is.
const FROM: u64 = 3;
const LENGTH: u64 = 10;

/// Requests a second and how long each takes, by second.
fn levels(of: impl Fn(u64) -> (u64, u64)) -> Build {
    let mut build = closed().each(|s| (s.target, s.idle_cores) = (vec![(0.1, 0.01); 2], 1.6));
    for (second, one) in (0..LENGTH).zip(&mut build.seconds) {
        (one.ok, one.response_ns) = of(second);
    }
    build
}

/// Sixty thousand requests a second of 0.2 ms, and from then on eight hundred of 20 ms.
fn slow_from_then() -> Build {
    levels(|second| if second < FROM { (60_000, 200_000) } else { (800, 20_000_000) })
}

/// Adds the sample: as many requests of each second as their part of all, and 30 at least.
fn with_requests(build: &Build) -> Recording {
    let mut recording = build.recording();
    for (second, one) in (0..).zip(&build.seconds) {
        let mut tick = IntervalRequests::default();
        for n in 0..30.max(one.ok / 200) {
            let sent_ns = second * SECOND + n * 1_000_000;
            let request = Request {
                intended_ns: sent_ns,
                ready_ns: sent_ns,
                sent_ns,
                first_byte_ns: sent_ns + one.response_ns,
                ended_ns: sent_ns + one.response_ns,
                ordinal: 2,
                received_bytes: 100,
                ..Request::default()
            };
            tick.sampled.offer(1000, Kept::new(second * 1000 + n, request));
        }
        for (kind, count) in &one.failed {
            for n in 0..*count {
                let ended_ns = second * SECOND + 600_000_000;
                let end = RequestEnd::Failed(*kind);
                let request = Request {
                    ready_ns: second * SECOND,
                    sent_ns: second * SECOND,
                    ended_ns,
                    end,
                    ..Request::default()
                };
                tick.failed.offer(1000, Kept::new(n, request));
            }
        }
        recording.requests.push(second, one.ok, &tick);
    }
    recording
}

/// What the probes' windows had, one in seconds 1 and 2 and one in each two after: from then on fsync(2) takes most of two threads'
/// time.
fn syncing(mut recording: Recording) -> Recording {
    for (second, snapshot) in (0_u64..).zip(&mut recording.snapshots) {
        let (before, after) = (second.min(FROM), second.saturating_sub(FROM));
        snapshot.bpf = Some(BpfSample {
            calls_window_ns: second * SECOND / 2,
            window_replies: before * 30_000 + after * 400,
            calls: vec![call("read", before * 30_000, 1000), call("fsync", after * 400, after * 800_000_000)],
            ..BpfSample::default()
        });
    }
    recording
}

fn said(diagnosis: &Diagnosis) -> (Standing, &str) {
    let gives = diagnosis.gives.as_ref().unwrap();
    (gives.standing, &gives.text)
}

#[test]
fn a_cause_that_begins_part_way_is_named_with_its_window() {
    let recording = syncing(with_requests(&slow_from_then()));
    let diagnosis = diagnose(&recording);
    let (standing, text) = said(&diagnosis);
    assert_eq!(standing, Standing::Gives, "{text}");
    assert!(
        text.starts_with("from second 3.0 on, requests wait until a line is on the disk: fsync takes 80 %"),
        "{text}"
    );
    let log = of(&diagnosis, "log-bound");
    assert_eq!((log.status, log.severity), (Status::Supported, Severity::Error));
    assert!(log.because.iter().all(|evidence| evidence.window_s[0] > 2.99), "{log:#?}");
    assert_eq!(diagnosis.segments.len(), 2);
    let waiting = diagnosis.losses.iter().find(|loss| loss.kind == LossKind::Waiting).unwrap();
    assert!(waiting.text.starts_with("from second 3.0 on, requests were 20"), "{waiting:?}");
    // Where it was so from the start it is the whole run's.
    let all_along = syncing(with_requests(&levels(|_| (800, 20_000_000))));
    assert!(!said(&diagnose(&all_along)).1.starts_with("from second"));
}

#[test]
fn a_fault_of_the_run_that_acted_then_is_named_with_the_stretch() {
    let event = |kind: &str, at_s: u64, number: u32, name: &str| {
        let details = Details { fault: Some(number), of_kind: Some(name.to_owned()), ..Details::default() };
        Event::new((at_s * SECOND).cast_signed(), kind, "it was asked for").with(details)
    };
    let with = |events: &[Event]| {
        let mut recording = syncing(with_requests(&slow_from_then()));
        events.iter().cloned().for_each(|event| recording.events.push(event));
        said(&diagnose(&recording)).1.to_owned()
    };
    let delay = [event(FAULT_BEGAN, FROM, 1, "port-delay"), event(FAULT_UNDONE, LENGTH, 1, "port-delay")];
    let text = with(&delay);
    assert!(
        text.starts_with("from second 3.0 on, while this run's own fault port-delay acted, requests wait"),
        "{text}"
    );
    let nice = [event(FAULT_BEGAN, 0, 2, "nice"), event(FAULT_UNDONE, LENGTH, 2, "nice")];
    let text = with(&[delay.as_slice(), nice.as_slice()].concat());
    assert!(text.contains("while this run's own faults port-delay, nice acted, requests wait"), "{text}");
    // Too few readings of the stretch to ask rules about it: the sentence is of the whole run, and the fault stands behind it.
    let mut unread = with_requests(&slow_from_then());
    unread.snapshots.retain(|snapshot| snapshot.at_ns <= ((FROM + 1) * SECOND).cast_signed());
    let without = said(&diagnose(&unread)).1.to_owned();
    delay.iter().cloned().for_each(|event| unread.events.push(event));
    let text = said(&diagnose(&unread)).1.to_owned();
    let why = "; this run's own fault acted meanwhile (port-delay from second 3.0 to 10.0), which may be why";
    assert_eq!(text, without.replace("; why is not known", "") + why);
    // One of a moment, one that was over early, and one of before.
    let kill = [event(FAULT_BEGAN, FROM, 1, "kill")];
    let short = [event(FAULT_BEGAN, FROM, 2, "stop"), event(FAULT_UNDONE, FROM + 1, 2, "stop")];
    let before = [event(FAULT_BEGAN, 1, 3, "stress"), event(FAULT_UNDONE, FROM, 3, "stress")];
    let text = with(&[kill.as_slice(), &short, &before].concat());
    assert!(text.starts_with("from second 3.0 on, requests wait"), "{text}");
}

#[test]
fn a_slow_start_is_not_worse_than_what_went_before() {
    let warming = levels(|second| if second < FROM { (800, 20_000_000) } else { (60_000, 200_000) });
    let diagnosis = diagnose(&with_requests(&warming));
    let (_, text) = said(&diagnosis);
    assert!(!text.starts_with("from second") && diagnosis.segments.len() == 1, "{text}");
}

#[test]
fn one_bad_second_or_a_twofold_time_is_no_stretch() {
    let bad = |from: u64, to: u64, ok: u64, ns: u64| {
        levels(move |second| if (from..to).contains(&second) { (ok, ns) } else { (60_000, 200_000) })
    };
    for build in [bad(5, 6, 800, 20_000_000), bad(3, 10, 30_000, 400_000), bad(9, 10, 800, 20_000_000)] {
        assert_eq!(diagnose(&with_requests(&build)).segments.len(), 1);
    }
}

/// A fall in the second second, of requests so short that none is late by itself: of `length` seconds, 45,000 a second of 0.1 ms
/// become 8,000 of half a one, and the second in which that was has something of both.
fn fell_early(length: u64, after: u64) -> Build {
    let mut build = levels(|_| (after, 510_000));
    build.seconds.resize(length as usize, build.seconds[0].clone());
    for (one, level) in build.seconds.iter_mut().zip([(45_000, 100_000), (20_000, 160_000)]) {
        (one.ok, one.response_ns) = level;
    }
    build
}

#[test]
fn a_fall_in_the_second_second_is_no_server_of_which_nothing_gives() {
    for length in [8, 20] {
        let recording = with_requests(&fell_early(length, 8_000));
        let diagnosis = diagnose(&recording);
        let (standing, text) = said(&diagnosis);
        assert_eq!(standing, Standing::Unexplained, "{text}");
        assert!(
            text.starts_with("from second 2.0 on, half of the requests took 510 µs and more, before 100 µs"),
            "{text}"
        );
        // What takes the time is what gives, though half a millisecond is no loss where it is so from the start.
        let mut synced = recording;
        for (second, snapshot) in (0_u64..).zip(&mut synced.snapshots) {
            let after = second.saturating_sub(2);
            snapshot.bpf = Some(BpfSample {
                calls_window_ns: second * SECOND / 2,
                window_replies: 45_000 + after * 8_000,
                calls: vec![call("read", after * 8_000, 1000), call("fsync", after * 8_000, after * 800_000_000)],
                ..BpfSample::default()
            });
        }
        let diagnosis = diagnose(&synced);
        assert_eq!(
            diagnosis.first_to_give().map(|first| first.id.as_str()),
            Some("log-bound"),
            "{:?}",
            said(&diagnosis)
        );
        assert!(said(&diagnosis).1.starts_with("from second 2.0 on, requests wait until a line is on the disk"));
    }
    // At the rate it had before there are more clients, or the first second was of few requests: it tells nothing.
    let mut few = fell_early(8, 8_000);
    few.seconds[0].ok = 900;
    for build in [fell_early(8, 42_000), few] {
        let diagnosis = diagnose(&with_requests(&build));
        assert!(!said(&diagnosis).1.starts_with("from second 2"), "{:?}", said(&diagnosis));
    }
}

#[test]
fn a_closed_loop_that_is_served_a_third_as_fast_is_no_server_of_which_nothing_gives() {
    // Four times as long is no stretch by its times, nor is half a millisecond a loss; that three in four requests are gone is.
    let fell = |from: u64, ok: u64| {
        let mut build = levels(|second| if second < from { (43_000, 120_000) } else { (ok, 480_000) });
        build.seconds.truncate(8);
        build
    };
    for from in [1, 3] {
        let recording = with_requests(&fell(from, 10_750));
        let diagnosis = diagnose(&recording);
        let (standing, text) = said(&diagnosis);
        assert_eq!(standing, Standing::Unexplained, "{text}");
        let expected = format!("from second {from}.0 on, as many clients had 10,750 requests a second, before 43,000");
        assert!(text.starts_with(&expected), "{text}");
        let mut synced = recording.clone();
        for (second, snapshot) in (0_u64..).zip(&mut synced.snapshots) {
            let (before, after) = (second.min(from), second.saturating_sub(from));
            snapshot.bpf = Some(BpfSample {
                calls_window_ns: second * SECOND / 2,
                window_replies: before * 21_000 + after * 5_000,
                calls: vec![call("read", before * 21_000, 1000), call("fsync", after * 5_000, after * 800_000_000)],
                ..BpfSample::default()
            });
        }
        let text = diagnose(&synced).gives.unwrap().text;
        let expected = format!("from second {from}.0 on, requests wait until a line is on the disk");
        assert!(text.starts_with(&expected), "{text}");
        // Where the kernel saw that the target answered at once, it is not the target that lost it.
        let mut elsewhere = recording;
        for (second, snapshot) in (0_u64..).zip(&mut elsewhere.snapshots) {
            let replies = second * 5_000;
            let served = Log2 { sum: replies * 5_000, buckets: [vec![0; 13], vec![replies]].concat() };
            let histograms = [("sockets.service_ns".to_owned(), served)].into();
            snapshot.bpf = Some(BpfSample { window_replies: replies, histograms, ..BpfSample::default() });
        }
        let text = diagnose(&elsewhere).gives.unwrap().text;
        assert!(!text.contains("as many clients had"), "{text}");
    }
    // The second in which it began has replies as late as those after it, and half as many again: nothing is asked of it.
    let mut begun = fell(2, 10_750);
    (begun.seconds[1].ok, begun.seconds[1].response_ns) = (17_000, 2_400_000);
    let diagnosis = diagnose(&with_requests(&begun));
    let text = said(&diagnosis).1;
    assert!(
        text.starts_with("from second 2.0 on, as many clients had 10,750 requests a second, before 43,000"),
        "{text}"
    );
    // A crowded machine leaves more than that; and under a rate there are as many as were asked for.
    let mut open = fell(3, 10_750);
    open.plan = crate::common::open().plan;
    for build in [fell(3, 15_000), open] {
        let diagnosis = diagnose(&with_requests(&build));
        assert!(!said(&diagnosis).1.contains("as many clients had"), "{:?}", said(&diagnosis));
    }
}

#[test]
fn requests_that_were_never_answered_are_named_though_they_are_few_of_all() {
    // Eight a second from then on, of 60,000 a second before.
    let unanswered = |from: u64, ok: u64| {
        let mut build = levels(move |second| if second < from { (60_000, 200_000) } else { (ok, 200_000) });
        build.seconds[from as usize..].iter_mut().for_each(|second| second.failed = vec![(ErrorKind::ReplyTimeout, 8)]);
        diagnose(&with_requests(&build))
    };
    let part_way = unanswered(FROM, 300);
    assert_eq!(part_way.first_to_give().unwrap().id, "missing-reply", "{:?}", part_way.gives);
    let few = unanswered(0, 60_000);
    let finding = of(&few, "missing-reply");
    assert_eq!((finding.status, few.first_to_give().unwrap().id.as_str()), (Status::Supported, "missing-reply"));
    assert!(finding.explains.unwrap().share > 0.95, "{finding:#?}");
    // Where some connections starve those may be the ones, unless they had been answered before.
    let beside_starved = |ordinal: u32| {
        let mut build = levels(|_| (60_000, 200_000));
        build.seconds.iter_mut().for_each(|second| second.failed = vec![(ErrorKind::ReplyTimeout, 8)]);
        let mut recording = build.recording();
        recording.totals.users = Some(Users { connections: 64, starved: 2, ..Users::default() });
        let end = RequestEnd::Failed(ErrorKind::ReplyTimeout);
        let mut tick = IntervalRequests::default();
        (0..8).for_each(|key| tick.failed.offer(100, one_of_all(key, Request { ordinal, end, ..Request::default() })));
        recording.requests.push(1, 8, &tick);
        of(&diagnose(&recording), "missing-reply").status
    };
    assert_eq!((beside_starved(5), beside_starved(1)), (Status::Supported, Status::Refuted));
    // Most of what failed did so otherwise.
    let mut build = levels(|_| (60_000, 200_000));
    build.seconds.iter_mut().for_each(|second| {
        second.failed = vec![(ErrorKind::ReplyTimeout, 8), (ErrorKind::UnexpectedStatus, 60)];
    });
    assert_eq!(of(&diagnose(&with_requests(&build)), "missing-reply").status, Status::Refuted);
}

#[test]
fn a_recording_that_is_cut_in_the_stretch_is_diagnosed_all_the_same() {
    for keep in 0..=LENGTH {
        let mut build = slow_from_then();
        build.seconds.truncate(keep.max(1) as usize);
        let diagnosis = diagnose(&syncing(with_requests(&build)));
        assert!(diagnosis.gives.is_some());
        for finding in &diagnosis.findings {
            assert!((0.0..=1.0).contains(&finding.confidence), "{finding:?}");
        }
    }
}
