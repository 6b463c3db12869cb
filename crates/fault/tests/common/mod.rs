//! Tests that change settings do so in a network namespace of their own, and are killed in processes of their own.
//!
//! A test runs itself again: once inside the namespace ([`inside`]), and there once more for each process that is to be
//! killed ([`Worker`]).
#![allow(dead_code, reason = "each test file uses its part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]
#![allow(clippy::print_stdout, reason = "a worker speaks to its test by stdout")]

use fault::Step;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;

const INSIDE: &str = "FAULT_TEST_INSIDE";
const WORK: &str = "FAULT_TEST_WORK";

/// Arguments with which a program of tests runs one of them, and lets it speak.
pub fn only(test: &str) -> [&str; 4] {
    ["--exact", test, "--nocapture", "--test-threads=1"]
}

fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(only(test)).stdin(Stdio::null());
    command
}

/// Whether this is the run inside the namespace. Outside it starts that run, and fails where it fails.
pub fn inside(test: &str) -> bool {
    if is_inside() {
        return true;
    }
    if !testkit::is_root() {
        testkit::skip("a network namespace needs root");
        return false;
    }
    passes(testkit::network::of_its_own(again(test).env(INSIDE, test)));
    false
}

/// The run inside a network namespace, in which whatever it mounts is seen by nobody else either, with this in its environment;
/// what it printed. Needs root and unshare(1).
pub fn run_inside_with_mounts(test: &str, (name, value): (&str, &str)) -> String {
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(std::env::current_exe().unwrap()).args(only(test)).env(INSIDE, test);
    passes(testkit::network::of_its_own(command.env(name, value)))
}

/// Whether this is such a run.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs a test of this program in a process of its own, which must pass; what it printed.
pub fn passes(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{said}");
    text
}

/// What this process was started to do, where it is a worker.
pub fn work() -> Option<Vec<String>> {
    Some(std::env::var(WORK).ok()?.split(' ').map(str::to_owned).collect())
}

/// Says each step, and at the one of this number waits for ever, for its test to kill it. Of a negative one never.
pub fn stopped_at(mut stop: i32) -> impl FnMut(Step) {
    stopped_when(move |_| {
        stop -= 1;
        stop == -1
    })
}

/// The same at the first step that is the one.
pub fn stopped_when(mut is_it: impl FnMut(Step) -> bool) -> impl FnMut(Step) {
    move |step| {
        println!("{step:?}");
        if is_it(step) {
            println!("stopped");
            loop {
                std::thread::park();
            }
        }
    }
}

/// Says what it hears, on every connection, for as long as the test lives.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                let mut bytes = vec![0; 64 << 10];
                while let Ok(count @ 1..) = connection.read(&mut bytes) {
                    if connection.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

/// A process that does one thing and may be stopped on its way.
pub struct Worker {
    pub process: Guard,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    /// `words` for the test named `worker`, in this namespace.
    pub fn start(words: &[&str]) -> Self {
        Self::start_as(words, |_| {})
    }

    pub fn start_as(words: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut command = again("worker");
        command.env(WORK, words.join(" ")).stdout(Stdio::piped());
        change(&mut command);
        let mut process = Guard::spawn(&mut command).unwrap();
        let output = BufReader::new(process.child().stdout.take().unwrap());
        Worker { process, output }
    }

    /// Waits for a line with this word; whether it came.
    pub fn says(&mut self, word: &str) -> bool {
        self.lines_until(word).last().is_some_and(|line| line.contains(word))
    }

    /// What it says up to the line with this word, which is the last; to its end where it does not come.
    pub fn lines_until(&mut self, word: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut line = String::new();
        while !lines.last().is_some_and(|line| line.contains(word)) && self.output.read_line(&mut line).unwrap() > 0 {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        lines
    }

    pub fn ends_well(&mut self) {
        assert!(self.says("test result: ok"));
        assert!(self.process.wait(testkit::HANG_GUARD).unwrap().success());
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(mut self) {
        self.process.signal(9);
        assert!(self.process.wait(testkit::HANG_GUARD).is_some());
    }
}

/// Gives a folder and the files in it to a user.
pub fn give_to(folder: &Path, user: u32) {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in files.chain([folder.to_owned()]) {
        std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
    }
}
