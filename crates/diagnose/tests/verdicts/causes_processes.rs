//! Causes of processes, memory, disks and neighbours: a case where each must appear, and what looks alike and must not.

use crate::common::judged::{of, sampled, status, waiting, with};
use crate::common::stalled::{call, paused, probed};
use crate::common::{Build, SECOND, closed, open};
use diagnose::diagnose;
use model::bpf::{BpfSample, FutexUse, Log2};
use model::finding::{Severity, Status};
use model::request::{IntervalRequests, Kept, Request, RequestEnd};
use model::snapshot::{Neighbour, Role, Runtime, SamplerState, SamplerStatus, Snapshot, Stands, Switches};
use model::threads::{FutexHolder, ThreadStates, ThreadTime};
use model::{ErrorKind, Event, Recording};

const MS: u64 = 1_000_000;

#[test]
fn those_beyond_a_limit_are_turned_away_or_left_without_a_reply() {
    let said = |kind: ErrorKind| {
        let build = closed().with(|b| b.plan.connections = 16).each(|s| s.failed = vec![(kind, 8)]);
        let mut recording = with(build, |_, s| s.network.set("connections_looked_at", 8));
        for second in 0..6 {
            let mut tick = IntervalRequests::default();
            for key in 0..8 {
                let (connection, sent_ns) = (key as u32, SECOND * (second + 1));
                let at = Request { sent_ns, ended_ns: sent_ns + MS, connection, ..Request::default() };
                let served = Request { ordinal: 9, ..at };
                let beyond = Request { ordinal: 1, end: RequestEnd::Failed(kind), ..at };
                tick.sampled.offer(1000, Kept::new(key, served));
                tick.failed.offer(1000, Kept::new(key, beyond));
            }
            recording.requests.push(second, 8, &tick);
        }
        let diagnosis = diagnose(&recording);
        let finding = of(&diagnosis, "connection-limit");
        assert_eq!(finding.status, Status::Supported, "{finding:#?}");
        finding.title.clone()
    };
    assert!(said(ErrorKind::Reset).ends_with("turns further ones away"));
    assert!(said(ErrorKind::ReplyTimeout).ends_with("leaves further ones without a reply"));
}

#[test]
fn failing_fast_is_a_trap_and_no_cause() {
    let failing = |failed_ns: u64, share: u64| {
        let build = closed().each(move |s| {
            (s.ok, s.failed) = (6400 - 64 * share, vec![(ErrorKind::UnexpectedStatus, 64 * share)]);
        });
        let mut recording = build.recording();
        let failed = recording.totals.sum.latency.of_mut(model::LatencyKind::Failed);
        failed.reset();
        failed.record_n(failed_ns, 640 * share);
        let mut tick = IntervalRequests::default();
        for key in 0..40 {
            let request = Request {
                end: RequestEnd::Failed(ErrorKind::UnexpectedStatus),
                received_bytes: 60,
                ..Request::default()
            };
            tick.failed.offer(1000, Kept::new(key, request));
        }
        recording.requests.push(0, 40, &tick);
        recording
    };
    let trap = failing(MS, 20);
    assert_eq!(status(&trap, "fast-failures"), Status::Supported);
    assert_eq!(of(&diagnose(&trap), "fast-failures").severity, Severity::Info);
    assert_eq!(status(&failing(30 * MS, 20), "fast-failures"), Status::Refuted, "timeouts take long");
    assert_eq!(status(&failing(MS, 2), "fast-failures"), Status::Refuted, "two of a hundred");
    assert_eq!(status(&closed().recording(), "fast-failures"), Status::NotApplicable);
}

