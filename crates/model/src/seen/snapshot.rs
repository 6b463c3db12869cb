//! One reading of the host, the target's process and the generator's own, at one moment.
//!
//! Counters are kept as the kernel gives them (growing since boot or since the process began): a rate is the
//! difference of two snapshots. What could not be read is `None`, never zero.
//!
//! Where the target is on another machine than the generator (`generator_host` is there), host, network and probes are
//! of the target's machine; see [`crate::remote`].

use crate::metrics::Metrics;
use crate::remote::{GeneratorHost, Link};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One reading.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Snapshot {
    /// Monotonic nanoseconds since the run's start (negative: before it).
    pub at_ns: i64,
    /// Whether only what moves fast was read: what is read once a second is absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// Whether it was read after the load, its drain included, had ended (`load --after`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_after_load: bool,
    /// Wall clock minus monotonic clock, nanoseconds: changes only when the wall clock is stepped or slewed.
    pub wall_offset_ns: Option<i128>,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC, nanoseconds: grows only while the machine is suspended.
    pub suspended_ns: Option<u64>,
    /// The machine's CPU time, all cores.
    pub cpu: Option<CpuTimes>,
    /// Each core's, in order.
    pub cores: Vec<CpuTimes>,
    /// Memory available, bytes (`MemAvailable`).
    pub memory_available_bytes: Option<u64>,
    /// The kernel's slab memory, bytes (`Slab`).
    pub slab_bytes: Option<u64>,
    /// Memory of TCP socket buffers, bytes (`/proc/net/sockstat`, `mem`), this network namespace.
    pub socket_memory_bytes: Option<u64>,
    /// TCP sockets in TIME_WAIT (`/proc/net/sockstat`), this network namespace.
    pub time_wait: Option<u64>,
    /// The processes looked at.
    pub processes: Vec<ProcessSample>,
    /// CPU time of the whole target since it was first looked at, as the kernel sums it: processes and threads that
    /// have come and gone between two readings included. `None`: not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cpu: Option<SummedCpu>,
    /// Processes that are neither the target's nor the generator's, on the generator's machine: those that used most CPU
    /// since the observation began; at most [`crate::limits::NEIGHBOURS_MAX`], the one that used most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
    /// Until when their time is summed up, nanoseconds since the run's start: they are not looked at with each reading.
    /// `None`: not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours_at_ns: Option<i64>,
    /// Of the same processes those that read and wrote most on disks since the observation began, within the same bound;
    /// of the same moment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disk_neighbours: Vec<Neighbour>,
    /// Of the same processes those that have most memory resident, and those whose memory grew most, each within the same
    /// bound; of the same moment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_neighbours: Vec<Neighbour>,
    /// How a CPU quota held the generator; `None`: its control group could not be read, or has no quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_quota: Option<Quota>,
    /// Windows of the observer's probes that have begun so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// Whether a window of the observer's probes is open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_in_window: bool,
    /// The machine's other readings, by name.
    pub host: Metrics,
    /// Each disk's, by its name.
    pub disks: BTreeMap<String, Metrics>,
    /// Those of the target's network namespace, by name.
    pub network: Metrics,
    /// Each network interface's of that namespace, by its name.
    pub interfaces: BTreeMap<String, Metrics>,
    /// The process of the target whose network namespace it is; `None`: the generator's, as no target is known.
    pub network_pid: Option<u32>,
    /// The target's listening sockets; at most as many as the sampler's stated bound.
    pub listeners: Vec<ListenerSample>,
    /// Connections that the target made itself, by where to: those with most connections first, at most as many as the
    /// sampler's stated bound. Whether they were read: `outgoing_connections` of `network`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<Outgoing>,
    /// What the kernel's probes have counted; `None` where none runs.
    pub bpf: Option<crate::bpf::BpfSample>,
    /// Where the target's threads ran and waited since the snapshot before; `None` where nothing was seen of it. A
    /// recording in memory has it summed up instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<crate::profile::Profile>,
    /// Single requests as the target's sockets saw them, in windows of the probes. A recording has those that were joined with
    /// the client's requests instead ([`crate::split`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Box<crate::exchange::Exchanges>>,
    /// The generator's own machine, where the target's is another; `None`: both are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_host: Option<Box<GeneratorHost>>,
    /// The link to the target's machine, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}

impl Snapshot {
    /// CPU time of the generator's machine.
    pub fn generator_cpu(&self) -> Option<&CpuTimes> {
        self.generator_host.as_ref().map_or(self.cpu.as_ref(), |host| host.cpu.as_ref())
    }

    /// Each core's of the generator's machine.
    pub fn generator_cores(&self) -> &[CpuTimes] {
        self.generator_host.as_ref().map_or(&self.cores, |host| &host.cores)
    }

    /// Memory available on the generator's machine, bytes.
    pub fn generator_memory_available_bytes(&self) -> Option<u64> {
        self.generator_host.as_ref().map_or(self.memory_available_bytes, |host| host.memory_available_bytes)
    }

    /// TCP sockets in TIME_WAIT on the generator's machine.
    pub fn generator_time_wait(&self) -> Option<u64> {
        self.generator_host.as_ref().map_or(self.time_wait, |host| host.time_wait)
    }

    /// Lets what was read of the machine be the generator's, and of the target's nothing be known yet.
    pub fn keep_as_generators(&mut self) {
        let own = std::mem::take(self);
        *self = Snapshot {
            at_ns: own.at_ns,
            wall_offset_ns: own.wall_offset_ns,
            suspended_ns: own.suspended_ns,
            neighbours: own.neighbours,
            neighbours_at_ns: own.neighbours_at_ns,
            disk_neighbours: own.disk_neighbours,
            memory_neighbours: own.memory_neighbours,
            generator_quota: own.generator_quota,
            processes: own.processes.into_iter().filter(|process| process.role == Role::Generator).collect(),
            generator_host: Some(Box::new(GeneratorHost {
                cpu: own.cpu,
                cores: own.cores,
                memory_available_bytes: own.memory_available_bytes,
                slab_bytes: own.slab_bytes,
                socket_memory_bytes: own.socket_memory_bytes,
                time_wait: own.time_wait,
                host: own.host,
                network: own.network,
                interfaces: own.interfaces,
            })),
            ..Snapshot::default()
        };
    }

    /// What was read on the target's machine, with what was read of the generator and its machine beside it.
    pub fn beside(self, generators: &Snapshot) -> Snapshot {
        let mut processes = self.processes;
        processes.retain(|process| process.role == Role::Target);
        processes.extend(generators.processes.iter().filter(|process| process.role == Role::Generator).cloned());
        Snapshot {
            processes,
            wall_offset_ns: generators.wall_offset_ns,
            suspended_ns: generators.suspended_ns,
            neighbours: generators.neighbours.clone(),
            neighbours_at_ns: generators.neighbours_at_ns,
            disk_neighbours: generators.disk_neighbours.clone(),
            memory_neighbours: generators.memory_neighbours.clone(),
            generator_quota: generators.generator_quota,
            generator_host: generators.generator_host.clone(),
            ..self
        }
    }
}

/// CPU time summed by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SummedCpu {
    /// User, nanoseconds.
    pub user_ns: u64,
    /// System, nanoseconds.
    pub system_ns: u64,
    /// Who summed it.
    pub source: CpuSource,
}

