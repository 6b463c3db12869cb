//! What keeps a recording small however long the run: old ticks are merged in pairs, as the run grows.
//!
//! **The rule.** The newest [`FINE_TICKS`] to twice as many ticks, with all that belongs to them, stay as they were. When
//! there are twice as many, the older half is merged in pairs, into rows of two ticks. When there are more than
//! [`LEVEL_ROWS_MAX`] rows of two ticks, the older half of these is merged in pairs, into rows of four; and so on. So there are
//! some hundreds of rows of each length of which there are any, and a row is never longer than about a three-hundredth of how
//! long ago it was. Of a merged row counters and histograms are the sums of its ticks', and nothing of them is lost; quantiles
//! and shares are the larger ones; failures are counted by kind, with the first example of each. A row of the load and one of
//! the drain are not merged.
//!
//! **What else is made of the older ticks** is what a run has in memory at its end: the course of it ([`model::recording`]), the
//! uniform sample of single requests, the slowest, the failed and the gaps of each stretch ([`model::run_requests`]), totals,
//! stacks, thinned snapshots, and the history of all readings in at most 512 stretches (`diagnose::history`: counters exact,
//! gauges with least, most, mean and last). It is kept as it is ([`state`]), replaced with each merge, and gone on with by who
//! reads the recording: so the report of a recording is that at the end of the run, for both come of the same sums in the same
//! order. Events are all kept.
//!
//! A merge is one transaction: a run that is killed in it has not merged. Cost: one every [`FINE_TICKS`] ticks, of a
//! quarter of a second's CPU time on the session's thread, which gives way to the workers.

pub(crate) mod packed;
pub(crate) mod state;

use crate::error::{StoreError, write_error};
use crate::histogram::{Encoder, decode_into};
use crate::integrity::checksum::Field;
use crate::integrity::seal::Books;
use crate::limits::{FINE_TICKS, LEVEL_ROWS_MAX};
use crate::writer::{Writer, execute, failed, seal};
use diagnose::history::History;
use model::Histogram;
use model::recording::Recording;
use packed::MergedTick;
use rusqlite::{Transaction, params};
use std::path::Path;

/// How many rows there are of each length: of two ticks, of four, and so on.
pub(crate) type Levels = Vec<usize>;

impl Writer {
    /// Whether there are so many ticks or snapshots that [`Writer::merge`] is to be called.
    pub fn is_merge_due(&self) -> bool {
        let due = 2 * FINE_TICKS as u64;
        self.books.rows("tick") >= due || self.books.rows("snapshot") >= due
    }

    /// Merges old ticks, and keeps what was made of all that was appended so far, in place of what was kept of it before.
    /// All of it or, on an error, nothing.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn merge(&mut self, recording: &Recording, history: &History) -> Result<(), StoreError> {
        self.check_still_there()?;
        let path = self.path().to_owned();
        let error = |error: rusqlite::Error| match error {
            // What cannot be read any more, or not be packed, is not the disk's fault.
            rusqlite::Error::ToSqlConversionFailure(reason) => unreadable(&path, &reason.to_string()),
            error => write_error(&path, &error),
        };
        let (mut books, mut levels) = (self.books.clone(), self.levels.clone());
        let state = state::pack(&mut self.encoder, &books, self.first_started_ns, recording, history)
            .map_err(failed)
            .map_err(error)?;
        let transaction = self.connection.transaction().map_err(error)?;
        let merged = merge_ticks(&transaction, &mut books, &mut levels, &mut self.encoder)
            .and_then(|()| drop_snapshots(&transaction, &mut books))
            .and_then(|()| replace_state(&transaction, &mut books, &state))
            .and_then(|()| seal(&transaction, &books));
        merged.and_then(|()| transaction.commit()).map_err(error)?;
        (self.books, self.levels) = (books, levels);
        Ok(())
    }
}

fn unreadable(path: &Path, reason: &str) -> StoreError {
    let reason = format!("old ticks could not be merged ({reason})");
    StoreError::Write { path: path.to_owned(), reason }
}

