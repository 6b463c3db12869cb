//! Files below the root, and the worker's bounded memory of them.
//!
//! Every open goes through `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`: the kernel itself
//! keeps it inside, whatever symbolic links say (an absolute link is refused even if it points inside).
//! A remembered file is compared with the disk at most once a second, so a change may be seen that
//! late. Small files are kept whole, larger ones as a descriptor for `sendfile`.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::{Errno, pread};

use super::{date, path};
use crate::error::ServeError;
use crate::limits;

/// The folder served, shared by the workers.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    folder: Arc<OwnedFd>,
}

impl Root {
    /// Opens the folder and makes sure that the kernel can keep requests inside it.
    pub(crate) fn open(folder: &Path) -> Result<Self, ServeError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(folder, flags, Mode::empty())
            .map_err(|error| ServeError::BadRoot { path: folder.to_owned(), source: error.into() })?;
        open_beneath(&opened, b".", OFlags::DIRECTORY)
            .map_err(|error| ServeError::NoOpenat2 { path: folder.to_owned(), source: error.into() })?;
        Ok(Self { folder: Arc::new(opened) })
    }
}

/// What a path led to.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    File(Rc<Entry>),
    /// A folder named without its slash.
    Folder,
    /// Not served: the status, and what was expected.
    Not(u16, &'static str),
}

/// A file as it was when it was last looked at.
#[derive(Debug)]
pub(crate) struct Entry {
    version: Version,
    pub(crate) content: Content,
    pub(crate) etag: String,
    pub(crate) modified_s: i64,
    /// `Content-Type`, `Last-Modified`, `ETag`, `Accept-Ranges`, each with its line end.
    pub(crate) fields: Vec<u8>,
    checked_ns: Cell<u64>,
}

impl Entry {
    pub(crate) fn size(&self) -> u64 {
        self.version.size
    }
}

/// Where a file's bytes come from.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Vec<u8>),
    File(OwnedFd),
}

/// Whatever of a file changes when its content does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// One worker's way to the files.
pub(crate) struct Files {
    root: Root,
    known: HashMap<Box<[u8]>, Rc<Entry>>,
    memory_bytes: usize,
    descriptors: usize,
}

impl Files {
    pub(crate) fn new(root: Root) -> Self {
        Self { root, known: HashMap::new(), memory_bytes: 0, descriptors: 0 }
    }

    /// The file a request's path names. `now_ns` is monotonic.
    pub(crate) fn find(&mut self, request_path: &[u8], now_ns: u64) -> Found {
        if let Some(entry) = self.known.get(request_path)
            && now_ns.saturating_sub(entry.checked_ns.get()) < limits::FILE_CACHE_FRESH_NS
        {
            return Found::File(Rc::clone(entry));
        }
        let name = match path::below_root(request_path) {
            Ok(name) => name,
            Err(path::PathError::Malformed) => return Found::Not(400, "expected a path with sound percent-encoding"),
            Err(path::PathError::Escapes) => return Found::Not(400, "expected a path that stays below the root"),
        };
        let mut opened = self.open(&name);
        if matches!(opened, Err(Errno::MFILE)) && self.descriptors > 0 {
            self.give_up_descriptors();
            opened = self.open(&name);
        }
        let (file, version) = match opened {
            Ok(Opened::File(file, version)) => (file, version),
            Ok(Opened::Folder) => {
                self.forget(request_path);
                return Found::Folder;
            }
            Ok(Opened::Other) => {
                self.forget(request_path);
                return Found::Not(403, "expected a regular file");
            }
            Err(error) => {
                self.forget(request_path);
                return refused(error);
            }
        };
        if let Some(entry) = self.known.get(request_path).filter(|entry| entry.version == version) {
            entry.checked_ns.set(now_ns);
            return Found::File(Rc::clone(entry));
        }
        self.forget(request_path);
        match load(&name, file, version, now_ns) {
            Ok(entry) => {
                let entry = Rc::new(entry);
                self.remember(request_path, &entry);
                Found::File(entry)
            }
            Err(_) => Found::Not(500, "expected to read the file, and could not"),
        }
    }

    /// Forgets every file that holds a descriptor.
    pub(crate) fn give_up_descriptors(&mut self) {
        self.known.retain(|_, entry| weight(entry).1 == 0);
        self.descriptors = 0;
    }

