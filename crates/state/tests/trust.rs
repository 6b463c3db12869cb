//! Folders as others can have left them: real owners and rights below the temporary folder. Owners need root.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use state::{StateError, Why, check_file, existing, made};
use std::fs::{File, Permissions, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

const STRANGER: u32 = 65_534;

fn rights(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn refused(folder: &Path, part: &Path, why: Why) {
    let expected = StateError::NotOurs { folder: folder.to_owned(), part: part.to_owned(), why };
    assert_eq!(existing(folder), Err(expected.clone()));
    assert_eq!(made(folder), Err(expected));
}

#[test]
fn a_folder_of_ours_is_used_and_made_for_us_alone() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    assert_eq!(existing(&root), Ok(Some(root.clone())));
    let deep = root.join("a/b");
    assert_eq!(existing(&deep), Ok(None));
    assert_eq!(made(&deep), Ok(deep.clone()));
    assert_eq!(existing(&root.join("a/./b/../b")), Ok(Some(deep.clone())));
    for made in ["a", "a/b"] {
        assert_eq!(root.join(made).metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    }
    // Others may read.
    rights(&deep, 0o755);
    assert_eq!(existing(&deep), Ok(Some(deep.clone())));
    symlink("a", root.join("link")).unwrap();
    assert_eq!(existing(&root.join("link/b")), Ok(Some(deep)));
    File::create(root.join("file")).unwrap();
    assert!(matches!(made(&root.join("file/x")), Err(StateError::Failed { .. })));
    symlink("round", root.join("round")).unwrap();
    let error = made(&root.join("round")).unwrap_err().to_string();
    assert!(error.contains("too many links"), "{error}");
}

#[test]
fn where_others_may_write_nothing_is_used() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let (open, below) = (root.join("open"), root.join("open/below"));
    create_dir(&open).unwrap();
    create_dir(&below).unwrap();
    rights(&open, 0o777);
    refused(&open, &open, Why::Everybody);
    refused(&below, &open, Why::Everybody);
    let error = existing(&below).unwrap_err().to_string();
    let words = format!("but '{}' can be written by everybody: take that right away", open.display());
    assert!(error.contains(&words), "{error}");
    // With the sticky bit it will do as a parent, and only so.
    rights(&open, 0o1777);
    refused(&open, &open, Why::Everybody);
    assert_eq!(existing(&below), Ok(Some(below.clone())));
    rights(&open, 0o755);
    rights(&below, 0o757);
    refused(&below, &below, Why::Everybody);
}

#[test]
fn what_a_stranger_made_is_not_used() {
    if !testkit::is_root() {
        return testkit::skip("giving a folder to another user needs root");
    }
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let common = root.join("common");
    create_dir(&common).unwrap();
    rights(&common, 0o1777);
    let (theirs, below) = (common.join("theirs"), common.join("theirs/below"));
    create_dir(&theirs).unwrap();
    create_dir(&below).unwrap();
    chown(&theirs, Some(STRANGER), None).unwrap();
    refused(&theirs, &theirs, Why::Owner(STRANGER));
    refused(&below, &theirs, Why::Owner(STRANGER));
    // A link of a stranger's to a folder of ours is a stranger's choice.
    let (ours, link) = (root.join("ours"), common.join("link"));
    create_dir(&ours).unwrap();
    symlink(&ours, &link).unwrap();
    assert_eq!(existing(&link), Ok(Some(ours)));
    lchown(&link, Some(STRANGER), None).unwrap();
    refused(&link, &link, Why::Owner(STRANGER));
    // A group that others are in: nobody's, to be sure.
    let grouped = root.join("grouped");
    create_dir(&grouped).unwrap();
    chown(&grouped, None, Some(54_321)).unwrap();
    rights(&grouped, 0o775);
    refused(&grouped, &grouped, Why::Group(54_321));
    rights(&grouped, 0o755);
    assert_eq!(existing(&grouped), Ok(Some(grouped.clone())));
}

#[test]
fn a_file_is_looked_at_as_well() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    let file = File::create(&path).unwrap();
    rights(&path, 0o600);
    assert_eq!(check_file(&path, &file), Ok(()));
    rights(&path, 0o666);
    let of = |why| Err(StateError::NotOurs { folder: path.clone(), part: path.clone(), why });
    assert_eq!(check_file(&path, &file), of(Why::Everybody));
    // The sticky bit means nothing on a file.
    rights(&path, 0o1666);
    assert_eq!(check_file(&path, &file), of(Why::Everybody));
    let folder = File::open(root.path()).unwrap();
    assert!(matches!(check_file(root.path(), &folder), Err(StateError::Failed { .. })));
    if testkit::is_root() {
        rights(&path, 0o600);
        chown(&path, Some(STRANGER), None).unwrap();
        assert_eq!(check_file(&path, &file), of(Why::Owner(STRANGER)));
    }
}

#[test]
fn a_list_of_rights_is_seen() {
    let Some(setfacl) = testkit::program("setfacl") else { return testkit::skip("there is no setfacl") };
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let set = std::process::Command::new(setfacl).args(["-m", "u:65534:rwx"]).arg(&root).status().unwrap();
    if !set.success() {
        return testkit::skip("this file system keeps no lists of rights");
    }
    refused(&root, &root, Why::List);
}
