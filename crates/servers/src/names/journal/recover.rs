//! Reading a journal back: every sound frame into the map, and what follows the last judged.
//!
//! A frame at a time is in memory. Behind a damaged frame the file is searched for a sound one: there is none after a
//! crash, and the damaged end is cut off; if there is one, the file was damaged by something else and is refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;

use super::super::error::NamesError;
use super::super::limits;
use super::super::map::Map;
use super::record::{self, Record};
use super::{FRAME_HEAD_BYTES, MAGIC, MARKER};

/// What was read back from a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Records read.
    pub(crate) records: u64,
    /// Bytes up to the end of the last sound frame.
    pub(crate) sound_bytes: u64,
    /// Bytes behind that: a torn frame.
    pub(crate) cut_bytes: u64,
}

/// Reads a journal into `map`.
pub(super) fn read(path: &Path, file: &File, map: &mut Map) -> Result<Recovered, NamesError> {
    let failed = |source| NamesError::Journal { doing: "read", path: path.to_owned(), source };
    let end = file.metadata().map_err(failed)?.len();
    let mut magic = [0; MAGIC.len()];
    let head = usize::try_from(end).unwrap_or(usize::MAX).min(MAGIC.len());
    file.read_exact_at(&mut magic[..head], 0).map_err(failed)?;
    if !MAGIC.starts_with(&magic[..head]) {
        return Err(NamesError::NotAJournal { path: path.to_owned() });
    }
    if head < MAGIC.len() {
        // Shorter than its head: the server crashed while it made the file.
        return Ok(Recovered { cut_bytes: end, ..Recovered::default() });
    }
    let mut recovered = Recovered { sound_bytes: MAGIC.len() as u64, ..Recovered::default() };
    let mut payload = Vec::new();
    while frame(file, recovered.sound_bytes, end, &mut payload).map_err(failed)? {
        let damaged = || NamesError::JournalDamaged { path: path.to_owned(), at: recovered.sound_bytes };
        // The checksum is right and the payload malformed: this program did not write it.
        for record in record::records(&payload).ok_or_else(damaged)? {
            recovered.records += 1;
            match record {
                Record::Save(name, value) => drop(map.insert(name, value.into())),
                Record::Remove(name) => drop(map.remove(name)),
                Record::RemoveAll => *map = Map::default(),
            }
        }
        recovered.sound_bytes += (FRAME_HEAD_BYTES + payload.len()) as u64;
    }
    if recovered.sound_bytes < end {
        if another_follows(file, recovered.sound_bytes + 1, end).map_err(failed)? {
            return Err(NamesError::JournalDamaged { path: path.to_owned(), at: recovered.sound_bytes });
        }
        recovered.cut_bytes = end - recovered.sound_bytes;
    }
    Ok(recovered)
}

/// Whether a sound frame is at `at`; its payload.
fn frame(file: &File, at: u64, end: u64, payload: &mut Vec<u8>) -> io::Result<bool> {
    let Some(room) = end.checked_sub(at + FRAME_HEAD_BYTES as u64) else { return Ok(false) };
    let mut head = [0; FRAME_HEAD_BYTES];
    file.read_exact_at(&mut head, at)?;
    let (size, crc) = ([head[8], head[9], head[10], head[11]], [head[12], head[13], head[14], head[15]]);
    let bytes = u32::from_le_bytes(size);
    let fits = bytes > 0 && u64::from(bytes) <= room && bytes as usize <= limits::FRAME_BYTES_MAX;
    if head[..8] != *MARKER || !fits {
        return Ok(false);
    }
    payload.resize(bytes as usize, 0);
    file.read_exact_at(payload, at + FRAME_HEAD_BYTES as u64)?;
    Ok(record::checksum(at, size, payload) == u32::from_le_bytes(crc))
}

/// Whether a sound frame begins anywhere in this part of the file.
fn another_follows(file: &File, from: u64, end: u64) -> io::Result<bool> {
    let finder = memmem::Finder::new(MARKER);
    let mut window = vec![0; 1024 * 1024];
    let mut payload = Vec::new();
    let mut looked = 0;
    let mut at = from;
    while at + (MARKER.len() as u64) <= end {
        let size = usize::try_from(end - at).unwrap_or(usize::MAX).min(window.len());
        file.read_exact_at(&mut window[..size], at)?;
        for found in finder.find_iter(&window[..size]) {
            if frame(file, at + found as u64, end, &mut payload)? {
                return Ok(true);
            }
            // Values made to look like frames cost a look each: rather refuse than look for hours.
            looked += payload.len() as u64;
            if looked > limits::DAMAGE_SEARCH_BYTES_MAX {
                return Ok(true);
            }
        }
        // A marker may lie across the end of this window.
        at += (size - (MARKER.len() - 1)) as u64;
    }
    Ok(false)
}
