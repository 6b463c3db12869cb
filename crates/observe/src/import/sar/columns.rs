//! What sar's columns mean here. A section is known by its first column and one more that only it has; within it columns
//! are found by name, and those of older versions stand beside the newer ones.

use Act::{Core, Gauge, NetGauge, NetRate, PercentNs, Rate};

/// What becomes of a column's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// A rate a second of the machine, or of the section's device; times the scale.
    Rate(&'static str, f64),
    /// A rate of the network.
    NetRate(&'static str, f64),
    /// As it is, of the machine; times the scale.
    Gauge(&'static str, f64),
    /// As it is, of the network.
    NetGauge(&'static str, f64),
    /// A share of the interval, in percent, as nanoseconds.
    PercentNs(&'static str),
    /// A share of a core's time, in percent.
    Core(&'static str),
}

/// A section.
#[derive(Debug)]
pub(super) struct Table {
    /// The column with the device's name; empty: there is none.
    pub(super) key: &'static str,
    /// A column that only this section has; empty: any.
    pub(super) needs: &'static str,
    /// What is taken.
    pub(super) columns: &'static [(&'static str, Act)],
}

/// The columns that name a device, in any section of sar.
pub(super) const KEYS: &[&str] = &["CPU", "DEV", "IFACE", "INTR"];

const KIB: f64 = 1024.0;

/// Every section; the first that fits counts.
pub(super) const TABLES: &[Table] = &[
    Table {
        key: "CPU",
        needs: "%idle",
        columns: &[
            ("%user", Core("user_ns")),
            ("%usr", Core("user_ns")),
            ("%nice", Core("user_ns")),
            ("%guest", Core("user_ns")),
            ("%gnice", Core("user_ns")),
            ("%system", Core("system_ns")),
            ("%sys", Core("system_ns")),
            ("%iowait", Core("iowait_ns")),
            ("%steal", Core("steal_ns")),
            ("%irq", Core("irq_ns")),
            ("%soft", Core("softirq_ns")),
            ("%idle", Core("idle_ns")),
        ],
    },
    Table {
        key: "CPU",
        needs: "squeezd/s",
        columns: &[
            ("total/s", Rate("softnet_processed", 1.0)),
            ("dropd/s", Rate("softnet_dropped", 1.0)),
            ("squeezd/s", Rate("softnet_squeezed", 1.0)),
        ],
    },
    Table {
        key: "DEV",
        needs: "tps",
        columns: &[
            ("tps", Rate("transfers", 1.0)),
            ("rkB/s", Rate("read_bytes", KIB)),
            ("wkB/s", Rate("write_bytes", KIB)),
            ("rd_sec/s", Rate("read_bytes", 512.0)),
            ("wr_sec/s", Rate("write_bytes", 512.0)),
            ("%util", PercentNs("busy_ns")),
        ],
    },
    Table {
        key: "IFACE",
        needs: "rxpck/s",
        columns: &[
            ("rxpck/s", Rate("received_packets", 1.0)),
            ("txpck/s", Rate("sent_packets", 1.0)),
            ("rxkB/s", Rate("received_bytes", KIB)),
            ("txkB/s", Rate("sent_bytes", KIB)),
            ("rxbyt/s", Rate("received_bytes", 1.0)),
            ("txbyt/s", Rate("sent_bytes", 1.0)),
        ],
    },
    Table {
        key: "IFACE",
        needs: "rxerr/s",
        columns: &[
            ("rxerr/s", Rate("receive_errors", 1.0)),
            ("txerr/s", Rate("send_errors", 1.0)),
            ("rxdrop/s", Rate("receive_drops", 1.0)),
            ("txdrop/s", Rate("send_drops", 1.0)),
        ],
    },
    // Of the row "sum" alone.
    Table {
        key: "INTR",
        needs: "",
        columns: &[
            ("all", Rate("interrupts", 1.0)),
            ("CPU*", Rate("interrupts", 1.0)),
            ("intr/s", Rate("interrupts", 1.0)),
        ],
    },
    // NFS has a column of the name of TCP's.
    Table {
        key: "",
        needs: "atmptf/s",
        columns: &[
            ("atmptf/s", NetRate("tcp_attempt_fails", 1.0)),
            ("estres/s", NetRate("tcp_established_resets", 1.0)),
            ("retrans/s", NetRate("tcp_retransmits", 1.0)),
            ("isegerr/s", NetRate("tcp_in_errors", 1.0)),
            ("orsts/s", NetRate("tcp_out_resets", 1.0)),
        ],
    },
    Table {
        key: "",
        needs: "",
        columns: &[
            ("proc/s", Rate("forks", 1.0)),
            ("cswch/s", Rate("context_switches", 1.0)),
            ("pswpin/s", Rate("swap_in_pages", 1.0)),
            ("pswpout/s", Rate("swap_out_pages", 1.0)),
            ("pgpgin/s", Rate("page_in_bytes", KIB)),
            ("pgpgout/s", Rate("page_out_bytes", KIB)),
            ("fault/s", Rate("page_faults", 1.0)),
            ("majflt/s", Rate("major_faults", 1.0)),
            ("rtps", Rate("disk_reads", 1.0)),
            ("wtps", Rate("disk_writes", 1.0)),
            ("bread/s", Rate("disk_read_bytes", 512.0)),
            ("bwrtn/s", Rate("disk_write_bytes", 512.0)),
            ("kbmemfree", Gauge("memory_free_bytes", KIB)),
            ("kbavail", Gauge("memory_available_bytes", KIB)),
            ("kbbuffers", Gauge("memory_buffers_bytes", KIB)),
            ("kbcached", Gauge("memory_cached_bytes", KIB)),
            ("kbactive", Gauge("memory_active_bytes", KIB)),
            ("kbinact", Gauge("memory_inactive_bytes", KIB)),
            ("kbdirty", Gauge("memory_dirty_bytes", KIB)),
            ("kbanonpg", Gauge("memory_anonymous_bytes", KIB)),
            ("kbslab", Gauge("slab_bytes", KIB)),
            ("kbswpfree", Gauge("swap_free_bytes", KIB)),
            ("kbswpused", Gauge("swap_used_bytes", KIB)),
            ("runq-sz", Gauge("runnable", 1.0)),
            ("blocked", Gauge("blocked", 1.0)),
            ("ldavg-1", Gauge("load_1m_hundredths", 100.0)),
            ("ldavg-5", Gauge("load_5m_hundredths", 100.0)),
            ("ldavg-15", Gauge("load_15m_hundredths", 100.0)),
            ("%scpu", PercentNs("pressure_cpu_some_ns")),
            ("%sio", PercentNs("pressure_io_some_ns")),
            ("%fio", PercentNs("pressure_io_full_ns")),
            ("%smem", PercentNs("pressure_memory_some_ns")),
            ("%fmem", PercentNs("pressure_memory_full_ns")),
            ("totsck", NetGauge("sockets", 1.0)),
            ("tcpsck", NetGauge("tcp_sockets", 1.0)),
            ("udpsck", NetGauge("udp_sockets", 1.0)),
            ("tcp-tw", NetGauge("tcp_time_wait_sockets", 1.0)),
            ("tcp6sck", NetGauge("tcp6_sockets", 1.0)),
            ("idisc/s", NetRate("ip_in_discards", 1.0)),
            ("odisc/s", NetRate("ip_out_discards", 1.0)),
            ("onort/s", NetRate("ip_out_no_routes", 1.0)),
            ("active/s", NetRate("tcp_active_opens", 1.0)),
            ("passive/s", NetRate("tcp_passive_opens", 1.0)),
            ("iseg/s", NetRate("tcp_in_segments", 1.0)),
            ("oseg/s", NetRate("tcp_out_segments", 1.0)),
            ("idgmerr/s", NetRate("udp_in_errors", 1.0)),
        ],
    },
];
