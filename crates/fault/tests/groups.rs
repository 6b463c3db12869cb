//! Control groups are made, entered and removed, with all that was born in them, and their limits hold meanwhile: real groups,
//! real processes of the test's own.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]
#![allow(clippy::print_stdout, reason = "a worker speaks to its test by stdout")]

mod common;
use common::*;
use fault::faults::Nobody;
use fault::{Asked, Begun, Deed, Journal, undo};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;

/// Faults of control groups, and the file that shows each in version 1 and 2.
const GROUPS: [(&str, &str, &str, &[&str]); 5] = [
    ("cpu-limit", "0.5", "cpu", &["cpu.cfs_quota_us", "cpu.max"]),
    ("pids-limit", "50", "pids", &["pids.max"]),
    ("memory-limit", "64MiB", "memory", &["memory.limit_in_bytes", "memory.max"]),
    ("cpuset", "0", "cpuset", &["cpuset.cpus"]),
    ("io-limit", "/ write 1MiB/s", "blkio", &["blkio.throttle.write_bps_device", "io.max"]),
];

fn sleeper() -> Guard {
    Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap()
}

fn deeds(text: &str) -> Result<Vec<Deed>, fault::ApplyError> {
    let deeds = Asked::parse(text).unwrap().plan(&Nobody)?;
    deeds.iter().try_for_each(Deed::may)?;
    Ok(deeds)
}

/// The groups of a process, a line a hierarchy.
fn groups(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

/// `FOLDER STOP FAULT`: does it, says each step, and waits for ever at the one of this number.
#[test]
fn worker() {
    let Some(words) = work() else { return };
    let (folder, stop) = (Path::new(&words[0]), words[1].parse().unwrap());
    Begun::make(folder, deeds(&words[2..].join(" ")).unwrap(), &mut stopped_at(stop)).unwrap().leave();
}

#[test]
fn processes_are_moved_back_out_of_groups_and_these_removed() {
    if !testkit::is_root() {
        return testkit::skip("control groups need root");
    }
    for (name, value, controller, files) in GROUPS {
        let mut shell = Command::new("sh");
        let mut shell = Guard::spawn(shell.args(["-c", "read line; sleep 600 & wait"]).stdin(Stdio::piped())).unwrap();
        let text = format!("{name} {} {value}", shell.pid());
        let planned = match deeds(&text) {
            Ok(planned) => planned,
            // Of the machine, and nothing that could be installed: its files are on no disk.
            Err(error) if error.to_string().contains("a file system on a disk") => {
                println!("skipped: {name}: {error}");
                continue;
            }
            Err(error) => {
                testkit::skip(&format!("{name}: {error}"));
                continue;
            }
        };
        let said = planned[0].words();
        assert!(files.iter().any(|file| said.contains(file)), "{said}");
        let folder_of = |text: &str| {
            let line = text.lines().find(|line| line.contains("plimsoll-fault-"))?;
            Some(line.rsplit('/').next()?.to_owned())
        };
        // While it holds, a child that is born is in it, too, and leaves it with the others.
        let folder = tempfile::tempdir().unwrap();
        let outside = groups(shell.pid());
        let begun = Begun::make(folder.path(), planned, &mut |_| {}).unwrap();
        let inside = groups(shell.pid());
        let group = folder_of(&inside).unwrap();
        drop(shell.child().stdin.take());
        let child = testkit::wait_for("a child", || {
            let path = format!("/proc/{0}/task/{0}/children", shell.pid());
            std::fs::read_to_string(path).unwrap().split_whitespace().next()?.parse::<u32>().ok()
        });
        assert_eq!(groups(child), inside, "{name}");
        let limits: Vec<_> = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .map(|root| format!("{root}/{controller}"))
            .chain(["/sys/fs/cgroup".to_owned()])
            .filter(|root| Path::new(root).exists())
            .collect();
        assert!(!limits.is_empty());
        begun.end().unwrap();
        assert_eq!((groups(shell.pid()), groups(child)), (outside.clone(), outside), "{name}");
        for root in limits {
            let left = std::fs::read_dir(root).unwrap().flatten().any(|entry| *entry.file_name() == *group);
            assert!(!left, "{name}: the group is removed");
        }
        // SAFETY of ids: the child is the shell's own, which lives.
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
}

#[test]
fn a_group_that_was_made_and_not_entered_is_removed() {
    if !testkit::is_root() {
        return testkit::skip("control groups need root");
    }
    let target = sleeper();
    let text = format!("cpu-limit {} 0.5", target.pid());
    if let Err(error) = deeds(&text) {
        return testkit::skip(&error.to_string());
    }
    let folder = tempfile::tempdir().unwrap();
    // Journalled, and killed before anything is made.
    let mut killed = Worker::start(&[folder.path().to_str().unwrap(), "1", &text]);
    assert!(killed.says("stopped"));
    killed.kill();
    let mut journal = Journal::open(folder.path()).unwrap();
    let after = journal.entries()[0].what.after();
    let group = Path::new(after.split(' ').nth(1).unwrap()).to_owned();
    std::fs::create_dir(&group).unwrap();
    let undone = undo(&mut journal, false, &mut |_| {}).unwrap();
    assert!(matches!(undone[0].outcome, fault::Outcome::PutBack), "{undone:?}");
    assert!(!group.exists());
}

#[test]
fn a_limit_holds_while_it_is_there() {
    if !testkit::is_root() {
        return testkit::skip("control groups need root");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; (true) && echo born || echo refused; read line; (true) && echo born"]);
    let mut shell = Guard::spawn(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null())).unwrap();
    let text = format!("pids-limit {} 1", shell.pid());
    let deeds = match deeds(&text) {
        Ok(deeds) => deeds,
        Err(error) => return testkit::skip(&error.to_string()),
    };
    use std::io::{BufRead, BufReader, Write};
    let mut input = shell.child().stdin.take().unwrap();
    let mut output = BufReader::new(shell.child().stdout.take().unwrap()).lines();
    let begun = Begun::make(folder.path(), deeds, &mut |_| {}).unwrap();
    writeln!(input, "now").unwrap();
    let first = output.next().transpose().unwrap();
    // A shell that may not fork says so, or ends.
    assert_ne!(first.as_deref(), Some("born"));
    begun.end().unwrap();
    if first.is_some() {
        writeln!(input, "now").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "born");
    }
}
