//! A share of the CPUs' time for a process, by the CFS quota of a control group of its own; or a group's own limit changed.
//!
//! In every 100 ms its threads may use so much CPU time, and wait for the next when it is used up: as containers are limited.
//! `cpu.stat` (`nr_throttled`) shows it. The second form changes the limit of a group that is there, which all in it share.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::group::{GROUPS, InGroup, is_below, read};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Files that hold a CPU limit, of version 2 and 1.
const FILES: [&str; 2] = ["cpu.max", "cpu.cfs_quota_us"];
/// The time of which a share is given, microseconds: the kernel's default.
const PERIOD_US: f64 = 100_000.0;
/// The least quota the kernel takes, in CPUs.
const CPUS_MIN: f64 = 0.01;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "cpu-limit",
    takes: "WHO CPUS | FILE 'VALUE'",
    example: "target 0.5",
    does: "gives processes so many CPUs' time together, in a control group of their own; or sets a group's own limit",
    needs: "the right to make control groups (root)",
    undone: Undoing::Back("moved back, and the group removed; or the limit as it was"),
    parse: |words| {
        if words.peek().is_some_and(|word| word.starts_with('/')) {
            let file = words.parsed(&format!("{} or {} of a group below {GROUPS}", FILES[0], FILES[1]), |word| {
                check_file(word).ok().map(|()| word.to_owned())
            })?;
            let value = words.parsed("its value: max, -1, or a quota in microseconds and a period", |word| {
                let value = word.split_whitespace().collect::<Vec<_>>().join(" ");
                is_value(&value).then_some(value)
            })?;
            return Ok(Arc::new(OfGroup { file, value }));
        }
        let who = words.who()?;
        let cpus = words.parsed("a number of CPUs such as 0.5, 0.01 at the least", |word| {
            word.parse::<f64>().ok().filter(|cpus| (CPUS_MIN..=10_000.0).contains(cpus))
        })?;
        let quota_us = (cpus * PERIOD_US).round();
        let one = vec![("cpu.cfs_quota_us", Some(quota_us.to_string()))];
        let two = vec![("cpu.max", Some(format!("{quota_us} {PERIOD_US}")))];
        Ok(InGroup::shared(who, ["cpu", "cpu"], [one, two]))
    },
};

#[derive(Debug)]
struct OfGroup {
    file: String,
    value: String,
}

impl Fault for OfGroup {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let before = read(Path::new(&self.file))?;
        // Version 2 keeps the period where only a quota is written.
        let period = before.split(' ').nth(1).filter(|_| !self.value.contains(' ') && self.file.ends_with(FILES[0]));
        let after = period.map_or(self.value.clone(), |period| format!("{} {period}", self.value));
        Ok(vec![Deed::Change(Change::CpuLimit(GroupLimit { file: self.file.clone(), before, after }))])
    }
}

/// A control group's own CPU limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimit {
    file: String,
    before: String,
    after: String,
}

impl Reversible for GroupLimit {
    fn name(&self) -> String {
        self.file.clone()
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        let file = Path::new(&self.file);
        if file.exists() { read(file).map(Some) } else { Ok(None) }
    }

    fn may(&self) -> Result<(), ApplyError> {
        let opened = std::fs::OpenOptions::new().write(true).open(&self.file);
        opened.map(drop).map_err(|error| ApplyError::of_write(&self.file, &self.after, &error))
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        std::fs::write(&self.file, value).map_err(|error| ApplyError::of_write(&self.file, value, &error))
    }

    fn check(&self) -> Result<(), ApplyError> {
        check_file(&self.file)?;
        match is_value(&self.before) && is_value(&self.after) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.file, &self.after)),
        }
    }
}

/// Only the CPU limit of a group: a journal names files, and this is run as root.
fn check_file(file: &str) -> Result<(), ApplyError> {
    let name = Path::new(file).file_name().and_then(|name| name.to_str());
    match name.is_some_and(|name| FILES.contains(&name)) && is_below(file) {
        true => Ok(()),
        false => Err(ApplyError::not_ours(file, "a CPU limit")),
    }
}

/// `max`, -1 or a quota, microseconds, with a period behind it or without.
fn is_value(value: &str) -> bool {
    let words: Vec<&str> = value.split(' ').collect();
    let is_number = |word: &str| !word.is_empty() && word.len() <= 12 && word.bytes().all(|b| b.is_ascii_digit());
    match words.as_slice() {
        [quota] => *quota == "max" || *quota == "-1" || is_number(quota),
        [quota, period] => (*quota == "max" || is_number(quota)) && is_number(period),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cpu_limits_of_groups_are_files_of_ours() {
        for file in [
            "/etc/passwd",
            "/sys/fs/cgroup/../../../etc/cpu.max",
            "/sys/fs/cgroup/x/memory.max",
            "cpu.max",
            "/tmp/cpu.max",
            "",
        ] {
            assert!(check_file(file).is_err(), "{file}");
        }
        assert!(
            check_file("/sys/fs/cgroup/a/cpu.max").is_ok()
                && check_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us").is_ok()
        );
        for value in ["", "max max", "1;2", "1 2 3", "-2", "9999999999999"] {
            assert!(!is_value(value), "{value}");
        }
        assert!(["max", "-1", "50000", "max 100000", "50000 100000"].into_iter().all(is_value));
    }
}
