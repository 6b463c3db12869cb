//! Whose doing it was that the generator did not run, what that can have done to which figure, and what of the run stands.

use crate::common::{Build, SECOND, check, closed, judge, open};
use diagnose::diagnose;
use model::finding::{Diagnosis, Figure, Finding, Severity, ValidityState};
use model::plan::*;
use model::recording::End;

const STARVED: &str = "supported generator-starved";

fn finding<'d>(diagnosis: &'d Diagnosis, id: &str) -> &'d Finding {
    diagnosis.findings.iter().find(|finding| finding.id == id).unwrap()
}

fn state(diagnosis: &Diagnosis, figure: Figure) -> ValidityState {
    diagnosis.validity.figure(figure).unwrap().state
}

/// Two busy loops beside a thousand requests a second: the worker has little to do, and waits for its turn.
fn busy_loops() -> Build {
    open()
        .with(|b| {
            let Pace::Open { profile, .. } = &mut b.plan.pace else { return };
            profile.iter_mut().for_each(|s| (s.from_per_s, s.to_per_s) = (1000.0, 1000.0));
        })
        .each(|s| {
            (s.ok, s.response_ns, s.in_flight) = (1000, 200_000, 1);
            (s.busy, s.wait, s.late_share) = (0.04, 0.25, 0.2);
            (s.late, s.late_ns, s.reap_delay_ns) = (200, 4_000_000, 4_000_000);
            (s.neighbours, s.idle_cores, s.target) = ([1.9, 0.02], 0.004, vec![(0.02, 0.01)]);
        })
}

#[test]
fn a_neighbour_is_named_and_more_workers_are_not_asked_for() {
    let diagnosis = check("busy loops", busy_loops(), &["not-valid", STARVED, "refuted generator-cpu"]);
    let starved = finding(&diagnosis, "generator-starved");
    assert!(starved.title.contains("yes (pid 30) took 1.90 cores"), "{starved:#?}");
    assert!(!starved.remedy.contains("--threads") && starved.remedy.contains("yes"), "{starved:#?}");
    assert_eq!(diagnosis.validity.reasons.len(), 1, "one culprit: {:?}", diagnosis.validity);
    assert_eq!(diagnosis.validity.reasons[0].id, "generator-starved");
    assert_eq!(state(&diagnosis, Figure::Throughput), ValidityState::Valid, "what was due was sent");
    assert_eq!(state(&diagnosis, Figure::Response), ValidityState::NotValid);
}

#[test]
fn what_was_quiet_stands_for_the_run() {
    // Busy loops for three seconds of ten; the one after them follows.
    let partly = |from: usize, to: usize| {
        let noisy = busy_loops().seconds[0].clone();
        busy_loops().with(|b| {
            for (i, second) in b.seconds.iter_mut().enumerate() {
                if !(from..to).contains(&i) {
                    (second.wait, second.late_share, second.late, second.reap_delay_ns) = (0.01, 0.0, 0, 0);
                    (second.neighbours, second.idle_cores) = ([0.0, 0.0], 1.8);
                } else {
                    *second = noisy.clone();
                }
            }
        })
    };
    let diagnosis = check("three of ten", partly(2, 5), &["valid, quiet", STARVED]);
    let quiet = diagnosis.validity.used_quiet().unwrap();
    assert_eq!((quiet.intervals, quiet.disturbed_intervals, quiet.count), (6, 4, 6000));
    assert!((quiet.share - 0.6).abs() < 1e-9 && (quiet.rate_per_s - 1000.0).abs() < 1e-6, "{quiet:?}");
    assert!((quiet.response_p99_us.unwrap() - 200.0).abs() < 1.0, "{quiet:?}");
    assert_eq!(quiet.disturbed_by, ["the generator waited for a CPU"]);
    let diagnosis = check("eight of ten", partly(0, 8), &["not-valid", STARVED]);
    let quiet = diagnosis.validity.quiet.unwrap();
    assert_eq!((quiet.intervals, quiet.is_used), (1, false));
    // A sound run has no other part.
    assert_eq!(check("sound", open(), &["valid"]).validity.quiet, None);
}

