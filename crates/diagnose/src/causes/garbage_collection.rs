//! `garbage-collection`: requests wait while the target's language runtime collects.
//!
//! Evidence: (process) the runtime itself said when it paused for its collector, and how long (`bpf/collector`; moments of pauses
//! from 5 ms on, the time of all); (client) what slow requests took beyond others of their kind lies in those pauses; or the
//! program was held for 15 % of the time, in however short pauses, and requests took far longer than the work in them, or
//! less came than was due. Refuted where the pauses hold little of it. Not observable where a runtime does not say when it
//! collects; not applicable where no runtime that is known is there.
//! Looks alike: any other pause of all requests (`stop-the-world`), of which a collector is a cause.

use super::deaths::recycled;
use super::pauses::{excess_within, joined};
use crate::evidence::{Client, Process};
use crate::facts::{Facts, duration, percent};
use crate::history::Subject;
use crate::ledger;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{COLLECTOR_SHARE, COLLECTOR_TIME};
use model::event::{COLLECTOR_PAUSE, Event};
use model::finding::{LossKind, Severity};
use model::snapshot::{Role, Snapshot};
use std::collections::BTreeMap;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "garbage-collection", needs: Needs::Connections, reads: &[&["process/runtimes"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let processes = facts.recording.snapshots.iter().flat_map(|snapshot| &snapshot.processes);
    let runtime = processes.filter(|process| process.role == Role::Target).find_map(|process| process.runtime);
    let Some(runtime) = runtime else {
        return Verdict::not_applicable("the target runs in no language runtime that is known");
    };
    let pauses = pauses(facts);
    let held = held(facts);
    if held.is_none_or(|held| held < COLLECTOR_TIME.value) && pauses.is_empty() {
        let sampler = facts.recording.samplers.iter().find(|sampler| sampler.name == "bpf/collector");
        return match sampler {
            Some(sampler) if sampler.status == model::snapshot::SamplerState::Active => {
                let which = match events(facts).1.is_empty() {
                    true => "for less than 5 ms each time, or never",
                    false => "while a process began or ended, or for less than 5 ms",
                };
                Verdict::refuted(format!("{} paused for its collector {which}", runtime.name()))
            }
            Some(sampler) => Verdict::not_observable(
                format!("whether requests wait for the collector of {}", runtime.name()),
                format!("bpf/collector: {}", sampler.reason),
            ),
            None => Verdict::not_observable(
                format!("whether requests wait for the collector of {}", runtime.name()),
                "bpf/collector did not run: --observe light, as root",
            ),
        };
    }
    let longest_ns = pauses.iter().map(|(from_ns, to_ns)| to_ns - from_ns).max().unwrap_or(0) as f64;
    let total_ns: u64 = pauses.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    let of_time =
        held.map_or(String::new(), |held| format!("; all of its pauses together were {} of the time", percent(held)));
    let text = format!(
        "{} paused {} times for its collector for 5 ms and more, {} in all{of_time}",
        runtime.name(),
        pauses.len(),
        duration(total_ns as f64),
    );
    let process = facts.piece::<Process>(text, "collector.pause_ns", total_ns as f64, "ns");
    let within = excess_within(facts, &pauses);
    let long = total_ns as f64 / 1e9 / facts.measured_s().max(1e-9);
    // Of short ones no moment is known: what is not in long ones had as much of them as any time.
    let short = (held.unwrap_or(0.0) - long).max(0.0);
    let share = within + (1.0 - within) * short;
    let is_held = held.is_some_and(|held| held >= COLLECTOR_TIME.value);
    let (client, title) = if within >= COLLECTOR_SHARE.value || !is_held {
        let text =
            format!("{} of what slow requests took beyond others of their kind lies in those pauses", percent(within));
        let title =
            format!("requests wait while the collector of {} runs, up to {}", runtime.name(), duration(longest_ns));
        (facts.piece::<Client>(text, "requests.excess_in_pauses", within, "ratio").from(COLLECTOR_SHARE.value), title)
    } else {
        let losses = ledger::losses(facts);
        let Some(loss) = losses.iter().find(|loss| !matches!(loss.kind, LossKind::Failed | LossKind::Starved)) else {
            return Verdict::refuted("the collector holds the program often, and no request shows it")
                .because(process.into());
        };
        let title = format!(
            "the collector of {} holds the program for {} of the time",
            runtime.name(),
            percent(held.unwrap_or(0.0))
        );
        (facts.piece::<Client>(loss.text.clone(), "loss.share", loss.share, "ratio"), title)
    };
    if within < COLLECTOR_SHARE.value && !is_held {
        return Verdict::refuted("what made requests slow lies outside the collector's pauses")
            .because(client.into())
            .because(process.into());
    }
    Verdict::proved(Severity::Error, title, process, client)
        .explains(LossKind::Slow, share, (within - 0.15).max(0.0), 1.0)
        .remedy("Give the heap more room, allocate less for each request, or choose a collector that works beside the program")
        .check("# the runtime's own log of collections: java -Xlog:gc, node --trace-gc, GODEBUG=gctrace=1, python3: gc.set_debug(gc.DEBUG_STATS)")
        .confidence(0.9)
}

/// The share of the measured time in which the runtime held the program for its collector, pauses of any length; of several
/// processes that share the work, the mean of theirs, as a pause of one holds no other. `None`: it was not read.
fn held(facts: &Facts<'_>) -> Option<f64> {
    let all = facts.grown(Subject::Probes, "collector.pause_ns.sum")?;
    let (_, of_others) = events(facts);
    let is_measured =
        |event: &&&Event| u64::try_from(event.at_ns).is_ok_and(|at_ns| (facts.start_ns..facts.end_ns).contains(&at_ns));
    let of_others = of_others.iter().filter(is_measured).filter_map(|event| event.details.took_ns);
    let idle: f64 = of_others.map(|ns| ns as f64).sum();
    let all = (all - idle).max(0.0);
    Some((all / 1e9 / facts.measured_s().max(1e-9) / sharing(facts)).min(1.0))
}

/// How many processes of the runtime share the work: all their CPU time over that of the busiest, so that one that only starts and
/// watches the others is none. Those that came one after the other are no more than there were at a time.
fn sharing(facts: &Facts<'_>) -> f64 {
    let with_runtime = |snapshot: &Snapshot| -> Vec<u32> {
        let targets = snapshot.processes.iter().filter(|process| process.role == Role::Target);
        targets.filter(|process| process.runtime.is_some()).map(|process| process.pid).collect()
    };
    let (mut at_a_time, mut used) = (0, BTreeMap::new());
    for snapshot in &facts.recording.snapshots {
        let pids = with_runtime(snapshot);
        at_a_time = at_a_time.max(pids.len());
        used.extend(pids.into_iter().map(|pid| (pid, 0.0)));
    }
    for thread in &facts.target_threads {
        if let (Some(cores), Some(run)) = (used.get_mut(&thread.pid), thread.run) {
            *cores += run;
        }
    }
    let busiest = used.values().fold(0.0, |most: f64, cores| most.max(*cores));
    if busiest <= 0.0 {
        return 1.0;
    }
    (used.values().sum::<f64>() / busiest).min(at_a_time as f64).max(1.0)
}

/// The collector's pauses in the measured time that say when they were (nanoseconds of the run), those that overlap as one, in
/// the order of time.
pub(crate) fn pauses(facts: &Facts<'_>) -> Vec<(u64, u64)> {
    let (of_serving, _) = events(facts);
    let spans = of_serving.into_iter().filter_map(|event| {
        let from_ns = u64::try_from(event.at_ns).ok()?;
        Some((from_ns, from_ns.saturating_add(event.details.took_ns?)))
    });
    let is_then = |(from_ns, to_ns): &(u64, u64)| from_ns < to_ns && *to_ns > facts.start_ns && *from_ns < facts.end_ns;
    joined(spans.filter(is_then).collect())
}

/// The pauses of processes that serve, and those of processes that end or begin: interpreters collect once more, or several times, when
/// they end, and again and again while they load what they need; who has nothing else to do keeps nobody waiting.
fn events<'f>(facts: &'f Facts<'_>) -> (Vec<&'f Event>, Vec<&'f Event>) {
    let replaced = recycled(facts);
    let of_kind = |kind: &'static str| facts.recording.events.iter().filter(move |event| event.kind == kind);
    let mut by_pid: BTreeMap<Option<u32>, Vec<&Event>> = BTreeMap::new();
    for pause in of_kind(COLLECTOR_PAUSE) {
        by_pid.entry(pause.details.pid).or_default().push(pause);
    }
    let ends: BTreeMap<u32, i64> =
        of_kind("target-exit").filter_map(|event| Some((event.details.pid?, event.at_ns))).collect();
    let first = facts.recording.snapshots.first();
    let was_there = |pid: u32| first.is_none_or(|first| first.processes.iter().any(|process| process.pid == pid));
    let (mut of_serving, mut of_others) = (Vec::new(), Vec::new());
    for (pid, mut pauses) in by_pid {
        pauses.sort_by_key(|pause| pause.at_ns);
        let begins = if pid.is_some_and(|pid| !was_there(pid)) { at_begin(&pauses) } else { 0 };
        let ends = pid.and_then(|pid| ends.get(&pid)).map_or(0, |end_ns| at_end(&pauses, *end_ns));
        for (nth, pause) in pauses.iter().enumerate() {
            let is_then = replaced.as_ref().is_some_and(|recycled| recycled.has(pause));
            let serves = nth >= begins && nth + ends < pauses.len() && !is_then;
            if serves { of_serving.push(*pause) } else { of_others.push(*pause) }
        }
    }
    (of_serving, of_others)
}

