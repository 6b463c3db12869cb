//! The probes of waits: delayed acknowledgements and futexes, each with and without its cause and beside an
//! independent reading. For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use testkit::process::Guard;

mod common;
use common::{LONG, bpf, can_run, go, observer, of, own};

/// A server on a thread that answers every 4 bytes of one connection with two writes.
fn server(nodelay: bool) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.set_nodelay(nodelay).unwrap();
        let mut request = [0; 4];
        while socket.read_exact(&mut request).is_ok() {
            socket.write_all(b"head").unwrap();
            socket.write_all(b"body").unwrap();
        }
    });
    (address, thread)
}

/// Acknowledgements that the kernel sent late, in this network namespace (`nstat -az TcpExtDelayedACKs`).
fn delayed_acks() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "DelayedACKs").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn a_reply_in_two_small_writes_is_held_until_the_delayed_acknowledgement() {
    if !can_run() {
        return;
    }
    for nodelay in [false, true] {
        let (address, thread) = server(nodelay);
        let mut observer = observer(own(address, 64, Level::Full));
        let before = delayed_acks();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut slow = 0;
        for _ in 0..40 {
            let start = std::time::Instant::now();
            stream.write_all(b"ping").unwrap();
            let mut reply = [0; 8];
            stream.read_exact(&mut reply).unwrap();
            slow += u64::from(start.elapsed().as_millis() >= 36);
        }
        drop(stream);
        thread.join().unwrap();
        let late = delayed_acks() - before;
        let snapshot = observer.snapshot(1);
        let bpf = bpf(&snapshot);
        let count = |name: &str| bpf.counts[&format!("delayed_acks.{name}")];
        let (pairs, at_40ms) = (count("pairs"), count("pairs_at_40ms"));
        let held = &bpf.histograms["delayed_acks.held_ns"];
        assert_eq!(held.count(), pairs);
        if nodelay {
            assert_eq!((pairs, count("released_by_data")), (0, 0), "{:?}", bpf.counts);
            continue;
        }
        // As the client saw it, as the kernel counts it, and as the other probe counts what was held. (Others may delay
        // acknowledgements meanwhile, and a busy machine may run a timer late.)
        assert!(pairs <= bpf.counts["sockets.sends_held_back"], "{:?}", bpf.counts);
        assert!(slow > 0 && pairs >= slow && late >= slow, "{slow} slow replies, {late} late: {:?}", bpf.counts);
        assert!(at_40ms > 0 && at_40ms <= pairs, "{:?}", bpf.counts);
        assert!(held.sum >= slow * 36_000_000, "{held:?}");
    }
}

/// A program of python's, which has threads and locks; it waits for a line before it begins.
fn python(script: &str) -> Option<Guard> {
    let program = testkit::program("python3")?;
    let script = format!("import threading, time, sys\nsys.stdin.readline()\n{script}");
    let mut command = Command::new(program);
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Some(Guard::spawn(&mut command).unwrap())
}
