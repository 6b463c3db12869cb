//! What of a recording was found not to be as it was written, each place once however often it is read.
//!
//! Tables are read in ascending order, so the highest damaged row of each is all that must be remembered.

use crate::limits::DAMAGE_NAMED_MAX;
use model::integrity::{Damage, Integrity};
use std::collections::BTreeMap;

/// What was found so far.
#[derive(Debug, Default)]
pub struct Found {
    integrity: Integrity,
    /// Of each table, the highest row that is noted.
    noted: BTreeMap<&'static str, i64>,
}

impl Found {
    /// Notes a row of a table that is read in ascending order.
    pub fn row(&mut self, table: &'static str, id: i64, at_ns: Option<i64>, what: &str) {
        let highest = self.noted.entry(table).or_insert(i64::MIN);
        if id > *highest {
            *highest = id;
            self.push(format!("{table} {id}"), at_ns, what.to_owned());
        }
    }

    /// Notes that a table cannot be read from a row on.
    pub fn rest(&mut self, table: &'static str, from_id: i64, at_ns: Option<i64>, what: &str) {
        self.row(table, from_id, at_ns, what);
        // Where SQLite stops depends on what it is asked for: once is enough.
        self.noted.insert(table, i64::MAX);
    }

    /// Notes a table, a part of the run's row, or another place.
    pub fn place(&mut self, place: &'static str, what: &str) {
        if self.noted.insert(place, i64::MAX) != Some(i64::MAX) {
            self.push(place.to_owned(), None, what.to_owned());
        }
    }

    /// Whether a row of a table, or the table, is noted.
    pub fn is_noted(&self, table: &str) -> bool {
        self.noted.contains_key(table)
    }

    /// Whether a table was read only up to some row.
    pub fn has_ended_early(&self, table: &str) -> bool {
        self.noted.get(table) == Some(&i64::MAX)
    }

    /// All of it.
    pub fn integrity(&self) -> &Integrity {
        &self.integrity
    }

    /// Notes that there are no checksums.
    pub fn set_without_checksums(&mut self) {
        self.integrity.without_checksums = true;
    }

    fn push(&mut self, place: String, at_ns: Option<i64>, what: String) {
        if self.integrity.damage.len() < DAMAGE_NAMED_MAX {
            self.integrity.damage.push(Damage { place, at_s: at_ns.map(|ns| ns as f64 / 1e9), what });
        } else {
            self.integrity.damage_lost += 1;
        }
    }
}
