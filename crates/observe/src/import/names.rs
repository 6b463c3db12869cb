//! Metrics that only other instruments' texts have: what `sar`, `nmon` and `vmstat` sum up and the kernel's files, as
//! the samplers read them, do not say so. Everything else that is imported has the name the samplers give it.

use crate::metric::{Metric, counter, gauge};

/// Of the machine.
pub const HOST: &[Metric] = &[
    gauge("load_1m_hundredths", "hundredths", "sar -q ldavg-1", "load average of a minute, times 100"),
    gauge("load_5m_hundredths", "hundredths", "sar -q ldavg-5", "load average of five minutes, times 100"),
    gauge("load_15m_hundredths", "hundredths", "sar -q ldavg-15", "load average of fifteen minutes, times 100"),
    gauge("memory_buffers_bytes", "bytes", "sar kbbuffers, vmstat buff", "buffers of block devices"),
    gauge("memory_active_bytes", "bytes", "sar kbactive, vmstat -a active", "pages used lately"),
    gauge("memory_inactive_bytes", "bytes", "sar kbinact, vmstat -a inact", "pages not used lately"),
    gauge("memory_reclaimable_bytes", "bytes", "vmstat cache", "pages of files and slab that can be taken back"),
    gauge("swap_used_bytes", "bytes", "vmstat swpd", "swap space that is used"),
    counter("page_in_bytes", "bytes", "sar pgpgin/s, vmstat bi, nmon pgpgin", "read from disks, all together"),
    counter("page_out_bytes", "bytes", "sar pgpgout/s, vmstat bo, nmon pgpgout", "written to disks, all together"),
    counter("disk_reads", "requests", "sar -b rtps", "reads of all disks"),
    counter("disk_writes", "requests", "sar -b wtps", "writes of all disks"),
    counter("disk_read_bytes", "bytes", "sar -b bread/s × 512", "read from all disks"),
    counter("disk_write_bytes", "bytes", "sar -b bwrtn/s × 512", "written to all disks"),
];

/// Of each disk.
pub const DISKS: &[Metric] = &[
    counter("transfers", "requests", "sar -d tps, nmon DISKXFER", "reads and writes together"),
    counter("transfer_ns", "ns", "sar -d tps × await", "all requests' time together"),
];
