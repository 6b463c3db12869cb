//! Data for requests: rows of a file, and in which order they are taken.
//!
//! A plan says which columns there are and how many rows; the rows themselves are behind [`Rows`], as they may be more than
//! memory holds, and are not stored with it. A row is read into [`RowBuffer`], whose memory is used again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// In which order rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after another, and from the first again; over all workers each as often as any other.
    #[default]
    Sequential,
    /// Each time any, each as likely.
    Random,
    /// One after another, each once in the run; the load ends when all are used up.
    Unique,
}

/// A file of data, as a plan has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataFile {
    /// The name that its columns have in front, as in `{{users.id}}`; empty: they have none.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows. At least 1.
    pub rows: u64,
    /// In which order they are taken.
    pub order: Order,
    /// The rows; not stored with the plan.
    #[serde(skip)]
    pub source: RowSource,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Bytes of its longest value.
    pub longest: u32,
}

impl DataFile {
    /// The column that a template's name means.
    pub fn column(&self, name: &str) -> Option<usize> {
        let own = match self.name.as_str() {
            "" => name,
            prefix => name.strip_prefix(prefix)?.strip_prefix('.')?,
        };
        self.columns.iter().position(|column| column.name == own)
    }
}

/// Rows that can be read in any order.
pub trait Rows: fmt::Debug + Send + Sync {
    /// Reads a row, counted from 0, into a buffer. `false`: it could not be read.
    fn read(&self, row: u64, into: &mut RowBuffer) -> bool;
}

/// The rows of a file; none of a plan that was read back from a recording.
#[derive(Clone, Default)]
pub struct RowSource(pub Option<Arc<dyn Rows>>);

impl fmt::Debug for RowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "rows" } else { "no rows" })
    }
}

/// What is stored is the same.
impl PartialEq for RowSource {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// The fields of one row.
#[derive(Debug, Clone, Default)]
pub struct RowBuffer {
    /// The fields' bytes, one behind the other.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<u32>,
    /// Memory for what a row is read from.
    pub block: Vec<u8>,
}

impl RowBuffer {
    /// Forgets the row, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// A field ends here.
    pub fn end_field(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }

    /// A field; empty where there is none.
    #[inline]
    pub fn field(&self, column: usize) -> &[u8] {
        let start = column.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        let end = self.ends.get(column).map_or(start, |end| *end as usize);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Rows in memory, packed: all fields one behind the other.
#[derive(Debug, Default)]
pub struct PackedRows {
    columns: usize,
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<u32>,
}

impl PackedRows {
    /// None yet, of so many columns.
    pub fn new(columns: usize) -> Self {
        PackedRows { columns, ..PackedRows::default() }
    }

    /// Adds a row; `false`: it has another number of fields, or there is no room for it.
    pub fn push(&mut self, row: &RowBuffer) -> bool {
        let before = self.bytes.len();
        if row.ends.len() != self.columns || u32::try_from(before + row.bytes.len()).is_err() {
            return false;
        }
        self.bytes.extend_from_slice(&row.bytes);
        self.ends.extend(row.ends.iter().map(|end| end + before as u32));
        true
    }

    /// Memory it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<u32>()
    }
}

impl Rows for PackedRows {
    fn read(&self, row: u64, into: &mut RowBuffer) -> bool {
        into.clear();
        let first = usize::try_from(row).ok().and_then(|row| row.checked_mul(self.columns));
        let ends = first.and_then(|first| self.ends.get(first..first.checked_add(self.columns)?));
        let (Some(first), Some(ends)) = (first, ends) else { return false };
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let end = ends.last().copied().unwrap_or(start);
        into.bytes.extend_from_slice(&self.bytes[start as usize..end as usize]);
        into.ends.extend(ends.iter().map(|end| end - start));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[&str]) -> RowBuffer {
        let mut row = RowBuffer::default();
        for field in fields {
            row.bytes.extend_from_slice(field.as_bytes());
            row.end_field();
        }
        row
    }

    #[test]
    fn packed_rows_come_back_as_they_were() {
        let mut packed = PackedRows::new(3);
        let rows = [["a", "", "ccc"], ["", "", ""], ["x", "yy", ""]];
        assert!(rows.iter().all(|fields| packed.push(&row(fields))));
        assert!(!packed.push(&row(&["too", "few"])));
        let mut into = RowBuffer::default();
        for (number, fields) in rows.iter().enumerate().rev() {
            assert!(packed.read(number as u64, &mut into));
            let read: Vec<&[u8]> = (0..4).map(|column| into.field(column)).collect();
            let expected: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).chain([&b""[..]]).collect();
            assert_eq!(read, expected);
        }
        assert!(!packed.read(3, &mut into) && !packed.read(u64::MAX, &mut into));
        assert_eq!(into.field(0), b"");
    }

    #[test]
    fn a_column_is_found_by_its_name_with_the_files_in_front() {
        let column = |name: &str| Column { name: name.to_owned(), longest: 1 };
        let mut file = DataFile {
            name: String::new(),
            path: PathBuf::new(),
            columns: vec![column("id"), column("users.id")],
            rows: 1,
            order: Order::Random,
            source: RowSource::default(),
        };
        assert_eq!([file.column("id"), file.column("users.id"), file.column("x")], [Some(0), Some(1), None]);
        file.name = "users".to_owned();
        assert_eq!([file.column("users.id"), file.column("id"), file.column("usersid")], [Some(0), None, None]);
    }
}
