//! Each request waits for a slow origin, over a connection of the server's own.
//!
//! The origin is a thread of this process on a free port of 127.0.0.1: for each byte sent to it, it answers with one,
//! late. A worker waits blockingly, as one does with a client library made for threads; a connection that is free is
//! taken again, so there are as many as workers.

use super::background::{Background, End, lock, refused};
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use rustix::net::Shutdown;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-backend",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Time(Duration::from_millis(20)),
    about: "each request waits in its worker for an origin that answers after this time, over a connection of the server's own",
    makes: "backend-wait: request time is spent in recv on an outgoing connection; no processor is used",
    see: "ss -tnp state established | grep pid=PID: connections between ports of which none is PORT",
    make: |setting| Ok(Box::new(SlowBackend::new(&setting)?)),
};

#[derive(Debug)]
struct SlowBackend {
    listener: Arc<TcpListener>,
    origin: SocketAddr,
    free: Mutex<Vec<TcpStream>>,
    thread: Background,
}

impl SlowBackend {
    fn new(setting: &Setting) -> Result<Self, ServeError> {
        let failed = |source| refused(setting, "listen as its own origin", source);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let origin = listener.local_addr().map_err(failed)?;
        let listener = Arc::new(listener);
        let (theirs, takes) = (Arc::clone(&listener), setting.time());
        let thread = Background::start(setting, "origin", move |end| answer_all(&theirs, takes, end))?;
        Ok(Self { listener, origin, free: Mutex::new(Vec::new()), thread })
    }

    fn ask(&self) -> std::io::Result<()> {
        let free = lock(&self.free).pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => TcpStream::connect(self.origin)?,
        };
        connection.write_all(b"?")?;
        connection.read_exact(&mut [0])?;
        lock(&self.free).push(connection);
        Ok(())
    }
}

impl Hook for SlowBackend {
    fn request(&self, _: &Request<'_>) {
        // Without a descriptor for it the server answers without its origin.
        let _ = self.ask();
    }
}

impl Drop for SlowBackend {
    fn drop(&mut self) {
        self.thread.end();
        // Ends the accept the thread is in.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
    }
}

fn answer_all(listener: &TcpListener, takes: Duration, end: &Arc<End>) {
    while let Ok((connection, _)) = listener.accept() {
        let end = Arc::clone(end);
        let one = move || answer(connection, takes, &end);
        // A connection without a thread is closed: whoever waits on it goes on.
        let _ = std::thread::Builder::new().name("origin".to_owned()).spawn(one);
    }
}

fn answer(mut connection: TcpStream, takes: Duration, end: &End) {
    let mut asked = [0];
    while let Ok(1) = connection.read(&mut asked) {
        if end.within(takes) || connection.write_all(&asked).is_err() {
            return;
        }
    }
}
