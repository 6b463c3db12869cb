//! Each part of a loss to one root: what the ledger measured takes the place of what a rule estimated.
//!
//! [`CLAIMS`] says which waits of slow requests are whose. A finding has those of everything it brings about
//! ([`super::graph`]). A wait that two roots have is contested: each is given its part, the lower bound is without it, the upper
//! bound with all of it. Waiting for a free connection is waiting for the requests that have them: it goes where their time
//! went, and the lower bound is without it. So does what lies unread in the target's socket, where a thread's own waits are the
//! matter: it waits for a thread that is in one. Where the threads' states say something else than the rule, the interval spans
//! both.

use super::waits::{Account, is_by_states};
use model::finding::{About, Explains, Finding, Loss, LossKind, Status};
use model::slow::Wait;
use std::collections::BTreeSet;

/// Whose a wait is.
const CLAIMS: &[(&str, &[Wait])] = &[
    ("accept-queue-overflow", &[Wait::ConnectAgain]),
    ("syn-queue-full", &[Wait::ConnectAgain]),
    ("stop-the-world", &[Wait::Pause]),
    ("event-loop-blocked", &[Wait::Pause]),
    ("garbage-collection", &[Wait::Collector]),
    ("cpu-throttled", &[Wait::Throttled]),
    ("cpu-contention", &[Wait::Runnable]),
    ("lock-contention", &[Wait::Lock]),
    ("backend-wait", &[Wait::Backend]),
    ("log-bound", &[Wait::Log]),
    ("disk-bound", &[Wait::Disk]),
    ("io-throttled", &[Wait::Disk]),
    // Pages that are read back.
    ("swap-thrash", &[Wait::Disk]),
    // What the thread has not read waits for the thread; where it is the only one, nobody is answered meanwhile.
    ("head-of-line", &[Wait::Socket, Wait::Pause]),
    // The target has sent its reply, and the kernel keeps the end of it.
    ("nagle-delayed-ack", &[Wait::Back]),
    // A segment that is sent again is late whichever way it goes.
    ("packet-loss", &[Wait::There, Wait::Back, Wait::Network, Wait::ConnectAgain]),
];

/// From this share of the slow requests' time on, connects that were made again are a matter of their own: where they are
/// because of a pause, all but a few are begun in one.
const AGAIN_MIN: f64 = 0.1;

fn own(id: &str) -> &'static [Wait] {
    CLAIMS.iter().find(|(cause, _)| *cause == id).map_or(&[], |(_, waits)| *waits)
}

/// What a finding has, with all it brings about.
fn claims(finding: &Finding) -> BTreeSet<Wait> {
    let ids = std::iter::once(&finding.id).chain(&finding.causes);
    ids.flat_map(|id| own(id).iter().copied()).collect()
}

/// Unties what the graph joined and the moments of requests speak against: connects that had to be made again, and were begun
/// while the target answered, are none because it stood still for a time.
pub(crate) fn untie(findings: &mut [Finding], account: &Account) {
    let again = account.share(Wait::ConnectAgain).share;
    if again < AGAIN_MIN {
        return;
    }
    let stands_still = |id: &str| own(id).iter().any(|wait| matches!(wait, Wait::Pause | Wait::Collector));
    let overflows = |id: &str| own(id).contains(&Wait::ConnectAgain);
    for finding in findings {
        if stands_still(&finding.id) {
            finding.causes.retain(|id| !overflows(id));
        }
        if overflows(&finding.id) {
            finding.because_of.retain(|id| !stands_still(id));
        }
    }
}

/// Whether it is told by pauses: those of one worker among others, who answer meanwhile, lie in none.
fn is_of_pauses(finding: &Finding) -> bool {
    finding.because.iter().any(|evidence| evidence.metric.starts_with("pauses."))
}

