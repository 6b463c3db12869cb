//! The view of a run that goes on, in a real terminal: tmux's, at several sizes, resized meanwhile; the keys; and how it leaves
//! the terminal, whatever ends it.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
use common::*;
use std::process::Command;
use testkit::{skip, wait_for, wait_until};

/// What stands below every page of the view.
const KEYS: &str = "q ends the run";

/// A terminal with a shell in it, that ends with its test.
struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    /// One of so many columns and rows; `None` where there is no tmux.
    fn new(columns: u16, rows: u16) -> Option<Self> {
        if testkit::program("tmux").is_none() {
            skip("there is no tmux");
            return None;
        }
        let terminal = Terminal { folder: tempfile::tempdir().unwrap() };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "sh"]);
        terminal.type_line("PS1='$ '; set -m");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(self.folder.path().join("socket")).args(args);
        command.env("LANG", "C.UTF-8").env("XDG_STATE_HOME", self.folder.path().join("state"));
        command.env("PLIMSOLL_OBSERVE", "none");
        for name in ["TMUX", "NO_COLOR", "LC_ALL", "PLIMSOLL_NO_TUI", "PLIMSOLL_QUIET"] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What is on the screen.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// And what was scrolled out of it; lines that were wrapped are whole.
    fn history(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    /// Waits for all of these words on the screen.
    fn shows(&self, words: &[&str]) -> String {
        wait_for(&format!("{words:?} on the screen"), || {
            let screen = self.screen();
            words.iter().all(|word| screen.contains(word)).then_some(screen)
        })
    }

    /// Waits until the view stands on exactly so many rows.
    fn fills(&self, rows: usize) -> String {
        wait_for(&format!("a view of {rows} rows"), || {
            let screen = self.screen();
            (screen.lines().nth(rows - 1)?.contains(KEYS) && !screen.lines().nth(1)?.contains(KEYS)).then_some(screen)
        })
    }

    /// Runs the program with arguments; its status is printed after it.
    fn run(&self, args: &str) {
        self.type_line(&format!("{BIN} {args}; echo \"status=$?\""));
    }

    /// Waits for the program's end: its report and status stand on the screen, and the terminal is as it was.
    fn ends_with(&self, status: i32, words: &[&str]) {
        let said = format!("status={status}\n");
        wait_until(&format!("{said} after the run"), || self.history().contains(&said));
        let history = self.history();
        for word in words {
            assert!(history.contains(word), "no '{word}' in:\n{history}");
        }
        assert!(!history.contains(KEYS), "the view is still there:\n{history}");
        assert!(!history.contains("Failed to"), "the terminal could not be put back:\n{history}");
        self.is_sane();
    }

    fn is_sane(&self) {
        self.type_line("clear; stty -a");
        let screen = self.shows(&["icanon", "isig"]);
        for mode in [" icanon", " echo ", " isig", "opost"] {
            assert!(screen.replace('\n', " ").contains(mode), "{mode}:\n{screen}");
        }
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.path().join("socket");
        drop(Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output());
    }
}

#[test]
fn a_run_is_shown_at_every_size_and_its_report_stands_after() {
    let server = serve_http(&[]);
    for (columns, rows) in [(80, 24), (200, 60), (40, 10)] {
        let Some(terminal) = Terminal::new(columns, rows) else { return };
        terminal.run(&format!("load -d 600s -c 4 {}", server.url));
        let whole =
            ["rate", "/s", "p99", "response", "load", "4 connections", "failed", "0 requests", "so far", "target"];
        terminal.shows(&whole);
        let screen = terminal.shows(&["target     http-", "%"]);
        assert!(screen.contains("of 600 s"), "{screen}");
        terminal.fills(usize::from(rows));

        terminal.press("d");
        terminal.shows(&["As it stands", "d back"]);
        terminal.press("End");
        terminal.shows(&["What was told"]);
        terminal.press("Enter");
        terminal.shows(&["rate"]);
        terminal.press("?");
        terminal.shows(&["Keys", "Ctrl-C"]);
        terminal.press("Escape");
        terminal.shows(&["rate"]);

        for (columns, rows) in [(60, 14), (150, 40)] {
            terminal.resize(columns, rows);
            terminal.fills(usize::from(rows));
        }
        terminal.resize(30, 6);
        wait_until("one line", || {
            let screen = terminal.screen();
            screen.contains("of 600 s") && !screen.contains(KEYS) && screen.trim_end().lines().count() == 1
        });
        terminal.resize(columns, rows);
        terminal.fills(usize::from(rows));

        terminal.press("C-c");
        terminal.ends_with(130, &["how much", "how fast", "plimsoll: interrupted: ", "Recording"]);
    }
}

