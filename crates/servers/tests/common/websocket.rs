//! A WebSocket server in a thread, and the bare beginning of a client.

use std::io::Read;

use servers::ServeOptions;
use servers::websocket::{self, WebSocketOptions};

use super::{Client, Running};

/// A handshake; `fields` are further lines.
pub fn handshake(fields: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    )
}

impl Running {
    pub fn websocket(options: ServeOptions, websocket: WebSocketOptions) -> Self {
        Self::start(move |stop, ready| websocket::serve(&options, &websocket, stop, |addrs| ready(addrs)))
    }

    /// A connection after its handshake, and the extensions agreed on.
    pub fn open(&self, fields: &str) -> (Client, Option<String>) {
        let mut client = self.connect();
        client.send(handshake(fields).as_bytes());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        let extensions = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Extensions: "));
        (client, extensions.map(str::to_owned))
    }
}
