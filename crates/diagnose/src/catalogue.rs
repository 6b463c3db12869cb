//! Every cause that is to be told apart, and by what that a recording holds.
//!
//! Ids are fixed: reports and scripts use them. A rule needs two pieces of evidence that do not depend on each other, so
//! each cause has at least two. What is still missing is said in `open`: it is recorded by nobody yet, or the kernel does
//! not give it. `docs/evidence.md` is made of this table (`crates/observe/tests/evidence_page.rs`), which holds that each
//! sampler and probe named here is there.

/// What the client itself sees: intervals, single requests, connections, failures.
pub const CLIENT: &str = "client";

/// A cause, and what tells it.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    /// Its fixed id.
    pub id: &'static str,
    /// What tells it, and which sampler or probe reads that ([`CLIENT`] for the load's own figures).
    pub evidence: &'static [(&'static str, &'static str)],
    /// What of it is not recorded; empty: nothing.
    pub open: &'static str,
}

const fn cause(id: &'static str, evidence: &'static [(&'static str, &'static str)]) -> Cause {
    Cause { id, evidence, open: "" }
}

const fn lacking(id: &'static str, evidence: &'static [(&'static str, &'static str)], open: &'static str) -> Cause {
    Cause { id, evidence, open }
}

const STANDS: &str = "process/stands";
const THREADS: &str = "process/threads";
const COUNTERS: &str = "network/counters";
const CONNECTIONS: &str = "network/connections";
const SYSCALLS: &str = "bpf/syscalls";
const OFFCPU: &str = "bpf/offcpu";
const EXCHANGES: &str = "bpf/exchanges";
const THREAD_STATES: &str = "bpf/threads";

