//! Whose requests the target serves, and which files it opens for them: each beside a process that does a known number.
//! For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::{FileUse, Level};
use observe::{ObserveSpec, Observer};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

mod common;
use common::{LONG, bpf, can_run, go, observer, of, own, shell};

/// Answers each request of four bytes with one byte, on as many connections at a time, until all have hung up.
fn server(connections: usize) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        std::thread::scope(|scope| {
            for _ in 0..connections {
                let (mut socket, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut request = [0; 4];
                    while socket.read_exact(&mut request).is_ok() {
                        socket.write_all(b"!").unwrap();
                    }
                });
            }
        });
    });
    (address, thread)
}

fn ask(stream: &mut TcpStream, times: usize) {
    for _ in 0..times {
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
}

/// Another client, which asks so often.
fn somebody_else(address: SocketAddr, times: usize) {
    let port = address.port();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; for i in $(seq {times}); do printf ping >&3; head -c 1 <&3 >/dev/null; done"
    );
    assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
}

#[test]
fn requests_of_other_clients_are_told_from_the_generators() {
    if !can_run() {
        return;
    }
    let (address, thread) = server(3);
    // One of the generator's was there before anybody looked.
    let mut early = TcpStream::connect(address).unwrap();
    ask(&mut early, 1);
    let mut observer = observer(own(address, 64, Level::Full));
    ask(&mut early, 5);
    let mut late = TcpStream::connect(address).unwrap();
    ask(&mut late, 20);
    somebody_else(address, 7);
    drop((early, late));
    thread.join().unwrap();
    let snapshot = observer.snapshot(1);
    let (counts, histograms) = (&bpf(&snapshot).counts, &bpf(&snapshot).histograms);
    assert_eq!((counts["sockets.requests"], counts["sockets.generator_ports"]), (32, 2), "{counts:?}");
    // The first request on the early one may be read before its sender was seen to send.
    let others = counts["sockets.others_requests"];
    assert!((7..=8).contains(&others), "{counts:?}");
    assert_eq!(histograms["sockets.others_service_ns"].count(), others);
}

#[test]
fn without_a_generator_here_nobody_is_another() {
    if !can_run() {
        return;
    }
    let (address, thread) = server(1);
    // On the target's machine an observer's process is not the generator's.
    let mut observer = Observer::new(ObserveSpec { own_pid: 0, ..own(address, 64, Level::Full) });
    observer.snapshot(-1);
    somebody_else(address, 7);
    thread.join().unwrap();
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    assert_eq!(bpf.counts["sockets.requests"], 7);
    assert!(!bpf.counts.contains_key("sockets.others_requests"), "{:?}", bpf.counts);
    assert!(!bpf.histograms.contains_key("sockets.others_service_ns"));
}

#[test]
fn files_are_known_by_name_those_opened_most_first() {
    if !can_run() {
        return;
    }
    let long = format!("/tmp/{}", "x".repeat(200));
    let script = format!(
        "i=0; while [ $i -lt 50 ]; do read x < /etc/passwd; [ $i -lt 20 ] && read y < /etc/group; i=$((i+1)); done; \
         read z < {long}"
    );
    let mut target = shell(&format!("{{ {script}; }} 2>/dev/null; exit 0"));
    let mut observer = observer(of(target.pid(), Level::Full));
    go(&mut target);
    target.wait(LONG).expect("the shell ends");
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let file = |path: &str, opens| FileUse { path: path.to_owned(), opens };
    assert_eq!(bpf.files[..2], [file("/etc/passwd", 50), file("/etc/group", 20)], "{:?}", bpf.files);
    assert!(bpf.files.contains(&file(&long[..127], 1)), "{:?}", bpf.files);
    assert_eq!((bpf.counts["opens.unread"], bpf.counts["opens.paths_lost"]), (0, 0));
}
