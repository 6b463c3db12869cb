//! The journal: every change on the disk before it is acknowledged, in frames, one a batch.
//!
//! A file is `MAGIC`, then frames: `MARKER`, length (u32), CRC-32 of place, length and payload (u32), payload; little
//! endian. A frame is written only when all before it are on the disk, so a crash can tear none but the last, and
//! damage in front of a sound frame is no crash's doing. That the last acknowledged frame was damaged later cannot be
//! told from a torn one.

mod record;
mod recover;

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::NamesError;
use super::map::Map;
pub(super) use record::{Payload, Record};
pub(super) use recover::Recovered;

/// What a journal begins with.
const MAGIC: &[u8; 16] = b"plimsoll names 1";
/// What a frame begins with: bytes that hardly ever follow each other in a value.
const MARKER: &[u8; 8] = b"\x89\xf7nam\r\n\x1a";
/// Size of a frame's head: marker, length, checksum.
const FRAME_HEAD_BYTES: usize = 16;
/// About how large a frame's payload becomes in a rewritten journal.
const REWRITE_FRAME_BYTES: usize = 1024 * 1024;

/// Keeps other processes from the journal, as long as it lives: an flock(2) on a file beside it, which stays.
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Given back by name: a process that another thread forks has a copy of the descriptor until it calls exec(2), and
    /// closing ours would leave the lock with that one.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Takes the lock of a journal.
pub(super) fn lock(path: &Path) -> Result<Lock, NamesError> {
    let beside = with_ending(path, ".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&beside);
    let file = file.map_err(|source| NamesError::Journal { doing: "lock", path: path.to_owned(), source })?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock { file }),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(NamesError::JournalInUse { path: path.to_owned() }),
        Err(error) => Err(NamesError::Journal { doing: "lock", path: path.to_owned(), source: error.into() }),
    }
}

/// A journal to append to.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The error after which nothing is appended any more.
    broken: Option<io::Error>,
}

impl Journal {
    /// Opens the journal, or makes it; `map` gets what it holds.
    pub(super) fn open(path: &Path, map: &mut Map) -> Result<(Self, Recovered), NamesError> {
        let failed = |doing| move |source| NamesError::Journal { doing, path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(path).map_err(failed("open"))?;
        let mut recovered = recover::read(path, &file, map)?;
        let mut journal = Self { path: path.to_owned(), file, bytes: recovered.sound_bytes, broken: None };
        if recovered.cut_bytes > 0 || recovered.sound_bytes == 0 {
            journal.cut_and_begin().map_err(failed("prepare"))?;
            recovered.sound_bytes = journal.bytes;
        }
        Ok((journal, recovered))
    }

    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts what was gathered on the disk; the payload is empty then. On failure the journal is as before.
    pub(super) fn commit(&mut self, payload: &mut Payload) -> io::Result<()> {
        if let Some(broken) = &self.broken {
            return Err(io::Error::new(broken.kind(), format!("an earlier write could not be taken back: {broken}")));
        }
        let frame = payload.seal(self.bytes);
        let written = self.file.seek(SeekFrom::Start(self.bytes)).and_then(|_| self.file.write_all(frame));
        let result = match written {
            Ok(()) => match self.file.sync_data() {
                Ok(()) => {
                    self.bytes += frame.len() as u64;
                    Ok(())
                }
                // What the kernel still holds of it may be dropped or kept: the file can no longer be known.
                Err(error) => {
                    self.broken = Some(copy(&error));
                    Err(error)
                }
            },
            Err(error) => {
                if let Err(stays) = self.file.set_len(self.bytes) {
                    self.broken = Some(stays);
                }
                Err(error)
            }
        };
        payload.clear();
        result
    }

    /// Writes the map to a new file, which then takes this one's place. On failure this one stays.
    pub(super) fn rewrite(&mut self, map: &Map) -> io::Result<()> {
        let beside = with_ending(&self.path, ".new");
        let made = write_new(&beside, map).and_then(|made| {
            std::fs::rename(&beside, &self.path)?;
            Ok(made)
        });
        match made {
            Ok((file, bytes)) => {
                // The rename succeeded, so the new file is the journal even if what follows fails.
                (self.file, self.bytes, self.broken) = (file, bytes, None);
                if let Err(error) = sync_folder(&self.path) {
                    // The name may still lead to the old file after a power cut: nothing more may be promised.
                    self.broken = Some(copy(&error));
                    return Err(error);
                }
                Ok(())
            }
            Err(error) => {
                // If it cannot be removed it only takes space; the next attempt overwrites it.
                let _ = std::fs::remove_file(&beside);
                Err(error)
            }
        }
    }

    fn cut_and_begin(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        if self.bytes == 0 {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(MAGIC)?;
            self.bytes = MAGIC.len() as u64;
        }
        self.file.sync_all()?;
        sync_folder(&self.path)
    }
}

/// What a rewritten journal of the map has, but for its frames' heads.
pub(super) fn payload_bytes(map: &Map) -> u64 {
    map.bytes() + map.len() * Record::SAVE_BYTES
}

fn write_new(path: &Path, map: &Map) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
    file.write_all(MAGIC)?;
    let mut bytes = MAGIC.len() as u64;
    let mut payload = Payload::default();
    let mut flush = |payload: &mut Payload| -> io::Result<()> {
        let frame = payload.seal(bytes);
        file.write_all(frame)?;
        bytes += frame.len() as u64;
        payload.clear();
        Ok(())
    };
    for (name, value) in map.iter() {
        payload.push(Record::Save(name, value));
        if payload.len() >= REWRITE_FRAME_BYTES {
            flush(&mut payload)?;
        }
    }
    if !payload.is_empty() {
        flush(&mut payload)?;
    }
    file.sync_all()?;
    Ok((file, bytes))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests;