#[test]
fn a_worker_that_waits_has_no_room_and_not_too_much_work() {
    let waits = || {
        closed().each(|s| {
            (s.busy, s.wait, s.late_share, s.neighbours) = (0.6, 0.35, 0.05, [1.0, 0.0]);
            (s.idle_cores, s.response_ns, s.reap_delay_ns) = (0.0, 9_900_000, 3_000_000);
        })
    };
    let diagnosis = check("60/35", waits(), &["not-valid", STARVED, "refuted generator-cpu"]);
    let throughput = diagnosis.validity.figure(Figure::Throughput).unwrap();
    assert!((throughput.up_to_share.unwrap() - 0.35).abs() < 1e-6, "{throughput:?}");
    let two = waits().with(|b| b.plan.threads = 2);
    check("two workers at 60/35", two, &["not-valid", STARVED, "refuted generator-cpu", "refuted generator-lag"]);
    // One of four waits a third of its time: a twelfth of the throughput.
    let mut one_of_four = waits().with(|b| b.plan.threads = 4).recording();
    let mut rows = one_of_four.timeline.rows().to_vec();
    one_of_four.timeline = model::recording::Timeline::default();
    for row in &mut rows {
        (row.counts.cpu_wait_ns, row.counts.late_ns) = (350_000_000, 0);
        row.worker_late_max = 0.0;
        one_of_four.timeline.push(*row);
    }
    let diagnosis = diagnose(&one_of_four);
    judge("one of four", &diagnosis, &["valid", STARVED]);
    assert_eq!(finding(&diagnosis, "generator-starved").severity, Severity::Info);
    let throughput = diagnosis.validity.figure(Figure::Throughput).unwrap();
    assert!((throughput.up_to_share.unwrap() - 0.0875).abs() < 1e-6, "{throughput:?}");
}

#[test]
fn a_target_on_the_same_cpus_is_told_from_a_neighbour() {
    let shared = |run: f64, wait: f64| {
        closed().each(move |s| {
            (s.busy, s.wait, s.late_share) = (0.55, 0.3, 0.1);
            (s.target, s.idle_cores, s.reap_delay_ns) = (vec![(run, wait)], 0.0, 3_000_000);
        })
    };
    // It wanted all it could get: it is the limit, whoever else waits.
    check("the target is the limit", shared(0.6, 0.35), &["valid", "refuted generator-cpu", STARVED]);
    let diagnosis = check("it is not", shared(0.4, 0.2), &["not-valid", STARVED]);
    let starved = finding(&diagnosis, "generator-starved");
    assert!(starved.title.contains("the target shares its CPUs") && starved.remedy.contains("apart"), "{starved:#?}");
}

#[test]
fn a_quota_is_named() {
    let quota = open().each(|s| {
        (s.wait, s.throttled, s.late_share, s.late, s.late_ns) = (0.42, 0.4, 0.4, 2000, 60_000_000);
        s.reap_delay_ns = 60_000_000;
    });
    let diagnosis = check("quota", quota, &["not-valid", STARVED]);
    let starved = finding(&diagnosis, "generator-starved");
    assert!(starved.title.contains("a CPU quota held it 40 %") && starved.remedy.contains("cpu.max"), "{starved:#?}");
}

