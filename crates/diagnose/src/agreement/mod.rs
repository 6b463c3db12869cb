//! Two sources of one metric, set against each other over each two snapshots that follow, and over the whole run.
//!
//! The kernel counts many things twice, in different places. Where the two disagree beyond what reading them one after
//! the other explains, one of them is not to be trusted here: a sandbox that makes a file up, a counter that a kernel
//! lost, a defect of a sampler. [`CHECKS`] is the whole list. Pure, so old recordings are checked too; what was not read
//! is not compared. A disagreement judges neither the target nor the result.

use model::metrics::Metrics;
use model::snapshot::{CpuTimes, ProcessSample, Role, Snapshot};

/// How the first source should stand to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Both tell the same figure.
    Equal,
    /// The first is a part of the second.
    AtMost,
}

/// A metric with two sources.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub metric: &'static str,
    /// In what it is counted.
    pub unit: &'static str,
    /// The first source and the second.
    pub sources: [&'static str; 2],
    /// How they should stand to each other.
    pub relation: Relation,
    /// They may differ by so much, whatever they are.
    pub tolerance: f64,
    /// And by this share of the larger one.
    pub tolerance_share: f64,
    /// And by what the hypervisor stole from the machine meanwhile.
    pub steal_widens: bool,
    /// Why by so much.
    pub why: &'static str,
    /// Both sources' values in the time between two snapshots, one pair for each process or socket that has them.
    values: fn(&Snapshot, &Snapshot) -> Vec<[f64; 2]>,
}

/// Two sources that did not agree.
#[derive(Debug, Clone)]
pub struct Disagreement {
    /// Of which check.
    pub check: &'static Check,
    /// The first time: both values.
    pub values: [f64; 2],
    /// Its window, seconds of the run.
    pub window_s: [f64; 2],
    /// By how much they might have differed there.
    pub tolerance: f64,
    /// How many times.
    pub count: u64,
    /// Of how many comparisons.
    pub compared: u64,
}

/// A clock tick, in which `/proc/stat` and `/proc/<pid>/stat` count (`USER_HZ` is 100 on every architecture in use).
const TICK_NS: f64 = 1e7;

