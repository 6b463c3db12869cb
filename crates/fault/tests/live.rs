//! Changes of what runs are put back from whom they were made of, and from nobody else: real processes of the test's own.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use fault::{Applied, Asked, Change, Deed, Journal, Outcome, faults::Nobody, make, undo, undo_only};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;

/// Somebody to be changed.
fn sleeper() -> Guard {
    Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap()
}

fn limits(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().skip(3).take(2).collect::<Vec<_>>().join(" ")
}

fn nice(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned()
}

/// The change that a fault makes.
fn change(text: &str) -> Change {
    let mut deeds = Asked::parse(text).unwrap().plan(&Nobody).unwrap();
    match deeds.pop() {
        Some(Deed::Change(change)) if deeds.is_empty() => change,
        other => panic!("{other:?}"),
    }
}

fn made(journal: &mut Journal, change: &Change) -> u64 {
    match make(journal, change, &mut |_| {}).unwrap() {
        Applied::Changed { id, .. } => id,
        Applied::AlreadySo => panic!("{change:?} is so already"),
    }
}

#[test]
fn another_process_of_the_same_id_and_what_others_changed_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    let mut target = sleeper();
    let before = (nice(target.pid()), limits(target.pid()));
    let [renice, limit] =
        ["nice PID 7", "descriptors PID 33"].map(|text| text.replace("PID", &target.pid().to_string()));
    let reniced = made(&mut journal, &change(&renice));
    let limited = made(&mut journal, &change(&limit));
    let again = make(&mut journal, &change(&renice), &mut |_| {}).unwrap();
    assert_eq!(again, Applied::AlreadySo);
    // Only the one that was asked for.
    let undone = undo_only(&mut journal, &[reniced], &mut |_| {}).unwrap();
    assert!(matches!(undone.as_slice(), [one] if matches!(one.outcome, Outcome::PutBack)), "{undone:?}");
    assert_eq!(nice(target.pid()), before.0);
    assert_ne!(limits(target.pid()), before.1);
    // Somebody else gave it another limit meanwhile: left, and forced back.
    let output = Command::new("prlimit").args(["--pid", &target.pid().to_string(), "--nofile=44"]).output();
    match output {
        Ok(output) if output.status.success() => {
            let undone = undo_only(&mut journal, &[limited], &mut |_| {}).unwrap();
            assert!(matches!(&undone[0].outcome, Outcome::Foreign { found } if found.starts_with("44 ")), "{undone:?}");
            assert_eq!(limits(target.pid()), "44 44");
        }
        _ => testkit::skip("prlimit(1) is not there"),
    }
    // The process is gone: so is the change, and nobody else is touched.
    target.child().kill().unwrap();
    target.child().wait().unwrap();
    let undone = undo(&mut journal, false, &mut |_| {}).unwrap();
    assert!(matches!(undone.as_slice(), [one] if matches!(one.outcome, Outcome::Gone)), "{undone:?}");
    assert_eq!(journal.entries(), []);
}

#[test]
fn a_listening_socket_gives_its_connections_nodelay_until_that_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Both have the one socket: what another process has is reached, and is seen here.
    let held = Stdio::from(OwnedFd::from(listener.try_clone().unwrap()));
    let target = Guard::spawn(Command::new("sleep").arg("600").stdin(held).stdout(Stdio::null())).unwrap();
    let accepted = || {
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.accept().unwrap().0.nodelay().unwrap()
    };
    assert!(!accepted());
    let text = format!("nodelay {} on", target.pid());
    if !testkit::is_root() {
        return testkit::skip("a copy of another process's descriptor may need root (ptrace_scope)");
    }
    let on = change(&text);
    assert_eq!((on.before(), on.after()), ("off".to_owned(), "on".to_owned()));
    let made = made(&mut journal, &on);
    assert!(accepted());
    let undone = undo_only(&mut journal, &[made], &mut |_| {}).unwrap();
    assert!(matches!(undone.as_slice(), [one] if matches!(one.outcome, Outcome::PutBack)), "{undone:?}");
    assert!(!accepted());
    // Who listens nowhere is told so.
    let other = sleeper();
    let none = Asked::parse(&format!("nodelay {} on", other.pid())).unwrap().plan(&Nobody).unwrap_err();
    assert!(none.to_string().contains("listens on no TCP socket"), "{none}");
}

