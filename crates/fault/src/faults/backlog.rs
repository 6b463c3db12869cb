//! How many connections may wait for accept(2) in a server's listening sockets: listen(2) again, with another backlog.
//!
//! The kernel takes the new length of a socket that listens already, and keeps what waits in it. It allows `net.core.somaxconn` at the most, so that
//! more is asked for in vain. How long a queue is the kernel says in its list of this network namespace (sock_diag(7)).

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::listening::{self, Listening};
use crate::process::{Who, gone};
use crate::sockets::backlog_of;
use rustix::net::listen;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "backlog",
    takes: "WHO N",
    example: "target 4096",
    does: "sets how many connections may wait for accept in listening sockets, net.core.somaxconn at the most",
    needs: listening::NEEDS,
    undone: Undoing::Back("as many as before"),
    parse: |words| {
        let who = words.who()?;
        let backlog = words.parsed("a number of connections from 1 on", |word| word.parse().ok().filter(is_backlog))?;
        Ok(Arc::new(Queueing { who, backlog }))
    },
};

const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";

/// 0 stands for other lengths with other kernels.
fn is_backlog(backlog: &u32) -> bool {
    (1..=i32::MAX as u32).contains(backlog)
}

#[derive(Debug)]
struct Queueing {
    who: Who,
    backlog: u32,
}

impl Fault for Queueing {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let most = std::fs::read_to_string(SOMAXCONN).ok().and_then(|text| text.trim().parse().ok());
        let after = self.backlog.min(most.unwrap_or(u32::MAX)).to_string();
        let planned = |of: Listening| {
            let before = length(&of)?.ok_or_else(|| gone(of.pid()))?;
            Ok(Deed::Change(Change::Backlog(Backlog { of, before: before.to_string(), after: after.clone() })))
        };
        listening::of_all(&self.who, around)?.into_iter().map(|(of, _)| planned(of)).collect()
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// How many connections may wait in a listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    #[serde(flatten)]
    of: Listening,
    before: String,
    after: String,
}

impl Reversible for Backlog {
    fn name(&self) -> String {
        format!("the backlog of {}", self.of.words())
    }

    fn identity(&self) -> String {
        self.of.identity(&self.name())
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        match self.of.copy()? {
            Some(_) => Ok(length(&self.of)?.map(|length| length.to_string())),
            None => Ok(None),
        }
    }

    fn may(&self) -> Result<(), ApplyError> {
        self.of.may(&self.name())
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        let backlog: i32 = value.parse().map_err(|_| ApplyError::not_ours(&self.name(), value))?;
        let socket = self.of.copy()?.ok_or_else(|| gone(self.of.pid()))?;
        listen(&socket, backlog).map_err(|error| ApplyError::of_write(&self.name(), value, &error.into()))
    }

    fn check(&self) -> Result<(), ApplyError> {
        let is_one = |value: &str| value.parse().is_ok_and(|backlog| is_backlog(&backlog));
        match is_one(&self.before) && is_one(&self.after) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.after)),
        }
    }
}

/// As the kernel's list has it; `None`: it is not in it.
fn length(of: &Listening) -> Result<Option<u32>, ApplyError> {
    let found = backlog_of(of.inode()).map_err(|error| of.unreadable(&io::Error::other(error.to_string())))?;
    match (found, of.copy()?) {
        (None, Some(_)) => {
            Err(of.unreadable(&io::Error::other("it is in another network namespace: run within that (nsenter -n)")))
        }
        (found, _) => Ok(found),
    }
}
