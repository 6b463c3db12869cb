//! Processes, threads and the CPU time they get.
//!
//! The generator needs its workers and a few threads beside them. Documentation/admin-guide/sysctl/kernel.rst,
//! getrlimit(2), Documentation/admin-guide/cgroup-v2.

use super::shape::{Name, Said, grouped};
use model::check::{Demand, Item, Standing};
use model::readings::{Reading, Readings};

const PID_MAX: Name = Name { id: "pid-max", setting: "kernel.pid_max" };
const THREADS_MAX: Name = Name { id: "threads-max", setting: "kernel.threads-max" };
const NPROC: Name = Name { id: "nproc", setting: "nproc (ulimit -u)" };
const GROUP_PIDS: Name = Name { id: "cgroup-pids", setting: "pids limit of the control group" };
const GROUP_CPUS: Name = Name { id: "cgroup-cpu", setting: "CPU quota of the control group" };

/// The session's thread, the signals' and room.
const OTHERS: u64 = 8;

fn needed(demand: &Demand) -> f64 {
    demand.workers.saturating_add(OTHERS) as f64
}

fn machine_wide(name: Name, limit: &Reading<u64>, demand: &Demand, readings: &Readings) -> Item {
    let (most, now) = match (limit.known(), readings.threads_now.known()) {
        (None, _) => return name.not_read(limit),
        (_, None) => return name.not_read(&readings.threads_now),
        (Some(most), Some(now)) => (*most, *now),
    };
    let left = most.saturating_sub(now);
    name.amount(grouped(most), left as f64, needed(demand), "threads")
        .saying(format!("{} threads more on this machine, of {} needed", grouped(left), needed(demand)))
        .fixed_by(name.setting, || (most.saturating_mul(2)).min(4_194_304).to_string())
}

/// Every thread has an id below it.
pub(super) fn pid_max(demand: &Demand, readings: &Readings) -> Item {
    machine_wide(PID_MAX, &readings.pid_max, demand, readings)
}

/// How many there may be.
pub(super) fn threads_max(demand: &Demand, readings: &Readings) -> Item {
    machine_wide(THREADS_MAX, &readings.threads_max, demand, readings)
}

/// Threads of one user; how many that user has now is not read, so it is judged by the limit alone.
pub(super) fn nproc(demand: &Demand, readings: &Readings) -> Item {
    let Some(limit) = readings.nproc.known() else { return NPROC.not_read(&readings.nproc) };
    let Some(soft) = limit.soft else { return NPROC.setting("unlimited", Standing::Ok, "bounds nothing") };
    NPROC
        .amount(grouped(soft), soft as f64, needed(demand), "threads")
        .saying(format!("threads of this user in all, of which {} are needed here", needed(demand)))
        .changed_by(|| "ulimit -u unlimited".to_owned())
}

/// Threads of the group's processes.
pub(super) fn group_pids(demand: &Demand, readings: &Readings) -> Item {
    let Some(group) = readings.group_pids.known() else { return GROUP_PIDS.not_read(&readings.group_pids) };
    let Some(limit) = group.limit else {
        return GROUP_PIDS.setting("none", Standing::Ok, "no group bounds threads");
    };
    let left = limit.saturating_sub(group.used);
    GROUP_PIDS
        .amount(grouped(limit), left as f64, needed(demand), "threads")
        .saying(format!("{} threads more in this group, of {} needed", grouped(left), needed(demand)))
        .changed_by(|| format!("echo {:.0} > {}", group.used as f64 + 2.0 * needed(demand), group.file))
}

/// A group that has used its quota waits for the next period (100 ms as set by most): the generator's delay, seen as lag.
pub(super) fn group_cpus(demand: &Demand, readings: &Readings) -> Item {
    let Some(group) = readings.group_cpus.known() else { return GROUP_CPUS.not_read(&readings.group_cpus) };
    let Some(cpus) = group.cpus else { return GROUP_CPUS.setting("none", Standing::Ok, "no group bounds CPU time") };
    GROUP_CPUS
        .amount(format!("{cpus:.2} CPUs"), cpus, demand.workers as f64, "CPUs")
        .at_most_tight()
        .saying(format!("{} workers share {cpus:.2} CPUs; beyond that they wait, and it shows as lag", demand.workers))
        .changed_by(|| format!("# see {}: raise it, or put the load on with fewer workers (-t)", group.file))
}
