//! How throughput scales over connections: the Universal Scalability Law, X(n) = γn / (1 + α(n − 1) + βn(n − 1)).
//!
//! N. J. Gunther, "Guerrilla Capacity Planning", 2007, chapter 4: γ is what one connection gets, α the share that is serial
//! (contention), β what each pair costs (coherency); it turns at n* = √((1 − α)/β). For a closed load only. Fitted by least
//! squares on n/X = a + b(n − 1) + cn(n − 1), which is linear in a = 1/γ, b = α/γ and c = β/γ, each step weighted by X².
//!
//! Intervals: α = b/a, β = c/a and n*² = (a − b)/c are ratios of two such figures, whose interval is Fieller's (E. C. Fieller,
//! "Some problems in interval estimation", Journal of the Royal Statistical Society B 16, 1954): all ratios r for which the
//! numerator less r times the denominator may be none. It is exact for figures that scatter normally, keeps its coverage where the
//! denominator may be near none, and is open then: so a turn that the steps do not show has a lower end and no upper one. How a, b
//! and c scatter is told by the jackknife over steps (B. Efron and C. Stein, Annals of Statistics 9, 1981), so that no scatter has to
//! be assumed. What it comes to on curves whose parameters are known is held by a test, with its table in
//! docs/decisions/2026-11-24-turn-of-a-curve.md.

use diagnose::critical_t;

/// Throughput at a number of connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Connections.
    pub connections: f64,
    /// Requests a second.
    pub per_s: f64,
}

/// A figure and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The ends of its interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// The law's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// What one connection gets, requests a second.
    pub single_per_s: Estimate,
    /// The serial share.
    pub contention: Estimate,
    /// What each pair costs, as a share.
    pub coherency: Estimate,
    /// Where it turns.
    pub turn: Turn,
}

/// Where throughput turns, connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Turn {
    /// There, with its 95 % interval, and the throughput there, requests a second.
    At(Estimate, f64),
    /// Nothing says that it does; if it does, not before so many.
    NotBefore(f64),
    /// Nothing can be said of it.
    Unknown,
}

/// Steps that a fit needs: three parameters, and two to tell how sure they are.
const STEPS_MIN: usize = 5;

/// The sums of the fit.
fn normal(samples: &[Sample]) -> [[f64; 4]; 3] {
    let mut normal = [[0.0f64; 4]; 3];
    for sample in samples.iter().filter(|sample| sample.per_s > 0.0) {
        let n = sample.connections;
        let (x, y) = ([1.0, n - 1.0, n * (n - 1.0)], n / sample.per_s);
        // The scatter of X is about a share of X, so that of n/X is one of n/X.
        let weight = 1.0 / (y * y);
        for row in 0..3 {
            for (column, value) in x.iter().enumerate() {
                normal[row][column] += weight * x[row] * value;
            }
            normal[row][3] += weight * x[row] * y;
        }
    }
    normal
}

/// γ, α, β.
fn parameters(samples: &[Sample]) -> Option<[f64; 3]> {
    let normal = normal(samples);
    let [constant, linear, square] = solve(normal)?;
    // Neither cost can be below none: without it the other is fitted again.
    let (constant, linear, square) = match (linear < 0.0, square < 0.0) {
        (false, false) => (constant, linear, square),
        (is_linear, _) => {
            let kept = if is_linear { 2 } else { 1 };
            let two = solve_two(&normal, kept)?;
            let part = two[1].max(0.0);
            if is_linear { (two[0], 0.0, part) } else { (two[0], part, 0.0) }
        }
    };
    (constant > 0.0).then(|| [1.0 / constant, linear / constant, square / constant])
}

/// Gauss, with pivots.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let pivot = (at..3).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        let first = rows[at];
        if first[at].abs() < 1e-300 {
            return None;
        }
        for row in rows.iter_mut().skip(at + 1) {
            let factor = row[at] / first[at];
            row.iter_mut().zip(first).for_each(|(value, of_first)| *value -= factor * of_first);
        }
    }
    let mut found = [0.0; 3];
    for at in (0..3).rev() {
        let known: f64 = (at + 1..3).map(|k| rows[at][k] * found[k]).sum();
        found[at] = (rows[at][3] - known) / rows[at][at];
    }
    found.iter().all(|value| value.is_finite()).then_some(found)
}

/// The same with the constant and one other.
fn solve_two(normal: &[[f64; 4]; 3], kept: usize) -> Option<[f64; 2]> {
    let (a, b, c) = (normal[0][0], normal[0][kept], normal[kept][kept]);
    let determinant = a * c - b * b;
    let found = [
        (normal[0][3] * c - normal[kept][3] * b) / determinant,
        (normal[kept][3] * a - normal[0][3] * b) / determinant,
    ];
    found.iter().all(|value| value.is_finite()).then_some(found)
}

