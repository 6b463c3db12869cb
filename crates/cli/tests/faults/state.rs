//! Whose journal is obeyed, where state is kept without a home, and what a file may say to the terminal.

use crate::common::*;
use std::fs::{Permissions, create_dir_all, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const STRANGER: u32 = 65_534;
/// A setting of the network namespace that `check --fix` never changes.
const NOT_OURS: &str = "net.ipv4.ip_default_ttl";

/// Writes a journal that names one change which was made here and now.
fn write_journal(folder: &Path, name: &str, before: &str, after: &str) {
    create_dir_all(folder).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let entry = serde_json::json!({
        "line": "change", "id": 1, "boot": boot.trim(), "network": null, "pid": 1, "at_unix_ns": 0,
        "what": {"kind": "sysctl", "name": name, "before": before, "after": after},
    });
    std::fs::write(folder.join("journal.jsonl"), format!("{entry}\n{{\"line\":\"done\",\"id\":1}}\n")).unwrap();
}

fn give_away(folder: &Path) {
    for path in [folder.to_owned(), folder.join("journal.jsonl")] {
        chown(path, Some(STRANGER), None).unwrap();
    }
}

/// In a network namespace of its own, in a shell that says the setting's value at the end.
fn undone_in_a_namespace(environment: &str, arguments: &str) -> Run {
    let script = format!(
        "echo 33 > /proc/sys/net/ipv4/ip_default_ttl; {environment} {BIN} fault undo {arguments}; s=$?; \
         cat /proc/sys/net/ipv4/ip_default_ttl; exit $s"
    );
    let mut command = Command::new("sh");
    finish(testkit::network::of_its_own(command.args(["-c", &script]).env("LANG", "C.UTF-8")))
}

fn without_home(args: &[&str]) -> Command {
    let mut command = command(args);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    command
}

#[test]
fn root_does_not_obey_what_a_stranger_put_into_the_temporary_folder() {
    if !testkit::is_root() {
        return testkit::skip("a network namespace needs root");
    }
    let common = tempfile::tempdir().unwrap();
    set_permissions(common.path(), Permissions::from_mode(0o1777)).unwrap();
    let state = common.path().join("plimsoll");
    write_journal(&state.join("journal"), NOT_OURS, "1", "33");
    for path in [&state, &state.join("journal"), &state.join("journal/journal.jsonl")] {
        chown(path, Some(STRANGER), None).unwrap();
    }
    // Without a home it is not even looked for there; the system's folder may hold changes of this machine's own, so
    // they are only listed.
    let list = finish(without_home(&["fault", "list"]).env("TMPDIR", common.path()));
    list.assert_exit(0);
    assert!(!list.stdout.contains(NOT_OURS), "{}", list.stdout);
    // Named, it is refused.
    let journal = state.join("journal");
    let run = undone_in_a_namespace("", &format!("--journal {}", journal.display()));
    run.assert_exit(2);
    assert_eq!(run.stdout, "33\n");
    let words = format!("but '{}' belongs to user {STRANGER}: name another one", state.display());
    assert!(run.stderr.contains(&words), "{}", run.stderr);
    let run = undone_in_a_namespace(&format!("XDG_STATE_HOME={}", common.path().display()), "");
    run.assert_exit(2);
    assert_eq!(run.stdout, "33\n");
}

#[test]
fn undo_touches_nothing_that_a_fix_never_changes() {
    if !testkit::is_root() {
        return testkit::skip("a network namespace needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    write_journal(folder.path(), NOT_OURS, "1", "33");
    for force in ["", "--force "] {
        let run = undone_in_a_namespace("", &format!("{force}--journal {path}"));
        run.assert_exit(1);
        assert_eq!(run.stdout, "33\n");
        let words = format!("{NOT_OURS}: expected a value that plimsoll sets, and it never sets this");
        assert!(run.stderr.contains(&words), "{}", run.stderr);
    }
    assert!(plimsoll(&["fault", "list", "--journal", path]).stdout.contains(NOT_OURS), "it stays in the journal");
    // A name that is ours with a value that is none.
    write_journal(folder.path(), "net.core.somaxconn", "128 -1", "33");
    let run = undone_in_a_namespace("", &format!("--force --journal {path}"));
    run.assert_exit(1);
    assert!(run.stderr.contains("net.core.somaxconn: expected a value that plimsoll sets"), "{}", run.stderr);
}

#[test]
fn a_file_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    write_journal(folder.path(), "net.core.\u{1b}]0;x\u{7}", "\u{1b}[2J\u{9b}1m", "\u{202e}7\n8");
    let list = plimsoll(&["fault", "list", "--journal", path]);
    list.assert_exit(0);
    let undo = plimsoll(&["fault", "undo", "--journal", path]);
    undo.assert_exit(1);
    let recording = folder.path().join("\u{1b}[31mx.plimsoll");
    let report = plimsoll(&["report", recording.to_str().unwrap()]);
    report.assert_exit(2);
    let explain = plimsoll(&["load", "--explain", "http://127.0.0.1:1/", "--expect-body", "a\u{1b}cb\u{9b}"]);
    explain.assert_exit(0);
    assert!(explain.stdout.contains("a?cb?"), "{}", explain.stdout);
    for text in [list.stdout, undo.stdout, undo.stderr, report.stderr, explain.stdout] {
        let steers = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        assert_eq!(text.chars().find(steers), None, "{text:?}");
    }
}

#[test]
fn without_a_home_a_user_is_told_to_name_a_place() {
    if !testkit::is_root() {
        return testkit::skip("being another user needs root");
    }
    // Where another user can reach it.
    let folder = tempfile::tempdir().unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("plimsoll");
    testkit::process::copy_program(Path::new(BIN), &program).unwrap();
    for args in [
        &["fault", "list"][..],
        &["fault", "undo"],
        &["runs"],
        &["report", "last"],
        &["load", "-n1", "http://127.0.0.1:1/"],
        &["check", "--fix", "-c", "10"],
        &["demo"],
    ] {
        let mut command = Command::new(&program);
        command.args(args).current_dir("/").env_clear().env("TMPDIR", folder.path()).uid(STRANGER).gid(STRANGER);
        let run = finish(&mut command);
        run.assert_exit(2);
        let sentence = "plimsoll: expected HOME or XDG_STATE_HOME to say where recordings and the journal are kept";
        assert!(run.stderr.starts_with(sentence), "{args:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    // What needs no such folder needs no home.
    let none = folder.path().join("none.plimsoll");
    for (args, status) in [
        (&["load", "-n1", "--no-record", "--explain", "http://127.0.0.1:1/"][..], 0),
        (&["fault", "list", "--journal", "/var/empty-plimsoll"], 0),
        (&["runs", "--folder", "/var/empty-plimsoll"], 0),
        (&["report", none.to_str().unwrap(), "--folder", "/"], 2),
    ] {
        let mut command = Command::new(&program);
        command.args(args).current_dir("/").env_clear().uid(STRANGER).gid(STRANGER);
        finish(&mut command).assert_exit(status);
    }
}

#[test]
fn recordings_are_kept_only_where_nobody_else_can_write() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let load = |state: &Path| {
        let mut command = command(&["load", "-n1", "-c1", &server.url]);
        finish(command.env("XDG_STATE_HOME", state))
    };
    load(folder.path()).assert_measured();
    let runs = folder.path().join("plimsoll/runs");
    assert_eq!(runs.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    set_permissions(&runs, Permissions::from_mode(0o777)).unwrap();
    for run in [load(folder.path()), finish(command(&["runs"]).env("XDG_STATE_HOME", folder.path()))] {
        run.assert_exit(2);
        assert!(run.stderr.contains("but it can be written by everybody: take that right away"), "{}", run.stderr);
    }
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 1);
}

#[test]
fn a_recording_that_is_named_follows_no_link_and_takes_no_log_that_is_there() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let load = |file: &Path| plimsoll(&["load", "-n1", "-c1", "--record", file.to_str().unwrap(), &server.url]);
    symlink(at("elsewhere"), at("a.plimsoll")).unwrap();
    symlink(at("elsewhere"), at("b.plimsoll-wal")).unwrap();
    for name in ["a.plimsoll", "b.plimsoll"] {
        let run = load(&at(name));
        run.assert_exit(2);
        assert!(run.stderr.contains("is there already"), "{}", run.stderr);
    }
    assert!(!at("elsewhere").exists() && !at("b.plimsoll").exists());
    // Where anyone may write it is the user's choice.
    set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    load(&at("c.plimsoll")).assert_measured();
}

#[test]
fn a_journal_given_away_is_given_up() {
    if !testkit::is_root() {
        return testkit::skip("giving a folder to another user needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    write_journal(folder.path(), "net.core.somaxconn", "4096", "4097");
    let path = folder.path().to_str().unwrap();
    let list = || plimsoll(&["fault", "list", "--journal", path]);
    list().assert_exit(0);
    chown(folder.path().join("journal.jsonl"), Some(STRANGER), None).unwrap();
    list().assert_exit(2);
    give_away(folder.path());
    let run = list();
    run.assert_exit(2);
    assert!(run.stderr.contains(&format!("but it belongs to user {STRANGER}")), "{}", run.stderr);
}