#[test]
fn what_was_said_meanwhile_is_printed_after_it_and_q_ends_the_run() {
    let mut server = serve_http(&[]);
    let Some(terminal) = Terminal::new(80, 24) else { return };
    terminal.run(&format!("load -d 600s -c 4 --no-record {}", server.url));
    terminal.shows(&[KEYS, "4 connections"]);
    server.process.signal(9);
    server.process.wait(testkit::HANG_GUARD);
    terminal.shows(&["told", "refused"]);
    terminal.press("d");
    terminal.press("End");
    let told = wait_for("an event among what was told", || {
        let screen = terminal.screen();
        let mut lines = screen.lines().skip_while(|line| !line.contains("What was told")).skip(1);
        Some(lines.next()?.split("  ").last()?.split(": ").next()?.to_owned()).filter(|kind| kind.contains('-'))
    });
    terminal.press("q");
    terminal.ends_with(130, &[&format!("plimsoll: {told}: "), "how much"]);
}

#[test]
fn signals_give_the_terminal_back_and_a_stopped_run_goes_on_in_its_view() {
    let server = serve_http(&[]);
    let Some(terminal) = Terminal::new(80, 24) else { return };
    terminal.run(&format!("load -d 600s -c 4 --no-record {}", server.url));
    terminal.shows(&[KEYS]);
    terminal.press("C-z");
    wait_until("the shell has the terminal", || !terminal.screen().contains(KEYS));
    terminal.is_sane();
    terminal.type_line("fg");
    terminal.fills(24);

    // Stopped by somebody else, as by Ctrl-Z.
    let pid = program(&terminal);
    assert!(Command::new("kill").args(["-TSTP", &pid]).status().unwrap().success());
    wait_until("the shell has the terminal", || !terminal.screen().contains(KEYS));
    terminal.is_sane();
    terminal.type_line("fg; echo \"after=$?\"");
    terminal.fills(24);

    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    wait_until("its end", || terminal.history().contains("after=130\n"));
    assert!(terminal.history().contains("how much"), "{}", terminal.history());
    terminal.is_sane();
}

#[test]
fn a_terminal_that_is_closed_ends_the_run_and_its_recording_is_kept() {
    let server = serve_http(&[]);
    let Some(terminal) = Terminal::new(80, 24) else { return };
    let file = terminal.folder.path().join("run.plimsoll");
    terminal.run(&format!("load -d 600s -c 4 --record {} {}", file.display(), server.url));
    terminal.shows(&[KEYS, "rate"]);
    let pid = program(&terminal);
    terminal.tmux(&["kill-server"]);
    wait_until("its end", || !std::path::Path::new("/proc").join(&pid).exists());
    let kept = plimsoll(&["report", file.to_str().unwrap(), "--json"]);
    assert_eq!(kept.json()["end"], "interrupted", "{}", kept.stderr);
}