#[test]
fn memory_is_kept_where_it_is_there_after_the_load() {
    let kept = |after_bytes: u64, after_s: &[i64]| {
        let mut recording = with(closed(), |second, s| {
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.rss_bytes = Some((10 << 20) + second.min(5) * (20 << 20));
            }
        });
        let last = recording.snapshots.last().unwrap().clone();
        recording.after = after_s
            .iter()
            .map(|second| {
                let mut snapshot = Snapshot { at_ns: last.at_ns + second * SECOND as i64, ..last.clone() };
                let target = snapshot.processes.iter_mut().filter(|process| process.role == Role::Target);
                target.for_each(|process| process.rss_bytes = Some(after_bytes));
                snapshot
            })
            .collect();
        recording
    };
    let after = [0, 1, 2, 3, 4];
    assert_eq!(status(&kept(100 << 20, &after), "memory-kept"), Status::Supported);
    assert_eq!(status(&kept(30 << 20, &after), "memory-kept"), Status::Refuted, "most of it came back");
    assert_eq!(status(&kept(100 << 20, &after[..2]), "memory-kept"), Status::NotObservable);
    assert_eq!(status(&kept(100 << 20, &[]), "memory-kept"), Status::NotObservable);
}

#[test]
fn the_kernels_trouble_counts_where_requests_failed_at_that_moment() {
    let troubled = |kind: &str, at_s: u64| {
        closed()
            .with(|b| {
                b.events = vec![Event::new((5 * SECOND) as i64, kind, "BUG: unable to handle page fault")];
                b.seconds[usize::try_from(at_s).unwrap()].failed = vec![(ErrorKind::ClosedEarly, 200)];
            })
            .recording()
    };
    assert_eq!(status(&troubled("kernel-bug", 5), "kernel-trouble"), Status::Supported);
    assert_eq!(status(&troubled("kernel-bug", 0), "kernel-trouble"), Status::Refuted, "at another moment");
    assert_eq!(status(&troubled("kernel-oom-kill", 5), "kernel-trouble"), Status::Refuted, "it has a name of its own");
    assert_eq!(status(&closed().recording(), "kernel-trouble"), Status::Refuted);
}

/// Four workers that wait for a disk for so much of the windows.
fn on_disk(share: f64, build: Build, change: impl Fn(u64, &mut Snapshot)) -> Recording {
    with(build, move |second, s| {
        let ns = |share: f64| (share * SECOND as f64) as u64;
        let thread = |tid: u32| ThreadTime {
            threads: 1,
            pid: 20,
            tid,
            alive_ns: SECOND,
            ns: [("disk".to_owned(), ns(share)), ("poll".to_owned(), ns(1.0 - share))].into(),
            ..ThreadTime::default()
        };
        let threads = s.processes.iter().find(|process| process.role == Role::Target).unwrap();
        let threads = threads.threads.iter().map(|one| thread(one.tid)).collect();
        let states = ThreadStates { window_ns: SECOND, threads, ..ThreadStates::default() };
        s.bpf = Some(BpfSample { threads: Some(states), ..BpfSample::default() });
        change(second, s);
    })
}

#[test]
fn a_limit_on_a_disk_holds_where_it_is_used_and_threads_wait() {
    let limited = |written_a_second: u64, share: f64| {
        on_disk(share, waiting(), move |second, s| {
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.metrics.set("cgroup_io_writes_limit_per_s", 20);
                process.metrics.set("cgroup_io_writes", written_a_second * second);
            }
        })
    };
    assert_eq!(status(&limited(19, 0.9), "io-throttled"), Status::Supported);
    assert_eq!(status(&limited(5, 0.9), "io-throttled"), Status::Refuted, "the disk is slow, not the limit low");
    assert_eq!(status(&limited(19, 0.02), "io-throttled"), Status::Refuted, "nobody waits for it");
    assert_eq!(status(&on_disk(0.9, waiting(), |_, _| ()), "io-throttled"), Status::NotApplicable);
    let watched = |written_a_second| without_load(limited(written_a_second, 0.9));
    assert_eq!(status(&watched(19), "io-throttled"), Status::Supported, "what a service behind the target is told by");
    assert_eq!(status(&watched(5), "io-throttled"), Status::Refuted);
}

/// As if it had been watched while nobody here put a load on it.
fn without_load(mut recording: Recording) -> Recording {
    recording.capsule.watched = Some("port 80".to_owned());
    recording
}

