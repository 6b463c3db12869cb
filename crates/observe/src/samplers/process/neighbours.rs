//! CPU time by the kernel's own sums: of the whole target, and of the processes beside it that used most since the
//! observation began, kernel threads among them. One pass through `/proc/<pid>/stat` gives both;
//! `crates/observe/src/census.rs` charges.
//!
//! A target's time is that of its control group where the target is all that is in it, else that of its processes. It is
//! seen whole where others see at most 64 processes and 256 threads of it.
//! In a pid namespace of its own, or where /proc is mounted with hidepid, what cannot be seen takes no CPU here: the status
//! says so. Bound: the target's first 1,024 processes and 512 others at a reading, then the rest in turn.
//! Cost: one file opened a process, two of the target's; no pass is made before 200 times its CPU time has gone by, so 0.5 %
//! of a core at the most beside the target's own. Needs no privilege.

use super::target_group::TargetGroup;
use crate::census::{About, Census, Reading, Used};
use crate::limits::{OTHERS_MAX, PASS_SPARING, PIDS_MAX, SUMMED_MAX};
use crate::metric::{Metric, counter, gauge};
use crate::observer::ObserveSpec;
use crate::samplers::{Entry, Sampler};
use crate::source::clock;
use crate::source::proc::{Buffers, SampleError, number};
use crate::source::stat::{Stat, ticks_ns};
use model::Snapshot;
use model::snapshot::{CpuSource, Role, SummedCpu};
use std::collections::BTreeSet;

const METRICS: &[Metric] = &[
    counter("target_cpu.user_ns", "ns", "stat, 14th and 16th field; cgroup", "user CPU time of the whole target"),
    counter("target_cpu.system_ns", "ns", "stat, 15th and 17th field; cgroup", "system CPU time of the whole target"),
    counter("neighbours[].cpu_ns", "ns", "stat, 14th to 17th field", "CPU time since the observation began")
        .otel("process.cpu.time"),
    gauge("neighbours[].core", "core", "stat, 39th field", "where it last ran"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/neighbours",
    about: "CPU time of the whole target, short-lived children included, and of the processes beside it that use most \
            (/proc/<pid>/stat)",
    needs: "nothing; with hidepid, to be root or in its group",
    cost: "1 file a process a tick, of 512 others at the most",
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
    /// When the next pass is due, monotonic clock.
    due_ns: i64,
    left: usize,
    /// Why not all processes are seen.
    unseen: Option<&'static str>,
}

impl Sampler for Neighbours {
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
        let is_whole_pass = clock::monotonic_ns() >= self.due_ns;
        let plan = if is_whole_pass {
            self.list(buffers)?;
            let (plan, left) = self.census.plan(&self.listed, SUMMED_MAX, OTHERS_MAX);
            self.left = left;
            plan
        } else {
            self.census.targets().into_iter().take(SUMMED_MAX).collect()
        };
        let read = plan.into_iter().map(|pid| (pid, self.read(buffers, pid, &roots))).collect();
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
        snapshot.neighbours = self.census.neighbours(own_pid);
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
    fn read(&self, buffers: &mut Buffers, pid: u32, roots: &BTreeSet<u32>) -> Option<Reading> {
        let stat = Stat::parse(buffers.read(format_args!("/proc/{pid}/stat")).ok()?)?;
        let is_target = roots.contains(&pid) || self.census.is_target(pid) == Some(true);
        let run = (is_target && stat.threads == 1).then(|| buffers.read(format_args!("/proc/{pid}/schedstat")).ok());
        let run_ns = run.flatten().and_then(number).unwrap_or(0);
        Some(Reading { stat, run_ns })
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
