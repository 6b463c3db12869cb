//! The probe of TLS handshakes beside what clients saw: nginx and `openssl s_server`, each with libssl. For root.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use model::plan::Address;
use model::snapshot::{SamplerState, SamplerStatus};
use observe::target::find;
use observe::{ObserveSpec, Observer};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::certificates::{self, Authority};
use testkit::nginx::{Nginx, free_address};
use testkit::process::Guard;

mod common;
use common::{LONG, bpf, can_run, observer, of, shell};

/// A certificate for this address and its key, in a folder.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = Authority::new().unwrap().sign(&["127.0.0.1"], |_| {}).unwrap();
    certificates::write(folder, "server", &certificate, &key).unwrap()
}

fn status(observer: &Observer) -> SamplerStatus {
    observer.statuses().into_iter().find(|status| status.name == "bpf/tls").unwrap()
}

/// One handshake as openssl makes it, and what it said of it.
fn handshake(address: SocketAddr, more: &[&str]) -> bool {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string()]).args(more);
    let output = command.stdin(Stdio::null()).output().unwrap();
    output.status.success()
}

/// Not by a connection: that would be a handshake that fails, perhaps as late as when handshakes are counted.
fn wait_for(address: SocketAddr) {
    let addresses = [Address::Tcp(address)];
    testkit::wait_until(&format!("somebody listens at {address}"), || find(&addresses).is_ok());
}

/// `openssl s_server`, with the libraries of another folder where one is given.
fn s_server(address: SocketAddr, (certificate, key): &(PathBuf, PathBuf), libraries: Option<&Path>) -> Guard {
    let mut command = Command::new("openssl");
    command.args(["s_server", "-quiet", "-accept", &address.to_string(), "-cert"]).arg(certificate);
    command.arg("-key").arg(key).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(folder) = libraries {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let server = Guard::spawn(&mut command).unwrap();
    wait_for(address);
    server
}

/// The libssl that a process maps.
fn libssl_of(pid: u32) -> PathBuf {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.contains("/libssl.so")).expect("it is linked with libssl");
    PathBuf::from(&line[line.find('/').unwrap()..])
}

#[test]
fn handshakes_of_nginx_are_counted_as_its_clients_count_them() {
    if !can_run() {
        return;
    }
    if testkit::program("openssl").is_none() || testkit::program("nginx").is_none() {
        return testkit::skip("openssl or nginx is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = certificate(folder.path());
    let address = free_address().unwrap();
    let server = format!(
        "listen {address} ssl; ssl_certificate {}; ssl_certificate_key {}; ssl_ciphers ECDHE; ssl_protocols TLSv1.2 TLSv1.3;",
        file.display(),
        key.display()
    );
    let nginx = Nginx::start(&server).unwrap();
    wait_for(address);
    let mut observer = observer(of(nginx.pid(), Level::Light));
    assert_eq!(status(&observer).status, SamplerState::Active, "{:?}", status(&observer));
    let mut ok = 0;
    for version in ["-tls1_2", "-tls1_3"] {
        ok += (0..15).filter(|_| handshake(address, &[version])).count();
    }
    assert_eq!(ok, 30);
    // No cipher in common; and a client that leaves in the middle of its first message.
    let refused = (0..5).filter(|_| !handshake(address, &["-tls1_2", "-cipher", "AES128-SHA"])).count();
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    }
    assert_eq!(refused, 5);
    // nginx learns of the last ones a moment after they have left.
    let (mut snapshot, began) = (observer.snapshot(1), Instant::now());
    while bpf(&snapshot).counts["tls.failed"] < 10 && began.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(10));
        snapshot = observer.snapshot(2);
    }
    let bpf = bpf(&snapshot);
    let count = |name: &str| bpf.counts[&format!("tls.{name}")];
    let counted = (count("started"), count("completed"), count("failed"), count("handshakes_lost"));
    // The clients here use the same library: theirs are not the target's.
    assert_eq!(counted, (40, 30, 10, 0), "{:?}", bpf.counts);
    assert!(count("calls") >= 60, "a first call never has all it needs: {:?}", bpf.counts);
    let (took, inside) = (&bpf.histograms["tls.handshake_ns"], &bpf.histograms["tls.inside_ns"]);
    assert_eq!((took.count(), inside.count()), (30, 30));
    assert!(inside.sum > 0 && inside.sum < took.sum, "{took:?} {inside:?}");
}

#[test]
fn several_libraries_are_followed_also_deleted_ones_and_those_of_a_new_process() {
    if !can_run() {
        return;
    }
    if testkit::program("openssl").is_none() {
        return testkit::skip("openssl is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = certificate(folder.path());
    let (plain, other) = (free_address().unwrap(), free_address().unwrap());
    let of_system = s_server(plain, &keys, None);
    // A copy of the library, gone when the observer comes: only the mapping leads to it.
    let library = libssl_of(of_system.pid());
    let copy = folder.path().join(library.file_name().unwrap());
    std::fs::copy(&library, &copy).unwrap();
    let of_copy = s_server(other, &keys, Some(folder.path()));
    assert_eq!(libssl_of(of_copy.pid()), copy);
    std::fs::remove_file(&copy).unwrap();
    let target = vec![of_system.pid(), of_copy.pid()];
    let mut both = observer(ObserveSpec { target, probes: Level::Light, ..ObserveSpec::default() });
    assert!((0..3).all(|_| handshake(plain, &[])) && (0..4).all(|_| handshake(other, &[])));
    let counts = bpf(&both.snapshot(1)).counts.clone();
    assert_eq!((counts["tls.completed"], counts["tls.failed"]), (7, 0), "{counts:?}");

    // A process that becomes a server only after it has been looked at.
    let address = free_address().unwrap();
    let (file, key) = (keys.0.display(), keys.1.display());
    let mut later = shell(&format!("exec openssl s_server -quiet -accept {address} -cert {file} -key {key}"));
    let mut observer = observer(of(later.pid(), Level::Light));
    let before = status(&observer);
    assert_eq!((before.status, &*before.reason), (SamplerState::Disabled, "no libssl is mapped by the target"));
    common::go(&mut later);
    wait_for(address);
    observer.snapshot(1);
    assert_eq!(status(&observer).status, SamplerState::Active, "{:?}", status(&observer));
    assert!(handshake(address, &[]));
    let counts = bpf(&observer.snapshot(2)).counts.clone();
    assert_eq!((counts["tls.completed"], counts["tls.failed"]), (1, 0), "{counts:?}");
}
