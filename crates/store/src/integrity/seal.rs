//! The seal of a recording: how many rows each table has and their running checksum, and a checksum of each part of the
//! run's own row. It is written with every transaction, so that what is missing is seen in the file of a killed run, too.
//!
//! A row of its own, small whatever the plan: what is written every tick must not take the plan's pages along.

use crate::integrity::checksum::{Chain, Field, of_row};
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
    /// Rows and running checksum of each table.
    pub tables: BTreeMap<String, Sealed>,
}

/// What a table must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sealed {
    /// Its rows.
    pub rows: u64,
    /// Their running checksum.
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
    chains: [Chain; ROWS.len()],
}

impl Books {
    /// Number and checksum of the next row of a table.
    pub fn add(&mut self, table: &'static str, fields: &[Field<'_>]) -> (i64, u32) {
        let mut none = Chain::default();
        let at = ROWS.iter().position(|name| *name == table);
        let chain = at.and_then(|at| self.chains.get_mut(at)).unwrap_or(&mut none);
        let id = i64::try_from(chain.rows() + 1).unwrap_or(i64::MAX);
        let checksum = of_row(table, id, fields);
        chain.add(id, checksum);
        (id, checksum)
    }

    /// Notes a part of the run's row.
    pub fn set_run(&mut self, part: &'static str, fields: &[Field<'_>]) {
        self.run.insert(part, of_part(part, fields));
    }

    /// The seal at this moment.
    pub fn seal(&self) -> Seal {
        let sealed = |chain: &Chain| Sealed { rows: chain.rows(), checksum: chain.checksum() };
        Seal {
            requests: self.requests,
            run: self.run.iter().map(|(part, checksum)| ((*part).to_owned(), *checksum)).collect(),
            tables: ROWS.iter().zip(&self.chains).map(|(name, chain)| ((*name).to_owned(), sealed(chain))).collect(),
        }
    }
}

/// The checksum of a part of the run's row.
pub fn of_part(part: &str, fields: &[Field<'_>]) -> u32 {
    of_row(part, 1, fields)
}
