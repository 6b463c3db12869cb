//! Reads a recording back: whole and bounded, or row by row.
//!
//! A run that ended has its totals in the file; of one that did not they are made by adding up its ticks. Nothing in
//! the file is trusted: text, histograms and figures are checked, rows must come in ascending order (a page that
//! two parents share would otherwise be read for ever), and whatever is wrong is one sentence naming the place.

use crate::error::{StoreError, read_error};
use crate::figures::{
    Figures, StoredTotals, histogram_name, is_absurd, is_plausible, largest_count, largest_gauge, latencies_mut,
};
use crate::folder::Head;
use crate::histogram::decode_into;
use crate::limits::{BYTES_AT_ONCE, ROWS_AT_ONCE};
use crate::open::{Opened, open};
use model::finding::Diagnosis;
use model::profile::Profile;
use model::recording::{Capsule, End, Row, Totals};
use model::snapshot::{Role, SamplerStatus, Snapshot};
use model::{Event, LatencyKind, Plan, Recording};
use rusqlite::types::FromSql;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// A recording to read from.
#[derive(Debug)]
pub struct Reader {
    opened: Opened,
    path: PathBuf,
}

impl Reader {
    /// Opens a recording: finished, killed, or still being written. Never changes it.
    ///
    /// # Errors
    /// [`StoreError::Read`], [`StoreError::NotARecording`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        Ok(Reader { opened: open(path)?, path: path.to_owned() })
    }

    /// What `runs` shows.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn head(&self) -> Result<Head, StoreError> {
        let text: String = self.of_run("end")?;
        let count = |value: i64, what| u64::try_from(value).map_err(|_| self.damaged(format!("{what} is negative")));
        Ok(Head {
            started_at_unix_ns: count(self.of_run("started_at_unix_ns")?, "the time it started at")?,
            target: self.of_run("target")?,
            requests: count(self.of_run("requests")?, "the number of its requests")?,
            end: end_of(&text).ok_or_else(|| self.damaged(format!("'{text}' is not a way to end")))?,
        })
    }

    /// The whole of it, within the model's bounds however long the run was.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn load(&self) -> Result<Recording, StoreError> {
        let mut recording = Recording::new(self.json_of_run::<Capsule>("capsule")?, self.json_of_run::<Plan>("plan")?);
        if recording.plan.origins.is_empty() {
            return Err(self.damaged("its plan has no origin"));
        }
        let head = self.head()?;
        recording.end = head.end;
        for row in self.intervals() {
            recording.timeline.push(row?);
        }
        let mut peak_rss_bytes = 0;
        for number in self.table("snapshot", &["body"]) {
            let [id, body] = number?.try_into_array(self)?;
            let number = self.number(&id)? - 1;
            // Parsing is most of the cost, and of a long run most would be thinned out again.
            if number.is_multiple_of(recording.snapshot_stride) {
                let snapshot: Snapshot = self.json("snapshot", &id, &body)?;
                if !is_plausible(&snapshot) {
                    return Err(self.damaged(format!("snapshot {number} holds a CPU time longer than can be")));
                }
                peak_rss_bytes = peak_rss_bytes.max(generator_rss_bytes(&snapshot));
                recording.push_snapshot(number, snapshot);
            } else if let Some(profile) = self.profile(&id, &body)? {
                recording.add_profile(&profile);
            }
        }
        self.load_events(&mut recording)?;
        recording.totals = match self.json_of_run_or_none::<StoredTotals>("totals")? {
            Some(totals) => self.load_totals(totals)?,
            None => Totals { peak_rss_bytes, ..self.sum_up(&recording)? },
        };
        recording.samplers = self.json_of_run_or_none::<Vec<SamplerStatus>>("samplers")?.unwrap_or_default();
        Ok(recording)
    }

    /// Every tick, oldest first, all workers summed; fetched a few at a time. After an error it ends.
    pub fn intervals(&self) -> Intervals<'_> {
        Intervals { reader: self, rows: self.table("tick", &["row", "figures"]), guard: Guard::default(), ended: false }
    }

    /// The stacks of every snapshot that has some, oldest first; fetched a few at a time.
    pub fn profiles(&self) -> impl Iterator<Item = Result<Profile, StoreError>> + '_ {
        self.table("snapshot", &["body"]).filter_map(|fields| {
            let of = |fields: Fields| {
                let [id, body] = fields.try_into_array(self)?;
                self.profile(&id, &body)
            };
            fields.and_then(of).transpose()
        })
    }

    /// The diagnosis made when the run ended; `None`: there was none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn stored_diagnosis(&self) -> Result<Option<Diagnosis>, StoreError> {
        self.json_of_run_or_none("diagnosis")
    }

    /// Why a partial recording stops where it does, if that could still be noted.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn partial_reason(&self) -> Result<Option<String>, StoreError> {
        self.of_run("reason")
    }

    /// The stacks of a snapshot, without reading the rest of it.
    fn profile(&self, id: &Value, body: &Value) -> Result<Option<Profile>, StoreError> {
        /// A snapshot as far as it is wanted here.
        #[derive(serde::Deserialize)]
        struct Profiled {
            profile: Option<Profile>,
        }
        if !matches!(body, Value::Text(text) if text.contains("\"profile\":{")) {
            return Ok(None);
        }
        Ok(self.json::<Profiled>("snapshot", id, body)?.profile)
    }

    fn load_events(&self, recording: &mut Recording) -> Result<(), StoreError> {
        for row in self.table("event", &["at_ns", "kind", "text"]) {
            let [_, at_ns, kind, text] = row?.try_into_array(self)?;
            let Value::Integer(at_ns) = at_ns else {
                return Err(self.damaged("an event has no time"));
            };
            recording.push_event(Event { at_ns, kind: self.text(kind)?, text: self.text(text)? });
        }
        Ok(())
    }

    /// The totals as they were kept.
    fn load_totals(&self, stored: StoredTotals) -> Result<Totals, StoreError> {
        let mut totals = stored.into_totals().map_err(|what| self.damaged(what))?;
        for (part, latency) in latencies_mut(&mut totals) {
            for kind in LatencyKind::ALL {
                let name = histogram_name(part, kind);
                let sql = "SELECT body FROM total_histogram WHERE kind = ?1";
                let body = self.opened.connection.query_row(sql, [&name], |row| row.get::<_, Vec<u8>>(0));
                match body {
                    Ok(body) => {
                        decode_into(&body, latency.of_mut(kind))
                            .map_err(|what| self.damaged(format!("its {name} histogram: {what}")))?;
                    }
                    Err(rusqlite::Error::QueryReturnedNoRows) => {}
                    Err(error) => return Err(read_error(&self.path, &error)),
                }
            }
        }
        Ok(totals)
    }

    /// The totals of a run that did not come to its end, from its ticks.
    fn sum_up(&self, recording: &Recording) -> Result<Totals, StoreError> {
        let mut totals = Totals::default();
        let mut ticks = self.intervals();
        let (mut first_ns, mut load_end_ns) = (None, 0);
        // Messages sent while connections are made are warm-up: where the first one counts, that is over.
        let mut first_measured_ns = None;
        let is_ramp_warmup = recording.plan.is_ramp_warmup();
        let (mut disturbed, mut in_windows) = (Rows::default(), Rows::default());
        let mut number = 0;
        while let Some(tick) = ticks.next_with_figures() {
            let (row, figures) = tick?;
            number += 1;
            let counts = if row.end_ns <= recording.plan.warmup_ns { row.counts.of_requests() } else { row.counts };
            totals.sum.counts.add(&counts);
            totals.sum.gauges = row.gauges;
            figures.add_to(&mut totals.sum).map_err(|what| self.damaged(what))?;
            totals.connections_max = totals.connections_max.max(row.gauges.connections);
            totals.sum.end_ns = row.end_ns;
            first_ns.get_or_insert(row.start_ns);
            if is_ramp_warmup && row.counts.started > 0 {
                first_measured_ns.get_or_insert(row.start_ns);
            }
            if !row.is_drain {
                totals.in_time.add(&counts);
                load_end_ns = row.end_ns;
            }
            if row.end_ns > recording.plan.warmup_ns {
                for (is_of_part, rows, part) in [
                    (row.disturbance.is_any(), &mut disturbed, &mut totals.disturbed),
                    (row.in_window, &mut in_windows, &mut totals.in_windows),
                ] {
                    if is_of_part {
                        part.get_or_insert_default().add_row(&row);
                        rows.insert(number);
                    }
                }
            }
        }
        for row in self.table("histogram", &["tick", "kind", "body"]) {
            let [_, tick, kind, body] = row?.try_into_array(self)?;
            let (tick, kind) = (self.number(&tick)?, self.text(kind)?);
            let Some(known) = LatencyKind::ALL.into_iter().find(|k| k.name() == kind) else {
                return Err(self.damaged(format!("'{kind}' is not a known kind of latency")));
            };
            let Value::Blob(body) = body else {
                return Err(self.damaged(format!("the {kind} histogram of tick {tick} is not one")));
            };
            let into = [
                Some(&mut totals.sum),
                totals.disturbed.as_mut().filter(|_| disturbed.contains(&tick)).map(|part| &mut part.sum),
                totals
                    .in_windows
                    .as_mut()
                    .filter(|_| in_windows.contains(&tick) && LatencyKind::OF_WINDOWS.contains(&known))
                    .map(|part| &mut part.sum),
            ];
            for sum in into.into_iter().flatten() {
                decode_into(&body, sum.latency.of_mut(known))
                    .map_err(|what| self.damaged(format!("the {kind} histogram of tick {tick}: {what}")))?;
            }
        }
        let start_ns = first_ns.unwrap_or(0).max(recording.plan.warmup_ns).max(first_measured_ns.unwrap_or(0));
        totals.sum.start_ns = first_ns.unwrap_or(0);
        totals.measured_from_ns = start_ns;
        totals.measured_ns = load_end_ns.saturating_sub(start_ns);
        totals.cpu_user_ns = totals.sum.counts.cpu_user_ns;
        totals.cpu_system_ns = totals.sum.counts.cpu_system_ns;
        // Accounting: what was started and has no end was in flight when the recording stopped.
        let counts = &totals.sum.counts;
        totals.in_flight_at_end = counts.started.saturating_sub(counts.requests());
        Ok(totals)
    }

    fn of_run<T: FromSql>(&self, column: &str) -> Result<T, StoreError> {
        self.opened
            .connection
            .query_row(&format!("SELECT {column} FROM run WHERE id = 1"), [], |row| row.get(0))
            .map_err(|error| read_error(&self.path, &error))
    }

    fn json_of_run<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        self.json_of_run_or_none(column)?.ok_or_else(|| self.damaged(format!("its {column} is missing")))
    }

    fn json_of_run_or_none<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StoreError> {
        let text: Option<String> = self.of_run(column)?;
        text.map(|text| serde_json::from_str(&text).map_err(|error| self.damaged(format!("its {column}: {error}"))))
            .transpose()
    }

    fn json<T: DeserializeOwned>(&self, table: &str, id: &Value, body: &Value) -> Result<T, StoreError> {
        let id = self.number(id)?;
        match body {
            Value::Text(text) => {
                serde_json::from_str(text).map_err(|error| self.damaged(format!("{table} {id}: {error}")))
            }
            _ => Err(self.damaged(format!("{table} {id} is not text"))),
        }
    }

    fn text(&self, value: Value) -> Result<String, StoreError> {
        match value {
            Value::Text(text) => Ok(text),
            _ => Err(self.damaged("something else is where a text must be")),
        }
    }

    fn number(&self, value: &Value) -> Result<u64, StoreError> {
        match value {
            Value::Integer(number) if *number > 0 => Ok(number.unsigned_abs()),
            _ => Err(self.damaged("a row has no number")),
        }
    }

    fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.into() }
    }

    fn table<'r>(&'r self, name: &str, columns: &[&str]) -> Table<'r> {
        let sql = format!("SELECT id, {} FROM {name} WHERE id > ?1 ORDER BY id LIMIT ?2", columns.join(", "));
        Table { reader: self, sql, columns: columns.len() + 1, last_id: 0, fetched: VecDeque::new(), ended: false }
    }
}

