//! Whether small writes to a server's connections wait for those before them (`TCP_NODELAY`, tcp(7)): set on its listening sockets.
//!
//! A connection has the option from the socket that took it, so that each one accepted from then on has it, of a server that sets none itself.
//! Those that are open keep what they have.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::listening::{self, Listening};
use crate::process::{Who, gone};
use rustix::net::sockopt::{set_tcp_nodelay, tcp_nodelay};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "nodelay",
    takes: "WHO on|off",
    example: "target on",
    does: "sets TCP_NODELAY of listening sockets, which connections accepted from then on have from them",
    needs: listening::NEEDS,
    undone: Undoing::Back("the sockets as they were; a connection keeps what it has"),
    parse: |words| {
        let who = words.who()?;
        let is_on = words.parsed("on or off", parsed)?;
        Ok(Arc::new(Delaying { who, is_on }))
    },
};

const ON: &str = "on";
const OFF: &str = "off";

fn parsed(word: &str) -> Option<bool> {
    match word {
        ON => Some(true),
        OFF => Some(false),
        _ => None,
    }
}

fn shown(is_on: bool) -> String {
    if is_on { ON } else { OFF }.to_owned()
}

#[derive(Debug)]
struct Delaying {
    who: Who,
    is_on: bool,
}

impl Fault for Delaying {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let planned = |of: Listening, socket: OwnedFd| {
            let before = shown(value(&of, &socket)?);
            Ok(Deed::Change(Change::Nodelay(Nodelay { of, before, after: shown(self.is_on) })))
        };
        listening::of_all(&self.who, around)?.into_iter().map(|(of, socket)| planned(of, socket)).collect()
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// `TCP_NODELAY` of a listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodelay {
    #[serde(flatten)]
    of: Listening,
    before: String,
    after: String,
}

impl Reversible for Nodelay {
    fn name(&self) -> String {
        format!("TCP_NODELAY of {}", self.of.words())
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
        self.of.copy()?.map(|socket| value(&self.of, &socket).map(shown)).transpose()
    }

    fn may(&self) -> Result<(), ApplyError> {
        self.of.may(&self.name())
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        let is_on = parsed(value).ok_or_else(|| ApplyError::not_ours(&self.name(), value))?;
        let socket = self.of.copy()?.ok_or_else(|| gone(self.of.pid()))?;
        set_tcp_nodelay(&socket, is_on).map_err(|error| ApplyError::of_write(&self.name(), value, &error.into()))
    }

    fn check(&self) -> Result<(), ApplyError> {
        match parsed(&self.before).is_some() && parsed(&self.after).is_some() {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.after)),
        }
    }
}

fn value(of: &Listening, socket: &OwnedFd) -> Result<bool, ApplyError> {
    tcp_nodelay(socket).map_err(|error| of.unreadable(&error.into()))
}
