//! One bit of a recording that changed, anywhere: the report is as it was, or the damage is said. The same for pages that
//! changed places and for files that were cut.

use crate::common::run::Run;
use crate::common::*;
use model::integrity::Integrity;
use std::path::{Path, PathBuf};
use store::{Reader, StoreError};

/// All that a report or a list could show, as text, and whether damage is said; where it is, the text is not asked for.
fn shown(path: &Path) -> Result<(String, bool), StoreError> {
    let reader = Reader::open(path)?;
    let mut recording = reader.load()?;
    let integrity = std::mem::take(&mut recording.integrity);
    let rows = reader.intervals().collect::<Result<Vec<_>, _>>()?;
    let profiles = reader.profiles().collect::<Result<Vec<_>, _>>()?;
    let mut head = reader.head()?;
    assert_eq!(head.is_damaged, integrity.is_damaged());
    head.is_damaged = false;
    assert_eq!(integrity, Integrity { without_checksums: false, ..integrity.clone() });
    let rest = (head, reader.stored_diagnosis()?, reader.partial_reason()?);
    let text = match integrity.is_damaged() {
        true => String::new(),
        false => format!("{recording:?}\n{rows:?}\n{profiles:?}\n{rest:?}"),
    };
    Ok((text, integrity.is_damaged()))
}

/// A recording, and its log if it has one.
struct Whole {
    files: Vec<(&'static str, Vec<u8>)>,
    shown: String,
}

impl Whole {
    /// Of a file that is there, with its log.
    fn of(path: &Path) -> Self {
        let log = PathBuf::from(format!("{}-wal", path.display()));
        let mut files = vec![("", std::fs::read(path).unwrap())];
        files.extend(std::fs::read(log).ok().map(|bytes| ("-wal", bytes)));
        let (shown, is_damaged) = shown(path).unwrap();
        assert!(!is_damaged);
        Whole { files, shown }
    }

    /// Reads it with one of its files changed, and says what came of it.
    fn with(&self, changed: usize, bytes: &[u8], what: &str) -> Came {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("changed.plimsoll");
        for (i, (suffix, whole)) in self.files.iter().enumerate() {
            let bytes = if i == changed { bytes } else { whole };
            std::fs::write(format!("{}{suffix}", path.display()), bytes).unwrap();
        }
        match shown(&path) {
            Err(error) => {
                assert!(!error.to_string().contains('\n') && error.to_string().contains("changed.plimsoll"), "{error}");
                Came::Refused
            }
            Ok((_, true)) => Came::Said,
            Ok((shown, false)) => {
                assert!(shown == self.shown, "silently changed: {what}\n{shown}\n{}", self.shown);
                Came::Same
            }
        }
    }
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Came {
    Same,
    Said,
    Refused,
}

/// A generator of our own: the same places in every run.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

fn finished_run(folder: &Path) -> Whole {
    let path = folder.join("finished.plimsoll");
    finished(&path, 4);
    Whole::of(&path)
}

/// As `kill -9` leaves it: with a log that holds the last ticks, some of the first having gone into the file before.
fn killed_run(folder: &Path) -> Whole {
    let path = folder.join("killed.plimsoll");
    let writer = written(&path, 45);
    let whole = Whole::of(&path);
    drop(writer);
    assert_eq!(whole.files.len(), 2);
    assert!(whole.files.iter().all(|(_, bytes)| bytes.len() > 10 * 4096));
    whole
}

#[test]
fn a_bit_that_changed_changes_nothing_or_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, whole, flips) in [(1, finished_run(folder.path()), 1000), (2, killed_run(folder.path()), 500)] {
        let mut random = random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let mut came = Vec::new();
        for _ in 0..flips {
            let file = random(whole.files.len());
            let mut bytes = whole.files[file].1.clone();
            // A quarter of them near the start of a page, where its structure is.
            let at = match random(4) {
                0 => (random(bytes.len() / 4096) * 4096 + random(128)).min(bytes.len() - 1),
                _ => random(bytes.len()),
            };
            let bit = random(8);
            bytes[at] ^= 1 << bit;
            came.push(whole.with(file, &bytes, &format!("bit {bit} of byte {at} of file {file}")));
        }
        // The test would be none if all were refused, or all had fallen into what nobody reads.
        for kind in [Came::Same, Came::Said] {
            let n = came.iter().filter(|came| **came == kind).count();
            assert!(n > flips / 20, "{kind:?}: {n} of {flips}");
        }
    }
}

