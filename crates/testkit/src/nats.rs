//! A real nats-server with JetStream on free ports of the loopback, its store in a folder of its own, ended with the test; also a cluster
//! of three.

use crate::port::Reserved;
use crate::process::Guard;
use crate::{HANG_GUARD, wait_until};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a node that was started again may take to say that it is well.
const WELL_WITHIN: Duration = Duration::from_secs(15);

/// A running nats-server.
#[derive(Debug)]
pub struct Nats {
    process: Guard,
    program: PathBuf,
    clients: Reserved,
    monitor: Reserved,
    routes: Reserved,
    folder: TempDir,
    /// The size of its store's own disk, KiB; `None`: it is on that of its folder.
    disk_kib: Option<u32>,
}

impl Nats {
    /// Starts one alone; `of_jetstream` is added to what is said of JetStream.
    ///
    /// # Errors
    /// Where nats-server is not installed, cannot be started, or is not ready in the end.
    pub fn start(of_jetstream: &str) -> io::Result<Self> {
        Nats::start_with(of_jetstream, "")
    }

    /// The same; `more` is added to its configuration.
    ///
    /// # Errors
    /// As [`Nats::start`].
    pub fn start_with(of_jetstream: &str, more: &str) -> io::Result<Self> {
        let mut nats = Nats::prepare((of_jetstream, more), "alone", None, None)?;
        nats.until_ready()?;
        Ok(nats)
    }

    /// Starts one alone whose store is a disk of its own of so many KiB, and which takes it for a large one. Needs root, for a
    /// mount that only it sees.
    ///
    /// # Errors
    /// As [`Nats::start`], or where it may not be mounted.
    pub fn start_on_disk(kib: u32) -> io::Result<Self> {
        let mut nats = Nats::prepare(("max_file_store: 4GB", ""), "alone", None, Some(kib))?;
        nats.until_ready()?;
        Ok(nats)
    }

    /// Makes and spawns one; `routes`: the cluster's.
    fn prepare(
        (of_jetstream, more): (&str, &str),
        name: &str,
        routes: Option<(&[SocketAddr], Reserved)>,
        disk_kib: Option<u32>,
    ) -> io::Result<Self> {
        let program = crate::program("nats-server").ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "nats-server is not installed (scripts/packages.sh test)")
        })?;
        let (clients, monitor, folder) = (Reserved::new()?, Reserved::new()?, tempfile::tempdir()?);
        let (peers, own) = match routes {
            Some((peers, own)) => (peers.to_vec(), own),
            None => (Vec::new(), Reserved::new()?),
        };
        let routes: Vec<String> = peers.iter().map(|peer| format!("\"nats://{peer}\"")).collect();
        let cluster = match routes.is_empty() {
            true => String::new(),
            false => format!("cluster {{ name: c, listen: \"{}\", routes: [{}] }}\n", own.address(), routes.join(", ")),
        };
        let store = folder.path().join("store");
        let jetstream = format!("jetstream {{ store_dir: \"{}\"\n{of_jetstream} }}", store.display());
        let configuration = format!(
            "server_name: {name}\nlisten: \"{}\"\nhttp: \"{}\"\n{cluster}{jetstream}\n{more}\n",
            clients.address(),
            monitor.address(),
        );
        std::fs::write(folder.path().join("nats.conf"), configuration)?;
        std::fs::create_dir(&store)?;
        let process = spawn(&program, folder.path(), disk_kib)?;
        Ok(Nats { process, program, clients, monitor, routes: own, folder, disk_kib })
    }

    fn until_ready(&mut self) -> io::Result<()> {
        let monitor = self.monitor.address();
        self.process.until_it_listens("nats-server", self.clients.address())?;
        wait_until("nats-server is ready", || is_healthy(monitor, ""));
        Ok(())
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.clients.address()
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Its own folder: configuration, log, store.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it with SIGKILL, as a crash would. Its store stays.
    pub fn kill(&mut self) {
        self.process.signal(libc::SIGKILL);
        self.process.wait(HANG_GUARD);
    }

    /// Starts it again at the same place, after [`Nats::kill`].
    ///
    /// # Errors
    /// As [`Nats::start`].
    pub fn start_again(&mut self) -> io::Result<()> {
        self.process = spawn(&self.program, self.folder.path(), self.disk_kib)?;
        self.until_ready()
    }

    /// The same of a node of a cluster, until it is one of it again. After a while how its streams are is asked no more: nats-server 2.9
    /// was seen to say for ever that it is not well after one had been taken away while it was dead (once in 80 kills).
    ///
    /// # Errors
    /// As [`Nats::start`].
    pub fn join_again(&mut self) -> io::Result<()> {
        self.process = spawn(&self.program, self.folder.path(), self.disk_kib)?;
        self.process.until_it_listens("nats-server", self.clients.address())?;
        let (monitor, since) = (self.monitor.address(), Instant::now());
        wait_until("nats-server is of its cluster again", || {
            is_healthy(monitor, "") || (since.elapsed() > WELL_WITHIN && is_healthy(monitor, "?js-server-only=true"))
        });
        Ok(())
    }

    /// Its process.
    pub fn process(&self) -> &Guard {
        &self.process
    }
}

/// Three that are one cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Its nodes.
    pub nodes: Vec<Nats>,
}

impl Cluster {
    /// Starts them.
    ///
    /// # Errors
    /// As [`Nats::start`].
    pub fn start() -> io::Result<Self> {
        let routes = [Reserved::new()?, Reserved::new()?, Reserved::new()?];
        let peers = routes.each_ref().map(Reserved::address);
        let mut nodes = Vec::new();
        for (route, at) in routes.into_iter().zip(1..) {
            nodes.push(Nats::prepare(("", ""), &format!("n{at}"), Some((&peers, route)), None)?);
        }
        for node in &mut nodes {
            node.until_ready()?;
        }
        Ok(Cluster { nodes })
    }

    /// All of them, as a URL.
    pub fn url(&self) -> String {
        self.nodes.iter().map(Nats::url).collect::<Vec<_>>().join(",")
    }

    /// Where its nodes speak with each other.
    pub fn routes(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.routes.address()).collect()
    }
}

fn spawn(program: &Path, folder: &Path, disk_kib: Option<u32>) -> io::Result<Guard> {
    let mut command = match disk_kib {
        None => Command::new(program),
        Some(kib) => {
            let mounted = format!("mount -t tmpfs -o size={kib}k none \"$0\" && exec \"$@\"");
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", &mounted]).arg(folder.join("store")).arg(program);
            command
        }
    };
    command.arg("-c").arg(folder.join("nats.conf")).arg("-l").arg(folder.join("log"));
    Guard::spawn(command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Whether it says of itself that it serves, JetStream with it (`/healthz`).
fn is_healthy(monitor: SocketAddr, of_what: &str) -> bool {
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect(monitor)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(format!("GET /healthz{of_what} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"status\":\"ok\"") || answer.contains("\"status\": \"ok\""))
}
