//! A frame's payload: records, each a kind, lengths, and bytes.

use super::{FRAME_HEAD_BYTES, MARKER};

const SAVE: u8 = 1;
const REMOVE: u8 = 2;
const REMOVE_ALL: u8 = 3;

/// One change of the map, as it is in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The name gets the value.
    Save(&'a [u8], &'a [u8]),
    /// The name is removed.
    Remove(&'a [u8]),
    /// All names are removed.
    RemoveAll,
}

impl Record<'_> {
    /// Bytes of a SAVE besides name and value.
    pub(crate) const SAVE_BYTES: u64 = 9;
}

/// Records gathered for one frame, with room for its head in front.
#[derive(Debug)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
}

impl Default for Payload {
    fn default() -> Self {
        Self { bytes: vec![0; FRAME_HEAD_BYTES] }
    }
}

impl Payload {
    pub(crate) fn push(&mut self, record: Record<'_>) {
        match record {
            Record::Save(name, value) => {
                self.bytes.push(SAVE);
                self.bytes.extend_from_slice(&length(name));
                self.bytes.extend_from_slice(&length(value));
                self.bytes.extend_from_slice(name);
                self.bytes.extend_from_slice(value);
            }
            Record::Remove(name) => {
                self.bytes.push(REMOVE);
                self.bytes.extend_from_slice(&length(name));
                self.bytes.extend_from_slice(name);
            }
            Record::RemoveAll => self.bytes.push(REMOVE_ALL),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - FRAME_HEAD_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(FRAME_HEAD_BYTES);
        // The memory of one unusually large batch is given back.
        self.bytes.shrink_to(1024 * 1024);
    }

    /// The frame, for this place in the file.
    pub(crate) fn seal(&mut self, at: u64) -> &[u8] {
        let size = length(&self.bytes[FRAME_HEAD_BYTES..]);
        let crc = checksum(at, size, &self.bytes[FRAME_HEAD_BYTES..]);
        self.bytes[..8].copy_from_slice(MARKER);
        self.bytes[8..12].copy_from_slice(&size);
        self.bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }
}

/// A frame's checksum. It covers the frame's place in the file, so that a copy of a frame inside a value, or one that
/// was moved, is not taken for a frame.
pub(super) fn checksum(at: u64, size: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&at.to_le_bytes());
    hasher.update(&size);
    hasher.update(payload);
    hasher.finalize()
}

/// The records of a payload; `None` if it is malformed.
pub(super) fn records(mut payload: &[u8]) -> Option<Vec<Record<'_>>> {
    let mut records = Vec::new();
    while let Some((kind, rest)) = payload.split_first() {
        let (record, rest) = match *kind {
            SAVE => {
                let (name, rest) = size(rest)?;
                let (value, rest) = size(rest)?;
                let (name, rest) = rest.split_at_checked(name)?;
                let (value, rest) = rest.split_at_checked(value)?;
                (Record::Save(name, value), rest)
            }
            REMOVE => {
                let (name, rest) = size(rest)?;
                let (name, rest) = rest.split_at_checked(name)?;
                (Record::Remove(name), rest)
            }
            REMOVE_ALL => (Record::RemoveAll, rest),
            _ => return None,
        };
        records.push(record);
        payload = rest;
    }
    Some(records)
}

fn size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*size) as usize, rest))
}

/// A length as four bytes. It fits: a command is far smaller than 4 GiB, and so is a batch.
fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}
