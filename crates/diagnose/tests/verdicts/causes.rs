//! Causes of a target: a case where each must appear, what looks alike and must not, and what it cannot see.

use crate::common::judged::{of, sampled, status, waiting, with};
use crate::common::stalled::{call, paused, probed};
use crate::common::{Build, SECOND, closed};
use crate::ends::{dead, ended};
use diagnose::diagnose;
use model::bpf::{BpfSample, FutexUse, Log2};
use model::event::{COLLECTOR_PAUSE, Details};
use model::finding::{Finding, LossKind, Severity, Standing, Status};
use model::plan::{Content, Isolation, Sizes, Workload};
use model::request::Request;
use model::resp::{KeyDistribution, Resp, RespCommand, RespExpect};
use model::snapshot::{
    ListenerSample, Outgoing, ProcessSample, Role, Runtime, SamplerState, SamplerStatus, Snapshot, Stands,
};
use model::split::{Passage, SplitRequest, TickSplit};
use model::threads::{ThreadStates, ThreadTime, WaitPlace};
use model::{ErrorKind, Event, Recording};

fn stands(wchan: &str) -> Option<Stands> {
    Some(Stands { wchan: Some(wchan.to_owned()), syscall: None, is_running: false, ..Stands::default() })
}

/// Lets each thread of the target stand in a function of the kernel.
fn stand(snapshot: &mut Snapshot, wchan: &str) {
    let target = snapshot.processes.iter_mut().filter(|process| process.role == Role::Target);
    for thread in target.flat_map(|process| &mut process.threads) {
        (thread.state, thread.stands) = ('S', stands(wchan));
    }
}

/// A store that dies, comes back empty, and is asked for what it had acknowledged.
fn lost_its_writes(verify_writes: bool) -> Recording {
    let build = dead().with(|b| {
        b.events = vec![ended("target-exit", Some(9), 20)];
        b.seconds.iter_mut().skip(6).for_each(|s| (s.ok, s.failed) = (5000, vec![(ErrorKind::LostWrite, 200)]));
        let command = RespCommand::new("GET".to_owned(), 1.0, vec!["GET".to_owned()], RespExpect::Value);
        b.plan.workload = Workload::Resp(Resp {
            commands: vec![command],
            keys: 2000,
            key_prefix: "key:".to_owned(),
            key_distribution: KeyDistribution::Uniform,
            values: Sizes::Fixed(8),
            content: Content::Text,
            value_seed: 1,
            validate: false,
            verify_writes,
            logins: Vec::new(),
        });
    });
    build.recording()
}

#[test]
fn what_a_crash_lost_of_acknowledged_writes_is_the_crashs() {
    let diagnosis = diagnose(&lost_its_writes(true));
    let (crash, lost) = (of(&diagnosis, "process-crash"), of(&diagnosis, "state-lost"));
    assert_eq!((crash.status, lost.status), (Status::Supported, Status::Supported));
    assert_eq!(lost.because_of, ["process-crash"]);
    // 90 requests were refused, and 800 found nothing.
    let share = |finding: &Finding| finding.explains.unwrap().share;
    assert!(share(lost) > 0.85 && share(crash) > 0.95, "{} {}", share(lost), share(crash));
    let first = diagnosis.gives.as_ref().unwrap();
    assert_eq!(first.finding.as_deref(), Some("process-crash"));
    assert!(!first.text.contains("unexplained"), "{}", first.text);
    assert_eq!(status(&lost_its_writes(false), "state-lost"), Status::NotObservable);
}

#[test]
fn a_queue_that_overflows_needs_a_listener_or_late_connects() {
    let overflowing = |waiting: u32| {
        with(closed(), move |second, s| {
            s.network.set("listen_overflows", 10 * second);
            s.listeners =
                vec![ListenerSample { waiting, backlog: 8, address: "127.0.0.1:80".to_owned(), ..Default::default() }];
        })
    };
    assert_eq!(status(&overflowing(9), "accept-queue-overflow"), Status::Supported);
    assert_eq!(status(&overflowing(0), "accept-queue-overflow"), Status::Refuted, "another server's on this host");
    let still = with(closed(), |_, s| s.network.set("listen_overflows", 14));
    assert_eq!(status(&still, "accept-queue-overflow"), Status::Refuted, "of before the run");
    assert_eq!(status(&closed().recording(), "accept-queue-overflow"), Status::NotObservable);
}