/// Between two collections that a process makes in a row, and after the last before it ends, is no more than this, nanoseconds.
const IN_A_ROW_NS: i64 = 100_000_000;
/// It is at its begin, or its end, for no longer, nanoseconds.
const AGE_NS: i64 = 2_000_000_000;

/// How many of a process' pauses are in a row from its first on.
fn at_begin(pauses: &[&Event]) -> usize {
    let Some(first_ns) = pauses.first().map(|pause| pause.at_ns) else { return 0 };
    let mut over_ns = first_ns;
    let in_a_row = |pause: &&&Event| {
        let is_next = pause.at_ns.saturating_sub(over_ns) <= IN_A_ROW_NS && pause.at_ns - first_ns <= AGE_NS;
        over_ns = ended_ns(pause);
        is_next
    };
    pauses.iter().take_while(in_a_row).count()
}

/// How many of a process' pauses are in a row to its end.
fn at_end(pauses: &[&Event], end_ns: i64) -> usize {
    let mut next_ns = end_ns;
    let in_a_row = |pause: &&&Event| {
        let is_next = next_ns.saturating_sub(ended_ns(pause)) <= IN_A_ROW_NS && end_ns - pause.at_ns <= AGE_NS;
        next_ns = pause.at_ns;
        is_next
    };
    pauses.iter().rev().take_while(in_a_row).count()
}

