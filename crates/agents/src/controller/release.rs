//! Bursts of several agents: each says when its connections are ready, and one word releases them all at one moment.
//!
//! The moment is set by the controller's clock and said on each agent's own, laid beside it anew for each burst, as clocks drift. It lies
//! ahead by what the word needs to reach the agent that is furthest. An agent that is lost is not waited for, and has no moment.

use super::follow::{Follower, Known};
use super::moments;
use crate::clock;
use crate::error::AgentsError;
use crate::limits::{ASK_AGAIN_AFTER, RELEASE_AFTER, RELEASE_ROUND_TRIPS};
use crate::message::{Moments, write};
use crate::subject;
use model::plan::Pace;
use remote::monotonic_ns;
use std::time::Instant;

/// What was released so far.
#[derive(Debug, Default)]
pub(super) struct Released {
    /// How many bursts.
    pub(super) rounds: u32,
    /// The moments of two agents, at any of them, were one to within that, nanoseconds; `None`: of fewer than two.
    pub(super) bound_ns: Option<u64>,
    /// Not before then are the clocks asked again, as somebody's did not answer.
    ask_again: Option<Instant>,
}

impl Released {
    /// One more.
    pub(super) fn add(&mut self, moments: &Moments) {
        self.rounds = self.rounds.saturating_add(1);
        let mut bounds: Vec<u64> = moments.moments.values().map(|moment| moment.bound_ns).collect();
        bounds.sort_unstable_by(|a, b| b.cmp(a));
        if let [first, second, ..] = bounds[..] {
            self.bound_ns = self.bound_ns.max(Some(first.saturating_add(second)));
        }
    }
}

impl Follower {
    /// Releases the next burst, once every agent that is to be waited for is ready for it.
    ///
    /// # Errors
    /// [`AgentsError`]: the run's stream is gone.
    pub(super) async fn release(&mut self) -> Result<(), AgentsError> {
        let Pace::Burst { rounds, .. } = self.plan.pace else { return Ok(()) };
        let next = self.released.rounds;
        let is_awaited = |known: &&Known| !known.is_settled() && known.failed.is_none();
        let mut awaited = self.agents.iter().filter(is_awaited).peekable();
        if next >= rounds || self.is_stopped || awaited.peek().is_none() || awaited.any(|known| known.met <= next) {
            return Ok(());
        }
        let names = self.agents.iter().filter(is_awaited).map(|known| known.share.agent.clone()).collect();
        if self.released.ask_again.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        // One that does not answer is asked again, until it is lost. That is seen in what the others say meanwhile, which nobody reads
        // while it is asked: without a pause, each try would leave more to be read than is read between two.
        let Ok(clocks) = clock::measure_all(&self.link, names).await else {
            self.released.ask_again = Some(Instant::now() + ASK_AGAIN_AFTER);
            return Ok(());
        };
        let furthest_ns = clocks.iter().map(|(_, clock)| clock.bound_ns.saturating_mul(2)).max().unwrap_or(0);
        let ahead_ns = furthest_ns.saturating_mul(u64::from(RELEASE_ROUND_TRIPS)) + RELEASE_AFTER.as_nanos() as u64;
        let release = moments(&clocks, monotonic_ns().saturating_add_unsigned(ahead_ns));
        let word = subject::word(&self.run, &subject::release(next));
        // Of two controllers the first one's word stands; where it is not kept it is tried again.
        if self.link.put_first(&word, write(&release)).await.is_ok() {
            self.read_back(|follower| follower.released.rounds > next).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote::offset::Estimate;

    #[test]
    fn two_agents_moments_are_one_within_the_sum_of_their_bounds() {
        let at = |bounds: &[u64]| {
            let clocks: Vec<(String, Estimate)> = bounds
                .iter()
                .enumerate()
                .map(|(at, bound_ns)| (format!("a{at}"), Estimate { offset_ns: -5, bound_ns: *bound_ns }))
                .collect();
            moments(&clocks, 1_000)
        };
        let mut released = Released::default();
        released.add(&at(&[40]));
        assert_eq!((released.rounds, released.bound_ns), (1, None), "one agent is at one with itself");
        released.add(&at(&[10, 40, 30]));
        released.add(&at(&[10, 20]));
        assert_eq!((released.rounds, released.bound_ns), (3, Some(70)));
        assert_eq!(at(&[10]).moments["a0"].at_ns, 995, "on the agent's own clock");
    }
}
