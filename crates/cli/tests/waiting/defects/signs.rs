//! A server with a defect, and the signs by which it shows from outside.
//!
//! A probe puts something on a running server and returns the signs it looked for. `prove` runs it on a server with
//! the defect (all signs must be there), on one without (none may be), and on one where the defect begins later (none
//! before, all after). A probe never measures speed: where a time is looked at, it is a lower bound.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::process::Guard;

use crate::common;

/// The defect's name, and what proves it.
pub type Proof = (&'static str, fn());

/// A sign of a defect, and whether it is there.
pub type Sign = (&'static str, bool);

/// No test that passes comes near it.
pub const HANG_GUARD: Duration = testkit::HANG_GUARD;

/// How long something may take to come about before it counts as not there.
pub const SETTLES: Duration = Duration::from_secs(2);

/// Lists proofs of defects and makes a test of each: `proves! { "name" => function, }`.
macro_rules! proves {
    ($($name:literal => $proof:ident),* $(,)?) => {
        /// The proofs of this file.
        pub const PROOFS: &[$crate::defects::signs::Proof] = &[$(($name, $proof)),*];
        mod tests {
            $(#[test] fn $proof() { super::$proof() })*
        }
    };
}
pub(crate) use proves;

/// A defect to be proved.
pub struct Case {
    /// The server: `http` or `echo`, and what it is told besides.
    pub server: &'static [&'static str],
    /// The defect with its strength, as on the command line.
    pub defect: &'static str,
    /// What looks for its signs.
    pub probe: fn(&mut Served) -> Vec<Sign>,
}

impl Case {
    /// With the defect, without it, and before and after its start.
    pub fn prove(&self) {
        self.prove_at_start();
        self.prove_later();
    }

    /// With the defect and without it.
    pub fn prove_at_start(&self) {
        let with = (self.probe)(&mut Served::start(self.server, Some(self.defect)));
        assert!(with.iter().all(|(_, is_there)| *is_there), "with {}: {with:?}", self.defect);
        let without = (self.probe)(&mut Served::start(self.server, None));
        assert!(without.iter().all(|(_, is_there)| !is_there), "without {}: {without:?}", self.defect);
    }

    /// Where it begins later.
    pub fn prove_later(&self) {
        let mut from_s = 5;
        loop {
            let start = Instant::now();
            let from = Duration::from_secs(from_s);
            let mut served = Served::start(self.server, Some(&format!("{}@{from_s}s", self.defect)));
            let ready = Instant::now();
            let before = (self.probe)(&mut served);
            if start.elapsed() >= from {
                // The machine is too busy to look in time: again, with more of it.
                from_s *= 2;
                assert!(from_s < 100, "{}: its signs take {:?} to look for", self.defect, start.elapsed());
                continue;
            }
            assert!(before.iter().all(|(_, is_there)| !is_there), "before {}@{from_s}s: {before:?}", self.defect);
            std::thread::sleep((ready + from).saturating_duration_since(Instant::now()) + Duration::from_millis(20));
            let after = (self.probe)(&mut served);
            assert!(after.iter().all(|(_, is_there)| *is_there), "behind {}@{from_s}s: {after:?}", self.defect);
            return;
        }
    }
}

/// A running server.
pub struct Served {
    pub process: Guard,
    pub address: SocketAddr,
}

impl Served {
    pub fn start(server: &[&str], defect: Option<&str>) -> Self {
        let mut args = vec!["serve"];
        args.extend(server);
        args.extend(["--listen", "127.0.0.1:0"]);
        args.extend(defect.iter().flat_map(|defect| ["--defect", defect]));
        let server = common::serve(&args);
        let address = server.url.split("://").nth(1).unwrap().trim_end_matches('/').parse().unwrap();
        Self { process: server.process, address }
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        stream.set_write_timeout(Some(HANG_GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A line of a file of its `/proc` folder, without its label: `field("status", "VmRSS:")`.
    pub fn field(&self, file: &str, label: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.pid())).unwrap();
        text.lines().find_map(|line| line.strip_prefix(label)).unwrap().trim().to_owned()
    }

    /// Resident memory, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.field("status", "VmRSS:").trim_end_matches(" kB").parse().unwrap()
    }

    /// What its descriptors are: `socket:[1]`, `/dev/null`.
    pub fn descriptors(&self) -> Vec<String> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        folder.filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_str()?.to_owned())).collect()
    }

    pub fn sockets(&self) -> usize {
        self.descriptors().iter().filter(|what| what.starts_with("socket:")).count()
    }

    /// The folders of its worker threads, which are named after the protocol and numbered: `http-0`.
    pub fn workers(&self) -> Vec<PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let is_worker = |folder: &PathBuf| {
            let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
            name.trim_end().rsplit_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
        };
        tasks.map(|task| task.unwrap().path()).filter(is_worker).collect()
    }

    /// The number of the system call each worker is in; none while it runs.
    pub fn worker_calls(&self) -> Vec<Option<i64>> {
        let call = |folder: &PathBuf| {
            let text = std::fs::read_to_string(folder.join("syscall")).ok()?;
            text.split(' ').next()?.parse().ok()
        };
        self.workers().iter().map(call).collect()
    }

    /// Lines of `ss -tanH` about its port, with more options or a filter. Each: state, Recv-Q, Send-Q, local, peer; the
    /// state is missing where only one is asked for.
    pub fn ss(&self, more: &[&str]) -> Vec<Vec<String>> {
        let output = Command::new("ss")
            .args(["-tnH"])
            .args(more)
            .arg(format!("sport = :{}", self.port()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }

    /// System calls of these names made while `during` runs, a line each, as strace prints them.
    pub fn trace(&self, calls: &str, during: impl FnOnce(&Trace)) -> Vec<String> {
        let trace = Trace::attach(self.pid(), calls);
        during(&trace);
        trace.finish()
    }
}

/// strace on a process and all its threads.
pub struct Trace {
    strace: Guard,
    folder: tempfile::TempDir,
}

impl Trace {
    fn attach(pid: u32, calls: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-ttt", "-e", &format!("trace={calls}"), "-e", "signal=none", "-o"])
            .arg(folder.path().join("calls"))
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null());
        let strace = Guard::spawn(&mut command).unwrap();
        let tracer = |task: &std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
        };
        testkit::wait_until("strace has every thread", || {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            tasks.filter_map(Result::ok).all(|task| tracer(&task))
        });
        Self { strace, folder }
    }

    /// What was written until now.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read(self.folder.path().join("calls")).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }

    fn finish(mut self) -> Vec<String> {
        // SIGINT makes it let go of the process and end.
        self.strace.signal(2);
        assert!(self.strace.wait(HANG_GUARD).is_some(), "strace does not let go");
        self.lines()
    }
}

/// Whether strace is there; says why a test is skipped if not.
pub fn has_strace() -> bool {
    let found = testkit::program("strace").is_some() && testkit::is_root();
    if !found {
        testkit::skip("strace is not installed, or the user is not root");
    }
    found
}

/// Waits until it is so, for a while. Whether it is.
pub fn becomes(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > SETTLES {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Asks for a path and reads the reply by its Content-Length. Its head; `None` where the connection ends before.
pub fn get(stream: &mut TcpStream, path: &str) -> Option<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes()).ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

/// Sends bytes to an echo server and reads as many back.
pub fn echo(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(bytes)?;
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back)?;
    Ok(back)
}
