//! The loss ledger: is there a loss to explain, and how much of it do the causes that were found explain?
//!
//! Five kinds of loss ([`LossKind`]). *Failed*: requests without the reply that was due, and those that never ended. *Starved*:
//! connections that were not served while others were. *Slow*: time beyond the fast band of a request's own kind
//! ([`crate::facts::Kinds`]), so neither a large reply nor a costly URL is slow by itself. *Waiting*: time in the target
//! beyond its work and its wait for a CPU, while processors were free: queueing in front of a full processor is what any
//! server has at that load, and is none; in a stretch of the run also what half of its requests took beyond what they had
//! taken before, where that is far more. *Capacity*: what was due by the clock and did not come.
//!
//! A cause gets no share by lasting: each rule measures what it explains, or says nothing of it; of slow requests the waits that
//! were measured (`waits`) take the place of that, and flow to one root (`flow`). The roots of a loss never
//! explain more than all of it. Where nothing is lost, nothing of the target is above "info". What no cause explains is said.

use super::concentrations;
use super::standstill::Standstill;
use crate::causes::cpu_contention::is_contended;
use crate::causes::packet_loss::is_lossy;
use crate::causes::pauses::slow_share;
use crate::causes::slow_path::is_seen_in_target;
use crate::facts::{Facts, FirstRound, SLOW_BY_NS, TURN_NS, duration, percent};
use crate::segments::worse::Worse;
use crate::thresholds;
use model::ErrorKind;
use model::finding::{Explains, Finding, Loss, LossKind, Status};
use model::latency::Kind;
use model::plan::Pace;
use model::slow::SlowTime;
use model::split::SplitRequest;
use model::units::show_grouped;

/// The generator's own limits: no loss of the target's.
const OWN: [ErrorKind; 3] = [ErrorKind::TooManyFiles, ErrorKind::AddressNotAvailable, ErrorKind::OutOfMemory];
/// Findings that count failures which those that bring them about do not count, as they are of another kind.
const APART: [&str; 1] = ["state-lost"];
/// So many requests must have been slow before the time in them is a loss.
const SLOW_MIN: usize = 10;
/// So much of what was due must be missing.
const CAPACITY: f64 = 0.05;
/// So much of the mean service time the kernel must have seen in the target.
const OF_CLIENTS: f64 = 0.3;
/// So much of the slow requests' time must lie in pauses of all of them.
const IN_PAUSES: f64 = 0.5;
/// They were late by so many times what the generator looked away at the longest.
const LATE_TIMES: f64 = 3.0;
/// So many times as many were slow, most of them by little.
const MORE_SLOW: f64 = 2.0;
/// Where more than this of all time is in them, they are what half of the requests wait behind.
const LATE_MOST: f64 = 0.6;
/// One that is so old, and so many times older than nearly all that ended, is stuck.
const STUCK_NS: u64 = 1_000_000_000;
const STUCK_TIMES: u64 = 10;
/// Requests under way at the end beyond this share were never answered.
const UNFINISHED: f64 = 0.01;

/// The last of a burst that is answered evenly takes twice what half of it does; so much leaves room for one burst beside another.
const BURST_QUANTILE: f64 = 0.95;
const BURST_LAST: f64 = 2.5;

/// The losses of a run, the weightiest kind first, none of them explained yet.
pub(crate) fn losses<'f>(facts: &'f Facts<'_>) -> &'f [Loss] {
    facts.derived.losses.get_or_init(|| added_up(facts))
}

/// Of a stretch, before anything is asked of it: what went before tells what its requests might take. Where it has no loss of time by
/// its own figures, as where all of its requests take half a millisecond, that half of them took far longer than before is one, or that a
/// closed loop was served far fewer.
pub(crate) fn know_before(facts: &Facts<'_>, whole: &Facts<'_>, stretch: &Worse) {
    let mut losses = added_up(facts);
    let unit = facts.recording.plan.unit();
    let has_none = !losses.iter().any(|loss| is_of_time(loss.kind));
    let slower = stretch.half_us.map(|(was_us, is_us)| {
        let (was, is) = (duration(was_us * 1e3), duration(is_us * 1e3));
        let text = format!("half of the {unit}s took {is} and more, before {was}");
        loss(LossKind::Waiting, 1.0 - was_us / is_us, text)
    });
    // As many clients, and each asks when it is answered: by Little's law its requests took as many times longer.
    let fewer = stretch.rate_per_s.filter(|_| is_targets(facts)).map(|(was, is)| {
        let (a_second_was, a_second) = (show_grouped(was.round() as u64), show_grouped(is.round() as u64));
        let text = format!("as many clients had {a_second} {unit}s a second, before {a_second_was}");
        loss(LossKind::Waiting, 1.0 - is / was, text)
    });
    // Where nobody was answered at all for most of it, that is what was seen, and the whole run says it.
    let length_ns = facts.end_ns.saturating_sub(facts.start_ns);
    // A span that begins a little before the stretch is in the whole only.
    let gaps = whole.recording.requests.common_gaps(whole.recording.plan.threads.max(1));
    let stood = gaps.iter().any(|gap| {
        let within_ns = gap.to_ns.min(facts.end_ns).saturating_sub(gap.from_ns.max(facts.start_ns));
        gap.in_flight > 0 && within_ns >= length_ns / 2
    });
    losses.extend(slower.or(fewer).filter(|_| has_none && !stood));
    rank(&mut losses);
    facts.derived.losses.get_or_init(|| losses);
}

