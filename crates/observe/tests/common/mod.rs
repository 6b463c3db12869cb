//! What the tests of the probes share: an observer that must have loaded them, and targets that wait for a word.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part; in a test, a panic is the report")]

pub mod memory;

use model::Snapshot;
use model::bpf::{BpfSample, Level};
use model::plan::Address;
use model::snapshot::SamplerState;
use observe::{ObserveSpec, Observer};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;

pub const LONG: Duration = Duration::from_secs(120);

pub fn can_run() -> bool {
    if !testkit::is_root() {
        testkit::skip("probes are for root");
        return false;
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        testkit::skip("this kernel has no BTF");
        return false;
    }
    true
}

pub fn observer(spec: ObserveSpec) -> Observer {
    let mut observer = Observer::new(ObserveSpec { own_pid: std::process::id(), ..spec });
    observer.snapshot(-1);
    for status in observer.statuses().iter().filter(|status| status.name.starts_with("bpf/")) {
        assert_ne!(status.status, SamplerState::Failed, "{status:?}");
    }
    observer
}

/// A shell that waits for a line before it does as it is told.
pub fn shell(script: &str) -> Guard {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Guard::spawn(&mut command).unwrap()
}

pub fn go(shell: &mut Guard) {
    shell.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

pub fn of(pid: u32, probes: Level) -> ObserveSpec {
    ObserveSpec { target: vec![pid], probes, ..ObserveSpec::default() }
}

/// This process, as it serves an address.
pub fn own(address: SocketAddr, sockets_max: u32, probes: Level) -> ObserveSpec {
    let addresses = vec![Address::Tcp(address)];
    ObserveSpec { target: vec![std::process::id()], addresses, probes, sockets_max, ..ObserveSpec::default() }
}

pub fn bpf(snapshot: &Snapshot) -> &BpfSample {
    snapshot.bpf.as_ref().expect("probes run")
}
