//! Faults of a run: not too many, and at moments that the run has. What their words mean is for `fault` to say.

use crate::say::error::ResolveError;
use crate::say::field::Field;
use model::Scenario;
use model::fault::FAULTS_MAX;
use model::plan::DriverKind;
use model::units::show_duration_ns;

/// Refuses faults that could not be done.
pub(crate) fn check(scenario: &Scenario) -> Result<(), ResolveError> {
    let faults = &scenario.faults;
    if faults.is_empty() {
        return Ok(());
    }
    if faults.len() > FAULTS_MAX {
        return Err(ResolveError::TooMuch {
            what: "faults".into(),
            most: FAULTS_MAX as u64,
            got: faults.len() as u64,
            instead: "split them over several runs".into(),
        });
    }
    if scenario.driver == Some(DriverKind::Sim) {
        return Err(ResolveError::Conflict {
            what: Field::Fault.into(),
            with: "driver sim".into(),
            instead: "a simulated target has no process, leave it out".into(),
        });
    }
    let profile_ns: u64 = scenario.profile.iter().fold(0, |all, segment| all.saturating_add(segment.for_ns));
    let load_ns = scenario.duration_ns.or(Some(profile_ns).filter(|ns| *ns > 0));
    let Some(load_ns) = load_ns else { return Ok(()) };
    let end_ns = scenario.warmup_ns.unwrap_or(0).saturating_add(load_ns);
    match faults.iter().find(|fault| fault.at_ns >= end_ns) {
        Some(late) => {
            let expected = format!("a moment before the load's end at {}", show_duration_ns(end_ns as f64));
            Err(ResolveError::bad_value(Field::Fault, expected, late))
        }
        None => Ok(()),
    }
}
