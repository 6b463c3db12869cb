//! Checksums of rows and of tables, by which damage to a file is told from what was written.
//!
//! CRC-32 (IEEE 802.3), from the crate that the reference servers' journal uses too. Of a row it finds every burst of up to
//! 32 wrong bits, every two wrong bits, every three in rows of up to 11 KiB (Koopman, "32-Bit Cyclic Redundancy Codes for
//! Internet Applications", 2002), and all but one in four thousand million of what is left; damage has to pass the row's,
//! its table's and SQLite's own checks. A digest that nobody can forge would tell no more: who changes a file on purpose
//! makes its checksums anew. Cost: some gigabytes a second where the CPU multiplies without carry, a hundredth of what
//! making a row's JSON takes.

use crc32fast::Hasher;

/// A value of a row, as SQLite stores it.
#[derive(Debug, Clone, Copy)]
pub enum Field<'a> {
    /// A whole number.
    Integer(i64),
    /// Text; as bytes, for a damaged file's need not be UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
    /// What no recording has: nothing, or a float.
    Other,
}

/// The checksum of a row: of its table's name, its number, and kind, length and content of each value, so that no row
/// passes for another and no value for two.
pub fn of_row(table: &str, id: i64, fields: &[Field<'_>]) -> u32 {
    let mut hasher = Hasher::new();
    put(&mut hasher, b't', table.as_bytes());
    put(&mut hasher, b'i', &id.to_le_bytes());
    for field in fields {
        match field {
            Field::Integer(value) => put(&mut hasher, b'i', &value.to_le_bytes()),
            Field::Text(text) => put(&mut hasher, b't', text),
            Field::Blob(bytes) => put(&mut hasher, b'b', bytes),
            Field::Other => put(&mut hasher, b'o', b""),
        }
    }
    hasher.finalize()
}

fn put(hasher: &mut Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// The checksum of a table whose rows may go: the sum of those of its rows' numbers and checksums, in any order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    rows: u64,
    of: u32,
}

impl Sum {
    /// Takes a row in.
    pub fn add(&mut self, id: i64, checksum: u32) {
        self.rows += 1;
        self.of = self.of.wrapping_add(Sum::of_row(id, checksum));
    }

    /// Lets a row go that was taken in.
    pub fn remove(&mut self, id: i64, checksum: u32) {
        self.rows = self.rows.saturating_sub(1);
        self.of = self.of.wrapping_sub(Sum::of_row(id, checksum));
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The checksum of all of them.
    pub fn checksum(&self) -> u32 {
        self.of
    }

    fn of_row(id: i64, checksum: u32) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&id.to_le_bytes());
        hasher.update(&checksum.to_le_bytes());
        hasher.finalize()
    }
}

/// The running checksum of a table before format 4: of its rows' numbers and checksums, in their order.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    hasher: Hasher,
}

impl Chain {
    /// Takes a row in.
    pub fn add(&mut self, id: i64, checksum: u32) {
        self.hasher.update(&id.to_le_bytes());
        self.hasher.update(&checksum.to_le_bytes());
    }

    /// The checksum of all of them.
    pub fn checksum(&self) -> u32 {
        self.hasher.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_passes_for_another() {
        let row = of_row("tick", 1, &[Field::Integer(7), Field::Text(b"ab"), Field::Blob(b"c")]);
        for other in [
            of_row("tack", 1, &[Field::Integer(7), Field::Text(b"ab"), Field::Blob(b"c")]),
            of_row("tick", 2, &[Field::Integer(7), Field::Text(b"ab"), Field::Blob(b"c")]),
            of_row("tick", 1, &[Field::Integer(3), Field::Text(b"ab"), Field::Blob(b"c")]),
            of_row("tick", 1, &[Field::Integer(7), Field::Text(b"a"), Field::Blob(b"bc")]),
            of_row("tick", 1, &[Field::Integer(7), Field::Blob(b"ab"), Field::Blob(b"c")]),
            of_row("tick", 1, &[Field::Integer(7), Field::Text(b"ab"), Field::Other]),
            of_row("tick", 1, &[Field::Integer(7), Field::Text(b"ab")]),
        ] {
            assert_ne!(row, other);
        }
    }

    #[test]
    fn a_sum_tells_what_a_chain_does_and_lets_rows_go() {
        let of = |rows: &[(i64, u32)]| {
            let mut sum = Sum::default();
            rows.iter().for_each(|(id, checksum)| sum.add(*id, *checksum));
            sum
        };
        let whole = of(&[(1, 5), (2, 6), (3, 7)]);
        for other in [of(&[(1, 5), (3, 7)]), of(&[(1, 5), (2, 6), (2, 6), (3, 7)]), of(&[(1, 6), (2, 5), (3, 7)])] {
            assert_ne!((whole.rows(), whole.checksum()), (other.rows(), other.checksum()));
        }
        let mut less = whole;
        less.remove(1, 5);
        let rest = of(&[(3, 7), (2, 6)]);
        assert_eq!((less.rows(), less.checksum()), (rest.rows(), rest.checksum()));
    }

    #[test]
    fn a_chain_tells_a_row_that_is_missing_doubled_or_elsewhere() {
        let of = |rows: &[(i64, u32)]| {
            let mut chain = Chain::default();
            rows.iter().for_each(|(id, checksum)| chain.add(*id, *checksum));
            chain.checksum()
        };
        let whole = of(&[(1, 5), (2, 6), (3, 7)]);
        for other in [of(&[(1, 5), (3, 7)]), of(&[(1, 5), (2, 6), (2, 6), (3, 7)]), of(&[(1, 6), (2, 5), (3, 7)])] {
            assert_ne!(whole, other);
        }
    }
}
