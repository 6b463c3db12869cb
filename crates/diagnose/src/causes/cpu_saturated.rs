//! `cpu-saturated`: all cores of the target's machine are busy, and it is the target that uses most of them.
//!
//! Evidence: (kernel) less than a tenth of the machine's CPU time was idle; (process) the target used more than any other. For
//! information: a full machine is a limit, and no fault. Refuted with idle cores, and where others than the target used
//! most (`cpu-contention`). Source: proc_stat(5).

use crate::evidence::{Kernel, Process};
use crate::facts::{Facts, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::MACHINE_BUSY;
use model::finding::Severity;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "cpu-saturated", needs: Needs::Nothing, reads: &[&["host/cpu"], &["process/target"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let (Some(host), Some(target)) = (facts.host.filter(|host| host.cores > 0.0), facts.target_cores) else {
        return Verdict::not_observable(
            "the machine's CPU time",
            "no two snapshots of the measured time have the machine's and the target's CPU time",
        );
    };
    let busy = (1.0 - host.idle_cores / host.cores).clamp(0.0, 1.0);
    let text = format!("the machine's {:.0} cores were busy {} of the time", host.cores, percent(busy));
    let kernel = facts.piece::<Kernel>(text, "host.busy", busy, "ratio").from(MACHINE_BUSY.value);
    if busy < MACHINE_BUSY.value {
        return Verdict::refuted("cores stood idle").because(kernel.into());
    }
    let generator: f64 = facts.generator_threads.iter().filter_map(|thread| thread.run).sum();
    let others = facts.neighbours.iter().map(|n| n.cores).sum::<f64>().max(if facts.is_target_elsewhere() {
        0.0
    } else {
        generator
    });
    let text = format!("the target used {target:.2} cores, the generator {generator:.2}");
    let process = facts.piece::<Process>(text, "target.cores", target, "cores").from(others);
    if target < others {
        return Verdict::refuted("others than the target used most of it")
            .because(kernel.into())
            .because(process.into());
    }
    Verdict::proved(Severity::Info, format!("all cores are busy, {target:.2} of {:.0} with the target", host.cores), kernel, process)
        .remedy("Make each request cheaper (report --flame on-cpu shows where it runs), or serve from more cores; put the generator on another machine")
        .check("mpstat -P ALL 1; pidstat -u 1")
        .confidence(0.9)
}
