//! Small files that hold one setting: `/proc/sys`, `/sys`, control groups. Read once, below a root that tests choose.
//!
//! Keeps apart what is not there from what may not be read: the first is an answer, the second is none. Not for files
//! read every tick; those are `proc`'s.

use model::readings::Reading;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Longest such file, bytes: a list of reserved ports may be long, nothing else is.
const BYTES_MAX: u64 = 1 << 20;

/// Where `/proc` and `/sys` are: `/`, or a folder of a test.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// Below this folder.
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        Root(folder.into())
    }

    /// A file's text without blanks at its ends. `path` is absolute as seen by the user.
    pub(crate) fn text(&self, path: &str) -> Reading<String> {
        let mut text = String::new();
        let read = std::fs::File::open(self.path(path)).and_then(|f| f.take(BYTES_MAX + 1).read_to_string(&mut text));
        match read {
            Ok(length) if length as u64 > BYTES_MAX => {
                Reading::Unreadable(format!("{path} is longer than {BYTES_MAX} bytes"))
            }
            Ok(_) => Reading::Known(text.trim().to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Reading::Absent,
            Err(error) => Reading::Unreadable(format!("{path} cannot be read: {error}")),
        }
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: &str) -> Reading<u64> {
        self.text(path).and_then(|text| text.parse().ok(), &format!("{path} holds no number"))
    }

    /// The same of a kernel setting, by its name as sysctl(8) gives it.
    pub(crate) fn sysctl(&self, name: &str) -> Reading<u64> {
        self.number(&sysctl_path(name))
    }

    /// A kernel setting of several numbers.
    pub(crate) fn sysctl_numbers<const N: usize>(&self, name: &str) -> Reading<[u64; N]> {
        let path = sysctl_path(name);
        self.text(&path).and_then(|text| numbers(&text), &format!("{path} does not hold {N} numbers"))
    }

    /// Names in a folder; none where it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether a folder holds others.
    pub(crate) fn has_folders(&self, path: &str) -> bool {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(Path::new(path.trim_start_matches('/')))
    }
}

/// `net.core.somaxconn` is `/proc/sys/net/core/somaxconn` (proc(5)).
pub(crate) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Exactly so many numbers, separated by blanks.
pub(crate) fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let numbers: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_unreadable_and_known_are_three_things() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(folder.path().join("proc/sys/net/core")).unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("proc/sys/net/core/somaxconn"), text).unwrap();
        assert_eq!(root.sysctl("net.core.somaxconn"), Reading::Absent);
        write("4096\n");
        assert_eq!(root.sysctl("net.core.somaxconn"), Reading::Known(4096));
        assert_eq!(root.sysctl_numbers::<1>("net.core.somaxconn"), Reading::Known([4096]));
        assert!(matches!(root.sysctl_numbers::<2>("net.core.somaxconn"), Reading::Unreadable(_)));
        write("many\n");
        let Reading::Unreadable(why) = root.sysctl("net.core.somaxconn") else { panic!() };
        assert_eq!(why, "/proc/sys/net/core/somaxconn holds no number");
        write(&"1".repeat(BYTES_MAX as usize + 1));
        assert!(matches!(root.sysctl("net.core.somaxconn"), Reading::Unreadable(_)));
        // A folder is there and is no file.
        assert!(matches!(root.number("/proc/sys/net/core"), Reading::Unreadable(_)));
    }
}
