//! Threads that wait and work on nothing: sleepers that are a pool and those that are none, locks of files; what explains so little
//! of all waiting that it is not what gives; shares of a loss that are counted; and waits for what another client asks.

use crate::common::judged::{of, one_of_all, sampled, status, waiting, with};
use crate::common::stalled::paused;
use crate::common::{Build, SECOND, closed};
use diagnose::diagnose;
use model::LatencyKind;
use model::bpf::{BpfSample, CallUse, Log2};
use model::finding::{Explains, LossKind, Severity, Standing, Status, ValidityState};
use model::recording::Timeline;
use model::request::{IntervalRequests, Request, RequestEnd};
use model::snapshot::{ListenerSample, Role, Stands, ThreadSample};
use model::threads::{ThreadStates, ThreadTime, WaitPlace};
use model::users::Users;
use model::{ErrorKind, Recording};

const MS: u64 = 1_000_000;

fn stand(thread: &mut ThreadSample, wchan: &str) {
    (thread.state, thread.stands) = ('S', Some(Stands { wchan: Some(wchan.to_owned()), ..Stands::default() }));
}

/// Sixteen requests at a time, 400 a second and as many that fail at once; the first four of sixteen threads work, and all sleep that are
/// `asleep`; one more works and waits for events.
fn sleeping(asleep: usize) -> Recording {
    let build = waiting().each(|s| {
        s.target = [vec![(0.01, 0.0); 4], vec![(0.0001, 0.0); 12], vec![(0.01, 0.0)]].concat();
        s.failed = vec![(ErrorKind::Reset, 400)];
    });
    with(build, |_, s| {
        let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
        for (at, thread) in target.flat_map(|process| &mut process.threads).enumerate() {
            let wchan = if at < asleep { "hrtimer_nanosleep" } else { "do_epoll_wait" };
            stand(thread, wchan);
        }
    })
}

#[test]
fn threads_that_sleep_are_a_pool_where_requests_are_more_than_they_are() {
    let diagnosis = diagnose(&sleeping(4));
    let pool = of(&diagnosis, "pool-exhausted");
    assert_eq!(pool.status, Status::Supported, "{pool:#?}");
    assert!(pool.title.starts_with("all 4 workers"), "who waits for events is none: {}", pool.title);
    // Of those that failed it is not known how long they were there.
    assert!(pool.because.iter().any(|piece| piece.text.starts_with("16.0 requests were in the target")), "{pool:#?}");
    // As many sleep as there are requests: each has its own, and asks for something again and again.
    assert_eq!(status(&sleeping(16), "pool-exhausted"), Status::Refuted);
    assert_eq!(status(&sleeping(10), "pool-exhausted"), Status::Supported);
    assert_eq!(status(&sleeping(11), "pool-exhausted"), Status::Refuted);
}

#[test]
fn the_lock_of_a_file_is_one_by_the_probes_and_by_where_threads_stand() {
    let standing = |in_lock: usize| {
        with(waiting(), |_, s| {
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            for (at, thread) in target.flat_map(|process| &mut process.threads).enumerate() {
                let wchan = if at < in_lock { "locks_lock_inode_wait" } else { "hrtimer_nanosleep" };
                stand(thread, wchan);
            }
        })
    };
    let seen = standing(3);
    let diagnosis = diagnose(&seen);
    let lock = of(&diagnosis, "lock-contention");
    assert_eq!((lock.status, lock.severity), (Status::Supported, Severity::Warning), "{lock:#?}");
    // Three of four, of the time in which they do not run.
    assert!(lock.title.contains("the lock of a file, 74 % of the time"), "{}", lock.title);
    assert_eq!(status(&seen, "pool-exhausted"), Status::Refuted, "more of them would wait for it, too");
    assert_eq!(status(&standing(1), "lock-contention"), Status::Refuted);
    // Of its life in the windows without waits for work each waited for some milliseconds of 500.
    let waited = |ms: u64| {
        let mut recording = standing(0);
        let wait = WaitPlace { call: "fcntl".to_owned(), ns: ms * 1_000_000, ..WaitPlace::default() };
        let ns = [("poll".to_owned(), SECOND / 2)].into();
        let row = ThreadTime { pid: 20, alive_ns: SECOND, ns, waits: vec![wait], ..ThreadTime::default() };
        let threads = (20..24).map(|tid| ThreadTime { tid, ..row.clone() }).collect();
        let states = ThreadStates { window_ns: SECOND, threads, ..ThreadStates::default() };
        for snapshot in &mut recording.snapshots {
            snapshot.bpf = Some(BpfSample { threads: Some(states.clone()), ..BpfSample::default() });
        }
        recording
    };
    let diagnosis = diagnose(&waited(110));
    let lock = of(&diagnosis, "lock-contention");
    assert_eq!((lock.status, lock.severity), (Status::Supported, Severity::Error), "{lock:#?}");
    assert!(lock.title.contains("22 % of the time"), "{}", lock.title);
    assert_eq!(status(&waited(90), "lock-contention"), Status::Refuted);
}

