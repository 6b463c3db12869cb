//! Uprobes: programs at functions of the files that processes map, such as a library of the target's.
//!
//! A program whose section is `uprobe/FUNCTION` or `uretprobe/FUNCTION` is attached to each such file, for whatever
//! process maps it: what the target forks, or starts again, is covered from its first call. Where such a place has no one
//! name, who asks says where it is in the file ([`Place`]). A file is told by device and inode and reached through `/proc/PID/map_files`, which leads to the very file that is mapped, also in another mount
//! namespace and after it was deleted; without the right to that (CAP_CHECKPOINT_RESTORE), by its path below
//! `/proc/PID/root`. Cost: a look at `/proc/PID/maps` of a process three times, then every tenth reading.

use super::{BpfError, Programs};
use libbpf_rs::{Link, UprobeOpts};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that uprobes are attached to, at the most.
const FILES_MAX: usize = 8;
/// Bytes of a process's maps that are read, at the most.
const MAPS_BYTES_MAX: u64 = 4 << 20;
/// The first looks at a process: it may not have loaded its libraries yet.
const LOOKS_FIRST: u32 = 3;
/// And then each so many readings, as libraries are loaded at any time.
const LOOKS_EVERY: u32 = 10;

/// Device and inode, as `/proc/PID/maps` writes them.
type FileId = (String, u64);

/// What uprobes are attached to, and who was looked at.
#[derive(Debug, Default)]
pub(super) struct Uprobes {
    links: BTreeMap<FileId, Vec<Link>>,
    /// Files without the functions, with the reason.
    refused: BTreeMap<FileId, String>,
    /// Readings since a process, by its id and its program's file, was first seen.
    seen: BTreeMap<(u32, u64, u64), u32>,
}

/// How following went.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Files that uprobes are attached to.
    pub(crate) attached: usize,
    /// Why others are left out.
    pub(crate) left_out: Option<String>,
}

/// A place in a file for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// What stands behind the slash of the program's section.
    pub(crate) program: &'static str,
    /// Where, in bytes from the file's beginning.
    pub(crate) offset: u64,
    /// The counter by which the program in the file knows that somebody listens there, in bytes from the file's beginning;
    /// 0: it does not ask.
    pub(crate) semaphore: u64,
}

/// How the places in a file are found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Places {
    /// By the names in the programs' sections.
    Named,
    /// By looking; none: the file has none, which is no failure.
    Sought(fn(&Path) -> Result<Vec<Place>, String>),
}

/// A file that a process maps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapped {
    id: FileId,
    /// The addresses of one mapping.
    range: (u64, u64),
    path: PathBuf,
}

impl Programs {
    /// Attaches to the files that these processes map and that are wanted, as far as they are new. Whether one is wanted is
    /// asked with the process's program and the mapped file, both as paths that the process sees.
    pub(crate) fn follow(
        &mut self,
        pids: impl IntoIterator<Item = u32>,
        is_wanted: fn(&Path, &Path) -> bool,
        places: Places,
    ) -> Followed {
        let mut left_out = None;
        let mut present = BTreeSet::new();
        for pid in pids {
            let Ok(program) = std::fs::metadata(format!("/proc/{pid}/exe")) else { continue };
            let key = (pid, program.dev(), program.ino());
            let readings = self.uprobes.seen.entry(key).or_insert(0);
            *readings = readings.saturating_add(1);
            let is_due = *readings <= LOOKS_FIRST || readings.is_multiple_of(LOOKS_EVERY);
            present.insert(key);
            if !is_due {
                continue;
            }
            for file in mapped(pid, is_wanted) {
                if self.uprobes.links.contains_key(&file.id) || self.uprobes.refused.contains_key(&file.id) {
                    continue;
                }
                if self.uprobes.links.len() >= FILES_MAX {
                    left_out = Some(format!("{} and others: {FILES_MAX} files are watched", file.path.display()));
                    continue;
                }
                self.attach_to(pid, file, places);
            }
        }
        self.uprobes.seen.retain(|key, _| present.contains(key));
        let left_out = left_out.or_else(|| self.uprobes.refused.values().next().cloned());
        let attached = self.uprobes.links.values().filter(|links| !links.is_empty()).count();
        Followed { attached, left_out }
    }

    fn attach_to(&mut self, pid: u32, file: Mapped, places: Places) {
        for path in file.reachable_by(pid) {
            let made = match places {
                Places::Named => self.links_by_name(&path).map_err(|error| error.to_string()),
                Places::Sought(seek) => {
                    seek(&path).and_then(|places| self.links_at(&path, &places).map_err(|error| error.to_string()))
                }
            };
            match made {
                Ok(links) => {
                    self.uprobes.refused.remove(&file.id);
                    self.uprobes.links.insert(file.id, links);
                    return;
                }
                // The process ended meanwhile: nothing is wrong with the file.
                Err(_) if !path.exists() => {}
                Err(error) => {
                    self.uprobes.refused.insert(file.id.clone(), format!("{}: {error}", file.path.display()));
                }
            }
        }
    }

