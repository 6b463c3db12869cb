//! Kernel settings by their sysctl(8) name, read and written below `/proc/sys`.
//!
//! A name can only lead to a file there: no dots in a row, no slashes. Values are compared word by word, for the kernel
//! separates by tabs what is written with blanks.

use crate::error::ApplyError;
use crate::limits::VALUE_BYTES_MAX;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// The setting's file.
fn path(name: &str) -> Result<String, ApplyError> {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match name.split('.').all(is_word) && name.contains('.') {
        true => Ok(format!("/proc/sys/{}", name.replace('.', "/"))),
        false => Err(ApplyError::BadName { name: name.to_owned() }),
    }
}

/// Its value, words separated by one blank.
pub(crate) fn read(name: &str) -> Result<String, ApplyError> {
    let mut text = String::new();
    let read = File::open(path(name)?).and_then(|file| file.take(VALUE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| ApplyError::unreadable(name, &error))?;
    Ok(words(&text))
}

/// One blank between words.
pub(crate) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A setting that may be written: opening it asks for the right without changing anything.
#[derive(Debug)]
pub(crate) struct Writable {
    name: String,
    file: File,
}

impl Writable {
    pub(crate) fn open(name: &str) -> Result<Self, ApplyError> {
        let file = OpenOptions::new().write(true).open(path(name)?);
        let file = file.map_err(|error| ApplyError::of_write(name, "", &error))?;
        Ok(Writable { name: name.to_owned(), file })
    }

    /// Writes it, in one call as the kernel demands (`kernel.sysctl_writes_strict`).
    pub(crate) fn set(mut self, value: &str) -> Result<(), ApplyError> {
        let line = format!("{value}\n");
        let written = match self.file.write(line.as_bytes()) {
            Ok(n) if n == line.len() => Ok(()),
            Ok(_) => Err(io::Error::other("it took a part of it")),
            Err(error) => Err(error),
        };
        written.map_err(|error| ApplyError::of_write(&self.name, value, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        assert_eq!(path("net.core.somaxconn").unwrap(), "/proc/sys/net/core/somaxconn");
        for name in ["", "net", "..", "net..core", ".net", "net.", "net/../../etc.x", "net.core.a b", "net.\0.x", "a.ü"]
        {
            assert!(matches!(path(name), Err(ApplyError::BadName { .. })), "{name}");
        }
    }

    #[test]
    fn values_are_compared_by_words() {
        assert_eq!(words("32768\t60999\n"), words(" 32768 60999"));
        let range = read("net.ipv4.ip_local_port_range").unwrap();
        assert_eq!(range.split(' ').count(), 2, "{range}");
        assert!(matches!(read("net.core.no_such_setting"), Err(ApplyError::Unreadable { .. })));
    }
}