fn added_up(facts: &Facts<'_>) -> Vec<Loss> {
    let all = [failed(facts), starved(facts), capacity(facts), slow(facts), waiting(facts)];
    let mut losses: Vec<Loss> = all.into_iter().flatten().collect();
    rank(&mut losses);
    losses
}

/// The weightiest first.
pub(crate) fn rank(losses: &mut [Loss]) {
    losses.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
}

/// A reply that does not come is worse than one that comes late.
fn weight(loss: &Loss) -> f64 {
    let kind = match loss.kind {
        LossKind::Failed | LossKind::Starved => 4.0,
        LossKind::Capacity => 2.0,
        LossKind::Slow | LossKind::Waiting => 1.0,
    };
    kind * loss.share
}

fn loss(kind: LossKind, share: f64, text: String) -> Loss {
    Loss {
        kind,
        share: if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 },
        text,
        unexplained: 1.0,
        time: None,
        concentrated: Vec::new(),
    }
}

/// Requests that failed by the target's doing, or were never answered.
pub(crate) fn failures(facts: &Facts<'_>) -> f64 {
    let sum = &facts.recording.totals.sum;
    let own = OWN.iter().map(|kind| sum.errors.of(*kind)).fold(0, u64::saturating_add);
    // Bytes that nobody had asked for fail no request: it is the next that would read them. Nor does a connection that is
    // turned away before it was needed: it is the user's who came with it.
    let unasked = [ErrorKind::UnsolicitedReply, ErrorKind::SpokeFirst].map(|kind| sum.connection_errors.of(kind));
    let unasked = unasked.into_iter().fold(0, u64::saturating_add);
    sum.counts.failed.saturating_sub(own).saturating_add(unasked) as f64
}

pub(super) fn failed(facts: &Facts<'_>) -> Option<Loss> {
    let failed = failures(facts);
    let open = facts.recording.totals.in_flight_at_end as f64;
    let started = facts.recording.totals.sum.counts.started as f64;
    let open = if open > UNFINISHED * started || is_stuck(facts) { open } else { 0.0 };
    let lost = failed + open;
    if lost <= 0.0 || facts.ended + open <= 0.0 {
        return None;
    }
    let share = lost / (facts.ended + open);
    let unit = facts.recording.plan.unit();
    let (lost, all) = (show_grouped(lost as u64), show_grouped((facts.ended + open) as u64));
    Some(loss(LossKind::Failed, share, format!("{lost} of {all} {unit}s had no good reply")))
}

/// Whether a request that had not ended was far older than any that did: it was not on its way, it was stuck.
fn is_stuck(facts: &Facts<'_>) -> bool {
    let (open, ended) = (facts.latency(Kind::ResponseCensored), facts.latency(Kind::Response));
    let usual_ns = if ended.is_empty() { 0 } else { ended.value_at_quantile(0.99) };
    !open.is_empty() && open.max() >= STUCK_NS.max(STUCK_TIMES.saturating_mul(usual_ns))
}

fn starved(facts: &Facts<'_>) -> Option<Loss> {
    let users = facts.recording.totals.users.filter(|users| users.starved > 0)?;
    let share = users.starved as f64 / users.connections.max(1) as f64;
    Some(loss(LossKind::Starved, share, crate::rules::starved_users::words(&users)))
}

