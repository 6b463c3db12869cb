//! A real nginx with a configuration of its own, on a free port of the loopback, ended with the test.

use crate::family;
use crate::port::Reserved;
use crate::process::Guard;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Where ports are looked for.
const FIRST_PORT: u32 = 12_000;
const PORTS: u32 = 20_000;

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    process: Guard,
    prepared: Prepared,
}

/// An nginx that somebody else starts, such as a run whose target it is, and ends.
#[derive(Debug)]
pub struct Prepared {
    program: PathBuf,
    port: Reserved,
    folder: TempDir,
}

impl Prepared {
    /// The folder, port and configuration of [`Nginx::start`]. `server` may log by the format `stamps`: the moment in seconds since
    /// 1970 with milliseconds, and the status.
    ///
    /// # Errors
    /// Where nginx is not installed, or its folder cannot be made.
    pub fn new(server: &str) -> io::Result<Self> {
        let program = crate::program("nginx").ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "nginx is not installed (scripts/packages.sh test)")
        })?;
        let prepared = Prepared { program, port: Reserved::new()?, folder: tempfile::tempdir()? };
        let folder = prepared.folder();
        for name in ["www", "logs"] {
            std::fs::create_dir(folder.join(name))?;
        }
        std::fs::write(folder.join("www/index.html"), "x".repeat(612))?;
        std::fs::write(folder.join("nginx.conf"), configuration(folder, prepared.address(), server))?;
        open_to_all(folder)?;
        Ok(prepared)
    }

    /// What starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.folder();
        command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(folder.join("nginx.conf"));
        command
    }

    /// Where it is to listen.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its own folder, which paths in its configuration are relative to.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Nginx {
    /// Starts one with a worker process that serves `index.html` (612 bytes) and whatever the test puts into
    /// [`Nginx::root`]. `server` is added to its `server` block.
    ///
    /// # Errors
    /// Where nginx is not installed, cannot be started, or does not listen in the end.
    pub fn start(server: &str) -> io::Result<Self> {
        let prepared = Prepared::new(server)?;
        let process = spawn(&prepared)?;
        let mut nginx = Nginx { process, prepared };
        let address = nginx.address();
        nginx.process.until_it_listens("nginx", address)?;
        Ok(nginx)
    }

    /// Ends it and its workers with SIGKILL, as a crash would. Its folder stays.
    pub fn kill(&mut self) {
        let workers = family::descendants(self.pid());
        self.process.signal(libc::SIGKILL);
        self.process.wait(crate::HANG_GUARD);
        family::kill(&workers);
    }

    /// Starts it again at the same place, after [`Nginx::kill`].
    ///
    /// # Errors
    /// As [`Nginx::start`].
    pub fn start_again(&mut self) -> io::Result<()> {
        self.process = spawn(&self.prepared)?;
        let address = self.address();
        self.process.until_it_listens("nginx", address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.prepared.address()
    }

    /// Its document root.
    pub fn root(&self) -> PathBuf {
        self.folder().join("www")
    }

    /// Its own folder, which paths in its configuration are relative to.
    pub fn folder(&self) -> &Path {
        self.prepared.folder()
    }

    /// Its master process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM to the master, so that it ends its workers; the guard makes sure of the master.
        self.process.signal(libc::SIGTERM);
        let _ = self.process.wait(Duration::from_secs(5));
    }
}

fn spawn(prepared: &Prepared) -> io::Result<Guard> {
    Guard::spawn(prepared.command().stdout(Stdio::null()).stderr(Stdio::null()))
}

/// A port of the loopback that was free a moment ago: for what listens without reusing addresses; all else wants a
/// [`Reserved`] one. It is given to nobody in the meantime: it lies below those that the kernel gives to who connects or asks
/// for any (`net.ipv4.ip_local_port_range`).
///
/// # Errors
/// Where no socket can be bound at all.
pub fn free_address() -> io::Result<SocketAddr> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Other processes begin elsewhere.
    let first = std::process::id().wrapping_mul(7919);
    let bound = (0..PORTS).find_map(|_| {
        let at = first.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = u16::try_from(FIRST_PORT + at).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
    });
    bound.map_or_else(|| TcpListener::bind("127.0.0.1:0"), Ok)?.local_addr()
}

fn configuration(folder: &Path, address: SocketAddr, server: &str) -> String {
    let at = folder.display();
    let user = if crate::is_root() { "user root;" } else { "" };
    format!(
        "daemon off; {user} worker_processes 1; pid {at}/pid; error_log stderr error;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  log_format stamps '$msec $status'; access_log off; keepalive_requests 100000000; keepalive_timeout 75s;\n  \
         client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;\n  \
         uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n  \
         server {{ listen {address}; root {at}/www; {server} }}\n}}\n"
    )
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}
