//! A `plimsoll serve` process with a defect, and a bare client that takes what comes for what it is.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::common::{self, Server};
use crate::readings::{self, Task, unread_bytes};
use testkit::process::Guard;
use testkit::websocket::{frame, read};

/// No test that passes comes near it.
const HANG_GUARD: Duration = testkit::HANG_GUARD;

/// A server under test.
pub struct Subject {
    process: Server,
    /// Whom a proxy asks.
    _origin: Option<Server>,
    pub server: &'static str,
    pub addr: SocketAddr,
}

impl Subject {
    pub fn start(server: &'static str, workers: usize, defect: Option<&str>) -> Self {
        let workers = workers.to_string();
        let mut args = vec!["serve", server, "--listen", "127.0.0.1:0", "--workers", &workers];
        args.extend(defect.iter().flat_map(|defect| ["--defect", defect]));
        let origin = (server == "proxy").then(|| common::serve(&["serve", "http", "--listen", "127.0.0.1:0"]));
        args.extend(origin.iter().flat_map(|origin| ["--origin", &origin.url]));
        let process = common::serve(&args);
        let addr = process.url.split_once("://").unwrap().1.trim_end_matches('/').parse().unwrap();
        Self { process, _origin: origin, server, addr }
    }

    pub fn pid(&self) -> u32 {
        self.process.process.pid()
    }

    pub fn workers(&self) -> Vec<Task> {
        readings::workers(self.pid(), self.server)
    }

    /// All its threads.
    pub fn threads(&self) -> Vec<Task> {
        readings::tasks(self.pid())
    }

    /// The process itself.
    pub fn process(&mut self) -> &mut Guard {
        &mut self.process.process
    }

    /// Processor time of its workers so far.
    pub fn cpu(&self) -> Duration {
        self.workers().iter().map(Task::cpu).sum()
    }

    /// A connection on which nothing has been said.
    pub fn connect_silently(&self) -> Client {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, server: self.server, port: self.addr.port() }
    }

    pub fn connect(&self) -> Client {
        let mut client = self.connect_silently();
        if self.server == "ws" {
            let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13";
            let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
            client.send(format!("GET / HTTP/1.1\r\nHost: t\r\n{fields}\r\n{key}\r\n\r\n").as_bytes());
            let head = client.reply().head;
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        }
        client
    }

    /// Bytes that come back, as they are sent: of WebSocket in a frame.
    pub fn message(&self, bytes: &[u8]) -> Vec<u8> {
        if self.server == "ws" { frame(0x82, bytes).bytes(true, 0) } else { bytes.to_vec() }
    }

    /// What came back, without what it was sent in.
    pub fn messages(&self, mut bytes: &[u8]) -> Vec<u8> {
        if self.server != "ws" {
            return bytes.to_vec();
        }
        let mut all = Vec::new();
        while let Some(((0x82, false, payload), rest)) = read(bytes) {
            all.extend(payload);
            bytes = rest;
        }
        assert!(bytes.is_empty(), "no message: {bytes:?}");
        all
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    server: &'static str,
    port: u16,
}

/// A reply of http as it came.
#[derive(Debug, Default)]
pub struct Reply {
    pub head: String,
    /// As long as `Content-Length` says, unless the connection ended before.
    pub body: Vec<u8>,
    pub is_cut: bool,
}

impl Client {
    /// A request and its reply, whatever the server; sound ones.
    pub fn exchange(&mut self) {
        self.ask();
        self.take_reply();
    }

    /// The request of [`Self::exchange`].
    pub fn ask(&mut self) {
        match self.server {
            "http" | "proxy" => self.send(b"GET /bytes?n=100 HTTP/1.1\r\nHost: t\r\n\r\n"),
            "names" => self.send(b"*2\r\n$4\r\nLOAD\r\n$3\r\nkey\r\n"),
            "ws" => self.send(&frame(0x82, &[b'a'; 100]).bytes(true, 0)),
            _ => self.send(&[b'a'; 100]),
        }
    }

    /// The reply of [`Self::exchange`].
    pub fn take_reply(&mut self) {
        let bytes = match self.server {
            "http" | "proxy" => return assert!(!self.reply().is_cut),
            "names" => 5,
            "ws" => 102,
            _ => 100,
        };
        self.stream.read_exact(&mut vec![0; bytes]).unwrap();
    }

    /// Whether something has come that was not read.
    pub fn has_reply(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let came = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        came.is_ok()
    }

    /// A message of so many bytes, and its return: of echo and WebSocket.
    pub fn exchange_bytes(&mut self, number: usize) {
        let bytes = vec![b'a'; number];
        let message = if self.server == "ws" { frame(0x82, &bytes).bytes(true, 0) } else { bytes };
        self.send(&message);
        // A message that comes back is not masked: four bytes less.
        let back = message.len() - if self.server == "ws" { 4 } else { 0 };
        self.stream.read_exact(&mut vec![0; back]).unwrap();
    }

    /// As [`Self::exchange`]; false where the connection ends instead.
    pub fn try_exchange(&mut self) -> bool {
        match self.server {
            "http" | "proxy" => {
                self.send(b"GET /bytes?n=100 HTTP/1.1\r\nHost: t\r\n\r\n");
                !self.reply().is_cut
            }
            _ => self.stream.write_all(&[b'a'; 100]).is_ok() && self.stream.read_exact(&mut [0; 100]).is_ok(),
        }
    }

    /// Names: what comes for a name that is not there.
    pub fn load(&mut self, name: &str) -> [u8; 5] {
        self.send(format!("*2\r\n$4\r\nLOAD\r\n${}\r\n{name}\r\n", name.len()).as_bytes());
        let mut reply = [0; 5];
        self.stream.read_exact(&mut reply).unwrap();
        reply
    }

    /// Whether its connection ends within so long, without anything asked.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let received = self.stream.read(&mut [0]);
        self.stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        match received {
            Ok(n) => n == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Bytes it has sent that the server has not received.
    pub fn unread_bytes(&self) -> u64 {
        unread_bytes(self.port, self.stream.local_addr().unwrap().port())
    }

    /// The socket, to end it from another thread.
    pub fn socket(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Ends its own direction.
    pub fn end(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// All that still comes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    pub fn get(&mut self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes());
        self.reply()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends, and waits until the server has taken it up: what is sent next is a message of its own.
    pub fn send_apart(&mut self, bytes: &[u8]) {
        self.send(bytes);
        let here = self.stream.local_addr().unwrap().port();
        testkit::wait_until("the server has received", || unread_bytes(self.port, here) == 0);
    }

    /// The next reply; a cut one at the connection's end.
    pub fn reply(&mut self) -> Reply {
        self.next_reply().unwrap_or(Reply { is_cut: true, ..Reply::default() })
    }

    /// The next reply; `None` at the connection's end.
    pub fn next_reply(&mut self) -> Option<Reply> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if self.stream.read(&mut byte).unwrap() == 0 {
                assert!(head.is_empty(), "a head is never cut");
                return None;
            }
            head.push(byte[0]);
        }
        let mut reply = Reply { head: String::from_utf8_lossy(&head).into_owned(), ..Reply::default() };
        let length = reply.head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.unwrap_or("0").parse().unwrap();
        (&self.stream).take(length).read_to_end(&mut reply.body).unwrap();
        reply.is_cut = (reply.body.len() as u64) < length;
        Some(reply)
    }

    /// Echo: what comes back for `message`, with nothing behind it.
    pub fn echoed(mut self, message: &[u8]) -> Vec<u8> {
        self.send(message);
        self.end();
        self.rest()
    }
}
