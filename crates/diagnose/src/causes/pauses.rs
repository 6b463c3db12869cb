//! What the rules on pauses have in common: spans in which no request ended though some were under way at every worker of the
//! generator, and that were not the generator's own. Left out are those in which only requests were under way that never got a reply,
//! as the target had nothing to do then; and those that held nobody up, as each request takes longer than that by itself.

use crate::explain::ledger::LateWithin;
use crate::explain::standstill::was_looked_on;
use crate::explain::waits::account;
use crate::facts::{Facts, duration};
use crate::statistics::median;
use crate::thresholds::{PAUSE_DISTANCES, PAUSE_NS, PAUSE_OUTSIDE, PAUSE_TIMES, PAUSED_SHARE, PERIODIC};
use model::error_kind::FailureClass;
use model::latency::Kind;
use model::plan::Pace;
use model::request::{Gap, Request, RequestEnd};
use model::slow::Wait;
use model::units::show_grouped;

/// The pauses of the measured time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pauses {
    /// Each, in the order of time, long enough to count.
    pub(crate) all: Vec<Gap>,
    /// Those like them that began after the load, while the rest of its requests was under way.
    pub(crate) after: Vec<Gap>,
    /// The share of the measured time they took, 0..=1.
    pub(crate) share: f64,
    /// The median of their lengths, nanoseconds.
    pub(crate) median_ns: f64,
    /// From the beginning of one to the next: standard deviation over mean, an eighth left out that fits least; `None` of fewer
    /// than four.
    pub(crate) scatter: Option<f64>,
    /// The mean of those times, nanoseconds.
    pub(crate) every_ns: f64,
}

/// Of requests that come by the clock so many are quick.
const QUICK: f64 = 0.1;
/// Fewer are chance.
const PAUSES_MIN: usize = 4;
/// A pause that outlasts the load may be so many times as long as the longest within it.
const ALIKE: f64 = 1.25;
/// Fewer requests in pauses, or elsewhere, do not say who stands there.
const STOOD_MIN: usize = 20;
/// So many of those that stand in pauses are the first on their connection, where nobody else does.
const ALL_NEW: f64 = 0.95;
/// So many of the rest are not, where it says something.
const SOME_OLD: f64 = 0.5;
/// So much of the slow requests' time in pauses is most of it.
const MOST_SLOW: f64 = 0.5;
/// The same of those that were late by far.
const MOST_LATE: f64 = 0.7;
/// In so many of them the generator must have run.
const LOOKED_ON_MIN: f64 = 0.9;
/// The rest of a pause begins within this part of what of it has passed.
const NEXT_PART: u64 = 4;
/// Distances by which pauses that were not seen are told; of fewer, chance is as likely.
const OF_A_TIMER_MIN: usize = 5;
/// Standard deviation over mean of a timer's distances.
const TIMER_SCATTER: f64 = 0.1;
/// A pause of which more than this share can be the generator's own doing is none of the target's.
const OWN_MAX: f64 = 0.5;

/// The pauses; `None` where there are too few, or they take too little of the time. Looked for once.
pub(crate) fn pauses<'f>(facts: &'f Facts<'_>) -> Option<&'f Pauses> {
    facts.derived.pauses.get_or_init(|| found(facts)).as_ref()
}

