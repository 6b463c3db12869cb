//! The limits and settings of this host and process that decide what load it can carry: read once, judged elsewhere.
//!
//! What is not there, what may not be read and what was read are kept apart ([`Reading`]). Whether io_uring can be used
//! takes a real attempt, which is the engine's: the caller fills it in. Cost: some forty small files.

use crate::source::cgroup;
use crate::source::setting::Root;
use model::readings::{BpfRights, Reading, Readings, SoftHard};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;

/// Bits of `CapEff`, linux/capability.h.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// Everything, as it is now.
pub fn settings() -> Readings {
    read(&Root::at("/"))
}

fn read(root: &Root) -> Readings {
    let sockstat = root.text("/proc/net/sockstat");
    let tcp = |key: &'static str| {
        let why_not = format!("/proc/net/sockstat lacks '{key}' in its line 'TCP:'");
        sockstat.clone().and_then(|text| tcp_of_sockstat(&text, key), &why_not)
    };
    let meminfo = root.text("/proc/meminfo");
    let bytes = |key: &'static str| {
        let why_not = format!("/proc/meminfo lacks {key}");
        meminfo.clone().and_then(|text| bytes_of_meminfo(&text, key), &why_not)
    };
    let pair = |first, second| match (bytes(first), bytes(second)) {
        (Reading::Known(first), Reading::Known(second)) => Reading::Known((first, second)),
        (Reading::Unreadable(reason), _) | (_, Reading::Unreadable(reason)) => Reading::Unreadable(reason),
        (Reading::Absent, _) | (_, Reading::Absent) => Reading::Absent,
    };
    Readings {
        nofile: Reading::Known(limit(Resource::Nofile)),
        nproc: Reading::Known(limit(Resource::Nproc)),
        nr_open: root.sysctl("fs.nr_open"),
        file_max: root.sysctl("fs.file-max"),
        files_open: root.sysctl_numbers::<3>("fs.file-nr").and_then(|[open, ..]| Some(open), ""),
        local_ports: root
            .sysctl_numbers::<2>("net.ipv4.ip_local_port_range")
            .and_then(ports, "net.ipv4.ip_local_port_range holds no range of ports"),
        reserved_ports: root
            .text("/proc/sys/net/ipv4/ip_local_reserved_ports")
            .and_then(|text| port_list(&text), "net.ipv4.ip_local_reserved_ports holds no list of ports"),
        somaxconn: root.sysctl("net.core.somaxconn"),
        syn_backlog: root.sysctl("net.ipv4.tcp_max_syn_backlog"),
        syncookies: root.sysctl("net.ipv4.tcp_syncookies"),
        tcp_mem_pages: root.sysctl_numbers("net.ipv4.tcp_mem"),
        tcp_mem_pages_used: tcp("mem"),
        page_bytes: rustix::param::page_size() as u64,
        tcp_rmem_bytes: root.sysctl_numbers("net.ipv4.tcp_rmem"),
        tcp_wmem_bytes: root.sysctl_numbers("net.ipv4.tcp_wmem"),
        rmem_max_bytes: root.sysctl("net.core.rmem_max"),
        wmem_max_bytes: root.sysctl("net.core.wmem_max"),
        tw_reuse: root.sysctl("net.ipv4.tcp_tw_reuse"),
        tw_buckets_max: root.sysctl("net.ipv4.tcp_max_tw_buckets"),
        time_wait: tcp("tw"),
        conntrack_max: root.sysctl("net.netfilter.nf_conntrack_max"),
        conntrack_count: root.sysctl("net.netfilter.nf_conntrack_count"),
        pid_max: root.sysctl("kernel.pid_max"),
        threads_max: root.sysctl("kernel.threads-max"),
        threads_now: root
            .text("/proc/loadavg")
            .and_then(|text| text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok(), "/proc/loadavg is cut"),
        swap_bytes: pair("SwapTotal", "SwapFree"),
        swappiness: root.sysctl("vm.swappiness"),
        overcommit: root.sysctl("vm.overcommit_memory"),
        commit_bytes: pair("CommitLimit", "Committed_AS"),
        memory_available_bytes: bytes("MemAvailable"),
        governors: governors(root),
        turbo: turbo(root),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        group_memory: cgroup::memory(root),
        group_cpus: cgroup::cpus(root),
        group_pids: cgroup::pids(root),
        io_uring_disabled: root.sysctl("kernel.io_uring_disabled"),
        io_uring: Reading::default(),
        unprivileged_bpf_disabled: root.sysctl("kernel.unprivileged_bpf_disabled"),
        bpf: bpf(root),
        huge_pages: root
            .text("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text), "/sys/kernel/mm/transparent_hugepage/enabled names no choice"),
    }
}

fn limit(resource: Resource) -> SoftHard {
    let limit = getrlimit(resource);
    SoftHard { soft: limit.current, hard: limit.maximum }
}

fn tcp_of_sockstat(text: &str, key: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("TCP:"))?.split_whitespace();
    words.find(|word| *word == key)?;
    words.next()?.parse().ok()
}

