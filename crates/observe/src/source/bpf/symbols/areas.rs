//! The files mapped into a process: what an address is called that has no name.

use std::fmt::Write;

/// The areas of one process's memory.
#[derive(Debug, Default)]
pub(crate) struct Areas {
    areas: Vec<Area>,
}

#[derive(Debug, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    /// Of the file.
    offset: u64,
    /// The file's name without its folders; empty where there is none.
    file: String,
    /// What it is instead of a file, such as `[heap]`; mostly empty.
    kind: String,
    /// Whether it can be executed.
    is_code: bool,
}

impl Areas {
    /// Reads them; `None` where the process has ended, or may not be looked at.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let areas: Vec<Area> = String::from_utf8_lossy(&text).lines().filter_map(area).collect();
        (!areas.is_empty()).then_some(Areas { areas })
    }

    /// An address of each that is of a file.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.areas.iter().filter(|area| area.is_code && !area.file.is_empty()).map(|area| area.start)
    }

    /// Where a piece of data is: `file+0x…`, `[heap]+0x…` by the area's start, or its bare address.
    pub(crate) fn data(&self, address: u64) -> String {
        match self.at(address) {
            Some(area) if !area.file.is_empty() => {
                format!("{}+{:#x}", area.file, (address - area.start).wrapping_add(area.offset))
            }
            Some(area) if !area.kind.is_empty() => format!("{}+{:#x}", area.kind, address - area.start),
            _ => format!("{address:#x}"),
        }
    }

    fn at(&self, address: u64) -> Option<&Area> {
        self.areas.iter().find(|area| (area.start..area.end).contains(&address))
    }

    /// `[file+0x…]` of code, the offset that of the file; `None`: it is in no file.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let area = self.at(address).filter(|area| area.is_code && !area.file.is_empty())?;
        let mut name = String::new();
        // Writing into a String never fails.
        let _ = write!(name, "[{}+{:#x}]", area.file, (address - area.start).wrapping_add(area.offset));
        Some(name)
    }
}

fn area(line: &str) -> Option<Area> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.contains('x');
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(words.next()?)?);
    let path = words.nth(2).unwrap_or_default();
    let file = if path.starts_with('/') { path.rsplit('/').next().unwrap_or_default() } else { "" };
    let kind = if path.starts_with('[') { path.to_owned() } else { String::new() };
    Some(Area { start, end, offset, file: super::namer::clean(file), kind, is_code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_called_by_its_file() {
        let text = "7f0000001000-7f0000003000 r-xp 00002000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f0000004000-7f0000005000 r-xp 00000000 00:00 0 \n\
                    55000000-55001000 rw-p 00000000 00:00 0 [heap]\n\
                    7f0000006000-7f0000007000 rw-p 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n";
        let areas = Areas { areas: text.lines().filter_map(area).collect() };
        assert_eq!(areas.name(0x7f00_0000_1010).as_deref(), Some("[libc.so.6+0x2010]"));
        assert_eq!((areas.name(0x7f00_0000_4010), areas.name(0x7f00_0000_6010), areas.name(0x10)), (None, None, None));
        assert_eq!(areas.data(0x7f00_0000_6010), "libc.so.6+0x10");
        assert_eq!((areas.data(0x5500_0010), areas.data(0x10)), ("[heap]+0x10".into(), "0x10".into()));
        assert_eq!(areas.starts().collect::<Vec<_>>(), [0x7f00_0000_1000]);
        assert!(Areas::read(std::process::id()).is_some() && Areas::read(4_194_305).is_none());
    }
}
