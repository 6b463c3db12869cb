//! The probes of waits: delayed acknowledgements and futexes, each with and without its cause and beside an
//! independent reading. For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::{FutexUse, Level};
use model::threads::FutexHolder;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod common;
use common::{bpf, can_run, observer, of, own};

/// Tests whose target is this process take turns: of its futexes only those of the longest waits are kept.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let _alone = alone();
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

/// What it keeps lies where a pthread mutex has its owner, its users and its kind: an id that no thread has.
type Lock = Mutex<[u32; 3]>;

/// All threads want this one.
static HOT: Lock = Mutex::new([0x3fff_ffff, 1, 0]);
/// Nobody wants these but one thread each.
static COLD: [Lock; 4] = [const { Mutex::new([0x3fff_ffff, 1, 0]) }; 4];
static NEVER: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// Whether a thread of this process waits in the kernel at a lock's own bytes.
fn waits_for(lock: &'static Lock, tid: i32) -> bool {
    let stands = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap_or_default();
    let mut words = stands.split(' ');
    let is_futex = words.next() == Some(&*libc::SYS_futex.to_string());
    let address = words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    is_futex && address.is_some_and(|address| bytes_of(lock).contains(&address))
}

/// Four threads take a lock in turns and hold it for a while; their time in `lock` altogether, nanoseconds. A lock that is
/// `held` now is let go when all four wait for it: else the first may have done with it before the last begins.
fn contend(lock_of: fn(usize) -> &'static Lock, held: Option<MutexGuard<'static, [u32; 3]>>) -> u64 {
    let ready = Arc::new(Barrier::new(5));
    let tids = Arc::new(Mutex::new(Vec::new()));
    let one = move |i: usize, ready: &Barrier, tids: &Mutex<Vec<i32>>| {
        let mut in_lock_ns = 0;
        tids.lock().unwrap().push(rustix::thread::gettid().as_raw_nonzero().get());
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
            let (ready, tids) = (Arc::clone(&ready), Arc::clone(&tids));
            std::thread::spawn(move || one(i, &ready, &tids))
        })
        .collect();
    ready.wait();
    if let Some(held) = held {
        let tids = tids.lock().unwrap().clone();
        testkit::wait_until("all wait", || tids.iter().all(|tid| waits_for(lock_of(0), *tid)));
        drop(held);
    }
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn bytes_of<T>(object: &'static T) -> Range<u64> {
    let start = std::ptr::from_ref(object) as u64;
    start..start + size_of::<T>() as u64
}

/// What was seen at an object's own bytes.
fn at<T>(futexes: &[FutexUse], object: &'static T) -> Option<FutexUse> {
    futexes.iter().find(|futex| bytes_of(object).contains(&futex.address)).cloned()
}

#[test]
fn a_lock_that_all_threads_want_is_one_hot_address() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let mut observer = observer(of(std::process::id(), Level::Full));
    contend(|i| &COLD[i], None);
    let own_name = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let healthy = observer.snapshot(1);
    let at_cold = COLD.iter().filter_map(|cold| at(&bpf(&healthy).futexes, cold)).count();
    assert_eq!(at_cold, 0, "{:?}", bpf(&healthy).futexes);

    let in_lock_ns = contend(|_| &HOT, Some(HOT.lock().unwrap()));
    let snapshot = observer.snapshot(2);
    let bpf = bpf(&snapshot);
    let hot = at(&bpf.futexes, &HOT).unwrap_or_else(|| panic!("the lock is not there: {:?}", bpf.futexes));
    assert_eq!(hot.waiters, 4, "{hot:?}");
    assert_eq!((hot.timed_count, hot.pid), (0, std::process::id()), "{hot:?}");
    // Nearly all the time in `lock` is a wait, and no wait is outside of it.
    assert!(hot.ns <= in_lock_ns && hot.ns > in_lock_ns / 2, "{hot:?}, in lock {in_lock_ns} ns");
    // A wait each at the least; how many more depends on how soon who is woken gets a CPU.
    assert!(hot.count <= 400 && hot.count >= 4 && hot.place.starts_with(&own_name), "{hot:?}");
    // This lock does not say who holds it. Who lets the waiters go is one of them (or this thread, at first), and has slept
    // with the lock rather than run.
    let states = bpf.threads.as_ref().expect("they are looked at");
    let at_hot = |held: &&FutexHolder| bytes_of(&HOT).contains(&held.address);
    let held: Vec<_> = states.holders.iter().filter(at_hot).collect();
    assert!(held.len() >= 2 && held.iter().all(|held| held.known_by == "releaser"), "{:?}", states.holders);
    let sum = |of: fn(&FutexHolder) -> u64| held.iter().map(|held| of(held)).sum::<u64>();
    let (waited_ns, ran_ns, waits) = (sum(|held| held.ns), sum(|held| held.ran_ns), sum(|held| held.waits));
    // The same waits as the system calls' own figures; a thread is woken a moment before its call ends.
    assert!(waited_ns <= hot.ns && waited_ns > hot.ns / 2, "{held:?} beside {hot:?}");
    assert!(waits <= hot.count && ran_ns < waited_ns / 2, "{held:?} beside {hot:?}");
    let count = |name: &str| bpf.counts[&format!("futex.{name}")];
    // This process's other threads may end a wait between the readings of the two.
    assert!(bpf.histograms["futex.wait_ns"].count().abs_diff(count("waits")) <= 8, "{:?}", bpf.counts);
    assert!(count("waits") >= hot.count && count("addresses_lost") == 0, "{:?}", bpf.counts);
}

#[test]
fn an_idle_wait_is_told_by_its_limit() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let mut observer = observer(of(std::process::id(), Level::Full));
    let limit = Duration::from_millis(100);
    for _ in 0..5 {
        let guard = NEVER.0.lock().unwrap();
        let (_guard, outcome) = NEVER.1.wait_timeout(guard, limit).unwrap();
        assert!(outcome.timed_out());
    }
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let idle = at(&bpf.futexes, &NEVER).unwrap_or_else(|| panic!("the condition is not there: {:?}", bpf.futexes));
    assert_eq!((idle.count, idle.timed_count, idle.timeouts, idle.waiters), (0, 5, 5, 1), "{idle:?}");
    // Of each limit a part may be over before the kernel is asked to wait, where others take the CPU.
    assert!(idle.timed_ns >= limit.as_nanos() as u64 * 5 / 2, "{idle:?}");
    assert!(bpf.counts["futex.timeouts"] >= 5, "{:?}", bpf.counts);
}
