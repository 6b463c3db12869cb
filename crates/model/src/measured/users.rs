//! How replies were spread over the connections: users, not only requests.
//!
//! A closed loop's fast users outvote the slow ones: of forty, eight that are served a thousand times a second hide
//! thirty-two that never are. So what each connection got is counted, and summed up here; the response times a user
//! meets are those of [`time_quantile`], in which each request counts for as long as it took.

use crate::latency::{AtLeast, Kind, LatencySet};
use hdrhistogram::Counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A connection starves where it got less than this share of what those well served by its origin got.
pub const HARDLY_SHARE: f64 = 0.1;
/// Nor has it been served when its last reply is further back than this share of the measured time.
pub const SILENT_SHARE: f64 = 0.25;
/// Replies that one well served must have had before others can be called starved.
pub const REPLIES_MIN: u64 = 10;

/// What one connection was asked and gave, over all its lives, warm-up excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// The plan's origin that it goes to.
    pub origin: u16,
    /// Requests that it took up, those that waited for it to be made included.
    pub asked: u32,
    /// Replies that came, whatever they said.
    pub answered: u32,
    /// When its last reply came, milliseconds since the run's start; 0: none has.
    pub last_reply_ms: u32,
    /// Since when its oldest request without a reply has been due, milliseconds since the run's start; `u32::MAX`: it has
    /// none.
    pub waits_since_ms: u32,
}

impl Tally {
    /// Adds a life of the connection: requests sent, and replies.
    pub fn add(&mut self, sent: u32, answered: u32) {
        self.asked = self.asked.wrapping_add(sent);
        self.answered = self.answered.wrapping_add(answered);
    }

    /// Leaves out all that was until now, of earlier lives and of the present one, which has sent and given so much.
    pub fn forget(&mut self, sent: u32, answered: u32) {
        // The present life is added when it ends: what it has done so far is taken off beforehand.
        (self.asked, self.answered) = (0u32.wrapping_sub(sent), 0u32.wrapping_sub(answered));
        self.last_reply_ms = 0;
    }

    /// A reply came.
    #[inline]
    pub fn replied(&mut self, at_ns: u64) {
        self.last_reply_ms = (at_ns / 1_000_000).min(u64::from(u32::MAX)) as u32;
    }

    /// At the end: a request that was due then has no reply.
    pub fn waits_for(&mut self, intended_ns: u64) {
        self.waits_since_ms = self.waits_since_ms.min((intended_ns / 1_000_000).min(u64::from(u32::MAX - 1)) as u32);
        if self.asked == self.answered {
            // One that waits for a connection was asked all the same.
            self.asked = self.asked.wrapping_add(1);
        }
    }
}

/// How the replies were spread.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Users {
    /// Connections that were asked something.
    pub connections: u64,
    /// Of those, the ones that never gave a reply.
    pub never_served: u64,
    /// Replies of the one served least.
    pub served_min: u64,
    /// Replies of the one served most.
    pub served_max: u64,
    /// Replies of all.
    pub served: u64,
    /// Jain's fairness index of the replies, 1/n..=1: (Σx)² / (n Σx²); 1: all were served alike. R. Jain, D. Chiu,
    /// W. Hawe, "A quantitative measure of fairness", DEC TR-301 (1984). 1 where there was no reply.
    pub jain_index: f64,
    /// Connections that starved while others were served: never or hardly served, or silent for long at the end.
    pub starved: u64,
    /// Since when the first of those has waited, milliseconds since the run's start; `None` where none starved.
    pub starved_since_ms: Option<u64>,
}

