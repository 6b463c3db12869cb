//! `process-restart`: another process serves the target's address than at the start of the load.
//!
//! Evidence: (process) a new process holds the address; (client) connections lost at about that moment. Refuted where the
//! address was never held by another; where nothing was lost by it, it is a restart in order. By itself it says what happened
//! and not why: `process-crash` and its like do.

use super::deaths;
use crate::evidence::Process;
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::finding::Severity;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "process-restart", needs: Needs::Load, reads: &[&["process/target"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(event) = deaths::in_load(facts).find(|event| event.kind == "target-restarted") else {
        return Verdict::refuted("no other process took the target's address");
    };
    let gone_ns = deaths::gone(facts).or_else(|| deaths::told(facts)).map_or(event.at_ns, |gone| gone.at_ns);
    let Some((lost, _)) = deaths::lost_from(facts, gone_ns) else {
        return Verdict::refuted("another process took the target's address, and the load lost nothing by it");
    };
    let at_s = event.at_ns as f64 / 1e9;
    let text = format!("at second {at_s:.1} {}", event.text);
    let process = facts.piece::<Process>(text, "target.restarted_s", at_s, "s");
    let title = format!("the target was started anew: since second {at_s:.1} another process serves");
    Verdict::proved(Severity::Warning, title, process, lost)
        .remedy("Find out why the first one ended; a second process that listens meanwhile (SO_REUSEPORT) would carry the load over")
        .check("systemctl status SERVICE; ps -o lstart,pid,cmd -C NAME")
        .confidence(0.95)
}
