//! What gives first, in one sentence a colleague would say aloud.
//!
//! A cause that explains most of a loss, at the root of its chain; or that the target is sound and which resource is full; or
//! that it is not at its limit; or that something was lost and why is not known, with what would tell.

mod behind;
pub(crate) mod failures;
mod meanwhile;
mod places;
mod shares;

pub(crate) use behind::with_behind;
pub(crate) use failures::with_failures;

use self::places::Places;
use self::shares::{
    OPEN_MIN, OTHERS, SMALL_PART, UNEXPLAINED_MIN, explained, is_most_of_waiting, is_of_others_time, is_small_part,
    rest_beside, share_of,
};
use super::ledger::is_of_time;
use super::run_queue::{Waited, is_for_a_turn, is_full_of_it};
use super::standstill::{Standstill, stopped_again, stopped_process};
use crate::causes::{cpu_throttled, deaths::ends_all_along, pauses::Stood};
use crate::facts::{Facts, FirstRound, duration, percent};
use crate::segments::worse::Worse;
use crate::summary::{Death, death, not_its_protocol, nothing_connected, one_not_connected, still_coming};
use crate::thresholds::{DEMAND_FULL, LITTLE_SLOW};
use crate::validity::AGENT_LOST;
use crate::validity::disturbed::{disturbed, is_none_of_the_generators};
use model::ErrorKind;
use model::finding::{
    About, Explains, Finding, Loss, LossKind, Segment, Severity, Source, Standing, Status, Validity, ValidityState,
    WhatGives,
};
use model::latency::Kind;
use model::plan::Pace;
use model::units::show_grouped;

/// That all of the machine's cores are busy.
const ALL_CORES: &str = "cpu-saturated";
/// That a quota stops the target.
const QUOTA: &str = "cpu-throttled";
/// Findings that say only that a resource is full.
const LIMITS: [&str; 3] = ["single-thread-bound", ALL_CORES, "at-its-limit"];
/// Half of the requests take so many times as long, and so much longer (microseconds), before that is worth the first line; and
/// the rate was higher by no more than this.
const LATER_TIMES: f64 = 5.0;
const LATER_US: f64 = 400.0;
const LATER_RATE: f64 = 1.1;
/// Behind what was seen and not explained.
const NOT_KNOWN: &str = "; why is not known";
/// A finding of what is there after the load: nothing was late for it.
const AFTERWARDS: &str = "memory-kept";
/// Of requests that wait in the target for nothing that a rule knows.
const UNSEEN_WAIT: &str = "they wait there for nothing that is seen from here";
/// What tells more of it.
const EXPERIMENT: &str = "`plimsoll diagnose URL --experiment` tells whether requests wait for each other";
/// Where requests wait for each other, and for nothing that a thread, a socket or a file shows.
const WITHIN: &str = "; look in its program for a lock, a semaphore or a pool";
const PACED: &str = "; look in its settings for a limit of requests a second";
const ROOM: &str = "; `plimsoll diagnose URL --experiment` tells for how many there is room";
/// Where some kinds of request take longer than others, and it is not known whether the target is at them.
const AT_THEM: &str = "`--observe windows` tells how long the target is at them";
/// Of a target that somebody stopped, what explains less of the loss than this is not what gave.
const STANDSTILL_MIN: f64 = 0.5;
/// That requests stand together, and not for what: who ended meanwhile may be.
const PAUSES: [&str; 2] = ["stop-the-world", "event-loop-blocked"];
/// So few replies for each connection, which took so much of the run each, do not say that nothing gives.
const FEW_EACH: u64 = 3;
const LONG_PART: f64 = 1.0 / 3.0;
/// Of the machine's cores, so much with the target is all of them.
const OWN_CORES: f64 = 0.9;

