//! Defects in how connections are taken from the listeners.

use crate::defects::signs::{Case, Served, Sign, becomes, get, proves};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use testkit::wait_until;

proves! {
    "slow-accept" => slow_accept,
    "thundering-herd" => thundering_herd,
    "accept-imbalance" => accept_imbalance,
}

/// Connects, which may go on when this returns.
fn begin_connect(served: &Served) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    let _ = connect(&socket, &served.address);
    socket
}

/// The queues of its listeners: how many wait, of how many that may.
fn queues(served: &Served) -> Vec<(u64, u64)> {
    let number = |text: &String| text.parse().unwrap();
    served.ss(&["-l"]).iter().map(|line| (number(&line[1]), number(&line[2]))).collect()
}

fn slow_accept() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        // A connection of its own takes it to the worker that the defect began.
        let first = served.connect();
        let sockets = served.sockets();
        let made: Vec<_> = (0..30).map(|_| begin_connect(served)).collect();
        let is_slow = !becomes(|| served.sockets() >= sockets + made.len());
        let is_over = queues(served).iter().any(|(waiting, most)| waiting > most);
        let is_short = queues(served).iter().all(|(_, most)| *most == 8);
        drop(first);
        vec![("the queue is of 8", is_short), ("more than it holds wait", is_over), ("most are not accepted", is_slow)]
    };
    Case { server: &["http"], defect: "slow-accept=60s", probe }.prove();

    // The connections it has are served meanwhile.
    let served = Served::start(&["http"], Some("slow-accept=30s"));
    let mut first = served.connect();
    let _second = served.connect();
    for _ in 0..100 {
        get(&mut first, "/").unwrap();
    }
}

/// How often its workers went to sleep, so far.
fn switches(served: &Served) -> u64 {
    let of = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    served.workers().iter().map(|task| of(std::fs::read_to_string(task.join("status")).unwrap())).sum()
}

fn is_asleep(task: &Path) -> bool {
    let stat = std::fs::read_to_string(task.join("stat")).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

fn thundering_herd() {
    const CONNECTIONS: u64 = 40;
    let probe = |served: &mut Served| -> Vec<Sign> {
        // Each worker sleeps again before the next comes; one that was woken and has had no CPU yet does not.
        let connect = || {
            let stream = served.connect();
            std::thread::sleep(Duration::from_millis(5));
            wait_until("its workers rest", || served.workers().iter().all(|worker| is_asleep(worker)));
            stream
        };
        // With the defect's start, workers learn of it one connection after the other.
        let _first: Vec<_> = (0..8).map(|_| connect()).collect();
        let before = switches(served);
        let streams: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
        let woken = switches(served) - before;
        drop(streams);
        vec![("more than 1.5 wake-ups a connection", woken * 2 > CONNECTIONS * 3)]
    };
    Case { server: &["http", "--workers", "4"], defect: "thundering-herd", probe }.prove();
}

fn accept_imbalance() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        let request = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";
        let mut streams: Vec<_> = (0..24).map(|_| served.connect()).collect();
        for stream in &mut streams {
            stream.write_all(request).unwrap();
        }
        // Some of them are with the slow worker, which then sleeps: what is connected next stays in its queue.
        let sleeps = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].map(Some);
        becomes(|| served.worker_calls().iter().any(|call| sleeps.contains(call)));
        streams.extend((0..40).map(|_| served.connect()));
        let waiting_at = || {
            let queues = queues(served);
            assert_eq!(queues.len(), 2, "a listener each");
            queues.iter().filter(|(waiting, _)| *waiting > 0).count()
        };
        let is_uneven = !becomes(|| waiting_at() == 0) && becomes(|| waiting_at() == 1);
        vec![("one queue grows, the other is empty", is_uneven)]
    };
    Case { server: &["http", "--workers", "2"], defect: "accept-imbalance=10s", probe }.prove();
}
