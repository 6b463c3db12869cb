//! `cpu-throttled`: a quota of its control group stops the target.
//!
//! Evidence: (kernel) the quota was used up in a tenth of its periods and held the group for a twentieth of the time; (client)
//! pauses in which no request ended, slow requests, or less carried than was due. Without a load (process) how much it ran
//! between the stops takes the requests' place. Not applicable without a quota, refuted where it was not reached. Source: sched-bwc
//! of the kernel's documentation, cpu.stat of cgroup-v2.

use crate::evidence::{Client, Kernel, Process};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::ledger;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, QUOTA_FULL, THROTTLED_PERIODS, THROTTLED_TIME};
use model::finding::{LossKind, Severity};
use model::latency::Kind;
use model::snapshot::Role;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "cpu-throttled", needs: Needs::Nothing, reads: &[&["process/cgroup"]], judge };

/// How the target's quota binds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stops {
    /// In how many of the quota's periods it was used up, 0..=1.
    pub(crate) periods: f64,
    /// For how much of the time the group's cores were stopped, 0..=1.
    pub(crate) held: f64,
}

impl Stops {
    /// Whether it is used up more often than seldom.
    fn is_often(self) -> bool {
        self.periods >= THROTTLED_PERIODS.value && self.held >= THROTTLED_TIME.value
    }

    /// As it is said.
    pub(crate) fn shown(self) -> String {
        format!("a CPU quota stops it in {} of its periods", percent(self.periods))
    }
}

/// The quota, where it stops the target.
pub(crate) fn stops(facts: &Facts<'_>) -> Option<Stops> {
    quota(facts).filter(|stops| stops.is_often())
}

/// The quota, where it leaves the target no room, whatever its threads did meanwhile: it is used up in most periods, so that what is
/// left to do waits for the next one; and the target ran or was stopped nearly all of the time, as the kernel counts no period in which
/// nothing ran.
pub(crate) fn full(facts: &Facts<'_>) -> Option<Stops> {
    // Where the kernel counts stops among a thread's waits, by that; what a group on several CPUs was stopped is a sum over them.
    let demand = facts.busiest_demand().unwrap_or(0.0);
    let is_at_it = |stops: &Stops| demand.max(facts.target_cores.unwrap_or(0.0) + stops.held) >= DEMAND_FULL.value;
    stops(facts).filter(|stops| stops.periods >= QUOTA_FULL.value && is_at_it(stops))
}

/// The quota that the target has; `None`: it has none.
fn quota(facts: &Facts<'_>) -> Option<Stops> {
    let of = |name| {
        let all = facts.history.processes(Role::Target);
        all.filter_map(|(id, _)| facts.grown(Subject::Process(id), name)).reduce(f64::max)
    };
    let (periods, throttled) = of("cgroup_cpu_periods").zip(of("cgroup_cpu_throttled_periods"))?;
    // Of a group on several CPUs the kernel adds up what each of them was stopped.
    let held = (of("cgroup_cpu_throttled_ns").unwrap_or(0.0) / 1e9 / facts.measured_s().max(1e-9)).min(1.0);
    Some(Stops { periods: if periods > 0.0 { throttled / periods } else { 0.0 }, held })
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(stops) = quota(facts) else {
        return Verdict::not_applicable("no CPU quota binds the target");
    };
    let Stops { periods: share, held } = stops;
    // A sum over several CPUs that comes to all of the time says nothing of how much of it that was.
    let of_time = if held < 1.0 { format!(", {} of the time", percent(held)) } else { String::new() };
    let text = format!("its control group was stopped in {} of the quota's periods{of_time}", percent(share));
    let kernel =
        facts.piece::<Kernel>(text, "cgroup_cpu_throttled_periods", share, "ratio").from(THROTTLED_PERIODS.value);
    if !stops.is_often() {
        return Verdict::refuted("the target's quota was hardly ever used up").because(kernel.into());
    }
    let title = format!("a CPU quota stops the target in {} of its periods", percent(share));
    if facts.recording.capsule.why_no_load().is_some() {
        let Some(cores) = facts.target_cores else {
            return Verdict::not_observable("the target's CPU time", "no two readings have it").because(kernel.into());
        };
        let text = format!("it ran {cores:.2} cores between the stops");
        let process = facts.piece::<Process>(text, "target.cores", cores, "cores");
        return advised(Verdict::proved(Severity::Error, title, kernel, process));
    }
    let losses = ledger::losses(facts);
    let Some(loss) = losses.iter().find(|loss| loss.kind != LossKind::Failed) else {
        let service = facts.latency(Kind::Service);
        if service.is_empty() {
            return Verdict::refuted("the quota stopped the target, and no request shows it").because(kernel.into());
        }
        let text = format!("requests took {} on average", crate::facts::duration(service.mean()));
        let client = facts.piece::<Client>(text, "service.mean_us", service.mean() / 1e3, "us");
        return advised(Verdict::proved(Severity::Info, title, kernel, client));
    };
    let client = facts.piece::<Client>(loss.text.clone(), "loss.share", loss.share, "ratio");
    let verdict = Verdict::proved(Severity::Error, title, kernel, client);
    advised(verdict.explains(loss.kind, held, held * 0.5, 1.0))
}

/// With what to do about a quota, and how to see it by hand.
pub(super) fn advised(verdict: Verdict<OfTarget>) -> Verdict<OfTarget> {
    verdict
        .remedy("Raise the quota (cpu.max of its control group, limits.cpu of a pod, CPUQuota= of a unit), or serve less with it")
        .check("grep . /sys/fs/cgroup/*/cpu.stat | grep throttled; cat /sys/fs/cgroup/*/cpu.max")
        .confidence(0.95)
}
