//! What of a plan one worker does: its connections, its origins, its count of requests.
//!
//! Connections are dealt origin by origin, so that every worker gets some to every origin where there are enough. Where
//! there are not, a worker takes up only requests for origins that it has connections to, and a share of the rate that
//! is as large: requests to an origin are split over the workers by their connections to it. So all that is due leaves,
//! and each origin gets its weight of it, whatever the numbers.

use crate::pace::Part;
use model::plan::{Pace, Plan, Segment};
use std::ops::Range;

/// A connection of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealt {
    /// The origin it belongs to.
    pub origin: u16,
    /// Its number among that origin's connections, over all workers: which of the origin's addresses it takes first.
    pub turn: u32,
}

/// One worker's part.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its number among all workers of the plan, from 0: what is its own follows from it.
    pub worker: u16,
    /// Its index among the workers of this process, from 0: other ones may be elsewhere.
    pub index: u16,
    /// How many workers there are in this process.
    pub workers_here: u16,
    /// Its connections.
    pub slots: Vec<Dealt>,
    /// Measured requests it may start; `None`: as many as there is time for.
    pub requests: Option<u64>,
    /// Open pace: which of all requests are its own.
    pub arrivals: Part,
    /// Open pace: the share of its requests that goes to each origin; 0 where it has no connection to it.
    pub origin_weights: Vec<f64>,
}

/// Splits a plan over its workers.
pub fn shares(plan: &Plan) -> Vec<Share> {
    let workers = plan.threads.max(1);
    let dealt = deal(plan, workers);
    let weights = origin_weights(plan);
    let counts: Vec<Vec<u32>> = dealt.iter().map(|slots| counted(slots, weights.len())).collect();
    let has_all = counts.iter().all(|of_worker| of_worker.iter().zip(&weights).all(|(n, w)| *n > 0 || *w <= 0.0));
    let in_all: Vec<u32> = (0..weights.len()).map(|origin| counts.iter().map(|c| c[origin]).sum()).collect();
    // Of each origin's requests a worker takes up as many as it has of its connections.
    let of_origins = |worker: usize| -> Vec<f64> {
        let share = |origin: usize| f64::from(counts[worker][origin]) / f64::from(in_all[origin].max(1));
        (0..weights.len()).map(|origin| weights[origin] * share(origin)).collect()
    };
    let is_open = matches!(plan.pace, Pace::Open { .. });
    // Requests are counted out as they are put on: by the clock, or by connections.
    let parts: Vec<f64> = dealt
        .iter()
        .enumerate()
        .map(|(worker, slots)| match (is_open, has_all) {
            (true, true) => 1.0,
            (true, false) => of_origins(worker).iter().sum(),
            (false, _) => slots.len() as f64,
        })
        .collect();
    let quotas = plan.stop.requests.map(|requests| apportion(requests, &parts));
    let total: f64 = parts.iter().sum();
    dealt
        .into_iter()
        .zip(0..workers)
        .map(|(slots, worker)| {
            let index = usize::from(worker);
            let arrivals = if has_all {
                Part::equal(worker, workers)
            } else {
                Part::of_share(parts[index] / total.max(f64::MIN_POSITIVE), worker, workers)
            };
            Share {
                worker,
                index: worker,
                workers_here: workers,
                slots,
                requests: quotas.as_ref().map(|quotas| quotas[index]),
                arrivals,
                origin_weights: if has_all { weights.clone() } else { of_origins(index) },
            }
        })
        .collect()
}

/// The shares of some of a plan's workers, where others are in other processes.
pub fn shares_of(plan: &Plan, workers: &Range<u16>) -> Vec<Share> {
    let own = shares(plan).into_iter().filter(|share| workers.contains(&share.worker));
    let mut own: Vec<Share> = own.zip(0..).map(|(share, index)| Share { index, ..share }).collect();
    let workers_here = own.len() as u16;
    own.iter_mut().for_each(|share| share.workers_here = workers_here);
    own
}

