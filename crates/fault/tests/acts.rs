//! What cannot be undone: it is done to whom was named and to nobody else, and the journal does not have it.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use fault::faults::Nobody;
use fault::{Asked, Begun, Deed, Journal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;

fn sleeper() -> Guard {
    Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap()
}

fn begun(folder: &Path, text: &str) -> Begun {
    Begun::make(folder, Asked::parse(text).unwrap().plan(&Nobody).unwrap(), &mut |_| {}).unwrap()
}

fn state(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1[..1].to_owned()
}

#[test]
fn signals_reach_whom_was_named_and_are_not_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    for (name, signal) in [("kill", 9), ("term", 15)] {
        let (mut target, mut other) = (sleeper(), sleeper());
        begun(folder.path(), &format!("{name} {}", target.pid())).end().unwrap();
        assert_eq!(target.wait(testkit::HANG_GUARD).unwrap().signal(), Some(signal));
        assert!(other.child().try_wait().unwrap().is_none());
    }
    let target = sleeper();
    target.signal(libc_stop());
    testkit::wait_until("it is stopped", || state(target.pid()) == "T");
    begun(folder.path(), &format!("cont {}", target.pid())).end().unwrap();
    testkit::wait_until("it goes on", || state(target.pid()) == "S");
    assert_eq!(Journal::list(folder.path()).unwrap(), []);
}

fn libc_stop() -> i32 {
    rustix::process::Signal::STOP.as_raw()
}

#[test]
fn a_process_that_ended_since_it_was_looked_at_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = sleeper();
    let kill = Asked::parse(&format!("kill {}", target.pid())).unwrap().plan(&Nobody).unwrap();
    let stop = Asked::parse(&format!("stop {}", target.pid())).unwrap().plan(&Nobody).unwrap();
    target.child().kill().unwrap();
    target.child().wait().unwrap();
    for deeds in [kill, stop] {
        let error = Begun::make(folder.path(), deeds, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("no such process"), "{error}");
    }
    assert_eq!(Journal::list(folder.path()).unwrap(), []);
}

#[test]
fn a_restart_ends_the_process_and_runs_the_command_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("started");
    for how in ["", " kill"] {
        let mut target = sleeper();
        let _ = std::fs::remove_file(&file);
        let restart = begun(folder.path(), &format!("restart {} 'touch {}'{how}", target.pid(), file.display()));
        let signal = if how.is_empty() { 15 } else { 9 };
        assert_eq!(target.wait(testkit::HANG_GUARD).unwrap().signal(), Some(signal));
        assert!(!file.exists(), "it is away");
        let said = restart.end().unwrap();
        assert!(said[0].contains("was started as process"), "{said:?}");
        testkit::wait_until("the command has run", || file.exists());
    }
    assert_eq!(Journal::list(folder.path()).unwrap(), []);
    // Without a command there is nobody who could start it.
    assert!(Asked::parse("restart 12").is_err());
    let error = Asked::parse("restart target").unwrap().plan(&Nobody).unwrap_err().to_string();
    assert!(error.contains("restart target 'COMMAND'"), "{error}");
}

/// Who is told to stop does so when it next comes to a CPU, and here another one has that. Undone before, it must not stop later.
#[test]
fn a_stop_that_is_undone_before_the_process_came_to_it_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let on_one_cpu = |words: &[&str]| Guard::spawn(Command::new("taskset").args(["-c", "0"]).args(words)).unwrap();
    let _busy = on_one_cpu(&["sh", "-c", "while :; do :; done"]);
    let target = on_one_cpu(&["chrt", "--idle", "0", "sleep", "600"]);
    let name = || std::fs::read_to_string(format!("/proc/{}/comm", target.pid())).unwrap();
    testkit::wait_until("it sleeps", || name() == "sleep\n" && state(target.pid()) == "S");
    for _ in 0..5 {
        drop(begun(folder.path(), &format!("stop {}", target.pid())));
        testkit::wait_until("it goes on", || state(target.pid()) == "S");
    }
    assert_eq!(Journal::list(folder.path()).unwrap(), []);
}

#[test]
fn where_one_deed_fails_those_before_it_are_undone() {
    let folder = tempfile::tempdir().unwrap();
    let (target, mut ended) = (sleeper(), sleeper());
    let plan = |pid: u32| Asked::parse(&format!("stop {pid}")).unwrap().plan(&Nobody).unwrap();
    let mut deeds = plan(target.pid());
    // One that is asked for its rights, and then fails.
    deeds.extend(Asked::parse("command false true").unwrap().plan(&Nobody).unwrap());
    deeds.extend(plan(ended.pid()));
    let error = Begun::make(folder.path(), deeds, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("'false'"), "{error}");
    testkit::wait_until("it goes on", || state(target.pid()) == "S");
    assert_eq!(state(ended.pid()), "S", "it was never come to");
    assert_eq!(Journal::list(folder.path()).unwrap(), []);
    ended.child().kill().unwrap();
    // Dropped, it is undone.
    drop(begun(folder.path(), &format!("stop {}", target.pid())));
    testkit::wait_until("it goes on", || state(target.pid()) == "S");
    assert!(matches!(&plan(target.pid())[..], [Deed::Change(_)]));
}