#[test]
fn a_generator_that_was_stopped_is_seen_in_a_closed_pace() {
    // SIGSTOP for two seconds of ten: all requests under way then took 2 s, and nothing else shows it.
    let stopped = || {
        closed().with(|b| {
            for second in &mut b.seconds[4..6] {
                (second.ok, second.late_share, second.busy) = (0, 1.0, 0.0);
            }
            (b.seconds[5].ok, b.seconds[5].response_ns) = (64, 2 * SECOND);
            b.seconds[5].reap_delay_ns = 2 * SECOND;
        })
    };
    let diagnosis = check("ten seconds", stopped(), &["valid, quiet", STARVED, "refuted clock-step"]);
    let quiet = diagnosis.validity.used_quiet().unwrap();
    assert_eq!((quiet.intervals, quiet.disturbed_intervals), (7, 3));
    assert!((quiet.response_max_us.unwrap() - 10_000.0).abs() < 10.0, "{quiet:?}");
    assert_eq!(quiet.disturbed_by, ["the generator was stopped"]);
    let starved = finding(&diagnosis, "generator-starved");
    assert!(starved.title.contains("stood still") && starved.remedy.contains("SIGSTOP"), "{starved:#?}");
    let short = stopped().with(|b| b.seconds = b.seconds.split_off(4)[..4].to_vec());
    check("four seconds", short, &["not-valid", STARVED]);
}

#[test]
fn steal_is_judged_by_what_it_can_have_added() {
    let stolen = "supported cpu-stolen";
    let slow = || open().each(|s| (s.response_ns, s.steal, s.in_flight, s.idle_cores) = (44_000_000, 0.15, 60, 1.3));
    let diagnosis = check("a target that answers in 44 ms", slow(), &["valid", stolen, "refuted clock-step"]);
    assert_eq!(finding(&diagnosis, "cpu-stolen").severity, Severity::Info);
    let response = diagnosis.validity.figure(Figure::Response).unwrap();
    assert!(response.up_to_share.unwrap() < 0.01, "{response:?}");
    // 64 µs of a reply's 100 µs are work.
    let quick = || {
        open().with(|b| b.plan.connections = 1).each(|s| {
            (s.response_ns, s.lag_ns, s.connections, s.in_flight) = (100_000, 5_000, 1, 1);
            (s.steal, s.idle_cores) = (0.15, 1.38);
        })
    };
    let less = quick().each(|s| s.steal = 0.10).each(|s| s.idle_cores = 1.5);
    check("one in 100 µs, a little of it", less, &["valid", stolen]);
    let diagnosis = check("one in 100 µs", quick(), &["not-valid", stolen]);
    assert_eq!(diagnosis.validity.reasons[0].id, "cpu-stolen");
    // Where a core is full, all waits in line for it.
    let full = closed().each(|s| (s.steal, s.target, s.idle_cores) = (0.15, vec![(0.97, 0.01)], 0.1));
    check("a full core", full, &["not-valid", stolen, "refuted single-thread-bound"]);
    check("a little", open().each(|s| s.steal = 0.02), &["valid", "refuted cpu-stolen"]);
    check("nobody looked", open().with(|b| b.has_snapshots = false), &["valid", "not-observable cpu-stolen"]);
    // In the first four of ten seconds: the rest stands.
    let partly = closed().each(|s| (s.target, s.idle_cores) = (vec![(0.97, 0.01)], 0.02)).with(|b| {
        for second in &mut b.seconds[..4] {
            second.steal = 0.4;
        }
    });
    check("four of ten", partly, &["valid, quiet", stolen]);
    // Lag by long pieces of steal: the hypervisor's too.
    let pieces = open().each(|s| (s.steal, s.late_share, s.late, s.late_ns) = (0.08, 0.05, 300, 20_000_000));
    let diagnosis = check("long pieces", pieces, &["not-valid", stolen]);
    assert!(diagnosis.validity.reasons.iter().all(|reason| reason.id == "cpu-stolen"), "{:?}", diagnosis.validity);
}

#[test]
fn requests_never_taken_up_count() {
    let left = |n| {
        open().at(9, move |s| {
            (s.ok, s.never_taken_up) = (5000 - n, n);
        })
    };
    let diagnosis = check(
        "a fifth of a second",
        left(1200),
        &["not-valid", "supported generator-lag", "supported rate-not-reached"],
    );
    assert_eq!(state(&diagnosis, Figure::Throughput), ValidityState::NotValid);
    assert_eq!(state(&diagnosis, Figure::Response), ValidityState::NotValid);
    assert_eq!(state(&diagnosis, Figure::Service), ValidityState::Valid);
    check("one", left(1), &["valid", "refuted generator-lag"]);
}