/// The numbers of ticks that belong to a part of the run.
type Rows = std::collections::BTreeSet<u64>;

/// Every tick of a recording, oldest first.
#[derive(Debug)]
pub struct Intervals<'r> {
    reader: &'r Reader,
    rows: Table<'r>,
    guard: Guard,
    ended: bool,
}

impl Intervals<'_> {
    fn next_with_figures(&mut self) -> Option<Result<(Row, Figures), StoreError>> {
        if self.ended {
            return None;
        }
        let next = self.rows.next()?.and_then(|fields| self.parse(fields));
        self.ended = next.is_err();
        Some(next)
    }

    fn parse(&mut self, fields: Fields) -> Result<(Row, Figures), StoreError> {
        let [id, row, figures] = fields.try_into_array(self.reader)?;
        let mut row: Row = self.reader.json("tick", &id, &row)?;
        let figures: Figures = self.reader.json("tick", &id, &figures)?;
        self.guard.admit(&mut row, &figures).map_err(|what| self.reader.damaged(what))?;
        Ok((row, figures))
    }
}

impl Iterator for Intervals<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with_figures().map(|next| next.map(|(row, _)| row))
    }
}

/// Sees to it that no sum over the admitted rows can overflow.
#[derive(Debug, Default)]
struct Guard {
    /// At least as large as the sum of any one counter.
    counted: u64,
    response_sum_ns: u64,
}

