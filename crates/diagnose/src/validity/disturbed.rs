//! What befell the generator of a result that is not valid, in words; and which losses that cannot have made.

use super::AGENT_LOST;
use crate::facts::Facts;
use model::ErrorKind;
use model::error_kind::FailureClass;
use model::finding::{LossKind, Validity, ValidityState};
use model::recording::Generator;

/// What a generator runs out of itself.
const GENERATORS_OWN: [ErrorKind; 3] =
    [ErrorKind::AddressNotAvailable, ErrorKind::TooManyFiles, ErrorKind::OutOfMemory];
/// A share of which less is next to none.
const NEXT_TO_NONE: f64 = 0.05;
/// More generators are counted and not named.
const NAMED_MAX: usize = 3;

/// Whether a loss of that kind cannot be what a generator has made that was late or kept from running: nearly all of the failures are the
/// target's own words or doing, and none of them of a time limit or without an end; or some of the connections of its only worker starved, and others not.
pub(crate) fn is_none_of_the_generators(facts: &Facts<'_>, kind: LossKind) -> bool {
    // Of several generators one may have lost what the others' are counted with.
    if facts.recording.capsule.generators.is_some() {
        return false;
    }
    let sum = &facts.recording.totals.sum;
    match kind {
        LossKind::Failed => {
            let own = GENERATORS_OWN.iter().map(|kind| sum.errors.of(*kind)).fold(0, u64::saturating_add);
            let open = facts.recording.totals.in_flight_at_end;
            let may_be = sum.errors.of_class(FailureClass::Unanswered).saturating_add(own).saturating_add(open);
            may_be as f64 <= NEXT_TO_NONE * sum.counts.failed.saturating_add(open) as f64
        }
        LossKind::Starved => {
            let users = facts.recording.totals.users;
            let is_some = users.is_some_and(|users| users.starved > 0 && users.starved < users.connections);
            facts.recording.plan.threads == 1 && is_some
        }
        LossKind::Slow | LossKind::Waiting | LossKind::Capacity => false,
    }
}

/// What befell the generator of a result that is not valid: all of it, as each may be why something was lost. `None`: nothing from outside.
pub(crate) fn disturbed(facts: &Facts<'_>, validity: &Validity) -> Option<String> {
    const STARVED: &str = "generator-starved";
    const STOLEN: &str = "cpu-stolen";
    let is_for = |id: &str| validity.reasons.iter().any(|reason| reason.id == id);
    let mut seen = Vec::new();
    if is_for(AGENT_LOST) {
        seen.push("an agent was lost".to_owned());
    }
    if is_for(STOLEN) {
        let from = generators_for(facts, STOLEN).map_or("this machine".to_owned(), |(which, _)| which);
        seen.push(format!("the hypervisor took CPU time from {from}"));
    }
    if is_for(STARVED) {
        let (which, was) = generators_for(facts, STARVED).unwrap_or_else(|| ("the generator".to_owned(), "was"));
        seen.push(format!("{which} {was} kept from running"));
    }
    (!seen.is_empty()).then(|| format!("{} meanwhile, which may be why: see below", seen.join(" and ")))
}

/// The generators whose figures are not a result for that reason, and `was` or `were`; nothing where there is but one generator.
fn generators_for(facts: &Facts<'_>, id: &str) -> Option<(String, &'static str)> {
    let all = facts.recording.capsule.generators.as_ref()?;
    let is_one = |generator: &&Generator| {
        let is_for = || generator.reasons.iter().any(|reason| reason.id == id);
        generator.validity == ValidityState::NotValid && is_for()
    };
    let names: Vec<&str> = all.generators.iter().filter(is_one).map(|generator| &*generator.name).collect();
    Some(match names[..] {
        [name] => (format!("generator '{name}'"), "was"),
        [] => ("the generators".to_owned(), "were"),
        _ if names.len() == all.generators.len() => ("all generators".to_owned(), "were"),
        _ if names.len() <= NAMED_MAX => (format!("generators '{}'", names.join("', '")), "were"),
        _ => (format!("{} of {} generators", names.len(), all.generators.len()), "were"),
    })
}