impl Users {
    /// Sums tallies up. `from_ms` to `to_ms` is the measured time; times are since the run's start. `always_asks`: each connection was
    /// asked again as soon as it had answered, as in a closed loop without think time.
    pub fn of(tallies: &[Tally], from_ms: u64, to_ms: u64, always_asks: bool) -> Self {
        let mut asked: Vec<&Tally> = tallies.iter().filter(|tally| tally.asked > 0).collect();
        if asked.is_empty() {
            return Users { jain_index: 1.0, ..Users::default() };
        }
        asked.sort_unstable_by_key(|tally| tally.answered);
        let (first, last) = (asked[0], asked[asked.len() - 1]);
        let served: u64 = asked.iter().map(|tally| u64::from(tally.answered)).sum();
        let squares: f64 = asked.iter().map(|tally| f64::from(tally.answered).powi(2)).sum();
        // Of two origins one may take longer by what it is asked: that is no want of its users beside the other's.
        let mut of_origin: BTreeMap<u16, Vec<&Tally>> = BTreeMap::new();
        asked.iter().for_each(|tally| of_origin.entry(tally.origin).or_default().push(tally));
        let usual: BTreeMap<u16, u32> = of_origin.iter().map(|(origin, asked)| (*origin, well_served(asked))).collect();
        let well_served = u64::from(well_served(&asked));
        let silent_ms = (to_ms.saturating_sub(from_ms) as f64 * SILENT_SHARE) as u64;
        let starves = |tally: &Tally| {
            // What it was not asked for it could not serve: an open pace asks the connections that are free. One that is always asked had
            // answered all the same when the load had ended, and was waited for.
            let was_asked_enough = always_asks || tally.asked > tally.answered;
            // Of an open pace it may have been due long before it left, behind others: the connection gave replies meanwhile.
            let waits_ms = to_ms.saturating_sub(u64::from(tally.waits_since_ms.max(tally.last_reply_ms)));
            let is_silent = tally.waits_since_ms != u32::MAX && waits_ms > silent_ms;
            let of_its_origin = usual.get(&tally.origin).copied().unwrap_or(0);
            let hardly = f64::from(tally.answered) < HARDLY_SHARE * f64::from(of_its_origin);
            was_asked_enough && (is_silent || hardly || tally.answered == 0)
        };
        let starving: Vec<&&Tally> = asked.iter().filter(|tally| starves(tally)).collect();
        let others_were_served = well_served >= REPLIES_MIN && starving.len() < asked.len();
        let (starved, since) = if others_were_served {
            let since = |tally: &&&Tally| u64::from(tally.last_reply_ms).max(from_ms);
            (starving.len() as u64, starving.iter().map(since).min())
        } else {
            (0, None)
        };
        Users {
            connections: asked.len() as u64,
            never_served: asked.iter().filter(|tally| tally.answered == 0).count() as u64,
            served_min: u64::from(first.answered),
            served_max: u64::from(last.answered),
            served,
            jain_index: if squares > 0.0 { (served as f64).powi(2) / (asked.len() as f64 * squares) } else { 1.0 },
            starved,
            starved_since_ms: since,
        }
    }
}

/// What a connection that is well served got: the median of those that got anything, so that neither the starving
/// nor a single lucky one decides. `asked` ascends by replies and is not empty.
fn well_served(asked: &[&Tally]) -> u32 {
    let first = asked.partition_point(|tally| tally.answered == 0);
    asked[first..].get((asked.len() - first) / 2).map_or(0, |tally| tally.answered)
}

