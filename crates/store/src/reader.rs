//! Reads a recording back: whole and bounded, or row by row.
//!
//! Nothing in the file is trusted: each row and each part of the run's own row is held against its checksum, all of them
//! against the seal, and what they say is checked. What is damaged is left out and said ([`Recording::integrity`]); where a
//! part that nothing replaces still makes sense it is used, and that is said too. Only a plan that cannot be read, or a file
//! that SQLite cannot, is an error. A recording of format 1 has no checksums.

use crate::error::{StoreError, read_error};
use crate::figures::{StoredTotals, is_plausible};
use crate::folder::Verdict;
use crate::integrity::damage::Found;
use crate::integrity::log;
use crate::integrity::seal::{self, Seal, Sealed};
use crate::merging::state::State;
use crate::open::{Opened, log_files, open};
use crate::rows::{Table, Value};
use crate::schema;
use crate::sums::Intervals;
use diagnose::history::History;
use model::Head;
use model::event::Details;
use model::finding::Diagnosis;
use model::integrity::Integrity;
use model::profile::Profile;
use model::recording::{Capsule, End, Totals};
use model::snapshot::{Role, SamplerStatus, Snapshot};
use model::{Event, Plan, Recording};
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Is shown each snapshot with its number, counted from 0.
type Seen<'s> = &'s mut dyn FnMut(u64, &Snapshot);

/// What is said of a part of the run's row that its checksum does not fit.
const NOT_AS_WRITTEN: &str = "it is not what was written";

/// A recording to read from.
#[derive(Debug)]
pub struct Reader {
    opened: Opened,
    path: PathBuf,
    /// What the parts must come to; `None` where that cannot be known.
    seal: Option<Seal>,
    found: RefCell<Found>,
}

