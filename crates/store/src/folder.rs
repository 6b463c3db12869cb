//! The folder of recordings: where it is, how files are named, what is in it, which one is meant.
//!
//! A recording's id is its file name without the extension, `20260731-142233-localhost-1a2b`: sorted by name is
//! sorted by time, UTC. There is no index: `list` opens every file, and a damaged one touches no other.

use crate::error::StoreError;
use crate::limits::{HOST_NAME_MAX, NAMES_TRIED_MAX};
use crate::{EXTENSION, Reader};
use model::Plan;
use model::recording::{Capsule, End};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// What a list shows of a readable recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Wall clock at the start, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// Where the load went.
    pub target: String,
    /// Requests that ended, warm-up excluded.
    pub requests: u64,
    /// How it ended; of a run that is still going, [`End::Partial`].
    pub end: End,
}

/// One file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its name without the extension.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// What it holds, or why that cannot be read.
    pub head: Result<Head, StoreError>,
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
    let mut summaries: Vec<Summary> = files(folder)?
        .into_iter()
        .map(|(id, path)| {
            let head = Reader::open(&path).and_then(|reader| reader.head());
            Summary { id, path, head }
        })
        .collect();
    let started = |summary: &Summary| summary.head.as_ref().map_or(u64::MAX, |head| head.started_at_unix_ns);
    summaries.sort_by(|a, b| started(a).cmp(&started(b)).then_with(|| a.id.cmp(&b.id)));
    Ok(summaries)
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
    matches.retain(|(id, _)| id.starts_with(wanted));
    if let Some(at) = matches.iter().position(|(id, _)| id == wanted) {
        return Ok(matches.swap_remove(at).1);
    }
    match matches.len() {
        0 => Err(none()),
        1 => Ok(matches.swap_remove(0).1),
        _ => {
            let ids = matches.into_iter().map(|(id, _)| id).collect();
            Err(StoreError::Ambiguous { wanted: wanted.to_owned(), ids })
        }
    }
}

/// Id and path of every file named like a recording, by name.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let unreadable = |error: std::io::Error| StoreError::Read { path: folder.to_owned(), reason: error.to_string() };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(stem) = path.file_stem()
        {
            found.push((stem.to_string_lossy().into_owned(), path));
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
