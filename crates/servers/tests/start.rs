//! How a server starts, or says in one sentence why it does not; pinning and stopping.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::net::{SocketAddr, TcpListener};

use common::{Running, http_default};
use servers::http::{self, HttpOptions};
use servers::{ServeError, ServeOptions, Stop};

fn refused(options: &ServeOptions, http: &HttpOptions) -> ServeError {
    let served = http::serve(options, http, &Stop::new().unwrap(), |_| panic!("it must not start"));
    let error = served.expect_err("it must not start");
    let sentence = error.to_string();
    assert!(sentence.contains(':') && !sentence.contains('\n'), "what is next is missing: {sentence}");
    error
}

fn on(addr: SocketAddr, workers: usize) -> ServeOptions {
    ServeOptions { listen: vec![addr], workers, ..ServeOptions::default() }
}

/// A port that nobody has, below those that the kernel gives to whoever names none (ip_local_port_range): while a test lets
/// go of it for a moment, no other one's connection takes it.
fn port_of_its_own() -> SocketAddr {
    let first = 10_000 + (std::process::id() % 10_000) as u16;
    let free = (first..first + 5_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    ([127, 0, 0, 1], free.unwrap()).into()
}

#[test]
fn a_port_in_use_is_said_also_where_reuseport_would_hide_it() {
    for first in [1, 3] {
        let server = Running::http(on(port_of_its_own(), first), HttpOptions::default());
        for second in [1, 3] {
            let error = refused(&on(server.addrs[0], second), &HttpOptions::default());
            assert!(matches!(error, ServeError::AddressInUse { addr } if addr == server.addrs[0]), "{error:?}");
            assert!(error.to_string().contains(&server.addrs[0].port().to_string()));
        }
        let addr = server.addrs[0];
        assert_eq!(server.get("/").status, 200);
        server.finish();
        // Free again at once, connections in TIME_WAIT or not.
        let again = Running::http(on(addr, first), HttpOptions::default());
        assert_eq!(again.get("/").status, 200);
        again.finish();
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = refused(&on(other.local_addr().unwrap(), 2), &HttpOptions::default());
    assert!(matches!(error, ServeError::AddressInUse { .. }), "{error:?}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_facts() {
    let plain = HttpOptions::default();
    let nothing = ServeOptions { listen: Vec::new(), ..ServeOptions::default() };
    assert!(matches!(refused(&nothing, &plain), ServeError::NothingToListenOn));
    let error = refused(&on("192.0.2.1:0".parse().unwrap(), 1), &plain);
    assert!(matches!(error, ServeError::AddressNotHere { .. }), "{error:?}");
    for (workers, buffer_bytes) in [(0, 1), (1, 0), (100_000, 1), (1, 1 << 40)] {
        let options = ServeOptions { workers, buffer_bytes, ..ServeOptions::default() };
        assert!(matches!(refused(&options, &plain), ServeError::OutOfBounds { .. }));
    }
    for cpu in [1023, 5000, usize::MAX] {
        let options = ServeOptions { pin: Some(vec![0, cpu]), workers: 2, ..ServeOptions::default() };
        let error = refused(&options, &plain);
        assert!(matches!(error, ServeError::Pin { cpu: named, .. } if named == cpu), "{error:?}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    for root in ["/nonexistent".into(), file.path().to_owned()] {
        let error = refused(&ServeOptions::default(), &HttpOptions { root: Some(root.clone()), ..plain.clone() });
        assert!(matches!(&error, ServeError::BadRoot { path, .. } if *path == root), "{error:?}");
    }
}

#[test]
fn workers_run_where_they_are_pinned_and_share_the_connections() {
    let options = ServeOptions { workers: 3, pin: Some(vec![0]), ..ServeOptions::default() };
    let server = Running::http(options, HttpOptions::default());
    let mut pinned = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        if name.starts_with("http-") && status.contains("Cpus_allowed_list:\t0\n") {
            pinned += 1;
        }
    }
    // Another test of this binary may just have a worker on that CPU, too.
    assert!(pinned >= 3, "{pinned}");
    for _ in 0..50 {
        assert_eq!(server.get("/").status, 200);
    }
    let counters = server.finish();
    assert_eq!((counters.accepted, counters.requests), (50, 50));
}

#[test]
fn ipv6_and_several_addresses_are_served_together() {
    let listen = vec!["[::1]:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()];
    let server = Running::http(ServeOptions { listen, workers: 2, ..ServeOptions::default() }, HttpOptions::default());
    assert!(server.addrs[0].is_ipv6() && server.addrs[1].is_ipv4());
    for addr in &server.addrs {
        let mut client = common::Client::new(std::net::TcpStream::connect(addr).unwrap());
        client.send(b"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n");
        assert_eq!(client.reply(false).status, 200);
    }
    server.finish();
}

#[test]
fn a_stop_pulled_before_the_start_ends_the_server_at_once() {
    let stop = Stop::new().unwrap();
    stop.stop();
    let counters = http::serve(&ServeOptions::default(), &HttpOptions::default(), &stop, |_| {}).unwrap();
    assert_eq!(counters, servers::Counters::default());
}

#[test]
fn the_registries_name_each_design_once() {
    assert!(http::design("epoll-edge").is_some() && servers::echo::design("epoll-edge").is_some());
    assert!(http::design("none").is_none());
    let names: Vec<_> = servers::echo::DESIGNS.iter().map(|design| design.info.name).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    http_default().finish();
}
