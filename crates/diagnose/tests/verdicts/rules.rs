//! Every rule: a case where it must appear, what looks alike and must not, and what it cannot see.

use crate::common::{Build, SECOND, check, closed, judge, open};
use diagnose::diagnose;
use model::finding::{About, Figure, LossKind, Severity, Standing, Status};
use model::plan::*;
use model::recording::End;
use model::request::{IntervalRequests, Kept, Request, RequestEnd};
use model::{ErrorKind, Event, LatencyKind};

/// Something done to a sound recording.
type Change = fn(&mut model::Recording);

/// A target stopped for the fifth second: nothing ends, all queues, then the backlog is answered in half a second.
fn stalled() -> Build {
    open()
        .at(4, |s| {
            (s.ok, s.response_ns, s.in_flight, s.queued) = (0, 1, 64, 4936);
            s.target = vec![(0.0, 0.0)];
        })
        .at(5, |s| {
            (s.ok, s.response_ns, s.queue_ns, s.busy) = (9990, 900_000_000, 880_000_000, 0.97);
            s.target = vec![(0.6, 0.02)];
        })
}

#[test]
fn a_sound_run_yields_nothing() {
    for (name, build) in [("open", open()), ("closed", closed())] {
        let diagnosis = check(name, build, &["valid"]);
        assert_eq!(diagnosis.findings.len(), diagnose::ids().count(), "every rule and every cause answers");
        let (of_target, others): (Vec<_>, Vec<_>) = diagnosis.findings.iter().partition(|f| f.about == About::Target);
        assert!(others.iter().all(|f| f.status == Status::Refuted), "{name}: {others:#?}");
        assert!(of_target.iter().all(|f| f.status != Status::Supported), "{name}: {of_target:#?}");
        // Two and ten milliseconds of which the target worked a fraction: that is said, and no cause is made up for it.
        assert!(diagnosis.losses.iter().all(|loss| loss.kind == LossKind::Waiting), "{:?}", diagnosis.losses);
        assert_eq!(diagnosis.gives.as_ref().map(|g| g.standing), Some(Standing::Unexplained), "{:?}", diagnosis.gives);
        assert!(diagnosis.validity.reasons.is_empty());
    }
}

#[test]
fn a_stalled_target_leaves_the_result_valid() {
    let diagnosis = check(
        "stalled",
        stalled(),
        &[
            "valid",
            "refuted generator-cpu",
            "refuted generator-lag",
            "refuted figure-audit",
            "supported rate-not-reached",
        ],
    );
    let rate = diagnosis.findings.iter().find(|f| f.id == "rate-not-reached").unwrap();
    assert_eq!(rate.severity, Severity::Info, "it was made up for: {rate:#?}");
}

#[test]
fn targets_that_stop_break_or_drown_leave_the_result_valid() {
    let fail = |kind: ErrorKind| {
        open().each(move |s| {
            s.failed = vec![(kind, s.ok)];
            s.ok = 0;
            s.target = vec![(0.0, 0.0)];
        })
    };
    let rate = "supported rate-not-reached";
    check("refuses", fail(ErrorKind::Refused), &["valid", rate, "refuted too-few"]);
    check("resets", fail(ErrorKind::Reset), &["valid", "refuted too-few"]);
    check("times out", fail(ErrorKind::ReplyTimeout), &["valid", "refuted too-few"]);
    let never = stalled().with(|b| {
        b.seconds.truncate(5);
        b.plan.stop.duration_ns = Some(5 * SECOND);
        b.in_flight_at_end = 5000;
    });
    check("stops for good", never, &["valid", rate]);
    let silent = closed().with(|b| {
        b.seconds.iter_mut().skip(5).for_each(|s| s.ok = 0);
        b.in_flight_at_end = 64;
    });
    check("closed, stops for good", silent, &["valid", "supported not-steady", "refuted figure-audit"]);
    let slow = closed().each(|s| (s.ok, s.response_ns) = (64, 1_000_000_000));
    check("closed, slow", slow, &["valid", "supported too-few"]);
    // Busy workers that drown in a busy target's errors are not alone in being busy.
    let drowned = open().each(|s| {
        (s.busy, s.target, s.idle_cores) = (0.95, vec![(0.93, 0.05)], 0.12);
        (s.ok, s.failed, s.response_ns) = (1000, vec![(ErrorKind::QueueTimeout, 4000)], 5_000_000_000);
    });
    check("drowns", drowned, &["valid", rate, "refuted generator-cpu"]);
}

