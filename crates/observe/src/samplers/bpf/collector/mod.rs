//! Pauses that a language runtime makes for its collector: how many, how long each, and the long ones with their moment.
//!
//! By uprobes at the places that `places` finds in the program or the library of a runtime: JVM, Node.js, Python and Ruby
//! say where a collection begins and ends, of Go it is where the world is stopped and started again (mostly for its
//! collector; also for a profile or a change of GOMAXPROCS). In a pause the thread collects, and all others that run the
//! runtime's code wait: in Node.js those of its isolate, in Python and Ruby those that need the interpreter's lock. Not
//! here: what a collector does beside the program (concurrent marking), programs without the symbols, other runtimes.
//! Cost: some 2 µs at each begin and end, for whoever maps the same file; nothing where no runtime is known.

mod places;

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Places, Programs};
use model::Event;
use model::event::{COLLECTOR_PAUSE, Details};
use model::snapshot::SamplerState;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/collector",
    about: "pauses of a language runtime for its collector: JVM, Go, Node.js, Python, Ruby",
    runs: Runs::Always,
    object: object!("collector"),
    counts: &["begun", "long", "pauses_lost", "records_lost"],
    histograms: &["pause_ns"],
    read,
};

/// Why it is not there for most targets.
pub(super) const NO_RUNTIME: &str = "no known language runtime is mapped by the target";

/// Bytes of a record (`struct record`).
const RECORD: usize = 40;

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let with_runtime: Vec<_> = reading.targets.iter().filter(|target| target.runtime.is_some()).collect();
    if with_runtime.is_empty() {
        reading.remark = Some((SamplerState::Disabled, NO_RUNTIME.to_owned()));
        return Ok(());
    }
    let pids = with_runtime.iter().map(|target| target.pid);
    let followed = programs.follow(pids, places::may_have_one, Places::Sought(places::of));
    if followed.attached == 0 {
        let (state, reason) = match followed.left_out {
            Some(why) => (SamplerState::Failed, why),
            None => {
                let names: Vec<_> =
                    with_runtime.iter().filter_map(|target| target.runtime).map(|it| it.name()).collect();
                let name = names.first().copied().unwrap_or_default();
                (
                    SamplerState::Disabled,
                    format!("this {name} does not say where it collects: stripped, or built without it"),
                )
            }
        };
        reading.remark = Some((state, reason));
        return Ok(());
    }
    if let Some(why) = followed.left_out {
        reading.remark = Some((SamplerState::Active, why));
    }
    let count = |name: &str| reading.sample.counts.get(name).copied().unwrap_or(0);
    let written = count("collector.long").saturating_sub(count("collector.records_lost"));
    let origin_ns = reading.origin_ns;
    let events = &mut *reading.events;
    programs.take_records("records", written, |bytes| events.extend(event(bytes, origin_ns)))
}

fn event(bytes: &[u8], origin_ns: i64) -> Option<Event> {
    let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
    let moment = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let (from_ns, to_ns) = (moment(0)?, moment(8)?);
    let pid = u32::from_ne_bytes(bytes.get(16..20)?.try_into().ok()?);
    let name = bytes.get(24..40)?.split(|byte| *byte == 0).next().unwrap_or_default();
    let process = String::from_utf8_lossy(name).into_owned();
    let took_ns = to_ns.saturating_sub(from_ns);
    let text = format!("{process} ({pid}) paused for its collector, {:.1} ms", took_ns as f64 / 1e6);
    let details = Details { pid: Some(pid), process: Some(process), took_ns: Some(took_ns), ..Details::default() };
    let at_ns = i64::try_from(from_ns).unwrap_or(i64::MAX).saturating_sub(origin_ns);
    Some(Event::new(at_ns, COLLECTOR_PAUSE, text).with(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_sentence() {
        let mut bytes = [0_u8; RECORD];
        bytes[..8].copy_from_slice(&5_000_000_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&17_300_000_u64.to_ne_bytes());
        bytes[16..20].copy_from_slice(&77_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(b"java");
        let pause = event(&bytes, 1_000_000).unwrap();
        assert_eq!((pause.at_ns, &*pause.kind, pause.details.took_ns), (4_000_000, COLLECTOR_PAUSE, Some(12_300_000)));
        assert_eq!(pause.text, "java (77) paused for its collector, 12.3 ms");
        assert_eq!(event(&bytes[..RECORD - 1], 0), None);
    }
}
