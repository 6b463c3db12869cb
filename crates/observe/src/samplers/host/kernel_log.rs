//! Trouble that the kernel writes to its log, from `/dev/kmsg`, as events: bugs, failed allocations, OOM kills, hung
//! tasks, lockups, SYN flooding. Only what the kernel itself says (facility 0) from the first reading on; a record that
//! was overwritten before it was read is counted as lost.
//! Not limited to a container. Its clock is the scheduler's, which may differ from CLOCK_MONOTONIC by some milliseconds.
//! Cost: one system call a second while nothing is said. Where `kernel.dmesg_restrict` is 1 it needs CAP_SYSLOG.

use crate::limits::{LOG_EVENTS_MAX, LOG_RECORDS_MAX};
use crate::metric::{Metric, counter};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::clock::monotonic_ns;
use crate::source::proc::{Buffers, SampleError};
use model::event::Details;
use model::{Event, Snapshot};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

const METRICS: &[Metric] = &[
    counter("kernel_log_events", "events", "/dev/kmsg", "records of trouble since the run began"),
    counter("kernel_log_lost", "gaps", "/dev/kmsg", "times that records were overwritten before they were read"),
];

/// Longest record the kernel hands out (`PRINTKRB_RECORD_MAX` is 1,024, extended ones a little more).
const RECORD_BYTES: usize = 8192;

pub(crate) const ENTRY: Entry = Entry {
    name: "host/kernel_log",
    about: "bugs, failed allocations, OOM kills, hung tasks, SYN flooding in the kernel's log (/dev/kmsg)",
    needs: "/dev/kmsg; CAP_SYSLOG where kernel.dmesg_restrict is 1",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(KernelLog { log: None, buffer: vec![0; RECORD_BYTES], events: Vec::new(), count: 0, lost: 0 }),
};

/// What is looked for, the first that fits counts: kind of event, a part of the text.
const TROUBLE: &[(&str, &str)] = &[
    ("kernel-oom-kill", "Out of memory: Killed process"),
    ("kernel-oom-kill", "emory cgroup out of memory: Killed process"),
    ("kernel-allocation-failure", "page allocation failure"),
    ("kernel-hung-task", "blocked for more than"),
    ("kernel-soft-lockup", "soft lockup"),
    ("kernel-hard-lockup", "hard LOCKUP"),
    ("kernel-stall", "detected stall"),
    ("kernel-stall", "self-detected stall"),
    ("kernel-bug", "BUG: "),
    ("kernel-bug", "kernel BUG at"),
    ("kernel-oops", "Oops: "),
    ("kernel-oops", "general protection fault"),
    ("kernel-panic", "Kernel panic"),
    ("kernel-warning", "WARNING: "),
    ("kernel-syn-flooding", "Possible SYN flooding"),
    ("kernel-tcp-memory", "TCP: out of memory"),
    ("kernel-orphans", "too many orphaned sockets"),
    ("kernel-conntrack-full", "table full, dropping packet"),
    ("kernel-neighbour-full", "neighbour: arp_cache: neighbor table overflow"),
    ("kernel-segfault", "segfault at"),
    ("kernel-trap", "trap invalid opcode"),
    ("kernel-io-error", "I/O error, dev"),
];

#[derive(Debug)]
struct KernelLog {
    log: Option<OwnedFd>,
    buffer: Vec<u8>,
    events: Vec<Event>,
    count: u64,
    lost: u64,
}

impl KernelLog {
    fn open(&mut self, root: &str) -> Result<&OwnedFd, SampleError> {
        if self.log.is_none() {
            let path = format!("{root}/dev/kmsg");
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let log = rustix::fs::open(&path, flags, Mode::empty()).and_then(|log| {
                rustix::fs::seek(&log, SeekFrom::End(0))?;
                Ok(log)
            });
            self.log = Some(log.map_err(refused)?);
        }
        self.log.as_ref().ok_or_else(|| SampleError::nothing("/dev/kmsg is not open"))
    }
}

fn refused(error: Errno) -> SampleError {
    match error {
        Errno::PERM | Errno::ACCESS => SampleError::Refused {
            reason: "permission denied reading /dev/kmsg: run as root, give plimsoll CAP_SYSLOG, or set \
                     kernel.dmesg_restrict to 0"
                .to_owned(),
        },
        Errno::NOENT | Errno::NXIO | Errno::NODEV => {
            SampleError::nothing("there is no /dev/kmsg here: a container shows it only where it is passed in")
        }
        error => SampleError::of("/dev/kmsg", error.into()),
    }
}

impl Sampler for KernelLog {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        self.open(buffers.root())?;
        let Some(log) = &self.log else { return Ok(()) };
        let now_ns = i128::from(monotonic_ns());
        for _ in 0..LOG_RECORDS_MAX {
            let record = match rustix::io::read(log, &mut self.buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => &self.buffer[..length],
                Err(Errno::PIPE) => {
                    self.lost += 1;
                    continue;
                }
                // A record longer than it can be is passed over by the kernel.
                Err(Errno::INTR | Errno::INVAL) => continue,
                Err(error) => return Err(refused(error)),
            };
            let Some((kind, text, stamp_ns)) = trouble(record) else { continue };
            self.count += 1;
            if self.count <= LOG_EVENTS_MAX as u64 {
                // When it was said, but never after now: the clocks are not the same.
                let ago_ns = (now_ns - i128::from(stamp_ns)).max(0);
                let at_ns = snapshot.at_ns.saturating_sub(i64::try_from(ago_ns).unwrap_or(i64::MAX));
                let details = known_of(&text);
                self.events.push(Event::new(at_ns, kind, text).with(details));
            }
        }
        snapshot.host.set("kernel_log_events", self.count);
        snapshot.host.set("kernel_log_lost", self.lost);
        Ok(())
    }

    fn leaves_out(&self) -> Option<String> {
        let beyond = self.count.saturating_sub(LOG_EVENTS_MAX as u64);
        (beyond > 0).then(|| format!("{beyond} events beyond the first {LOG_EVENTS_MAX}"))
    }

    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// `6,339,5140900,-;text`: facility and level in one number, sequence, microseconds, flags; then the text, and in lines