/// Every check.
pub const CHECKS: &[Check] = &[
    Check {
        metric: "process CPU time",
        unit: "ns",
        sources: ["/proc/<pid>/stat, utime + stime", "sum of threads[].run_ns (schedstat)"],
        relation: Relation::Equal,
        tolerance: 20.0 * TICK_NS,
        tolerance_share: 0.05,
        steal_widens: false,
        why: "each of two fields is cut to a clock tick at both ends, a running thread's account lags by one, and the \
              threads are read after the process, on a busy machine tens of milliseconds after; not compared where \
              threads began or ended",
        values: process_cpu,
    },
    Check {
        metric: "process CPU time in its control group",
        unit: "ns",
        sources: ["/proc/<pid>/stat, utime + stime", "cgroup cpu.stat usage_usec, or cpuacct.usage"],
        relation: Relation::AtMost,
        tolerance: 20.0 * TICK_NS,
        tolerance_share: 0.05,
        steal_widens: false,
        why: "clock ticks and the time between two readings, as above; other processes of the group make it larger",
        values: group_cpu,
    },
    Check {
        metric: "all watched processes' CPU time",
        unit: "ns",
        sources: ["sum of /proc/<pid>/stat, utime + stime", "/proc/stat, busy and stolen time of all cores"],
        relation: Relation::AtMost,
        tolerance: 30.0 * TICK_NS,
        tolerance_share: 0.15,
        steal_widens: true,
        why: "the machine's time is a sample by clock ticks where the kernel has no exact account, the processes' is exact; of \
              stolen time a tick may be counted twice, or not at all",
        values: busy_cpu,
    },
    Check {
        metric: "host CPU time",
        unit: "ns",
        sources: ["/proc/stat, line cpu", "/proc/stat, sum of the lines cpuN"],
        relation: Relation::Equal,
        tolerance: 20.0 * TICK_NS,
        tolerance_share: 0.02,
        steal_widens: false,
        why: "eight fields of each core are cut to a clock tick; not compared where cores came or went",
        values: cores_cpu,
    },
    Check {
        metric: "host CPU time and the clock",
        unit: "ns",
        sources: ["/proc/stat, line cpu, all fields", "the monotonic clock × cores"],
        relation: Relation::Equal,
        tolerance: 30.0 * TICK_NS,
        tolerance_share: 0.10,
        steal_widens: true,
        why: "ticks that a virtual machine was late for are counted where the kernel has no exact account, some per cent; \
              those that were stolen twice, or not at all",
        values: wall_cpu,
    },
    Check {
        metric: "resident memory",
        unit: "bytes",
        sources: ["/proc/<pid>/statm, resident", "/proc/<pid>/status, RssAnon + RssFile + RssShmem"],
        relation: Relation::Equal,
        tolerance: 8e6,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "the kernel counts pages for each CPU and sums them up in batches; a growing process grows between the readings",
        values: rss_kinds,
    },
    Check {
        metric: "resident memory, page by page",
        unit: "bytes",
        sources: ["/proc/<pid>/statm, resident", "/proc/<pid>/smaps_rollup, Rss"],
        relation: Relation::Equal,
        tolerance: 8e6,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "as above; one is a count, the other a walk through the page tables, made every ten seconds at the most",
        values: rss_walked,
    },
    Check {
        metric: "memory of the machine",
        unit: "bytes",
        sources: ["/proc/meminfo, MemFree + Cached + AnonPages + Slab", "/proc/meminfo, MemTotal"],
        relation: Relation::AtMost,
        tolerance: 64e6,
        tolerance_share: 0.01,
        steal_widens: false,
        why: "the parts are summed up from the CPUs' own counts, which lag by some pages each",
        values: memory_parts,
    },
    Check {
        metric: "context switches",
        unit: "switches",
        sources: ["sum of threads[].switches of the target", "/proc/stat, ctxt"],
        relation: Relation::AtMost,
        tolerance: 5000.0,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "the threads are read before the machine, at a hundred thousand switches a second some milliseconds before",
        values: switches,
    },
    Check {
        metric: "page faults",
        unit: "faults",
        sources: ["/proc/<pid>/stat, minflt + majflt", "/proc/vmstat, pgfault"],
        relation: Relation::AtMost,
        tolerance: 20_000.0,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "the processes are read before the machine, at a million faults a second some milliseconds before",
        values: faults,
    },
    Check {
        metric: "kills for want of memory",
        unit: "processes",
        sources: ["control group, oom_kill", "/proc/vmstat, oom_kill"],
        relation: Relation::AtMost,
        tolerance: 1.0,
        tolerance_share: 0.0,
        steal_widens: false,
        why: "one may fall between the two readings",
        values: kills,
    },
    Check {
        metric: "established connections",
        unit: "connections",
        sources: ["sock_diag, the target's established ones", "snmp, Tcp.CurrEstab"],
        relation: Relation::AtMost,
        tolerance: 512.0,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "connections come and go between the two readings, tens of thousands a second",
        values: established,
    },
    Check {
        metric: "TCP sockets",
        unit: "sockets",
        sources: ["snmp, Tcp.CurrEstab", "sockstat and sockstat6, TCP inuse"],
        relation: Relation::AtMost,
        tolerance: 512.0,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "as above",
        values: sockets,
    },
    Check {
        metric: "accept queue",
        unit: "connections",
        sources: ["sock_diag, connections that wait", "sock_diag, backlog"],
        relation: Relation::AtMost,
        tolerance: 1.0,
        tolerance_share: 0.0,
        steal_widens: false,
        why: "one more than the backlog fits; of a backlog that was just made smaller, what waited still waits",
        values: queues,
    },
    Check {
        metric: "connections not accepted",
        unit: "connections",
        sources: ["netstat, TcpExt.ListenOverflows", "netstat, TcpExt.ListenDrops"],
        relation: Relation::AtMost,
        tolerance: 16.0,
        tolerance_share: 0.01,
        steal_widens: false,
        why: "the second is counted right after the first, and each CPU counts for itself",
        values: overflows,
    },
    Check {
        metric: "retransmits",
        unit: "segments",
        sources: ["probe bpf/losses, retransmits", "snmp, Tcp.RetransSegs"],
        relation: Relation::AtMost,
        tolerance: 16.0,
        tolerance_share: 0.05,
        steal_widens: false,
        why: "the probe counts the target's alone and is read after; the counter counts segments where the probe counts \
              buffers of several",
        values: retransmits,
    },
    Check {
        metric: "bytes sent",
        unit: "bytes",
        sources: ["probe bpf/sockets, sum of send_bytes", "sum of the interfaces' sent_bytes"],
        relation: Relation::AtMost,
        tolerance: 64e6,
        tolerance_share: 0.10,
        steal_widens: false,
        why: "what was written waits in send buffers, and the probe is read after the interfaces",
        values: bytes_sent,
    },
    Check {
        metric: "packets dropped by a full backlog",
        unit: "packets",
        sources: ["probe bpf/losses, drops CPU_BACKLOG", "softnet_stat, dropped"],
        relation: Relation::AtMost,
        tolerance: 16.0,
        tolerance_share: 0.05,
        steal_widens: false,
        why: "the probe counts the target's alone and is read after",
        values: backlog_drops,
    },
];

