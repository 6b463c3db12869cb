//! What each disruption of a run did: from single requests where they are recorded, else from its intervals.
//!
//! A disruption is a fault of the run (events [`FAULT_BEGAN`] and its like), or a span in which nothing succeeded that no
//! fault explains ([`OUTAGE`]); that has the name of what befell the target about then, if that is known. The moments of the last success
//! before, the first failure and the first success are those of requests: each worker notes them, and while connections are
//! refused one of them tries again every [`LOOKOUT_NS`]. What is counted or compared a second is as exact as the run's
//! intervals (`figures`, `back`).
//!
//! Not here: why it happened. Causes have their rules, which the same events are evidence of.

pub(crate) mod back;
mod figures;
pub mod sentence;

use crate::causes::deaths::{is_bad_end, is_in_order};
use crate::facts::{Facts, seconds};
use model::Event;
use model::event::{FAULT_BEGAN, FAULT_REFUSED, FAULT_UNDONE, OUTAGE};
use model::limits::{LOOKOUT_NS, OUTAGE_NS_MIN};
use model::recovery::Recovery;

/// Disruptions that are told of; a run of more has another trouble.
const TOLD_MAX: usize = 64;
/// An outage of which nobody knows why is told from this length on, nanoseconds: shorter ones are pauses.
const UNKNOWN_NS_MIN: u64 = 100_000_000;
/// An outage that begins so soon after a disruption, or after the one before it, belongs to it, nanoseconds.
const BELONGS_NS: u64 = 10_000_000_000;

/// A span in which nothing succeeded. Moments are nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The last success before.
    pub from_ns: u64,
    /// The next success; `None`: there was none.
    pub to_ns: Option<u64>,
    /// The first failure in it.
    pub first_failed_ns: Option<u64>,
}

impl Span {
    fn end_ns(&self) -> u64 {
        self.to_ns.unwrap_or(u64::MAX)
    }
}

/// What happened, before its figures are known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disruption {
    pub fault: Option<u32>,
    pub name: String,
    pub what: String,
    pub at_ns: u64,
    pub undone_ns: Option<u64>,
    pub refused: Option<String>,
    pub is_done: bool,
    pub spans: Vec<Span>,
}

/// The disruptions of a run, in the order of their moments.
pub fn recoveries(facts: &Facts<'_>) -> Vec<Recovery> {
    if facts.recording.capsule.why_no_load().is_some() {
        return Vec::new();
    }
    let mut all = faults(facts);
    by_themselves(facts, &mut all);
    all.sort_by_key(|disruption| disruption.at_ns);
    all.truncate(TOLD_MAX);
    let mut told: Vec<Recovery> = Vec::with_capacity(all.len());
    for (at, disruption) in all.iter().enumerate() {
        let next = all.iter().skip(at + 1).find(|next| next.is_done && next.at_ns > disruption.at_ns);
        let until_ns = next.map_or(facts.end_ns, |next| next.at_ns.min(facts.end_ns));
        told.push(figures::of(facts, disruption, &told, until_ns));
    }
    told
}

fn moment(event: &Event) -> u64 {
    u64::try_from(event.at_ns).unwrap_or(0)
}

/// The faults of the run, each with what was interrupted by it.
fn faults(facts: &Facts<'_>) -> Vec<Disruption> {
    let events = &facts.recording.events;
    let of = |kind: &'static str, number: Option<u32>| {
        events.iter().find(move |event| event.kind == kind && event.details.fault == number)
    };
    let mut all: Vec<Disruption> = Vec::new();
    for event in events.iter().filter(|event| event.kind == FAULT_BEGAN || event.kind == FAULT_REFUSED) {
        let number = event.details.fault;
        if number.is_some() && all.iter().any(|disruption| disruption.fault == number) {
            continue;
        }
        let began = of(FAULT_BEGAN, number).unwrap_or(event);
        all.push(Disruption {
            fault: number,
            name: began.details.of_kind.clone().unwrap_or_else(|| "fault".to_owned()),
            what: began.text.clone(),
            at_ns: moment(began),
            undone_ns: of(FAULT_UNDONE, number).map(moment),
            refused: of(FAULT_REFUSED, number).map(|event| event.text.clone()),
            is_done: began.kind == FAULT_BEGAN,
            spans: Vec::new(),
        });
    }
    all
}