    fn links_by_name(&mut self, path: &Path) -> Result<Vec<Link>, BpfError> {
        let named = |function: &str| UprobeOpts { func_name: Some(function.to_owned()), ..UprobeOpts::default() };
        self.links(path, |function| vec![(0, named(function))])
    }

    fn links_at(&mut self, path: &Path, places: &[Place]) -> Result<Vec<Link>, BpfError> {
        let spot = |place: &Place| {
            let ref_ctr_offset = usize::try_from(place.semaphore).ok()?;
            Some((usize::try_from(place.offset).ok()?, UprobeOpts { ref_ctr_offset, ..UprobeOpts::default() }))
        };
        self.links(path, |program| places.iter().filter(|place| place.program == program).filter_map(spot).collect())
    }

    /// Attaches each program wherever `spots` says, given what stands behind the slash of its section.
    fn links(&mut self, path: &Path, spots: impl Fn(&str) -> Vec<(usize, UprobeOpts)>) -> Result<Vec<Link>, BpfError> {
        let mut links = Vec::new();
        for program in self.object.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let Some((kind, place)) = section.split_once('/').filter(|(kind, _)| is_uprobe(kind)) else { continue };
            for (offset, options) in spots(place) {
                let options = UprobeOpts { retprobe: kind == "uretprobe", ..options };
                // -1: every process that maps it; the programs ask who it is.
                let link = program.attach_uprobe_with_opts(-1, path, offset, options);
                links.push(link.map_err(|error| BpfError::of(format!("'{section}' cannot be attached"), &error))?);
            }
        }
        Ok(links)
    }
}

/// Whether a section's first word says that it is attached to files, not to the kernel.
pub(super) fn is_uprobe(kind: &str) -> bool {
    kind == "uprobe" || kind == "uretprobe"
}

impl Mapped {
    /// Paths that lead to it, the surest first.
    fn reachable_by(&self, pid: u32) -> [PathBuf; 2] {
        let below = self.path.strip_prefix("/").unwrap_or(&self.path);
        let (start, end) = self.range;
        [
            PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}")),
            Path::new("/proc").join(pid.to_string()).join("root").join(below),
        ]
    }

    /// Of a line of `/proc/PID/maps`, where that is code of a file.
    fn parse(line: &str) -> Option<Self> {
        let (fields, path) = line.split_at(line.find('/')?);
        let mut words = fields.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = (hex(start)?, hex(end)?);
        words.next()?.contains('x').then_some(())?;
        let (device, inode) = (words.nth(1)?.to_owned(), words.next()?.parse().ok()?);
        let path = PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path));
        Some(Mapped { id: (device, inode), range, path })
    }
}

/// The files with code that a process maps and that are wanted, each once; none where it has ended.
fn mapped(pid: u32, is_wanted: fn(&Path, &Path) -> bool) -> Vec<Mapped> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().to_string_lossy().into_owned();
    let program = Path::new(program.strip_suffix(" (deleted)").unwrap_or(&program));
    let mut bytes = Vec::new();
    if let Ok(maps) = std::fs::File::open(format!("/proc/{pid}/maps")) {
        // What was read before an error is as good as the rest.
        let _ = maps.take(MAPS_BYTES_MAX).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut files: Vec<Mapped> = Vec::new();
    for file in text.lines().filter_map(Mapped::parse).filter(|file| is_wanted(program, &file.path)) {
        if files.iter().all(|other| other.id != file.id) {
            files.push(file);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_reached_by_its_mapping_and_by_its_path() {
        let line = "7f00001000-7f00003000 r-xp 00002000 fe:00 12     /opt/my libs/libssl.so.3 (deleted)";
        let file = Mapped::parse(line).unwrap();
        assert_eq!((&file.id, &*file.path), (&("fe:00".to_owned(), 12), Path::new("/opt/my libs/libssl.so.3")));
        let [mapping, path] = file.reachable_by(7);
        assert_eq!(mapping, Path::new("/proc/7/map_files/7f00001000-7f00003000"));
        assert_eq!(path, Path::new("/proc/7/root/opt/my libs/libssl.so.3"));
        assert_eq!(Mapped::parse("7f00001000-7f00003000 r--p 00002000 fe:00 12 /opt/libssl.so.3"), None);
        assert_eq!(Mapped::parse("7f00001000-7f00003000 r-xp 00000000 00:00 0 [vdso]"), None);
        assert_eq!(Mapped::parse("/"), None);
    }

    #[test]
    fn of_this_process_its_own_program_is_mapped() {
        let own = std::env::current_exe().unwrap();
        let files = mapped(std::process::id(), |_, _| true);
        assert_eq!(files.iter().filter(|file| file.path == own).count(), 1, "{files:?}");
        let programs = mapped(std::process::id(), |program, file| program == file);
        assert_eq!(programs.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), [own]);
    }
}
