//! Packets of a port are late, narrowed, reordered, doubled and corrupted for real, and pass as before after; each test in a
//! network namespace of its own, where the kernel's counters are of nobody else.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]
#![allow(clippy::print_stdout, reason = "a worker speaks to its test by stdout")]

mod common;
#[path = "common/helper.rs"]
mod helpers;
use common::*;
use helpers::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn helper() {
    help();
}

/// Whether the programs are here; it says why not.
fn has_iptables() -> bool {
    let is_there = testkit::program("iptables").is_some() && testkit::program("nft").is_some();
    if !is_there {
        testkit::skip("iptables or nft is not installed");
    }
    is_there
}

/// All rules and tables of this namespace.
fn ruleset() -> String {
    let output = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_as_before() -> bool {
    ruleset().is_empty() && helpers().is_empty()
}

fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    connection.set_nodelay(true).unwrap();
    connection
}

/// How long an exchange of a few bytes takes.
fn exchange(connection: &mut TcpStream) -> Duration {
    let start = Instant::now();
    connection.write_all(b"ahoy").unwrap();
    let mut said = [0; 4];
    connection.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"ahoy");
    start.elapsed()
}

/// Sends and gets back so many bytes; whether they are the same.
fn bulk(address: SocketAddr, bytes: usize) -> bool {
    let mut connection = connect(address);
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let mut writer = connection.try_clone().unwrap();
    let whole = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&whole));
    let mut got = vec![0; bytes];
    connection.read_exact(&mut got).unwrap();
    writing.join().unwrap().unwrap();
    got == sent
}

/// A counter of this namespace, `TcpExt TCPOFOQueue`.
fn counter(group: &str, name: &str) -> u64 {
    let text =
        ["/proc/self/net/netstat", "/proc/self/net/snmp"].map(|file| std::fs::read_to_string(file).unwrap()).concat();
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{group}:")));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split_whitespace().position(|word| word == name).unwrap_or_else(|| panic!("no counter {name}"));
    values.split_whitespace().nth(at).unwrap().parse().unwrap()
}

#[test]
fn late_packets_make_exchanges_longer_by_as_much_and_only_while_it_lasts() {
    if !has_iptables() || !inside("late_packets_make_exchanges_longer_by_as_much_and_only_while_it_lasts") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let mut open = connect(address);
    exchange(&mut open);
    let begun = begin(folder.path(), &format!("port-delay {} 50ms jitter 20ms", address.port()));
    // The kernel held each until it was due: no exchange can be shorter, however busy the machine is.
    for connection in [&mut open, &mut connect(address)] {
        assert!(exchange(connection) >= Duration::from_millis(50));
    }
    // One of another port is not touched.
    let other = echo();
    assert!(ruleset().contains("queue") && !ruleset().contains(&other.port().to_string()), "{}", ruleset());
    testkit::wait_until("what it did is said", || {
        let kinds = fault::Journal::list(folder.path()).unwrap();
        kinds.len() == 2
    });
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("packets seen") && said.contains("held"), "{said}");
    assert!(is_as_before(), "{}", ruleset());
    // As before: the fastest of many, as any one may be held up by the machine.
    let least = (0..200).map(|_| exchange(&mut open)).min().unwrap();
    assert!(least < Duration::from_millis(50), "{least:?}");
}

#[test]
fn a_narrow_path_lets_no_more_through_and_loses_nothing_for_good() {
    if !has_iptables() || !inside("a_narrow_path_lets_no_more_through_and_loses_nothing_for_good") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let begun = begin(folder.path(), &format!("port-rate {} 1MB/s", address.port()));
    let start = Instant::now();
    assert!(bulk(address, 1_000_000));
    // The last packet of a million bytes leaves a second after the first begins to.
    assert!(start.elapsed() >= Duration::from_millis(950), "{:?}", start.elapsed());
    let said = begun.end().unwrap().join("; ");
    assert!(said.contains("held"), "{said}");
    assert!(is_as_before());
}

