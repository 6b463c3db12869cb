//! `lock-contention`: who waits for whom in futex, and where that is no lock, or no news.

use super::causes_of_real_servers::{stand, waiting, with};
use crate::common::judged::{of, status};
use crate::common::{Build, SECOND};
use diagnose::diagnose;
use model::Recording;
use model::Snapshot;
use model::bpf::{BpfSample, FutexUse};
use model::finding::{Severity, Status};
use model::request::Request;
use model::snapshot::{Outgoing, Role, Runtime, SamplerState, SamplerStatus, Switches};
use model::split::{Passage, SplitRequest, TickSplit};
use model::threads::{ThreadStates, ThreadTime, Wake};

/// Four requests at a time in four threads: as many as can wait for each other.
pub fn four() -> Build {
    waiting().each(|s| (s.ok, s.in_flight, s.connections) = (100, 4, 4))
}

/// The same with what the probes saw of its waits in futex: who woke whom, how.
pub fn woken(build: &Build, wakes: &[(u32, &str, u32)], futexes: &[FutexUse]) -> Recording {
    let thread = |tid| ThreadTime { tid, alive_ns: SECOND, ..ThreadTime::default() };
    let wake = |(tid, by, waker_tid): &(u32, &str, u32)| Wake {
        tid: *tid,
        state: "futex".to_owned(),
        by: (*by).to_owned(),
        waker_tid: *waker_tid,
        count: 50,
        ns: 700_000_000,
        ..Wake::default()
    };
    let states = ThreadStates {
        window_ns: SECOND,
        threads: (20..24).map(thread).collect(),
        wakes: wakes.iter().map(wake).collect(),
        ..ThreadStates::default()
    };
    with(build, |_, s| {
        let bpf = BpfSample { calls_window_ns: SECOND, window_replies: 400, ..BpfSample::default() };
        s.bpf = Some(BpfSample { threads: Some(states.clone()), futexes: futexes.to_vec(), ..bpf });
        stand(s, "futex_do_wait");
    })
}

/// One of the four that stand in futex has what the others wait for, another one at each reading.
pub fn take_turns(recording: &mut Recording) {
    for (second, snapshot) in recording.snapshots.iter_mut().enumerate() {
        let threads = snapshot.processes.iter_mut().flat_map(|process| &mut process.threads);
        for thread in threads.filter(|thread| thread.tid == 20 + second as u32 % 4) {
            let stands = thread.stands.as_mut().unwrap();
            (stands.wchan, stands.is_running, stands.sleeps, thread.state) = (None, true, false, 'R');
        }
    }
}

#[test]
fn a_lock_that_parks_each_thread_at_an_address_of_its_own_is_one_all_the_same() {
    // A monitor: each waits at its own futex, and the one that leaves wakes the next.
    let own = |address| FutexUse { address, waiters: 1, count: 50, ns: 700_000_000, ..FutexUse::default() };
    let each = [own(1), own(2), own(3), own(4)];
    let ring = [(20, "thread", 23), (21, "thread", 20), (22, "thread", 21), (23, "thread", 22)];
    let monitor = woken(&four(), &ring, &each);
    assert_eq!(status(&monitor, "lock-contention"), Status::Supported);
    let diagnosis = diagnose(&monitor);
    let text = &of(&diagnosis, "lock-contention").because[0].text;
    assert!(text.contains("4 threads woke each other"), "{text}");
    // One hands out work, and nobody wakes it from a futex.
    let handed_out = woken(&four(), &[(21, "thread", 20), (22, "thread", 20), (23, "thread", 20)], &each);
    assert_eq!(status(&handed_out, "lock-contention"), Status::Refuted);
}

