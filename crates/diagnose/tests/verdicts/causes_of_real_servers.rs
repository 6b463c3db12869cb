//! What real servers showed of rules that only the reference servers had been before: each mechanism built by hand, without any
//! server's name. The servers themselves are in `truth/real`.

use super::locks::{four, woken};
use crate::common::judged::{of, sampled, status, told};
use crate::common::stalled::{call, pausing, probed};
use crate::common::{Build, SECOND, closed, open};
use diagnose::diagnose;
use model::bpf::{BpfSample, CallUse, FutexUse, Log2};
use model::courses::RunCourses;
use model::finding::{Severity, Standing, Status};
use model::request::{Gap, IntervalRequests, Kept, Request};
use model::snapshot::{ListenerSample, Outgoing, Role, Snapshot, Stands, Switches};
use model::users::Users;
use model::{ErrorKind, Recording};

pub fn with(build: &Build, change: impl Fn(u64, &mut Snapshot)) -> Recording {
    let mut recording = build.recording();
    recording.snapshots.iter_mut().enumerate().for_each(|(second, snapshot)| change(second as u64, snapshot));
    recording
}

pub fn stand(snapshot: &mut Snapshot, wchan: &str) {
    let target = snapshot.processes.iter_mut().filter(|process| process.role == Role::Target);
    for thread in target.flat_map(|process| &mut process.threads) {
        let stands = Stands { wchan: Some(wchan.to_owned()), syscall: None, is_running: false, ..Stands::default() };
        (thread.state, thread.stands) = ('S', Some(stands));
    }
}

/// Sixteen requests at a time in four threads (20 to 23) that hardly work: each takes 40 ms.
pub fn waiting() -> Build {
    closed().with(|b| b.plan.connections = 16).each(|s| {
        (s.ok, s.in_flight, s.connections, s.response_ns) = (400, 16, 16, 40_000_000);
        (s.target, s.idle_cores) = (vec![(0.01, 0.0); 4], 1.8);
    })
}

/// A target of one thread, which stands there, and slept so often in the windows, which are so long.
pub fn alone(wchan: &'static str, sleeps: u64, window_ns: u64) -> Recording {
    let build = waiting().each(|s| s.target = vec![(0.01, 0.0)]);
    with(&build, move |_, s| {
        stand(s, wchan);
        let bpf = BpfSample { calls_window_ns: window_ns, window_replies: 400, ..BpfSample::default() };
        s.bpf = Some(BpfSample { calls: vec![call("clock_nanosleep", sleeps, 2_000_000 * sleeps)], ..bpf });
    })
}

#[test]
fn a_worker_that_is_alone_is_a_pool_of_one_where_it_waits_in_each_request() {
    let found = alone("hrtimer_nanosleep", 400, SECOND);
    assert_eq!(status(&found, "pool-exhausted"), Status::Supported);
    assert!(of(&diagnose(&found), "pool-exhausted").title.contains("only worker"));
    assert_eq!(
        status(&alone("hrtimer_nanosleep", 40, SECOND), "pool-exhausted"),
        Status::Refuted,
        "one request in ten does it"
    );
    assert_eq!(
        status(&alone("hrtimer_nanosleep", 3, SECOND / 100), "pool-exhausted"),
        Status::Refuted,
        "hardly a sleep was seen"
    );
    assert_eq!(status(&alone("ep_poll", 400, SECOND), "pool-exhausted"), Status::Refuted, "it waits for work");
}

#[test]
fn workers_that_are_woken_while_they_are_looked_at_wait_as_long_as_the_kernel_counts() {
    let status = |run: f64| {
        let build = waiting().each(move |s| s.target = vec![(run, 0.0); 2]);
        let recording = with(&build, |second, s| {
            stand(s, "hrtimer_nanosleep");
            let threads = s.processes.iter_mut().filter(|p| p.role == Role::Target).flat_map(|p| &mut p.threads);
            let woken = Stands { is_running: true, ..Stands::default() };
            threads
                .filter(|thread| (second + u64::from(thread.tid)) % 2 == 0)
                .for_each(|t| t.stands = Some(woken.clone()));
        });
        status(&recording, "pool-exhausted")
    };
    assert_eq!(status(0.02), Status::Supported);
    assert_eq!(status(0.5), Status::Refuted, "they do run half of the time");
}