fn capacity(facts: &Facts<'_>) -> Option<Loss> {
    let due = facts.due(facts.start_ns, facts.end_ns).filter(|due| *due >= 1.0)?;
    let quota = facts.recording.plan.stop.requests.map_or(f64::INFINITY, |n| n as f64);
    let due = due.min(quota);
    let totals = &facts.recording.totals;
    let came = totals.in_time.ok_arrived() as f64;
    let never_taken = totals.sum.counts.never_taken_up as f64;
    let failed = totals.in_time.failed as f64;
    let missing = due - came - never_taken - failed;
    if missing <= CAPACITY * due {
        return None;
    }
    let unit = facts.recording.plan.unit();
    let text = format!("{} of the {unit}s that were due did not come in time", percent(missing / due));
    Some(loss(LossKind::Capacity, missing / due, text))
}

fn slow(facts: &Facts<'_>) -> Option<Loss> {
    let kinds = &facts.kinds;
    let share = kinds.slow_time.filter(|share| *share >= thresholds::SLOW_TIME.value)?;
    let is_at_rest = || Standstill::of(facts).is_some_and(|standstill| standstill.is_most_of(share));
    if is_by_turns(facts) {
        return None;
    }
    if kinds.slow_count < SLOW_MIN || !(is_targets(facts) || is_lossy(facts) || is_at_rest()) {
        return None;
    }
    let few = LateWithin::of(facts).filter(|late| MORE_SLOW * late.requests < kinds.slow);
    let few = few.map_or(String::new(), |late| late.said());
    Some(loss(LossKind::Slow, share, format!("{}{few}", slow_in_words(facts, share))))
}

/// Whether the requests of bursts are answered in their turn, and hardly one takes longer than the last of a burst must: that later ones take longer
/// than the first is what a burst is.
fn is_by_turns(facts: &Facts<'_>) -> bool {
    let is_burst = matches!(facts.recording.plan.pace, Pace::Burst { .. });
    is_burst
        && matches!(facts.first_round(), Some(FirstRound::Queued { half_ns, .. }) if {
            facts.latency(Kind::Service).value_at_quantile(BURST_QUANTILE) as f64 <= BURST_LAST * half_ns
        })
}

/// How many requests were slow, and how much of all time that is, in a sentence without an end.
pub(crate) fn slow_in_words(facts: &Facts<'_>, share: f64) -> String {
    format!(
        "{} of the {}s were slow, and took {} of all time beyond what others of their kind take",
        percent(facts.kinds.slow),
        facts.recording.plan.unit(),
        percent(share)
    )
}

/// How long requests were in the target on average by the client's stamps, nanoseconds, the way there and back left out.
pub(crate) fn in_target_ns(facts: &Facts<'_>) -> Option<f64> {
    let service = facts.latency(Kind::Service);
    if service.is_empty() {
        return None;
    }
    Some((service.mean() - way_ns(facts)).max(0.0))
}

/// How many requests were in the target at a time, where each was there for so long: by Little's law, of those that succeeded, as
/// it is their time.
pub(crate) fn in_target_at_a_time(facts: &Facts<'_>, in_ns: f64) -> f64 {
    let totals = &facts.recording.totals;
    totals.per_s(totals.in_time.ok_arrived()) * in_ns / 1e9
}

/// The way there and back at its best, nanoseconds: the shortest connect, or the shortest reply where that took less, as when
/// all connected at once.
fn way_ns(facts: &Facts<'_>) -> f64 {
    let (connect, service) = (facts.latency(Kind::Connect), facts.latency(Kind::Service));
    if connect.is_empty() || service.is_empty() { 0.0 } else { (connect.min().min(service.min())) as f64 }
}

/// Whether slow requests were slow in the target, as far as the kernel saw: what arrived there was not answered at once, or
/// connects took a second. Where the generator or its machine looked late, or the path is slow, it is neither; that a path loses
/// what is sent on it is another matter ([`is_lossy`]). The kernel sees a tenth of the run: that others had the target's CPU, that
/// nobody answered anything meanwhile while the generator looked on, or that some of what is asked costs the target far more than the
/// rest, is the target's all the same.
fn is_targets(facts: &Facts<'_>) -> bool {
    let service = facts.latency(Kind::Service);
    let connect = facts.latency(Kind::Connect);
    let is_late = !connect.is_empty() && connect.max() as f64 >= thresholds::CONNECT_NS.value;
    match facts.served_ns() {
        Some(served_ns) if !service.is_empty() => {
            // What lies long unread in its socket stands behind others there, which is not seen in how long it serves each. Shorter, it is
            // how long any thread takes to wake, or to have a CPU.
            let unread_ns = facts.mean_of_split(|passage, _| passage.read_ns.saturating_sub(passage.arrived_ns));
            is_late
                || is_contended(facts)
                || is_seen_in_target(facts)
                || served_ns >= OF_CLIENTS * service.mean()
                || slow_share(facts) >= IN_PAUSES
                || unread_ns.is_some_and(|ns| ns >= SLOW_BY_NS)
                || (was_not_looked_at(facts) && LateWithin::of(facts).is_some())
        }
        _ => true,
    }
}

