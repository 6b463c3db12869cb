//! The excess of slow requests, cut into exclusive waits.
//!
//! Of each slow request of the uniform sample: what it took beyond the fast band of its own kind ([`crate::facts::Kinds`]), by
//! what it waited for at each moment. Where a request was joined with what the target's sockets saw ([`crate::split`]), its
//! moments are known; of others the client's stamps are. What lies in a pause of all requests, or in one of the collector, is
//! that pause's, together with the time until those that stood in it were answered ([`super::drain`]). From each wait is taken
//! what a fast request spends in it, and the rest is brought to the excess, so that the waits of a request add up to it.
//!
//! Over all of them a wait's share is a ratio of sums. Its interval is that of a ratio over stretches of the run (W. G.
//! Cochran, "Sampling Techniques", 1977, 6.3: requests of one pause are no independent ones), Student's 95 %, and wider by
//! 3 ÷ n, as of what was never seen among n there may be so much ("rule of three"). Requests that were not joined are taken
//! to be as those that were, where those are twenty and more. What was in the target is then cut by the states of its
//! threads ([`super::states`]): known of the windows as a whole only, so such a share may be half of itself, or so much more.

use super::drain::{Drained, Span};
use super::states::States;
use crate::causes::garbage_collection;
use crate::causes::pauses::{self, Pauses};
use crate::facts::{Facts, Lengths, seconds, taken_ns};
use crate::split::Parts;
use crate::statistics::critical_t;
use crate::thresholds::CONNECT_NS;
use model::request::{Request, RequestEnd};
use model::slow::{OneWait, SlowRequest, SlowTime, Wait, WaitShare};
use model::split::{Passage, SplitRequest, Unsplit};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Fewer joined slow requests say nothing of the others.
const JOINED_MIN: usize = 20;
/// A share that is known of the windows as a whole only may be off by so much of itself.
const STATES_MARGIN: f64 = 0.5;
/// Where more of the excess could not be split, the moments inside are not known.
const UNSPLIT_MAX: f64 = 0.1;
/// Of the slow requests' time that the histogram has at the least, a sample that lacks less lacks it by chance.
const LACKING_MIN: f64 = 0.1;
/// So many of the slowest are shown.
const SLOWEST: usize = 3;
/// Stretches for the interval: at least so long, and so many at the most.
const STRETCH_NS_MIN: u64 = 1_000_000_000;
const STRETCHES_MAX: u64 = 30;

const WAITS: usize = Wait::ALL.len();
/// Nanoseconds by [`Wait::index`].
type ByWait = [f64; WAITS];

/// A request's waits, and when it ended.
#[derive(Debug, Clone)]
struct Cut<'r> {
    request: &'r Request,
    /// How many of all requests it stands for.
    weight: f64,
    excess_ns: f64,
    is_joined: bool,
    ns: ByWait,
    /// Of each, what may be a pause's as well, or of the pause what may be theirs.
    contested_ns: ByWait,
}

/// A share with its bounds, 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounded {
    pub(crate) share: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// What slow requests of a run waited for.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    requests: usize,
    joined: usize,
    /// Of a slow request, the mean.
    excess_ns: f64,
    /// The share of each wait with the half of its interval's width.
    shares: [(f64, f64); WAITS],
    /// Whether the threads' states say what the target did.
    pub(crate) has_states: bool,
}

impl Account {
    /// Of one wait: its share with its bounds.
    pub(crate) fn share(&self, wait: Wait) -> Bounded {
        let (share, half) = self.shares[wait.index()];
        let share = share.clamp(0.0, 1.0);
        Bounded { share, low: (share - half).max(0.0), high: (share + half).min(1.0) }
    }

    /// Whether it was looked at: by the threads' states, or by the moments of requests, of which those inside are known only of
    /// requests that were joined.
    pub(crate) fn is_seen(&self, wait: Wait) -> bool {
        match wait {
            wait if is_by_states(wait) => self.has_states,
            Wait::There | Wait::Socket | Wait::Server | Wait::Back | Wait::Network => {
                self.share(Wait::Unsplit).share < UNSPLIT_MAX
            }
            _ => true,
        }
    }
}