/// Who sums a target's CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuSource {
    /// Each process's own total and that of the children it has waited for (`/proc/<pid>/stat`): a child that has ended
    /// and was not waited for is missing until it is.
    #[default]
    Processes,
    /// The control group that holds the target and nothing else.
    ControlGroup,
}

/// Another process on the generator's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Neighbour {
    /// Its id.
    pub pid: u32,
    /// Start time in clock ticks since boot: tells a reused id apart.
    pub start_ticks: u64,
    /// Its name (`comm`).
    pub name: String,
    /// CPU time of all its threads since the observation began, nanoseconds.
    pub cpu_ns: u64,
    /// The CPU it last ran on.
    pub core: Option<u32>,
    /// It holds a socket that listens where the target has connections to: what it uses, it uses for the target.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_backend: bool,
    /// It is another generator of the same run: known once the recordings of several are made one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_generator: bool,
    /// Bytes it had fetched from disks since the observation began; `None`: not for us to see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<u64>,
    /// Bytes it had sent to disks, or to the page cache for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_written_bytes: Option<u64>,
    /// Its resident memory when it was last looked at, bytes; `None`: it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// How much that is more than at the beginning of the observation, or of the process; less than zero: it gave back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_grown_bytes: Option<i64>,
}

/// How a CPU quota held a control group: its own or the tightest of those above it (`cpu.stat`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Quota {
    /// CPUs it allows.
    pub cpus: f64,
    /// Periods in which it was used up.
    pub throttled: u64,
    /// Time its threads were held, nanoseconds.
    pub throttled_ns: u64,
}

