//! Processor time used up by arithmetic over a small buffer, as a handler that computes would: no system call is made.
//!
//! The clock is read once a slice, about every 50 µs, and by the vDSO. How long a round takes is measured once
//! ([`Pace::calibrate`]) and followed from slice to slice, as the processor's frequency moves. A slice that took half as long
//! again as it should was interrupted, or the frequency has fallen: it counts as what it should have taken, so that being
//! preempted does not count as work, and the pace slows down a little.
//! Thread CPU time would be exact, but reading it is a system call that no real handler makes.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long it computes between two looks at the clock.
const SLICE_NS: u64 = 50_000;
/// A shorter slice teaches nothing: reading the clock is too much of it.
const LEARNS_FROM_NS: u64 = SLICE_NS / 5;
/// Runs of which the fastest is taken for the pace.
const TRIALS: usize = 7;

/// How long a round of arithmetic takes, in picoseconds; 0 before it was measured.
#[derive(Debug)]
pub(super) struct Pace(AtomicU64);

impl Pace {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Measures it, where that was not done yet. Returns it.
    pub(super) fn calibrate(&self, clock: &mut impl FnMut() -> u64, work: &mut impl FnMut(u64)) -> u64 {
        let known = self.0.load(Ordering::Relaxed);
        if known > 0 {
            return known;
        }
        let mut took_ns = |rounds| {
            let before_ns = clock();
            work(rounds);
            clock().saturating_sub(before_ns)
        };
        let mut rounds = 1024;
        while took_ns(rounds) < SLICE_NS && rounds < 1 << 40 {
            rounds *= 2;
        }
        let fastest_ns = (0..TRIALS).map(|_| took_ns(rounds)).min().unwrap_or(SLICE_NS);
        let round_ps = (fastest_ns.saturating_mul(1000) / rounds).max(1);
        self.0.store(round_ps, Ordering::Relaxed);
        round_ps
    }

    /// Takes what a slice took into account; the time it counts as.
    fn learn(&self, round_ps: u64, rounds: u64, took_ns: u64) -> u64 {
        let due_ns = rounds.saturating_mul(round_ps) / 1000;
        let is_whole = took_ns <= due_ns + due_ns / 2;
        if due_ns >= LEARNS_FROM_NS {
            let seen_ps = took_ns.saturating_mul(1000) / rounds;
            let slower_ps = if is_whole { seen_ps.saturating_sub(round_ps) / 8 } else { round_ps / 64 + 1 };
            let faster_ps = round_ps.saturating_sub(seen_ps) / 8;
            // Another thread's lesson may be lost by this, which is no loss.
            self.0.store((round_ps + slower_ps - faster_ps).max(1), Ordering::Relaxed);
        }
        if is_whole { took_ns } else { due_ns }
    }
}

/// Works until `ns` nanoseconds of processor time are used up.
pub(super) fn burn_ns(ns: u64, pace: &Pace, mut clock: impl FnMut() -> u64, mut work: impl FnMut(u64)) {
    let mut left_ns = ns;
    let mut before_ns = clock();
    while left_ns > 0 {
        let round_ps = pace.calibrate(&mut clock, &mut work);
        let rounds = (left_ns.min(SLICE_NS) * 1000).div_ceil(round_ps);
        work(rounds);
        let now_ns = clock();
        let counts_ns = pace.learn(round_ps, rounds, now_ns.saturating_sub(before_ns));
        left_ns = left_ns.saturating_sub(counts_ns.max(1));
        before_ns = now_ns;
    }
}

/// So many rounds of arithmetic, a few nanoseconds each. By itself in a profile: no iterator stands in its place.
#[inline(never)]
pub(super) fn compute(rounds: u64) {
    let mut words = [0_u64; 64];
    let mut state = black_box(rounds);
    let mut left = rounds;
    while left > 0 {
        left -= 1;
        // Knuth's generator for 64 bits; its top six bits choose the word.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(state >> 58) as usize] ^= state.rotate_left(17);
    }
    black_box(words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A machine with a clock of its own: how long a round takes, and when it is taken away from the thread.
    struct Machine {
        now_ns: Cell<u64>,
        used_ns: Cell<u64>,
        looks: Cell<u64>,
        works: Cell<u64>,
        round_ps: Cell<u64>,
        /// Every so many calls of work it is away for a while.
        away: Option<(u64, u64)>,
    }

    impl Machine {
        fn new(round_ps: u64, away: Option<(u64, u64)>) -> Self {
            let [now_ns, used_ns, looks, works] = [1, 0, 0, 0].map(Cell::new);
            Self { now_ns, used_ns, looks, works, round_ps: Cell::new(round_ps), away }
        }

        /// Burns, and says what processor time that took and how often the clock was read.
        fn burn(&self, ns: u64, pace: &Pace) -> (u64, u64) {
            let (used_ns, looks) = (self.used_ns.get(), self.looks.get());
            burn_ns(ns, pace, || self.look(), |rounds| self.work(rounds));
            (self.used_ns.get() - used_ns, self.looks.get() - looks)
        }

        fn look(&self) -> u64 {
            self.looks.set(self.looks.get() + 1);
            self.now_ns.get()
        }

        fn work(&self, rounds: u64) {
            let took_ns = rounds * self.round_ps.get() / 1000;
            self.used_ns.set(self.used_ns.get() + took_ns);
            self.works.set(self.works.get() + 1);
            let away_ns =
                self.away.filter(|(every, _)| self.works.get().is_multiple_of(*every)).map_or(0, |away| away.1);
            self.now_ns.set(self.now_ns.get() + took_ns + away_ns);
        }
    }

    #[test]
    fn the_clock_is_read_at_most_every_50_us() {
        let (machine, pace) = (Machine::new(2_000, None), Pace::new());
        machine.burn(1, &pace);
        let (used_ns, looks) = machine.burn(5_000_000, &pace);
        assert!((5_000_000..5_050_000).contains(&used_ns), "{used_ns} ns");
        assert!(looks <= 5_000 / 50 + 3, "{looks} looks");
    }

    #[test]
    fn the_real_clock_is_read_as_rarely() {
        let (pace, looks) = (Pace::new(), Cell::new(0));
        let clock = || {
            looks.set(looks.get() + 1);
            super::super::monotonic_ns()
        };
        burn_ns(1, &pace, clock, compute);
        looks.set(0);
        burn_ns(5_000_000, &pace, clock, compute);
        // Twice as many as are due, for a processor that has become faster since.
        assert!(looks.get() <= 2 * 5_000 / 50, "{} looks", looks.get());
    }

    #[test]
    fn being_preempted_is_no_work() {
        let (machine, pace) = (Machine::new(2_000, Some((10, 4_000_000))), Pace::new());
        machine.burn(1, &pace);
        let (used_ns, _) = machine.burn(20_000_000, &pace);
        assert!((19_900_000..24_000_000).contains(&used_ns), "{used_ns} ns");
    }

    #[test]
    fn a_processor_that_changes_its_frequency_is_followed() {
        let (machine, pace) = (Machine::new(2_000, None), Pace::new());
        machine.burn(1, &pace);
        for round_ps in [4_000, 1_000, 3_000] {
            machine.round_ps.set(round_ps);
            machine.burn(20_000_000, &pace);
            let (used_ns, looks) = machine.burn(5_000_000, &pace);
            assert!((5_000_000..5_100_000).contains(&used_ns), "{used_ns} ns at {round_ps}");
            assert!(looks <= 5_000 / 50 + 5, "{looks} looks at {round_ps}");
        }
    }
}
