//! Where the share of bad requests crosses its bound: ln(share) as a straight line over the load, and its interval.
//!
//! Quasi-Poisson regression with a logarithmic link on groups of a second (P. McCullagh and J. A. Nelder, "Generalized
//! Linear Models", 1989, chapters 6 and 9): groups without a bad one count as what they are. For M/M/1 the line is exact,
//! P(T > L) = exp(−(μ − λ)L); for any queue with light tails it is so near its limit. The interval of the crossing is
//! Fieller's (E. C. Fieller, "Some problems in interval estimation", JRSS B 16, 1954), with Student's t. The dispersion is
//! the larger of the groups' and the steps': what drifts, or lasts for longer than a group, shows between steps.
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
    /// The ends of its 95 % interval; `None`: the slope is not sure enough for one.
    pub interval: Option<(f64, f64)>,
    /// d ln(share) / d ln(load) there: how steep the knee is.
    pub steepness: f64,
}

/// Bad requests below which there is no fit.
const BAD_MIN: f64 = 20.0;
/// Loads nearer to each other than this are one. Bad ones must have been seen at two: none at all at a load says that the
/// share is smaller there, and not on what line.
const LOADS_APART: f64 = 0.002;
/// Newton's steps, more than it ever took.
const ITERATIONS: usize = 60;

/// Fits, and crosses the bound; `None` where there is no fit to be had.
pub fn crossing(groups: &[Group], share_max: f64) -> Option<Crossing> {
    let (centre, unit) = scale(groups)?;
    let x = |group: &Group| (group.load - centre) / unit;
    let bad: f64 = groups.iter().map(|group| group.bad).sum();
    let requests: f64 = groups.iter().map(|group| group.requests).sum();
    let mut with_bad: Vec<f64> = groups.iter().filter(|group| group.bad > 0.0).map(|group| group.load).collect();
    with_bad.sort_by(f64::total_cmp);
    with_bad.dedup_by(|a, b| (*a / *b - 1.0).abs() < LOADS_APART);
    if with_bad.len() < 2 || groups.len() < 6 || bad < BAD_MIN || requests <= bad {
        return None;
    }
    let (mut a, mut b) = ((bad / requests).ln(), 0.0f64);
    let mut information = Information::default();
    for _ in 0..ITERATIONS {
        information = Information::default();
        let (mut score_a, mut score_b) = (0.0, 0.0);
        for group in groups {
            let mean = group.requests * (a + b * x(group)).clamp(-50.0, 5.0).exp();
            score_a += group.bad - mean;
            score_b += x(group) * (group.bad - mean);
            information.add(mean, x(group));
        }
        let (step_a, step_b) = information.solve(score_a, score_b)?;
        // A whole step may overshoot where it starts far away.
        let shorter = (2.0 / step_a.abs().max(step_b.abs()).max(1e-300)).min(1.0);
        (a, b) = (a + shorter * step_a, b + shorter * step_b);
        if step_a.abs().max(step_b.abs()) < 1e-9 {
            break;
        }
    }
    let mean = |group: &Group| group.requests * (a + b * x(group)).clamp(-50.0, 5.0).exp();
    let (dispersion, freedom) = dispersion(groups, mean);
    let (var_a, covariance, var_b) = information.inverse()?;
    let (var_a, covariance, var_b) = (dispersion * var_a, dispersion * covariance, dispersion * var_b);
    let t = critical_t(freedom, 0.95);
    // Fieller: all x at which a + bx − ln(bound) lies within t standard errors of zero.
    let height = a - share_max.ln();
    let square = b * b - t * t * var_b;
    if b <= 0.0 {
        return None;
    }
    let half = a_linear(height, b, t, covariance);
    let constant = height * height - t * t * var_a;
    let root = (half * half - square * constant).max(0.0).sqrt();
    let at = |x: f64| centre + unit * x;
    let load = at(-height / b);
    let interval = (square > 0.0).then(|| (at((-half - root) / square).max(0.0), at((-half + root) / square)));
    (load > 0.0).then(|| Crossing { load, interval, steepness: b * load / unit })
}

/// Half of the linear term of Fieller's equation.
fn a_linear(height: f64, b: f64, t: f64, covariance: f64) -> f64 {
    height * b - t * t * covariance
}

/// Mean and spread of the loads; `None` of one load.
fn scale(groups: &[Group]) -> Option<(f64, f64)> {
    let count = groups.len() as f64;
    let centre = groups.iter().map(|group| group.load).sum::<f64>() / count;
    let variance = groups.iter().map(|group| (group.load - centre).powi(2)).sum::<f64>() / count;
    let unit = variance.sqrt();
    (unit > 1e-6 * centre).then_some((centre, unit))
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

/// Fisher's information of intercept and slope.
#[derive(Debug, Clone, Copy, Default)]
struct Information {
    aa: f64,
    ab: f64,
    bb: f64,
}

impl Information {
    fn add(&mut self, weight: f64, x: f64) {
        self.aa += weight;
        self.ab += weight * x;
        self.bb += weight * x * x;
    }

    fn determinant(&self) -> Option<f64> {
        let determinant = self.aa * self.bb - self.ab * self.ab;
        (determinant > 1e-12 * self.aa * self.bb && determinant.is_finite()).then_some(determinant)
    }

    fn solve(&self, score_a: f64, score_b: f64) -> Option<(f64, f64)> {
        let determinant = self.determinant()?;
        Some((
            (self.bb * score_a - self.ab * score_b) / determinant,
            (self.aa * score_b - self.ab * score_a) / determinant,
        ))
    }

    /// Variances of the intercept and the slope, and between them their covariance.
    fn inverse(&self) -> Option<(f64, f64, f64)> {
        let determinant = self.determinant()?;
        Some((self.bb / determinant, -self.ab / determinant, self.aa / determinant))
    }
}
