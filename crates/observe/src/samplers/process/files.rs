//! The target's limit of open descriptors (`/proc/<pid>/limits`), and the files among them that take space nobody sees:
//! deleted ones that are still open, and temporary ones, with their bytes (`/proc/<pid>/fd`).
//! A file that is open several times is one. Temporary is what lies in a folder whose name begins or ends with `tmp` or `temp`. Of the first 1,024 descriptors
//! only: looking at each costs a microsecond, and a server may have a million.
//! Cost: one file opened for each process a second, and one link read for each of these descriptors; they are not looked at again before
//! a thousand times the CPU time of that (a thousandth of a core: a thousand descriptors every three seconds or so). Another user's
//! process needs CAP_SYS_PTRACE.

use crate::limits::{FILES_MAX, FILES_SPARING};
use crate::metric::{Metric, gauge};
use crate::samplers::{Entry, SECOND, Sampler, first_failure, living_id, of_target};
use crate::source::clock;
use crate::source::proc::{Buffers, SampleError, lines, words};
use model::Snapshot;
use model::metrics::Metrics;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, readlinkat_raw, statat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room for the entries of a folder that are read at once, some hundreds, and for a path (PATH_MAX).
const ENTRIES_BYTES: usize = 16 << 10;
const LINK_BYTES: usize = 4096;

const METRICS: &[Metric] = &[
    gauge(
        "descriptors_limit",
        "descriptors",
        "limits: Max open files, soft",
        "descriptors it may have open; absent where there is no limit",
    ),
    gauge("files_deleted", "files", "fd", "deleted and still open"),
    gauge("files_deleted_bytes", "bytes", "fd", "disk space of those"),
    gauge("files_temporary", "files", "fd", "open in a temporary folder, deleted ones not counted again"),
    gauge("files_temporary_bytes", "bytes", "fd", "disk space of those"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/files",
    about: "the target's limit of descriptors, its deleted and temporary files (/proc/<pid>/limits, fd)",
    needs: "CAP_SYS_PTRACE for another user's process",
    cost: "1 file a process a second, 1 link a descriptor, 1,024 of them, 0.1 % of a core at the most",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Files::default()),
};

#[derive(Debug, Default)]
struct Files {
    left_out: u64,
    /// Descriptors are not looked at before this.
    due_ns: Option<i64>,
}

impl Sampler for Files {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let mut outcome = Ok(());
        let (at_ns, began_ns) = (snapshot.at_ns, clock::thread_cpu_ns());
        let is_due = self.due_ns.is_none_or(|due_ns| at_ns >= due_ns);
        if is_due {
            self.left_out = 0;
        }
        for process in of_target(snapshot)? {
            let id = living_id(process);
            match buffers.read_single(format_args!("/proc/{id}/limits")) {
                Ok(limits) => process.metrics.set_if("descriptors_limit", soft_limit(limits)),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            if !is_due {
                continue;
            }
            match look(&format!("{}/proc/{id}/fd", buffers.root()), &mut process.metrics) {
                Ok(looked_at) => self.left_out += process.descriptors.unwrap_or(0).saturating_sub(looked_at),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        // What is open before the load must not put off the first look at the load.
        if is_due && at_ns >= 0 {
            let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
            self.due_ns = Some(at_ns.saturating_add(cost_ns.saturating_mul(FILES_SPARING)));
        }
        first_failure(outcome)
    }

    fn leaves_out(&self) -> Option<String> {
        let beyond = self.left_out;
        // One or two are opened or closed between two looks.
        (beyond > FILES_MAX as u64 / 8)
            .then(|| format!("{beyond} descriptors beyond the first {FILES_MAX} of a process"))
    }
}

/// `Max open files            1024                 4096                 files`; `None`: unlimited.
fn soft_limit(limits: &[u8]) -> Option<u64> {
    let line = lines(limits).find_map(|line| line.strip_prefix(b"Max open files"))?;
    std::str::from_utf8(words(line).next()?).ok()?.parse().ok()
}

/// Counts the files among the descriptors. Returns how many descriptors it looked at.
fn look(folder: &str, metrics: &mut Metrics) -> Result<u64, SampleError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, folder, flags, Mode::empty()).map_err(|errno| SampleError::of(folder, errno.into()))?;
    let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
    let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
    let mut link = vec![0; LINK_BYTES];
    let (mut deleted, mut temporary, mut looked_at) = ([0u64; 2], [0u64; 2], 0);
    // A cache opens the same file for each of its clients.
    let mut seen = BTreeSet::new();
    // An error (the process has just ended) is the end: asked again, it would come again.
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name();
        // Not the folder itself and its parent.
        if !name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        if looked_at == FILES_MAX as u64 {
            break;
        }
        looked_at += 1;
        let read = readlinkat_raw(&opened, name, &mut *link).ok();
        let bytes = read.and_then(|length| link.get(..length)).unwrap_or_default();
        // Sockets, pipes and the like have no path, devices no size.
        if !bytes.starts_with(b"/") || bytes.starts_with(b"/dev/") {
            continue;
        }
        let is_deleted = bytes.ends_with(b" (deleted)");
        if !is_deleted && !is_temporary(Path::new(OsStr::from_bytes(bytes))) {
            continue;
        }
        let Ok(file) = statat(&opened, name, AtFlags::empty()) else { continue };
        if !FileType::from_raw_mode(file.st_mode).is_file() || !seen.insert((file.st_dev, file.st_ino)) {
            continue;
        }
        // A name may end like that and be there all the same.
        let sums = if is_deleted && file.st_nlink == 0 { &mut deleted } else { &mut temporary };
        sums[0] += 1;
        sums[1] = sums[1].saturating_add(file.st_blocks.cast_unsigned().saturating_mul(512));
    }
    metrics.set("files_deleted", deleted[0]);
    metrics.set("files_deleted_bytes", deleted[1]);
    metrics.set("files_temporary", temporary[0]);
    metrics.set("files_temporary_bytes", temporary[1]);
    Ok(looked_at)
}

