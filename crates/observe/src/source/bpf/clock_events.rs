//! Programs that run at each beat of a clock, on the CPUs where there is something to see: perf_event_open(2) with the software event
//! `cpu-clock`.
//!
//! A clock of the kernel's own, so that it works where a machine shows no hardware counters, as most virtual ones do. The
//! frequency is odd, so that samples do not keep step with what happens each 10 ms. CPUs that are switched on later are
//! not sampled. Cost: an interrupt at each beat, also on an idle CPU, which a virtual machine pays dearly: a generator whose CPU idled for half
//! of the time made 3 % fewer requests by it, a full CPU nothing (docs/decisions/2026-11-26-beats-where-the-target-may-run.md).

use super::BpfError;
use libbpf_rs::{Link, ProgramMut};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// Samples a second and CPU.
pub(crate) const HERTZ: u64 = 99;

/// `perf_event_attr` as far as every kernel has it (PERF_ATTR_SIZE_VER0, include/uapi/linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// PERF_TYPE_SOFTWARE.
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_CPU_CLOCK.
const CPU_CLOCK: u64 = 0;
/// The bits `disabled` (the program's attaching enables it) and `freq`.
const FLAGS: u64 = 1 | 1 << 10;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Attaches a program to the clock of a CPU.
pub(super) fn attach(program: &ProgramMut<'_>, cpu: i32) -> Result<Link, BpfError> {
    let event = open(cpu)?;
    let link = program.attach_perf_event(event.as_raw_fd()).map_err(|error| {
        BpfError::of(
            format!("'{}' cannot be attached to the clock of CPU {cpu}", program.section().to_string_lossy()),
            &error,
        )
    })?;
    // From here on it is the link's: libbpf closes it with the link.
    let _ = event.into_raw_fd();
    Ok(link)
}

fn open(cpu: i32) -> Result<OwnedFd, BpfError> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: CPU_CLOCK,
        sample_frequency: HERTZ,
        flags: FLAGS,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until it returns; of all processes (-1) on one
    // CPU, in no group (-1).
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, -1, cpu, -1, CLOSE_ON_EXEC) };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd >= 0 {
        // SAFETY: the kernel has just given it, and nobody else has it.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    let error = std::io::Error::last_os_error();
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    Err(match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => BpfError::Refused {
            what: format!("the clock of CPU {cpu} may not be sampled"),
            reason: format!(
                "run as root, or give plimsoll CAP_PERFMON (kernel.perf_event_paranoid is {})",
                paranoid.trim()
            ),
        },
        _ => BpfError::Refused { what: format!("perf_event_open of CPU {cpu}'s clock"), reason: error.to_string() },
    })
}

/// The CPUs that are on; the first where the kernel does not say.
pub(crate) fn online() -> BTreeSet<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    listed(&text)
}

/// A list of the kernel's: `0-3,8`.
fn listed(text: &str) -> BTreeSet<i32> {
    let parts = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    parts.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read() {
        assert_eq!(listed("0-3,8\n"), BTreeSet::from([0, 1, 2, 3, 8]));
        assert_eq!(listed("0"), BTreeSet::from([0]));
        assert!(listed("nonsense").is_empty());
        assert!(!online().is_empty());
        assert_eq!(size_of::<Attributes>(), 64);
    }
}