fn found(facts: &Facts<'_>) -> Option<Pauses> {
    let response = facts.latency(Kind::Service);
    if response.is_empty() {
        return None;
    }
    let times_ns = |quantile| PAUSE_TIMES.value * response.value_at_quantile(quantile) as f64;
    let least_ns = times_ns(0.5).max(PAUSE_NS.value);
    // By the clock requests come one by one, whatever was answered: those that take long by themselves end one by one, too. So pauses are seen
    // there, by the quick ones, that half of all requests stand in.
    let distance_ns = 1e9 / facts.recording.totals.requests_per_s().max(1e-9);
    let least_ns = match facts.recording.plan.pace {
        Pace::Open { .. } => least_ns.min(times_ns(QUICK).max(PAUSE_NS.value).max(PAUSE_DISTANCES.value * distance_ns)),
        _ => least_ns,
    };
    let is_alone = is_alone(facts);
    let is_pause = |gap: &Gap| gap.length_ns() as f64 >= least_ns && (gap.in_flight >= 2 || is_alone);
    let is_in = |gap: &&Gap| gap.from_ns >= facts.start_ns && gap.from_ns < facts.end_ns;
    let workers = facts.recording.plan.threads;
    let everywhere = facts.recording.requests.common_gaps(workers.max(1)).into_iter().filter(is_pause);
    let everywhere: Vec<Gap> = everywhere.collect();
    let mut all: Vec<Gap> = everywhere.iter().filter(is_in).copied().collect();
    // One that outlasts the load is a pause like the others if it is as long: requests are sampled by the interval, so that those of
    // the drain are many in the sample. What is longer may be a target that is gone.
    let is_within = |gap: &Gap| gap.to_ns <= facts.end_ns;
    let longest_ns = all.iter().filter(|gap| is_within(gap)).map(Gap::length_ns).max().unwrap_or(0);
    all.retain(|gap| is_within(gap) || gap.length_ns() as f64 <= ALIKE * longest_ns as f64);
    all.sort_by_key(|gap| gap.from_ns);
    all = held_up(facts, all, &everywhere);
    let unanswered = Unanswered::of(facts);
    all = all.iter().filter(|gap| !unanswered.is_all_of(gap, &all)).copied().collect();
    // Long ones that come at regular times and last alike are no chance, whatever the generator did meanwhile; of others those
    // that can be its own do not count.
    let longest_ns = all.iter().map(Gap::length_ns).max().unwrap_or(0);
    let long: Vec<Gap> = all.iter().filter(|gap| gap.length_ns() >= longest_ns / 2).copied().collect();
    let regular =
        summed(facts, long).filter(|pauses| pauses.scatter.is_some_and(|s| s <= PERIODIC.value) && pauses.is_alike());
    all.retain(|gap| gap.own_ns_max as f64 <= OWN_MAX * gap.length_ns() as f64);
    let found = regular.or_else(|| summed(facts, all).filter(|_| !is_alone))?;
    // Requests that were sent within the load stand in those of the drain, too.
    let after = everywhere
        .into_iter()
        .filter(|gap| gap.from_ns >= facts.end_ns && gap.length_ns() as f64 <= ALIKE * longest_ns as f64);
    Some(Pauses { after: after.collect(), ..found })
}

/// Whether there is one connection, and one thread that answers it: a pause of all is a slow request, and the other way about. That they come
/// at regular times, whatever is asked, tells them apart.
pub(super) fn is_alone(facts: &Facts<'_>) -> bool {
    facts.recording.plan.connections == 1 && facts.working().len() == 1
}

/// Those in which requests were held up. Where each takes 100 ms by itself, be it for the first seconds alone or on a path of its own, some 20 ms
/// often pass in which two are under way and none ends, and nobody was stopped: those that stood there were under way for far longer than
/// such spans account for.
fn held_up(facts: &Facts<'_>, gaps: Vec<Gap>, everywhere: &[Gap]) -> Vec<Gap> {
    let spans = joined(everywhere.iter().map(|gap| (gap.from_ns, gap.to_ns)).collect());
    let requests = &facts.recording.requests;
    // What was not sent yet is held up by its connect, which may take longer than any pause.
    let is_good = |request: &&Request| request.end == RequestEnd::Ok && request.sent_ns > 0;
    let good = requests.drawn().chain(requests.slowest()).filter(is_good);
    let mut under_way: Vec<(u64, u64)> = good.map(|request| (request.sent_ns, request.ended_ns)).collect();
    under_way.sort_unstable();
    under_way.dedup();
    let longest_ns = under_way.iter().map(|(from_ns, to_ns)| to_ns.saturating_sub(*from_ns)).max().unwrap_or(0);
    let outside_ns = |(from_ns, to_ns): &(u64, u64)| {
        let first = spans.partition_point(|span| span.1 <= *from_ns);
        let within = spans[first..].iter().take_while(|span| span.0 < *to_ns);
        let within_ns = within.map(|span| span.1.min(*to_ns).saturating_sub(span.0.max(*from_ns)));
        let within_ns = within_ns.fold(0, u64::saturating_add);
        to_ns.saturating_sub(*from_ns).saturating_sub(within_ns) as f64
    };
    let is_pause = |gap: &Gap| {
        let first = under_way.partition_point(|(from_ns, _)| from_ns.saturating_add(longest_ns) < gap.to_ns);
        // By the clock most of those that stood in it came in its midst.
        let half_ns = gap.from_ns.saturating_add(gap.length_ns() / 2);
        let began = under_way[first..].iter().take_while(|(from_ns, _)| *from_ns <= half_ns);
        let mut outside: Vec<f64> = began.filter(|(_, to_ns)| *to_ns >= gap.to_ns).map(outside_ns).collect();
        outside.sort_by(f64::total_cmp);
        // Others may stand there for something else besides, as in a queue to be accepted; and the slowest are kept of each stretch.
        let quick = outside.get(outside.len() / 4);
        quick.is_none_or(|outside_ns| *outside_ns <= PAUSE_OUTSIDE.value * gap.length_ns() as f64)
    };
    gaps.into_iter().filter(is_pause).collect()
}

