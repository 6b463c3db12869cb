//! `generator-fds`: the generator ran out of descriptors.
//!
//! Evidence: EMFILE or ENFILE from the kernel, counted by kind, and the limit it met (`nofile` of the capsule). One is
//! enough: those failures were counted against the target. Refuted by none of a run that made connections; the target's own EMFILE shows as refused or
//! stalled connections here, never as this kind.

use crate::facts::Facts;
use crate::rule::{Bearing, Needs, Rule, Verdict};
use model::ErrorKind;
use model::finding::{About, Severity};
use model::units::show_grouped;

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "generator-fds", about: About::Generator, needs: Needs::Load, bearing: Bearing::All, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let count = facts.errors(ErrorKind::TooManyFiles);
    let text = format!("{} sockets could not be made for want of a descriptor (EMFILE, ENFILE)", show_grouped(count));
    let evidence = facts.evidence(text, "errors.too-many-files", count as f64, "count");
    if count == 0 && !facts.has_tried() {
        return Verdict::not_observable("whether the generator had descriptors enough", "it made no connection at all");
    }
    if count == 0 {
        return Verdict::refuted("the generator had descriptors enough").because(evidence);
    }
    let wanted = facts.recording.plan.connections;
    let limit = facts.recording.capsule.limits.get("nofile").and_then(|l| l.split(':').next());
    let limit_evidence = limit.map(|soft| {
        let text = format!("the generator may have {soft} descriptors; {wanted} connections were asked for");
        facts.evidence(text, "limits.nofile", soft.parse::<f64>().ok(), "descriptors")
    });
    let enough = u64::from(wanted) + 64;
    Verdict::supported(Severity::Error, "the generator ran out of descriptors")
        .because(evidence)
        .because_all(limit_evidence)
        .remedy(format!("Raise the limit before the run (ulimit -n {enough}), or ask for fewer connections (-c)"))
        .check("ulimit -Sn; ulimit -Hn; cat /proc/sys/fs/file-nr")
}
