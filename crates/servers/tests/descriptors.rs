//! A server that runs out of descriptors: it waits for one instead of spinning, and goes on after.
//! Alone in its binary: the limit is the whole process's.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use common::{HANG_GUARD, Running, at_once, echo_designs, http_default, noise};
use rustix::io::dup;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use servers::ServeOptions;
use servers::echo::EchoOptions;
use servers::http::HttpOptions;

#[test]
fn descriptors_running_out() {
    without_descriptors_accepting_pauses_and_resumes();
    files_kept_open_make_way_for_connections_and_other_files();
    for echo in echo_designs().into_iter().filter(|echo| echo.design.info.name != "uring") {
        // Direct descriptors are not of the process's number; the tests of that design fill its tables.
        echo_without_descriptors_pauses_and_resumes(echo);
    }
}

/// Leaves so many descriptors free, of which the lowest is what a copy of `any` gets. Returns the limit as it was.
fn leave_room(any: impl AsFd, room: u64) -> Rlimit {
    let lowest_free = dup(any).unwrap().as_raw_fd();
    let before = getrlimit(Resource::Nofile);
    let limited = Rlimit { current: Some(u64::try_from(lowest_free).unwrap() + room), ..before };
    setrlimit(Resource::Nofile, limited).unwrap();
    before
}

/// So many clients that connect to a server with few descriptors: theirs are made before the limit is set. Returns the
/// limit as it was, too.
fn crowded(server: &Running, clients: usize, room: u64) -> (Rlimit, Vec<TcpStream>) {
    let socket = || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let clients: Vec<_> = (0..clients).map(|_| socket()).collect();
    let before = leave_room(&clients[0], room);
    for client in &clients {
        connect(client, &server.addrs[0]).unwrap();
    }
    let clients: Vec<TcpStream> = clients.into_iter().map(TcpStream::from).collect();
    clients.iter().for_each(|client| client.set_read_timeout(Some(HANG_GUARD)).unwrap());
    (before, clients)
}

fn echo_without_descriptors_pauses_and_resumes(echo: EchoOptions) {
    const CLIENTS: usize = 12;
    // More than there are descriptors, where a worker has one connection. Otherwise one: with listeners of their own,
    // a worker's connections could hold what another's wait for.
    let workers = if at_once(&echo, 6) == 6 { 6 } else { 1 };
    let server = Running::echo(ServeOptions { workers, ..ServeOptions::default() }, echo.clone());
    // The server is asleep once it has served one, and has made all that it makes at its start.
    let mut first = TcpStream::connect(server.addrs[0]).unwrap();
    first.set_read_timeout(Some(HANG_GUARD)).unwrap();
    first.write_all(b"?").unwrap();
    first.read_exact(&mut [0]).unwrap();
    drop(first);
    let (before, clients) = crowded(&server, CLIENTS, 3);
    // Long enough for a spinning server to fail many thousand times.
    std::thread::sleep(Duration::from_millis(300));
    for mut client in clients {
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
    }
    setrlimit(Resource::Nofile, before).unwrap();
    let counters = server.finish();
    assert_eq!(counters.accepted, CLIENTS as u64 + 1, "{echo:?} {counters:?}");
    assert_eq!(counters.work_error, 0, "{echo:?} {counters:?}");
    // One at a time, no limit is met; a forked process has the limit, and the descriptors are its own.
    let meets_it = !matches!(echo.design.info.name, "iterative" | "prefork");
    assert!(counters.accept_error >= 1 || !meets_it, "the limit was met: {echo:?} {counters:?}");
    assert!(counters.accept_error < 200, "it must not spin: {echo:?} {counters:?}");
}

fn without_descriptors_accepting_pauses_and_resumes() {
    const ROOM: u64 = 3;
    const CLIENTS: usize = 8;
    let server = http_default();
    // The clients take their descriptors first; then only ROOM are left for the server.
    let (before, clients) = crowded(&server, CLIENTS, ROOM);
    // Long enough for a spinning server to fail many thousand times.
    std::thread::sleep(Duration::from_millis(500));
    // Each client is answered as soon as those before it make room.
    for mut client in clients {
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
    let before = leave_room(&server.stop, ROOM);
    for number in 0..20 {
        // The client's end, the server's end, and a file at a time is all that fits beside a few kept ones.
        let reply = server.get(&format!("/{number}"));
        assert_eq!(reply.status, 200, "{number}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.body == noise(100_000), "{number}");
    }
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(server.finish().requests, 20);
}
