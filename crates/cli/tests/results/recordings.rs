//! Recordings from outside: shown again they say what the run said, to the last figure and with its status; damaged ones say
//! so first; what cannot be written is said once, before the load where that can be known.

use crate::common::*;
use serde_json::Value;
use std::fs::{File, read, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;
use testkit::wait_until;

/// The keys in which the report of a recording may differ from the one at the end of its run. There is none: rows are not
/// merged in runs as short as these, and all else is a function of what is in the file.
const MAY_DIFFER: [&str; 0] = [];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Where two documents differ, a line each.
fn differences(at: &str, live: &Value, replayed: &Value, into: &mut Vec<String>) {
    match (live, replayed) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys.into_iter().filter(|key| !MAY_DIFFER.contains(&key.as_str())) {
                let none = Value::String("(absent)".to_owned());
                differences(&format!("{at}.{key}"), a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), into);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| differences(&format!("{at}[{i}]"), a, b, into));
        }
        _ if live == replayed => {}
        _ => into.push(format!("{at}: live {live}, replayed {replayed}")),
    }
}

/// Runs a load with a recording while something is done to it, and holds the report of the recording against its own.
fn held_against_its_recording(name: &str, args: &[&str], meanwhile: impl FnOnce(&mut Guard)) -> (Run, PathBuf) {
    let folder = tempfile::tempdir().unwrap().keep();
    let path = folder.join(format!("{name}.plimsoll"));
    let mut load = command(&[&["load"], args, &["--json", "-q", "--record", text(&path)]].concat());
    let out = folder.join("out");
    load.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(Stdio::null());
    let mut process = Guard::spawn(&mut load).unwrap();
    meanwhile(&mut process);
    let status = process.child().wait().unwrap().code();
    let live = Run { status, stdout: read_to_string(out).unwrap(), stderr: String::new() };
    let replayed = plimsoll(&["report", text(&path), "--json"]);
    replayed.assert_exit(0);
    let mut all = Vec::new();
    differences("", &live.json(), &replayed.json(), &mut all);
    assert!(all.is_empty(), "{name}:\n{}", all.join("\n"));
    let again = plimsoll(&["report", text(&path), "--json", "--exit-status"]);
    assert_eq!(again.status, live.status, "{name}");
    assert_eq!(again.stdout, replayed.stdout);
    (live, path)
}

#[test]
fn a_recording_says_what_the_run_said_and_ends_as_it_did() {
    let http = serve_http(&[]);
    let echo = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let held = echo.url.replace("echo://", "hold://");
    let refusing = testkit::port::Reserved::new().unwrap();
    let nobody = format!("http://{}/", refusing.address());
    for (name, args) in [
        ("closed", &[http.url.as_str(), "-n", "2000", "-c", "8", "-t", "2"][..]),
        ("open", &[&http.url, "--rate", "400", "-d", "2s", "--tick", "200ms"]),
        ("warm-up", &[&http.url, "--rate", "400", "-d", "1500ms", "--warmup", "700ms", "--tick", "200ms"]),
        ("held", &[&held, "-c", "60", "--every", "300ms", "-d", "2s", "--connect-rate", "100/s"]),
        // More readings than are kept in memory: what rules say of them is still the same.
        ("long", &[&http.url, "--rate", "200", "-d", "7s", "--tick", "100ms"]),
        ("burst", &[&echo.url, "--burst", "40", "--rounds", "3"]),
        ("unobserved", &[&echo.url, "-n", "500", "-c", "4", "--no-observe"]),
        ("nobody", &[&nobody, "-n", "100", "-c", "2", "--give-up", "300ms", "--tick", "100ms"]),
    ] {
        let (live, _) = held_against_its_recording(name, args, |_| ());
        assert!(matches!(live.status, Some(0 | 1 | 4)), "{name}: {:?}", live.status);
        assert_eq!(live.status == Some(1), name == "nobody");
    }
    // One that is told to end early.
    let args = [http.url.as_str(), "-d", "60s", "-c", "4", "--tick", "200ms"];
    let (live, path) = held_against_its_recording("interrupted", &args, |load| {
        wait_until("signals are its own", || testkit::process::catches(load.pid(), 2));
        wait_for_load(&http);
        std::thread::sleep(Duration::from_millis(1000));
        load.signal(2);
    });
    live.assert_exit(130);
    // Without the flag it is enough that there is a report.
    plimsoll(&["report", text(&path)]).assert_exit(0);
}