impl Check {
    /// By how much two values may differ, where so much was stolen meanwhile.
    fn allowed(&self, [a, b]: [f64; 2], stolen_ns: f64) -> f64 {
        let stolen_ns = if self.steal_widens { stolen_ns } else { 0.0 };
        self.tolerance + self.tolerance_share * a.abs().max(b.abs()) + stolen_ns
    }

    fn agrees(&self, [a, b]: [f64; 2], stolen_ns: f64) -> bool {
        let off = match self.relation {
            Relation::Equal => (a - b).abs(),
            Relation::AtMost => a - b,
        };
        off <= self.allowed([a, b], stolen_ns)
    }
}

/// What does not agree in some snapshots, in the order of [`CHECKS`]: each check once, with its first example.
pub fn disagreements(snapshots: &[Snapshot]) -> Vec<Disagreement> {
    CHECKS.iter().filter_map(|check| disagreement(check, snapshots)).collect()
}

fn disagreement(check: &'static Check, snapshots: &[Snapshot]) -> Option<Disagreement> {
    let mut found: Option<Disagreement> = None;
    let mut compared = 0;
    // What no pair shows may add up over the run.
    let whole = (snapshots.len() > 2).then(|| Some((snapshots.first()?, snapshots.last()?))).flatten();
    for (before, now) in snapshots.iter().zip(snapshots.iter().skip(1)).chain(whole) {
        if now.at_ns <= before.at_ns {
            continue;
        }
        let stolen = |s: &Snapshot| s.cpu.map(|cpu| cpu.steal_ns);
        let stolen_ns = grown(stolen(before), stolen(now)).unwrap_or(0.0);
        for values in (check.values)(before, now) {
            compared += 1;
            if check.agrees(values, stolen_ns) {
                continue;
            }
            let window_s = [before.at_ns, now.at_ns].map(|ns| ns as f64 / 1e9);
            let tolerance = check.allowed(values, stolen_ns);
            let first = Disagreement { check, values, window_s, tolerance, count: 0, compared: 0 };
            found.get_or_insert(first).count += 1;
        }
    }
    found.map(|found| Disagreement { compared, ..found })
}

/// How much a counter grew; `None` where it was set back, and so is another one.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<f64> {
    Some(now?.checked_sub(before?)? as f64)
}

