//! Where slow or failed requests concentrate: by ordinal on the connection, predecessor, URL or command, size, worker, address.
//!
//! Each value of each of these is a place. Slow requests are set beside the quick ones of the sample, failures beside the
//! successes, and the shares of both that are at a place are compared by the likelihood ratio of a table of two by two (S. S.
//! Wilks, "The large-sample distribution of the likelihood ratio", 1938): by chance it is at least G with a probability below
//! exp(−G/2), as χ² of one degree is. That times the number of places looked at (Bonferroni) must stay below
//! [`CHANCE_MAX`]. Then it is said only where it is also much: [`THEM_MIN`] of them at the most [`OTHERS_MAX`] times as
//! much of the others. It is an observation and no cause: what is behind it is for the rules.

use crate::facts::{Facts, SLOW_BY_NS, SLOW_TIMES, percent};
use model::finding::LossKind;
use model::request::{Request, RequestEnd};
use model::slow::{Concentration, Dimension};
use std::collections::BTreeMap;

/// Fewer on either side are no crowd.
const COUNT_MIN: usize = 20;
/// The most that chance may have to do with it, all places together.
const CHANCE_MAX: f64 = 0.001;
/// So many of them must be there.
const THEM_MIN: f64 = 0.5;
/// And of the others at most so many times as much.
const OTHERS_MAX: f64 = 0.5;

/// A place: by what, and which. Of yes and no the number is 1 and 0.
type Place = (Dimension, u64);

/// Where those of a loss concentrate, the clearest first.
pub(crate) fn concentrations(facts: &Facts<'_>, kind: LossKind) -> Vec<Concentration> {
    let good: Vec<&Request> =
        facts.recording.requests.sampled().filter(|request| request.end == RequestEnd::Ok).collect();
    let (them, others): (Vec<&Request>, Vec<&Request>) = match kind {
        LossKind::Slow => good.into_iter().partition(|request| facts.kinds.excess_ns(request).is_some()),
        LossKind::Failed => (facts.recording.requests.failed().collect(), good),
        LossKind::Starved | LossKind::Waiting | LossKind::Capacity => return Vec::new(),
    };
    if them.len() < COUNT_MIN || others.len() < COUNT_MIN {
        return Vec::new();
    }
    let mut places: BTreeMap<Place, [f64; 2]> = BTreeMap::new();
    for (side, requests) in [&them, &others].into_iter().enumerate() {
        for place in requests.iter().flat_map(|request| of(facts, request)) {
            places.entry(place).or_default()[side] += 1.0;
        }
    }
    let looked_at = places.len() as f64;
    let counts = [them.len() as f64, others.len() as f64];
    let mut found: Vec<Concentration> = places
        .into_iter()
        .filter_map(|((dimension, which), here)| {
            let [of_them, of_others] = [here[0] / counts[0], here[1] / counts[1]];
            let by_chance = (looked_at * (-likelihood(here, counts) / 2.0).exp()).min(1.0);
            let is_much = of_them >= THEM_MIN && of_others <= OTHERS_MAX * of_them;
            let place = words(facts, dimension, which).filter(|_| is_much && by_chance <= CHANCE_MAX)?;
            let who = if kind == LossKind::Slow { "slow" } else { "failed" };
            let text =
                format!("{who} ones are {place}: {} of them, {} of the others", percent(of_them), percent(of_others));
            Some(Concentration { dimension, place, of_them, of_others, count: counts[0] as u64, by_chance, text })
        })
        .collect();
    found.sort_by(|a, b| (b.of_them - b.of_others).total_cmp(&(a.of_them - a.of_others)));
    found
}

/// The places of a request.
fn of(facts: &Facts<'_>, request: &Request) -> Vec<Place> {
    let fast = facts.kinds.fast(request).map(|fast| fast.ns);
    let is_behind = request
        .before_ns
        .zip(fast)
        .is_some_and(|(before_ns, fast_ns)| before_ns as f64 > (SLOW_TIMES * fast_ns).max(fast_ns + SLOW_BY_NS));
    let mut places = vec![
        (Dimension::Ordinal, u64::from(request.ordinal == 1)),
        (Dimension::Predecessor, u64::from(is_behind)),
        (Dimension::Entry, u64::from(request.entry)),
        (Dimension::Worker, u64::from(request.worker)),
        (Dimension::Address, u64::from(request.origin) << 16 | u64::from(request.address)),
    ];
    // One that never left has no size: that it was not sent is what its failure says already.
    places.extend(request.sent_bytes.checked_ilog2().map(|log2| (Dimension::Size, u64::from(log2))));
    places
}

/// A place in words; `None`: that they are not somewhere is no news.
fn words(facts: &Facts<'_>, dimension: Dimension, which: u64) -> Option<String> {
    match dimension {
        Dimension::Ordinal => (which == 1).then(|| "the first on their connection".to_owned()),
        Dimension::Predecessor => (which == 1).then(|| "behind a slow one on their connection".to_owned()),
        // A URL may hold a secret: its number in the plan tells as well which it is.
        Dimension::Entry => Some(format!("of the plan's URL or command {}", which + 1)),
        Dimension::Size => {
            let (low, high) = (1u64 << which.min(32), (2u64 << which.min(32)) - 1);
            Some(format!("of {low} to {high} bytes sent"))
        }
        Dimension::Worker => Some(format!("of the generator's worker {which}")),
        Dimension::Address => {
            let origin = facts.recording.plan.origins.get(usize::try_from(which >> 16).ok()?)?;
            Some(format!("to {}", origin.addresses.get(usize::try_from(which & 0xffff).ok()?)?))
        }
    }
}

/// The likelihood ratio G of those that are at a place, of two sides.
fn likelihood(here: [f64; 2], counts: [f64; 2]) -> f64 {
    let (all_here, all) = (here[0] + here[1], counts[0] + counts[1]);
    let term = |seen: f64, expected: f64| if seen > 0.0 { seen * (seen / expected).ln() } else { 0.0 };
    let sides = here
        .into_iter()
        .zip(counts)
        .map(|(here, count)| term(here, count * all_here / all) + term(count - here, count * (all - all_here) / all));
    2.0 * sides.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likelihood_ratio_is_that_of_a_worked_example() {
        // 30 of 100 beside 10 of 100, expected 20 each: 2 (30 ln 1.5 + 70 ln 0.875 + 10 ln 0.5 + 90 ln 1.125).
        assert!((likelihood([30.0, 10.0], [100.0, 100.0]) - 12.9715).abs() < 1e-3);
        assert!(likelihood([50.0, 5.0], [100.0, 10.0]).abs() < 1e-9);
        assert!(likelihood([0.0, 10.0], [100.0, 100.0]).is_finite());
    }
}