/// Requests of a load that stays within this machine which were late by far more than its generator ever looked away, and than a turn of the
/// scheduler. There is no path, so they were late in the target, though the kernel's windows need not have seen it: what is late together, now and
/// then, falls between those.
pub(crate) struct LateWithin {
    /// By so much and more, nanoseconds.
    by_ns: f64,
    /// Of all requests, 0..=1.
    requests: f64,
    /// Of all time, that by which they were late, 0..=1.
    pub(crate) time: f64,
}

impl LateWithin {
    /// `None`: they took less of the time than is a loss.
    pub(crate) fn of(facts: &Facts<'_>) -> Option<Self> {
        let looked_away_ns = facts.rows.iter().map(|row| row.gauges.reap_delay_ns_max).max().unwrap_or(0) as f64;
        let service = facts.latency(Kind::Service);
        if !facts.is_loopback() || service.is_empty() {
            return None;
        }
        let half_ns = service.value_at_quantile(0.5) as f64;
        let by_ns = TURN_NS.max(LATE_TIMES * looked_away_ns);
        let late =
            service.iter_recorded().map(|(ns, count)| (ns as f64 - half_ns, count)).filter(|(ns, _)| *ns > by_ns);
        let (count, ns) =
            late.fold((0.0, 0.0), |(all, sum), (ns, count)| (all + count as f64, sum + ns * count as f64));
        let all = service.len() as f64;
        let late = LateWithin { by_ns, requests: count / all, time: ns / (service.mean() * all).max(1.0) };
        (late.time >= thresholds::SLOW_TIME.value).then_some(late)
    }

    /// Behind how many were slow, which are many more where most of them were late by a turn.
    fn said(&self) -> String {
        format!(
            ", {} in the {} that were late by {} and more",
            percent(self.time),
            percent(self.requests),
            duration(self.by_ns)
        )
    }
}

/// Whether the kernel looked in windows only, and none of those that were late by far was in one.
fn was_not_looked_at(facts: &Facts<'_>) -> bool {
    let split = &facts.recording.split;
    let service = facts.latency(Kind::Service);
    let half_ns = if service.is_empty() { 0 } else { service.value_at_quantile(0.5) };
    let is_late = |one: &SplitRequest| {
        one.passage.is_ok() && one.request.service_ns().is_some_and(|ns| ns as f64 > half_ns as f64 + TURN_NS)
    };
    facts.recording.totals.in_windows.is_some() && !split.known().any(is_late)
}

/// Of a closed loop: whether the cores of its machine were all taken whenever such late ones did not keep it from asking. Half of the
/// requests wait for a core then, as in any closed loop at its limit, though over the whole run cores stand idle.
fn is_full_between(facts: &Facts<'_>) -> bool {
    let busy = facts.host.map_or(0.0, |host| 1.0 - host.idle_cores / host.cores.max(1.0));
    let is_closed = matches!(facts.recording.plan.pace, Pace::Closed { .. });
    let is_full =
        |late: LateWithin| late.time <= LATE_MOST && busy >= thresholds::DEMAND_FULL.value * (1.0 - late.time);
    is_closed && LateWithin::of(facts).is_some_and(is_full)
}

fn waiting(facts: &Facts<'_>) -> Option<Loss> {
    // Half of the requests are not looked at late; what the kernel saw may end at the first part of a reply.
    let service = facts.latency(Kind::Service);
    let half_ns = (!service.is_empty()).then(|| service.value_at_quantile(0.5) as f64 - way_ns(facts))?;
    let in_target_ns = facts.usually_served_ns().map_or(half_ns, |served_ns| served_ns.max(half_ns));
    let work_ns = facts.cpu_ns_per_request()? + facts.wait_ns_per_request().unwrap_or(0.0);
    let demand = facts.busiest_demand()?;
    let queueing_ns = match facts.recording.plan.pace {
        Pace::Burst { .. } => work_ns * burst_before(facts),
        // What any server has at this utilisation: of a processor that is shared, work ÷ (1 − utilisation).
        _ => work_ns / (1.0 - demand.min(thresholds::DEMAND_FULL.value)),
    };
    let beyond_ns = in_target_ns - queueing_ns;
    let is_long =
        beyond_ns > thresholds::WAITING_NS.value && in_target_ns > thresholds::WAITING_TIMES.value * queueing_ns;
    if demand >= thresholds::DEMAND_FULL.value || !is_long || is_full_between(facts) {
        return None;
    }
    let text = format!(
        "{}s were {} in the target on average, of which it worked or wanted a CPU for {}",
        facts.recording.plan.unit(),
        duration(in_target_ns),
        duration(work_ns)
    );
    Some(loss(LossKind::Waiting, beyond_ns / in_target_ns, text))
}