#[test]
fn descriptors_at_their_limit_need_somebody_who_was_turned_away() {
    let open_of = |open: u64, build: Build| {
        with(build, move |_, s| {
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.descriptors = Some(open);
                process.metrics.set("descriptors_limit", 40);
            }
        })
    };
    let failing = || closed().each(|s| s.failed = vec![(ErrorKind::ReplyTimeout, 3)]);
    assert_eq!(status(&open_of(40, failing()), "fd-exhaustion"), Status::Supported);
    assert_eq!(status(&open_of(20, failing()), "fd-exhaustion"), Status::Refuted);
    assert_eq!(status(&open_of(40, closed()), "fd-exhaustion"), Status::Refuted);
}

#[test]
fn a_backend_is_waited_for_where_replies_are_due_from_it() {
    let asking = |due: u64| {
        with(waiting(), move |_, s| {
            s.network.set("outgoing_connections", 4);
            let mut metrics = model::metrics::Metrics::default();
            metrics.set("awaiting", due);
            metrics.set("awaiting_p50_ns", 20_000_000);
            s.outgoing = vec![Outgoing { remote: "10.0.0.7:5432".to_owned(), metrics }];
            stand(s, "wait_woken");
        })
    };
    let found = asking(4);
    assert_eq!(status(&found, "backend-wait"), Status::Supported);
    let diagnosis = diagnose(&found);
    assert_eq!(diagnosis.first_to_give().unwrap().id, "backend-wait");
    // Its workers are all taken because of it.
    let pool = of(&diagnosis, "pool-exhausted");
    assert_eq!((pool.status, &*pool.because_of), (Status::Supported, &["backend-wait".to_owned()][..]), "{pool:#?}");
    assert_eq!(status(&asking(0), "backend-wait"), Status::Refuted);
    // Asked again as soon as it answered: by the sockets' clock nothing is due, and the probes see threads wait there.
    let waited = |ns: u64| {
        let mut recording = asking(0);
        let place = WaitPlace {
            state: "socket".to_owned(),
            call: "recvfrom".to_owned(),
            at: "backend".to_owned(),
            ns,
            ..WaitPlace::default()
        };
        let thread =
            |tid| ThreadTime { pid: 20, tid, alive_ns: SECOND, waits: vec![place.clone()], ..ThreadTime::default() };
        let states =
            ThreadStates { window_ns: SECOND, threads: (20..24).map(thread).collect(), ..ThreadStates::default() };
        for snapshot in &mut recording.snapshots {
            snapshot.bpf = Some(BpfSample { threads: Some(states.clone()), ..BpfSample::default() });
        }
        recording
    };
    assert_eq!(status(&waited(900_000_000), "backend-wait"), Status::Supported);
    assert_eq!(status(&waited(50_000_000), "backend-wait"), Status::Refuted);
    let alone = with(waiting(), |_, s| s.network.set("outgoing_connections", 0));
    assert_eq!(status(&alone, "backend-wait"), Status::NotApplicable);
}

