//! Loads that one command puts on together: each is a run of its own, with agents of its own, and all begin at one moment.
//!
//! They are conducted by a thread each of one process, so what they agree on is kept here, and not in NATS: who asks agents next, that all
//! are ready, the moment, that one of them ends all, what the main load's faults did. A controller that takes one of them over
//! ([`super::attach`]) has that one alone. A canary, which no agent puts on, begins and ends with them ([`Company::begins_ns`],
//! [`Company::is_over`]).

use super::Conduct;
use super::follow::Follower;
use crate::error::AgentsError;
use crate::limits::BEGIN_AFTER;
use model::Event;
use model::recording::Together;
use remote::monotonic_ns;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is looked whether the others are there.
const LOOK: Duration = Duration::from_millis(5);

/// Loads that begin together.
#[derive(Debug, Clone)]
pub struct Company(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// How far each load is, the main one first.
    loads: Vec<Stage>,
    /// When all begin, nanoseconds of this machine's CLOCK_MONOTONIC.
    at_ns: Option<i64>,
    /// One was given up before that.
    is_broken: bool,
    /// Why all of them end early.
    ended: Option<String>,
    /// What faults of the main load did.
    faults: Vec<Event>,
}

/// How far a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It waits for agents.
    Waits,
    /// Agents have agreed.
    Gathered,
    /// They are ready.
    Ready,
    /// Their clocks were laid beside this one.
    Measured,
    /// Its load is over, and what they measured is here.
    Followed,
}

impl Company {
    /// Of so many loads.
    pub fn new(loads: usize) -> Self {
        let loads = vec![Stage::Waits; loads];
        let state = State { loads, at_ns: None, is_broken: false, ended: None, faults: Vec::new() };
        Company(Arc::new(Mutex::new(state)))
    }

    /// The load of a number, from 0; `together`: what its recording says of the others.
    pub fn member(&self, number: usize, together: Together) -> Member {
        Member { company: self.clone(), number, together }
    }

    /// Waits for the moment at which all begin, nanoseconds of CLOCK_MONOTONIC; `None`: they will not.
    pub fn begins_ns(&self) -> Option<i64> {
        loop {
            let state = self.state();
            if state.at_ns.is_some() || state.is_broken {
                return state.at_ns;
            }
            drop(state);
            std::thread::sleep(LOOK);
        }
    }

    /// Whether every load is over.
    pub fn is_over(&self) -> bool {
        self.state().loads.iter().all(|stage| *stage == Stage::Followed)
    }

    /// `None`: the main load is not over yet.
    fn faults_of_main(&self) -> Option<Vec<Event>> {
        let state = self.state();
        (state.loads.first() == Some(&Stage::Followed)).then(|| state.faults.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A load's place among those that begin together. Dropped before its load is over it takes the others with it.
#[derive(Debug)]
pub struct Member {
    company: Company,
    number: usize,
    /// What its recording says of the others.
    pub(super) together: Together,
}

impl Member {
    /// What the load is called.
    pub(super) fn name(&self) -> &str {
        self.together.this().map_or("load", |load| &load.name)
    }

    /// Whether it is the main load, whose controller does the faults.
    pub(super) fn is_main(&self) -> bool {
        self.number == 0
    }

    fn reached(&self, stage: Stage) -> MutexGuard<'_, State> {
        let mut state = self.company.state();
        if let Some(own) = state.loads.get_mut(self.number) {
            *own = stage.max(*own);
        }
        state
    }

    /// Until something is so of all of them.
    async fn until<T>(
        &self,
        conduct: &Conduct<'_>,
        mut found: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, AgentsError> {
        loop {
            conduct.check()?;
            {
                let mut state = self.company.state();
                if state.is_broken {
                    return Err(AgentsError::OfAnother);
                }
                if let Some(found) = found(&mut state) {
                    return Ok(found);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the loads before this one have their agents: of two that ask at once each would get some of what both want.
    pub(super) async fn turn(&self, conduct: &Conduct<'_>) -> Result<(), AgentsError> {
        let has_come = |state: &mut State| {
            state.loads.iter().take(self.number).all(|stage| *stage >= Stage::Gathered).then_some(())
        };
        self.until(conduct, has_come).await
    }

    /// Its agents have agreed.
    pub(super) fn has_gathered(&self) {
        drop(self.reached(Stage::Gathered));
    }

    /// Its agents are ready: waits until those of the others are. Clocks are measured after that, as one that was measured long ago is
    /// not known as well any more.
    pub(super) async fn until_all_ready(&self, conduct: &Conduct<'_>) -> Result<(), AgentsError> {
        drop(self.reached(Stage::Ready));
        let are_ready = |state: &mut State| state.loads.iter().all(|stage| *stage >= Stage::Ready).then_some(());
        self.until(conduct, are_ready).await
    }

    /// Their clocks are known: the moment at which all begin, once those of the others are.
    pub(super) async fn moment_ns(&self, conduct: &Conduct<'_>) -> Result<i64, AgentsError> {
        self.may_begin();
        let moment_ns = |state: &mut State| {
            if state.at_ns.is_none() && state.loads.iter().all(|stage| *stage >= Stage::Measured) {
                state.at_ns = Some(monotonic_ns().saturating_add_unsigned(BEGIN_AFTER.as_nanos() as u64));
            }
            state.at_ns
        };
        self.until(conduct, moment_ns).await
    }

    /// Nothing of it is waited for before the others begin: it has come so far, or has begun by another controller's word.
    pub(super) fn may_begin(&self) {
        drop(self.reached(Stage::Measured));
    }

    /// Why another load ended all of them; `None`: none did.
    pub(super) fn ended(&self) -> Option<String> {
        self.company.state().ended.clone()
    }

    /// Ends all of them; the first reason stands.
    pub(super) fn end_all(&self, why: &str) {
        self.company.state().ended.get_or_insert_with(|| why.to_owned());
    }

    /// What a fault did, for the other loads' recordings.
    pub(super) fn tell(&self, event: &Event) {
        self.company.state().faults.push(event.clone());
    }

    /// Its load is over. Where it is not the main one: what the main one's faults did, once that is over too.
    pub(super) async fn has_followed(&self) -> Vec<Event> {
        drop(self.reached(Stage::Followed));
        if self.is_main() {
            return Vec::new();
        }
        loop {
            if let Some(faults) = self.company.faults_of_main() {
                return faults;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Follower {
    /// Ends this load where another has ended the run.
    pub(super) async fn end_with_the_others(&mut self, why: &str, conduct: &mut Conduct<'_>) {
        if self.is_stopped {
            return;
        }
        self.stop(why, true).await;
        if self.is_stopped {
            let at_ns = i64::try_from(self.shown_ns).unwrap_or(i64::MAX);
            let event = Event::new(at_ns, model::event::ENDED_TOGETHER, why);
            conduct.watch.on_event(&event);
            self.events.push(event);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.reached(Stage::Waits);
        if state.loads.get(self.number) == Some(&Stage::Followed) {
            return;
        }
        if state.at_ns.is_none() {
            state.is_broken = true;
        } else {
            let why = format!("the load '{}' could not be followed", self.name());
            state.ended.get_or_insert(why);
        }
        if let Some(own) = state.loads.get_mut(self.number) {
            *own = Stage::Followed;
        }
    }
}