    fn open(&self, name: &[u8]) -> Result<Opened, Errno> {
        let is_folder = name.is_empty() || name.ends_with(b"/");
        let index = [name, b"index.html"].concat();
        let wanted = if is_folder { &index[..] } else { name };
        // NONBLOCK: opening a pipe without a writer must not hold the worker.
        let file = match open_beneath(&self.root.folder, wanted, OFlags::NONBLOCK) {
            // A folder without index.html exists, but is not shown.
            Err(Errno::NOENT) if is_folder => {
                let folder = if name.is_empty() { &b"."[..] } else { name };
                open_beneath(&self.root.folder, folder, OFlags::DIRECTORY)?;
                return Err(Errno::ACCESS);
            }
            opened => opened?,
        };
        let stat = fstat(&file)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Opened::File(file, version(&stat)),
            FileType::Directory if !is_folder => Opened::Folder,
            _ => Opened::Other,
        })
    }

    fn remember(&mut self, request_path: &[u8], entry: &Rc<Entry>) {
        if request_path.len() > limits::FILE_CACHE_KEY_BYTES_MAX {
            return;
        }
        let (memory_bytes, descriptors) = weight(entry);
        while self.known.len() >= limits::FILE_CACHE_ENTRIES_MAX
            || self.memory_bytes + memory_bytes > limits::FILE_CACHE_BYTES_MAX
            || self.descriptors + descriptors > limits::FILE_CACHE_DESCRIPTORS_MAX
        {
            // Any one of what is scarce: the map's order is as good as chance, and needs no bookkeeping.
            let scarce_descriptor = self.descriptors + descriptors > limits::FILE_CACHE_DESCRIPTORS_MAX;
            let victim = self.known.iter().find(|(_, known)| !scarce_descriptor || weight(known).1 > 0);
            let Some(victim) = victim.map(|(key, _)| key.clone()) else { return };
            self.forget(&victim);
        }
        self.memory_bytes += memory_bytes;
        self.descriptors += descriptors;
        self.known.insert(request_path.into(), Rc::clone(entry));
    }

    fn forget(&mut self, request_path: &[u8]) {
        if let Some(entry) = self.known.remove(request_path) {
            let (memory_bytes, descriptors) = weight(&entry);
            self.memory_bytes -= memory_bytes;
            self.descriptors -= descriptors;
        }
    }
}

enum Opened {
    File(OwnedFd, Version),
    Folder,
    Other,
}

fn open_beneath(folder: &OwnedFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut attempts = 0;
    loop {
        match openat2(folder, name, flags, Mode::empty(), resolve) {
            // A rename elsewhere raced with a `..` in a link: openat2(2) asks to try again.
            Err(Errno::AGAIN | Errno::INTR) if attempts < 16 => attempts += 1,
            opened => return opened,
        }
    }
}

fn refused(error: Errno) -> Found {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => {
            Found::Not(404, "expected the path of a file below the root")
        }
        // XDEV: it led out of the root. NXIO: a socket, or a pipe nobody reads.
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP | Errno::NXIO => {
            Found::Not(403, "expected a file that may be read, inside the root")
        }
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Found::Not(503, "expected a free descriptor, and had none"),
        _ => Found::Not(500, "expected to open the file, and could not"),
    }
}

fn version(stat: &rustix::fs::Stat) -> Version {
    Version {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        changed: (stat.st_ctime, stat.st_ctime_nsec),
    }
}

fn load(name: &[u8], file: OwnedFd, version: Version, now_ns: u64) -> io::Result<Entry> {
    let content = if version.size <= limits::CACHED_FILE_BYTES_MAX {
        Content::Memory(read_whole(&file, version.size)?)
    } else {
        Content::File(file)
    };
    let (modified_s, modified_ns) = version.modified;
    let etag = format!("\"{modified_s:x}-{modified_ns:x}-{:x}\"", version.size);
    let fields = format!(
        "Content-Type: {}\r\nLast-Modified: {}\r\nETag: {etag}\r\nAccept-Ranges: bytes\r\n",
        media_type(name),
        date::format(modified_s)
    );
    Ok(Entry { version, content, etag, modified_s, fields: fields.into_bytes(), checked_ns: Cell::new(now_ns) })
}