#[test]
fn the_machine_is_read_on_after_the_load_until_that_is_over_or_told_to_end() {
    let http = serve_http(&[]);
    let kinds = |run: &Run| -> Vec<String> {
        let doc = run.json();
        doc["events"].as_array().unwrap().iter().filter_map(|e| Some(e["kind"].as_str()?.to_owned())).collect()
    };
    // Rows of the course that come after the load.
    let rows_after = |path: &Path| {
        let table = plimsoll(&["report", text(path), "--timeline"]);
        table.assert_exit(0);
        let mut lines = table.stdout.lines().skip_while(|line| !line.contains("load-ended")).skip(1);
        lines.by_ref().filter(|line| line.contains(" s  ") && !line.contains("load-ended")).count()
    };
    let args = [http.url.as_str(), "-n", "200", "-c", "4", "--tick", "100ms", "--after", "1s"];
    let (live, path) = held_against_its_recording("after", &args, |_| ());
    assert!(matches!(live.status, Some(0 | 4)), "{:?}", live.status);
    assert_eq!((&live.json()["end"], &live.json()["totals"]["ok"]), (&"complete".into(), &200.into()));
    assert!(kinds(&live).contains(&"load-ended".to_owned()), "{:?}", kinds(&live));
    let without = [http.url.as_str(), "-n", "200", "-c", "4", "--tick", "100ms"];
    let (without, _) = held_against_its_recording("without", &without, |_| ());
    assert!(!kinds(&without).contains(&"load-ended".to_owned()));
    assert!(rows_after(&path) >= 3, "{}", plimsoll(&["report", text(&path), "--timeline"]).stdout);
    // Told to end while it reads on: at once, with everything, and the load was complete.
    let port = http.url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let args = [http.url.as_str(), "-d", "1s", "-c", "4", "--tick", "100ms", "--after", "1h"];
    let (live, path) = held_against_its_recording("told", &args, |load| {
        wait_until("signals are its own", || testkit::process::catches(load.pid(), 2));
        wait_for_load(&http);
        wait_until("the load's connections are gone", || established(&port) == 0);
        let tasks = format!("/proc/{}/task", load.pid());
        let follows = || {
            let names =
                std::fs::read_dir(&tasks).unwrap().flatten().map(|task| read_to_string(task.path().join("comm")));
            names.flatten().any(|name| name.trim() == "session")
        };
        wait_until("the load is not followed any more", || !follows());
        load.signal(2);
    });
    assert!(matches!(live.status, Some(0 | 4)), "{:?}", live.status);
    assert_eq!(live.json()["end"], "complete");
    assert!(kinds(&live).contains(&"interrupted".to_owned()), "{:?}", kinds(&live));
    plimsoll(&["report", text(&path)]).assert_exit(0);
    // And while the load goes, it is not read on.
    let (live, _) =
        held_against_its_recording("early", &[&http.url, "-d", "60s", "-c", "4", "--after", "1h"], |load| {
            wait_until("signals are its own", || testkit::process::catches(load.pid(), 2));
            wait_for_load(&http);
            load.signal(2);
        });
    live.assert_exit(130);
    assert!(!kinds(&live).contains(&"load-ended".to_owned()));
}

#[test]
fn a_recording_of_a_target_that_died_says_what_the_run_said() {
    let mut server = serve_http(&[]);
    let url = server.url.clone();
    let args = [url.as_str(), "--rate", "300", "-d", "4s", "-c", "10", "--tick", "200ms", "--drain", "500ms"];
    let (live, _) = held_against_its_recording("died", &args, |_| {
        wait_for_load(&server);
        std::thread::sleep(Duration::from_millis(1500));
        server.process.child().kill().unwrap();
        let _ = server.process.child().wait();
    });
    assert_eq!(live.json()["summary"][0]["id"], "target-died", "{}", live.json()["summary"]);
}

#[test]
fn the_text_is_the_same_too() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let live = plimsoll(&["load", &server.url, "-n", "500", "-c", "4", "--record", text(&path)]);
    live.assert_measured();
    assert_eq!(plimsoll(&["report", text(&path)]).stdout, live.stdout);
}

