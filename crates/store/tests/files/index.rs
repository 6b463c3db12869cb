//! The index of a folder changes nothing of what a list says: missing, stale, damaged, somebody else's, or written by several
//! at once.

use crate::common::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::{Summary, list};

const INDEX: &str = ".index";

/// A folder with some recordings, that are old enough to be taken into an index.
fn folder_of(n: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..n {
        finished(&recording(folder.path(), i), 1 + i);
    }
    folder
}

fn recording(folder: &Path, i: u64) -> PathBuf {
    folder.join(format!("{i:02}.plimsoll"))
}

/// Lists until the index holds so many recordings: a file is taken in when it has not changed for some time.
fn indexed(folder: &Path, n: usize) -> Vec<Summary> {
    let start = Instant::now();
    loop {
        let summaries = list(folder).unwrap();
        let index = std::fs::read_to_string(folder.join(INDEX)).unwrap_or_default();
        if index.matches("\"stamps\"").count() == n {
            return summaries;
        }
        assert!(start.elapsed() < testkit::HANG_GUARD, "{index}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn requests(summaries: &[Summary]) -> Vec<u64> {
    summaries.iter().map(|summary| summary.head.as_ref().unwrap().requests).collect()
}

#[test]
fn a_list_is_the_same_whatever_the_index_is() {
    let folder = folder_of(3);
    let path = folder.path().join(INDEX);
    let expected = indexed(folder.path(), 3);
    assert_eq!(requests(&expected), [20, 40, 60]);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(list(folder.path()).unwrap(), expected, "byte {at}");
        std::fs::write(&path, &whole[..at]).unwrap();
        assert_eq!(list(folder.path()).unwrap(), expected, "cut at {at}");
    }
    // A damaged one was made anew.
    assert_eq!(std::fs::read(&path).unwrap().len(), whole.len());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(list(folder.path()).unwrap(), expected);
    assert!(path.exists());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(list(folder.path()).unwrap(), expected);
    assert_eq!(names(folder.path()), [INDEX, "00.plimsoll", "01.plimsoll", "02.plimsoll"]);
}

#[test]
fn what_changed_since_is_read_again() {
    let folder = folder_of(3);
    let at = |i| recording(folder.path(), i);
    indexed(folder.path(), 3);
    // Another file of the same name and size, one that is gone, a new one, one that was renamed, and one damaged.
    let bytes = std::fs::read(at(0)).unwrap();
    std::fs::remove_file(at(0)).unwrap();
    finished(&at(0), 5);
    std::fs::remove_file(at(1)).unwrap();
    finished(&at(7), 7);
    std::fs::rename(at(2), at(8)).unwrap();
    assert_eq!(requests(&list(folder.path()).unwrap()), [100, 140, 60]);
    let mut damaged = bytes;
    // Of a tick: in the middle of the file may lie a page's unused end, where nothing is damaged.
    let row = damaged.windows(8).position(|bytes| bytes == b"start_ns").unwrap();
    damaged[row..row + 3].fill(0xff);
    // Time and size as they were: only the inode knows.
    let modified = at(0).metadata().unwrap().modified().unwrap();
    std::fs::write(at(0), damaged).unwrap();
    std::fs::File::options().write(true).open(at(0)).unwrap().set_modified(modified).unwrap();
    let is_damaged = |summary: &Summary| summary.head.as_ref().is_ok_and(|head| head.is_damaged);
    let summaries = list(folder.path()).unwrap();
    assert_eq!(summaries.iter().map(is_damaged).collect::<Vec<_>>(), [true, false, false]);
    // The same from the index.
    let summaries = indexed(folder.path(), 3);
    assert_eq!(summaries.iter().map(is_damaged).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(list(folder.path()).unwrap(), summaries);
}

#[test]
fn a_run_that_goes_on_is_never_shown_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = written(&recording(folder.path(), 0), 1);
    indexed(folder.path(), 1);
    for ticks in 2..5 {
        let tick = model::recording::Tick::of(&[interval(0, ticks), interval(1, ticks)]);
        writer.append(Some(&tick), None, &[]).unwrap();
        assert_eq!(requests(&list(folder.path()).unwrap()), [20 * ticks]);
    }
}

#[test]
fn no_index_is_read_or_written_where_others_could_write() {
    let folder = folder_of(2);
    let path = folder.path().join(INDEX);
    let expected = indexed(folder.path(), 2);
    let whole = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let may = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    may(0o777);
    assert_eq!(list(folder.path()).unwrap(), expected);
    assert!(!path.exists());
    may(0o700);
    // A link is not followed, neither to read nor to write.
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("target");
    std::fs::write(&target, &whole).unwrap();
    symlink(&target, &path).unwrap();
    assert_eq!(list(folder.path()).unwrap(), expected);
    assert!(std::fs::read(&target).unwrap() == whole && !path.is_symlink());
    // What everybody may write was perhaps written by everybody.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(list(folder.path()).unwrap(), expected);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "made anew");
}

#[test]
fn lists_at_once_while_recordings_come_are_all_right() {
    let folder = folder_of(4);
    indexed(folder.path(), 4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let summaries = list(folder.path()).unwrap();
                    let of_old: Vec<_> = summaries.iter().filter(|summary| summary.id.as_str() < "04").collect();
                    assert_eq!(of_old.len(), 4);
                    assert!(of_old.iter().all(|summary| summary.head.is_ok()));
                }
            });
        }
        for i in 4..8 {
            finished(&recording(folder.path(), i), 1);
        }
    });
    assert_eq!(requests(&indexed(folder.path(), 8)), [20, 40, 60, 80, 20, 20, 20, 20]);
}
