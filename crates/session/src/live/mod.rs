//! The live page's server: what a run shows of itself while it goes on, to browsers.
//!
//! It is handed what to show, whole, and shows each viewer the newest: who comes late, or slept, misses nothing, and one who
//! takes nothing holds nothing up. Nothing is made while nobody looks. All of it runs on one thread that gives way to the
//! workers, on tokio's runtime of one thread; nothing of it is in the engine.
//!
//! On loopback anybody of this machine may look. Elsewhere, and wherever orders are taken, only who has the token; elsewhere by
//! TLS alone. See [`access`].

pub mod access;
mod routes;
mod tls;

use access::Access;
use remote::{TlsError, Token};
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Viewers at most; one more is asked to come later.
pub const VIEWERS_MAX: usize = 64;
/// Orders that may wait to be followed; one more is refused.
const ORDERS_MAX: usize = 16;
/// How long connections may take to end once the server is to.
const ENDING: Duration = Duration::from_millis(500);

/// What is served, to whom.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether another port is taken where that one is not to be had.
    pub any_port: bool,
    /// Whether orders are taken: to stop, to change the rate.
    pub takes_orders: bool,
    /// Certificate chain and key; `None`: one is made, where one is needed.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// What a viewer asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// To end the run as Ctrl-C does.
    Stop,
    /// To ask for so many times the planned rate from now on.
    Rate(f64),
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The address cannot be had.
    #[error("expected to show the live page at {address}, but {source}: choose another address or port (--live)")]
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
    #[error("expected randomness of the kernel for the live page's token, got none")]
    NoToken,
    /// There is no thread or no runtime.
    #[error("expected a thread for the live page, but {0}: end other processes")]
    Thread(io::Error),
}

/// What viewers are shown.
#[derive(Debug, Clone)]
enum Showing {
    /// Nothing yet.
    Nothing,
    /// How it stands.
    Frame(Arc<str>),
    /// It is over, and the report is there.
    Ended,
}

/// What server and routes share.
#[derive(Debug)]
struct Shared {
    access: Access,
    /// The page around what is shown.
    shell: String,
    showing: watch::Sender<Showing>,
    viewers: AtomicUsize,
    /// The report of the run that has ended.
    report: OnceLock<Vec<u8>>,
    /// How often it was fetched.
    fetched: AtomicUsize,
    orders: SyncSender<Order>,
}

/// A page that is served.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    fingerprint: Option<String>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    orders: Receiver<Order>,
}

impl Server {
    /// Listens, and shows `shell` until there is something to show in it.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn start(spec: &Spec, shell: String) -> Result<Self, LiveError> {
        let is_local = spec.address.ip().is_loopback();
        let token = match spec.takes_orders || !is_local {
            true => Some(Token::generate().ok_or(LiveError::NoToken)?),
            false => None,
        };
        let listener = listen(spec)?;
        let refused = |source| LiveError::Listen { address: spec.address, source };
        let address = listener.local_addr().map_err(refused)?;
        let (config, fingerprint) = match spec.certificate.is_some() || !is_local {
            true => {
                let files = spec.certificate.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
                let (config, fingerprint) = remote::page_identity(files, &names(address.ip()))?;
                (Some(config), Some(fingerprint.to_string()))
            }
            false => (None, None),
        };
        let (order, orders) = sync_channel(ORDERS_MAX);
        let access = Access { is_local, has_tls: config.is_some(), takes_orders: spec.takes_orders, token };
        let shared = Arc::new(Shared {
            access,
            shell,
            showing: watch::Sender::new(Showing::Nothing),
            viewers: AtomicUsize::new(0),
            report: OnceLock::new(),
            fetched: AtomicUsize::new(0),
            orders: order,
        });
        let (end, ended) = oneshot::channel();
        let thread = {
            let shared = Arc::clone(&shared);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LiveError::Thread)?;
            std::thread::Builder::new()
                .name("page".to_owned())
                .spawn(move || {
                    // A thread may always lower its own priority; on Linux, the calling thread's alone.
                    let _ = rustix::process::setpriority_process(None, observe::FOLLOW_NICE);
                    runtime.block_on(serve(listener, config, shared, ended));
                    runtime.shutdown_timeout(ENDING);
                })
                .map_err(LiveError::Thread)?
        };
        Ok(Server { shared, address, fingerprint, end: Some(end), thread: Some(thread), orders })
    }

    /// Where it is: what to open in a browser.
    pub fn url(&self) -> String {
        let scheme = if self.shared.access.has_tls { "https" } else { "http" };
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            ip => ip.to_string(),
        };
        let query = self.shared.access.token.as_ref().map_or(String::new(), |token| format!("?token={}", token.text()));
        format!("{scheme}://{host}:{}/{query}", self.address.port())
    }

    /// SHA-256 of the certificate that it shows, in hex.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// How many look.
    pub fn viewers(&self) -> usize {
        self.shared.viewers.load(Ordering::Relaxed)
    }

    /// Whether somebody looks who has been shown nothing yet.
    pub fn is_awaited(&self) -> bool {
        self.viewers() > 0 && matches!(*self.shared.showing.borrow(), Showing::Nothing)
    }

    /// Shows how it stands; whoever has not taken the one before gets this one in its place.
    pub fn show(&self, frame: String) {
        self.shared.showing.send_replace(Showing::Frame(frame.into()));
    }

    /// The next order that was given, if any.
    pub fn order(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// The run has ended: whoever looks gets the report, for which he is waited for so long; then nothing is served.
    pub fn end(self, report: Vec<u8>, wait: Duration) {
        let looking = self.viewers();
        let _ = self.shared.report.set(report);
        self.shared.showing.send_replace(Showing::Ended);
        let began = Instant::now();
        while self.shared.fetched.load(Ordering::Relaxed) < looking && began.elapsed() < wait {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(spec: &Spec) -> Result<std::net::TcpListener, LiveError> {
    let refused = |source| LiveError::Listen { address: spec.address, source };
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
    shared: Arc<Shared>,
    ended: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let routes = routes::routes(shared);
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
