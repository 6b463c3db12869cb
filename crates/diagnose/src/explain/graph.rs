//! Which cause brings about which: declared, and joined into chains of what was found, so that the root stands first.
//!
//! An edge says that the first can bring about the second; of findings that are both supported the second is then because of the
//! first. A chain leads over what could not be observed, and ends at what is refuted: memory that grows blocks a loop by
//! swapping, and where nothing was swapped it did not. Edges point one way: there is no ring (a test holds it). What slows
//! everything a little (a crowded machine) has no edge: that it is there does not say that it brought about what else is.

use model::finding::{Finding, Status};

/// Cause and symptom.
pub const EDGES: &[(&str, &[&str])] = &[
    ("oom-kill", &["process-crash", "process-restart", "state-lost", "missing-reply", "truncated-reply"]),
    ("sigpipe-death", &["process-crash", "process-restart", "state-lost", "missing-reply", "truncated-reply"]),
    ("process-crash", &["process-restart", "state-lost", "missing-reply", "truncated-reply"]),
    ("fd-leak", &["fd-exhaustion"]),
    // Those that are left waiting fill the listener's queue.
    ("connection-limit", &["error-status", "accept-queue-overflow"]),
    ("accept-imbalance", &["accept-queue-overflow", "event-loop-blocked"]),
    ("connection-leak", &["fd-leak", "fd-exhaustion"]),
    (
        "fd-exhaustion",
        &["accept-queue-overflow", "connection-limit", "error-status", "at-its-limit", "single-thread-bound"],
    ),
    ("lock-contention", &["accept-queue-overflow", "pool-exhausted"]),
    (
        "cpu-throttled",
        // Who holds a lock is held, too.
        &["accept-queue-overflow", "cpu-contention", "stop-the-world", "event-loop-blocked", "lock-contention"],
    ),
    ("single-thread-bound", &["accept-queue-overflow", "at-its-limit"]),
    ("tls-handshake-bound", &["single-thread-bound", "at-its-limit", "cpu-saturated"]),
    ("dns-wait", &["pool-exhausted", "event-loop-blocked", "accept-queue-overflow"]),
    ("backend-limited", &["pool-exhausted", "lock-contention"]),
    ("backend-wait", &["pool-exhausted", "accept-queue-overflow", "event-loop-blocked"]),
    ("neighbour", &["cpu-contention", "disk-bound", "log-bound", "swap-thrash"]),
    ("io-throttled", &["disk-bound", "log-bound", "pool-exhausted", "event-loop-blocked", "accept-queue-overflow"]),
    (
        "kernel-trouble",
        &["process-crash", "disk-bound", "event-loop-blocked", "stop-the-world", "packet-loss", "missing-reply"],
    ),
    // A thread that waits for a disk in a call holds all that it serves.
    ("disk-bound", &["log-bound", "event-loop-blocked", "pool-exhausted", "accept-queue-overflow"]),
    // A full pipe stops all that write to it.
    ("log-bound", &["pool-exhausted", "event-loop-blocked", "stop-the-world", "accept-queue-overflow"]),
    ("lost-wakeup", &["missing-reply"]),
    ("head-of-line", &["event-loop-blocked", "single-thread-bound", "at-its-limit"]),
    ("worker-starvation", &["connection-limit", "pool-exhausted", "accept-queue-overflow", "missing-reply"]),
    ("event-loop-blocked", &["accept-queue-overflow"]),
    ("neighbour-request", &["stop-the-world", "event-loop-blocked", "accept-queue-overflow"]),
    ("slow-path", &["head-of-line", "event-loop-blocked", "accept-queue-overflow", "single-thread-bound"]),
    ("stop-the-world", &["event-loop-blocked", "accept-queue-overflow"]),
    ("garbage-collection", &["stop-the-world", "event-loop-blocked", "accept-queue-overflow"]),
    ("swap-thrash", &["disk-bound", "event-loop-blocked", "stop-the-world"]),
    // Not garbage-collection: the heap of a runtime grows to its bound by itself.
    ("memory-leak", &["oom-kill", "swap-thrash"]),
    ("memory-per-connection", &["oom-kill", "swap-thrash"]),
    ("packet-loss", &["accept-queue-overflow", "pool-exhausted"]),
    // A worker that writes to one client at a time waits with it.
    ("send-buffer", &["pool-exhausted"]),
    ("receive-window", &["pool-exhausted"]),
    ("path-limited", &["pool-exhausted"]),
    ("tcp-memory", &["packet-loss"]),
    ("time-wait", &["error-status"]),
];