/// A figure with its variance, of two that go with each other.
#[derive(Debug, Clone, Copy)]
struct Part {
    value: f64,
    variance: f64,
}

/// The ratios above none that two figures may have, with `t` standard errors: Fieller's set, of which the upper end may be open.
/// `None`: it says nothing.
fn ratio(above: Part, below: Part, covariance: f64, t: f64) -> Option<(f64, f64)> {
    // r is in it where (above − r·below)² ≤ t² Var(above − r·below): a quadratic in r.
    let square = below.value.powi(2) - t * t * below.variance;
    let half = above.value * below.value - t * t * covariance;
    let rest = above.value.powi(2) - t * t * above.variance;
    let root = (half * half - square * rest).max(0.0).sqrt();
    let (one, other) = ((half - root) / square, (half + root) / square);
    let (least, most) = (one.min(other), one.max(other));
    match () {
        () if !least.is_finite() || !most.is_finite() => None,
        // The denominator is not none.
        () if square > 0.0 => Some((least.max(0.0), most)).filter(|(_, most)| *most > 0.0),
        // It may be none: what is beyond the larger root is in it. Where the smaller one is above none, so is what is below that.
        () if half * half > square * rest && least <= 0.0 => Some((most.max(0.0), f64::INFINITY)),
        () => None,
    }
}

/// Fits the law; `None`: too few steps, steps that scatter too much, or nothing was answered.
pub fn scaling(samples: &[Sample]) -> Option<Scaling> {
    if samples.len() < STEPS_MIN {
        return None;
    }
    let whole = parameters(samples)?;
    let linear = solve(normal(samples))?;
    let without: Vec<[f64; 3]> = (0..samples.len())
        .map(|left_out| {
            let rest: Vec<Sample> =
                samples.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, sample)| *sample).collect();
            solve(normal(&rest))
        })
        .collect::<Option<_>>()?;
    let count = samples.len() as f64;
    let mean = [0, 1, 2].map(|at: usize| without.iter().map(|one| one[at]).sum::<f64>() / count);
    let covariance = |a: usize, b: usize| {
        without.iter().map(|one| (one[a] - mean[a]) * (one[b] - mean[b])).sum::<f64>() * (count - 1.0) / count
    };
    let t = critical_t(count - 3.0, 0.95);
    let part = |at: usize| Part { value: linear[at], variance: covariance(at, at) };
    let margin = t * covariance(0, 0).sqrt();
    let (least, most) = (linear[0] - margin, linear[0] + margin);
    let ends = |value: f64, ends: Option<(f64, f64)>| {
        let (low, high) = ends.unwrap_or((0.0, f64::INFINITY));
        // A cost that was fitted below none stands at none.
        Estimate { value, low: low.min(value), high: high.max(value) }
    };
    let single = (1.0 / most, if least > 0.0 { 1.0 / least } else { f64::INFINITY });
    let of_single = |at: usize| ends(whole[at], ratio(part(at), part(0), covariance(at, 0), t));
    let parallel =
        Part { value: linear[0] - linear[1], variance: covariance(0, 0) + covariance(1, 1) - 2.0 * covariance(0, 1) };
    let squared = ratio(parallel, part(2), covariance(0, 2) - covariance(1, 2), t);
    let turn = match squared.map(|(low, high)| (low.sqrt(), high.sqrt())) {
        None => Turn::Unknown,
        Some((low, high)) if high.is_infinite() => Turn::NotBefore(low),
        Some((low, high)) if whole[2] > 0.0 && whole[1] < 1.0 => {
            let at = ((1.0 - whole[1]) / whole[2]).sqrt();
            Turn::At(Estimate { value: at, low: low.min(at), high: high.max(at) }, law(whole, at))
        }
        Some(_) => Turn::Unknown,
    };
    let (single_per_s, contention, coherency) = (ends(whole[0], Some(single)), of_single(1), of_single(2));
    // Steps that scatter so much that a single connection may get anything say nothing of the others either.
    let is_bounded = [single_per_s, contention, coherency].iter().all(|one| one.high.is_finite());
    is_bounded.then_some(Scaling { single_per_s, contention, coherency, turn })
}

fn law([gamma, alpha, beta]: [f64; 3], n: f64) -> f64 {
    gamma * n / (1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0))
}