/// The sentence. Findings come ranked.
pub fn gives(
    facts: &Facts<'_>,
    validity: &Validity,
    findings: &[Finding],
    losses: &[Loss],
    segments: &[Segment],
) -> WhatGives {
    let supported = || findings.iter().filter(|f| f.status == Status::Supported && f.about == About::Target);
    let says = |standing, text: String, finding: Option<&Finding>| WhatGives {
        standing,
        text,
        finding: finding.map(|finding| finding.id.clone()),
        behind: None,
    };
    // Whoever takes its CPU meanwhile has nothing to do with that.
    if let Some(text) = not_its_protocol(facts) {
        return says(Standing::Unknown, text, None);
    }
    let is_of_failures =
        losses.first().is_some_and(|loss| loss.kind == LossKind::Failed && !is_of_overload(facts, loss.kind));
    // A reply that takes longer than the run may be slow for want of CPU: more is known of it when the run is longer.
    let coming = still_coming(facts);
    let is_others = |finding: &&Finding| OTHERS.contains(&&*finding.id);
    let is_aside = |finding: &&Finding| {
        (is_of_failures && is_of_others_time(finding, losses)) || (coming.is_some() && is_others(finding))
    };
    let first = supported().find(|finding| finding.severity > Severity::Info && !is_aside(finding));
    let standstill = losses
        .first()
        .filter(|loss| loss.kind == LossKind::Slow)
        .and_then(|loss| Standstill::of(facts).filter(|standstill| standstill.is_most_of(loss.share)));
    // That it ended is told by the kernel, whatever befell the generator meanwhile.
    let death = death(facts).filter(|death| death.is_told() || validity.state != ValidityState::NotValid);
    if let Some(text) = death.as_ref().and_then(|death| stopped_for_good(death, facts, losses))
        && first.as_ref().is_none_or(is_others)
    {
        return says(Standing::Gives, text, None);
    }
    // Where the generator was disturbed, what is not explained may be that; not a standstill at which it looked on, nor what its being
    // late does not bring about.
    let is_told = validity.state != ValidityState::NotValid
        || standstill.as_ref().is_some_and(Standstill::was_looked_on)
        || losses.first().is_some_and(|loss| is_none_of_the_generators(facts, loss.kind));
    let standstill = standstill.filter(|_| is_told);
    let stopped = standstill.as_ref().and_then(|standstill| standstill.why(facts));
    let is_beside = |first: &&Finding| {
        let is_less = first.explains.is_some_and(|explains| explains.share < STANDSTILL_MIN);
        let is_another = stopped.is_some() || (standstill.is_some() && is_others(first));
        is_small_part(first, losses, standstill.is_some()) || (is_another && is_less)
    };
    let ended_meanwhile = |is_open: bool| {
        let ended = ends_all_along(facts).filter(|_| is_open);
        ended.map_or(String::new(), |text| format!("; {text}"))
    };
    let beside = first.filter(|first| is_told && is_beside(first));
    if let Some(first) = first.filter(|_| beside.is_none()) {
        let is_open = !is_told && rest_beside(first, losses) >= UNEXPLAINED_MIN;
        let disturbed = disturbed(facts, validity).filter(|_| is_open);
        let disturbed = disturbed.map_or(String::new(), |disturbed| format!("; {disturbed}"));
        let ended = ended_meanwhile(PAUSES.contains(&&*first.id));
        let late =
            || supported().find(|finding| is_most_of_waiting(first, finding)).map(|finding| finding.title.clone());
        let besides = queued_besides(first, losses, facts).or_else(late).filter(|_| is_told);
        let besides = besides.map_or(String::new(), |besides| format!("; besides, {besides}"));
        let text = format!("{}{}{besides}{disturbed}{ended}", first.title, explained(first, losses));
        return says(Standing::Gives, text, Some(first));
    }
    if let Some(text) = losses.first().and_then(|loss| one_not_connected(facts, loss)).filter(|_| death.is_none()) {
        return says(Standing::Gives, text, None);
    }
    let limit = supported().find(|finding| finding.id == "at-its-limit");
    // A quota that is full is the limit, whatever else is full within it.
    let quota = supported().find(|finding| finding.id == QUOTA && cpu_throttled::full(facts).is_some());
    let named = quota.or_else(|| supported().find(|finding| LIMITS.contains(&&*finding.id)));
    // What is still to come when the load ends, as more was asked for than is carried, is said by how late the others were.
    let is_backlog = |loss: &&Loss| {
        let none_failed = facts.recording.totals.sum.counts.failed == 0;
        loss.kind == LossKind::Failed && none_failed && is_of_overload(facts, loss.kind)
    };
    let lost = losses.iter().find(|loss| !is_backlog(loss)).or(losses.first());
    // What is asked for more than it carries, and is late for that, has some that are later than others, too.
    let is_overload = lost.is_some_and(|loss| matches!(loss.kind, LossKind::Capacity | LossKind::Waiting));
    // Where all cores are busy with it, or it waits for one all the time that it does not run, requests are slow for want of one.
    let waited = Waited::of(facts, losses);
    let is_full = limit.is_some() || supported().any(|finding| finding.id == ALL_CORES);
    let is_short_of_cpu = is_full && waited.is_some_and(|waited| waited.is_much());
    let may_be_slow = is_overload || is_short_of_cpu;
    let is_limits =
        losses.iter().all(|loss| is_of_overload(facts, loss.kind) || (may_be_slow && loss.kind == LossKind::Slow));
    if let (Some(limit), Some(named), true) = (limit.or(named), named, is_limits) {
        // Where nothing is left of the machine, another worker would have none of it: the sentence is of what is proved below it.
        let full = if named.id == ALL_CORES { &named.title } else { &limit.title };
        // It is a limit that somebody else has made lower.
        let taken = supported().find(|finding| finding.id == "neighbour");
        let taken = taken.map_or(String::new(), |neighbour| format!("; {}", neighbour.title));
        // Of what was lost some may be the generator's own doing.
        let disturbed = disturbed(facts, validity).filter(|_| !is_told && lost.is_some());
        let disturbed = disturbed.map_or(String::new(), |disturbed| format!("; {disturbed}"));
        let text = match lost.filter(|loss| loss.kind == LossKind::Failed) {
            Some(loss) => format!("{full}{taken}, and it is asked for more: {}{disturbed}", loss.text),
            None => {
                let slow = losses.iter().find(|loss| loss.kind == LossKind::Slow && !is_overload);
                let slow = slow.zip(waited).map_or(String::new(), |(slow, waited)| waited.beside_full(slow));
                format!("sound: {full}{taken}{slow}{disturbed}")
            }
        };
        return says(Standing::AtItsLimit, text, Some(named));
    }
    if !facts.recording.has_connected() {
        return says(Standing::Unknown, nothing_connected(facts), None);
    }
    if let Some(coming) = coming {
        let beside =
            supported().find(is_others).map_or(String::new(), |others| format!("; meanwhile {}", others.title));
        let text = format!("{}; what the target can do is not known{beside}", coming.seen());
        return says(Standing::Unknown, text, None);
    }
    let is_failure = lost.is_none_or(|loss| loss.kind == LossKind::Failed);
    let places = Places::of(facts).filter(|_| death.is_none() && !is_failure);
    // What the generator did late is not in what the quickest took: so that is told whatever befell it.
    if let Some(text) = places.as_ref().filter(|_| beside.is_none()).and_then(Places::limit) {
        return says(Standing::Unknown, text, None);
    }
    let places = places.filter(|_| is_told);
    if let Some(loss) = lost {
        let may_be = |f: &&Finding| f.about == About::Target && f.status == Status::NotObservable && f.id != AFTERWARDS;
        let unseen = findings.iter().filter(may_be).count();
        // Requests that stand together again and again are plain to see, too, where it is not known for what.
        let paused = Some(loss).filter(|loss| loss.kind == LossKind::Slow).and_then(|_| Stood::of(facts));
        let is_whole = validity.reasons.iter().all(|reason| reason.id != AGENT_LOST);
        let paused = paused.filter(|paused| is_told || (paused.was_looked_on && is_whole));
        let is_told = is_told || paused.is_some();
        let first_round = facts.first_round().filter(|_| loss.kind == LossKind::Waiting && is_told);
        let why = match (is_told, unseen) {
            (false, _) => {
                disturbed(facts, validity).unwrap_or_else(|| "and that may be the generator's: see below".to_owned())
            }
            (_, 0) if first_round.is_some() => "for what is not seen from here".to_owned(),
            (_, 0) if loss.kind == LossKind::Waiting => UNSEEN_WAIT.to_owned(),
            (_, 0) => "no cause that is known here explains it".to_owned(),
            (_, 1) => "why is not known: one cause could not be looked at, see below".to_owned(),
            (_, unseen) => format!("why is not known: {unseen} causes could not be looked at, see below"),
        };
        let stopped = stopped.map(|event| event.text.clone()).or_else(|| stopped_process(facts).filter(|_| is_told));
        let again = stopped_again(facts).filter(|_| is_told && is_of_time(loss.kind));
        let stopped = again.map(|again| again.text).or(stopped);
        let is_untold = stopped.is_none();
        let why = stopped.map_or(why, |text| format!("meanwhile {text}"));
        let is_plain = death.is_none() && standstill.is_none() && beside.is_none();
        let is_bare = is_plain && paused.is_none() && is_untold;
        let room = room_beside(facts, losses, waited).filter(|_| is_plain && limit.is_none());
        // What is plain to see comes first: that it died, and not that it was slow before.
        let seen = match death {
            Some(death) => match losses.iter().find(|loss| loss.kind == LossKind::Failed) {
                Some(failed) => format!("{}, as {}", failed.text, death.said()),
                None => death.said(),
            },
            None => match (standstill, paused) {
                (Some(standstill), _) => standstill.seen(),
                (None, Some(paused)) => format!("{}: {}", paused.text, share_of(paused.share, LossKind::Slow)),
                (None, None) if loss.kind == LossKind::Failed => failures::seen(facts, loss),
                (None, None) => loss.text.clone(),
            },
        };
        // Tasks of a language's own runtime wait where no thread stands: from outside it shows that they do.
        let kinds = costly_kinds(findings).filter(|_| is_told && is_of_time(loss.kind));
        let next = match first_round {
            _ if kinds.is_some() => format!("; {AT_THEM}"),
            Some(round @ FirstRound::Queued { .. }) => look_within(round),
            _ if places.is_some() => places.as_ref().map_or(String::new(), Places::next),
            None if matches!(loss.kind, LossKind::Waiting | LossKind::Capacity) && is_told => format!("; {EXPERIMENT}"),
            _ => String::new(),
        };
        let why = match first_round {
            Some(round) => format!("{}; {why}", round.said("they")),
            None => why,
        };
        let why = kinds.map_or(why.clone(), |kinds| format!("{kinds}; {why}"));
        let beside = beside.map_or(String::new(), |part| {
            let of = part.explains.map_or(String::new(), |explains| share_of(explains.share, explains.of));
            let is_small = part.explains.is_none_or(|explains| explains.share < SMALL_PART);
            let size = if is_small { "a small part" } else { "a part" };
            format!("; {size} is another matter: {} ({of})", part.title)
        });
        let is_open = loss.kind == LossKind::Slow && is_told;
        let meanwhile = waited.filter(|_| is_open).map_or(String::new(), |waited| waited.beside_unknown(facts));
        let befell = if is_told && is_of_time(loss.kind) { meanwhile::meanwhile(facts) } else { String::new() };
        let ended = ended_meanwhile(is_of_time(loss.kind));
        let room = room.filter(|_| ended.is_empty());
        // What is full is no cause of some being later than others, and yet what gives first: whoever looks for one has to know it before.
        let full = limit.or(named).zip(named).filter(|_| is_told && is_of_time(loss.kind));
        let full = full.map(|(limit, named)| (if named.id == ALL_CORES { named } else { limit }, named));
        // With no core left, how long all of a closed loop wait is settled by what each costs; whose turn it is, by the target.
        let is_in_line = is_bare && kinds.is_none() && loss.kind == LossKind::Slow && is_for_cores(facts);
        if let Some((full, named)) = full.filter(|_| is_in_line) {
            let text = format!(
                "{}, so requests wait in it for a core, and not all as long: {seen}{befell}{ended}",
                full.title
            );
            return says(Standing::AtItsLimit, text, Some(named));
        }
        let text = format!("{seen}; {why}{next}{beside}{meanwhile}{befell}{ended}");
        return match (full, room) {
            (Some((full, named)), _) if is_bare && is_full_of_itself(facts) => {
                says(Standing::AtItsLimit, format!("{}; {text}", full.title), Some(named))
            }
            (Some((full, _)), _) if is_bare => says(Standing::Unexplained, format!("{}; {text}", full.title), None),
            (Some((full, _)), _) if is_open && meanwhile.is_empty() => {
                says(Standing::Unexplained, format!("{text}; meanwhile {}", full.title), None)
            }
            (_, Some(demand)) => says(Standing::BelowItsLimit, format!("{}; {text}", below_its_limit(demand)), None),
            _ => says(Standing::Unexplained, text, None),
        };
    }
    if let Some(text) = grew_slow(facts, segments) {
        return says(Standing::Unexplained, format!("{text}{NOT_KNOWN}"), None);
    }
    if let Some(text) = too_short(facts) {
        return says(Standing::Unknown, text, None);
    }
    match facts.busiest_demand() {
        Some(demand) if demand >= DEMAND_FULL.value => {
            let text = format!(
                "nothing was lost; its busiest thread wants {} of a core, so it is near its limit, or others keep it from running",
                percent(demand)
            );
            says(Standing::Unknown, text, None)
        }
        Some(_) if let Some(text) = worked_through(facts) => says(Standing::BelowItsLimit, text, None),
        Some(demand) => says(Standing::BelowItsLimit, below_its_limit(demand), None),
        None => {
            let why = facts.why_no_target();
            // At a limit any closed loop makes a line: that it does is seen from here. A generator that is full makes one of its own.
            let is_valid = validity.state == ValidityState::Valid;
            let seen = match facts.first_round().filter(|_| is_valid) {
                Some(FirstRound::Queued { firsts, quickest_ns, half_ns, .. }) => format!(
                    "requests wait for each other (of the first {firsts} the quickest took {}, half of all {} and more), so the target, or the way to it, is at a limit; at which was not seen",
                    duration(quickest_ns),
                    duration(half_ns)
                ),
                _ => "how full the target is was not seen".to_owned(),
            };
            says(Standing::Unknown, format!("nothing was lost; {seen} ({why})"), None)
        }
    }
}