/// Whether a wait is told by the states of threads, not by moments of requests.
pub(crate) fn is_by_states(wait: Wait) -> bool {
    use Wait::{Backend, Disk, Lock, Log, OnCpu, Runnable, Sleep, Throttled};
    matches!(wait, OnCpu | Runnable | Throttled | Disk | Lock | Backend | Log | Sleep)
}

/// How requests are cut: where all stood still, what was joined, and what fast requests spend in each wait.
struct Knife<'r> {
    facts: &'r Facts<'r>,
    joined: HashMap<Place, Passage>,
    collector: Vec<Span>,
    drained: Drained,
    /// Of a fast request that was not joined, and of one that was: the share of its time in each wait.
    fast: [ByWait; 2],
    /// How long a fast one that was joined is in the target, nanoseconds.
    fast_in_server_ns: f64,
    has_two_clocks: bool,
}

/// By what a request is known again: worker, connection, which of its lives, ordinal, when it was sent.
type Place = (u16, u32, u32, u32, u64);

fn place(request: &Request) -> Place {
    (request.worker, request.connection, request.life, request.ordinal, request.sent_ns)
}

/// The account of a run; `None`: no sampled request was slow. Made once, though many rules ask for it.
pub(crate) fn account<'f>(facts: &'f Facts<'_>) -> Option<&'f Account> {
    slow_time(facts).map(|(account, _)| account)
}

/// The same for people and machines, with the slowest requests.
pub(crate) fn slow_time<'f>(facts: &'f Facts<'_>) -> Option<&'f (Account, SlowTime)> {
    facts.derived.slow_time.get_or_init(|| cut(facts)).as_ref()
}

fn cut(facts: &Facts<'_>) -> Option<(Account, SlowTime)> {
    let knife = Knife::new(facts);
    let account = Account::of(&knife)?;
    let mean_us = account.excess_ns / 1e3;
    let waits = Wait::ALL.into_iter().map(|wait| {
        let Bounded { share, low, high } = account.share(wait);
        WaitShare { wait, share, low, high, mean_us: share * mean_us }
    });
    let time = SlowTime {
        requests: account.requests as u64,
        joined: account.joined as u64,
        excess_us: mean_us,
        waits: waits.filter(|part| part.share > 0.0).collect(),
        slowest: slowest(&knife),
    };
    Some((account, time))
}

fn slowest(knife: &Knife<'_>) -> Vec<SlowRequest> {
    let requests = &knife.facts.recording.requests;
    let good = requests.slowest().chain(requests.sampled()).filter(|request| request.end == RequestEnd::Ok);
    let mut cuts: Vec<Cut<'_>> = good.filter_map(|request| knife.cut(1.0, request)).collect();
    cuts.sort_by(|a, b| b.excess_ns.total_cmp(&a.excess_ns).then(place(a.request).cmp(&place(b.request))));
    cuts.dedup_by_key(|cut| place(cut.request));
    cuts.iter().take(SLOWEST).map(Cut::shown).collect()
}

impl Cut<'_> {
    fn shown(&self) -> SlowRequest {
        let Request { intended_ns, worker, connection, ordinal, entry, .. } = *self.request;
        let taken_us = taken_ns(self.request) / 1e3;
        let waits = Wait::ALL.into_iter().zip(self.ns).filter(|(_, ns)| *ns > 0.0);
        SlowRequest {
            due_s: seconds(intended_ns),
            taken_us,
            fast_us: taken_us - self.excess_ns / 1e3,
            worker,
            connection,
            ordinal,
            entry,
            waits: waits.map(|(wait, ns)| OneWait { wait, us: ns / 1e3 }).collect(),
        }
    }
}

impl<'r> Knife<'r> {
    fn new(facts: &'r Facts<'r>) -> Self {
        let recording = facts.recording;
        let joined: HashMap<Place, Passage> =
            recording.split.known().filter_map(|one| Some((place(&one.request), one.passage.ok()?))).collect();
        let mut knife = Knife {
            facts,
            joined,
            collector: garbage_collection::pauses(facts),
            drained: Drained::of(facts, &pauses::pauses(facts).map_or(Vec::new(), Pauses::with_after)),
            fast: [[0.0; WAITS]; 2],
            fast_in_server_ns: 0.0,
            has_two_clocks: recording.capsule.target_host.is_some(),
        };
        (knife.fast, knife.fast_in_server_ns) = knife.of_fast();
        knife
    }

