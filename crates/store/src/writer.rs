//! Writes a run as it happens: a transaction a tick, so a killed run loses at most the tick it was in.
//!
//! The tables are made in one unsynced transaction, because nothing is lost yet and a run must start at once; then
//! WAL with `synchronous=NORMAL`, or a rollback journal where the file system has no shared memory. It never retries:
//! the first failure comes back to the caller, who goes on without. Old ticks are merged (`merging`). Each row has a checksum, and each transaction renews
//! the seal (`seal`): a small row, so that a tick costs one more page in the log.

use crate::error::{StoreError, in_words, write_error};
use crate::figures::{Figures, StoredTotals, histograms};
use crate::histogram::Encoder;
use crate::integrity::checksum::Field;
use crate::integrity::seal::{Books, of_seal};
use crate::limits::{BUSY_MS, WAL_BYTES, WAL_PAGES, WRITER_CACHE_KIB};
use crate::merging::Levels;
use crate::requests::{self, split};
use crate::schema;
use hdrhistogram::Counter;
use model::finding::Diagnosis;
use model::recording::{Capsule, End, Row, Tick, Totals};
use model::snapshot::SamplerStatus;
use model::split::TickSplit;
use model::{Event, Histogram, Interval, LatencyKind, Plan, Snapshot};
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
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Device and inode of the file, to notice when it is gone.
    identity: (u64, u64),
    pub(crate) encoder: Encoder,
    /// What the file holds.
    pub(crate) books: Books,
    /// How many merged rows of each length it holds.
    pub(crate) levels: Levels,
    /// When the first tick began in which a request was started, nanoseconds since the run's start.
    pub(crate) first_started_ns: Option<u64>,
    head: RunHead,
    /// Called between rows.
    pause: fn(),
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
        let (connection, books, head) = made.inspect_err(|_| {
            // Ours and useless: best effort.
            let _ = std::fs::remove_file(path);
        })?;
        let encoder = Encoder::new();
        let (path, levels) = (path.to_owned(), Levels::new());
        let pause = || ();
        Ok(Writer { connection, path, identity, encoder, books, levels, first_started_ns: None, head, pause })
    }

    /// Has `pause` called between the rows of a tick, and before and after they are kept: where the thread may let others
    /// onto its CPU. Nobody else waits for what it holds there.
    pub fn pause_by(&mut self, pause: fn()) {
        self.pause = pause;
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a plan in the place of the one that it was made with: the run goes on by another.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn keep_plan(&mut self, plan: &Plan) -> Result<(), StoreError> {
        self.check_still_there()?;
        let failed = |error| write_error(&self.path, &error);
        let plan = json(plan).map_err(failed)?;
        let mut books = self.books.clone();
        let transaction = self.connection.transaction().map_err(failed)?;
        execute(&transaction, "UPDATE run SET plan = ?1 WHERE id = 1", params![plan]).map_err(failed)?;
        books.set_run("plan", &[Field::Text(plan.as_bytes())]);
        seal(&transaction, &books).and_then(|()| transaction.commit()).map_err(failed)?;
        self.books = books;
        Ok(())
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
        let mut books = self.books.clone();
        let transaction = self.connection.transaction().map_err(failed)?;
        if let Some(Tick { sum, row }) = tick {
            append_tick(&transaction, &mut books, &mut self.encoder, sum, row, self.pause).map_err(failed)?;
        }
        if let Some(snapshot) = snapshot {
            append_snapshot(&transaction, &mut books, snapshot).map_err(failed)?;
            (self.pause)();
        }
        for event in events {
            append_event(&transaction, &mut books, event).map_err(failed)?;
        }
        seal(&transaction, &books).map_err(failed)?;
        (self.pause)();
        transaction.commit().map_err(failed)?;
        (self.pause)();
        self.books = books;
        if let Some(tick) = tick.filter(|tick| tick.row.counts.started > 0) {
            self.first_started_ns.get_or_insert(tick.row.start_ns);
        }
        Ok(())
    }

    /// Keeps one tick whose counts may be more than a single generator's.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub(crate) fn append_sum(&mut self, sum: &Interval<u64>, row: &Row) -> Result<(), StoreError> {
        self.check_still_there()?;
        let failed = |error| write_error(&self.path, &error);
        let mut books = self.books.clone();
        let transaction = self.connection.transaction().map_err(failed)?;
        append_tick(&transaction, &mut books, &mut self.encoder, sum, row, self.pause).map_err(failed)?;
        seal(&transaction, &books).and_then(|()| transaction.commit()).map_err(failed)?;
        self.books = books;
        if row.counts.started > 0 {
            self.first_started_ns.get_or_insert(row.start_ns);
        }
        Ok(())
    }

    /// Keeps what the target's machine saw of single requests.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn append_split(&mut self, split: &TickSplit) -> Result<(), StoreError> {
        self.check_still_there()?;
        let failed = |error| write_error(&self.path, &error);
        let mut books = self.books.clone();
        let transaction = self.connection.transaction().map_err(failed)?;
        let body = split::pack(split).map_err(packing).map_err(failed)?;
        let (id, checksum) = books.add("split", &[Field::Blob(&body)]);
        let sql = "INSERT INTO split(id, body, checksum) VALUES (?1, ?2, ?3)";
        execute(&transaction, sql, params![id, body, checksum]).map_err(failed)?;
        seal(&transaction, &books).and_then(|()| transaction.commit()).map_err(failed)?;
        self.books = books;
        Ok(())
    }

    /// Keeps several snapshots at once: what is not read as it happens need not be safe one by one.
    /// All of them or, on an error, none.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn append_snapshots(&mut self, snapshots: &[Snapshot]) -> Result<(), StoreError> {
        self.check_still_there()?;
        let failed = |error| write_error(&self.path, &error);
        let mut books = self.books.clone();
        let transaction = self.connection.transaction().map_err(failed)?;
        for snapshot in snapshots {
            append_snapshot(&transaction, &mut books, snapshot).map_err(failed)?;
        }
        seal(&transaction, &books).and_then(|()| transaction.commit()).map_err(failed)?;
        self.books = books;
        Ok(())
    }

    /// Keeps the capsule again, in place of the one that the file was made with: of what is known only once the load begins.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn keep_capsule(&mut self, capsule: &Capsule) -> Result<(), StoreError> {
        self.check_still_there()?;
        self.write_capsule(capsule).map_err(|error| write_error(&self.path, &error))
    }

    fn write_capsule(&mut self, capsule: &Capsule) -> rusqlite::Result<()> {
        let mut books = self.books.clone();
        let transaction = self.connection.transaction()?;
        let capsule = json(capsule)?;
        execute(&transaction, "UPDATE run SET capsule = ?1", [&capsule])?;
        books.set_run("capsule", &[Field::Text(capsule.as_bytes())]);
        seal(&transaction, &books)?;
        transaction.commit()?;
        self.books = books;
        Ok(())
    }

    /// Keeps how the samplers fare, in place of what was kept of it: for a recording that is cut off.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn keep_samplers(&mut self, samplers: &[SamplerStatus]) -> Result<(), StoreError> {
        self.check_still_there()?;
        self.write_samplers(samplers).map_err(|error| write_error(&self.path, &error))
    }

    fn write_samplers(&mut self, samplers: &[SamplerStatus]) -> rusqlite::Result<()> {
        let mut books = self.books.clone();
        let transaction = self.connection.transaction()?;
        let samplers = json(samplers)?;
        execute(&transaction, "UPDATE run SET samplers = ?1", [&samplers])?;
        books.set_run("samplers", &[Field::Text(samplers.as_bytes())]);
        seal(&transaction, &books)?;
        transaction.commit()?;
        self.books = books;
        Ok(())
    }

    /// Keeps the summary, closes, and leaves a single file.
    ///
    /// # Errors
    /// As [`Writer::append`]; the file then stays partial.
    pub fn finish(
        self,
        totals: &Totals,
        samplers: &[SamplerStatus],
        end: End,
        diagnosis: Option<&Diagnosis>,
    ) -> Result<PathBuf, StoreError> {
        self.close(totals, samplers, end, None, diagnosis)
    }

    /// The same of what is not whole though all that there is has been kept, and why it is not.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn finish_partial(
        self,
        totals: &Totals,
        samplers: &[SamplerStatus],
        reason: &str,
        diagnosis: Option<&Diagnosis>,
    ) -> Result<PathBuf, StoreError> {
        self.close(totals, samplers, End::Partial, Some(reason), diagnosis)
    }

    fn close(
        mut self,
        totals: &Totals,
        samplers: &[SamplerStatus],
        end: End,
        reason: Option<&str>,
        diagnosis: Option<&Diagnosis>,
    ) -> Result<PathBuf, StoreError> {
        self.check_still_there()?;
        self.write_end(totals, samplers, (end, reason), diagnosis).map_err(|error| write_error(&self.path, &error))?;
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
        let marked = self.write_mark(reason).or_else(|_| {
            // What is in the log goes into the file, and the log's own space can be used again.
            self.connection.pragma_update(None, "wal_checkpoint", "RESTART")?;
            self.write_mark(reason)
        });
        marked.map_err(|error| write_error(&self.path, &error))
    }

    fn write_mark(&mut self, reason: &str) -> rusqlite::Result<()> {
        let mut books = self.books.clone();
        let transaction = self.connection.transaction()?;
        execute(&transaction, "UPDATE run SET end = 'partial', reason = ?1", [reason])?;
        self.head.note(&mut books, End::Partial, Some(reason));
        seal(&transaction, &books)?;
        transaction.commit()?;
        self.books = books;
        Ok(())
    }

    fn write_end(
        &mut self,
        totals: &Totals,
        samplers: &[SamplerStatus],
        (end, reason): (End, Option<&str>),
        diagnosis: Option<&Diagnosis>,
    ) -> rusqlite::Result<()> {
        let mut books = self.books.clone();
        let transaction = self.connection.transaction()?;
        for (name, histogram) in histograms(totals).into_iter().filter(|(_, histogram)| !histogram.is_empty()) {
            let body = blob(&mut self.encoder, histogram)?;
            let fields = [Field::Text(name.as_bytes()), Field::Blob(body)];
            let (id, checksum) = books.add("total_histogram", &fields);
            let sql = "INSERT INTO total_histogram(id, kind, body, checksum) VALUES (?1, ?2, ?3, ?4)";
            execute(&transaction, sql, params![id, name, body, checksum])?;
        }
        let (stored, samplers) = (json(&StoredTotals::of(totals))?, json(samplers)?);
        let diagnosis = diagnosis.map(json).transpose()?;
        let update = "UPDATE run SET totals = ?1, samplers = ?2, diagnosis = ?3, end = ?4, reason = ?5";
        execute(&transaction, update, params![stored, samplers, diagnosis, end_name(end), reason])?;
        self.head.note(&mut books, end, reason);
        for (part, text) in
            [("totals", Some(&stored)), ("samplers", Some(&samplers)), ("diagnosis", diagnosis.as_ref())]
        {
            if let Some(text) = text {
                books.set_run(part, &[Field::Text(text.as_bytes())]);
            }
        }
        books.requests = totals.sum.counts.requests();
        seal(&transaction, &books)?;
        transaction.commit()
    }

    /// An unlinked file takes writes without complaint, and nobody would ever read them.
    pub(crate) fn check_still_there(&self) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(m) if (m.dev(), m.ino()) == self.identity => Ok(()),
            Ok(_) => Err(StoreError::Gone { path: self.path.clone() }),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(StoreError::Gone { path: self.path.clone() }),
            Err(e) => Err(StoreError::Write { path: self.path.clone(), reason: e.to_string() }),
        }
    }
}

