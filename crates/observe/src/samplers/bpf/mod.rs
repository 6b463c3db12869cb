//! Probes in the kernel: a folder a program, `<name>/<name>.bpf.c` and beside it what its figures are called.
//!
//! [`PROBES`] is the whole list. All look only at the target's processes and what they fork, or at its ports. Those that
//! cost by the call run in windows, a tenth of the time (`window`); of a probe that is always on, the programs named `often_…` do. The
//! dearest end in a window as soon as they have seen enough. Maps are bounded, and what did not fit is a count of its own,
//! `…_lost`. Needs root or CAP_BPF and CAP_PERFMON, and the kernel's BTF. Cost with `none`: nothing is loaded.

mod block;
mod collector;
mod delayed_acks;
mod exchanges;
mod family;
mod folded;
mod lifecycle;
mod listening;
mod locks;
mod losses;
mod offcpu;
mod oncpu;
mod runqueue;
mod sockets;
mod syscalls;
mod threads;
mod tls;
mod window;

pub(crate) use family::Family;

use crate::observer::ObserveSpec;
use crate::source::bpf::symbols::Symbols;
use crate::source::bpf::{BpfError, Programs};
use model::Event;
use model::bpf::{BpfSample, Level};
use model::exchange::Exchanges;
use model::profile::Profile;
use model::snapshot::{Runtime, SamplerState};
use std::collections::BTreeMap;

/// The compiled programs of a name.
macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
    };
}
use object;

/// A probe as it is listed.
#[derive(Debug)]
pub struct Probe {
    /// Its name, `bpf/name`.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub about: &'static str,
    /// When it does.
    pub runs: Runs,
    /// The compiled programs.
    object: &'static [u8],
    /// Names of its map `counts`, in order; without a dot, the probe's own stands before it.
    counts: &'static [&'static str],
    /// Names of its map `histograms`, in order.
    histograms: &'static [&'static str],
    /// Reads what is neither.
    read: fn(&mut Programs, &mut Reading<'_>) -> Result<(), BpfError>,
}

/// When a probe runs, below the level at which all do all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// All the time; its programs named `often_…` in windows.
    Always,
    /// In windows.
    InWindows,
    /// In windows, of each only until the target has done enough (`CALLS_ENOUGH`): what it costs is added to every system
    /// call or segment of the machine.
    UntilEnough,
}

/// Every probe, the always-on ones first.
pub const PROBES: &[Probe] = &[
    lifecycle::PROBE,
    listening::PROBE,
    sockets::PROBE,
    losses::PROBE,
    runqueue::PROBE,
    tls::PROBE,
    collector::PROBE,
    oncpu::PROBE,
    syscalls::PROBE,
    offcpu::PROBE,
    threads::PROBE,
    locks::PROBE,
    block::PROBE,
    delayed_acks::PROBE,
    exchanges::PROBE,
];

/// Name, what it counts, needs and costs, of each.
pub(crate) fn listed() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    PROBES.iter().map(|probe| {
        let cost = match probe.runs {
            Runs::Always => "by the event",
            Runs::InWindows => "by the call, in windows",
            Runs::UntilEnough => "by every call of the machine, in windows until enough was seen",
        };
        (probe.name, probe.about, "root, or CAP_BPF and CAP_PERFMON; CONFIG_DEBUG_INFO_BTF", cost)
    })
}

/// The lowest level that a probe runs at; `None`: there is none of that name.
pub fn level(name: &str) -> Option<Level> {
    PROBES.iter().find(|probe| probe.name == name).map(Probe::level)
}

impl Probe {
    /// Why it is not loaded for a target, though the level has it; `None`: it is.
    fn not_wanted(&self, spec: &ObserveSpec) -> Option<&'static str> {
        match self.name {
            name if name == exchanges::PROBE.name && !spec.has_requests => {
                Some("there are no requests over TCP whose response time could be split")
            }
            name if name == tls::PROBE.name && spec.is_plain && spec.probes == Level::Light => {
                Some("the load is without TLS: the target's own handshakes with others are seen with --observe windows")
            }
            _ => None,
        }
    }

    /// Why it is not loaded as long as the target's processes are these; `None`: it is. Loading it takes a millisecond or two.
    fn waits_for(&self, targets: &[Living]) -> Option<&'static str> {
        (self.name == collector::PROBE.name && targets.iter().all(|target| target.runtime.is_none()))
            .then_some(collector::NO_RUNTIME)
    }

    /// Whether it runs at beats of clocks.
    fn has_beats(&self) -> bool {
        self.name == oncpu::PROBE.name
    }

    /// The lowest level that it runs at.
    fn level(&self) -> Level {
        // To beat wakes CPUs that idle, and reading programs' files for names costs us memory and time.
        if self.runs != Runs::Always || self.has_beats() { Level::Windows } else { Level::Light }
    }
}

/// Says in which PID namespaces this process is: no probe, but run once before they are loaded.
const LOCATE: &[u8] = object!("ids");

/// What a probe reads into.
struct Reading<'a> {
    sample: &'a mut BpfSample,
    profile: &'a mut Profile,
    events: &'a mut Vec<Event>,
    names: &'a mut Names,
    /// The run's start on the monotonic clock, nanoseconds.
    origin_ns: i64,
    /// The reading's moment, nanoseconds since then.
    at_ns: i64,
    /// A window has ended just now.
    window_ended: bool,
    /// The target's processes that live.
    targets: &'a [Living],
    /// How the probe fares where it has more to say than that it runs.
    remark: Option<(SamplerState, String)>,
    /// When it began, nanoseconds since the run's start; `None`: none was closed.
    window_from_ns: Option<i64>,
    /// Between which moments of the monotonic clock all programs of a window, open or closed just now, were attached.
    attached: Option<(i64, i64)>,
    /// Where single requests go.
    exchanges: &'a mut Option<Box<Exchanges>>,
}

/// A process of the target that lives.
#[derive(Debug, Clone, Copy)]
struct Living {
    /// Its id as it was first seen.
    pid: u32,
    /// The language runtime that it has mapped, where one is known.
    runtime: Option<Runtime>,
}

impl Reading<'_> {
    /// Counts what was begun in windows, by a count, and had not ended by their ends, by a histogram of what did.
    fn count_not_ended(&mut self, begun: &str, ended: &str, name: &str) {
        let begun = self.sample.counts.get(begun).copied().unwrap_or(0);
        let ended = self.sample.histograms.get(ended).map_or(0, model::bpf::Log2::count);
        self.sample.counts.insert(name.to_owned(), begun.saturating_sub(ended));
    }
}

/// Names, and what probes keep from reading to reading.
#[derive(Debug, Default)]
struct Names {
    drop_reasons: Option<BTreeMap<u32, String>>,
    symbols: Symbols,
    oncpu: oncpu::State,
    offcpu: offcpu::State,
    exchanges: exchanges::State,
    threads: threads::State,
}

/// For a probe that has nothing beside counts and histograms.
fn nothing(_: &mut Programs, _: &mut Reading<'_>) -> Result<(), BpfError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_say_their_family() {
        for (i, probe) in PROBES.iter().enumerate() {
            assert!(probe.name.starts_with("bpf/") && !probe.about.is_empty(), "{}", probe.name);
            assert!(PROBES[..i].iter().all(|other| other.name != probe.name));
        }
    }
}
