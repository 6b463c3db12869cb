//! A small file system is full while the fault lasts and free after: one that the test mounted, in a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
#[path = "common/helper.rs"]
mod helpers;
use common::*;
use helpers::*;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

#[test]
fn helper() {
    help();
}

/// Whether this is the run in a mount namespace of its own, with a file system of 8 MiB on the folder that it gives.
fn with_disk(test: &str, run: impl FnOnce(&Path)) {
    const DISK: &str = "FAULT_TEST_DISK";
    if let Some(folder) = std::env::var_os(DISK) {
        return run(Path::new(&folder));
    }
    if !testkit::is_root() || testkit::program("unshare").is_none() {
        return testkit::skip("a file system of its own needs root and unshare(1)");
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=8m none \"$FAULT_TEST_DISK\" && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mount]).arg(std::env::current_exe().unwrap());
    passes(command.args(only(test)).env(DISK, folder.path()));
}

/// Whether so many bytes can be written there now.
fn can_write(folder: &Path, bytes: usize) -> bool {
    let file = folder.join("wanted");
    let written = File::create(&file).and_then(|mut file| file.write_all(&vec![1; bytes]));
    std::fs::remove_file(&file).unwrap();
    match written {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::StorageFull => false,
        Err(error) => panic!("{error}"),
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn it_is_full_while_it_lasts_and_free_after() {
    with_disk("it_is_full_while_it_lasts_and_free_after", |disk| {
        let folder = tempfile::tempdir().unwrap();
        let shown = disk.display();
        assert!(can_write(disk, 4 << 20));
        let begun = begin(folder.path(), &format!("disk-full {shown}"));
        assert!(!can_write(disk, 4096) && !can_write(disk, 4 << 20));
        let said = begun.end().unwrap().join("; ");
        assert!(said.starts_with("8.00 MiB taken, 0 B free") && is_empty(disk), "{said}");
        assert!(can_write(disk, 4 << 20));
        let begun = begin(folder.path(), &format!("disk-full {shown} leave 1MiB"));
        assert!(can_write(disk, 512 << 10) && !can_write(disk, 2 << 20));
        begun.end().unwrap();
        assert!(can_write(disk, 4 << 20));
    });
}

#[test]
fn below_a_file_system_in_a_file_it_makes_fsync_fail() {
    with_disk("below_a_file_system_in_a_file_it_makes_fsync_fail", |disk| {
        let folder = tempfile::tempdir().unwrap();
        let (image, inner) = (disk.join("image"), folder.path().join("inner"));
        std::fs::create_dir(&inner).unwrap();
        // A file of 7 MiB that takes no room until it is written.
        File::create(&image).unwrap().set_len(7 << 20).unwrap();
        let run = |program: &str, args: &[&str]| {
            Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
        };
        let (image, inner_) = (image.to_str().unwrap(), inner.to_str().unwrap());
        if !run("mkfs.ext4", &["-q", "-O", "^has_journal", image]) || !run("mount", &["-o", "loop", image, inner_]) {
            return testkit::skip("a file system in a file (mkfs.ext4, a loop device) cannot be had");
        }
        let sync = |name: &str| {
            let mut file = File::create(inner.join(name)).unwrap();
            file.write_all(&vec![1; 1 << 20]).unwrap();
            file.sync_all()
        };
        sync("before").unwrap();
        let begun = begin(folder.path(), &format!("disk-full {}", disk.display()));
        // Its own file system has room, so it may write; what it wrote cannot be kept.
        let failed = sync("during").unwrap_err();
        const EIO: i32 = 5;
        assert!(failed.raw_os_error() == Some(EIO) || failed.kind() == ErrorKind::StorageFull, "{failed:?}");
        begun.end().unwrap();
        sync("after").unwrap();
        assert!(run("umount", &[inner_]));
    });
}
