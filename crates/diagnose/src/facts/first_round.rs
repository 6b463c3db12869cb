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
//!
//! All of a burst begin together, too, and in each nobody stands before its first. Where they are answered in their turn they end at even times,
//! the last when the burst is over; where each takes long by itself, all end together.
//!
//! How many are served at a time is then told twice, by how many of the first were as quick as the quickest, and by Little's law, the rate
//! times what one takes alone. It is said where both agree: a server that is cold is slow for its first requests, and then they do not.

use super::{Facts, duration};
use crate::statistics::at_least_by_chance;
use model::latency::Kind;
use model::plan::Pace;
use model::request::{Gap, Request, RequestEnd};
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
/// Those of the first that take so many times the quickest at most are served with it, and by Little's law about as many are: so many times
/// their number at most, and no fewer than that part of it. Where one is served, and the first request takes N times as long as later ones,
/// as the server is cold, the rate says N and the first say 1 + N / 5, of which this is no multiple.
const WITH_IT: f64 = 1.2;
const AGREE: f64 = 2.0;
/// The quickest alone was served, and one at a time is by its rate, to what one can tell.
const ALONE_MAX: f64 = 1.4;
const ALONE_MIN: f64 = 0.6;
/// The quickest took this part at most of what lies between two replies, which come evenly: nobody works at the others all that time.
const PACED_MAX: f64 = 0.2;
/// A span without a reply is long from so many times their mean distance on, and they come evenly where such take less of the time than this.
const LONG_SPAN: f64 = 3.0;
const LONG_SPANS_MAX: f64 = 0.2;
/// By the clock, no more than this part of what was due was answered; and the quickest took so little of what half of all took that it found
/// nobody before it.
const BEYOND_MAX: f64 = 0.95;
const ALONE_PART: f64 = 0.2;
/// A burst is worked through evenly where a quarter and three quarters of it have ended after half and one and a half times what half of it took,
/// to what machines that are shared leave of that.
const QUARTER_OF_HALF: std::ops::RangeInclusive<f64> = 0.35..=0.65;
const THREE_OF_HALF: std::ops::RangeInclusive<f64> = 1.3..=1.7;
/// Less likely than this by chance, as one in so many of all requests is quick.
const CHANCE_MAX: f64 = 1e-4;

/// What the first requests of a run say, each of which found nobody before it, or only others of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirstRound {
    /// Some were answered soon, and others, as all later ones, when their turn came.
    Queued {
        /// How many of the first were looked at; 0: by the clock, the quickest of all.
        firsts: usize,
        /// The quickest, nanoseconds.
        quickest_ns: f64,
        /// What half of all requests take and more, nanoseconds.
        half_ns: f64,
        /// How many are served at a time; `None`: it is not clear.
        at_a_time: Option<u32>,
        /// How long it is from one reply to the next, nanoseconds, where one that finds nobody before it takes far less than that.
        paced_ns: Option<f64>,
    },
    /// They took as long as all others: requests do not wait for each other.
    Alike {
        /// How many of the first were looked at.
        firsts: usize,
    },
}

impl FirstRound {
    /// How many requests are served at a time, where that is clear.
    pub fn at_a_time(&self) -> Option<u32> {
        match self {
            FirstRound::Queued { at_a_time, .. } => *at_a_time,
            FirstRound::Alike { .. } => None,
        }
    }

    /// As a sentence of the requests, which are called `who`.
    pub fn said(&self, who: &str) -> String {
        match self {
            FirstRound::Queued { firsts, quickest_ns, at_a_time, paced_ns, .. } => {
                let of = if *firsts == 0 { "all".to_owned() } else { format!("the first {firsts}") };
                if let Some(paced_ns) = paced_ns {
                    return format!(
                        "{who} are let through one every {}, though alone one takes {} (the quickest of {of})",
                        duration(*paced_ns),
                        duration(*quickest_ns)
                    );
                }
                let room = match at_a_time {
                    Some(1) => ", and one is served at a time".to_owned(),
                    // What the quickest took may have been more than its work.
                    Some(count) if *firsts == 0 => format!(", and at most about {count} are served at a time"),
                    Some(count) => format!(", and about {count} are served at a time"),
                    None => String::new(),
                };
                format!("{who} wait for each other{room} (of {of} the quickest took {})", duration(*quickest_ns))
            }
            FirstRound::Alike { firsts } => {
                format!("each takes so long by itself (so did the first {firsts}, which found nobody before them)")
            }
        }
    }
}

