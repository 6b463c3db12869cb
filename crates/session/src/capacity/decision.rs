//! Whether a step held its objectives: a test that looks after each block, and ends as soon as it may.
//!
//! Of each objective: the largest log likelihood ratio of the share that was seen over the bound, divided by the dispersion,
//! against a constant: the generalised form of Wald's sequential test (A. Wald, "Sequential tests of statistical
//! hypotheses", Annals of Mathematical Statistics 16, 1945; T. L. Lai, "Nearly optimal sequential tests of composite
//! hypotheses", Annals of Statistics 16, 1988), which needs no two shares to be told apart. Below the constant the step goes
//! on; at twice its length it is undecided, which is an answer: the line is near. The requests needed where none is bad are
//! those of MLPerf's early stopping but for the constant (V. J. Reddi et al., "MLPerf Inference Benchmark", ISCA 2020).
//!
//! A verdict is given at the step's length at the earliest: what takes a while to show (a queue that grows slowly, a credit
//! that is used up) has had it then, and a burst has passed. Two things end a step earlier, both as missed: a second in which
//! nearly everything was bad, and a backlog that grows, for it ends in lateness.

use super::blocks::{Block, Counted, backlog_growth_per_s, dispersion};

/// The constant: half the square of 3 standard errors, for it is looked at after each block.
const BOUNDARY: f64 = 4.5;
/// Blocks before anything is said.
const BLOCKS_MIN: usize = 4;
/// A second in which so many of all requests were bad needs no other.
const LOST: f64 = 0.9;
/// From so many times the bound on, a share is far beyond it.
const FAR: f64 = 20.0;

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every objective was met.
    Held,
    /// One was not.
    Missed,
    /// Neither could be said.
    Undecided,
}

/// What a share of bad requests must stay below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The share, in (0, 1).
    pub share_max: f64,
    /// The time beyond which a request is late, seconds; 0 where only failures are bad.
    pub late_s: f64,
}

/// Requests without a bad one that it takes to say that a share is below its bound.
pub fn requests_needed(share_max: f64) -> f64 {
    BOUNDARY / -(1.0 - share_max).ln()
}

/// How much likelier a sum is under its own share than at the bound, as a logarithm, were its requests independent.
pub fn likelihood_ratio(sum: Counted, share_max: f64) -> f64 {
    let share = sum.share();
    // x ln(x / y), which is 0 at 0.
    let part = |count: f64, ratio: f64| if count > 0.0 { count * ratio.ln() } else { 0.0 };
    part(sum.bad, share / share_max) + part(sum.requests - sum.bad, (1.0 - share) / (1.0 - share_max))
}

/// What the blocks say of one objective; `Undecided`: nothing yet.
fn judge_one(blocks: &[Counted], share_max: f64) -> Verdict {
    let sum = Counted::sum(blocks);
    match likelihood_ratio(sum, share_max) / dispersion(blocks) {
        ratio if ratio < BOUNDARY => Verdict::Undecided,
        _ if sum.share() > share_max => Verdict::Missed,
        _ => Verdict::Held,
    }
}

/// What all blocks of a load say, however many steps they are from; without the backlog's slope.
pub fn judge(blocks: &[Block], bounds: &[Bound]) -> Verdict {
    let mut all = Verdict::Held;
    for (objective, bound) in bounds.iter().enumerate() {
        let counted: Vec<Counted> = blocks.iter().map(|block| Counted::of(block, objective)).collect();
        match judge_one(&counted, bound.share_max) {
            Verdict::Missed => return Verdict::Missed,
            Verdict::Undecided => all = Verdict::Undecided,
            Verdict::Held => {}
        }
    }
    if blocks.is_empty() { Verdict::Undecided } else { all }
}

/// Follows one step.
#[derive(Debug, Clone)]
pub struct Judge {
    bounds: Vec<Bound>,
    /// How long it is to be, seconds; it may take twice that.
    length_s: f64,
    /// What it saw.
    pub blocks: Vec<Block>,
}

impl Judge {
    /// Of a step of this length.
    pub fn new(bounds: &[Bound], length_s: f64) -> Self {
        Judge { bounds: bounds.to_vec(), length_s, blocks: Vec::new() }
    }

    /// Takes a block in; a verdict ends the step.
    pub fn push(&mut self, block: Block) -> Option<Verdict> {
        self.blocks.push(block);
        self.verdict()
    }

    /// What can be said by now, if the step may end with it.
    fn verdict(&self) -> Option<Verdict> {
        if self.blocks.len() < BLOCKS_MIN {
            return None;
        }
        if self.is_growing() {
            return Some(Verdict::Missed);
        }
        let seconds: f64 = self.blocks.iter().map(|block| block.seconds).sum();
        // Blocks are cut by a clock that is a little off.
        let (is_whole, is_twice) = (seconds >= 0.99 * self.length_s, seconds >= 1.98 * self.length_s);
        match judge(&self.blocks, &self.bounds) {
            Verdict::Missed if is_whole || self.is_lost() => Some(Verdict::Missed),
            Verdict::Held if is_whole => Some(Verdict::Held),
            _ if is_twice => Some(Verdict::Undecided),
            _ => None,
        }
    }

    /// Whether nearly everything was bad in the last second: more of it would say no more. Anything less may be a burst that
    /// passes, and a step that ends with it would count the burst and not what follows.
    fn is_lost(&self) -> bool {
        let last = &self.blocks[self.blocks.len().saturating_sub(BLOCKS_MIN)..];
        (0..self.bounds.len()).any(|objective| {
            let counted: Vec<Counted> = last.iter().map(|block| Counted::of(block, objective)).collect();
            Counted::sum(&counted).share() >= LOST
        })
    }

    /// Whether the backlog grows. Where no objective is of a time it need not end in anything bad.
    pub fn is_growing(&self) -> bool {
        self.bounds.iter().any(|bound| bound.late_s > 0.0) && backlog_growth_per_s(&self.blocks).is_some()
    }

    /// What can be said where it was ended by something else.
    pub fn cut_off(&self) -> Verdict {
        if self.is_growing() { Verdict::Missed } else { judge(&self.blocks, &self.bounds) }
    }
}

/// Whether a share is so far beyond its bound that its size says nothing of where the line is.
pub fn is_far(share: f64, share_max: f64) -> bool {
    share > (FAR * share_max).min(0.5)
}
