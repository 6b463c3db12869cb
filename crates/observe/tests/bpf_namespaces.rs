//! The probes where processes have other ids, and other servers the same port: PID and network namespaces. For root, on a
//! kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use model::{Event, Snapshot};
use observe::ObserveSpec;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::network::{of_its_own, of_process};
use testkit::process::Guard;

mod common;
use common::{LONG, bpf, can_run, go, observer, of, own, shell};

/// Set where a test runs inside of a PID namespace that the same test has made.
const INSIDE: &str = "PLIMSOLL_TEST_INSIDE";

fn count(snapshot: &Snapshot, name: &str) -> u64 {
    bpf(snapshot).counts[name]
}

/// Processes that end each other and themselves, in a PID namespace of their own with the same ids.
fn neighbour(unshare: &Path) -> Guard {
    let script = "while :; do sh -c 'kill -TERM $$'; done 2>/dev/null";
    let mut command = Command::new(unshare);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", script]);
    Guard::spawn(&mut command).unwrap()
}

/// Runs one test of this file in a PID namespace of its own, whose `/proc` is its own too.
fn inside(test: &str) {
    let Some(unshare) = testkit::program("unshare") else { return testkit::skip("unshare is not installed") };
    let _neighbour = neighbour(&unshare);
    let mut command = Command::new(unshare);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]).arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
}

#[test]
fn inside_a_pid_namespace_ends_and_signals_are_counted_by_its_ids() {
    if !can_run() {
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        return inside("inside_a_pid_namespace_ends_and_signals_are_counted_by_its_ids");
    }
    assert_eq!(std::process::id(), 1, "it is the first process here");
    let mut target = shell("i=0; while [ $i -lt 50 ]; do sh -c 'echo $$; kill -TERM $$'; i=$((i+1)); done; exit 7");
    let mut observer = observer(of(target.pid(), Level::Full));
    go(&mut target);
    let ended: Vec<u32> = BufReader::new(target.child().stdout.take().unwrap())
        .lines()
        .map(|line| line.unwrap().parse().unwrap())
        .collect();
    assert_eq!(target.wait(LONG).unwrap().code(), Some(7));
    let snapshot = observer.snapshot(1);
    let events = observer.take_events();
    let of_kind = |kind: &str, is_it: &dyn Fn(&Event) -> bool| -> Vec<u32> {
        events.iter().filter(|e| e.kind == kind && is_it(e)).map(|e| e.details.pid.unwrap()).collect()
    };
    let counts = &bpf(&snapshot).counts;
    assert_eq!((counts["lifecycle.forks"], counts["lifecycle.exits"]), (50, 51), "{counts:?}");
    assert_eq!(of_kind("target-exit", &|e| e.details.signal == Some(libc::SIGTERM)), ended);
    assert_eq!(of_kind("target-exit", &|e| e.details.exit_code == Some(7)), [target.pid()]);
    let by_themselves = |e: &Event| e.details.sender_pid == e.details.pid && e.details.signal == Some(libc::SIGTERM);
    assert_eq!(of_kind("target-signal", &by_themselves), ended);
    // The neighbour's calls are not among them.
    let calls = bpf(&snapshot).calls.clone();
    let of_kill = calls.iter().find(|call| call.name == "kill").cloned().unwrap_or_default();
    assert_eq!((of_kill.count, of_kill.errors), (50, 0), "{calls:?}");
    // Who waited has an id of this namespace: this test's own processes are all there are.
    let here: BTreeSet<u32> = ended.iter().copied().chain([target.pid()]).collect();
    let waits = &bpf(&snapshot).waits;
    assert!(!waits.is_empty() && waits.iter().all(|wait| here.contains(&wait.tid)), "{waits:?}");
}

#[test]
fn inside_a_pid_namespace_connections_are_counted_as_the_client_counts_them() {
    if !can_run() {
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        return inside("inside_a_pid_namespace_connections_are_counted_as_the_client_counts_them");
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for _ in 0..5 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4];
            while stream.read_exact(&mut request).is_ok() {
                stream.write_all(&request).unwrap();
            }
        }
    });
    let mut observer = observer(own(address, 64, Level::Full));
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address).unwrap();
        for _ in 0..20 {
            stream.write_all(b"ping").unwrap();
            stream.read_exact(&mut [0; 4]).unwrap();
        }
    }
    server.join().unwrap();
    let snapshot = observer.snapshot(1);
    let seen = ["established", "receives", "sends"].map(|name| count(&snapshot, &format!("sockets.{name}")));
    assert_eq!(seen, [5, 100, 100], "{:?}", bpf(&snapshot).counts);
    assert!(count(&snapshot, "accepts.accepted") >= 4, "all but the one that was waited for");
    assert!(bpf(&snapshot).histograms["runqueue.wait_ns"].count() > 0);
    let futexes = &bpf(&snapshot).futexes;
    assert!(futexes.iter().all(|futex| futex.pid == 1), "{futexes:?}");
    // So are threads: its own first one, and those that are seen to wake it.
    let states = bpf(&snapshot).threads.as_ref().expect("they are looked at");
    assert!(states.threads.iter().any(|thread| (thread.pid, thread.tid) == (1, 1)), "{states:?}");
    assert!(states.threads.iter().all(|thread| thread.pid == 1 && thread.tid < 1000), "{states:?}");
}