/// Of a unix socket the kernel keeps no times: how long replies are due follows from how many are at a time.
#[test]
fn a_backend_behind_a_unix_socket_is_waited_for_where_connections_are_made_for_requests() {
    let asking = |open: u64, new: u64| {
        with(waiting(), move |_, s| {
            s.network.set("outgoing_connections", 0);
            let mut metrics = model::metrics::Metrics::default();
            metrics.set("established", open);
            metrics.set("new", new);
            s.outgoing = vec![Outgoing { remote: "unix:/run/app.sock".to_owned(), metrics }];
        })
    };
    let diagnosis = diagnose(&asking(4, 4));
    let found = of(&diagnosis, "backend-wait");
    assert_eq!(found.status, Status::Supported, "{found:#?}");
    assert!(
        found.title.contains("unix:/run/app.sock") && found.check_yourself.contains("grep -F /run/app.sock"),
        "{found:#?}"
    );
    // Of connections that stay open nothing is known: that is not to refute it.
    let stays = diagnose(&asking(4, 0));
    let unseen = of(&stays, "backend-wait");
    assert_eq!(unseen.status, Status::NotObservable, "{unseen:#?}");
    assert_eq!(status(&asking(0, 0), "backend-wait"), Status::Refuted);
    // Nor of new ones, where the workers that have them sleep.
    let waits_at = |at: &str| {
        let mut recording = asking(4, 4);
        let ns = 900_000_000;
        let place = WaitPlace { state: "sleep".to_owned(), at: at.to_owned(), ns, ..WaitPlace::default() };
        let thread =
            |tid| ThreadTime { pid: 20, tid, alive_ns: SECOND, waits: vec![place.clone()], ..ThreadTime::default() };
        let threads = (20..24).map(thread).collect();
        let states = ThreadStates { window_ns: SECOND, threads, ..ThreadStates::default() };
        for snapshot in &mut recording.snapshots {
            snapshot.bpf = Some(BpfSample { threads: Some(states.clone()), ..BpfSample::default() });
        }
        recording
    };
    assert_eq!(status(&waits_at("none"), "backend-wait"), Status::NotObservable);
    assert_eq!(status(&waits_at("epoll"), "backend-wait"), Status::Supported);
    assert_eq!(status(&waits_at("backend"), "backend-wait"), Status::Supported);
    // Where no window told, by where they stood.
    let stood = |wchan: &str, at: Option<&str>| {
        let mut recording = asking(4, 4);
        for snapshot in &mut recording.snapshots {
            stand(snapshot, wchan);
            let threads = snapshot.processes.iter_mut().flat_map(|process| &mut process.threads);
            threads.filter_map(|thread| thread.stands.as_mut()).for_each(|s| s.at = at.map(str::to_owned));
        }
        status(&recording, "backend-wait")
    };
    assert_eq!(stood("hrtimer_nanosleep", None), Status::NotObservable);
    assert_eq!(stood("ep_poll", Some("epoll")), Status::Supported);
    assert_eq!(stood("unix_stream_read_generic", Some("backend")), Status::Supported);
}

#[test]
fn a_log_is_told_by_the_calls_that_write_it() {
    let syncing = |ns| probed(waiting(), vec![call("fsync", 400, ns)], Vec::new());
    assert_eq!(status(&syncing(3_000_000_000), "log-bound"), Status::Supported);
    assert_eq!(status(&syncing(100_000_000), "log-bound"), Status::Refuted);
    let pipe = probed(waiting(), vec![call("write", 400, 3_000_000_000)], Vec::new());
    assert_eq!(status(&pipe, "log-bound"), Status::Supported);
    // What copies a large reply to its socket works, and what waits there waits for a reader: neither is a log.
    let seen = |waits: Vec<WaitPlace>| {
        let mut recording = pipe.clone();
        for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
            let row =
                |tid| ThreadTime { pid: 20, tid, alive_ns: SECOND, waits: waits.clone(), ..ThreadTime::default() };
            let threads = (20..24).map(row).collect();
            bpf.threads = Some(ThreadStates { window_ns: SECOND, threads, ..ThreadStates::default() });
        }
        status(&recording, "log-bound")
    };
    let wait =
        |at: &str| WaitPlace { call: "write".to_owned(), at: at.to_owned(), ns: 700_000_000, ..WaitPlace::default() };
    assert_eq!(seen(vec![wait("pipe")]), Status::Supported);
    assert_eq!(seen(vec![wait("client")]), Status::Refuted);
    assert_eq!(seen(Vec::new()), Status::Refuted);
    let pipe = with(waiting(), |_, s| stand(s, "anon_pipe_write"));
    assert_eq!(status(&pipe, "log-bound"), Status::Supported, "by where the threads stand, without probes");
    // Their windows are a part of the time, and may have seen none of it.
    let mut standing = syncing(100_000_000);
    standing.snapshots.iter_mut().for_each(|snapshot| stand(snapshot, "anon_pipe_write"));
    assert_eq!(status(&standing, "log-bound"), Status::Supported);
    // One reading in four is no reason to doubt what was timed.
    let mut seldom = syncing(100_000_000);
    for (at, snapshot) in seldom.snapshots.iter_mut().enumerate() {
        stand(snapshot, if at % 4 == 1 { "anon_pipe_write" } else { "ep_poll" });
    }
    assert_eq!(status(&seldom, "log-bound"), Status::Refuted);
}

