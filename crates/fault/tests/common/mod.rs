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

fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command
}

/// Whether this is the run inside the namespace. Outside it starts that run, and fails where it fails.
pub fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !testkit::is_root() {
        testkit::skip("a network namespace needs root");
        return false;
    }
    let mut command = again(test);
    let output = testkit::network::of_its_own(command.env(INSIDE, test)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// What this process was started to do, where it is a worker.
pub fn work() -> Option<Vec<String>> {
    Some(std::env::var(WORK).ok()?.split(' ').map(str::to_owned).collect())
}

/// Says each step, and at the one of this number waits for ever, for its test to kill it. Of a negative one never.
pub fn stopped_at(mut stop: i32) -> impl FnMut(Step) {
    move |step| {
        println!("{step:?}");
        if stop == 0 {
            println!("stopped");
            loop {
                std::thread::park();
            }
        }
        stop -= 1;
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
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if line.contains(word) {
                return true;
            }
            line.clear();
        }
        false
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
