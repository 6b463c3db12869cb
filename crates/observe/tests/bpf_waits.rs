//! The probes of waits: delayed acknowledgements and futexes, each with and without its cause and beside an
//! independent reading. For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::{FutexUse, Level};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

mod common;
use common::{bpf, can_run, observer, of, own};

/// A server on a thread that answers every 4 bytes of one connection with two writes.
fn server(nodelay: bool) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.set_nodelay(nodelay).unwrap();
        let mut request = [0; 4];
        while socket.read_exact(&mut request).is_ok() {
            socket.write_all(b"head").unwrap();
            socket.write_all(b"body").unwrap();
        }
    });
    (address, thread)
}

/// Acknowledgements that the kernel sent late, in this network namespace (`nstat -az TcpExtDelayedACKs`).
fn delayed_acks() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "DelayedACKs").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn a_reply_in_two_small_writes_is_held_until_the_delayed_acknowledgement() {
    if !can_run() {
        return;
    }
    for nodelay in [false, true] {
        let (address, thread) = server(nodelay);
        let mut observer = observer(own(address, 64, Level::Full));
        let before = delayed_acks();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut slow = 0;
        for _ in 0..40 {
            let start = Instant::now();
            stream.write_all(b"ping").unwrap();
            let mut reply = [0; 8];
            stream.read_exact(&mut reply).unwrap();
            slow += u64::from(start.elapsed().as_millis() >= 36);
        }
        drop(stream);
        thread.join().unwrap();
        let late = delayed_acks() - before;
        let snapshot = observer.snapshot(1);
        let bpf = bpf(&snapshot);
        let count = |name: &str| bpf.counts[&format!("delayed_acks.{name}")];
        let (pairs, at_40ms) = (count("pairs"), count("pairs_at_40ms"));
        let held = &bpf.histograms["delayed_acks.held_ns"];
        assert_eq!(held.count(), pairs);
        if nodelay {
            assert_eq!((pairs, count("released_by_data")), (0, 0), "{:?}", bpf.counts);
            continue;
        }
        // As the client saw it, as the kernel counts it, and as the other probe counts what was held. (Others may delay
        // acknowledgements meanwhile, and a busy machine may run a timer late.)
        assert!(pairs <= bpf.counts["sockets.sends_held_back"], "{:?}", bpf.counts);
        // Of some six hundred one was seen to go by without the tracepoint.
        let most = slow - slow / 10;
        assert!(slow > 0 && pairs >= most && late >= most, "{slow} slow replies, {late} late: {:?}", bpf.counts);
        assert!(at_40ms > 0 && at_40ms <= pairs, "{:?}", bpf.counts);
        assert!(held.sum >= most * 36_000_000, "{held:?}");
    }
}

/// All threads want this one.
static HOT: Mutex<()> = Mutex::new(());
/// Nobody wants these but one thread each.
static COLD: [Mutex<()>; 4] = [const { Mutex::new(()) }; 4];
static NEVER: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// Four threads take a lock in turns and hold it for a while; their time in `lock` altogether, nanoseconds.
fn contend(lock_of: fn(usize) -> &'static Mutex<()>) -> u64 {
    // Together, or the first has done with it before the last begins.
    let ready = Arc::new(Barrier::new(4));
    let one = move |i: usize, ready: &Barrier| {
        let mut in_lock_ns = 0;
        ready.wait();
        for _ in 0..50 {
            let start = Instant::now();
            let held = lock_of(i).lock().unwrap();
            in_lock_ns += start.elapsed().as_nanos() as u64;
            std::thread::sleep(Duration::from_millis(1));
            drop(held);
        }
        in_lock_ns
    };
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let ready = Arc::clone(&ready);
            std::thread::spawn(move || one(i, &ready))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

/// What was seen at an object's own bytes.
fn at<T>(futexes: &[FutexUse], object: &'static T) -> Option<FutexUse> {
    let start = std::ptr::from_ref(object) as u64;
    futexes.iter().find(|futex| (start..start + size_of::<T>() as u64).contains(&futex.address)).cloned()
}

#[test]
fn a_lock_that_all_threads_want_is_one_hot_address() {
    if !can_run() {
        return;
    }
    let mut observer = observer(of(std::process::id(), Level::Full));
    contend(|i| &COLD[i]);
    let own_name = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let healthy = observer.snapshot(1);
    let at_cold = COLD.iter().filter_map(|cold| at(&bpf(&healthy).futexes, cold)).count();
    assert_eq!(at_cold, 0, "{:?}", bpf(&healthy).futexes);

    let in_lock_ns = contend(|_| &HOT);
    let snapshot = observer.snapshot(2);
    let bpf = bpf(&snapshot);
    let hot = at(&bpf.futexes, &HOT).unwrap_or_else(|| panic!("the lock is not there: {:?}", bpf.futexes));
    // Who has the lock takes it again before anyone is awake: one of the four may never have waited.
    assert!((3..=4).contains(&hot.waiters), "{hot:?}");
    assert_eq!((hot.timed_count, hot.pid), (0, std::process::id()), "{hot:?}");
    // Nearly all the time in `lock` is a wait, and no wait is outside of it.
    assert!(hot.ns <= in_lock_ns && hot.ns > in_lock_ns / 2, "{hot:?}, in lock {in_lock_ns} ns");
    assert!(hot.count <= 400 && hot.count >= 50 && hot.place.starts_with(&own_name), "{hot:?}");
    let count = |name: &str| bpf.counts[&format!("futex.{name}")];
    assert_eq!(bpf.histograms["futex.wait_ns"].count(), count("waits"));
    assert!(count("waits") >= hot.count && count("addresses_lost") == 0, "{:?}", bpf.counts);
}

#[test]
fn an_idle_wait_is_told_by_its_limit() {
    if !can_run() {
        return;
    }
    let mut observer = observer(of(std::process::id(), Level::Full));
    for _ in 0..5 {
        let guard = NEVER.0.lock().unwrap();
        let (_guard, outcome) = NEVER.1.wait_timeout(guard, Duration::from_millis(5)).unwrap();
        assert!(outcome.timed_out());
    }
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let idle = at(&bpf.futexes, &NEVER).unwrap_or_else(|| panic!("the condition is not there: {:?}", bpf.futexes));
    assert_eq!((idle.count, idle.timed_count, idle.timeouts, idle.waiters), (0, 5, 5, 1), "{idle:?}");
    assert!(idle.timed_ns >= 25_000_000);
    assert!(bpf.counts["futex.timeouts"] >= 5, "{:?}", bpf.counts);
}
