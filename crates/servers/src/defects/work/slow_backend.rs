//! Each request waits for a slow origin, over a connection of the server's own.
//!
//! The origin is a process of its own on a free port of 127.0.0.1 (`origin`). A worker waits blockingly, as one does with a client library made for threads; a connection that is free is
//! taken again, so there are as many as workers.

use super::background::{lock, refused};
use super::held::Held;
use super::origin::Origin;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength, Way};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-backend",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Time(Duration::from_millis(20)),
    parts: &[],
    ways: &[Way::Sleep, Way::Compute],
    needs: &[Able::Requests],
    about: "each request waits in its worker for an origin that sleeps this long for it, or computes, over a connection of the server's own",
    makes: "backend-wait: request time is spent in recv on an outgoing connection; no processor is used",
    see: "ss -tnp state established | grep pid=PID: connections between ports of which none is PORT",
    make: |setting| Ok(Box::new(SlowBackend::new(&setting)?)),
};

#[derive(Debug)]
struct SlowBackend {
    origin: Origin,
    free: Mutex<Vec<TcpStream>>,
}

impl SlowBackend {
    fn new(setting: &Setting) -> Result<Self, ServeError> {
        let origin = Origin::start(Held::of(setting));
        let origin = origin.map_err(|source| refused(setting, "start its origin", source))?;
        Ok(Self { origin, free: Mutex::new(Vec::new()) })
    }

    fn ask(&self) -> std::io::Result<()> {
        let free = lock(&self.free).pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => TcpStream::connect(self.origin.0)?,
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
