//! Listeners on a file that another mount namespace knows by another path.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::plan::Address;
use observe::target::{NotFound, exists, find};
use std::io::{BufRead, BufReader};
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

/// Listens, starts a program that has the socket and one that has not, and says its port and their ids.
const ACTIVATES: &str = "
import os, socket, subprocess, sys
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(2)
if sys.argv[1] == 'program':
    service = subprocess.Popen(['sleep', '600'], pass_fds=[listener.fileno()]).pid
else:
    service = os.fork()
    if service == 0:
        sys.stdin.readline()
        sys.exit()
other = subprocess.Popen(['sleep', '600']).pid
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
";

/// Those of the activator's children that hold the port's socket, and all of them.
fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_first_process_that_holds_the_socket_for_another_program_is_not_the_target() {
    let programs = ["unshare", "python3", "sleep"].map(testkit::program);
    let ([Some(unshare), Some(python), Some(_)], true) = (programs, testkit::is_root()) else {
        return testkit::skip("needs root, unshare and python3");
    };
    for (is_first, what) in [(true, "program"), (true, "worker"), (false, "program")] {
        let mut command = if is_first {
            let mut command = Command::new(&unshare);
            command.args(["--pid", "--fork", "--kill-child", "--"]).arg(&python);
            command
        } else {
            Command::new(&python)
        };
        command.args(["-c", ACTIVATES, what]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut started = Guard::spawn(&mut command).unwrap();
        let mut line = String::new();
        BufReader::new(started.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().unwrap();
        let activator = if is_first { children_of(started.pid())[0] } else { started.pid() };
        let children = children_of(activator);
        let [service, other] = children[..] else { panic!("{children:?}") };
        // A child is between fork and exec for a moment, and then has its parent's program.
        testkit::wait_until("programs", || {
            let name = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            (what == "worker" || name(service) == "sleep\n") && name(other) == "sleep\n"
        });
        let expected = match (is_first, what) {
            (true, "program") => vec![service],
            // A first process with workers of its own program serves, as does any other that hands the socket on.
            _ => vec![activator, service],
        };
        let address = [Address::Tcp(([127, 0, 0, 1], port).into())];
        assert_eq!(find(&address).unwrap(), expected, "{is_first} {what}: {activator}, {children:?}");
        let (by_port, _) = observe::target::find_port(port).unwrap();
        assert_eq!(by_port, expected);
        for pid in children {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
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
