//! That a smaller load makes it no better: the same share of requests is bad at a tenth of it, so that no load holds the objective,
//! however long is looked for one.
//!
//! A reply that takes 80 ms by itself is late at any load, and so is every request of a pause that comes by the clock. Far beyond its line
//! a server is late with all of them, too, at any load there: but then they stay the longer in it, the more are asked for.

use super::blocks::Counted;
use super::decision::{Bound, Verdict};
use super::search::Step;

/// The loads that are compared are so far apart.
const REACH: f64 = 8.0;
/// and so many at least.
const LOADS_MIN: usize = 3;
/// and each has so many bad requests.
const BAD_MIN: f64 = 10.0;
/// The smallest share among them is no smaller than this part of the largest.
const ALIKE: f64 = 0.6;

/// From so large a share on requests may be late for a queue, which has no end.
const MOST: f64 = 0.5;

/// A share of bad requests that does not fall with the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flat {
    /// The lowest load.
    pub from: f64,
    /// The highest of those that are alike.
    pub to: f64,
    /// The share of bad requests at the lowest, 0..=1.
    pub share: f64,
    /// Of this objective.
    pub objective: usize,
}

impl Flat {
    /// Of the steps of a search; `None`: a load held, or one that was smaller was better, or too few were tried.
    pub fn of(steps: &[Step], bounds: &[Bound]) -> Option<Self> {
        if steps.iter().any(|step| step.verdict == Verdict::Held) {
            return None;
        }
        let mut steps: Vec<&Step> = steps.iter().collect();
        steps.sort_by(|a, b| a.asked.total_cmp(&b.asked));
        (0..bounds.len()).find_map(|objective| {
            let counted = |step: &&&Step| {
                Counted::sum(&step.blocks.iter().map(|block| Counted::of(block, objective)).collect::<Vec<_>>())
            };
            let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
            let alike: Vec<(&&Step, Counted)> = steps
                .iter()
                .map(|step| (step, counted(&step)))
                .take_while(|(_, counted)| {
                    (least, most) = (least.min(counted.share()), most.max(counted.share()));
                    counted.bad >= BAD_MIN && least >= ALIKE * most
                })
                .collect();
            let ((lowest, share), (highest, _)) = alike.first().zip(alike.last())?;
            let is_beyond = bounds.get(objective).is_some_and(|bound| share.share() > bound.share_max);
            let stays_s = alike.iter().map(|(step, _)| stay_s(step));
            let (shortest_s, longest_s) =
                stays_s.fold((f64::INFINITY, 0.0_f64), |(least, most), stay_s| (least.min(stay_s), most.max(stay_s)));
            let is_queue = most >= MOST && (longest_s <= 0.0 || shortest_s < ALIKE * longest_s);
            let is_flat = alike.len() >= LOADS_MIN && !is_queue && highest.asked >= REACH * lowest.asked && is_beyond;
            is_flat.then(|| Flat { from: lowest.asked, to: highest.asked, share: share.share(), objective })
        })
    }
}

/// How long a request stays, seconds, on average: how many are under way, over how many come a second (Little's law).
fn stay_s(step: &Step) -> f64 {
    let seconds: f64 = step.blocks.iter().map(|block| block.seconds).sum();
    let under_way: f64 = step.blocks.iter().map(|block| block.backlog * block.seconds).sum();
    let requests: u64 = step.blocks.iter().map(|block| block.requests).sum();
    if requests > 0 && seconds > 0.0 { under_way / requests as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::Block;
    use super::super::search::Purpose;
    use super::*;

    fn step(load: f64, requests: u64, bad: u64) -> Step {
        let backlog = 0.08 * requests as f64;
        let block = Block { seconds: 1.0, requests, bad: vec![bad], backlog };
        Step {
            asked: load,
            load,
            took_s: 1.0,
            verdict: Verdict::Missed,
            is_growing: false,
            purpose: Purpose::Find,
            blocks: vec![block],
        }
    }

    fn flat(steps: &[Step]) -> Option<(f64, f64)> {
        Flat::of(steps, &[Bound { share_max: 0.01, late_s: 0.05 }]).map(|flat| (flat.from, flat.to))
    }

    #[test]
    fn a_share_that_stays_is_no_loads_doing() {
        let late = |load: f64| step(load, load as u64, load as u64);
        assert_eq!(flat(&[late(1_800.0), late(450.0), late(110.0)]), Some((110.0, 1_800.0)));
        let queued = |load: f64| {
            let mut step = late(load);
            step.blocks[0].backlog = 50.0;
            step
        };
        assert_eq!(flat(&[queued(1_800.0), queued(450.0), queued(110.0)]), None, "far beyond a line they queue");
        assert_eq!(flat(&[late(1_800.0), late(110.0)]), None, "of two");
        assert_eq!(flat(&[late(450.0), late(300.0), late(110.0)]), None, "near each other");
        assert_eq!(flat(&[late(1_800.0), late(450.0), late(4.0)]), None, "of too few requests");
        let falling = [step(1_800.0, 1_800, 900), step(450.0, 450, 100), step(110.0, 110, 12)];
        assert_eq!(flat(&falling), None, "fewer are better");
        // The upper ones are worse, as there is a line, too.
        let pauses = [step(8_000.0, 8_000, 4_000), step(900.0, 900, 60), step(300.0, 300, 21), step(100.0, 200, 13)];
        assert_eq!(flat(&pauses), Some((100.0, 900.0)));
        let mut held = [late(1_800.0), late(450.0), late(110.0)];
        held[2].verdict = Verdict::Held;
        assert_eq!(flat(&held), None);
        // Few enough are bad.
        assert_eq!(flat(&[step(9_000.0, 9_000, 80), step(3_000.0, 3_000, 27), step(1_000.0, 2_000, 18)]), None);
    }
}
