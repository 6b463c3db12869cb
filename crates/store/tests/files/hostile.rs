//! Files that are old, new, something else, cut off or corrupt: one sentence each, no panic, and never changed.

use crate::common::*;
use model::LatencyKind;
use model::finding::Diagnosis;
use model::recording::{End, Row, Timeline};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use store::{Reader, StoreError};

/// Opens and reads all there is, as the commands would. What cannot be read, or is said to be damaged, in sentences.
fn read_all(path: &Path) -> Result<(), String> {
    let read = || -> Result<Vec<String>, StoreError> {
        let reader = Reader::open(path)?;
        reader.head()?;
        reader.stored_diagnosis()?;
        reader.partial_reason()?;
        let recording = reader.load()?;
        reader.intervals().collect::<Result<Vec<_>, _>>()?;
        reader.profiles().collect::<Result<Vec<_>, _>>()?;
        let found = reader.check().unwrap();
        if !found.without_checksums {
            assert_eq!(found, recording.integrity, "nothing is found later or twice");
        }
        Ok(found.damage.iter().map(|damage| format!("{}: {}", damage.place, damage.what)).collect())
    };
    match read() {
        Ok(damage) if damage.is_empty() => Ok(()),
        Ok(damage) => Err(damage.join("; ")),
        Err(error) => {
            assert!(error.to_string().contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
            Err(error.to_string())
        }
    }
}

/// A finished recording of two ticks as version 0.1 of the tool wrote it, in format 3.
const FORMAT_3: &str = "tests/formats/3.plimsoll";

/// A finished recording changed by some SQL; one of format 3 where it is to become one of format 1.
fn changed(folder: &Path, sql: &str) -> PathBuf {
    let path = folder.join("changed.plimsoll");
    let _ = std::fs::remove_file(&path);
    if sql.starts_with(FORMAT_1) {
        std::fs::copy(FORMAT_3, &path).unwrap();
    } else {
        finished(&path, 2);
    }
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

/// What makes a recording of format 1, as it was before there were checksums, of one of format 3.
const FORMAT_1: &str = "
    ALTER TABLE run ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
    UPDATE run SET requests = (SELECT body ->> 'requests' FROM seal);
    ALTER TABLE tick DROP COLUMN checksum;
    ALTER TABLE histogram DROP COLUMN checksum;
    ALTER TABLE snapshot DROP COLUMN checksum;
    ALTER TABLE event DROP COLUMN checksum;
    ALTER TABLE event DROP COLUMN details;
    CREATE TABLE old(kind TEXT PRIMARY KEY, body BLOB NOT NULL);
    INSERT INTO old SELECT kind, body FROM total_histogram;
    DROP TABLE total_histogram;
    ALTER TABLE old RENAME TO total_histogram;
    DROP TABLE request;
    DROP TABLE seal;
    PRAGMA user_version = 1;";

/// Reads a changed recording, holds that it is refused or said to be damaged, and that its bytes stay as they were.
fn check(sql: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = changed(folder.path(), sql);
    let before = std::fs::read(&path).unwrap();
    let said = read_all(&path).expect_err(sql);
    assert!(said.contains(expected) && !said.contains('\n'), "{sql}: {said}");
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(names(folder.path()), ["changed.plimsoll"]);
}

#[test]
fn what_cannot_be_is_damage_and_is_said() {
    for (sql, expected) in [
        ("PRAGMA user_version = 6", "written by a newer plimsoll (format 6, this one reads up to 5)"),
        ("PRAGMA user_version = 99; DROP TABLE tick; CREATE VIEW tick AS SELECT 1", "newer plimsoll (format 99"),
        ("PRAGMA user_version = -1", "not a recording"),
        ("PRAGMA application_id = 5", "another program's database"),
        ("PRAGMA user_version = 0", "is damaged: it is of format 0 and cannot be brought to 1: duplicate column"),
        ("PRAGMA user_version = 1", "no such column: requests"),
        ("DELETE FROM run", "a row that must be there is missing"),
        ("DROP TABLE event", "its table 'event' is missing"),
        ("DROP TABLE seal", "its table 'seal' is missing"),
        ("ALTER TABLE tick RENAME COLUMN figures TO other", "its table 'tick' is not made as one of a recording"),
        ("CREATE VIEW v AS SELECT 1", "holds things that no recording has"),
        ("CREATE TRIGGER t AFTER INSERT ON tick BEGIN DELETE FROM run; END", "holds things that no recording has"),
        ("CREATE INDEX i ON tick(abs(sequence))", "holds things that no recording has"),
        ("UPDATE run SET plan = '{'", "its plan: EOF"),
        ("UPDATE run SET plan = json_set(plan, '$.origins', json_array())", "its plan has no origin"),
        ("UPDATE run SET plan = json_set(plan, '$.connections', -1)", "its plan: invalid value"),
    ] {
        check(sql, expected);
    }
}

#[test]
fn what_cannot_be_is_said_of_recordings_without_checksums_too() {
    for (sql, expected) in [
        ("UPDATE run SET capsule = x'ff'", "capsule: it is not what was written"),
        ("UPDATE run SET capsule = CAST(x'ff' AS TEXT)", "capsule: it is missing"),
        ("UPDATE run SET end = 'sideways'", "'sideways' is not a way to end"),
        ("UPDATE run SET requests = -1", "not a number that can be"),
        ("UPDATE run SET started_at_unix_ns = -1", "not a number that can be"),
        ("UPDATE run SET totals = json_set(totals, '$.counts.ok', 9223372036854775807)", "larger than can be"),
        ("UPDATE run SET totals = json_set(totals, '$.figures.errors.sabotage', 1)", "not a known kind of error"),
        ("UPDATE run SET totals = replace(hex(zeroblob(100000)), '00', '[')", "totals: "),
        ("UPDATE run SET diagnosis = '[]'", "diagnosis: "),
        ("UPDATE run SET samplers = '{}'", "samplers: "),
        ("UPDATE tick SET row = x'00'", "tick 1: it is not text"),
        ("UPDATE tick SET row = json_set(row, '$.start_ns', 18446744073709551615)", "tick 1: "),
        ("UPDATE tick SET row = json_set(row, '$.start_ns', 5000000000)", "a time or a reading that cannot be"),
        ("UPDATE tick SET row = json_set(row, '$.counts.ok', (1 << 60) + 1)", "count more than can be"),
        ("UPDATE tick SET figures = '{\"status\":{\"200\":18446744073709551615}}'", "count more than can be"),
        ("UPDATE tick SET figures = '{\"status\":{\"x\":1}}'", "tick 1: "),
        ("UPDATE tick SET figures = '{\"errors\":{\"x\":1}}'", "tick 1: 'x' is not a known kind of error"),
        ("UPDATE snapshot SET body = '3'", "snapshot 1: "),
        ("UPDATE snapshot SET body = json_set(body, '$.cpu.idle_ns', 1 << 62)", "a CPU time longer than can be"),
        ("UPDATE event SET text = x'05'", "something else is where a text must be"),
        ("UPDATE event SET at_ns = 'noon'", "event 1: it has no time"),
        ("UPDATE total_histogram SET body = x''", "it is shorter than a histogram's head"),
        ("UPDATE total_histogram SET body = zeroblob(1000)", "not a histogram of the expected range"),
        ("UPDATE run SET totals = NULL; UPDATE histogram SET kind = 'x'", "'x' is not a known kind of latency"),
        ("UPDATE run SET totals = NULL; UPDATE histogram SET body = 'x'", "histogram 1: it is not a histogram"),
        ("UPDATE run SET totals = NULL; UPDATE histogram SET tick = -1", "histogram 1: it is of no tick"),
    ] {
        check(&format!("{FORMAT_1}{sql}"), expected);
        // With them it is found by its checksum, whatever it says.
        if !sql.contains("requests") {
            let found_by = if sql.contains("diagnosis") { "left out" } else { "it is not what was written" };
            check(sql, found_by);
        }
    }
}

#[test]
fn a_row_that_is_missing_doubled_or_elsewhere_is_said() {
    for (sql, expected) in [
        ("DELETE FROM tick WHERE id = 2", "the ticks: 1 of its 2 rows are missing"),
        ("DELETE FROM snapshot", "the snapshots: 2 of its 2 rows are missing"),
        ("DELETE FROM total_histogram WHERE kind = 'response'", "the totals' histograms: 1 of its"),
        (
            "INSERT INTO event SELECT 3, at_ns, kind, text, details, checksum FROM event WHERE id = 1",
            "event 3: it is not",
        ),
        ("UPDATE tick SET id = 3 WHERE id = 1", "tick 3: it is not what was written"),
        ("UPDATE tick SET id = 5 - id; UPDATE tick SET id = id - 2", "tick 1: it is not what was written"),
        ("DELETE FROM seal", "the seal: whether all that was written is there cannot be told"),
        ("UPDATE seal SET body = replace(body, '2', '3')", "the seal: "),
        ("UPDATE run SET totals = NULL", "totals: it is not what was written"),
        ("UPDATE run SET reason = 'because'", "head: it is not what was written"),
        ("UPDATE run SET target = 'elsewhere'", "head: it is not what was written"),
    ] {
        check(sql, expected);
    }
}

#[test]
fn what_is_left_of_a_damaged_recording_is_read_and_the_second_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    finished(&path, 5);
    let change = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    change("UPDATE tick SET row = replace(row, '1', '2') WHERE id = 3; UPDATE snapshot SET body = '' WHERE id = 5");
    let reader = Reader::open(&path).unwrap();
    let r = reader.load().unwrap();
    // The totals are whole, and are what was written.
    assert_eq!(r.totals, totals(5));
    assert_eq!((r.timeline.rows().len(), r.snapshots.len(), r.events.len()), (4, 4, 5));
    let damage: Vec<_> = r.integrity.damage.iter().map(|d| (d.place.as_str(), d.at_s)).collect();
    assert_eq!(damage, [("tick 3", Some(2.0)), ("snapshot 5", Some(3.0 - 1e-9))]);
    assert_eq!(reader.intervals().count(), 4);
    assert!(reader.head().unwrap().is_damaged);
    // Without them they are made of the ticks that are left.
    change("UPDATE total_histogram SET body = x'00' WHERE kind = 'response'");
    let r = Reader::open(&path).unwrap().load().unwrap();
    assert_eq!(r.totals.sum.counts.ok, 4 * 18);
    assert_eq!(r.totals.sum.latency.of(LatencyKind::Response).len(), 4 * 18);
    assert!(r.totals.is_conserved());
}

/// A diagnosis without what was not known of one then.
fn of_format_3(mut diagnosis: Diagnosis) -> Diagnosis {
    (diagnosis.gives, diagnosis.losses) = (None, Vec::new());
    for finding in &mut diagnosis.findings {
        (finding.causes, finding.because_of, finding.explains) = (Vec::new(), Vec::new(), None);
        for piece in &mut finding.because {
            (piece.source, piece.is_against, piece.threshold) = (None, false, None);
        }
    }
    diagnosis
}

#[test]
fn older_formats_are_read_and_it_is_said_that_they_have_no_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let format_0 = format!("{FORMAT_1} ALTER TABLE run DROP COLUMN reason; PRAGMA user_version = 0");
    for sql in [FORMAT_1, &format_0] {
        let path = changed(folder.path(), sql);
        let before = std::fs::read(&path).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.head().unwrap().requests, 40);
        let r = reader.load().unwrap();
        assert_eq!((r.end, r.totals), (End::Complete, totals(2)));
        assert!(r.integrity.without_checksums && r.integrity.damage.is_empty(), "{:?}", r.integrity);
        assert_eq!(reader.partial_reason().unwrap(), None);
        assert_eq!(reader.stored_diagnosis().unwrap(), Some(of_format_3(diagnosis())));
        drop(reader);
        assert!(std::fs::read(&path).unwrap() == before);
        assert_eq!(names(folder.path()), ["changed.plimsoll"]);
    }
}