#[test]
fn undetermined_is_what_a_rule_saw_half_of() {
    let remote = closed().each(|s| s.busy = 0.97).with(|b| b.has_target = false);
    let diagnosis = check("saturated, target unseen", remote, &["undetermined", "not-observable generator-cpu"]);
    assert_eq!(diagnosis.validity.reasons[0].id, "generator-cpu");
    assert_eq!(state(&diagnosis, Figure::Throughput), ValidityState::Undetermined);
    check("room left, target unseen", closed().with(|b| b.has_target = false), &["valid"]);
    check("nothing read", closed().with(|b| b.has_snapshots = false), &["valid"]);
}

#[test]
fn connections_added_until_something_gives_are_not_missed() {
    let ramp = |until_failure| {
        open().with(|b| {
            b.plan.pace = Pace::Held { every_ns: None, connects_per_s: 64.0 };
            b.plan.connections = 1_000_000;
            b.plan.workload = Workload::Hold(Hold {
                message: Echo { sizes: Sizes::Fixed(32), content: Content::Text },
                is_echoed: true,
                sweep_ns: None,
                until_failure,
            });
        })
    };
    let id = "connections-not-reached";
    let status = |until_failure| {
        let diagnosis = diagnose(&ramp(until_failure).recording());
        diagnosis.findings.iter().find(|finding| finding.id == id).unwrap().status
    };
    assert_eq!((status(false), status(true)), (model::Status::Supported, model::Status::Refuted));
}

#[test]
fn connections_held_are_a_result_of_their_own() {
    let held = open().with(|b| {
        b.plan.pace = Pace::Held { every_ns: Some(SECOND), connects_per_s: 64.0 };
        b.plan.workload = Workload::Hold(Hold {
            message: Echo { sizes: Sizes::Fixed(32), content: Content::Text },
            is_echoed: true,
            sweep_ns: None,
            until_failure: false,
        });
    });
    let late =
        held.each(|s| (s.busy, s.target, s.response_ns, s.lag_ns) = (0.97, vec![(0.3, 0.0)], 9_000_000, 8_000_000));
    let mut recording = late.recording();
    for kind in [model::LatencyKind::Lag, model::LatencyKind::Undelayed] {
        recording.totals.sum.latency.of_mut(kind).reset();
    }
    recording.totals.sum.latency.record_n(model::LatencyKind::Lag, 8_000_000, 50_000);
    recording.totals.sum.latency.record_n(model::LatencyKind::Undelayed, 1_000_000, 50_000);
    let diagnosis = diagnose(&recording);
    judge("held", &diagnosis, &["valid", "supported generator-cpu"]);
    assert_eq!(state(&diagnosis, Figure::Connections), ValidityState::Valid);
    assert_eq!(state(&diagnosis, Figure::Response), ValidityState::NotValid);
    assert_eq!(diagnosis.validity.figure(Figure::Connections).unwrap().text, "64 at most, none lost");
}

#[test]
fn a_recording_that_stops_before_the_first_reply_is_undetermined() {
    let mut recording = closed().each(|s| (s.ok, s.in_flight) = (0, 64)).recording();
    recording.totals.sum.counts.connected = 64;
    recording.totals.sum.counts.started = 0;
    for (end, expected) in [(End::Partial, Some("nothing-measured")), (End::Complete, None)] {
        recording.end = end;
        let validity = diagnose(&recording).validity;
        let said = validity.reasons.iter().find(|reason| reason.id == "nothing-measured").map(|reason| &*reason.id);
        assert_eq!(said, expected, "{end:?}: {validity:#?}");
        assert_eq!(validity.state == ValidityState::Undetermined, expected.is_some(), "{end:?}: {validity:#?}");
    }
    // With one reply there is something.
    recording.end = End::Partial;
    recording.totals.sum.counts.ok = 1;
    assert!(diagnose(&recording).validity.reasons.iter().all(|reason| reason.id != "nothing-measured"));
}
