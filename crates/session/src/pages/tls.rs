//! Connections by TLS: handshakes go on beside each other, so that one who says nothing keeps nobody waiting.

use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Handshakes at once.
const HANDSHAKES_MAX: usize = 64;

type Accepted = (TlsStream<TcpStream>, SocketAddr);

/// Listens, and hands on who has shaken hands.
#[derive(Debug)]
pub struct Listener {
    accepted: mpsc::Receiver<Accepted>,
    address: std::io::Result<SocketAddr>,
}

impl Listener {
    /// On a listening socket; within a runtime.
    pub fn new(listener: TcpListener, config: Arc<ServerConfig>) -> Self {
        let address = listener.local_addr();
        let (sender, accepted) = mpsc::channel(1);
        tokio::spawn(accept(listener, TlsAcceptor::from(config), sender));
        Listener { accepted, address }
    }
}

async fn accept(mut listener: TcpListener, acceptor: TlsAcceptor, sender: mpsc::Sender<Accepted>) {
    let room = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    while !sender.is_closed() {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        // Waits and tries again where descriptors are short.
        let (stream, address) = axum::serve::Listener::accept(&mut listener).await;
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                let _ = sender.send((stream, address)).await;
            }
        });
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Accepted {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // Nobody accepts any more: the server is about to end.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(error.kind().into()),
        }
    }
}
