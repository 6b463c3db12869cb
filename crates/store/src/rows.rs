//! The rows of a table in ascending order, a few at a time, each held against its checksum and all of them against the seal.
//!
//! A row that is not as it was written, or that makes no sense, is noted as damage and left out. Rows must come in ascending
//! order: a page that two parents share would otherwise be read for ever. Where SQLite cannot go on the table ends, and that
//! is noted. Only a file that cannot be read at all is an error.

use crate::error::{StoreError, in_words, read_error};
use crate::integrity::checksum::{Chain, Field, Sum, of_row};
use crate::limits::{BYTES_AT_ONCE, ROWS_AT_ONCE};
use crate::reader::Reader;
use rusqlite::types::ValueRef;
use std::collections::VecDeque;

/// A value as SQLite gives it; only what a recording has.
#[derive(Debug)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// What no recording has.
    Other,
}

impl Value {
    /// A copy of SQLite's.
    pub fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Integer(value) => Value::Integer(value),
            ValueRef::Text(text) => String::from_utf8(text.to_vec()).map_or(Value::Other, Value::Text),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
            ValueRef::Null | ValueRef::Real(_) => Value::Other,
        }
    }

    /// For a checksum.
    pub fn field(&self) -> Field<'_> {
        match self {
            Value::Integer(value) => Field::Integer(*value),
            Value::Text(text) => Field::Text(text.as_bytes()),
            Value::Blob(bytes) => Field::Blob(bytes),
            Value::Other => Field::Other,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Value::Integer(_) | Value::Other => size_of::<i64>(),
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
        }
    }
}

/// A row as it stands in the file.
#[derive(Debug)]
struct Stored {
    id: i64,
    values: Vec<Value>,
    checksum: Value,
}

/// A table that is being read.
#[derive(Debug)]
pub struct Table<'r> {
    reader: &'r Reader,
    name: &'static str,
    sql: String,
    columns: usize,
    last_id: i64,
    fetched: VecDeque<Stored>,
    ended: bool,
    /// Before format 4.
    chain: Chain,
    /// From then on.
    sum: Sum,
    /// How far in the run the rows have come, nanoseconds.
    at_ns: Option<i64>,
}

impl<'r> Table<'r> {
    /// All rows, by these columns.
    pub fn new(reader: &'r Reader, name: &'static str, columns: &[&str]) -> Self {
        let checksum = if reader.has_checksums() { "checksum" } else { "NULL" };
        let columns_sql = columns.join(", ");
        // The number by its own name: of format 1 not every table has it under another.
        let sql =
            format!("SELECT rowid, {checksum}, {columns_sql} FROM {name} WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
        Table {
            reader,
            name,
            sql,
            columns: columns.len(),
            last_id: 0,
            fetched: VecDeque::new(),
            ended: false,
            chain: Chain::default(),
            sum: Sum::default(),
            at_ns: None,
        }
    }

    /// Notes how far in the run the rows have come, nanoseconds: where damage is found, it lies after that.
    pub fn reached(&mut self, at_ns: i64) {
        self.at_ns = Some(at_ns);
    }

    /// The next row of which `of` makes something, by its number and values; a row of which it says what is wrong is
    /// noted and passed over. `None` at the end.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn next<T>(
        &mut self,
        mut of: impl FnMut(u64, Vec<Value>) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        while let Some(Stored { id, values, .. }) = self.next_sound()? {
            match of(id.unsigned_abs(), values) {
                Ok(made) => return Ok(Some(made)),
                Err(what) => self.note(id, &format!("{what}; it is left out")),
            }
        }
        Ok(None)
    }

    fn note(&self, id: i64, what: &str) {
        self.reader.found().row(self.name, id, self.at_ns, what);
    }