/// Who was under way in pauses: requests whose replies came late, or those that never had one.
struct Unanswered<'f> {
    good: Vec<&'f Request>,
    never: Vec<&'f Request>,
}

impl<'f> Unanswered<'f> {
    fn of(facts: &'f Facts<'_>) -> Self {
        let requests = &facts.recording.requests;
        let is_never = |request: &&Request| matches!(request.end, RequestEnd::Failed(kind) if kind.class() == FailureClass::Unanswered);
        let good = requests.drawn().chain(requests.slowest()).filter(|request| request.end == RequestEnd::Ok).collect();
        Self { good, never: requests.failed().chain(requests.drawn()).filter(is_never).collect() }
    }

    /// Whether only requests without a reply were under way: then each connection waits for one that will not come, until its client gives
    /// up, and the target has nothing to do. Where that is for want of patience, the rest of the target's pause comes right behind, and
    /// whoever is under way then is answered.
    fn is_all_of(&self, gap: &Gap, all: &[Gap]) -> bool {
        let stood = |gap: &Gap, list: &[&Request]| {
            list.iter().any(|request| {
                let within_ns = request.ended_ns.min(gap.to_ns).saturating_sub(request.ready_ns.max(gap.from_ns));
                within_ns >= gap.length_ns() / 2
            })
        };
        let is_behind = |next: &&Gap| {
            next.from_ns >= gap.to_ns && next.from_ns <= gap.to_ns.saturating_add(gap.length_ns() / NEXT_PART)
        };
        stood(gap, &self.never)
            && !stood(gap, &self.good)
            && !all.iter().filter(is_behind).any(|next| stood(next, &self.good))
    }
}

/// Some pauses summed up; `None` where they are too few, or take too little of the time.
fn summed(facts: &Facts<'_>, all: Vec<Gap>) -> Option<Pauses> {
    let total_ns: f64 = all.iter().map(|gap| gap.length_ns() as f64).sum();
    let share = total_ns / 1e9 / facts.measured_s().max(1e-9);
    if all.len() < PAUSES_MIN || share < PAUSED_SHARE.value {
        return None;
    }
    let mut lengths: Vec<u64> = all.iter().map(Gap::length_ns).collect();
    lengths.sort_unstable();
    let median_ns = lengths[lengths.len() / 2] as f64;
    let between: Vec<f64> = all.windows(2).map(|pair| pair[1].from_ns.saturating_sub(pair[0].from_ns) as f64).collect();
    let (every_ns, scatter) = of_a_timer(&between).unwrap_or_else(|| scatter(&fitting(between)));
    Some(Pauses { all, after: Vec::new(), share: share.min(1.0), median_ns, scatter, every_ns })
}

/// Distances without the eighth that is farthest from their median: a pause that hid in another, or one of something else between
/// two, does not make the others irregular. Of eight distances of chance (exponential) one in 200 passes for regular so, of
/// ten one in 1,000 (drawn 20,000 times).
fn fitting(mut distances: Vec<f64>) -> Vec<f64> {
    let usual = median(distances.clone());
    distances.sort_by(|a, b| (a - usual).abs().total_cmp(&(b - usual).abs()));
    distances.truncate(distances.len() - distances.len() / 8);
    distances
}

