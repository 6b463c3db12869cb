//! What is sent, and what was only meant to be: servers that do not read, and those that answer before they have.

use crate::common::*;
use model::error_kind::Phase;
use model::plan::*;
use model::{ErrorKind, LatencyKind};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

const BODY_BYTES: u64 = 16 << 20;
const REAL: [DriverKind; 3] = [DriverKind::Epoll, DriverKind::Uring, DriverKind::Rings];

/// A server that does something to each connection and keeps it until the test has ended.
fn server(each: fn(&mut std::net::TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            each(&mut stream);
            kept.push(stream);
        }
    });
    address
}

/// Each connection posts a body that no socket's buffers hold.
fn posting(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = plan(http());
    let Workload::Http1(http) = &mut plan.workload else { unreachable!() };
    http.requests[0].method = "POST".into();
    http.requests[0].body = Body::new(vec![b'x'; BODY_BYTES as usize], String::new());
    plan.origins[0].addresses = vec![Address::Tcp(address)];
    plan.connections = 2;
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    plan
}

/// Runs it on one driver; `None` where that cannot run here.
fn run_on(driver: DriverKind, plan: &Plan) -> Option<Sum> {
    if driver != DriverKind::Epoll
        && let Err(why) = engine::driver::uring::available()
    {
        testkit::skip(&format!("no io_uring: {why}"));
        return None;
    }
    Some(run_real(&Plan { driver, ..plan.clone() }))
}

#[test]
fn bytes_that_the_kernel_never_took_are_not_sent() {
    let address = server(|_| ());
    for driver in REAL {
        let mut plan = posting(address, 2);
        plan.timeouts.reply_ns = S / 5;
        let Some(sum) = run_on(driver, &plan) else { continue };
        let (name, c) = (driver.name(), &sum.total.counts);
        sum.assert_conserved(name);
        assert_eq!((c.failed, sum.of(ErrorKind::ReplyTimeout)), (2, 2), "{name}");
        assert!(c.bytes_sent > 0 && c.bytes_sent < 2 * BODY_BYTES, "{name}: {} of {}", c.bytes_sent, 2 * BODY_BYTES);
        let example = sum.total.examples[ErrorKind::ReplyTimeout.index()].unwrap();
        assert_eq!(example.phase, Phase::Send, "{name}: {example:?}");
        // Both met the same peer: what each had left is about half of what is missing.
        let missing = 2 * (BODY_BYTES + 200) - c.bytes_sent;
        assert!(example.unsent_bytes > missing / 4 && example.unsent_bytes <= BODY_BYTES + 200, "{name}: {example:?}");
        assert_eq!(sum.total.latency.of(LatencyKind::Failed).len(), 2, "{name}");
    }
}

#[test]
fn a_reply_to_what_is_still_being_sent_is_the_last_of_its_connection() {
    // It answers to the head, as servers do that refuse an upload, and reads no further.
    let address = server(|stream| {
        let mut some = [0; 1024];
        let _ = stream.read(&mut some);
        let _ = stream.write_all(OK);
    });
    for driver in REAL {
        let Some(sum) = run_on(driver, &posting(address, 6)) else { continue };
        let (name, c) = (driver.name(), &sum.total.counts);
        sum.assert_conserved(name);
        assert_eq!((c.ok, c.failed, c.closed_by_us), (6, 0, 6), "{name}: {:?}", sum.total.errors);
        // Both connections may be made again for the last request, which the first to be there takes up.
        assert!((6..=7).contains(&c.connected), "{name}: {c:?}");
    }
}

#[test]
fn what_was_taken_of_each_request_is_counted_once() {
    let address = server(|stream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut left = 0u64;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                // A head begins each request, and is in one piece with the first of its body.
                let bytes = &buffer[..n];
                let body = match bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                    Some(end) if left == 0 => {
                        left = BODY_BYTES;
                        n - end - 4
                    }
                    _ => n,
                };
                left = left.saturating_sub(body as u64);
                if left == 0 && stream.write_all(OK).is_err() {
                    return;
                }
            }
        });
    });
    let mut sent = Vec::new();
    for driver in REAL {
        let Some(sum) = run_on(driver, &posting(address, 4)) else { continue };
        let c = &sum.total.counts;
        assert_eq!((c.ok, c.failed), (4, 0), "{}: {:?}", driver.name(), sum.total.errors);
        assert!(c.bytes_sent > 4 * BODY_BYTES && c.bytes_sent < 4 * (BODY_BYTES + 500), "{}", c.bytes_sent);
        sent.push(c.bytes_sent);
    }
    assert!(sent.windows(2).all(|pair| pair[0] == pair[1]), "{sent:?}");
}