    /// The share of their time that fast requests spend in each wait, and how long those that were joined are in the target.
    fn of_fast(&self) -> ([ByWait; 2], f64) {
        let mut sums = [[0.0; WAITS]; 2];
        let mut joined: usize = 0;
        for request in self.facts.recording.requests.sampled().filter(|request| request.end == RequestEnd::Ok) {
            if self.facts.kinds.fast(request).is_none_or(|fast| taken_ns(request) > fast.ns) {
                continue;
            }
            let (stretches, is_joined) = self.stretches(request);
            joined += usize::from(is_joined);
            for (wait, from_ns, to_ns) in stretches {
                sums[usize::from(is_joined)][wait.index()] += to_ns.saturating_sub(from_ns) as f64;
            }
        }
        let in_server_ns = sums[1][Wait::Server.index()] / joined.max(1) as f64;
        for sum in &mut sums {
            let all: f64 = sum.iter().sum();
            sum.iter_mut().for_each(|ns| *ns /= all.max(1.0));
        }
        (sums, in_server_ns)
    }

    /// A request from when it was taken up to its end, each moment in one wait; and whether it was joined.
    fn stretches(&self, request: &Request) -> (Vec<(Wait, u64, u64)>, bool) {
        let joined = self.joined.get(&place(request)).copied();
        let one = SplitRequest { key: 0, below: None, request: *request, passage: joined.ok_or(Unsplit::NoExchange) };
        let parts = Parts::of(&one);
        let Request { ready_ns, sent_ns, ended_ns, .. } = *request;
        let sent_ns = sent_ns.clamp(ready_ns, ended_ns.max(ready_ns));
        let begun_ns = ready_ns.saturating_add(parts.queue_ns as u64).min(sent_ns);
        let connect = match parts.connect_ns >= CONNECT_NS.value {
            true => Wait::ConnectAgain,
            false => Wait::Connect,
        };
        let mut stretches = vec![(Wait::Queue, ready_ns, begun_ns), (connect, begun_ns, sent_ns)];
        match joined {
            None => stretches.push((Wait::Unsplit, sent_ns, ended_ns)),
            Some(passage) => {
                // Another machine's clock may put them outside, or the generator may have been late.
                let arrived_ns = passage.arrived_ns.clamp(sent_ns, ended_ns.max(sent_ns));
                let read_ns = passage.read_ns.clamp(arrived_ns, ended_ns.max(arrived_ns));
                let written_ns = passage.written_ns.clamp(read_ns, ended_ns.max(read_ns));
                let way = |wait| if self.has_two_clocks { Wait::Network } else { wait };
                stretches.extend([
                    (way(Wait::There), sent_ns, arrived_ns),
                    (Wait::Socket, arrived_ns, read_ns),
                    (Wait::Server, read_ns, written_ns),
                    (way(Wait::Back), written_ns, ended_ns),
                ]);
            }
        }
        (stretches, joined.is_some())
    }

