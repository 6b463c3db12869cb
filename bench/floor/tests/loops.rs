//! Every client loop against the responder, both as processes: replies come, none is broken, and
//! the line that is printed can be read. Also what the responder must survive.
//! No speed is asserted; a loop that hangs is ended by its own guard.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may fail like tests; a skip must say why"
)]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FLOOR: &str = env!("CARGO_BIN_EXE_floor");

/// A port of the loopback where nobody listens, below those that the kernel gives to who asks for any: nobody is given it
/// before it is used. It is not bound to see that: a process that another test starts at that moment has the listening socket
/// too until it is another program, and so the responder finds the port taken.
fn free_address() -> SocketAddr {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let at = || std::process::id().wrapping_mul(7919).wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)) % 20_000;
    let mut addresses = (0..20_000).map(|_| SocketAddr::from(([127, 0, 0, 1], 12_000 + at() as u16)));
    addresses.find(|address| TcpStream::connect(address).is_err()).unwrap()
}

struct Responder {
    child: Child,
    addr: SocketAddr,
}

impl Responder {
    fn start(more: &[&str]) -> Self {
        let addr = free_address();
        let mut command = Command::new(FLOOR);
        command.args(["responder", "--seconds", "60", "--port", &addr.port().to_string()]);
        let mut child = command.args(more).stdout(Stdio::null()).spawn().unwrap();
        let give_up = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(addr).is_err() {
            assert!(Instant::now() < give_up, "the responder does not listen");
            assert_eq!(child.try_wait().unwrap(), None, "the responder has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, addr }
    }

    fn end(&mut self) {
        // Already ended: as good.
        let _ = floor::process::signal(self.child.id(), floor::process::SIGTERM);
        self.child.wait().unwrap();
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end();
    }
}

fn floor(words: &[&str]) -> Output {
    Command::new(FLOOR).args(words).output().unwrap()
}

/// The number after `"name":` in a line of JSON.
fn field(line: &str, name: &str) -> f64 {
    let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

/// Runs a loop for a second on 8 connections and hands over its line.
fn check(name: &str, more: &[&str]) -> Option<String> {
    let responder = Responder::start(&[]);
    let addr = responder.addr.to_string();
    let words = [&[name, "--addr", &addr, "--connections", "8", "--seconds", "1"], more].concat();
    let output = floor(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("not permitted") || said.contains("not implemented") {
        eprintln!("skipped {words:?}: io_uring is not to be had here: {said}");
        return None;
    }
    assert!(output.status.success(), "{words:?}: {said}");
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!(field(&line, "errors"), 0.0, "{line}");
    assert!(field(&line, "requests") > 0.0, "{line}");
    assert!(field(&line, "peak_rss_bytes") > 0.0, "{line}");
    Some(line)
}

#[test]
fn closed_loops_get_their_replies() {
    check("epoll", &[]);
    check("uring", &[]);
    check("uring", &["--wait", "8"]);
    check("uring", &["--wait", "8", "--wait-max-us", "100"]);
    check("connect", &[]);
}

#[test]
fn open_loops_send_exactly_what_is_due() {
    for more in [&["--rate", "1000"][..], &["--rate", "1000", "--epoll"]] {
        if let Some(line) = check("due", more) {
            assert_eq!(field(&line, "requests"), 1000.0, "{line}");
            assert!(field(&line, "release_error_p99_us") >= 0.0, "{line}");
        }
    }
}

#[test]
fn usage_errors_are_status_2_and_failures_1() {
    assert_eq!(floor(&[]).status.code(), Some(2));
    assert_eq!(floor(&["nothing"]).status.code(), Some(2));
    assert_eq!(floor(&["epoll", "--addr", "192.0.2.1:80", "--seconds", "1"]).status.code(), Some(2));
    let wait = ["uring", "--addr", "127.0.0.1:1", "--seconds", "1", "--connections", "4", "--wait", "5"];
    assert_eq!(floor(&wait).status.code(), Some(2));
    let free = free_address().to_string();
    assert_eq!(floor(&["epoll", "--addr", &free, "--seconds", "1"]).status.code(), Some(1));
}

#[test]
fn pipelined_requests_are_all_answered_even_to_a_slow_reader() {
    let responder = Responder::start(&[]);
    let mut stream = TcpStream::connect(responder.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let count = 20_000;
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count);
        // Odd pieces, so that the end of a head is cut in every way.
        requests.chunks(997).for_each(|piece| writer.write_all(piece).unwrap());
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // Long enough for the responder to be left with replies it cannot write.
    std::thread::sleep(Duration::from_millis(200));
    let mut first = vec![0; 4096];
    let length = stream.read(&mut first).unwrap();
    let head_end = first[..length].windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let reply_bytes = head_end + floor::loops::responder::BODY_BYTES;
    let mut got = length;
    let mut buffer = vec![0; 1 << 16];
    while got < count * reply_bytes {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "closed after {got} of {} bytes", count * reply_bytes);
        got += length;
    }
    assert_eq!(got, count * reply_bytes);
    sender.join().unwrap();
}

#[test]
fn arrivals_are_noted_one_a_request() {
    let path = std::env::temp_dir().join(format!("floor-stamps-{}", std::process::id()));
    let name = path.to_string_lossy().into_owned();
    let mut responder = Responder::start(&["--stamps", &name, "--stamps-max", "1000"]);
    let addr = responder.addr.to_string();
    let words = ["due", "--addr", &addr, "--connections", "4", "--seconds", "0.1", "--rate", "1000", "--epoll"];
    assert!(floor(&words).status.success());
    responder.end();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let stamps: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(stamps.len(), 100);
    assert!(stamps.is_sorted());
}

#[test]
fn the_echo_server_sends_back_what_came() {
    let addr = free_address();
    let mut command = Command::new(FLOOR);
    command.args(["echo-server", "--seconds", "60", "--port", &addr.port().to_string()]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(120);
    let mut stream = loop {
        match TcpStream::connect(addr) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < give_up, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    for size in [1, 100, 5000] {
        let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
        stream.write_all(&bytes).unwrap();
        let mut back = vec![0; size];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, bytes);
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    floor::process::signal(child.id(), floor::process::SIGTERM).unwrap();
    let mut line = String::new();
    child.stdout.take().unwrap().read_to_string(&mut line).unwrap();
    child.wait().unwrap();
    assert!(field(&line, "requests") >= 3.0, "{line}");
}