fn bytes_of_meminfo(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn ports([first, last]: [u64; 2]) -> Option<(u16, u16)> {
    let (first, last) = (u16::try_from(first).ok()?, u16::try_from(last).ok()?);
    (first <= last).then_some((first, last))
}

/// `8080,9000-9010`; empty text is an empty list.
fn port_list(text: &str) -> Option<Vec<(u16, u16)>> {
    let range = |piece: &str| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    text.split(',').map(str::trim).filter(|piece| !piece.is_empty()).map(range).collect()
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Documentation/admin-guide/pm/cpufreq: a policy for each group of CPUs, with its governor.
fn governors(root: &Root) -> Reading<Vec<(String, u64)>> {
    const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";
    let mut found = BTreeMap::new();
    for policy in root.names(FOLDER).into_iter().filter(|name| name.starts_with("policy")) {
        let cpus = match root.text(&format!("{FOLDER}/{policy}/affected_cpus")) {
            Reading::Known(text) => text.split_whitespace().count() as u64,
            _ => 1,
        };
        match root.text(&format!("{FOLDER}/{policy}/scaling_governor")) {
            Reading::Known(governor) => *found.entry(governor).or_insert(0) += cpus,
            Reading::Absent => {}
            Reading::Unreadable(reason) => return Reading::Unreadable(reason),
        }
    }
    if found.is_empty() { Reading::Absent } else { Reading::Known(found.into_iter().collect()) }
}

/// `no_turbo` of intel_pstate, `boost` of the other drivers.
fn turbo(root: &Root) -> Reading<bool> {
    let number = |path| root.number(path);
    match number("/sys/devices/system/cpu/intel_pstate/no_turbo") {
        Reading::Absent => number("/sys/devices/system/cpu/cpufreq/boost").and_then(|boost| Some(boost != 0), ""),
        no_turbo => no_turbo.and_then(|no_turbo| Some(no_turbo == 0), ""),
    }
}

fn bpf(root: &Root) -> Reading<BpfRights> {
    let has_btf = root.has("/sys/kernel/btf/vmlinux");
    let rights = |status: String| {
        let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim();
        let effective = u64::from_str_radix(hex, 16).ok()?;
        let has = |bit: u64| effective & (bit | CAP_SYS_ADMIN) != 0;
        Some(BpfRights { may_load: has(CAP_BPF), may_trace: has(CAP_PERFMON), has_btf })
    };
    root.text("/proc/self/status").and_then(rights, "/proc/self/status lacks CapEff")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::setting::numbers;

    #[test]
    fn this_host_is_read() {
        let read = settings();
        let soft = read.nofile.known().unwrap().soft;
        assert!(soft.is_none_or(|soft| soft > 0));
        let (first, last) = read.local_ports.known().unwrap();
        assert!(first <= last);
        assert!(*read.somaxconn.known().unwrap() > 0 && *read.memory_available_bytes.known().unwrap() > 1 << 20);
        assert!(*read.threads_now.known().unwrap() > 0 && read.time_wait.known().is_some() && read.page_bytes >= 4096);
        assert!(read.tcp_mem_pages.known().is_none_or(|[low, pressure, high]| low <= pressure && pressure <= high));
        assert!(read.swap_bytes.known().is_some_and(|(total, free)| free <= total));
        assert!(read.io_uring.known().is_none(), "that is the engine's to find out");
    }

    #[test]
    fn a_host_without_proc_has_nothing_known_by_it() {
        let empty = tempfile::tempdir().unwrap();
        let read = read(&Root::at(empty.path()));
        assert_eq!(read.somaxconn, Reading::Absent);
        assert_eq!((read.time_wait, read.bpf), (Reading::Absent, Reading::Absent));
        assert_eq!((read.governors, read.turbo), (Reading::Absent, Reading::Absent));
    }

    #[test]
    fn files_of_several_figures_are_taken_apart() {
        let sockstat = "sockets: used 19\nTCP: inuse 2 orphan 0 tw 15000 alloc 2 mem 453\nUDP: inuse 0 mem 7\n";
        assert_eq!((tcp_of_sockstat(sockstat, "tw"), tcp_of_sockstat(sockstat, "mem")), (Some(15_000), Some(453)));
        assert_eq!(tcp_of_sockstat("TCP: tw", "tw"), None);
        assert_eq!(bytes_of_meminfo("MemTotal: 9 kB\nMemAvailable:    4 kB\n", "MemAvailable"), Some(4096));
        assert_eq!(bytes_of_meminfo("MemAvailable: 4\n", "MemAvailable"), None);
        assert_eq!(port_list("8080,9000-9010"), Some(vec![(8080, 8080), (9000, 9010)]));
        assert_eq!((port_list(""), port_list("x"), port_list("1-70000")), (Some(vec![]), None, None));
        assert_eq!((ports([5, 4]), ports([1, 70_000]), ports([1, 2])), (None, None, Some((1, 2))));
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(numbers::<3>("1 2 3"), Some([1, 2, 3]));
    }

    #[test]
    fn governors_and_turbo_are_of_all_policies() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |path: &str, text: &str| {
            let path = folder.path().join("sys/devices/system/cpu").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("cpufreq/policy0/scaling_governor", "powersave\n");
        write("cpufreq/policy0/affected_cpus", "0 1 2\n");
        write("cpufreq/policy3/scaling_governor", "performance\n");
        let expected = vec![("performance".to_owned(), 1), ("powersave".to_owned(), 3)];
        assert_eq!(governors(&root), Reading::Known(expected));
        write("cpufreq/boost", "0\n");
        assert_eq!(turbo(&root), Reading::Known(false));
        write("intel_pstate/no_turbo", "0\n");
        assert_eq!(turbo(&root), Reading::Known(true));
    }

    #[test]
    fn rights_follow_the_capabilities() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        let of = |mask: u64| {
            std::fs::write(folder.path().join("proc/self/status"), format!("Name:\tx\nCapEff:\t{mask:016x}\n"))
                .unwrap();
            let rights = *bpf(&root).known().unwrap();
            (rights.may_load, rights.may_trace)
        };
        assert_eq!((of(0), of(CAP_BPF), of(CAP_PERFMON)), ((false, false), (true, false), (false, true)));
        assert_eq!(of(CAP_SYS_ADMIN), (true, true));
    }
}