#[test]
fn generator_cpu() {
    let busy = || closed().each(|s| s.busy = 0.97);
    let diagnosis = check("busy alone", busy(), &["not-valid", "supported generator-cpu"]);
    let finding = &diagnosis.findings[0];
    assert_eq!(finding.id, "generator-cpu");
    assert!(finding.because.iter().any(|e| e.metric == "target.cpu_demand" && e.value.unwrap() < 0.4), "{finding:#?}");
    assert_eq!(diagnosis.validity.reasons[0].id, "generator-cpu");
    assert!(diagnosis.validity.reasons[0].text.contains("--threads"), "{:?}", diagnosis.validity);

    let both = busy().each(|s| (s.target, s.idle_cores) = (vec![(0.99, 0.005)], 0.05));
    check("busy, and the target too", both, &["valid", "refuted generator-cpu"]);
    // On shared cores the target wants a CPU that the generator has: it was not idle.
    let shared = busy().each(|s| (s.target, s.idle_cores) = (vec![(0.55, 0.42)], 0.0));
    check("busy, and the target waits for a CPU", shared, &["valid", "refuted generator-cpu"]);
    let many = busy().each(|s| (s.target, s.idle_cores) = (vec![(0.25, 0.25); 4], 0.0));
    check("busy, and many threads fill all cores", many, &["valid", "refuted generator-cpu"]);
    check("busy for one second of ten", closed().at(3, |s| s.busy = 1.0), &["valid", "refuted generator-cpu"]);
    check("not quite busy", closed().each(|s| s.busy = 0.9), &["valid", "refuted generator-cpu"]);
    let remote = busy().with(|b| b.has_target = false);
    let diagnosis = check("busy, target elsewhere", remote, &["undetermined", "not-observable generator-cpu"]);
    let finding = diagnosis.findings.iter().find(|f| f.id == "generator-cpu").unwrap();
    assert!(finding.because[0].text.contains("another machine"), "{finding:#?}");
    check("idle, target elsewhere", closed().with(|b| b.has_target = false), &["valid", "refuted generator-cpu"]);

    // Lag is no evidence of too much work.
    let late = open().each(|s| (s.late, s.late_ns) = (100, 900_000));
    check("the tail is lag", late, &["not-valid", "refuted generator-cpu", "supported generator-lag"]);
}

#[test]
fn a_target_of_many_short_lived_processes_is_not_idle() {
    // 300 processes a second, each gone before the next reading: the threads that are seen do next to nothing.
    let busy = |summed| {
        closed().each(move |s| {
            (s.busy, s.target, s.target_summed, s.idle_cores) = (0.97, vec![(0.02, 0.0)], Some(summed), 1.03 - summed);
        })
    };
    check("summed by the kernel", busy(0.99), &["valid", "refuted generator-cpu"]);
    check("summed, and idle", busy(0.10), &["not-valid", "supported generator-cpu"]);
    // One after the other they may have filled a core, many at once not: nobody saw.
    let unseen = closed().each(|s| {
        (s.busy, s.target, s.target_summed, s.idle_cores) = (0.97, vec![(0.02, 0.0)], Some(0.95), 1.0);
    });
    check("one after the other, or not", unseen, &["undetermined", "not-observable generator-cpu"]);
}