/// Sixteen requests at a time wait in the target, and of a sample of 400 so many had to connect for a second.
fn waiting_and_connecting(build: Build, late: u64) -> Recording {
    let mut recording = with(build, |second, s| {
        s.network.set("listen_overflows", second);
        let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
        target.flat_map(|process| &mut process.threads).for_each(|thread| stand(thread, "ep_poll"));
    });
    for (ns, count) in [(100_000, 8), (SECOND, late)] {
        recording.totals.sum.latency.record_n(LatencyKind::Connect, ns, count);
    }
    let request = |n: u64| {
        let sent_ns = if n < late { 2 * SECOND } else { SECOND };
        let (connect_ns, ordinal) = if n < late { (SECOND, 1) } else { (1, 2) };
        Request { ready_ns: SECOND, sent_ns, ended_ns: sent_ns + 40_000_000, connect_ns, ordinal, ..Request::default() }
    };
    sampled(&mut recording, 400, request);
    recording
}

#[test]
fn what_explains_a_small_part_is_not_what_gives_first() {
    let first = |late: u64| diagnose(&waiting_and_connecting(waiting(), late)).gives.unwrap();
    // A second of 17.
    let small = first(1);
    assert_eq!((small.standing, small.finding.as_deref()), (Standing::Unexplained, None));
    assert!(small.text.starts_with("requests were 39.9 ms in the target"), "{}", small.text);
    assert!(small.text.contains("a small part is another matter: the target accepts too slowly"), "{}", small.text);
    assert!(small.text.ends_with("(about 5.9 % of the time requests waited)"), "{}", small.text);
    // Of a result that is none the rest may be the generator's, and what is known of the target stands first.
    let disturbed = diagnose(&waiting_and_connecting(waiting().at(5, |s| s.wall_step_ns = 3_600_000_000_000), 1));
    assert_eq!(disturbed.validity.state, ValidityState::NotValid);
    assert_eq!(disturbed.gives.unwrap().finding.as_deref(), Some("accept-queue-overflow"));
    // Eight of 24: they are a loss of their own.
    let large = first(8);
    assert_eq!(large.finding.as_deref(), Some("accept-queue-overflow"));
    assert!(large.text.contains("nearly all of the slow requests' time"), "{}", large.text);
}

/// What a finding explains: of which loss, and how much of it in hundredths.
fn explained(recording: &Recording, id: &str) -> (LossKind, u32) {
    let diagnosis = diagnose(recording);
    let finding = of(&diagnosis, id);
    let Some(Explains { of, share, low, high }) = finding.explains else { panic!("{finding:#?}") };
    assert!(finding.status == Status::Supported && low <= share && share <= high, "{finding:#?}");
    (of, (share * 100.0).round() as u32)
}

#[test]
fn of_failures_those_are_counted_that_a_cause_makes() {
    // Eight requests a second are cut off, for five seconds, and twenty have no answer; then all threads wait for events, and eight a
    // second have none.
    let build = closed().each(|s| (s.target, s.failed) = (vec![(0.3, 0.0)], vec![(ErrorKind::Reset, 8)]));
    let build = build.at(2, |s| s.failed.push((ErrorKind::ReplyTimeout, 20)));
    let build = (5..10).fold(build, |build, at| {
        build.at(at, |s| (s.target, s.failed) = (vec![(0.0, 0.0)], vec![(ErrorKind::ReplyTimeout, 8)]))
    });
    let stuck = with(build, |second, s| {
        s.network.set("receive_queue_connections", if second > 5 { 8 } else { 0 });
        let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
        for thread in target.flat_map(|process| &mut process.threads) {
            stand(thread, "do_epoll_wait");
            thread.stands.as_mut().unwrap().is_running = second <= 5;
        }
    });
    assert_eq!(explained(&stuck, "lost-wakeup"), (LossKind::Failed, 40));

    // Of the ten seconds the probes saw one, and in it so many connects had no port; a hundred requests failed in all.
    let without_ports = |refused: u64| {
        let build = closed().each(|s| s.failed = vec![(ErrorKind::Reset, 10)]);
        with(build, move |_, s| {
            s.network.set("tcp_time_wait_sockets", 28_000);
            let errors_by = [("EADDRNOTAVAIL".to_owned(), refused)].into();
            let connect =
                CallUse { name: "connect".to_owned(), count: 100, errors: refused, errors_by, ..CallUse::default() };
            s.bpf = Some(BpfSample { calls: vec![connect], calls_window_ns: SECOND, ..BpfSample::default() });
        })
    };
    assert_eq!(explained(&without_ports(4), "time-wait"), (LossKind::Failed, 40));
    assert_eq!(explained(&without_ports(40), "time-wait"), (LossKind::Failed, 100));
}

