//! Whose a socket is: its inode among the descriptors of all processes (`/proc/*/fd`).
//!
//! What is not for us to see is told apart from what is not there: a socket of the kernel's own is no process's. Cost: one pass over the
//! links of all descriptors.

use super::NotFound;
use crate::source::proc::{SampleError, number};
use model::plan::Address;
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

/// The processes with a descriptor of one of the sockets that listen at an address, ascending. Those that may not be looked into
/// are passed over.
///
/// # Errors
/// Where there is none: whether that is so, or some could not be looked into.
pub(super) fn holders(inodes: &BTreeSet<u64>, address: &Address) -> Result<Vec<u32>, NotFound> {
    let unreadable = |source: rustix::io::Errno| NotFound::Unreadable { path: "/proc".into(), source: source.into() };
    let proc = openat(CWD, "/proc", FOLDER, Mode::empty()).map_err(unreadable)?;
    let mut entries_buffer = Vec::with_capacity(ENTRIES_BYTES);
    let mut links_buffer = Vec::with_capacity(ENTRIES_BYTES);
    let mut entries = RawDir::new(&proc, entries_buffer.spare_capacity_mut());
    let (mut pids, mut is_any_refused) = (Vec::new(), false);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(unreadable)?;
        let Some(pid) = entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let buffer = links_buffer.spare_capacity_mut();
        let found = match holds(&proc, &format!("{pid}/fd"), inodes, buffer) {
            Some(found) => found,
            // Where the first thread has ended before the others, only theirs show the descriptors.
            None => threads_of(&proc, pid)
                .any(|thread| holds(&proc, &format!("{pid}/task/{thread}/fd"), inodes, buffer) == Some(true)),
        };
        is_any_refused |= !found && !is_open(&proc, pid);
        if found {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    match (pids.is_empty(), is_any_refused) {
        (true, true) => Err(NotFound::NotPermitted { address: address.clone() }),
        (true, false) => Err(NotFound::NoProcess { address: address.clone() }),
        (false, _) => Ok(served_by(pids)),
    }
}

/// Whether a process lets us look into its descriptors (readlink asks for the same as this link, proc(5)), or is gone.
fn is_open(proc: &OwnedFd, pid: u32) -> bool {
    use rustix::io::Errno;
    let mut link = [MaybeUninit::uninit(); LINK_BYTES];
    let read = readlinkat_raw(proc, format!("{pid}/cwd"), &mut link);
    !matches!(read, Err(Errno::ACCESS | Errno::PERM))
}

/// Of the holders of a socket those that serve it. The first process of a PID namespace, process 1 of the host or of a
/// container, has only opened it for another one that runs another program: then it is none of them, and its other
/// children, which may be the whole machine, are none either. A server that is itself the first process of a container has
/// workers of its own program, and stays. Where the service was not started yet, the first process is the only holder, and
/// stays too.
fn served_by(holders: Vec<u32>) -> Vec<u32> {
    let program = |pid: u32| {
        let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let has_handed_on = |pid: u32| {
        let own = program(pid);
        own.is_some()
            && is_first_of_namespace(pid)
            && holders.iter().any(|other| *other != pid && program(*other).is_some_and(|other| Some(other) != own))
    };
    if holders.len() < 2 { holders } else { holders.iter().copied().filter(|pid| !has_handed_on(*pid)).collect() }
}

/// Whether a process is the first one of a PID namespace: its id there, which its status has last, is 1.
fn is_first_of_namespace(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    ids.split_whitespace().next_back() == Some("1")
}

/// Which processes hold which sockets.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The processes, by the inode of each socket that one of them holds.
    pub(crate) owners: BTreeMap<u64, BTreeSet<u32>>,
    /// Some descriptors were not looked at.
    pub(crate) is_cut: bool,
}

/// Which of the sockets the processes hold, by at most so many of their descriptors.
pub(crate) fn sockets_of(
    pids: impl Iterator<Item = u32>,
    inodes: &BTreeSet<u64>,
    at_most: usize,
) -> Result<Owners, SampleError> {
    let (mut found, mut outcome, mut left) = (Owners::default(), Ok(()), at_most);
    let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
    for pid in pids {
        let path = format!("/proc/{pid}/fd");
        let failed = |errno: rustix::io::Errno| SampleError::of(&path, errno.into());
        let folder = match openat(CWD, &path, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(errno) => {
                outcome = outcome.and(Err(failed(errno)));
                continue;
            }
        };
        let each = |inode| {
            if inodes.contains(&inode) {
                found.owners.entry(inode).or_default().insert(pid);
            }
        };
        match each_socket(&folder, buffer.spare_capacity_mut(), &mut left, each) {
            Ok(()) => {}
            Err(errno) => outcome = outcome.and(Err(failed(errno))),
        }
    }
    found.is_cut = left == 0;
    outcome.or_else(|error| if error.is_gone() || !found.owners.is_empty() { Ok(()) } else { Err(error) })?;
    Ok(found)
}

/// Calls with the inode of each socket among the descriptors of a folder, as far as `left` of them may be looked at.
fn each_socket(
    folder: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    left: &mut usize,
    mut each: impl FnMut(u64),
) -> Result<(), rustix::io::Errno> {
    let mut descriptors = RawDir::new(folder, buffer);
    // An error (the process has just ended) is the end: asked again, it would come again.
    while let Some(Ok(descriptor)) = descriptors.next() {
        let name = descriptor.file_name();
        if !name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        let mut link = [0; LINK_BYTES];
        match readlinkat_raw(folder, name, &mut link) {
            Ok(length) => link.get(..length).and_then(socket_inode).into_iter().for_each(&mut each),
            Err(refused @ (rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)) => return Err(refused),
            // The descriptor was closed after the folder was listed.
            Err(_) => {}
        }
    }
    Ok(())
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Room for the entries of a folder that are read at once: some hundreds.
const ENTRIES_BYTES: usize = 16 << 10;
/// Room for `socket:[` and the digits of an inode. A longer link is cut, and is no socket's.
const LINK_BYTES: usize = 48;

/// Whether a folder of descriptors has one of the sockets; `None`: it shows no descriptor at all, as a kernel thread's.
fn holds(proc: &OwnedFd, folder: &str, inodes: &BTreeSet<u64>, buffer: &mut [MaybeUninit<u8>]) -> Option<bool> {
    let folder = openat(proc, folder, FOLDER, Mode::empty()).ok()?;
    let mut descriptors = RawDir::new(&folder, buffer);
    let mut any = None;
    // An error (the process has just ended) is the end: asked again, it would come again.
    while let Some(Ok(descriptor)) = descriptors.next() {
        let name = descriptor.file_name();
        // Not the folder itself and its parent.
        if !name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        any = Some(false);
        let mut link = [0; LINK_BYTES];
        match readlinkat_raw(&folder, name, &mut link) {
            Ok(length) => {
                if link.get(..length).and_then(socket_inode).is_some_and(|inode| inodes.contains(&inode)) {
                    return Some(true);
                }
            }
            // Who may read links is decided by the process (proc(5), ptrace access mode): none of the others either.
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => return any,
            // Closed in between.
            Err(_) => {}
        }
    }
    any
}

/// The threads of a process beside its first: none for a kernel thread, and then nothing more is opened.
fn threads_of(proc: &OwnedFd, pid: u32) -> impl Iterator<Item = u32> {
    let folder = openat(proc, format!("{pid}/task"), FOLDER, Mode::empty());
    let entries = folder.and_then(rustix::fs::Dir::new).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).filter(move |thread| *thread != pid)
}

/// `socket:[659447]`.
fn socket_inode(link: &[u8]) -> Option<u64> {
    number(link.strip_prefix(b"socket:[")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_of_sockets_have_a_sockets_inode() {
        assert_eq!(socket_inode(b"socket:[659447]"), Some(659_447));
        for other in [&b"pipe:[5]"[..], b"anon_inode:[eventpoll]", b"/tmp/socket:[5]", b"socket:[", b"socket:[x]", b""]
        {
            assert_eq!(socket_inode(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_socket_that_nobody_has_is_told_from_one_that_may_be_anothers() {
        let address = Address::Tcp("127.0.0.1:80".parse().unwrap());
        let nobodys = BTreeSet::from([u64::MAX]);
        let why = holders(&nobodys, &address).unwrap_err();
        // Root sees all, but in some containers.
        let is_refused = |entry: std::fs::DirEntry| {
            let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
            let error = std::fs::read_link(entry.path().join("cwd")).err();
            is_process && error.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        };
        let sees_all = !std::fs::read_dir("/proc").unwrap().flatten().any(is_refused);
        match sees_all {
            true => assert!(matches!(why, NotFound::NoProcess { .. }), "{why}"),
            false => assert!(matches!(why, NotFound::NotPermitted { .. }), "{why}"),
        }
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = BTreeSet::from([rustix::fs::fstat(&socket).unwrap().st_ino]);
        assert_eq!(holders(&own, &address).unwrap(), [std::process::id()]);
    }
}
