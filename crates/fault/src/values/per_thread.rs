//! A value that each thread of a process has for itself: what all of them are set to, and what each gets back.
//!
//! A thread that is born meanwhile has its maker's, and keeps that. The value before is the first thread's; of threads that had
//! another, theirs is kept too. A change that was killed half way is ours: then some threads have the one, some the other.

use crate::error::ApplyError;
use crate::process::{Process, gone, id_of, is_there, threads};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the threads of a process had, and what they are to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerThread {
    pid: u32,
    started: u64,
    pub(crate) before: String,
    pub(crate) after: String,
    /// Of threads that had another before.
    #[serde(default, with = "crate::values::numbered", skip_serializing_if = "BTreeMap::is_empty")]
    threads: BTreeMap<u32, String>,
}

impl PerThread {
    /// What they have now, by `value_of`, which is given a thread's id; and what they are to have.
    pub(crate) fn planned(
        process: &Process,
        after: String,
        value_of: impl Fn(u32) -> Option<String>,
    ) -> Result<Self, ApplyError> {
        let Process { pid, started, .. } = *process;
        let before = value_of(pid).ok_or_else(|| gone(pid))?;
        let others = threads(pid).filter_map(|thread| Some((thread, value_of(thread)?)));
        let threads = others.filter(|(_, value)| *value != before).collect();
        Ok(PerThread { pid, started, before, after, threads })
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// What tells it from what another process of the same id has.
    pub(crate) fn identity(&self, name: &str) -> String {
        format!("{name} of {}", self.started)
    }

    /// Every value there is: before, after, and those of single threads.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        [&self.before, &self.after].into_iter().chain(self.threads.values()).map(String::as_str)
    }

    /// The value now: that before or after where every thread has that or its own; else one that is somebody else's. `None`: the
    /// process is gone.
    pub(crate) fn found(&self, value_of: impl Fn(u32) -> Option<String>) -> Option<String> {
        if !is_there(self.pid, self.started) {
            return None;
        }
        let values: Vec<(u32, String)> =
            threads(self.pid).filter_map(|thread| value_of(thread).map(|value| (thread, value))).collect();
        if values.iter().all(|(thread, value)| value == self.own(*thread)) {
            return Some(self.before.clone());
        }
        let foreign = values.iter().find(|(thread, value)| *value != self.after && value != self.own(*thread));
        Some(foreign.map_or(&self.after, |(_, value)| value).clone())
    }

    /// Sets all threads to a value; where that is the one before, each to its own. One that has just ended needs none.
    pub(crate) fn set(
        &self,
        name: &str,
        value: &str,
        set_one: impl Fn(Option<Pid>, &str) -> Result<Result<(), Errno>, ApplyError>,
    ) -> Result<(), ApplyError> {
        for thread in threads(self.pid) {
            let value = if value == self.before { self.own(thread) } else { value };
            match set_one(Some(id_of(thread)?), value)? {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(ApplyError::of_write(name, value, &error.into())),
            }
        }
        Ok(())
    }

    /// What a thread had.
    fn own(&self, thread: u32) -> &str {
        self.threads.get(&thread).unwrap_or(&self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::start_of;

    #[test]
    fn half_of_a_change_is_ours_and_anything_else_is_foreign() {
        let pid = std::process::id();
        let of = PerThread {
            pid,
            started: start_of(pid).expect("this process"),
            before: "1".to_owned(),
            after: "2".to_owned(),
            threads: BTreeMap::new(),
        };
        let found = |value: &str| of.found(|_| Some(value.to_owned()));
        assert_eq!([found("1"), found("2"), found("3")], ["1", "2", "3"].map(|value| Some(value.to_owned())));
        let mixed = of.found(|thread| Some(if thread == pid { "2" } else { "1" }.to_owned()));
        assert_eq!(mixed.as_deref(), Some("2"));
        // One that had its own and has it still is as before; and another process of this id is none.
        let own = PerThread { threads: BTreeMap::from([(pid, "9".to_owned())]), ..of.clone() };
        let mine = own.found(|thread| Some(if thread == pid { "9" } else { "1" }.to_owned()));
        assert_eq!(mine.as_deref(), Some("1"));
        assert_eq!(PerThread { started: of.started + 1, ..of }.found(|_| Some("1".to_owned())), None);
    }
}
