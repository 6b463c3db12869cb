//! Old ticks are merged, and nothing of a run changes by it: what is read of a long recording is what the run had in memory, of a
//! finished one, one that goes on, and one that was killed, in a merge too.

use crate::common::run::Run;
use crate::common::*;
use model::recording::{Part, Row};
use model::{Histogram, LatencyKind};
use rusqlite::Connection;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use store::Reader;
use store::limits::{FINE_TICKS, LEVEL_ROWS_MAX};

const VICTIM: &str = "PLIMSOLL_STORE_TEST_MERGING_VICTIM";

/// So many that ticks were merged several times, and that some came after the last merge.
const TICKS: u64 = 6 * FINE_TICKS as u64 + 77;

#[test]
fn the_recording_of_a_long_run_is_what_the_run_had_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.plimsoll");
    let mut run = Run::new(&path);
    (0..TICKS).for_each(|sequence| run.tick(sequence));
    assert_eq!(run.merges, 5);
    let (recording, history) = run.finish(TICKS);
    let reader = Reader::open(&path).unwrap();
    let (read, read_history) = reader.load_with_history().unwrap();
    assert!(!read.integrity.is_damaged(), "{:?}", read.integrity);
    assert_eq!(read.totals, recording.totals);
    assert_eq!(read.timeline, recording.timeline);
    assert_eq!(read.requests, recording.requests);
    assert_eq!(read, recording);
    assert!(read_history == history);
    assert_eq!(reader.load().unwrap(), recording);
    // What is to be drawn is finer than what was in memory, the nearer the finer; no count and no time is lost.
    let rows: Vec<Row> = reader.intervals().collect::<Result<_, _>>().unwrap();
    assert!(rows.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
    assert_eq!(rows.iter().map(|row| row.counts.ok).sum::<u64>(), recording.totals.sum.counts.ok);
    let lengths: Vec<u64> = rows.iter().map(|row| (row.end_ns - row.start_ns) / SECOND_NS).collect();
    assert!(lengths.is_sorted_by(|a, b| a >= b), "older rows are longer");
    assert!(lengths.iter().filter(|length| **length == 1).count() >= FINE_TICKS);
    assert!(lengths[0] >= 4 && lengths.iter().all(|length| length.is_power_of_two()), "{lengths:?}");
    assert!(rows.len() < 2 * FINE_TICKS + 3 * LEVEL_ROWS_MAX);
}

#[test]
fn of_a_run_that_was_cut_off_no_total_changes_by_merging() {
    let folder = tempfile::tempdir().unwrap();
    let (merged, plain) = (folder.path().join("merged.plimsoll"), folder.path().join("plain.plimsoll"));
    let (mut run, mut other) = (Run::new(&merged), Run::new(&plain));
    for sequence in 0..2 * FINE_TICKS as u64 + 40 {
        run.tick(sequence);
        other.put(sequence);
    }
    assert_eq!((run.merges, other.merges), (1, 0));
    for more in [0, 3] {
        for sequence in 0..more {
            run.tick(2 * FINE_TICKS as u64 + 40 + sequence);
            other.put(2 * FINE_TICKS as u64 + 40 + sequence);
        }
        let (read, history) = Reader::open(&merged).unwrap().load_with_history().unwrap();
        let (expected, whole) = Reader::open(&plain).unwrap().load_with_history().unwrap();
        assert_eq!(read.totals, expected.totals);
        assert_eq!(read, expected);
        assert!(history == whole);
        assert!(read.totals.disturbed.as_deref().is_some_and(|part: &Part| part.intervals > 100));
    }
    // What was made of the older part is damaged: it is said, and the counts are those of the merged ticks.
    drop(run);
    let whole = Reader::open(&plain).unwrap().load().unwrap();
    Connection::open(&merged).unwrap().execute_batch("UPDATE state SET body = x'05'").unwrap();
    let (read, _) = Reader::open(&merged).unwrap().load_with_history().unwrap();
    assert_eq!(read.integrity.damage[0].place, "state 1");
    assert_eq!(read.totals.sum.counts, whole.totals.sum.counts);
    assert_eq!(read.totals.sum.latency, whole.totals.sum.latency);
}

/// What is merged in the file, added up: histograms of merged ticks are the sums of their ticks'.
#[test]
fn histograms_of_merged_ticks_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.plimsoll");
    let mut run = Run::new(&path);
    (0..2 * FINE_TICKS as u64).for_each(|sequence| run.tick(sequence));
    let expected: &Histogram<u64> = run.recording.totals.sum.latency.of(LatencyKind::Service);
    let expected = expected.clone();
    drop(run);
    let connection = Connection::open(&path).unwrap();
    let count = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let fine = FINE_TICKS as i64;
    assert_eq!((count("tick"), count("merged"), count("snapshot"), count("state")), (fine, fine / 2, fine, 1));
    // Without what was made of them, they are what totals come from.
    connection.execute_batch("UPDATE state SET checksum = 0").unwrap();
    drop(connection);
    let read = Reader::open(&path).unwrap().load().unwrap();
    assert!(read.integrity.is_damaged());
    assert_eq!(read.totals.sum.latency.of(LatencyKind::Service), &expected);
}

/// Writes ticks and merges them until it is killed, saying each.
fn be_victim(path: &Path) -> ! {
    let mut run = Run::new(path);
    for sequence in 0..2 * FINE_TICKS as u64 - 1 {
        run.put(sequence);
    }
    for sequence in 2 * FINE_TICKS as u64 - 1.. {
        run.put(sequence);
        println!("kept {}", sequence + 1);
        // Far more often than is due, so that it is killed in one.
        run.writer.merge(&run.recording, &run.history).unwrap();
    }
    unreachable!("a test that never kills runs out of disk before it runs out of numbers")
}

#[test]
fn a_run_that_is_killed_while_it_merges_is_readable() {
    if let Some(path) = std::env::var_os(VICTIM) {
        be_victim(Path::new(&path));
    }
    for (round, after) in (0..3).zip([1, 2, 4]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed.plimsoll");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "merging::a_run_that_is_killed_while_it_merges_is_readable", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut kept, mut lines) = (0, 0);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            if let Some(n) = line.unwrap().split_once("kept ").and_then(|(_, n)| n.parse::<u64>().ok()) {
                (kept, lines) = (n, lines + 1);
                if lines == after {
                    // Somewhere in the merge that follows, another place each time.
                    std::thread::sleep(std::time::Duration::from_millis(round * 20));
                    child.kill().unwrap();
                }
            }
        }
        assert!(!child.wait().unwrap().success());
        let (read, history) = Reader::open(&path).unwrap().load_with_history().unwrap();
        assert!(!read.integrity.is_damaged(), "{:?}", read.integrity);
        let ticks = read.totals.sum.counts.started / interval(0, 0).counts.started;
        assert!(ticks == kept || ticks == kept + 1, "{kept} were said to be kept, {ticks} are there");
        // As one that never merged.
        let plain = folder.path().join("plain.plimsoll");
        let mut other = Run::new(&plain);
        (0..ticks).for_each(|sequence| other.put(sequence));
        let (expected, whole) = Reader::open(&plain).unwrap().load_with_history().unwrap();
        assert_eq!(read, expected);
        assert!(history == whole);
    }
}