/// That each request takes so much of the run that nobody was asked more than a few times: nothing of what is late is known then.
fn too_short(facts: &Facts<'_>) -> Option<String> {
    let response = facts.latency(Kind::Response);
    let replies = response.len();
    let is_few = replies > 0 && replies <= FEW_EACH * u64::from(facts.recording.plan.connections);
    let is_long = response.mean() / 1e9 >= LONG_PART * facts.measured_s();
    (is_few && is_long).then(|| {
        format!(
            "the {} replies that came took {} on average, much of the run: what gives is not known from so few; a longer run (-d) tells more",
            show_grouped(replies),
            duration(response.mean())
        )
    })
}

/// Where to look for what requests wait for, and what tells how many it lets through, where that is not clear.
fn look_within(round: FirstRound) -> String {
    if matches!(round, FirstRound::Queued { paced_ns: Some(_), .. }) {
        return PACED.to_owned();
    }
    let room = if round.at_a_time().is_none() { ROOM } else { "" };
    format!("{WITHIN}{room}")
}

/// Whether its only worker, or all of its machine, is full of nothing but its own work: what else is slow is so within that.
fn is_full_of_itself(facts: &Facts<'_>) -> bool {
    let busiest = facts.target_threads.iter().filter_map(|thread| thread.run).reduce(f64::max);
    let is_worker = facts.working().len() == 1 && busiest.is_some_and(|run| run >= DEMAND_FULL.value);
    let is_machine = facts.host.zip(facts.target_cores).is_some_and(|(host, used)| used >= OWN_CORES * host.cores);
    is_worker || is_machine
}