#[test]
fn without_windows_a_worker_that_is_alone_waits_in_each_request_if_it_leaves_its_cpu_as_often_and_replies_come_evenly()
{
    let status = |left_per_s: u64, pause_ms: u64, is_read: bool| {
        let build = waiting().each(|s| s.target = vec![(0.01, 0.0)]);
        let recording = with(&build, |second, s| {
            stand(s, "hrtimer_nanosleep");
            let threads = s.processes.iter_mut().filter(|p| p.role == Role::Target).flat_map(|p| &mut p.threads);
            let switches = is_read.then_some(Switches { voluntary: second * left_per_s, involuntary: 0 });
            threads.for_each(|thread| thread.switches = switches);
        });
        // Of seven seconds and more a pause each half: six tenths of the time where it lasts 300 ms.
        let at_ms: Vec<u64> = (0..14).map(|n| 100 + n * 500).collect();
        status(&pausing(recording, &at_ms, pause_ms), "pool-exhausted")
    };
    assert_eq!(status(400, 6, true), Status::Supported);
    assert_eq!(status(40, 6, true), Status::Refuted, "one request in ten makes it leave its CPU");
    assert_eq!(status(400, 300, true), Status::Refuted, "it sleeps long in few, and waits for work between the others");
    assert_eq!(status(400, 6, false), Status::Refuted, "how often it left its CPU was not read");
}

#[test]
fn what_waits_where_no_thread_stands_has_a_next_step_in_the_first_line() {
    let gives = diagnose(&alone("ep_poll", 0, SECOND)).gives.unwrap();
    assert_eq!(gives.standing, Standing::Unexplained);
    let next = "`plimsoll diagnose URL --experiment` tells whether requests wait for each other";
    assert!(gives.text.ends_with(next), "{}", gives.text);
}

#[test]
fn workers_that_poll_beside_connections_that_wait_wait_for_something_else() {
    let polling = |wchan: &'static str, queued: &'static [u32]| {
        let recording = with(&waiting(), move |_, s| {
            stand(s, wchan);
            let listener = |waiting: &u32| ListenerSample { waiting: *waiting, backlog: 128, ..Default::default() };
            s.listeners = queued.iter().map(listener).collect();
        });
        status(&recording, "pool-exhausted")
    };
    assert_eq!(polling("poll_schedule_timeout.constprop.0", &[12]), Status::Supported);
    assert_eq!(polling("poll_schedule_timeout.constprop.0", &[12, 9, 11, 2]), Status::Supported);
    assert_eq!(polling("poll_schedule_timeout.constprop.0", &[0]), Status::Refuted, "they wait for work");
    assert_eq!(
        polling("poll_schedule_timeout.constprop.0", &[12, 0, 0, 0]),
        Status::Refuted,
        "so do those of the others"
    );
    assert_eq!(polling("ep_poll", &[12]), Status::Refuted, "another thread accepts for them");
}

#[test]
fn waits_beyond_the_rows_that_are_told_count_as_those_that_are() {
    // Four threads waited 700 ms each of a second, of which 64 rows tell a twentieth.
    let told = |rows: usize| {
        let wakes: Vec<(u32, &str, u32)> = (0..rows as u32).map(|n| (20 + n % 4, "thread", 20 + (n + 1) % 4)).collect();
        let mut recording = woken(&four(), &wakes, &[FutexUse::default()]);
        for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
            let states = bpf.threads.as_mut().unwrap();
            states.wakes.iter_mut().for_each(|wake| (wake.ns, wake.count) = (2_187_500, 5));
            states.threads.iter_mut().for_each(|thread| thread.ns = [("futex".to_owned(), 700_000_000)].into());
        }
        recording
    };
    assert_eq!(status(&told(64), "lock-contention"), Status::Supported);
    assert_eq!(
        status(&told(63), "lock-contention"),
        Status::Refuted,
        "all of them are told: the other waits did not end"
    );
}

/// Four workers serve for four seconds, and then nobody gets a reply; they stand in a receive.
fn silent() -> Build {
    waiting().with(|b| {
        b.seconds.iter_mut().skip(4).for_each(|s| (s.ok, s.failed) = (0, vec![(ErrorKind::ReplyTimeout, 8)]));
        b.users = Some(Users { connections: 16, served: 16, ..Users::default() });
    })
}

