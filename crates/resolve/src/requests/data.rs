//! Files of data for requests: CSV (RFC 4180, the first row names the columns) and, by the name `.jsonl` or `.ndjson`, JSON
//! Lines (an object a line, the first names the columns).
//!
//! A file is read once before the load: every row is checked, counted and measured. What takes at most
//! [`MEMORY_BYTES_MAX`] is kept, packed, and a row is then a copy. Of a larger file only the offset of every
//! [`ROWS_A_MARK`]th row is kept (half a byte a row), and a row is a `pread` of those and a parse while load is put on: 5 to
//! 20 µs from the page cache, longer from a disk, which the report shows as the generator's. Such a file must stay as it is
//! until the load has ended.
//! Not here: other encodings than UTF-8, compressed files, other separators than the comma.

use crate::say::error::ResolveError;
use crate::say::field::Field;
use model::data::{Column, DataFile, Order, PackedRows, RowBuffer, RowSource, Rows};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Files of data.
pub(crate) const DATA: Field = Field::Own("data");

/// Rows that take at most so much are kept in memory, bytes.
const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Of a larger file the offset of each so many rows is kept.
const ROWS_A_MARK: u64 = 16;
/// The longest row, bytes: a request made of it must be one that can be sent at once.
const ROW_BYTES_MAX: usize = 64 * 1024;
/// Columns at most.
const COLUMNS_MAX: usize = 256;
/// Files of data at most.
pub(crate) const FILES_MAX: usize = 16;

/// Opens a file, written `FILE` or `NAME=FILE`.
///
/// # Errors
/// A file that cannot be read, is no regular one, or has no rows; a row that is not as the others.
pub(crate) fn open(written: &str, order: Order) -> Result<DataFile, ResolveError> {
    open_with(written, order, MEMORY_BYTES_MAX)
}

/// The rows of a file that is known already, read from where it lies now.
///
/// # Errors
/// As of any file of data.
pub fn data_rows(path: &Path, order: Order) -> Result<DataFile, ResolveError> {
    open(&path.to_string_lossy(), order)
}

fn open_with(written: &str, order: Order, memory_bytes_max: usize) -> Result<DataFile, ResolveError> {
    let (name, path) = match written.split_once('=') {
        // A path with an equals sign in it has a slash before that, or is written ./so.
        Some((name, path)) if model::template::is_name(name) => (name, Path::new(path)),
        _ => ("", Path::new(written)),
    };
    let cannot = |source| ResolveError::CannotRead { field: DATA, path: path.to_owned(), source };
    let file = File::open(path).map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(ResolveError::bad_value(DATA, "a regular file, as rows are read again", path.display()));
    }
    let refused = |why: String| ResolveError::BadData { path: path.to_owned(), why };
    let of_format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("jsonl" | "ndjson") => Format::JsonLines,
        _ => Format::Csv,
    };
    let read = of_format.index(&file, memory_bytes_max).map_err(refused)?;
    let Index { columns, rows, packed, marks, bytes } = read;
    let source: Arc<dyn Rows> = match packed {
        Some(packed) => Arc::new(packed),
        None => {
            let names = columns.iter().map(|column| column.name.clone()).collect();
            Arc::new(IndexedRows { file, format: of_format, columns: names, marks, rows, bytes })
        }
    };
    Ok(DataFile { name: name.to_owned(), path: path.to_owned(), columns, rows, order, source: RowSource(Some(source)) })
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    JsonLines,
}

/// What reading a file once has found.
struct Index {
    columns: Vec<Column>,
    rows: u64,
    /// All rows, where there is room for them.
    packed: Option<PackedRows>,
    /// The offset of each [`ROWS_A_MARK`]th row.
    marks: Vec<u64>,
    /// The file's length.
    bytes: u64,
}

/// Takes rows in.
struct Indexing {
    index: Index,
    memory_bytes_max: usize,
}

impl Indexing {
    fn new(names: Vec<String>, bytes: u64, memory_bytes_max: usize) -> Result<Self, String> {
        if names.len() > COLUMNS_MAX {
            return Err(format!("expected at most {COLUMNS_MAX} columns, got {}", names.len()));
        }
        for (at, name) in names.iter().enumerate() {
            if !model::template::is_name(name) {
                let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                let first = "the first row names the columns";
                return Err(format!(
                    "expected a column's name of letters, digits, '_', '-' and '.', none that is built in, got '{shown}': {first}"
                ));
            }
            if names[..at].contains(name) {
                return Err(format!("the column '{name}' is there twice: name each differently"));
            }
        }
        let packed = Some(PackedRows::new(names.len()));
        let columns = names.into_iter().map(|name| Column { name, longest: 0 }).collect();
        Ok(Indexing { index: Index { columns, rows: 0, packed, marks: Vec::new(), bytes }, memory_bytes_max })
    }

