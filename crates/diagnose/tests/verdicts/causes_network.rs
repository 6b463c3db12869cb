//! Causes of the path, the sockets and the kernel's network: a case where each must appear, and what looks alike and must not.

use crate::common::judged::{of, sampled, status, waiting, with};
use crate::common::{Build, SECOND, closed, open};
use diagnose::diagnose;
use model::bpf::{BpfSample, CallUse};
use model::courses::RunCourses;
use model::finding::{LossKind, Severity, Status};
use model::metrics::Metrics;
use model::request::Request;
use model::snapshot::{ListenerSample, Outgoing, Role, Snapshot, Switches};
use model::split::{Passage, SplitRequest, TickSplit};
use model::threads::{ThreadStates, ThreadTime, WaitPlace};
use model::{ErrorKind, LatencyKind, Recording};

/// Lets the target have connections to a backend, on so many of which a reply is due.
fn asks(snapshot: &mut Snapshot, open: u64, due: u64) {
    snapshot.network.set("outgoing_connections", open);
    let mut metrics = Metrics::default();
    metrics.set("established", open);
    metrics.set("unacked_segments", due);
    metrics.set("unacked_age_max_ns", 5_000_000);
    snapshot.outgoing = vec![Outgoing { remote: "10.0.0.7:5432".to_owned(), metrics }];
}

/// Sixteen requests at a time in an event loop that hardly works, each for 40 ms.
fn in_a_loop() -> Build {
    waiting().each(|s| s.target = vec![(0.05, 0.0)])
}

#[test]
fn requests_wait_for_a_slot_where_few_connections_are_all_busy_and_all_requests_are_read() {
    let asking = |open: &'static [u64], due: u64, unread: u64| {
        with(in_a_loop(), move |second, s| {
            let open = open[second as usize % open.len()];
            asks(s, open, due.min(open));
            s.network.set("receive_queue_connections", unread);
        })
    };
    let found = asking(&[4], 4, 0);
    assert_eq!(status(&found, "backend-limited"), Status::Supported);
    // Of 16 requests four are at the backend: that it takes its time is true as well, and the smaller part.
    let diagnosis = diagnose(&found);
    assert_eq!(diagnosis.first_to_give().unwrap().id, "backend-limited", "{:?}", diagnosis.gives);
    assert_eq!(status(&asking(&[2], 2, 0), "backend-wait"), Status::Refuted, "an eighth of the time is at the backend");
    assert_eq!(status(&asking(&[16], 16, 0), "backend-limited"), Status::Refuted, "a connection for each request");
    assert_eq!(status(&asking(&[6], 4, 0), "backend-limited"), Status::Supported, "a third of them is kept in reserve");
    assert_eq!(status(&asking(&[4], 1, 0), "backend-limited"), Status::Refuted, "connections stand idle");
    assert_eq!(status(&asking(&[1, 4, 2, 8], 8, 0), "backend-limited"), Status::Refuted, "they come and go");
    assert_eq!(status(&asking(&[4], 4, 12), "backend-limited"), Status::Refuted, "requests wait for a worker");
    assert_eq!(
        status(&asking(&[1], 1, 0), "backend-limited"),
        Status::NotObservable,
        "one may carry several at a time"
    );
    let full = with(in_a_loop().each(|s| s.target = vec![(0.95, 0.0)]), |_, s| asks(s, 4, 4));
    assert_eq!(status(&full, "backend-limited"), Status::Refuted, "the target is full");
    let beside_full = |remote: &'static str| {
        with(in_a_loop().each(|s| s.neighbours = [0.97, 0.0]), move |_, s| {
            asks(s, 4, 4);
            s.outgoing[0].remote = remote.to_owned();
        })
    };
    let status_beside = |remote| status(&beside_full(remote), "backend-limited");
    assert_eq!(status_beside("127.0.0.1:5432"), Status::NotObservable, "what is full may be the backend");
    assert_eq!(status_beside("10.0.0.7:5432"), Status::Supported, "the backend is on another machine");
    let alone = with(in_a_loop(), |_, s| s.network.set("outgoing_connections", 0));
    assert_eq!(status(&alone, "backend-limited"), Status::NotApplicable);
}