#[test]
fn a_listening_socket_has_room_for_more_until_that_is_undone() {
    if !testkit::is_root() {
        return testkit::skip("a copy of another process's descriptor may need root (ptrace_scope)");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    // No sleeper of another test is to have it, too.
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 2).unwrap();
    let listener = TcpListener::from(socket);
    let held = Stdio::from(OwnedFd::from(listener.try_clone().unwrap()));
    let target = Guard::spawn(Command::new("sleep").arg("600").stdin(held).stdout(Stdio::null())).unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: so many are connected as the queue has room for, one more than its length.
    let connected = || {
        let at_once = Duration::from_millis(300);
        let all: Vec<TcpStream> = (0..6).filter_map(|_| TcpStream::connect_timeout(&address, at_once).ok()).collect();
        let count = all.len();
        drop(all);
        (0..count).for_each(|_| drop(listener.accept().unwrap()));
        count
    };
    assert_eq!(connected(), 3);
    let more = change(&format!("backlog {} 64", target.pid()));
    assert_eq!((more.before(), more.after()), ("2".to_owned(), "64".to_owned()));
    let made = made(&mut journal, &more);
    assert_eq!(connected(), 6);
    let undone = undo_only(&mut journal, &[made], &mut |_| {}).unwrap();
    assert!(matches!(undone.as_slice(), [one] if matches!(one.outcome, Outcome::PutBack)), "{undone:?}");
    assert_eq!(connected(), 3);
    // More than the kernel allows is what it allows.
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    assert_eq!(change(&format!("backlog {} 2000000000", target.pid())).after(), most.trim());
}

#[test]
fn a_command_that_fails_is_undone_at_once_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    let file = folder.path().join("toggled").display().to_string();
    let half = change(&format!("command 'echo on > {file}; false' 'echo off > {file}'"));
    let error = make(&mut journal, &half, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("expected the command") && error.contains("exit status: 1"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "off");
    assert_eq!(journal.entries(), []);
}

#[test]
fn a_journal_that_names_other_files_is_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("cpu.max");
    std::fs::write(&victim, "50000 100000").unwrap();
    let line = |file: &str, before: &str| {
        format!(
            "{{\"line\":\"change\",\"id\":1,\"what\":{{\"kind\":\"cpu-limit\",\"file\":\"{file}\",\"before\":\"{before}\",\"after\":\"50000 100000\"}},\"boot\":\"\",\"network\":null,\"pid\":1,\"at_unix_ns\":1}}\n"
        )
    };
    for file in [victim.to_str().unwrap(), "/sys/fs/cgroup/../../etc/cpu.max"] {
        std::fs::write(folder.path().join("journal.jsonl"), line(file, "max")).unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        let undone = undo(&mut journal, true, &mut |_| {}).unwrap();
        assert!(matches!(undone.as_slice(), [one] if matches!(one.outcome, Outcome::Failed(_))), "{undone:?}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "50000 100000");
    }
}

/// A process of which a thread has another niceness than the first, which a journal must keep, and be read with.
#[test]
fn threads_that_differ_get_each_its_own_back_from_a_journal_that_is_read_anew() {
    let mut server = Command::new("python3");
    let script = "import os, threading, time\ndef own():\n os.nice(5)\n time.sleep(600)\n\
                  threading.Thread(target=own, daemon=True).start()\ntime.sleep(600)";
    if testkit::program("python3").is_none() {
        return testkit::skip("python3 is not installed");
    }
    let target = Guard::spawn(server.args(["-c", script])).unwrap();
    let all = |pid: u32| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        let mut all: Vec<String> =
            stats.map(|stat| stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned()).collect();
        all.sort();
        all
    };
    // The test itself may be nice.
    let two = |pid: u32| {
        let all = all(pid);
        all.len() == 2 && all[0] != all[1]
    };
    testkit::wait_until("a thread has its own niceness", || two(target.pid()));
    let before = all(target.pid());
    let folder = tempfile::tempdir().unwrap();
    made(&mut Journal::open(folder.path()).unwrap(), &change(&format!("nice {} 7", target.pid())));
    assert_ne!(all(target.pid()), before);
    // Another process would open it so.
    let mut journal = Journal::open(folder.path()).unwrap();
    let undone = undo(&mut journal, false, &mut |_| {}).unwrap();
    assert!(undone.iter().all(|undone| matches!(undone.outcome, Outcome::PutBack)), "{undone:?}");
    assert_eq!(all(target.pid()), before);
}
