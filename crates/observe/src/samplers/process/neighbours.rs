//! CPU time by the kernel's own sums: of the whole target, and of the processes beside it that used most since the
//! observation began, kernel threads among them; and who of these uses disks (`/proc/<pid>/io`) and memory. One pass through
//! `/proc/<pid>/stat` gives all but the disks; `crates/observe/src/census.rs` charges.
//!
//! A target's time is that of its control group where the target is all that is in it, else that of its processes. It is
//! seen whole where others see at most 64 processes and 256 threads of it, and at each reading.
//! A pass through the others is made once a second at the most, and then only where they can have used CPU time: where the
//! machine's busy time since the last pass, less that of the target and the generator, is more than 1 % of a core. All are
//! sums since the observation began, so what was not looked at is in the next pass; `neighbours_at_ns` says of when they are.
//! In a pid namespace of its own, or where /proc is mounted with hidepid, what cannot be seen takes no CPU here: the status
//! says so. Bound: the target's first 1,024 processes and 512 others at a reading, then the rest in turn.
//! Cost: one file opened a process of the target, two where it has one thread; in a pass two a process, one a kernel thread.
//! No pass is made before 200 times its CPU time has gone by, but at the end of a run. Needs no privilege, but for the
//! disks of another user's process CAP_SYS_PTRACE.

use super::target_group::TargetGroup;
use crate::census::{About, Census, Reading, Used};
use crate::limits::{OTHERS_MAX, PASS_EVERY_NS, PASS_SHARE, PASS_SPARING, PASS_TICKS, PIDS_MAX, SUMMED_MAX};
use crate::metric::{Metric, counter, gauge};
use crate::observer::ObserveSpec;
use crate::samplers::{EACH, Entry, SECOND, Sampler};
use crate::source::clock;
use crate::source::proc::{Buffers, SampleError, number, number_after};
use crate::source::stat::{Stat, ticks_ns};
use model::Snapshot;
use model::snapshot::{CpuSource, Role, SummedCpu};
use std::collections::{BTreeMap, BTreeSet};