fn ended_ns(pause: &Event) -> i64 {
    pause.at_ns.saturating_add(i64::try_from(pause.details.took_ns.unwrap_or(0)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::event::Details;

    /// Pauses of one process, from when and for how long, milliseconds.
    fn pauses(all: &[(i64, u64)]) -> Vec<Event> {
        let one = |(at_ms, took_ms): &(i64, u64)| {
            let details = Details { took_ns: Some(took_ms * 1_000_000), ..Details::default() };
            Event::new(at_ms * 1_000_000, COLLECTOR_PAUSE, "it paused").with(details)
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn those_in_a_row_at_the_begin_and_at_the_end_are_counted_by_what_lies_between() {
        // 90 ms lie between the first three, 110 before the fourth.
        let all = pauses(&[(0, 50), (140, 50), (280, 50), (440, 50)]);
        let all: Vec<&Event> = all.iter().collect();
        assert_eq!(at_begin(&all), 3);
        assert_eq!(at_end(&all, 580_000_000), 1);
        assert_eq!(at_end(&all[..3], 420_000_000), 3);
        assert_eq!(at_end(&all, 600_000_000), 0, "it went on for long");
        // One that collects all the time begins for two seconds only.
        let busy: Vec<(i64, u64)> = (0..100).map(|nth| (50 * nth, 40)).collect();
        let busy = pauses(&busy);
        let busy: Vec<&Event> = busy.iter().collect();
        assert_eq!((at_begin(&busy), at_end(&busy, 5_000_000_000)), (41, 40));
    }
}
