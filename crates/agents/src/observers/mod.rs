//! Observers that are reached over NATS: where a run has no way to the target's machine, but both have one to the same NATS.
//!
//! What goes through is what goes over TCP otherwise ([`remote`]): TLS from end to end, with both sides' proofs of the token in it, so
//! NATS carries bytes that it cannot read, and who may speak there gets no further than who may connect. At the observer's machine the
//! relay connects to the observer's own port; at the other end it is a port of this machine's loopback, which takes what is dialled there.
//! `nats:NAME` is such an observer's address.

mod far;
mod near;
mod stream;

pub use far::{Served, serve};
pub(crate) use near::listen;
pub use near::open;

use crate::limits::OBSERVERS_MAX;
use crate::link::Link;
use crate::message::{is_name, is_observer_name, tamed};
use crate::subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How an address begins that is an observer's name on NATS.
const SCHEME: &str = "nats:";

/// The name in an address of an observer on NATS; `None`: it is another address.
pub fn name_of(address: &str) -> Option<&str> {
    address.strip_prefix(SCHEME)
}

/// What an observer says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observer {
    /// Its name; no two have the same.
    pub name: String,
    /// Made anew with each start.
    pub instance: String,
    /// The tool's version.
    pub version: String,
    /// [`crate::limits::PROTOCOL`] of its side.
    pub protocol: u32,
    /// SHA-256 of its certificate, in hex.
    pub fingerprint: String,
}

impl Observer {
    /// Whether it is one that an observer can have sent.
    fn is_sound(&self) -> bool {
        is_observer_name(&self.name)
            && is_name(&self.instance)
            && self.version.len() <= 64
            && self.fingerprint.len() == 64
    }
}

/// A wish for a stream of bytes to an observer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    /// Which stream; part of its subjects.
    stream: String,
    /// [`crate::limits::PROTOCOL`] of the side that asks.
    protocol: u32,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
enum Opened {
    /// It is there.
    Open,
    /// It is not.
    Refused {
        /// Why, in a sentence.
        why: String,
    },
}

/// The observers that answer within a time, each once, by name; no longer than until that one has, if one is named.
pub(crate) async fn who(link: &Link, within: Duration, name: Option<&str>) -> Vec<Observer> {
    let mut found: BTreeMap<(String, String), Observer> = BTreeMap::new();
    link.ask_all(subject::OBSERVERS, within, |one: Observer| {
        let is_one = one.is_sound() && found.len() < OBSERVERS_MAX;
        let is_it = is_one && name.is_some_and(|name| name == one.name);
        if is_one {
            found.insert((one.name.clone(), one.instance.clone()), Observer { version: tamed(&one.version), ..one });
        }
        is_it
    })
    .await;
    found.into_values().collect()
}