fn merge_ticks(
    transaction: &Transaction<'_>,
    books: &mut Books,
    levels: &mut Levels,
    encoder: &mut Encoder,
) -> rusqlite::Result<()> {
    let fine = usize::try_from(books.rows("tick")).unwrap_or(usize::MAX);
    let old = fine.saturating_sub(FINE_TICKS);
    if old > 0 {
        let ticks = take_ticks(transaction, books, old)?;
        add(levels, 0, merge_pairs(transaction, books, encoder, ticks)?);
    }
    let mut level = 0;
    while let Some(rows) = levels.get(level).copied() {
        if rows > LEVEL_ROWS_MAX {
            // Longer rows are older, and stand before them.
            let longer: usize = levels.iter().skip(level + 1).sum();
            // An even number, so that none is left without its neighbour.
            let taken = take_merged(transaction, books, longer, rows / 4 * 2)?;
            if let Some(left) = levels.get_mut(level) {
                *left -= taken.len();
            }
            add(levels, level + 1, merge_pairs(transaction, books, encoder, taken)?);
        }
        level += 1;
    }
    Ok(())
}

fn add(levels: &mut Levels, level: usize, rows: usize) {
    levels.resize(levels.len().max(level + 1), 0);
    if let Some(of_level) = levels.get_mut(level) {
        *of_level += rows;
    }
}

/// A row to be merged, with the number of its last tick and how many ticks it stands for.
struct Old {
    id: i64,
    ticks: i64,
    tick: MergedTick,
}

/// Takes the oldest ticks out of their tables.
fn take_ticks(transaction: &Transaction<'_>, books: &mut Books, count: usize) -> rusqlite::Result<Vec<Old>> {
    let mut taken = Vec::with_capacity(count);
    let sql = "SELECT id, row, figures, checksum FROM tick ORDER BY id LIMIT ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([count as i64])?;
    while let Some(row) = rows.next()? {
        let (id, checksum): (i64, u32) = (row.get(0)?, row.get(3)?);
        let head = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
        let tick = MergedTick { head: packed::head(head.0, head.1).map_err(failed)?, histograms: Vec::new() };
        books.remove("tick", id, checksum);
        taken.push(Old { id, ticks: 1, tick });
    }
    let Some(last) = taken.last().map(|old| old.id) else { return Ok(taken) };
    // They stand in the order of their ticks: no index is needed, which would cost with every tick.
    let sql = "SELECT id, tick, kind, body, checksum FROM histogram ORDER BY id";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let (mut at, mut last_histogram) = (0, 0);
    while let Some(row) = rows.next()? {
        let (id, tick): (i64, i64) = (row.get(0)?, row.get(1)?);
        if tick > last {
            break;
        }
        while taken.get(at).is_some_and(|old| old.id < tick) {
            at += 1;
        }
        if let Some(old) = taken.get_mut(at).filter(|old| old.id == tick) {
            old.tick.histograms.push((row.get(2)?, row.get(3)?));
        }
        books.remove("histogram", id, row.get(4)?);
        last_histogram = id;
    }
    let last_request = forget(transaction, books, "request", "tick", last)?;
    execute(transaction, "DELETE FROM tick WHERE id <= ?1", [last])?;
    execute(transaction, "DELETE FROM histogram WHERE id <= ?1", [last_histogram])?;
    execute(transaction, "DELETE FROM request WHERE id <= ?1", [last_request])?;
    Ok(taken)
}

