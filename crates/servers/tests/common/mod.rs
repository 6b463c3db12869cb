//! A server in a thread and a bare client, both for the tests alone.
//!
//! The client parses replies by itself, as simply as can be: it must not share a bug with the server.
//! Every read has a hang guard of 20 s, which no test that passes comes near.

#![allow(dead_code, reason = "each test binary uses its own part of this module")]

pub mod proxy;
pub mod tls;
pub mod websocket;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use servers::echo::{self, EchoOptions};
use servers::http::{self, HttpOptions};
use servers::{Counters, ServeError, ServeOptions, Stop};

pub const HANG_GUARD: Duration = testkit::HANG_GUARD;

/// Ways out of the folder that is served, to a file `secret` beside it: by dots, by what stands for them, by an end that is
/// cut off.
pub const WAYS_OUT: [&str; 9] = [
    "/../secret",
    "/sub/../../secret",
    "/%2e%2e/secret",
    "/%2e%2e%2fsecret",
    "/..%2fsecret",
    "/sub%2f..%2f..%2fsecret",
    "/..%5csecret",
    "/secret%00.bin",
    "/%",
];

/// What a server counted, perhaps beside other things.
pub trait Counted: std::fmt::Debug + Send + 'static {
    fn counters(&self) -> &Counters;
}

impl Counted for Counters {
    fn counters(&self) -> &Counters {
        self
    }
}

/// A server that runs, and at its end says what it counted.
pub struct Running<C: Counted = Counters> {
    pub addrs: Vec<SocketAddr>,
    pub stop: Stop,
    thread: JoinHandle<Result<C, ServeError>>,
}

impl<C: Counted> Running<C> {
    fn start(
        serve: impl FnOnce(&Stop, &mut dyn FnMut(&[SocketAddr])) -> Result<C, ServeError> + Send + 'static,
    ) -> Self {
        let stop = Stop::new().unwrap();
        let (tell, told) = mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || serve(&stopped, &mut |addrs| tell.send(addrs.to_vec()).unwrap()));
        match told.recv_timeout(HANG_GUARD) {
            Ok(addrs) => Self { addrs, stop, thread },
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the server did not start: {:?}", thread.join()),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the server neither starts nor gives up"),
        }
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.addrs[0]).unwrap())
    }

    /// One request on a connection of its own; the reply.
    pub fn ask(&self, request: &str) -> Reply {
        let mut client = self.connect();
        client.send(request.as_bytes());
        client.reply(request.starts_with("HEAD"))
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n"))
    }

    /// The same requests cut at each place in turn, a connection each; `check` reads the replies, with what to say of them.
    pub fn cut_anywhere(&self, requests: &[u8], check: impl Fn(&mut Client, &str)) {
        for cut in 0..=requests.len() {
            let mut client = self.connect();
            client.send(&requests[..cut]);
            // Time for the first part to arrive alone; where it does not, the case is only easier.
            std::thread::sleep(Duration::from_millis(1));
            client.send(&requests[cut..]);
            check(&mut client, &format!("cut at {cut}"));
        }
    }

    /// Stops the server and takes its counters, which must be whole.
    pub fn finish(self) -> C {
        self.stop.stop();
        let counted = self.thread.join().expect("no panic").expect("a clean end");
        assert_eq!(counted.counters().accepted, counted.counters().closed, "{counted:?}");
        counted
    }
}

impl Running {
    pub fn http(options: ServeOptions, http: HttpOptions) -> Self {
        Self::start(move |stop, ready| http::serve(&options, &http, stop, |addrs| ready(addrs)))
    }

    pub fn echo(options: ServeOptions, echo: EchoOptions) -> Self {
        Self::start(move |stop, ready| echo::serve(&options, &echo, stop, |addrs| ready(addrs)))
    }
}

/// Every design of the echo server that can run here.
pub fn echo_designs() -> Vec<EchoOptions> {
    let mut usable = Vec::new();
    for design in echo::DESIGNS {
        let echo = EchoOptions { design, ..EchoOptions::default() };
        let stop = Stop::new().unwrap();
        stop.stop();
        match echo::serve(&ServeOptions::default(), &echo, &stop, |_| {}) {
            Ok(_) => usable.push(echo),
            Err(why @ ServeError::NoIoUring { .. }) => eprintln!("skipped: {}: {why}", design.info.name),
            Err(error) => panic!("{}: {error}", design.info.name),
        }
    }
    usable
}

/// As many workers of this design as it can have, at most `workers`.
pub fn workers(echo: &EchoOptions, workers: usize) -> usize {
    if matches!(echo.design.info.name, "iterative" | "fork" | "thread") { 1 } else { workers }
}

/// Connections that this design serves at once with so many workers.
pub fn at_once(echo: &EchoOptions, workers: usize) -> usize {
    match echo.design.info.name {
        "iterative" => 1,
        "pool" | "prefork" => workers,
        _ => 10_000,
    }
}

pub fn http_default() -> Running {
    Running::http(ServeOptions::default(), HttpOptions::default())
}

pub struct Client<S: Read = TcpStream> {
    pub stream: BufReader<S>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice");
        value
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        stream.set_write_timeout(Some(HANG_GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub fn end(&self) {
        self.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Closes with a reset.
    pub fn reset(self) {
        let stream = self.stream.into_inner();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    }
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// For what the server may refuse to read to its end.
    pub fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    pub fn is_at_end(&mut self) -> bool {
        self.stream.fill_buf().unwrap().is_empty()
    }

    pub fn reply(&mut self, to_head: bool) -> Reply {
        self.try_reply(to_head).expect("a reply before the end")
    }

    /// The next reply; `None` at the connection's end.
    pub fn try_reply(&mut self, to_head: bool) -> Option<Reply> {
        let status_line = self.line()?;
        let (version, rest) = status_line.split_once(' ').expect("a status line");
        assert_eq!(version, "HTTP/1.1");
        let status: u16 = rest[..3].parse().unwrap();
        let mut fields = Vec::new();
        loop {
            let line = self.line().expect("a whole head");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("a field, not {line:?}"));
            fields.push((name.to_owned(), value.to_owned()));
        }
        let mut reply = Reply { status, fields, body: Vec::new() };
        if to_head || status < 200 || status == 204 || status == 304 {
            return Some(reply);
        }
        if let Some(length) = reply.field("Content-Length") {
            reply.body.resize(length.parse().unwrap(), 0);
            self.stream.read_exact(&mut reply.body).unwrap();
        } else if reply.field("Transfer-Encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line().unwrap(), 16).unwrap();
                let from = reply.body.len();
                reply.body.resize(from + size, 0);
                self.stream.read_exact(&mut reply.body[from..]).unwrap();
                assert_eq!(self.line().as_deref(), Some(""));
                if size == 0 {
                    break;
                }
            }
        } else {
            assert_eq!(reply.field("Connection"), Some("close"), "{reply:?}");
            reply.body = self.rest();
        }
        Some(reply)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        Some(line.strip_suffix("\r\n").unwrap_or_else(|| panic!("CR LF after {line:?}")).to_owned())
    }
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Bytes that hold every value, NUL often, and repeat with no power of two.
pub fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|at| if at % 3 == 0 { 0 } else { (at * 7 + at / 251) as u8 }).collect()
}