#[test]
fn a_log_is_told_by_what_each_reply_waits_for_it_where_many_threads_wait_for_work() {
    // Forty threads, so that syncs of a quarter of each reply's time are a tenth of theirs.
    let syncing = |count, ns| {
        let build = waiting().each(|s| s.target = vec![(0.02, 0.0); 40]);
        probed(build, vec![call("fsync", count, ns)], Vec::new())
    };
    let log = |count, ns| status(&syncing(count, ns), "log-bound");
    assert_eq!(log(400, 4_000_000_000), Status::Supported);
    assert_eq!(log(400, 1_600_000_000), Status::Refuted, "a tenth of what each reply takes");
    assert_eq!(
        log(100, 4_000_000_000),
        Status::Refuted,
        "one for four replies: of a thread of its own, or of many lines"
    );
    let working = waiting().each(|s| s.target = vec![(0.3, 0.0); 40]);
    let working = probed(working, vec![call("fsync", 400, 4_000_000_000)], Vec::new());
    assert_eq!(status(&working, "log-bound"), Status::Refuted, "it works three times as long");
    // A tenth of it, while new requests lie unread as long as that: it is what others in front of them do.
    let unread = |ns: u64, mut recording: Recording| {
        let split = |n: u64| {
            let request = Request { ended_ns: 3 * SECOND + n, ..Request::default() };
            let passage = Passage { arrived_ns: SECOND, read_ns: SECOND + ns, written_ns: 2 * SECOND };
            SplitRequest { key: n, below: None, request, passage: Ok(passage) }
        };
        recording.split.push(&TickSplit { sampled: (0..100).map(split).collect(), ..TickSplit::default() });
        status(&recording, "log-bound")
    };
    assert_eq!(unread(5_000_000, syncing(400, 1_600_000_000)), Status::Supported);
    assert_eq!(unread(3_000_000, syncing(400, 1_600_000_000)), Status::Refuted, "they are read sooner");
    assert_eq!(unread(5_000_000, syncing(400, 900_000_000)), Status::Refuted, "mostly nobody is in it");
    let kept = waiting().each(|s| s.target = vec![(0.02, 0.06); 40]);
    let kept = probed(kept, vec![call("fsync", 400, 1_600_000_000)], Vec::new());
    assert_eq!(unread(5_000_000, kept), Status::Refuted, "they stand in line for a CPU");
}

#[test]
fn a_lock_is_waited_for_by_threads_that_work() {
    let futex =
        |waiters, ns| FutexUse { waiters, ns, count: 200, place: "[heap]+0x40".to_owned(), ..FutexUse::default() };
    let locked = probed(waiting(), vec![call("futex", 200, 2_500_000_000)], vec![futex(4, 2_500_000_000)]);
    assert_eq!(status(&locked, "lock-contention"), Status::Supported);
    let hardly = probed(waiting(), vec![call("futex", 200, 100_000_000)], vec![futex(4, 100_000_000)]);
    assert_eq!(status(&hardly, "lock-contention"), Status::Refuted);
    // One thread works; those that help it stand in futex for want of work.
    let helped = waiting().each(|s| s.target = vec![(0.8, 0.0), (0.001, 0.0), (0.001, 0.0), (0.001, 0.0)]);
    let helped = probed(helped, vec![call("futex", 200, 2_500_000_000)], vec![futex(3, 2_500_000_000)]);
    assert_eq!(status(&helped, "lock-contention"), Status::NotApplicable);
    let mut unseen = waiting().recording();
    let is_needed = |name: &str| ["bpf/syscalls", "process/stands"].contains(&name);
    for sampler in unseen.samplers.iter_mut().filter(|sampler| is_needed(&sampler.name)) {
        (sampler.status, sampler.reason) = (SamplerState::Disabled, "not asked for".to_owned());
    }
    let diagnosis = diagnose(&unseen);
    let finding = of(&diagnosis, "lock-contention");
    assert_eq!(finding.status, Status::NotObservable);
    let why = &finding.because[0].text;
    assert!(why.contains("bpf/syscalls") && why.contains("process/stands: not asked for"), "{why}");
}