#[test]
fn a_lock_is_for_information_where_no_core_is_left() {
    let ring = [(20, "thread", 23), (21, "thread", 20), (22, "thread", 21), (23, "thread", 22)];
    let severity = |recording: &Recording| of(&diagnose(recording), "lock-contention").severity;
    let recording = woken(&four(), &ring, &[FutexUse::default()]);
    assert_eq!(severity(&recording), Severity::Error);
    let target = recording.snapshots[0].processes.iter().find(|process| process.role == Role::Target).unwrap();
    let check = of(&diagnose(&recording), "lock-contention").check_yourself.clone();
    assert!(check.contains(&format!("-p {};", target.pid)) && !check.contains("PID"), "{check}");
    let used = |cores| four().each(move |s| s.target_summed = Some(cores));
    let mut full = woken(&used(1.2), &ring, &[FutexUse::default()]);
    for (second, snapshot) in full.snapshots.iter_mut().enumerate() {
        let cpu = snapshot.cpu.as_mut().unwrap();
        (cpu.idle_ns, cpu.user_ns) = (0, 2 * SECOND * second as u64);
    }
    assert_eq!(severity(&full), Severity::Info);
    // Nearly full, and whoever holds the lock waits for a CPU longer than it runs.
    let nearly = |waits: f64, idle_of_100: u64| {
        let build = four().each(move |s| {
            s.target.iter_mut().for_each(|(run, wait)| *wait = waits * *run);
            s.target_summed = Some(1.2);
        });
        let mut nearly = woken(&build, &ring, &[FutexUse::default()]);
        for (second, snapshot) in nearly.snapshots.iter_mut().enumerate() {
            let (cpu, elapsed) = (snapshot.cpu.as_mut().unwrap(), 2 * SECOND * second as u64);
            (cpu.idle_ns, cpu.user_ns) = (elapsed / 100 * idle_of_100, elapsed / 100 * (100 - idle_of_100));
        }
        severity(&nearly)
    };
    assert_eq!(nearly(1.2, 22), Severity::Info);
    assert_eq!(nearly(0.8, 22), Severity::Error, "they ran for longer than they waited");
    assert_eq!(nearly(1.2, 30), Severity::Error, "cores stand idle");
    // Others have the cores: that makes its lock no better.
    let mut others = woken(&used(0.1), &ring, &[FutexUse::default()]);
    for (second, snapshot) in others.snapshots.iter_mut().enumerate() {
        let cpu = snapshot.cpu.as_mut().unwrap();
        (cpu.idle_ns, cpu.user_ns) = (0, 2 * SECOND * second as u64);
    }
    assert_eq!(severity(&others), Severity::Error);
}

#[test]
fn threads_that_one_gives_work_to_wait_for_no_lock_though_at_one_futex() {
    let pool = FutexUse { address: 1, waiters: 3, count: 50, ns: 2_100_000_000, ..FutexUse::default() };
    let given = [(21, "thread", 20), (22, "thread", 20), (23, "thread", 20)];
    assert_eq!(status(&woken(&waiting(), &given, std::slice::from_ref(&pool)), "lock-contention"), Status::Refuted);
    let ring = [(20, "thread", 23), (21, "thread", 20), (22, "thread", 21), (23, "thread", 22)];
    assert_eq!(status(&woken(&waiting(), &ring, &[pool]), "lock-contention"), Status::Supported);
}

#[test]
fn a_wait_that_its_own_time_limit_ends_is_a_sleep_and_no_lock() {
    let timed = FutexUse { address: 1, waiters: 4, count: 3, ns: 3_000, ..FutexUse::default() };
    let slept = woken(
        &waiting(),
        &[(20, "interrupt", 0), (21, "interrupt", 0), (22, "interrupt", 0), (23, "interrupt", 0)],
        &[timed],
    );
    assert_eq!(status(&slept, "lock-contention"), Status::Refuted);
    assert_eq!(status(&slept, "pool-exhausted"), Status::Supported);
    // Of two that sleep the others, which hand out work and wait for it, are none.
    let two = woken(
        &waiting(),
        &[(20, "interrupt", 0), (21, "interrupt", 0), (22, "thread", 20), (23, "thread", 21)],
        std::slice::from_ref(&FutexUse::default()),
    );
    assert!(
        of(&diagnose(&two), "pool-exhausted").title.starts_with("all 2 workers"),
        "{:#?}",
        of(&diagnose(&two), "pool-exhausted")
    );
    // Woken by somebody else, they waited for that: no sleep.
    let handed_out = woken(&waiting(), &[(21, "thread", 20), (22, "thread", 20), (23, "thread", 20)], &[]);
    assert_eq!(status(&handed_out, "pool-exhausted"), Status::Refuted);
}

#[test]
fn where_several_sleep_by_their_own_time_limits_the_others_that_stand_in_futex_have_no_lock() {
    let of_four = |sleepers: usize| {
        let wakes: Vec<(u32, &str, u32)> = (20..24)
            .map(|tid| if tid < 20 + sleepers as u32 { (tid, "interrupt", 0) } else { (tid, "thread", 99) })
            .collect();
        let mut recording = woken(&waiting(), &wakes, &[]);
        // Their calls were not counted: where they stand is all that is known.
        for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
            (bpf.calls_window_ns, bpf.window_replies) = (0, 0);
        }
        take_turns(&mut recording);
        status(&recording, "lock-contention")
    };
    assert_eq!([of_four(2), of_four(3)], [Status::Refuted; 2]);
    assert_eq!(of_four(1), Status::Supported, "one that sleeps may be who has it");
}