/// With a quota of CPU time that is used up in so many of its ten periods a second.
fn with_quota(build: Build, stopped_of_ten: u64) -> Recording {
    with(build, move |second, s| {
        for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
            process.metrics.set("cgroup_cpu_periods", 10 * second);
            process.metrics.set("cgroup_cpu_throttled_periods", stopped_of_ten * second);
            process.metrics.set("cgroup_cpu_throttled_ns", stopped_of_ten * 70_000_000 * second);
        }
    })
}

/// What it waits for is the quota: no affinity keeps it off the cores that stand idle, and no other process does.
#[test]
fn a_quota_that_is_full_is_the_limit_of_a_closed_load() {
    let said = |target: (f64, f64), neighbour: f64, stopped_of_ten: u64| {
        let build = closed().each(move |s| {
            (s.target, s.idle_cores, s.neighbours) = (vec![target], 1.3, [neighbour, 0.0]);
        });
        let recording = with_quota(build, stopped_of_ten);
        assert_eq!(status(&recording, "cpu-contention"), Status::Refuted);
        let gives = diagnose(&recording).gives.unwrap();
        (gives.finding.unwrap_or_default(), gives.text)
    };
    for neighbour in [0.0, 0.9] {
        let (finding, text) = said((0.29, 0.67), neighbour, 10);
        assert_eq!(finding, "cpu-throttled", "{text}");
        assert_eq!(
            text,
            "sound: its CPU quota is full: it gets 0.29 cores, and is stopped in 100 % of the quota's periods"
        );
    }
    // What runs over in one period is taken from the next, which is then no longer used up.
    let (finding, text) = said((0.29, 0.67), 0.0, 7);
    assert_eq!(finding, "cpu-throttled", "{text}");
    // By other kernels what it waits is not counted as waits for a CPU: then requests wait in it for nothing that its threads do.
    let (finding, text) = said((0.29, 0.0), 0.0, 10);
    assert_eq!(finding, "cpu-throttled", "{text}");
    assert!(text.starts_with("a CPU quota stops the target in 100 % of its periods ("), "{text}");
    // Used up now and then, beside a thread that is full: both are said, and no affinity.
    let (_, text) = said((0.6, 0.35), 0.0, 4);
    assert!(
        text.contains("its one worker is full") && text.ends_with("; a CPU quota stops it in 40 % of its periods"),
        "{text}"
    );
}

/// The kernel counts no period in which nothing ran: one costly request now and then uses the quota up in nearly all that it counts.
#[test]
fn a_quota_that_is_full_now_and_then_is_no_limit() {
    let build = closed().each(|s| (s.target, s.idle_cores, s.response_ns) = (vec![(0.02, 0.0)], 1.9, 20_000));
    let recording = with(build, |second, s| {
        for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
            process.metrics.set("cgroup_cpu_periods", second);
            process.metrics.set("cgroup_cpu_throttled_periods", second);
            process.metrics.set("cgroup_cpu_throttled_ns", second * 80_000_000);
        }
    });
    assert_eq!(status(&recording, "cpu-throttled"), Status::Supported);
    assert_eq!(status(&recording, "at-its-limit"), Status::Refuted);
    let gives = diagnose(&recording).gives.unwrap();
    assert!(gives.text.starts_with("not at its limit"), "{}", gives.text);
}

#[test]
fn a_quota_that_stops_a_target_is_told_without_a_load_too() {
    let limited = |stopped_of_ten: u64| without_load(with_quota(open(), stopped_of_ten));
    let often = diagnose(&limited(8)).gives.unwrap();
    assert_eq!(often.finding.as_deref(), Some("cpu-throttled"), "{}", often.text);
    assert!(
        often.text.starts_with("a CPU quota stops the target in 80 % of its periods; what it costs"),
        "{}",
        often.text
    );
    assert_eq!(status(&limited(0), "cpu-throttled"), Status::Refuted);
    assert_eq!(status(&without_load(open().recording()), "cpu-throttled"), Status::NotApplicable);
}

