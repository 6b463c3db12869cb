//! Who puts a load on: this process, or others that do it for it.
//!
//! A search, a comparison and repeats are series of loads, and need not know where the workers of each are. What this process does
//! itself is [`ThisProcess`]; whoever has generators on other machines puts loads on by them and gives back what such a load left.

use super::{Options, Outcome, RunError, Watch, run};
use model::plan::Plan;
use std::time::Duration;

/// Those who put a load on.
pub trait Hands {
    /// Puts a plan on, to its end, or until who watches it has seen enough.
    ///
    /// # Errors
    /// [`RunError`]: it was not put on, or nothing came back of it.
    fn put_on(&mut self, plan: Plan, options: &Options, watch: &mut dyn Watch) -> Result<Outcome, RunError>;

    /// What a load takes beside its own length, as far as that is known; `None`: as in one process.
    fn beside(&self) -> Option<Duration> {
        None
    }

    /// Has more generators put the next loads on, as those there are do not suffice: what was added, in a sentence. `None`: there
    /// are no more.
    fn add(&mut self) -> Option<String> {
        None
    }

    /// What there is to say of those there are, where they are the limit: how many, and whether there could be more.
    fn standing(&mut self) -> Option<String> {
        None
    }
}

/// The workers of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisProcess;

impl Hands for ThisProcess {
    fn put_on(&mut self, plan: Plan, options: &Options, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        run(plan, options, watch)
    }
}