#[test]
fn pauses_at_regular_times_over_several_threads_stop_the_world() {
    let regular = [1000, 2000, 3000, 4000, 5000, 6000];
    let irregular = [1000, 1300, 3900, 4000, 7000, 7200];
    let all = paused(&regular, 80, 2);
    assert_eq!(
        (status(&all, "stop-the-world"), status(&all, "event-loop-blocked")),
        (Status::Supported, Status::Refuted)
    );
    let one = paused(&regular, 80, 1);
    assert_eq!(
        (status(&one, "stop-the-world"), status(&one, "event-loop-blocked")),
        (Status::Refuted, Status::Supported)
    );
    let any = paused(&irregular, 80, 1);
    assert_eq!(
        (status(&any, "stop-the-world"), status(&any, "event-loop-blocked")),
        (Status::Refuted, Status::Supported)
    );
    let few = paused(&regular[..3], 80, 2);
    assert_eq!(
        (status(&few, "stop-the-world"), status(&few, "event-loop-blocked")),
        (Status::Refuted, Status::Refuted)
    );
    let short = paused(&regular, 4, 2);
    assert_eq!(status(&short, "stop-the-world"), Status::Refuted);
}

/// A target in a JVM of which every twentieth request takes 80 ms, and which collects at these moments, milliseconds.
fn collecting(at_ms: &[i64], took_ms: u64, is_seen: bool) -> Recording {
    let mut recording = paused(&[], 0, 4);
    for snapshot in &mut recording.snapshots {
        let target = snapshot.processes.iter_mut().filter(|process| process.role == Role::Target);
        target.for_each(|process| process.runtime = Some(Runtime::Jvm));
    }
    let status = if is_seen { SamplerState::Active } else { SamplerState::Disabled };
    let sampler = |name: &str, status| SamplerStatus { name: name.to_owned(), status, reason: "stripped".to_owned() };
    recording.samplers.push(sampler("process/runtimes", SamplerState::Active));
    recording.samplers.push(sampler("bpf/collector", status));
    for at_ms in at_ms {
        let details = Details { took_ns: Some(took_ms * 1_000_000), ..Details::default() };
        recording.events.push(Event::new(at_ms * 1_000_000, COLLECTOR_PAUSE, "it paused").with(details));
    }
    recording
}

#[test]
fn a_collector_is_to_blame_where_slow_requests_waited_for_it() {
    let waited = collecting(&[1000, 2000, 3000], 85, true);
    assert_eq!(status(&waited, "garbage-collection"), Status::Supported);
    let diagnosis = diagnose(&waited);
    let explains = of(&diagnosis, "garbage-collection").explains.as_ref().unwrap();
    assert!(explains.share > 0.95, "{explains:?}");
    // It collected, and slow requests were slow at other moments.
    assert_eq!(status(&collecting(&[3000, 4000, 5000], 85, true), "garbage-collection"), Status::Refuted);
    assert_eq!(status(&collecting(&[], 0, true), "garbage-collection"), Status::Refuted, "shorter ones are no events");
    assert_eq!(status(&collecting(&[], 0, false), "garbage-collection"), Status::NotObservable);
    // An interpreter that ends collects once more, and one that begins while it loads: who could have waited for that is at another.
    let passing = |left_ms: i64, was_there: bool| {
        let mut recording = collecting(&[], 85, true);
        for at_ms in [1000, 2000, 3000] {
            let of = |took_ns| Details { pid: Some(at_ms as u32), took_ns, ..Details::default() };
            let at = |ms: i64, kind: &'static str| Event::new(ms * 1_000_000, kind, "it did that");
            // Twice, the one soon after the other.
            recording.events.push(at(at_ms, COLLECTOR_PAUSE).with(of(Some(85_000_000))));
            recording.events.push(at(at_ms + 180, COLLECTOR_PAUSE).with(of(Some(10_000_000))));
            let ended = Details { exit_code: Some(0), ..of(None) };
            recording.events.push(at(at_ms + 190 + left_ms, "target-exit").with(ended));
            if was_there {
                let processes = &mut recording.snapshots[0].processes;
                let target = processes.iter().find(|process| process.role == Role::Target).unwrap().clone();
                processes.push(ProcessSample { pid: at_ms as u32, ..target });
            }
        }
        status(&recording, "garbage-collection")
    };
    assert_eq!(passing(400, true), Status::Supported);
    assert_eq!(passing(3, true), Status::Refuted, "it ends");
    assert_eq!(passing(400, false), Status::Refuted, "it begins");
    let mut without = collecting(&[], 0, true);
    let target = without.snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.processes);
    target.for_each(|process| process.runtime = None);
    assert_eq!(status(&without, "garbage-collection"), Status::NotApplicable);
}