#[test]
fn clients_that_send_nothing_hold_the_workers_of_others() {
    let held = with(&silent(), |second, s| {
        s.network.set("outgoing_connections", 0);
        stand(s, if second > 4 { "wait_woken" } else { "inet_csk_accept" });
    });
    let diagnosis = diagnose(&held);
    let finding = of(&diagnosis, "worker-starvation");
    assert_eq!((finding.status, finding.severity), (Status::Supported, Severity::Error), "{finding:#?}");
    assert_eq!(
        diagnosis.gives.as_ref().unwrap().finding.as_deref(),
        Some("worker-starvation"),
        "{:#?}",
        diagnosis.gives
    );
    // The same where they wait for a reply that they asked for themselves.
    let asks = with(&silent(), |second, s| {
        stand(s, if second > 4 { "wait_woken" } else { "inet_csk_accept" });
        let mut outgoing = Outgoing { remote: "127.0.0.1:5432".to_owned(), ..Outgoing::default() };
        outgoing.metrics.set("awaiting", 4);
        s.outgoing = vec![outgoing];
    });
    assert_eq!(status(&asks, "worker-starvation"), Status::Refuted);
    // Between requests they stand there too.
    let served = with(&waiting(), |_, s| stand(s, "wait_woken"));
    assert_eq!(status(&served, "worker-starvation"), Status::Refuted);
}

#[test]
fn workers_that_stay_with_one_connection_are_told_though_they_run_all_the_time() {
    let busy = |never_served: u64, place: &str| {
        let users = Users { connections: 8, starved: 7, never_served, ..Users::default() };
        let build = waiting().with(|b| b.users = Some(users)).each(|s| s.target = vec![(0.92, 0.0)]);
        diagnose(&with(&build, |_, s| stand(s, place)))
    };
    let diagnosis = busy(7, "hrtimer_nanosleep");
    let finding = of(&diagnosis, "worker-starvation");
    assert_eq!((finding.status, finding.severity), (Status::Supported, Severity::Error), "{finding:#?}");
    assert!(
        finding.title.starts_with("the target's one worker stays with one connection: the other 7"),
        "{finding:#?}"
    );
    // A loop that waits for events turns to all of them; and some had been served.
    for other in [busy(7, "ep_poll"), busy(3, "hrtimer_nanosleep")] {
        assert_eq!(of(&other, "worker-starvation").status, Status::Refuted);
    }
}

#[test]
fn what_a_full_receiver_or_a_full_accept_queue_drops_is_not_lost_on_the_way() {
    let lossy = |name, dropped| {
        with(&closed(), move |second, s| {
            s.network.set("tcp_retransmits", 1000 * second);
            s.network.set("tcp_out_segments", 20_000 * second);
            s.network.set(name, dropped * second);
            s.network.set("connections_with_retransmits", 5);
        })
    };
    for name in ["tcp_zero_window_drops", "listen_overflows"] {
        assert_eq!(status(&lossy(name, 0), "packet-loss"), Status::Supported, "{name}");
        assert_eq!(status(&lossy(name, 995), "packet-loss"), Status::Refuted, "{name}");
    }
}

#[test]
fn memory_of_connections_is_told_by_all_that_are_open_not_only_the_loads() {
    let mib = |n: u64| n * 1_048_576;
    let of_rss = |rss: fn(u64) -> u64| {
        with(&closed(), move |second, s| {
            s.network.set("connections_looked_at", 8 + 20 * second);
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.rss_bytes = Some(rss(second));
            }
        })
    };
    let each = of_rss(|second| 30_000_000 + 20 * second * 2_000_000);
    assert_eq!(status(&each, "memory-per-connection"), Status::Supported);
    // All came at once, and went at the end: memory that goes with them is theirs, a heap that the load made grow stays.
    let at_once = |rss: fn(u64) -> u64| {
        with(&closed(), move |second, s| {
            s.network.set("connections_looked_at", if (1..10).contains(&second) { 64 } else { 0 });
            for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
                process.rss_bytes = Some(rss(second));
            }
        })
    };
    let all = at_once(|second| {
        if second == 0 {
            20_000_000
        } else if second < 10 {
            290_000_000
        } else {
            180_000_000
        }
    });
    assert_eq!(status(&all, "memory-per-connection"), Status::Supported);
    let heap = at_once(|second| if second == 0 { 20_000_000 } else { 290_000_000 });
    assert_eq!(status(&heap, "memory-per-connection"), Status::Refuted);
    let little = of_rss(|second| 30_000_000 + 20 * second * 20_000);
    assert_eq!(status(&little, "memory-per-connection"), Status::Refuted);
    let jumps = of_rss(|second| if second % 2 == 0 { 30_000_000 } else { 400_000_000 });
    assert_eq!(status(&jumps, "memory-per-connection"), Status::Refuted);
    let constant = with(&closed(), |second, s| {
        s.network.set("connections_looked_at", 64);
        for process in s.processes.iter_mut().filter(|process| process.role == Role::Target) {
            process.rss_bytes = Some(mib(30 + 40 * second));
        }
    });
    assert_eq!(status(&constant, "memory-per-connection"), Status::Refuted);
}

