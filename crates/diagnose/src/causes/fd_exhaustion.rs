//! `fd-exhaustion`: the target has as many descriptors open as it may, and takes no more connections.
//!
//! Evidence: (process) descriptors at their limit in one process; and (kernel) calls that fail with EMFILE or ENFILE, or
//! (client) connections that never got a reply, or requests that failed, or (sockets) connections that wait to be accepted.
//! Refuted below the limit. A leak is `fd-leak`: it grows with the connections that are over. Source: accept(2),
//! getrlimit(2).

use super::of_loss;
use crate::evidence::{Client, Kernel, Process, Sockets};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::DESCRIPTORS_USED;
use model::ErrorKind;
use model::finding::{LossKind, Severity};
use model::snapshot::Role;
use model::units::show_grouped;

/// So many that are left are none: a program that keeps one back cannot use it for a connection.
const LEFT_MAX: u64 = 2;
/// The statuses by which a server says that it could not, and not that it was asked wrongly (RFC 9110, 15.6).
const SERVERS_OWN: std::ops::RangeInclusive<u16> = 500..=599;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "fd-exhaustion", needs: Needs::Load, reads: &[&["process/memory"], &["process/files"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let of = |(id, process): (crate::history::ProcessId, &crate::history::Process)| {
        let open = facts.level(Subject::Process(id), "descriptors")?.max;
        let limit = facts.level(Subject::Process(id), "descriptors_limit")?.min;
        (limit > 0).then(|| (open, limit, id.pid, process.name.clone()))
    };
    let all: Vec<_> = facts.history.processes(Role::Target).filter_map(of).collect();
    let fullest = all.iter().max_by(|a, b| (a.0 as f64 / a.1 as f64).total_cmp(&(b.0 as f64 / b.1 as f64)));
    let Some((open, limit, pid, name)) = fullest else {
        return Verdict::not_observable(
            "descriptors beside their limit",
            "no process of the target had both its descriptors and their limit read",
        );
    };
    let used = *open as f64 / *limit as f64;
    let text = format!(
        "{name} ({pid}) had {} of {} descriptors open ({})",
        show_grouped(*open),
        show_grouped(*limit),
        percent(used)
    );
    let process = facts.piece::<Process>(text, "target.descriptors_used", used, "ratio").from(DESCRIPTORS_USED.value);
    if used < DESCRIPTORS_USED.value && limit.saturating_sub(*open) > LEFT_MAX {
        return Verdict::refuted("descriptors were left").because(process.into());
    }
    let failing = facts.probes().map_or(0, |probes| {
        let of_errors = probes.calls.iter().flat_map(|call| &call.errors_by);
        of_errors
            .filter(|(name, _)| *name == "EMFILE" || *name == "ENFILE")
            .map(|(_, count)| *count)
            .fold(0, u64::saturating_add)
    });
    let kernel = (failing > 0).then(|| {
        let text = format!("{} calls failed with EMFILE or ENFILE in the probes' windows", show_grouped(failing));
        facts.piece::<Kernel>(text, "syscalls.emfile", failing as f64, "calls")
    });
    let starved = facts.recording.totals.users.map_or(0, |users| users.starved);
    let failed = crate::ledger::failures(facts);
    let client = (starved > 0 || failed > 0.0).then(|| {
        let text = format!(
            "{} connections starved and {} requests failed meanwhile",
            show_grouped(starved),
            show_grouped(failed as u64)
        );
        facts.piece::<Client>(text, "users.starved", starved as f64, "connections")
    });
    let fullest = facts.snapshots().flat_map(|s| s.listeners.iter().map(|l| l.waiting)).max().unwrap_or(0);
    let sockets = (fullest > 0).then(|| {
        let text = format!("up to {fullest} connections waited to be accepted");
        facts.piece::<Sockets>(text, "listeners.waiting", f64::from(fullest), "connections").from(1.0)
    });
    let title = format!(
        "{name} may have {} descriptors open, and has: further connections are not taken",
        show_grouped(*limit)
    );
    let (loss, share) = explained(facts);
    let verdict = match (kernel, client, sockets) {
        (Some(kernel), client, _) => {
            Verdict::proved(Severity::Error, title, process, kernel).because_all(client.map(Into::into))
        }
        (None, Some(client), sockets) => {
            Verdict::proved(Severity::Error, title, process, client).because_all(sockets.map(Into::into))
        }
        (None, None, Some(sockets)) => Verdict::proved(Severity::Error, title, process, sockets),
        (None, None, None) => {
            return Verdict::refuted("descriptors were at their limit, and nobody was refused").because(process.into());
        }
    };
    verdict
        .explains(loss, share, share * 0.8, 1.0)
        .remedy(format!("Raise its limit (LimitNOFILE= of its unit, ulimit -n, worker_rlimit_nofile of such servers) above {}, or look for what keeps descriptors open", show_grouped(*limit)))
        .check(format!("grep 'open files' /proc/{pid}/limits; ls /proc/{pid}/fd | wc -l"))
        .confidence(0.95)
}

/// What was lost where the target is at its limit, and how much of it by that; `None`: it is not, or nobody was refused.
pub(super) fn lost(facts: &Facts<'_>) -> Option<(LossKind, f64)> {
    judge(facts).is_supported().then(|| explained(facts))
}

/// Who is not taken waits at the listener for good; or its request fails: unanswered, cut off, or answered with the status of a server
/// that could not open a file, or a connection to a server behind it.
fn explained(facts: &Facts<'_>) -> (LossKind, f64) {
    const CUT_OFF: [ErrorKind; 3] = [ErrorKind::Refused, ErrorKind::Reset, ErrorKind::ClosedEarly];
    if let Some(share) = of_loss::never_taken(facts) {
        return (LossKind::Starved, share);
    }
    let sum = &facts.recording.totals.sum;
    let unable = sum.outcomes.seen().filter(|(status, _)| SERVERS_OWN.contains(status)).map(|(_, count)| count);
    let unable = unable.fold(0, u64::saturating_add).min(facts.errors(ErrorKind::UnexpectedStatus)) as f64;
    let not_taken = of_loss::failed_by(facts, &[&of_loss::UNANSWERED[..], &CUT_OFF].concat());
    (LossKind::Failed, (not_taken + unable / crate::ledger::failures(facts).max(1.0)).min(1.0))
}