#[test]
fn a_full_worker_is_named_where_another_had_room_and_a_full_machine_else() {
    let said = |idle_cores: f64| {
        let build = closed().each(move |s| (s.target, s.idle_cores) = (vec![(0.93, 0.0)], idle_cores));
        diagnose(&build.recording()).gives.unwrap()
    };
    let (alone, full) = (said(0.9), said(0.02));
    assert_eq!((alone.standing, full.standing), (Standing::AtItsLimit, Standing::AtItsLimit), "{alone:?} {full:?}");
    assert!(alone.text.starts_with("sound: its one worker is full"), "{alone:?}");
    assert!(full.text.starts_with("sound: all cores are busy"), "{full:?}");
}

#[test]
fn workers_that_are_kept_off_idle_cores_are_not_told_to_be_more() {
    let said = |wait: f64, isolation: Option<Isolation>| {
        let mut build = closed().each(move |s| (s.target, s.idle_cores) = (vec![(0.96 - wait, wait); 2], 0.9));
        build.plan.isolation = isolation;
        let diagnosis = diagnose(&build.recording());
        let limit = of(&diagnosis, "at-its-limit").clone();
        (limit.title, limit.remedy)
    };
    let (free, remedy) = said(0.0, None);
    assert!(
        free.ends_with("stand idle, which more workers could have") && remedy.starts_with("More workers"),
        "{free}"
    );
    let (kept, remedy) = said(0.48, None);
    assert!(kept.contains("is not let onto them") && remedy.starts_with("Let it run on the cores"), "{kept} {remedy}");
    let (isolated, remedy) = said(0.48, Some(Isolation::default()));
    assert!(isolated.contains("; --isolate keeps it off") && remedy.starts_with("Leave --isolate out"), "{isolated}");
}

#[test]
fn a_target_that_others_did_not_let_run_is_not_at_its_limit() {
    // Nobody is seen beside it: who lives shorter than a tick is in no list.
    let had = |run, wait| {
        closed()
            .each(move |s| (s.target, s.idle_cores, s.neighbours) = (vec![(run, wait)], 0.0, [0.0, 0.0]))
            .recording()
    };
    assert_eq!(status(&had(0.50, 0.48), "at-its-limit"), Status::Supported);
    assert_eq!(status(&had(0.17, 0.81), "at-its-limit"), Status::Refuted);
}

#[test]
fn a_machine_is_full_of_threads_that_wait_though_a_core_idles_for_moments() {
    let with = |wait: f64, idle: f64| {
        let build = closed().each(move |s| (s.target, s.idle_cores) = (vec![(0.4, wait); 4], idle));
        status(&build.recording(), "at-its-limit")
    };
    assert_eq!(with(0.3, 0.28), Status::Supported, "14 % idle, and more than a thread waits all the time");
    assert_eq!(with(0.3, 0.5), Status::Refuted, "a quarter idles");
    assert_eq!(with(0.1, 0.28), Status::Refuted, "hardly a thread waits");
    assert_eq!(with(0.2, 0.28), Status::Supported, "far more want a core than stand idle");
}

#[test]
fn a_limit_that_a_neighbour_has_made_lower_says_so_in_the_first_line() {
    let said = |neighbours: [f64; 2]| {
        let build =
            closed().each(move |s| (s.target, s.idle_cores, s.neighbours) = (vec![(0.5, 0.4)], 0.0, neighbours));
        diagnose(&build.recording()).gives.unwrap()
    };
    let beside = said([0.9, 0.0]);
    assert_eq!(beside.standing, Standing::AtItsLimit, "{beside:?}");
    assert!(beside.text.ends_with("; yes (pid 30) holds CPUs that the target wants: 0.9 cores"), "{beside:?}");
    assert!(!said([0.0, 0.0]).text.contains("holds CPUs"));
}