#[test]
fn a_neighbour_is_named_by_what_it_holds() {
    let crowded = |neighbours| {
        closed().each(move |s| (s.target, s.idle_cores, s.neighbours) = (vec![(0.5, 0.4)], 0.0, neighbours))
    };
    let busy = crowded([0.9, 0.1]).recording();
    assert_eq!(status(&busy, "neighbour"), Status::Supported);
    let diagnosis = diagnose(&busy);
    assert!(of(&diagnosis, "neighbour").title.contains("yes (pid 30)"), "{:#?}", of(&diagnosis, "neighbour"));
    assert_eq!(of(&diagnosis, "cpu-contention").because_of, ["neighbour"]);
    assert_eq!(status(&crowded([0.0, 0.0]).recording(), "neighbour"), Status::Refuted);
    // A server that the target asks works for it.
    let mut asked = crowded([0.9, 0.1]).recording();
    asked.snapshots.iter_mut().flat_map(|s| &mut s.neighbours).for_each(|n| n.is_backend = n.pid == 30);
    assert_eq!((status(&asked, "neighbour"), status(&asked, "cpu-contention")), (Status::Refuted, Status::Refuted));
    // Nor is another generator of the same run a stranger.
    let mut shared = crowded([0.9, 0.1]).recording();
    shared.snapshots.iter_mut().flat_map(|s| &mut s.neighbours).for_each(|n| n.is_generator = n.pid == 30);
    assert_eq!((status(&shared, "neighbour"), status(&shared, "cpu-contention")), (Status::Refuted, Status::Refuted));
    let spread = crowded([0.2, 0.2]).recording();
    assert_eq!((status(&spread, "neighbour"), status(&spread, "cpu-contention")), (Status::Refuted, Status::Supported));

    let disk = |own_bytes: u64, waits: f64| {
        on_disk(waits, waiting(), move |second, s| {
            let neighbour = Neighbour {
                pid: 40,
                name: "dd".to_owned(),
                disk_written_bytes: Some(second * (100 << 20)),
                ..Neighbour::default()
            };
            s.disk_neighbours = vec![neighbour];
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.metrics.set("io_disk_read_bytes", 0);
                process.metrics.set("io_disk_write_bytes", own_bytes * second);
            }
        })
    };
    let beside = disk(1 << 20, 0.6);
    assert_eq!(status(&beside, "neighbour"), Status::Supported);
    assert!(of(&diagnose(&beside), "neighbour").title.contains("dd (pid 40) holds the disk"));
    assert_eq!(status(&disk(400 << 20, 0.6), "neighbour"), Status::Refuted, "the target itself wrote most");
    let mut database = disk(1 << 20, 0.6);
    database.snapshots[2].disk_neighbours.iter_mut().for_each(|n| n.is_backend = true);
    assert_eq!(status(&database, "neighbour"), Status::Refuted, "it writes for the target");
    assert_eq!(status(&disk(1 << 20, 0.01), "neighbour"), Status::Refuted, "the target waits for no disk");

    let memory = |available: u64, faults: u64| {
        with(waiting(), move |second, s| {
            s.host.set("memory_total_bytes", 8 << 30);
            s.host.set("memory_available_bytes", available);
            let taker =
                Neighbour { pid: 41, name: "python3".to_owned(), rss_bytes: Some(6 << 30), ..Neighbour::default() };
            s.memory_neighbours = vec![taker];
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.metrics.set("major_faults", faults * second);
            }
        })
    };
    let taken = memory(200 << 20, 50);
    assert_eq!(status(&taken, "neighbour"), Status::Supported);
    assert!(of(&diagnose(&taken), "neighbour").title.contains("python3 (pid 41) has the memory"));
    assert_eq!(status(&memory(4 << 30, 50), "neighbour"), Status::Refuted, "half of it is free");
    assert_eq!(status(&memory(200 << 20, 0), "neighbour"), Status::Refuted, "the target lacks none");
}