impl Scaling {
    /// The law's throughput at a number of connections, requests a second.
    pub fn per_s(&self, connections: f64) -> f64 {
        law([self.single_per_s.value, self.contention.value, self.coherency.value], connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

    fn samples(of: [f64; 3], scatter: f64) -> Vec<Sample> {
        let wave = |at: usize| 1.0 + scatter * if at.is_multiple_of(2) { 1.0 } else { -1.0 };
        let sample = |(at, n): (usize, &f64)| Sample { connections: *n, per_s: law(of, *n) * wave(at) };
        COUNTS.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn the_law_is_found_again_with_its_turn() {
        let found = scaling(&samples([1000.0, 0.05, 0.0005], 0.01)).unwrap();
        for (estimate, truth) in [(found.single_per_s, 1000.0), (found.contention, 0.05), (found.coherency, 0.0005)] {
            assert!((estimate.value / truth - 1.0).abs() < 0.1, "{estimate:?} {truth}");
            assert!(estimate.low <= truth && truth <= estimate.high, "{estimate:?} {truth}");
        }
        let truth = (0.95f64 / 0.0005).sqrt();
        let Turn::At(turn, per_s) = found.turn else { panic!("{:?}", found.turn) };
        assert!(turn.low <= truth && truth <= turn.high && turn.high < 1.3 * turn.low, "{turn:?} {truth}");
        assert!((per_s / law([1000.0, 0.05, 0.0005], truth) - 1.0).abs() < 0.05, "{per_s}");
    }

    #[test]
    fn a_server_that_only_saturates_has_no_turn() {
        let found = scaling(&samples([1000.0, 0.1, 0.0], 0.01)).unwrap();
        assert!(matches!(found.turn, Turn::NotBefore(at) if at > 100.0), "{found:?}");
        assert!((found.contention.value - 0.1).abs() < 0.02, "{found:?}");
    }

    /// Curves of known parameters whose points scatter: how often each interval has the truth in it. The table is in
    /// docs/decisions/2026-11-24-turn-of-a-curve.md.
    #[test]
    fn intervals_cover_what_they_say() {
        use rand::rngs::StdRng;
        use rand::{RngExt, SeedableRng};
        const SEEDS: u64 = 500;
        let few = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0];
        // Scatter of a point as a share of it; `uneven`: three times that at both ends.
        for (of, counts, scatter, uneven) in [
            ([1000.0, 0.05, 0.0005], &COUNTS[..], 0.02, false),
            ([1000.0, 0.05, 0.0005], &COUNTS, 0.1, false),
            ([1000.0, 0.05, 0.0005], &COUNTS, 0.03, true),
            ([1000.0, 0.02, 0.00001], &COUNTS, 0.05, false),
            ([1000.0, 0.1, 0.0], &COUNTS, 0.02, false),
            ([500.0, 0.3, 0.01], &few, 0.03, false),
        ] {
            let (mut covered, mut open) = ([0u32; 4], 0u32);
            for seed in 0..SEEDS {
                let mut random = StdRng::seed_from_u64(seed);
                // Twelve uniform ones less six: normal as far as matters here.
                let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
                let last = counts.len() - 1;
                let sample = |(at, n): (usize, &f64)| {
                    let own = if uneven && (at == 0 || at == last) { 3.0 * scatter } else { scatter };
                    Sample { connections: *n, per_s: law(of, *n) * (own * normal()).exp() }
                };
                let drawn: Vec<Sample> = counts.iter().enumerate().map(sample).collect();
                let Some(found) = scaling(&drawn) else {
                    // It claims nothing.
                    covered.iter_mut().for_each(|count| *count += 1);
                    continue;
                };
                let is_in = |one: Estimate, truth: f64| u32::from(one.low <= truth && truth <= one.high);
                covered[0] += is_in(found.single_per_s, of[0]);
                covered[1] += is_in(found.contention, of[1]);
                covered[2] += is_in(found.coherency, of[2]);
                let truth = ((1.0 - of[1]) / of[2]).sqrt();
                covered[3] += match found.turn {
                    Turn::At(turn, _) => is_in(turn, truth),
                    Turn::NotBefore(low) => {
                        open += 1;
                        u32::from(low <= truth)
                    }
                    Turn::Unknown => 1,
                };
            }
            let percent = |count: u32| 100.0 * f64::from(count) / SEEDS as f64;
            println!(
                "{of:?}, {} counts, {scatter}, {uneven}: {:?}, open {}",
                counts.len(),
                covered.map(percent),
                percent(open)
            );
            assert!(
                covered.iter().all(|count| percent(*count) >= 89.0),
                "{of:?} {scatter}: {:?}",
                covered.map(percent)
            );
        }
    }

    #[test]
    fn too_few_steps_are_no_law() {
        assert_eq!(scaling(&samples([1000.0, 0.1, 0.0], 0.0)[..4]), None);
        assert_eq!(scaling(&COUNTS.map(|n| Sample { connections: n, per_s: 0.0 })), None);
    }
}
