//! A small file system that is full: a file of the fault's own takes what is free on it, and is removed after.
//!
//! For a file system that the target was started on, such as a tmpfs of its own. Filled once: what somebody removes later is free
//! again. The file's room is reserved (fallocate(2)), and written where the file system cannot do that. Root may also
//! use what is kept for root, and so does this, if it is root's. Refused: the file system of `/`, and one with more than 4 GiB
//! free. Not undone: what others could not write meanwhile. Cost: of a tmpfs, as much memory.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::limits::FILL_BYTES_MAX;
use crate::place;
use model::units::{show_bytes, size_bytes};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the file's name begins: no other is ever removed.
const NAME: &str = ".plimsoll-fault-";
/// What is reserved at once where it can be, bytes.
const STEP: u64 = 64 << 20;
/// What is written at once where it cannot.
const ZEROES: usize = 1 << 20;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "disk-full",
    takes: "FOLDER [leave SIZE]",
    example: "/srv/data leave 64KiB",
    does: "fills the file system that a folder is on, up to what is left",
    needs: "the right to write there; not the file system of /, and at most 4 GiB free on it",
    undone: Undoing::Back("the file that fills it is removed"),
    parse: |words| {
        let folder = words.parsed("a folder, from / on", |word| word.starts_with('/').then(|| PathBuf::from(word)))?;
        let left =
            if words.take("leave") { words.parsed("a size such as 64KiB", |word| size_bytes(word).ok())? } else { 0 };
        Ok(Arc::new(Filling { folder, left_bytes: left }))
    },
};

#[derive(Debug)]
struct Filling {
    folder: PathBuf,
    left_bytes: u64,
}

impl Fault for Filling {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let shown = self.folder.display().to_string();
        let missing = |expected: &str, reason: String| ApplyError::Missing {
            name: shown.clone(),
            expected: expected.to_owned(),
            reason,
        };
        let folder = std::fs::canonicalize(&self.folder).map_err(|error| ApplyError::unreadable(&shown, &error))?;
        if !folder.is_dir() {
            return Err(missing("a folder", "it is none: name the one it is in".to_owned()));
        }
        if device(&folder)? == device(Path::new("/"))? {
            let reason =
                "it is on that of /, which the whole machine needs: mount a small one, and start the target on it";
            return Err(missing("a file system other than that of /", reason.to_owned()));
        }
        let free = free_bytes(&folder)?;
        if free > FILL_BYTES_MAX {
            let reason = format!("{} are free: mount a small one, and start the target on it", show_bytes(free as f64));
            return Err(missing("a small file system, with at most 4 GiB free", reason));
        }
        let file = folder.join(format!("{NAME}{}", place::mark()));
        Ok(vec![Deed::Change(Change::Filler(Filler { file, left_bytes: self.left_bytes }))])
    }
}

/// A file that takes the room of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filler {
    file: PathBuf,
    /// How much stays free, bytes.
    left_bytes: u64,
}

impl Filler {
    fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    fn fill(&self) -> Result<(), ApplyError> {
        let failed = |error: &io::Error| ApplyError::of_write(&self.file.display().to_string(), &self.after(), error);
        let options = File::options().write(true).create_new(true).mode(0o600).clone();
        let mut file = options.open(&self.file).map_err(|error| failed(&error))?;
        let mut filled = 0;
        let mut step = STEP;
        while step > 0 {
            let wanted = free_bytes(self.folder())?.saturating_sub(self.left_bytes).min(step);
            if wanted == 0 || filled >= FILL_BYTES_MAX {
                break;
            }
            match fallocate(&file, FallocateFlags::empty(), filled, wanted) {
                Ok(()) => filled += wanted,
                // What is said to be free is not for one file to the last block: the rest in smaller and smaller parts.
                Err(Errno::NOSPC) => step = wanted / 2,
                Err(Errno::OPNOTSUPP) => return self.write(&mut file).map_err(|error| failed(&error)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(&error.into())),
            }
        }
        Ok(())
    }

