//! `plimsoll serve` as a process: its list, its control socket, and that nothing is left of it however it ends.

use crate::common::{command, plimsoll};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::Duration;
use testkit::process::Guard;
use testkit::wait_until;

const HANG_GUARD: Duration = testkit::HANG_GUARD;
/// Signals by number.
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

struct Served {
    process: Guard,
    output: BufReader<ChildStdout>,
    address: String,
}

fn serve_echo(args: &[&str]) -> Served {
    let mut server = command(&[&["serve", "echo", "--listen", "127.0.0.1:0"], args].concat());
    let mut process = Guard::spawn(server.stdout(Stdio::piped())).unwrap();
    let mut output = BufReader::new(process.child().stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on echo://").unwrap_or_else(|| panic!("{line}")).to_owned();
    Served { process, output, address }
}

fn connect(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    stream
}

/// Processes whose parent, or whose parent before it was reaped, is `pid`: by their session's and group's numbers they
/// cannot be told, so they are noted while it lives.
fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if stat(child).is_some_and(|(parent, _)| parent == pid) {
            found.push(child);
        }
    }
    found
}

/// Parent and state of a process.
fn stat(pid: u32) -> Option<(u32, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

fn is_gone(pid: u32) -> bool {
    // A zombie has ended; who inherits it reaps it.
    stat(pid).is_none_or(|(_, state)| matches!(state, 'Z' | 'X'))
}

#[test]
fn after_a_kill_nothing_is_left_and_the_next_start_works() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (unix, control) = (at("echo.sock"), at("control.sock"));
    for design in servers::echo::DESIGNS.iter().map(|design| design.info.name).filter(|name| *name != "uring") {
        let args = |address: &str| {
            let listen = ["--listen", address, "--design", design, "--unix", &unix, "--control", &control];
            let workers: &[&str] = if matches!(design, "prefork" | "pool") { &["--workers", "4"] } else { &[] };
            let args: Vec<String> = listen.iter().chain(workers).map(|arg| (*arg).to_owned()).collect();
            args
        };
        let start = |address: &str| {
            let args = args(address);
            let mut server = command(&["serve", "echo"]);
            let mut process = Guard::spawn(server.args(args).stdout(Stdio::piped())).unwrap();
            let mut output = BufReader::new(process.child().stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            let address =
                line.trim_end().strip_prefix("listening on echo://").unwrap_or_else(|| panic!("{design}: {line}"));
            Served { process, address: address.to_owned(), output }
        };
        let mut killed = start("127.0.0.1:0");
        let streams: Vec<_> =
            (0..if design == "iterative" { 1 } else { 3 }).map(|_| connect(&killed.address)).collect();
        let left = children(killed.process.pid());
        let expected = match design {
            "fork" => 3,
            "prefork" => 4,
            _ => 0,
        };
        assert_eq!(left.len(), expected, "{design}: a process a connection, or a worker");
        killed.process.signal(SIGKILL);
        assert!(killed.process.wait(HANG_GUARD).is_some());
        for pid in left {
            wait_until(&format!("{design}: process {pid} outlives its parent"), || is_gone(pid));
        }
        drop(streams);
        assert!(Path::new(&unix).exists() && Path::new(&control).exists(), "it had no time to remove them");
        // The same address, the same socket files.
        let mut again = start(&killed.address);
        let mut stream = UnixStream::connect(&unix).unwrap();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        drop(stream);
        let run = plimsoll(&["serve", "--counters", &control]);
        run.assert_exit(0);
        assert_eq!(run.json()["design"], design);
        assert_eq!(run.json()["counters"]["bytes_in"], 1, "{}", run.stdout);
        again.process.signal(SIGTERM);
        assert_eq!(again.process.wait(HANG_GUARD).and_then(|status| status.code()), Some(0), "{design}");
        assert!(!Path::new(&unix).exists() && !Path::new(&control).exists(), "{design}");
    }
}

#[test]
fn signals_end_the_children_in_order_and_leave_no_zombie() {
    for design in ["fork", "prefork"] {
        let mut served = serve_echo(&["--design", design, "--workers", if design == "fork" { "1" } else { "3" }]);
        let pid = served.process.pid();
        // Those of clients that have gone are reaped while it runs, or are its workers and stay.
        for _ in 0..20 {
            drop(connect(&served.address));
        }
        let mut stream = connect(&served.address);
        let expected = if design == "fork" { 1 } else { 3 };
        wait_until("children are reaped", || children(pid).len() == expected);
        let left = children(pid);
        assert!(left.iter().all(|child| stat(*child).is_some_and(|(_, state)| state != 'Z')));
        // Of the descriptors it was forked with, a child keeps the streams and what it serves.
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", left[0])).unwrap().count();
        assert!(descriptors <= 6, "{design}: {descriptors}");
        // A terminal sends this to all of them: the parent ends its children, and a message under way comes back.
        stream.write_all(b"last").unwrap();
        for child in &left {
            signal(*child, SIGINT);
        }
        served.process.signal(SIGINT);
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"last");
        assert_eq!(served.process.wait(HANG_GUARD).and_then(|status| status.code()), Some(0), "{design}");
        assert!(left.iter().all(|child| stat(*child).is_none()), "reaped by their parent");
        let mut counted = String::new();
        served.output.read_to_string(&mut counted).unwrap();
        for (name, value) in [("accepted", 21), ("closed", 21), ("shutdown", 20), ("work_error", 0)] {
            assert!(counted.lines().any(|line| line == format!("{name:<13} {value}")), "{design} {name}: {counted}");
        }
    }
}

