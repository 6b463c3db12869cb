//! How much of what was lost a finding explains: in words, and whether that is so little that it is not what gives.

use super::is_of_time;
use crate::facts::percent;
use model::finding::{Explains, Finding, Loss, LossKind, Severity};

/// A share of which more is all but all.
const NEARLY_ALL: f64 = 0.95;
/// Of a loss of time, a part that is less than this is not what gives, where so much of all of them is not explained.
pub(super) const SMALL_PART: f64 = 0.2;
/// What may be more than this is no small part: of a lookup of names no more than a lower bound is known.
const SMALL_PART_HIGH: f64 = 0.5;
const UNEXPLAINED_MOST: f64 = 0.75;
/// Whoever takes the target's CPU delays more than its threads' waits for one: what wakes them and what measures, too. That nobody at all
/// is answered for a long while is none of that.
pub(super) const OTHERS: [&str; 2] = ["neighbour", "cpu-contention"];
/// From this share on what is not explained is said, and what may be why where the generator was disturbed.
pub(super) const UNEXPLAINED_MIN: f64 = 0.1;
/// Where so much of it is unexplained, it is said what is known of that.
pub(super) const OPEN_MIN: f64 = 0.5;

/// Whether a finding is that others took the target's CPU, and no time was lost: it refuses nobody, and ends no connection.
pub(super) fn is_of_others_time(finding: &Finding, losses: &[Loss]) -> bool {
    let is_lost = |kind: LossKind| losses.iter().any(|loss| loss.kind == kind);
    OTHERS.contains(&&*finding.id) && finding.explains.is_none_or(|explains| !is_lost(explains.of))
}

/// Whether a finding explains so little of the time that was lost, and the others hardly more, that it is not what gives.
pub(super) fn is_small_part(finding: &Finding, losses: &[Loss], is_standstill: bool) -> bool {
    let of_time = |kind| is_of_time(kind) && losses.first().is_some_and(|loss| is_of_time(loss.kind));
    let is_open = losses.iter().filter(|loss| is_of_time(loss.kind)).all(|loss| loss.unexplained >= UNEXPLAINED_MOST);
    if OTHERS.contains(&&*finding.id) && !is_standstill {
        return false;
    }
    // Of a loss that is itself a part of the first, it explains that part of a part.
    let share_of = |kind: LossKind| losses.iter().find(|loss| loss.kind == kind).map_or(1.0, |loss| loss.share);
    let is_small = |explains: Explains| {
        let part = (share_of(explains.of) / losses.first().map_or(1.0, |loss| loss.share).max(1e-9)).min(1.0);
        explains.share * part < SMALL_PART && explains.high * part < SMALL_PART_HIGH
    };
    finding.explains.is_some_and(|explains| of_time(explains.of) && is_small(explains)) && is_open
}

/// What no cause explains of the loss that a finding is of, where its parts were measured; 0 else.
pub(super) fn rest_beside(finding: &Finding, losses: &[Loss]) -> f64 {
    let Some(explains) = finding.explains else { return 0.0 };
    // How long others had the CPU was measured, too, where the parts of what requests waited for were not.
    let is_measured =
        |loss: &Loss| loss.time.is_some() || loss.kind == LossKind::Failed || OTHERS.contains(&&*finding.id);
    let loss = losses.iter().find(|loss| loss.kind == explains.of).filter(|loss| is_measured(loss));
    loss.map_or(0.0, |loss| loss.unexplained)
}

/// Whether a finding says what requests wait for, where the first says only that they failed: replies that say failure may come for that.
pub(super) fn is_most_of_waiting(first: &Finding, finding: &Finding) -> bool {
    let of = |finding: &Finding, kind| finding.explains.filter(|explains| explains.of == kind);
    let is_root = finding.severity > Severity::Info && finding.because_of.is_empty();
    of(first, LossKind::Failed).is_some()
        && is_root
        && of(finding, LossKind::Waiting).is_some_and(|explains| explains.share >= OPEN_MIN)
}

