//! The journal: what was changed and from what, a JSON line each, on the disk before the change is made.
//!
//! Appended only: `change`, then `done` when it was made, then `closed` when nothing of it is left to undo. A line that
//! was cut off at the end was never acted on and is cleared away; one damaged in the middle stops everything but
//! listing. One process at a time (flock(2), which ends with the process). Emptied when nothing is open. What it says is
//! acted on with root's rights, so folder and files must be the user's or root's, and nobody else's to write.

use crate::change::Change;
use crate::error::{JournalError, plain};
use crate::limits::{JOURNAL_BYTES_MAX, LOCK_RETRY, LOCK_WAIT};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The journal's file.
const FILE: &str = "journal.jsonl";
/// What is locked: a file of its own, which is never replaced.
const LOCK: &str = "lock";

/// A change that is not undone yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, growing.
    pub id: u64,
    /// What was changed.
    pub what: Change,
    /// The start of the machine it was made in.
    pub boot: String,
    /// The network namespace it holds in; null where it holds in all.
    pub network: Option<u64>,
    /// The process that made it.
    pub pid: u32,
    /// When, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Whether it is known to have been made; if not, the process ended in between.
    #[serde(skip)]
    pub done: bool,
}

/// Why an entry is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Closed {
    PutBack,
    AsBefore,
    Refused,
    Restarted,
    Forgotten,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    Change(Box<Entry>),
    Done { id: u64 },
    Closed { id: u64, how: Closed },
}

/// The journal, held by this process alone until it is dropped.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    length: u64,
    open: Vec<Entry>,
    next_id: u64,
    _lock: File,
}

impl Journal {
    /// Opens the journal of a folder, which is made if it is missing. Waits for a process that has it.
    ///
    /// # Errors
    /// [`JournalError`]; then nothing may be changed.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let folder = &*state::made(folder)?;
        let failed = |error: io::Error| failed(folder, &error);
        let lock = lock(folder)?;
        let file = open_ours(folder, FILE, OpenOptions::new().read(true).append(true).create(true))?;
        let text = read_bounded(folder, &file)?;
        let read = parse(folder, &text)?;
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at as u64 + 1);
        if whole < text.len() as u64 {
            file.set_len(whole).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        // The file's name must be on the disk, too.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        let Contents { open, last_id } = read;
        Ok(Journal { folder: folder.to_owned(), file, length: whole, open, next_id: last_id + 1, _lock: lock })
    }

    /// What is not undone, oldest first, without holding the journal or making it.
    ///
    /// # Errors
    /// [`JournalError`] where it is there and cannot be read.
    pub fn list(folder: &Path) -> Result<Vec<Entry>, JournalError> {
        let Some(folder) = &state::existing(folder)? else { return Ok(Vec::new()) };
        if std::fs::symlink_metadata(folder.join(FILE)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(Vec::new());
        }
        let file = open_ours(folder, FILE, OpenOptions::new().read(true))?;
        Ok(parse(folder, &read_bounded(folder, &file)?)?.open)
    }

    /// What is not undone, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.open
    }

    /// Writes that a change is about to be made; on the disk when this returns.
    pub(crate) fn begin(&mut self, what: Change, boot: String, network: Option<u64>) -> Result<u64, JournalError> {
        let (pid, at_unix_ns) = (std::process::id(), crate::place::now_unix_ns());
        let entry = Entry { id: self.next_id, what, boot, network, pid, at_unix_ns, done: false };
        self.append(&Line::Change(Box::new(entry.clone())))?;
        self.next_id += 1;
        self.open.push(entry);
        Ok(self.next_id - 1)
    }

    /// Writes that it was made.
    pub(crate) fn done(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(&Line::Done { id })?;
        self.open.iter_mut().filter(|entry| entry.id == id).for_each(|entry| entry.done = true);
        Ok(())
    }

    /// Writes that nothing of it is left to undo. Empties the file after the last.
    pub(crate) fn close(&mut self, id: u64, how: Closed) -> Result<(), JournalError> {
        self.append(&Line::Closed { id, how })?;
        self.open.retain(|entry| entry.id != id);
        if self.open.is_empty() {
            // Cut short or not: without open entries the two say the same.
            self.file.set_len(0).and_then(|()| self.file.sync_all()).map_err(|e| failed(&self.folder, &e))?;
            self.length = 0;
        }
        Ok(())
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let mut bytes = serde_json::to_vec(line).map_err(|e| failed(&self.folder, &e.into()))?;
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_all());
        if let Err(error) = written {
            // What was half written must not become the beginning of the next line.
            let _ = self.file.set_len(self.length);
            return Err(failed(&self.folder, &error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

fn failed(folder: &Path, error: &io::Error) -> JournalError {
    JournalError::Folder { folder: folder.to_owned(), reason: plain(error) }
}

/// Opens a file of the folder, not through a link, and only if it is ours: it may be older than the folder's rights.
fn open_ours(folder: &Path, name: &str, options: &mut OpenOptions) -> Result<File, JournalError> {
    // A pipe in the file's place must not hold us up: it is refused when it is looked at.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let path = folder.join(name);
    let file = options.mode(0o600).custom_flags(flags.bits() as i32).open(&path).map_err(|e| failed(folder, &e))?;
    state::check_file(&path, &file)?;
    Ok(file)
}

fn lock(folder: &Path) -> Result<File, JournalError> {
    let mut file = open_ours(folder, LOCK, OpenOptions::new().read(true).write(true).create(true).truncate(false))?;
    let since = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if since.elapsed() < LOCK_WAIT => std::thread::sleep(LOCK_RETRY),
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = (&file).take(16).read_to_string(&mut holder);
                return Err(JournalError::Busy { folder: folder.to_owned(), pid: holder.trim().parse().ok() });
            }
            Err(error) => return Err(failed(folder, &error.into())),
        }
    }
    // For the message of who waits; without it the lock is as good.
    let _ = file
        .set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    Ok(file)
}

