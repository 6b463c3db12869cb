//! The plan of several generators together: what must be the same in all, and what is added up.
//!
//! A load that was divided over generators differs in how many connections, requests a second and workers each had, and in seeds.
//! All else is what was asked of the target, and must be the same, or the sum would be of two experiments.

use super::MergeError;
use model::Plan;
use model::plan::{Pace, Segment, Stop};
use serde::Serialize;

/// A generator's plan.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The recording's name.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// How long after the first run it began, nanoseconds.
    pub offset_ns: u64,
}

/// Part of a plan, as text that is the same where the part is.
type Part = (&'static str, fn(&Plan) -> String);

/// The name of the pace among what must be the same.
const PACE: &str = "the pace";

/// What must be the same, with its name.
const SAME: &[Part] = &[
    ("what is asked", |plan| text(&plan.workload)),
    ("the targets", |plan| text(&plan.origins)),
    (PACE, |plan| text(&pace_of(plan))),
    ("the warm-up", |plan| text(&plan.warmup_ns)),
    ("the tick", |plan| text(&plan.tick_ns)),
    ("the timeouts", |plan| text(&plan.timeouts)),
    ("what follows a failure", |plan| text(&plan.on_error)),
    ("the requests of a connection", |plan| text(&plan.requests_per_connection)),
    ("the pipelining", |plan| text(&plan.pipeline)),
    ("what a full queue does", |plan| text(&plan.on_full)),
    ("TLS", |plan| text(&plan.tls)),
    ("the phases", |plan| text(&plan.phases.iter().map(|p| (&p.name, p.start_ns, p.end_ns)).collect::<Vec<_>>())),
];

fn text<T: Serialize>(part: &T) -> String {
    serde_json::to_string(part).unwrap_or_default()
}

/// How requests are due, rates left out.
fn pace_of(plan: &Plan) -> (&'static str, String) {
    match &plan.pace {
        Pace::Closed { think } => ("closed", text(think)),
        Pace::Open { profile, arrivals } => {
            ("open", text(&(arrivals, profile.iter().map(|segment| segment.for_ns).collect::<Vec<_>>())))
        }
        Pace::Burst { .. } => ("burst", String::new()),
        Pace::Held { every_ns, .. } => ("held", text(every_ns)),
    }
}

/// The plan of all of them, the one that began first first.
///
/// # Errors
/// [`MergeError::Different`], [`MergeError::NotAGenerators`] of bursts.
pub fn merged(named: &[Named<'_>]) -> Result<Plan, MergeError> {
    let Some((first, others)) = named.split_first() else { return Err(MergeError::Count(0)) };
    if matches!(first.plan.pace, Pace::Burst { .. }) {
        return Err(MergeError::NotAGenerators {
            name: first.name.to_owned(),
            why: "the load is bursts, and several generators' are not due at one moment".to_owned(),
        });
    }
    let mut plan = first.plan.clone();
    for other in others {
        same(first, other, |_| true)?;
        add(&mut plan, other)?;
    }
    Ok(plan)
}

/// Holds the plans of agents of one run against each other: the whole is known, and the rates of each may have been changed meanwhile,
/// as it took on what another was to do.
///
/// # Errors
/// [`MergeError::Different`].
pub fn of_agents(named: &[Named<'_>]) -> Result<(), MergeError> {
    let Some((first, others)) = named.split_first() else { return Err(MergeError::Count(0)) };
    others.iter().try_for_each(|other| same(first, other, |what| what != PACE))
}

fn same(first: &Named<'_>, other: &Named<'_>, matters: impl Fn(&str) -> bool) -> Result<(), MergeError> {
    let differs = |(what, part): &&Part| matters(what) && part(first.plan) != part(other.plan);
    match SAME.iter().find(differs) {
        Some((what, _)) => {
            Err(MergeError::Different { what, one: first.name.to_owned(), other: other.name.to_owned() })
        }
        None => Ok(()),
    }
}

fn add(plan: &mut Plan, other: &Named<'_>) -> Result<(), MergeError> {
    let of = other.plan;
    plan.connections = plan.connections.saturating_add(of.connections);
    plan.threads = plan.threads.saturating_add(of.threads);
    plan.queue_capacity = plan.queue_capacity.saturating_add(of.queue_capacity);
    plan.drain_ns = plan.drain_ns.max(of.drain_ns);
    plan.after_ns = plan.after_ns.max(of.after_ns);
    plan.sources.extend(of.sources.iter().filter(|source| !plan.sources.contains(source)).copied().collect::<Vec<_>>());
    if plan.pin != of.pin {
        // The numbers of one machine's CPUs say nothing of another's.
        plan.pin.clear();
    }
    let last = |one: Option<u64>, other_ns: Option<u64>| Some(one?.max(other_ns?.saturating_add(other.offset_ns)));
    plan.stop = Stop {
        duration_ns: last(plan.stop.duration_ns, of.stop.duration_ns),
        requests: plan.stop.requests.and_then(|one| Some(one.saturating_add(of.stop.requests?))),
    };
    match (&mut plan.pace, &of.pace) {
        (Pace::Open { profile, .. }, Pace::Open { profile: others, .. }) => {
            for (Segment { from_per_s, to_per_s, .. }, other) in profile.iter_mut().zip(others) {
                *from_per_s += other.from_per_s;
                *to_per_s += other.to_per_s;
            }
        }
        (Pace::Held { connects_per_s, .. }, Pace::Held { connects_per_s: others, .. }) => *connects_per_s += others,
        _ => {}
    }
    // A bound on one generator's figures is none on those of all, unless all have it.
    plan.expectations.retain(|one| of.expectations.contains(one));
    plan.finding_expectations.retain(|one| of.finding_expectations.contains(one));
    plan.abort_when.retain(|one| of.abort_when.contains(one));
    for (phase, others) in plan.phases.iter_mut().zip(&of.phases) {
        phase.expectations.retain(|one| others.expectations.contains(one));
    }
    if !of.faults.is_empty() {
        if !plan.faults.is_empty() {
            let why = "it has faults of its own, and so has another one, whose numbers they share".to_owned();
            return Err(MergeError::NotAGenerators { name: other.name.to_owned(), why });
        }
        plan.faults.clone_from(&of.faults);
        for fault in &mut plan.faults {
            fault.at_ns = fault.at_ns.saturating_add(other.offset_ns);
        }
    }
    Ok(())
}
