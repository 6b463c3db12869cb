//! The built program, run as a user runs it; servers that end with their test.
#![allow(dead_code, reason = "each test file uses its part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::nginx::Nginx;
use testkit::process::Guard;

pub const BIN: &str = env!("CARGO_BIN_EXE_plimsoll");
pub const DRIVERS: [&str; 2] = ["epoll", "uring"];

/// What a command came to.
pub struct Run {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn assert_exit(&self, status: i32) {
        assert_eq!(self.status, Some(status), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
    }

    /// Of a load: it was measured, though perhaps not validly, as the tests beside it took the generator's CPU.
    pub fn assert_measured(&self) {
        match (self.status, self.stdout.starts_with('{')) {
            (Some(4), true) => assert_valid_or_disturbed(&self.json()),
            (Some(4), false) => assert!(self.stdout.contains("not valid"), "{}", self.stdout),
            _ => self.assert_exit(0),
        }
    }

    /// Of a load whose report is JSON: an expectation was not met, whether or not the tests beside it took the generator's CPU.
    pub fn assert_unmet(&self) {
        let document = self.json();
        match self.status {
            Some(4) => assert_valid_or_disturbed(&document),
            _ => self.assert_exit(3),
        }
        let is_unmet = |expectation: &serde_json::Value| expectation["state"] == "not-met";
        assert!(document["expectations"].as_array().unwrap().iter().any(is_unmet), "{document:#}");
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}:\n{}\n{}", self.stdout, self.stderr))
    }
}

/// The program with arguments, in an environment without surprises.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(BIN);
    command.args(args).env("LANG", "C.UTF-8").env_remove("NO_COLOR");
    without_those_of_tests(&mut command);
    command
}

/// Takes out of a program's environment what tells tests what to run: it would say that it knows no such variable.
pub fn without_those_of_tests(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PLIMSOLL_") && !text.starts_with("PLIMSOLL_TEST_") {
            command.env_remove(&name);
        }
    }
    command
}

pub fn plimsoll(args: &[&str]) -> Run {
    finish(&mut command(args))
}

