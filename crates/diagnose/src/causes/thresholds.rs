//! The thresholds of the causes, in one table: rules take them from here, and `docs/causes.md` is made of it.
//!
//! Each says where it comes from. One is changed only with a dated decision and its numbers.

/// A value from which on something speaks for a cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Of which causes, by id.
    pub causes: &'static [&'static str],
    /// What is compared with it.
    pub what: &'static str,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

macro_rules! thresholds {
    ($($name:ident: $value:expr, $unit:literal, [$($cause:literal),*], $what:literal, $source:literal;)*) => {
        $(
            #[doc = concat!("`", $what, "`: ", $source)]
            pub const $name: Threshold =
                Threshold { causes: &[$($cause),*], what: $what, value: $value, unit: $unit, source: $source };
        )*
        /// All of them.
        pub const ALL: &[&Threshold] = &[$(&$name),*];
    };
}

thresholds! {
    DESCRIPTORS_USED: 0.95, "ratio", ["fd-exhaustion"], "open descriptors over their limit", "getrlimit(2): at the limit accept(2) fails with EMFILE; some programs keep a few back";
    CONNECT_NS: 0.9e9, "ns", ["accept-queue-overflow"], "longest connect", "a SYN that is not answered is sent again after 1 s (RFC 6298, 2.1; TCP_TIMEOUT_INIT)";
    THREAD_RUN: 0.95, "ratio", ["single-thread-bound"], "busiest thread on a CPU", "what a thread without a wait has, less the reading's rounding";
    THREAD_WAIT: 0.20, "ratio", ["single-thread-bound", "cpu-contention", "neighbour"], "run-queue wait over run and wait", "measured: alone 4 %, three on a core 67 %";
    OTHER_THREAD_RUN: 0.50, "ratio", ["single-thread-bound"], "second busiest thread on a CPU", "two threads that share the work are none alone";
    IDLE_CORES: 0.1, "cores", ["single-thread-bound"], "cores idle", "what another thread could have had";
    LINE: 2.0, "ratio", ["single-thread-bound"], "response over CPU time a request", "at twice its own work a request stood in line as long again";
    DEMAND_FULL: 0.85, "ratio", ["at-its-limit"], "busiest thread running or waiting for a CPU, or the machine busy", "a closed loop of few connections leaves a full worker some wake-ups; nginx of one worker: 92 %";
    MACHINE_BUSY: 0.90, "ratio", ["cpu-saturated"], "the machine's CPU time used", "what is left is less than a tenth of what one thread more would want on ten cores";
    NEIGHBOURS: 0.25, "cores", ["cpu-contention", "neighbour"], "cores that other processes used", "a quarter of a core is what turns 4 % of run-queue wait into more than 20 %";
    THROTTLED_PERIODS: 0.10, "ratio", ["cpu-throttled"], "periods in which the quota was used up", "one in ten stalls is in every p90";
    THROTTLED_TIME: 0.05, "ratio", ["cpu-throttled"], "time held by the quota", "as stolen time: what reaches the tail of a second";
    FUTEX_SHARE: 0.20, "ratio", ["lock-contention"], "time of the working threads in futex without a time limit", "the catalogue's: a fifth of a request's time";
    FUTEX_STANDS: 0.30, "ratio", ["lock-contention"], "readings of working threads in futex", "a fifth, and the error of ten readings of four threads";
    LOG_SHARE: 0.20, "ratio", ["log-bound"], "time of the working threads in fsync or write of a file or pipe", "the catalogue's: a fifth; measured: 1.86 ms a line, of which PSI saw 8 of 372 ms";
    DISK_STANDS: 0.20, "ratio", ["disk-bound", "io-throttled", "neighbour"], "working threads' time, or readings of them, in waits for a disk", "as log-bound";
    BACKEND_SHARE: 0.20, "ratio", ["backend-wait"], "median age of the replies that backends owe over the target's own time", "as log-bound";
    NAGLE_LOW_NS: 36e6, "ns", ["nagle-delayed-ack"], "median service time from the second request on", "a delayed ACK takes 40 ms (TCP_DELACK_MIN); measured: 43.99 ms";
    NAGLE_HIGH_NS: 48e6, "ns", ["nagle-delayed-ack"], "the same at most", "two timer ticks of 4 ms more";
    NAGLE_OF_SLOW: 0.5, "ratio", ["nagle-delayed-ack"], "slow requests' time that is of those, where not most requests take as long", "most of what is slow";
    DELAYED_ACKS: 0.8, "ratio", ["nagle-delayed-ack"], "delayed ACKs a request", "measured: 19 of 20; healthy short connections have them too, and are not slow";
    PAUSE_TIMES: 5.0, "ratio", ["event-loop-blocked", "stop-the-world"], "pause over the median response", "the catalogue's, of p99: the pauses themselves are in that";
    PAUSE_NS: 10e6, "ns", ["event-loop-blocked", "stop-the-world"], "length of a pause", "shorter ones are a scheduler's on a busy machine";
    PAUSED_SHARE: 0.02, "ratio", ["event-loop-blocked", "stop-the-world"], "time in pauses", "what is in every p98";
    PERIODIC: 0.25, "ratio", ["stop-the-world"], "standard deviation over mean of the time between pauses", "pauses of chance have 1 (exponential), those of a timer next to 0";
    COLLECTOR_SHARE: 0.3, "ratio", ["garbage-collection"], "slow requests' excess over their kind that lies in the collector's pauses", "a third of a loss is worth a remedy; pauses of chance hold as much as they take of the time";
    COLLECTOR_TIME: 0.15, "ratio", ["garbage-collection"], "time that the runtime held the program for its collector", "twice what HotSpot's G1 aims to stay below (8 %, GCTimeRatio=12) by growing the heap";
    SLOW_PATH_TIMES: 5.0, "ratio", ["slow-path"], "fast band of the costly kinds of request over that of the usual one", "the catalogue's";
    SLOW_PATH_NS: 1e6, "ns", ["slow-path"], "the same, by how much longer", "shorter ones hold hardly anybody up";
    OTHERS_AS_LONG: 0.75, "ratio", ["neighbour-request"], "time of other clients' requests over the median pause", "buckets of powers of two";
    FAST_FAILURES: 0.05, "ratio", ["fast-failures"], "requests that failed", "what shows in a mean";
    FAST_FAILURE_TIMES: 2.0, "ratio", ["fast-failures"], "median of the successes over that of the failures", "half as long is no scatter";
    KEPT_BYTES: 16_777_216.0, "bytes", ["memory-kept"], "growth of resident memory under the load", "what an allocator keeps of some threads' arenas is less";
    KEPT_SHARE: 0.5, "ratio", ["memory-kept"], "what of it is still there after the load", "the catalogue's";
    TROUBLE_LOSS: 0.2, "ratio", ["kernel-trouble"], "failures, or slow requests' time, within seconds of the record", "as log-bound, and twice what falls there by chance";
    IO_LIMIT_USED: 0.8, "ratio", ["io-throttled"], "what the control group reads or writes over its limit", "the limit is kept over tenths of a second, and the load pauses in between";
    NEIGHBOUR_DISK: 0.5, "ratio", ["neighbour"], "one program's part of the bytes moved to and from disks", "more than the target and all others";
    MEMORY_TAKEN: 0.125, "ratio", ["neighbour"], "one program's part of the machine's memory", "more than what is next to none";
    FAULTS_MIN: 10.0, "1/s", ["swap-thrash", "neighbour"], "page faults of the target that waited for a disk", "so many wait long enough to be seen";
    OPENS: 2.0, "ratio", ["files-reread"], "opens of files a reply", "a server of files opens one for each reply";
    CLOSES: 0.9, "ratio", ["keepalive-off"], "connections made and closed a request", "one each, less those still open";
    HANDSHAKES: 0.5, "ratio", ["tls-handshake-bound"], "full handshakes a request", "below, records and requests cost more than handshakes";
    HANDSHAKE_CPU_NS: 500e3, "ns", ["tls-handshake-bound"], "CPU time of the target a request", "an RSA-2048 signature takes about 0.6 ms of a core, RSA-4096 four times that, P-256 less than 0.1";
    LEAK_DESCRIPTORS: 50.0, "descriptors", ["fd-leak"], "growth of open descriptors", "more than a pool or a log takes at its start";
    LEAK_CLOSE_WAIT: 20.0, "connections", ["connection-leak"], "connections in CLOSE-WAIT at the end", "a server has one of each connection for a moment";
    LEAK_MEMORY: 4e6, "bytes", ["memory-leak"], "growth of resident memory", "what allocators keep for later (M_TRIM_THRESHOLD, arenas) is less of a small server";
    MEMORY_PER_CONNECTION: 262_144.0, "bytes", ["memory-per-connection"], "resident memory a connection", "the catalogue's";
    RETRANSMITS: 0.001, "ratio", ["packet-loss"], "segments sent again", "the catalogue's; measured at 2 % on the receiver's ingress: 2304 to 514 MB/s";
    SWAPPED_IN: 100.0, "pages/s", ["swap-thrash"], "pages read back from swap", "at 10 ms a page and core, a core's whole time";
    MEMORY_PRESSURE: 0.10, "ratio", ["swap-thrash"], "time in which some task waited for memory", "the catalogue's (PSI some)";
    WAITING_TIMES: 2.0, "ratio", ["waiting"], "time in the target over its own work, run-queue wait and the queueing of its utilisation", "queueing in front of a shared processor is work ÷ (1 − utilisation) (M/M/1); twice that is more than its scatter";
    WAITING_NS: 500e3, "ns", ["waiting"], "time in the target beyond its work", "shorter waits are wake-ups";
    SLOW_TIME: 0.10, "ratio", ["slow"], "time of slow requests beyond the fast band, of all requests' time", "clean servers on a quiet machine have less than 2 %";
}