#[test]
fn generator_lag() {
    let id = "supported generator-lag";
    let quick = |lag_ns| open().each(move |s| (s.response_ns, s.lag_ns, s.in_flight) = (100_000 + lag_ns, lag_ns, 1));
    check("quick target, small lag", quick(20_000), &["valid", "refuted generator-lag"]);
    check("quick target, a wake-up's lag", quick(190_000), &["valid", "refuted generator-lag"]);
    check("quick target, its time is lag", quick(300_000), &["not-valid", id]);
    let rarely = open().each(|s| (s.late, s.late_ns) = (30, 900_000));
    check("fewer than a hundredth late", rarely, &["valid", "refuted generator-lag"]);
    // What matters is what it adds.
    let slow = |lag_ns| open().each(move |s| (s.response_ns, s.lag_ns, s.in_flight) = (500_000_000, lag_ns, 60));
    let diagnosis = check("late, beside a slow target", slow(3_000_000), &["valid", "refuted generator-lag"]);
    let response = diagnosis.validity.figure(Figure::Response).unwrap();
    assert!(response.text.ends_with("up to 3.15 ms of it the generator's lag"), "{response:?}");
    assert!((response.up_to_us.unwrap() - 3_000.0).abs() < 300.0, "{response:?}");
    check("a tenth and more of it", slow(60_000_000), &["not-valid", id]);
    // Waiting for a connection is the target's.
    let queue = open().each(|s| (s.response_ns, s.queue_ns, s.in_flight) = (500_000_000, 490_000_000, 64));
    check("queue is no lag", queue, &["valid", "refuted generator-lag", "refuted generator-cpu"]);
    check("closed", closed(), &["valid", "refuted generator-lag"]);
    let few = open().with(|b| {
        b.plan.stop.requests = Some(10);
        b.seconds.truncate(1);
    });
    let few = few.each(|s| (s.ok, s.in_flight) = (10, 0));
    check("ten requests", few, &["valid", "not-observable generator-lag", "supported too-few"]);
    // A recording from before lag's part was kept is judged by lag itself.
    let old = |lag_ns| {
        let mut recording = quick(lag_ns).recording();
        recording.totals.sum.latency.of_mut(LatencyKind::Undelayed).reset();
        diagnose(&recording)
    };
    judge("old, late", &old(300_000), &["not-valid", id]);
    judge("old, in time", &old(20_000), &["valid", "refuted generator-lag"]);
    // What the target never finished is not the generator's.
    let unfinished = open().with(|b| (b.in_flight_at_end, b.unfinished) = (4000, (2_500_000_000, 4000)));
    let unfinished = unfinished.at(9, |s| (s.ok, s.in_flight) = (1010, 64));
    check("unfinished", unfinished, &["valid", "refuted generator-lag"]);
}

#[test]
fn own_limits() {
    for (kind, id) in [
        (ErrorKind::TooManyFiles, "generator-fds"),
        (ErrorKind::AddressNotAvailable, "generator-ports"),
        (ErrorKind::OutOfMemory, "generator-memory"),
    ] {
        let supported = format!("supported {id}");
        let one = closed().at(2, |s| s.failed = vec![(kind, 1)]);
        let diagnosis = check(id, one, &["not-valid", &supported]);
        assert!(diagnosis.findings[0].because.len() >= 2, "two pieces of evidence: {:#?}", diagnosis.findings[0]);
        // The target's own want of descriptors or memory shows as refusals and resets.
        let other = closed().at(2, |s| s.failed = vec![(ErrorKind::Reset, 1), (ErrorKind::Refused, 1)]);
        check("the target's", other, &["valid", &format!("refuted {id}")]);
        // Seen on a connection no request was waiting for.
        let mut recording = closed().recording();
        recording.totals.sum.connection_errors.record(kind);
        judge("without a request", &diagnose(&recording), &["not-valid", &supported]);
    }
}

#[test]
fn clock_step() {
    let id = "supported clock-step";
    check("set forward", open().at(5, |s| s.wall_step_ns = 3_600_000_000_000), &["not-valid", id]);
    check("set back", open().at(5, |s| s.wall_step_ns = -150_000_000), &["not-valid", id]);
    let there_and_back = open().at(3, |s| s.wall_step_ns = 500_000_000).at(6, |s| s.wall_step_ns = -500_000_000);
    check("there and back", there_and_back, &["not-valid", id]);
    check("a leap of NTP", open().at(5, |s| s.wall_step_ns = 20_000_000), &["valid", "refuted clock-step"]);
    check("suspended", open().at(5, |s| s.suspended_ns = 2_000_000_000), &["not-valid", id]);
    check("suspended before the run only", open().at(0, |s| s.suspended_ns = 0), &["valid", "refuted clock-step"]);
    check("steal", open().each(|s| s.steal = 0.08), &["valid", "refuted clock-step"]);
    check("unread", open().with(|b| b.has_snapshots = false), &["valid", "not-observable clock-step"]);
}

