//! The first requests of a run beside all later ones: whether requests wait for each other, told from the client's side alone.
//!
//! In a closed loop all connections begin together. The first requests find nobody before them, so where a server has room for a few at a
//! time, the first of them are answered as soon as one request alone would be, and the last after all others have had their turn; every
//! later one finds as many before it as there are connections, and takes as long as the last of the first. Where each takes long by
//! itself, the first take as long as all others. That is asked of the sample of single requests, and of the histogram of all.
//!
//! A server that is cold is slower at first: that hides a line, and makes none. One that is slower from a connection's second request on
//! (a delayed ACK) answers all first ones soon, the last of them too. So requests are said to wait for each other only where some of the
//! first were quick and others took as long as later ones.

use super::{Facts, duration};
use crate::statistics::at_least_by_chance;
use model::latency::Kind;
use model::plan::Pace;
use model::request::{Request, RequestEnd};
use std::collections::BTreeMap;

/// Quick is so much of what half of all requests take.
const QUICK: f64 = 0.7;
/// Some of the first took so much of what half of all take: they stood behind the others.
const LAST: f64 = 0.9;
/// So many first requests must be in the sample.
const FIRSTS_MIN: usize = 4;
/// And so many, to say that they took as long.
const ALIKE_MIN: usize = 8;
/// Times that are within so much of each other are alike.
const ALIKE: f64 = 1.25;
/// Less likely than this by chance, as one in so many of all requests is quick.
const CHANCE_MAX: f64 = 1e-4;

/// What the first requests of a run say, each of which found nobody before it, or only others of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirstRound {
    /// Some were answered soon, and others, as all later ones, when their turn came.
    Queued {
        /// How many of the first were looked at.
        firsts: usize,
        /// The quickest, nanoseconds.
        quickest_ns: f64,
        /// What half of all requests take and more, nanoseconds.
        half_ns: f64,
    },
    /// They took as long as all others: requests do not wait for each other.
    Alike {
        /// How many of the first were looked at.
        firsts: usize,
    },
}

impl FirstRound {
    /// As a sentence of the requests, which are called `who`.
    pub fn said(&self, who: &str) -> String {
        match self {
            FirstRound::Queued { firsts, quickest_ns, .. } => {
                format!(
                    "{who} wait for each other (of the first {firsts} the quickest took {})",
                    duration(*quickest_ns)
                )
            }
            FirstRound::Alike { firsts } => {
                format!("each takes so long by itself (so did the first {firsts}, which found nobody before them)")
            }
        }
    }
}

impl Facts<'_> {
    /// See [`FirstRound`]; `None`: it was no closed loop, its beginning was not measured, too few of the first were sampled, or they say
    /// neither.
    pub fn first_round(&self) -> Option<FirstRound> {
        if !matches!(self.recording.plan.pace, Pace::Closed { .. }) {
            return None;
        }
        let service = self.latency(Kind::Service);
        if service.is_empty() {
            return None;
        }
        let half_ns = service.value_at_quantile(0.5) as f64;
        let took_ns = |request: &Request| request.service_ns().filter(|_| request.end == RequestEnd::Ok);
        let requests = &self.recording.requests;
        // The slowest of the first are kept besides: they make a line less likely, not more.
        let good = || requests.drawn().chain(requests.slowest()).filter(|request| took_ns(request).is_some());
        let first_end_ns = good().map(|request| request.ended_ns).min()?;
        let is_first = |request: &&Request| request.ordinal == 1 && request.sent_ns <= first_end_ns;
        let place = |request: &Request| (request.worker, request.connection, request.life);
        let firsts: BTreeMap<_, _> = good().filter(is_first).map(|one| (place(one), took_ns(one))).collect();
        let mut firsts: Vec<f64> = firsts.into_values().flatten().map(|ns| ns as f64).collect();
        firsts.sort_by(f64::total_cmp);
        let (&quickest_ns, &longest_ns) = firsts.first().zip(firsts.last())?;
        let count = firsts.len();
        // The first are among all: so this is a little more than what is quick of later ones, and errs to the safe side.
        let is_quick = |ns: f64| ns <= QUICK * half_ns;
        let of_all = service.iter_recorded().filter(|(ns, _)| is_quick(*ns as f64)).map(|(_, count)| count as f64);
        let share = (of_all.sum::<f64>() + 1.0) / (service.len() as f64 + 1.0);
        let quick = firsts.iter().filter(|ns| is_quick(**ns)).count();
        let by_chance = at_least_by_chance(count as u64, quick as u64, share);
        if count >= FIRSTS_MIN && longest_ns >= LAST * half_ns && by_chance < CHANCE_MAX {
            return Some(FirstRound::Queued { firsts: count, quickest_ns, half_ns });
        }
        let is_near = |ns: f64| ns >= half_ns / ALIKE && ns <= half_ns * ALIKE;
        let are_alike = is_near(quickest_ns)
            && is_near(longest_ns)
            && is_near(service.value_at_quantile(0.1) as f64)
            && is_near(service.value_at_quantile(0.9) as f64);
        (count >= ALIKE_MIN && are_alike).then_some(FirstRound::Alike { firsts: count })
    }
}
