//! The niceness of a process and its threads (setpriority(2)).
//!
//! Threads have their own on Linux ("C library/kernel differences"): each is set, and each gets back what it had. A thread
//! that is born meanwhile has its maker's, and keeps that. Whoever may raise a niceness may not lower it again without
//! CAP_SYS_NICE (or RLIMIT_NICE): what could not be put back is refused.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::process::{CAP_SYS_NICE, Who, has_capability, id_of, is_of_same_user};
use crate::values::per_thread::PerThread;
use rustix::process::{Resource, getpriority_process, getrlimit, setpriority_process};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "nice",
    takes: "WHO NICENESS",
    example: "target 19",
    does: "sets the niceness of processes and all their threads, -20 (first) to 19 (last)",
    needs: "CAP_SYS_NICE, also to put a raised one back",
    undone: Undoing::Back("each thread's as it was"),
    parse: |words| {
        let who = words.who()?;
        let nice = words.parsed("a niceness from -20 to 19", |word| word.parse().ok().filter(is_niceness))?;
        Ok(Arc::new(Renicing { who, nice }))
    },
};

fn is_niceness(nice: &i32) -> bool {
    (-20..=19).contains(nice)
}

#[derive(Debug)]
struct Renicing {
    who: Who,
    nice: i32,
}

impl Fault for Renicing {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        all.iter()
            .map(|process| {
                Ok(Deed::Change(Change::Nice(Nice {
                    of: PerThread::planned(process, self.nice.to_string(), niceness)?,
                })))
            })
            .collect()
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// The niceness of a process and its threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nice {
    #[serde(flatten)]
    of: PerThread,
}

impl Reversible for Nice {
    fn name(&self) -> String {
        format!("niceness of process {}", self.of.pid())
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
        Ok(self.of.found(niceness))
    }

    fn may(&self) -> Result<(), ApplyError> {
        if has_capability(CAP_SYS_NICE) {
            return Ok(());
        }
        let name = self.name();
        if !is_of_same_user(self.of.pid()) {
            return Err(ApplyError::missing_right(&name, "it is another user's, and CAP_SYS_NICE is missing"));
        }
        // getrlimit(2), RLIMIT_NICE: down to 20 less the limit.
        let lowest = getrlimit(Resource::Nice).current.map_or(-20, |limit| 20 - i64::try_from(limit).unwrap_or(40));
        let least = self.of.values().filter_map(|nice| nice.parse::<i64>().ok()).min().unwrap_or(-20);
        match least >= lowest {
            true => Ok(()),
            false => Err(ApplyError::missing_right(&name, "to lower it, as undoing does, needs CAP_SYS_NICE")),
        }
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        self.of.set(&self.name(), value, |thread, value| {
            let nice: i32 = value.parse().map_err(|_| ApplyError::not_ours(&self.name(), value))?;
            Ok(setpriority_process(thread, nice))
        })
    }

    fn check(&self) -> Result<(), ApplyError> {
        match self.of.values().all(|value| value.parse().is_ok_and(|nice| is_niceness(&nice))) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.of.after)),
        }
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}

fn niceness(thread: u32) -> Option<String> {
    Some(getpriority_process(Some(id_of(thread).ok()?)).ok()?.to_string())
}
