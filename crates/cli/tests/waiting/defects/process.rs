//! Defects that end the process, or use up its descriptors.

use crate::defects::signs::{Case, HANG_GUARD, SETTLES, Served, Sign, becomes, get, has_strace, proves};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

proves! {
    "sigpipe" => sigpipe,
    "crash" => crash,
    "fd-leak" => fd_leak,
    "fd-limit" => fd_limit,
    "cpu-heavy" => cpu_heavy,
}

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
const SIGPIPE: i32 = 13;
const SIGABRT: i32 = 6;
const SIGTERM: i32 = 15;

/// Clients that leave early before none has ended the server.
const CLIENTS: u32 = 4;

/// The signal that ended a process that ends about now.
fn died_by(served: &mut Served) -> Option<i32> {
    served.process.wait(SETTLES).and_then(|status| status.signal())
}

fn sigpipe() {
    // While the server stands still, the request and the client's end both come: then it replies to nobody. Where the kernel has
    // much to do, its answer to the first of the two writes may come after the second: so there are several clients.
    let probe = |served: &mut Served| -> Vec<Sign> {
        let mut status = None;
        for _ in 0..CLIENTS {
            let mut client = served.connect();
            get(&mut client, "/").unwrap();
            served.process.signal(SIGSTOP);
            let worker = served.workers().remove(0).join("stat");
            let stands = || std::fs::read_to_string(&worker).unwrap().contains(") T ");
            assert!(becomes(stands), "it does not stand still");
            client.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
            drop(client);
            served.process.signal(SIGCONT);
            status = served.process.wait(SETTLES / CLIENTS);
            if status.is_some() {
                break;
            }
        }
        vec![("dies by SIGPIPE", status.and_then(|status| status.signal()) == Some(SIGPIPE))]
    };
    Case { server: &["http"], defect: "sigpipe", probe }.prove();

    if !has_strace() {
        return;
    }
    let disposition = |served: &mut Served| -> Vec<Sign> {
        let mut client = served.connect();
        let lines = served.trace("network,write,writev", |_| {
            get(&mut client, "/").unwrap();
        });
        let bit = |mask: &str| u64::from_str_radix(mask, 16).unwrap() & (1 << (SIGPIPE - 1)) != 0;
        let worker = std::fs::read_to_string(served.workers()[0].join("status")).unwrap();
        let blocked = worker.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let writes = lines.iter().filter(|line| line.contains(" write(")).count();
        vec![
            ("not ignored", !bit(&served.field("status", "SigIgn:"))),
            ("not blocked", !bit(blocked.trim())),
            ("two writes", writes == 2),
        ]
    };
    Case { server: &["http"], defect: "sigpipe", probe: disposition }.prove();
}

fn crash() {
    let probe = |served: &mut Served| -> Vec<Sign> {
        let mut client = served.connect();
        let replies = (0..3).filter(|_| get(&mut client, "/").is_some()).count();
        vec![("two replies, then none", replies == 2), ("dies by SIGABRT", died_by(served) == Some(SIGABRT))]
    };
    Case { server: &["http"], defect: "crash=3", probe }.prove();

    // At a moment, without any request.
    let start = std::time::Instant::now();
    let mut served = Served::start(&["echo"], Some("crash=0@2s"));
    let status = served.process.wait(HANG_GUARD).expect("it ends");
    assert_eq!(status.signal(), Some(SIGABRT));
    assert!(start.elapsed() >= Duration::from_secs(2), "not before its time");
}

fn fd_leak() {
    const CONNECTIONS: usize = 30;
    let probe = |served: &mut Served| -> Vec<Sign> {
        let sockets = served.sockets();
        // With the first it has all it needs itself.
        get(&mut served.connect(), "/").unwrap();
        assert!(becomes(|| served.sockets() == sockets), "the first one's stays");
        let before = served.descriptors().len();
        for _ in 0..CONNECTIONS {
            get(&mut served.connect(), "/").unwrap();
        }
        assert!(becomes(|| served.sockets() == sockets), "sockets stay");
        vec![("two descriptors each stay", served.descriptors().len() == before + 2 * CONNECTIONS)]
    };
    Case { server: &["http"], defect: "fd-leak=2", probe }.prove();
}

fn fd_limit() {
    const CONNECTIONS: usize = 60;
    const FAILURES: usize = 150;
    if !has_strace() {
        return;
    }
    let probe = |served: &mut Served| -> Vec<Sign> {
        let failures = |lines: &[String]| lines.iter().filter(|line| line.contains("EMFILE")).count();
        let mut streams = Vec::new();
        let lines = served.trace("accept4", |trace| {
            streams.extend((0..CONNECTIONS).map(|_| served.connect()));
            // The sound server tries ten times a second when it has none left: it cannot come to so many.
            becomes(|| failures(&trace.lines()) >= FAILURES);
        });
        let limit = served.field("limits", "Max open files");
        let has_queue = !becomes(|| served.ss(&["-l"])[0][1] == "0");
        vec![
            ("the limit", limit.split_whitespace().next() == Some("40")),
            // A test's process may have given it one beyond the limit.
            ("all of it taken", (40..50).contains(&served.descriptors().len())),
            ("accept fails over and over", failures(&lines) >= FAILURES),
            ("connections wait", has_queue),
        ]
    };
    Case { server: &["http"], defect: "fd-limit=40", probe }.prove();
}

fn cpu_heavy() {
    const REQUESTS: u64 = 20;
    let probe = |served: &mut Served| -> Vec<Sign> {
        let worker = served.workers().remove(0).join("schedstat");
        // Its first number: nanoseconds on a CPU.
        let used_ns =
            || -> u64 { std::fs::read_to_string(&worker).unwrap().split_whitespace().next().unwrap().parse().unwrap() };
        let mut client = served.connect();
        get(&mut client, "/").unwrap();
        let before_ns = used_ns();
        for _ in 0..REQUESTS {
            get(&mut client, "/").unwrap();
        }
        vec![("its worker uses the CPU for each", used_ns() - before_ns >= REQUESTS * 18_000_000)]
    };
    Case { server: &["http"], defect: "cpu-heavy=20ms", probe }.prove();
}

/// SIGTERM still ends a server whose workers or connections are held by a defect.
#[test]
fn a_server_with_defects_ends_when_told() {
    for defect in ["worker-starvation", "connection-leak", "slow-accept=60s", "lost-wakeup", "fd-limit=12"] {
        let mut served = Served::start(&["http", "--workers", "2"], Some(defect));
        let streams: Vec<_> = (0..8).map(|_| served.connect()).collect();
        served.process.signal(SIGTERM);
        let status = served.process.wait(HANG_GUARD);
        assert_eq!(status.and_then(|status| status.code()), Some(0), "{defect}");
        drop(streams);
    }
}