/// Of the server's own doing.
pub const SERVER: &[Cause] = &[
    cause(
        "nagle-delayed-ack",
        &[
            ("service time by ordinal on the connection", CLIENT),
            ("delayed acknowledgements", COUNTERS),
            ("small sends with data in flight, and the bare acknowledgement 40 ms later", "bpf/delayed_acks"),
            ("sends with and without NODELAY", "bpf/sockets"),
        ],
    ),
    cause(
        "sigpipe-death",
        &[("the signal, the last call and its socket", "bpf/lifecycle"), ("resets, then refused", CLIENT)],
    ),
    cause(
        "process-crash",
        &[
            ("exit by signal, or with a code", "bpf/lifecycle"),
            ("the process is gone", THREADS),
            ("resets, then refused", CLIENT),
        ],
    ),
    cause(
        "process-restart",
        &[
            ("a new process listens on the port", "network/listeners"),
            ("processes that ended with code 0, and the signal that asked for it", "bpf/lifecycle"),
            ("outage and first success, pauses of all requests", CLIENT),
        ],
    ),
    cause(
        "state-lost",
        &[("the process ended or was replaced", "bpf/lifecycle"), ("acknowledged values that are gone", CLIENT)],
    ),
    cause(
        "oom-kill",
        &[
            ("the kernel's choice", "bpf/lifecycle"),
            ("the kernel's log", "host/kernel_log"),
            ("kills of the control group", "process/cgroup"),
        ],
    ),
    cause(
        "fd-exhaustion",
        &[("descriptors beside their limit", "process/files"), ("accept fails with EMFILE or ENFILE", SYSCALLS)],
    ),
    cause("fd-leak", &[("descriptors over time", "process/files"), ("connections that have ended", CLIENT)]),
    cause(
        "accept-queue-overflow",
        &[
            ("overflows", COUNTERS),
            ("waiting, backlog and drops of each listener", "network/listeners"),
            ("connect times", CLIENT),
        ],
    ),
    cause(
        "syn-queue-full",
        &[("cookies and drops", COUNTERS), ("connections half open", CONNECTIONS), ("connect times", CLIENT)],
    ),
    cause("single-thread-bound", &[("CPU time by thread", THREADS), ("other cores idle", "host/cpu")]),
    cause("cpu-saturated", &[("all cores", "host/cpu"), ("pressure", "host/pressure")]),
    cause(
        "cpu-contention",
        &[("run-queue wait by thread", THREADS), ("who else ran", "process/neighbours"), ("waits", "bpf/runqueue")],
    ),
    cause(
        "cpu-throttled",
        &[
            ("throttled periods", "process/cgroup"),
            ("pauses on a grid", CLIENT),
            ("each thread's throttled time", THREAD_STATES),
        ],
    ),
    lacking(
        "lock-contention",
        &[
            ("waits by futex, and how many wait at each", SYSCALLS),
            ("who held the futex, and whether it ran meanwhile", THREAD_STATES),
            ("where threads wait", OFFCPU),
        ],
        "who holds a lock that is no pthread mutex of glibc while it is waited for: of such a one, who let it go",
    ),
    cause(
        "event-loop-blocked",
        &[
            ("pauses of all in-flight requests of a thread", CLIENT),
            ("long calls by what they are at, long stretches in no call", SYSCALLS),
            ("where the thread runs", "bpf/oncpu"),
            ("its states, its stalls of 5 ms and more", THREAD_STATES),
            ("where each worker stands, beside the others", "process/stands"),
        ],
    ),
    cause(
        "stop-the-world",
        &[
            ("pauses of all requests at once, how long and how often", CLIENT),
            ("pauses of all threads together, and in which states", THREAD_STATES),
            ("where all threads wait", OFFCPU),
            ("signals", "bpf/lifecycle"),
        ],
    ),
    cause(
        "head-of-line",
        &[
            ("service time beside the predecessor's", CLIENT),
            ("long calls by what they are at", SYSCALLS),
            ("how long requests lay in the target's socket before it read them", EXCHANGES),
        ],
    ),
    cause(
        "worker-starvation",
        &[
            ("connections never served", CLIENT),
            ("threads in a receive, and at what", STANDS),
            ("data unread", CONNECTIONS),
        ],
    ),
    cause(
        "backend-wait",
        &[
            ("the target's own connections: replies due, and since when", "network/outgoing"),
            ("threads that stand at one", STANDS),
            ("each thread's waits at them, and where to the longest was", THREAD_STATES),
            ("waits", OFFCPU),
        ],
    ),
    cause(
        "log-bound",
        &[
            ("fsync and write: how long, and whether to a file that is only appended to", SYSCALLS),
            ("threads that stand at one", STANDS),
            ("where threads wait", OFFCPU),
        ],
    ),
    cause(
        "disk-bound",
        &[
            ("time at the disk", "bpf/block"),
            ("threads in D", THREADS),
            ("each thread's time in waits for I/O", THREAD_STATES),
            ("pressure", "host/pressure"),
            ("the disk", "host/disks"),
        ],
    ),
    cause(
        "memory-per-connection",
        &[("resident memory", "process/memory"), ("temporary files", "process/files"), ("connections", CLIENT)],
    ),
    cause(
        "memory-leak",
        &[("resident memory over time", "process/memory"), ("requests at constant connections", CLIENT)],
    ),
    cause(
        "memory-kept",
        &[("resident memory after the load (--after)", "process/memory"), ("kinds of memory", "process/memory_kinds")],
    ),
    cause(
        "connection-leak",
        &[
            ("connections in CLOSE-WAIT", CONNECTIONS),
            ("orphans", "network/sockstat"),
            ("connections that have ended", CLIENT),
        ],
    ),
    cause(
        "lost-wakeup",
        &[
            ("data that lies unread", CONNECTIONS),
            ("threads in epoll_wait, and at which instance", STANDS),
            ("which of the connections with unread data that instance watches, and whether by edge", CONNECTIONS),
        ],
    ),
    cause(
        "thundering-herd",
        &[("accepts that come back with nothing", SYSCALLS), ("context switches", "process/switches")],
    ),
    cause(
        "accept-imbalance",
        &[("waiting and drops of each listener, its owners", "network/listeners"), ("CPU time by thread", THREADS)],
    ),
    cause(
        "tls-handshake-bound",
        &[
            ("handshakes and their time", CLIENT),
            ("the certificate's kind and size", CLIENT),
            ("handshakes", "bpf/tls"),
            ("CPU time by thread", THREADS),
        ],
    ),
    cause("keepalive-off", &[("closed by the peer after each reply", CLIENT), ("passive opens", COUNTERS)]),
    cause(
        "truncated-reply",
        &[("what came beside what was due, and where it ends", CLIENT), ("sizes of sends", "bpf/sockets")],
    ),
    cause("padded-reply", &[("what came beside what was due", CLIENT), ("sizes of sends", "bpf/sockets")]),
    cause("corrupted-reply", &[("what came beside what was due", CLIENT), ("checksum errors", COUNTERS)]),
    cause("missing-reply", &[("requests without a reply", CLIENT), ("data that lies unread", CONNECTIONS)]),
    cause(
        "error-status",
        &[
            ("outcomes", CLIENT),
            ("connections to whom it asks that stand unanswered, or on which a reply is due", "network/outgoing"),
            ("connects that failed", COUNTERS),
            ("failing calls", SYSCALLS),
        ],
    ),
    cause("fast-failures", &[("times of successes and of failures", CLIENT), ("the process", "bpf/lifecycle")]),
    cause(
        "connection-limit",
        &[
            ("connections refused, closed or never served", CLIENT),
            ("idle CPU", "host/cpu"),
            ("waiting", "network/listeners"),
        ],
    ),
    cause(
        "pool-exhausted",
        &[
            ("throughput flat over clients", CLIENT),
            ("what all threads wait for, and who wakes them", THREAD_STATES),
            ("where threads wait", OFFCPU),
            ("idle CPU", "host/cpu"),
        ],
    ),
    cause(
        "backend-limited",
        &[
            ("the target's own connections, their number", "network/outgoing"),
            ("waits at what", THREAD_STATES),
            ("waits", OFFCPU),
        ],
    ),
    cause(
        "garbage-collection",
        &[
            ("pauses of all requests", CLIENT),
            ("pauses that the runtime makes for its collector", "bpf/collector"),
            ("the language runtime", "process/runtimes"),
            ("pauses of all threads together", THREAD_STATES),
            ("stacks of the threads that run", "bpf/oncpu"),
        ],
    ),
    cause(
        "slow-path",
        &[
            ("times by URL or command", CLIENT),
            ("where the thread runs", "bpf/oncpu"),
            ("from the first read of a request to the last send of its reply", EXCHANGES),
        ],
    ),
    cause(
        "neighbour-request",
        &[
            ("pauses", CLIENT),
            ("requests of clients other than the generator, and their service time", "bpf/sockets"),
            ("receives and sends", "bpf/sockets"),
        ],
    ),
    cause(
        "files-reread",
        &[
            ("opens and reads a request", SYSCALLS),
            ("which files are opened most", SYSCALLS),
            ("bytes read", "process/io"),
        ],
    ),
    cause(
        "io-throttled",
        &[("bytes beside the group's limit", "process/cgroup_waits"), ("the disk is idle", "host/disks")],
    ),
    cause(
        "dns-wait",
        &[
            ("the target's sockets to port 53", "network/lookups"),
            ("the same over TCP", "network/outgoing"),
            ("requests' time beside their work", CLIENT),
            ("where threads wait", OFFCPU),
        ],
    ),
    cause("at-its-limit", &[("CPU time by thread", THREADS), ("the load line", CLIENT)]),
];

