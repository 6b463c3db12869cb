//! Clients that are slow, silent or too many reach a real server, are counted, and are gone after; in network namespaces of
//! their own. And a port that answers in a server's place.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
#[path = "common/helper.rs"]
mod helpers;
use common::*;
use helpers::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[test]
fn helper() {
    help();
}

/// What helpers have written down, those of other tests, too.
fn states() -> Vec<String> {
    let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let files = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("plimsoll-fault-"));
    files.filter_map(|entry| std::fs::read_to_string(entry.path().join("state.json")).ok()).collect()
}

/// What a server has seen of one connection.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// When each read came, and how many bytes it had.
    reads: Vec<(Instant, usize)>,
    text: Vec<u8>,
    is_over: bool,
}

/// Answers each request with so many bytes; remembers what came on which connection.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Bytes of replies that were written to sockets.
    written: Arc<Mutex<usize>>,
}

impl Server {
    fn start(reply_bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server { address: listener.local_addr().unwrap(), seen: Arc::default(), written: Arc::default() };
        let own = server.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let own = own.clone();
                std::thread::spawn(move || own.serve(connection, reply_bytes));
            }
        });
        server
    }

    fn serve(&self, mut connection: TcpStream, reply_bytes: usize) {
        let at = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(Seen::default());
            seen.len() - 1
        };
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = connection.read(&mut bytes) {
            let is_whole = {
                let seen = &mut self.seen.lock().unwrap()[at];
                seen.reads.push((Instant::now(), count));
                seen.text.extend(&bytes[..count]);
                seen.text.ends_with(b"\r\n\r\n")
            };
            if !is_whole {
                continue;
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {reply_bytes}\r\n\r\n");
            let reply = [head.as_bytes(), &vec![b'x'; reply_bytes]].concat();
            for part in reply.chunks(1024) {
                if connection.write_all(part).is_err() {
                    break;
                }
                *self.written.lock().unwrap() += part.len();
            }
        }
        self.seen.lock().unwrap()[at].is_over = true;
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Connections that are open, and how many came.
    fn open(&self) -> (usize, usize) {
        let seen = self.seen();
        (seen.iter().filter(|one| !one.is_over).count(), seen.len())
    }

    fn all_end(&self) {
        testkit::wait_until("their connections end", || self.open().0 == 0);
        assert!(helpers().is_empty());
    }
}

#[test]
fn slow_writers_send_a_byte_at_a_time_and_are_gone_after() {
    if !inside("slow_writers_send_a_byte_at_a_time_and_are_gone_after") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(10);
    let fault = format!("slow-writers {} 3 every 5ms text 'AHOY\\r\\n\\r\\n'", server.address);
    let begun = begin(folder.path(), &fault);
    // Each is answered, and asks again.
    testkit::wait_until("all three have asked twice", || {
        let seen = server.seen();
        seen.len() == 3
            && seen.iter().all(|one| one.text.windows(8).filter(|part| part == b"AHOY\r\n\r\n").count() >= 2)
    });
    for one in server.seen() {
        // A server that is slow may find two bytes at once, never all.
        assert!(one.reads.len() > 4 && one.reads.iter().all(|(_, count)| *count < 8), "{:?}", one.reads);
    }
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("3 connections made, 3 open") && said.contains("bytes sent"), "{said}");
    server.all_end();
    // As a whole HTTP request, where nothing else is named.
    let begun = begin(folder.path(), &format!("slow-writers {} 1 every 1ms get /index", server.address));
    testkit::wait_until("a request", || {
        server.seen().last().is_some_and(|one| one.text.starts_with(b"GET /index HTTP/1.1\r\nHost: 127.0.0.1:"))
    });
    begun.end().unwrap();
    server.all_end();
}

#[test]
fn slow_readers_leave_the_reply_with_the_server() {
    if !inside("slow_readers_leave_the_reply_with_the_server") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // More than the buffers of both ends, with that of the client as small as can be.
    let server = Server::start(64 << 20);
    let begun = begin(folder.path(), &format!("slow-readers {} 2 1KiB/s get /large", server.address));
    testkit::wait_until("both have asked", || {
        server.seen().iter().filter(|one| one.text.starts_with(b"GET /large ")).count() == 2
    });
    testkit::wait_until("something was read", || *server.written.lock().unwrap() > 0);
    assert!(*server.written.lock().unwrap() < 2 * (64 << 20), "the rest is still the server's");
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("2 connections made, 2 open"), "{said}");
    server.all_end();
    // At whichever pace, so many bytes are there when it reads: a buffer that is too small would hold less.
    let start = Instant::now();
    let begun = begin(folder.path(), &format!("slow-readers {} 1 1MiB/s get /large", server.address));
    testkit::wait_until("a million bytes are read", || {
        let number = |text: &String| {
            let after = text.split("\"bytes_read\":").nth(1)?;
            after.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().ok()
        };
        states().iter().filter_map(number).any(|bytes| bytes > 1 << 20)
    });
    // Never faster than it is told to be, but for the first act.
    let said = begun.end().unwrap().join("; ");
    let read = said.split(" read").next().unwrap().rsplit(' ').next().unwrap().replace(',', "").parse::<f64>().unwrap();
    assert!(read <= start.elapsed().as_secs_f64() * f64::from(1 << 20) + f64::from(1 << 18), "{said}");
    server.all_end();
}