fn metric(before: &Metrics, now: &Metrics, name: &str) -> Option<f64> {
    grown(before.of(name), now.of(name))
}

/// One pair, where both are known.
fn both(a: Option<f64>, b: Option<f64>) -> Vec<[f64; 2]> {
    a.zip(b).map(|(a, b)| [a, b]).into_iter().collect()
}

/// Processes that are in both: the same id, the same start.
fn processes<'s>(before: &'s Snapshot, now: &'s Snapshot) -> impl Iterator<Item = [&'s ProcessSample; 2]> {
    now.processes
        .iter()
        .filter_map(|process| Some([before.processes.iter().find(|earlier| earlier.is_same(process))?, process]))
}

fn targets<'s>(before: &'s Snapshot, now: &'s Snapshot) -> impl Iterator<Item = [&'s ProcessSample; 2]> {
    processes(before, now).filter(|[_, now]| now.role == Role::Target)
}

fn process_cpu(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let one = |[before, now]: [&ProcessSample; 2]| {
        let ids = |p: &ProcessSample| p.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>();
        let all = |p: &ProcessSample| p.threads.len() == p.threads_total as usize && !p.threads.is_empty();
        if !all(before) || !all(now) || ids(before) != ids(now) {
            return None;
        }
        let run = |p: &ProcessSample| p.threads.iter().map(|thread| thread.run_ns).sum::<Option<u64>>();
        Some([grown(before.cpu_ns(), now.cpu_ns())?, grown(run(before), run(now))?])
    };
    processes(before, now).filter_map(one).collect()
}

fn group_cpu(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let name = "cgroup_cpu_usage_ns";
    let one = |[before, now]: [&ProcessSample; 2]| {
        Some([grown(before.cpu_ns(), now.cpu_ns())?, metric(&before.metrics, &now.metrics, name)?])
    };
    targets(before, now).filter_map(one).collect()
}

fn busy_cpu(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let mut seen = Vec::new();
    let mut sum = None;
    for [before, now] in processes(before, now) {
        // Who loads itself is in both roles.
        if seen.contains(&now.pid) {
            continue;
        }
        seen.push(now.pid);
        sum = grown(before.cpu_ns(), now.cpu_ns()).map(|ns| sum.unwrap_or(0.0) + ns).or(sum);
    }
    let busy = |s: &Snapshot| s.cpu.map(|cpu| cpu.busy_ns().saturating_add(cpu.steal_ns));
    both(sum, grown(busy(before), busy(now)))
}

fn cores_cpu(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    if before.cores.len() != now.cores.len() || now.cores.is_empty() {
        return Vec::new();
    }
    let all = |s: &Snapshot| s.cpu.as_ref().map(CpuTimes::total_ns);
    let sum = |s: &Snapshot| Some(s.cores.iter().map(CpuTimes::total_ns).fold(0, u64::saturating_add));
    both(grown(all(before), all(now)), grown(sum(before), sum(now)))
}

fn wall_cpu(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let is_same = before.cores.len() == now.cores.len() && !now.cores.is_empty();
    // A machine that slept counts the sleep on one side only.
    if !is_same || before.suspended_ns != now.suspended_ns {
        return Vec::new();
    }
    let all = |s: &Snapshot| s.cpu.as_ref().map(CpuTimes::total_ns);
    let passed_ns = now.at_ns.saturating_sub(before.at_ns) as f64;
    both(grown(all(before), all(now)), Some(passed_ns * now.cores.len() as f64))
}

fn rss_kinds(_: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let kinds = ["rss_anonymous_bytes", "rss_file_bytes", "rss_shared_bytes"];
    let one = |p: &ProcessSample| {
        let sum = kinds.into_iter().map(|kind| p.metrics.of(kind)).sum::<Option<u64>>()?;
        Some([p.rss_bytes? as f64, sum as f64])
    };
    now.processes.iter().filter_map(one).collect()
}

