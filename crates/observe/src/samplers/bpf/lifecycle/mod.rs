//! Forks, exits, signals and OOM kills of the target: each an event with its moment, however short the process lived.
//!
//! By `sched_process_fork`, `sched_process_exit`, `signal_generate` (for the sender), `signal_deliver` and `mark_victim`.
//! A child of a target's process is watched from its first instruction. A signal counts when a thread takes it, not when it
//! is sent; one that ends a process is taken by each of its threads, and is one event. Others that are equal within a tick
//! are one event with a number. Cost: a look-up a fork, exit and signal of any process.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs, names};
use model::Event;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/lifecycle",
    about: "forks, exits with their code and last system call, signals delivered, OOM kills",
    runs: Runs::Always,
    object: object!("lifecycle"),
    counts: &["signals", "exits", "thread_exits", "forks", "oom_kills", "records_lost", "targets_lost"],
    histograms: &[],
    read,
};

/// Bytes of a record (`struct record`).
const RECORD: usize = 48;

/// Kinds of records (`enum` of the program).
const SIGNAL: u32 = 1;
const EXIT: u32 = 2;
const OOM_KILL: u32 = 3;

/// One record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    at_ns: u64,
    kind: u32,
    pid: u32,
    code: i32,
    detail: i32,
    from: i32,
    name: String,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let name = bytes[32..48].split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Record {
            at_ns: u64::from_ne_bytes(bytes[..8].try_into().ok()?),
            kind: u32::from_ne_bytes(word(8)),
            pid: u32::from_ne_bytes(word(12)),
            code: i32::from_ne_bytes(word(20)),
            detail: i32::from_ne_bytes(word(24)),
            from: i32::from_ne_bytes(word(28)),
            name: String::from_utf8_lossy(name).into_owned(),
        })
    }

    /// Whether one event may stand for both: equal, or one signal to one process, whichever threads took it.
    fn is_like(&self, other: &Record) -> bool {
        let name = if self.kind == SIGNAL { &other.name } else { &self.name };
        Record { at_ns: other.at_ns, name: name.clone(), ..self.clone() } == *other
    }

    /// Whether this is the end of the process that the signal was taken by.
    fn is_end_by(&self, signal: &Record) -> bool {
        self.kind == EXIT && self.pid == signal.pid && self.code & 0x7f == signal.code
    }

    fn event(&self, times: u64, origin_ns: i64) -> Option<Event> {
        let process = if self.name.is_empty() { self.pid.to_string() } else { format!("{} ({})", self.name, self.pid) };
        let times = if times > 1 { format!(", {times} times within a tick") } else { String::new() };
        let (kind, text) = match self.kind {
            SIGNAL => {
                let from = if self.from > 0 { format!(" from process {}", self.from) } else { String::new() };
                let signal = names::signal(self.code);
                ("target-signal", format!("the target's process {process} took {signal}{from}{times}"))
            }
            EXIT => ("target-exit", format!("the target's process {process} {}", self.exit())),
            OOM_KILL => ("target-oom-kill", format!("the kernel chose the target's process {process} to free memory")),
            _ => return None,
        };
        let at_ns = i64::try_from(self.at_ns).unwrap_or(i64::MAX).saturating_sub(origin_ns);
        Some(Event { at_ns, kind: kind.to_owned(), text })
    }

    /// How it ended (wait(2)).
    fn exit(&self) -> String {
        let last = match names::call(self.detail.into()) {
            call if call == "none" => "in its own code".to_owned(),
            call => format!("in the system call {call}"),
        };
        match (self.code & 0x7f, self.code & 0x80 != 0) {
            (0, _) => format!("exited with code {}", (self.code >> 8) & 0xff),
            (signal, false) => format!("was ended by {}, {last}", names::signal(signal)),
            (signal, true) => format!("was ended by {}, {last}, and left a core", names::signal(signal)),
        }
    }
}

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let mut seen: Vec<(Record, u64)> = Vec::new();
    let count = |name: &str| reading.sample.counts.get(name).copied().unwrap_or(0);
    let events = count("lifecycle.signals") + count("lifecycle.exits") + count("lifecycle.oom_kills");
    let written = events.saturating_sub(count("lifecycle.records_lost"));
    programs.take_records("records", written, |bytes| {
        let Some(record) = Record::parse(bytes) else { return };
        match seen.iter_mut().find(|(other, _)| record.is_like(other)) {
            Some((_, times)) => *times += 1,
            None => seen.push((record, 1)),
        }
    })?;
    reading.events.extend(told(&seen, reading.origin_ns));
    Ok(())
}

/// What is told of the records of a tick, each with how often it came.
fn told(seen: &[(Record, u64)], origin_ns: i64) -> Vec<Event> {
    let of = |(record, times): &(Record, u64)| {
        // Each thread takes the signal that ends its process: it came once all the same.
        let is_last = record.kind == SIGNAL && seen.iter().any(|(other, _)| other.is_end_by(record));
        record.event(if is_last { 1 } else { *times }, origin_ns)
    };
    seen.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_sentence() {
        let mut bytes = [0_u8; RECORD];
        bytes[..8].copy_from_slice(&5_000_u64.to_ne_bytes());
        for (at, word) in [(8, 2), (12, 77), (16, 77), (20, 9), (24, -1)] {
            bytes[at..at + 4].copy_from_slice(&i32::to_ne_bytes(word));
        }
        bytes[32..37].copy_from_slice(b"nginx");
        let record = Record::parse(&bytes).unwrap();
        let event = record.event(1, 1_000).unwrap();
        assert_eq!((event.at_ns, &*event.kind), (4_000, "target-exit"));
        assert_eq!(event.text, "the target's process nginx (77) was ended by SIGKILL, in its own code");
        let exited = Record { code: 3 << 8, ..record.clone() };
        assert_eq!(exited.exit(), "exited with code 3");
        let signal = Record { kind: 1, code: 15, from: 4, ..record.clone() };
        assert_eq!(
            signal.event(3, 0).unwrap().text,
            "the target's process nginx (77) took SIGTERM from process 4, 3 times within a tick"
        );
        assert!(record.is_like(&Record { at_ns: 1, ..record.clone() }) && !record.is_like(&exited));
        let thread = Record { name: "worker-3".to_owned(), ..signal.clone() };
        assert!(thread.is_like(&signal) && !Record { name: "other".to_owned(), ..record.clone() }.is_like(&record));
        let killed = Record { code: 9, ..signal.clone() };
        let texts = |seen: &[_]| told(seen, 0).into_iter().map(|event| event.text).collect::<Vec<_>>();
        assert_eq!(
            texts(&[(killed.clone(), 3), (record.clone(), 1)]),
            [
                "the target's process nginx (77) took SIGKILL from process 4",
                "the target's process nginx (77) was ended by SIGKILL, in its own code"
            ]
        );
        assert_eq!(Record::parse(&bytes[..20]), None);
    }
}