#[test]
fn calls_that_nobody_counted_refute_no_lock() {
    // The light probes have windows, in which system calls are not counted: by default no wait in futex is known but by readings.
    let mut recording = woken(&four(), &[], &[]);
    for bpf in recording.snapshots.iter_mut().filter_map(|snapshot| snapshot.bpf.as_mut()) {
        bpf.threads = None;
    }
    take_turns(&mut recording);
    assert_eq!(status(&recording, "lock-contention"), Status::Refuted, "counted, and none was made");
    let calls = |status| SamplerStatus { name: "bpf/syscalls".to_owned(), status, reason: "costs more".to_owned() };
    recording.samplers.push(calls(SamplerState::Disabled));
    assert_eq!(status(&recording, "lock-contention"), Status::Supported);
    recording.samplers.last_mut().unwrap().status = SamplerState::Active;
    assert_eq!(status(&recording, "lock-contention"), Status::Refuted);
}

#[test]
fn without_a_window_who_stands_alone_in_futex_with_a_time_limit_sleeps() {
    let of_four = |sleepers: u32| {
        let mut recording = with(&waiting(), |_, s| stand(s, "futex_do_wait"));
        take_turns(&mut recording);
        for snapshot in &mut recording.snapshots {
            let threads = snapshot.processes.iter_mut().flat_map(|process| &mut process.threads);
            for thread in threads.filter(|thread| (20..20 + sleepers).contains(&thread.tid)) {
                let stands = thread.stands.as_mut().unwrap();
                stands.sleeps = !stands.is_running;
            }
        }
        let diagnosis = diagnose(&recording);
        (of(&diagnosis, "lock-contention").status, of(&diagnosis, "pool-exhausted").status)
    };
    assert_eq!(of_four(4), (Status::Refuted, Status::Supported), "a pool whose workers sleep");
    assert_eq!(of_four(2), (Status::Refuted, Status::Supported), "the other two hand out work");
    // A monitor of the JVM has one of those that wait for it look again by itself; here it never waits otherwise, so that its own turns
    // are nobody's.
    assert_eq!(of_four(1), (Status::NotObservable, Status::Refuted));
    assert_eq!(of_four(0), (Status::Supported, Status::Refuted));
}

#[test]
fn threads_that_stand_in_futex_and_leave_it_for_few_of_the_requests_are_at_no_lock() {
    // A compiler's threads ran for more of the time than those that serve, and stood where these wait for work.
    let judged = |leaves: u64| {
        let mut recording = with(&waiting(), |second, s| {
            stand(s, "futex_do_wait");
            let of_target = s.processes.iter_mut().filter(|process| process.role == Role::Target);
            for thread in of_target.flat_map(|process| &mut process.threads) {
                thread.switches = Some(Switches { voluntary: second * leaves, involuntary: 0 });
            }
        });
        take_turns(&mut recording);
        status(&recording, "lock-contention")
    };
    assert_eq!(judged(100), Status::Supported, "400 times a second, with 400 requests");
    assert_eq!(judged(40), Status::Refuted);
}