/// The checksum of a row, as the format has it: of its table, its number and its values, each with kind and length.
fn checksum(table: &str, id: i64, values: &[(u8, &[u8])]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let number = id.to_le_bytes();
    for (kind, bytes) in [(b't', table.as_bytes()), (b'i', &number)].iter().chain(values) {
        hasher.update(&[*kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.finalize()
}

/// Makes a recording of format 2 of one of the present: its events have no details, and checksums that fit.
fn into_format_2(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("ALTER TABLE event DROP COLUMN details; DROP TABLE request; PRAGMA user_version = 2")
        .unwrap();
    let mut chain = crc32fast::Hasher::new();
    let mut rows = connection.prepare("SELECT id, at_ns, kind, text FROM event ORDER BY id").unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
    };
    for row in rows.query_map([], row).unwrap() {
        let (id, at_ns, kind, text) = row.unwrap();
        let values = [(b'i', &at_ns.to_le_bytes()[..]), (b't', kind.as_bytes()), (b't', text.as_bytes())];
        let of_row = checksum("event", id, &values);
        connection.execute("UPDATE event SET checksum = ?1 WHERE id = ?2", (of_row, id)).unwrap();
        chain.update(&id.to_le_bytes());
        chain.update(&of_row.to_le_bytes());
    }
    let body: String = connection.query_row("SELECT body FROM seal", [], |row| row.get(0)).unwrap();
    let mut seal: serde_json::Value = serde_json::from_str(&body).unwrap();
    seal["tables"]["event"]["checksum"] = chain.finalize().into();
    let body = seal.to_string();
    let of_seal = checksum("seal", 1, &[(b't', body.as_bytes())]);
    connection.execute("UPDATE seal SET body = ?1, checksum = ?2", (body, of_seal)).unwrap();
}

#[test]
fn recordings_whose_events_have_no_details_are_read_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.plimsoll");
    std::fs::copy(FORMAT_3, &path).unwrap();
    let whole = Reader::open(&path).unwrap().load().unwrap();
    // What this version writes reads alike.
    let mut now = Reader::open(&changed(&folder.path().join("."), "")).unwrap().load().unwrap();
    now.split = whole.split.clone();
    // Classes of failures were not counted then.
    let rows = now.timeline.rows().iter();
    now.timeline = rows.fold(Timeline::default(), |mut kept, row| {
        kept.push(Row { failed_refused: 0, failed_aborted: 0, failed_unanswered: 0, ..*row });
        kept
    });
    assert!(now == whole, "they differ");
    std::fs::copy(FORMAT_3, &path).unwrap();
    assert!(whole.events.iter().all(|event| event.details.pid == Some(7)), "{:?}", whole.events);
    into_format_2(&path);
    let before = std::fs::read(&path).unwrap();
    let recording = Reader::open(&path).unwrap().load().unwrap();
    assert!(!recording.integrity.is_damaged() && !recording.integrity.without_checksums, "{:?}", recording.integrity);
    assert_eq!(recording.totals, whole.totals);
    let plain = whole.events.iter().map(|event| model::Event { details: Default::default(), ..event.clone() });
    assert_eq!(recording.events.to_vec(), plain.collect::<Vec<_>>());
    assert!(std::fs::read(&path).unwrap() == before);
    // And its rows are held against their checksums.
    Connection::open(&path).unwrap().execute_batch("UPDATE event SET text = 'x' WHERE id = 1").unwrap();
    let damaged = Reader::open(&path).unwrap().load().unwrap();
    let places: Vec<_> = damaged.integrity.damage.iter().map(|damage| damage.place.as_str()).collect();
    assert_eq!((damaged.events.len(), &places[..]), (1, &["event 1"][..]));
    // A table that is made otherwise would be read as something else.
    Connection::open(&path).unwrap().execute_batch("ALTER TABLE event RENAME COLUMN text TO other").unwrap();
    assert!(read_all(&path).unwrap_err().contains("its table 'event' is not made as one of a recording"));
}

#[test]
fn damaged_details_cost_their_event_alone() {
    let folder = tempfile::tempdir().unwrap();
    for sql in ["UPDATE event SET details = '{}' WHERE id = 2", "UPDATE event SET details = '[' WHERE id = 2"] {
        let path = changed(folder.path(), sql);
        let recording = Reader::open(&path).unwrap().load().unwrap();
        let places: Vec<_> = recording.integrity.damage.iter().map(|damage| damage.place.as_str()).collect();
        assert_eq!((recording.events.len(), &places[..]), (1, &["event 2"][..]), "{sql}");
    }
    // With a checksum that fits, too: what makes no sense is left out.
    let path = changed(folder.path(), "");
    let connection = Connection::open(&path).unwrap();
    let (at_ns, kind, text): (i64, String, String) = connection
        .query_row("SELECT at_ns, kind, text FROM event WHERE id = 2", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    let details = r#"{"pid":-5}"#;
    let number = at_ns.to_le_bytes();
    let values = [(b'i', &number[..]), (b't', kind.as_bytes()), (b't', text.as_bytes()), (b't', details.as_bytes())];
    let sql = "UPDATE event SET details = ?1, checksum = ?2 WHERE id = 2";
    connection.execute(sql, (details, checksum("event", 2, &values))).unwrap();
    drop(connection);
    let recording = Reader::open(&path).unwrap().load().unwrap();
    let damage = &recording.integrity.damage;
    assert_eq!(recording.events.len(), 1);
    assert!(damage.iter().any(|damage| damage.place == "event 2" && damage.what.contains("u32")), "{damage:?}");
}

#[test]
fn other_files_are_not_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plimsoll");
    for (content, expected) in [
        (b"".as_slice(), "it is empty"),
        (b"hello", "does not begin like one"),
        (b"SQLite format 3\0", "does not begin like one"),
        (&[0u8; 5000], "does not begin like one"),
    ] {
        std::fs::write(&path, content).unwrap();
        let said = read_all(&path).unwrap_err();
        assert!(said.contains("not a recording of plimsoll") && said.contains(expected), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    assert!(Reader::open(folder.path()).unwrap_err().to_string().contains("it is not a file"));
    assert!(Reader::open(Path::new("/dev/zero")).unwrap_err().to_string().contains("it is not a file"));
    let missing = Reader::open(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, StoreError::Read { .. }), "{missing}");
}

#[test]
fn a_file_cut_anywhere_is_refused_or_read_but_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plimsoll");
    finished(&path, 3);
    let whole = std::fs::read(&path).unwrap();
    let cut_path = folder.path().join("cut.plimsoll");
    for length in (0..whole.len()).step_by(1361) {
        std::fs::write(&cut_path, &whole[..length]).unwrap();
        assert!(read_all(&cut_path).is_err(), "cut at {length} of {}", whole.len());
        assert!(std::fs::read(&cut_path).unwrap() == whole[..length]);
    }
}

#[test]
fn bytes_changed_anywhere_are_refused_or_read_but_never_a_panic_or_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plimsoll");
    drop(written(&path, 3));
    let unfinished = std::fs::read(&path).unwrap();
    finished(&folder.path().join("y.plimsoll"), 3);
    let whole = std::fs::read(folder.path().join("y.plimsoll")).unwrap();
    let bad_path = folder.path().join("bad.plimsoll");
    // A generator of our own keeps the same bytes changing in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..400 {
        let mut bytes = if round % 2 == 0 { whole.clone() } else { unfinished.clone() };
        for _ in 0..1 + random(8) {
            // Half of them near the start of a page, where its structure is.
            let at = if random(2) == 0 { random(bytes.len()) } else { random(bytes.len() / 4096) * 4096 + random(64) };
            bytes[at] = random(256) as u8;
        }
        std::fs::write(&bad_path, &bytes).unwrap();
        let _ = read_all(&bad_path);
        assert!(std::fs::read(&bad_path).unwrap() == bytes);
    }
    // A whole page in another's place.
    for (from, to) in (1..whole.len() / 4096).flat_map(|a| [(a, 1), (1, a), (a, a / 2)]) {
        let mut bytes = whole.clone();
        bytes.copy_within(from * 4096..(from + 1) * 4096, to * 4096);
        std::fs::write(&bad_path, &bytes).unwrap();
        let _ = read_all(&bad_path);
    }
}