/// Whether one can bring about another, by however many edges.
pub fn brings_about(cause: &str, symptom: &str) -> bool {
    brings_about_past(cause, symptom, &[])
}

/// The same by edges between which there is none of those that are refuted.
fn brings_about_past(cause: &str, symptom: &str, refuted: &[String]) -> bool {
    let mut open = vec![cause];
    let mut seen: Vec<&str> = Vec::new();
    while let Some(at) = open.pop() {
        let next = EDGES.iter().filter(|(from, _)| *from == at).flat_map(|(_, to)| to.iter().copied());
        for to in next {
            if to == symptom {
                return true;
            }
            if !seen.contains(&to) && !refuted.iter().any(|id| id == to) {
                seen.push(to);
                open.push(to);
            }
        }
    }
    false
}

/// Joins the supported findings.
pub fn join(findings: &mut [Finding]) {
    let found: Vec<String> =
        findings.iter().filter(|f| f.status == Status::Supported).map(|finding| finding.id.clone()).collect();
    let refuted: Vec<String> =
        findings.iter().filter(|f| f.status == Status::Refuted).map(|finding| finding.id.clone()).collect();
    for finding in findings.iter_mut().filter(|f| f.status == Status::Supported) {
        let others = || found.iter().filter(|id| **id != finding.id);
        let is_cause = |cause: &str, symptom: &str| brings_about_past(cause, symptom, &refuted);
        let causes: Vec<String> = others().filter(|id| is_cause(&finding.id, id)).cloned().collect();
        let because_of: Vec<String> = others().filter(|id| is_cause(id, &finding.id)).cloned().collect();
        (finding.causes, finding.because_of) = (causes, because_of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::GROUPS;
    use crate::rule::{OfTarget, Verdict};
    use model::finding::About;

    #[test]
    fn edges_name_causes_of_the_catalogue_and_make_no_ring() {
        let known = |id: &str| GROUPS.iter().flat_map(|(_, causes)| *causes).any(|cause| cause.id == id);
        for (from, to) in EDGES {
            assert!(known(from), "{from}");
            assert!(to.iter().all(|to| known(to)), "{from}: {to:?}");
            assert!(!brings_about(from, from), "{from} brings itself about");
        }
    }

    #[test]
    fn a_chain_is_followed_to_its_end() {
        assert!(brings_about("connection-leak", "accept-queue-overflow"));
        assert!(!brings_about("accept-queue-overflow", "connection-leak"));
        // Whoever holds a lock is held by a quota, and all that write to a full pipe stand still.
        assert!(brings_about("cpu-throttled", "lock-contention") && brings_about("log-bound", "stop-the-world"));
    }

    #[test]
    fn a_chain_ends_at_what_is_refuted() {
        let judged =
            |id: &str, status| Finding { status, ..Verdict::<OfTarget>::refuted("").into_finding(id, About::Target) };
        let joined = |swapped| {
            let mut findings = [
                judged("memory-per-connection", Status::Supported),
                judged("swap-thrash", swapped),
                judged("event-loop-blocked", Status::Supported),
            ];
            join(&mut findings);
            findings[2].because_of.clone()
        };
        assert_eq!(joined(Status::NotObservable), ["memory-per-connection"]);
        assert_eq!(joined(Status::Supported), ["memory-per-connection", "swap-thrash"]);
        assert!(joined(Status::Refuted).is_empty(), "nothing was swapped: the memory blocks no loop");
    }
}
