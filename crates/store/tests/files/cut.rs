//! The recordings of `truth/` cut anywhere, as after `kill -9`: what had been written by then reads and is diagnosed.
//!
//! A cut one has fewer ticks and snapshots, and neither totals nor a seal: those come at the end of a run.

use lzma_rust2::XzReader;
use model::finding::{Severity, Standing};
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};
use store::Reader;

/// In so many places each is cut.
const CUTS: i64 = 6;

fn recordings(folder: &Path, all: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => recordings(&path, all),
            false if path.extension().is_some_and(|ending| ending == "xz") => all.push(path),
            false => {}
        }
    }
}

/// Unpacks a recording and takes away what was written behind a tick.
fn cut(packed: &Path, to: &Path, share: i64) {
    std::io::copy(&mut XzReader::new(File::open(packed).unwrap(), false), &mut File::create(to).unwrap()).unwrap();
    let file = Connection::open(to).unwrap();
    let last: i64 = file.query_row("SELECT max(id) FROM tick", [], |row| row.get(0)).unwrap();
    let end_ns: i64 =
        file.query_row("SELECT max(json_extract(row, '$.end_ns')) FROM tick", [], |row| row.get(0)).unwrap();
    let (keep, keep_ns) = (last * share / CUTS, end_ns * share / CUTS);
    file.execute("DELETE FROM tick WHERE id > ?1", [keep]).unwrap();
    file.execute("DELETE FROM histogram WHERE tick > ?1", [keep]).unwrap();
    file.execute("DELETE FROM request WHERE tick > ?1", [keep]).unwrap();
    file.execute("DELETE FROM snapshot WHERE json_extract(body, '$.at_ns') > ?1", [keep_ns]).unwrap();
    file.execute_batch(
        "DELETE FROM total_histogram; DELETE FROM split; DELETE FROM event; DELETE FROM seal;
         UPDATE run SET end = 'partial', totals = NULL, diagnosis = NULL;",
    )
    .unwrap();
}

#[test]
fn a_recording_cut_anywhere_is_still_diagnosed() {
    let mut all = Vec::new();
    recordings(&testkit::workspace().join("truth"), &mut all);
    assert!(!all.is_empty(), "no recordings: make truth-recordings");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.db");
    for packed in &all {
        for share in 0..=CUTS {
            cut(packed, &file, share);
            let (recording, history) = Reader::open(&file).unwrap().load_with_history().unwrap();
            let diagnosis = diagnose::diagnose_with(&recording, &history);
            let gives = diagnosis.gives.unwrap_or_else(|| panic!("{} cut: says nothing", packed.display()));
            assert!(!gives.text.is_empty());
            let is_above = |f: &&model::finding::Finding| f.severity > Severity::Info;
            assert!(
                gives.standing != Standing::Gives || diagnosis.findings.iter().any(|f| is_above(&f)),
                "{} cut at {share} of {CUTS}: what gives is no finding",
                packed.display()
            );
            std::fs::remove_file(&file).unwrap();
        }
    }
}