#[test]
fn a_root_stands_before_what_it_brings_about_also_where_that_is_graver() {
    // Requests stall together while the thread stands in D: the disk is a warning, the stalls are an error.
    let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.05, 0.0)]));
    let mut recording = build.recording();
    for (second, snapshot) in recording.snapshots.iter_mut().enumerate() {
        stand(snapshot, "folio_wait_bit_common");
        for process in snapshot.processes.iter_mut().filter(|process| process.role == Role::Target) {
            process.threads.iter_mut().for_each(|thread| thread.state = 'D');
        }
        snapshot.host.set("pressure_io_some_ns", second as u64 * 600_000_000);
        let read = CallUse { name: "read".to_owned(), count: 30, ns: 30 * 90_000_000, ..CallUse::default() };
        let bpf = BpfSample { calls_window_ns: SECOND, window_replies: 400, ..BpfSample::default() };
        snapshot.bpf = Some(BpfSample { calls: vec![read], ..bpf });
    }
    let gaps = [1000, 1300, 3900, 4000, 7000, 7200].map(|ms: u64| Gap {
        from_ns: ms * 1_000_000,
        to_ns: (ms + 80) * 1_000_000,
        in_flight: 10,
        connections: 10,
        open: 64,
        ..Gap::default()
    });
    let mut tick = IntervalRequests { gaps: gaps.to_vec(), ..IntervalRequests::default() };
    for key in 0..400 {
        let took_ns = if key % 20 == 0 { 80_000_000 } else { 200_000 };
        let request = Request { ready_ns: SECOND, sent_ns: SECOND, ended_ns: SECOND + took_ns, ..Request::default() };
        tick.sampled.offer(1000, Kept::new(key, request));
    }
    told(&mut recording, tick.sampled.iter().map(|kept| &kept.request));
    recording.requests.push(0, 400, &tick);
    let diagnosis = diagnose(&recording);
    let (disk, stalls) = (of(&diagnosis, "disk-bound"), of(&diagnosis, "event-loop-blocked"));
    assert_eq!((disk.status, stalls.status), (Status::Supported, Status::Supported), "{disk:#?} {stalls:#?}");
    assert!(disk.severity < stalls.severity && disk.severity > Severity::Info, "{disk:#?} {stalls:#?}");
    assert_eq!(diagnosis.gives.as_ref().unwrap().finding.as_deref(), Some("disk-bound"), "{:#?}", diagnosis.gives);
    // Where the same time is a log's that is synced, it is the log.
    for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
        bpf.calls[0].name = "fsync".to_owned();
    }
    assert_eq!(status(&recording, "disk-bound"), Status::Refuted);
}

#[test]
fn threads_that_stand_at_a_log_wait_for_it_also_where_no_call_was_counted() {
    let at = |kind: &'static str, state: char| {
        with(&waiting(), move |_, s| {
            stand(s, "folio_wait_bit");
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            for thread in target.flat_map(|process| &mut process.threads) {
                thread.state = state;
                thread.stands.as_mut().unwrap().at = Some(kind.to_owned());
            }
        })
    };
    assert_eq!(status(&at("log", 'D'), "log-bound"), Status::Supported);
    assert_eq!(status(&at("log", 'D'), "disk-bound"), Status::Refuted, "the log has a name of its own");
    assert_ne!(status(&at("file", 'D'), "log-bound"), Status::Supported);
    assert_ne!(status(&at("client", 'S'), "log-bound"), Status::Supported);
    // Of sixteen threads one or two are there at any time, by turns, and the others stand in futex.
    let in_turn = |at: &'static str, places: u64| {
        let build = waiting().each(|s| s.target = vec![(0.01, 0.0); 16]);
        let recording = with(&build, move |second, s| {
            stand(s, "futex_do_wait");
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            for (n, thread) in (0..).zip(target.flat_map(|process| &mut process.threads)) {
                if (n + 16 - second) % 16 < places {
                    thread.state = 'D';
                    thread.stands.as_mut().unwrap().at = Some(at.to_owned());
                }
            }
        });
        status(&recording, "log-bound")
    };
    assert_eq!(in_turn("log", 1), Status::Supported);
    assert_eq!(in_turn("log", 2), Status::Supported);
    assert_eq!(in_turn("file", 2), Status::Refuted, "another file");
    assert_eq!(in_turn("log", 0), Status::Refuted);
}

