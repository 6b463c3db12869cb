//! Readings of what a server does for a request: processor time, locks, system calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::readings::{Strace, Task, connections, descriptor, resident_bytes};
use crate::subject::{Client, Subject};
use crate::{ALL, BOTH, BOTH_PROXIED_NAMED, EVERY, PROXIED, cases};

cases! {
    nagle: "nagle" "", 1, BOTH => each_reply_is_two_sends;
    memory_per_connection: "memory-per-connection" "=4MiB", 1, PROXIED => memory_grows_by_4_mib_each;
    accept_imbalance: "accept-imbalance" "=5ms", 2, BOTH => only_one_worker_sleeps;
    cpu_heavy: "cpu-heavy" "=20ms", 1, EVERY => each_request_computes;
    single_thread: "single-thread" "=20ms", 2, PROXIED => one_worker_computes;
    global_lock: "global-lock" "=5ms", 2, PROXIED => workers_wait_in_futex;
    blocked_loop: "blocked-loop" "=20ms", 1, EVERY => two_of_twenty_compute;
    stop_the_world: "stop-the-world" "=450ms:every=500ms", 2, EVERY => all_workers_stand_at_once;
    head_of_line: "head-of-line" "=50ms", 1, BOTH_PROXIED_NAMED => one_of_hundred_computes;
    slow_backend: "slow-backend" "=5ms", 1, ALL => it_asks_another_process;
    fsync_log: "fsync-log" "", 1, BOTH_PROXIED_NAMED => each_request_is_synced;
    files_reread: "files-reread" "=6", 1, PROXIED => six_files_are_read_for_each;
    slow_log_reader: "slow-log-reader" "=1h", 1, BOTH => it_stands_in_write_to_a_pipe;
}

/// Enough that each of two workers has some: connections are spread by a hash of their ports.
const CONNECTIONS: usize = 16;

fn each_request_computes(subject: &Subject) -> Option<bool> {
    let mut client = subject.connect();
    let requests = (0..5).map(|_| {
        let before = subject.cpu();
        client.exchange();
        wait_for_rest(subject);
        subject.cpu() - before >= Duration::from_millis(20) * 9 / 10
    });
    Some(requests.collect::<Vec<_>>().iter().all(|computes| *computes))
}

fn one_worker_computes(subject: &Subject) -> Option<bool> {
    Some(subject.workers().len() == 1 && each_request_computes(subject)?)
}

fn one_of_hundred_computes(subject: &Subject) -> Option<bool> {
    Some(that_compute(subject, 100, Duration::from_millis(50)) == 1)
}

fn two_of_twenty_compute(subject: &Subject) -> Option<bool> {
    Some(that_compute(subject, 20, Duration::from_millis(20)) == 2)
}

/// How many of so many requests use the processor for so long, or nearly.
fn that_compute(subject: &Subject, requests: usize, time: Duration) -> usize {
    let mut client = subject.connect();
    let heavy = (0..requests).filter(|_| {
        let before = subject.cpu();
        client.exchange();
        wait_for_rest(subject);
        subject.cpu() - before >= time * 9 / 10
    });
    heavy.count()
}

/// The kernel's figure is exact once the thread sleeps.
fn wait_for_rest(subject: &Subject) {
    testkit::wait_until("its workers rest", || subject.workers().iter().all(Task::is_asleep));
}

fn workers_wait_in_futex(subject: &Subject) -> Option<bool> {
    let strace = Strace::attach(subject.pid(), "futex")?;
    all_at_once(subject, 3);
    let workers = subject.workers();
    let calls = strace.finish();
    let is_workers = |tid: u32| workers.iter().any(|worker| worker.tid == tid);
    let waits = calls.iter().filter(|(tid, call)| call.contains("FUTEX_WAIT") && is_workers(*tid)).count();
    // Two workers that take a lock for each of 48 requests wait for it again and again; a worker may wait once for something
    // else, as for the others when it starts.
    Some(waits >= 8)
}

fn all_at_once(subject: &Subject, each: usize) {
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = subject.connect();
                (0..each).for_each(|_| client.exchange());
            });
        }
    });
}

pub fn two_of_twenty_sleep(subject: &Subject) -> Option<bool> {
    let strace = Strace::attach(subject.pid(), "clock_nanosleep,nanosleep")?;
    let mut client = subject.connect();
    (0..20).for_each(|_| client.exchange());
    let workers = subject.workers();
    let sleeps = strace.finish().iter().filter(|(tid, _)| workers.iter().any(|worker| worker.tid == *tid)).count();
    Some(sleeps == 2)
}

