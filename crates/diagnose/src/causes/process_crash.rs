//! `process-crash`: a process of the target ended in the middle of the load.
//!
//! Evidence: (kernel) its end by a signal, or with a code that is not 0, or (process) that it is gone; and (client) resets,
//! early closes or refusals from then on. Refuted where processes only ended in order (with code 0, as after a reload:
//! `process-restart`), or nothing was lost by it (a child that had done its work). SIGPIPE is `sigpipe-death`, a kill for want of
//! memory `oom-kill`. Where a fault of the run did it, that is said,
//! and no remedy offered: it was asked for. Source: signal(7), wait(2).

use super::deaths;
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::event::FAULT_BEGAN;
use model::finding::{LossKind, Severity};

/// Faults that end a process.
const ENDING: [&str; 4] = ["kill", "term", "restart", "oops"];
/// A fault ends a process within so long, or it was something else.
const ENDED_WITHIN_NS: i64 = 1_000_000_000;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "process-crash", needs: Needs::Load, reads: &[&["process/target", "bpf/lifecycle"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let told = deaths::told(facts);
    let is_other = |signal: Option<i32>| signal == Some(deaths::SIGPIPE);
    if told.is_some_and(|event| is_other(event.details.signal) || super::oom_kill::killed(facts).is_some()) {
        return Verdict::refuted("its process ended for a reason that has a name of its own");
    }
    // What a fault of the run asked to end has ended by that, in order or not.
    let by_fault = || deaths::gone(facts).filter(|event| fault(facts, event.at_ns).is_some());
    let Some(event) = told.or_else(|| deaths::gone_badly(facts)).or_else(by_fault) else {
        return Verdict::refuted("no process of the target ended badly");
    };
    let Some((lost, share)) = deaths::lost_from(facts, event.at_ns) else {
        return Verdict::refuted("a process of the target ended, and the load lost nothing by it");
    };
    let at_s = event.at_ns as f64 / 1e9;
    let how = match (event.details.signal, event.details.exit_code) {
        (Some(signal), _) => format!("died of signal {signal}"),
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "was gone".to_owned(),
    };
    let who = event.details.process.as_deref().unwrap_or("of the target");
    let asked = fault(facts, event.at_ns);
    let by = asked.map_or(String::new(), |name| format!(", by this run's own fault '{name}'"));
    let title = format!("the target's process {who} {how} at second {at_s:.1}{by}");
    let verdict = match told.is_some() {
        true => Verdict::proved(Severity::Error, title, deaths::kernel(facts, event), lost),
        false => Verdict::proved(Severity::Error, title, deaths::process(facts, event), lost),
    };
    let verdict = verdict.explains(LossKind::Failed, share, share * 0.9, share).confidence(0.95);
    if asked.is_some() {
        return verdict
            .remedy("None: it was asked for. What it did to the load, and how long until all was as before, is what to look at")
            .check("plimsoll report last --timeline");
    }
    verdict
        .remedy("Read its log and its core: the last call and the signal say where; a supervisor starts it again, and does not mend it")
        .check("journalctl -e; coredumpctl list; dmesg | tail")
}

/// The fault of this run that ended a process at a moment, by its name.
fn fault<'a>(facts: &'a Facts<'_>, at_ns: i64) -> Option<&'a str> {
    let events = facts.recording.events.iter().filter(|event| event.kind == FAULT_BEGAN);
    let then = events.filter(|event| (event.at_ns - at_ns).abs() <= ENDED_WITHIN_NS);
    then.filter_map(|event| event.details.of_kind.as_deref()).find(|name| ENDING.contains(name))
}