/// Four workers, of whose windows half went by at one futex, and who let them go.
fn handed(holders: &[(u32, &str, u64)], waits_too: bool) -> Recording {
    let futex = FutexUse {
        pid: 20,
        address: 64,
        waiters: 4,
        count: 400,
        ns: 2_500 * MS,
        place: "[heap]+0x40".to_owned(),
        ..FutexUse::default()
    };
    let mut recording = probed(waiting(), vec![call("futex", 400, 2_500 * MS)], vec![futex]);
    for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
        let holder = |(tid, known_by, ran_ns): &(u32, &str, u64)| FutexHolder {
            pid: 20,
            address: 64,
            tid: *tid,
            name: format!("thread-{tid}"),
            known_by: (*known_by).to_owned(),
            waits: 100,
            ns: 1_000 * MS,
            ran_ns: *ran_ns,
            ..FutexHolder::default()
        };
        let in_futex = if waits_too { 600 * MS } else { 0 };
        let thread = |tid| ThreadTime {
            threads: 1,
            pid: 20,
            tid,
            alive_ns: SECOND,
            ns: [("futex".to_owned(), in_futex), ("poll".to_owned(), SECOND - in_futex)].into(),
            ..ThreadTime::default()
        };
        bpf.threads = Some(ThreadStates {
            window_ns: SECOND,
            threads: (20..24).map(thread).collect(),
            holders: holders.iter().map(holder).collect(),
            ..ThreadStates::default()
        });
    }
    recording
}

#[test]
fn a_lock_is_held_in_turn_and_work_is_handed_over() {
    let in_turn = [(20, "releaser", 100 * MS), (21, "releaser", 900 * MS), (22, "releaser", 900 * MS)];
    let lock = handed(&in_turn, true);
    assert_eq!(status(&lock, "lock-contention"), Status::Supported);
    let diagnosis = diagnose(&lock);
    let held = of(&diagnosis, "lock-contention").because.iter().find(|e| e.metric == "futex.holder_ran").unwrap();
    assert!(held.text.contains("3 threads held it in turn") && held.value.is_some_and(|v| v > 0.6), "{held:?}");
    assert_eq!(
        status(&handed(&[(30, "releaser", MS)], true), "lock-contention"),
        Status::Refuted,
        "one wakes the others"
    );
    assert_eq!(status(&handed(&in_turn, false), "lock-contention"), Status::Refuted, "those that wake never wait");
    let owned = handed(&[(30, "owner", 10 * MS)], true);
    assert_eq!(status(&owned, "lock-contention"), Status::Supported, "the mutex says who has it");
    let diagnosis = diagnose(&owned);
    let held = of(&diagnosis, "lock-contention").because.iter().find(|e| e.metric == "futex.holder_ran").unwrap();
    assert!(held.text.contains("it waits under the lock"), "{held:?}");
}

#[test]
fn short_pauses_of_a_collector_count_by_their_sum() {
    let replaced = |pause_ms_a_second: u64, workers: u32, every_s: u64| {
        let mut recording = with(waiting(), move |second, s| {
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            target.for_each(|process| process.runtime = Some(Runtime::Jvm));
            let first = s.processes.iter().position(|process| process.role == Role::Target).unwrap();
            let first = s.processes.remove(first);
            for nth in 0..workers {
                let mut one = first.clone();
                let more = 100 * nth + 1_000 * (second / every_s) as u32;
                one.pid += more;
                one.threads.iter_mut().for_each(|thread| thread.tid += more);
                s.processes.push(one);
            }
            let pauses = second * pause_ms_a_second;
            let histogram = Log2 { sum: pauses * MS, buckets: [vec![0; 20], vec![pauses]].concat() };
            let histograms = [("collector.pause_ns".to_owned(), histogram)].into();
            s.bpf = Some(BpfSample { histograms, ..BpfSample::default() });
        });
        for name in ["process/runtimes", "bpf/collector"] {
            let (name, status, reason) = (name.to_owned(), SamplerState::Active, String::new());
            recording.samplers.push(SamplerStatus { name, status, reason });
        }
        recording
    };
    let collecting = |pause_ms_a_second, workers| replaced(pause_ms_a_second, workers, 1_000);
    let held = collecting(300, 1);
    assert_eq!(status(&held, "garbage-collection"), Status::Supported);
    let diagnosis = diagnose(&held);
    let explains = of(&diagnosis, "garbage-collection").explains.unwrap();
    assert!((explains.share - 0.3).abs() < 0.05, "{explains:?}");
    assert_eq!(status(&collecting(20, 1), "garbage-collection"), Status::Refuted);
    // Of four workers each is held for a quarter of it, and holds no other.
    assert_eq!(status(&collecting(300, 4), "garbage-collection"), Status::Refuted);
    // One that takes another's place shares no work with it.
    assert_eq!(status(&replaced(300, 1, 4), "garbage-collection"), Status::Supported);
    let of_four = diagnose(&collecting(1_200, 4));
    let explains = of(&of_four, "garbage-collection").explains.unwrap();
    assert!((explains.share - 0.3).abs() < 0.05, "{explains:?}");
}

