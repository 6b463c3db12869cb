//! Packets of a port are refused, reset, dropped and lost for real, and are again as before; in network namespaces of their own.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
use common::*;
use fault::{Asked, Begun, Deed, faults::Nobody};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a connect that is to say nothing is listened to.
const SILENCE: Duration = Duration::from_millis(300);

fn deeds(text: &str) -> Vec<Deed> {
    Asked::parse(text).unwrap().plan(&Nobody).unwrap()
}

/// Whether nft is here; it says why not.
fn has_nft() -> bool {
    let is_there = testkit::program("nft").is_some();
    if !is_there {
        testkit::skip("nft (nftables) is not installed");
    }
    is_there
}

/// Tables of ours that are in this namespace.
fn tables() -> usize {
    let output = std::process::Command::new("nft").args(["list", "tables"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).matches("plimsoll_").count()
}

/// Whether a connection says back what it is told, or how it fails.
fn talk(connection: &mut TcpStream) -> Result<(), ErrorKind> {
    connection.set_read_timeout(Some(SILENCE)).unwrap();
    connection.write_all(b"ahoy").map_err(|error| error.kind())?;
    connection.read_exact(&mut [0; 4]).map_err(|error| error.kind())
}

fn connect(address: SocketAddr) -> Result<TcpStream, ErrorKind> {
    TcpStream::connect_timeout(&address, SILENCE).map_err(|error| error.kind())
}

#[test]
fn each_does_what_it_says_and_is_gone_after() {
    if !has_nft() || !inside("each_does_what_it_says_and_is_gone_after") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let port = address.port();
    let during = |name: &str, what: &mut dyn FnMut()| {
        let begun = Begun::make(folder.path(), deeds(&format!("{name} {port}")), &mut |_| {}).unwrap();
        assert_eq!(tables(), 1, "{name}");
        what();
        let said = begun.end().unwrap();
        assert_eq!(tables(), 0, "{name}");
        // Whatever came of it, the port is as before.
        assert_eq!(talk(&mut connect(address).unwrap()), Ok(()), "{name}");
        said.join("; ")
    };
    let mut open = connect(address).unwrap();
    assert_eq!(talk(&mut open), Ok(()));

    let said = during("port-refused", &mut || {
        assert_eq!(connect(address).err(), Some(ErrorKind::ConnectionRefused));
        assert_eq!(talk(&mut open), Ok(()), "what is open goes on");
    });
    assert!(said.starts_with("1 packet refused"), "{said}");

    let said = during("port-reset", &mut || {
        let failed = talk(&mut connect(address).unwrap()).unwrap_err();
        assert!(matches!(failed, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{failed}");
    });
    assert!(said.contains("answered by a reset"), "{said}");

    let said = during("port-dropped", &mut || {
        assert!(matches!(connect(address).err(), Some(ErrorKind::TimedOut | ErrorKind::WouldBlock)));
        assert!(matches!(talk(&mut open), Err(ErrorKind::TimedOut | ErrorKind::WouldBlock)));
    });
    assert!(said.contains("packets dropped"), "{said}");
}

#[test]
fn a_share_is_lost_and_what_is_sent_arrives_all_the_same() {
    if !has_nft() || !inside("a_share_is_lost_and_what_is_sent_arrives_all_the_same") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let begun = Begun::make(folder.path(), deeds(&format!("loss {} 20%", address.port())), &mut |_| {}).unwrap();
    // Until some were lost: of forty exchanges with five packets each hardly none is.
    for _ in 0..40 {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
        connection.write_all(b"ahoy").unwrap();
        connection.read_exact(&mut [0; 4]).unwrap();
        if lost() > 2 {
            break;
        }
    }
    let said = begun.end().unwrap().join("; ");
    let count: u64 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 2 && said.contains("packets lost"), "{said}");
}

/// Packets that rules of ours in this namespace have hit.
fn lost() -> u64 {
    let output = std::process::Command::new("nft").args(["list", "ruleset"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let after = |part: &str| part.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    text.split("counter packets ").skip(1).filter_map(after).sum()
}

#[test]
fn what_is_no_port_or_would_reach_others_is_refused() {
    for (text, why) in [
        ("port-refused 0", "a port from 1 to 65535"),
        ("port-dropped", "a port from 1 to 65535"),
        ("loss 80 2", "a share from 0.0001% to 90%"),
        ("loss 80 95%", "a share from 0.0001% to 90%"),
        ("port-reset 80 8", "nothing more"),
    ] {
        let error = Asked::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    // The tests of this process run in the namespace they were started in; who is first there is taken for the host.
    let here = std::fs::read_link("/proc/self/ns/net").unwrap();
    if std::fs::read_link("/proc/1/ns/net").is_ok_and(|first| first == here) {
        let error = Asked::parse("port-dropped 80 any-interface").unwrap().plan(&Nobody).unwrap_err().to_string();
        assert!(error.contains("only the loopback interface"), "{error}");
    }
}