#[test]
fn a_tick_of_the_sockets_clock_is_no_wait_for_a_backend() {
    // A proxy in front of a backend.
    let owing = |took_ns: u64, age_ns: u64, idle_cores: f64, remote: &'static str| {
        let build = in_a_loop().each(|s| {
            (s.ok, s.response_ns, s.idle_cores) = (20_000, took_ns, idle_cores);
            s.target = vec![(0.5, 0.4); 2];
        });
        let recording = with(build, move |_, s| {
            asks(s, 16, 16);
            s.outgoing[0].remote = remote.to_owned();
            s.outgoing[0].metrics.set("unacked_age_max_ns", age_ns);
        });
        status(&recording, "backend-wait")
    };
    let (long_ns, short_ns) = (600_000, 400_000);
    assert_eq!(owing(long_ns, 4_000_000, 0.05, "127.0.0.1:80"), Status::Refuted);
    assert_eq!(owing(long_ns, 8_000_000, 0.05, "127.0.0.1:80"), Status::Supported, "two ticks");
    assert_eq!(owing(long_ns, 4_000_000, 1.0, "127.0.0.1:80"), Status::Supported, "there is room on the machine");
    assert_eq!(owing(long_ns, 4_000_000, 0.05, "10.0.0.7:80"), Status::Supported, "the backend is on another");
    // Requests that take so little wait for nobody, wherever that is and however much room there is.
    assert_eq!(owing(short_ns, 4_000_000, 1.0, "10.0.0.7:80"), Status::Refuted);
    assert_eq!(owing(short_ns, 8_000_000, 1.0, "10.0.0.7:80"), Status::Supported, "two ticks");
}

/// Cheap requests of 0.1 ms every 10 ms and a costly one of 50 ms each second, in which half a second's cheap ones wait if
/// `is_behind` says so of the millisecond they were sent at.
fn mixed(is_behind: impl Fn(u64) -> bool, target: Vec<(f64, f64)>) -> Recording {
    let mut recording = closed().each(|s| s.target = target.clone()).recording();
    let at = |ms: u64| SECOND + ms * 1_000_000;
    sampled(&mut recording, 900, |n| match n % 90 {
        0 => {
            let from_ns = at(n / 90 * 1000);
            let ended_ns = from_ns + 50_000_000;
            Request {
                entry: 1,
                ready_ns: from_ns,
                sent_ns: from_ns,
                ended_ns,
                connection: n as u32,
                ..Request::default()
            }
        }
        other => {
            let ms = n / 90 * 1000 + other * 11 % 990;
            let took_ns = if is_behind(ms % 1000) { 40_000_000 } else { 100_000 };
            Request {
                ready_ns: at(ms),
                sent_ns: at(ms),
                ended_ns: at(ms) + took_ns,
                connection: n as u32,
                ..Request::default()
            }
        }
    });
    recording
}

/// Adds slow cheap requests that lay unread for so long of their 40 ms, and ended meanwhile.
fn joined(recording: &mut Recording, unread_ms: u64) {
    let request = Request { ready_ns: SECOND, sent_ns: SECOND, ended_ns: SECOND + 40_000_000, ..Request::default() };
    let read_ns = SECOND + unread_ms * 1_000_000;
    let passage = Ok(Passage { arrived_ns: SECOND, read_ns, written_ns: SECOND + 40_000_000 });
    let sampled = (0..8).map(|key| SplitRequest { key, below: None, request, passage });
    recording.split.push(&TickSplit { sampled: sampled.collect(), ..TickSplit::default() });
}