#[test]
fn a_call_is_not_to_blame_where_others_had_the_cpu_of_who_was_in_it() {
    // The probes saw sends of 60 ms: of a thread that was taken off its CPU within them, or that really stood there.
    let seen = |wait: f64, cores: f64| {
        let build = open().each(move |s| {
            (s.response_ns, s.target) = (200_000, vec![(0.1, wait)]);
            (s.neighbours, s.idle_cores) = ([cores, 0.0], 0.9);
        });
        let recording = probed(build, vec![call("writev", 20, 1_200_000_000)], Vec::new());
        pausing(recording, &[500, 1700, 2300, 3900, 4300, 5800], 80)
    };
    assert_eq!(status(&seen(0.4, 1.0), "event-loop-blocked"), Status::Refuted);
    assert_eq!(status(&seen(0.4, 1.0), "cpu-contention"), Status::Supported);
    assert_eq!(status(&seen(0.0, 1.0), "event-loop-blocked"), Status::Supported, "it hardly waited for a CPU");
    assert_eq!(status(&seen(0.4, 0.0), "event-loop-blocked"), Status::Supported, "nobody else had it");
}

#[test]
fn a_pause_in_which_only_new_connections_wait_is_none_of_the_loop() {
    // A connection for each five requests; in each pause eight stand, so many of them for a connection that was made for them, and the loop
    // runs as long as the pauses take.
    let seen = |new_of_eight: u64, ordinals: u64| {
        let starts = [500, 1700, 2300, 3900, 4300, 5800];
        let build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.3, 0.0)]));
        let mut recording = pausing(build.recording(), &starts, 80);
        let count = if ordinals == 1 { 948 } else { 148 };
        // The recording has 400 besides that are of connections made before.
        sampled(&mut recording, count, |n| {
            let (pause, place) = (n / 8, n % 8);
            match starts.get(pause as usize) {
                Some(start_ms) => {
                    let (ready_ns, ended_ns) =
                        (start_ms * 1_000_000 + place, start_ms * 1_000_000 + 80_000_000 + place);
                    let ordinal = if place < new_of_eight { 1 } else { 2 };
                    Request {
                        intended_ns: ready_ns,
                        ready_ns,
                        sent_ns: ready_ns,
                        ended_ns,
                        ordinal,
                        ..Request::default()
                    }
                }
                None => {
                    let ready_ns = 6_100_000_000 + n * 500_000;
                    let ended_ns = ready_ns + 200_000;
                    let ordinal = 1 + (n % ordinals) as u32;
                    Request {
                        intended_ns: ready_ns,
                        ready_ns,
                        sent_ns: ready_ns,
                        ended_ns,
                        ordinal,
                        ..Request::default()
                    }
                }
            }
        });
        status(&recording, "event-loop-blocked")
    };
    assert_eq!(seen(8, 5), Status::Refuted, "whom it had accepted it answered");
    assert_eq!(seen(7, 5), Status::Supported, "one of eight had been accepted");
    assert_eq!(seen(8, 1), Status::Supported, "where most have a connection of their own that says nothing");
}

#[test]
fn waits_for_a_cpu_are_few_beside_the_pauses_of_the_time_in_which_they_were_counted() {
    // Long waits, counted in all of the run or in a part of it, and six pauses.
    let seen_beside = |waits: u64, window_ns: u64, cores: f64| {
        let build = open().each(move |s| {
            (s.response_ns, s.target) = (200_000, vec![(0.02, 0.3)]);
            (s.neighbours, s.idle_cores) = ([cores, 0.0], 0.9);
        });
        let mut recording = pausing(build.recording(), &[500, 1700, 2300, 3900, 4300, 5800], 80);
        let mut buckets = vec![0; 27];
        (buckets[10], buckets[26]) = (100, waits);
        for snapshot in &mut recording.snapshots {
            let histograms =
                [("runqueue.wait_ns".to_owned(), Log2 { sum: 100_000_000, buckets: buckets.clone() })].into();
            snapshot.bpf = Some(BpfSample { calls_window_ns: window_ns, histograms, ..BpfSample::default() });
        }
        status(&recording, "event-loop-blocked")
    };
    let seen = |waits, window_ns| seen_beside(waits, window_ns, 0.0);
    assert_eq!(seen(2, 30 * SECOND), Status::Supported);
    assert_eq!(seen(2, SECOND), Status::Refuted, "of six pauses less than one lay in the windows: the waits are many");
    assert_eq!(seen(0, 3 * SECOND), Status::Supported);
    // Another has the CPU: of the two pauses that lay in the windows, none is a wait for it by chance once in seven times.
    assert_eq!(seen_beside(0, 3 * SECOND, 1.0), Status::Refuted);
    assert_eq!(seen_beside(0, 30 * SECOND, 1.0), Status::Supported, "of six none: it is no wait for a CPU");
}