    /// A slow request's excess by wait; `None` of one that was not slow.
    fn cut<'q>(&self, weight: f64, request: &'q Request) -> Option<Cut<'q>> {
        let excess_ns = self.facts.kinds.excess_ns(request)?;
        let fast_ns = self.facts.kinds.fast(request)?.ns;
        let (stretches, is_joined) = self.stretches(request);
        let (mut ns, mut contested_ns) = ([0.0; WAITS], [0.0; WAITS]);
        for (wait, from_ns, to_ns) in stretches {
            let mut rest = to_ns.saturating_sub(from_ns) as f64;
            // A SYN that came while nobody was answered found nobody who made room for it.
            let is_paused = |spans: &[Span]| overlap_ns(spans, from_ns, from_ns.saturating_add(1)) > 0.0;
            let wait = match wait {
                Wait::ConnectAgain if is_paused(&self.collector) => Wait::Collector,
                Wait::ConnectAgain if is_paused(&self.drained.pauses) => Wait::Pause,
                wait => wait,
            };
            // What the way takes is no pause's; a SYN that is sent again is so after a second whatever else is then.
            if matches!(wait, Wait::Queue | Wait::Connect | Wait::Socket | Wait::Server | Wait::Unsplit) {
                let collector = overlap_ns(&self.collector, from_ns, to_ns).min(rest);
                // Where both are, it is the collector's.
                let pause = (overlap_ns(&self.drained.pauses, from_ns, to_ns) - collector).clamp(0.0, rest - collector);
                // What the pause and something else have brought about together is half of each, and known no better.
                let both = overlap_ns(&self.drained.contested, from_ns, to_ns).min(rest - collector - pause) / 2.0;
                ns[Wait::Collector.index()] += collector;
                ns[Wait::Pause.index()] += pause + both;
                rest -= collector + pause + both;
                contested_ns[Wait::Pause.index()] += both;
                contested_ns[wait.index()] += both;
            }
            ns[wait.index()] += rest;
        }
        let usual = &self.fast[usize::from(is_joined)];
        ns.iter_mut().zip(usual).for_each(|(ns, usual)| *ns = (*ns - usual * fast_ns).max(0.0));
        let all: f64 = ns.iter().sum();
        match all > 0.0 {
            true => ns.iter_mut().chain(&mut contested_ns).for_each(|ns| *ns *= excess_ns / all),
            false => ns[Wait::Unsplit.index()] = excess_ns,
        }
        Some(Cut { request, weight, excess_ns, is_joined, ns, contested_ns })
    }
}

/// How long a stretch lies in spans that do not overlap each other and are in the order of time, nanoseconds.
fn overlap_ns(spans: &[Span], from_ns: u64, to_ns: u64) -> f64 {
    let first = spans.partition_point(|(_, end_ns)| *end_ns <= from_ns);
    let within = spans[first..].iter().take_while(|(begin_ns, _)| *begin_ns < to_ns);
    within.map(|(begin_ns, end_ns)| to_ns.min(*end_ns).saturating_sub(from_ns.max(*begin_ns)) as f64).sum()
}

