//! A server that runs out of descriptors: it waits for one instead of spinning, and goes on after.
//! Alone in its binary: the limit is the whole process's.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::{HANG_GUARD, Running, http_default, noise};
use rustix::io::dup;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, getrlimit, setrlimit};
use target::ServeOptions;
use target::http::HttpOptions;

#[test]
fn descriptors_running_out() {
    without_descriptors_accepting_pauses_and_resumes();
    files_kept_open_make_way_for_connections_and_other_files();
}

fn without_descriptors_accepting_pauses_and_resumes() {
    const ROOM: u64 = 3;
    const CLIENTS: usize = 8;
    let server = http_default();
    // The clients take their descriptors first; then only ROOM are left for the server.
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap())
        .collect();
    let lowest_free = dup(&clients[0]).unwrap().as_raw_fd();
    let before = getrlimit(Resource::Nofile);
    let mut limited = before;
    limited.current = Some(u64::try_from(lowest_free).unwrap() + ROOM);
    setrlimit(Resource::Nofile, limited).unwrap();
    for client in &clients {
        connect(client, &server.addrs[0]).unwrap();
    }
    // Long enough for a spinning server to fail many thousand times.
    std::thread::sleep(Duration::from_millis(500));
    // Each client is answered as soon as those before it make room.
    for client in clients {
        let mut client = TcpStream::from(client);
        client.set_read_timeout(Some(HANG_GUARD)).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).unwrap();
        assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    setrlimit(Resource::Nofile, before).unwrap();
    let counters = server.finish();
    assert_eq!(counters.requests, CLIENTS as u64);
    assert!(counters.accept_error >= 1, "the limit was met: {counters:?}");
    assert!(counters.accept_error < 100, "it must not spin: {counters:?}");
}

fn files_kept_open_make_way_for_connections_and_other_files() {
    const ROOM: u64 = 6;
    let folder = tempfile::tempdir().unwrap();
    for number in 0..20 {
        // Large enough to be remembered by descriptor.
        std::fs::write(folder.path().join(number.to_string()), noise(100_000)).unwrap();
    }
    let http = HttpOptions { root: Some(folder.path().to_owned()), ..HttpOptions::default() };
    let server = Running::http(ServeOptions::default(), http);
    let before = getrlimit(Resource::Nofile);
    let lowest_free = dup(&server.stop).unwrap().as_raw_fd();
    let mut limited = before;
    limited.current = Some(u64::try_from(lowest_free).unwrap() + ROOM);
    setrlimit(Resource::Nofile, limited).unwrap();
    for number in 0..20 {
        // The client's end, the server's end, and a file at a time is all that fits beside a few kept ones.
        let reply = server.get(&format!("/{number}"));
        assert_eq!(reply.status, 200, "{number}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.body == noise(100_000), "{number}");
    }
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(server.finish().requests, 20);
}
