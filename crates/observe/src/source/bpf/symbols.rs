//! Addresses to names: the kernel's functions from `/proc/kallsyms`, a program's as `file+offset` from its map of memory.
//!
//! Functions of a program are not named here: `addr2line -e FILE OFFSET` does it. Cost: kallsyms once (some 10 MB of
//! text), a process's maps once a reading.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The kernel's functions, by address. Empty where `kernel.kptr_restrict` hides them.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    functions: BTreeMap<u64, Box<str>>,
}

impl Kernel {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let mut functions = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
                functions.insert(address, name.into());
            }
        }
        Kernel { functions }
    }

    /// The function an address lies in.
    pub(crate) fn name(&self, address: u64) -> String {
        match self.functions.range(..=address).next_back() {
            Some((_, name)) => (**name).to_owned(),
            None => format!("{address:#x}"),
        }
    }
}

/// The files mapped into one process.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Start, end, offset in the file, its name.
    areas: Vec<(u64, u64, u64, String)>,
}

impl Program {
    /// Reads those of the process that a thread belongs to; none where it has ended.
    pub(crate) fn read(tid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{tid}/maps")).unwrap_or_default();
        Program { areas: text.lines().filter_map(area).collect() }
    }

    /// `file+offset`, the offset that of the file.
    pub(crate) fn name(&self, address: u64) -> String {
        let mut name = String::new();
        // Writing into a String never fails.
        let _ = match self.areas.iter().find(|(start, end, ..)| (*start..*end).contains(&address)) {
            Some((start, _, offset, file)) => write!(name, "{file}+{:#x}", address - start + offset),
            None => write!(name, "{address:#x}"),
        };
        name
    }
}

fn area(line: &str) -> Option<(u64, u64, u64, String)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(words.nth(1)?)?);
    let file = words.nth(2)?.rsplit('/').next()?.to_owned();
    Some((start, end, offset, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_its_file() {
        let line = "7f0000001000-7f0000003000 r-xp 00002000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6";
        let program = Program { areas: area(line).into_iter().collect() };
        assert_eq!(program.name(0x7f00_0000_1010), "libc.so.6+0x2010");
        assert_eq!(program.name(0x10), "0x10");
        assert_eq!(area("7f0000001000-7f0000003000 rw-p 00000000 00:00 0"), None);
        let functions = BTreeMap::from([(0x100, "a".into()), (0x200, "b".into())]);
        let kernel = Kernel { functions };
        assert_eq!((kernel.name(0x1ff), kernel.name(0x200), kernel.name(0x1)), ("a".into(), "b".into(), "0x1".into()));
    }
}
