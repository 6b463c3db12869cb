//! `garbage-collection`: requests wait while the target's language runtime collects.
//!
//! Evidence: (process) the runtime itself said when it paused for its collector, and how long (`bpf/collector`; moments of pauses
//! from 5 ms on, the time of all); (client) what slow requests took beyond others of their kind lies in those pauses; or the
//! program was held for 15 % of the time, in however short pauses, and requests took far longer than the work in them, or
//! less came than was due. Refuted where the pauses hold little of it. Not observable where a runtime does not say when it
//! collects; not applicable where no runtime that is known is there.
//! Looks alike: any other pause of all requests (`stop-the-world`), of which a collector is a cause.

use super::pauses::{excess_within, joined};
use crate::evidence::{Client, Process};
use crate::facts::{Facts, duration, percent};
use crate::history::Subject;
use crate::ledger;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{COLLECTOR_SHARE, COLLECTOR_TIME};
use model::event::COLLECTOR_PAUSE;
use model::finding::{LossKind, Severity};
use model::snapshot::Role;

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
            Some(sampler) if sampler.status == model::snapshot::SamplerState::Active => Verdict::refuted(format!(
                "{} paused for its collector for less than 5 ms each time, or never",
                runtime.name()
            )),
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
        .check("the runtime's own log of collections: java -Xlog:gc, node --trace-gc, GODEBUG=gctrace=1, python3: gc.set_debug(gc.DEBUG_STATS)")
        .confidence(0.9)
}

/// The share of the measured time in which the runtime held the program for its collector, pauses of any length; `None`: it was
/// not read.
fn held(facts: &Facts<'_>) -> Option<f64> {
    let all = facts.grown(Subject::Probes, "collector.pause_ns.sum")?;
    Some((all / 1e9 / facts.measured_s().max(1e-9)).min(1.0))
}

/// The collector's pauses in the measured time that say when they were (nanoseconds of the run), those that overlap as one, in
/// the order of time.
pub(crate) fn pauses(facts: &Facts<'_>) -> Vec<(u64, u64)> {
    let events = facts.recording.events.iter().filter(|event| event.kind == COLLECTOR_PAUSE);
    let spans = events.filter_map(|event| {
        let from_ns = u64::try_from(event.at_ns).ok()?;
        Some((from_ns, from_ns.saturating_add(event.details.took_ns?)))
    });
    let is_then = |(from_ns, to_ns): &(u64, u64)| from_ns < to_ns && *to_ns > facts.start_ns && *from_ns < facts.end_ns;
    joined(spans.filter(is_then).collect())
}
