//! Changes of what runs are put back whenever their process is killed: real processes of the test's own, real SIGKILLs.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
use common::*;
use fault::{Applied, Asked, Change, Deed, Journal, Outcome, faults::Nobody, make, undo, undo_only};
use std::path::Path;
use std::process::{Command, Stdio};
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

fn state(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1[..1].to_owned()
}

fn nice(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned()
}

/// The change that a fault makes of a process.
fn change(what: &str, pid: u32, folder: &Path) -> Change {
    let file = folder.join("toggled").display().to_string();
    let text = match what {
        "descriptors" => format!("descriptors {pid} 33"),
        "nice" => format!("nice {pid} 7"),
        "stop" => format!("stop {pid}"),
        "affinity" => format!("affinity {pid} 0"),
        _ => format!("command 'echo on > {file}' 'echo off > {file}'"),
    };
    let mut deeds = Asked::parse(&text).unwrap().plan(&Nobody).unwrap();
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

fn cpus(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

/// All that may be changed of it, and the file of the command.
fn seen(pid: u32, folder: &Path) -> [String; 5] {
    let file = std::fs::read_to_string(folder.join("toggled")).unwrap_or_else(|_| "off".to_owned());
    // A process that was just sent a signal may not have taken it.
    let stopped = if state(pid) == "T" { "stopped" } else { "running" };
    [limits(pid), nice(pid), stopped.to_owned(), cpus(pid), file.trim().to_owned()]
}

const KINDS: [&str; 5] = ["descriptors", "nice", "stop", "affinity", "command"];

/// `WHAT PID FOLDER STOP`: changes, says each step, and waits for ever at the one of this number.
#[test]
fn worker() {
    let Some(words) = work() else { return };
    let (pid, folder, stop) = (words[1].parse().unwrap(), Path::new(&words[2]), words[3].parse().unwrap());
    let mut journal = Journal::open(folder).unwrap();
    make(&mut journal, &change(&words[0], pid, folder), &mut stopped_at(stop)).unwrap();
}

#[test]
fn killed_at_any_step_every_kind_is_put_back() {
    for (at, what) in KINDS.iter().enumerate() {
        // Permitted, journalled, changed, marked.
        for stop in 0..4 {
            let target = sleeper();
            let folder = tempfile::tempdir().unwrap();
            let before = seen(target.pid(), folder.path());
            let path = folder.path().to_str().unwrap();
            let mut killed = Worker::start(&[what, &target.pid().to_string(), path, &stop.to_string()]);
            assert!(killed.says("stopped"));
            killed.kill();
            let is_made = stop >= 2;
            testkit::wait_until("the change is as far as it came", || {
                (seen(target.pid(), folder.path())[at] != before[at]) == is_made
            });
            assert_eq!(Journal::list(folder.path()).unwrap().len(), usize::from(stop >= 1), "{what} {stop}");
            let mut journal = Journal::open(folder.path()).unwrap();
            let undone = undo(&mut journal, false, &mut |_| {}).unwrap();
            assert!(undone.iter().all(|undone| undone.outcome.is_closed()), "{what} {stop}: {undone:?}");
            testkit::wait_until("it is as before", || seen(target.pid(), folder.path()) == before);
            assert_eq!(journal.entries(), [], "{what} {stop}");
        }
    }
}

#[test]
fn another_process_of_the_same_id_and_what_others_changed_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    let mut target = sleeper();
    let before = seen(target.pid(), folder.path());
    let nice = made(&mut journal, &change("nice", target.pid(), folder.path()));
    let descriptors = made(&mut journal, &change("descriptors", target.pid(), folder.path()));
    let again = make(&mut journal, &change("nice", target.pid(), folder.path()), &mut |_| {}).unwrap();
    assert_eq!(again, Applied::AlreadySo);
    // Only the one that was asked for.
    let undone = undo_only(&mut journal, &[nice], &mut |_| {}).unwrap();
    assert!(matches!(undone.as_slice(), [one] if matches!(one.outcome, Outcome::PutBack)), "{undone:?}");
    assert_eq!(seen(target.pid(), folder.path())[1], before[1]);
    assert_ne!(seen(target.pid(), folder.path())[0], before[0]);
    // Somebody else gave it another limit meanwhile: left, and forced back.
    let output = Command::new("prlimit").args(["--pid", &target.pid().to_string(), "--nofile=44"]).output();
    match output {
        Ok(output) if output.status.success() => {
            let undone = undo_only(&mut journal, &[descriptors], &mut |_| {}).unwrap();
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
fn a_command_that_fails_is_undone_at_once_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    let file = folder.path().join("toggled").display().to_string();
    let half = Asked::parse(&format!("command 'echo on > {file}; false' 'echo off > {file}'")).unwrap();
    let [Deed::Change(half)] = &half.plan(&Nobody).unwrap()[..] else { panic!("it is one change") };
    let error = make(&mut journal, half, &mut |_| {}).unwrap_err().to_string();
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
    testkit::wait_until("a thread has its own niceness", || all(target.pid()) == ["0", "5"]);
    let folder = tempfile::tempdir().unwrap();
    made(&mut Journal::open(folder.path()).unwrap(), &change("nice", target.pid(), folder.path()));
    assert_eq!(all(target.pid()), ["7", "7"]);
    // Another process would open it so.
    let mut journal = Journal::open(folder.path()).unwrap();
    let undone = undo(&mut journal, false, &mut |_| {}).unwrap();
    assert!(undone.iter().all(|undone| matches!(undone.outcome, Outcome::PutBack)), "{undone:?}");
    assert_eq!(all(target.pid()), ["0", "5"]);
}
