//! Defects in how connections' sockets are used.

use crate::defects::signs::{Case, Served, Sign, becomes, echo, get, has_strace, proves};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

proves! {
    "nagle" => nagle,
    "connection-leak" => connection_leak,
    "lost-wakeup" => lost_wakeup,
    "keepalive-off" => keepalive_off,
    "worker-starvation" => worker_starvation,
}

fn nagle() {
    if !has_strace() {
        return;
    }
    let probe = |served: &mut Served| -> Vec<Sign> {
        const REQUESTS: usize = 5;
        let mut client = served.connect();
        let lines = served.trace("network", |_| {
            for _ in 0..REQUESTS {
                get(&mut client, "/bytes?n=1000").unwrap();
            }
        });
        let sends = lines.iter().filter(|line| line.contains(" sendto(") || line.contains(" sendmsg(")).count();
        let is_on = lines.iter().filter(|line| line.contains("TCP_NODELAY, [0]")).count();
        vec![("two sends a reply", sends == 2 * REQUESTS), ("TCP_NODELAY 0", is_on >= 1)]
    };
    Case { server: &["http"], defect: "nagle", probe }.prove();
    Case {
        server: &["echo"],
        defect: "nagle",
        probe: |served| {
            let mut client = served.connect();
            let lines = served.trace("sendto", |_| drop(echo(&mut client, b"abcd").unwrap()));
            vec![("two sends a reply", lines.len() == 2)]
        },
    }
    .prove_at_start();

    // What it makes: Linux delays an ACK by 40 ms at least, but not the first of a connection.
    let served = Served::start(&["http"], Some("nagle"));
    let mut client = served.connect();
    let waits: Vec<_> = (0..20)
        .map(|_| {
            let start = Instant::now();
            get(&mut client, "/bytes?n=1000").unwrap();
            start.elapsed()
        })
        .collect();
    let delayed = waits[1..].iter().filter(|wait| **wait >= Duration::from_millis(30)).count();
    assert!(delayed >= 10, "{waits:?}");
}

fn connection_leak() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        let leaked_before = served.ss(&["state", "close-wait"]).len();
        let sockets = served.sockets();
        for _ in 0..20 {
            get(&mut served.connect(), "/").unwrap();
        }
        // Every second one is closed.
        let settles = becomes(|| served.sockets() == sockets + 10) || served.sockets() == sockets;
        assert!(settles, "{} sockets, before {sockets}", served.sockets());
        let leaked = served.ss(&["state", "close-wait"]).len() - leaked_before;
        vec![("half of them in CLOSE-WAIT", leaked == 10), ("with their descriptors", served.sockets() > sockets)]
    };
    Case { server: &["http"], defect: "connection-leak=2", probe }.prove();
}

fn lost_wakeup() {
    const EPOLL_WAIT: i64 = 232;
    const EPOLL_PWAIT: i64 = 281;
    const EPOLL_PWAIT2: i64 = 441;
    let probe = |served: &mut Served| -> Vec<Sign> {
        let mut client = served.connect();
        client.write_all(&[7; 1000]).unwrap();
        let local = client.local_addr().unwrap().to_string();
        let left = || {
            let lines = served.ss(&[]);
            let line = lines.iter().find(|line| line[4] == local).unwrap();
            line[1].parse::<u64>().unwrap()
        };
        let is_left = becomes(|| left() == 900);
        std::thread::sleep(Duration::from_millis(200));
        let is_still = left() == 900;
        let sleeps = [EPOLL_WAIT, EPOLL_PWAIT, EPOLL_PWAIT2].map(Some);
        let is_asleep = served.worker_calls().iter().all(|call| sleeps.contains(call));
        let mut back = [0; 2000];
        let n = if is_still { client.read(&mut back).unwrap() } else { 0 };
        vec![
            ("900 of 1000 bytes stay", is_left && is_still),
            ("its worker sleeps over them", is_still && (is_asleep || cfg!(not(target_arch = "x86_64")))),
            ("100 came back", n == 100),
        ]
    };
    Case { server: &["echo"], defect: "lost-wakeup=100", probe }.prove();
}

fn keepalive_off() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        let mut signs = Vec::new();
        for path in ["/", "/bytes?n=1000000"] {
            let mut client = served.connect();
            let head = get(&mut client, path).expect("the whole reply");
            signs.push(("says close", head.contains("\r\nConnection: close\r\n")));
            let next = client.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").and_then(|()| client.read(&mut [0; 9]));
            signs.push(("and closes", next.map_or(true, |n| n == 0)));
        }
        signs
    };
    Case { server: &["http"], defect: "keepalive-off", probe }.prove();

    // In order: the end, not a reset.
    let served = Served::start(&["http"], Some("keepalive-off"));
    let mut client = served.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).expect("no reset");
    assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

fn worker_starvation() {
    const RECVFROM: i64 = 45;
    let probe = |served: &mut Served| -> Vec<Sign> {
        let mut idle: Vec<_> = (0..2).map(|_| served.connect()).collect();
        // Those two are with a worker each before another one comes.
        let is_taken = becomes(|| served.worker_calls() == [Some(RECVFROM); 2]);
        let mut third = served.connect();
        third.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        third.set_read_timeout(Some(crate::defects::signs::SETTLES)).unwrap();
        let is_unanswered = third.read(&mut [0; 4]).is_err();
        third.set_read_timeout(Some(crate::defects::signs::HANG_GUARD)).unwrap();
        // Who has a worker is served, and who leaves makes way.
        assert!(get(&mut idle[0], "/").is_some());
        idle.pop();
        let mut head = [0; 4];
        third.read_exact(&mut head).unwrap();
        vec![("both workers in recv", is_taken), ("no reply for the third", is_unanswered)]
    };
    if cfg!(target_arch = "x86_64") {
        Case { server: &["http", "--workers", "2"], defect: "worker-starvation", probe }.prove();
    }
}