    fn next_sound(&mut self) -> Result<Option<Stored>, StoreError> {
        loop {
            if self.fetched.is_empty() && !self.ended {
                self.fetch()?;
            }
            let Some(row) = self.fetched.pop_front() else { return Ok(None) };
            if !self.reader.has_checksums() {
                return Ok(Some(row));
            }
            let fields: Vec<Field<'_>> = row.values.iter().map(Value::field).collect();
            let expected = of_row(self.name, row.id, &fields);
            if matches!(row.checksum, Value::Integer(stored) if stored == i64::from(expected)) {
                return Ok(Some(row));
            }
            self.note(row.id, "it is not what was written, and is left out");
        }
    }

    fn fetch(&mut self) -> Result<(), StoreError> {
        match self.try_fetch() {
            Ok(()) => {}
            Err(error) => match read_error(self.reader.path(), &error) {
                StoreError::Damaged { .. } => {
                    let what = format!("it and what follows cannot be read ({})", in_words(&error));
                    self.end_early(&what);
                }
                error => {
                    self.ended = true;
                    return Err(error);
                }
            },
        }
        Ok(())
    }

    fn end_early(&mut self, what: &str) {
        self.ended = true;
        self.reader.found().rest(self.name, self.last_id.saturating_add(1), self.at_ns, what);
    }

    fn try_fetch(&mut self) -> rusqlite::Result<()> {
        let connection = self.reader.connection();
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut rows = statement.query((self.last_id, ROWS_AT_ONCE as i64))?;
        let mut bytes = 0;
        // A batch stays small even where the file's rows are as large as they may be.
        while bytes < BYTES_AT_ONCE {
            let Some(row) = rows.next()? else {
                if self.fetched.len() < ROWS_AT_ONCE {
                    self.ended = true;
                    self.check_seal();
                }
                break;
            };
            let id = match row.get_ref(0)? {
                ValueRef::Integer(id) if id > self.last_id => id,
                _ => {
                    self.end_early("it is out of order; what follows is not read");
                    break;
                }
            };
            let mut values = Vec::with_capacity(self.columns);
            for column in 0..self.columns {
                values.push(Value::of(row.get_ref(column + 2)?));
            }
            let checksum = Value::of(row.get_ref(1)?);
            self.last_id = id;
            let stored = if let Value::Integer(stored) = checksum { stored as u32 } else { 0 };
            self.chain.add(id, stored);
            self.sum.add(id, stored);
            bytes += values.iter().map(Value::bytes).sum::<usize>();
            self.fetched.push_back(Stored { id, values, checksum });
        }
        Ok(())
    }

    /// After the last row: whether all that were written are there.
    fn check_seal(&self) {
        let Some(sealed) = self.reader.sealed(self.name) else { return };
        // How far SQLite comes may differ from one reading to the next.
        if self.reader.found().is_cut_off(self.name) {
            return;
        }
        let (rows, written) = (self.sum.rows(), sealed.rows);
        let is_of_sums = self.reader.has_merged();
        let checksum = if is_of_sums { self.sum.checksum() } else { self.chain.checksum() };
        let what = match rows.cmp(&written) {
            std::cmp::Ordering::Less => format!("{} of its {written} rows are missing", written - rows),
            std::cmp::Ordering::Greater => format!("it has {rows} rows, and {written} were written"),
            std::cmp::Ordering::Equal if checksum != sealed.checksum => {
                "its rows are not those that were written".to_owned()
            }
            std::cmp::Ordering::Equal => return,
        };
        // A row whose checksum is damaged has been noted itself; a run that goes on has written since.
        let is_noted = self.reader.found().is_noted(self.name);
        if (rows != written || !is_noted) && self.reader.is_still() {
            self.reader.found().place(table_name(self.name), &what);
        }
    }
}

/// How a whole table is named, beside its rows.
fn table_name(name: &'static str) -> &'static str {
    match name {
        "tick" => "the ticks",
        "histogram" => "the ticks' histograms",
        "request" => "the ticks' single requests",
        "split" => "what the target's machine saw of single requests",
        "total_histogram" => "the totals' histograms",
        "snapshot" => "the snapshots",
        "event" => "the events",
        "merged" => "the merged ticks",
        "state" => "what was made of the older ticks",
        other => other,
    }
}
