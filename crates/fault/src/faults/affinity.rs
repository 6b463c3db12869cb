//! The CPUs that a process's threads may run on (sched_setaffinity(2)).
//!
//! Each thread is set, and each gets back what it had; one that is born meanwhile has its maker's, and keeps that. The kernel
//! takes what the thread's cpuset allows of it. CPUs past 1023 are not known here.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::process::{CAP_SYS_NICE, Who, has_capability, id_of, is_of_same_user};
use crate::values::per_thread::PerThread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "affinity",
    takes: "WHO CPUS",
    example: "target 0",
    does: "lets processes and all their threads run on these CPUs alone, such as 0 or 0-1,3",
    needs: "the process's own user, or CAP_SYS_NICE",
    undone: Undoing::Back("each thread's as it was"),
    parse: |words| {
        let who = words.who()?;
        let cpus = words.parsed("CPUs such as 0 or 0-1,3", normal)?;
        Ok(Arc::new(Pinning { who, cpus }))
    },
};

#[derive(Debug)]
struct Pinning {
    who: Who,
    cpus: String,
}

impl Fault for Pinning {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        all.iter()
            .map(|process| {
                Ok(Deed::Change(Change::Affinity(Affinity {
                    of: PerThread::planned(process, self.cpus.clone(), cpus_of)?,
                })))
            })
            .collect()
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// The CPUs of a process and its threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    #[serde(flatten)]
    of: PerThread,
}

impl Reversible for Affinity {
    fn name(&self) -> String {
        format!("CPUs of process {}", self.of.pid())
    }

    fn identity(&self) -> String {
        self.of.identity(&self.name())
    }

    fn before(&self) -> String {
        self.of.before.clone()
    }

    fn after(&self) -> String {
        self.of.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(self.of.found(cpus_of))
    }

    fn may(&self) -> Result<(), ApplyError> {
        match has_capability(CAP_SYS_NICE) || is_of_same_user(self.of.pid()) {
            true => Ok(()),
            false => Err(ApplyError::missing_right(&self.name(), "it is another user's, and CAP_SYS_NICE is missing")),
        }
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        self.of.set(&self.name(), value, |thread, value| {
            let set = parsed(value).ok_or_else(|| ApplyError::not_ours(&self.name(), value))?;
            Ok(sched_setaffinity(thread, &set))
        })
    }

    fn check(&self) -> Result<(), ApplyError> {
        match self.of.values().all(|value| parsed(value).is_some()) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.of.after)),
        }
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}

fn cpus_of(thread: u32) -> Option<String> {
    Some(written(&sched_getaffinity(Some(id_of(thread).ok()?)).ok()?))
}

/// A list of CPUs as the kernel writes it; `None`: it is none.
pub(crate) fn normal(text: &str) -> Option<String> {
    parsed(text).map(|set| written(&set))
}

/// `0-1,3`, as the kernel writes lists (cpuset(7)).
fn parsed(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        (first..=last).for_each(|cpu| set.set(cpu));
    }
    Some(set)
}

fn written(set: &CpuSet) -> String {
    let mut parts = Vec::new();
    let mut cpu = 0;
    while cpu < CpuSet::MAX_CPU {
        if !set.is_set(cpu) {
            cpu += 1;
            continue;
        }
        let first = cpu;
        while cpu < CpuSet::MAX_CPU && set.is_set(cpu) {
            cpu += 1;
        }
        parts.push(if cpu - first == 1 { first.to_string() } else { format!("{first}-{}", cpu - 1) });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-1", "0-1,3", "5,7-9,1023"] {
            assert_eq!(written(&parsed(text).unwrap()), text);
        }
        assert_eq!(written(&parsed("1,0").unwrap()), "0-1");
        for text in ["", "a", "1-0", "0,", "-1", "1024"] {
            assert!(parsed(text).is_none(), "{text}");
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kernels =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
        assert_eq!(cpus_of(std::process::id()).unwrap(), kernels);
    }
}
