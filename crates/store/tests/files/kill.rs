//! kill -9 in the middle of a run leaves a file that reads, with every tick that was said to be kept.
//!
//! The test runs itself again as the victim. Read-only media and a full disk are made in a private mount namespace,
//! which needs root; without it those parts say so and pass.

use crate::common::*;
use model::recording::{End, Tick};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use store::{Reader, StoreError, Writer};

const VICTIM: &str = "PLIMSOLL_STORE_TEST_VICTIM";
const NAMESPACE: &str = "PLIMSOLL_STORE_TEST_NAMESPACE";

/// Writes ticks until it is killed, saying each.
fn be_victim(path: &Path) -> ! {
    let mut writer = Writer::create(path, &capsule(), &plan()).unwrap();
    for sequence in 0.. {
        writer
            .append(
                Some(&Tick::of(&[interval(0, sequence), interval(1, sequence)])),
                Some(&snapshot(sequence)),
                &[event(0)],
            )
            .unwrap();
        println!("kept {}", sequence + 1);
    }
    unreachable!("a test that never kills runs out of disk before it runs out of numbers")
}

/// Starts a victim, kills it after so many ticks, and returns how many it said it kept.
fn killed_after(path: &Path, ticks: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::a_killed_run_is_readable", "--nocapture"])
        .env(VICTIM, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kept = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // Where there is one CPU, the test's own name stands before the first.
        if let Some(n) = line.unwrap().split_once("kept ").and_then(|(_, n)| n.parse::<u64>().ok()) {
            kept = n;
        }
        if kept >= ticks {
            // SIGKILL; lines already in the pipe are still read.
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success());
    kept
}

fn check(path: &Path, kept: u64) {
    let r = Reader::open(path).unwrap().load().unwrap();
    assert_eq!(r.end, End::Partial);
    let ticks = r.timeline.rows().len() as u64;
    // It may have been killed between keeping a tick and saying so.
    assert!(ticks == kept || ticks == kept + 1, "{kept} were said to be kept, {ticks} are there");
    let expected = totals(ticks);
    assert_eq!(r.totals.sum.counts, expected.sum.counts);
    assert_eq!(r.totals.sum.latency, expected.sum.latency);
    // Every one while they are few; of more, every second, fourth… is read into memory.
    assert_eq!(r.snapshots.len() as u64, ticks.div_ceil(r.snapshot_stride));
    assert!(r.totals.is_conserved());
}

#[test]
fn a_killed_run_is_readable() {
    if let Some(path) = std::env::var_os(VICTIM) {
        be_victim(Path::new(&path));
    }
    // Within the log, around its first move into the file, and after many.
    for ticks in [1, 40, 120] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed.plimsoll");
        let kept = killed_after(&path, ticks);
        let before: Vec<_> =
            ["", "-wal"].iter().map(|suffix| std::fs::read(format!("{}{suffix}", path.display())).unwrap()).collect();
        check(&path, kept);
        check(&path, kept);
        let after: Vec<_> =
            ["", "-wal"].iter().map(|suffix| std::fs::read(format!("{}{suffix}", path.display())).unwrap()).collect();
        assert!(before == after, "reading changed the file");
    }
}

/// Runs one test of this file again as root of a mount namespace of its own; `false` where that is not possible.
fn in_namespace(test: &str) -> bool {
    let possible = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        println!("skipped: a mount namespace needs root");
        return false;
    }
    let status = Command::new("unshare")
        .arg("-m")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(NAMESPACE, "1")
        .status()
        .unwrap();
    assert!(status.success());
    true
}

fn mount(arguments: &[&str], at: &Path) {
    assert!(Command::new("mount").args(arguments).arg(at).status().unwrap().success());
}

#[test]
fn a_full_disk_stops_the_recording_and_leaves_what_was_kept() {
    if std::env::var_os(NAMESPACE).is_none() {
        in_namespace("kill::a_full_disk_stops_the_recording_and_leaves_what_was_kept");
        return;
    }
    for size in ["size=96k", "size=256k", "size=512k"] {
        let disk = tempfile::tempdir().unwrap();
        mount(&["-t", "tmpfs", "-o", size, "tmpfs"], disk.path());
        let path = disk.path().join("full.plimsoll");
        let mut writer = Writer::create(&path, &capsule(), &plan()).unwrap();
        let mut kept = 0;
        let error = loop {
            match writer.append(Some(&Tick::of(&[interval(0, kept), interval(1, kept)])), Some(&snapshot(kept)), &[]) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, StoreError::Full { path: path.clone() }, "{size}");
        assert!(error.to_string().contains("no space is left"));
        let marked = writer.mark_partial("no space is left on the disk");
        // While the process lives,
        check(&path, kept);
        // in a copy made when it was dead,
        let (copy_of, copy) = (disk.path(), tempfile::tempdir().unwrap());
        for name in names(copy_of).iter().filter(|name| !name.ends_with("-shm")) {
            std::fs::copy(copy_of.join(name), copy.path().join(name)).unwrap();
        }
        check(&copy.path().join("full.plimsoll"), kept);
        drop(writer);
        // and where it is, the disk still full.
        check(&path, kept);
        if marked.is_ok() {
            assert!(Reader::open(&path).unwrap().partial_reason().unwrap().is_some());
        }
        println!("{size}: {kept} ticks, reason noted: {}", marked.is_ok());
        assert!(Command::new("umount").arg("-l").arg(disk.path()).status().unwrap().success());
    }
}

#[test]
fn a_disk_too_small_for_a_recording_is_an_error_and_leaves_nothing() {
    if std::env::var_os(NAMESPACE).is_none() {
        in_namespace("kill::a_disk_too_small_for_a_recording_is_an_error_and_leaves_nothing");
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    mount(&["-t", "tmpfs", "-o", "size=8k", "tmpfs"], disk.path());
    let path = disk.path().join("full.plimsoll");
    let error = Writer::create(&path, &capsule(), &plan()).unwrap_err();
    assert_eq!(error, StoreError::Full { path });
    assert_eq!(names(disk.path()), [""; 0]);
}

#[test]
fn a_killed_run_on_read_only_media_is_readable() {
    if std::env::var_os(NAMESPACE).is_none() {
        in_namespace("kill::a_killed_run_on_read_only_media_is_readable");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let killed = folder.path().join("killed.plimsoll");
    let kept = killed_after(&killed, 20);
    // As it would be after a copy: no shared memory, and once without its log.
    std::fs::remove_file(folder.path().join("killed.plimsoll-shm")).unwrap();
    let no_log = folder.path().join("no log?.plimsoll");
    std::fs::copy(&killed, &no_log).unwrap();
    let whole = folder.path().join("whole.plimsoll");
    finished(&whole, 3);
    mount(&["--bind", folder.path().to_str().unwrap()], folder.path());
    mount(&["-o", "remount,bind,ro"], folder.path());
    assert!(std::fs::write(folder.path().join("x"), "").is_err());
    check(&killed, kept);
    assert_eq!(Reader::open(&no_log).unwrap().load().unwrap().end, End::Partial);
    assert_eq!(Reader::open(&whole).unwrap().load().unwrap().totals, totals(3));
    assert!(Command::new("umount").arg("-l").arg(folder.path()).status().unwrap().success());
}
