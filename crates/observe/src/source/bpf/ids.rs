//! Whose ids processes are known by: those of the PID namespace that `/proc` shows.
//!
//! The kernel's programs see a process by its id in the initial namespace. In a container `/proc`, and so all that this
//! observer knows, has other ids for the same processes. There the programs are told in which namespace to look for an id
//! (`bpf/plimsoll.bpf.h`, `ids`): how far below the initial one it is and where the kernel keeps it, which a program says
//! that is run once. `/proc` may also show a namespace above this process's own. In the initial one nothing is run.

use super::kernel_types::KernelTypes;
use super::{BpfError, open, words};
use libbpf_rs::{MapCore, MapFlags, OpenObject, ProgramInput};
use std::os::unix::fs::MetadataExt;

/// The number of the initial PID namespace (include/linux/proc_ns.h, `PROC_PID_INIT_INO`).
const INITIAL: u64 = 0xeffffffc;
/// The section of the programs' constants.
const SECTION: &str = ".rodata.ids";

/// A PID namespace, as `struct ids` of the programs has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ids {
    /// How many namespaces it is below the initial one.
    level: u64,
    /// Where the kernel keeps it; not looked at in the initial one.
    namespace: u64,
}

impl Ids {
    /// The one that `/proc` shows. `locate`: the object whose program says in which this process is.
    pub(super) fn of_proc(locate: &'static [u8], types: &KernelTypes) -> Result<Self, BpfError> {
        if std::fs::metadata("/proc/self/ns/pid").is_ok_and(|own| own.ino() == INITIAL) {
            return Ok(Ids::default());
        }
        let status = std::fs::read_to_string("/proc/self/status")
            .map_err(|error| BpfError::Ids(format!("/proc/self/status: {error}")))?;
        let shown = ids_of_status(&status);
        let places = places(locate, types)?;
        // The ids of this process, innermost last, in both.
        let level = places.len().saturating_sub(shown.len());
        let own: Vec<u64> = places[level..].iter().map(|(_, number)| *number).collect();
        match places.get(level) {
            Some((namespace, _)) if own == shown => Ok(Ids { level: level as u64, namespace: *namespace }),
            _ => Err(BpfError::Ids(format!("this process has the ids {shown:?} there and {own:?} for the kernel"))),
        }
    }

    /// Tells the programs of an object.
    pub(super) fn set(self, object: &mut OpenObject) {
        for mut map in object.maps_mut().filter(|map| map.name().to_string_lossy().ends_with(SECTION)) {
            let bytes = [self.level.to_ne_bytes(), self.namespace.to_ne_bytes()].concat();
            if let Some(value) = map.initial_value_mut()
                && let Some(start) = value.get_mut(..bytes.len())
            {
                start.copy_from_slice(&bytes);
            }
        }
    }
}

/// The namespaces that this process is in, from the initial one on: where each is, and this process's id there.
fn places(locate: &'static [u8], types: &KernelTypes) -> Result<Vec<(u64, u64)>, BpfError> {
    let object = open(locate, types)?
        .load()
        .map_err(|error| BpfError::of("the kernel does not take the program that looks for ids", &error))?;
    let program = object.progs_mut().next().ok_or_else(|| BpfError::Ids("no program looks for them".to_owned()))?;
    program
        .test_run(ProgramInput::default())
        .map_err(|error| BpfError::of("the program that looks for ids cannot be run", &error))?;
    let mut found = Vec::new();
    for map in object.maps().filter(|map| map.name() == "places") {
        for level in 0..map.max_entries() {
            let entry = map.lookup(&level.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            match words(&entry).collect::<Vec<u64>>()[..] {
                [namespace, number] if namespace != 0 => found.push((namespace, number)),
                _ => break,
            }
        }
    }
    Ok(found)
}

/// `NSpid:\t812\t1`: the ids of a process, from the namespace that `/proc` shows to its own (proc_pid_status(5)).
fn ids_of_status(status: &str) -> Vec<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_an_id_for_each_namespace() {
        assert_eq!(ids_of_status("Name:\tx\nNSpid:\t812\t1\nNSpgid:\t7\n"), [812, 1]);
        assert_eq!(ids_of_status("Name:\tx\n"), [0_u64; 0]);
        let own = ids_of_status(&std::fs::read_to_string("/proc/self/status").unwrap());
        assert_eq!(own.last(), Some(&u64::from(std::process::id())));
    }
}
