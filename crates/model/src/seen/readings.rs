//! What was read of a host's limits and settings, before anything judges it.
//!
//! Data only, each figure as the kernel gives it, in its own unit. A figure is known, absent (the kernel has no such
//! thing) or unreadable with the reason: the three are never mixed up, and none of them is zero.

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// It was read.
    Known(T),
    /// The file is not there: the kernel, the machine or this configuration has no such thing.
    Absent,
    /// It is there, or should be, and could not be read: the reason.
    Unreadable(String),
}

impl<T> Reading<T> {
    /// The figure, where it was read.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Absent | Reading::Unreadable(_) => None,
        }
    }

    /// The figure made into another; one that cannot be is unreadable, for this reason.
    pub fn and_then<U>(self, make: impl FnOnce(T) -> Option<U>, why_not: &str) -> Reading<U> {
        match self {
            Reading::Known(value) => {
                make(value).map_or_else(|| Reading::Unreadable(why_not.to_owned()), Reading::Known)
            }
            Reading::Absent => Reading::Absent,
            Reading::Unreadable(reason) => Reading::Unreadable(reason),
        }
    }
}

/// What nobody read is not fine.
impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading::Unreadable("it was not read".to_owned())
    }
}

/// A resource limit of this process, getrlimit(2); `None`: unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftHard {
    /// What holds now.
    pub soft: Option<u64>,
    /// How far the process may raise it.
    pub hard: Option<u64>,
}

/// The tightest of the limits that the control groups of this process set on one resource, cgroups(7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLimit {
    /// The limit; `None`: no group sets one.
    pub limit: Option<u64>,
    /// What the group that sets it uses now, memory that can be taken back at once left out.
    pub used: u64,
    /// The file that holds the limit.
    pub file: String,
}

/// The CPU time that the control groups of this process leave to it.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupCpus {
    /// CPUs; `None`: no group sets a quota.
    pub cpus: Option<f64>,
    /// The file that holds the quota.
    pub file: String,
}

/// Whether this process may load BPF programs, capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfRights {
    /// CAP_BPF, or CAP_SYS_ADMIN which contains it.
    pub may_load: bool,
    /// CAP_PERFMON, or CAP_SYS_ADMIN which contains it: programs that look into the kernel.
    pub may_trace: bool,
    /// `/sys/kernel/btf/vmlinux`: programs find the kernel's fields by it.
    pub has_btf: bool,
}

/// Everything that was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Readings {
    /// RLIMIT_NOFILE.
    pub nofile: Reading<SoftHard>,
    /// RLIMIT_NPROC.
    pub nproc: Reading<SoftHard>,
    /// `fs.nr_open`: no process may have more descriptors.
    pub nr_open: Reading<u64>,
    /// `fs.file-max`: open files of the whole machine.
    pub file_max: Reading<u64>,
    /// Open files of the whole machine now, `fs.file-nr`.
    pub files_open: Reading<u64>,
    /// `net.ipv4.ip_local_port_range`, both ends included.
    pub local_ports: Reading<(u16, u16)>,
    /// `net.ipv4.ip_local_reserved_ports`, ranges with both ends included.
    pub reserved_ports: Reading<Vec<(u16, u16)>>,
    /// `net.core.somaxconn`.
    pub somaxconn: Reading<u64>,
    /// `net.ipv4.tcp_max_syn_backlog`.
    pub syn_backlog: Reading<u64>,
    /// `net.ipv4.tcp_syncookies`.
    pub syncookies: Reading<u64>,
    /// `net.ipv4.tcp_mem`: low, pressure, high, in pages.
    pub tcp_mem_pages: Reading<[u64; 3]>,
    /// Pages that TCP's buffers take now (`mem` of `/proc/net/sockstat`; of the whole machine).
    pub tcp_mem_pages_used: Reading<u64>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// `net.ipv4.tcp_rmem`: least, default and most bytes of a receive buffer.
    pub tcp_rmem_bytes: Reading<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`: likewise of a send buffer.
    pub tcp_wmem_bytes: Reading<[u64; 3]>,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max_bytes: Reading<u64>,
    /// `net.core.wmem_max`, bytes.
    pub wmem_max_bytes: Reading<u64>,
    /// `net.ipv4.tcp_tw_reuse`.
    pub tw_reuse: Reading<u64>,
    /// `net.ipv4.tcp_max_tw_buckets`.
    pub tw_buckets_max: Reading<u64>,
    /// Sockets in TIME_WAIT now, this network namespace.
    pub time_wait: Reading<u64>,
    /// `net.netfilter.nf_conntrack_max`.
    pub conntrack_max: Reading<u64>,
    /// `net.netfilter.nf_conntrack_count`.
    pub conntrack_count: Reading<u64>,
    /// `kernel.pid_max`.
    pub pid_max: Reading<u64>,
    /// `kernel.threads-max`.
    pub threads_max: Reading<u64>,
    /// Threads of the whole machine now (`/proc/loadavg`).
    pub threads_now: Reading<u64>,
    /// Swap: bytes in all, bytes free.
    pub swap_bytes: Reading<(u64, u64)>,
    /// `vm.swappiness`.
    pub swappiness: Reading<u64>,
    /// `vm.overcommit_memory`.
    pub overcommit: Reading<u64>,
    /// CommitLimit and Committed_AS, bytes.
    pub commit_bytes: Reading<(u64, u64)>,
    /// MemAvailable, bytes.
    pub memory_available_bytes: Reading<u64>,
    /// The frequency governors of the CPUs, each with the number of CPUs that have it.
    pub governors: Reading<Vec<(String, u64)>>,
    /// Whether CPUs may run above their nominal frequency.
    pub turbo: Reading<bool>,
    /// CPUs this process may use at once.
    pub cpus: u64,
    /// The memory limit of the control groups, bytes.
    pub group_memory: Reading<GroupLimit>,
    /// Their CPU quota.
    pub group_cpus: Reading<GroupCpus>,
    /// Their limit of processes and threads.
    pub group_pids: Reading<GroupLimit>,
    /// `kernel.io_uring_disabled`.
    pub io_uring_disabled: Reading<u64>,
    /// What a real attempt to use io_uring came to.
    pub io_uring: Reading<Result<(), String>>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Reading<u64>,
    /// What this process may do with BPF.
    pub bpf: Reading<BpfRights>,
    /// Transparent huge pages: the choice in brackets of `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub huge_pages: Reading<String>,
}
