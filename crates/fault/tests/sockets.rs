//! Connections the test made, dropped by the kernel: those to the named address and no others.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]
#![allow(clippy::print_stdout, reason = "a worker speaks to its test by stdout")]

mod common;
use common::*;
use fault::sockets::{DropError, Dropped, State, count, drop_all};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;

fn listen(address: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connection that this side has closed first: it is in TIME_WAIT when this returns.
fn closed(listener: &TcpListener, to: SocketAddr) {
    let client = TcpStream::connect(to).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    drop(client);
    // The client's FIN was seen, and with the server's own it is in TIME_WAIT.
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
}

fn until_time_wait(to: SocketAddr, n: u64) {
    testkit::wait_until(&format!("{n} in TIME_WAIT"), || count(State::TimeWait, &[to]).unwrap() == n);
}

#[test]
fn sockets_in_time_wait_are_dropped_by_their_address() {
    if !inside("sockets_in_time_wait_are_dropped_by_their_address") {
        return;
    }
    let (one, to_one) = listen("127.0.0.1:0");
    let (other, to_other) = listen("127.0.0.1:0");
    (0..5).for_each(|_| closed(&one, to_one));
    (0..2).for_each(|_| closed(&other, to_other));
    until_time_wait(to_one, 5);
    until_time_wait(to_other, 2);
    match drop_all(State::TimeWait, &[to_one]) {
        Ok(dropped) => assert_eq!(dropped, Dropped { found: 5, dropped: 5, gone: 0 }),
        Err(DropError::NotSupported { .. }) => return testkit::skip("this kernel does not drop TIME_WAIT"),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(count(State::TimeWait, &[to_one]).unwrap(), 0);
    assert_eq!(count(State::TimeWait, &[to_other]).unwrap(), 2, "others are left");
    assert_eq!(drop_all(State::TimeWait, &[to_one]).unwrap(), Dropped::default());
}

#[test]
fn established_connections_are_aborted_by_their_address() {
    if !inside("established_connections_are_aborted_by_their_address") {
        return;
    }
    let (one, to_one) = listen("127.0.0.1:0");
    let (other, to_other) = listen("127.0.0.1:0");
    let pair = |listener: &TcpListener, to| (TcpStream::connect(to).unwrap(), listener.accept().unwrap().0);
    let mut dropped: Vec<_> = (0..3).map(|_| pair(&one, to_one)).collect();
    let mut kept = pair(&other, to_other);
    // A socket of IPv6 that holds an IPv4 connection goes to the same address.
    let mapped = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None).unwrap();
    let as_v6: SocketAddr = format!("[::ffff:127.0.0.1]:{}", to_one.port()).parse().unwrap();
    mapped.connect(&as_v6.into()).unwrap();
    assert_eq!(count(State::Established, &[to_one, to_one]).unwrap(), 4);
    match drop_all(State::Established, &[to_one]) {
        Ok(done) => assert_eq!(done, Dropped { found: 4, dropped: 4, gone: 0 }),
        Err(DropError::NotSupported { .. }) => return testkit::skip("this kernel has no INET_DIAG_DESTROY"),
        Err(error) => panic!("{error}"),
    }
    for (client, server) in &mut dropped {
        assert!(client.read(&mut [0; 1]).is_err(), "aborted");
        assert!(server.read(&mut [0; 1]).is_err(), "the other end got a reset");
    }
    kept.0.write_all(b"x").unwrap();
    assert_eq!(kept.1.read(&mut [0; 1]).unwrap(), 1, "others are left");
    assert_eq!(count(State::Established, &[to_one]).unwrap(), 0);
}

/// `drop PORT`: as another user.
#[test]
fn worker() {
    let Some(words) = work() else { return };
    let to = SocketAddr::from(([127, 0, 0, 1], words[1].parse().unwrap()));
    let refused = drop_all(State::Established, &[to]).unwrap_err();
    assert!(matches!(refused, DropError::NotPermitted { .. }), "{refused}");
    println!("said: {refused}");
}

#[test]
fn without_the_right_the_refusal_is_said() {
    if !inside("without_the_right_the_refusal_is_said") {
        return;
    }
    let (listener, to) = listen("127.0.0.1:0");
    let mut client = TcpStream::connect(to).unwrap();
    let mut server = listener.accept().unwrap().0;
    let mut worker = Worker::start_as(&["drop", &to.port().to_string()], |command| {
        command.uid(65_534).gid(65_534);
    });
    assert!(worker.says("(EPERM) after 0 of 1: run as root"));
    worker.ends_well();
    client.write_all(b"x").unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 1);
}