/// Runs that are killed before anything had ended: before their first tick, and of a server that takes connections and
/// never replies.
#[test]
fn a_recording_cut_off_before_a_request_ended_is_not_valid() {
    let server = serve_http(&[]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    for (url, tick, connections) in [(&server.url, "30s", 0), (&silent_url, "100ms", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.plimsoll");
        let args = ["load", url, "-c", "2", "-d", "60s", "--tick", tick, "-q", "--record", text(&path)];
        let mut load = Guard::spawn(command(&args).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
        wait_until("the recording holds so many connections", || {
            let report = plimsoll(&["report", text(&path), "--json"]);
            let doc = if report.status == Some(0) { report.json() } else { return false };
            // What was looked at is kept with the first tick.
            let is_told = doc["samplers"].as_array().is_some_and(|samplers| !samplers.is_empty());
            doc["achieved"]["connections"] == connections && is_told == (connections > 0)
        });
        load.child().kill().unwrap();
        load.child().wait().unwrap();
        let report = plimsoll(&["report", text(&path), "--json", "--exit-status"]);
        report.assert_exit(1);
        let doc = report.json();
        assert_eq!((&doc["end"], &doc["totals"]["requests"]), (&"partial".into(), &0.into()));
        let validity = (&doc["validity"]["state"], &doc["validity"]["valid"]);
        assert_eq!(validity, (&"undetermined".into(), &false.into()), "{}", doc["validity"]);
        assert!(doc["validity"]["reasons"][0]["id"].is_string(), "{}", doc["validity"]);
        let report = plimsoll(&["report", text(&path)]);
        report.assert_exit(0);
        assert!(report.stdout.contains("undetermined"), "{}", report.stdout);
        assert!(!report.stdout.contains("nothing speaks against"), "{}", report.stdout);
    }
}

#[test]
fn damage_of_a_bit_is_the_first_line_or_changes_nothing() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plimsoll");
    let load = ["load", &server.url, "--rate", "200", "-d", "1500ms", "--tick", "100ms", "-q", "--record", text(&path)];
    plimsoll(&load).assert_measured();
    let whole = read(&path).unwrap();
    let report = |args: &[&str]| plimsoll(&[&["report", text(&path)], args].concat());
    let (expected_text, expected_json) = (report(&[]).stdout, report(&["--json"]).stdout);
    let expected_csv = report(&["--csv", "-"]).stdout;
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut said = 0;
    // Where it may be, and in a name of the plan, without which nothing can be shown.
    let in_the_plan = whole.windows(11).position(|bytes| bytes == b"\"reconnect\"").unwrap() + 3;
    let places: Vec<(usize, usize)> = (0..60).map(|_| (random(whole.len()), random(8))).collect();
    for (at, bit) in places.into_iter().chain([(in_the_plan, 0)]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        write(&path, bytes).unwrap();
        let (as_text, as_json, as_csv) = (report(&[]), report(&["--json"]), report(&["--csv", "-"]));
        let runs = plimsoll(&["runs", "--folder", text(folder.path())]);
        runs.assert_exit(0);
        let at = format!("bit {bit} of byte {at}");
        match as_text.status {
            Some(0) if as_text.stdout == expected_text => {
                assert!(as_json.stdout == expected_json && as_csv.stdout == expected_csv, "{at}");
                assert!(!runs.stdout.contains("damaged"), "{at}: {}", runs.stdout);
            }
            Some(0) => {
                said += 1;
                assert!(
                    as_text.stdout.starts_with("This recording is damaged, what follows"),
                    "{at}: {}",
                    as_text.stdout
                );
                let doc = as_json.json();
                assert_eq!(doc["summary"][0]["id"], "recording-damaged", "{at}");
                assert!(doc["damage"][0]["place"].is_string(), "{at}: {}", doc["damage"]);
                assert!(as_csv.stderr.contains("this recording is damaged"), "{at}: {}", as_csv.stderr);
                assert!(runs.stdout.contains("  damaged  "), "{at}: {}", runs.stdout);
                report(&["--exit-status"]).assert_exit(1);
            }
            _ => {
                assert!(matches!(as_text.status, Some(1 | 2)), "{at}: {:?}", as_text.status);
                assert_eq!(as_json.status, as_text.status, "{at}");
                assert_eq!(as_text.stderr.lines().count(), 1, "{at}: {}", as_text.stderr);
                assert!(runs.stdout.contains("unreadable"), "{at}: {}", runs.stdout);
            }
        }
    }
    assert!(said > 10, "{said} of 60");
}

#[test]
fn csv_on_stdout_leaves_the_report_to_stderr() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let mut load = command(&["load", &server.url, "-n", "200", "-c", "2", "--no-record", "-q", "--csv", "-"]);
    let run = finish(load.current_dir(folder.path()));
    assert!(matches!(run.status, Some(0 | 4)), "{}", run.stderr);
    assert!(run.stdout.starts_with("start_s,") && run.stdout.lines().all(|line| line.contains(',')), "{}", run.stdout);
    assert!(run.stderr.contains("200 ok"), "{}", run.stderr);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "no file of that name");
    let explained = plimsoll(&["load", &server.url, "--csv", "-", "--explain"]);
    assert!(explained.stdout.contains("CSV on stdout, the report on stderr"), "{}", explained.stdout);
    // Two documents on one stdout are none.
    for args in
        [&["load", &server.url, "-n", "1", "--csv", "-", "--json"][..], &["report", "x", "--csv", "-", "--json"]]
    {
        let run = plimsoll(args);
        run.assert_exit(2);
        assert!(run.stderr.contains("both write to stdout") && run.stdout.is_empty(), "{}", run.stderr);
    }
}

