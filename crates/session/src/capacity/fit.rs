//! Where the share of bad requests crosses its bound: ln(share) as a straight line over the load, and its interval.
//!
//! Quasi-Poisson regression with a logarithmic link on groups of a second (P. McCullagh and J. A. Nelder, "Generalized
//! Linear Models", 1989, chapters 6 and 9): groups without a bad one count as what they are. For M/M/1 the line is exact,
//! P(T > L) = exp(−(μ − λ)L); for any queue with light tails it is so near its limit. The interval of the crossing is that of its
//! profile likelihood (the same book, chapter 7): all lines whose log likelihood is within half of Student's t squared times the
//! dispersion of the highest. The dispersion is the larger of the groups' and the steps': what drifts, or lasts for longer than a
//! group, shows between steps.
//!
//! No fit where there is none to be had: fewer than two loads, too few bad ones, or a slope that may be zero. Then the
//! bracket stands alone, as it does at a jump.

use diagnose::critical_t;

/// Requests and bad ones of a group at a load, and the step it is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// Achieved load.
    pub load: f64,
    /// Requests in it.
    pub requests: f64,
    /// Bad ones.
    pub bad: f64,
    /// Number of its step.
    pub step: usize,
}

/// Where the share crosses the bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// The load.
    pub load: f64,
    /// The ends of its interval, of 95 % by simulation; `None`: the slope is not sure enough for one.
    pub interval: Option<(f64, f64)>,
    /// d ln(share) / d ln(load) there: how steep the knee is.
    pub steepness: f64,
}

/// Confidence that the likelihood is asked for, so that its interval covers the line 95 times of 100: the dispersion is estimated
/// from few bursts, of which most steps see none, and is too low more often than Student's t allows for. By 0.95 it is 92 to 96
/// times on queues of light tails, by 0.97 it is 95 to 98 (docs/decisions/2026-11-27-intervals-of-few-bursts.md).
const LIKELIHOOD: f64 = 0.97;
/// Bad requests below which there is no fit.
const BAD_MIN: f64 = 20.0;
/// Loads nearer to each other than this are one. Bad ones must have been seen at two: none at all at a load says that the
/// share is smaller there, and not on what line.
const LOADS_APART: f64 = 0.002;
/// Steepnesses that are tried: from hardly any, to a share that is e times as large 0.03 % farther on.
const STEEPNESS: (f64, f64) = (1.0, 3000.0);
/// The line is looked for as far out as this share of the lowest load, and the inverse of it of the highest.
const OUTSIDE: f64 = 0.8;
/// Steps of a search for a highest or an end.
const HALVINGS: usize = 40;

/// Fits, and crosses the bound; `None` where there is no fit to be had.
pub fn crossing(groups: &[Group], share_max: f64) -> Option<Crossing> {
    let bad: f64 = groups.iter().map(|group| group.bad).sum();
    let requests: f64 = groups.iter().map(|group| group.requests).sum();
    let mut with_bad: Vec<f64> = groups.iter().filter(|group| group.bad > 0.0).map(|group| group.load).collect();
    with_bad.sort_by(f64::total_cmp);
    with_bad.dedup_by(|a, b| (*a / *b - 1.0).abs() < LOADS_APART);
    if with_bad.len() < 2 || groups.len() < 6 || bad < BAD_MIN || requests <= bad {
        return None;
    }
    let loads = by_load(groups);
    let (low, high) = (loads.first()?.load * OUTSIDE, loads.last()?.load / OUTSIDE);
    // The likelihood has one top over the line (and, for each line, one over the steepness), so thirds find it.
    let load = highest(low.ln(), high.ln(), |line| profile(&loads, share_max, line.exp()).0).exp();
    let (top, steepness) = profile(&loads, share_max, load);
    let mean = |group: &Group| group.requests * share_max * (group.load / load).powf(steepness);
    let (dispersion, freedom) = dispersion(groups, mean);
    let t = critical_t(freedom, LIKELIHOOD);
    let is_within = |line: f64| 2.0 * (top - profile(&loads, share_max, line).0) <= t * t * dispersion;
    let end = |outermost: f64| {
        if is_within(outermost) {
            return None;
        }
        let (mut inside, mut outside) = (load, outermost);
        for _ in 0..HALVINGS {
            let middle = (inside * outside).sqrt();
            if is_within(middle) { inside = middle } else { outside = middle }
        }
        Some(outside)
    };
    let interval = end(low).zip(end(high));
    (load > low && load < high).then_some(Crossing { load, interval, steepness })
}

/// The likelihood's logarithm where the line is here, with the steepness that suits it best; and that steepness.
fn profile(loads: &[Group], share_max: f64, line: f64) -> (f64, f64) {
    let likelihood = |steepness: f64| -> f64 {
        let of = |group: &Group| {
            let log_share = share_max.ln() + steepness * (group.load / line).ln();
            group.bad * log_share - group.requests * log_share.min(5.0).exp()
        };
        loads.iter().map(of).sum()
    };
    let log = highest(STEEPNESS.0.ln(), STEEPNESS.1.ln(), |log| likelihood(log.exp()));
    (likelihood(log.exp()), log.exp())
}

/// Where a function of one top is highest.
fn highest(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    // The golden section: a point of each step serves the next.
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (of(left), of(right));
    for _ in 0..HALVINGS {
        if at_left >= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = of(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = of(right);
        }
    }
    (low + high) / 2.0
}

/// All groups of a load as one, from the lowest to the highest.
fn by_load(groups: &[Group]) -> Vec<Group> {
    let mut sorted = groups.to_vec();
    sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
    let mut loads: Vec<Group> = Vec::new();
    for group in sorted {
        match loads.last_mut().filter(|last| last.load == group.load) {
            Some(last) => (last.requests, last.bad) = (last.requests + group.requests, last.bad + group.bad),
            None => loads.push(group),
        }
    }
    loads
}

/// Pearson's, of groups and of steps, whichever is larger; with its degrees of freedom.
fn dispersion(groups: &[Group], mean: impl Fn(&Group) -> f64) -> (f64, f64) {
    let of = |cells: &[(f64, f64)]| {
        let freedom = cells.len() as f64 - 2.0;
        let square: f64 = cells.iter().map(|(bad, mean)| (bad - mean).powi(2) / mean.max(1e-9)).sum();
        (freedom >= 1.0).then(|| (square / freedom, freedom))
    };
    let single: Vec<(f64, f64)> = groups.iter().map(|group| (group.bad, mean(group))).collect();
    let mut steps: Vec<(usize, f64, f64)> = Vec::new();
    for group in groups {
        match steps.iter_mut().find(|(step, ..)| *step == group.step) {
            Some((_, bad, expected)) => {
                *bad += group.bad;
                *expected += mean(group);
            }
            None => steps.push((group.step, group.bad, mean(group))),
        }
    }
    // Within a step groups are not wholly independent, and what a step is like as a whole is drawn but once: so no more
    // degrees of freedom than twice those of the steps.
    let freedom_max = (2.0 * (steps.len() as f64 - 2.0)).max(1.0);
    let steps: Vec<(f64, f64)> = steps.into_iter().map(|(_, bad, expected)| (bad, expected)).collect();
    let (by_group, freedom) = of(&single).unwrap_or((1.0, 1.0));
    match of(&steps) {
        Some((by_step, of_steps)) if by_step > by_group => (by_step.max(1.0), of_steps),
        _ => (by_group.max(1.0), freedom.min(freedom_max)),
    }
}
