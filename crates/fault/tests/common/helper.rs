//! Faults whose work a process of their own does, which is this test's program, started again.
#![allow(dead_code, reason = "each test file uses its part of this")]

use super::common::*;
use fault::{Asked, Begun, Deed, Journal, faults::Nobody, make, undo};
use std::path::Path;

/// Has helpers started by the test named `helper`, which calls [`help`].
pub fn helpers_are_this_test() {
    let program = std::env::current_exe().unwrap().display().to_string();
    let arguments = ["--exact", "helper", "--nocapture", "--test-threads=1"].map(str::to_owned);
    fault::helper::start_by(&program, arguments.to_vec());
}

/// What the test named `helper` is: nothing, unless this process was started as one.
pub fn help() {
    if std::env::var_os("PLIMSOLL_FAULT_JOB").is_some() {
        fault::helper::run().unwrap();
    }
}

pub fn deeds(text: &str) -> Vec<Deed> {
    helpers_are_this_test();
    Asked::parse(text).unwrap().plan(&Nobody).unwrap()
}

pub fn begin(folder: &Path, text: &str) -> Begun {
    Begun::make(folder, deeds(text), &mut |_| {}).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Ids of helpers that a fault of this process's test binary has started and that run.
pub fn helpers() -> Vec<u32> {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let ids =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is_helper = environment.split(|b| *b == 0).any(|entry| entry.starts_with(b"PLIMSOLL_FAULT_JOB="));
        is_helper && std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|network| network == own)
    })
    .collect()
}

/// `FOLDER STOP FAULT…`: does it, says each step, and waits for ever at the one of this number.
pub fn work_until() {
    let Some(words) = work() else { return };
    let mut watch = stopped_at(words[1].parse().unwrap());
    let mut journal = Journal::open(Path::new(&words[0])).unwrap();
    for deed in deeds(&words[2..].join(" ")) {
        match deed {
            Deed::Change(change) => drop(make(&mut journal, &change, &mut watch).unwrap()),
            Deed::Act(mut act) => act.begin().unwrap(),
        }
    }
}

/// Kills plimsoll's part of a fault at each of so many steps, and looks that all is as before once it is undone.
pub fn killed_at_each_of(steps: u32, fault: &str, is_as_before: impl Fn() -> bool) {
    for stop in 0..steps {
        let folder = tempfile::tempdir().unwrap();
        let mut worker = Worker::start(&[&folder.path().display().to_string(), &stop.to_string(), fault]);
        assert!(worker.says("stopped"), "{fault} {stop}");
        worker.kill();
        let mut journal = Journal::open(folder.path()).unwrap();
        // Permitted, journalled, changed, marked, for each change.
        assert_eq!(journal.entries().len() as u32, stop.div_ceil(4), "{fault} {stop}");
        assert_eq!(is_as_before(), stop < 2, "{fault} {stop}");
        let undone = undo(&mut journal, false, &mut |_| {}).unwrap();
        assert!(undone.iter().all(|undone| undone.outcome.is_closed()), "{fault} {stop}: {undone:?}");
        assert!(is_as_before(), "{fault} {stop}");
        assert_eq!(journal.entries(), [], "{fault} {stop}");
    }
}
