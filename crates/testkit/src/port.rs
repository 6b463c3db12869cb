//! A port of the loopback that is a test's own, without anybody who listens there.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// A port that is bound and not listened on: connections to it are refused, and nobody else is given it, as a port that was
/// free a moment ago would be. A server whose listener reuses addresses, as nginx's, redis' and `std`'s do, can still
/// listen there.
#[derive(Debug)]
pub struct Reserved {
    _socket: Socket,
    address: SocketAddr,
}

impl Reserved {
    /// One of 127.0.0.1 that nobody uses.
    ///
    /// # Errors
    /// Where no socket can be bound at all.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Two sockets can share a port only if both say so, and then only one can listen.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket();
        let address = address.ok_or_else(|| io::Error::other("a socket of IPv4 without an address of it"))?;
        Ok(Reserved { _socket: socket, address })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn it_refuses_until_a_server_listens_there() {
        let reserved = Reserved::new().unwrap();
        let refused = TcpStream::connect(reserved.address()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(reserved.address()).unwrap();
        drop(reserved);
        TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    }
}