#[test]
fn a_worker_process_that_dies_is_replaced_and_its_connection_counted() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("c").to_str().unwrap().to_owned();
    for design in ["fork", "prefork"] {
        let served = serve_echo(&["--design", design, "--control", &control]);
        let mut stream = connect(&served.address);
        let child = children(served.process.pid())[0];
        signal(child, SIGKILL);
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "its connection ends with it");
        drop(connect(&served.address));
        wait_until("the next is served and counted", || {
            let counted = plimsoll(&["serve", "--counters", &control]).json();
            let counters = &counted["counters"];
            ["accepted", "closed", "work_error"].map(|name| counters[name].as_u64().unwrap()) == [2, 2, 1]
        });
    }
}

#[test]
fn what_is_served_is_listed() {
    let run = plimsoll(&["serve", "--list"]);
    run.assert_exit(0);
    let json = plimsoll(&["serve", "--list", "--json"]).json();
    let servers = json["servers"].as_array().unwrap();
    for (server, designs) in [
        ("http", servers::http::DESIGNS.iter().map(|design| design.info).collect::<Vec<_>>()),
        ("echo", servers::echo::DESIGNS.iter().map(|design| design.info).collect()),
    ] {
        let listed = servers.iter().find(|listed| listed["name"] == server).unwrap();
        let listed = listed["designs"].as_array().unwrap();
        assert_eq!(listed.len(), designs.len());
        for (listed, info) in listed.iter().zip(&designs) {
            assert_eq!((listed["name"].as_str(), listed["tls"].as_bool()), (Some(info.name), Some(info.tls)));
            assert!(run.stdout.contains(info.about), "{}", run.stdout);
        }
        assert_eq!(listed.iter().filter(|design| design["default"] == true).count(), 1);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nobody").to_str().unwrap().to_owned();
    plimsoll(&["serve", "--counters", &path]).assert_exit(1);
    plimsoll(&["serve", "--json"]).assert_exit(2);
    plimsoll(&["serve", "--list", "--counters", &path]).assert_exit(2);
    plimsoll(&["serve", "--list", "http"]).assert_exit(2);
    let run = plimsoll(&["serve", "echo", "--listen", "127.0.0.1:0", "--design", "thread", "--workers", "2"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("expected one worker for the design thread, got 2"), "{}", run.stderr);
    plimsoll(&["serve", "echo", "--listen", "127.0.0.1:0", "--control", "/nonexistent/x"]).assert_exit(1);
}

fn signal(pid: u32, signal: i32) {
    let done = std::process::Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
    assert!(done.success());
}