/// Puts what was measured of slow requests in the place of what rules estimated. Findings are joined already.
pub(crate) fn measure(findings: &mut [Finding], account: &Account) {
    let is_measured = |finding: &&Finding| {
        let waits = own(&finding.id);
        finding.status == Status::Supported
            && finding.about == About::Target
            && finding.explains.is_some_and(|explains| explains.of == LossKind::Slow)
            && !waits.is_empty()
            && (waits != [Wait::Pause] || is_of_pauses(finding))
            && waits.iter().all(|wait| account.is_seen(*wait))
    };
    let roots: Vec<BTreeSet<Wait>> =
        findings.iter().filter(is_measured).filter(|f| f.because_of.is_empty()).map(claims).collect();
    let queue = account.share(Wait::Queue).share;
    let unread = account.share(Wait::Socket).share;
    for finding in findings.iter_mut().filter(|finding| is_measured(&&**finding)) {
        let Some(estimate) = finding.explains else { continue };
        let (mut share, mut low, mut high) = (0.0, 0.0, 0.0);
        let waits = claims(finding);
        for wait in &waits {
            let one = account.share(*wait);
            let others = roots.iter().filter(|root| root.contains(wait)).count();
            match others > 1 && finding.because_of.is_empty() {
                true => share += one.share / others as f64,
                false => (share, low) = (share + one.share, low + one.low),
            }
            high += one.high;
        }
        let is_threads = waits.iter().any(|wait| is_by_states(*wait)) && !waits.contains(&Wait::Socket);
        // What else there is of the excess: where a line's time goes to.
        let in_line = if is_threads { queue + unread } else { queue };
        let beside = (1.0 - in_line).max(f64::EPSILON);
        (share, high) = (share / beside, high / beside);
        // Waits of threads are known of windows as a whole: the rule's own look is another one, not a worse.
        if waits.iter().any(|wait| is_by_states(*wait)) {
            (low, high) = (f64::min(low, estimate.low), f64::max(high, estimate.high));
        }
        let (share, low, high) = (share.clamp(0.0, 1.0), low.clamp(0.0, 1.0), high.clamp(0.0, 1.0));
        finding.explains = Some(Explains { share, low: low.min(share), high: high.max(share), of: LossKind::Slow });
    }
}

/// Lets the roots of a loss explain no more than all of it together: what they claim beyond that is contested, so each has its
/// part and may have less.
pub(crate) fn fit(findings: &mut [Finding], losses: &[Loss]) {
    for loss in losses {
        let of = |finding: &Finding| {
            let is_root = finding.status == Status::Supported && finding.because_of.is_empty();
            finding.explains.filter(|explains| is_root && explains.of == loss.kind)
        };
        let all: f64 = findings.iter().filter_map(of).map(|explains| explains.share).sum();
        if all <= 1.0 {
            continue;
        }
        let least = |others: f64| (1.0 - others).max(0.0);
        for finding in findings.iter_mut() {
            let Some(explains) = of(finding) else { continue };
            let share = explains.share / all;
            let low = explains.low.min(least(all - explains.share)).min(share);
            finding.explains = Some(Explains { share, low, ..explains });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::GROUPS;
    use model::finding::Severity;

    fn found(id: &str, of: LossKind, share: f64, because_of: &[&str]) -> Finding {
        Finding {
            id: id.to_owned(),
            about: About::Target,
            status: Status::Supported,
            severity: Severity::Error,
            title: String::new(),
            because: Vec::new(),
            remedy: String::new(),
            check_yourself: String::new(),
            confidence: 1.0,
            causes: Vec::new(),
            because_of: because_of.iter().map(|id| (*id).to_owned()).collect(),
            explains: Some(Explains { share, low: share * 0.9, high: 1.0, of }),
        }
    }

    #[test]
    fn roots_explain_no_more_than_all_and_what_is_contested_widens_their_intervals() {
        let loss = |kind| Loss {
            kind,
            share: 0.5,
            text: String::new(),
            unexplained: 1.0,
            time: None,
            concentrated: Vec::new(),
        };
        let mut findings = vec![
            found("a", LossKind::Failed, 0.9, &[]),
            found("b", LossKind::Failed, 0.6, &[]),
            found("c", LossKind::Failed, 0.8, &["a"]),
            found("d", LossKind::Slow, 0.7, &[]),
        ];
        fit(&mut findings, &[loss(LossKind::Failed), loss(LossKind::Slow)]);
        let of = |i: usize| findings[i].explains.unwrap();
        assert!((of(0).share - 0.6).abs() < 1e-9 && (of(1).share - 0.4).abs() < 1e-9, "{findings:#?}");
        // All but what the other claims: 1 − 0.6, and 1 − 0.9.
        assert!((of(0).low - 0.4).abs() < 1e-9 && (of(1).low - 0.1).abs() < 1e-9, "{findings:#?}");
        assert_eq!(
            (of(2).share, of(3).share),
            (0.8, 0.7),
            "what is brought about is its root's; another loss is its own"
        );
    }

    #[test]
    fn claims_name_causes_of_the_catalogue_once() {
        for (i, (id, waits)) in CLAIMS.iter().enumerate() {
            assert!(GROUPS.iter().flat_map(|(_, causes)| *causes).any(|cause| cause.id == *id), "{id}");
            assert!(CLAIMS[..i].iter().all(|(other, _)| other != id) && !waits.is_empty(), "{id}");
        }
    }
}