#[test]
fn what_grew_slow_part_way_is_not_said_to_be_nothing() {
    let from = |late_ns: u64| {
        let mut build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.05, 0.0)]));
        build.seconds.extend(build.seconds.clone());
        let recording = (12..20).fold(build, |build, second| build.at(second, |s| s.response_ns = late_ns));
        diagnose(&recording.recording()).gives.unwrap()
    };
    for late_ns in [20_000_000, 1_000_000] {
        let late = from(late_ns);
        assert_ne!(late.standing, Standing::BelowItsLimit, "{late:?}");
    }
    assert_eq!(from(300_000).standing, Standing::BelowItsLimit);
}

/// Twenty connections, of which four are served and sixteen never are; the machine has so many waiting to be accepted, and
/// accepted, in each second.
fn left(waiting: impl Fn(u64) -> u32, accepted: impl Fn(u64) -> u64) -> Recording {
    let build = waiting_for_ever();
    let mut recording = with(&build, |second, s| {
        s.network.set("connections_looked_at", accepted(second) + u64::from(waiting(second)));
        s.network.set("listen_overflows", 3 * second);
        let address = "127.0.0.1:80".to_owned();
        s.listeners =
            vec![ListenerSample { address, waiting: waiting(second), backlog: 8, ..ListenerSample::default() }];
    });
    recording.courses = RunCourses::of(&recording.snapshots);
    recording
}

fn waiting_for_ever() -> Build {
    closed().with(|b| {
        b.plan.connections = 20;
        b.users = Some(Users {
            connections: 20,
            never_served: 16,
            starved: 16,
            served: 8000,
            served_max: 2000,
            jain_index: 0.2,
            ..Users::default()
        });
    })
}

#[test]
fn connections_that_are_left_in_the_queue_for_ever_are_beyond_a_limit() {
    let limit = left(|_| 16, |_| 4);
    assert_eq!(status(&limit, "connection-limit"), Status::Supported);
    let diagnosis = diagnose(&limit);
    let finding = of(&diagnosis, "connection-limit");
    assert!(finding.title.contains("serves 4 connections at a time and leaves 16 more"), "{}", finding.title);
    // That its queue is full is a consequence, and not what gives.
    let overflow = of(&diagnosis, "accept-queue-overflow");
    assert!(overflow.status != Status::Supported || overflow.because_of.contains(&"connection-limit".to_owned()));
    assert_eq!(diagnosis.gives.as_ref().unwrap().finding.as_deref(), Some("connection-limit"));
    // One that accepts slowly has more of them each second; one whose queue is empty left nobody in it.
    assert_eq!(status(&left(|second| 16 - second as u32, |second| 4 + second), "connection-limit"), Status::Refuted);
    assert_eq!(status(&left(|_| 0, |_| 20), "connection-limit"), Status::Refuted);
    // It comes to an end part-way: the queue was drained.
    assert_eq!(status(&left(|second| if second < 3 { 16 } else { 0 }, |_| 4), "connection-limit"), Status::Refuted);
}

#[test]
fn who_gave_up_in_the_queue_was_not_accepted() {
    let mut recording = left(|second| 16 + 16 * second as u32, |_| 4);
    for snapshot in &mut recording.snapshots {
        snapshot.network.set("connections_looked_at", 4 + 16);
        snapshot.network.set("connections_close_wait", u64::from(snapshot.listeners[0].waiting) - 16);
    }
    assert_eq!(status(&recording, "connection-limit"), Status::Supported);
}

#[test]
fn connections_that_wait_are_beyond_no_limit_where_all_were_served() {
    let mut recording = left(|_| 16, |_| 4);
    recording.totals.users = Some(Users { connections: 20, served: 8000, ..Users::default() });
    assert_eq!(status(&recording, "connection-limit"), Status::Refuted);
}
