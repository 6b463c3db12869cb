//! A small reader for files of `/proc`: one buffer used again and again, hot files kept open and read from offset 0.
//!
//! Files of processes are opened for each reading, so that observing takes no descriptors from a generator that may
//! have few. A file longer than a stated bound is an error, never a silent half.

use crate::limits::FILE_BYTES_MAX;
use crate::source::schedule::Turn;
use crate::source::sockets::walk::Walks;
use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// The memory that readings share.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    bytes: Vec<u8>,
    path: String,
    /// The folder that stands for `/`: empty, or a test's.
    root: String,
    /// Its reader's turn on the CPU: each file is a place where others may be let forward.
    pub(crate) turn: Turn,
    /// Walks through the kernel's table of connections.
    pub(crate) walks: Walks,
}

impl Buffers {
    /// Opens, reads and closes the file at `path` (`format_args!`).
    pub(crate) fn read(&mut self, path: fmt::Arguments<'_>) -> Result<&[u8], SampleError> {
        self.turn.give_way();
        self.read_by(path, false)
    }

    /// The same for a file that the kernel writes in one go (`single_open` of seq_file, as `/proc/<pid>/stat` and most
    /// others of a process or thread are): a read that leaves room has all of it. A second one, to be told that this was the end,
    /// would have the kernel write everything again.
    pub(crate) fn read_single(&mut self, path: fmt::Arguments<'_>) -> Result<&[u8], SampleError> {
        self.turn.give_way();
        self.read_by(path, true)
    }

    /// The same of a file that is to be of the same moment as the one before: nobody is let forward between the two.
    pub(crate) fn read_single_along(&mut self, path: fmt::Arguments<'_>) -> Result<&[u8], SampleError> {
        self.read_by(path, true)
    }

    fn read_by(&mut self, path: fmt::Arguments<'_>, is_single: bool) -> Result<&[u8], SampleError> {
        self.path.clone_from(&self.root);
        // Writing to a String cannot fail.
        let _ = fmt::Write::write_fmt(&mut self.path, path);
        let read = rustix::fs::open(self.path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|file| read_whole(&file, &mut self.bytes, is_single));
        match read {
            Ok(length) => Ok(&self.bytes[..length]),
            Err(source) => Err(SampleError::of(&self.path[self.root.len()..], source)),
        }
    }

    /// Reads below a folder that stands for `/`.
    #[cfg(test)]
    pub(crate) fn below(folder: &std::path::Path) -> Self {
        Buffers { root: folder.display().to_string(), ..Buffers::default() }
    }

    /// The folder that stands for `/`.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Reads a file that is kept open.
    pub(crate) fn read_hot(&mut self, file: &mut HotFile) -> Result<&[u8], SampleError> {
        let path = file.path;
        self.turn.give_way();
        let read = file.open(&self.root).and_then(|open| read_whole(open, &mut self.bytes, false));
        match read {
            Ok(length) => Ok(&self.bytes[..length]),
            Err(source) => Err(SampleError::of(path, source)),
        }
    }
}

/// A file that is read every tick: opened once.
#[derive(Debug)]
pub(crate) struct HotFile {
    path: &'static str,
    open: Option<OwnedFd>,
}

impl HotFile {
    /// Opened at the first reading.
    pub(crate) const fn new(path: &'static str) -> Self {
        HotFile { path, open: None }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    fn open(&mut self, root: &str) -> io::Result<&OwnedFd> {
        if self.open.is_none() {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = match root {
                "" => rustix::fs::open(self.path, flags, Mode::empty())?,
                root => rustix::fs::open(format!("{root}{}", self.path), flags, Mode::empty())?,
            };
            self.open = Some(file);
        }
        self.open.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Why a reading failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SampleError {
    /// The process or thread has ended.
    #[error("{path}: the process has ended")]
    Gone { path: String },
    /// Reading is for root, the same user or a capability.
    #[error(
        "permission denied reading {path}: run as root or as the user of that process, or give plimsoll CAP_SYS_PTRACE"
    )]
    NotPermitted { path: String },
    /// No descriptor is left.
    #[error("no descriptor left to read {path}: raise the limit (ulimit -n)")]
    TooManyFiles { path: String },
    /// Any other error of the kernel.
    #[error("{path} cannot be read: {reason}")]
    Unreadable { path: String, reason: String },
    /// Not of the form documented in proc(5).
    #[error("{path} lacks {what}, which this kernel should have")]
    Malformed { path: String, what: &'static str },
    /// There is nothing to read here, which is no failure: the sampler is disabled.
    #[error("{reason}")]
    Nothing { reason: String },
    /// Something else that the kernel or this process's rights do not give.
    #[error("{reason}")]
    Refused { reason: String },
}

impl SampleError {
    /// The error of opening or reading a file.
    pub(crate) fn of(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match rustix::io::Errno::from_io_error(&source) {
            Some(rustix::io::Errno::NOENT | rustix::io::Errno::SRCH) if is_of_a_process(&path) => {
                SampleError::Gone { path }
            }
            Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => SampleError::NotPermitted { path },
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => SampleError::TooManyFiles { path },
            _ => SampleError::Unreadable { path, reason: source.to_string() },
        }
    }

    /// A file without something it should have.
    pub(crate) fn lacks(path: impl Into<String>, what: &'static str) -> Self {
        SampleError::Malformed { path: path.into(), what }
    }

    /// There is nothing to read here.
    pub(crate) fn nothing(reason: impl Into<String>) -> Self {
        SampleError::Nothing { reason: reason.into() }
    }

    /// The same error, said to be nothing to read where the file is not there.
    pub(crate) fn or_nothing(self, reason: &str) -> Self {
        let (SampleError::Gone { path } | SampleError::Unreadable { path, .. }) = &self else { return self };
        // Without the file, the kernel was built or booted without the thing.
        if std::path::Path::new(path).exists() { self } else { SampleError::nothing(reason) }
    }

    /// Whether there is nothing to read here.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, SampleError::Nothing { .. })
    }

    /// Whether what was to be read has ended, which is no failure of the sampler.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, SampleError::Gone { .. })
    }
}

