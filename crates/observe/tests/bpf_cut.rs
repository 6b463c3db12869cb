//! What a window cuts, looks without taking, and errors by name: counted, and told. For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::Snapshot;
use model::bpf::{CallUse, Level};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use testkit::process::Guard;

mod common;
use common::{LONG, bpf, can_run, go, observer, of, own, shell};

fn call(snapshot: &Snapshot, name: &str) -> CallUse {
    bpf(snapshot).calls.iter().find(|call| call.name == name).cloned().unwrap_or_default()
}

fn wait_until_in(process: &Guard, call: i64) {
    let file = format!("/proc/{}/syscall", process.pid());
    testkit::wait_until(&format!("system call {call}"), || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse::<i64>().ok()) == Some(call)
    });
}

#[test]
fn a_call_that_began_before_and_one_that_has_not_ended_are_counted_as_such() {
    if !can_run() {
        return;
    }
    let mut target = shell("exec sleep 1000");
    wait_until_in(&target, libc::SYS_read);
    let mut observer = observer(of(target.pid(), Level::Full));
    go(&mut target);
    wait_until_in(&target, libc::SYS_clock_nanosleep);
    let snapshot = observer.snapshot(1);
    let counts = &bpf(&snapshot).counts;
    // The shell's wait for a line: the call, and the time off a CPU.
    assert_eq!((counts["syscalls.began_before"], counts["offcpu.began_before"]), (1, 1), "{counts:?}");
    let sleeps = call(&snapshot, "clock_nanosleep");
    assert_eq!((sleeps.count, sleeps.not_ended, counts["syscalls.not_ended"]), (0, 1, 1), "{:?}", bpf(&snapshot).calls);
    target.signal(libc::SIGKILL);
    target.wait(LONG).unwrap();
    // The signal ended it, to be made again; there was no again.
    let snapshot = observer.snapshot(2);
    let sleeps = call(&snapshot, "clock_nanosleep");
    assert_eq!((sleeps.count, sleeps.not_ended), (1, 0), "{:?}", bpf(&snapshot).calls);
    assert!(sleeps.errors_by.keys().all(|name| name.starts_with("ERESTART")) && sleeps.errors == 1, "{sleeps:?}");
}

#[test]
fn what_is_looked_at_without_being_taken_is_received_once() {
    if !can_run() {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut observer = observer(own(address, 64, Level::Full));
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    let mut buffer = [0; 4];
    for _ in 0..10 {
        client.write_all(b"ping").unwrap();
        for _ in 0..2 {
            while server.peek(&mut buffer).unwrap() < 4 {}
        }
        server.read_exact(&mut buffer).unwrap();
        server.write_all(&buffer).unwrap();
        client.read_exact(&mut buffer).unwrap();
    }
    // A request that nobody has answered yet.
    client.write_all(b"ping").unwrap();
    server.read_exact(&mut buffer).unwrap();
    let snapshot = observer.snapshot(1);
    let (counts, histograms) = (&bpf(&snapshot).counts, &bpf(&snapshot).histograms);
    assert!(counts["sockets.peeks"] >= 20, "{counts:?}");
    assert_eq!((counts["sockets.receives"], histograms["sockets.receive_bytes"].sum), (11, 44), "{counts:?}");
    assert_eq!((counts["sockets.requests"], counts["sockets.not_ended"]), (11, 1), "{counts:?}");
    assert_eq!((histograms["sockets.service_ns"].count(), counts["sockets.began_before"]), (10, 0), "{counts:?}");
}

#[test]
fn a_reply_to_what_was_read_before_is_told_from_one_that_is_timed() {
    if !can_run() {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    let mut buffer = [0; 4];
    client.write_all(b"ping").unwrap();
    server.read_exact(&mut buffer).unwrap();
    let mut observer = observer(own(address, 64, Level::Full));
    server.write_all(b"pong").unwrap();
    server.write_all(b"pong").unwrap();
    let snapshot = observer.snapshot(1);
    let counts = &bpf(&snapshot).counts;
    assert_eq!((counts["sockets.sends"], counts["sockets.began_before"]), (2, 1), "{counts:?}");
    assert_eq!(bpf(&snapshot).histograms["sockets.service_ns"].count(), 0);
}

const ERRORS: &str = "
import os, resource, socket, sys
reading, writing = os.pipe()
os.set_blocking(reading, False)
sys.stdin.readline()
for _ in range(7):
    try: os.read(reading, 1)
    except BlockingIOError: pass
resource.setrlimit(resource.RLIMIT_NOFILE, (reading, 1024))
for _ in range(3):
    try: socket.socket()
    except OSError: pass
print('done', flush=True)
sys.stdin.readline()
";

#[test]
fn errors_are_told_by_name() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    if !can_run() {
        return;
    }
    let mut command = Command::new(python);
    command.args(["-c", ERRORS]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut target = Guard::spawn(&mut command).unwrap();
    wait_until_in(&target, libc::SYS_read);
    let mut observer = observer(of(target.pid(), Level::Full));
    go(&mut target);
    let mut said = BufReader::new(target.child().stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "done");
    let snapshot = observer.snapshot(1);
    let of = |name: &str, error: &str| call(&snapshot, name).errors_by.get(error).copied().unwrap_or(0);
    assert_eq!((of("read", "EAGAIN"), of("socket", "EMFILE")), (7, 3), "{:?}", bpf(&snapshot).calls);
    for call in &bpf(&snapshot).calls {
        assert_eq!(call.errors_by.values().sum::<u64>(), call.errors, "{call:?}");
    }
}

#[test]
fn a_process_that_is_killed_while_it_reads_says_from_which_connection() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    if !can_run() {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let script = format!(
        "import socket; c = socket.create_connection(('127.0.0.1', {})); print(c.fileno(), flush=True); c.recv(1)",
        listener.local_addr().unwrap().port()
    );
    let mut command = Command::new(python);
    let mut target = Guard::spawn(command.args(["-c", &script]).stdout(Stdio::piped())).unwrap();
    let (_connection, peer) = listener.accept().unwrap();
    let mut said = BufReader::new(target.child().stdout.take().unwrap()).lines();
    let descriptor: u64 = said.next().unwrap().unwrap().parse().unwrap();
    wait_until_in(&target, libc::SYS_recvfrom);
    let mut observer = observer(of(target.pid(), Level::Light));
    target.signal(libc::SIGKILL);
    target.wait(LONG).unwrap();
    observer.snapshot(1);
    let events = observer.take_events();
    let end = events.iter().find(|event| event.kind == "target-exit").unwrap();
    let details = &end.details;
    assert_eq!((details.call.as_deref(), details.call_argument), (Some("recvfrom"), Some(descriptor)), "{end:?}");
    let ends = [&details.socket_local, &details.socket_remote].map(|end| end.clone().unwrap());
    assert_eq!(ends, [peer.to_string(), listener.local_addr().unwrap().to_string()]);
    assert_eq!((details.signal, details.pid), (Some(libc::SIGKILL), Some(target.pid())));
    let signal = events.iter().find(|event| event.kind == "target-signal").unwrap();
    assert_eq!(signal.details.sender_pid, Some(std::process::id()), "{signal:?}");
}
