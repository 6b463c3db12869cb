//! `head-of-line`: cheap requests are slow while a costly one is being served, because a thread of the target serves both.
//!
//! Evidence: (client) of requests whose time overlaps that of a costly one (another URL, command or size, whose kind takes five
//! times as long and more) at least twice as many were slow as of the others, by more than chance; and (kernel) slow ones lay
//! unread in the target's socket for most of their time, or (process) its busiest thread ran for as long as the costly ones take.
//! Only a sample of the requests is kept, so what it says is how often, not which. A costly request that was itself held up
//! (half as long again as its kind takes) is left out: what stops everybody stretches it too, and it would seem the cause.
//! Refuted where cheap ones fare alike beside it; where threads wait for a lock (`lock-contention`) or for a CPU
//! (`cpu-contention`). Costs that differ and hold up nobody are `slow-path`. What one kind of requests does to itself is
//! `event-loop-blocked`. Source: the catalogue; two proportions, pooled (normal approximation, three standard errors).

use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Facts, Stand, duration, percent, taken_ns};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::split::Parts;
use crate::thresholds::{FUTEX_STANDS, LINE_COST, LINE_RISK, LINE_UNREAD, THREAD_WAIT};
use model::finding::{LossKind, Severity};
use model::request::{Request, RequestEnd};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer costly ones are chance.
const COSTLY_MIN: usize = 4;
/// Fewer slow ones beside them too.
const SLOW_MIN: f64 = 8.0;
/// A costly one that took so many times what its kind does was held up itself.
const HELD_UP: f64 = 1.5;
/// Standard errors between the two shares.
const ERRORS_MIN: f64 = 3.0;
/// Of fewer joined requests nothing is said.
const JOINED_MIN: usize = 5;
/// The thread must have run for so much of what the costly ones take.
const RAN_MIN: f64 = 0.5;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "head-of-line", needs: Needs::Connections, reads: &[&["process/threads"]], judge };

/// Which request it is: it may be kept twice, among the slowest too.
type Id = (u16, u32, u32, u32);

fn id(request: &Request) -> Id {
    (request.worker, request.connection, request.life, request.ordinal)
}

/// Requests of one kind, each once.
type Once<'r> = BTreeMap<Id, &'r Request>;

/// Requests of kinds that cost far more than the cheapest one.
struct Costly<'r> {
    /// Those that were kept and were not held up themselves.
    all: Vec<&'r Request>,
    /// What they take, nanoseconds.
    each_ns: f64,
    /// What those of the cheapest kind take.
    cheap_ns: f64,
    /// How many of all requests they are, 0..=1.
    share: f64,
    /// How many differ from the cheapest kind by their URL or command, not by the size of the reply alone.
    is_other_entry: bool,
}

impl<'r> Costly<'r> {
    fn of(facts: &Facts<'r>) -> Option<Self> {
        let requests = &facts.recording.requests;
        let is_ok = |request: &&Request| request.end == RequestEnd::Ok && request.sent_ns > 0;
        let sampled: Vec<&Request> = requests.sampled().filter(is_ok).collect();
        let cheapest = sampled.iter().filter(|r| facts.kinds.fast(r).is_some());
        let ns_of = |request: &Request| facts.kinds.fast(request).map_or(f64::INFINITY, |fast| fast.ns);
        let cheapest = *cheapest.min_by(|a, b| ns_of(a).total_cmp(&ns_of(b)))?;
        let cheap_ns = ns_of(cheapest);
        let mut kinds: BTreeMap<_, Once<'r>> = BTreeMap::new();
        for request in sampled.iter().copied().chain(requests.slowest().filter(is_ok)) {
            kinds.entry(crate::facts::kind(request)).or_default().insert(id(request), request);
        }
        let (mut all, mut costly_kinds): (Vec<&'r Request>, BTreeSet<_>) = (Vec::new(), BTreeSet::new());
        for (kind, kept) in kinds {
            let mut times: Vec<f64> = kept.values().map(|request| taken_ns(request)).collect();
            times.sort_by(f64::total_cmp);
            let each_ns = times.get(times.len() / 4).copied().unwrap_or(0.0);
            if kept.len() < COSTLY_MIN
                || each_ns < LINE_COST.value * cheap_ns
                || each_ns < cheap_ns + crate::facts::SLOW_BY_NS
            {
                continue;
            }
            costly_kinds.insert(kind);
            all.extend(kept.into_values().filter(|request| taken_ns(request) <= HELD_UP * each_ns));
        }
        let count = sampled.iter().filter(|request| costly_kinds.contains(&crate::facts::kind(request))).count();
        let mut times: Vec<f64> = all.iter().map(|request| taken_ns(request)).collect();
        times.sort_by(f64::total_cmp);
        let entries: BTreeSet<u16> = costly_kinds.iter().map(|(entry, _)| *entry).collect();
        (all.len() >= COSTLY_MIN).then(|| Costly {
            each_ns: times.get(times.len() / 2).copied().unwrap_or(0.0),
            cheap_ns,
            share: count as f64 / sampled.len().max(1) as f64,
            is_other_entry: !entries.contains(&cheapest.entry),
            all,
        })
    }

    /// Those under way at some time of a request's.
    fn beside(&self, request: &Request) -> impl Iterator<Item = &&'r Request> {
        let (from_ns, to_ns) = (request.sent_ns, request.ended_ns);
        self.all.iter().filter(move |costly| costly.sent_ns < to_ns && from_ns < costly.ended_ns)
    }