/// The quantile over users' time: how long the request takes that a user has under way at a moment drawn from all
/// users' waiting. Each request counts by its length (length-biased sampling; D. R. Cox, "Some sampling problems in
/// technology", 1969), successes, failures and those that had not ended together. `None` where nothing was waited for.
pub fn time_quantile<C: Counter>(latency: &LatencySet<C>, quantile: f64) -> Option<AtLeast> {
    let kinds = [Kind::Response, Kind::Failed, Kind::ResponseCensored];
    let mut waits: Vec<(u64, f64)> = Vec::new();
    for kind in kinds {
        let recorded = latency.of(kind).iter_recorded();
        waits.extend(recorded.map(|(ns, count)| (ns, ns as f64 * count.as_f64())));
    }
    waits.sort_unstable_by_key(|(ns, _)| *ns);
    let all: f64 = waits.iter().map(|(_, weight)| weight).sum();
    let open = latency.of(Kind::ResponseCensored);
    let mut seen = 0.0;
    for (ns, weight) in &waits {
        seen += weight;
        if seen >= quantile * all {
            return Some(AtLeast { ns: *ns, is_bound: !open.is_empty() && open.min() <= *ns });
        }
    }
    waits.last().map(|(ns, _)| AtLeast { ns: *ns, is_bound: !open.is_empty() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(n: u32) -> Tally {
        Tally { asked: n + 1, answered: n, last_reply_ms: 9_990, waits_since_ms: 9_990, ..Tally::default() }
    }

    fn never() -> Tally {
        Tally { asked: 3, waits_since_ms: 8_000, ..Tally::default() }
    }

    #[test]
    fn most_of_the_users_may_starve_behind_a_good_rate() {
        let tallies: Vec<Tally> = (0..8).map(|_| served(10_000)).chain((0..32).map(|_| never())).collect();
        let users = Users::of(&tallies, 0, 10_000, false);
        assert_eq!((users.connections, users.never_served, users.starved), (40, 32, 32));
        assert_eq!((users.served_min, users.served_max, users.starved_since_ms), (0, 10_000, Some(0)));
        assert!((users.jain_index - 0.2).abs() < 1e-9);
    }

    #[test]
    fn one_that_is_always_asked_starves_though_nothing_is_due_at_the_end() {
        let drained = |answered| Tally { asked: answered, waits_since_ms: u32::MAX, ..served(answered) };
        let tallies: Vec<Tally> = (0..9).map(|_| drained(50_000)).chain((0..7).map(|_| drained(51))).collect();
        assert_eq!(Users::of(&tallies, 0, 10_000, true).starved, 7);
        assert_eq!(Users::of(&tallies, 0, 10_000, false).starved, 0, "they may have been asked for no more");
    }

    #[test]
    fn one_of_two_origins_may_take_longer_and_one_that_gives_nothing_leaves_its_users_unserved() {
        let of = |origin, answered| Tally { origin, asked: answered, waits_since_ms: u32::MAX, ..served(answered) };
        let both = |slow: [Tally; 8]| Users::of(&[[of(0, 35_000); 8], slow].concat(), 0, 10_000, true).starved;
        assert_eq!(both([of(1, 190); 8]), 0, "each has what its origin gives");
        let mut one = [of(1, 190); 8];
        one[3] = of(1, 12);
        assert_eq!(both(one), 1, "its origin gave others far more");
        assert_eq!(both([Tally { origin: 1, ..never() }; 8]), 8, "it gave nothing to anybody");
    }

    #[test]
    fn those_served_alike_do_not_starve_and_those_lost_half_way_do() {
        let even: Vec<Tally> = (0..64).map(|i| served(1000 + i * 10)).collect();
        let users = Users::of(&even, 0, 10_000, false);
        assert_eq!((users.starved, users.starved_since_ms), (0, None));
        assert!(users.jain_index > 0.95);
        let mut half = even;
        for tally in &mut half[..20] {
            *tally =
                Tally { asked: 501, answered: 500, last_reply_ms: 5_000, waits_since_ms: 5_000, ..Tally::default() };
        }
        let users = Users::of(&half, 0, 10_000, false);
        assert_eq!((users.starved, users.starved_since_ms, users.never_served), (20, Some(5_000), 0));
    }

    #[test]
    fn what_was_due_long_before_it_left_starves_no_connection_that_gives_replies() {
        // Of more than is carried: one worker had sent all of its own when the run ended, the other had not.
        let done = Tally { waits_since_ms: u32::MAX, asked: 15_000, ..served(15_000) };
        let behind = Tally { last_reply_ms: 10_990, waits_since_ms: 4_400, ..served(15_500) };
        let both = |behind| Users::of(&[[done; 16], [behind; 16]].concat(), 0, 6_000, false).starved;
        assert_eq!(both(behind), 0);
        assert_eq!(both(Tally { last_reply_ms: 4_300, ..behind }), 16, "none of those has replied since");
    }

    #[test]
    fn nobody_starves_where_nobody_is_served_or_too_few_requests_were_made() {
        let all_silent = vec![never(); 10];
        assert_eq!(Users::of(&all_silent, 0, 10_000, false).starved, 0);
        let few: Vec<Tally> = (0..10)
            .map(|i| Tally {
                asked: 2,
                answered: u32::from(i > 5),
                last_reply_ms: 1,
                waits_since_ms: 2,
                ..Tally::default()
            })
            .collect();
        assert_eq!(Users::of(&few, 0, 10_000, false).starved, 0);
        assert_eq!(Users::of(&[], 0, 10, false).connections, 0);
        let never_asked = vec![Tally { waits_since_ms: u32::MAX, ..Tally::default() }; 5];
        assert_eq!(Users::of(&never_asked, 0, 10, false).connections, 0);
    }

    #[test]
    fn users_time_weighs_a_long_wait_by_its_length() {
        let mut latency = LatencySet::<u64>::new();
        latency.record_n(Kind::Response, 1_000, 1_000_000);
        latency.record_n(Kind::Failed, 1_000_000_000, 4);
        // 1 s of quick replies and 4 s of waiting for nothing: four fifths of the users' time.
        assert!(time_quantile(&latency, 0.19).unwrap().ns <= 1_000);
        assert!(time_quantile(&latency, 0.5).unwrap().ns >= 999_000_000);
        assert_eq!(latency.quantile(Kind::Response, 0.99).unwrap().ns, 1_000);
        assert_eq!(time_quantile(&LatencySet::<u32>::new(), 0.5), None);
    }
}
