//! Joins what was found in the stretch in which a run was worse ([`crate::segments`]) with what was found of the whole.
//!
//! Time that was lost is the stretch's: its losses of time take the place of the whole's, and so do its verdicts of what explains
//! time, also where it refutes what the diluted whole supports. Requests that failed are counted over the whole run; a cause of
//! them that is found in the stretch alone is taken from there. What is only told over the course of a run (leaks, ends of
//! processes) stays as it is. Each finding of the stretch says from when on.

use super::ledger::is_of_time;
use crate::segments::worse::Worse;
use model::finding::{Finding, Loss, Severity, Status};

/// Takes in the losses and findings of a stretch, the latter in the same order; true where the losses of time are now its.
pub(crate) fn take_in(
    stretch: &Worse,
    (of_stretch, found): (Vec<Loss>, Vec<Finding>),
    losses: &mut Vec<Loss>,
    causes: &mut [Finding],
) -> bool {
    let has_time = of_stretch.iter().any(|loss| is_of_time(loss.kind));
    if has_time {
        losses.retain(|loss| !is_of_time(loss.kind));
        let of_time = of_stretch.into_iter().filter(|loss| is_of_time(loss.kind));
        losses.extend(of_time.map(|loss| Loss { text: stretch.said(&loss.text), ..loss }));
        super::ledger::rank(losses);
    }
    for (whole, part) in causes.iter_mut().zip(found) {
        if is_stretchs(whole, &part, has_time) {
            let title = if part.status == Status::Supported { stretch.said(&part.title) } else { part.title.clone() };
            *whole = Finding { title, ..part };
        }
    }
    has_time
}

/// Whether the stretch's finding takes the place of the whole run's.
fn is_stretchs(whole: &Finding, part: &Finding, has_time: bool) -> bool {
    let is_found = |finding: &Finding| finding.status == Status::Supported && finding.severity > Severity::Info;
    let is_time = |finding: &Finding| finding.explains.is_some_and(|explains| is_of_time(explains.of));
    match part.status {
        Status::Supported if is_time(part) => has_time && is_found(part),
        Status::Supported => is_found(part) && !is_found(whole),
        Status::Refuted | Status::NotApplicable => has_time && is_found(whole) && is_time(whole),
        Status::NotObservable => false,
    }
}
