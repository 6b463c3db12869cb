//! The values under their names, and how large they are.
//!
//! Hashed with std's keyed SipHash: names come from clients, who must not be able to choose collisions.

use std::collections::HashMap;

use super::limits;

/// Names and values.
#[derive(Debug, Default)]
pub(super) struct Map {
    entries: HashMap<Box<[u8]>, Box<[u8]>>,
    /// Bytes of names and values.
    bytes: u64,
}

/// What is needed to take a change back.
pub(super) enum Undo {
    /// The value that the name had before, if it had one.
    Entry(Box<[u8]>, Option<Box<[u8]>>),
    /// All names and values there were before.
    All(Map),
}

impl Map {
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// About how much memory the map takes, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.bytes + self.len() * limits::ENTRY_BYTES
    }

    /// Bytes of all names and values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What `insert` would make of [`Map::held_bytes`].
    pub(super) fn held_bytes_with(&self, name: &[u8], value: &[u8]) -> u64 {
        match self.entries.get(name) {
            Some(old) => self.held_bytes() - old.len() as u64 + value.len() as u64,
            None => self.held_bytes() + (name.len() + value.len()) as u64 + limits::ENTRY_BYTES,
        }
    }

    pub(super) fn load(&self, name: &[u8]) -> Option<&[u8]> {
        self.entries.get(name).map(AsRef::as_ref)
    }

    pub(super) fn insert(&mut self, name: &[u8], value: Box<[u8]>) -> Option<Box<[u8]>> {
        self.bytes += value.len() as u64;
        match self.entries.get_mut(name) {
            Some(held) => {
                self.bytes -= held.len() as u64;
                Some(std::mem::replace(held, value))
            }
            None => {
                self.bytes += name.len() as u64;
                self.entries.insert(name.into(), value)
            }
        }
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Box<[u8]>> {
        let value = self.entries.remove(name)?;
        self.bytes -= (name.len() + value.len()) as u64;
        Some(value)
    }

    pub(super) fn undo(&mut self, change: Undo) {
        match change {
            Undo::Entry(name, Some(value)) => {
                self.insert(&name, value);
            }
            Undo::Entry(name, None) => {
                self.remove(&name);
            }
            Undo::All(all) => *self = all,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(name, value)| (&**name, &**value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_every_change_and_its_undoing() {
        let mut map = Map::default();
        assert_eq!(map.held_bytes_with(b"ab", b"cde"), 5 + limits::ENTRY_BYTES);
        map.insert(b"ab", Box::from(*b"cde"));
        assert_eq!(map.bytes, 5);
        assert_eq!(map.held_bytes_with(b"ab", b"c"), 3 + limits::ENTRY_BYTES);
        let old = map.insert(b"ab", Box::from(*b"c"));
        assert_eq!((map.bytes, old.as_deref()), (3, Some(&b"cde"[..])));
        map.undo(Undo::Entry(Box::from(*b"ab"), old));
        assert_eq!(map.load(b"ab"), Some(&b"cde"[..]));
        let old = map.remove(b"ab");
        assert_eq!((map.bytes, map.len()), (0, 0));
        map.undo(Undo::Entry(Box::from(*b"ab"), old));
        map.insert(b"x", Box::from(*b""));
        map.undo(Undo::Entry(Box::from(*b"x"), None));
        assert_eq!((map.bytes, map.len()), (5, 1));
        let all = std::mem::take(&mut map);
        map.undo(Undo::All(all));
        assert_eq!((map.bytes, map.len(), map.iter().count()), (5, 1, 1));
    }
}