#[test]
fn neighbours_are_to_blame_only_where_there_are_some() {
    let crowded = |neighbours| {
        closed().each(move |s| (s.target, s.idle_cores, s.neighbours) = (vec![(0.5, 0.4)], 0.0, neighbours))
    };
    assert_eq!(status(&crowded([0.6, 0.4]).recording(), "cpu-contention"), Status::Supported);
    assert_eq!(status(&crowded([0.0, 0.0]).recording(), "cpu-contention"), Status::Refuted, "the generator beside it");
    let idle = crowded([0.6, 0.4]).each(|s| s.target = vec![(0.5, 0.02)]);
    assert_eq!(status(&idle.recording(), "cpu-contention"), Status::Refuted);
}

#[test]
fn data_that_lies_unread_is_a_lost_wake_up_only_while_nobody_works() {
    let stuck_with = |kind: ErrorKind, run: f64, waiting: u32| {
        let build = closed().each(move |s| (s.target, s.failed) = (vec![(run, 0.0)], vec![(kind, 8)]));
        with(build, move |_, s| {
            s.network.set("receive_queue_connections", 8);
            s.listeners = vec![ListenerSample { waiting, backlog: 8, ..ListenerSample::default() }];
            stand(s, "do_epoll_wait");
        })
    };
    let stuck = |run: f64, waiting: u32| stuck_with(ErrorKind::ReplyTimeout, run, waiting);
    assert_eq!(status(&stuck(0.001, 0), "lost-wakeup"), Status::Supported);
    // Workers that end after some hundred requests each reset connections, and none of them lives to run for long.
    assert_eq!(status(&stuck_with(ErrorKind::Reset, 0.001, 0), "lost-wakeup"), Status::Refuted, "nobody waits in vain");
    assert_eq!(status(&stuck(0.6, 0), "lost-wakeup"), Status::Refuted, "it is at work");
    assert_eq!(status(&stuck(0.001, 8), "lost-wakeup"), Status::Refuted, "they were not accepted yet");
    // It was at work before it was stuck: what it did then is not held against it.
    let later = closed().each(|s| (s.target, s.failed) = (vec![(0.6, 0.0)], vec![(ErrorKind::ReplyTimeout, 8)]));
    let from = |second: u64| {
        let build = (second as usize..later.seconds.len())
            .fold(later.clone(), |build, at| build.at(at, |s| s.target = vec![(0.0, 0.0)]));
        with(build, move |at, s| {
            // While it works something lies unread now and then.
            s.network.set("receive_queue_connections", if at > second { 8 } else { at % 2 });
            stand(s, "do_epoll_wait");
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target && at <= second);
            for stands in target.flat_map(|process| &mut process.threads).filter_map(|thread| thread.stands.as_mut()) {
                stands.is_running = true;
            }
        })
    };
    assert_eq!(status(&from(4), "lost-wakeup"), Status::Supported);
    assert_eq!(status(&from(later.seconds.len() as u64 - 2), "lost-wakeup"), Status::Refuted, "for two readings only");
    let mut seen = stuck(0.001, 0);
    for snapshot in &mut seen.snapshots {
        snapshot.network.set("unread_watched_connections", 8);
        snapshot.network.set("unread_edge_connections", 7);
    }
    let diagnosis = diagnose(&seen);
    let finding = of(&diagnosis, "lost-wakeup");
    assert!(finding.because.iter().any(|e| e.text.contains("8 connections") && e.text.contains("7 of them by edge")));
    assert!(finding.confidence > 0.9, "{finding:?}");
}

#[test]
fn where_nothing_is_lost_nothing_is_above_info() {
    // A tenth of a millisecond each, of which half is work: nothing waits, nothing is slow.
    let sound = closed().each(|s| (s.response_ns, s.in_flight, s.target) = (100_000, 1, vec![(0.32, 0.0)]));
    let sound = sound.with(|b| b.plan.connections = 1).each(|s| s.connections = 1);
    let closing = sound.clone().with(|b| (b.connected, b.closed) = (64_000, 64_000));
    let diagnosis = diagnose(&closing.recording());
    let finding = of(&diagnosis, "keepalive-off");
    assert_eq!((finding.status, finding.severity), (Status::Supported, Severity::Info), "{:?}", diagnosis.losses);
    let gives = diagnose(&sound.recording()).gives.unwrap();
    assert_eq!(gives.standing, Standing::BelowItsLimit, "{gives:?}");
    assert!(gives.text.starts_with("not at its limit: nothing gives yet"), "{gives:?}");
    let full = sound.each(|s| s.target = vec![(0.92, 0.02)]);
    let gives = diagnose(&full.recording()).gives.unwrap();
    assert_eq!(gives.standing, Standing::AtItsLimit, "{gives:?}");
    assert_eq!(
        gives.text,
        "sound: its one worker is full (92 % of a core); 1.3 cores of this machine stand idle, which more workers could have"
    );
}

