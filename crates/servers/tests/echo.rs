//! The echo server against a bare client: sizes, cuts, half-closes, resets, draining.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use common::{HANG_GUARD, Running, at_once, echo_designs, noise, workers};
use servers::echo::{self, EchoOptions};
use servers::{ServeError, ServeOptions, Stop};

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

/// How much comes until the end. That goes on where a signal interrupts it: servers in this process use some.
fn rest(stream: &mut TcpStream) -> usize {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest.len()
}

/// Every design at the same time: for tests that mostly wait.
fn each_design(test: impl Fn(EchoOptions) + Sync) {
    std::thread::scope(|scope| {
        for echo in echo_designs() {
            let test = &test;
            scope.spawn(move || test(echo));
        }
    });
}

#[test]
fn every_size_comes_back_whatever_the_buffer() {
    for echo in echo_designs() {
        for buffer_bytes in [7, 4096, 64 * 1024] {
            let server = Running::echo(options(workers(&echo, 2), buffer_bytes), echo.clone());
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
        let server = Running::echo(options(workers(&echo, 4), 4096), echo.clone());
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
        let workers = workers(&echo, 3);
        let server = Running::echo(options(workers, 4096), echo.clone());
        // Where only one is served at once, the next after the reset is the one that must not be harmed.
        let steady = (at_once(&echo, workers) > 1).then(|| connect(&server));
        for size in [0, 1, 100_000] {
            let mut stream = connect(&server);
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let _ = stream.write(&noise(size));
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            drop(stream);
            let next = steady.as_ref().map_or_else(|| connect(&server), |steady| steady.try_clone().unwrap());
            exchange(next.try_clone().unwrap(), next.try_clone().unwrap(), &noise(5000));
        }
        let mut urgent = connect(&server);
        urgent.write_all(b"before").unwrap();
        rustix::net::send(&urgent, b"!", rustix::net::SendFlags::OOB).unwrap();
        urgent.write_all(b"after").unwrap();
        let mut back = [0; 11];
        urgent.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"beforeafter", "the urgent byte is outside the stream, the others are not lost");
        let counters = server.finish();
        assert!(counters.recv_error + counters.send_error >= 2, "{echo:?} {counters:?}");
        assert_eq!(counters.work_error + counters.cut_at_stop, 0, "{echo:?} {counters:?}");
    }
}