/// How much of which loss a finding explains, in words to put behind its sentence.
pub(super) fn explained(finding: &Finding, losses: &[Loss]) -> String {
    let Some(explains) = finding.explains else { return String::new() };
    if !losses.iter().any(|loss| loss.kind == explains.of) {
        return String::new();
    }
    let rest = rest_beside(finding, losses);
    let rest = if rest >= UNEXPLAINED_MIN { format!(", {} unexplained", percent(rest)) } else { String::new() };
    format!(" ({}{rest})", share_of(explains.share, explains.of))
}

/// A share of a loss, in words.
pub(super) fn share_of(share: f64, kind: LossKind) -> String {
    let what = match kind {
        LossKind::Failed => "of the failures",
        LossKind::Starved => "of what starved",
        LossKind::Slow => "of the slow requests' time",
        LossKind::Waiting => "of the time requests waited",
        LossKind::Capacity => "of what is missing",
    };
    if share >= NEARLY_ALL { format!("nearly all {what}") } else { format!("about {} {what}", percent(share)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::finding::{About, Status};

    fn found(of: LossKind, share: f64, high: f64) -> Finding {
        Finding {
            id: String::new(),
            about: About::Target,
            status: Status::Supported,
            severity: Severity::Error,
            title: String::new(),
            because: Vec::new(),
            remedy: String::new(),
            check_yourself: String::new(),
            confidence: 1.0,
            causes: Vec::new(),
            because_of: Vec::new(),
            explains: Some(Explains { share, low: 0.0, high, of }),
        }
    }

    fn lost(kind: LossKind, unexplained: f64) -> Loss {
        Loss { kind, share: 0.5, text: String::new(), unexplained, time: None, concentrated: Vec::new() }
    }

    #[test]
    fn a_part_is_small_where_its_bound_is_and_most_is_not_explained() {
        let waiting = [lost(LossKind::Waiting, 0.9)];
        assert!(is_small_part(&found(LossKind::Waiting, 0.18, 0.36), &waiting, false));
        assert!(!is_small_part(&found(LossKind::Waiting, 0.22, 0.36), &waiting, false));
        assert!(
            !is_small_part(&found(LossKind::Waiting, 0.18, 1.0), &waiting, false),
            "no more than a lower bound is known"
        );
        for others in OTHERS {
            let finding = Finding { id: others.to_owned(), ..found(LossKind::Waiting, 0.08, 0.16) };
            assert!(!is_small_part(&finding, &waiting, false), "{others}");
            assert!(is_small_part(&finding, &waiting, true), "{others}, and nobody was answered");
        }
        // A quarter of what slow ones took, where all took long by something else.
        let all = Loss { share: 1.0, ..lost(LossKind::Waiting, 1.0) };
        let some = Loss { share: 0.25, ..lost(LossKind::Slow, 0.8) };
        assert!(is_small_part(&found(LossKind::Slow, 0.23, 0.42), &[all.clone(), some], false));
        let most = Loss { share: 0.95, ..lost(LossKind::Slow, 0.8) };
        assert!(!is_small_part(&found(LossKind::Slow, 0.23, 0.42), &[all, most], false));
        // Others explain more: they would be first, and this is none of the rest.
        assert!(!is_small_part(&found(LossKind::Waiting, 0.18, 0.36), &[lost(LossKind::Waiting, 0.7)], false));
        let both = [lost(LossKind::Waiting, 1.0), lost(LossKind::Slow, 0.7)];
        assert!(!is_small_part(&found(LossKind::Slow, 0.18, 0.36), &both, false));
        // What users lost first is not time.
        let failed = [lost(LossKind::Failed, 0.9), lost(LossKind::Slow, 0.9)];
        assert!(!is_small_part(&found(LossKind::Slow, 0.1, 0.2), &failed, false));
        assert!(!is_small_part(&found(LossKind::Failed, 0.1, 0.2), &failed, false));
    }
}