/// Whether as many ask as it can serve, of a target that has nearly all of its machine, and that is full.
fn is_for_cores(facts: &Facts<'_>) -> bool {
    matches!(facts.recording.plan.pace, Pace::Closed { .. }) && is_full_of_it(facts)
}

/// Of bursts: that their requests wait for the work at those before them, where that is all they wait for.
fn worked_through(facts: &Facts<'_>) -> Option<String> {
    let (work_ns, half) = (facts.cpu_ns_per_request()?, facts.latency(Kind::Response));
    let is_queued = matches!(facts.recording.plan.pace, Pace::Burst { .. })
        && matches!(facts.first_round(), Some(FirstRound::Queued { .. }));
    let (size, threads) = (u64::from(facts.recording.plan.connections), facts.working().len());
    let by = if threads == 1 { "its one thread works".to_owned() } else { format!("its {threads} threads work") };
    (is_queued && threads > 0 && !half.is_empty()).then(|| {
        format!(
            "nothing but the work itself: {by} through each burst of {}, one request after another ({} of CPU time each, with its connection's), so that half of them wait {} and more",
            show_grouped(size),
            duration(work_ns),
            duration(half.value_at_quantile(0.5) as f64)
        )
    })
}

/// That nothing gives yet, where its busiest thread wants so much of a core.
fn below_its_limit(demand: f64) -> String {
    format!("not at its limit: nothing gives yet (its busiest thread wants {} of a core)", percent(demand))
}

