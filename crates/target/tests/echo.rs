//! The echo server against a bare client: sizes, cuts, half-closes, resets, draining.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use common::{HANG_GUARD, Running, echo_designs, noise};
use target::echo;
use target::{ServeError, ServeOptions, Stop};

fn options(workers: usize, buffer_bytes: usize) -> ServeOptions {
    ServeOptions { workers, buffer_bytes, ..ServeOptions::default() }
}

/// Writes from one thread and reads in this one, so that no size can deadlock.
fn exchange<S: Read + Write + Send + 'static>(mut reader: S, mut writer: S, bytes: &[u8]) {
    let sent = bytes.to_vec();
    let sender = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer
    });
    let mut back = vec![0; bytes.len()];
    reader.read_exact(&mut back).unwrap();
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
    sender.join().unwrap();
}

fn connect(server: &Running) -> TcpStream {
    let stream = TcpStream::connect(server.addrs[0]).unwrap();
    stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
    stream.set_write_timeout(Some(HANG_GUARD)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[test]
fn every_size_comes_back_whatever_the_buffer() {
    for echo in echo_designs() {
        for buffer_bytes in [7, 4096, 64 * 1024] {
            let server = Running::echo(options(2, buffer_bytes), echo.clone());
            let stream = connect(&server);
            let top = if buffer_bytes == 7 { 12 } else { 20 };
            let around = (0..=top).map(|power| 1_usize << power).chain((1..5).map(|times| times * buffer_bytes));
            let mut sum = 0;
            for size in around.flat_map(|size| [size - 1, size, size + 1]) {
                exchange(stream.try_clone().unwrap(), stream.try_clone().unwrap(), &noise(size));
                sum += size as u64;
            }
            drop(stream);
            let counters = server.finish();
            assert_eq!((counters.bytes_in, counters.bytes_out), (sum, sum), "{counters:?}");
            assert_eq!(counters.recv_error + counters.send_error + counters.work_error, 0, "{counters:?}");
        }
    }
}

#[test]
fn many_connections_each_get_their_own_bytes() {
    for echo in echo_designs() {
        let server = Running::echo(options(2, 4096), echo.clone());
        let clients: Vec<_> = (0..100_u8)
            .map(|number| {
                let stream = connect(&server);
                std::thread::spawn(move || {
                    for round in 1..10 {
                        let bytes = vec![number; round * 1000];
                        exchange(stream.try_clone().unwrap(), stream.try_clone().unwrap(), &bytes);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        assert_eq!(server.finish().accepted, 100);
    }
}

#[test]
fn after_a_half_close_the_rest_comes_back_and_then_the_end() {
    for echo in echo_designs() {
        let server = Running::echo(options(1, 4096), echo.clone());
        for size in [0, 1, 4096, 300_000] {
            let mut stream = connect(&server);
            let mut writer = stream.try_clone().unwrap();
            let bytes = noise(size);
            let sent = bytes.clone();
            let sender = std::thread::spawn(move || {
                writer.write_all(&sent).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut back = Vec::new();
            stream.read_to_end(&mut back).unwrap();
            assert!(back == bytes, "{size}");
            sender.join().unwrap();
        }
        let counters = server.finish();
        assert_eq!((counters.shutdown, counters.accepted), (4, 4), "{counters:?}");
    }
}

#[test]
fn resets_and_urgent_data_harm_nobody_else() {
    for echo in echo_designs() {
        let server = Running::echo(options(1, 4096), echo.clone());
        let steady = connect(&server);
        for size in [0, 1, 100_000] {
            let mut stream = connect(&server);
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let _ = stream.write(&noise(size));
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            drop(stream);
            exchange(steady.try_clone().unwrap(), steady.try_clone().unwrap(), &noise(5000));
        }
        let mut urgent = connect(&server);
        urgent.write_all(b"before").unwrap();
        rustix::net::send(&urgent, b"!", rustix::net::SendFlags::OOB).unwrap();
        urgent.write_all(b"after").unwrap();
        let mut back = [0; 11];
        urgent.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"beforeafter", "the urgent byte is outside the stream, the others are not lost");
        let counters = server.finish();
        assert!(counters.recv_error + counters.send_error >= 2, "{counters:?}");
    }
}

#[test]
fn unix_sockets_are_served_and_their_file_is_cared_for() {
    for echo in echo_designs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("echo.sock");
        let with_unix = || ServeOptions { unix: Some(path.clone()), listen: Vec::new(), ..options(2, 4096) };
        // A socket nobody serves any more is in the way, and is replaced.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let server = Running::echo(with_unix(), echo.clone());
        assert_eq!(server.addrs, []);
        for _ in 0..10 {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
            exchange(stream.try_clone().unwrap(), stream.try_clone().unwrap(), &noise(100_000));
        }
        let refused = |options: &ServeOptions| {
            echo::serve(options, &echo, &Stop::new().unwrap(), |_| panic!("it must not start"))
        };
        assert!(matches!(refused(&with_unix()), Err(ServeError::UnixInUse { .. })));
        server.finish();
        assert!(!path.exists(), "removed at the end");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(refused(&with_unix()), Err(ServeError::UnixInUse { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let nowhere = ServeOptions { unix: Some("/nonexistent/x.sock".into()), ..options(1, 1) };
        assert!(matches!(refused(&nowhere), Err(ServeError::UnixListen { .. })));
    }
}

#[test]
fn a_stop_finishes_what_is_pending_and_cuts_what_does_not_move() {
    for echo in echo_designs() {
        let server = Running::echo(options(2, 16 * 1024), echo.clone());
        let mut idle = connect(&server);
        exchange(idle.try_clone().unwrap(), idle.try_clone().unwrap(), b"hello");
        let mut stuck = connect(&server);
        stuck.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        while stuck.write(&[0; 65536]).is_ok() {}
        let mut busy = connect(&server);
        busy.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut written = 0;
        while let Ok(n) = busy.write(&[1; 65536]) {
            written += n;
        }
        server.stop.stop();
        assert_eq!(idle.read(&mut [0; 10]).unwrap(), 0, "the idle one is closed in order");
        let reader = std::thread::spawn(move || {
            let mut back = Vec::new();
            busy.shutdown(Shutdown::Write).unwrap();
            busy.read_to_end(&mut back).unwrap();
            back.len()
        });
        let counters = server.finish();
        assert_eq!(reader.join().unwrap(), written, "what was taken came back whole");
        assert_eq!(counters.cut_at_stop, 1, "{counters:?}");
        drop(stuck);
    }
}

#[test]
fn idle_connections_are_closed_and_busy_ones_not() {
    for echo in echo_designs() {
        let server = Running::echo(
            ServeOptions { idle_timeout: Some(Duration::from_millis(400)), ..options(1, 4096) },
            echo.clone(),
        );
        let mut idle = connect(&server);
        let busy = connect(&server);
        for _ in 0..12 {
            exchange(busy.try_clone().unwrap(), busy.try_clone().unwrap(), b"x");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
        exchange(busy.try_clone().unwrap(), busy.try_clone().unwrap(), b"still there");
        assert_eq!(server.finish().idle_closed, 1);
    }
}

#[test]
fn a_connection_made_at_the_start_lives_as_long_as_any() {
    for echo in echo_designs() {
        let idle_timeout = Some(Duration::from_secs(2));
        let server = Running::echo(ServeOptions { idle_timeout, ..options(1, 4096) }, echo.clone());
        // The first thing the worker sees, before it has looked for idle connections.
        let stream = connect(&server);
        std::thread::sleep(Duration::from_millis(500));
        exchange(stream.try_clone().unwrap(), stream.try_clone().unwrap(), b"still there");
        assert_eq!(server.finish().idle_closed, 0);
    }
}