/// Gives each span without success to the disruption it belongs to, and makes one of what belongs to none.
fn by_themselves(facts: &Facts<'_>, all: &mut Vec<Disruption>) {
    for span in spans(facts) {
        let belongs = |disruption: &Disruption| {
            let last_ns = disruption.spans.iter().map(Span::end_ns).max().unwrap_or(0);
            let until_ns = last_ns.max(disruption.undone_ns.unwrap_or(0)).max(disruption.at_ns);
            let is_after = span.end_ns() > disruption.at_ns && span.from_ns <= until_ns.saturating_add(BELONGS_NS);
            // A pause without a failure is its doing only while it acts.
            let acts_until_ns = disruption.undone_ns.unwrap_or(disruption.at_ns).max(disruption.at_ns);
            disruption.is_done && is_after && (span.first_failed_ns.is_some() || span.from_ns <= acts_until_ns)
        };
        if let Some(disruption) = all.iter_mut().rev().find(|disruption| belongs(disruption)) {
            disruption.spans.push(span);
        } else if span.first_failed_ns.is_some()
            && span.end_ns().saturating_sub(span.from_ns) >= UNKNOWN_NS_MIN
            && span.from_ns < facts.end_ns
        {
            all.push(unasked(facts, span));
        }
    }
}

/// Kind of the event that says that a process of the target ended.
const TARGET_EXIT: &str = "target-exit";

/// A disruption that nobody asked for, with the name of what befell the target about then.
fn unasked(facts: &Facts<'_>, span: Span) -> Disruption {
    let slack_ns = facts.recording.plan.tick_ns.saturating_mul(2);
    let is_then = |event: &&Event| {
        let at_ns = moment(event);
        event.at_ns >= 0
            && at_ns.saturating_add(slack_ns) >= span.from_ns
            && at_ns <= span.end_ns().saturating_add(slack_ns)
    };
    let known = [
        ("target-oom-kill", "oom-kill"),
        (TARGET_EXIT, "process-crash"),
        ("target-gone", "process-crash"),
        (model::event::TARGET_ENDED, "process-crash"),
        ("target-restarted", "process-restart"),
        ("target-executed", "process-restart"),
    ];
    // A process that ends as it should is no crash.
    let is_one = |event: &Event| match &*event.kind {
        TARGET_EXIT => is_bad_end(event),
        "target-gone" => !is_in_order(facts.recording, event.details.pid),
        _ => true,
    };
    let events = || facts.recording.events.iter().filter(is_then);
    let found = known.iter().find_map(|(kind, name)| {
        let event = events().find(|event| event.kind == *kind && is_one(event))?;
        Some((*name, event.text.clone()))
    });
    let (name, what) = found.unwrap_or(("outage", "nothing succeeded any more, and it is not known why".to_owned()));
    Disruption {
        fault: None,
        name: name.to_owned(),
        what,
        at_ns: span.from_ns,
        undone_ns: None,
        refused: None,
        is_done: true,
        spans: vec![span],
    }
}

/// Spans in which nothing succeeded, oldest first: outages, and pauses that none of them covers.
fn spans(facts: &Facts<'_>) -> Vec<Span> {
    let mut all: Vec<Span> = facts
        .recording
        .events
        .iter()
        .filter(|event| event.kind == OUTAGE && event.at_ns >= 0)
        .map(|event| Span {
            from_ns: moment(event),
            to_ns: event.details.took_ns.map(|took_ns| moment(event).saturating_add(took_ns)),
            first_failed_ns: Some(event.details.first_failed_ns.unwrap_or_else(|| moment(event))),
        })
        .collect();
    let outages = all.clone();
    let is_covered = |from_ns: u64, to_ns: u64| outages.iter().any(|o| from_ns < o.end_ns() && to_ns > o.from_ns);
    let usual_ns = facts.latency(model::LatencyKind::Service);
    let usual_ns = if usual_ns.is_empty() { 0 } else { usual_ns.value_at_quantile(0.99) };
    for gap in facts.recording.requests.common_gaps(facts.recording.plan.threads) {
        let is_long = gap.others_ns() >= OUTAGE_NS_MIN.max(usual_ns.saturating_mul(4));
        if is_long && gap.in_flight > 0 && !is_covered(gap.from_ns, gap.to_ns) {
            all.push(Span { from_ns: gap.from_ns, to_ns: Some(gap.to_ns), first_failed_ns: None });
        }
    }
    all.sort_by_key(|span| span.from_ns);
    all
}

/// How exactly moments of single requests are known, seconds.
pub(crate) fn moments_s() -> f64 {
    seconds(LOOKOUT_NS)
}
