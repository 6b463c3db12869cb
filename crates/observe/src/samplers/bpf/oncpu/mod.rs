//! Where the target's threads run: both stacks of who is on a CPU, at each beat of its clock, folded tick by tick.
//!
//! Counted in the kernel by a program on the software event `cpu-clock`, 99 times a second and CPU, on the CPUs where a thread of the
//! target that is not idle may run (`beats`): dearer ways hand every sample to us. Work that an interrupt does while a thread of the target is on the CPU counts as that thread's. Stacks of
//! the kernel are whole; those of a program only as far as it was built with frame pointers (`-fno-omit-frame-pointer`,
//! `-C force-frame-pointers=yes`): without them the innermost frame is right and its callers may be missing.

mod beats;

pub(super) use beats::Beats;

use super::{Probe, Reading, Runs, folded, object};
use crate::source::bpf::stacks::Kept;
use crate::source::bpf::symbols::Place;
use crate::source::bpf::{BpfError, Programs};
use model::profile::Period;
use std::collections::BTreeSet;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/oncpu",
    about: "where the target's threads run: 99 stacks a second and CPU that they may run on",
    runs: Runs::Always,
    object: object!("oncpu"),
    counts: &["samples", "stacks_lost", "places_lost"],
    histograms: &[],
    read,
};

/// What is kept from tick to tick.
#[derive(Debug, Default)]
pub(super) struct State {
    kept: Kept,
    /// The end of the last tick's stacks.
    to_ns: Option<i64>,
    /// Samples lost until then.
    lost: u64,
}

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let state = &mut reading.names.oncpu;
    let mut stacks = state.kept.begin();
    let mut places = Vec::new();
    for entry in programs.take("places")? {
        let [Some(pid), Some(kernel), Some(user)] = [0, 4, 8].map(|at| folded::word(&entry.key, at)) else { continue };
        let kernel = stacks.stack(programs, kernel.cast_signed()).to_vec();
        let user = stacks.stack(programs, user.cast_signed());
        places.push((Place::new(pid, &kernel, user), entry.words.first().copied().unwrap_or(0)));
    }
    state.kept.note(programs, &stacks, BTreeSet::new);
    let lost = programs.counts()?.get(2).copied().unwrap_or(0);
    let lost_now = lost.saturating_sub(std::mem::replace(&mut state.lost, lost));
    let from_ns = state.to_ns.replace(reading.at_ns).unwrap_or(reading.at_ns);
    if places.is_empty() && lost_now == 0 {
        return Ok(());
    }
    let symbols = &mut reading.names.symbols;
    symbols.find(places.iter().map(|(place, _)| place));
    let stacks = places.iter().map(|(place, count)| (folded::frames(symbols, place, false), *count));
    let stacks = folded::fold(stacks.collect(), 1, lost_now);
    reading.profile.on_cpu = Some(Period { from_ns, to_ns: reading.at_ns, stacks });
    Ok(())
}
