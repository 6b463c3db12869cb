//! Unix sockets: what is different from TCP in how the kernel wakes a worker.

use crate::common::*;
use model::plan::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Echoes on a unix socket, a thread for each connection.
fn echo_server(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    // Of an earlier process with the same number, or nothing.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..n]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    path
}

fn on_unix(name: &str, driver: DriverKind, workload: Workload, requests: u64) -> Option<Sum> {
    if driver != DriverKind::Epoll
        && let Err(why) = engine::driver::uring::available()
    {
        testkit::skip(&format!("no io_uring: {why}"));
        return None;
    }
    let path = echo_server(&format!("{name}-{}", driver.name()));
    let mut plan = plan(workload);
    plan.driver = driver;
    plan.connections = 1;
    plan.origins[0].addresses = vec![Address::Unix(path.clone())];
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    let sum = run_real(&plan);
    let _ = std::fs::remove_file(path);
    Some(sum)
}

/// The peer's reading of a request is no reason to wake: one wake-up a reply, not two.
#[test]
fn a_reply_on_a_unix_socket_wakes_once() {
    // A ring's event descriptor is signalled for the work that brings a reply and again for its completion, on TCP too.
    for driver in [DriverKind::Epoll, DriverKind::Uring] {
        if let Some(sum) = on_unix("wakes", driver, echo(), 2000) {
            assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (2000, 0), "{}", driver.name());
            // Few of them are of ticks and of the longest sleep.
            let wakeups = sum.total.counts.wakeups;
            assert!(wakeups <= 2000 + 200, "{}: {wakeups} wake-ups for 2000 replies", driver.name());
        }
    }
}

/// What the peer's buffer does not take follows when there is room, and only then is the socket watched for it.
#[test]
fn a_large_request_on_a_unix_socket_leaves_whole() {
    let large = Workload::Echo(Echo { sizes: Sizes::List(vec![8 << 20, 100]), content: Content::Incompressible });
    for driver in [DriverKind::Epoll, DriverKind::Uring, DriverKind::Rings] {
        if let Some(sum) = on_unix("large", driver, large.clone(), 12) {
            assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (12, 0), "{}", driver.name());
        }
    }
}
