//! A folder looked at part by part, links included, as the kernel goes through it.
//!
//! Every part must belong to the user or root. Others may not write there, but for a parent with the sticky bit such
//! as /tmp: there only the owner of an entry can take it away (inode(7)), and the entry below is looked at as well.

use crate::group::is_private;
use crate::{StateError, Why};
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Most links on one path, as for the kernel (path_resolution(7)).
const LINKS_MAX: u32 = 40;
/// Where a list of rights is kept (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// The folder without links, where it is there and is the user's; `None` where it is not there.
///
/// # Errors
/// [`StateError::NotOurs`] or [`StateError::Failed`].
pub fn existing(folder: &Path) -> Result<Option<PathBuf>, StateError> {
    walk(folder, false)
}

/// The folder without links; what is missing of it is made, for its owner only.
///
/// # Errors
/// [`StateError::NotOurs`] or [`StateError::Failed`].
pub fn made(folder: &Path) -> Result<PathBuf, StateError> {
    let failed = |reason: &str| StateError::Failed { folder: folder.to_owned(), reason: reason.to_owned() };
    walk(folder, true)?.ok_or_else(|| failed("it was removed just now"))
}

/// Whether an open file of such a folder is a plain one that only the user and root can change: it may have been put
/// there when the folder was still open to others.
///
/// # Errors
/// [`StateError::NotOurs`] or [`StateError::Failed`].
pub fn check_file(path: &Path, file: &File) -> Result<(), StateError> {
    let failed = |reason: String| StateError::Failed { folder: path.to_owned(), reason };
    let metadata = file.metadata().map_err(|error| failed(plain(&error)))?;
    if !metadata.is_file() {
        return Err(failed("it is not a plain file".to_owned()));
    }
    let has_list = || rustix::fs::fgetxattr(file, ACL, &mut [0u8; 0]).is_ok();
    match fault_of(&metadata, false, has_list) {
        None => Ok(()),
        Some(why) => Err(StateError::NotOurs { folder: path.to_owned(), part: path.to_owned(), why }),
    }
}

fn walk(folder: &Path, make: bool) -> Result<Option<PathBuf>, StateError> {
    let failed = |reason: String| StateError::Failed { folder: folder.to_owned(), reason };
    let not_ours = |part: &Path, why| StateError::NotOurs { folder: folder.to_owned(), part: part.to_owned(), why };
    let whole = std::path::absolute(folder).map_err(|error| failed(plain(&error)))?;
    let mut at = PathBuf::from("/");
    let mut before_last = std::fs::symlink_metadata(&at).map_err(|error| failed(plain(&error)))?;
    let mut to_go = parts(&whole);
    let mut links = 0;
    check_parent(&at, &before_last).map_err(|why| not_ours(&at, why))?;
    while let Some(part) = to_go.pop() {
        let next = match part {
            Part::Root => PathBuf::from("/"),
            Part::Up => at.parent().unwrap_or(&at).to_owned(),
            Part::Down(name) => at.join(name),
        };
        let metadata = match std::fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound && !make => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => make_one(&next).map_err(|e| failed(plain(&e)))?,
            other => other.map_err(|error| failed(plain(&error)))?,
        };
        if metadata.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(failed("it leads through too many links".to_owned()));
            }
            if let Some(why) = fault_of_owner(&metadata) {
                return Err(not_ours(&next, why));
            }
            to_go.extend(parts(&std::fs::read_link(&next).map_err(|error| failed(plain(&error)))?));
            continue;
        }
        if !metadata.is_dir() {
            return Err(failed(format!("'{}' is not a folder", next.display())));
        }
        check_parent(&next, &metadata).map_err(|why| not_ours(&next, why))?;
        (at, before_last) = (next, metadata);
    }
    // What may be written by all with the sticky bit is a parent at the most.
    match fault_of(&before_last, false, || has_list(&at)) {
        Some(why) => Err(not_ours(&at, why)),
        None => Ok(Some(at)),
    }
}

/// A step of a path.
enum Part {
    Root,
    Up,
    Down(std::ffi::OsString),
}

/// The steps of a path, the first one last.
fn parts(path: &Path) -> Vec<Part> {
    let of = |component: Component<'_>| match component {
        Component::Prefix(_) | Component::CurDir => None,
        Component::RootDir => Some(Part::Root),
        Component::ParentDir => Some(Part::Up),
        Component::Normal(name) => Some(Part::Down(name.to_owned())),
    };
    path.components().rev().filter_map(of).collect()
}

/// Makes one folder, unless somebody was quicker: whose it is then is looked at as ever.
fn make_one(folder: &Path) -> std::io::Result<Metadata> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::symlink_metadata(folder),
    }
}

fn check_parent(at: &Path, metadata: &Metadata) -> Result<(), Why> {
    match fault_of(metadata, true, || has_list(at)) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

fn has_list(at: &Path) -> bool {
    rustix::fs::lgetxattr(at, ACL, &mut [0u8; 0]).is_ok()
}

fn fault_of(metadata: &Metadata, sticky_will_do: bool, has_list: impl FnOnce() -> bool) -> Option<Why> {
    const STICKY: u32 = 0o1000;
    if let Some(why) = fault_of_owner(metadata) {
        return Some(why);
    }
    let mode = metadata.mode();
    let is_sticky = mode & STICKY != 0 && metadata.is_dir() && sticky_will_do;
    match () {
        () if is_sticky => None,
        () if mode & 0o002 != 0 => Some(Why::Everybody),
        () if mode & 0o020 == 0 => None,
        // The bits of the group are then the most that the list allows anybody.
        () if has_list() => Some(Why::List),
        () if is_private(metadata.gid(), rustix::process::geteuid().as_raw()) => None,
        () => Some(Why::Group(metadata.gid())),
    }
}

fn fault_of_owner(metadata: &Metadata) -> Option<Why> {
    let is_ours = metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw();
    (!is_ours).then_some(Why::Owner(metadata.uid()))
}

/// The kernel's sentence without the number that the standard library adds.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
