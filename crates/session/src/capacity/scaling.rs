//! How throughput scales over connections: the Universal Scalability Law, X(n) = γn / (1 + α(n − 1) + βn(n − 1)).
//!
//! N. J. Gunther, "Guerrilla Capacity Planning", 2007, chapter 4: γ is what one connection gets, α the share that is serial
//! (contention), β what each pair costs (coherency); it turns at n* = √((1 − α)/β). For a closed load only. Fitted by least
//! squares on n/X, which is linear in (1, n − 1, n(n − 1)) over γ, each step weighted by X²; intervals by the jackknife over
//! steps (B. Efron and C. Stein, Annals of Statistics 9, 1981), so that no scatter has to be assumed.

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
    /// Where it turns, connections; `None`: nothing says that it does.
    pub peak_at: Option<f64>,
    /// The throughput there.
    pub peak_per_s: Option<f64>,
}

/// Steps that a fit needs: three parameters, and two to tell how sure they are.
const STEPS_MIN: usize = 5;

/// γ, α, β.
fn parameters(samples: &[Sample]) -> Option<[f64; 3]> {
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

/// Fits the law; `None`: too few steps, or nothing was answered.
pub fn scaling(samples: &[Sample]) -> Option<Scaling> {
    if samples.len() < STEPS_MIN {
        return None;
    }
    let whole = parameters(samples)?;
    let without: Vec<[f64; 3]> = (0..samples.len())
        .map(|left_out| {
            let rest: Vec<Sample> =
                samples.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, sample)| *sample).collect();
            parameters(&rest)
        })
        .collect::<Option<_>>()?;
    let count = samples.len() as f64;
    let estimate = |at: usize| {
        let mean = without.iter().map(|one| one[at]).sum::<f64>() / count;
        let variance = without.iter().map(|one| (one[at] - mean).powi(2)).sum::<f64>() * (count - 1.0) / count;
        let margin = critical_t(count - 3.0, 0.95) * variance.sqrt();
        Estimate { value: whole[at], low: (whole[at] - margin).max(0.0), high: whole[at] + margin }
    };
    let [single_per_s, contention, coherency] = [estimate(0), estimate(1), estimate(2)];
    // A cost of pairs that may be none says nothing of a turn.
    let turns = coherency.low > 0.0 && contention.value < 1.0;
    let peak_at = turns.then(|| ((1.0 - contention.value) / coherency.value).sqrt());
    Some(Scaling { single_per_s, contention, coherency, peak_at, peak_per_s: peak_at.map(|n| law(whole, n)) })
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
        let turn = (0.95f64 / 0.0005).sqrt();
        assert!((found.peak_at.unwrap() / turn - 1.0).abs() < 0.1, "{:?} {turn}", found.peak_at);
    }

    #[test]
    fn a_server_that_only_saturates_has_no_turn() {
        let found = scaling(&samples([1000.0, 0.1, 0.0], 0.01)).unwrap();
        assert_eq!(found.peak_at, None, "{found:?}");
        assert!((found.contention.value - 0.1).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn too_few_steps_are_no_law() {
        assert_eq!(scaling(&samples([1000.0, 0.1, 0.0], 0.0)[..4]), None);
        assert_eq!(scaling(&COUNTS.map(|n| Sample { connections: n, per_s: 0.0 })), None);
    }
}