#[test]
fn figure_audit() {
    let id = "supported figure-audit";
    let broken = |change: Change| {
        let mut recording = closed().recording();
        change(&mut recording);
        diagnose(&recording)
    };
    let cases: &[(&str, Change)] = &[
        ("a request is lost", |r| r.totals.sum.counts.started += 1),
        ("one too many", |r| r.totals.in_flight_at_end += 1),
        ("a time is lost", |r| r.totals.sum.counts.ok -= 1),
        ("a kind is lost", |r| r.totals.sum.errors.record(ErrorKind::Io)),
        ("no bytes", |r| r.totals.sum.counts.bytes_received = 100),
        ("nothing sent", |r| r.totals.sum.counts.bytes_sent = 0),
        ("statuses", |r| r.totals.sum.outcomes.add(200, 5)),
        ("more than asked", |r| r.plan.stop.requests = Some(63_999)),
        ("more time in requests than users have", |r| r.plan.connections = 60),
        ("a worker failed", |r| {
            r.events.push(Event::new(1, "worker-failed", "worker 0 could not go on"));
        }),
        ("the timeline lost a tick", |r| {
            let rows = r.timeline.rows().to_vec();
            r.timeline = model::recording::Timeline::default();
            rows[1..].iter().for_each(|row| r.timeline.push(*row));
        }),
    ];
    for (name, change) in cases {
        judge(name, &broken(*change), &["not-valid", id]);
    }
    // A failure that was answered and tried again is a reply more than requests.
    let retried = broken(|r| {
        r.totals.sum.outcomes.add(503, 5);
        r.totals.sum.counts.retries = 5;
    });
    judge("retried", &retried, &["valid", "refuted figure-audit"]);
    // What was under way as the warm-up ended was sent before, and ended after: as many requests as connections, and no more.
    let sent_before = |requests: u64| {
        let mut recording = closed().recording();
        recording.plan.warmup_ns = 1;
        let least = recording.plan.workload.protocol().least_bytes().0;
        let counts = &mut recording.totals.sum.counts;
        counts.bytes_sent = (counts.ok - requests) * least;
        diagnose(&recording)
    };
    judge("sent in the warm-up", &sent_before(2), &["valid", "refuted figure-audit"]);
    judge("more than can be under way", &sent_before(1_000), &["not-valid", id]);
    // Times too short for the load that was there: half of every reply's wait is missing.
    judge("times too short", &diagnose(&closed().each(|s| s.response_ns = 4_000_000).recording()), &["not-valid", id]);
    // The same where the workers' own work explains it.
    let own_work = closed().each(|s| (s.response_ns, s.busy) = (4_000_000, 0.85));
    check("the rest is the workers' own", own_work, &["valid", "refuted figure-audit"]);
    // Nor that of the few whose replies never came, who waited longer than all others together.
    let unanswered = closed().each(|s| s.response_ns = 4_000_000).at(5, |s| {
        (s.ok, s.response_ns, s.failed) = (0, 400_000_000, vec![(ErrorKind::ReplyTimeout, 60)]);
    });
    check("a few were never answered", unanswered, &["valid", "refuted figure-audit", "supported missing-reply"]);
    // More taken up than was due.
    let more = open().with(|b| {
        b.plan.pace = Pace::Open {
            profile: vec![Segment { from_per_s: 4000.0, to_per_s: 4000.0, for_ns: 10 * SECOND }],
            arrivals: Arrivals::Poisson,
        };
    });
    check("more than was due", more, &["not-valid", id]);

    // A partial recording cannot know what was in flight.
    let mut partial = closed().recording();
    partial.end = End::Partial;
    partial.totals.sum.counts.started += 64;
    judge("partial", &diagnose(&partial), &["valid", "refuted figure-audit"]);
    // Nor is the time of what never ended counted.
    let stuck = closed().with(|b| b.in_flight_at_end = 30).each(|s| s.ok = 3000);
    check("stuck at the end", stuck, &["valid", "refuted figure-audit"]);
    // Echo: bytes are known to the last one.
    let echo = |size| {
        closed().with(move |b| {
            b.plan.workload = Workload::Echo(Echo { sizes: Sizes::List(vec![4096, size]), content: Content::Text });
        })
    };
    check("echo, small", echo(40), &["valid", "refuted figure-audit"]);
    check("echo, bytes missing", echo(900), &["not-valid", id]);
}