/// What some of a plan's workers do, as a plan: for the recording and the judging of the process that they are in. The load
/// itself is put on by the whole plan, as each worker's part of it follows from its number among all.
pub fn plan_of(plan: &Plan, workers: &Range<u16>) -> Plan {
    let all = shares(plan);
    let own = || all.iter().filter(|share| workers.contains(&share.worker));
    let connections: usize = own().map(|share| share.slots.len()).sum();
    let rate = |part: &Part| if part.step.is_finite() { 1.0 / part.step } else { 0.0 };
    let of_rate: f64 = own().map(|share| rate(&share.arrivals)).sum();
    let mut part = plan.clone();
    part.connections = connections as u32;
    part.threads = own().count() as u16;
    part.stop.requests = plan.stop.requests.map(|_| own().filter_map(|share| share.requests).sum());
    match &mut part.pace {
        Pace::Open { profile, .. } => {
            for Segment { from_per_s, to_per_s, .. } in profile {
                *from_per_s *= of_rate;
                *to_per_s *= of_rate;
            }
        }
        Pace::Held { connects_per_s, .. } => {
            *connects_per_s *= connections as f64 / f64::from(plan.connections.max(1));
        }
        Pace::Closed { .. } | Pace::Burst { .. } => {}
    }
    part
}

/// The connections of each worker: in turn, origin by origin.
fn deal(plan: &Plan, workers: u16) -> Vec<Vec<Dealt>> {
    let mut dealt = vec![Vec::new(); usize::from(workers)];
    let mut next = 0;
    for (count, origin) in connections_of_origins(plan).into_iter().zip(0..) {
        for turn in 0..count {
            dealt[next].push(Dealt { origin, turn });
            next = (next + 1) % usize::from(workers);
        }
    }
    dealt
}

fn counted(slots: &[Dealt], origins: usize) -> Vec<u32> {
    let mut counts = vec![0; origins];
    for slot in slots {
        counts[usize::from(slot.origin)] += 1;
    }
    counts
}

/// Each origin's share of all requests, 0..=1. An origin without a connection gets none: there are fewer connections than
/// origins then, which resolving refuses.
fn origin_weights(plan: &Plan) -> Vec<f64> {
    let connected = connections_of_origins(plan);
    let weight = |(origin, n): (&model::plan::Origin, &u32)| if *n > 0 { origin.weight.max(0.0) } else { 0.0 };
    let weights: Vec<f64> = plan.origins.iter().zip(&connected).map(weight).collect();
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return vec![1.0 / weights.len().max(1) as f64; weights.len()];
    }
    weights.into_iter().map(|weight| weight / total).collect()
}

/// How many connections each origin gets: by weight, at least one if there are enough (largest remainder).
fn connections_of_origins(plan: &Plan) -> Vec<u32> {
    let weights: Vec<f64> = plan.origins.iter().map(|origin| origin.weight.max(0.0)).collect();
    let connections = u64::from(plan.connections);
    let origins = weights.len() as u64;
    if connections <= origins {
        return (0..origins).map(|i| u32::from(i < connections)).collect();
    }
    let more = apportion(connections, &weights);
    let mut counts: Vec<u64> = more;
    // What has none takes from what has most.
    while let Some(none) = counts.iter().position(|n| *n == 0) {
        let most = (0..counts.len()).max_by_key(|i| counts[*i]).unwrap_or(none);
        counts[most] -= 1;
        counts[none] += 1;
    }
    counts.into_iter().map(|n| n as u32).collect()
}