fn blob<'e, C: Counter>(encoder: &'e mut Encoder, histogram: &Histogram<C>) -> rusqlite::Result<&'e [u8]> {
    encoder.encode(histogram).map_err(failed)
}

/// The word in the `end` column.
pub(crate) fn end_name(end: End) -> &'static str {
    match end {
        End::Complete => "complete",
        End::Interrupted => "interrupted",
        End::Partial => "partial",
    }
}

/// What of the run's row stays as it is from the start.
#[derive(Debug)]
struct RunHead {
    started_at_unix_ns: i64,
    target: String,
}

impl RunHead {
    fn note(&self, books: &mut Books, end: End, reason: Option<&str>) {
        let reason = reason.map_or(Field::Other, |reason| Field::Text(reason.as_bytes()));
        let end = Field::Text(end_name(end).as_bytes());
        let started = Field::Integer(self.started_at_unix_ns);
        books.set_run("head", &[started, Field::Text(self.target.as_bytes()), end, reason]);
    }
}

fn open_new(path: &Path, capsule: &Capsule, plan: &Plan) -> Result<(Connection, Books, RunHead), StoreError> {
    let refused = |error: rusqlite::Error| match write_error(path, &error) {
        StoreError::Full { path } => StoreError::Full { path },
        _ => StoreError::Create { path: path.to_owned(), reason: in_words(&error) },
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    let (books, head) = prepare(&mut connection, capsule, plan).map_err(refused)?;
    Ok((connection, books, head))
}

fn prepare(connection: &mut Connection, capsule: &Capsule, plan: &Plan) -> rusqlite::Result<(Books, RunHead)> {
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
    let head = RunHead { started_at_unix_ns: clamped(capsule.started_at_unix_ns), target: target_of(plan) };
    let (capsule, plan) = (json(capsule)?, json(plan)?);
    transaction.execute(
        "INSERT INTO run(id, started_at_unix_ns, target, capsule, plan) VALUES (1, ?1, ?2, ?3, ?4)",
        params![head.started_at_unix_ns, head.target, capsule, plan],
    )?;
    let mut books = Books::default();
    head.note(&mut books, End::Partial, None);
    books.set_run("capsule", &[Field::Text(capsule.as_bytes())]);
    books.set_run("plan", &[Field::Text(plan.as_bytes())]);
    seal(&transaction, &books)?;
    transaction.commit()?;
    // Where there is no WAL (no shared memory on some network file systems) SQLite answers with what it kept, or says
    // so with an error; a rollback journal does everywhere.
    let wal = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    if !wal.is_ok_and(|mode| mode == "wal") {
        connection.pragma_update(None, "journal_mode", "DELETE")?;
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    Ok((books, head))
}

/// Renews the seal.
pub(crate) fn seal(transaction: &Transaction<'_>, books: &Books) -> rusqlite::Result<()> {
    let body = json(&books.seal())?;
    let checksum = of_seal(body.as_bytes());
    execute(transaction, "REPLACE INTO seal(id, body, checksum) VALUES (1, ?1, ?2)", params![body, checksum])
}

/// What `runs` shows as the target.
fn target_of(plan: &Plan) -> String {
    match plan.origins.as_slice() {
        [] => String::new(),
        [one] => one.name.clone(),
        [first, rest @ ..] => format!("{} and {} more", first.name, rest.len()),
    }
}

fn append_tick<C: Counter>(
    transaction: &Transaction<'_>,
    books: &mut Books,
    encoder: &mut Encoder,
    sum: &Interval<C>,
    row: &Row,
    pause: fn(),
) -> rusqlite::Result<()> {
    let (sequence, row, figures) = (clamped(sum.sequence), json(row)?, json(&Figures::of(sum))?);
    let fields = [Field::Integer(sequence), Field::Text(row.as_bytes()), Field::Text(figures.as_bytes())];
    let (tick, checksum) = books.add("tick", &fields);
    let sql = "INSERT INTO tick(id, sequence, row, figures, checksum) VALUES (?1, ?2, ?3, ?4, ?5)";
    execute(transaction, sql, params![tick, sequence, row, figures, checksum])?;
    for kind in LatencyKind::ALL {
        let histogram = sum.latency.of(kind);
        if !histogram.is_empty() {
            let body = blob(encoder, histogram)?;
            let fields = [Field::Integer(tick), Field::Text(kind.name().as_bytes()), Field::Blob(body)];
            let (id, checksum) = books.add("histogram", &fields);
            let sql = "INSERT INTO histogram(id, tick, kind, body, checksum) VALUES (?1, ?2, ?3, ?4, ?5)";
            execute(transaction, sql, params![id, tick, kind.name(), body, checksum])?;
            pause();
        }
    }
    if !sum.requests.is_empty() {
        let body = requests::pack(&sum.requests, sum.end_ns).map_err(packing)?;
        let (id, checksum) = books.add("request", &[Field::Integer(tick), Field::Blob(&body)]);
        let sql = "INSERT INTO request(id, tick, body, checksum) VALUES (?1, ?2, ?3, ?4)";
        execute(transaction, sql, params![id, tick, body, checksum])?;
    }
    books.requests = books.requests.saturating_add(sum.counts.requests());
    Ok(())
}

fn append_snapshot(transaction: &Transaction<'_>, books: &mut Books, snapshot: &Snapshot) -> rusqlite::Result<()> {
    let body = json(snapshot)?;
    let (id, checksum) = books.add("snapshot", &[Field::Text(body.as_bytes())]);
    execute(transaction, "INSERT INTO snapshot(id, body, checksum) VALUES (?1, ?2, ?3)", params![id, body, checksum])
}

fn append_event(transaction: &Transaction<'_>, books: &mut Books, event: &Event) -> rusqlite::Result<()> {
    let Event { at_ns, kind, text, details } = event;
    let details = json(details)?;
    let texts = [kind, text, &details].map(|text| Field::Text(text.as_bytes()));
    let fields = [&[Field::Integer(*at_ns)], &texts[..]].concat();
    let (id, checksum) = books.add("event", &fields);
    let sql = "INSERT INTO event(id, at_ns, kind, text, details, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    execute(transaction, sql, params![id, at_ns, kind, text, details, checksum])
}

pub(crate) fn execute(transaction: &Transaction<'_>, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn json<T: Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// What cannot be made into a value of the file.
pub(crate) fn failed(reason: String) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(reason.into())
}

fn packing(error: postcard::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
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