#[test]
fn cheap_requests_wait_behind_costly_ones_only_if_they_are_slow_beside_them() {
    let is_beside = |ms: u64| ms < 40;
    let found = mixed(is_beside, vec![(0.6, 0.01)]);
    assert_eq!(status(&found, "head-of-line"), Status::Supported, "by what its thread ran");
    let elsewhere = mixed(|ms| (500..540).contains(&ms), vec![(0.6, 0.01)]);
    assert_eq!(status(&elsewhere, "head-of-line"), Status::Refuted, "slow, and not beside a costly one");
    let anywhere = mixed(|ms| ms % 20 < 10, vec![(0.6, 0.01)]);
    assert_eq!(status(&anywhere, "head-of-line"), Status::Refuted, "slow at any time");
    assert_eq!(status(&mixed(|_| false, vec![(0.6, 0.01)]), "head-of-line"), Status::Refuted, "nobody is slow");
    assert_eq!(
        status(&mixed(is_beside, vec![(0.6, 0.4)]), "head-of-line"),
        Status::Refuted,
        "it had to wait for a CPU"
    );
    assert_eq!(
        status(&mixed(is_beside, vec![(0.001, 0.0)]), "head-of-line"),
        Status::NotObservable,
        "its threads slept meanwhile, and where requests lay was not seen"
    );
    let with_split = |unread_ms| {
        let mut recording = mixed(is_beside, vec![(0.001, 0.0)]);
        joined(&mut recording, unread_ms);
        recording
    };
    assert_eq!(status(&with_split(38), "head-of-line"), Status::Supported);
    assert_eq!(status(&with_split(2), "head-of-line"), Status::Refuted, "they had been read");
    assert_eq!(status(&closed().recording(), "head-of-line"), Status::NotApplicable);
}

/// What the kernel says of sending, a second: connections busy, of that bound by the window and by the send buffer.
#[derive(Clone, Copy)]
struct Sends {
    busy: f64,
    window: f64,
    buffer: f64,
    rtt_us: u64,
    unacked: u64,
}

const SENDS: Sends = Sends { busy: 15.0, window: 0.0, buffer: 0.0, rtt_us: 100, unacked: 400 };

/// Sixteen replies at a time of which the first byte comes soon.
fn sending(build: Build, sends: Sends) -> Recording {
    let mut recording = with(build, move |second, s| {
        let ns = |busy: f64| (busy * 1e9) as u64 * second;
        s.network.set("send_busy_ns", ns(sends.busy));
        s.network.set("send_window_limited_ns", ns(sends.busy * sends.window));
        s.network.set("send_buffer_limited_ns", ns(sends.busy * sends.buffer));
        s.network.set("rtt_p50_ns", sends.rtt_us * 1000);
        s.network.set("rtt_min_p50_ns", 50_000);
        s.network.set("unacked_segments", sends.unacked);
        s.network.set("tcp_retransmits", 0);
        s.network.set("tcp_out_segments", 50_000 * second);
    });
    recording.totals.sum.latency.record_n(LatencyKind::FirstByte, 2_000_000, 4000);
    recording
}

#[test]
fn a_send_buffer_or_a_window_bounds_only_whoever_sends() {
    let found = |sends| sending(in_a_loop(), sends);
    let buffer = found(Sends { buffer: 0.6, ..SENDS });
    assert_eq!(
        (status(&buffer, "send-buffer"), status(&buffer, "receive-window")),
        (Status::Supported, Status::Refuted)
    );
    let window = found(Sends { window: 0.4, ..SENDS });
    assert_eq!(
        (status(&window, "send-buffer"), status(&window, "receive-window")),
        (Status::Refuted, Status::Supported)
    );
    for id in ["send-buffer", "receive-window"] {
        assert_eq!(status(&found(Sends { buffer: 0.05, window: 0.05, ..SENDS }), id), Status::Refuted);
        let seldom = found(Sends { busy: 2.0, buffer: 0.6, window: 0.6, ..SENDS });
        assert_eq!(status(&seldom, id), Status::Refuted, "most of the time it had nothing under way");
        let full = in_a_loop().each(|s| s.target = vec![(0.95, 0.0)]);
        assert_eq!(status(&sending(full, Sends { buffer: 0.6, window: 0.6, ..SENDS }), id), Status::Refuted);
        let mut late = found(Sends { buffer: 0.6, window: 0.6, ..SENDS });
        late.totals.sum.latency.of_mut(LatencyKind::FirstByte).reset();
        late.totals.sum.latency.record_n(LatencyKind::FirstByte, 39_000_000, 4000);
        assert_eq!(status(&late, id), Status::Refuted, "the reply begins late");
        assert_eq!(status(&in_a_loop().recording(), id), Status::NotObservable);
    }
    let busy_reader = sending(in_a_loop().each(|s| s.busy = 0.95), Sends { window: 0.4, ..SENDS });
    assert_eq!(status(&busy_reader, "receive-window"), Status::Refuted);
}