/// A listening TCP socket of the target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListenerSample {
    /// Where it is bound, such as `127.0.0.1:80`.
    pub address: String,
    /// Connections that wait to be accepted (`Recv-Q` of ss(8)).
    pub waiting: u32,
    /// How many may wait (`Send-Q`); one more than this fits.
    pub backlog: u32,
    /// Its inode, as in `socket:[inode]`: several sockets may have one address. 0: not known.
    #[serde(default)]
    pub inode: u64,
    /// The target's processes that hold it, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<u32>,
    /// SYNs and connections that it did not take since it was made; `None`: the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
}

/// Connections that the target itself made to one remote address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Outgoing {
    /// The other end, such as `10.0.0.7:5432`.
    pub remote: String,
    /// Readings of these connections, by name.
    pub metrics: Metrics,
}

/// CPU time since boot, nanoseconds (from `/proc/stat`, whose resolution is a clock tick, usually 10 ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuTimes {
    /// User, nice included.
    pub user_ns: u64,
    /// System.
    pub system_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Idle with I/O outstanding.
    pub iowait_ns: u64,
    /// Hard interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
}

impl CpuTimes {
    /// All of it. Sums saturate: a reading may have come from a file or another machine.
    pub fn total_ns(&self) -> u64 {
        [self.busy_ns(), self.idle_ns, self.iowait_ns, self.steal_ns].into_iter().fold(0, u64::saturating_add)
    }

    /// Time the core worked for this machine.
    pub fn busy_ns(&self) -> u64 {
        [self.user_ns, self.system_ns, self.irq_ns, self.softirq_ns].into_iter().fold(0, u64::saturating_add)
    }
}

/// Whose process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The target's.
    Target,
    /// Our own.
    Generator,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSample {
    /// Whose it is.
    pub role: Role,
    /// Its id.
    pub pid: u32,
    /// Start time in clock ticks since boot: tells a reused id apart.
    pub start_ticks: u64,
    /// Its name (`comm`).
    pub name: String,
    /// Resident memory, bytes.
    pub rss_bytes: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// User CPU time of all threads, living and gone, nanoseconds (clock-tick resolution).
    pub user_ns: Option<u64>,
    /// System CPU time of all threads, nanoseconds.
    pub system_ns: Option<u64>,
    /// Its threads; at most as many as the sampler's stated bound.
    pub threads: Vec<ThreadSample>,
    /// Threads it has in all.
    pub threads_total: u32,
    /// The language runtime it has mapped; `None`: none that is known, or it was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Its other readings, by name.
    #[serde(default)]
    pub metrics: Metrics,
}

/// A language runtime: what collects memory, holds one lock for all threads, or has a pool of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// Java's virtual machine.
    Jvm,
    /// Go's.
    Go,
    /// Node.js.
    Node,
    /// CPython.
    Python,
    /// Ruby's (MRI).
    Ruby,
    /// Perl's.
    Perl,
    /// PHP's (Zend).
    Php,
    /// .NET's (CoreCLR).
    Dotnet,
    /// Erlang's (BEAM).
    Erlang,
}