#[test]
fn some_replies_wait_for_a_delayed_ack_where_a_probe_saw_it() {
    let some = |acks: u64, pairs: u64, waited_ms: u64| {
        let mut recording = with(waiting(), move |second, s| {
            s.network.set("delayed_acks", acks * second);
            let mut bpf = BpfSample { calls_window_ns: SECOND, window_replies: 400, ..BpfSample::default() };
            bpf.counts.insert("delayed_acks.pairs".to_owned(), pairs);
            s.bpf = Some(bpf);
        });
        sampled(&mut recording, 400, move |n| Request {
            ready_ns: SECOND,
            sent_ns: SECOND,
            ended_ns: SECOND + if n.is_multiple_of(16) { waited_ms * MS } else { MS },
            ordinal: 2 + n as u32,
            ..Request::default()
        });
        recording
    };
    // 400 a second, of which a sixteenth wait: 25, and as many in the second of the windows.
    let found = some(25, 20, 43);
    assert_eq!(status(&found, "nagle-delayed-ack"), Status::Supported);
    let diagnosis = diagnose(&found);
    let explains = of(&diagnosis, "nagle-delayed-ack").explains.unwrap();
    assert!(explains.share > 0.95, "{explains:?}");
    assert_eq!(status(&some(25, 0, 43), "nagle-delayed-ack"), Status::Refuted, "no probe saw one wait");
    assert_eq!(status(&some(2, 20, 43), "nagle-delayed-ack"), Status::Refuted, "no ACK for each");
    assert_eq!(status(&some(25, 20, 60), "nagle-delayed-ack"), Status::Refuted, "another time");
}

#[test]
fn descriptors_that_requests_leave_are_a_leak_where_connections_last() {
    let limited = |a_second: u64, limit: u64, failed: u64| {
        let build = closed().with(|b| b.plan.connections = 8).each(|s| {
            (s.ok, s.connections, s.in_flight) = (100, 8, 8);
            s.failed = vec![(ErrorKind::UnexpectedStatus, failed)];
        });
        let build = build.with(|b| b.status = vec![(500, 10 * failed)]);
        with(build, move |second, s| {
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            target.for_each(|process| {
                process.descriptors = Some((20 + a_second * second).min(limit));
                process.metrics.set("descriptors_limit", limit);
            });
        })
    };
    let left = |a_second: u64| limited(a_second, 100_000, 0);
    let found = left(100);
    assert_eq!(status(&found, "fd-leak"), Status::Supported);
    let title = of(&diagnose(&found), "fd-leak").title.clone();
    assert!(title.starts_with("the target leaks descriptors: ") && title.ends_with("for each request that is over"));
    assert_eq!(status(&left(10), "fd-leak"), Status::Refuted, "a tenth of them: files of its own");
    // At its limit replies fail, and the leak is why.
    let full = diagnose(&limited(100, 700, 30));
    assert_eq!(of(&full, "fd-exhaustion").because_of, ["fd-leak"]);
    let first = full.gives.as_ref().unwrap();
    assert_eq!(first.finding.as_deref(), Some("fd-leak"), "{first:#?}");
    assert!(first.text.contains("until it may open no more (nearly all of the failures)"), "{}", first.text);
    assert_eq!(status(&left(0), "fd-leak"), Status::Refuted);
}