fn rss_walked(_: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let one = |p: &ProcessSample| Some([p.rss_bytes? as f64, p.metrics.of("rss_walked_bytes")? as f64]);
    now.processes.iter().filter_map(one).collect()
}

fn memory_parts(_: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let parts = ["memory_free_bytes", "memory_cached_bytes", "memory_anonymous_bytes", "slab_bytes"];
    let sum =
        parts.into_iter().map(|part| now.host.of(part)).try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)));
    both(sum.map(|sum| sum as f64), now.host.of("memory_total_bytes").map(|total| total as f64))
}

fn switches(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let mut sum = None;
    for [before, now] in targets(before, now) {
        for thread in &now.threads {
            let Some(earlier) = before.threads.iter().find(|earlier| earlier.tid == thread.tid) else { continue };
            let count =
                |t: &model::snapshot::ThreadSample| t.switches.map(|s| s.voluntary.saturating_add(s.involuntary));
            sum = grown(count(earlier), count(thread)).map(|n| sum.unwrap_or(0.0) + n).or(sum);
        }
    }
    both(sum, metric(&before.host, &now.host, "context_switches"))
}

fn faults(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let count = |p: &ProcessSample| p.metrics.of("page_faults")?.checked_add(p.metrics.of("major_faults")?);
    let all = targets(before, now).filter_map(|[before, now]| grown(count(before), count(now)));
    both(all.reduce(|sum, more| sum + more), metric(&before.host, &now.host, "page_faults"))
}

fn kills(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let host = metric(&before.host, &now.host, "oom_kills");
    let one =
        |[before, now]: [&ProcessSample; 2]| Some([metric(&before.metrics, &now.metrics, "cgroup_oom_kills")?, host?]);
    targets(before, now).filter_map(one).collect()
}

/// A gauge of the network namespace.
fn network(now: &Snapshot, name: &str) -> Option<f64> {
    now.network.of(name).map(|n| n as f64)
}

fn established(_: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    both(network(now, "connections_looked_at"), network(now, "tcp_established"))
}

fn sockets(_: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let all = network(now, "tcp_sockets").map(|v4| v4 + network(now, "tcp6_sockets").unwrap_or(0.0));
    both(network(now, "tcp_established"), all)
}

fn queues(_: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    now.listeners.iter().map(|l| [f64::from(l.waiting), f64::from(l.backlog)]).collect()
}

/// Counters of one namespace; a target that came back may be in another.
fn of_network(before: &Snapshot, now: &Snapshot, name: &str) -> Option<f64> {
    (before.network_pid == now.network_pid).then(|| metric(&before.network, &now.network, name)).flatten()
}

fn overflows(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    both(of_network(before, now, "listen_overflows"), of_network(before, now, "listen_drops"))
}

fn retransmits(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    let count = |s: &Snapshot| s.bpf.as_ref()?.counts.get("losses.retransmits").copied();
    both(grown(count(before), count(now)), of_network(before, now, "tcp_retransmits"))
}

fn bytes_sent(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    if before.network_pid != now.network_pid {
        return Vec::new();
    }
    let sent = |s: &Snapshot| Some(s.bpf.as_ref()?.histograms.get("sockets.send_bytes")?.sum);
    let all = now.interfaces.iter().filter_map(|(name, now)| metric(before.interfaces.get(name)?, now, "sent_bytes"));
    both(grown(sent(before), sent(now)), all.reduce(|sum, more| sum + more))
}

fn backlog_drops(before: &Snapshot, now: &Snapshot) -> Vec<[f64; 2]> {
    // A reason that was never seen is not in the map.
    let drops = |s: &Snapshot| s.bpf.as_ref().map(|bpf| bpf.drops.get("CPU_BACKLOG").copied().unwrap_or(0));
    both(grown(drops(before), drops(now)), metric(&before.host, &now.host, "softnet_dropped"))
}

#[cfg(test)]
mod tests;