#[test]
fn a_path_is_full_where_round_trips_grow_with_what_is_under_way() {
    let found = |sends| status(&sending(in_a_loop(), sends), "path-limited");
    let queued = Sends { rtt_us: 30_000, ..SENDS };
    assert_eq!(found(queued), Status::Supported);
    assert_eq!(found(SENDS), Status::Refuted, "twice the least round trip");
    assert_eq!(found(Sends { rtt_us: 900, ..SENDS }), Status::Refuted, "less than a millisecond");
    assert_eq!(
        found(Sends { unacked: 15, ..queued }),
        Status::Refuted,
        "one segment each, as of delayed acknowledgements"
    );
    assert_eq!(found(Sends { busy: 0.3, ..queued }), Status::Refuted, "the path has room");
    assert_eq!(found(Sends { window: 0.4, ..queued }), Status::Refuted, "the window is what bounds it");
    let mut lossy = sending(in_a_loop(), queued);
    lossy.snapshots.iter_mut().enumerate().for_each(|(n, s)| s.network.set("tcp_retransmits", 5000 * n as u64));
    assert_eq!(status(&lossy, "path-limited"), Status::Refuted);
    let crowded = sending(in_a_loop().each(|s| s.idle_cores = 0.0), queued);
    assert_eq!(status(&crowded, "path-limited"), Status::Refuted, "on a full machine the ends are late");
}

/// What is late for a retransmission: one of twenty requests, by 200 ms.
fn with_late(mut recording: Recording) -> Recording {
    sampled(&mut recording, 400, |n| {
        let took_ns = if n % 20 == 0 { 200_000_000 } else { 200_000 };
        Request { ready_ns: SECOND, sent_ns: SECOND, ended_ns: SECOND + took_ns, ..Request::default() }
    });
    recording
}

#[test]
fn lost_segments_are_a_loss_though_the_target_answered_at_once() {
    let losing = |again: u64| {
        let recording = with(closed(), move |second, s| {
            s.network.set("tcp_retransmits", again * second);
            s.network.set("tcp_out_segments", 20_000 * second);
            s.network.set("connections_with_retransmits", 8);
            let histogram = model::bpf::Log2 { sum: 500_000, buckets: vec![0, 0, 0, 100] };
            let histograms = [("sockets.service_ns".to_owned(), histogram)].into();
            s.bpf = Some(BpfSample { histograms, ..BpfSample::default() });
        });
        with_late(recording)
    };
    let found = losing(400);
    assert_eq!(status(&found, "packet-loss"), Status::Supported);
    assert_eq!(of(&diagnose(&found), "packet-loss").severity, Severity::Warning);
    assert_eq!(status(&losing(1), "packet-loss"), Status::Refuted);
    let slow = |recording: &Recording| diagnose(recording).losses.iter().any(|loss| loss.kind == LossKind::Slow);
    assert_eq!((slow(&found), slow(&losing(1))), (true, false), "the kernel saw it answer at once");
}

#[test]
fn a_full_syn_queue_with_cookies_is_for_information() {
    let flooded = |dropped: u64, cookies: u64, half_open: u64, connect_ms: u64| {
        let mut recording = with(closed(), move |second, s| {
            s.network.set("syn_queue_full_drops", dropped * second);
            s.network.set("syn_queue_full_cookies", cookies * second);
            s.network.set("connections_syn_received", half_open);
        });
        recording.totals.sum.latency.record_n(LatencyKind::Connect, connect_ms * 1_000_000, 64);
        with_late(recording)
    };
    let judged = |recording: &Recording| {
        let finding = of(&diagnose(recording), "syn-queue-full").clone();
        (status(recording, "syn-queue-full"), finding.severity)
    };
    assert_eq!(judged(&flooded(50, 0, 64, 1010)), (Status::Supported, Severity::Error));
    assert_eq!(judged(&flooded(0, 50, 64, 1)), (Status::Supported, Severity::Info));
    assert_eq!(judged(&flooded(0, 0, 64, 1010)).0, Status::Refuted, "the accept queue's, or memory");
    assert_eq!(judged(&flooded(0, 50, 3, 1)).0, Status::Refuted);
    assert_eq!(status(&closed().recording(), "syn-queue-full"), Status::NotObservable);
}

