//! `state-lost`: values whose write had been acknowledged were gone when they were read, after the target had been away.
//!
//! Evidence: (replies) a read that left after the acknowledgement found nothing ([`ErrorKind::LostWrite`], `--verify-writes`); and
//! (kernel, process) a process of the target ended or was replaced, or (client) nothing succeeded for a while. Not observable
//! where nobody remembered what was acknowledged, nor where values are gone of a target that was never seen to be away: they may
//! have expired, been evicted, or deleted by others. Refuted where nothing was missed. Source: the name service of the catalogue.

use super::deaths;
use crate::evidence::{Client, Replies};
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::ErrorKind;
use model::event::{FAULT_BEGAN, OUTAGE};
use model::finding::{LossKind, Severity};
use model::units::{show_duration_ns, show_grouped};

/// See the file's head.
pub const RULE: CauseRule = CauseRule { id: "state-lost", needs: Needs::Connections, reads: &[], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    match facts.recording.plan.workload.protocol().verifies_writes() {
        None => return Verdict::not_applicable("the load writes nothing that it could read again by a key"),
        Some(false) => {
            return Verdict::not_observable(
                "acknowledged writes read again",
                "nobody remembered what was acknowledged: --verify-writes does",
            );
        }
        Some(true) => {}
    }
    let gone = facts.errors(ErrorKind::LostWrite);
    let text = format!("{} values whose write had been acknowledged were gone when they were read", show_grouped(gone));
    let replies = facts.piece::<Replies>(text, "errors.lost-write", gone as f64, "values");
    if gone == 0 {
        return Verdict::refuted("every acknowledged value that was read again was there").because(replies.into());
    }
    let share = (gone as f64 / crate::ledger::failures(facts).max(1.0)).min(1.0);
    let title = format!("{} acknowledged writes were lost", show_grouped(gone));
    let restarted = deaths::in_load(facts).find(|event| event.kind == "target-restarted");
    let verdict = if let Some(event) = deaths::told(facts) {
        Verdict::proved(Severity::Error, title, replies, deaths::kernel(facts, event))
    } else if let Some(event) = deaths::gone(facts).or(restarted) {
        Verdict::proved(Severity::Error, title, replies, deaths::process(facts, event))
    } else if let Some(event) = deaths::in_load(facts).find(|event| event.kind == FAULT_BEGAN) {
        let text = format!("at second {:.1} a fault was made: {}", event.at_ns as f64 / 1e9, event.text);
        let client = facts.piece::<Client>(text, "fault.began_s", event.at_ns as f64 / 1e9, "s");
        Verdict::proved(Severity::Error, title, replies, client)
    } else if let Some(event) = deaths::in_load(facts).find(|event| event.kind == OUTAGE) {
        let long =
            event.details.took_ns.map_or("to the end".to_owned(), |ns| format!("for {}", show_duration_ns(ns as f64)));
        let text = format!("at second {:.1} nothing succeeded {long}", event.at_ns as f64 / 1e9);
        let client = facts.piece::<Client>(text, "outage.began_s", event.at_ns as f64 / 1e9, "s");
        Verdict::proved(Severity::Error, title, replies, client)
    } else {
        return Verdict::not_observable(
            "whether the target was away when they were lost",
            "no process of it ended and there was no outage: they may have expired, been evicted, or deleted by others",
        )
        .because(replies.into());
    };
    verdict
        .explains(LossKind::Failed, share, share, share)
        .remedy("Make a write durable before it is acknowledged (a journal with fdatasync, redis' appendfsync always, a replica), or say in the contract that it is not")
        .check("# write a value, kill -9 the server, start it again, read the value")
        .confidence(0.95)
}
