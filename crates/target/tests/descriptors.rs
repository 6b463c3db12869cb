//! A server that runs out of descriptors: it waits for one instead of spinning, and goes on after.
//! Alone in its binary: the limit is the whole process's.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{HANG_GUARD, http_default};
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn without_descriptors_accepting_pauses_and_resumes() {
    const ROOM: usize = 3;
    const CLIENTS: usize = 8;
    let server = http_default();
    // The clients take their descriptors first; then only ROOM are left for the server.
    let placeholders: Vec<_> = (0..CLIENTS).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let probe = std::fs::File::open("/dev/null").unwrap();
    let lowest_free = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&probe)).unwrap();
    drop(probe);
    let before = getrlimit(Resource::Nofile);
    let mut limited = before.clone();
    limited.current = Some(lowest_free + ROOM as u64);
    setrlimit(Resource::Nofile, limited).unwrap();
    let mut clients: Vec<TcpStream> = Vec::new();
    for placeholder in placeholders {
        drop(placeholder);
        let stream = TcpStream::connect(server.addrs[0]).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        clients.push(stream);
        // The server must not get the descriptor that a later client's placeholder frees.
        std::thread::sleep(Duration::from_millis(5));
    }
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
