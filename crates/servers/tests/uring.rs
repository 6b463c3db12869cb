//! The echo server on several rings: more connections than one table holds, all tables full, ends.
//! Tables are made small, so that few connections fill them.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use common::{HANG_GUARD, Running, echo_designs, noise};
use servers::ServeOptions;
use servers::echo::EchoOptions;

/// The design, with room for so many connections in tables of so many slots; `None` where it cannot run.
fn uring(connections_max: usize, table_slots: u32) -> Option<EchoOptions> {
    let design = echo_designs().into_iter().find(|echo| echo.design.info.name == "uring")?;
    Some(EchoOptions { connections_max, table_slots: Some(table_slots), ..design })
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
    stream.set_write_timeout(Some(HANG_GUARD)).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    stream.write_all(bytes).unwrap();
    stream.read_exact(&mut back).unwrap();
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
}

/// Whether the server has taken the connection: its byte comes back within the time given.
fn is_served(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut back = [0];
    let served = match stream.read(&mut back) {
        Ok(n) => n == 1,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
        Err(error) => panic!("{error}"),
    };
    stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
    served
}

/// Loopback addresses on several ports.
fn ports(count: usize) -> Vec<SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap(); count]
}

#[test]
fn more_connections_than_a_table_holds_are_spread_over_rings() {
    let Some(echo) = uring(300, 64) else { return };
    for (workers, listen) in [(1, ports(1)), (2, ports(3))] {
        let options = ServeOptions { workers, listen, ..ServeOptions::default() };
        let server = Running::echo(options, echo.clone());
        let mut streams: Vec<_> = (0..300).map(|at| connect(server.addrs[at % server.addrs.len()])).collect();
        for round in 1..4 {
            for (number, stream) in streams.iter_mut().enumerate() {
                exchange(stream, &noise(number * round + 1));
            }
        }
        // Slots that become free on any ring are used again.
        for _ in 0..3 {
            for (at, stream) in streams.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0) {
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                *stream = connect(server.addrs[at % server.addrs.len()]);
            }
            for stream in &mut streams {
                exchange(stream, b"and again");
            }
        }
        // All at once, over every ring.
        std::thread::scope(|scope| {
            for part in streams.chunks_mut(50) {
                scope.spawn(move || {
                    for stream in part {
                        exchange(stream, &noise(30_000));
                    }
                });
            }
        });
        let counters = server.finish();
        assert_eq!((counters.accepted, counters.shutdown), (600, 300), "{counters:?}");
        assert_eq!(counters.accept_error + counters.cut_at_stop + counters.work_error, 0, "{counters:?}");
        assert_eq!(counters.bytes_in, counters.bytes_out, "{counters:?}");
    }
}

#[test]
fn with_all_tables_full_who_comes_waits_and_is_not_lost() {
    // 22 slots for 20 connections: three rings of 8.
    let Some(echo) = uring(20, 8) else { return };
    const SLOTS: usize = 24;
    let server = Running::echo(ServeOptions::default(), echo);
    let mut streams: Vec<_> = (0..SLOTS + 6).map(|_| connect(server.addrs[0])).collect();
    for stream in &mut streams {
        stream.write_all(b"?").unwrap();
    }
    for stream in &mut streams[..SLOTS] {
        assert!(is_served(stream, HANG_GUARD));
    }
    for stream in &mut streams[SLOTS..] {
        assert!(!is_served(stream, Duration::from_millis(100)), "there is no slot for it");
    }
    // Each that goes makes room for one that waits, wherever its slot was.
    for gone in [0, 12, 21, 3, 17, 9] {
        streams[gone].shutdown(Shutdown::Write).unwrap();
        assert_eq!(streams[gone].read(&mut [0]).unwrap(), 0);
    }
    for stream in &mut streams[SLOTS..] {
        assert!(is_served(stream, HANG_GUARD));
        exchange(stream, &noise(5000));
    }
    let counters = server.finish();
    assert_eq!(counters.accepted, SLOTS as u64 + 6, "{counters:?}");
    assert!(counters.accept_error >= 1, "the limit was met: {counters:?}");
    assert!(counters.accept_error < 100, "it must not spin: {counters:?}");
}

#[test]
fn idle_connections_on_every_ring_are_closed_and_busy_ones_not() {
    let Some(echo) = uring(100, 16) else { return };
    let options = ServeOptions { idle_timeout: Some(Duration::from_secs(2)), ..ServeOptions::default() };
    let server = Running::echo(options, echo);
    let mut streams: Vec<_> = (0..100).map(|_| connect(server.addrs[0])).collect();
    for _ in 0..60 {
        for stream in streams.iter_mut().step_by(10) {
            exchange(stream, b"busy");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for (at, stream) in streams.iter_mut().enumerate() {
        if at % 10 == 0 {
            exchange(stream, b"still there");
        } else {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "connection {at}");
        }
    }
    let counters = server.finish();
    assert_eq!((counters.idle_closed, counters.closed), (90, 100), "{counters:?}");
}

#[test]
fn a_stop_ends_every_ring_in_order_and_frees_the_port() {
    let Some(echo) = uring(200, 16) else { return };
    let mut options = ServeOptions { workers: 2, ..ServeOptions::default() };
    for _ in 0..3 {
        let server = Running::echo(options.clone(), echo.clone());
        let addr = server.addrs[0];
        let mut idle: Vec<_> = (0..100).map(|_| connect(addr)).collect();
        for stream in idle.iter_mut().step_by(2) {
            // Some have spoken often enough to have a receive armed, the others are polled.
            for _ in 0..4 {
                exchange(stream, b"x");
            }
        }
        // What was written before the stop comes back after it.
        for stream in idle.iter_mut().step_by(3) {
            stream.write_all(b"last words").unwrap();
        }
        let counters = server.finish();
        for (at, stream) in idle.iter_mut().enumerate() {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, if at % 3 == 0 { &b"last words"[..] } else { b"" }, "connection {at}");
        }
        assert_eq!((counters.accepted, counters.cut_at_stop), (100, 0), "{counters:?}");
        assert_eq!(counters.recv_error + counters.send_error, 0, "{counters:?}");
        // The same port again at once.
        options.listen = vec![addr];
    }
}

#[test]
fn more_connections_at_once_than_the_pool_has_buffers_are_all_served() {
    let Some(echo) = uring(2000, 4096) else { return };
    let server = Running::echo(ServeOptions::default(), echo);
    let mut streams: Vec<_> = (0..1000).map(|_| connect(server.addrs[0])).collect();
    let bytes = noise(20_000);
    for _ in 0..5 {
        for stream in &mut streams {
            stream.write_all(&bytes).unwrap();
        }
        for stream in &mut streams {
            let mut back = vec![0; bytes.len()];
            stream.read_exact(&mut back).unwrap();
            assert!(back == bytes);
        }
    }
    let counters = server.finish();
    assert_eq!(counters.bytes_out, 5 * 1000 * 20_000, "{counters:?}");
    assert_eq!(counters.recv_error + counters.work_error, 0, "{counters:?}");
}