const METRICS: &[Metric] = &[
    counter("target_cpu.user_ns", "ns", "stat, 14th and 16th field; cgroup", "user CPU time of the whole target"),
    counter("target_cpu.system_ns", "ns", "stat, 15th and 17th field; cgroup", "system CPU time of the whole target"),
    counter("neighbours[].cpu_ns", "ns", "stat, 14th to 17th field", "CPU time since the observation began")
        .otel("process.cpu.time"),
    gauge("neighbours_at_ns", "ns", "CLOCK_MONOTONIC", "until when all of these are summed up, since the run's start"),
    counter("disk_neighbours[].disk_read_bytes", "bytes", "io, read_bytes", "fetched from disks since then")
        .otel("process.disk.io"),
    counter("disk_neighbours[].disk_written_bytes", "bytes", "io, write_bytes", "sent to disks since then")
        .otel("process.disk.io"),
    gauge("memory_neighbours[].rss_bytes", "bytes", "stat, 24th field", "resident memory").otel("process.memory.usage"),
    gauge("memory_neighbours[].rss_grown_bytes", "bytes", "stat, 24th field", "how much of it came since then"),
    gauge("neighbours[].core", "core", "stat, 39th field", "where it last ran"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/neighbours",
    about: "CPU time of the whole target, short-lived children included; which processes beside it use most CPU, disks, \
            memory (/proc/<pid>/stat, io)",
    needs: "CAP_SYS_PTRACE for the disks of another user's process; with hidepid, to be root or in its group",
    cost: "1 file a process of the target a tick; 2 of 512 others a second, where others use CPU",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(Neighbours::default()),
};

/// The inode of the machine's first pid namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

#[derive(Debug, Default)]
struct Neighbours {
    census: Census,
    /// The target's processes as they were named.
    named: Vec<u32>,
    takes_all_children: bool,
    group: TargetGroup,
    sum: SummedCpu,
    listed: Vec<u32>,
    /// When the next pass may be made at all, monotonic clock.
    due_ns: i64,
    /// A pass is wanted whatever happened.
    is_wanted: bool,
    last_pass: Option<Pass>,
    left: usize,
    /// Why not all processes are seen.
    unseen: Option<&'static str>,
}

/// What the machine, and those that are known, had used when a pass was made.
#[derive(Debug)]
struct Pass {
    at_ns: i64,
    busy_ns: Option<u64>,
    /// By id and start.
    known_ns: BTreeMap<(u32, u64), u64>,
}

impl Pass {
    fn of(snapshot: &Snapshot) -> Self {
        let known = snapshot.processes.iter();
        Pass {
            at_ns: snapshot.at_ns,
            busy_ns: snapshot.cpu.map(|cpu| cpu.busy_ns()),
            known_ns: known.filter_map(|p| Some(((p.pid, p.start_ticks), p.cpu_ns()?))).collect(),
        }
    }

    /// Whether others than those that are known can have used CPU time since this one. Where it is not known, they can.
    fn is_due(&self, now: &Pass) -> bool {
        let passed_ns = now.at_ns.saturating_sub(self.at_ns);
        if passed_ns < SECOND {
            return false;
        }
        let Some((before, busy)) = self.busy_ns.zip(now.busy_ns) else { return true };
        let grown = |(id, ns): (&(u32, u64), &u64)| ns.saturating_sub(*self.known_ns.get(id).unwrap_or(ns));
        let known_ns = now.known_ns.iter().map(grown).fold(0, u64::saturating_add);
        let others_ns = busy.saturating_sub(before).saturating_sub(known_ns);
        let enough_ns = (passed_ns.unsigned_abs() / PASS_SHARE).max(ticks_ns(PASS_TICKS));
        passed_ns >= PASS_EVERY_NS || others_ns > enough_ns
    }
}

impl Sampler for Neighbours {
    fn be_whole(&mut self) {
        self.is_wanted = true;
    }

    fn begin(&mut self, spec: &ObserveSpec) {
        self.named.clone_from(&spec.target);
        self.takes_all_children = spec.addresses.is_empty();
    }

    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let of_role = |role| snapshot.processes.iter().filter(move |p| p.role == role).map(|p| p.pid);
        let own_pid = of_role(Role::Generator).next().unwrap_or(0);
        let mut roots: BTreeSet<u32> = of_role(Role::Target).collect();
        // Those beyond the watch's bound are only here; who has ended will not be found.
        roots.extend(std::mem::take(&mut self.named));
        let began_ns = clock::thread_cpu_ns();
        let now = Pass::of(snapshot);
        let is_spared = clock::monotonic_ns() < self.due_ns;
        let is_due = !is_spared && self.last_pass.as_ref().is_none_or(|last| last.is_due(&now));
        // Taken whether or not one is due anyway: else the next reading would make another.
        let is_whole_pass = std::mem::take(&mut self.is_wanted) || is_due;
        let plan = if is_whole_pass {
            self.list(buffers)?;
            let (plan, left) = self.census.plan(&self.listed, &roots, SUMMED_MAX, OTHERS_MAX);
            self.left = left;
            plan
        } else {
            self.census.targets().into_iter().take(SUMMED_MAX).collect()
        };
        let read = plan.into_iter().map(|pid| (pid, self.read(buffers, pid, &roots, own_pid))).collect();
        let about = About {
            roots: &roots,
            own_pid,
            takes_all_children: self.takes_all_children,
            now_ticks: now_ticks(),
            listed: is_whole_pass.then_some(&*self.listed),
        };
        let grown = self.census.take(&about, read);
        if self.census.target().is_some() {
            let targets = self.census.targets();
            let of_group = self.group.grown_ns(buffers, &targets, |pid| self.census.is_target(pid));
            let Used { user_ns, system_ns } = of_group.unwrap_or(grown);
            self.sum.user_ns = self.sum.user_ns.saturating_add(user_ns);
            self.sum.system_ns = self.sum.system_ns.saturating_add(system_ns);
            self.sum.source = if of_group.is_some() { CpuSource::ControlGroup } else { CpuSource::Processes };
            snapshot.target_cpu = Some(self.sum);
        }
        if is_whole_pass {
            self.last_pass = Some(now);
        }
        snapshot.neighbours = self.census.neighbours(own_pid);
        snapshot.disk_neighbours = self.census.disk_neighbours(own_pid);
        snapshot.memory_neighbours = self.census.memory_neighbours(own_pid);
        snapshot.neighbours_at_ns = self.last_pass.as_ref().map(|pass| pass.at_ns);
        if is_whole_pass {
            let took_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
            self.due_ns = clock::monotonic_ns().saturating_add(took_ns.saturating_mul(PASS_SPARING));
        }
        Ok(())
    }

    fn leaves_out(&self) -> Option<String> {
        let left = (self.left > 0).then(|| {
            format!(
                "{} of {} processes wait for a later reading: {OTHERS_MAX} others are read at one, in turn",
                self.left,
                self.listed.len()
            )
        });
        let said: Vec<String> = self.unseen.map(str::to_owned).into_iter().chain(left).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

impl Neighbours {
    fn read(&self, buffers: &mut Buffers, pid: u32, roots: &BTreeSet<u32>, own_pid: u32) -> Option<Reading> {
        let stat = Stat::parse(buffers.read_single(format_args!("/proc/{pid}/stat")).ok()?)?;
        let is_target = roots.contains(&pid) || self.census.is_target(pid) == Some(true);
        let run =
            (is_target && stat.threads == 1).then(|| buffers.read_single(format_args!("/proc/{pid}/schedstat")).ok());
        let run_ns = run.flatten().and_then(number).unwrap_or(0);
        // A kernel thread has no disk bytes of its own: they are charged to whom it works for.
        let has_disk_bytes = !is_target && !stat.is_kernels && pid != own_pid;
        let io = has_disk_bytes.then(|| buffers.read_single(format_args!("/proc/{pid}/io")).ok()).flatten();
        let disk_bytes =
            io.and_then(|io| Some((number_after(io, b"read_bytes:")?, number_after(io, b"write_bytes:")?)));
        Some(Reading { stat, run_ns, disk_bytes })
    }

    /// The ids of all processes that can be seen, ascending.
    fn list(&mut self, buffers: &Buffers) -> Result<(), SampleError> {
        let path = "/proc";
        let unreadable = |source| SampleError::of(path, source);
        self.listed.clear();
        for entry in std::fs::read_dir(format!("{}{path}", buffers.root())).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            self.listed.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
            if self.listed.len() >= PIDS_MAX {
                break;
            }
        }
        self.listed.sort_unstable();
        let namespace = std::fs::read_link(format!("{}/proc/self/ns/pid", buffers.root()));
        let is_first = namespace.is_ok_and(|link| link.to_str() == Some(FIRST_NAMESPACE));
        self.unseen = match (is_first, self.listed.first()) {
            (true, Some(1)) => None,
            (true, _) => Some(
                "other users' processes are not shown (/proc is mounted with hidepid): run as root, or give plimsoll \
                 CAP_SYS_PTRACE",
            ),
            (false, _) => Some(
                "processes outside this container (its pid namespace) are not seen: run plimsoll on the host, or with \
                 the host's pid namespace",
            ),
        };
        Ok(())
    }
}

/// Clock ticks since boot.
fn now_ticks() -> u64 {
    let tick_ns = i128::from(ticks_ns(1)).max(1);
    u64::try_from(clock::boottime_ns() / tick_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_is_wanted_is_made_once() {
        let mut sampler = Neighbours::default();
        let mut passed_at = |at_ns: i64, is_whole: bool| {
            if is_whole {
                sampler.be_whole();
            }
            let mut snapshot = Snapshot { at_ns, ..Snapshot::default() };
            sampler.sample(&mut Buffers::default(), &mut snapshot).unwrap();
            snapshot.neighbours_at_ns
        };
        assert_eq!(passed_at(0, true), Some(0));
        assert_eq!(passed_at(SECOND / 4, false), Some(0), "the first was due and wanted: that is one");
        assert_eq!(passed_at(SECOND / 2, true), Some(SECOND / 2), "wanted again");
        assert_eq!(passed_at(SECOND / 4 * 3, false), Some(SECOND / 2));
    }

    #[test]
    fn a_pass_is_due_where_others_can_have_used_time() {
        let pass = |at_ms: i64, busy_ms: u64, known_ms: &[u64]| Pass {
            at_ns: at_ms * 1_000_000,
            busy_ns: Some(busy_ms * 1_000_000),
            known_ns: (1..).zip(known_ms).map(|(pid, ms)| ((pid, 7), ms * 1_000_000)).collect(),
        };
        let last = pass(0, 5000, &[100, 200]);
        for (now, expected, what) in [
            (pass(500, 6000, &[100, 200]), false, "not within a second, whoever it was"),
            (pass(1000, 6020, &[900, 400]), false, "20 ms that nobody is known for: less than three clock ticks"),
            (pass(1000, 6040, &[900, 400]), true, "40 ms"),
            (pass(1000, 5900, &[900, 400]), false, "rounding may make it less than nothing"),
            (pass(5000, 6045, &[900, 400]), false, "45 ms of five seconds are less than 1 %"),
            (pass(10_000, 5000, &[100, 200]), true, "after ten seconds in any case"),
            (
                pass(1000, 6000, &[900, 400, 9000]),
                false,
                "what a process had used before it was known is not taken off",
            ),
            (pass(1000, 6100, &[900, 400, 9000]), true, "and hides nobody"),
            (Pass { busy_ns: None, ..pass(1000, 0, &[]) }, true, "not known"),
        ] {
            assert_eq!(last.is_due(&now), expected, "{what}");
        }
    }
}
