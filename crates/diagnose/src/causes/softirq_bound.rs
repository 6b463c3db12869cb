//! `softirq-bound`: one core handles the network's interrupts alone and is full with them, while others stand idle.
//!
//! Evidence: (kernel) soft interrupts took more than 0.8 of a core, and another core's worth stood idle; (process) the target's
//! busiest thread was not full. Refuted below, on a machine of one core, and where the target is full or no core was idle. Source:
//! proc_stat(5); Documentation/networking/scaling.rst (receive packet steering); the catalogue's 80 %. The kernel charges soft
//! interrupts by clock ticks where it has no exact account (CONFIG_IRQ_TIME_ACCOUNTING).

use crate::evidence::{Kernel, Process};
use crate::facts::{Facts, percent};
use crate::history::{Metric, Subject};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, SOFTIRQ};
use model::finding::{LossKind, Severity};
use model::latency::Kind;

/// Cores that must have stood idle.
const IDLE_MIN: f64 = 0.5;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "softirq-bound", needs: Needs::Connections, reads: &[&["host/cpu"], &["process/threads"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some((host, window)) = facts.host.zip(facts.read_window()) else {
        return Verdict::not_observable("soft interrupts by core", "the machine's CPU time was not read twice");
    };
    let cores = (0..host.cores.max(0.0) as usize).filter_map(|core| {
        let rate = facts.history.rate(Metric::new(Subject::Core(core), "softirq_ns"), window).ok()?;
        Some((core, rate.value / 1e9))
    });
    let Some((core, share)) = cores.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Verdict::not_observable("soft interrupts by core", "no core's CPU time was read twice");
    };
    let text = format!(
        "soft interrupts took {} of core {core}, while {:.1} cores stood idle",
        percent(share),
        host.idle_cores
    );
    let kernel = facts.piece::<Kernel>(text, "cores.softirq_share", share, "ratio").from(SOFTIRQ.value);
    if share < SOFTIRQ.value || host.idle_cores < IDLE_MIN {
        return Verdict::refuted("no core was full with soft interrupts while others stood idle")
            .because(kernel.into());
    }
    let Some(demand) = facts.busiest_demand() else {
        return Verdict::not_observable("the target's threads", facts.why_no_target()).because(kernel.into());
    };
    let text = format!("the target's busiest thread wanted {} of a core", percent(demand));
    let process = facts.piece::<Process>(text, "target.thread_demand", demand, "ratio");
    if demand >= DEMAND_FULL.value {
        return Verdict::refuted("the target itself is full").because(kernel.into()).because(process.into());
    }
    let title = format!("core {core} is full with the network's interrupts, and others stand idle");
    let verdict = Verdict::proved(Severity::Warning, title, kernel, process);
    let verdict = match outside(facts) {
        Some(outside) => verdict.explains(LossKind::Waiting, outside, outside * 0.5, 1.0),
        None => verdict,
    };
    verdict
        .remedy("Share the packets out: more receive queues (ethtool -L), their interrupts on several cores, or receive packet steering (/sys/class/net/*/queues/rx-*/rps_cpus)")
        .check("cat /proc/interrupts /proc/net/softnet_stat; mpstat -P ALL 1 # %soft of one core")
        .confidence(0.85)
}

/// Of a request's time by the client's stamps what it was not at the target's socket: on the way, or in front of that core. `None`: no
/// request was seen there.
fn outside(facts: &Facts<'_>) -> Option<f64> {
    let service = facts.latency(Kind::Service);
    let served_ns = facts.served_ns().filter(|_| !service.is_empty() && service.mean() > 0.0)?;
    Some((1.0 - served_ns / service.mean()).max(0.0))
}