pub fn finish(command: &mut Command) -> Run {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Run {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A server of the project's own.
pub struct Server {
    pub process: Guard,
    pub url: String,
}

pub fn serve_http(extra: &[&str]) -> Server {
    let mut args = vec!["serve", "http"];
    if !extra.contains(&"--listen") {
        args.extend(["--listen", "127.0.0.1:0"]);
    }
    args.extend(extra);
    serve(&args)
}

pub fn serve(args: &[&str]) -> Server {
    let mut process = Guard::spawn(command(args).stdout(Stdio::piped())).unwrap();
    let mut output = BufReader::new(process.child().stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let url = line.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(url.contains("://"), "{args:?} says '{line}'");
    // Its later output goes nowhere, but the pipe stays open.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    Server { process, url }
}

/// Valid, or not valid only because tests that run beside this one took the generator's CPU: what the target does must
/// never be a reason.
pub fn assert_valid_or_disturbed(document: &serde_json::Value) {
    let reasons = document["validity"]["reasons"].as_array().unwrap();
    let disturbed = ["generator-lag", "generator-cpu", "generator-starved", "cpu-stolen", "clock-step"];
    for reason in reasons {
        assert!(disturbed.iter().any(|id| reason["id"] == *id), "{reason}");
    }
    assert_eq!(document["validity"]["valid"], reasons.is_empty());
}

/// Waits until a load has connected to a server.
pub fn wait_for_load(server: &Server) {
    let port = server.url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    testkit::wait_until("a load is put on", || established(&port) > 0);
}

/// Established ends of connections to or from a port, as the kernel lists them.
pub fn established(port: &str) -> usize {
    let filter = format!("( sport = :{port} or dport = :{port} )");
    let output = Command::new("ss").args(["-Htn", "state", "established", &filter]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

/// An address of the loopback at which nobody else listens or comes from: one for each process and `number`.
pub fn own_address(number: u8) -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{}", 1 + pid % 250, 1 + pid / 250 % 250, 10 + number)
}

/// Requests of an open pace that were due: those that a busy machine kept the generator from are counted, too.
pub fn due(totals: &serde_json::Value) -> u64 {
    ["started", "dropped", "never_taken_up"].iter().map(|count| totals[*count].as_u64().unwrap_or(0)).sum()
}

/// nginx, or the reason why there is none.
pub fn nginx(server: &str) -> Option<Nginx> {
    match Nginx::start(server) {
        Ok(nginx) => Some(nginx),
        Err(error) => {
            testkit::skip(&error.to_string());
            None
        }
    }
}

/// A pipe with no room in it, whose other end is held and not read.
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(b"\n").is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// The hypervisor's share of the machine's time beyond which threads stand still for seconds, whatever is tested.
const STOLEN_MAX: f64 = 0.2;

/// The share of a test's time in which nothing ran at all beyond which the same is so. A paused machine need not say that it was.
const PAUSED_MAX: f64 = 0.05;

/// Runs a test that looks at when things happen, up to three times: others may have had the CPUs. What is broken fails each
/// time. It is skipped, with the reason, where the hypervisor had the machine the last time too, or it stood still.
pub fn in_three(test: impl Fn()) {
    for left in (0..3).rev() {
        let (before, pauses) = (cpu_times(), Pauses::begin());
        let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) else { return };
        if left > 0 {
            continue;
        }
        let (all, stolen) = cpu_times();
        let (share, paused) = ((stolen - before.1) / (all - before.0).max(1.0), pauses.share());
        if share <= STOLEN_MAX && paused <= PAUSED_MAX {
            std::panic::resume_unwind(panic);
        }
        testkit::skip(&format!(
            "failed three times, and the hypervisor took {:.0} % of the machine, and for {:.0} % of the time nothing ran",
            100.0 * share,
            100.0 * paused
        ));
    }
}

/// Watches for how long nothing runs: a thread that hardly does anything has a CPU within some milliseconds even on a machine whose
/// CPUs are all taken, and does not when the machine is paused.
struct Pauses {
    is_over: Arc<AtomicBool>,
    began: Instant,
    watch: Option<std::thread::JoinHandle<Duration>>,
}

impl Pauses {
    const SLEEP: Duration = Duration::from_millis(10);
    /// A sleep that lasts so much longer was a pause.
    const LATE: Duration = Duration::from_millis(100);

    fn begin() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&is_over);
        let watch = std::thread::spawn(move || {
            let mut paused = Duration::ZERO;
            while !end.load(Ordering::Relaxed) {
                let slept = Instant::now();
                std::thread::sleep(Self::SLEEP);
                let late = slept.elapsed().saturating_sub(Self::SLEEP);
                paused += if late > Self::LATE { late } else { Duration::ZERO };
            }
            paused
        });
        Pauses { is_over, began: Instant::now(), watch: Some(watch) }
    }

    /// The share of the time since it began.
    fn share(mut self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        let paused = self.watch.take().map_or(Duration::ZERO, |watch| watch.join().unwrap());
        paused.as_secs_f64() / self.began.elapsed().as_secs_f64()
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Clock ticks of all CPUs since boot, and those that the hypervisor took of them (proc_stat(5)).
fn cpu_times() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let fields: Vec<f64> = first.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    (fields.iter().sum(), fields.get(7).copied().unwrap_or(0.0))
}

pub const fn libc_sigstop() -> i32 {
    19
}

pub const fn libc_sigcont() -> i32 {
    18
}

/// Asks `HOST:PORT` by HTTP/1.1: an answer's status, head and body.
pub fn ask(host: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(host).unwrap();
    // Longer than any answer takes on a machine that does much else.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head += &format!("Host: {host}\r\n");
    }
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

/// Holds a process to so many CPUs' time, until what is returned is told to end (SIGINT). Needs root.
pub fn limited(pid: u32, cpus: &str) -> Guard {
    let pid = pid.to_string();
    let limit =
        Guard::spawn(command(&["fault", "cpu-limit", &pid, cpus, "--for", "120s"]).stdout(Stdio::null())).unwrap();
    let group = || std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let before = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    testkit::wait_until("it has a group of its own", || group() != before);
    limit
}