impl Runtime {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Jvm => "JVM",
            Runtime::Go => "Go",
            Runtime::Node => "Node.js",
            Runtime::Python => "Python",
            Runtime::Ruby => "Ruby",
            Runtime::Perl => "Perl",
            Runtime::Php => "PHP",
            Runtime::Dotnet => ".NET",
            Runtime::Erlang => "Erlang",
        }
    }
}

impl ProcessSample {
    /// Whether both are readings of one process: the same role, the same id, the same start.
    pub fn is_same(&self, other: &ProcessSample) -> bool {
        (self.role, self.pid, self.start_ticks) == (other.role, other.pid, other.start_ticks)
    }

    /// CPU time of all its threads, living and gone, nanoseconds (clock-tick resolution); `None` where it was not read, or
    /// where a damaged reading exceeds what there can be.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.user_ns?.checked_add(self.system_ns?)
    }
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadSample {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// State letter of `/proc/<pid>/stat`.
    pub state: char,
    /// CPU it last ran on.
    pub core: Option<u32>,
    /// Time on a CPU, nanoseconds (`schedstat`, first field).
    pub run_ns: Option<u64>,
    /// Time runnable and waiting for a CPU, nanoseconds (`schedstat`, second field).
    pub wait_ns: Option<u64>,
    /// User CPU time, nanoseconds (clock-tick resolution).
    pub user_ns: Option<u64>,
    /// System CPU time, nanoseconds (clock-tick resolution).
    pub system_ns: Option<u64>,
    /// How often it left a CPU.
    #[serde(default)]
    pub switches: Option<Switches>,
    /// Where it stood at the moment of the reading.
    #[serde(default)]
    pub stands: Option<Stands>,
}

impl ThreadSample {
    /// Time on a CPU, nanoseconds: exact where schedstat was read, else by clock ticks; `None` where neither was.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.run_ns.or_else(|| self.user_ns?.checked_add(self.system_ns?))
    }
}

/// How often a thread left a CPU since it began (`/proc/<pid>/task/<tid>/status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Switches {
    /// Because it waited for something.
    pub voluntary: u64,
    /// Because another was to run.
    pub involuntary: u64,
}

/// Where a thread stood.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stands {
    /// The kernel function it slept in; `None`: it ran, or the kernel does not say.
    pub wchan: Option<String>,
    /// The number of its system call, of the machine's own architecture; `None`: it was in none, or it ran.
    pub syscall: Option<i64>,
    /// Whether it was on a CPU, or about to be.
    pub is_running: bool,
    /// The descriptor that the call is at; `None`: it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<u32>,
    /// What that is, of [`crate::threads::DESCRIPTORS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether it waited in futex(2) with a time limit, at an address where no other thread of the process was seen to wait: so
    /// runtimes sleep, and so their idle threads wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sleeps: bool,
}

/// How a sampler fared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplerStatus {
    /// The sampler's name, such as `process/threads`.
    pub name: String,
    /// Active, disabled or failed.
    pub status: SamplerState,
    /// Why it is not active; when it is: what it leaves out, and that it reads once a second where readings come more
    /// often; mostly nothing.
    pub reason: String,
}

/// A sampler or probe, and how it fares here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// Its name, `family/name`.
    pub name: String,
    /// What it reads, in a sentence.
    pub about: String,
    /// Which right or part of the kernel it needs.
    pub needs: String,
    /// What it costs.
    pub cost: String,
    /// Whether it works here.
    pub status: SamplerState,
    /// Why not, or what it leaves out; mostly empty.
    pub reason: String,
}

/// The state of a sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SamplerState {
    /// It reads.
    Active,
    /// It was not asked for, or has nothing to read here.
    Disabled,
    /// It could not read; the reason says why.
    Failed,
}