impl Reader {
    /// Opens a recording: finished, killed, or still being written. Never changes it.
    ///
    /// # Errors
    /// [`StoreError::Read`], [`StoreError::NotARecording`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        let mut reader = Reader { opened: open(path)?, path: path.to_owned(), seal: None, found: RefCell::default() };
        if let Some(what) = log_files(path).next().and_then(|log| log::fault(&log)) {
            reader.found().place("the log", &what);
        }
        reader.hold_still()?;
        if reader.has_checksums() {
            reader.seal = reader.read_seal()?;
        } else {
            reader.found().set_without_checksums();
        }
        Ok(reader)
    }

    /// What `runs` shows: of the head alone, and what is known of damage by now.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn head(&self) -> Result<Head, StoreError> {
        let requests = if self.has_checksums() { "0" } else { "requests" };
        let columns = format!("started_at_unix_ns, target, end, reason, {requests}");
        let values = self.of_run(&columns)?;
        let [started, target, end, reason, requests] =
            values.try_into().map_err(|_| self.damaged("its head is short"))?;
        let fields = [started.field(), target.field(), end.field(), reason.field()];
        self.check_part("head", &fields, NOT_AS_WRITTEN);
        let count = |value: Value, what| match value {
            Value::Integer(value) if value >= 0 => value.unsigned_abs(),
            _ => {
                self.found().place("head", &format!("{what} is not a number that can be"));
                0
            }
        };
        let started_at_unix_ns = count(started, "the time it started at");
        let requests = count(requests, "the number of its requests");
        let text = |value| if let Value::Text(text) = value { text } else { String::new() };
        let end = text(end);
        let end = end_of(&end).unwrap_or_else(|| {
            self.found().place("head", &format!("'{end}' is not a way to end"));
            End::Partial
        });
        Ok(Head {
            started_at_unix_ns,
            target: text(target),
            requests: self.seal.as_ref().map_or(requests, |seal| seal.requests),
            end,
            is_damaged: self.found().integrity().is_damaged(),
        })
    }

    /// Reads every row of the file, and holds it against its checksum.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn check(&self) -> Result<Integrity, StoreError> {
        self.head()?;
        // Without it nothing can be shown ([`Reader::load`]), so a list must not promise anything.
        self.plan()?;
        if !self.has_checksums() {
            return Ok(self.found().integrity().clone());
        }
        for part in PARTS {
            self.text_of_run(part)?;
        }
        for table in schema::ROWS.into_iter().filter(|table| self.has_table(table)) {
            let mut rows = self.table(table, self.columns(table));
            while rows.next(|_, _| Ok(()))?.is_some() {}
        }
        Ok(self.found().integrity().clone())
    }

    /// The whole of it, within the model's bounds however long the run was.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn load(&self) -> Result<Recording, StoreError> {
        self.load_each(&mut |_, _| (), |_| ())
    }

    /// The same, every snapshot that is in the file being shown to `each` on the way, oldest first: those too that are not
    /// kept in memory. Of a run so long that its old ticks were merged they are the newest ones.
    ///
    /// # Errors
    /// As [`Reader::load`].
    pub fn load_with(&self, mut each: impl FnMut(&Snapshot)) -> Result<Recording, StoreError> {
        self.load_each(&mut |_, snapshot| each(snapshot), |_| ())
    }

    /// The same with the history of all that was read over the run: that which the run itself had at its end.
    ///
    /// # Errors
    /// As [`Reader::load`].
    pub fn load_with_history(&self) -> Result<(Recording, History), StoreError> {
        self.load_with_history_and(|_| ())
    }

    /// The same, every snapshot that is in the file being shown to `each` on the way, as [`Reader::load_with`] does.
    ///
    /// # Errors
    /// As [`Reader::load`].
    pub fn load_with_history_and(&self, mut each: impl FnMut(&Snapshot)) -> Result<(Recording, History), StoreError> {
        let (older, newer) = (Cell::new(0), RefCell::new(History::default()));
        let recording = self.load_each(
            &mut |number, snapshot| {
                each(snapshot);
                if number >= older.get() {
                    newer.borrow_mut().push(snapshot);
                }
            },
            |state| match state.history() {
                Ok(history) => {
                    older.set(state.snapshots);
                    newer.replace(history);
                }
                Err(what) => self.found().place("the readings of the older ticks", &format!("{what}; left out")),
            },
        )?;
        Ok((recording, newer.into_inner()))
    }

    /// `older`: is shown what was made of the older part.
    fn load_each(&self, each: Seen<'_>, mut older: impl FnMut(&State)) -> Result<Recording, StoreError> {
        let capsule = self.json_of_run_or_none::<Capsule>("capsule")?.unwrap_or_else(|| {
            self.found().place("capsule", "it is missing");
            Capsule::default()
        });
        let plan = self.plan()?;
        let mut recording = Recording::new(capsule, plan);
        recording.end = self.head()?.end;
        let state = self.state(&mut recording)?;
        state.iter().for_each(&mut older);
        let mut ticks = Intervals::after(self, state.as_ref().map_or(0, |state| state.ticks));
        let mut ended = BTreeMap::new();
        while let Some((tick, row)) = ticks.next_numbered()? {
            ended.insert(tick, (row.end_ns, row.counts.requests()));
            recording.timeline.push(row);
        }
        self.load_requests(&mut recording, &ended)?;
        self.load_split(&mut recording)?;
        let peak_rss_bytes = self.load_snapshots(&mut recording, state.as_ref(), each)?;
        self.load_events(&mut recording)?;
        let totals = match self.json_of_run_or_none::<StoredTotals>("totals")? {
            Some(totals) => self.totals(totals)?,
            None => None,
        };
        recording.totals = match totals {
            Some(totals) => totals,
            None => {
                let totals = self.sum_up(&recording, state.as_ref())?;
                Totals { peak_rss_bytes: peak_rss_bytes.max(totals.peak_rss_bytes), ..totals }
            }
        };
        recording.samplers = self.json_of_run_or_none::<Vec<SamplerStatus>>("samplers")?.unwrap_or_default();
        // What is not shown is checked as well: then, too, the file was damaged.
        self.check()?;
        recording.integrity = self.found().integrity().clone();
        Ok(recording)
    }

    /// Every tick, oldest first, all workers summed; fetched a few at a time. Damaged ones are left out. After an error it
    /// ends.
    pub fn intervals(&self) -> Intervals<'_> {
        Intervals::of(self)
    }

    /// The stacks of every snapshot that has some, oldest first; fetched a few at a time.
    pub fn profiles(&self) -> impl Iterator<Item = Result<Profile, StoreError>> + '_ {
        let mut rows = self.table("snapshot", &["body"]);
        std::iter::from_fn(move || {
            loop {
                match rows.next(|_, values| profile(&one(values)?)).transpose()? {
                    Ok(None) => {}
                    Ok(Some(profile)) => return Some(Ok(profile)),
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// From when on the file has every snapshot, nanoseconds of the run; of older ones there is only what was made of them
    /// together. `None`: it has all.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub fn snapshots_from_ns(&self) -> Result<Option<i64>, StoreError> {
        #[derive(serde::Deserialize)]
        struct Moment {
            at_ns: i64,
        }
        let mut rows = self.table("snapshot", &["body"]);
        let first = rows.next(|id, values| Ok((id, json::<Moment>(&one(values)?)?.at_ns)))?;
        Ok(first.filter(|(id, _)| *id > 1 && self.has_merged()).map(|(_, at_ns)| at_ns))
    }

    /// The diagnosis made when the run ended; `None`: there was none, or it is damaged.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn stored_diagnosis(&self) -> Result<Option<Diagnosis>, StoreError> {
        self.json_of_run_or_none("diagnosis")
    }

    /// What the run came to, as it was said at its end; `None` of one that did not come to it, and where no load was put on.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn verdict(&self) -> Result<Option<Verdict>, StoreError> {
        let capsule = self.json_of_run_or_none::<Capsule>("capsule")?.unwrap_or_default();
        let stored = self.json_of_run_or_none::<StoredTotals>("totals")?.and_then(|totals| totals.into_totals().ok());
        let (Some(diagnosis), Some(totals)) = (self.stored_diagnosis()?, stored) else { return Ok(None) };
        let verdict = Verdict {
            rate_per_s: totals.requests_per_s(),
            unit: self.plan()?.unit().to_owned(),
            validity: diagnosis.validity.state,
            gives: diagnosis.gives,
        };
        Ok(Some(verdict).filter(|_| capsule.why_no_load().is_none()))
    }

    /// Why a partial recording stops where it does, if that could still be noted.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] or [`StoreError::Read`].
    pub fn partial_reason(&self) -> Result<Option<String>, StoreError> {
        Ok(match self.of_run("reason")?.pop() {
            Some(Value::Text(reason)) => Some(reason),
            _ => None,
        })
    }

    /// Whether the file's format has checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.opened.format >= schema::WITH_CHECKSUMS
    }

    /// The file's format.
    pub(crate) fn format(&self) -> usize {
        self.opened.format
    }

    /// Whether the file's format merges old ticks.
    pub(crate) fn has_merged(&self) -> bool {
        self.opened.format >= schema::WITH_MERGED
    }

    /// Whether the file's format has a table.
    pub(crate) fn has_table(&self, table: &str) -> bool {
        schema::tables(self.opened.format).any(|name| name == table)
    }

    pub(crate) fn columns(&self, table: &str) -> &'static [&'static str] {
        schema::columns(table, self.opened.format)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.opened.connection
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> RefMut<'_, Found> {
        self.found.borrow_mut()
    }

    /// What a table must come to.
    pub(crate) fn sealed(&self, table: &str) -> Option<Sealed> {
        self.seal.as_ref().and_then(|seal| seal.tables.get(table)).copied()
    }

    pub(crate) fn table(&self, name: &'static str, columns: &[&str]) -> Table<'_> {
        Table::new(self, name, columns)
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.into() }
    }

    /// From here on the file is read as it is at this moment, though the run may go on. With a log beside it that keeps
    /// nobody from writing; without one it would, and there each table is held against the seal of its own moment.
    fn hold_still(&self) -> Result<(), StoreError> {
        let mode = self.connection().pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => {
                self.connection().execute_batch("BEGIN").map_err(|error| read_error(&self.path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Whether the seal is still the one that was read first.
    pub(crate) fn is_still(&self) -> bool {
        let sql = "SELECT body FROM seal WHERE id = 1";
        let body = self.connection().query_row(sql, [], |row| row.get::<_, String>(0));
        body.ok().and_then(|body| serde_json::from_str::<Seal>(&body).ok()) == self.seal
    }

    fn read_seal(&self) -> Result<Option<Seal>, StoreError> {
        let sql = "SELECT body, checksum FROM seal WHERE id = 1";
        let read =
            self.connection().query_row(sql, [], |row| Ok((Value::of(row.get_ref(0)?), Value::of(row.get_ref(1)?))));
        let sound = match read {
            Ok((Value::Text(body), Value::Integer(checksum)))
                if i64::from(seal::of_seal(body.as_bytes())) == checksum =>
            {
                serde_json::from_str::<Seal>(&body).ok()
            }
            Ok(_) | Err(rusqlite::Error::QueryReturnedNoRows) => None,
            Err(error) => match read_error(&self.path, &error) {
                StoreError::Damaged { .. } => None,
                error => return Err(error),
            },
        };
        if sound.is_none() {
            self.found().place("the seal", "whether all that was written is there cannot be told");
        }
        Ok(sound)
    }

    /// Nothing can be made of a recording without its plan.
    fn plan(&self) -> Result<Plan, StoreError> {
        let text = self.text_of_run("plan")?.ok_or_else(|| self.damaged("its plan is missing"))?;
        let plan: Plan = serde_json::from_str(&text).map_err(|error| self.damaged(format!("its plan: {error}")))?;
        if plan.origins.is_empty() {
            return Err(self.damaged("its plan has no origin"));
        }
        Ok(plan)
    }

    /// The snapshots, and the generator's highest resident memory among those that are read.
    fn load_snapshots(
        &self,
        recording: &mut Recording,
        state: Option<&State>,
        each: Seen<'_>,
    ) -> Result<u64, StoreError> {
        let older = state.map_or(0, |state| state.snapshots);
        // Where it is told in no totals, what is kept of the older part is what there is.
        let kept = recording.snapshots.iter().chain(&recording.after).map(generator_rss_bytes);
        let mut peak_rss_bytes = kept.max().unwrap_or(0);
        let mut rows = self.table("snapshot", &["body"]);
        while let Some((number, snapshot)) = rows.next(|id, values| {
            let snapshot: Snapshot = json(&one(values)?)?;
            if !is_plausible(&snapshot) {
                return Err("it holds a CPU time longer than can be".to_owned());
            }
            Ok((id - 1, snapshot))
        })? {
            rows.reached(snapshot.at_ns);
            peak_rss_bytes = peak_rss_bytes.max(generator_rss_bytes(&snapshot));
            each(number, &snapshot);
            if number >= older {
                recording.push_snapshot(number, snapshot);
            }
        }
        Ok(peak_rss_bytes)
    }

    fn load_events(&self, recording: &mut Recording) -> Result<(), StoreError> {
        let mut rows = self.table("event", self.columns("event"));
        while let Some(event) = rows.next(|_, mut values| {
            let details = if values.len() > 3 { values.pop() } else { None };
            let [at_ns, kind, text] = fields(values)?;
            let Value::Integer(at_ns) = at_ns else { return Err("it has no time".to_owned()) };
            let details = details.map_or_else(|| Ok(Details::default()), |details| json(&details))?;
            Ok(Event::new(at_ns, into_text(kind)?, into_text(text)?).with(details))
        })? {
            rows.reached(event.at_ns);
            recording.push_event(event);
        }
        Ok(())
    }

    /// Some columns of the run's row.
    fn of_run(&self, columns: &str) -> Result<Vec<Value>, StoreError> {
        let sql = format!("SELECT {columns} FROM run WHERE id = 1");
        let all = |row: &rusqlite::Row<'_>| {
            let count = row.as_ref().column_count();
            (0..count).map(|column| Ok(Value::of(row.get_ref(column)?))).collect()
        };
        self.connection().query_row(&sql, [], all).map_err(|error| read_error(&self.path, &error))
    }

    /// A part of the run's row that is a text of its own, checked; `None` where there is none.
    fn text_of_run(&self, part: &'static str) -> Result<Option<String>, StoreError> {
        let Some(value) = self.of_run(part)?.pop() else { return Ok(None) };
        let is_expected = self.seal.as_ref().is_none_or(|seal| seal.run.contains_key(part));
        match value {
            Value::Other if !is_expected => Ok(None),
            Value::Text(text) => {
                let fields = [crate::integrity::checksum::Field::Text(text.as_bytes())];
                let replaced = part == "totals" || part == "diagnosis";
                let what = if replaced { "it is not what was written, and is left out" } else { NOT_AS_WRITTEN };
                let is_sound = self.check_part(part, &fields, what);
                Ok(if is_sound || !replaced { Some(text) } else { None })
            }
            Value::Other if !self.has_checksums() || self.seal.is_none() => Ok(None),
            _ => {
                self.found().place(part, "it is not what was written, and is left out");
                Ok(None)
            }
        }
    }

    /// Holds a part of the run's row against the seal, where there is one.
    fn check_part(&self, part: &'static str, fields: &[crate::integrity::checksum::Field<'_>], what: &str) -> bool {
        let Some(seal) = &self.seal else { return true };
        let is_sound = seal.run.get(part) == Some(&seal::of_part(part, fields));
        if !is_sound {
            self.found().place(part, what);
        }
        is_sound
    }

    /// A part of the run's row; one that makes no sense is noted, and there is none.
    fn json_of_run_or_none<T: DeserializeOwned>(&self, part: &'static str) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text_of_run(part)? else { return Ok(None) };
        match serde_json::from_str(&text) {
            Ok(made) => Ok(Some(made)),
            Err(error) => {
                self.found().place(part, &format!("{error}; it is left out"));
                Ok(None)
            }
        }
    }
}

/// The parts of the run's row that are texts of their own.
const PARTS: [&str; 5] = ["capsule", "plan", "totals", "samplers", "diagnosis"];

/// A row's values, so many as there must be.
pub(crate) fn fields<const N: usize>(values: Vec<Value>) -> Result<[Value; N], String> {
    values.try_into().map_err(|_| "it has too few columns".to_owned())
}

fn one(values: Vec<Value>) -> Result<Value, String> {
    fields::<1>(values).map(|[value]| value)
}

/// A text that is a document.
pub(crate) fn json<T: DeserializeOwned>(body: &Value) -> Result<T, String> {
    match body {
        Value::Text(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
        _ => Err("it is not text".to_owned()),
    }
}

pub(crate) fn into_text(value: Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err("something else is where a text must be".to_owned()),
    }
}

/// The stacks of a snapshot, without reading the rest of it.
/// Readings after the load are thinned on their own.
fn profile(body: &Value) -> Result<Option<Profile>, String> {
    /// A snapshot as far as it is wanted here.
    #[derive(serde::Deserialize)]
    struct Profiled {
        profile: Option<Profile>,
    }
    if !matches!(body, Value::Text(text) if text.contains("\"profile\":{")) {
        return Ok(None);
    }
    Ok(json::<Profiled>(body)?.profile)
}

fn end_of(text: &str) -> Option<End> {
    [End::Complete, End::Interrupted, End::Partial].into_iter().find(|end| crate::writer::end_name(*end) == text)
}

fn generator_rss_bytes(snapshot: &Snapshot) -> u64 {
    let own = snapshot.processes.iter().filter(|process| process.role == Role::Generator);
    own.filter_map(|process| process.rss_bytes).max().unwrap_or(0)
}
