//! The folder of recordings: where it is, how files are named, what is in it, which one is meant.
//!
//! A recording's id is its file name without the extension, `20260731-142233-localhost-1a2b`: sorted by name is
//! sorted by time, UTC. `list` opens what its index (`index`) does not know, and checks every row of it where the file is
//! not large; a damaged one touches no other.

use crate::error::StoreError;
use crate::index::{Index, Stamps};
use crate::limits::{GOES_ON_MS, HOST_NAME_MAX, LIST_CHECKS_BYTES_MAX, NAMES_TRIED_MAX};
use crate::open::log_files;
use crate::{EXTENSION, Reader};
use model::finding::{ValidityState, WhatGives};
use model::recording::Capsule;
use model::{Head, Plan};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// What a run came to, as it was said at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Requests that ended, a second of measured time.
    pub rate_per_s: f64,
    /// What such a request is called.
    pub unit: String,
    /// Whether the figures may be believed.
    pub validity: ValidityState,
    /// What gives first.
    pub gives: Option<WhatGives>,
}

/// One file of the folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Its name without the extension.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// What it holds, or why that cannot be read.
    pub head: Result<Head, StoreError>,
    /// What it came to; `None` of a run that did not come to its end, and where no load was put on.
    pub verdict: Option<Verdict>,
}

/// The folder of recordings: `runs` in [`state::folder`]. It need not be there; where it is, nobody else can write there.
///
/// # Errors
/// [`StoreError::NotOurs`] without a home, or where others can write; [`StoreError::Folder`] where it cannot be looked at.
pub fn default_folder() -> Result<PathBuf, StoreError> {
    let folder = state::folder()?.join("runs");
    state::existing(&folder)?;
    Ok(folder)
}

/// Makes the folder if it is missing and tries to write in it, so that a run need not end before it is known.
///
/// # Errors
/// [`StoreError::NotOurs`] where others can write, [`StoreError::Folder`] with the reason and what to do.
pub fn probe(folder: &Path) -> Result<(), StoreError> {
    let refused = |error: std::io::Error| StoreError::Folder { folder: folder.to_owned(), reason: error.to_string() };
    state::made(folder)?;
    tempfile::Builder::new().prefix(".probe-").tempfile_in(folder).map(drop).map_err(|error| {
        // The library adds the name it tried; the kernel's reason is what helps.
        refused(error.raw_os_error().or_else(|| inner_errno(&error)).map_or(error, std::io::Error::from_raw_os_error))
    })
}

/// A name for a new recording that is not taken: `<UTC time>-<host or scheme>-<4 hex digits>.plimsoll`.
pub fn new_path(folder: &Path, capsule: &Capsule, plan: &Plan) -> PathBuf {
    let origin = plan.origins.first().map_or("", |origin| origin.name.as_str());
    let stem = format!("{}-{}", stamp(capsule.started_at_unix_ns), host_or_scheme(origin));
    let mut path = PathBuf::new();
    for _ in 0..NAMES_TRIED_MAX {
        path = folder.join(format!("{stem}-{:04x}.{EXTENSION}", RandomState::new().build_hasher().finish() as u16));
        if !path.exists() {
            break;
        }
    }
    path
}

/// Every recording of the folder, oldest first, damaged ones with the reason last. A missing folder is an empty one.
///
/// # Errors
/// [`StoreError::Read`] when the folder itself cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Summary>, StoreError> {
    let mut index = Index::of(folder);
    let mut summaries: Vec<Summary> = Vec::new();
    for File { id, path, has_log } in files(folder)? {
        let log = if has_log { log_files(&path).next() } else { None };
        let stamps = || Stamps::of(&path, log.as_deref());
        let before = stamps();
        let read = match before.and_then(|before| index.known(&id, before)) {
            Some(known) => Ok(known),
            None => {
                let read = read_head(&path, before);
                if let (Ok(read), Some(before)) = (&read, before) {
                    index.note(&id, before, stamps(), read);
                }
                read
            }
        };
        let (head, verdict) = match read {
            Ok((head, verdict)) => (Ok(head), verdict),
            Err(error) => (Err(error), None),
        };
        summaries.push(Summary { id, path, head, verdict });
    }
    index.keep();
    let started = |summary: &Summary| summary.head.as_ref().map_or(u64::MAX, |head| head.started_at_unix_ns);
    summaries.sort_by(|a, b| started(a).cmp(&started(b)).then_with(|| a.id.cmp(&b.id)));
    Ok(summaries)
}

/// What a list shows of a file, with every row checked where that does not take long.
fn read_head(path: &Path, stamps: Option<Stamps>) -> Result<(Head, Option<Verdict>), StoreError> {
    let reader = Reader::open(path)?;
    let mut head = reader.head()?;
    if stamps.is_some_and(|stamps| stamps.size() <= LIST_CHECKS_BYTES_MAX) {
        head.is_damaged = reader.check()?.is_damaged();
    }
    // Of one whose verdict cannot be read the head is what there is.
    let verdict = reader.verdict().unwrap_or_default();
    Ok((head, verdict))
}

