//! Silent connections, held beside a load: opened, never written to, looked at before they are closed.

use model::plan::{Address, Plan};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest wait for one.
const CONNECT: Duration = Duration::from_millis(500);
/// After so many refusals on end no more are tried.
const REFUSED_MAX: u64 = 3;

/// Connections that say nothing.
#[derive(Debug, Default)]
pub(super) struct Idle {
    held: Vec<TcpStream>,
    refused: u64,
}

impl Idle {
    /// Opens so many to the plan's addresses in turn; unix sockets are passed over.
    pub(super) fn hold(plan: &Plan, count: usize) -> Self {
        let tcp = |address: &Address| match address {
            Address::Tcp(socket) => Some(*socket),
            Address::Unix(_) => None,
        };
        let addresses: Vec<SocketAddr> = plan.origins.iter().flat_map(|o| &o.addresses).filter_map(tcp).collect();
        let mut idle = Idle::default();
        for address in addresses.iter().cycle().take(count) {
            match TcpStream::connect_timeout(address, CONNECT) {
                Ok(stream) => idle.held.push(stream),
                Err(_) => idle.refused += 1,
            }
            if idle.refused >= REFUSED_MAX {
                break;
            }
        }
        idle
    }

    /// How many were refused, or closed by the other end since.
    pub(super) fn turned_away(self) -> u64 {
        let is_closed = |stream: &&TcpStream| {
            let mut byte = [0];
            match stream.set_nonblocking(true).and_then(|()| stream.peek(&mut byte)) {
                Ok(0) => true,
                Ok(_) => false,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        self.refused + self.held.iter().filter(is_closed).count() as u64
    }
}