#[test]
fn without_a_window_a_lock_is_one_that_somebody_has_and_all_have_a_request() {
    let judged = |build: &Build, turns: bool, change: &dyn Fn(usize, &mut Snapshot)| {
        let mut recording = with(build, |_, s| stand(s, "futex_do_wait"));
        if turns {
            take_turns(&mut recording);
        }
        recording.snapshots.iter_mut().enumerate().for_each(|(second, s)| change(second, s));
        status(&recording, "lock-contention")
    };
    let nothing = |_: usize, _: &mut Snapshot| {};
    assert_eq!(judged(&waiting(), true, &nothing), Status::Supported);
    assert_eq!(
        judged(&waiting(), false, &nothing),
        Status::NotObservable,
        "whoever has it may wait in poll(2), or nobody"
    );
    let one = waiting().each(|s| (s.ok, s.in_flight, s.connections) = (30, 1, 1));
    assert_eq!(judged(&one, true, &nothing), Status::Refuted, "a request, and a thread that has it");
    assert_eq!(judged(&one, false, &nothing), Status::Refuted, "a request, and four that wait: for work");
    let go = |_: usize, s: &mut Snapshot| {
        let targets = s.processes.iter_mut().filter(|process| process.role == Role::Target);
        targets.for_each(|process| process.runtime = Some(Runtime::Go));
    };
    assert_eq!(judged(&waiting(), true, &go), Status::Refuted, "its idle threads stand in futex");
    // A runtime's idle threads stand in futex, while one waits for events and one runs now and then.
    let events = |second: usize, s: &mut Snapshot| {
        let threads = s.processes.iter_mut().flat_map(|process| &mut process.threads);
        for thread in threads.filter(|thread| thread.stands.as_ref().is_some_and(|stands| stands.is_running)) {
            let stands = thread.stands.as_mut().unwrap();
            (stands.wchan, stands.is_running) = (Some("ep_poll".to_owned()), false);
            if second.is_multiple_of(2) {
                (stands.wchan, stands.is_running) = (None, true);
            }
        }
    };
    assert_eq!(judged(&waiting(), true, &events), Status::NotObservable, "half of the readings say so");
    // Ruby's threads sleep in poll(2): so does whoever has the lock, where each request has a thread.
    let standing = |wchan: &'static str| {
        move |_: usize, s: &mut Snapshot| {
            let threads = s.processes.iter_mut().flat_map(|process| &mut process.threads);
            for stands in threads.filter_map(|thread| thread.stands.as_mut()).filter(|stands| stands.is_running) {
                (stands.wchan, stands.is_running) = (Some(wchan.to_owned()), false);
            }
        }
    };
    let polling = |in_flight: u64, wchan: &'static str| {
        let build =
            waiting().each(move |s| (s.ok, s.in_flight, s.connections) = (in_flight * 25, in_flight, in_flight));
        judged(&build, true, &standing(wchan))
    };
    assert_eq!(polling(4, "poll_schedule_timeout.constprop.0"), Status::Supported);
    assert_ne!(polling(4, "ep_poll"), Status::Supported, "an event loop's");
    assert_ne!(polling(16, "poll_schedule_timeout.constprop.0"), Status::Supported, "most requests are elsewhere");
    let asks = |_: usize, s: &mut Snapshot| {
        let mut due = Outgoing { remote: "127.0.0.1:5432".to_owned(), ..Outgoing::default() };
        due.metrics.set("awaiting", 3);
        s.outgoing.push(due);
    };
    assert_eq!(judged(&waiting(), true, &asks), Status::Refuted, "they wait for whom the target asks");
}

#[test]
fn threads_wait_for_a_lock_only_where_requests_are_in_their_hands() {
    let ring = [(20, "thread", 23), (21, "thread", 20), (22, "thread", 21), (23, "thread", 22)];
    let in_hand = |ms: u64| {
        let mut recording = woken(&four(), &ring, &[FutexUse::default()]);
        let split = |n: u64| {
            let sent_ns = SECOND + n * 30_000_000;
            let request = Request {
                intended_ns: sent_ns,
                ready_ns: sent_ns,
                sent_ns,
                ended_ns: sent_ns + 40_000_000,
                ..Request::default()
            };
            let (arrived_ns, written_ns) = (sent_ns + 10_000, sent_ns + 39_000_000);
            let passage = Ok(Passage { arrived_ns, read_ns: written_ns - ms * 1_000_000, written_ns });
            SplitRequest { key: n, below: None, request, passage }
        };
        recording.split.push(&TickSplit { sampled: (0..100).map(split).collect(), ..TickSplit::default() });
        recording
    };
    assert_eq!(status(&in_hand(38), "lock-contention"), Status::Supported);
    assert_eq!(status(&in_hand(1), "lock-contention"), Status::Refuted, "they lay unread: the threads idle");
    // 2.8 threads wait at a time: with 1.6 requests in hand for a lock, with 1.3 the rest of them idle.
    assert_eq!(status(&in_hand(16), "lock-contention"), Status::Supported);
    assert_eq!(status(&in_hand(13), "lock-contention"), Status::Refuted, "more wait than have a request");
    // Where none was split: 2.8 of the 2.4 requests that are there may wait for one, of 2.0 not.
    let in_target = |ok: u64| woken(&four().each(move |s| s.ok = ok), &ring, &[FutexUse::default()]);
    assert_eq!(status(&in_target(60), "lock-contention"), Status::Supported);
    assert_eq!(status(&in_target(50), "lock-contention"), Status::Refuted, "more wait than there are");
    let few = woken(&four().each(|s| s.ok = 20), &ring, &[FutexUse::default()]);
    assert_eq!(status(&few, "lock-contention"), Status::Refuted, "less than one request at a time");
}