#[test]
fn of_failures_at_a_full_listener_those_are_counted_that_were_never_taken() {
    // Of four three were the first on their connection and got nothing; the others had been served before.
    let build = closed().each(|s| s.failed = vec![(ErrorKind::Reset, 2)]);
    let mut full = with(build, |second, s| {
        s.network.set("listen_overflows", 10 * second);
        s.listeners = vec![ListenerSample { waiting: 9, backlog: 8, ..ListenerSample::default() }];
    });
    let mut tick = IntervalRequests::default();
    for key in 0..20 {
        let request = Request {
            end: RequestEnd::Failed(ErrorKind::Reset),
            ordinal: if key % 4 < 3 { 1 } else { 9 },
            ..Request::default()
        };
        tick.failed.offer(1000, one_of_all(key, request));
    }
    full.requests.push(0, 20, &tick);
    assert_eq!(explained(&full, "accept-queue-overflow"), (LossKind::Failed, 75));
    // Of twelve that starved three had been served, and nine waited at the listener at once.
    let mut starved = full.clone();
    starved.totals.sum.errors = Default::default();
    starved.totals.sum.counts.failed = 0;
    starved.totals.users = Some(Users { connections: 64, starved: 12, never_served: 6, ..Users::default() });
    assert_eq!(explained(&starved, "accept-queue-overflow"), (LossKind::Starved, 75));
    // Where all of them were taken, and hardly answered, the queue has nothing of that.
    starved.totals.users = Some(Users { connections: 64, starved: 12, served_min: 1, ..Users::default() });
    starved.snapshots.iter_mut().for_each(|snapshot| snapshot.listeners.iter_mut().for_each(|one| one.waiting = 0));
    starved.totals.sum.latency.of_mut(LatencyKind::Connect).record_n(1_030_000_000, 5);
    let diagnosis = diagnose(&starved);
    let overflow = of(&diagnosis, "accept-queue-overflow");
    assert_eq!(overflow.status, Status::Supported);
    assert!(overflow.explains.is_none_or(|explains| explains.of != LossKind::Starved), "{overflow:#?}");
}

#[test]
fn of_slow_requests_those_are_counted_that_waited_for_a_time_out_of_a_segment() {
    // A tenth of a thousand requests is late: half of those by 210 ms, the others by 7.
    let losing = |again_a_second: u64| {
        let mut recording = with(closed(), move |second, s| {
            s.network.set("tcp_retransmits", again_a_second * second);
            s.network.set("tcp_out_segments", 2_000 * second);
            s.network.set("connections_with_retransmits", 8);
        });
        sampled(&mut recording, 1000, |n| {
            // One more waits for the connection of one that is late.
            let queued_ns = if n % 20 == 1 { 200_000_000 } else { 0 };
            let took_ms = match n % 20 {
                0 => 210,
                10 => 7,
                _ => 0,
            };
            let sent_ns = SECOND + queued_ns;
            let ended_ns = sent_ns + 200_000 + took_ms * 1_000_000;
            Request { ready_ns: SECOND, sent_ns, ended_ns, ..Request::default() }
        });
        recording
    };
    assert_eq!(explained(&losing(40), "packet-loss"), (LossKind::Slow, 97), "210 of 217");
    assert_eq!(of(&diagnose(&losing(40)), "packet-loss").title, "2.0 % of the segments are lost on the way");
    // Of fifty no more than thirty can have waited for one.
    assert_eq!(explained(&losing(3), "packet-loss"), (LossKind::Slow, 58));
}

#[test]
fn a_handshake_has_as_much_of_the_time_as_requests_waited_for_one() {
    // Each request of 16 at a time comes first on its connection: 30 ms to set that up, and 10 for the reply, in one thread that is full.
    let signing = |full: u64, run: f64| {
        let build = waiting().with(|b| b.connected = 4000).each(|s| s.target = vec![(run, 0.0)]);
        let mut recording = build.recording();
        recording.totals.sum.counts.handshakes_full = full;
        sampled(&mut recording, 400, |n| {
            let ready_ns = SECOND + n * 1_000_000;
            let (sent_ns, ended_ns) = (ready_ns + 30_000_000, ready_ns + 40_000_000);
            Request { ready_ns, connect_ns: ready_ns, sent_ns, ended_ns, ordinal: 1, ..Request::default() }
        });
        recording
    };
    let found = signing(4000, 0.97);
    assert_eq!(status(&found, "tls-handshake-bound"), Status::Supported);
    assert_eq!(status(&signing(400, 0.97), "tls-handshake-bound"), Status::Refuted, "one for ten requests");
    assert_eq!(status(&signing(4000, 0.3), "tls-handshake-bound"), Status::Refuted, "its CPU is free");
    assert_eq!(status(&signing(0, 0.97), "tls-handshake-bound"), Status::NotApplicable);
}

