//! What browsers are shown: a run that goes on ([`live`]), the recordings of a folder ([`library`]).
//!
//! Both are served from a thread of their own that gives way to the workers, on tokio's runtime of one thread; nothing of it
//! is in the engine. Who may look and order is decided in one place, [`access`].

pub mod access;
mod answers;
pub mod library;
pub mod live;
mod tls;

use access::Access;
use axum::Router;
use remote::{TlsError, Token};
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long connections may take to end once a server is to.
const ENDING: Duration = Duration::from_millis(500);

/// Where pages are served, to whom.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether another port is taken where that one is not to be had.
    pub any_port: bool,
    /// Whether orders are taken. Then the token is needed on loopback too.
    pub takes_orders: bool,
    /// Certificate chain and key; `None`: one is made, where one is needed.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The address cannot be had.
    #[error("expected to show pages at {address}, but {source}: choose another address or port")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The certificate cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No token.
    #[error("expected randomness of the kernel for the token of a page, got none")]
    NoToken,
    /// There is no thread or no runtime.
    #[error("expected a thread for a page, but {0}: end other processes")]
    Thread(io::Error),
}

/// Pages that are served, until it is dropped.
#[derive(Debug)]
pub struct Serving {
    access: Arc<Access>,
    address: SocketAddr,
    fingerprint: Option<String>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Listens, and answers by these routes whoever may look.
    fn start(spec: &Spec, routes: impl FnOnce(&Arc<Access>) -> Router) -> Result<Self, PageError> {
        let is_local = spec.address.ip().is_loopback();
        let token = match spec.takes_orders || !is_local {
            true => Some(Token::generate().ok_or(PageError::NoToken)?),
            false => None,
        };
        let listener = listen(spec)?;
        let refused = |source| PageError::Listen { address: spec.address, source };
        let address = listener.local_addr().map_err(refused)?;
        let (config, fingerprint) = match spec.certificate.is_some() || !is_local {
            true => {
                let files = spec.certificate.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
                let (config, fingerprint) = remote::page_identity(files, &names(address.ip()))?;
                (Some(config), Some(fingerprint.to_string()))
            }
            false => (None, None),
        };
        let cookie = format!("plimsoll-{}", address.port());
        let access =
            Arc::new(Access { is_local, has_tls: config.is_some(), takes_orders: spec.takes_orders, token, cookie });
        let routes = answers::to_the_admitted(routes(&access), &access);
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(PageError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("page".to_owned())
            .spawn(move || {
                // A thread may always lower its own priority; on Linux, the calling thread's alone.
                let _ = rustix::process::setpriority_process(None, observe::FOLLOW_NICE);
                runtime.block_on(serve(listener, config, routes, ended));
                runtime.shutdown_timeout(ENDING);
            })
            .map_err(PageError::Thread)?;
        Ok(Serving { access, address, fingerprint, end: Some(end), thread: Some(thread) })
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        let scheme = if self.access.has_tls { "https" } else { "http" };
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            ip => ip.to_string(),
        };
        let query = self.access.token.as_ref().map_or(String::new(), |token| format!("?token={}", token.text()));
        format!("{scheme}://{host}:{}/{query}", self.address.port())
    }

    /// SHA-256 of the certificate that it shows, in hex.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(spec: &Spec) -> Result<std::net::TcpListener, PageError> {
    let refused = |source| PageError::Listen { address: spec.address, source };
    let listener = match std::net::TcpListener::bind(spec.address) {
        Err(error) if spec.any_port && error.kind() == io::ErrorKind::AddrInUse => {
            std::net::TcpListener::bind(SocketAddr::new(spec.address.ip(), 0))
        }
        other => other,
    };
    let listener = listener.map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

/// What a certificate that is made is for.
fn names(ip: IpAddr) -> Vec<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = vec!["localhost".to_owned()];
    if !ip.is_unspecified() {
        names.push(ip.to_string());
    }
    if !name.is_empty() && name.is_ascii() {
        names.push(name);
    }
    names
}

async fn serve(
    listener: std::net::TcpListener,
    config: Option<Arc<ServerConfig>>,
    routes: Router,
    ended: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    // Streams to viewers have no end of their own: what goes on when it is to end is cut off with the runtime.
    tokio::select! {
        _ = ended => {}
        () = async {
            let _ = match config {
                Some(config) => axum::serve(tls::Listener::new(listener, config), routes).await,
                None => axum::serve(listener, routes).await,
            };
        } => {}
    }
}