impl Facts<'_> {
    /// See [`FirstRound`]; `None`: connections are held, its beginning was not measured, too few of the first were sampled, or they say
    /// neither.
    pub fn first_round(&self) -> Option<FirstRound> {
        if matches!(self.recording.plan.pace, Pace::Open { .. }) {
            return self.beyond();
        }
        if matches!(self.recording.plan.pace, Pace::Burst { .. }) {
            return self.of_bursts();
        }
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
            let answered_per_s = self.recording.totals.requests_per_s();
            let at_a_time = at_a_time(&firsts, self.recording.plan.connections, quickest_ns, answered_per_s);
            let paced_ns = 1e9 / answered_per_s.max(1e-9);
            let paced_ns = Some(paced_ns).filter(|ns| quickest_ns <= PACED_MAX * ns && self.ends_evenly());
            return Some(FirstRound::Queued { firsts: count, quickest_ns, half_ns, at_a_time, paced_ns });
        }
        let is_near = |ns: f64| ns >= half_ns / ALIKE && ns <= half_ns * ALIKE;
        let are_alike = is_near(quickest_ns)
            && is_near(longest_ns)
            && is_near(service.value_at_quantile(0.1) as f64)
            && is_near(service.value_at_quantile(0.9) as f64);
        (count >= ALIKE_MIN && are_alike).then_some(FirstRound::Alike { firsts: count })
    }

    /// The same of requests that are due by the clock, of which it answers fewer than come: the first of them found nobody before them, and the
    /// quickest took as long as one takes alone.
    fn beyond(&self) -> Option<FirstRound> {
        let service = self.latency(Kind::Service);
        let due = self.due(self.start_ns, self.end_ns).filter(|_| self.is_constant_rate())?;
        let answered = self.recording.totals.in_time.ok_arrived() as f64;
        let answered_per_s = self.recording.totals.requests_per_s();
        if service.is_empty() || answered > BEYOND_MAX * due || answered_per_s <= 0.0 {
            return None;
        }
        let (quickest_ns, half_ns) = (service.min() as f64, service.value_at_quantile(0.5) as f64);
        let by_rate = answered_per_s * quickest_ns / 1e9;
        let paced_ns = Some(1e9 / answered_per_s).filter(|ns| quickest_ns <= PACED_MAX * ns && self.ends_evenly());
        let at_a_time = Some(by_rate).filter(|count| *count >= ALONE_MIN).map(|count| count.round().max(1.0) as u32);
        let is_told = paced_ns.is_some() || at_a_time.is_some();
        // Where all wait for their turn hardly any are quick, but the first; where they differ by themselves many are.
        let is_rare = service.value_at_quantile(0.1) as f64 >= QUICK * half_ns;
        let is_alone = quickest_ns <= ALONE_PART * half_ns && is_rare;
        (is_alone && is_told).then_some(FirstRound::Queued { firsts: 0, quickest_ns, half_ns, at_a_time, paced_ns })
    }

    /// The same of bursts, all of them together.
    fn of_bursts(&self) -> Option<FirstRound> {
        let size = self.recording.plan.connections;
        let service = self.latency(Kind::Service);
        let firsts = usize::try_from(size).ok().filter(|firsts| *firsts >= ALIKE_MIN)?;
        if service.is_empty() {
            return None;
        }
        let at = |quantile: f64| service.value_at_quantile(quantile) as f64;
        let (quickest_ns, half_ns) = (service.min() as f64, at(0.5));
        let is_near = |ns: f64| ns >= half_ns / ALIKE && ns <= half_ns * ALIKE;
        if is_near(at(0.1)) && is_near(at(0.9)) {
            return Some(FirstRound::Alike { firsts });
        }
        let is_even = QUARTER_OF_HALF.contains(&(at(0.25) / half_ns)) && THREE_OF_HALF.contains(&(at(0.75) / half_ns));
        // From a quarter to three quarters of a burst half of it is served.
        let served_per_ns = 0.5 * f64::from(size) / (at(0.75) - at(0.25)).max(1.0);
        let by_rate = served_per_ns * quickest_ns;
        let at_a_time = Some(by_rate).filter(|count| *count >= ALONE_MIN).map(|count| count.round().max(1.0) as u32);
        let is_alone = quickest_ns <= ALONE_PART * half_ns;
        (is_even && is_alone).then_some(FirstRound::Queued { firsts, quickest_ns, half_ns, at_a_time, paced_ns: None })
    }

    /// Whether requests ended at even times: next to nothing of the time was in spans, of several times their mean distance, in which none did.
    pub fn ends_evenly(&self) -> bool {
        let whole_ns = self.end_ns.saturating_sub(self.start_ns) as f64;
        let long_ns = LONG_SPAN * 1e9 / self.recording.totals.requests_per_s().max(1e-9);
        let gaps = self.recording.requests.common_gaps(self.recording.plan.threads.max(1));
        let is_within = |gap: &&Gap| gap.from_ns >= self.start_ns && gap.from_ns < self.end_ns && gap.in_flight > 0;
        let lengths_ns = gaps.iter().filter(is_within).map(|gap| gap.length_ns() as f64);
        lengths_ns.filter(|ns| *ns > long_ns).sum::<f64>() < LONG_SPANS_MAX * whole_ns
    }
}