/// Takes rows out of a table's book whose `by` is at most `last`; they stand in its order. The number of the last of them.
fn forget(
    transaction: &Transaction<'_>,
    books: &mut Books,
    table: &'static str,
    by: &str,
    last: i64,
) -> rusqlite::Result<i64> {
    let mut statement = transaction.prepare_cached(&format!("SELECT id, {by}, checksum FROM {table} ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut last_id = 0;
    while let Some(row) = rows.next()? {
        let (id, by, checksum): (i64, i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if by > last {
            break;
        }
        books.remove(table, id, checksum);
        last_id = id;
    }
    Ok(last_id)
}

/// Takes merged rows out of their table: so many after the first `skipped`.
fn take_merged(
    transaction: &Transaction<'_>,
    books: &mut Books,
    skipped: usize,
    count: usize,
) -> rusqlite::Result<Vec<Old>> {
    let sql = "SELECT id, ticks, body, checksum FROM merged ORDER BY id LIMIT ?1 OFFSET ?2";
    let mut taken = Vec::with_capacity(count);
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([count as i64, skipped as i64])?;
    while let Some(row) = rows.next()? {
        let (id, ticks, checksum): (i64, i64, u32) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let tick = MergedTick::unpack(row.get_ref(2)?.as_blob()?).map_err(failed)?;
        books.remove("merged", id, checksum);
        taken.push(Old { id, ticks, tick });
    }
    drop(rows);
    if let (Some(first), Some(last)) = (taken.first(), taken.last()) {
        execute(transaction, "DELETE FROM merged WHERE id BETWEEN ?1 AND ?2", [first.id, last.id])?;
    }
    Ok(taken)
}

/// Writes rows merged in pairs, and says how many they have become.
fn merge_pairs(
    transaction: &Transaction<'_>,
    books: &mut Books,
    encoder: &mut Encoder,
    old: Vec<Old>,
) -> rusqlite::Result<usize> {
    // In memory that is used again.
    let mut sum = Histogram::default();
    let mut written = 0;
    let mut rest = old.into_iter().peekable();
    while let Some(mut first) = rest.next() {
        let is_drain = first.tick.head.0.is_drain;
        if let Some(second) = rest.next_if(|second| second.tick.head.0.is_drain == is_drain) {
            let (row, figures) = &mut first.tick.head;
            row.merge(&second.tick.head.0);
            figures.merge(&second.tick.head.1);
            add_histograms(encoder, &mut sum, &mut first.tick.histograms, second.tick.histograms).map_err(failed)?;
            (first.id, first.ticks) = (second.id, first.ticks.saturating_add(second.ticks));
        }
        let body = first.tick.pack().map_err(failed)?;
        let checksum = books.add_as("merged", first.id, &[Field::Integer(first.ticks), Field::Blob(&body)]);
        let sql = "INSERT INTO merged(id, ticks, body, checksum) VALUES (?1, ?2, ?3, ?4)";
        execute(transaction, sql, params![first.id, first.ticks, body, checksum])?;
        written += 1;
    }
    Ok(written)
}

/// Adds other histograms to some, kind by kind.
fn add_histograms(
    encoder: &mut Encoder,
    sum: &mut Histogram<u64>,
    into: &mut Vec<(String, Vec<u8>)>,
    others: Vec<(String, Vec<u8>)>,
) -> Result<(), String> {
    for (kind, body) in others {
        match into.iter_mut().find(|(known, _)| *known == kind) {
            None => into.push((kind, body)),
            Some((_, first)) => {
                sum.reset();
                decode_into(first, sum)?;
                decode_into(&body, sum)?;
                *first = encoder.encode(sum)?.to_vec();
            }
        }
    }
    Ok(())
}

/// Lets snapshots go that are older than the newest [`FINE_TICKS`]: the history has them.
fn drop_snapshots(transaction: &Transaction<'_>, books: &mut Books) -> rusqlite::Result<()> {
    let last = books.last_id("snapshot").saturating_sub(FINE_TICKS as i64);
    forget(transaction, books, "snapshot", "id", last)?;
    execute(transaction, "DELETE FROM snapshot WHERE id <= ?1", [last])
}

fn replace_state(transaction: &Transaction<'_>, books: &mut Books, state: &[u8]) -> rusqlite::Result<()> {
    forget(transaction, books, "state", "id", i64::MAX)?;
    execute(transaction, "DELETE FROM state", [])?;
    let (id, checksum) = books.add("state", &[Field::Blob(state)]);
    execute(transaction, "INSERT INTO state(id, body, checksum) VALUES (?1, ?2, ?3)", params![id, state, checksum])
}