impl Guard {
    fn admit(&mut self, row: &mut Row, figures: &Figures) -> Result<(), String> {
        if is_absurd(row.end_ns) || row.start_ns > row.end_ns || is_absurd(largest_gauge(&row.gauges)) {
            return Err("a tick has a time or a reading that cannot be".to_owned());
        }
        self.counted = self
            .counted
            .checked_add(largest_count(&row.counts).max(figures.largest()))
            .filter(|sum| !is_absurd(*sum))
            .ok_or("its ticks count more than can be")?;
        // Long queues of an overloaded target really reach this one: it saturates.
        row.response_sum_ns = row.response_sum_ns.min(u64::MAX - self.response_sum_ns);
        self.response_sum_ns += row.response_sum_ns;
        Ok(())
    }
}

/// The rows of a table in ascending order, a few at a time.
#[derive(Debug)]
struct Table<'r> {
    reader: &'r Reader,
    sql: String,
    columns: usize,
    last_id: i64,
    fetched: VecDeque<Fields>,
    ended: bool,
}

/// A value as SQLite gives it; only what a recording has.
#[derive(Debug)]
enum Value {
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Value::Integer(_) => size_of::<i64>(),
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
        }
    }
}

#[derive(Debug)]
struct Fields(Vec<Value>);

impl Fields {
    fn try_into_array<const N: usize>(self, reader: &Reader) -> Result<[Value; N], StoreError> {
        self.0.try_into().map_err(|_| reader.damaged("a row has too few columns"))
    }
}