/// Of the slowest of each stretch of the run, which are kept besides, those that stand for what the sample lacks: of thirty that stood for a
/// quarter of a second in a pause, beside fifty thousand others, a sample of a hundred has none, and all requests' histogram has their time.
fn lacking<'r>(knife: &Knife<'r>, cuts: &[Cut<'r>]) -> Vec<Cut<'r>> {
    let facts = knife.facts;
    let sampled_ns: f64 = cuts.iter().map(|cut| cut.weight * cut.excess_ns).sum();
    let lacking_ns = facts.kinds.excess_low_ns - sampled_ns;
    if lacking_ns < LACKING_MIN * facts.kinds.excess_low_ns {
        return Vec::new();
    }
    let is_there: BTreeSet<Place> = cuts.iter().map(|cut| place(cut.request)).collect();
    let slowest = facts.recording.requests.slowest().filter(|request| request.end == RequestEnd::Ok);
    let mut lacking: Vec<Cut<'_>> = slowest
        .filter(|request| !is_there.contains(&place(request)))
        .filter_map(|request| knife.cut(1.0, request))
        .collect();
    let slowest_ns: f64 = lacking.iter().map(|cut| cut.excess_ns).sum();
    lacking.iter_mut().for_each(|cut| cut.weight = lacking_ns / slowest_ns.max(1.0));
    lacking
}

impl Account {
    fn of(knife: &Knife<'_>) -> Option<Self> {
        let facts = knife.facts;
        let good = || facts.recording.requests.weighted().filter(|(_, request)| request.end == RequestEnd::Ok);
        let lengths = Lengths::of(facts.recording);
        let cut = |(weight, request)| knife.cut(weight * lengths.correction(request), request);
        let mut cuts: Vec<Cut<'_>> = good().filter_map(cut).collect();
        cuts.extend(lacking(knife, &cuts));
        let weights: f64 = cuts.iter().map(|cut| cut.weight).sum();
        let excess_ns = cuts.iter().map(|cut| cut.weight * cut.excess_ns).sum::<f64>() / weights.max(1.0);
        if cuts.is_empty() || excess_ns <= 0.0 {
            return None;
        }
        let stretch_ns = STRETCH_NS_MIN.max(facts.end_ns.saturating_sub(facts.start_ns) / STRETCHES_MAX);
        const INSIDE: [Wait; 5] = [Wait::There, Wait::Socket, Wait::Server, Wait::Back, Wait::Network];
        let inside = |cut: &Cut<'_>| INSIDE.iter().map(|wait| cut.ns[wait.index()]).sum::<f64>();
        let joined: Vec<&Cut<'_>> = cuts.iter().filter(|cut| cut.is_joined).collect();
        let known: Vec<&Cut<'_>> = joined.iter().copied().filter(|cut| inside(cut) > 0.0).collect();
        let all: Vec<&Cut<'_>> = cuts.iter().collect();
        let whole = |cut: &Cut<'_>| cut.excess_ns;
        let mut shares = Wait::ALL.map(|wait| {
            let (share, half) = ratio(&all, |cut| cut.ns[wait.index()], whole, stretch_ns);
            let (contested, _) = ratio(&all, |cut| cut.contested_ns[wait.index()], whole, stretch_ns);
            (share, half + contested)
        });
        let (unsplit, _) = shares[Wait::Unsplit.index()];
        if known.len() >= JOINED_MIN && unsplit > 0.0 {
            shares[Wait::Unsplit.index()] = (0.0, 0.0);
            for wait in INSIDE {
                let (share, half) = ratio(&known, |cut| cut.ns[wait.index()], inside, stretch_ns);
                let (own, own_half) = shares[wait.index()];
                shares[wait.index()] = (own + unsplit * share, own_half + unsplit * half);
            }
        }
        let mut account = Account { requests: cuts.len(), joined: joined.len(), excess_ns, shares, has_states: false };
        let in_server_ns: f64 = joined.iter().map(|cut| cut.weight * cut.ns[Wait::Server.index()]).sum();
        let all_joined = good().filter(|(_, request)| knife.joined.contains_key(&place(request)));
        let all_joined = all_joined.map(|(weight, request)| weight * lengths.correction(request));
        let in_server_ns = in_server_ns / all_joined.sum::<f64>().max(1.0);
        if joined.len() >= JOINED_MIN
            && let Some(states) = States::of(facts, in_server_ns, knife.fast_in_server_ns)
        {
            account.cut_server(&states);
        }
        Some(account)
    }

    /// Cuts what was in the target by what its threads did.
    fn cut_server(&mut self, states: &States) {
        let (server, half) = self.shares[Wait::Server.index()];
        for (wait, of_server) in &states.shares {
            let share = server * of_server;
            self.shares[wait.index()] = (share, half * of_server + STATES_MARGIN * share);
        }
        let known: f64 = states.shares.iter().map(|(_, share)| share).sum();
        self.shares[Wait::Server.index()] = (server * (1.0 - known).max(0.0), half);
        self.has_states = true;
    }
}

/// One sum over another, and the half of its 95 % interval's width, over stretches of the run.
fn ratio(
    cuts: &[&Cut<'_>],
    part: impl Fn(&Cut<'_>) -> f64,
    whole: impl Fn(&Cut<'_>) -> f64,
    stretch_ns: u64,
) -> (f64, f64) {
    // In order: sums of the same figures must be the same figure each time.
    let mut stretches: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for cut in cuts {
        let sums = stretches.entry(cut.request.ended_ns / stretch_ns.max(1)).or_default();
        *sums = (sums.0 + cut.weight * part(cut), sums.1 + cut.weight * whole(cut));
    }
    let (parts, wholes) = stretches.values().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    if wholes <= 0.0 {
        return (0.0, 0.0);
    }
    let share = parts / wholes;
    let count = stretches.len() as f64;
    let by_chance = 3.0 / cuts.len() as f64;
    if count < 2.0 {
        return (share, 1.0);
    }
    let squares: f64 = stretches.values().map(|(part, whole)| (part - share * whole).powi(2)).sum();
    let error = (count / (count - 1.0) * squares).sqrt() / wholes;
    (share, (critical_t(count - 1.0, 0.95) * error + by_chance).min(1.0))
}