/// How much of a core the busiest thread wants, where that is less than all, and all that was lost is that some requests were a little
/// late: by a turn of the scheduler, and either so few that it is a small part of all requests' time, or while the target waited for a
/// CPU, beside this generator or for threads of its own. It is said, and yet is not what gives.
fn room_beside(facts: &Facts<'_>, losses: &[Loss], waited: Option<Waited<'_>>) -> Option<f64> {
    let [slow] = losses else { return None };
    let is_slow = slow.kind == LossKind::Slow && is_for_a_turn(facts, slow);
    let is_for_a_cpu = waited.is_some_and(|waited| waited.is_much());
    let demand = facts.busiest_demand().filter(|demand| *demand < DEMAND_FULL.value);
    demand.filter(|_| is_slow && (slow.share < LITTLE_SLOW.value || is_for_a_cpu))
}

/// The sentence, with the run's own faults that acted where the run was worse: they may be why, and what is named their doing.
pub(crate) fn with_own_faults(gives: WhatGives, losses: &[Loss], stretch: Option<&Worse>) -> WhatGives {
    let is_lost = match gives.standing {
        Standing::Gives | Standing::Unexplained => true,
        // Behind a limit, or room that is left, stands what was late all the same.
        Standing::AtItsLimit | Standing::BelowItsLimit => losses.iter().any(|loss| loss.kind == LossKind::Slow),
        Standing::Unknown | Standing::SeenWithoutLoad => false,
    };
    match stretch.filter(|_| is_lost).and_then(|stretch| stretch.may_be_why(&gives.text)) {
        Some(why) => {
            let seen = gives.text.strip_suffix(NOT_KNOWN).unwrap_or(&gives.text);
            WhatGives { text: format!("{seen}; {why}"), ..gives }
        }
        None => gives,
    }
}

