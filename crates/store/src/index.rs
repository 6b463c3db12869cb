//! The index of a folder of recordings: what a list shows of each file, so that only files that changed are opened.
//!
//! A cache and nothing else: an entry counts while name, inode, size and both times of the file, and those of its log, are
//! what they were; an index that is missing, damaged or of another version is made anew, and where it cannot be written the
//! list is made without. It is read and written only in a folder that nobody but its user and root can change
//! ([`state::existing`]): elsewhere it could say of a recording what is not in it. It is replaced as a whole by rename(2), so
//! two lists at once cannot harm each other: the last one stays, and each was right.
//!
//! Cost: a stat(2) a recording, and some 400 bytes of file and memory.

use crate::folder::Verdict;
use crate::integrity::checksum::{Field, of_row};
use crate::limits::{INDEX_BYTES_MAX, INDEX_SETTLED_MS};
use model::Head;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Its name in the folder: not that of a recording.
pub const NAME: &str = ".index";

/// What it is, with the version of what stands in it: another version is another file.
const FIRST_LINE: &str = "plimsoll index 2";

/// A file as it was when it was read: nothing changes without one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    inode: u64,
    size: u64,
    modified_ns: i64,
    /// Of the inode, which nobody can set; of a log that of its content: SQLite sets the owner of each log it opens.
    changed_ns: i64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Stamp {
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The stamps of a recording and of the log beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    file: Stamp,
    log: Option<Stamp>,
}

impl Stamps {
    /// Those of a file; `None` where it cannot be looked at. `log` is its log, where one was seen.
    pub fn of(path: &Path, log: Option<&Path>) -> Option<Self> {
        let file = Stamp::of(&std::fs::metadata(path).ok()?);
        let of_log = |stamp: Stamp| Stamp { changed_ns: stamp.modified_ns, ..stamp };
        let log = log.and_then(|log| std::fs::metadata(log).ok()).map(|metadata| of_log(Stamp::of(&metadata)));
        Some(Stamps { file, log })
    }

    /// Size of the file, bytes.
    pub fn size(&self) -> u64 {
        self.file.size
    }

    /// Whether the last change is so long ago that another one would show.
    fn is_settled(&self, now_ns: i64) -> bool {
        let last = self.log.map_or(self.file.changed_ns, |log| log.changed_ns.max(self.file.changed_ns));
        now_ns.saturating_sub(last) >= INDEX_SETTLED_MS * 1_000_000
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    stamps: Stamps,
    head: Head,
    verdict: Option<Verdict>,
}

/// The index of a folder.
#[derive(Debug)]
pub struct Index {
    /// The folder, where it is its user's alone; `None`: nothing is kept.
    folder: Option<PathBuf>,
    before: HashMap<String, Entry>,
    after: HashMap<String, Entry>,
    is_changed: bool,
    now_ns: i64,
}

impl Index {
    /// That of a folder, or an empty one.
    pub fn of(folder: &Path) -> Self {
        let folder = state::existing(folder).ok().flatten();
        let before = folder.as_deref().and_then(read).unwrap_or_default();
        let now_ns = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        Index { folder, before, after: HashMap::new(), is_changed: false, now_ns }
    }

    /// What is known of a file that has these stamps.
    pub fn known(&mut self, id: &str, stamps: Stamps) -> Option<(Head, Option<Verdict>)> {
        let entry = self.before.get(id).filter(|entry| entry.stamps == stamps)?.clone();
        let known = (entry.head.clone(), entry.verdict.clone());
        self.after.insert(id.to_owned(), entry);
        Some(known)
    }

    /// Notes what was read of a file between its stamps before and after.
    pub fn note(&mut self, id: &str, before: Stamps, after: Option<Stamps>, read: &(Head, Option<Verdict>)) {
        if after == Some(before) && before.is_settled(self.now_ns) {
            let (head, verdict) = read.clone();
            self.after.insert(id.to_owned(), Entry { stamps: before, head, verdict });
            self.is_changed = true;
        }
    }

    /// Keeps it, where anything changed. Best effort: without it the next list takes longer.
    pub fn keep(self) {
        let is_changed = self.is_changed || self.after.len() != self.before.len();
        if let Some(folder) = self.folder.filter(|_| is_changed) {
            let _ = write(&folder, &self.after);
        }
    }
}

fn read(folder: &Path) -> Option<HashMap<String, Entry>> {
    let path = folder.join(NAME);
    // No link, and nothing that somebody else can change: it may have been put there when the folder was open to others.
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let file = File::open(&path).ok()?;
    state::check_file(&path, &file).ok()?;
    if file.metadata().ok()?.len() > INDEX_BYTES_MAX {
        return None;
    }
    let mut text = String::new();
    file.take(INDEX_BYTES_MAX).read_to_string(&mut text).ok()?;
    let (first, body) = text.split_once('\n')?;
    (first == first_line(body)).then(|| serde_json::from_str(body).ok())?
}

fn write(folder: &Path, entries: &HashMap<String, Entry>) -> std::io::Result<()> {
    let body = serde_json::to_string(entries)?;
    // Made for its owner only, and under no name that anybody can know.
    let mut file = tempfile::Builder::new().prefix(".index-").tempfile_in(folder)?;
    file.write_all(format!("{}\n{body}", first_line(&body)).as_bytes())?;
    file.persist(folder.join(NAME)).map(drop).map_err(|error| error.error)
}

fn first_line(body: &str) -> String {
    format!("{FIRST_LINE} {:08x}", of_row(NAME, 1, &[Field::Text(body.as_bytes())]))
}
