//! This process itself: its CPU time (`getrusage(2)`), and memory given back that what has ended needed and what comes does not.
//!
//! CPU times only: `ru_maxrss` survives `execve`, so it would show the parent's size; see [`crate::own`].
//!
//! The kernel maps sixteen pages around the first touch of one (`fault_around_bytes`), so a program of many parts has most of its
//! code resident long after the part that needed it has ended.

use super::proc::number_after;
use std::io::{BufRead, BufReader};

/// User and system CPU time of all threads of this process, living and gone, nanoseconds.
pub(crate) fn own_cpu_ns() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one `rusage` to the pointer, which is valid for it; zeroed is a valid `rusage` too, so
    // the value is initialised even if the call failed.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    (nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime))
}

fn nanoseconds(time: libc::timeval) -> u64 {
    // Neither is ever negative; the casts are of non-negative numbers.
    (time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec.max(0) as u64 * 1000)
}

/// Gives back what is free of the heap, where the C library can tell (malloc_trim(3)): it keeps what was freed below what is in use.
#[cfg(target_env = "gnu")]
pub(crate) fn trim_heap() {
    // SAFETY: it takes a number and touches only memory that is free; other threads may allocate meanwhile.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Nothing: this C library has no such call.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn trim_heap() {}

/// Gives back what is mapped of files and was not written to: code and constants. What is needed again is mapped again at its next
/// touch, from the page cache. A mapping in which anything was changed stays: what the loader relocated, a debugger's breakpoints.
pub(crate) fn unmap_constants() {
    let Ok(maps) = std::fs::File::open("/proc/self/smaps") else { return };
    let mut mapping: Option<Mapping> = None;
    for line in BufReader::with_capacity(16 << 10, maps).lines().map_while(Result::ok) {
        if let Some(next) = Mapping::parse(&line) {
            mapping = Some(next);
        } else if let Some(found) = &mut mapping {
            // Changed pages are in memory or in swap. `Swap:` comes after `Anonymous:` (proc_pid_smaps(5)).
            if let Some(kib) = number_after(line.as_bytes(), b"Anonymous:") {
                found.is_changed = kib > 0;
            } else if number_after(line.as_bytes(), b"Swap:") == Some(0) && found.is_constant && !found.is_changed {
                found.give_back();
            }
        }
    }
}

/// A mapping of `/proc/self/smaps`.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    from: usize,
    to: usize,
    /// Of a file, private, and cannot be written to.
    is_constant: bool,
    /// Some of it is no longer as in the file; true until the kernel has said that it is not so.
    is_changed: bool,
}

impl Mapping {
    /// `from-to perms offset device inode path`; `None`: another kind of line.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let bound = |hex: &str| usize::from_str_radix(hex, 16).ok();
        let (from, to) = (bound(from)?, bound(to)?);
        let permissions = words.next()?;
        let is_of_a_file = words.nth(2)? != "0";
        Some(Mapping {
            from,
            to,
            is_constant: is_of_a_file && matches!(permissions, "r-xp" | "r--p"),
            is_changed: true,
        })
    }

    fn give_back(&self) {
        let from = std::ptr::without_provenance_mut(self.from);
        // SAFETY: the mapping is private, of a file and not writable, and the kernel has just said that no page of it differs from the
        // file: whoever reads or runs it from now on gets the same bytes, from the page cache. Where it was unmapped meanwhile the call
        // fails; nothing is done then, which is as good.
        let _ = unsafe { libc::madvise(from, self.to.saturating_sub(self.from), libc::MADV_DONTNEED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_a_file_and_cannot_be_written_is_given_back() {
        let of = |line: &str| Mapping::parse(line).map(|mapping| mapping.is_constant);
        assert_eq!(of("55b3-55c3 r-xp 00001000 fe:00 1234   /usr/bin/x"), Some(true));
        assert_eq!(of("55b3-55c3 r--p 00001000 fe:00 1234   /usr/bin/with a space"), Some(true));
        assert_eq!(of("55b3-55c3 rw-p 00001000 fe:00 1234   /usr/bin/x"), Some(false));
        assert_eq!(of("55b3-55c3 r--s 00001000 fe:00 1234   /usr/bin/x"), Some(false));
        assert_eq!(of("7ffe-7fff r-xp 00000000 00:00 0      [vdso]"), Some(false));
        assert_eq!(of("Rss:                1234 kB"), None);
        assert_eq!(of("VmFlags: rd ex mr mw me sd"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn code_goes_and_comes_again() {
        let resident_kib = || number_after(&std::fs::read("/proc/self/status").unwrap(), b"RssFile:").unwrap();
        // Tests beside this one have their code mapped meanwhile.
        let is_given_back = (0..20).any(|_| {
            let before_kib = resident_kib();
            unmap_constants();
            resident_kib() < before_kib
        });
        assert!(is_given_back, "{} kB of files are resident", resident_kib());
        // What the loader relocated is as it was: tables of methods, and texts.
        let shown: Vec<Box<dyn std::fmt::Display>> = vec![Box::new(1), Box::new("two")];
        assert_eq!(shown.iter().map(|one| one.to_string()).collect::<String>(), "1two");
    }

    #[test]
    fn what_is_free_of_the_heap_goes() {
        let held: Vec<Vec<u8>> = (0..20_000).map(|n| vec![n as u8; 1000]).collect();
        let last = held.last().cloned();
        drop(held);
        trim_heap();
        assert_eq!(last.map(|bytes| bytes.len()), Some(1000));
    }
}
