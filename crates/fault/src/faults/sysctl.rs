//! Kernel settings by their sysctl(8) name, read and written below `/proc/sys`; only those that a fix changes.
//!
//! A name can only lead to a file there: no dots in a row, no slashes. Values are compared word by word, for the kernel
//! separates by tabs what is written with blanks. Settings of the network hold in one namespace only, or are the same seen
//! from each (network_namespaces(7)). `net.core.somaxconn` is read by a server when it listens: it changes no queue that is
//! there.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::limits::VALUE_BYTES_MAX;
use crate::place;
use model::check::{FIXABLE, Setting, is_fixable};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "sysctl",
    takes: "NAME 'VALUE'",
    example: "net.ipv4.tcp_syncookies 0",
    does: "sets a kernel setting: one of those that `plimsoll check --fix` changes",
    needs: "root on the host itself",
    undone: Undoing::Back("the value that was there"),
    parse: |words| {
        let known: Vec<&str> = FIXABLE.iter().map(|(name, _)| *name).collect();
        let name = words
            .parsed(&format!("one of {}", known.join(", ")), |word| known.contains(&word).then(|| word.to_owned()))?;
        let value = words.parsed("its value, numbers", |word| is_fixable(&name, word).then(|| word.to_owned()))?;
        Ok(Arc::new(Settings(Setting { name, value })))
    },
};

#[derive(Debug)]
struct Settings(Setting);

impl Fault for Settings {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        Ok(vec![Deed::Change(Change::Sysctl(Sysctl::planned(&self.0)?))])
    }
}

/// A kernel setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// Its name.
    pub name: String,
    /// What it was.
    pub before: String,
    /// What it was to become.
    pub after: String,
}

impl Sysctl {
    /// What becomes of a setting. What no fix changes is refused, whoever asks for it.
    pub(crate) fn planned(setting: &Setting) -> Result<Self, ApplyError> {
        check_known(&setting.name, &setting.value)?;
        let (before, after) = (read(&setting.name)?, words(&setting.value));
        Ok(Sysctl { name: setting.name.clone(), before, after })
    }
}

impl Reversible for Sysctl {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        read(&self.name).map(Some)
    }

    fn may(&self) -> Result<(), ApplyError> {
        Writable::open(&self.name).map(drop)
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        Writable::open(&self.name)?.set(value)
    }

    /// What could not be put back is not changed.
    fn check(&self) -> Result<(), ApplyError> {
        [&self.before, &self.after].into_iter().try_for_each(|value| check_known(&self.name, value))
    }

    fn network(&self) -> Option<u64> {
        if self.name.starts_with("net.") { place::network() } else { None }
    }
}

fn check_known(name: &str, value: &str) -> Result<(), ApplyError> {
    if is_fixable(name, value) { Ok(()) } else { Err(ApplyError::not_ours(name, value)) }
}

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
