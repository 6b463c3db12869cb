//! What TLS connections cost a server in memory: at rest, half shaken, with a peer that does not read.
//! One test in its own binary, because the resident memory is the whole process's.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::tls::Secure;
use common::{noise, resident_bytes};
use servers::ServeOptions;
use servers::tls::TlsOptions;

#[test]
fn memory_is_bounded() {
    connections_at_rest_hold_their_keys_and_no_buffer();
    half_a_handshake_holds_what_came_of_it();
    a_peer_that_does_not_read_is_held_back();
}

/// A connection after its handshake and an echo; the client's own state is gone, its socket open.
fn rested(secure: &Secure, config: &std::sync::Arc<rustls::ClientConfig>) -> TcpStream {
    let mut client = secure.connect(config);
    client.send(&noise(16_000));
    let mut back = vec![0; 16_000];
    client.stream.read_exact(&mut back).unwrap();
    assert!(back == noise(16_000));
    client.stream.into_inner().into_parts().1
}

fn connections_at_rest_hold_their_keys_and_no_buffer() {
    const CONNECTIONS: u64 = 1000;
    let secure = Secure::echo(TlsOptions::default(), ServeOptions::default());
    let config = secure.config();
    let warm: Vec<_> = (0..50).map(|_| rested(&secure, &config)).collect();
    let before = resident_bytes();
    let streams: Vec<_> = (0..CONNECTIONS).map(|_| rested(&secure, &config)).collect();
    let each = resident_bytes().saturating_sub(before) / CONNECTIONS;
    assert!(each < 8 * 1024, "{each} bytes for a connection at rest");
    drop((warm, streams));
    secure.server.finish();
}

fn half_a_handshake_holds_what_came_of_it() {
    const CONNECTIONS: u64 = 200;
    let secure = Secure::echo(TlsOptions::default(), ServeOptions::default());
    let before = resident_bytes();
    let streams: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = secure.tcp();
            // A record of 16 KiB that is announced and comes but for its last byte.
            stream.write_all(&[0x16, 3, 1, 0x40, 0]).unwrap();
            stream.write_all(&[1; 16_383]).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let each = resident_bytes().saturating_sub(before) / CONNECTIONS;
    assert!(each < 32 * 1024, "{each} bytes for half a handshake");
    drop(streams);
    assert_eq!(secure.server.finish().tls_failed, CONNECTIONS);
}

fn a_peer_that_does_not_read_is_held_back() {
    let secure =
        Secure::echo(TlsOptions::default(), ServeOptions { buffer_bytes: 16 * 1024, ..ServeOptions::default() });
    let config = secure.config();
    let piece = noise(16 * 1024);
    let before = resident_bytes();
    let mut clients: Vec<_> = (0..4).map(|_| secure.connect(&config).stream.into_inner()).collect();
    let mut written = Vec::new();
    for client in &mut clients {
        client.write_all(&piece).unwrap();
        client.flush().unwrap();
        client.sock.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut sum = piece.len();
        // Until the server stops reading: the socket buffers of both directions are full.
        loop {
            match client.conn.writer().write(&piece[..1000]) {
                Ok(n) => sum += n,
                Err(error) => panic!("{error}"),
            }
            match client.conn.write_tls(&mut client.sock) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
            assert!(sum < 1 << 30, "the server goes on reading what it cannot give back");
        }
        written.push(sum);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for 4 connections");
    for (client, written) in clients.iter_mut().zip(written) {
        client.sock.set_nonblocking(true).unwrap();
        client.conn.send_close_notify();
        let (mut back, mut piece) = (0, vec![0; 64 * 1024]);
        loop {
            match client.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => back += n,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert_eq!(back, written, "what was taken comes back whole, then close_notify");
    }
    let counters = secure.server.finish();
    assert_eq!((counters.tls_full + counters.tls_resumed, counters.send_error), (4, 0), "{counters:?}");
}