#[test]
fn one_of_several_listeners_has_all_that_wait() {
    let listening = |waiting: &'static [u32]| {
        let recording = with(closed(), move |_, s| {
            let listener = |(n, waiting): (usize, &u32)| ListenerSample {
                address: "127.0.0.1:80".to_owned(),
                inode: 100 + n as u64,
                waiting: *waiting,
                backlog: 128,
                ..ListenerSample::default()
            };
            s.listeners = waiting.iter().enumerate().map(listener).collect();
        });
        with_late(recording)
    };
    assert_eq!(status(&listening(&[0, 40, 0, 0]), "accept-imbalance"), Status::Supported);
    assert_eq!(
        status(&listening(&[0, 3, 0, 0]), "accept-imbalance"),
        Status::Supported,
        "as many as a few clients leave"
    );
    assert_eq!(status(&listening(&[20, 25, 22, 21]), "accept-imbalance"), Status::Refuted, "all are slow to accept");
    assert_eq!(status(&listening(&[0, 0, 0, 0]), "accept-imbalance"), Status::Refuted);
    assert_eq!(status(&listening(&[0, 1, 0, 0]), "accept-imbalance"), Status::Refuted, "one connection");
    assert_eq!(status(&listening(&[40]), "accept-imbalance"), Status::NotApplicable);
    assert_eq!(status(&closed().recording(), "accept-imbalance"), Status::NotApplicable);
}

#[test]
fn a_herd_wakes_for_each_connection_and_is_for_information() {
    // 6400 requests a second, each on a connection of its own, in four threads.
    let seen = |a_thread: u64, empty: u64, within: u64| {
        let build = closed().with(|b| b.connected = 64_000).each(|s| s.target = vec![(0.2, 0.0); 4]);
        with(build, move |second, s| {
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            for thread in target.flat_map(|process| &mut process.threads) {
                thread.switches = Some(Switches { voluntary: a_thread * second, involuntary: 0 });
            }
            let counts = [("accepts.accepted".to_owned(), 1000), ("accepts.empty_handed".to_owned(), empty)].into();
            let calls = vec![CallUse { name: "epoll_wait".to_owned(), count: 2000, ..CallUse::default() }];
            let wait = WaitPlace { call: "epoll_wait".to_owned(), count: 500 + within / 4, ..WaitPlace::default() };
            let thread = |tid| ThreadTime { tid, waits: vec![wait.clone()], ..ThreadTime::default() };
            let threads = Some(ThreadStates {
                window_ns: SECOND,
                threads: (20..24).map(thread).collect(),
                ..ThreadStates::default()
            });
            let (window_ns, calls_window_ns) = (SECOND, SECOND);
            s.bpf = Some(BpfSample { counts, window_ns, calls_window_ns, calls, threads, ..BpfSample::default() });
        })
    };
    let woken = |a_thread: u64, empty: u64| seen(a_thread, empty, 0);
    let found = woken(6400, 2500);
    assert_eq!(status(&found, "thundering-herd"), Status::Supported);
    assert_eq!(of(&diagnose(&found), "thundering-herd").severity, Severity::Info);
    assert_eq!(status(&woken(3200, 1000), "thundering-herd"), Status::Refuted, "once a connection and once a request");
    assert_eq!(status(&woken(6400, 1000), "thundering-herd"), Status::Refuted, "each accepts until nothing is left");
    // Who comes late finds nothing in epoll itself: the call goes on waiting.
    assert_eq!(status(&seen(6400, 1000, 600), "thundering-herd"), Status::Supported);
    assert_eq!(status(&seen(6400, 1000, 400), "thundering-herd"), Status::Refuted);
    assert_eq!(status(&closed().recording(), "thundering-herd"), Status::NotApplicable);
}