fn all_workers_stand_at_once(subject: &Subject) -> Option<bool> {
    let is_over = AtomicBool::new(false);
    let workers = subject.workers();
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = subject.connect();
                while !is_over.load(Ordering::Relaxed) {
                    client.exchange();
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let until = Instant::now() + Duration::from_millis(1500);
        // In each of ten looks one after the other: any worker may be met once in a short wait.
        let mut looks = 0;
        while looks < 10 && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
            let stand = workers.iter().all(|worker| worker.call().is_some_and(|(number, _)| number == libc::SYS_futex));
            looks = if stand { looks + 1 } else { 0 };
        }
        is_over.store(true, Ordering::Relaxed);
        Some(looks == 10)
    })
}

fn it_asks_another_process(subject: &Subject) -> Option<bool> {
    let mut client = subject.connect();
    (0..3).for_each(|_| client.exchange());
    let asked = asks(subject);
    // The other end is not this process's.
    Some(!asked.is_empty() && asked.iter().all(|port| connections(subject.pid()).iter().all(|(here, _)| here != port)))
}

/// The ports that it has connections of its own to.
pub fn asks(subject: &Subject) -> Vec<u16> {
    let port = subject.addr.port();
    let outgoing = connections(subject.pid()).into_iter().filter(|(here, there)| *here != port && *there != port);
    outgoing.map(|(_, there)| there).collect()
}

fn each_request_is_synced(subject: &Subject) -> Option<bool> {
    let strace = Strace::attach(subject.pid(), "fsync,fdatasync,write")?;
    let mut client = subject.connect();
    (0..5).for_each(|_| client.exchange());
    let calls = strace.finish();
    let on_log = |name: &str| {
        calls.iter().filter(|(_, call)| call.starts_with(name) && call.contains("/plimsoll-access-")).count()
    };
    Some((on_log("write("), on_log("fsync(")) == (5, 5))
}

fn six_files_are_read_for_each(subject: &Subject) -> Option<bool> {
    let mut client = subject.connect();
    client.exchange();
    let strace = Strace::attach(subject.pid(), "openat,open,read")?;
    (0..5).for_each(|_| client.exchange());
    let calls = strace.finish();
    let of =
        |name: &str, with: &str| calls.iter().filter(|(_, call)| call.starts_with(name) && call.contains(with)).count();
    // A name may be a link to another place, so a read is told by its size.
    Some((of("openat(", "\"/etc/"), of("read(", ", 4096)")) == (30, 30))
}

fn it_stands_in_write_to_a_pipe(subject: &Subject) -> Option<bool> {
    let workers = subject.workers();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut client = subject.connect();
        let socket = client.socket();
        let is_done = &is_done;
        scope.spawn(move || {
            // More than a pipe has lines.
            let is_whole = (0..600).all(|_| client.try_exchange());
            is_done.store(is_whole, Ordering::Relaxed);
        });
        let stands = || {
            workers.iter().any(|worker| {
                let Some((number, fd)) = worker.call() else { return false };
                number == libc::SYS_write && descriptor(subject.pid(), fd).starts_with("pipe:[")
            })
        };
        let mut result = None;
        testkit::wait_until("the requests are done, or the server stands", || {
            result = match (is_done.load(Ordering::Relaxed), stands()) {
                (_, true) => Some(true),
                (true, _) => Some(false),
                _ => None,
            };
            result.is_some()
        });
        // Whoever waits for a reply that is not to come goes home.
        let _ = socket.shutdown(std::net::Shutdown::Both);
        result
    })
}

fn each_reply_is_two_sends(subject: &Subject) -> Option<bool> {
    let strace = Strace::attach(subject.pid(), "sendto,sendmsg,write,setsockopt")?;
    let mut client = subject.connect();
    (0..5).for_each(|_| client.exchange());
    let workers = subject.workers();
    let calls = strace.finish();
    let of_workers = || calls.iter().filter(|(tid, _)| workers.iter().any(|worker| worker.tid == *tid));
    let sends = of_workers().filter(|(_, call)| call.starts_with("send")).count();
    let is_on = |call: &str| call.starts_with("setsockopt(") && call.contains("TCP_NODELAY, [0]");
    Some(sends == 10 && of_workers().any(|(_, call)| is_on(call)))
}

fn memory_grows_by_4_mib_each(subject: &Subject) -> Option<bool> {
    let before = resident_bytes(subject.pid());
    let mut clients: Vec<_> = (0..8).map(|_| subject.connect()).collect();
    clients.iter_mut().for_each(Client::exchange);
    Some(resident_bytes(subject.pid()) >= before + 8 * (4 << 20))
}

fn only_one_worker_sleeps(subject: &Subject) -> Option<bool> {
    let strace = Strace::attach(subject.pid(), "clock_nanosleep,nanosleep")?;
    all_at_once(subject, 1);
    let workers = subject.workers();
    let sleeps = strace.finish();
    let has_slept = |worker: &&Task| sleeps.iter().any(|(tid, _)| worker.tid == *tid);
    Some(workers.iter().filter(has_slept).count() == 1)
}