#[test]
fn unix_sockets_are_served_and_their_file_is_cared_for() {
    for echo in echo_designs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("echo.sock");
        let with_unix =
            || ServeOptions { unix: Some(path.clone()), listen: Vec::new(), ..options(workers(&echo, 2), 4096) };
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

/// Writes until nothing is taken any more, also by a server that a busy machine holds up; how much that was.
fn fill(stream: &mut TcpStream) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let (mut written, mut in_vain) = (0, 0);
    while in_vain < 5 {
        match stream.write(&[1; 65536]) {
            Ok(n) => (written, in_vain) = (written + n, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => in_vain += 1,
            Err(_) => break,
        }
    }
    written
}

#[test]
fn a_stop_finishes_what_is_pending_and_cuts_what_does_not_move() {
    each_design(|echo| {
        let workers = workers(&echo, 3);
        let server = Running::echo(options(workers, 16 * 1024), echo.clone());
        // One that is idle, one that never reads, one that is busy; only the last where one is served at once.
        let mut others = (at_once(&echo, workers) > 1).then(|| {
            let idle = connect(&server);
            exchange(idle.try_clone().unwrap(), idle.try_clone().unwrap(), b"hello");
            let mut stuck = connect(&server);
            fill(&mut stuck);
            (idle, stuck)
        });
        let mut busy = connect(&server);
        let written = fill(&mut busy);
        server.stop.stop();
        if let Some((idle, _)) = &mut others {
            assert_eq!(rest(idle), 0, "the idle one is closed in order");
        }
        let reader = std::thread::spawn(move || {
            let mut back = Vec::new();
            busy.shutdown(Shutdown::Write).unwrap();
            busy.read_to_end(&mut back).unwrap();
            back.len()
        });
        let counters = server.finish();
        assert_eq!(reader.join().unwrap(), written, "what was taken came back whole: {echo:?}");
        assert_eq!(counters.cut_at_stop, u64::from(others.is_some()), "{echo:?} {counters:?}");
        assert_eq!(counters.work_error + counters.recv_error, 0, "{echo:?} {counters:?}");
    });
}

#[test]
fn who_stands_in_the_queue_at_the_stop_is_let_in() {
    each_design(|echo| {
        let server = Running::echo(options(1, 4096), echo.clone());
        let mut streams: Vec<_> = (0..3).map(|_| connect(&server)).collect();
        for stream in &mut streams {
            stream.write_all(b"last words").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let counters = server.finish();
        for stream in &mut streams {
            let mut back = Vec::new();
            stream.read_to_end(&mut back).unwrap();
            assert_eq!(back, b"last words", "{echo:?}");
        }
        assert_eq!((counters.accepted, counters.cut_at_stop), (3, 0), "{echo:?} {counters:?}");
    });
}

#[test]
fn idle_connections_are_closed_and_busy_ones_not() {
    each_design(|echo| {
        let workers = workers(&echo, 2);
        let idle_timeout = Some(Duration::from_secs(3));
        let server = Running::echo(ServeOptions { idle_timeout, ..options(workers, 4096) }, echo.clone());
        // Where one is served at once, the busy one comes first and has gone when the other is let in.
        let busy = connect(&server);
        exchange(busy.try_clone().unwrap(), busy.try_clone().unwrap(), b"first");
        let mut idle = connect(&server);
        for _ in 0..45 {
            exchange(busy.try_clone().unwrap(), busy.try_clone().unwrap(), b"x");
            std::thread::sleep(Duration::from_millis(100));
        }
        if at_once(&echo, workers) == 1 {
            drop(busy);
            assert_eq!(rest(&mut idle), 0);
        } else {
            assert_eq!(rest(&mut idle), 0);
            exchange(busy.try_clone().unwrap(), busy.try_clone().unwrap(), b"still there");
        }
        let counters = server.finish();
        assert_eq!(counters.idle_closed, 1, "{echo:?} {counters:?}");
    });
}

#[test]
fn a_peer_that_never_reads_is_given_up_after_the_idle_timeout() {
    each_design(|echo| {
        let idle_timeout = Some(Duration::from_secs(3));
        let server = Running::echo(ServeOptions { idle_timeout, ..options(1, 4096) }, echo.clone());
        let mut stuck = connect(&server);
        fill(&mut stuck);
        // Who comes after it is served, at the latest when it is given up.
        let next = connect(&server);
        exchange(next.try_clone().unwrap(), next.try_clone().unwrap(), &noise(10_000));
        drop(next);
        let mut rest = Vec::new();
        let _ = stuck.read_to_end(&mut rest);
        let counters = server.finish();
        assert!(counters.idle_closed >= 1, "{echo:?} {counters:?}");
    });
}

#[test]
fn a_thousand_connections_at_once_or_as_many_as_there_are_workers() {
    const CONNECTIONS: usize = 1000;
    for echo in echo_designs() {
        let workers = workers(&echo, 4);
        let server = Running::echo(options(workers, 4096), echo.clone());
        let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| connect(&server)).collect();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&(number as u64).to_be_bytes()).unwrap();
        }
        let mut answered = 0;
        let at_once = at_once(&echo, workers).min(CONNECTIONS);
        // Some are served, at most so many; the others wait, and are served when those have gone.
        for (number, stream) in streams.into_iter().enumerate() {
            let mut stream = stream;
            let mut back = [0; 8];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(u64::from_be_bytes(back), number as u64);
            answered += 1;
            if at_once == CONNECTIONS {
                exchange(stream.try_clone().unwrap(), stream, &noise(100));
            }
        }
        assert_eq!(answered, CONNECTIONS);
        let counters = server.finish();
        assert_eq!((counters.accepted, counters.shutdown), (1000, 1000), "{echo:?} {counters:?}");
        assert_eq!(counters.bytes_in, counters.bytes_out, "{echo:?} {counters:?}");
        assert_eq!(counters.work_error + counters.accept_error + counters.recv_error, 0, "{echo:?} {counters:?}");
    }
}

