//! `oom-kill`: the kernel killed a process of the target for want of memory.
//!
//! Evidence: (kernel) its choice as the probe told it, its log, or the control group's count of kills; (client) what the load
//! lost from then on, or (process) that the process is gone. Refuted where none was killed; an operator's `kill -9` is none
//! of these. Source: oom_kill(9)'s tracepoint oom:mark_victim, memory.events of cgroup-v2.

use super::deaths;
use crate::facts::Facts;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::event::Event;
use model::finding::{LossKind, Severity};

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "oom-kill", needs: Needs::Nothing, reads: &[&["bpf/lifecycle", "host/kernel_log"]], judge };

/// The kernel's choice of a process of the target.
pub(super) fn killed<'f>(facts: &'f Facts<'_>) -> Option<&'f Event> {
    deaths::in_load(facts).find(|event| event.kind == "target-oom-kill")
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let by_log = || {
        let pid = deaths::told(facts).filter(|event| event.details.signal == Some(deaths::SIGKILL))?.details.pid;
        deaths::in_load(facts)
            .find(|event| event.kind == "kernel-oom-kill" && pid.is_some() && event.details.pid == pid)
    };
    let Some(event) = killed(facts).or_else(by_log) else {
        return Verdict::refuted("the kernel killed no process of the target for want of memory");
    };
    let at_s = event.at_ns as f64 / 1e9;
    let title = format!("the kernel killed the target's process at second {at_s:.1} for want of memory");
    let kernel = deaths::kernel(facts, event);
    let lost = deaths::lost_from(facts, event.at_ns);
    let verdict = match (lost, deaths::gone(facts)) {
        (Some((lost, share)), _) => {
            Verdict::proved(Severity::Error, title, kernel, lost).explains(LossKind::Failed, share, share * 0.9, share)
        }
        (None, Some(gone)) => Verdict::proved(Severity::Error, title, kernel, deaths::process(facts, gone)),
        (None, None) => return Verdict::refuted("the process that was chosen lived on, and the load lost nothing"),
    };
    verdict
        .remedy("Give it more memory (memory.max of its control group, or the machine's), or bound what it takes for each connection and request")
        .check("dmesg | grep -i 'killed process'; cat /sys/fs/cgroup/*/memory.events")
        .confidence(0.97)
}
