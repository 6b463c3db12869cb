//! `sigpipe-death`: the target wrote to a connection that its client had reset, and the signal's default action ended it.
//!
//! Evidence: (kernel) a process ended by SIGPIPE, with its last call and socket; (client) resets and refusals from then on.
//! Refuted where no process ended by that signal. What looks alike: a shell pipeline whose reader went (its last call is a
//! write to a pipe, no socket). Source: signal(7), send(2) on MSG_NOSIGNAL.

use super::deaths;
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::finding::{LossKind, Severity};

/// See the file's head.
pub const RULE: CauseRule = CauseRule { id: "sigpipe-death", needs: Needs::Load, reads: &[&["bpf/lifecycle"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(event) = deaths::told(facts).filter(|event| event.details.signal == Some(deaths::SIGPIPE)) else {
        return Verdict::refuted("no process of the target was ended by SIGPIPE");
    };
    let Some((lost, share)) = deaths::lost_from(facts, event.at_ns) else {
        return Verdict::refuted("SIGPIPE ended a process, and the load lost nothing by it");
    };
    let who = event.details.process.as_deref().unwrap_or("of the target");
    let at_s = event.at_ns as f64 / 1e9;
    let title = format!(
        "the target's process {who} died of SIGPIPE at second {at_s:.1}: it wrote to a connection its client had closed"
    );
    Verdict::proved(Severity::Error, title, deaths::kernel(facts, event), lost)
        .explains(LossKind::Failed, share, share * 0.9, share)
        .remedy("Ignore SIGPIPE (signal(SIGPIPE, SIG_IGN)) or send with MSG_NOSIGNAL, and take EPIPE as the end of that connection")
        .check("grep SigIgn /proc/PID/status # bit 13 (0x1000) is SIGPIPE")
        .confidence(0.95)
}
