//! The target's machine, read for a run by one of its agents: the agents are where the load comes from, so one of them most likely has a
//! way there, and what it reads is on the clock of its own load.
//!
//! Only with the token that seals the plan, which the observer has too, and only where the agent's owner allows a connection to go
//! (`--allow-target`). An observer on NATS ([`crate::observers`]) is reached by what this agent listens to anyway.

use super::{Options, Own};
use crate::allow;
use crate::document::{Document, ObserveAt};
use crate::message::tamed;
use crate::observers;
use model::bpf::Level;
use remote::{Fingerprint, Trust};
use session::BehindSpec;
use std::sync::Arc;
use std::time::Duration;

/// The observers that the agent's load is to have.
#[derive(Default)]
pub(super) struct Observing {
    /// The target's.
    pub(super) at: Option<remote::ObserveAt>,
    /// Those behind it.
    pub(super) behind: Vec<BehindSpec>,
    pub(super) probes: Level,
    /// The ways to them over NATS.
    ways: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.ways.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Whether its owner allows connections to the observers of a run.
///
/// # Errors
/// In a sentence: it does not.
pub(super) async fn check(options: &Options, document: &Document) -> Result<(), String> {
    let all = document.observe_at.iter().chain(document.behind.iter().map(|behind| &behind.at));
    for asked in all.filter(|asked| observers::name_of(&asked.address).is_none()) {
        let (allowed, address) = (options.allowed.clone(), asked.address.clone());
        let checked = tokio::task::spawn_blocking(move || allow::check_observer(&allowed, &address)).await;
        checked.map_err(|_| "the observer's address could not be looked up".to_owned())??;
    }
    Ok(())
}

impl Observing {
    /// Finds the ways, without going them: that the load does when it is prepared.
    pub(super) async fn begin(own: &Arc<Own>, document: &Document) -> Result<Self, String> {
        let mut observing = Observing::default();
        if let Some(asked) = &document.observe_at {
            observing.probes = asked.probes;
            observing.at = Some(observing.way(own, asked).await?);
        }
        for behind in &document.behind {
            let at = observing.way(own, &behind.at).await?;
            observing.behind.push(BehindSpec { at, port: behind.port, probes: behind.at.probes });
        }
        Ok(observing)
    }

    async fn way(&mut self, own: &Arc<Own>, asked: &ObserveAt) -> Result<remote::ObserveAt, String> {
        let token = own.options.token.clone().ok_or("an observer wants a token, and it has none (--token-file)")?;
        let trust = match &asked.fingerprint {
            None => Trust::Token,
            Some(text) => {
                Trust::Fingerprint(Fingerprint::parse(text).ok_or("the observer's fingerprint is none that it knows")?)
            }
        };
        let wait = Duration::from_nanos(asked.wait_ns);
        let via = match observers::name_of(&asked.address) {
            None => None,
            Some(name) => {
                let (via, way) = observers::listen(&own.link, name, wait).await.map_err(|error| error.to_string())?;
                self.ways.push(way);
                Some(via)
            }
        };
        let (address, version) = (tamed(&asked.address), own.options.version.clone());
        Ok(remote::ObserveAt { address, via, token, trust, wait, tell: None, version })
    }
}