#[test]
fn rate_not_reached() {
    let id = "supported rate-not-reached";
    let saturated = || {
        let mut queued = 0;
        open().with(|b| {
            for s in &mut b.seconds {
                queued += 1000;
                (s.ok, s.in_flight, s.queued) = (4000, 64, queued);
                (s.response_ns, s.queue_ns) = (500_000_000, 490_000_000);
            }
            b.in_flight_at_end = 10_064;
        })
    };
    let whose = |build: Build, name: &str| {
        let diagnosis = check(name, build, &["valid", id]);
        diagnosis.findings.into_iter().find(|f| f.id == "rate-not-reached").unwrap()
    };
    let target = whose(saturated(), "the queue grows");
    assert!(target.severity == Severity::Warning && target.title.contains("no connection was free"), "{target:#?}");
    let dropped = whose(open().each(|s| (s.ok, s.dropped) = (4000, 1000)), "dropped");
    assert!(dropped.title.contains("no connection was free"), "{dropped:#?}");
    let generator = whose(open().each(|s| s.ok = 4000), "never taken up");
    assert!(generator.title.contains("the generator did not take up 20 %"), "{generator:#?}");
    // What chance does is no shortfall, and neither is what has not yet been answered.
    let chance = open()
        .with(|b| {
            let Pace::Open { arrivals, .. } = &mut b.plan.pace else { return };
            *arrivals = Arrivals::Poisson;
        })
        .at(2, |s| s.ok = 4750)
        .at(3, |s| s.ok = 5220);
    check("chance", chance, &["valid", "refuted rate-not-reached"]);
    let slow = open().with(|b| {
        b.seconds.iter_mut().for_each(|s| s.in_flight = 3000);
        b.seconds[0].ok = 2000;
        b.seconds[9].ok = 5000;
        b.in_flight_at_end = 3000;
    });
    check("sent, not yet answered", slow, &["valid", "refuted rate-not-reached"]);
    check("closed", closed(), &["valid", "refuted rate-not-reached"]);
    // A ramp is compared with what is due at each moment.
    let ramp = open().with(|b| {
        b.plan.pace = Pace::Open {
            profile: vec![Segment { from_per_s: 0.0, to_per_s: 10_000.0, for_ns: 10 * SECOND }],
            arrivals: Arrivals::Constant,
        };
        for (i, s) in b.seconds.iter_mut().enumerate() {
            (s.ok, s.in_flight) = (500 + 1000 * i as u64, 0);
        }
    });
    check("ramp", ramp, &["valid", "refuted rate-not-reached", "refuted not-steady"]);
    let none = open().with(|b| b.seconds.truncate(1)).each(|s| (s.ok, s.in_flight) = (0, 0)).with(|b| {
        b.plan.pace = Pace::Open { profile: vec![], arrivals: Arrivals::Constant };
    });
    check("nothing due", none, &["valid", "not-observable rate-not-reached", "supported too-few"]);
}