fn read_whole(file: &OwnedFd, size: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut filled = 0;
    while filled < content.len() {
        match pread(file, &mut content[filled..], filled as u64) {
            // Cut while it was read: the length already told would be wrong.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(content)
}

/// What an entry takes of the bounds: bytes in memory, descriptors.
fn weight(entry: &Entry) -> (usize, usize) {
    match &entry.content {
        Content::Memory(bytes) => (bytes.len(), 0),
        Content::File(_) => (0, 1),
    }
}

fn media_type(name: &[u8]) -> &'static str {
    let is_folder = name.is_empty() || name.ends_with(b"/");
    let extension = name.rsplit(|&byte| byte == b'.' || byte == b'/').next().unwrap_or_default();
    match extension.to_ascii_lowercase().as_slice() {
        _ if is_folder => "text/html",
        b"html" | b"htm" => "text/html",
        b"txt" | b"log" | b"md" => "text/plain",
        b"css" => "text/css",
        b"csv" => "text/csv",
        b"js" | b"mjs" => "text/javascript",
        b"json" | b"map" => "application/json",
        b"xml" => "application/xml",
        b"pdf" => "application/pdf",
        b"wasm" => "application/wasm",
        b"gz" => "application/gzip",
        b"zip" => "application/zip",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"ico" => "image/vnd.microsoft.icon",
        b"woff2" => "font/woff2",
        b"mp4" => "video/mp4",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: usize, size: usize) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..files {
            std::fs::write(folder.path().join(number.to_string()), vec![b'x'; size]).unwrap();
        }
        let files = Files::new(Root::open(folder.path()).unwrap());
        (folder, files)
    }

    fn content(found: Found) -> Vec<u8> {
        match found {
            Found::File(entry) => match &entry.content {
                Content::Memory(bytes) => bytes.clone(),
                Content::File(_) => b"(large)".to_vec(),
            },
            other => panic!("not a file: {other:?}"),
        }
    }

    #[test]
    fn what_is_remembered_stays_within_its_bounds() {
        let large = limits::CACHED_FILE_BYTES_MAX as usize + 1;
        for (count, size) in [(limits::FILE_CACHE_DESCRIPTORS_MAX * 2, large), (300, large - 1)] {
            let (_folder, mut files) = folder_with(count, size);
            for round in 0..2 {
                for number in 0..count {
                    content(files.find(format!("/{number}").as_bytes(), round));
                    assert!(files.memory_bytes <= limits::FILE_CACHE_BYTES_MAX);
                    assert!(files.descriptors <= limits::FILE_CACHE_DESCRIPTORS_MAX);
                }
            }
            let sum: (usize, usize) =
                files.known.values().map(|entry| weight(entry)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            assert_eq!((files.memory_bytes, files.descriptors), sum, "the books are right");
            assert!(!files.known.is_empty());
        }
        let (_folder, mut files) = folder_with(1, 1);
        for number in 0..limits::FILE_CACHE_ENTRIES_MAX + 10 {
            content(files.find(format!("/{}0", "./".repeat(number % 500)).as_bytes(), 0));
            content(files.find(format!("{}0", "/".repeat(1 + number % 2000)).as_bytes(), 0));
        }
        assert!(files.known.len() <= limits::FILE_CACHE_ENTRIES_MAX);
        assert!(files.known.keys().all(|key| key.len() <= limits::FILE_CACHE_KEY_BYTES_MAX));
    }

    #[test]
    fn a_change_is_seen_once_the_second_is_over_and_a_removal_too() {
        let (folder, mut files) = folder_with(1, 3);
        assert_eq!(content(files.find(b"/0", 0)), b"xxx");
        std::fs::write(folder.path().join("0"), "changed").unwrap();
        assert_eq!(content(files.find(b"/0", limits::FILE_CACHE_FRESH_NS - 1)), b"xxx");
        assert_eq!(content(files.find(b"/0", limits::FILE_CACHE_FRESH_NS)), b"changed");
        std::fs::remove_file(folder.path().join("0")).unwrap();
        assert!(matches!(files.find(b"/0", limits::FILE_CACHE_FRESH_NS * 2), Found::Not(404, _)));
        assert_eq!((files.memory_bytes, files.known.len()), (0, 0));
    }
}