#[test]
fn with_all_its_workers_taken_a_design_lets_others_wait() {
    for echo in echo_designs() {
        let name = echo.design.info.name;
        // The two that take a number of connections, and those whose workers take one each.
        let (workers, echo) = match name {
            "thread" | "fork" => (1, EchoOptions { connections_max: 3, ..echo }),
            "pool" | "prefork" => (3, echo),
            _ => continue,
        };
        let server = Running::echo(options(workers, 4096), echo);
        let served: Vec<_> = (0..3).map(|_| connect(&server)).collect();
        for stream in &served {
            exchange(stream.try_clone().unwrap(), stream.try_clone().unwrap(), b"in");
        }
        let mut waiting = connect(&server);
        waiting.write_all(b"?").unwrap();
        waiting.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(waiting.read(&mut [0]).is_err(), "{name}: there is no room for it");
        drop(served);
        waiting.set_read_timeout(Some(HANG_GUARD)).unwrap();
        waiting.read_exact(&mut [0]).unwrap();
        let counters = server.finish();
        assert_eq!(counters.accepted, 4, "{name}: {counters:?}");
        assert!(counters.accept_error <= 2, "{name} must not spin: {counters:?}");
    }
}

#[test]
fn bytes_cut_anywhere_come_back_in_order() {
    for echo in echo_designs() {
        let server = Running::echo(options(1, 64), echo.clone());
        let mut stream = connect(&server);
        let bytes = noise(200);
        for cut in 0..=bytes.len() {
            stream.write_all(&bytes[..cut]).unwrap();
            stream.write_all(&bytes[cut..]).unwrap();
            let mut back = vec![0; bytes.len()];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back, bytes, "cut at {cut}");
        }
        server.finish();
    }
}

#[test]
fn what_a_design_cannot_do_is_refused() {
    for echo in echo_designs() {
        let stop = Stop::new().unwrap();
        let refused = |options: &ServeOptions| echo::serve(options, &echo, &stop, |_| panic!("it must not start"));
        let taken = Running::echo(ServeOptions::default(), echo.clone());
        let in_use = ServeOptions { listen: taken.addrs.clone(), ..ServeOptions::default() };
        assert!(matches!(refused(&in_use), Err(ServeError::AddressInUse { .. })), "{echo:?}");
        taken.finish();
        let nowhere = ServeOptions { pin: Some(vec![0, 1023]), workers: workers(&echo, 2), ..ServeOptions::default() };
        if workers(&echo, 2) == 2 || echo.design.info.name == "fork" {
            assert!(matches!(refused(&nowhere), Err(ServeError::Pin { cpu: 1023, .. })), "{echo:?}");
        }
        if workers(&echo, 2) == 1 {
            let error = refused(&options(2, 4096)).unwrap_err();
            assert!(matches!(error, ServeError::OneWorker { got: 2, .. }) && error.is_usage(), "{error}");
        }
        if !echo.design.info.tls {
            let tls = ServeOptions { tls: Some(servers::tls::TlsOptions::default()), ..ServeOptions::default() };
            assert!(matches!(refused(&tls), Err(ServeError::NoTlsInDesign { .. })), "{echo:?}");
        }
    }
}

#[test]
fn a_connection_made_at_the_start_lives_as_long_as_any() {
    each_design(|echo| {
        let idle_timeout = Some(Duration::from_secs(20));
        let server = Running::echo(ServeOptions { idle_timeout, ..options(1, 4096) }, echo.clone());
        // The first thing the worker sees, before it has looked for idle connections.
        let stream = connect(&server);
        std::thread::sleep(Duration::from_millis(500));
        exchange(stream.try_clone().unwrap(), stream.try_clone().unwrap(), b"still there");
        assert_eq!(server.finish().idle_closed, 0);
    });
}
