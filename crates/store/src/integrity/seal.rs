//! The seal of a recording: how many rows each table has and the checksum of them all, and a checksum of each part of the
//! run's own row. It is written with every transaction, so that what is missing is seen in the file of a killed run, too.
//!
//! A row of its own, small whatever the plan: what is written every tick must not take the plan's pages along.

use crate::integrity::checksum::{Field, Sum, of_row};
use crate::schema::ROWS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The table it is in, and the number of its row.
pub const TABLE: &str = "seal";

/// What the file's parts must come to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seal {
    /// Requests that ended.
    pub requests: u64,
    /// The checksum of each part of the run's row that is there.
    pub run: BTreeMap<String, u32>,
    /// Rows and checksum of each table.
    pub tables: BTreeMap<String, Sealed>,
}

/// What a table must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sealed {
    /// Its rows.
    pub rows: u64,
    /// Their checksum: before format 4 a running one in their order, from then on a sum.
    pub checksum: u32,
}

/// The checksum of the row that holds a seal's text.
pub fn of_seal(body: &[u8]) -> u32 {
    of_row(TABLE, 1, &[Field::Text(body)])
}

/// The books of a recording being written. A copy is changed with a transaction, and takes the place of the original once
/// that is in the file.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// Requests that ended.
    pub requests: u64,
    run: BTreeMap<&'static str, u32>,
    books: [Book; ROWS.len()],
}

/// The book of a table.
#[derive(Debug, Clone, Copy, Default)]
struct Book {
    /// The highest number of a row that it ever had.
    last_id: i64,
    sum: Sum,
}

impl Books {
    /// Number and checksum of the next row of a table.
    pub fn add(&mut self, table: &'static str, fields: &[Field<'_>]) -> (i64, u32) {
        let id = self.last_id(table).saturating_add(1);
        (id, self.add_as(table, id, fields))
    }

    /// The checksum of a row that is added under a number of its own.
    pub fn add_as(&mut self, table: &'static str, id: i64, fields: &[Field<'_>]) -> u32 {
        let checksum = of_row(table, id, fields);
        if let Some(book) = self.book(table) {
            book.last_id = book.last_id.max(id);
            book.sum.add(id, checksum);
        }
        checksum
    }

    /// Notes that a row goes.
    pub fn remove(&mut self, table: &'static str, id: i64, checksum: u32) {
        if let Some(book) = self.book(table) {
            book.sum.remove(id, checksum);
        }
    }

    /// The number of a table's last row; 0: it never had one.
    pub fn last_id(&self, table: &'static str) -> i64 {
        let at = ROWS.iter().position(|name| *name == table);
        at.and_then(|at| self.books.get(at)).map_or(0, |book| book.last_id)
    }

    /// How many rows a table has.
    pub fn rows(&self, table: &'static str) -> u64 {
        let at = ROWS.iter().position(|name| *name == table);
        at.and_then(|at| self.books.get(at)).map_or(0, |book| book.sum.rows())
    }

    fn book(&mut self, table: &'static str) -> Option<&mut Book> {
        let at = ROWS.iter().position(|name| *name == table)?;
        self.books.get_mut(at)
    }

    /// Notes a part of the run's row.
    pub fn set_run(&mut self, part: &'static str, fields: &[Field<'_>]) {
        self.run.insert(part, of_part(part, fields));
    }

    /// The seal at this moment.
    pub fn seal(&self) -> Seal {
        let sealed = |book: &Book| Sealed { rows: book.sum.rows(), checksum: book.sum.checksum() };
        Seal {
            requests: self.requests,
            run: self.run.iter().map(|(part, checksum)| ((*part).to_owned(), *checksum)).collect(),
            tables: ROWS.iter().zip(&self.books).map(|(name, book)| ((*name).to_owned(), sealed(book))).collect(),
        }
    }
}

/// The checksum of a part of the run's row.
pub fn of_part(part: &str, fields: &[Field<'_>]) -> u32 {
    of_row(part, 1, fields)
}