#[test]
fn packets_overtaken_doubled_and_corrupted_are_found_by_tcp_and_the_data_is_right() {
    if !has_iptables() || !inside("packets_overtaken_doubled_and_corrupted_are_found_by_tcp_and_the_data_is_right") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let port = address.port();
    for (fault, group, name, word) in [
        (format!("port-reorder {port} 20%"), "TcpExt", "TCPOFOQueue", "held for others to overtake"),
        (format!("port-duplicate {port} 30%"), "TcpExt", "TCPDSACKOldSent", "sent twice"),
        (format!("port-corrupt {port} 10%"), "Tcp", "InCsumErrors", "corrupted"),
    ] {
        let before = counter(group, name);
        let begun = begin(folder.path(), &fault);
        // Drawn: until it was seen.
        testkit::wait_until(&fault, || {
            assert!(bulk(address, 600_000), "{fault}");
            counter(group, name) > before
        });
        let said = begun.end().unwrap().join("; ");
        assert!(said.contains(word), "{fault}: {said}");
        assert!(is_as_before(), "{fault}: {}", ruleset());
    }
}

#[test]
fn corruption_that_tcp_does_not_find_arrives() {
    if !has_iptables() || !inside("corruption_that_tcp_does_not_find_arrives") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let begun = begin(folder.path(), &format!("port-corrupt {} 30% undetected", address.port()));
    testkit::wait_until("data is not what was sent", || !bulk(address, 300_000));
    assert_eq!(counter("Tcp", "InCsumErrors"), 0);
    begun.end().unwrap();
    assert!(bulk(address, 300_000) && is_as_before());
}

#[test]
fn kinds_hold_together_on_a_port_and_the_same_kind_not_twice() {
    if !has_iptables() || !inside("kinds_hold_together_on_a_port_and_the_same_kind_not_twice") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let port = address.port();
    let all: Vec<_> =
        ["port-delay PORT 20ms", "port-rate PORT 10MB/s", "port-reorder PORT 5%", "port-duplicate PORT 5%"]
            .iter()
            .map(|fault| begin(folder.path(), &fault.replace("PORT", &port.to_string())))
            .collect();
    assert!(exchange(&mut connect(address)) >= Duration::from_millis(20));
    let again = deeds(&format!("port-delay {port} 1s"));
    let error = again[1].may().unwrap_err().to_string();
    assert!(error.contains("no other fault of the same kind on this port"), "{error}");
    for begun in all {
        let said = begun.end().unwrap().join("; ");
        assert!(said.contains("seen") && !said.contains(" 0 packets"), "{said}");
    }
    assert!(is_as_before(), "{}", ruleset());
    // A table that has somebody else's rule is left with it.
    let run = |program: &str, args: &[&str]| assert!(Command::new(program).args(args).status().unwrap().success());
    run("iptables", &["-t", "mangle", "-A", "INPUT", "-p", "tcp", "--dport", "9", "-j", "ACCEPT"]);
    begin(folder.path(), &format!("port-delay {port} 20ms")).end().unwrap();
    assert!(ruleset().contains("tcp dport 9") && !ruleset().contains("queue"), "{}", ruleset());
}

#[test]
fn who_holds_packets_can_be_killed_and_the_port_is_not_cut_off() {
    if !has_iptables() || !inside("who_holds_packets_can_be_killed_and_the_port_is_not_cut_off") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let address = echo();
    let begun = begin(folder.path(), &format!("port-delay {} 60s", address.port()));
    for pid in helpers() {
        kill(pid);
    }
    testkit::wait_until("it is gone", || helpers().is_empty());
    // The rules stand, and packets pass.
    assert!(ruleset().contains("queue"));
    exchange(&mut connect(address));
    begun.end().unwrap();
    assert!(is_as_before(), "{}", ruleset());
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn what_cannot_be_begun_is_said_and_leaves_nothing() {
    if !has_iptables() || !inside("what_cannot_be_begun_is_said_and_leaves_nothing") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let port = echo().port();
    // Without the right to queue packets.
    let mut dropped = Command::new("setpriv");
    let test = std::env::current_exe().unwrap();
    dropped.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]).arg(test);
    dropped.args(["--exact", "without_the_right", "--nocapture"]).env("FAULT_TEST_PORT", port.to_string());
    let output = dropped.env("FAULT_TEST_FOLDER", folder.path()).output();
    match output {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("refused: ") => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("CAP_NET_ADMIN is missing"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    assert!(is_as_before() && fault::Journal::list(folder.path()).unwrap().is_empty());
}

#[test]
fn without_the_right() {
    let (Ok(port), Some(folder)) = (std::env::var("FAULT_TEST_PORT"), std::env::var_os("FAULT_TEST_FOLDER")) else {
        return;
    };
    let begun = fault::Begun::make(folder.as_ref(), deeds(&format!("port-delay {port} 1ms")), &mut |_| {});
    println!("refused: {}", begun.map(drop).unwrap_err());
}