/// The id of the program that the terminal's shell started.
fn program(terminal: &Terminal) -> String {
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", shell.trim()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn where_it_is_not_wanted_or_has_no_room_there_is_one_line() {
    let server = serve_http(&[]);
    for (columns, rows, before, flags, is_live) in [
        (80, 24, "", "--no-tui", true),
        (80, 24, "PLIMSOLL_NO_TUI=1", "", true),
        (80, 24, "TERM=dumb", "", false),
        (80, 24, "", "--quiet", false),
        (39, 24, "", "", true),
        (80, 9, "", "", true),
    ] {
        let Some(terminal) = Terminal::new(columns, rows) else { return };
        let line = format!("{before} {BIN} load -d 600s -c 4 --no-record {flags} {}; echo \"status=$?\"", server.url);
        terminal.type_line(&line);
        match is_live {
            true => drop(terminal.shows(&["of 600 s"])),
            false => wait_until("the program has begun", || established(port(&server)) > 0),
        }
        assert!(!terminal.screen().contains(KEYS), "{line}: {}", terminal.screen());
        terminal.press("C-c");
        terminal.ends_with(130, &["how much"]);
    }
}

fn port(server: &Server) -> &str {
    server.url.trim_end_matches('/').rsplit(':').next().unwrap()
}

#[test]
fn a_run_that_is_over_at_once_and_one_in_the_background_are_not_drawn() {
    let server = serve_http(&[]);
    let Some(terminal) = Terminal::new(80, 24) else { return };
    terminal.run(&format!("load -d 1s -c 4 --no-record {}", server.url));
    wait_until("its end", || terminal.history().contains("how much"));
    terminal.type_line(&format!("clear; {BIN} load -d 5s -c 4 --no-record {} &", server.url));
    terminal.shows(&["of 5 s"]);
    assert!(!terminal.screen().contains(KEYS), "{}", terminal.screen());
    terminal.type_line("wait; echo over");
    wait_until("its end", || terminal.history().contains("\nover\n"));
    terminal.is_sane();
}

#[test]
fn a_search_shows_its_step() {
    let server = serve_http(&[]);
    let Some(terminal) = Terminal::new(80, 24) else { return };
    terminal.run(&format!("capacity --slo 'p99<50ms' --no-record -c 4 {}", server.url));
    terminal.shows(&["step ", KEYS, "rate"]);
    terminal.press("C-c");
    terminal.ends_with(130, &["Looking for the load line"]);
}

#[test]
fn a_pipe_gets_the_report_while_the_view_is_on_the_terminal() {
    let server = serve_http(&[]);
    let Some(terminal) = Terminal::new(80, 24) else { return };
    let file = terminal.folder.path().join("report");
    terminal.run(&format!("load -d 600s -c 4 --no-record {} > {}", server.url, file.display()));
    terminal.shows(&[KEYS, "rate"]);
    terminal.press("q");
    terminal.ends_with(130, &[]);
    let report = std::fs::read_to_string(file).unwrap();
    assert!(report.contains("how much") && !report.contains('\u{1b}'), "{report}");
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    let server = serve_http(&[]);
    let mut load = command(&["load", "-d", "4s", "-c", "1", "--no-record", &server.url]);
    let run = finish(&mut load);
    run.assert_measured();
    assert!(!run.stderr.contains('\u{1b}') && !run.stdout.contains(KEYS), "{}", run.stderr);
}

#[test]
fn the_view_says_where_the_live_page_is() {
    let server = serve_http(&[]);
    for (columns, flags) in [(100, "--live 127.0.0.1:0"), (80, "--live 127.0.0.1:0 --live-control")] {
        let Some(terminal) = Terminal::new(columns, 30) else { return };
        terminal.run(&format!("load {} -d 60s -c 4 --no-record {flags}", server.url));
        if columns == 100 {
            terminal.shows(&[KEYS, "page http://127.0.0.1:"]);
        }
        // With a token it is longer than the last line: it is among what was told.
        terminal.shows(&[KEYS]);
        terminal.press("d");
        terminal.shows(&["live page: http://127.0.0.1:", "d back"]);
        terminal.press("q");
        terminal.ends_with(130, &["live page: http://127.0.0.1:", "how much"]);
    }
}