/// Of a target that ended in order and for good: what was lost by it, and who asked for it.
fn stopped_for_good(death: &Death<'_>, facts: &Facts<'_>, losses: &[Loss]) -> Option<String> {
    let why = death.why(facts)?;
    let failed = losses.iter().find(|loss| loss.kind == LossKind::Failed);
    let lost = failed.map_or(String::new(), |loss| format!("{}, as ", loss.text));
    Some(format!("{lost}{}; {why}", death.said()))
}

/// That half of the requests took far longer from some moment on, at no higher rate: of the run as a whole that need be no loss.
fn grew_slow(facts: &Facts<'_>, segments: &[Segment]) -> Option<String> {
    let response = facts.latency(Kind::Response);
    if response.is_empty() {
        return None;
    }
    // In a closed loop the fast ones are so many more that they are half of all.
    let (mut was_us, mut rate) =
        (response.value_at_quantile(0.5) as f64 / 1e3, facts.recording.totals.requests_per_s());
    let mut found = None;
    for segment in segments {
        let Some(is_us) = segment.response_p50_us else { continue };
        let is_slower = is_us >= LATER_TIMES * was_us && is_us - was_us >= LATER_US;
        if is_slower && segment.requests_per_s <= LATER_RATE * rate {
            found = found.or(Some((segment.from_s, was_us, is_us)));
        } else if is_us < was_us {
            (was_us, rate) = (is_us, segment.requests_per_s);
        }
    }
    let (from_s, was_us, is_us) = found?;
    let unit = facts.recording.plan.unit();
    let (was, is) = (duration(was_us * 1e3), duration(is_us * 1e3));
    Some(format!("from second {from_s:.1} on half of the {unit}s took {is} and more, others {was}"))
}