/// that begin with a blank what else is known. Returns kind, text and nanoseconds.
fn trouble(record: &[u8]) -> Option<(&'static str, String, u64)> {
    let record = String::from_utf8_lossy(record);
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let stamp_us: u64 = head.nth(1)?.parse().ok()?;
    // What processes write has another facility: they could claim anything.
    if priority >> 3 != 0 {
        return None;
    }
    let text = text.lines().next()?;
    let (kind, _) = TROUBLE.iter().find(|(_, part)| text.contains(part))?;
    Some((kind, text.chars().take(300).collect(), stamp_us.saturating_mul(1000)))
}

/// The process that the kernel names: `Killed process 812 (nginx)`, `task nginx:812 blocked`, `nginx[812]: segfault`. Its id
/// is that of the initial PID namespace.
fn known_of(text: &str) -> Details {
    let found = || {
        if let Some((_, rest)) = text.split_once("Killed process ") {
            let (pid, rest) = rest.split_once(" (")?;
            return Some((rest.split_once(')')?.0, pid));
        }
        if let Some((_, rest)) = text.split_once("task ")
            && text.contains("blocked for more than")
        {
            return rest.split_once(' ')?.0.rsplit_once(':');
        }
        let (name, rest) = text.split_once('[').filter(|_| text.contains("segfault at") || text.contains("trap "))?;
        Some((name, rest.split_once("]:")?.0))
    };
    let known = found().and_then(|(name, pid)| Some((name, pid.parse().ok()?)));
    known.map_or_else(Details::default, |(name, pid)| Details {
        pid: Some(pid),
        process: Some(name.to_owned()),
        ..Details::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_the_kernel_names_is_known_by_its_fields() {
        for (text, name) in [
            ("Memory cgroup out of memory: Killed process 812 (nginx) total-vm:1kB", "nginx"),
            ("INFO: task a:b:812 blocked for more than 120 seconds.", "a:b"),
            ("a.out[812]: segfault at 0 ip 000055 sp 00007f error 6 in a.out", "a.out"),
        ] {
            let known = known_of(text);
            assert_eq!((known.pid, known.process.as_deref()), (Some(812), Some(name)), "{text}");
        }
        for text in
            ["Killed process x (nginx)", "Killed process 812", "BUG: [812]: x", "task blocked for more than", ""]
        {
            assert!(known_of(text).is_empty(), "{text}");
        }
    }

    /// Texts as kernels 6.1 to 6.18 write them.
    #[test]
    fn each_kind_of_trouble_is_known() {
        for (kind, text) in [
            ("kernel-oom-kill", "Out of memory: Killed process 812 (nginx) total-vm:1kB, anon-rss:2kB"),
            ("kernel-oom-kill", "Memory cgroup out of memory: Killed process 812 (nginx) total-vm:1kB"),
            ("kernel-allocation-failure", "nginx: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL)"),
            ("kernel-hung-task", "INFO: task nginx:812 blocked for more than 120 seconds."),
            ("kernel-soft-lockup", "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [nginx:812]"),
            ("kernel-bug", "BUG: kernel NULL pointer dereference, address: 0000000000000010"),
            ("kernel-oops", "Oops: 0002 [#1] PREEMPT SMP NOPTI"),
            ("kernel-oops", "Oops: general protection fault, probably for non-canonical address"),
            ("kernel-stall", "rcu: INFO: rcu_preempt self-detected stall on CPU"),
            (
                "kernel-syn-flooding",
                "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. Sending cookies.",
            ),
            ("kernel-conntrack-full", "nf_conntrack: nf_conntrack: table full, dropping packet"),
            ("kernel-segfault", "a.out[77]: segfault at 0 ip 000055 sp 00007f error 6 in a.out"),
        ] {
            let found = trouble(format!("4,812,5140900,-;{text}\n SUBSYSTEM=x\n").as_bytes());
            assert_eq!(found, Some((kind, text.to_owned(), 5_140_900_000)), "{text}");
        }
    }

    #[test]
    fn talk_and_claims_of_processes_are_no_trouble() {
        for record in [
            "6,1,2,-;eth0: link up",
            "12,1,2,-;Out of memory: Killed process 1 (init)",
            "4,1,2,-",
            "4,1;BUG: x",
            "x,1,2,-;BUG: x",
            "4,1,x,-;BUG: x",
            "",
            ";",
        ] {
            assert_eq!(trouble(record.as_bytes()), None, "{record}");
        }
        assert!(trouble(b"4,1,2,-;BUG: \xff\xfe").is_some());
    }

    #[test]
    fn without_the_device_it_is_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = (ENTRY.make)().sample(&mut Buffers::below(folder.path()), &mut Snapshot::default());
        assert!(outcome.unwrap_err().is_nothing());
        assert!(refused(Errno::PERM).to_string().contains("CAP_SYSLOG"));
    }
}
