//! Who begins to listen on the target's port: a restart, however short the new process lives.
//!
//! By `inet_sock_set_state`, in the process that calls listen(2), so none is missed between two readings. Whoever does so
//! in a network namespace of the target's is a process of the target from that moment on: what becomes of it
//! (`lifecycle`) is seen as well. Not here: a process that takes over a socket that listens already, and a container that
//! is started again in a namespace of its own; those are found by looking (`process/target`). Cost: a comparison for each
//! change of a TCP socket's state on the host.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs};
use model::Event;
use model::event::Details;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/listening",
    about: "processes that begin to listen on the target's port: restarts",
    runs: Runs::Always,
    object: object!("listening"),
    counts: &["listens", "records_lost", "targets_lost"],
    histograms: &[],
    read,
};

/// Bytes of a record (`struct record`).
const RECORD: usize = 48;

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let count = |name: &str| reading.sample.counts.get(name).copied().unwrap_or(0);
    let written = count("listening.listens").saturating_sub(count("listening.records_lost"));
    let origin_ns = reading.origin_ns;
    let events = &mut *reading.events;
    programs.take_records("records", written, |bytes| events.extend(event(bytes, origin_ns)))
}

fn event(bytes: &[u8], origin_ns: i64) -> Option<Event> {
    let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
    let at_ns = u64::from_ne_bytes(bytes[..8].try_into().ok()?);
    let pid = u32::from_ne_bytes(bytes[8..12].try_into().ok()?);
    let port = u16::from_ne_bytes([bytes[12], bytes[13]]);
    let was_target = bytes[14] != 0;
    let name = |at: usize| {
        let name = bytes[at..at + 16].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    };
    let (thread, process) = (name(16), name(32));
    let whose = if was_target { "the target's process" } else { "another process, of the target from now on:" };
    let text = format!("{whose} {process} ({pid}) began to listen on port {port}");
    let details = Details {
        pid: Some(pid),
        process: Some(process),
        thread: Some(thread),
        port: Some(port),
        ..Details::default()
    };
    let at_ns = i64::try_from(at_ns).unwrap_or(i64::MAX).saturating_sub(origin_ns);
    Some(Event::new(at_ns, "target-listening", text).with(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_sentence() {
        let mut bytes = [0_u8; RECORD];
        bytes[..8].copy_from_slice(&5_000_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&77_u32.to_ne_bytes());
        bytes[12..14].copy_from_slice(&8080_u16.to_ne_bytes());
        bytes[16..22].copy_from_slice(b"worker");
        bytes[32..37].copy_from_slice(b"nginx");
        let new = event(&bytes, 1_000).unwrap();
        assert_eq!((new.at_ns, &*new.kind), (4_000, "target-listening"));
        assert_eq!(new.text, "another process, of the target from now on: nginx (77) began to listen on port 8080");
        assert_eq!(
            (new.details.pid, new.details.port, new.details.thread),
            (Some(77), Some(8080), Some("worker".to_owned()))
        );
        bytes[14] = 1;
        assert!(event(&bytes, 0).unwrap().text.starts_with("the target's process nginx (77) began"));
        assert_eq!(event(&bytes[..RECORD - 1], 0), None);
    }
}