#[test]
fn slow_requests_are_slow_beside_their_own_kind() {
    // Two URLs, one a hundred times as costly as the other: neither is slow.
    let mut recording = closed().each(|s| s.response_ns = 5_000_000).recording();
    sampled(&mut recording, 400, |n| {
        let entry = n as u16 % 2;
        let took_ns = if entry == 0 { 100_000 } else { 10_000_000 };
        Request { entry, ready_ns: SECOND, sent_ns: SECOND, ended_ns: SECOND + took_ns, ..Request::default() }
    });
    let losses = diagnose(&recording).losses;
    assert!(losses.iter().all(|loss| loss.kind != LossKind::Slow), "{losses:?}");
    // One of twenty takes fifty times as long as others of its kind.
    let recording = paused(&[], 0, 1);
    let losses = diagnose(&recording).losses;
    let slow = losses.iter().find(|loss| loss.kind == LossKind::Slow).unwrap();
    assert!((slow.share - 0.95).abs() < 0.02 && slow.unexplained == 1.0, "{losses:?}");
    // The kernel saw the target answer at once: it was the client that looked late.
    let mut seen = recording.clone();
    for snapshot in &mut seen.snapshots {
        let histogram = Log2 { sum: 500_000, buckets: vec![0, 0, 0, 100] };
        let histograms = [("sockets.service_ns".to_owned(), histogram)].into();
        snapshot.bpf = Some(BpfSample { histograms, ..BpfSample::default() });
    }
    let is_lost = |recording: &Recording| diagnose(recording).losses.iter().any(|loss| loss.kind == LossKind::Slow);
    assert!(!is_lost(&seen));
    // It did, once it had read them: until then they lay in its socket, behind others.
    let lay = |ms: u64| {
        let mut recording = seen.clone();
        let split = |n: u64| {
            let sent_ns = SECOND + n * 30_000_000;
            let request = Request { ready_ns: sent_ns, sent_ns, ended_ns: sent_ns + 5_000_000, ..Request::default() };
            let written_ns = sent_ns + 4_900_000;
            let passage = Passage { arrived_ns: written_ns - ms * 1_000_000, read_ns: written_ns - 5_000, written_ns };
            SplitRequest { key: n, below: None, request, passage: Ok(passage) }
        };
        recording.split.push(&TickSplit { sampled: (0..100).map(split).collect(), ..TickSplit::default() });
        recording
    };
    assert!(is_lost(&lay(4)));
    assert!(!is_lost(&lay(1)), "no longer than any thread takes to wake on a full machine");
}

#[test]
fn what_a_few_requests_take_is_no_wait_of_all() {
    let served = |buckets: Vec<u64>, sum: u64| {
        let mut recording = closed().each(|s| (s.response_ns, s.target) = (60_000, vec![(0.05, 0.0)])).recording();
        for snapshot in &mut recording.snapshots {
            let histograms = [("sockets.service_ns".to_owned(), Log2 { sum, buckets: buckets.clone() })].into();
            snapshot.bpf = Some(BpfSample { histograms, ..BpfSample::default() });
        }
        diagnose(&recording).losses.iter().any(|loss| loss.kind == LossKind::Waiting)
    };
    let counts = |of: [(usize, u64); 2]| {
        let mut buckets = vec![0; 27];
        of.into_iter().for_each(|(bucket, count)| buckets[bucket] = count);
        buckets
    };
    // Two of a hundred take 50 ms, the others 20 µs: a millisecond on average.
    assert!(!served(counts([(15, 98), (26, 2)]), 98 * 20_000 + 2 * 50_000_000));
    assert!(served(counts([(15, 84), (23, 16)]), 84 * 20_000 + 16 * 8_000_000), "a sixth take 8 ms");
    assert!(served(counts([(15, 2), (21, 98)]), 2 * 20_000 + 98 * 1_500_000), "nearly all take 1.5 ms");
}
