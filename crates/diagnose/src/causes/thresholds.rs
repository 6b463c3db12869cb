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
    HALF_OPEN: 16.0, "connections", ["syn-queue-full"], "connections half open at a time", "clients of a run are half open for a round trip; more than a handful stay so";
    ONE_LISTENER: 0.8, "ratio", ["accept-imbalance"], "of the connections that wait to be accepted, those at one listener of an address", "shared out evenly, each of two has half; measured: 100 % at the slow one of four";
    HERD_WAKES: 1.5, "wake-ups", ["thundering-herd"], "wake-ups a connection beyond once a request", "the catalogue's; measured: 3.8 with four workers, 0.9 with EPOLLEXCLUSIVE";
    EMPTY_ACCEPTS: 1.5, "ratio", ["thundering-herd"], "accepts with nothing for each connection, and wake-ups within epoll_wait(2) that found nothing", "a worker that accepts until nothing is left has one; measured: 3.6 to 3.8 with a herd of four on two cores, 1.0 without, nginx 0";
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
    QUOTA_FULL: 0.5, "ratio", ["at-its-limit"], "periods in which the quota was used up, of a target that ran or was stopped 85 % of the time", "measured: a pod of 0.3 of a core with one thread that always had work: 72 to 100 %, as what runs over in one period is taken from the next";
    FUTEX_SHARE: 0.20, "ratio", ["lock-contention"], "time of the working threads in futex without a time limit", "the catalogue's: a fifth of a request's time";
    FUTEX_STANDS: 0.30, "ratio", ["lock-contention"], "readings of working threads in futex", "a fifth, and the error of ten readings of four threads";
    IN_HAND: 0.1, "ratio", ["lock-contention"], "requests' time between being read and being answered, where it was split: less refutes", "whoever waits at a lock has a request in hand; measured: 4 % of a pool that idles on a full machine, under 1 % where replies wait for an acknowledgement, 45 % and more with a lock";
    FUTEX_LEAVES: 0.5, "ratio", ["lock-contention"], "how often threads that stand in futex leave their CPU, over the requests answered: less, and most requests wait for something else", "whoever waits at a lock leaves its CPU for it; measured: 0.34, of Java's compilers beside a pool of sixteen that sleep";
    IN_HAND_TIMES: 2.0, "ratio", ["lock-contention"], "threads that wait for each other, over the requests that the target has in hand: more refutes", "by Little's law no more wait at a lock than have a request in hand; measured: 0.5 to 1.2 with a lock, 4.5 to 13 of Go's and Gunicorn's idle threads";
    IN_TARGET_TIMES: 1.25, "ratio", ["lock-contention"], "threads that wait for each other, over the requests in the target: more refutes", "as above, where none was split; measured: 0.7 to 1.0 with a lock, 1.6 to 2.1 of Gunicorn's and Tomcat's idle threads";
    LOG_SHARE: 0.20, "ratio", ["log-bound"], "time of the working threads in fsync or write of a file or pipe", "the catalogue's: a fifth; measured: 1.86 ms a line, of which PSI saw 8 of 372 ms";
    SYNCED_SHARE: 0.15, "ratio", ["log-bound"], "what a reply waits in fsync over its time in the target, where that is more than the work for it", "measured: 0.19 to 0.28 of Go, whose threads without work make the share of their time 0.18; 1 over n where n requests wait for who holds a lock meanwhile";
    DISK_STANDS: 0.20, "ratio", ["disk-bound", "io-throttled", "neighbour"], "working threads' time, or readings of them, in waits for a disk", "as log-bound";
    BACKEND_SHARE: 0.20, "ratio", ["backend-wait"], "median age of the replies that backends owe over the target's own time", "as log-bound";
    SLOTS_CONSTANT: 0.75, "ratio", ["backend-limited"], "readings with as many connections to backends", "three of four: one reading may find one being made anew";
    SLOTS_BUSY: 0.6, "ratio", ["backend-limited"], "connections to backends on which a reply is due", "measured: 67 to 100 % where they are a bound (HAProxy keeps an idle one beside four); of a pool with room some are idle";
    SLOTS_LINE: 1.5, "ratio", ["backend-limited"], "requests in the target for each connection to a backend", "as pool-exhausted: half as many again stand in line; measured: 0.9 to 1.0 without a bound, 7 and 14 with one";
    SLOTS_UNREAD: 0.25, "ratio", ["backend-limited"], "requests unread in sockets over those in line", "a target that waits for a connection has read its requests; one that waits for a worker has not";
    LOOKUP_SHARE: 0.10, "ratio", ["dns-wait"], "sockets to a resolver over requests under way", "by Little's law that share of a request's time: less is no answer to what gives";
    NAGLE_LOW_NS: 36e6, "ns", ["nagle-delayed-ack"], "median service time from the second request on", "a delayed ACK takes 40 ms (TCP_DELACK_MIN); measured: 43.99 ms";
    NAGLE_HIGH_NS: 48e6, "ns", ["nagle-delayed-ack"], "the same at most", "two timer ticks of 4 ms more";
    NAGLE_OF_SLOW: 0.5, "ratio", ["nagle-delayed-ack"], "slow requests' time that is of those, where not most requests take as long", "most of what is slow";
    DELAYED_ACKS: 0.8, "ratio", ["nagle-delayed-ack"], "delayed ACKs a request", "measured: 19 of 20; healthy short connections have them too, and are not slow";
    PAUSE_TIMES: 5.0, "ratio", ["event-loop-blocked", "stop-the-world"], "pause over the median response", "the catalogue's, of p99: the pauses themselves are in that";
    PAUSE_DISTANCES: 10.0, "ratio", ["event-loop-blocked", "stop-the-world"], "by the clock, pause over the mean distance of two replies, where half of all requests stand in one", "by chance one in 20,000 distances is as long";
    PAUSE_NS: 10e6, "ns", ["event-loop-blocked", "stop-the-world"], "length of a pause", "shorter ones are a scheduler's on a busy machine";
    WORKER_HELD: 0.5, "ratio", ["event-loop-blocked"], "time that one of several workers waited for something else than work, the others a tenth at most", "measured: 97 to 99 % of one that sleeps in each request, 0 of the others";
    WORKER_FULL: 0.9, "ratio", ["event-loop-blocked"], "time that one of several workers ran or wanted a CPU, the others six tenths at most", "as at-its-limit, and what an open load leaves; measured: 100 % beside 4 %";
    WORKER_BUSY: 0.4, "ratio", ["event-loop-blocked"], "time that one of several workers ran or wanted a CPU, the others a fifth of that at most", "slow requests behind slow ones are its; measured: 44 to 55 % beside 2 %";
    PAUSES_IDLE: 0.5, "ratio", ["event-loop-blocked"], "of the pauses' time, that in which the only working thread neither ran nor wanted a CPU", "most of it; measured: 0.56 to 0.7 of loops that sleep 60 to 124 ms in a second";
    PAUSE_OUTSIDE: 2.0, "ratio", ["event-loop-blocked", "stop-the-world"], "time that who stood in a pause was under way outside of all of them, over its length, at most", "measured: 4.2 of requests that take 124 ms by themselves; a line behind a pause takes as long as the pause";
    PAUSED_SHARE: 0.02, "ratio", ["event-loop-blocked", "stop-the-world"], "time in pauses", "what is in every p98";
    PERIODIC: 0.25, "ratio", ["stop-the-world"], "standard deviation over mean of the time between pauses", "pauses of chance have 1 (exponential), those of a timer next to 0";
    COLLECTOR_SHARE: 0.3, "ratio", ["garbage-collection"], "slow requests' excess over their kind that lies in the collector's pauses", "a third of a loss is worth a remedy; pauses of chance hold as much as they take of the time";
    LINE_COST: 5.0, "ratio", ["head-of-line"], "time of the costly kind over that of the cheap one", "the catalogue's for slow-path: costs that differ five times";
    LINE_RISK: 2.0, "ratio", ["head-of-line"], "share of slow requests beside a costly one over that of the others", "half of the slow ones beside it are then its doing; measured: 3.8 (two workers), 4.8 (one)";
    LINE_UNREAD: 0.5, "ratio", ["head-of-line"], "time that slow requests lay unread in the target's socket", "more than half: what the thread has not read waits for the thread";
    SOFTIRQ: 0.8, "ratio", ["softirq-bound"], "soft interrupts of a core", "the catalogue's";
    TIME_WAIT_PORTS: 0.5, "ratio", ["time-wait"], "sockets in TIME-WAIT over the ports of outgoing connections", "some of the ports are in use, and the search for a free one fails before all are";
    COLLECTOR_TIME: 0.15, "ratio", ["garbage-collection"], "time that the runtime held the program for its collector", "twice what HotSpot's G1 aims to stay below (8 %, GCTimeRatio=12) by growing the heap";
    SLOW_PATH_TIMES: 5.0, "ratio", ["slow-path"], "fast band of the costly kinds of request over that of the usual one", "the catalogue's";
    SLOW_PATH_NS: 1e6, "ns", ["slow-path"], "the same, by how much longer", "shorter ones hold hardly anybody up";
    OTHERS_AS_LONG: 0.75, "ratio", ["neighbour-request"], "time of other clients' requests over the median pause", "buckets of powers of two";
    BACKEND_WAITED: 0.5, "ratio", ["error-status"], "connections that wait for whom the target asks, for each request at a time that fails", "half of them, where readings are one a second; measured: 1.0";
    BACKEND_GONE: 0.9, "ratio", ["error-status"], "connects that failed on this machine, not the load's, for each reply that says failure", "measured: 1.0";
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
    SEND_LIMITED: 0.10, "ratio", ["send-buffer", "receive-window"], "time with data under way bound by the send buffer, or by the peer's window", "the catalogue's; measured: 65 % with SO_SNDBUF of 16 KiB and 43 % with tcp_rmem of 16 KiB at 20 ms, 0 % without";
    SENDING: 0.5, "ratio", ["send-buffer", "receive-window", "path-limited"], "requests' time with data under way, and after the first byte of the reply", "where it is less, most of the time is not the sending's";
    READER_BUSY: 0.8, "ratio", ["receive-window"], "the generator's busiest worker on a CPU, or waiting for one", "a reader that is full closes its window itself";
    PATH_RTT_TIMES: 5.0, "ratio", ["path-limited"], "smoothed round trip over the least one", "the catalogue's";
    PATH_RTT_NS: 1e6, "ns", ["path-limited"], "smoothed round trip beyond the least one", "below a millisecond, ends that are busy make as much on a loopback (measured: 80 µs beside 3)";
    PATH_BUSY: 0.8, "connections", ["path-limited"], "connections with data under way at a time", "with fewer, nothing is on its way for part of the time: a path with room; measured: 8 of 8 at its limit, 0.1 at a tenth of it";
    PATH_UNACKED: 3.0, "segments", ["path-limited"], "segments under way on a connection that sends", "a delayed acknowledgement is due at every second segment (RFC 9293, 3.8.6.3): more are a queue's; measured: 52";
    SWAPPED_IN: 100.0, "pages/s", ["swap-thrash"], "pages read back from swap", "at 10 ms a page and core, a core's whole time";
    MEMORY_PRESSURE: 0.10, "ratio", ["swap-thrash"], "time in which some task waited for memory", "the catalogue's (PSI some)";
    MEMORY_PRESSURE_FULL: 0.05, "ratio", ["swap-thrash"], "time in which every task that was not idle waited for memory", "the catalogue's (PSI full)";
    WAITING_TIMES: 2.0, "ratio", ["waiting"], "time in the target over its own work, run-queue wait and the queueing of its utilisation", "queueing in front of a shared processor is work ÷ (1 − utilisation) (M/M/1); twice that is more than its scatter";
    WAITING_NS: 500e3, "ns", ["waiting"], "time in the target beyond its work", "shorter waits are wake-ups";
    SLOW_TIME: 0.10, "ratio", ["slow"], "time of slow requests beyond the fast band, of all requests' time", "clean servers on a quiet machine have less than 2 %";
    LITTLE_SLOW: 0.25, "ratio", ["slow"], "the same, of requests that are late by a turn of the scheduler: less is said, and is not what gives", "measured: healthy servers on two cores that they share with the generator have up to 0.23";
}