    /// The same by writing.
    fn write(&self, file: &mut File) -> io::Result<()> {
        let zeroes = vec![0; ZEROES];
        let mut filled = 0;
        while filled < FILL_BYTES_MAX {
            let free = statvfs(self.folder())?;
            let wanted = (free.f_bfree * free.f_frsize).saturating_sub(self.left_bytes).min(ZEROES as u64);
            match file.write(&zeroes[..wanted as usize]) {
                Ok(0) => break,
                Ok(n) => filled += n as u64,
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
        file.sync_all().or_else(|error| if error.kind() == io::ErrorKind::StorageFull { Ok(()) } else { Err(error) })
    }

    fn is_there(&self) -> bool {
        std::fs::symlink_metadata(&self.file).is_ok()
    }
}

impl Reversible for Filler {
    fn name(&self) -> String {
        format!("file system of {}", self.folder().display())
    }

    fn before(&self) -> String {
        "as it is".to_owned()
    }

    fn after(&self) -> String {
        match self.left_bytes {
            0 => "full".to_owned(),
            left => format!("full but for {}", show_bytes(left as f64)),
        }
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(Some(if self.is_there() { self.after() } else { self.before() }))
    }

    fn may(&self) -> Result<(), ApplyError> {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(self.folder(), access)
            .map_err(|error| ApplyError::of_write(&self.folder().display().to_string(), &self.after(), &error.into()))
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        if value == self.after() {
            return self.fill();
        }
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ApplyError::of_write(&self.file.display().to_string(), &self.before(), &error))
            }
            _ => Ok(()),
        }
    }

    /// Only a file with a mark of ours is removed.
    fn check(&self) -> Result<(), ApplyError> {
        let name = self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_ours = name.strip_prefix(NAME).is_some_and(place::is_mark) && self.file.is_absolute();
        if is_ours { Ok(()) } else { Err(ApplyError::not_ours(&self.name(), &self.file.display().to_string())) }
    }

    fn identity(&self) -> String {
        self.file.display().to_string()
    }

    fn is_in_parts(&self) -> bool {
        true
    }

    fn told(&self) -> Option<String> {
        let taken = std::fs::symlink_metadata(&self.file).ok()?.blocks() * 512;
        Some(format!("{} taken, {} free", show_bytes(taken as f64), show_bytes(free_bytes(self.folder()).ok()? as f64)))
    }
}

fn device(path: &Path) -> Result<u64, ApplyError> {
    let data = std::fs::metadata(path).map_err(|error| ApplyError::unreadable(&path.display().to_string(), &error))?;
    Ok(data.dev())
}

/// What this process's user may still take of a path's file system, bytes.
fn free_bytes(path: &Path) -> Result<u64, ApplyError> {
    let of = statvfs(path).map_err(|error| ApplyError::unreadable(&path.display().to_string(), &error.into()))?;
    let blocks = if rustix::process::geteuid().is_root() { of.f_bfree } else { of.f_bavail };
    Ok(blocks * of.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Asked, Nobody};

    #[test]
    fn the_machines_own_file_system_is_never_filled() {
        let error = Asked::parse("disk-full /").unwrap().plan(&Nobody).unwrap_err().to_string();
        assert!(error.contains("a file system other than that of /"), "{error}");
        for bad in ["disk-full", "disk-full data", "disk-full /srv leave much", "disk-full /srv leave 1KiB more"] {
            assert!(Asked::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_file_of_ours_is_removed() {
        let of = |file: &str| Filler { file: PathBuf::from(file), left_bytes: 0 };
        assert!(of("/srv/.plimsoll-fault-12-34").check().is_ok());
        for other in ["/srv/data", "/srv/.plimsoll-fault-", "/srv/.plimsoll-fault-1-2/data", ".plimsoll-fault-1-2"] {
            assert!(of(other).check().is_err(), "{other}");
        }
    }
}
