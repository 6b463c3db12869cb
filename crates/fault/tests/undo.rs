//! Changes are put back whenever their process is killed: real settings of a namespace the test made, real SIGKILLs.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]
#![allow(clippy::print_stdout, reason = "a worker speaks to its test by stdout")]

mod common;
use common::*;
use fault::{Applied, ApplyError, Journal, Outcome, apply, undo};
use model::check::Setting;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use testkit::process::Guard;

const NAMES: [&str; 2] = ["net.core.somaxconn", "net.ipv4.ip_local_port_range"];
/// A user who is not root.
const OTHER: u32 = 65_534;
const AFTER: [&str; 2] = ["777", "20000 20999"];

fn settings() -> [Setting; 2] {
    [0, 1].map(|i| Setting { name: NAMES[i].to_owned(), value: AFTER[i].to_owned() })
}

fn values() -> [String; 2] {
    NAMES.map(|name| {
        let text = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

fn set(i: usize, value: &str) {
    std::fs::write(format!("/proc/sys/{}", NAMES[i].replace('.', "/")), value).unwrap();
}

fn outcomes(folder: &Path, force: bool) -> Vec<String> {
    let mut journal = Journal::open(folder).unwrap();
    let undone = undo(&mut journal, force, &mut |_| {}).unwrap();
    undone.iter().map(|undone| format!("{} {:?}", undone.entry.id, undone.outcome)).collect()
}

/// `apply|undo FOLDER STOP`: says `stopped` at the step of this number and waits there; says each step before.
#[test]
fn worker() {
    let Some(words) = work() else { return };
    let [what, folder, stop] = [&words[0], &words[1], &words[2]];
    let (mut watch, folder) = (stopped_at(stop.parse().unwrap()), Path::new(folder));
    let mut journal = Journal::open(folder).unwrap();
    match &**what {
        "apply" => {
            for setting in settings() {
                let applied = apply(&mut journal, &setting, &mut watch).unwrap();
                assert!(matches!(applied, Applied::Changed { .. }));
            }
        }
        "one" => {
            let setting = &settings()[words[3].parse::<usize>().unwrap()];
            apply(&mut journal, setting, &mut watch).unwrap();
        }
        "undo" => drop(undo(&mut journal, false, &mut watch).unwrap()),
        "refused" => {
            let refused = apply(&mut journal, &settings()[0], &mut watch).unwrap_err();
            assert!(matches!(refused, ApplyError::NotPermitted { .. }), "{refused}");
            assert_eq!(journal.entries(), []);
            println!("said: {refused}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn killed_at_any_step_of_a_change_it_is_put_back() {
    if !inside("killed_at_any_step_of_a_change_it_is_put_back") {
        return;
    }
    let before = values();
    let after = AFTER.map(str::to_owned);
    // Two changes of four steps: permitted, journalled, changed, marked.
    for stop in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let mut killed = Worker::start(&["apply", path, &stop.to_string()]);
        assert!(killed.says("stopped"));
        killed.kill();
        let made = [0, 4].map(|first| stop >= first + 2);
        let expected = [0, 1].map(|i| if made[i] { after[i].clone() } else { before[i].clone() });
        assert_eq!(values(), expected, "killed at step {stop}");
        let open = Journal::list(folder.path()).unwrap();
        assert_eq!(open.len(), [0, 4].iter().filter(|first| stop > **first).count(), "{open:?}");
        let said = outcomes(folder.path(), false);
        assert_eq!(values(), before, "killed at step {stop}: {said:?}");
        assert_eq!(said.len(), open.len());
        assert!(said.is_sorted_by(|a, b| a > b), "the last first: {said:?}");
        assert_eq!(said.iter().filter(|s| s.contains("PutBack")).count(), made.iter().filter(|m| **m).count());
        assert_eq!(outcomes(folder.path(), false), [""; 0], "nothing is left");
        assert_eq!(Journal::list(folder.path()).unwrap(), []);
    }
}

#[test]
fn killed_at_any_step_of_undoing_it_is_undone_the_next_time() {
    if !inside("killed_at_any_step_of_undoing_it_is_undone_the_next_time") {
        return;
    }
    let before = values();
    for stop in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        Worker::start(&["apply", path, "-1"]).ends_well();
        assert_eq!(values(), AFTER.map(str::to_owned));
        let mut killed = Worker::start(&["undo", path, &stop.to_string()]);
        assert!(killed.says("stopped"));
        killed.kill();
        let said = outcomes(folder.path(), false);
        assert_eq!(values(), before, "killed at step {stop}: {said:?}");
        assert_eq!(Journal::list(folder.path()).unwrap(), []);
    }
}

#[test]
fn what_somebody_else_changed_is_left_unless_forced() {
    if !inside("what_somebody_else_changed_is_left_unless_forced") {
        return;
    }
    let before = values();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    Worker::start(&["apply", path, "-1"]).ends_well();
    set(0, "888");
    let said = outcomes(folder.path(), false);
    assert_eq!(said, ["2 PutBack", "1 Foreign { found: \"888\" }"]);
    assert_eq!(values(), ["888".to_owned(), before[1].clone()]);
    assert_eq!(Journal::list(folder.path()).unwrap().len(), 1, "it stays open");
    assert_eq!(outcomes(folder.path(), true), ["1 Forced { found: \"888\" }"]);
    assert_eq!(values(), before);

    // Several changes to one setting: found as it first was, nothing is left to do.
    let mut journal = Journal::open(folder.path()).unwrap();
    for value in ["500", "600", "700"] {
        let setting = Setting { name: NAMES[0].to_owned(), value: value.to_owned() };
        apply(&mut journal, &setting, &mut |_| {}).unwrap();
    }
    drop(journal);
    assert_eq!(outcomes(folder.path(), false), ["3 PutBack", "2 PutBack", "1 PutBack"]);
    assert_eq!(values(), before);
    let mut journal = Journal::open(folder.path()).unwrap();
    for value in ["500", "600"] {
        let setting = Setting { name: NAMES[0].to_owned(), value: value.to_owned() };
        apply(&mut journal, &setting, &mut |_| {}).unwrap();
    }
    drop(journal);
    set(0, &before[0]);
    assert_eq!(outcomes(folder.path(), false), ["2 AsBefore", "1 AsBefore"]);
    assert_eq!(values(), before);
}

#[test]
fn what_is_so_already_or_is_not_taken_is_not_journalled() {
    if !inside("what_is_so_already_or_is_not_taken_is_not_journalled") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    let before = values();
    let setting = |value: &str| Setting { name: NAMES[1].to_owned(), value: value.to_owned() };
    let tabs = before[1].replace(' ', "\t");
    assert_eq!(apply(&mut journal, &setting(&tabs), &mut |_| {}).unwrap(), Applied::AlreadySo);
    // The kernel demands first <= last.
    let refused = apply(&mut journal, &setting("60000 50000"), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ApplyError::NotTaken { .. }), "{refused}");
    // What no fix changes is not changed, whoever asks.
    for (name, value) in [("net.core.no_such", "1"), ("net.ipv4.ip_default_ttl", "33"), (NAMES[0], "many")] {
        let setting = Setting { name: name.to_owned(), value: value.to_owned() };
        assert!(matches!(apply(&mut journal, &setting, &mut |_| {}), Err(ApplyError::NotOurs { .. })), "{name}");
        assert!(matches!(fault::would_apply(&setting), Err(ApplyError::NotOurs { .. })), "{name}");
    }
    assert_eq!((journal.entries(), values()), (&[][..], before));
}

#[test]
fn an_entry_that_no_fix_makes_is_refused_and_stays() {
    if !inside("an_entry_that_no_fix_makes_is_refused_and_stays") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    Worker::start(&["apply", path, "-1"]).ends_well();
    let file = folder.path().join("journal.jsonl");
    let written = std::fs::read_to_string(&file).unwrap();
    let ttl = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").unwrap();
    std::fs::write("/proc/sys/net/ipv4/ip_default_ttl", "77").unwrap();
    // The first entry becomes one of a setting that was never ours; the second one is as it was.
    let first = written.find("\"name\":").unwrap();
    let end = written.find("},\"boot\"").unwrap();
    let change = "\"name\":\"net.ipv4.ip_default_ttl\",\"before\":\"1\",\"after\":\"77\"";
    std::fs::write(&file, format!("{}{change}{}", &written[..first], &written[end..])).unwrap();
    for force in [false, true] {
        let said = outcomes(folder.path(), force);
        assert!(said.last().unwrap().starts_with("1 Failed(NotOurs { name: \"net.ipv4.ip_default_ttl\""), "{said:?}");
        assert_eq!(said.len(), if force { 1 } else { 2 }, "the other one is put back: {said:?}");
        assert_eq!((ttl().trim(), Journal::list(folder.path()).unwrap().len()), ("77", 1));
    }
}

#[test]
fn two_at_once_are_both_in_the_journal() {
    if !inside("two_at_once_are_both_in_the_journal") {
        return;
    }
    let before = values();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut workers = [0, 1].map(|i: usize| Worker::start(&["one", path, "-1", &i.to_string()]));
    workers.iter_mut().for_each(Worker::ends_well);
    assert_eq!(Journal::list(folder.path()).unwrap().len(), 2);
    assert_eq!(values(), AFTER.map(str::to_owned));
    assert_eq!(outcomes(folder.path(), false), ["2 PutBack", "1 PutBack"]);
    assert_eq!(values(), before);
}

#[test]
fn without_the_right_nothing_is_changed_nor_journalled() {
    if !inside("without_the_right_nothing_is_changed_nor_journalled") {
        return;
    }
    let before = values();
    let folder = tempfile::tempdir().unwrap();
    give_to(folder.path(), OTHER);
    let path = folder.path().to_str().unwrap();
    let mut worker = Worker::start_as(&["refused", path, "-1"], |command| {
        command.uid(OTHER).gid(OTHER);
    });
    assert!(worker.says("said: net.core.somaxconn: expected the right to change it, but permission denied"));
    worker.ends_well();
    assert_eq!(values(), before);
    // Nor does root use that user's journal.
    let refused = Journal::open(folder.path()).unwrap_err();
    assert!(refused.is_of_place() && refused.to_string().contains("it belongs to user 65534"), "{refused}");
    assert!(Journal::list(folder.path()).unwrap_err().is_of_place());
    // Root's change cannot be undone by another user either, and says so: the entry stays.
    give_to(folder.path(), 0);
    Worker::start(&["one", path, "-1", "0"]).ends_well();
    give_to(folder.path(), OTHER);
    Worker::start_as(&["undo", path, "-1"], |command| {
        command.uid(OTHER).gid(OTHER);
    })
    .ends_well();
    give_to(folder.path(), 0);
    assert_eq!((Journal::list(folder.path()).unwrap().len(), &*values()[0]), (1, "777"));
    assert_eq!(outcomes(folder.path(), false), ["1 PutBack"]);
}

#[test]
fn a_change_of_another_namespace_or_of_before_a_restart_is_not_put_back_here() {
    let folder = tempfile::tempdir().unwrap();
    let test = "a_change_of_another_namespace_or_of_before_a_restart_is_not_put_back_here";
    // The run inside leaves its journal where the one outside finds it.
    let kept = std::env::var("FAULT_TEST_KEPT").unwrap_or_else(|_| folder.path().to_str().unwrap().to_owned());
    let kept = Path::new(&kept);
    if std::env::var_os("FAULT_TEST_KEPT").is_some() {
        let mut journal = Journal::open(kept).unwrap();
        apply(&mut journal, &settings()[0], &mut |_| {}).unwrap();
        drop(journal);
        println!("applied");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    if !testkit::is_root() {
        return testkit::skip("a network namespace needs root");
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("FAULT_TEST_KEPT", kept);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut inside = Guard::spawn(testkit::network::of_its_own(&mut command)).unwrap();
    let mut said = BufReader::new(inside.child().stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("applied")));
    // Held open after its last process has ended, or the kernel gives its number to the namespace of another test.
    let _namespace = std::fs::File::open(format!("/proc/{}/ns/net", inside.pid())).unwrap();
    drop(inside.child().stdin.take());
    assert!(inside.wait(testkit::HANG_GUARD).unwrap().success());
    let here = values();
    assert_eq!(Journal::list(kept).unwrap().len(), 1);
    assert_eq!(outcomes(kept, false), ["1 OtherNetwork { process: None }"]);
    let written = std::fs::read_to_string(kept.join("journal.jsonl")).unwrap();
    assert_eq!(outcomes(kept, true), ["1 Forgotten"], "nobody is in it any more");
    assert_eq!(Journal::list(kept).unwrap(), []);
    // The same entry, as if it were of this namespace and of an earlier start of the machine.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let written = written.replace(boot.trim(), "00000000-0000-0000-0000-000000000000");
    std::fs::write(kept.join("journal.jsonl"), written).unwrap();
    assert_eq!(outcomes(kept, false), ["1 Restarted"]);
    assert_eq!(values(), here, "nothing of the host was touched");
    assert!(matches!(undo(&mut Journal::open(kept).unwrap(), true, &mut |_| {}), Ok(none) if none.is_empty()));
    assert!(!Outcome::OtherNetwork { process: None }.is_closed());
}