#[test]
fn time_wait_matters_where_no_port_is_left() {
    let ended = |sockets: u64, refused: u64| {
        let build = closed().each(|s| s.failed = vec![(ErrorKind::Reset, 10)]);
        with(build, move |_, s| {
            s.network.set("tcp_time_wait_sockets", sockets);
            let errors_by = [("EADDRNOTAVAIL".to_owned(), refused)].into_iter().filter(|(_, n)| *n > 0).collect();
            let connect =
                CallUse { name: "connect".to_owned(), count: 100, errors: refused, errors_by, ..CallUse::default() };
            s.bpf = Some(BpfSample { calls: vec![connect], ..BpfSample::default() });
        })
    };
    assert_eq!(status(&ended(28_000, 40), "time-wait"), Status::Supported);
    assert_eq!(status(&ended(28_000, 0), "time-wait"), Status::Refuted, "many, and nobody was kept from connecting");
    assert_eq!(status(&ended(100, 40), "time-wait"), Status::Refuted, "something else has the ports");
    assert_eq!(status(&closed().recording(), "time-wait"), Status::NotObservable);
    // Where nobody counted calls: as many as there are ports, and for long.
    let judged = |failed: u64, connected: u64, sockets: fn(u64) -> u64, calls_window_ns: u64| {
        let build = closed().each(move |s| s.failed = vec![(ErrorKind::Reset, failed)]);
        let mut recording = with(build, move |second, s| {
            s.network.set("tcp_time_wait_sockets", sockets(second));
            s.bpf = Some(BpfSample { calls_window_ns, ..BpfSample::default() });
        });
        recording.totals.sum.counts.connected = connected;
        let diagnosis = diagnose(&recording);
        let finding = of(&diagnosis, "time-wait");
        (finding.status, finding.explains.map(|explains| (100.0 * explains.share).round() as u32))
    };
    let seen = |failed, connected, sockets| judged(failed, connected, sockets, 0);
    let is = |judged: (Status, Option<u32>)| judged.0;
    let stays: fn(u64) -> u64 = |second| if second < 3 { 20_000 } else { 28_233 };
    assert_eq!(
        seen(400, 8, stays),
        (Status::Supported, Some(80)),
        "of ten seconds of failures those from the third on"
    );
    assert_eq!(is(judged(400, 8, stays, SECOND)), Status::Refuted, "its calls were counted, and none failed for that");
    assert_eq!(is(seen(0, 8, stays)), Status::Refuted, "nothing failed");
    assert_eq!(is(seen(400, 8, |second| 20_000 + 900 * second)), Status::NotObservable, "their number grows");
    assert_eq!(
        is(seen(400, 8, |second| if second == 8 { 20_000 } else { 28_233 })),
        Status::NotObservable,
        "there were ports again"
    );
    assert_eq!(is(seen(400, 28_000, stays)), Status::NotObservable, "they may be those of the generator's connections");
    assert_eq!(is(seen(400, 8, |_| 100)), Status::Refuted, "few");
}

#[test]
fn tcps_memory_is_short_by_its_own_counters_and_somebody_is_late() {
    let short = |pressures: u64, pruned: u64| {
        with(closed(), move |second, s| {
            s.network.set("tcp_memory_pressures", pressures * second);
            s.network.set("tcp_pruned", pruned * second);
        })
    };
    assert_eq!(status(&with_late(short(4, 10)), "tcp-memory"), Status::Supported);
    assert_eq!(status(&with_late(short(0, 10)), "tcp-memory"), Status::Refuted, "a single socket's own limit");
    assert_eq!(status(&short(4, 10), "tcp-memory"), Status::Refuted, "nobody was late");
    assert_eq!(status(&closed().recording(), "tcp-memory"), Status::NotObservable);
}

#[test]
fn one_core_of_several_is_full_with_soft_interrupts() {
    let interrupted = |share: f64, run: f64, idle: f64| {
        with(closed().each(move |s| (s.target, s.idle_cores) = (vec![(run, 0.0)], idle)), move |second, s| {
            for core in &mut s.cores {
                core.softirq_ns = 0;
            }
            if let Some(core) = s.cores.first_mut() {
                core.softirq_ns = (share * 1e9) as u64 * second;
            }
        })
    };
    assert_eq!(status(&interrupted(0.9, 0.3, 0.9), "softirq-bound"), Status::Supported);
    assert_eq!(status(&interrupted(0.4, 0.3, 0.9), "softirq-bound"), Status::Refuted);
    assert_eq!(status(&interrupted(0.9, 0.3, 0.1), "softirq-bound"), Status::Refuted, "no other core is idle");
    assert_eq!(status(&interrupted(0.9, 0.95, 0.9), "softirq-bound"), Status::Refuted, "the target is full");
}