impl Table<'_> {
    fn fetch(&mut self) -> Result<(), StoreError> {
        let failed = |error| read_error(&self.reader.path, &error);
        let mut statement = self.reader.opened.connection.prepare_cached(&self.sql).map_err(failed)?;
        let mut rows = statement.query((self.last_id, ROWS_AT_ONCE as i64)).map_err(failed)?;
        let mut bytes = 0;
        // A batch stays small even where the file's rows are as large as they may be.
        while bytes < BYTES_AT_ONCE {
            let Some(row) = rows.next().map_err(failed)? else {
                self.ended = self.fetched.len() < ROWS_AT_ONCE;
                break;
            };
            let fields = (0..self.columns).map(|i| value_of(row, i)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
            match fields.first() {
                Some(Value::Integer(id)) if *id > self.last_id => self.last_id = *id,
                _ => return Err(self.reader.damaged("its rows are out of order")),
            }
            bytes += fields.iter().map(Value::bytes).sum::<usize>();
            self.fetched.push_back(Fields(fields));
        }
        Ok(())
    }
}

impl Iterator for Table<'_> {
    type Item = Result<Fields, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.fetched.is_empty()
            && !self.ended
            && let Err(error) = self.fetch()
        {
            self.ended = true;
            return Some(Err(error));
        }
        self.fetched.pop_front().map(Ok)
    }
}

fn value_of(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Value> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Text(_) => Value::Text(row.get(column)?),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        other => {
            return Err(rusqlite::Error::InvalidColumnType(column, "value".to_owned(), other.data_type()));
        }
    })
}

fn end_of(text: &str) -> Option<End> {
    [End::Complete, End::Interrupted, End::Partial].into_iter().find(|end| crate::writer::end_name(*end) == text)
}

fn generator_rss_bytes(snapshot: &Snapshot) -> u64 {
    let own = snapshot.processes.iter().filter(|process| process.role == Role::Generator);
    own.filter_map(|process| process.rss_bytes).max().unwrap_or(0)
}