/// Mean and scatter of a timer's distances, where one or two of its pauses hid in something else, so that a distance is twice or three
/// times the timer's: one, or a quarter of them. A timer is far more exact than [`PERIODIC`] asks. So hardly more distances of chance pass
/// for regular: of five one in 113, where it is 123 without this; of six one in 317, for 336; of seven and more as many (drawn 40,000 times).
fn of_a_timer(distances: &[f64]) -> Option<(f64, Option<f64>)> {
    if distances.len() < OF_A_TIMER_MIN {
        return None;
    }
    let usual = median(distances.to_vec());
    let times = |distance: &f64| (distance / usual).round().clamp(1.0, 3.0);
    let unseen: f64 = distances.iter().map(|distance| times(distance) - 1.0).sum();
    let each: Vec<f64> = distances
        .iter()
        .flat_map(|distance| std::iter::repeat_n(distance / times(distance), times(distance) as usize))
        .collect();
    let (mean, scatter) = scatter(&each);
    let is_timer = unseen > 0.0
        && unseen <= (distances.len() as f64 / 4.0).max(1.0)
        && scatter.is_some_and(|scatter| scatter <= TIMER_SCATTER);
    is_timer.then_some((mean, scatter))
}

/// Mean, and standard deviation over mean; the latter of three and more.
fn scatter(values: &[f64]) -> (f64, Option<f64>) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64;
    (mean, (values.len() >= 3 && mean > 0.0).then(|| variance.sqrt() / mean))
}

/// The share of the slow requests' excess that lay in pauses, the collector's too; 0 where there are none.
pub(crate) fn slow_share(facts: &Facts<'_>) -> f64 {
    let Some(pauses) = pauses(facts) else { return 0.0 };
    account(facts)
        .map_or(pauses.share, |account| account.share(Wait::Pause).share + account.share(Wait::Collector).share)
}

impl Pauses {
    /// The share of all requests' time that they stood in them, 0..=1.
    fn time(&self, facts: &Facts<'_>) -> f64 {
        let service = facts.latency(Kind::Service);
        let stood_ns: f64 = self.all.iter().map(|gap| gap.length_ns() as f64 * gap.in_flight as f64).sum();
        stood_ns / (service.mean() * service.len() as f64).max(1.0)
    }
}

/// Pauses in which most of the slow requests' time lay, or of those that were late by far, for the first line of who does not know what held the target.
pub(crate) struct Stood {
    /// What was seen, in words.
    pub(crate) text: String,
    /// How much of the slow requests' time that is, 0..=1.
    pub(crate) share: f64,
    /// The generator ran for nearly all of nearly every one: they are none of its doing.
    pub(crate) was_looked_on: bool,
}

impl Stood {
    /// `None`: there were none, or most of that time was elsewhere.
    pub(crate) fn of(facts: &Facts<'_>) -> Option<Self> {
        let pauses = pauses(facts)?;
        // Of a machine whose cores are all taken many are late by a turn, and few stand for long: it is those that somebody looks for.
        let are_late = || LateWithin::of(facts).is_some_and(|late| pauses.time(facts) >= MOST_LATE * late.time);
        let share = Some(slow_share(facts)).filter(|share| *share >= MOST_SLOW || are_late())?;
        let looked_on = pauses.all.iter().filter(|gap| was_looked_on(gap)).count() as f64;
        let text = format!(
            "nobody was answered {} times, for {} at a time (median), while several requests waited",
            show_grouped(pauses.all.len() as u64),
            duration(pauses.median_ns)
        );
        Some(Stood { text, share, was_looked_on: looked_on >= LOOKED_ON_MIN * pauses.all.len() as f64 })
    }
}

/// The share of slow requests' excess over their kind that lies in some spans (nanoseconds of the run): of each at most as long as
/// it was under way in them. 0 where none was slow.
pub(super) fn excess_within(facts: &Facts<'_>, spans: &[(u64, u64)]) -> f64 {
    let (mut within_ns, mut all_ns) = (0.0, 0.0);
    for (weight, request) in facts.recording.requests.weighted() {
        let Some(excess_ns) = facts.kinds.excess_ns(request) else { continue };
        let overlaps = spans
            .iter()
            .map(|(from_ns, to_ns)| request.ended_ns.min(*to_ns).saturating_sub(request.ready_ns.max(*from_ns)));
        all_ns += weight * excess_ns;
        within_ns += weight * excess_ns.min(overlaps.fold(0, u64::saturating_add) as f64);
    }
    if all_ns > 0.0 { within_ns / all_ns } else { 0.0 }
}

/// Spans in the order of time, those that overlap as one.
pub(super) fn joined(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (from_ns, to_ns) in spans {
        match apart.last_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
            _ => apart.push((from_ns, to_ns)),
        }
    }
    apart
}

