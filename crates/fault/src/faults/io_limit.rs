//! How fast processes may read from and write to the disk that a path is on, by a control group of their own.
//!
//! In bytes a second, of what reaches the device: reads that the page cache answers are none, and in version 1 of control
//! groups writes are only limited where they are synchronous or direct. The device is the whole disk that the path's file
//! system is on; a file system without one (tmpfs, overlay) cannot be limited.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::error::ApplyError;
use crate::group::{Group, Limits};
use crate::process::Who;
use model::units::size_bytes;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "io-limit",
    takes: "WHO PATH [read SIZE/s] [write SIZE/s]",
    example: "target /var/lib read 1MiB/s write 512KiB/s",
    does: "lets processes read and write only so much a second on the disk of a path, in a control group of their own",
    needs: "the right to make control groups (root); the controller blkio or io; a file system on a disk",
    undone: Undoing::Back("moved back, and the group removed"),
    parse: |words| {
        let who = words.who()?;
        let path = words.parsed("a path on the disk", |word| word.starts_with('/').then(|| PathBuf::from(word)))?;
        let speed = |word: &str| size_bytes(word.strip_suffix("/s")?).ok().filter(|bytes| *bytes > 0);
        let mut limits = [None, None];
        for (at, name) in ["read", "write"].into_iter().enumerate() {
            if words.take(name) {
                limits[at] = Some(words.parsed("a speed such as 1MiB/s", speed)?);
            }
        }
        match limits {
            [None, None] => Err(words.bad("read or write and a speed such as 1MiB/s", words.peek())),
            [read, write] => Ok(Arc::new(Throttling { who, path, read, write })),
        }
    },
};

#[derive(Debug)]
struct Throttling {
    who: Who,
    path: PathBuf,
    /// Bytes a second.
    read: Option<u64>,
    write: Option<u64>,
}

impl Fault for Throttling {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        let device = disk_of(&self.path)?;
        let limit = |file, speed: Option<u64>| speed.map(|speed| (file, Some(format!("{device} {speed}"))));
        let one: Limits =
            [limit("blkio.throttle.read_bps_device", self.read), limit("blkio.throttle.write_bps_device", self.write)]
                .into_iter()
                .flatten()
                .collect();
        let words = [("rbps", self.read), ("wbps", self.write)];
        let words: Vec<String> =
            words.iter().filter_map(|(name, speed)| speed.map(|speed| format!("{name}={speed}"))).collect();
        let two = vec![("io.max", Some(format!("{device} {}", words.join(" "))))];
        Ok(vec![Deed::Change(Change::Group(Group::planned(&all, ["blkio", "io"], &[one, two])?))])
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// The number of the whole disk that a path is on, `MAJOR:MINOR`.
fn disk_of(path: &Path) -> Result<String, ApplyError> {
    let shown = path.display().to_string();
    let device = std::fs::metadata(path).map_err(|error| ApplyError::unreadable(&shown, &error))?.st_dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let of_kernel = PathBuf::from(format!("/sys/dev/block/{number}"));
    let Ok(folder) = std::fs::canonicalize(&of_kernel) else {
        return Err(ApplyError::Missing {
            name: shown,
            expected: "a file system on a disk".to_owned(),
            reason: format!("its device {number} is none (as of tmpfs and overlay): name another path"),
        });
    };
    // A partition's folder stands in its disk's.
    let disk = if folder.join("partition").exists() { folder.parent().map(Path::to_owned) } else { Some(folder) };
    let number = disk.and_then(|disk| std::fs::read_to_string(disk.join("dev")).ok());
    number.map(|number| number.trim().to_owned()).ok_or_else(|| ApplyError::Missing {
        name: shown,
        expected: "its disk to be known".to_owned(),
        reason: format!("{} does not tell: name another path", of_kernel.display()),
    })
}