/// The file that is meant by a path, an id, the beginning of one, or `last`. The folder is asked for where a path is not
/// meant: for that none need be.
///
/// # Errors
/// [`StoreError::NoSuchRun`], [`StoreError::Ambiguous`], [`StoreError::Read`] of the folder, or that of `folder`.
pub fn find(folder: impl FnOnce() -> Result<PathBuf, StoreError>, wanted: &str) -> Result<PathBuf, StoreError> {
    let as_path = Path::new(wanted);
    if wanted != "last" && as_path.is_file() {
        return Ok(as_path.to_owned());
    }
    let folder = &*folder()?;
    let none = || StoreError::NoSuchRun { wanted: wanted.to_owned(), folder: folder.to_owned() };
    if wanted == "last" {
        let last = list(folder)?.into_iter().rfind(|summary| summary.head.is_ok());
        return last.map(|summary| summary.path).ok_or_else(none);
    }
    if wanted.is_empty() {
        return Err(none());
    }
    let mut matches = files(folder)?;
    matches.retain(|file| file.id.starts_with(wanted));
    if let Some(at) = matches.iter().position(|file| file.id == wanted) {
        return Ok(matches.swap_remove(at).path);
    }
    match matches.len() {
        0 => Err(none()),
        1 => Ok(matches.swap_remove(0).path),
        _ => {
            let ids = matches.into_iter().map(|file| file.id).collect();
            Err(StoreError::Ambiguous { wanted: wanted.to_owned(), ids })
        }
    }
}

/// The file of exactly this id.
///
/// # Errors
/// [`StoreError::NoSuchRun`], or [`StoreError::Read`] of the folder.
pub fn named(folder: &Path, id: &str) -> Result<PathBuf, StoreError> {
    let none = || StoreError::NoSuchRun { wanted: id.to_owned(), folder: folder.to_owned() };
    files(folder)?.into_iter().find(|file| file.id == id).map(|file| file.path).ok_or_else(none)
}

/// Deletes the recording of exactly this id, with what SQLite keeps beside it. One that may be of a run that goes on is not.
///
/// # Errors
/// [`StoreError::GoesOn`], [`StoreError::NoSuchRun`], [`StoreError::Delete`], or [`StoreError::Read`] of the folder.
pub fn delete(folder: &Path, id: &str) -> Result<(), StoreError> {
    let path = named(folder, id)?;
    let touched = |path: &Path| path.symlink_metadata().and_then(|metadata| metadata.modified()).ok();
    let logs: Vec<PathBuf> = log_files(&path).filter(|log| log.symlink_metadata().is_ok()).collect();
    // A log is gone when its run has ended; of a run that was killed it stays, and grows no more.
    let is_fresh = |log: &PathBuf| {
        touched(log).is_some_and(|at| at.elapsed().is_ok_and(|since| since < Duration::from_millis(GOES_ON_MS)))
    };
    if logs.iter().any(is_fresh) {
        return Err(StoreError::GoesOn { path });
    }
    // The recording last: what is left of one is a recording still.
    for file in logs.iter().chain([&path]) {
        let failed = |error: std::io::Error| StoreError::Delete { path: file.clone(), reason: error.to_string() };
        std::fs::remove_file(file).map_err(failed)?;
    }
    Ok(())
}

/// A file named like a recording. In the order of a list of names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    id: String,
    path: PathBuf,
    /// Whether SQLite's log is beside it: the run goes on, or was killed.
    has_log: bool,
}

/// Every file named like a recording, by name.
fn files(folder: &Path) -> Result<Vec<File>, StoreError> {
    let unreadable = |error: std::io::Error| StoreError::Read { path: folder.to_owned(), reason: error.to_string() };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let (mut found, mut logs) = (Vec::new(), HashSet::new());
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.as_os_str().as_encoded_bytes().ends_with(b"-wal") {
            logs.insert(path);
            continue;
        }
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(stem) = path.file_stem()
        {
            found.push(File { id: stem.to_string_lossy().into_owned(), path, has_log: false });
        }
    }
    if !logs.is_empty() {
        for file in &mut found {
            file.has_log = log_files(&file.path).next().is_some_and(|log| logs.contains(&log));
        }
    }
    found.sort();
    Ok(found)
}

fn stamp(unix_ns: u64) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string();
    text.chars().filter(|c| c.is_ascii_digit() || *c == 'T').map(|c| if c == 'T' { '-' } else { c }).collect()
}

/// The host of `scheme://host:port/…`, or the scheme where there is none; only characters that need no quoting.
fn host_or_scheme(origin: &str) -> String {
    let (scheme, rest) = origin.split_once("://").unwrap_or((origin, ""));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(""),
        None => authority.split(':').next().unwrap_or(""),
    };
    let plain = |text: &str| -> String {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).filter(|word| !word.is_empty());
        let mut name = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
        name.truncate(HOST_NAME_MAX);
        name
    };
    [plain(host), plain(scheme), "run".to_owned()].into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

fn inner_errno(error: &std::io::Error) -> Option<i32> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|e| e as _);
    while let Some(inner) = source {
        if let Some(errno) = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            return Some(errno);
        }
        source = inner.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_whatever_the_origin() {
        for (origin, name) in [
            ("http://localhost:8080/x?y", "localhost"),
            ("http://user:pass@Example.COM", "example.com"),
            ("http://[::1]:8080", "1"),
            ("http://[fe80::1%25eth0]/", "fe80-1-25eth0"),
            ("unix:/run/my app.sock", "unix-run-my-app.sock"),
            ("echo:///run/echo.sock", "echo"),
            ("http://../../etc", ".."),
            ("", "run"),
            ("://", "run"),
            ("http://münchen.de", "m-nchen.de"),
        ] {
            assert_eq!(host_or_scheme(origin), name, "{origin}");
        }
        assert!(host_or_scheme(&format!("http://{}", "x".repeat(500))).len() <= HOST_NAME_MAX);
    }

    #[test]
    fn the_stamp_is_utc_and_sorts() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(1_709_210_096_000_000_000), "20240229-123456");
        assert!(!stamp(u64::MAX).is_empty());
    }
}
