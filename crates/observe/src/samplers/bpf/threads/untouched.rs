//! Threads that had no event in a window: all through it they were in the state that `/proc` shows right after.
//!
//! What one did between the window's end and this reading is taken for what it did in the window; a second at the most.

use super::{FUTEX, ON_CPU, OTHER, POLL, Record, SLEEP, start_ticks};
use crate::limits::UNTOUCHED_MAX;
use crate::samplers::calls::{CallKind, call_kind};
use crate::samplers::process::descriptor_kinds::kind_of_link;
use crate::source::stat::Stat;
use std::collections::BTreeSet;
use std::path::Path;

const DISK: usize = 3;
const UNINTERRUPTIBLE: usize = 4;
const SOCKET: usize = 6;
const PIPE: usize = 8;
const STOPPED: usize = 10;

/// A thread, and the state that it was in all the time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Untouched {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// As `/proc/<pid>/stat` has it.
    pub(super) start_ticks: u64,
    pub(super) state: usize,
}

/// The threads of these processes that are none of the records' and were there at `from_ns` of the monotonic clock, and how
/// many were not read, as there were too many.
pub(super) fn states(pids: &[u32], records: &[Record], from_ns: u64) -> (Vec<Untouched>, u64) {
    let known: BTreeSet<u32> = records.iter().map(|record| record.tid).collect();
    let (mut found, mut left, mut unread) = (Vec::new(), UNTOUCHED_MAX, 0);
    for pid in pids {
        let Ok(listed) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        let tids = listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for tid in tids.filter(|tid| !known.contains(tid)) {
            if left == 0 {
                unread += 1;
                continue;
            }
            left -= 1;
            found.extend(state(*pid, tid, from_ns));
        }
    }
    (found, unread)
}

fn state(pid: u32, tid: u32, from_ns: u64) -> Option<Untouched> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = Stat::parse(&std::fs::read(format!("{folder}/stat")).ok()?)?;
    if stat.start_ticks >= start_ticks(from_ns) {
        return None;
    }
    let syscall = std::fs::read_to_string(format!("{folder}/syscall")).unwrap_or_default();
    let mut words = syscall.split_ascii_whitespace();
    let call = words.next().and_then(|word| word.parse().ok()).unwrap_or(-1);
    let argument = words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let link = || std::fs::read_link(format!("/proc/{pid}/fd/{}", argument? as u32)).ok();
    let state = match stat.state {
        'R' => ON_CPU,
        'T' | 't' => STOPPED,
        'D' if waits_for_io(&folder) => DISK,
        'D' => UNINTERRUPTIBLE,
        'S' => match call_kind(call) {
            CallKind::Futex => FUTEX,
            CallKind::Poll | CallKind::Epoll => POLL,
            CallKind::Sleep => SLEEP,
            CallKind::At => match link().as_deref().map(kind_of_link) {
                Some("socket") => SOCKET,
                Some("pipe") => PIPE,
                _ => OTHER,
            },
            CallKind::Other => OTHER,
        },
        _ => return None,
    };
    Some(Untouched { pid, tid, start_ticks: stat.start_ticks, state })
}

/// By the name of the kernel's function that it sleeps in.
fn waits_for_io(folder: &str) -> bool {
    let function = std::fs::read_to_string(Path::new(folder).join("wchan")).unwrap_or_default();
    ["io", "folio", "page", "bio", "blk", "jbd2", "log_wait"].iter().any(|part| function.contains(part))
}