/// The work that stands before a request of a burst on average and its own, in requests: all come at once, and each thread that works
/// takes one after another, as far as there are cores.
pub(crate) fn burst_before(facts: &Facts<'_>) -> f64 {
    let cores = facts.host.map_or(1.0, |host| host.cores).max(1.0);
    let at_once = (facts.working().len() as f64).clamp(1.0, cores);
    ((f64::from(facts.recording.plan.connections) / at_once + 1.0) / 2.0).max(1.0)
}

/// The weight of a kind of loss of a run; 0 where it has none of it.
pub(crate) fn weight_of(kind: LossKind, losses: &[Loss]) -> f64 {
    losses.iter().find(|loss| loss.kind == kind).map_or(0.0, weight)
}

/// What is explained, of a loss that there is: time that requests waited shows as slow ones where only some did, and as the
/// other way about; connections that starved as requests that failed.
pub(crate) fn of(explains: Explains, losses: &[Loss]) -> Option<Explains> {
    let akin: &[LossKind] = match explains.of {
        LossKind::Waiting => &[LossKind::Waiting, LossKind::Slow, LossKind::Capacity],
        LossKind::Slow => &[LossKind::Slow, LossKind::Waiting, LossKind::Capacity],
        LossKind::Capacity => &[LossKind::Capacity, LossKind::Waiting, LossKind::Slow],
        LossKind::Failed => &[LossKind::Failed, LossKind::Starved],
        LossKind::Starved => &[LossKind::Starved, LossKind::Failed],
    };
    let of = akin.iter().find(|kind| losses.iter().any(|loss| loss.kind == **kind))?;
    Some(Explains { of: *of, ..explains })
}

/// Gives what brought failures about those that only its symptom counts: what a crash lost of acknowledged writes is the crash's,
/// too. Each goes to one root, the first found.
pub(crate) fn pass_on(findings: &mut [Finding]) {
    let apart = findings.iter().filter(|f| f.status == Status::Supported && APART.contains(&&*f.id));
    let passed: Vec<(String, Explains)> = apart
        .filter_map(|symptom| {
            let explains = symptom.explains.filter(|explains| explains.of == LossKind::Failed)?;
            let is_root = |id: &&String| findings.iter().any(|f| f.id == **id && f.because_of.is_empty());
            Some((symptom.because_of.iter().find(is_root)?.clone(), explains))
        })
        .collect();
    for (root, more) in passed {
        let of_root = findings.iter_mut().find(|f| f.id == root).and_then(|root| root.explains.as_mut());
        if let Some(own) = of_root.filter(|own| own.of == LossKind::Failed) {
            let sum = |own: f64, more: f64| (own + more).min(1.0);
            (own.share, own.low, own.high) =
                (sum(own.share, more.share), sum(own.low, more.low), sum(own.high, more.high));
        }
    }
}

/// Whether it is one of time, or of what did not come in time, and not of requests that failed.
pub(crate) fn is_of_time(kind: LossKind) -> bool {
    matches!(kind, LossKind::Slow | LossKind::Waiting | LossKind::Capacity)
}

/// Says of each loss how much of it the supported findings explain (roots only, and never more than all), where its time went,
/// and where those that were lost or slow concentrate: of losses of time by the facts of the stretch in which they are.
pub(crate) fn settle(
    facts: &Facts<'_>,
    of_time: &Facts<'_>,
    losses: &mut [Loss],
    findings: &[Finding],
    time: Option<&SlowTime>,
) {
    for loss in losses {
        loss.time = time.cloned().filter(|_| loss.kind == LossKind::Slow);
        loss.concentrated = concentrations(if is_of_time(loss.kind) { of_time } else { facts }, loss.kind);
        let roots = findings.iter().filter(|f| f.status == Status::Supported && f.because_of.is_empty());
        let explained: f64 = roots.filter_map(|f| f.explains).filter(|e| e.of == loss.kind).map(|e| e.share).sum();
        loss.unexplained = (1.0 - explained).clamp(0.0, 1.0);
    }
}
