//! What a step saw, in blocks of time, and how far its blocks scatter: the raw material of every decision.
//!
//! A request is bad where it is late, failed, unfinished, dropped or never taken up, so that `p99 < L` says: the share of
//! bad ones is below 1 %. Bad ones come in bursts, a whole queue at a time, so that n requests say less than n independent
//! ones would. How much less is the dispersion: the variance of the blocks' sums over that of independent requests, with
//! the covariance of neighbours, as W. K. Newey and K. D. West, "A simple, positive semi-definite, heteroskedasticity and
//! autocorrelation consistent covariance matrix", Econometrica 55 (1987). In the beta-binomial model it is 1 + (n − 1)ρ.
//!
//! Latency cannot see an overload by the share ε before about L/ε has gone by; the backlog (requests that are due and have
//! not ended) grows from the first second on. So its slope is a test beside the share.
//!
//! Cost: a step has some 10 to 100 blocks, and all of them are gone through at each one's end.

/// Length of a block, seconds.
pub const BLOCK_S: f64 = 0.25;
/// Neighbours whose covariance is counted: a second of blocks, so that what comes once a second is seen as one thing.
const LAGS: usize = 3;
/// A growth of the backlog is one from so many standard errors on. Looked at after each block, and in noise that is not
/// normal: so it is far above the 2 of a single look.
const GROWTH_T: f64 = 5.0;
/// Blocks before a slope is asked for.
const GROWTH_BLOCKS: usize = 6;

/// What was seen in one block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Block {
    /// Its length, seconds.
    pub seconds: f64,
    /// Requests that ended in it, well or not.
    pub requests: u64,
    /// Those that were bad, by objective.
    pub bad: Vec<u64>,
    /// Requests at its end that were due and had not ended.
    pub backlog: f64,
}

/// Requests and bad ones of one objective.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counted {
    /// Requests.
    pub requests: f64,
    /// Bad ones.
    pub bad: f64,
}

impl Counted {
    /// Those of a block.
    pub fn of(block: &Block, objective: usize) -> Self {
        Counted { requests: block.requests as f64, bad: block.bad.get(objective).copied().unwrap_or(0) as f64 }
    }

    /// All of some.
    pub fn sum(all: &[Counted]) -> Self {
        all.iter().fold(Counted::default(), |sum, one| Counted {
            requests: sum.requests + one.requests,
            bad: sum.bad + one.bad,
        })
    }

    /// Share of bad ones; 0 of none.
    pub fn share(&self) -> f64 {
        if self.requests > 0.0 { self.bad / self.requests } else { 0.0 }
    }
}

/// By how much the sum of bad ones varies more than that of independent requests would: at least 1.
pub fn dispersion(blocks: &[Counted]) -> f64 {
    let sum = Counted::sum(blocks);
    let (n, share) = (blocks.len(), sum.share());
    let expected = sum.requests * share * (1.0 - share);
    if n < 2 || expected <= 0.0 {
        return 1.0;
    }
    let residuals: Vec<f64> = blocks.iter().map(|block| block.bad - block.requests * share).collect();
    let lagged = |lag: usize| residuals.iter().zip(&residuals[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let neighbours: f64 =
        (1..=LAGS.min(n - 1)).map(|lag| 2.0 * (1.0 - lag as f64 / (LAGS + 1) as f64) * lagged(lag)).sum();
    let variance = (lagged(0) + neighbours) * n as f64 / (n as f64 - 1.0);
    (variance / expected).max(1.0)
}

/// How many requests a second the backlog grows by, where it does beyond chance; else `None`.
///
/// Least squares over the ends of blocks. Its standard error is widened by the residuals' correlation with their neighbours,
/// as a series of first order has it: a queue that is long now is long a moment later.
pub fn backlog_growth_per_s(blocks: &[Block]) -> Option<f64> {
    let n = blocks.len();
    if n < GROWTH_BLOCKS {
        return None;
    }
    let mut at_s = 0.0;
    let points: Vec<(f64, f64)> = blocks
        .iter()
        .map(|block| {
            at_s += block.seconds;
            (at_s, block.backlog)
        })
        .collect();
    let count = n as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_s, mean_backlog) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - mean_s).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - mean_s) * (p.1 - mean_backlog)).sum::<f64>() / spread;
    let residuals: Vec<f64> = points.iter().map(|p| p.1 - mean_backlog - slope * (p.0 - mean_s)).collect();
    let square: f64 = residuals.iter().map(|r| r * r).sum();
    let correlation = if square > 0.0 {
        let neighbours: f64 = residuals.iter().zip(&residuals[1..]).map(|(a, b)| a * b).sum();
        // Of few points the estimate is too low by about (1 + 3ρ)/n (M. G. Kendall, Biometrika 41, 1954).
        let low = neighbours / square;
        (low + (1.0 + 3.0 * low.max(0.0)) / count).clamp(0.0, 0.95)
    } else {
        0.0
    };
    let error = (square / (count - 2.0) / spread * (1.0 + correlation) / (1.0 - correlation)).sqrt();
    // A backlog of a few requests is counted in whole ones: growth by less than that says nothing.
    let grown = slope * (points[n - 1].0 - points[0].0);
    (grown >= 4.0 && slope >= GROWTH_T * error).then_some(slope)
}