/// Where hardly anybody stood in the pauses but requests that were the first on their connection, though others were there too: the share of the
/// former among those that stood, and among the rest, 0..=1. Whom the target had accepted it answered: it did not accept.
pub(super) fn of_new_connections(facts: &Facts<'_>, pauses: &Pauses) -> Option<(f64, f64)> {
    let spans = joined(pauses.spans());
    let stood = |request: &&Request| {
        let before = spans.partition_point(|(from_ns, _)| *from_ns < request.ended_ns);
        spans.get(before.wrapping_sub(1)).is_some_and(|(from_ns, to_ns)| {
            let within_ns = request.ended_ns.min(*to_ns).saturating_sub(request.ready_ns.max(*from_ns));
            within_ns >= (to_ns - from_ns) / 2
        })
    };
    // All that were kept: of the run's sample a few that are slow may be too few to say anything.
    let requests = &facts.recording.requests;
    let good = requests.drawn().chain(requests.slowest()).filter(|request| request.end == RequestEnd::Ok);
    let (stood, others): (Vec<&Request>, Vec<&Request>) = good.partition(stood);
    let first = |list: &[&Request]| {
        list.iter().filter(|request| request.ordinal == 1).count() as f64 / list.len().max(1) as f64
    };
    let shares = (first(&stood), first(&others));
    let is_so =
        stood.len() >= STOOD_MIN && others.len() >= STOOD_MIN && shares.0 >= ALL_NEW && shares.1 <= 1.0 - SOME_OLD;
    is_so.then_some(shares)
}

impl Pauses {
    /// All of them, in the order of time.
    pub(crate) fn with_after(&self) -> Vec<Gap> {
        let mut all = [&*self.all, &*self.after].concat();
        all.sort_by_key(|gap| gap.from_ns);
        all
    }

    /// From and to of each, nanoseconds of the run.
    pub(crate) fn spans(&self) -> Vec<(u64, u64)> {
        self.with_after().iter().map(|gap| (gap.from_ns, gap.to_ns)).collect()
    }

    /// Requests under way in one of them, the median.
    pub(super) fn in_flight(&self) -> f64 {
        median(self.all.iter().map(|gap| gap.in_flight as f64).collect())
    }

    /// Whether they last about as long as each other.
    fn is_alike(&self) -> bool {
        let lengths: Vec<f64> = self.all.iter().map(|gap| gap.length_ns() as f64).collect();
        scatter(&lengths).1.is_some_and(|scatter| scatter <= PERIODIC.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pause_too_many_or_too_few_makes_the_others_no_less_regular() {
        let regular =
            |distances: Vec<f64>| scatter(&fitting(distances)).1.is_some_and(|scatter| scatter <= PERIODIC.value);
        let mut distances = vec![500.0; 16];
        distances.extend([220.0, 280.0]);
        assert!(regular(distances.clone()), "one between two others");
        distances.truncate(16);
        distances.extend([1_000.0, 1_000.0]);
        assert!(regular(distances.clone()), "two that were not seen");
        distances.extend([60.0, 940.0, 130.0, 1_700.0, 320.0]);
        assert!(!regular(distances), "a third is elsewhere");
        assert!(!regular(vec![500.0, 500.0, 250.0, 900.0]), "of few none is left out");
    }

    #[test]
    fn a_timer_of_which_a_pause_was_not_seen_is_a_timer() {
        let found = |distances: &[f64]| of_a_timer(distances).map(|(mean, _)| mean.round());
        assert_eq!(found(&[1_000.0, 1_010.0, 1_990.0, 1_000.0, 995.0, 1_000.0]), Some(999.0));
        assert_eq!(found(&[1_000.0, 1_000.0, 3_000.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0]), Some(1_000.0));
        assert_eq!(found(&[1_000.0; 6]), None, "none is missing");
        assert_eq!(found(&[1_000.0, 1_500.0, 2_400.0, 1_000.0, 700.0, 1_000.0]), None, "by chance");
        assert_eq!(found(&[1_000.0, 2_000.0, 2_000.0, 2_000.0, 1_000.0, 1_000.0, 1_000.0]), None, "half of them");
        assert_eq!(found(&[1_000.0, 2_000.0, 1_000.0, 1_000.0]), None, "of few");
        assert_eq!(found(&[0.0; 6]), None);
    }
}