/// How many requests are served at a time, by the times of the first (nanoseconds), which are a sample of so many, and by how many are
/// answered a second.
fn at_a_time(firsts: &[f64], of: u32, quickest_ns: f64, answered_per_s: f64) -> Option<u32> {
    let with_it = firsts.iter().filter(|ns| **ns <= WITH_IT * quickest_ns).count();
    let by_first = with_it as f64 * (f64::from(of) / firsts.len() as f64).max(1.0);
    let by_rate = answered_per_s * quickest_ns / 1e9;
    let agree = match with_it {
        1 => (ALONE_MIN..=ALONE_MAX).contains(&by_rate),
        _ => by_rate <= AGREE * by_first && by_first <= AGREE * by_rate,
    };
    agree.then(|| by_rate.round().max(1.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_served_at_a_time_is_said_where_the_first_and_the_rate_agree() {
        let told = |all: &[f64], of: u32, rate: f64| {
            let ns: Vec<f64> = all.iter().map(|ms| ms * 1e6).collect();
            at_a_time(&ns, of, ns[0], rate)
        };
        assert_eq!(told(&[10.2, 10.3, 10.4, 10.4, 10.9, 20.3, 20.5, 30.0], 8, 495.0), Some(5), "five of 10 ms");
        assert_eq!(told(&[10.2, 10.3, 20.3, 20.5, 30.0, 40.1], 15, 495.0), Some(5), "of fifteen, six were sampled");
        assert_eq!(told(&[3.1, 5.2, 7.3, 9.4], 4, 440.0), Some(1), "one of 2.2 ms");
        // One of 5 ms, and the first request takes longer, as nothing is compiled yet.
        for cold_ms in [7.5, 10.0, 25.0, 30.0, 50.0, 100.0] {
            let all: Vec<f64> = (0..16).map(|n| cold_ms + 5.0 * f64::from(n)).collect();
            assert_eq!(told(&all, 16, 200.0).filter(|count| *count > 1), None, "{cold_ms} ms");
        }
    }
}