    /// How many of the others were slow that were beside no costly one at all, by the share of those beside none that was kept.
    ///
    /// Of the costly requests only some were kept. Where the others' time lies beside one of the rest, as much as these are more, they
    /// are slow as those beside a known one: that part is taken off. At most a quarter of the share is, so that what is slow at any
    /// time stays so.
    fn unknown_beside(&self, facts: &Facts<'_>, others_slow: f64) -> f64 {
        let time_ns = |request: &&&'r Request| request.ended_ns.saturating_sub(request.sent_ns) as f64;
        let known =
            (self.all.iter().map(|one| time_ns(&one)).sum::<f64>() / 1e9 / facts.measured_s().max(1e-9)).min(1.0);
        let kept = (self.all.len() as f64 / (self.share * facts.ended).max(1.0)).min(1.0);
        let unknown = (known * (1.0 / kept - 1.0)).min(1.0 - known);
        let neither = 1.0 - known - unknown;
        let beside_none = (others_slow * (1.0 - known) - unknown) / neither.max(f64::MIN_POSITIVE);
        beside_none.clamp(0.75 * others_slow, others_slow)
    }

    fn is_one(&self, request: &Request) -> bool {
        taken_ns(request) >= self.each_ns && self.all.contains(&request)
    }
}

/// How many of some requests were slow.
#[derive(Debug, Default)]
struct Slow {
    count: f64,
    slow: f64,
}

impl Slow {
    fn share(&self) -> f64 {
        self.slow / self.count.max(1.0)
    }

