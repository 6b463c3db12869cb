//! Where the levels of several series change together: a penalised least-squares segmentation.
//!
//! Method: of all ways to cut the series into pieces of at least three values, the one whose squared distances from the
//! pieces' means, plus a penalty for each cut, are least: exact, by dynamic programming (Jackson et al., "An algorithm for
//! optimal partitioning of data on an interval", 2005; PELT prunes the same search, which at 600 values is not needed).
//! Before it, a median of three takes out what lasts a single value. Distances are in units of the noise, by medians of
//! differences, which a few changes of level do not move, and by the noise's own correlation found the same way (Chakar et
//! al., "A robust approach for estimating change-points in the mean of an AR(1) process", 2017). Penalty for one cut in d
//! series of n values: `PENALTY` × (d + 2 √(d ln n) + 2 ln n). Where a straight line fits as well there is a drift, and no cut.
//! Of what is left, cuts go that change no level by what matters; where the same level is left and come back to three times
//! or more, that is the run's own rhythm.
//!
//! False alarms, of four series of noise alone, by 1,000 fixed seeds each for 12 to 120 values (`tests/segments.rs` holds
//! them): white 0.1 % (held below 0.5 %), neighbours correlated by 0.3: 0.3 % (1 %), by 0.5: 1.5 % (3 %), Student's t with three
//! degrees of freedom 0.2 % (1 %). Correlated by 0.7 or more, noise is taken for levels in a tenth of runs and above.
//! Penalties tried: 2 (2.9 % at 0.5), 2.5.

use crate::statistics::median;

/// See the module's head; found by simulation.
const PENALTY: f64 = 2.5;
/// Fewest values of a piece.
pub const PIECE_MIN: usize = 3;
/// Fewest values in which changes are looked for.
pub const VALUES_MIN: usize = 12;
/// The strongest correlation of neighbours that is taken for noise.
const CORRELATION_MAX: f64 = 0.7;
/// So many returns to one level are a rhythm.
const RETURNS_MIN: usize = 3;
/// Levels are alike within so many standard errors of their difference.
const ALIKE_ERRORS: f64 = 4.0;

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// Its values, all finite.
    pub values: Vec<f64>,
    /// The noise is taken to be at least this.
    pub noise_min: f64,
    /// Levels that differ by less do not matter.
    pub difference_min: f64,
}

/// Where new pieces begin, ascending: indices into the values. All courses are of one length.
pub fn changes(courses: &[Course]) -> Vec<usize> {
    let length = courses.first().map_or(0, |course| course.values.len());
    if length < VALUES_MIN || courses.iter().any(|course| course.values.len() != length) {
        return Vec::new();
    }
    let scaled: Vec<Scaled> = courses.iter().map(Scaled::of).collect();
    let (d, ln) = (courses.len() as f64, (length as f64).ln());
    let penalty = PENALTY * (d + 2.0 * (d * ln).sqrt() + 2.0 * ln);
    let (mut cuts, cost) = best_cuts(&scaled, length, penalty);
    let of_line: f64 = scaled.iter().map(Scaled::cost_of_line).sum();
    if !cuts.is_empty() && of_line + penalty <= cost {
        return Vec::new();
    }
    without_rhythm(&scaled, length, &mut cuts);
    drop_small(&scaled, length, &mut cuts);
    cuts
}

/// The cheapest cuts, and what they cost with their penalties.
fn best_cuts(scaled: &[Scaled], length: usize, penalty: f64) -> (Vec<usize>, f64) {
    let mut best = vec![f64::INFINITY; length + 1];
    let mut from = vec![0; length + 1];
    best[0] = -penalty;
    for end in PIECE_MIN..=length {
        for start in (0..=end - PIECE_MIN).filter(|start| *start == 0 || *start >= PIECE_MIN) {
            let cost = best[start] + penalty + scaled.iter().map(|s| s.cost(start, end)).sum::<f64>();
            if cost < best[end] {
                (best[end], from[end]) = (cost, start);
            }
        }
    }
    let mut cuts = Vec::new();
    let mut at = from[length];
    while at > 0 {
        cuts.push(at);
        at = from[at];
    }
    cuts.reverse();
    (cuts, best[length])
}

/// A cut that changes no level by what matters goes, the smallest first.
fn drop_small(scaled: &[Scaled], length: usize, cuts: &mut Vec<usize>) {
    loop {
        let pieces = pieces(cuts, length);
        let size = |i: usize| {
            let [a, b] = [pieces[i], pieces[i + 1]];
            scaled.iter().map(|s| s.difference(a, b) / s.difference_min).fold(0.0, f64::max)
        };
        let smallest = (0..cuts.len()).map(|i| (i, size(i))).min_by(|a, b| a.1.total_cmp(&b.1));
        match smallest {
            Some((i, size)) if size < 1.0 => cuts.remove(i),
            _ => return,
        };
    }
}