fn read_bounded(folder: &Path, file: &File) -> Result<Vec<u8>, JournalError> {
    let bytes = file.metadata().map_err(|e| failed(folder, &e))?.len();
    if bytes > JOURNAL_BYTES_MAX {
        return Err(JournalError::TooLong { folder: folder.to_owned(), bytes });
    }
    let mut text = Vec::new();
    file.take(JOURNAL_BYTES_MAX).read_to_end(&mut text).map_err(|e| failed(folder, &e))?;
    Ok(text)
}

#[derive(Debug)]
struct Contents {
    open: Vec<Entry>,
    last_id: u64,
}

/// All whole lines; what stands after the last end of line was never acted on.
fn parse(folder: &Path, text: &[u8]) -> Result<Contents, JournalError> {
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(&[][..], |at| &text[..at]);
    let mut read = Contents { open: Vec::new(), last_id: 0 };
    for (at, line) in whole.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let damaged = || JournalError::Damaged { folder: folder.to_owned(), line: at + 1 };
        match serde_json::from_slice(line).map_err(|_| damaged())? {
            Line::Change(entry) => {
                if entry.id <= read.last_id || entry.id == u64::MAX {
                    return Err(damaged());
                }
                read.last_id = entry.id;
                read.open.push(*entry);
            }
            Line::Done { id } => {
                read.open.iter_mut().filter(|entry| entry.id == id).for_each(|entry| entry.done = true);
            }
            Line::Closed { id, .. } => read.open.retain(|entry| entry.id != id),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::sysctl::Sysctl;

    fn change(n: u32) -> Change {
        let name = format!("net.test.n{n}");
        Change::Sysctl(Sysctl { name, before: "1".to_owned(), after: "2".to_owned() })
    }

    fn with_three(folder: &Path) -> Vec<u8> {
        let mut journal = Journal::open(folder).unwrap();
        for n in 1..=3 {
            assert_eq!(journal.begin(change(n), "boot".to_owned(), Some(7)).unwrap(), u64::from(n));
        }
        journal.done(1).unwrap();
        journal.close(2, Closed::AsBefore).unwrap();
        std::fs::read(folder.join(FILE)).unwrap()
    }

    fn ids(entries: &[Entry]) -> Vec<(u64, bool)> {
        entries.iter().map(|entry| (entry.id, entry.done)).collect()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Journal::list(&folder.path().join("missing")).unwrap(), []);
        with_three(folder.path());
        assert_eq!(ids(&Journal::list(folder.path()).unwrap()), [(1, true), (3, false)]);
        let mut journal = Journal::open(folder.path()).unwrap();
        assert_eq!(ids(journal.entries()), [(1, true), (3, false)]);
        assert_eq!(journal.begin(change(4), String::new(), None).unwrap(), 4);
        for id in [1, 3, 4] {
            journal.close(id, Closed::PutBack).unwrap();
        }
        assert_eq!(std::fs::metadata(folder.path().join(FILE)).unwrap().len(), 0, "nothing is open");
    }

    #[test]
    fn cut_anywhere_it_says_what_its_whole_lines_say_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let whole = with_three(folder.path());
        for cut in 0..=whole.len() {
            std::fs::write(folder.path().join(FILE), &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|b| **b == b'\n').count();
            let expected: &[(u64, bool)] = match lines {
                0 => &[],
                1 => &[(1, false)],
                2 => &[(1, false), (2, false)],
                3 => &[(1, false), (2, false), (3, false)],
                4 => &[(1, true), (2, false), (3, false)],
                _ => &[(1, true), (3, false)],
            };
            assert_eq!(ids(&Journal::list(folder.path()).unwrap()), expected, "cut at {cut}");
            let mut journal = Journal::open(folder.path()).unwrap();
            let id = journal.begin(change(9), String::new(), None).unwrap();
            drop(journal);
            let after = Journal::list(folder.path()).unwrap();
            assert_eq!(after.len(), expected.len() + 1, "cut at {cut}");
            assert_eq!(after.last().map(|entry| entry.id), Some(id));
        }
    }

    #[test]
    fn damage_in_the_middle_is_said_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let whole = with_three(folder.path());
        let second = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        let mut damaged = whole.clone();
        damaged[second] = b'#';
        std::fs::write(folder.path().join(FILE), &damaged).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{error}");
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), damaged, "it is left as it is");
        // Any byte changed: an answer or an error, no panic, and never an entry that was not written.
        for at in 0..whole.len() {
            for byte in [0, b'\n', b'"', b'9', 0xff] {
                let mut garbled = whole.clone();
                garbled[at] = byte;
                if let Ok(read) = parse(folder.path(), &garbled) {
                    assert!(read.open.len() <= 3);
                }
            }
        }
    }

    #[test]
    fn only_one_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = Journal::open(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let second = std::thread::spawn(move || Journal::open(&path).map(|journal| journal.entries().len()));
        let mut first = first;
        first.begin(change(1), String::new(), None).unwrap();
        drop(first);
        assert_eq!(second.join().unwrap().unwrap(), 1, "the second saw what the first wrote");
    }

    #[test]
    fn a_folder_that_cannot_be_is_said() {
        let error = Journal::open(Path::new("/proc/no/journal")).unwrap_err();
        assert!(error.to_string().contains("/proc/no/journal"), "{error}");
    }
}
