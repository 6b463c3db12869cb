//! What connections cost a server in memory: with a peer that does not read, idle, downloading, half sent.
//! One test in its own binary, because the resident memory is the whole process's.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and says what it skips"
)]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use common::{Running, http_default, noise, resident_bytes};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use servers::ServeOptions;
use servers::echo::EchoOptions;
use servers::http::GENERATED_LINE;

#[test]
fn memory_is_bounded() {
    // The others have a stack and a buffer for each connection, or serve few at once: that is their nature.
    let many = ["epoll-edge", "epoll-level", "uring", "poll"];
    for echo in common::echo_designs().into_iter().filter(|echo| many.contains(&echo.design.info.name)) {
        an_idle_connection_holds_no_buffer(&echo);
        a_peer_that_does_not_read_is_held_back_and_costs_one_buffer(&echo);
        ten_thousand_idle_connections_cost_at_most_300_bytes_each(&echo);
    }
    endless_downloads_and_pipelines_nobody_reads_cost_next_to_nothing();
}

fn a_peer_that_does_not_read_is_held_back_and_costs_one_buffer(echo: &EchoOptions) {
    let server = Running::echo(ServeOptions { buffer_bytes: 16 * 1024, ..ServeOptions::default() }, echo.clone());
    let before = resident_bytes();
    let mut streams: Vec<_> = (0..4).map(|_| server.connect().stream.into_inner()).collect();
    let piece = noise(64 * 1024);
    let mut written = vec![0_usize; streams.len()];
    for (stream, written) in streams.iter_mut().zip(&mut written) {
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        // Until the server stops reading: the socket buffers of both directions are full.
        loop {
            match stream.write(&piece[*written % piece.len()..]) {
                Ok(n) => *written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
            assert!(*written < 1 << 30, "the server goes on reading what it cannot give back");
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for 4 connections of 16 KiB");
    for (stream, written) in streams.iter_mut().zip(&written) {
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), *written);
        assert!(back.chunks(piece.len()).all(|part| *part == piece[..part.len()]));
    }
    server.finish();
}

fn an_idle_connection_holds_no_buffer(echo: &EchoOptions) {
    let server = Running::echo(ServeOptions::default(), echo.clone());
    let before = resident_bytes();
    let streams: Vec<_> = (0..300).map(|_| server.connect().stream.into_inner()).collect();
    let bytes = noise(64 * 1024);
    let mut back = vec![0; bytes.len()];
    for mut stream in &streams {
        // In pieces that the socket buffers take whole.
        for piece in bytes.chunks(16 * 1024) {
            stream.write_all(piece).unwrap();
            stream.read_exact(&mut back[..piece.len()]).unwrap();
            assert!(back[..piece.len()] == *piece);
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 6 << 20, "{grown} bytes for 300 idle connections");
    server.finish();
}

fn ten_thousand_idle_connections_cost_at_most_300_bytes_each(echo: &EchoOptions) {
    const FEW: usize = 1_000;
    const MORE: usize = 10_000;
    // Both ends of each are in this process, but for the direct descriptors.
    let needed = 2 * (FEW + MORE) as u64 + 100;
    let needed = if echo.design.info.name == "uring" { needed / 2 + 100 } else { needed };
    let nofile = getrlimit(Resource::Nofile);
    if nofile.maximum.is_some_and(|most| most < needed) {
        eprintln!("skipped: {}: {needed} descriptors are needed, nofile is {nofile:?}", echo.design.info.name);
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: nofile.maximum, ..nofile }).unwrap();
    let echo = EchoOptions { connections_max: FEW + MORE, ..echo.clone() };
    let server = Running::echo(ServeOptions { idle_timeout: None, ..ServeOptions::default() }, echo);
    let mut streams = Vec::with_capacity(FEW + MORE);
    let mut connect = |count: usize| {
        for _ in 0..count {
            let mut stream = TcpStream::connect(server.addrs[0]).unwrap();
            stream.set_read_timeout(Some(common::HANG_GUARD)).unwrap();
            // Each has been served: none is only in the accept queue.
            stream.write_all(b"here").unwrap();
            stream.read_exact(&mut [0; 4]).unwrap();
            streams.push(stream);
        }
        resident_bytes()
    };
    let few = connect(FEW);
    let all = connect(MORE);
    let each = all.saturating_sub(few) / MORE as u64;
    println!("{each} bytes for an idle connection");
    assert!(each <= 300, "{each} bytes for an idle connection");
    assert_eq!(server.finish().accepted, (FEW + MORE) as u64);
}

fn endless_downloads_and_pipelines_nobody_reads_cost_next_to_nothing() {
    let server = http_default();
    // Warm: the worker's own buffers are there.
    assert_eq!(server.get("/bytes?n=1000000").body.len(), 1_000_000);
    let before = resident_bytes();
    let mut clients = Vec::new();
    for path in
        ["/bytes?n=10737418240", "/chunked?n=100000000&size=107", "/chunked?n=1&size=10737418240", "/bytes?n=60000"]
    {
        let mut client = server.connect();
        client.stream.get_ref().set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n");
        let pipeline = request.repeat(1000);
        // More and more requests, until the server stops taking them.
        let mut written = 0;
        while let Ok(n) = client.stream.get_mut().write(&pipeline.as_bytes()[written % request.len()..]) {
            written += n;
            assert!(written < 1 << 28, "{path}: the server goes on reading what it cannot answer");
        }
        clients.push(client);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for 4 connections");
    // And what was held back is right.
    let mut head_and_body = vec![0; 1 << 20];
    clients[0].stream.read_exact(&mut head_and_body).unwrap();
    let body_at = head_and_body.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    for (line, at) in head_and_body[body_at..].chunks(64).zip(0..) {
        assert!(line == &GENERATED_LINE[..line.len()], "line {at}");
    }
    server.finish();
}
