//! The servers under load, each in a process of its own, pinned, on a free loopback port, ended by
//! its id when dropped. nginx gets a configuration of its own in a temporary folder: one worker,
//! no access log, connections that live for ever, the index page it comes with in size.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use floor::loops::responder::BODY_BYTES;
use floor::process;

use crate::args::Settings;
use crate::machine;
use crate::quiet;

/// How long a server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// plimsoll's echo server, for more connections than a descriptor limit allows.
pub const HOLDER: &str = "holder";
/// The same for a hundred thousand.
pub const MANY_HOLDER: &str = "holder of many";
/// The responder that notes when requests arrive.
pub const STAMPING: &str = "stamping responder";
/// Where it writes them.
const STAMPS: &str = "stamps";

const MANY_HOLDER_ARGS: &str = "serve echo --design uring --connections-max 510k --idle-timeout never --listen {addr}";
const HOLDER_ARGS: &str = "serve echo --design uring --connections-max 60k --idle-timeout never --listen {addr}";
/// Servers of one file of 1 KiB: ours first, then nginx as it comes, and remembering open files.
pub const FILE_SERVERS: [&str; 3] = ["serve http, 1 KiB", "nginx, 1 KiB", "nginx, 1 KiB, open_file_cache"];
const FILE_BYTES: usize = 1024;

/// The certificate of a target over TLS, and its key, in its folder.
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// The unix socket on which every nginx listens too, in its folder.
pub const SOCKET: &str = "socket";

/// A running server.
#[derive(Debug)]
pub struct Target {
    /// Where it listens.
    pub addr: SocketAddr,
    /// The process that answers: nginx's worker, else the server itself.
    pub worker: u32,
    child: Option<Child>,
    pids: Vec<u32>,
    folder: tempfile::TempDir,
}

impl Target {
    /// Starts a server by name on these CPUs, with a worker for each of them.
    ///
    /// # Errors
    /// It is not installed, or does not listen within five seconds.
    pub fn start(name: &str, cpus: &[usize], settings: &Settings) -> Result<Self> {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let addr = free_addr()?;
        let mut command = match name {
            "nginx" => nginx(folder.path(), addr, cpus.len(), BODY_BYTES, "", "")?,
            "nginx, 1 KiB" => nginx(folder.path(), addr, cpus.len(), FILE_BYTES, "", "")?,
            "nginx, 1 KiB, open_file_cache" => {
                // As long as ours goes without looking at the disk anew.
                let cache = "open_file_cache max=1000 inactive=1h; open_file_cache_valid 1s;";
                nginx(folder.path(), addr, cpus.len(), FILE_BYTES, cache, "")?
            }
            "serve http, 1 KiB" => {
                let pages = pages(folder.path(), FILE_BYTES)?;
                let mut command = serve(&settings.plimsoll, &settings.serve_args, addr)?;
                command.arg("--root").arg(pages);
                command
            }
            "nginx p-256" | "nginx rsa-2048" => {
                make_certificate(folder.path(), name)?;
                nginx(folder.path(), addr, cpus.len(), BODY_BYTES, "", "ssl")?
            }
            "responder" => responder(&settings.floor, addr),
            STAMPING => {
                let mut command = responder(&settings.floor, addr);
                command.arg("--stamps").arg(folder.path().join(STAMPS));
                command.args(["--stamps-max", "10000000"]);
                command
            }
            MANY_HOLDER => serve(&settings.plimsoll, MANY_HOLDER_ARGS, addr)?,
            HOLDER => serve(&settings.plimsoll, HOLDER_ARGS, addr)?,
            "serve" => serve(&settings.plimsoll, &settings.serve_args, addr)?,
            other => bail!("there is no target {other:?}"),
        };
        let log = folder.path().join("log");
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        process::prepare(&mut command, cpus);
        let child = command.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        let mut target = Self { addr, worker: child.id(), pids: vec![child.id()], child: Some(child), folder };
        target.await_listening().with_context(|| {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            format!("{name} does not listen; it says: {}", said.trim())
        })?;
        // nginx listens before it has its workers: their CPU time must not be missed.
        let due = if name.starts_with("nginx") { cpus.len() } else { 0 };
        let workers = children_within(target.pids[0], due, PATIENCE)?;
        if let Some(&worker) = workers.first() {
            target.worker = worker;
            target.pids.extend(workers);
        }
        Ok(target)
    }

    /// CPU seconds of all its processes so far.
    pub fn cpu_seconds(&self) -> f64 {
        self.pids.iter().copied().map(quiet::cpu_seconds_of).sum()
    }

    /// Of a target over TLS: the certificate to verify it by.
    pub fn certificate(&self) -> Option<PathBuf> {
        Some(self.folder.path().join(CERTIFICATE)).filter(|path| path.is_file())
    }

