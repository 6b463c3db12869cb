//! After warm-up the worker's loop does not allocate: counted by an allocator that watches the worker's thread.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

mod common;

use common::*;
use engine::{Fleet, Message, driver};
use model::plan::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Counting;

/// The thread that is watched; 0: none.
static WATCHED: AtomicU32 = AtomicU32::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let watched = WATCHED.load(Ordering::Relaxed);
        if watched != 0 && rustix::thread::gettid().as_raw_nonzero().get() as u32 == watched {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(mut plan: Plan, kind: DriverKind) -> Option<u64> {
    if kind == DriverKind::Uring
        && let Err(why) = driver::uring::available()
    {
        testkit::skip(&format!("no io_uring: {why}"));
        return None;
    }
    plan.driver = kind;
    let server = Server::start(answering(match plan.workload {
        Workload::Http1(_) => http_ok,
        Workload::Resp(_) => resp_ok,
        Workload::Echo(_) | Workload::Hold(_) => echo_back,
    })());
    plan.origins[0].addresses = vec![Address::Tcp(server.address)];
    plan.stop = Stop { duration_ns: Some(60 * S), requests: None };
    let mut fleet = Fleet::start(&plan).unwrap();
    let began = Instant::now();
    let (mut finished, mut ok) = (false, 0);
    while !finished {
        match fleet.receive(Duration::from_millis(10)) {
            Some(Message::Interval(interval)) => {
                ok += interval.counts.ok;
                fleet.give_back(interval);
            }
            Some(Message::Note { .. }) => {}
            Some(Message::Finished(_)) => finished = true,
            None => {}
        }
        match began.elapsed().as_millis() {
            300..700 => WATCHED.store(fleet.thread_ids()[0], Ordering::Relaxed),
            700.. => {
                WATCHED.store(0, Ordering::Relaxed);
                fleet.control().stop();
            }
            _ => {}
        }
        assert!(began.elapsed() < Duration::from_secs(30), "hangs");
    }
    assert!(ok > 100, "the loop hardly ran: {ok}");
    assert_eq!(fleet.join(), 0);
    Some(ALLOCATIONS.swap(0, Ordering::Relaxed))
}

/// `+OK` for each SET, nil for each GET, found by their names. A name cut in two is lost, and its user waits: the loop
/// goes on with the others.
fn resp_ok(bytes: &[u8]) -> Vec<driver::sim::Action> {
    let mut replies = Vec::new();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\r\n$3\r\n")) {
        match bytes.get(at + 6..at + 9) {
            Some(b"SET") => replies.extend_from_slice(b"+OK\r\n"),
            Some(b"GET") => replies.extend_from_slice(b"$-1\r\n"),
            _ => {}
        }
    }
    vec![reply(&replies)]
}

/// One test, so that nothing else of this program runs beside it.
#[test]
fn the_loop_does_not_allocate() {
    let mut open_pace = plan(http());
    open_pace.pace = open(2000.0);
    let mut pipelined = plan(http());
    pipelined.pipeline = 4;
    let mut thinking = plan(echo());
    thinking.pace = Pace::Closed { think: Think::FixedNs(MS) };
    let mut resp_pipelined = plan(resp());
    resp_pipelined.pipeline = 16;
    for (what, plan) in [
        ("resp", plan(resp())),
        ("resp, pipelined", resp_pipelined),
        ("closed", plan(http())),
        ("echo", plan(echo())),
        ("open", open_pace),
        ("pipelined", pipelined),
        ("thinking", thinking),
    ] {
        for kind in [DriverKind::Epoll, DriverKind::Uring] {
            if let Some(count) = allocations_of(plan.clone(), kind) {
                assert_eq!(count, 0, "{what} on {}", kind.name());
            }
        }
    }
}
