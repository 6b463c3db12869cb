//! `load` and `watch` with outputs that nobody reads: the run goes on and ends on time, its recording is kept, signals end
//! the process. Pipes are full from the start and held open.

use crate::common::*;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use testkit::process::Guard;
use testkit::{wait_for, wait_until};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// What the recording says of its end, once it is there.
fn end_of(file: &Path) -> String {
    let run = plimsoll(&["report", file.to_str().unwrap(), "--json"]);
    if run.status.is_some_and(|status| matches!(status, 0 | 4)) {
        run.json()["end"].as_str().unwrap_or_default().to_owned()
    } else {
        String::new()
    }
}

/// Status, or 128 and the signal, as a shell has it.
fn status(process: &mut Guard) -> i32 {
    status_of(process.wait(testkit::HANG_GUARD).unwrap_or_else(|| panic!("it does not end")))
}

fn status_of(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap()
}

#[test]
fn progress_that_nobody_reads_is_dropped_and_the_report_comes() {
    let (reader, writer) = full_pipe();
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    // Longer than until the first line of progress, and with a warning before the start.
    let file_ = file.to_str().unwrap();
    let args = ["load", "-d11s", "-c4", "-t8", "--record", file_, &server.url];
    let run = finish(command(&args).stderr(writer));
    run.assert_measured();
    assert!(run.stdout.contains("requests"), "{}", run.stdout);
    assert_eq!(end_of(&file), "complete");
    drop(reader);
}

#[test]
fn a_report_that_nobody_reads_is_ended_by_a_signal_and_the_recording_is_whole() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    for (duration, end, signals) in [
        ("500ms", "complete", &[SIGTERM][..]),
        ("600s", "interrupted", &[SIGINT, SIGINT]),
        ("600s", "interrupted", &[SIGTERM, SIGTERM]),
    ] {
        let (reader, writer) = full_pipe();
        let file = folder.path().join(format!("{end}-{}.plimsoll", signals[0]));
        let mut load =
            command(&["load", "-c1", "-t1", "-d", duration, "--record", file.to_str().unwrap(), &server.url]);
        load.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut process = Guard::spawn(&mut load).unwrap();
        drop(load);
        if let [first, _] = signals {
            wait_until("it puts load on", || server_is_busy(&file));
            process.signal(*first);
        }
        wait_until("its recording is whole", || end_of(&file) == end);
        assert!(process.child().try_wait().unwrap().is_none(), "its report was not dropped");
        let last = signals[signals.len() - 1];
        // The recording can be whole a moment before the run is over: a signal of that moment is the run's, as Ctrl-C is, and
        // whoever sees nothing happen sends another.
        let ended = wait_for("its end", || {
            process.signal(last);
            process.wait(Duration::from_secs(1))
        });
        assert_eq!(status_of(ended), 128 + last);
        drop(reader);
    }
}

/// Whether the recording has begun.
fn server_is_busy(file: &Path) -> bool {
    plimsoll(&["report", file.to_str().unwrap(), "--json"]).stdout.contains("\"totals\"")
}

#[test]
fn rows_that_nobody_reads_yet_hold_up_no_reading_and_come_later() {
    let server = serve_http(&[]);
    let (mut reader, writer) = full_pipe();
    let pid = server.process.pid().to_string();
    let mut watch = command(&["watch", "--pid", &pid, "--tick", "100ms", "-d", "3s", "--observe", "none"]);
    watch.stdout(writer).stderr(Stdio::null());
    let mut process = Guard::spawn(&mut watch).unwrap();
    drop(watch);
    // Whatever the machine does meanwhile, it has ended by then.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        std::thread::sleep(Duration::from_millis(100));
        assert!(process.child().try_wait().unwrap().is_none(), "its end was not dropped");
    }
    let mut all = String::new();
    reader.read_to_string(&mut all).unwrap();
    assert_eq!(status(&mut process), 0);
    // Ten a second; of a watch that was held up by its first row there would be two.
    assert!(all.trim_start().lines().count() > 10, "{}", all.trim_start());
}

#[test]
fn a_watch_whose_rows_nobody_reads_is_ended_by_the_second_signal() {
    let server = serve_http(&[]);
    let (reader, writer) = full_pipe();
    let mut watch = command(&["watch", "--pid", &server.process.pid().to_string(), "--tick", "100ms"]);
    watch.stdout(writer).stderr(Stdio::null());
    let mut process = Guard::spawn(&mut watch).unwrap();
    drop(watch);
    // The last one that is taken over; where somebody has it ignored, it is left so.
    let is_taken = |pid| testkit::process::catches(pid, SIGHUP) || testkit::process::ignores(pid, SIGHUP);
    wait_until("signals are its own", || testkit::process::catches(process.pid(), SIGTERM) && is_taken(process.pid()));
    process.signal(SIGTERM);
    // Taken is not yet counted: whoever takes the second at the same moment may find it the first.
    wait_until("the first is taken", || !testkit::process::is_pending(process.pid(), SIGTERM));
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        process.child().try_wait().unwrap().is_none(),
        "the first signal ended it, and its rows were not waited for"
    );
    process.signal(SIGINT);
    assert_eq!(status(&mut process), 128 + SIGINT);
    drop(reader);
}