/// Of the host and the path.
pub const HOST: &[Cause] = &[
    cause(
        "swap-thrash",
        &[
            ("pages swapped in", "host/vmstat"),
            ("pressure", "host/pressure"),
            ("refaults of the group", "process/cgroup_waits"),
        ],
    ),
    cause("tcp-memory", &[("pressure, pruning, drops", COUNTERS), ("pages of TCP", "network/sockstat")]),
    cause(
        "packet-loss",
        &[
            ("retransmits", COUNTERS),
            ("retransmits and drops of the target's", "bpf/losses"),
            ("by connection", CONNECTIONS),
        ],
    ),
    cause(
        "path-limited",
        &[
            ("round trips beside the shortest", CONNECTIONS),
            ("throughput", CLIENT),
            ("the way there and back of single requests", EXCHANGES),
        ],
    ),
    cause("receive-window", &[("time bound by the peer's window", CONNECTIONS), ("zero windows", COUNTERS)]),
    cause(
        "send-buffer",
        &[("time bound by the send buffer", CONNECTIONS), ("sends that found it full", "bpf/sockets")],
    ),
    cause("time-wait", &[("sockets in TIME-WAIT", "network/time_wait"), ("addresses that could not be had", CLIENT)]),
    cause("softirq-bound", &[("soft interrupts by core", "host/cpu"), ("backlog squeezed", "host/softnet")]),
    cause("kernel-trouble", &[("the kernel's log", "host/kernel_log"), ("failures at that moment", CLIENT)]),
    cause("neighbour", &[("others' CPU, disk and memory", "process/neighbours"), ("pressure", "host/pressure")]),
];

