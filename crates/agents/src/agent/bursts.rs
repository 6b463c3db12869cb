//! Bursts that an agent puts on together with others: its workers meet, it says so, and the controller's word says when all are released.
//!
//! A word that comes after its moment releases at once, and that is said. One that does not name this agent was said without it: the
//! others took it for lost, and what it would release now would be no part of their burst, so it puts on no more. Nor does it where no
//! word comes for longer than the others may take to be ready or to be lost.

use super::deliver::Outbox;
use crate::document::Document;
use crate::limits::{AGREED_FOR, BEGIN_AFTER, LATE_MAX};
use crate::message::{Moments, State, read};
use engine::Rendezvous;
use model::Plan;
use model::plan::Pace;
use remote::monotonic_ns;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the file's head.
pub(super) struct Bursts {
    rendezvous: Arc<Rendezvous>,
    outbox: Outbox,
    rounds: u32,
    /// The burst that is to be released next.
    next: u32,
    /// How long the word for it may take, from the word before.
    within: Duration,
    heard: Option<Instant>,
}

impl Bursts {
    /// Of a plan with bursts.
    pub(super) fn of(plan: &Plan, document: &Document, rendezvous: Arc<Rendezvous>, outbox: Outbox) -> Option<Self> {
        let Pace::Burst { rounds, pause_ns, .. } = plan.pace else { return None };
        let others_ns = [plan.timeouts.connect_ns, plan.timeouts.reply_ns, pause_ns, document.lost_after_ns];
        let others_ns = others_ns.into_iter().fold(0, u64::saturating_add);
        let within = Duration::from_nanos(others_ns).saturating_add(AGREED_FOR);
        Some(Bursts { rendezvous, outbox, rounds, next: 0, within, heard: None })
    }

    /// The burst whose word is to come; `None`: all were released.
    pub(super) fn awaited(&self) -> Option<u32> {
        Some(self.next).filter(|next| *next < self.rounds)
    }

    /// Takes the word for a burst, once, by an agent whose load began at that moment of its clock. `Some`: why it is to put on no more.
    pub(super) fn release(&mut self, round: u32, bytes: &[u8], agent: &str, origin_ns: i64) -> Option<String> {
        if self.awaited() != Some(round) {
            return None;
        }
        let Some(moment) = read::<Moments>(bytes)?.moments.get(agent).copied() else {
            return Some(format!("the others released burst {} without it, as they took it for lost", round + 1));
        };
        let now_ns = monotonic_ns();
        // A moment that is far off is none that a controller of ours would say.
        if moment.at_ns.saturating_sub(now_ns) > (20 * BEGIN_AFTER).as_nanos() as i64 {
            return None;
        }
        let late_ns = u64::try_from(now_ns.saturating_sub(moment.at_ns)).unwrap_or(0);
        let is_late = Duration::from_nanos(late_ns) > LATE_MAX;
        let at_ns = if is_late { now_ns } else { moment.at_ns };
        let release_ns = u64::try_from(at_ns.saturating_sub(origin_ns)).unwrap_or(0);
        if self.rendezvous.release(round, release_ns) {
            (self.next, self.heard) = (round.saturating_add(1), Some(Instant::now()));
            if is_late {
                self.outbox.state(State::ReleasedLate { round, late_ns });
            }
        }
        None
    }

    /// Why it is to put on no more, where nobody says when the next burst is released.
    pub(super) fn waited_in_vain(&mut self) -> Option<String> {
        let round = self.awaited()?;
        let heard = *self.heard.get_or_insert_with(Instant::now);
        (heard.elapsed() > self.within)
            .then(|| format!("no word came for {} s when burst {} is to be released", self.within.as_secs(), round + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Moment, write};

    /// Of one worker that is ready for the first of two bursts; a word may take no time.
    fn bursts() -> (Bursts, Arc<Rendezvous>) {
        let rendezvous = Arc::new(Rendezvous::among_others(1, |_| ()));
        rendezvous.arrive(0, 0);
        let (outbox, heard) = (Outbox::to_nobody(), None);
        let within = Duration::ZERO;
        (Bursts { rendezvous: Arc::clone(&rendezvous), outbox, rounds: 2, next: 0, within, heard }, rendezvous)
    }

    fn word(agent: &str, at_ns: i64) -> Vec<u8> {
        write(&Moments { moments: [(agent.to_owned(), Moment { at_ns, offset_ns: 0, bound_ns: 1 })].into() })
    }

    #[test]
    fn each_burst_is_released_once_at_its_moment_and_after_the_last_no_word_is_waited_for() {
        let (mut bursts, rendezvous) = bursts();
        let at_ns = monotonic_ns() + 1_000_000;
        assert_eq!(bursts.release(1, &word("a", at_ns), "a", 0), None);
        assert_eq!(rendezvous.release_of(0), None, "the word was for another");
        assert_eq!(bursts.release(0, &word("a", at_ns + 3_600_000_000_000), "a", 0), None);
        assert_eq!(rendezvous.release_of(0), None, "nobody says a moment that is an hour off");
        assert_eq!(bursts.release(0, &word("a", at_ns), "a", 1_000), None);
        assert_eq!(rendezvous.release_of(0), u64::try_from(at_ns - 1_000).ok());
        std::thread::sleep(Duration::from_millis(2));
        assert!(bursts.waited_in_vain().is_some_and(|why| why.contains("burst 2")));
        rendezvous.arrive(1, 0);
        assert_eq!(bursts.release(1, &word("a", monotonic_ns()), "a", 0), None);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(
            (bursts.waited_in_vain(), bursts.awaited()),
            (None, None),
            "what is read after the load takes its time"
        );
    }

    #[test]
    fn a_word_without_it_ends_its_part_and_a_late_one_releases_at_once() {
        let (mut of_others, rendezvous) = bursts();
        let why = of_others.release(0, &word("b", monotonic_ns()), "a", 0).unwrap();
        assert!(why.contains("took it for lost") && rendezvous.release_of(0).is_none(), "{why}");
        let (mut late, rendezvous) = bursts();
        let now_ns = monotonic_ns();
        assert_eq!(late.release(0, &word("a", now_ns - 500_000_000), "a", 0), None);
        assert!(rendezvous.release_of(0).is_some_and(|at_ns| at_ns >= now_ns as u64), "not in the past");
    }
}
