//! Asks blazesym, and makes do where it has no answer: with less of a file, and at last with none.

use super::areas::Areas;
use super::{Named, UNKNOWN};
use crate::limits::{NAME_CHARACTERS_MAX, PROCESSES_NAMED_MAX, SYMBOL_FILE_BYTES_MAX};
use blazesym::symbolize::cache::{Cache, Process as CachedProcess};
use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};
use model::profile::{INLINED, KERNEL};
use std::collections::BTreeMap;

/// Files of a process that are read before they are asked for.
const PREPARED_MAX: usize = 16;

/// What has been read of the kernel and of processes.
pub(super) struct Namer {
    symbolizer: Symbolizer,
    /// Of each process that was asked for, as they were last.
    areas: BTreeMap<u32, Areas>,
}

impl Default for Namer {
    fn default() -> Self {
        // Lines are not wanted, but blazesym gives inlined functions only with them.
        Namer { symbolizer: Symbolizer::new(), areas: BTreeMap::new() }
    }
}

impl Namer {
    /// Reads what names of a process and of the kernel will need.
    pub(super) fn prepare(&mut self, pid: u32) {
        let Some(areas) = Areas::read(pid) else { return };
        let starts: Vec<u64> = areas.starts().take(PREPARED_MAX).collect();
        self.program(pid, &starts);
        self.kernel(&[0]);
    }

    /// Of addresses in the kernel, in their order.
    pub(super) fn kernel(&mut self, addresses: &[u64]) -> Vec<Named> {
        // An image of the kernel with debug information says no more about functions, and is some hundred MB.
        let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() });
        let found = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)).unwrap_or_default();
        let name = |i: usize| match found.get(i) {
            Some(Symbolized::Sym(symbol)) => format!("{}{KERNEL}", clean(&symbol.name)),
            // kernel.kptr_restrict hides them.
            _ => format!("[kernel]{KERNEL}"),
        };
        (0..addresses.len()).map(|i| Named { frames: [name(i).into()].into(), may_change: false }).collect()
    }

    /// Of addresses in a process, in their order.
    pub(super) fn program(&mut self, pid: u32, addresses: &[u64]) -> Vec<Named> {
        if self.areas.len() >= PROCESSES_NAMED_MAX && !self.areas.contains_key(&pid) {
            *self = Namer::default();
        }
        let is_living = match Areas::read(pid) {
            Some(areas) => {
                self.areas.insert(pid, areas);
                true
            }
            None => false,
        };
        // What was kept of a process that has ended is still there.
        let has_perf_map = !is_living || self.remember(pid);
        let size = std::fs::metadata(format!("/proc/{pid}/exe")).map_or(0, |file| file.len());
        let source = |debug_syms: bool, perf_map: bool| {
            let process = Process { debug_syms, perf_map, map_files: is_living, ..Process::new(Pid::from(pid)) };
            Source::Process(process)
        };
        let with_debug = size <= SYMBOL_FILE_BYTES_MAX;
        let ask = |source: &Source<'_>| self.symbolizer.symbolize(source, Input::AbsAddr(addresses)).ok();
        // Symbols have a function's whole path, debug information what was inlined into it.
        let symbols = ask(&source(false, has_perf_map));
        let inlined = if with_debug { ask(&source(true, has_perf_map)).unwrap_or_default() } else { Vec::new() };
        let known = self.areas.get(&pid);
        let unnamed = |at: u64| {
            let name = known.and_then(|areas| areas.name(at));
            let may_change = is_living && name.is_none();
            Named { frames: [name.unwrap_or_else(|| UNKNOWN.to_owned()).into()].into(), may_change }
        };
        let Some(symbols) = symbols else {
            // One file that cannot be read must not take the others' names away.
            let alone = |at: &u64| match self.symbolizer.symbolize_single(&source(false, false), Input::AbsAddr(*at)) {
                Ok(symbol) => named(&symbol, None).unwrap_or_else(|| unnamed(*at)),
                Err(_) => unnamed(*at),
            };
            return addresses.iter().map(alone).collect();
        };
        let found = symbols.iter().zip(addresses).enumerate();
        found.map(|(i, (symbol, at))| named(symbol, inlined.get(i)).unwrap_or_else(|| unnamed(*at))).collect()
    }

    /// Has blazesym keep a process's map of memory, which is asked for again after its end; whether its map of made code
    /// can be read, or there is none.
    fn remember(&self, pid: u32) -> bool {
        let keep = |cache_perf_map: bool| {
            let process = CachedProcess { cache_perf_map, ..CachedProcess::new(Pid::from(pid)) };
            self.symbolizer.cache(&Cache::Process(process)).is_ok()
        };
        keep(true) || {
            keep(false);
            false
        }
    }
}

/// By what a symbol says, and what debug information does; that alone where there is no symbol.
fn named(symbol: &Symbolized<'_>, debug: Option<&Symbolized<'_>>) -> Option<Named> {
    let debug = debug.and_then(Symbolized::as_sym);
    let function = symbol.as_sym().or(debug)?;
    let inlined = debug.iter().flat_map(|debug| debug.inlined.iter().rev());
    let inlined = inlined.map(|inlined| format!("{}{INLINED}", clean(&inlined.name)).into());
    Some(Named { frames: inlined.chain([clean(&function.name).into()]).collect(), may_change: false })
}

/// A name as it can stand in a folded stack: bounded, without what separates frames and lines.
pub(super) fn clean(name: &str) -> String {
    let put = |c: char| match c {
        ';' => ':',
        c if c.is_control() => '?',
        c => c,
    };
    let mut clean: String = name.chars().take(NAME_CHARACTERS_MAX).map(put).collect();
    if name.chars().nth(NAME_CHARACTERS_MAX).is_some() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_a_line_of_folded_stacks() {
        assert_eq!(clean("a;b\nc d"), "a:b?c d");
        let long = clean(&"x".repeat(NAME_CHARACTERS_MAX + 1));
        assert_eq!((long.chars().count(), long.ends_with('…')), (NAME_CHARACTERS_MAX + 1, true));
    }

    #[test]
    fn a_process_that_has_ended_and_an_address_in_nothing_have_no_name_and_do_no_harm() {
        let mut namer = Namer::default();
        for pid in [4_194_305, std::process::id()] {
            let found = namer.program(pid, &[0x10, u64::MAX]);
            assert!(found.iter().all(|named| *named.frames == [UNKNOWN.into()]), "{found:?}");
        }
        assert_eq!(namer.kernel(&[0x10]).len(), 1);
    }

    #[test]
    fn an_own_function_is_named() {
        let at = a_name_cannot_break_a_line_of_folded_stacks as fn() as usize as u64;
        let found = Namer::default().program(std::process::id(), &[at]);
        assert!(found[0].frames.iter().any(|frame| frame.contains("a_name_cannot_break")), "{found:?}");
    }
}