#[test]
fn connections_not_reached() {
    let id = "supported connections-not-reached";
    let fewer = || closed().each(|s| (s.connections, s.in_flight, s.ok) = (40, 40, 4000));
    let title = |build: Build, extra: &[&str]| {
        let diagnosis = check("fewer", build, &[&["valid", id], extra].concat());
        diagnosis.findings.into_iter().find(|f| f.id == "connections-not-reached").unwrap().title
    };
    assert!(title(fewer().with(|b| b.connect_failed = 24), &[]).contains("the target refused"));
    assert!(title(fewer(), &[]).contains("still being made"));
    let own = fewer().with(|b| b.connect_failed = 24).at(0, |s| s.failed = vec![(ErrorKind::TooManyFiles, 24)]);
    check("own limits", own, &["not-valid", id, "supported generator-fds"]);
    check("a moment", closed().at(3, |s| s.connections = 10), &["valid", "refuted connections-not-reached"]);
    let churn =
        fewer().with(|b| (b.connected, b.closed) = (64_000, 64_000)).with(|b| b.plan.requests_per_connection = Some(1));
    check("churn", churn, &["valid", "refuted connections-not-reached"]);
    let mut unmeasured = closed().recording();
    unmeasured.plan.warmup_ns = 100 * SECOND;
    let diagnosis = diagnose(&unmeasured);
    judge("warm-up only", &diagnosis, &["valid", "not-observable connections-not-reached"]);
}

#[test]
fn not_steady() {
    let id = "supported not-steady";
    let half = |ok: [u64; 2]| {
        closed().with(|b| {
            for (i, s) in b.seconds.iter_mut().enumerate() {
                s.ok = ok[i / 5] + 10 * (i as u64 % 3);
                s.response_ns = 63 * SECOND / s.ok;
            }
        })
    };
    let slower = check("slower", half([8000, 6000]), &["valid", id]);
    let remedy =
        |d: &model::finding::Diagnosis| d.findings.iter().find(|f| f.id == "not-steady").unwrap().remedy.clone();
    assert!(remedy(&slower).contains("became slower"));
    assert!(remedy(&check("faster", half([6000, 8000]), &["valid", id])).contains("--warmup"));
    check("alike", half([6000, 6100]), &["valid", "refuted not-steady"]);
    // As far apart, and no more than the run's own scatter.
    let scattered = closed().with(|b| {
        for (s, ok) in b.seconds.iter_mut().zip([9000, 3000, 8000, 2000, 7000, 6000, 1500, 7500, 2500, 5500]) {
            (s.ok, s.response_ns) = (ok, 63 * SECOND / ok);
        }
    });
    check("scatter", scattered, &["valid", "refuted not-steady"]);
    let response = open().with(|b| b.seconds[5..].iter_mut().for_each(|s| s.response_ns = 3_000_000));
    let diagnosis = check("slower replies at the same rate", response, &["valid", id]);
    // What lies within its own interval is said to be no difference, not shown as one.
    let finding = diagnosis.findings.iter().find(|f| f.id == "not-steady").unwrap();
    let said: Vec<&str> = finding.because.iter().map(|evidence| &*evidence.text).collect();
    assert!(said[0].starts_with("throughput of both halves cannot be told apart"), "{said:?}");
    assert!(said[1].starts_with("mean response time was ") && said[1].contains(" higher in"), "{said:?}");
    assert!(finding.check_yourself.starts_with("plimsoll report RUN --csv intervals.csv"));
    check("too short to say", closed().with(|b| b.seconds.truncate(7)), &["valid", "not-observable not-steady"]);
}

#[test]
fn too_few() {
    let few = |ok| closed().with(|b| b.seconds.truncate(1)).each(move |s| (s.ok, s.response_ns) = (ok, 1_000_000));
    let severity = |ok: u64, expected: &[&str]| {
        let diagnosis = check("few", few(ok), expected);
        diagnosis.findings.into_iter().find(|f| f.id == "too-few").unwrap()
    };
    let p99 = severity(999, &["valid", "supported too-few"]);
    assert!(p99.severity == Severity::Warning && p99.title.ends_with("p99, p99.9"), "{p99:#?}");
    let p999 = severity(9_999, &["valid", "supported too-few"]);
    assert!(p999.severity == Severity::Info && p999.title.ends_with("for p99.9"), "{p999:#?}");
    severity(10_000, &["valid", "refuted too-few"]);
    assert!(severity(0, &["valid", "supported too-few"]).title.contains("p50"));
    let failed = few(0).each(|s| s.failed = vec![(ErrorKind::UnexpectedStatus, 100)]);
    check("all failed", failed, &["valid", "refuted too-few", "supported error-status"]);
}