    /// By how many standard errors its share is above another's.
    fn above(&self, other: &Slow) -> f64 {
        let pooled = (self.slow + other.slow) / (self.count + other.count).max(1.0);
        let variance = pooled * (1.0 - pooled) * (1.0 / self.count.max(1.0) + 1.0 / other.count.max(1.0));
        (self.share() - other.share()) / variance.sqrt().max(f64::MIN_POSITIVE)
    }
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(costly) = Costly::of(facts) else {
        return Verdict::not_applicable("no kind of request costs far more than another");
    };
    let (mut beside, mut others, mut behind) = (Slow::default(), Slow::default(), BTreeSet::new());
    let cheap = facts.recording.requests.sampled().filter(|r| r.end == RequestEnd::Ok && !costly.is_one(r));
    for request in cheap.filter(|r| facts.kinds.fast(r).is_some_and(|fast| costly.each_ns >= LINE_COST.value * fast.ns))
    {
        let is_slow = facts.kinds.excess_ns(request).is_some();
        let of = if costly.beside(request).next().is_some() { &mut beside } else { &mut others };
        of.count += 1.0;
        of.slow += f64::from(u8::from(is_slow));
        if is_slow {
            behind.extend(costly.beside(request).map(|one| id(one)));
        }
    }
    let text = format!(
        "{} of the cheap requests were slow while a costly one was under way ({} beside {}), and {} of the others",
        percent(beside.share()),
        duration(costly.each_ns),
        duration(costly.cheap_ns),
        percent(others.share())
    );
    let unknown = costly.unknown_beside(facts, others.share());
    let risk = beside.share() / unknown.max(1.0 / others.count.max(1.0));
    let client = facts.piece::<Client>(text, "slow.risk", risk, "ratio").from(LINE_RISK.value);
    if beside.slow < SLOW_MIN || behind.len() < COSTLY_MIN {
        return Verdict::refuted("hardly a cheap request was slow beside a costly one").because(client.into());
    }
    if risk < LINE_RISK.value || beside.above(&others) < ERRORS_MIN {
        return Verdict::refuted("cheap requests fare alike beside costly ones").because(client.into());
    }
    let working = facts.working();
    let futex = facts.stands(&working).share(Stand::Futex).unwrap_or(0.0);
    if working.len() > 1 && futex >= FUTEX_STANDS.value {
        return Verdict::refuted("the target's threads wait for each other at a lock").because(client.into());
    }
    let busiest = facts.target_threads.first();
    let (run, wait) = busiest.map_or((0.0, 0.0), |thread| (thread.run.unwrap_or(0.0), thread.wait.unwrap_or(0.0)));
    if wait > THREAD_WAIT.value * (run + wait) {
        return Verdict::refuted("the target's busiest thread had to wait for a CPU").because(client.into());
    }
    let title = format!(
        "cheap requests wait behind costly ones ({} beside {}) that the same thread of the target serves",
        duration(costly.each_ns),
        duration(costly.cheap_ns)
    );
    let unread = unread(facts, &costly);
    let held = facts.recording.totals.requests_per_s() * costly.share * costly.each_ns / 1e9;
    let verdict = match unread {
        Some((share, count)) => {
            let text = format!(
                "{count} slow ones lay unread in the target's socket for {} of the time since they were sent (median)",
                percent(share)
            );
            let kernel = facts.piece::<Kernel>(text, "split.socket_share", share, "ratio").from(LINE_UNREAD.value);
            if share < LINE_UNREAD.value {
                return Verdict::refuted("the target had read the slow requests: they wait for something else")
                    .because(client.into())
                    .because(kernel.into());
            }
            Verdict::proved(Severity::Error, title, client, kernel)
        }
        None if costly.is_other_entry && held > 0.0 && run >= RAN_MIN * held.min(1.0) => {
            let text = format!(
                "its busiest thread ran {} of the time; the costly ones take {} of a thread's",
                percent(run),
                percent(held)
            );
            let process = facts.piece::<Process>(text, "target.thread_run", run, "ratio").from(RAN_MIN * held.min(1.0));
            Verdict::proved(Severity::Error, title, client, process)
        }
        None => {
            let missing =
                "where slow requests waited was not seen: --observe windows joins them with the target's sockets";
            return Verdict::not_observable("what holds cheap requests up", missing).because(client.into());
        }
    };
    // Of the slow ones beside a costly one, those beyond what the others have; not all costly ones are in the sample.
    let attributable = (1.0 - 1.0 / risk.max(1.0)).clamp(0.0, 1.0);
    verdict
        .explains(LossKind::Slow, attributable, attributable * 0.5, 1.0)
        .remedy("Serve the costly kind elsewhere (threads, a worker or a server of its own), or in small pieces; more workers alone make it rarer, not shorter")
        .check("plimsoll load URL # with the costly URL or command left out: the slow ones go")
        .confidence(0.85)
}

/// Of slow cheap requests that were joined with the target's sockets: for which share of their time since they were sent they lay
/// unread (the median), and how many they are; `None`: too few. Those that were slow before they were sent waited for a free
/// connection, behind those that have one, and say nothing of where these waited.
fn unread(facts: &Facts<'_>, costly: &Costly<'_>) -> Option<(f64, usize)> {
    let split = &facts.recording.split;
    let sent_ns = |request: &Request| request.service_ns().unwrap_or(0) as f64;
    let is_slow_since_sent = |request: &Request| {
        let excess_ns = facts.kinds.excess_ns(request).unwrap_or(0.0);
        let before_ns = request.sent_ns.saturating_sub(request.ready_ns) as f64;
        excess_ns > 0.0 && excess_ns - before_ns > crate::facts::SLOW_BY_NS
    };
    let mut shares: Vec<f64> = split
        .sampled()
        .chain(split.slowest())
        .filter(|one| one.passage.is_ok() && is_slow_since_sent(&one.request) && !costly.is_one(&one.request))
        .map(|one| Parts::of(one).socket_ns / sent_ns(&one.request).max(1.0))
        .collect();
    shares.sort_by(f64::total_cmp);
    (shares.len() >= JOINED_MIN).then(|| (shares[shares.len() / 2], shares.len()))
}
