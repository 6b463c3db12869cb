//! Writes a run as it happens: a transaction a tick, so a killed run loses at most the tick it was in.
//!
//! The tables are made in one unsynced transaction, because nothing is lost yet and a run must start at once; then
//! WAL with `synchronous=NORMAL`, or a rollback journal where the file system has no shared memory. It never retries:
//! the first failure comes back to the caller, who goes on without.

use crate::error::{StoreError, in_words, write_error};
use crate::figures::{Figures, StoredTotals, histogram_name, latencies};
use crate::histogram::Encoder;
use crate::limits::{BUSY_MS, WAL_BYTES, WAL_PAGES, WRITER_CACHE_KIB};
use crate::schema;
use hdrhistogram::Counter;
use model::finding::Diagnosis;
use model::recording::{Capsule, End, Tick, Totals};
use model::snapshot::SamplerStatus;
use model::{Event, Histogram, LatencyKind, Plan, Snapshot};
use rusqlite::{Connection, OpenFlags, Transaction, params};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A recording being written.
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    /// Device and inode of the file, to notice when it is gone.
    identity: (u64, u64),
    encoder: Encoder,
}

impl Writer {
    /// Makes the file with capsule and plan in it. Until [`Writer::finish`] it reads as [`End::Partial`].
    ///
    /// # Errors
    /// [`StoreError::Exists`] for a file that is there, or a log beside it; [`StoreError::Create`] or [`StoreError::Full`] otherwise. A
    /// file it made before it failed is removed.
    pub fn create(path: &Path, capsule: &Capsule, plan: &Plan) -> Result<Writer, StoreError> {
        let refused = |error: std::io::Error| match error.kind() {
            ErrorKind::AlreadyExists => StoreError::Exists { path: path.to_owned() },
            ErrorKind::StorageFull => StoreError::Full { path: path.to_owned() },
            _ => StoreError::Create { path: path.to_owned(), reason: error.to_string() },
        };
        // A log of somebody else's beside the new file would be read, or written, as its own.
        if let Some(path) = crate::open::log_files(path).find(|log| log.symlink_metadata().is_ok()) {
            return Err(StoreError::Exists { path });
        }
        // Only for its owner: a plan says much of a system. Made anew, so that no link is followed.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(refused)?;
        let identity = file.metadata().map(|m| (m.dev(), m.ino())).map_err(refused)?;
        drop(file);
        let made = open_new(path, capsule, plan);
        let connection = made.inspect_err(|_| {
            // Ours and useless: best effort.
            let _ = std::fs::remove_file(path);
        })?;
        let encoder = Encoder::new();
        Ok(Writer { connection, path: path.to_owned(), identity, encoder })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps one tick (`None`: only what else there is), a snapshot, events. All of it or, on an error, nothing.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Gone`] or [`StoreError::Write`]; stop recording then.
    pub fn append(
        &mut self,
        tick: Option<&Tick>,
        snapshot: Option<&Snapshot>,
        events: &[Event],
    ) -> Result<(), StoreError> {
        self.check_still_there()?;
        let failed = |error| write_error(&self.path, &error);
        let transaction = self.connection.transaction().map_err(failed)?;
        if let Some(tick) = tick {
            append_tick(&transaction, &mut self.encoder, tick).map_err(failed)?;
        }
        if let Some(snapshot) = snapshot {
            let body = json(snapshot).map_err(failed)?;
            execute(&transaction, "INSERT INTO snapshot(body) VALUES (?1)", [body]).map_err(failed)?;
        }
        for event in events {
            let values = params![event.at_ns, event.kind, event.text];
            execute(&transaction, "INSERT INTO event(at_ns, kind, text) VALUES (?1, ?2, ?3)", values)
                .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// Keeps several snapshots at once: what is not read as it happens need not be safe one by one.
    /// All of them or, on an error, none.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn append_snapshots(&mut self, snapshots: &[Snapshot]) -> Result<(), StoreError> {
        self.check_still_there()?;
        let failed = |error| write_error(&self.path, &error);
        let transaction = self.connection.transaction().map_err(failed)?;
        for snapshot in snapshots {
            let body = json(snapshot).map_err(failed)?;
            execute(&transaction, "INSERT INTO snapshot(body) VALUES (?1)", [body]).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// Keeps the summary, closes, and leaves a single file.
    ///
    /// # Errors
    /// As [`Writer::append`]; the file then stays partial.
    pub fn finish(
        mut self,
        totals: &Totals,
        samplers: &[SamplerStatus],
        end: End,
        diagnosis: Option<&Diagnosis>,
    ) -> Result<PathBuf, StoreError> {
        self.check_still_there()?;
        self.write_end(totals, samplers, end, diagnosis).map_err(|error| write_error(&self.path, &error))?;
        // Both only tidy up: a reader that holds the file keeps the log beside it, and all is still read.
        let _ = self.connection.pragma_update(None, "wal_checkpoint", "TRUNCATE");
        let _ = self.connection.pragma_update(None, "journal_mode", "DELETE");
        match self.connection.close() {
            Ok(()) => Ok(self.path),
            Err((_, error)) => Err(write_error(&self.path, &error)),
        }
    }

    /// Notes in the file why it stops here. Best effort: on a full disk it may not fit, and the file is partial anyway.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn mark_partial(&mut self, reason: &str) -> Result<(), StoreError> {
        self.check_still_there()?;
        let mark = |c: &Connection| c.execute("UPDATE run SET end = 'partial', reason = ?1", [reason]).map(|_| ());
        let marked = mark(&self.connection).or_else(|_| {
            // What is in the log goes into the file, and the log's own space can be used again.
            self.connection.pragma_update(None, "wal_checkpoint", "RESTART")?;
            mark(&self.connection)
        });
        marked.map_err(|error| write_error(&self.path, &error))
    }

    fn write_end(
        &mut self,
        totals: &Totals,
        samplers: &[SamplerStatus],
        end: End,
        diagnosis: Option<&Diagnosis>,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for (part, latency) in latencies(totals) {
            for kind in LatencyKind::ALL {
                let histogram = latency.of(kind);
                if !histogram.is_empty() {
                    let values = params![histogram_name(part, kind), blob(&mut self.encoder, histogram)?];
                    execute(&transaction, "INSERT INTO total_histogram(kind, body) VALUES (?1, ?2)", values)?;
                }
            }
        }
        let values = params![
            json(&StoredTotals::of(totals))?,
            json(samplers)?,
            diagnosis.map(json).transpose()?,
            clamped(totals.sum.counts.requests()),
            end_name(end),
        ];
        let update = "UPDATE run SET totals = ?1, samplers = ?2, diagnosis = ?3, requests = ?4, end = ?5";
        execute(&transaction, update, values)?;
        transaction.commit()
    }

    /// An unlinked file takes writes without complaint, and nobody would ever read them.
    fn check_still_there(&self) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(m) if (m.dev(), m.ino()) == self.identity => Ok(()),
            Ok(_) => Err(StoreError::Gone { path: self.path.clone() }),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(StoreError::Gone { path: self.path.clone() }),
            Err(e) => Err(StoreError::Write { path: self.path.clone(), reason: e.to_string() }),
        }
    }
}

fn blob<'e, C: Counter>(encoder: &'e mut Encoder, histogram: &Histogram<C>) -> rusqlite::Result<&'e [u8]> {
    encoder.encode(histogram).map_err(|reason| rusqlite::Error::ToSqlConversionFailure(reason.into()))
}

/// The word in the `end` column.
pub(crate) fn end_name(end: End) -> &'static str {
    match end {
        End::Complete => "complete",
        End::Interrupted => "interrupted",
        End::Partial => "partial",
    }
}

fn open_new(path: &Path, capsule: &Capsule, plan: &Plan) -> Result<Connection, StoreError> {
    let refused = |error: rusqlite::Error| match write_error(path, &error) {
        StoreError::Full { path } => StoreError::Full { path },
        _ => StoreError::Create { path: path.to_owned(), reason: in_words(&error) },
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    prepare(&mut connection, capsule, plan).map_err(refused)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection, capsule: &Capsule, plan: &Plan) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(BUSY_MS))?;
    connection.set_prepared_statement_cache_capacity(16);
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let transaction = connection.transaction()?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", schema::VERSION as i64)?;
    transaction.execute_batch(schema::CREATE)?;
    transaction.execute(
        "INSERT INTO run(id, started_at_unix_ns, target, capsule, plan) VALUES (1, ?1, ?2, ?3, ?4)",
        params![clamped(capsule.started_at_unix_ns), target_of(plan), json(capsule)?, json(plan)?],
    )?;
    transaction.commit()?;
    // Where there is no WAL (no shared memory on some network file systems) SQLite answers with what it kept, or says
    // so with an error; a rollback journal does everywhere.
    let wal = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    if !wal.is_ok_and(|mode| mode == "wal") {
        connection.pragma_update(None, "journal_mode", "DELETE")?;
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)
}

/// What `runs` shows as the target.
fn target_of(plan: &Plan) -> String {
    match plan.origins.as_slice() {
        [] => String::new(),
        [one] => one.name.clone(),
        [first, rest @ ..] => format!("{} and {} more", first.name, rest.len()),
    }
}

fn append_tick(transaction: &Transaction<'_>, encoder: &mut Encoder, tick: &Tick) -> rusqlite::Result<()> {
    let Tick { sum, row } = tick;
    let values = params![clamped(sum.sequence), json(row)?, json(&Figures::of(sum))?];
    execute(transaction, "INSERT INTO tick(sequence, row, figures) VALUES (?1, ?2, ?3)", values)?;
    let id = transaction.last_insert_rowid();
    for kind in LatencyKind::ALL {
        let histogram = sum.latency.of(kind);
        if !histogram.is_empty() {
            let values = params![id, kind.name(), blob(encoder, histogram)?];
            execute(transaction, "INSERT INTO histogram(tick, kind, body) VALUES (?1, ?2, ?3)", values)?;
        }
    }
    let requests = clamped(sum.counts.requests());
    execute(transaction, "UPDATE run SET requests = requests + ?1", [requests])
}

fn execute(transaction: &Transaction<'_>, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn json<T: Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// SQLite's integers are signed.
fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_shared_memory_a_rollback_journal_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.plimsoll");
        let plan: Plan = serde_json::from_str(include_str!("../tests/plan.json")).unwrap();
        // SQLite's VFS for file systems without locks: it has no shared memory either.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = Connection::open_with_flags_and_vfs(&path, flags, "unix-dotfile").unwrap();
        prepare(&mut connection, &Capsule::default(), &plan).unwrap();
        let mode = |c: &Connection| c.pragma_query_value(None, "journal_mode", |r| r.get::<_, String>(0)).unwrap();
        assert_eq!(mode(&connection), "delete");
        drop(connection);
        assert_eq!(crate::Reader::open(&path).unwrap().load().unwrap().plan, plan);
        let elsewhere = folder.path().join("b.plimsoll");
        let writer = Writer::create(&elsewhere, &Capsule::default(), &plan).unwrap();
        assert_eq!(mode(&writer.connection), "wal");
        assert_eq!(std::fs::metadata(&elsewhere).unwrap().mode() & 0o777, 0o600);
    }
}