fn is_of_a_process(path: &str) -> bool {
    path.strip_prefix("/proc/").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Reads from offset 0 to the end; the first `length` bytes of the buffer are the file. `is_single`: a read that leaves room has
/// reached it.
fn read_whole(file: &OwnedFd, buffer: &mut Vec<u8>, is_single: bool) -> io::Result<usize> {
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length >= FILE_BYTES_MAX {
                return Err(io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes")));
            }
            buffer.resize((length * 2).clamp(4096, FILE_BYTES_MAX), 0);
        }
        match rustix::io::pread(file, &mut buffer[length..], length as u64) {
            Ok(0) => return Ok(length),
            Ok(n) => {
                length += n;
                if is_single && length < buffer.len() {
                    return Ok(length);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The non-negative number at the start of some bytes, blanks skipped.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.trim_ascii_start();
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty())
}

/// The lines of a file.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty())
}

/// The number after `key` in a file of `key: number` lines (`/proc/meminfo`, `/proc/<pid>/status`).
pub(crate) fn number_after(bytes: &[u8], key: &[u8]) -> Option<u64> {
    lines(bytes).find_map(|line| line.strip_prefix(key)).and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_file_is_read_anew_each_time() {
        let mut buffers = Buffers::default();
        let mut uptime = HotFile::new("/proc/uptime");
        let first = buffers.read_hot(&mut uptime).unwrap().to_vec();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let second = buffers.read_hot(&mut uptime).unwrap().to_vec();
        assert!(!first.is_empty());
        assert_ne!(first, second, "the second reading is the first's text");
    }

    #[test]
    fn what_is_written_in_one_go_is_read_whole_however_long() {
        let folder = tempfile::tempdir().unwrap();
        let mut buffers = Buffers::below(folder.path());
        // Less than a buffer, just one, and more; a shorter one after a longer has nothing of it.
        for length in [10, 4095, 4096, 4097, 20_000, 8192, 0, 3] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            std::fs::write(folder.path().join("stat"), &bytes).unwrap();
            assert_eq!(buffers.read_single(format_args!("/stat")).unwrap(), bytes, "{length}");
        }
    }

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole() {
        let mut buffers = Buffers { bytes: vec![0; 3], ..Buffers::default() };
        let direct = std::fs::read("/proc/cpuinfo").unwrap();
        let read = buffers.read(format_args!("/proc/cpuinfo")).unwrap();
        // Clock rates in the text may change between the two; its form does not.
        assert_eq!(lines(read).count(), lines(&direct).count());
    }

    #[test]
    fn a_process_that_ended_is_told_from_a_file_that_never_was() {
        let mut buffers = Buffers::default();
        let gone = buffers.read(format_args!("/proc/4194304/stat")).unwrap_err();
        assert!(gone.is_gone(), "{gone:?}");
        let missing = buffers.read(format_args!("/proc/no-such-file")).unwrap_err();
        assert!(matches!(missing, SampleError::Unreadable { .. }), "{missing:?}");
    }

    #[test]
    fn numbers_are_taken_from_the_start_only() {
        assert_eq!(number(b"  42 kB"), Some(42));
        assert_eq!(number(b"kB 42"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"99999999999999999999999"), None);
        assert_eq!(number_after(b"MemTotal: 7 kB\nMemAvailable:   9 kB\n", b"MemAvailable:"), Some(9));
    }
}