/// Whether a loss is what a full resource makes of too much load: less than was asked, all of it late, and some too late.
fn is_of_overload(facts: &Facts<'_>, kind: LossKind) -> bool {
    const TOO_LATE: [ErrorKind; 3] = [ErrorKind::QueueTimeout, ErrorKind::ReplyTimeout, ErrorKind::ConnectTimeout];
    match kind {
        LossKind::Capacity | LossKind::Waiting => true,
        LossKind::Failed => {
            let errors = &facts.recording.totals.sum.errors;
            let late = TOO_LATE.iter().map(|kind| errors.of(*kind)).fold(0, u64::saturating_add);
            // By the clock more are asked for than it carries, and are under way at the end: where it answers, and some came in time. Users of a
            // closed loop ask for no more.
            let failed = facts.recording.totals.sum.counts.failed;
            let is_closed = matches!(facts.recording.plan.pace, Pace::Closed { .. });
            late >= failed && (failed > 0 || !(is_closed || failures::silent_ns(facts).is_some()))
        }
        LossKind::Slow | LossKind::Starved => false,
    }
}

/// Which requests take many times what the rest do, where that is seen from the client's side alone: it may be the target that is at them so
/// long, or something between.
fn costly_kinds(findings: &[Finding]) -> Option<&str> {
    const SLOW_PATH: &str = "slow-path";
    let finding = findings.iter().find(|f| f.id == SLOW_PATH && f.status == Status::NotObservable)?;
    let seen = finding.because.iter().find(|piece| piece.source == Some(Source::Client))?;
    Some(&seen.text)
}

/// That requests wait for each other, where a finding leaves open what most of the time is for that they wait.
fn queued_besides(finding: &Finding, losses: &[Loss], facts: &Facts<'_>) -> Option<String> {
    // Of a target that hardly gets a CPU they do that, too: the most that it may explain counts.
    let is_part = |explains: Explains| explains.of == LossKind::Waiting && 1.0 - explains.high >= OPEN_MIN;
    let is_open = finding.explains.is_some_and(is_part) && rest_beside(finding, losses) >= OPEN_MIN;
    let round = facts.first_round().filter(|_| is_open)?;
    matches!(round, FirstRound::Queued { .. }).then(|| format!("{}{}", round.said("requests"), look_within(round)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::worse::Acting;

    fn lost(kind: LossKind, unexplained: f64) -> Loss {
        Loss { kind, share: 0.5, text: String::new(), unexplained, time: None, concentrated: Vec::new() }
    }

    #[test]
    fn a_fault_of_the_run_is_said_wherever_something_was_late() {
        let acting = Acting { name: "stress".to_owned(), from_s: 2.0, to_s: 3.0 };
        let stretch =
            Worse { from_s: 2.0, to_s: 3.0, is_to_end: false, half_us: None, rate_per_s: None, faults: vec![acting] };
        let is_said = |standing, losses: &[Loss]| {
            let gives = WhatGives { standing, text: "so it stands".to_owned(), finding: None, behind: None };
            with_own_faults(gives, losses, Some(&stretch))
                .text
                .ends_with("(stress from second 2.0 to 3.0), which may be why")
        };
        let slow = [lost(LossKind::Slow, 1.0)];
        for standing in [Standing::Gives, Standing::Unexplained, Standing::AtItsLimit, Standing::BelowItsLimit] {
            assert!(is_said(standing, &slow), "{standing:?}");
        }
        // A limit is one without any fault, and what is not known is nobody's doing yet.
        assert!(!is_said(Standing::AtItsLimit, &[lost(LossKind::Capacity, 1.0)]));
        assert!(!is_said(Standing::BelowItsLimit, &[]) && !is_said(Standing::Unknown, &slow));
    }
}