#[test]
fn error_status() {
    let failing = |n: u64| {
        closed().at(0, move |s| s.failed = vec![(ErrorKind::UnexpectedStatus, n)]).with(|b| b.status = vec![(503, n)])
    };
    let many = check("many", failing(6000), &["valid", "supported error-status"]);
    assert_eq!(many.findings[0].severity, Severity::Error);
    assert!(many.findings[0].because.iter().any(|e| e.metric == "status.503" && e.value == Some(6000.0)));
    let few = check("few", failing(6), &["valid", "supported error-status"]);
    assert_eq!(few.findings[0].severity, Severity::Warning);
    // An accepted 404 is no failure.
    let accepted = closed().with(|b| {
        let Workload::Http1(http) = &mut b.plan.workload else { return };
        http.requests[0].expect.status = vec![(200, 200), (404, 404)];
    });
    let mut recording = accepted.recording();
    recording.totals.sum.outcomes = model::outcomes::OutcomeCounts::default();
    recording.totals.sum.outcomes.add(404, 64_000);
    judge("accepted", &diagnose(&recording), &["valid", "refuted error-status"]);
    check(
        "resets are not statuses",
        closed().at(0, |s| s.failed = vec![(ErrorKind::Reset, 900)]),
        &["valid", "refuted error-status"],
    );
}

#[test]
fn keepalive_off() {
    let closing = || closed().with(|b| (b.connected, b.closed) = (64_000, 64_000));
    check("closes after each", closing(), &["valid", "supported keepalive-off"]);
    let asked = closing().with(|b| b.plan.requests_per_connection = Some(1));
    check("as asked", asked, &["valid", "not-applicable keepalive-off"]);
    let asked = closing().with(|b| {
        let Workload::Http1(http) = &mut b.plan.workload else { return };
        http.keep_alive = false;
    });
    check("as asked by header", asked, &["valid", "not-applicable keepalive-off"]);
    check("lasts", closed().with(|b| (b.connected, b.closed) = (640, 600)), &["valid", "refuted keepalive-off"]);
    let held = closing().with(|b| b.closed = 0);
    check("one request on each of many that stay", held, &["valid", "refuted keepalive-off"]);
    let broken = closing().each(|s| (s.ok, s.failed) = (3200, vec![(ErrorKind::ClosedEarly, 3200)]));
    check("broken", broken, &["valid", "refuted keepalive-off"]);
    // Half of the requests fail, each the second on its connection: it closes, and does not say so.
    let unsaid = |ordinal| {
        let mut recording =
            closing().each(|s| (s.ok, s.failed) = (6400, vec![(ErrorKind::ClosedEarly, 6400)])).recording();
        let end = RequestEnd::Failed(ErrorKind::ClosedEarly);
        for stretch in 0..5 {
            let mut tick = IntervalRequests::default();
            let request = Request { ordinal, end, ..Request::default() };
            (0..8).for_each(|key| tick.failed.offer(8, Kept::new(key, request)));
            recording.requests.push(stretch, 8, &tick);
        }
        diagnose(&recording)
    };
    judge("closes unsaid", &unsaid(2), &["valid", "supported keepalive-off"]);
    judge("fails at the first", &unsaid(1), &["valid", "refuted keepalive-off"]);
    judge("fails later", &unsaid(7), &["valid", "refuted keepalive-off"]);
    let few = closed().with(|b| b.seconds.truncate(1)).each(|s| (s.ok, s.response_ns) = (9, 1000));
    check("nine", few, &["valid", "not-observable keepalive-off", "supported too-few"]);
}