#[test]
fn names_are_waited_for_where_sockets_to_a_resolver_come_and_go() {
    let looking_up = |at_a_time: u64, a_second: u64| {
        with(in_a_loop(), move |second, s| {
            s.network.set("lookup_sockets", at_a_time);
            s.network.set("lookup_sockets_seen", 1 + a_second * second);
        })
    };
    assert_eq!(status(&looking_up(8, 8), "dns-wait"), Status::Supported);
    assert_eq!(status(&looking_up(1, 1), "dns-wait"), Status::Supported, "several share one that is soon another");
    assert_eq!(status(&looking_up(1, 0), "dns-wait"), Status::Refuted, "one that stays says nothing");
    let now_and_then = with(in_a_loop(), |second, s| {
        s.network.set("lookup_sockets", u64::from(second % 3 == 0));
        s.network.set("lookup_sockets_seen", 1 + second / 3);
    });
    assert_eq!(status(&now_and_then, "dns-wait"), Status::Refuted, "a fiftieth of the time");
    let few_readings = |readings: u64| {
        with(in_a_loop(), move |second, s| {
            if second >= readings {
                s.network = Default::default();
                return;
            }
            s.network.set("lookup_sockets", u64::from(second != 2));
            s.network.set("lookup_sockets_seen", 1 + second);
        })
    };
    assert_eq!(
        status(&few_readings(5), "dns-wait"),
        Status::NotObservable,
        "many may have shared what four of five found"
    );
    assert_eq!(status(&looking_up(8, 0), "dns-wait"), Status::Refuted, "a resolver's own sockets, which stay");
    assert_eq!(status(&looking_up(0, 0), "dns-wait"), Status::Refuted);
    assert_eq!(status(&in_a_loop().recording(), "dns-wait"), Status::NotObservable);
}

#[test]
fn clients_that_are_turned_away_before_they_asked_are_beyond_a_limit() {
    // Of 14 connections so many are held; others come, hear that they are too many, and go.
    let open_at = |spoke: u64, held: u64, ordinals: u64, descriptors: Option<u64>| {
        let mut build = open().each(|s| (s.response_ns, s.target) = (200_000, vec![(0.05, 0.0)]));
        build.plan.connections = 14;
        let mut recording = with(build, |second, s| {
            // One reading finds those that are about to be turned away.
            s.network.set("connections_looked_at", if second == 3 { 14 } else { held });
            let target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            target.for_each(|process| process.descriptors = descriptors);
        });
        recording.courses = RunCourses::of(&recording.snapshots);
        recording.totals.sum.connection_errors.add(ErrorKind::SpokeFirst, spoke);
        sampled(&mut recording, 400, |n| Request {
            ready_ns: SECOND + n,
            sent_ns: SECOND + n,
            ended_ns: SECOND + 200_000 + n,
            connection: (n % 10) as u32,
            ordinal: 1 + ((n / 10) % ordinals) as u32,
            ..Request::default()
        });
        recording
    };
    let turned_away = |spoke, held, ordinals| open_at(spoke, held, ordinals, None);
    let limit = turned_away(94, 10, 40);
    assert_eq!(status(&limit, "connection-limit"), Status::Supported);
    let diagnosis = diagnose(&limit);
    let title = &of(&diagnosis, "connection-limit").title;
    assert_eq!(title, "the target serves 10 connections and turns further ones away");
    assert_eq!(diagnosis.gives.as_ref().unwrap().finding.as_deref(), Some("connection-limit"), "{:?}", diagnosis.gives);
    assert_eq!(status(&turned_away(19, 10, 40), "connection-limit"), Status::Refuted, "hardly any");
    assert_eq!(status(&turned_away(94, 13, 40), "connection-limit"), Status::Refuted, "all were held");
    assert_eq!(status(&turned_away(94, 10, 2), "connection-limit"), Status::Refuted, "nobody stayed");
    // So many come again at once that all readings find nearly all: a process that holds them has more descriptors than that.
    assert_eq!(status(&open_at(94, 13, 40, Some(14)), "connection-limit"), Status::Supported);
    assert_eq!(
        status(&open_at(94, 13, 40, Some(15)), "connection-limit"),
        Status::Refuted,
        "its listener's, and all of theirs"
    );
    // Busy for long, it has those that come again in its listener's queue: established, and not held.
    let mut queued = turned_away(94, 14, 40);
    for snapshot in &mut queued.snapshots {
        snapshot.listeners = vec![ListenerSample { waiting: 4, backlog: 128, ..ListenerSample::default() }];
    }
    assert_eq!(status(&queued, "connection-limit"), Status::Supported);
}
