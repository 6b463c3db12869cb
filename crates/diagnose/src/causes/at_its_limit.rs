//! `at-its-limit`: nothing is wrong with the target: a resource is full, and carries what it can.
//!
//! Evidence: (process) the busiest thread ran or waited for a CPU at least 85 % of the time, or its CPU quota was used up in half of its
//! periods, or (kernel) the machine's cores were all busy and the target used some; and (client) requests came without a pause:
//! every interval ended some. For information, and only where nothing else was found (the report's second line says so). Refuted with
//! time to spare, and where it had less than a quarter of the CPU time that it wanted: who else ran is then its limit, seen as a
//! neighbour or not.

use super::cpu_throttled;
use crate::evidence::{Client, Process};
use crate::facts::{Facts, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::segments::usual;
use crate::thresholds::DEMAND_FULL;
use model::finding::Severity;
use model::units::show_figure;

/// The least of the CPU time it wanted that its busiest thread must have had, as a share; or of a core, all of them together.
const HAD_MIN: f64 = 0.25;
/// Of all cores, so much is the target's part at least.
const USED_MIN: f64 = 0.25;

/// Of the machine's cores, less than this idle is as good as none.
const IDLE_MAX: f64 = 0.1;
/// The same where so many of the target's threads for each core wait for a CPU at a time: threads that wake each other leave a core
/// idle for moments, though there is more work than cores. Measured: a Java pool of 16 on two cores beside its generator, beyond its
/// limit: 14 % idle, 0.8 threads a core waiting.
const IDLE_WHILE_WAITING: f64 = 0.2;
const WAITING_MIN: f64 = 0.5;
/// So many times the cores that stand idle are far more.
const FAR_MORE: f64 = 2.0;

/// Whose busiest thread waits for a CPU so much of the time while cores stand idle is not let onto those: another worker would wait
/// with it.
const KEPT_OFF_WAIT: f64 = 0.25;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "at-its-limit",
    needs: Needs::Connections,
    reads: &[&["process/target"], &["process/threads"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(thread) = facts.target_threads.iter().max_by(|a, b| wants(a).total_cmp(&wants(b))) else {
        return Verdict::not_observable("how full the target is", facts.why_no_target());
    };
    let (run, wait) = (thread.run.unwrap_or(0.0), thread.wait.unwrap_or(0.0));
    let full = facts.target_threads.iter().filter(|thread| wants(thread) >= DEMAND_FULL.value).count();
    let text = match wait > 0.05 {
        true => format!(
            "its busiest thread, {}, ran {} of the time and waited for a CPU {}",
            thread.name,
            percent(run),
            percent(wait)
        ),
        false => format!("its busiest thread, {}, ran {} of the time", thread.name, percent(run)),
    };
    let process = facts.piece::<Process>(text, "target.thread_demand", run + wait, "ratio").from(DEMAND_FULL.value);
    // Who is stopped by a quota waits for a CPU too, by what the kernel counts: that is no affinity's doing, and no other process's.
    let quota = cpu_throttled::stops(facts);
    let full_quota = cpu_throttled::full(facts);
    let cores = facts.host.map_or(0.0, |host| host.cores);
    let target = facts.target_cores.unwrap_or(0.0);
    if run + wait < DEMAND_FULL.value && !is_short_of_cores(facts) && full_quota.is_none() {
        return Verdict::refuted("it had time to spare").because(process.into());
    }
    // Many threads on few cores wait for each other: then the target as a whole had cores.
    if quota.is_none() && run < HAD_MIN * (run + wait) && target < HAD_MIN {
        return Verdict::refuted("others had the CPU time that it wanted").because(process.into());
    }
    let rate = facts.recording.totals.requests_per_s();
    let unit = facts.recording.plan.unit();
    let rows = usual(facts);
    let silent = rows.iter().filter(|row| row.counts.arrived() == 0).count();
    let text = format!("{} {unit}s/s ended, in {} of {} intervals", show_figure(rate), rows.len() - silent, rows.len());
    let client = facts.piece::<Client>(text, "achieved.rate_per_s", rate, "1/s");
    if silent > 0 || rate <= 0.0 {
        return Verdict::refuted("nothing ended for whole intervals").because(client.into());
    }
    if let Some(quota) = full_quota {
        let stopped = percent(quota.periods);
        let title = format!(
            "its CPU quota is full: it gets {target:.2} cores, and is stopped in {stopped} of the quota's periods"
        );
        return cpu_throttled::advised(Verdict::proved(Severity::Info, title, process, client));
    }
    let working = facts.working().len();
    let what = match (full, working) {
        (1, 1) => format!("its one worker is full ({} of a core{})", percent(run), waited(wait)),
        (full, _) if full >= 1 && full == working => format!("its {full} workers are full ({target:.2} cores)"),
        (full, _) if full >= 1 => {
            format!("{full} of its {working} workers {} full ({target:.2} cores)", if full == 1 { "is" } else { "are" })
        }
        _ => format!("the machine's {cores:.0} cores are all busy, {target:.2} with it"),
    };
    let idle = facts.host.map_or(0.0, |host| host.idle_cores);
    let is_kept_off = idle >= 0.5 && wait >= KEPT_OFF_WAIT;
    let is_isolated = facts.recording.plan.isolation.is_some();
    if let Some(quota) = quota.filter(|_| is_kept_off) {
        let title = format!("{what}; {}", quota.shown());
        return cpu_throttled::advised(Verdict::proved(Severity::Info, title, process, client));
    }
    let more = match (full >= 1 && idle >= 0.5, is_kept_off, is_isolated) {
        (false, ..) => String::new(),
        (true, true, true) => format!("; --isolate keeps it off the {idle:.1} cores of this machine that stand idle"),
        (true, true, false) => {
            format!("; {idle:.1} cores of this machine stand idle, and it is not let onto them (an affinity, a cpuset)")
        }
        (true, false, _) => format!("; {idle:.1} cores of this machine stand idle, which more workers could have"),
    };
    Verdict::proved(Severity::Info, format!("{what}{more}"), process, client)
        .remedy(match (idle >= 0.5, is_kept_off, is_isolated) {
            (true, true, true) => "Leave --isolate out to let it have them; or make each request cheaper",
            (true, true, false) => {
                "Let it run on the cores that stand idle (taskset, cpusets, CPUAffinity=); or make each request cheaper"
            }
            (true, false, _) => "More workers, up to the cores that stand idle; or make each request cheaper",
            (false, ..) => {
                "More or faster cores, or make each request cheaper: report --flame on-cpu shows where it runs"
            }
        })
        .check(format!("top -H -p {}", thread.pid))
        .confidence(0.9)
}

/// Whether no core of the target's machine is left, and the target has its part of them.
pub(crate) fn is_machine_full(facts: &Facts<'_>) -> bool {
    let cores = facts.host.map_or(0.0, |host| host.cores);
    let idle_max = if waiting(facts) >= WAITING_MIN * cores { IDLE_WHILE_WAITING } else { IDLE_MAX };
    is_full_within(facts, idle_max)
}

/// The same, or its threads want far more cores than stand idle: where target and generator take turns, each leaves cores idle for moments
/// in which the other is not yet awake, and yet nobody can have more of them. Measured: a Go server beside its generator on two
/// cores, as fast as 200 connections ask: 11 to 17 % idle. It says that nothing but work is in the way, and so speaks only where no cause was
/// found.
pub(crate) fn is_short_of_cores(facts: &Facts<'_>) -> bool {
    let wants_more = facts.host.is_some_and(|host| waiting(facts) >= FAR_MORE * host.idle_cores);
    is_machine_full(facts) || (wants_more && is_full_within(facts, IDLE_WHILE_WAITING))
}

/// How many threads of the target wait for a CPU at a time.
fn waiting(facts: &Facts<'_>) -> f64 {
    facts.target_threads.iter().filter_map(|thread| thread.wait).sum()
}

fn is_full_within(facts: &Facts<'_>, idle_max: f64) -> bool {
    let is_full = facts.host.is_some_and(|host| host.idle_cores < idle_max * host.cores);
    let cores = facts.host.map_or(0.0, |host| host.cores);
    is_full && facts.target_cores.unwrap_or(0.0) >= USED_MIN * cores.max(1.0)
}

fn wants(thread: &crate::usage::ThreadUse<'_>) -> f64 {
    thread.run.unwrap_or(0.0) + thread.wait.unwrap_or(0.0)
}

fn waited(wait: f64) -> String {
    if wait > 0.05 { format!(", and it waited for one {}", percent(wait)) } else { String::new() }
}