fn is_temporary(path: &Path) -> bool {
    let is_of_that_name = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        [b"tmp".as_slice(), b"temp"].iter().any(|word| name.starts_with(word) || name.ends_with(word))
    };
    let folders = path.parent().into_iter().flat_map(Path::components);
    folders.into_iter().any(|folder| is_of_that_name(folder.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::process_of_target;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn limits_and_folders() {
        let text = b"Limit Soft Hard Units\nMax processes 1 1 processes\nMax open files            1024                 4096                 files     \n";
        assert_eq!(soft_limit(text), Some(1024));
        assert_eq!(soft_limit(b"Max open files unlimited unlimited files\n"), None);
        for (path, expected) in [
            ("/tmp/x", true),
            ("/var/tmp/a/b", true),
            ("/var/cache/nginx/client_temp/1", true),
            ("/var/log/template.log", false),
            ("/tmp", false),
        ] {
            assert_eq!(is_temporary(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn deleted_and_temporary_files_of_this_process_are_seen() {
        let mut kept = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        kept.write_all(&[1; 100_000]).unwrap();
        kept.as_file().sync_all().unwrap();
        let mut deleted = tempfile::tempfile_in("/tmp").unwrap();
        deleted.write_all(&[1; 300_000]).unwrap();
        deleted.sync_all().unwrap();
        let mut metrics = Metrics::default();
        look("/proc/self/fd", &mut metrics).unwrap();
        assert!(metrics.of("files_deleted").unwrap() >= 1, "{metrics:?}");
        assert!(metrics.of("files_deleted_bytes").unwrap() >= 300_000, "{metrics:?}");
        assert!(metrics.of("files_temporary").unwrap() >= 1, "{metrics:?}");
        assert!(metrics.of("files_temporary_bytes").unwrap() >= 100_000, "{metrics:?}");
    }

    #[test]
    fn descriptors_are_looked_at_no_more_often_than_they_cost_and_first_under_load() {
        let mut snapshot = Snapshot { processes: vec![process_of_target(std::process::id())], ..Snapshot::default() };
        let (mut sampler, mut buffers) = (Files::default(), Buffers::default());
        let mut looks = |at_ns: i64| {
            snapshot.at_ns = at_ns;
            snapshot.processes[0].metrics = Metrics::default();
            sampler.sample(&mut buffers, &mut snapshot).unwrap();
            let metrics = &snapshot.processes[0].metrics;
            assert!(metrics.of("descriptors_limit").is_some(), "the limit is read each time");
            metrics.of("files_deleted").is_some()
        };
        assert!(looks(-1) && looks(0), "what was before the load does not put it off");
        assert!(!looks(1), "a nanosecond later it would cost far more than its share");
        assert!(looks(3_600 * SECOND));
    }

    #[test]
    fn a_file_that_is_open_several_times_takes_its_space_once() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let (fds, path) = (folder.path().join("fd"), folder.path().join("file"));
        std::fs::write(&path, [1; 100_000]).unwrap();
        std::fs::create_dir(&fds).unwrap();
        for descriptor in ["3", "4", "5"] {
            std::os::unix::fs::symlink(&path, fds.join(descriptor)).unwrap();
        }
        let mut metrics = Metrics::default();
        assert_eq!(look(fds.to_str().unwrap(), &mut metrics).unwrap(), 3);
        let own_bytes = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert_eq!((metrics.of("files_temporary"), metrics.of("files_temporary_bytes")), (Some(1), Some(own_bytes)));
    }
}
