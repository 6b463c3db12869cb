//! `garbage-collection`: requests wait while the target's language runtime collects.
//!
//! Evidence: (process) the runtime itself said when it paused for its collector, and how long (`bpf/collector`, pauses from 5 ms
//! on); (client) what slow requests took beyond others of their kind lies in those pauses. Refuted where the pauses hold little
//! of it. Not observable where a runtime does not say when it collects; not applicable where no runtime that is known is there.
//! Looks alike: any other pause of all requests (`stop-the-world`), of which a collector is a cause.

use crate::evidence::{Client, Process};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::COLLECTOR_SHARE;
use model::event::COLLECTOR_PAUSE;
use model::finding::{LossKind, Severity};
use model::snapshot::Role;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "garbage-collection", needs: Needs::Connections, reads: &[&["process/runtimes"]], judge };

/// A span of time, nanoseconds since the run's start.
type Span = (u64, u64);

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let processes = facts.recording.snapshots.iter().flat_map(|snapshot| &snapshot.processes);
    let runtime = processes.filter(|process| process.role == Role::Target).find_map(|process| process.runtime);
    let Some(runtime) = runtime else {
        return Verdict::not_applicable("the target runs in no language runtime that is known");
    };
    let pauses = pauses(facts);
    let Some((from_ns, to_ns)) = pauses.iter().copied().max_by_key(|(from_ns, to_ns)| to_ns - from_ns) else {
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
    };
    let total_ns: u64 = pauses.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    let text = format!(
        "{} paused {} times for its collector for 5 ms and more, {} in all, at most {} at once",
        runtime.name(),
        pauses.len(),
        duration(total_ns as f64),
        duration((to_ns - from_ns) as f64)
    );
    let process = facts.piece::<Process>(text, "collector.pause_ns", total_ns as f64, "ns");
    let share = share_within(facts, &pauses);
    let text =
        format!("{} of what slow requests took beyond others of their kind lies in those pauses", percent(share));
    let client = facts.piece::<Client>(text, "requests.excess_in_pauses", share, "ratio").from(COLLECTOR_SHARE.value);
    if share < COLLECTOR_SHARE.value {
        return Verdict::refuted("what made requests slow lies outside the collector's pauses")
            .because(client.into())
            .because(process.into());
    }
    let title = format!(
        "requests wait while the collector of {} runs, up to {}",
        runtime.name(),
        duration((to_ns - from_ns) as f64)
    );
    Verdict::proved(Severity::Error, title, process, client)
        .explains(LossKind::Slow, share, (share - 0.15).max(0.0), 1.0)
        .remedy("Give the heap more room, allocate less for each request, or choose a collector that works beside the program")
        .check("the runtime's own log of collections: java -Xlog:gc, node --trace-gc, GODEBUG=gctrace=1, python3: gc.set_debug(gc.DEBUG_STATS)")
        .confidence(0.9)
}

/// The collector's pauses in the measured time, those that overlap as one, in the order of time.
pub(crate) fn pauses(facts: &Facts<'_>) -> Vec<Span> {
    let events = facts.recording.events.iter().filter(|event| event.kind == COLLECTOR_PAUSE);
    let mut spans: Vec<Span> = events
        .filter_map(|event| {
            let from_ns = u64::try_from(event.at_ns).ok()?;
            Some((from_ns, from_ns.saturating_add(event.details.took_ns?)))
        })
        .filter(|(from_ns, to_ns)| from_ns < to_ns && *to_ns > facts.start_ns && *from_ns < facts.end_ns)
        .collect();
    spans.sort_unstable();
    let mut apart: Vec<Span> = Vec::new();
    for (from_ns, to_ns) in spans {
        match apart.last_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
            _ => apart.push((from_ns, to_ns)),
        }
    }
    apart
}

/// The share of slow requests' excess over their kind that lies in spans: of each at most as long as it was under way in them.
fn share_within(facts: &Facts<'_>, spans: &[Span]) -> f64 {
    let (mut within_ns, mut all_ns) = (0.0, 0.0);
    for request in facts.recording.requests.sampled() {
        let Some(excess_ns) = facts.kinds.excess_ns(request) else { continue };
        let overlap_ns: u64 = spans
            .iter()
            .map(|(from_ns, to_ns)| request.ended_ns.min(*to_ns).saturating_sub(request.ready_ns.max(*from_ns)))
            .sum();
        all_ns += excess_ns;
        within_ns += excess_ns.min(overlap_ns as f64);
    }
    if all_ns > 0.0 { within_ns / all_ns } else { 0.0 }
}