/// Of the generator itself.
pub const GENERATOR: &[Cause] = &[
    cause("generator-cpu", &[("CPU time of workers", CLIENT), ("CPU time of the target", THREADS)]),
    cause("generator-lag", &[("lag", CLIENT), ("late turns of a worker", CLIENT)]),
    cause(
        "generator-starved",
        &[("run-queue wait of workers", CLIENT), ("who ran", "process/neighbours"), ("its quota", "process/quota")],
    ),
    cause("cpu-stolen", &[("stolen time", "host/cpu"), ("late turns of a worker", CLIENT)]),
    cause("generator-fds", &[("failures for want of descriptors", CLIENT), ("limits of the run", CLIENT)]),
    cause(
        "generator-ports",
        &[("addresses that could not be had", CLIENT), ("sockets in TIME-WAIT", "network/time_wait")],
    ),
    cause("generator-memory", &[("memory of the generator", "process/memory"), ("memory available", "host/memory")]),
    cause("clock-step", &[("wall and monotonic clock", "host/clock"), ("time suspended", "host/clock")]),
    cause("figure-audit", &[("figures against each other", CLIENT), ("segments and bytes", COUNTERS)]),
    cause("rate-not-reached", &[("asked and achieved, interval by interval", CLIENT), ("who was full", THREADS)]),
    cause("connections-not-reached", &[("asked and achieved", CLIENT), ("why connects failed", CLIENT)]),
    cause("not-steady", &[("stretches that kept their levels", CLIENT), ("interval by interval", CLIENT)]),
    cause("starved-users", &[("replies by connection", CLIENT), ("since when", CLIENT)]),
    cause("too-few", &[("requests", CLIENT), ("the quantile asked for", CLIENT)]),
];

/// All groups, each with its heading.
pub const GROUPS: [(&str, &[Cause]); 3] =
    [("The server's own doing", SERVER), ("The host and the path", HOST), ("The generator", GENERATOR)];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_cause_stands_once_and_has_two_pieces_of_evidence_or_says_what_is_missing() {
        let all: Vec<&Cause> = GROUPS.iter().flat_map(|(_, causes)| *causes).collect();
        let ids: BTreeSet<&str> = all.iter().map(|cause| cause.id).collect();
        assert_eq!(ids.len(), all.len());
        for cause in &all {
            assert!(cause.evidence.len() >= 2 || !cause.open.is_empty(), "{}", cause.id);
        }
        for id in crate::ids() {
            assert!(ids.contains(id), "the rule {id} is in no group");
        }
    }
}
