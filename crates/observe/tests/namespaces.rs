//! Listeners on a file that another mount namespace knows by another path.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::plan::Address;
use observe::target::{NotFound, exists, find};
use std::process::{Command, Stdio};
use testkit::process::Guard;

const LISTENS: &str = "
import socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen(2)
sys.stdin.readline()
";

#[test]
fn a_unix_listener_in_another_mount_namespace_is_found_by_its_file() {
    let programs = ["unshare", "mount", "python3"].map(testkit::program);
    let ([Some(unshare), Some(_), Some(python)], true) = (programs, testkit::is_root()) else {
        return testkit::skip("needs root, unshare and python3");
    };
    let folder = tempfile::tempdir().unwrap();
    let (own, there) = (folder.path().join("own"), folder.path().join("there"));
    std::fs::create_dir(&own).unwrap();
    std::fs::create_dir(&there).unwrap();
    // In the server's namespace the folder has another name, and for good measure the network is another one too.
    for network in [&[][..], &["--net"]] {
        let script = format!(
            "mount --bind {} {} && exec {} -c \"$0\" {}",
            own.display(),
            there.display(),
            python.display(),
            there.join("sock").display()
        );
        let mut command = Command::new(&unshare);
        command.arg("--mount").args(network).args(["--", "sh", "-ec", &script, LISTENS]);
        let mut server = Guard::spawn(command.stdin(Stdio::piped())).unwrap();
        let file = own.join("sock");
        let address = [Address::Unix(file.clone())];
        let found = testkit::wait_for("its listener", || {
            assert_eq!(server.child().try_wait().unwrap(), None, "it ended instead");
            find(&address).ok()
        });
        assert_eq!(found, [server.pid()]);
        drop(server);
        assert!(matches!(find(&address), Err(NotFound::NobodyListens { .. })), "the file alone is no listener");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn an_address_of_no_namespace_of_this_host_is_said_to_be_elsewhere() {
    let why = find(&[Address::Tcp("192.0.2.7:80".parse().unwrap())]).unwrap_err();
    if testkit::is_root() {
        assert!(matches!(why, NotFound::Remote { .. }), "{why:?}");
    }
    assert!(why.to_string().contains("load --observe-at"), "{why}");
}

#[test]
fn a_process_exists_or_not() {
    assert!(exists(std::process::id()) && exists(1));
    assert!(!exists(4_194_304) && !exists(0) && !exists(u32::MAX));
}