#[test]
fn silent_ones_are_held_and_made_again_when_the_server_ends_them() {
    if !inside("silent_ones_are_held_and_made_again_when_the_server_ends_them") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(0);
    let begun = begin(folder.path(), &format!("silent-connections {} 20", server.address));
    testkit::wait_until("all are there", || server.open() == (20, 20));
    assert!(server.seen().iter().all(|one| one.text.is_empty()));
    assert!(begun.end().unwrap().join("; ").starts_with("20 connections made, 20 open; "));
    server.all_end();
    // One that ends each at once.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = begin(folder.path(), &format!("silent-connections {} 1", listener.local_addr().unwrap()));
    listener.set_nonblocking(true).unwrap();
    for _ in 0..3 {
        testkit::wait_until("it comes again", || listener.accept().is_ok());
    }
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("closed by the server (the first after"), "{said}");
}

#[test]
fn a_flood_makes_connections_and_holds_none() {
    if !inside("a_flood_makes_connections_and_holds_none") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(0);
    let begun = begin(folder.path(), &format!("connection-flood {} 500/s", server.address));
    testkit::wait_until("many came", || server.open().1 > 200);
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("connections made"), "{said}");
    server.all_end();
    // Nobody there: that is said, with the reason.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = begin(folder.path(), &format!("connection-flood {nobody} 500/s"));
    testkit::wait_until("it was refused", || states().iter().any(|text| text.contains("connection refused")));
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("not made (the first: connection refused)"), "{said}");
}

/// Connections of this namespace that a server has answered and whose client did not go on (`SYN_RECV`, net/tcp_states.h).
fn half_open() -> usize {
    let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    text.lines().filter(|line| line.split_whitespace().nth(3) == Some("03")).count()
}

#[test]
fn a_syn_flood_leaves_half_open_connections_and_no_rules() {
    if testkit::program("nft").is_none() {
        return testkit::skip("nft (nftables) is not installed");
    }
    if !inside("a_syn_flood_leaves_half_open_connections_and_no_rules") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(0);
    let fault = format!("syn-flood {} 200/s", server.address.port());
    let begun = begin(folder.path(), &fault);
    testkit::wait_until("connections are half open", || half_open() > 20);
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("packets of answers dropped") && said.contains("packets sent"), "{said}");
    assert!(is_as_before());
    assert_eq!(server.open().1, 0, "none was ever accepted");
}

/// No rule of ours and no helper.
fn is_as_before() -> bool {
    let output = Command::new("nft").args(["list", "tables"]).output().unwrap();
    helpers().is_empty() && !String::from_utf8_lossy(&output.stdout).contains("plimsoll_")
}

/// The first line of the reply to a request on a connection, or how it fails.
fn ask(connection: &mut TcpStream) -> Result<String, ErrorKind> {
    connection.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").map_err(|error| error.kind())?;
    let mut bytes = [0; 512];
    let count = connection.read(&mut bytes).map_err(|error| error.kind())?;
    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    Ok(text.lines().next().unwrap_or("nothing").to_owned())
}

fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    connection
}

#[test]
fn a_port_answers_in_the_servers_place_and_the_server_again_after() {
    if testkit::program("nft").is_none() {
        return testkit::skip("nft (nftables) is not installed");
    }
    if !inside("a_port_answers_in_the_servers_place_and_the_server_again_after") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(0);
    let port = server.address.port();
    let mut open = connect(server.address);
    assert_eq!(ask(&mut open).unwrap(), "HTTP/1.1 200 OK");
    let mut waiting = connect(server.address);
    testkit::wait_until("both are there", || server.open() == (2, 2));
    let begun = begin(folder.path(), &format!("port-answer {port} 503"));
    // Who waits for a reply learns it at once, and so does the server.
    let failed = waiting.read(&mut [0]).unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset), "{failed}");
    testkit::wait_until("the server has seen both end", || server.open().0 == 0);
    // Who keeps a connection learns it, and comes to another server with the next one.
    let failed = ask(&mut open).unwrap_err();
    let are_ends = [ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::BrokenPipe];
    assert!(are_ends.contains(&failed), "{failed}");
    let mut new = connect(server.address);
    for _ in 0..3 {
        assert_eq!(ask(&mut new).unwrap(), "HTTP/1.1 503 Service Unavailable");
    }
    let asked = server.seen().len();
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("3 requests answered on 1 connection"), "{said}");
    assert!(matches!(ask(&mut new), Err(_) | Ok(_)) && server.seen().len() == asked, "who answered is gone");
    assert_eq!(ask(&mut connect(server.address)).unwrap(), "HTTP/1.1 200 OK");
    assert!(is_as_before());
}