    /// The folder a generator may write into.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the responder that notes arrivals and reads them, in ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// It wrote none.
    pub fn stamps(mut self) -> Result<Vec<u64>> {
        self.end();
        let path = self.folder.path().join(STAMPS);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("reading arrivals from {}", path.display()))?;
        text.lines().map(|line| line.parse().with_context(|| format!("an arrival of {line:?}"))).collect()
    }

    fn await_listening(&mut self) -> Result<()> {
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            if TcpStream::connect_timeout(&self.addr, PATIENCE).is_ok() {
                return Ok(());
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                bail!("it ended with {status}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("waited {PATIENCE:?} for {}", self.addr)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

impl Target {
    fn end(&mut self) {
        let Some(child) = self.child.take() else {
            return;
        };
        // A stopped process would not see SIGTERM. One that is gone already cannot be signalled,
        // which is as good.
        for pid in &self.pids {
            let _ = process::signal(*pid, process::SIGCONT);
        }
        let _ = process::signal(child.id(), process::SIGTERM);
        let _ = process::wait(child, PATIENCE);
    }
}

/// A loopback address nobody listens on.
pub fn free_addr() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a port")?;
    Ok(listener.local_addr()?)
}

fn responder(floor: &Path, addr: SocketAddr) -> Command {
    let mut command = Command::new(floor);
    command.args(["responder", "--seconds", "86400", "--port"]);
    command.arg(addr.port().to_string());
    command
}

fn serve(plimsoll: &Path, args: &str, addr: SocketAddr) -> Result<Command> {
    if !plimsoll.is_file() {
        bail!("there is no {}", plimsoll.display());
    }
    let filled = args.replace("{addr}", &addr.to_string()).replace("{port}", &addr.port().to_string());
    let mut command = Command::new(plimsoll);
    command.args(filled.split_whitespace());
    Ok(command)
}

/// A certificate for the loopback address, its key of the kind the target's name says.
fn make_certificate(folder: &Path, name: &str) -> Result<()> {
    let program = machine::find("openssl").context("openssl is not installed")?;
    let key: &[&str] = if name.ends_with("rsa-2048") {
        &["-newkey", "rsa:2048"]
    } else {
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    };
    let made = Command::new(program)
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(key)
        .arg("-keyout")
        .arg(folder.join(KEY))
        .arg("-out")
        .arg(folder.join(CERTIFICATE))
        .stderr(Stdio::null())
        .status()
        .context("starting openssl")?;
    if !made.success() {
        bail!("openssl made no certificate: {made}");
    }
    Ok(())
}

/// A folder with an index page of that size.
fn pages(folder: &Path, bytes: usize) -> Result<PathBuf> {
    let pages = folder.join("pages");
    std::fs::create_dir(&pages)?;
    std::fs::write(pages.join("index.html"), vec![b'x'; bytes])?;
    Ok(pages)
}

/// `http`: more directives of the http block.
fn nginx(folder: &Path, addr: SocketAddr, workers: usize, bytes: usize, http: &str, ssl: &str) -> Result<Command> {
    let program = machine::find("nginx").context("nginx is not installed")?;
    pages(folder, bytes)?;
    let configuration = folder.join("nginx.conf");
    std::fs::write(&configuration, nginx_configuration(folder, addr, workers, http, ssl))?;
    let mut command = Command::new(program);
    command.arg("-e").arg(folder.join("error.log"));
    command.arg("-c").arg(&configuration).arg("-p").arg(folder);
    Ok(command)
}

fn nginx_configuration(folder: &Path, addr: SocketAddr, workers: usize, http: &str, ssl: &str) -> String {
    let folder = folder.display();
    // As root, nginx would give its workers to a user who may not read the temporary folder.
    let user = if is_root() { "user root;\n" } else { "" };
    let certificate = match ssl {
        "" => String::new(),
        _ => format!(
            "ssl_certificate {folder}/{CERTIFICATE}; ssl_certificate_key {folder}/{KEY}; ssl_ecdh_curve X25519; ssl_protocols TLSv1.3; ssl_session_tickets off; ssl_session_cache off;"
        ),
    };
    format!(
        "{user}daemon off;\n\
         worker_processes {workers};\n\
         pid {folder}/nginx.pid;\n\
         error_log {folder}/error.log warn;\n\
         worker_rlimit_nofile 16384;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n\
           access_log off;\n\
           sendfile on;\n\
           tcp_nopush on;\n\
           {http}\n\
           keepalive_timeout 86400s;\n\
           keepalive_requests 100000000;\n\
           client_body_temp_path {folder}/body;\n\
           proxy_temp_path {folder}/proxy;\n\
           fastcgi_temp_path {folder}/fastcgi;\n\
           uwsgi_temp_path {folder}/uwsgi;\n\
           scgi_temp_path {folder}/scgi;\n\
           default_type text/html;\n\
           server {{ listen {addr} {ssl} backlog=4096; listen unix:{folder}/{SOCKET}; {certificate} root {folder}/pages; }}\n\
         }}\n"
    )
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The children of a process, once there are as many as are due.
fn children_within(pid: u32, due: usize, patience: Duration) -> Result<Vec<u32>> {
    let give_up = Instant::now() + patience;
    loop {
        let children = children_of(pid);
        if children.len() >= due {
            return Ok(children);
        }
        if Instant::now() >= give_up {
            bail!("expected {due} worker processes of {pid} within {patience:?}, got {}", children.len());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The children of a process, see proc_pid_task_tid_children(5).
fn children_of(pid: u32) -> Vec<u32> {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}