/// Splits a number by weights into whole parts that add up to it (Hamilton's method: the largest remainders get the
/// rest).
fn apportion(n: u64, weights: &[f64]) -> Vec<u64> {
    let total: f64 = weights.iter().sum();
    let exact = |weight: f64| if total > 0.0 { n as f64 * weight / total } else { n as f64 / weights.len() as f64 };
    let mut parts: Vec<u64> = weights.iter().map(|weight| exact(*weight) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let remainder = |i: &usize| exact(weights[*i]).fract();
    order.sort_by(|a, b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(b)));
    let given: u64 = parts.iter().sum();
    for i in order.into_iter().cycle().take(n.saturating_sub(given) as usize) {
        parts[i] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::*;

    fn plan(connections: u32, threads: u16, weights: &[f64]) -> Plan {
        let mut plan = testkit::recordings::any_plan();
        let origin = plan.origins[0].clone();
        plan.origins = weights.iter().map(|weight| Origin { weight: *weight, ..origin.clone() }).collect();
        (plan.connections, plan.threads) = (connections, threads);
        let profile = vec![Segment { from_per_s: 1000.0, to_per_s: 1000.0, for_ns: 1 }];
        plan.pace = Pace::Open { profile, arrivals: Arrivals::Constant };
        plan
    }

    /// The share of all requests that goes to each origin, by what each worker takes up and draws.
    fn drawn(shares: &[Share], origins: usize) -> Vec<f64> {
        let mut all = vec![0.0; origins];
        for share in shares {
            let total: f64 = share.origin_weights.iter().sum();
            for (origin, weight) in share.origin_weights.iter().enumerate().filter(|_| total > 0.0) {
                all[origin] += weight / total / share.arrivals.step;
            }
        }
        all
    }

    #[test]
    fn whatever_the_numbers_each_origin_gets_its_weight_and_no_worker_draws_what_it_cannot_send() {
        for connections in 1..20 {
            for threads in 1..=connections.min(9) as u16 {
                for weights in [&[1.0][..], &[1.0, 1.0], &[3.0, 1.0], &[1.0, 1.0, 1.0, 5.0], &[0.1; 8]] {
                    if (connections as usize) < weights.len() {
                        continue;
                    }
                    let what = format!("{connections} connections, {threads} workers, {weights:?}");
                    let shares = shares(&plan(connections, threads, weights));
                    assert_eq!(shares.iter().map(|s| s.slots.len()).sum::<usize>(), connections as usize, "{what}");
                    for share in &shares {
                        for (origin, weight) in share.origin_weights.iter().enumerate() {
                            let has = share.slots.iter().any(|slot| usize::from(slot.origin) == origin);
                            assert!(has || *weight == 0.0, "{what}: worker {} draws {origin}", share.worker);
                        }
                        assert!(share.slots.len().abs_diff(connections as usize / usize::from(threads)) <= 1, "{what}");
                    }
                    let total: f64 = weights.iter().sum();
                    for (got, weight) in drawn(&shares, weights.len()).into_iter().zip(weights) {
                        assert!((got - weight / total).abs() < 1e-9, "{what}: {got}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_addresses_of_an_origin_are_taken_in_turn_over_all_workers() {
        for (threads, weights) in [(1, &[1.0, 1.0][..]), (2, &[1.0, 1.0]), (3, &[2.0, 1.0])] {
            let shares = shares(&plan(12, threads, weights));
            for origin in 0..weights.len() as u16 {
                let slots = shares.iter().flat_map(|share| &share.slots).filter(|slot| slot.origin == origin);
                let mut turns: Vec<u32> = slots.map(|slot| slot.turn).collect();
                turns.sort_unstable();
                assert_eq!(turns, (0..turns.len() as u32).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_count_of_requests_is_split_whole() {
        let mut plan = plan(5, 2, &[1.0]);
        plan.stop.requests = Some(11);
        plan.pace = Pace::Closed { think: Think::None };
        let requests: Vec<_> = shares(&plan).into_iter().map(|share| share.requests).collect();
        assert_eq!(requests, [Some(7), Some(4)], "by connections: three and two");
        assert_eq!(apportion(7, &[1.0, 1.0, 1.0]), [3, 2, 2]);
        assert_eq!(apportion(0, &[1.0, 2.0]), [0, 0]);
    }

    /// However the workers lie in processes, together they are the plan.
    #[test]
    fn parts_of_a_plan_are_together_the_whole() {
        for (connections, threads, weights) in [(12, 5, &[1.0][..]), (7, 6, &[3.0, 1.0]), (9, 9, &[0.1; 8])] {
            let mut plan = plan(connections, threads, weights);
            plan.stop.requests = Some(1001);
            let all = shares(&plan);
            for cuts in [vec![0, threads], vec![0, 1, threads], vec![0, 2, 3, 5, threads]] {
                let ranges: Vec<Range<u16>> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
                let parts: Vec<Share> = ranges.iter().flat_map(|range| shares_of(&plan, range)).collect();
                let whole: Vec<Share> =
                    parts.into_iter().map(|s| Share { index: s.worker, workers_here: threads, ..s }).collect();
                assert_eq!(whole, all);
                let plans: Vec<Plan> = ranges.iter().map(|range| plan_of(&plan, range)).collect();
                assert_eq!(plans.iter().map(|p| p.connections).sum::<u32>(), connections);
                assert_eq!(plans.iter().map(|p| p.threads).sum::<u16>(), threads);
                assert_eq!(plans.iter().filter_map(|p| p.stop.requests).sum::<u64>(), 1001);
                let rate = |plan: &Plan| match &plan.pace {
                    Pace::Open { profile, .. } => profile[0].from_per_s,
                    _ => 0.0,
                };
                assert!((plans.iter().map(rate).sum::<f64>() - 1000.0).abs() < 1e-6);
            }
        }
    }
}