#[test]
fn a_pool_behind_an_event_loop_is_known_by_how_often_its_threads_wait() {
    let pool = |waits_a_second: u64| {
        let build = waiting().each(|s| s.target = [vec![(0.05, 0.0)], vec![(0.0003, 0.0); 4]].concat());
        with(build, move |second, s| {
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            for (at, thread) in target.flat_map(|process| &mut process.threads).enumerate() {
                let wchan = if at == 0 { "do_epoll_wait" } else { "hrtimer_nanosleep" };
                let stands = Stands { wchan: Some(wchan.to_owned()), ..Stands::default() };
                (thread.state, thread.stands) = ('S', Some(stands));
                let voluntary = second * if at == 0 { 900 } else { waits_a_second };
                thread.switches = Some(Switches { voluntary, involuntary: 0 });
            }
        })
    };
    let found = pool(100);
    assert_eq!(status(&found, "pool-exhausted"), Status::Supported);
    assert!(of(&diagnose(&found), "pool-exhausted").title.contains("4 workers"));
    assert_eq!(status(&pool(10), "pool-exhausted"), Status::Refuted, "timers of its own sleep at other times");
}

#[test]
fn threads_as_many_as_requests_are_no_loop() {
    let pauses = [1000, 1300, 3900, 4000, 7000, 7200];
    assert_eq!(status(&paused(&pauses, 80, 4), "event-loop-blocked"), Status::Supported);
    assert_eq!(status(&paused(&pauses, 80, 10), "event-loop-blocked"), Status::Refuted);
}

#[test]
fn swap_is_to_blame_where_tasks_wait_for_it() {
    // Pages a second read back, and how long of each second some task, or all, waited for memory.
    let swapping = |pages: u64, some_ms: u64, all_ms: u64| {
        let mut recording = closed().each(|s| s.response_ns = 50 * MS).recording();
        for (second, s) in (0..).zip(&mut recording.snapshots) {
            s.host.set("swap_in_pages", pages * second);
            s.host.set("pressure_memory_some_ns", some_ms * MS * second);
            s.host.set("pressure_memory_full_ns", all_ms * MS * second);
            s.processes.iter_mut().for_each(|process| process.metrics.set("major_faults", pages * second));
        }
        recording
    };
    let title = |recording: &Recording| of(&diagnose(recording), "swap-thrash").title.clone();
    assert_eq!(status(&swapping(5000, 120, 0), "swap-thrash"), Status::Supported);
    assert_eq!(status(&swapping(5000, 60, 60), "swap-thrash"), Status::Supported, "all of them, though seldom");
    let unhurried = swapping(5000, 60, 20);
    assert_eq!(status(&unhurried, "swap-thrash"), Status::Refuted);
    assert!(title(&unhurried).contains("nobody waited for them long"), "{}", title(&unhurried));
    let cold = swapping(5, 500, 500);
    assert_eq!(status(&cold, "swap-thrash"), Status::Refuted);
    assert!(title(&cold).contains("hardly a page"), "{}", title(&cold));
}

#[test]
fn requests_that_stand_still_for_lost_segments_are_no_loop() {
    // Six pauses of ten requests, and so many segments sent again in all, which are few of the millions that were sent.
    let lossy = |again_per_s: u64| {
        let mut recording = paused(&[1000, 1300, 3900, 4000, 7000, 7200], 80, 4);
        for (second, snapshot) in (0..).zip(&mut recording.snapshots) {
            snapshot.network.set("tcp_retransmits", again_per_s * second);
            snapshot.network.set("tcp_out_segments", 1_000_000 * second);
            snapshot.network.set("connections_with_retransmits", 10);
        }
        recording
    };
    assert_eq!(status(&lossy(8), "event-loop-blocked"), Status::Refuted);
    assert_eq!(status(&lossy(8), "packet-loss"), Status::Refuted, "of all that was sent it is little");
    assert_eq!(status(&lossy(1), "event-loop-blocked"), Status::Supported);
}
