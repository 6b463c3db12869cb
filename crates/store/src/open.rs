//! Opens a recording to read it, whatever state it was left in, without changing a byte of it.
//!
//! In order: as it is; as immutable (read-only media, where SQLite cannot make its shared-memory file); and as a
//! private copy in the temporary folder, for a killed run whose log must first be replayed there, and for an older
//! format. Views, triggers and virtual tables are refused: nothing in the file may run.

use crate::error::{StoreError, in_words, read_error};
use crate::limits::{BUSY_MS, READER_CACHE_KIB, VALUE_BYTES_MAX};
use crate::{migrate, schema};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An open recording of a format that is read as it is.
#[derive(Debug)]
pub struct Opened {
    /// The connection, read-only unless it is to a private copy.
    pub connection: Connection,
    /// Its format.
    pub format: usize,
    /// The private copy, removed when dropped. After `connection`, so that the file is closed first.
    pub copy: Option<tempfile::TempDir>,
}

/// Opens a recording of any known format.
///
/// # Errors
/// [`StoreError::Read`], [`StoreError::NotARecording`], [`StoreError::Newer`] or [`StoreError::Damaged`].
pub fn open(path: &Path) -> Result<Opened, StoreError> {
    check_head(path)?;
    let opened = open_present(path)?;
    let found = opened.format;
    if found >= schema::READ_AS_IS {
        return Ok(opened);
    }
    let mut copy = if opened.copy.is_some() { opened } else { private_copy(path)? };
    migrate::migrate(&mut copy.connection, found).map_err(|error| StoreError::Damaged {
        path: path.to_owned(),
        what: format!("it is of format {found} and cannot be brought to {}: {}", schema::READ_AS_IS, in_words(&error)),
    })?;
    copy.format = schema::READ_AS_IS;
    Ok(copy)
}

/// What can be told from the first bytes, before SQLite sees the file.
fn check_head(path: &Path) -> Result<(), StoreError> {
    let unreadable = |error: std::io::Error| StoreError::Read { path: path.to_owned(), reason: error.to_string() };
    let other = |reason: &str| StoreError::NotARecording { path: path.to_owned(), reason: reason.to_owned() };
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(other("it is not a file"));
    }
    let mut head = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(unreadable)?;
    if head.is_empty() {
        return Err(other("it is empty"));
    }
    // https://www.sqlite.org/fileformat2.html, 1.3: magic at 0, application id at 68, both in every SQLite 3 file.
    let application_id = head.get(68..72).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    if !head.starts_with(b"SQLite format 3\0") || head.len() < 100 {
        return Err(other("it does not begin like one"));
    }
    if application_id != Some(schema::APPLICATION_ID) {
        return Err(other("it is another program's database"));
    }
    check_length(path, &head)
}

/// A cut file is found out before SQLite takes what is missing for zeros. Only of a file that stands for itself: with a
/// log beside it, or in a killed run's state, its head may be older than the rest.
fn check_length(path: &Path, head: &[u8]) -> Result<(), StoreError> {
    // File format, 1.3: page size at 16 (1 stands for 65536), write version at 18 (2: WAL), pages at 28.
    let word = |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    let page_bytes = match word(16) >> 16 {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let expected = page_bytes * u64::from(word(28));
    let found = std::fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len());
    if head.get(18) == Some(&1) && found < expected && !log_files(path).any(|log| log.exists()) {
        let what = format!("it is cut off: {found} of its {expected} bytes are there");
        return Err(StoreError::Damaged { path: path.to_owned(), what });
    }
    Ok(())
}

fn open_present(path: &Path) -> Result<Opened, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let first = Connection::open_with_flags(path, flags).and_then(prepared);
    let error = match first {
        Ok(connection) => {
            let format = check_schema(&connection, path)?;
            return Ok(Opened { connection, format, copy: None });
        }
        Err(error) => error,
    };
    let refused = read_error(path, &error);
    if !matches!(refused, StoreError::Read { .. }) {
        return Err(refused);
    }
    let opened = if log_files(path).any(|log| std::fs::metadata(log).is_ok_and(|m| m.len() > 0)) {
        private_copy(path)?
    } else {
        let connection = Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)
            .and_then(prepared)
            .map_err(|error| read_error(path, &error))?;
        Opened { connection, format: 0, copy: None }
    };
    let format = check_schema(&opened.connection, path)?;
    Ok(Opened { format, ..opened })
}

/// Copies the file and its log, and opens the copy for writing: SQLite replays the log into it.
fn private_copy(path: &Path) -> Result<Opened, StoreError> {
    let unreadable = |error: std::io::Error| StoreError::Read {
        path: path.to_owned(),
        reason: format!("no private copy of it could be made: {error}"),
    };
    let folder = tempfile::Builder::new().prefix("plimsoll-").tempdir().map_err(unreadable)?;
    let copied = folder.path().join("recording");
    std::fs::copy(path, &copied).map_err(unreadable)?;
    for (log, copied_log) in log_files(path).zip(log_files(&copied)) {
        if log.exists() {
            std::fs::copy(log, copied_log).map_err(unreadable)?;
        }
    }
    // The copy has the mode of the original, which may be read-only.
    let mut permissions = std::fs::metadata(&copied).map_err(unreadable)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    std::fs::set_permissions(&copied, permissions).map_err(unreadable)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(&copied, flags).and_then(prepared).map_err(|error| read_error(path, &error))?;
    Ok(Opened { connection, format: 0, copy: Some(folder) })
}

/// Bounds what the file can make SQLite do, and reads its schema once.
fn prepared(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(Duration::from_millis(BUSY_MS))?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

/// The file's format, if this version knows it.
fn version_of(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let found = connection
        .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        .map_err(|error| read_error(path, &error))?;
    match usize::try_from(found) {
        Ok(version) if version <= schema::VERSION => Ok(version),
        Ok(_) => Err(StoreError::Newer { path: path.to_owned(), found, known: schema::VERSION }),
        Err(_) => {
            let reason = format!("its format is {found}");
            Err(StoreError::NotARecording { path: path.to_owned(), reason })
        }
    }
}

/// Holds that the file has the tables of its format and nothing else, and returns the format.
fn check_schema(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    // First: what a newer format holds is not ours to judge.
    let format = version_of(connection, path)?;
    // Views, triggers and virtual tables have no root page; an index of a primary key has no text.
    let foreign = "SELECT count(*) FROM sqlite_schema WHERE rootpage IS NULL OR rootpage < 1 \
                   OR NOT (type = 'table' OR (type = 'index' AND sql IS NULL))";
    let count =
        |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| read_error(path, &error));
    if count(foreign)? > 0 {
        let reason = "it holds things that no recording has".to_owned();
        return Err(StoreError::NotARecording { path: path.to_owned(), reason });
    }
    let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
    for table in schema::tables(format) {
        let of_table = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let text = match connection.query_row(of_table, [table], |row| row.get::<_, String>(0)) {
            Ok(text) => text,
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                return Err(damaged(format!("its table '{table}' is missing")));
            }
            Err(error) => return Err(read_error(path, &error)),
        };
        // A column that has another name or kind would be read as something else.
        if format >= schema::WITH_CHECKSUMS && schema::text_of(table, format) != Some(&*text) {
            return Err(damaged(format!("its table '{table}' is not made as one of a recording")));
        }
    }
    Ok(format)
}

/// The write-ahead log and the rollback journal of a file.
pub(crate) fn log_files(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["-wal", "-journal"].into_iter().map(move |suffix| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// The file as a URI that tells SQLite that nobody will change it.
fn immutable(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri + "?immutable=1"
}
