//! The files mapped into a process: what an address is called that has no name.

use std::fmt::Write;

/// The areas of one process's memory that can be executed.
#[derive(Debug, Default)]
pub(super) struct Areas {
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
}

impl Areas {
    /// Reads them; `None` where the process has ended, or may not be looked at.
    pub(super) fn read(pid: u32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let areas: Vec<Area> = String::from_utf8_lossy(&text).lines().filter_map(area).collect();
        (!areas.is_empty()).then_some(Areas { areas })
    }

    /// An address of each that is of a file.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.areas.iter().filter(|area| !area.file.is_empty()).map(|area| area.start)
    }

    /// `[file+0x…]`, the offset that of the file; `None`: it is in no file.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let area = self.areas.iter().find(|area| (area.start..area.end).contains(&address))?;
        if area.file.is_empty() {
            return None;
        }
        let mut name = String::new();
        // Writing into a String never fails.
        let _ = write!(name, "[{}+{:#x}]", area.file, (address - area.start).wrapping_add(area.offset));
        Some(name)
    }
}

fn area(line: &str) -> Option<Area> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    if !words.next()?.contains('x') {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(words.next()?)?);
    let path = words.nth(2).unwrap_or_default();
    let file = if path.starts_with('/') { path.rsplit('/').next().unwrap_or_default() } else { "" };
    Some(Area { start, end, offset, file: super::namer::clean(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_called_by_its_file() {
        let text = "7f0000001000-7f0000003000 r-xp 00002000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f0000004000-7f0000005000 r-xp 00000000 00:00 0 \n\
                    7f0000006000-7f0000007000 rw-p 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n";
        let areas = Areas { areas: text.lines().filter_map(area).collect() };
        assert_eq!(areas.name(0x7f00_0000_1010).as_deref(), Some("[libc.so.6+0x2010]"));
        assert_eq!((areas.name(0x7f00_0000_4010), areas.name(0x7f00_0000_6010), areas.name(0x10)), (None, None, None));
        assert_eq!(areas.starts().collect::<Vec<_>>(), [0x7f00_0000_1000]);
        assert!(Areas::read(std::process::id()).is_some() && Areas::read(4_194_305).is_none());
    }
}
