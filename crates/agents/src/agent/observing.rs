//! The target's machine, read for a run by one of its agents: the agents are where the load comes from, so one of them most likely has a
//! way there, and what it reads is on the clock of its own load.
//!
//! Only with the token that seals the plan, which the observer has too, and only where the agent's owner allows a connection to go
//! (`--allow-target`). An observer on NATS ([`crate::observers`]) is reached by what this agent listens to anyway.

use super::{Options, Own};
use crate::allow;
use crate::document::ObserveAt;
use crate::message::tamed;
use crate::observers;
use model::bpf::Level;
use remote::{Fingerprint, Trust};
use std::sync::Arc;
use std::time::Duration;

/// An observer that the agent's load is to have.
pub(super) struct Observing {
    pub(super) at: remote::ObserveAt,
    pub(super) probes: Level,
    /// The way to it over NATS.
    way: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Observing {
    fn drop(&mut self) {
        if let Some(way) = &self.way {
            way.abort();
        }
    }
}

/// Whether its owner allows a connection to an observer.
///
/// # Errors
/// In a sentence: it does not.
pub(super) async fn check(options: &Options, asked: Option<&ObserveAt>) -> Result<(), String> {
    let Some(asked) = asked.filter(|asked| observers::name_of(&asked.address).is_none()) else { return Ok(()) };
    let (allowed, address) = (options.allowed.clone(), asked.address.clone());
    let checked = tokio::task::spawn_blocking(move || allow::check_observer(&allowed, &address)).await;
    checked.map_err(|_| "the observer's address could not be looked up".to_owned())?
}

impl Observing {
    /// Finds the way, without going it: that the load does when it is prepared.
    pub(super) async fn begin(own: &Arc<Own>, asked: &ObserveAt) -> Result<Self, String> {
        let token = own.options.token.clone().ok_or("the observer wants a token, and it has none (--token-file)")?;
        let trust = match &asked.fingerprint {
            None => Trust::Token,
            Some(text) => {
                Trust::Fingerprint(Fingerprint::parse(text).ok_or("the observer's fingerprint is none that it knows")?)
            }
        };
        let wait = Duration::from_nanos(asked.wait_ns);
        let (via, way) = match observers::name_of(&asked.address) {
            None => (None, None),
            Some(name) => {
                let (via, way) = observers::listen(&own.link, name, wait).await.map_err(|error| error.to_string())?;
                (Some(via), Some(way))
            }
        };
        let (address, version) = (tamed(&asked.address), own.options.version.clone());
        let at = remote::ObserveAt { address, via, token, trust, wait, tell: None, version };
        Ok(Observing { at, probes: asked.probes, way })
    }
}