#[test]
fn a_csv_file_that_cannot_be_is_refused_before_the_load() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for place in ["missing/a.csv", "."] {
        let (csv, recording) = (at(place), at("a.plimsoll"));
        let run = plimsoll(&["load", &server.url, "-d", "60s", "--record", text(&recording), "--csv", text(&csv)]);
        run.assert_exit(2);
        assert!(run.stderr.contains("--csv: expected a file that can be written"), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(!recording.exists());
    }
    // A run that does not take place takes nothing away, and leaves nothing.
    write(at("kept.csv"), "kept").unwrap();
    write(at("there.plimsoll"), "").unwrap();
    for name in ["kept.csv", "new.csv"] {
        let csv = at(name);
        let run =
            plimsoll(&["load", &server.url, "-n", "1", "--record", text(&at("there.plimsoll")), "--csv", text(&csv)]);
        run.assert_exit(2);
    }
    assert_eq!(read_to_string(at("kept.csv")).unwrap(), "kept");
    assert!(!at("new.csv").exists());
    let kept = at("kept.csv");
    plimsoll(&["load", &server.url, "-n", "1", "-c", "1", "--no-record", "--csv", text(&kept)]).assert_measured();
    assert!(read_to_string(kept).unwrap().starts_with("start_s,"));
    let full = plimsoll(&["load", &server.url, "-n", "1", "-c", "1", "--no-record", "-q", "--csv", "/dev/full"]);
    full.assert_exit(1);
    assert!(full.stderr.contains("expected to write the intervals to /dev/full"), "{}", full.stderr);
}

#[test]
fn a_full_stdout_is_status_1_and_is_said_once() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (path, journal, vmstat) = (at("a.plimsoll"), at("journal"), at("vmstat"));
    plimsoll(&["load", &server.url, "-n", "200", "-c", "2", "-q", "--record", text(&path)]).assert_measured();
    let of_vmstat = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                     r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n \
                     1  0      0 1000000  1000 200000    0    0     1     2  100  200  1  2 97  0  0\n \
                     2  0      0 1000000  1000 200000    0    0     1     2  100  200  3  2 95  0  0\n";
    write(&vmstat, of_vmstat).unwrap();
    let (run, load) = (text(&path), ["load", &server.url, "-n", "10", "-c", "1", "-q", "--no-record"]);
    let with = |more: &[&'static str]| [&load[..], more].concat();
    let pid = server.process.pid().to_string();
    let mut wrong = Vec::new();
    for args in [
        with(&[]),
        with(&["--json"]),
        with(&["--csv", "-"]),
        with(&["--explain"]),
        vec!["runs", "--folder", text(folder.path())],
        vec!["runs", "--folder", "/var/empty-plimsoll"],
        vec!["report", run],
        vec!["report", run, "--json"],
        vec!["report", run, "--csv", "-"],
        vec!["report", run, "--timeline"],
        vec!["watch", "--list"],
        vec!["watch", "--list", "--json"],
        vec!["watch", "--pid", &pid, "-d", "300ms", "--tick", "100ms"],
        vec!["watch", "--pid", &pid, "-d", "300ms", "--tick", "100ms", "--json"],
        vec!["import", "vmstat", text(&vmstat), "--no-record", "--every", "1s"],
        vec!["import", "vmstat", text(&vmstat), "--no-record", "--every", "1s", "--json"],
        vec!["check", "-c", "10"],
        vec!["check", "-c", "10", "--json"],
        vec!["fault", "list", "--journal", text(&journal)],
        vec!["fault", "undo", "--journal", text(&journal)],
        vec!["drop", "time-wait", "--to", "127.0.0.1:9"],
        vec!["serve", "--list"],
        vec!["serve", "--list", "--json"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["--help"],
        vec!["load", "--help"],
        vec!["--version"],
    ] {
        let mut command = Command::new("timeout");
        let full = File::options().write(true).open("/dev/full").unwrap();
        command.arg("30").arg(BIN).args(&args).env("LANG", "C.UTF-8").stdin(Stdio::null()).stdout(full);
        let output = command.output().unwrap();
        let (stderr, status) = (String::from_utf8(output.stderr).unwrap(), output.status.code());
        let said = stderr.matches("No space left on device").count();
        // The report on stderr beside CSV is no message.
        let is_alone = stderr.lines().count() == 1 || args.contains(&"--csv");
        if (status, said) != (Some(1), 1) || !is_alone {
            wrong.push(format!("{args:?}: status {status:?}, {stderr}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
