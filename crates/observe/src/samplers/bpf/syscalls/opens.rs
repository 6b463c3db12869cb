//! Which files the target opens most, in the windows: by the name that each call gave, so one file by two names is two.
//!
//! `opens.unread`: calls whose name was not in memory at that moment; `opens.paths_lost`: those of names beyond the bound.
//! Not counted: `openat2`, `creat`, and what is opened through io_uring.

use super::super::Reading;
use crate::limits::OPENED_MAX;
use crate::source::bpf::{BpfError, Programs};
use model::bpf::FileUse;

/// Reads the names, those opened most first.
pub(super) fn read(programs: &Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let of_entry = |entry: crate::source::bpf::Entry| {
        let text = entry.key.split(|byte| *byte == 0).next().unwrap_or_default();
        FileUse { path: String::from_utf8_lossy(text).into_owned(), opens: entry.words.first().copied().unwrap_or(0) }
    };
    let mut files: Vec<FileUse> = programs.hash("opened")?.into_iter().map(of_entry).collect();
    files.sort_by(|a, b| b.opens.cmp(&a.opens).then_with(|| a.path.cmp(&b.path)));
    files.truncate(OPENED_MAX);
    reading.sample.files = files;
    Ok(())
}