/// Pauses of 80 ms each second, and requests of others in five seconds of windows: so many, each so long.
fn others(requests: u64, took_ns: u64) -> Recording {
    others_beside(80, requests, took_ns)
}

/// The same with pauses of so many milliseconds.
fn others_beside(pause_ms: u64, requests: u64, took_ns: u64) -> Recording {
    let mut recording = paused(&[1000, 2000, 3000, 4000, 5000, 6000], pause_ms, 1);
    for snapshot in &mut recording.snapshots {
        let mut bpf = BpfSample { window_ns: 5 * SECOND, ..BpfSample::default() };
        bpf.counts.insert("sockets.others_requests".to_owned(), requests);
        let mut buckets = vec![0; 65 - took_ns.leading_zeros() as usize];
        *buckets.last_mut().unwrap() = requests;
        let histogram = Log2 { sum: requests * took_ns, buckets };
        bpf.histograms.insert("sockets.others_service_ns".to_owned(), histogram);
        snapshot.bpf = Some(bpf);
    }
    recording
}

/// The same recording with the probes' windows in these seconds.
fn in_windows(mut seen: Recording, seconds: &[usize]) -> Recording {
    let rows = seen.timeline.rows().to_vec();
    seen.timeline = Timeline::default();
    for (second, mut row) in rows.into_iter().enumerate() {
        row.in_window = seconds.contains(&second);
        seen.timeline.push(row);
    }
    seen
}

#[test]
fn another_client_that_asks_much_may_be_a_victim() {
    let with_quick = |long: u64, quick: u64, windows: &[usize]| {
        let mut recording = in_windows(others(long, 80 * MS), windows);
        for snapshot in &mut recording.snapshots {
            let bpf = snapshot.bpf.as_mut().unwrap();
            *bpf.counts.get_mut("sockets.others_requests").unwrap() += quick;
            // A millisecond each.
            bpf.histograms.get_mut("sockets.others_service_ns").unwrap().buckets[20] += quick;
        }
        status(&recording, "neighbour-request")
    };
    assert_eq!(with_quick(2, 0, &[]), Status::Supported);
    assert_eq!(with_quick(3, 12, &[]), Status::NotObservable);
    assert_eq!(with_quick(3, 12, &[1, 3, 5, 7, 9]), Status::Supported, "five may have begun before their windows");
    assert_eq!(
        with_quick(2, 400, &[]),
        Status::NotObservable,
        "one in most pauses, as it always has a request under way"
    );
}

#[test]
fn another_clients_request_is_to_blame_where_it_takes_as_long_as_a_pause() {
    let found = others(2, 80 * MS);
    assert_eq!(status(&found, "neighbour-request"), Status::Supported);
    let diagnosis = diagnose(&found);
    let blocked = of(&diagnosis, "event-loop-blocked");
    assert!(blocked.because_of.contains(&"neighbour-request".to_owned()), "{blocked:#?}");
    assert_eq!(status(&others(1, 80 * MS), "neighbour-request"), Status::Refuted, "one may be a victim");
    assert_eq!(status(&others(50, MS), "neighbour-request"), Status::Refuted, "theirs are quick");
    assert_eq!(status(&others(50, 80 * MS), "neighbour-request"), Status::Refuted, "theirs stall with ours");
    assert_eq!(status(&others(0, MS), "neighbour-request"), Status::Refuted, "there are none");
    let calm = paused(&[], 0, 1);
    assert_eq!(status(&calm, "neighbour-request"), Status::Refuted);
    // The only window was before any pause, or where they were.
    assert_eq!(status(&in_windows(others(0, MS), &[0]), "neighbour-request"), Status::NotObservable);
    assert_eq!(status(&in_windows(others(0, MS), &[1, 2, 3, 4, 5]), "neighbour-request"), Status::Refuted);
    // A window that is hardly longer than a pause sees hardly one whole.
    let long = |seconds: &[usize]| status(&in_windows(others_beside(900, 1, 900 * MS), seconds), "neighbour-request");
    assert_eq!(long(&[1, 2, 3, 4, 5]), Status::Refuted, "one window");
    assert_eq!(long(&[1, 2, 4, 5, 7]), Status::NotObservable, "three");
    assert_eq!(status(&paused(&[1000, 2000, 3000, 4000], 80, 1), "neighbour-request"), Status::NotObservable);
}
