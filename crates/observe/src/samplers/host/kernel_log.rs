//! Trouble that the kernel writes to its log, from `/dev/kmsg`, as events: bugs, failed allocations, OOM kills, hung
//! tasks, lockups, SYN flooding. Only what the kernel itself says (facility 0) from the first reading on; a record that
//! was overwritten before it was read is counted as lost.
//! Not limited to a container. Its clock is the scheduler's, which may differ from CLOCK_MONOTONIC by some milliseconds.
//! Cost: one system call a second while nothing is said. Where `kernel.dmesg_restrict` is 1 it needs CAP_SYSLOG.

use crate::kernel_text::KernelText;
use crate::limits::{LOG_EVENTS_MAX, LOG_RECORDS_MAX};
use crate::metric::{Metric, counter};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::clock::monotonic_ns;
use crate::source::proc::{Buffers, SampleError};
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
    make: || Box::new(KernelLog::default()),
};

#[derive(Debug, Default)]
struct KernelLog {
    log: Option<OwnedFd>,
    buffer: Vec<u8>,
    text: KernelText,
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
            self.buffer = vec![0; RECORD_BYTES];
        }
        self.log.as_ref().ok_or_else(|| SampleError::nothing("/dev/kmsg is not open"))
    }
}

/// Takes events in, as far as there is room; all of them are counted.
fn keep(new: impl IntoIterator<Item = Event>, events: &mut Vec<Event>, count: &mut u64) {
    for event in new {
        *count += 1;
        if *count <= LOG_EVENTS_MAX as u64 {
            events.push(event);
        }
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
        let KernelLog { log, buffer, text, events, count, lost } = self;
        let Some(log) = log else { return Ok(()) };
        let now_ns = i128::from(monotonic_ns());
        for _ in 0..LOG_RECORDS_MAX {
            let record = match rustix::io::read(&*log, &mut buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => &buffer[..length],
                Err(Errno::PIPE) => {
                    *lost += 1;
                    continue;
                }
                // A record longer than it can be is passed over by the kernel.
                Err(Errno::INTR | Errno::INVAL) => continue,
                Err(error) => return Err(refused(error)),
            };
            let Some((line, stamp_ns)) = said(record) else { continue };
            // When it was said, but never after now: the clocks are not the same.
            let ago_ns = (now_ns - i128::from(stamp_ns)).max(0);
            let at_ns = snapshot.at_ns.saturating_sub(i64::try_from(ago_ns).unwrap_or(i64::MAX));
            keep(text.line(at_ns, &line), events, count);
        }
        // A fault's lines are written at once: what has not come by now does not.
        keep(text.end(), events, count);
        snapshot.host.set("kernel_log_events", *count);
        snapshot.host.set("kernel_log_lost", *lost);
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
/// that begin with a blank what else is known. Returns text and nanoseconds of what the kernel itself says.
fn said(record: &[u8]) -> Option<(String, u64)> {
    let record = String::from_utf8_lossy(record);
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let stamp_us: u64 = head.nth(1)?.parse().ok()?;
    // What processes write has another facility: they could claim anything.
    if priority >> 3 != 0 {
        return None;
    }
    Some((text.lines().next()?.to_owned(), stamp_us.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_its_text_and_its_moment() {
        let record = b"4,812,5140900,-;BUG: x\n SUBSYSTEM=x\n";
        assert_eq!(said(record), Some(("BUG: x".to_owned(), 5_140_900_000)));
    }

    #[test]
    fn claims_of_processes_and_what_is_cut_are_not_the_kernels() {
        for record in [
            "12,1,2,-;Out of memory: Killed process 1 (init)",
            "4,1,2,-",
            "4,1;BUG: x",
            "x,1,2,-;BUG: x",
            "4,1,x,-;BUG: x",
            "",
            ";",
        ] {
            assert_eq!(said(record.as_bytes()), None, "{record}");
        }
        assert!(said(b"4,1,2,-;BUG: \xff\xfe").is_some());
    }

    #[test]
    fn without_the_device_it_is_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = (ENTRY.make)().sample(&mut Buffers::below(folder.path()), &mut Snapshot::default());
        assert!(outcome.unwrap_err().is_nothing());
        assert!(refused(Errno::PERM).to_string().contains("CAP_SYSLOG"));
    }
}