#[test]
fn a_process_of_a_pid_namespace_below_is_known_by_the_id_it_has_here() {
    let Some(unshare) = testkit::program("unshare") else { return testkit::skip("unshare is not installed") };
    if !can_run() {
        return;
    }
    let script = "read line; sh -c 'kill -TERM $$'; echo done; read line; exit 7";
    let mut command = Command::new(unshare);
    command.args(["--pid", "--fork", "--kill-child", "--", "sh", "-c", script]);
    let mut parent = Guard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let children = format!("/proc/{0}/task/{0}/children", parent.pid());
    let target: u32 = testkit::wait_for("the shell", || {
        let pid = std::fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok()?;
        (std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim() == "sh").then_some(pid)
    });
    let mut observer = observer(of(target, Level::Light));
    go(&mut parent);
    let mut said = BufReader::new(parent.child().stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "done");
    go(&mut parent);
    parent.wait(LONG).unwrap();
    let snapshot = observer.snapshot(1);
    let events = observer.take_events();
    assert_eq!((count(&snapshot, "lifecycle.forks"), count(&snapshot, "lifecycle.exits")), (1, 2), "{events:?}");
    let end = events.iter().find(|event| event.details.exit_code == Some(7)).unwrap();
    assert_eq!((end.details.pid, end.details.process.as_deref()), (Some(target), Some("sh")));
    let signal = events.iter().find(|event| event.details.signal == Some(libc::SIGTERM)).unwrap();
    // By itself: the same process by the same id.
    assert_eq!(signal.details.sender_pid, signal.details.pid);
    assert!(signal.details.pid.unwrap() > 2, "there it has the id 2, at the most 3: {signal:?}");
}

/// Answers four bytes with four, on a port of the loopback of its own network.
const SERVER: &str = "
import socket, sys, threading
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', 8080)); listener.listen(64)
print('ready', flush=True)
def serve(connection):
    while data := connection.recv(4):
        connection.sendall(data)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// Connections that end with a reset, and SYNs with a wrong checksum, so many of each.
const CLIENT: &str = "
import socket, struct, sys
times = int(sys.argv[1])
for i in range(times):
    connection = socket.create_connection(('127.0.0.1', 8080))
    connection.sendall(b'ping')
    assert connection.recv(4) == b'ping'
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    connection.close()
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
here = socket.inet_aton('127.0.0.1')
for i in range(times):
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, here, here)
    raw.sendto(ip + struct.pack('!HHIIBBHHH', 1024 + i, 8080, i, 0, 5 << 4, 2, 1024, 0xbad, 0), ('127.0.0.1', 0))
";

/// Datagrams to the same port, where nobody takes them.
const FLOOD: &str = "
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[1])):
    try: sender.sendto(b'x', ('127.0.0.1', 8080))
    except ConnectionRefusedError: pass
";

fn server(python: &PathBuf) -> Guard {
    let mut command = Command::new(python);
    command.args(["-c", SERVER]).stdout(Stdio::piped());
    let mut server = Guard::spawn(of_its_own(&mut command)).unwrap();
    let mut line = String::new();
    BufReader::new(server.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    server
}

/// Runs a script beside a server, in its network.
fn beside(server: &Guard, python: &PathBuf, script: &str, times: u32) {
    let mut command = Command::new(python);
    command.args(["-c", script, &times.to_string()]);
    let mut client = Guard::spawn(of_process(&mut command, server.pid()).unwrap()).unwrap();
    assert!(client.wait(LONG).unwrap().success());
}

/// A counter of a server's network (`nstat`).
fn of_network(server: &Guard, protocol: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/net/snmp", server.pid())).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{protocol}:")));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|column| column == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn another_networks_server_on_the_same_port_is_not_the_target_and_udp_is_not_tcp() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    if !can_run() {
        return;
    }
    let (target, other) = (server(&python), server(&python));
    let address = ([127, 0, 0, 1], 8080).into();
    let mut observer = observer(ObserveSpec { target: vec![target.pid()], ..own(address, 64, Level::Full) });
    let names = [
        "sockets.established",
        "sockets.receives",
        "accepts.accepted",
        "losses.resets_received",
        "losses.drops",
        "losses.drops_unplaced",
    ];
    beside(&other, &python, CLIENT, 40);
    testkit::wait_until("its drops", || of_network(&other, "Tcp", "InCsumErrors") == 40);
    // A server that begins to listen there is not the target's either.
    let third = server(&python);
    let snapshot = observer.snapshot(1);
    assert_eq!(names.map(|name| count(&snapshot, name)), [0; 6], "{:?}", bpf(&snapshot).drops);
    assert_eq!(count(&snapshot, "listening.listens"), 0);
    drop(third);
    beside(&target, &python, FLOOD, 200);
    testkit::wait_until("datagrams for nobody", || of_network(&target, "Udp", "NoPorts") >= 200);
    let snapshot = observer.snapshot(2);
    assert_eq!(names.map(|name| count(&snapshot, name)), [0; 6], "{:?}", bpf(&snapshot).drops);
    // And the target's own are counted.
    beside(&target, &python, CLIENT, 10);
    testkit::wait_until("its drops", || of_network(&target, "Tcp", "InCsumErrors") == 10);
    let snapshot = observer.snapshot(3);
    assert_eq!(names.map(|name| count(&snapshot, name))[..2], [10, 10], "{:?}", bpf(&snapshot).counts);
    assert_eq!(count(&snapshot, "losses.resets_received"), 10);
    assert_eq!(bpf(&snapshot).drops.get("TCP_CSUM"), Some(&10), "{:?}", bpf(&snapshot).drops);
}