/// Pieces that a level is left for and come back from, where they are many, are no pieces.
fn without_rhythm(scaled: &[Scaled], length: usize, cuts: &mut Vec<usize>) {
    let pieces = pieces(cuts, length);
    let is_alike = |a: (usize, usize), b: (usize, usize)| {
        let error = (1.0 / (a.1 - a.0) as f64 + 1.0 / (b.1 - b.0) as f64).sqrt();
        scaled.iter().all(|s| s.difference(a, b) < s.difference_min.max(ALIKE_ERRORS * s.noise * error))
    };
    let returns: Vec<usize> =
        (1..pieces.len().saturating_sub(1)).filter(|i| is_alike(pieces[i - 1], pieces[i + 1])).collect();
    // Of a rhythm, what lies between two excursions is one itself: half of them are counted twice.
    if returns.len() >= 2 * RETURNS_MIN - 1 {
        let around: Vec<usize> = returns.iter().flat_map(|i| [pieces[*i].0, pieces[*i].1]).collect();
        let shortest = returns.iter().map(|i| pieces[*i].1 - pieces[*i].0).min().unwrap_or(0).max(PIECE_MIN);
        // The run may begin or end in the middle of it.
        cuts.retain(|cut| !around.contains(cut) && *cut > shortest && *cut + shortest < length);
    }
}

fn pieces(cuts: &[usize], length: usize) -> Vec<(usize, usize)> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([length]);
    starts.zip(ends).collect()
}

/// A course made ready.
struct Scaled {
    values: Vec<f64>,
    noise: f64,
    difference_min: f64,
    /// Sums of the values and of their squares up to each, in units of the noise.
    sums: Vec<(f64, f64)>,
}

impl Scaled {
    fn of(course: &Course) -> Self {
        let noise = noise(&course.values).max(course.noise_min).max(f64::MIN_POSITIVE);
        let values = medians_of_three(&course.values);
        // From the first value, so that squares of large values do not drown small differences.
        let first = values.first().copied().unwrap_or(0.0);
        let mut sums = vec![(0.0, 0.0)];
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in &values {
            let z = (value - first) / noise;
            (sum, squares) = (sum + z, squares + z * z);
            sums.push((sum, squares));
        }
        Scaled { values, noise, difference_min: course.difference_min, sums }
    }

    /// Squared distances from the mean, of the values from `start` up to `end`.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let ((a, aa), (b, bb)) = (self.sums[start], self.sums[end]);
        (bb - aa - (b - a) * (b - a) / (end - start) as f64).max(0.0)
    }

    /// Squared distances from the best straight line through all.
    fn cost_of_line(&self) -> f64 {
        let n = self.values.len() as f64;
        let middle = (n - 1.0) / 2.0;
        let across: f64 = (0..self.values.len()).map(|i| (i as f64 - middle).powi(2)).sum();
        let along: f64 = self.values.iter().enumerate().map(|(i, v)| (i as f64 - middle) * v / self.noise).sum();
        self.cost(0, self.values.len()) - along * along / across
    }

    fn difference(&self, a: (usize, usize), b: (usize, usize)) -> f64 {
        let mean =
            |(start, end): (usize, usize)| self.values[start..end].iter().sum::<f64>() / (end - start).max(1) as f64;
        (mean(a) - mean(b)).abs()
    }
}

fn medians_of_three(values: &[f64]) -> Vec<f64> {
    let of = |a: f64, b: f64, c: f64| a.max(b).min(c).max(a.min(b));
    let last = values.len().saturating_sub(1);
    let at = |i: usize| {
        values[i.clamp(1, last - 1) - 1..][..3].try_into().map_or(values[i], |[a, b, c]: [f64; 3]| of(a, b, c))
    };
    (0..values.len()).map(at).collect()
}

/// The standard deviation that means of many values behave by: that of the noise and of its correlation from one value to the
/// next, both by medians of differences.
fn noise(values: &[f64]) -> f64 {
    /// A normal variable's median distance from its mean, over its standard deviation.
    const MEDIAN: f64 = 0.6745;
    let spread = |lag: usize| {
        let differences = values.iter().zip(values.iter().skip(lag)).map(|(a, b)| (b - a).abs());
        median(differences.collect()) / MEDIAN
    };
    let (one, two) = (spread(1), spread(2));
    if one <= 0.0 {
        return 0.0;
    }
    let correlation = ((two / one).powi(2) - 1.0).clamp(0.0, CORRELATION_MAX);
    one * ((1.0 + correlation) / 2.0).sqrt() / (1.0 - correlation)
}