    fn row(&mut self, row: &RowBuffer, offset: u64) -> Result<(), String> {
        let index = &mut self.index;
        if row.bytes.len() > ROW_BYTES_MAX {
            return Err(format!("row {} has {} bytes, of at most {ROW_BYTES_MAX}", index.rows + 1, row.bytes.len()));
        }
        for (at, column) in index.columns.iter_mut().enumerate() {
            column.longest = column.longest.max(row.field(at).len() as u32);
        }
        if index.rows.is_multiple_of(ROWS_A_MARK) {
            index.marks.push(offset);
        }
        index.rows += 1;
        if let Some(packed) = &mut index.packed {
            let is_in = packed.push(row);
            if !is_in || packed.memory_bytes() > self.memory_bytes_max {
                index.packed = None;
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Index, String> {
        if self.index.rows == 0 {
            return Err("expected at least one row behind the columns' names, got none".to_owned());
        }
        Ok(self.index)
    }
}

impl Format {
    /// Reads all of a file.
    fn index(self, file: &File, memory_bytes_max: usize) -> Result<Index, String> {
        let bytes = file.metadata().map_err(|error| error.to_string())?.len();
        match self {
            Format::Csv => index_csv(file, bytes, memory_bytes_max),
            Format::JsonLines => index_json_lines(file, bytes, memory_bytes_max),
        }
    }

    /// Reads one of the rows that a piece of a file has, counted from 0.
    fn row(self, piece: &[u8], columns: &[String], number: u64, into: &mut RowBuffer) -> bool {
        let skip = usize::try_from(number).unwrap_or(usize::MAX);
        match self {
            Format::Csv => {
                let mut records = csv_reader(piece).into_byte_records();
                let record = records.nth(skip);
                matches!(record, Some(Ok(record)) if record.len() == columns.len() && { take_fields(record.iter(), into); true })
            }
            Format::JsonLines => {
                let mut lines = piece.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
                lines.nth(skip).is_some_and(|line| json_row(line, columns, into).is_ok())
            }
        }
    }
}

fn csv_reader<R: Read>(from: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new().has_headers(false).from_reader(from)
}

fn take_fields<'f>(fields: impl Iterator<Item = &'f [u8]>, into: &mut RowBuffer) {
    into.clear();
    for field in fields {
        into.bytes.extend_from_slice(field);
        into.end_field();
    }
}

fn index_csv(file: &File, bytes: u64, memory_bytes_max: usize) -> Result<Index, String> {
    let mut reader = csv_reader(file);
    let (mut record, mut row) = (csv::ByteRecord::new(), RowBuffer::default());
    let text = |error: csv::Error| error.to_string();
    if !reader.read_byte_record(&mut record).map_err(text)? {
        return Err("expected a first row with the columns' names, got an empty file".to_owned());
    }
    let name = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
    let mut names: Vec<String> = record.iter().map(name).collect();
    // A byte order mark, as spreadsheets write it.
    if let Some(first) = names.first_mut() {
        *first = first.trim_start_matches('\u{feff}').to_owned();
    }
    let mut indexing = Indexing::new(names, bytes, memory_bytes_max)?;
    loop {
        let offset = reader.position().byte();
        if !reader.read_byte_record(&mut record).map_err(text)? {
            return indexing.end();
        }
        take_fields(record.iter(), &mut row);
        indexing.row(&row, offset)?;
    }
}

fn index_json_lines(mut file: &File, bytes: u64, memory_bytes_max: usize) -> Result<Index, String> {
    file.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(file);
    let (mut line, mut row) = (Vec::new(), RowBuffer::default());
    let mut indexing: Option<Indexing> = None;
    let mut names: Vec<String> = Vec::new();
    let (mut offset, mut number) = (0u64, 0u64);
    loop {
        line.clear();
        let most = ROW_BYTES_MAX as u64 * 8;
        let length = reader.by_ref().take(most).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        number += 1;
        if length as u64 == most {
            return Err(format!("line {number} has more than {most} bytes"));
        }
        if length == 0 {
            let all = indexing.ok_or("expected an object in each line, got an empty file")?;
            return all.end();
        }
        if !line.trim_ascii().is_empty() {
            let at = |why: String| format!("line {number}: {why}");
            let indexing = match &mut indexing {
                Some(indexing) => indexing,
                None => {
                    names = json_object(&line).map_err(at)?.keys().cloned().collect();
                    indexing.insert(Indexing::new(names.clone(), bytes, memory_bytes_max)?)
                }
            };
            json_row(&line, &names, &mut row).map_err(at)?;
            indexing.row(&row, offset)?;
        }
        offset += length as u64;
    }
}

fn json_object(line: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice(line).map_err(|error| format!("expected a JSON object ({error})"))
}

/// The values of an object as text: strings as their characters, null as nothing, what has parts as JSON.
fn json_row(line: &[u8], columns: &[String], into: &mut RowBuffer) -> Result<(), String> {
    let object = json_object(line)?;
    into.clear();
    for column in columns {
        match object.get(column) {
            None => return Err(format!("expected '{column}' as in the first line, and it is not there")),
            Some(Value::Null) => {}
            Some(Value::String(text)) => into.bytes.extend_from_slice(text.as_bytes()),
            Some(other) => into.bytes.extend_from_slice(other.to_string().as_bytes()),
        }
        into.end_field();
    }
    Ok(())
}

/// Rows of a file that is not kept in memory.
#[derive(Debug)]
struct IndexedRows {
    file: File,
    format: Format,
    columns: Vec<String>,
    marks: Vec<u64>,
    rows: u64,
    bytes: u64,
}

impl Rows for IndexedRows {
    fn read(&self, row: u64, into: &mut RowBuffer) -> bool {
        let Some(mark) = usize::try_from(row / ROWS_A_MARK).ok().filter(|_| row < self.rows) else { return false };
        let Some(start) = self.marks.get(mark).copied() else { return false };
        let end = self.marks.get(mark + 1).copied().unwrap_or(self.bytes);
        let mut block = std::mem::take(&mut into.block);
        block.resize(end.saturating_sub(start) as usize, 0);
        let is_read = self.file.read_exact_at(&mut block, start).is_ok()
            && self.format.row(&block, &self.columns, row % ROWS_A_MARK, into);
        into.block = block;
        is_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn written(name: &str, text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        (folder, path.to_str().unwrap().to_owned())
    }

    fn rows(file: &DataFile) -> Vec<Vec<String>> {
        let source = file.source.0.as_ref().unwrap();
        let mut row = RowBuffer::default();
        let mut all: Vec<Vec<String>> = Vec::new();
        // Backwards, so that an order of reading is not relied on.
        for number in (0..file.rows).rev() {
            assert!(source.read(number, &mut row), "row {number}");
            let field = |column| String::from_utf8(row.field(column).to_vec()).unwrap();
            all.push((0..file.columns.len()).map(field).collect());
        }
        assert!(!source.read(file.rows, &mut row));
        all.reverse();
        all
    }

    #[test]
    fn rows_are_the_same_in_memory_and_from_the_file() {
        let (mut csv, mut lines) = ("\u{feff}id,name\n".to_owned(), String::new());
        let mut expected = Vec::new();
        for n in 0..100 {
            writeln!(csv, "{n},\"a \"\"{n}\"\",\nü\"").unwrap();
            writeln!(lines, "{{\"id\": {n}, \"name\": \"a \\\"{n}\\\",\\nü\", \"more\": [1]}}\n").unwrap();
            expected.push(vec![n.to_string(), format!("a \"{n}\",\nü")]);
        }
        for (name, text) in [("a.csv", &csv), ("a.jsonl", &lines)] {
            let (_folder, path) = written(name, text);
            for memory_bytes_max in [MEMORY_BYTES_MAX, 0] {
                let file = open_with(&format!("users={path}"), Order::Random, memory_bytes_max).unwrap();
                assert_eq!((file.name.as_str(), file.rows), ("users", 100));
                let columns = ["users.id", "users.name"].map(|name| file.column(name).unwrap());
                let of_row = |row: Vec<String>| columns.map(|column| row[column].clone()).to_vec();
                let read: Vec<Vec<String>> = rows(&file).into_iter().map(of_row).collect();
                assert_eq!(read, expected, "{name} {memory_bytes_max}");
                assert_eq!(file.columns[columns[1]].longest as usize, expected[99][1].len());
            }
        }
    }

    #[test]
    fn hostile_files_are_refused_in_one_sentence() {
        let long = format!("a\n{}\n", "x".repeat(ROW_BYTES_MAX + 1));
        for (name, text, expected) in [
            ("a.csv", "", "got an empty file"),
            ("a.csv", "a,b\n", "expected at least one row"),
            ("a.csv", "a,b\n1\n", "found record with 1 fields"),
            ("a.csv", "a,a\n1,2\n", "the column 'a' is there twice"),
            ("a.csv", "a b\n1\n", "got 'a b'"),
            ("a.csv", "seq\n1\n", "got 'seq'"),
            ("a.csv", &long, "row 1 has 65537 bytes"),
            ("a.jsonl", "", "got an empty file"),
            ("a.jsonl", "[1]\n", "line 1: expected a JSON object"),
            ("a.jsonl", "{\"a\":1}\n{\"b\":1}\n", "line 2: expected 'a' as in the first line"),
            ("a.jsonl", "{\"a\":1}\n{\"a\":", "line 2: expected a JSON object"),
        ] {
            let (_folder, path) = written(name, text);
            let error = open(&path, Order::Sequential).unwrap_err();
            let shown = error.to_string();
            assert!(error.is_usage() && shown.contains(expected) && shown.lines().count() == 1, "{text:.20}: {shown}");
        }
        assert!(open("/nowhere.csv", Order::Random).unwrap_err().is_usage());
        assert!(open("/dev/null", Order::Random).unwrap_err().to_string().contains("a regular file"));
    }
}
