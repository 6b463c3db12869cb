//! Faults whose work a process of their own does, which is this test's program, started again.
#![allow(dead_code, reason = "each test file uses its part of this")]

use super::common::only;
use fault::{Asked, Begun, Deed, faults::Nobody};
use std::path::Path;

/// Has helpers started by the test named `helper`, which calls [`help`].
pub fn helpers_are_this_test() {
    let program = std::env::current_exe().unwrap().display().to_string();
    fault::helper::start_by(&program, only("helper").map(str::to_owned).to_vec());
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
