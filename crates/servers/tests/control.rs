//! What a server says it has counted, while it runs: complete, for every design, whoever asks and however.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails, and says what it skips")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;

use common::{HANG_GUARD, Running, at_once, echo_designs, noise, workers};
use servers::control::{self, Control};
use servers::http::HttpOptions;
use servers::{Live, ServeError, ServeOptions};

/// The number behind a name in a line of JSON.
fn field(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap_or_else(|_| panic!("{name} in {line}"))
}

fn open(path: &Path, live: &Live) -> Control {
    let design = &servers::echo::DESIGNS[0].info;
    Control::open(path, control::figures("echo", design, live)).unwrap()
}

fn echo(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == bytes);
}

#[test]
fn what_was_echoed_is_counted_when_it_is_asked_for() {
    for echo_options in echo_designs() {
        let name = echo_options.design.info.name;
        let workers = workers(&echo_options, 3);
        let options = ServeOptions { workers, ..ServeOptions::default() };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let control = open(&path, &options.live);
        let server = Running::echo(options, echo_options.clone());
        let line = control::read(&path).unwrap();
        assert_eq!((field(&line, "accepted"), field(&line, "connections")), (0, 0), "{name}: {line}");
        let connections = at_once(&echo_options, workers).min(20);
        let mut streams: Vec<_> = (0..connections)
            .map(|_| {
                let stream = TcpStream::connect(server.addrs[0]).unwrap();
                stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
                stream
            })
            .collect();
        let mut bytes = 0;
        for round in 1..30_u64 {
            for stream in &mut streams {
                echo(stream, &noise(round as usize));
                bytes += round;
            }
            // At once: the reading waits for workers that have sent and not slept since.
            let line = control::read(&path).unwrap();
            if line.contains("\"settled\":false") {
                // A worker had no CPU for as long as a reading waits, and the line says so.
                eprintln!("{name}: not settled in round {round}");
                continue;
            }
            let found = ["bytes_in", "bytes_out", "accepted", "connections", "closed"].map(|of| field(&line, of));
            assert_eq!(found, [bytes, bytes, connections as u64, connections as u64, 0], "{name}: {line}");
            assert_eq!(field(&line, "recv"), round * connections as u64, "{name}: {line}");
        }
        for stream in &mut streams {
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        // The end is seen before the close is counted.
        let give_up = Instant::now() + HANG_GUARD;
        let line = loop {
            let line = control::read(&path).unwrap();
            if field(&line, "closed") == connections as u64 || Instant::now() > give_up {
                break line;
            }
        };
        let found = ["connections", "shutdown", "bytes_in"].map(|of| field(&line, of));
        assert_eq!(found, [0, connections as u64, bytes], "{name}: {line}");
        let counters = server.finish();
        // After the end it still says what it has counted, and that is the same.
        let line = control::read(&path).unwrap();
        for (counter, value) in counters.rows() {
            assert_eq!(field(&line, counter), value, "{name}: {line}");
        }
        drop(control);
        assert!(!path.exists());
    }
}

#[test]
fn http_is_asked_in_the_same_way() {
    let options = ServeOptions { workers: 2, ..ServeOptions::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let _control = open(&path, &options.live);
    let server = Running::http(options, HttpOptions::default());
    for requests in 1..20 {
        assert_eq!(server.get("/").status, 200);
        let line = control::read(&path).unwrap();
        let found = (field(&line, "requests"), field(&line, "accepted"));
        assert!(found == (requests, requests) || line.contains("\"settled\":false"), "{line}");
        assert_eq!(field(&line, "pid"), u64::from(std::process::id()), "{line}");
    }
    server.finish();
}

#[test]
fn hostile_clients_keep_nobody_from_asking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    // Left behind by a server that was killed: it is replaced.
    drop(UnixListener::bind(&path).unwrap());
    let live = Live::default();
    let control = open(&path, &live);
    // They neither read nor go, some shout, some are gone at once.
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut client = UnixStream::connect(&path).unwrap();
        match number % 3 {
            0 => silent.push(client),
            1 => {
                // The answer may have been given, and the socket closed, before that.
                let _ = client.write_all(&noise(100_000));
            }
            _ => drop(client),
        }
    }
    for _ in 0..10 {
        assert!(control::read(&path).unwrap().starts_with("{\"server\":\"echo\",\"design\":\"epoll-edge\""));
    }
    // A line is there for whoever reads late.
    for client in &mut silent {
        client.set_read_timeout(Some(HANG_GUARD)).unwrap();
        let mut line = String::new();
        client.read_to_string(&mut line).unwrap();
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
    }
    // Two servers cannot share a path, and a file is not overwritten.
    let again = || Control::open(&path, Vec::new);
    assert!(matches!(again(), Err(ServeError::UnixInUse { .. })));
    drop(control);
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(again(), Err(ServeError::UnixInUse { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_line_that_nobody_ends_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = listener.accept().unwrap();
            // The reader stops at its limit, and this end learns it.
            while client.write_all(&[b'x'; 65536]).is_ok() {}
        });
        assert!(matches!(control::read(&path), Err(ServeError::NoControl { .. })));
    });
}
