//! The report as a document, `plimsoll.report/1`: fixed names that scripts lean on; more may be added, none change.
//!
//! Times are floats in the unit their name ends in; what was not measured, or of which there were too few, is null
//! (a quantile q from 10 / (1 − q) samples on). The schema in `schema/` is generated from these types.

mod bpf;
pub(crate) mod document;
mod effects;
mod faults;
pub(crate) mod fill;
mod isolation;
mod parts;
mod remote;
pub(crate) mod single;
pub(crate) mod split;

pub use document::*;
pub use effects::{Disruption, Effects};
pub use faults::{Fault, FaultState};
pub use isolation::{Isolated, IsolatedState};
pub use parts::LoadBeside;
pub use remote::Remote;

use model::recording::Row;
use serde::Serialize;
use serde::ser::{Error, SerializeSeq, Serializer};
use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, Write};

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.report/1";

impl Document {
    /// The document with every tick of the recording instead of the bounded timeline. Serialize it once: the rows
    /// are taken as they are written, one at a time, and an error among them is an error of the writing.
    pub fn with_rows<E, I>(self, rows: I) -> Document<Rows<I::IntoIter>>
    where
        E: Display,
        I: IntoIterator<Item = Result<Row, E>>,
    {
        self.with(Rows(RefCell::new(Some(rows.into_iter()))))
    }
}

impl<R: Serialize> Document<R> {
    /// Writes it, indented, with an end of line.
    ///
    /// # Errors
    /// Those of the writer and of the rows.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *to, self)?;
        writeln!(to)
    }
}

/// Intervals that are made while they are written.
#[derive(Debug)]
pub struct Rows<I>(RefCell<Option<I>>);

impl<E: Display, I: Iterator<Item = Result<Row, E>>> Serialize for Rows<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.0.borrow_mut().take().ok_or_else(|| S::Error::custom("the intervals were written already"))?;
        let mut sequence = serializer.serialize_seq(None)?;
        for row in rows {
            sequence.serialize_element(&IntervalRow::of(&row.map_err(S::Error::custom)?))?;
        }
        sequence.end()
    }
}

/// The JSON Schema of [`Document`].
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.to_value()
}