/// A run so long that its old ticks were merged, as `kill -9` leaves it.
fn merged_run(folder: &Path) -> Whole {
    let path = folder.join("merged.plimsoll");
    let mut run = Run::new(&path);
    (0..2 * store::limits::FINE_TICKS as u64 + 9).for_each(|sequence| run.tick(sequence));
    assert_eq!(run.merges, 1);
    let whole = Whole::of(&path);
    drop(run);
    whole
}

#[test]
fn a_bit_of_what_was_merged_that_changed_changes_nothing_or_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let whole = merged_run(folder.path());
    let bodies = |table: &str| -> Vec<Vec<u8>> {
        let path = folder.path().join("merged.plimsoll");
        let connection = rusqlite::Connection::open(path).unwrap();
        let mut statement = connection.prepare(&format!("SELECT body FROM {table} LIMIT 20")).unwrap();
        let bodies = statement.query_map([], |row| row.get(0)).unwrap();
        bodies.map(|body| body.unwrap()).collect()
    };
    let mut random = random(0x2545_f491_4f6c_dd1d);
    // Where a body begins in one of the files: its first bytes stand together on a page.
    let mut came = Vec::new();
    for body in bodies("merged").into_iter().step_by(4).chain(bodies("state")) {
        let head = &body[..body.len().min(64)];
        for (file, (_, bytes)) in whole.files.iter().enumerate() {
            let Some(from) = bytes.windows(head.len()).position(|window| window == head) else { continue };
            for _ in 0..4 {
                let (at, bit) = (from + random(head.len()), random(8));
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                came.push(whole.with(file, &changed, &format!("bit {bit} of byte {at} of file {file}")));
            }
        }
    }
    assert!(came.contains(&Came::Said) && came.len() >= 20, "{came:?}");
    for _ in 0..20 {
        let file = random(whole.files.len());
        let mut changed = whole.files[file].1.clone();
        let (at, bit) = (random(changed.len()), random(8));
        changed[at] ^= 1 << bit;
        whole.with(file, &changed, &format!("bit {bit} of byte {at} of file {file}"));
    }
}

#[test]
fn pages_that_changed_places_or_were_lost_are_said() {
    let folder = tempfile::tempdir().unwrap();
    for whole in [finished_run(folder.path()), killed_run(folder.path())] {
        let bytes = &whole.files[0].1;
        let pages = bytes.len() / 4096;
        let page = |n: usize| n * 4096..(n + 1) * 4096;
        for a in (0..pages).step_by(1 + pages / 30) {
            for b in [(a + 1) % pages, 1] {
                let mut copied = bytes.clone();
                copied.copy_within(page(a), b * 4096);
                whole.with(0, &copied, &format!("page {a} in the place of {b}"));
                let mut swapped = copied;
                swapped[page(a)].copy_from_slice(&bytes[page(b)]);
                whole.with(0, &swapped, &format!("pages {a} and {b} swapped"));
            }
            let mut zeroed = bytes.clone();
            zeroed[page(a)].fill(0);
            whole.with(0, &zeroed, &format!("page {a} lost"));
        }
    }
}

#[test]
fn a_finished_file_that_was_cut_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = finished_run(folder.path());
    let bytes = &whole.files[0].1;
    for length in (0..bytes.len()).step_by(997) {
        assert_eq!(whole.with(0, &bytes[..length], &format!("cut at {length}")), Came::Refused);
    }
}
