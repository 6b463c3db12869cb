//! The limit of open descriptors of a process that runs (prlimit(2), `RLIMIT_NOFILE`).
//!
//! The soft limit is set; the hard one only where it is lower, and then as well. Descriptors that are open stay open: what
//! fails is the next open or accept (EMFILE) until as many are closed. Undone to both limits as they were.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::process::{CAP_SYS_RESOURCE, Process, Who, gone, has_capability, id_of, is_of_same_user, is_there};
use model::units::count;
use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "descriptors",
    takes: "WHO N|hard|more",
    example: "target 64",
    does: "sets the limit of open descriptors of running processes; `hard`: as many as their hard limit allows; `more`: the same where that is four times as many, or more is not allowed; else far more than it",
    needs: "the process's own user, or CAP_SYS_RESOURCE",
    undone: Undoing::Back("both limits as they were"),
    parse: |words| {
        let who = words.who()?;
        let limit = words.parsed("a number of descriptors, hard or more", |word| match word {
            "hard" => Some(Limit::Hard),
            "more" => Some(Limit::More),
            number => count(number).ok().map(Limit::Of),
        })?;
        Ok(Arc::new(Limiting { who, limit }))
    },
};

/// `more` is so many times the soft limit, and so many at least.
const MORE_TIMES: u64 = 4;
const MORE_MIN: u64 = 1 << 16;

#[derive(Debug, Clone, Copy)]
enum Limit {
    Of(u64),
    Hard,
    More,
}

impl Limit {
    /// The soft limit that is meant, by who may raise the hard one or not; `None` is unlimited.
    fn of(self, (soft, hard): (Option<u64>, Option<u64>), may_raise: bool) -> Option<u64> {
        let more = soft.map(|soft| soft.saturating_mul(MORE_TIMES));
        let is_enough = hard.is_none_or(|hard| more.is_some_and(|more| hard >= more));
        match self {
            Limit::Of(limit) => Some(limit),
            Limit::Hard => hard,
            Limit::More if is_enough || (!may_raise && hard > soft) => hard,
            Limit::More => more.map(|more| more.max(MORE_MIN)),
        }
    }
}

#[derive(Debug)]
struct Limiting {
    who: Who,
    limit: Limit,
}

impl Fault for Limiting {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        all.iter()
            .map(|process| Ok(Deed::Change(Change::Descriptors(Descriptors::planned(process, self.limit)?))))
            .collect()
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// The limits of open descriptors of a process: the soft one and the hard one, with a blank between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptors {
    pid: u32,
    started: u64,
    before: String,
    after: String,
}

impl Descriptors {
    fn planned(process: &Process, limit: Limit) -> Result<Self, ApplyError> {
        let (soft, hard) = limits(process.pid)?;
        let limit = limit.of((soft, hard), has_capability(CAP_SYS_RESOURCE));
        let is_within = match (limit, hard) {
            (Some(limit), Some(hard)) => limit <= hard,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        let needed = if is_within { hard } else { limit };
        let (before, after) = (words(soft, hard), words(limit, needed));
        Ok(Descriptors { pid: process.pid, started: process.started, before, after })
    }
}

impl Reversible for Descriptors {
    fn name(&self) -> String {
        format!("descriptors of process {}", self.pid)
    }

    fn identity(&self) -> String {
        format!("{} of {}", self.name(), self.started)
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        if !is_there(self.pid, self.started) {
            return Ok(None);
        }
        let (soft, hard) = limits(self.pid)?;
        Ok(Some(words(soft, hard)))
    }

    fn may(&self) -> Result<(), ApplyError> {
        let name = self.name();
        if has_capability(CAP_SYS_RESOURCE) {
            return Ok(());
        }
        if !is_of_same_user(self.pid) {
            return Err(ApplyError::missing_right(&name, "it is another user's, and CAP_SYS_RESOURCE is missing"));
        }
        let hard = |value: &str| value.split(' ').nth(1).map(str::to_owned);
        match hard(&self.before) == hard(&self.after) {
            true => Ok(()),
            false => Err(ApplyError::missing_right(
                &name,
                "more than its hard limit needs CAP_SYS_RESOURCE, which is missing",
            )),
        }
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        let (soft, hard) = value.split_once(' ').ok_or_else(|| ApplyError::not_ours(&self.name(), value))?;
        if !is_there(self.pid, self.started) {
            return Err(gone(self.pid));
        }
        let limit = Rlimit { current: number(soft), maximum: number(hard) };
        rustix::process::prlimit(Some(id_of(self.pid)?), Resource::Nofile, limit)
            .map(drop)
            .map_err(|error| ApplyError::of_write(&self.name(), value, &error.into()))
    }

    fn check(&self) -> Result<(), ApplyError> {
        let is_number = |word: &str| word == "unlimited" || number(word).is_some();
        let are = |value: &str| value.split(' ').count() == 2 && value.split(' ').all(is_number);
        match are(&self.before) && are(&self.after) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.after)),
        }
    }
}

/// Soft and hard limit; `None` is unlimited (proc_pid_limits(5)).
fn limits(pid: u32) -> Result<(Option<u64>, Option<u64>), ApplyError> {
    let name = format!("descriptors of process {pid}");
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => gone(pid),
        _ => ApplyError::unreadable(&name, &error),
    })?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut words = line.unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(soft), Some(hard)) => Ok((number(soft), number(hard))),
        _ => Err(ApplyError::unreadable(&name, &io::Error::other("its limits have no line 'Max open files'"))),
    }
}

fn words(soft: Option<u64>, hard: Option<u64>) -> String {
    let shown = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    format!("{} {}", shown(soft), shown(hard))
}

/// `None` of `unlimited`.
fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_what_the_hard_limit_has_room_for_or_else_beyond_it() {
        let more = |soft: u64, hard: Option<u64>, may_raise| Limit::More.of((Some(soft), hard), may_raise);
        assert_eq!(more(1024, Some(4096), true), Some(4096));
        assert_eq!(more(1024, None, true), None, "unlimited");
        assert_eq!(more(60, Some(60), true), Some(65_536));
        assert_eq!(more(60, Some(100), true), Some(65_536));
        assert_eq!(more(60, Some(100), false), Some(100), "who may not raise it has what there is");
        assert_eq!(more(60, Some(60), false), Some(65_536), "and is told that the right is missing");
        assert_eq!(more(1 << 20, Some(1 << 20), true), Some(4 << 20));
    }
}
