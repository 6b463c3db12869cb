//! The reproducibility capsule: kernel, CPU, memory, settings and limits that decide what a load test can reach.
//!
//! Read once, at the start of a run. What cannot be read is absent, never made up. The tool's version, the command
//! line and the driver are the caller's to fill in.

use crate::source::clock;
use crate::source::proc::{Buffers, lines, number_after};
use model::recording::{Capsule, RunClock};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;

/// Kernel settings that matter to a load test, by their sysctl name.
pub const SYSCTLS: &[&str] = &[
    "fs.file-max",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.perf_event_paranoid",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.swappiness",
];

/// Limits of the generator's process, by the name `ulimit` and limits.conf(5) use.
const LIMITS: &[(&str, Resource)] =
    &[("as", Resource::As), ("memlock", Resource::Memlock), ("nofile", Resource::Nofile), ("nproc", Resource::Nproc)];

/// What is known of this machine and process now. A limit is written `soft:hard`.
pub fn capsule() -> Capsule {
    let mut buffers = Buffers::default();
    let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    let memory_kib = buffers.read(format_args!("/proc/meminfo")).ok().and_then(|m| number_after(m, b"MemTotal:"));
    Capsule {
        started_at_unix_ns: u64::try_from(clock::realtime_ns()).unwrap_or(0),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpu: cpu(&mut buffers),
        cores,
        memory_bytes: memory_kib.unwrap_or(0).saturating_mul(1024),
        sysctls: sysctls(&mut buffers),
        limits: LIMITS.iter().map(|(name, resource)| ((*name).to_owned(), limit(*resource))).collect(),
        ..Capsule::default()
    }
}

/// When a run began that did so at this moment of CLOCK_MONOTONIC, by clocks that another run's beginning can be compared with;
/// `None` where the kernel does not say which boot it is.
pub fn run_clock(monotonic_ns: u64) -> Option<RunClock> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // A time namespace has a CLOCK_MONOTONIC of its own; a kernel without them has one.
    let namespace = std::fs::read_link("/proc/self/ns/time").map(|link| link.display().to_string()).unwrap_or_default();
    let wall_ns = u64::try_from(i128::from(monotonic_ns) + clock::wall_offset_ns()).ok()?;
    let id = format!("{} {namespace}", boot.trim()).trim_end().to_owned();
    Some(RunClock { id, monotonic_ns, wall_ns, wall_error_ns: clock::wall_error_ns() })
}

/// The CPU's model and the machine's cores, in words.
fn cpu(buffers: &mut Buffers) -> String {
    let Ok(cpuinfo) = buffers.read(format_args!("/proc/cpuinfo")) else { return String::new() };
    cpu_in_words(cpuinfo)
}

/// x86 names the model; arm64 gives the implementer's and the part's number.
fn cpu_in_words(cpuinfo: &[u8]) -> String {
    let value = |key: &str| {
        lines(cpuinfo).find_map(|line| {
            let text = std::str::from_utf8(line).ok()?;
            let (name, value) = text.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let cores = lines(cpuinfo).filter(|line| line.starts_with(b"processor")).count();
    let model = value("model name")
        .or_else(|| Some(format!("CPU implementer {}, part {}", value("CPU implementer")?, value("CPU part")?)));
    let plural = if cores == 1 { "" } else { "s" };
    format!("{}, {cores} core{plural}", model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}

fn sysctls(buffers: &mut Buffers) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in SYSCTLS {
        let path = name.replace('.', "/");
        let Ok(text) = buffers.read(format_args!("/proc/sys/{path}")) else { continue };
        let words = String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
        found.insert((*name).to_owned(), words);
    }
    found
}

fn limit(resource: Resource) -> String {
    let limit = getrlimit(resource);
    let text = |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), |v| v.to_string());
    format!("{}:{}", text(limit.current), text(limit.maximum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_named_on_both_architectures() {
        let x86 = b"processor\t: 0\nmodel name\t: AMD EPYC 9R14\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 9R14\n";
        assert_eq!(cpu_in_words(x86), "AMD EPYC 9R14, 2 cores");
        let arm = b"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(cpu_in_words(arm), "CPU implementer 0x41, part 0xd40, 1 core");
        assert!(cpu_in_words(b"").ends_with("0 cores"));
    }

    #[test]
    fn this_machine_is_described() {
        let capsule = capsule();
        assert!(!capsule.kernel.is_empty() && capsule.memory_bytes > 1 << 20 && capsule.cores >= 1, "{capsule:?}");
        let ports = &capsule.sysctls["net.ipv4.ip_local_port_range"];
        assert_eq!(ports.split(' ').count(), 2, "{ports}");
        let (soft, hard) = capsule.limits["nofile"].split_once(':').unwrap();
        assert!(soft.parse::<u64>().is_ok() && (hard == "unlimited" || hard.parse::<u64>().is_ok()));
        assert!(capsule.started_at_unix_ns > 1_600_000_000_000_000_000);
    }
}