#[test]
fn single_thread_bound() {
    let id = "supported single-thread-bound";
    let bound = || closed().each(|s| (s.target, s.idle_cores) = (vec![(0.02, 0.0), (0.985, 0.01), (0.1, 0.0)], 0.6));
    let diagnosis = check("bound", bound(), &["valid", id]);
    let finding = &diagnosis.findings[0];
    assert!(finding.title.contains("thread-1 of server (21), at 98 % of a core"), "{finding:#?}");
    assert_eq!(diagnosis.first_to_give(), Some(finding));
    let metrics: Vec<&str> = finding.because.iter().map(|e| &*e.metric).collect();
    assert_eq!(metrics, ["target.thread_run", "host.idle_cores", "service.mean_us", "target.second_thread_run"]);
    assert!(finding.confidence > 0.8 && finding.check_yourself == "top -H -p 20", "{finding:#?}");

    let no = "refuted single-thread-bound";
    check("a second thread works", bound().each(|s| s.target[0].0 = 0.7), &["valid", no]);
    check("no core idle", bound().each(|s| s.idle_cores = 0.02), &["valid", no]);
    check("time to spare", bound().each(|s| s.target[1].0 = 0.9), &["valid", no]);
    check("it waits for its CPU", bound().each(|s| s.target[1] = (0.6, 0.4)), &["valid", no]);
    // Busy while it lasted, but not after: the window is the load's.
    let burst = closed().at(4, |s| s.target = vec![(1.0, 0.0)]);
    check("one second", burst, &["valid", no]);
    check("elsewhere", bound().with(|b| b.has_target = false), &["valid", "not-observable single-thread-bound"]);
    check("no schedstat", bound().with(|b| b.has_schedstat = false), &["valid", "not-observable single-thread-bound"]);
    // Without the host's CPU time the client's view is the second piece of evidence, and without both there is none.
    let unseen = |build: Build| {
        let mut recording = build.recording();
        recording.snapshots.iter_mut().for_each(|s| s.cpu = None);
        diagnose(&recording)
    };
    judge("two of three", &unseen(bound()), &["valid", id]);
    let idle_clients =
        bound().each(|s| (s.response_ns, s.in_flight, s.busy) = (160_000, 1, 0.85)).with(|b| b.plan.connections = 1);
    let idle_clients = idle_clients.each(|s| (s.connections, s.ok) = (1, 6000));
    judge("one of three", &unseen(idle_clients), &["valid", "not-observable single-thread-bound"]);
}

#[test]
fn a_drain_that_idles_does_not_dilute_the_loads_window() {
    let bound = closed().each(|s| (s.target, s.idle_cores) = (vec![(0.985, 0.01)], 0.6));
    let mut recording = bound.recording();
    let last = recording.snapshots.last().unwrap().clone();
    recording.snapshots.push(model::Snapshot { at_ns: 40 * SECOND as i64, ..last });
    judge("a long drain", &diagnose(&recording), &["valid", "supported single-thread-bound"]);
    // Nor does what came before the end of warm-up.
    let mut recording = bound.with(|b| b.seconds[..5].iter_mut().for_each(|s| s.target = vec![(0.1, 0.0)])).recording();
    recording.plan.warmup_ns = 5 * SECOND;
    recording.totals.measured_ns = 5 * SECOND;
    let diagnosis = diagnose(&recording);
    let finding = diagnosis.findings.iter().find(|f| f.id == "single-thread-bound").unwrap();
    assert_eq!(finding.status, Status::Supported, "{finding:#?}");
}

#[test]
fn findings_are_ranked_errors_first() {
    let build = closed()
        .each(|s| (s.target, s.idle_cores) = (vec![(0.985, 0.01)], 0.6))
        .with(|b| (b.connected, b.closed) = (64_000, 64_000));
    let diagnosis = check("two", build, &["valid", "supported single-thread-bound", "supported keepalive-off"]);
    // A full thread is a limit, and for information.
    assert_eq!(diagnosis.findings[0].id, "keepalive-off");
    assert_eq!(diagnosis.findings[1].id, "single-thread-bound");
    let statuses: Vec<Status> = diagnosis.findings.iter().map(|f| f.status).collect();
    assert!(statuses.is_sorted_by_key(|s| match s {
        Status::Supported => 0,
        Status::NotObservable => 1,
        Status::Refuted => 2,
        Status::NotApplicable => 3,
    }));
    assert!(diagnosis.findings.iter().all(|f| (0.0..=1.0).contains(&f.confidence)));
}

#[test]
fn the_sound_runs_of_the_tests_are_sound() {
    let recording = closed().recording();
    assert!(recording.totals.is_conserved());
    assert_eq!(recording.totals.sum.latency.of(LatencyKind::Response).len(), 64_000);
    assert!(stalled().recording().totals.is_conserved());
}
