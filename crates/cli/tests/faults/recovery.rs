//! A target that is killed and started again under load: what the report says of it, what each policy of the clients makes of
//! it, what a crash loses, and whether the target's own log has the same moments; and the audit of figures by hand.

use crate::common::{command, established, finish, in_three, plimsoll};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use testkit::nginx::{Nginx, Prepared};
use testkit::process::Guard;
use testkit::wait_until;

/// A name service on a port, which can be had again.
fn names(port: u16, more: &[&str]) -> Guard {
    let listen = format!("127.0.0.1:{port}");
    let mut arguments = vec!["serve", "names", "--listen", &listen];
    arguments.extend(more);
    let mut process = Guard::spawn(command(&arguments).stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    BufReader::new(process.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on"), "{line}");
    process
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ask(port: u16, what: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    stream.write_all(format!("{what}\r\n").as_bytes()).unwrap();
    let mut said = vec![0; 1 << 16];
    let length = stream.read(&mut said).unwrap();
    String::from_utf8_lossy(&said[..length]).into_owned()
}

/// A load on it that goes on until it is told to end, while the server is disrupted as `disrupt` does; the report.
fn under(port: u16, flags: &[&str], disrupt: impl FnOnce()) -> Value {
    under_url(&format!("resp://127.0.0.1:{port}"), port, flags, disrupt)
}

/// The same of any URL on a port.
fn under_url(url: &str, port: u16, flags: &[&str], disrupt: impl FnOnce()) -> Value {
    let mut arguments = vec!["load", url, "-c", "4", "-t", "1", "-d", "3s", "--tick", "100ms", "--no-record", "--json"];
    arguments.extend(flags);
    let mut load = command(&arguments);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| finish(&mut load));
        wait_until("the load is put on", || established(&port.to_string()) >= 8);
        // Intervals to compare with.
        std::thread::sleep(Duration::from_millis(800));
        disrupt();
        running.join().unwrap().json()
    })
}

fn kill_and_start(port: u16, first: Guard) -> impl FnOnce() -> Guard {
    move || {
        let mut first = first;
        first.signal(9);
        first.wait(testkit::HANG_GUARD).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        names(port, &[])
    }
}

/// Under a policy, the server killed and started again.
fn killed(flags: &[&str]) -> Value {
    let port = free_port();
    let first = names(port, &[]);
    let mut second = None;
    let document = under(port, flags, || second = Some(kill_and_start(port, first)()));
    drop(second);
    document
}

fn count(document: &Value, name: &str) -> u64 {
    document["totals"][name].as_u64().unwrap()
}

#[test]
fn a_target_that_is_killed_and_comes_back_is_told_with_its_moments() {
    let document = killed(&[]);
    let faults = document["disruptions"].as_array().unwrap();
    let [fault] = &faults[..] else { panic!("{faults:#?}") };
    assert_ne!(fault["name"], "outage", "the observer saw it go: {fault:#}");
    let s = |name: &str| fault[name].as_f64().unwrap_or_else(|| panic!("{name}: {fault:#}"));
    // Three tenths of a second lay between the end and the start.
    assert!(s("outage_s") >= 0.3, "{fault:#}");
    assert!(s("last_success_s") <= s("first_failure_s") && s("first_failure_s") <= s("first_success_s"), "{fault:#}");
    let failed = fault["failed_requests"].as_u64().unwrap();
    assert!(failed > 0 && failed <= count(&document, "failed"), "{fault:#}");
    assert!(
        fault["refused_requests"].as_u64() > Some(0) && fault["aborted_connections"].as_u64() >= Some(4),
        "{fault:#}"
    );
    let summary = document["summary"].as_array().unwrap();
    assert!(summary.iter().any(|remark| remark["id"] == "disrupted"), "{summary:?}");
    let (attempts, started) = (count(&document, "attempts"), count(&document, "started"));
    assert_eq!((attempts, count(&document, "retries")), (started, 0), "without a policy each is tried once");
}

#[test]
fn under_each_policy_a_request_is_one_request() {
    let waiting = killed(&["--on-error", "wait"]);
    assert_eq!(count(&waiting, "failed"), 0, "{}", waiting["totals"]);
    assert!(count(&waiting, "retries") >= 1, "{}", waiting["totals"]);
    // Whoever waited did so from the moment it was due.
    let outage_us = waiting["disruptions"][0]["outage_s"].as_f64().unwrap() * 1e6;
    assert!(waiting["latency"]["response"]["max_us"].as_f64().unwrap() >= 0.9 * outage_us, "{}", waiting["latency"]);

    let retrying = killed(&["--on-error", "retry:30:20ms:50%", "--rate", "200"]);
    assert!(count(&retrying, "retries") > 0, "{}", retrying["totals"]);
    assert_eq!(count(&retrying, "attempts"), count(&retrying, "started") + count(&retrying, "retries"));

    let denied = killed(&["--on-error", "retry:30:1ms", "--retry-budget", "0.1%", "--rate", "200"]);
    let (retries, started) = (count(&denied, "retries"), count(&denied, "started"));
    assert!(retries as f64 <= 0.001 * started as f64, "{}", denied["totals"]);
    assert!(count(&denied, "retries_denied") > 0 && count(&denied, "failed") > 0, "{}", denied["totals"]);
    for document in [waiting, retrying, denied] {
        let all = ["ok", "failed", "in_flight_at_end"].map(|name| count(&document, name)).iter().sum::<u64>();
        assert_eq!(count(&document, "started"), all, "{}", document["totals"]);
    }
}

/// How far the report's moments of an outage may be from those of the target's own log, seconds.
const AGREEMENT_S: f64 = 0.01;

/// A real server that writes the moment of each request into its own log is killed in the middle of a load, and started again.
/// Both tell of the same outage, by the machine's one wall clock: nobody here wrote the server's part.
#[test]
fn an_outage_is_where_the_targets_own_log_has_it() {
    let server = match Prepared::new("access_log logs/stamps stamps;") {
        Ok(server) => server,
        Err(error) => return testkit::skip(&error.to_string()),
    };
    in_three(|| {
        let [last, first, outage] = apart_from_its_log(&server);
        println!(
            "the report less the log: last success {:+.2} ms, first success {:+.2} ms, outage {:+.2} ms",
            1e3 * last,
            1e3 * first,
            1e3 * outage
        );
        for apart in [last, first, outage] {
            assert!(
                apart.abs() <= AGREEMENT_S,
                "last success, first success, outage: {last}, {first}, {outage} s apart"
            );
        }
    });
}

/// How much later the report has the last success before an outage and the first after it than the target's log, and how much
/// longer the outage; seconds.
fn apart_from_its_log(server: &Prepared) -> [f64; 3] {
    let log = server.folder().join("logs/stamps");
    // Of a try before.
    let _ = std::fs::remove_file(&log);
    let (file, state) = (server.folder().join("outage.toml"), server.folder().join("state"));
    let start = server.command();
    let words = std::iter::once(start.get_program()).chain(start.get_args()).map(|word| word.to_str().unwrap());
    let written = format!(
        "json = true\n\n[target]\ncommand = \"{}\"\n\n\
         [[fault]]\nfault = \"restart target kill\"\nat = \"1s\"\nfor = \"700ms\"\n\n\
         [load]\nurl = \"http://{}/\"\nrate = \"1000/s\"\nconnections = 16\nduration = \"3s\"\nexpect-errors = \"any\"\n",
        words.collect::<Vec<_>>().join(" "),
        server.address()
    );
    std::fs::write(&file, written).unwrap();
    let run = finish(command(&["run", file.to_str().unwrap(), "-q"]).env("XDG_STATE_HOME", &state));
    let document = run.json();
    let fault = &document["faults"][0];
    assert_eq!((&fault["state"], &fault["outages"]), (&"undone".into(), &1.into()), "{fault:#}");
    // When the run's second 0 was by the wall clock.
    let recording = store::Reader::open(Path::new(document["recording"].as_str().unwrap())).unwrap().load().unwrap();
    let began_s = recording.capsule.clock.unwrap().wall_ns as f64 / 1e9;
    let of_run = |name: &str| began_s + fault[name].as_f64().unwrap_or_else(|| panic!("{name}: {fault:#}"));

    let text = std::fs::read_to_string(&log).unwrap();
    let stamps: Vec<f64> = text
        .lines()
        .map(|line| {
            let (stamp, status) = line.split_once(' ').unwrap();
            assert_eq!(status, "200", "{line}");
            stamp.parse().unwrap()
        })
        .collect();
    assert!(stamps.len() > 1000, "{} lines, {}", stamps.len(), document["totals"]);
    let longest = stamps.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
    assert!(longest[1] - longest[0] >= 0.7, "it was away for as long: {longest:?}");
    let outage_s = fault["outage_s"].as_f64().unwrap();
    [
        of_run("last_success_s") - longest[0],
        of_run("first_success_s") - longest[1],
        outage_s - (longest[1] - longest[0]),
    ]
}

/// The store crashes as it is asked to: without a journal what it had acknowledged is gone, with one nothing is.
#[test]
fn acknowledged_writes_are_lost_without_a_journal_and_not_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal").to_str().unwrap().to_owned();
    for (more, is_durable) in [(&[][..], false), (&["--durable", "--journal", &journal][..], true)] {
        let port = free_port();
        let server = names(port, more);
        let flags = ["--verify-writes", "--mix", "GET=50,SET=50", "--keys", "100"];
        let document = under(port, &flags, || assert!(ask(port, "OOPS").starts_with("-ERR OOPS")));
        drop(server);
        let lost = document["totals"]["errors"]["lost-write"].as_u64().unwrap_or(0);
        assert_eq!(lost > 0, !is_durable, "{}", document["totals"]["errors"]);
        let findings = [&document["findings"], &document["judged"]].map(|all| all.as_array().unwrap().clone()).concat();
        let finding = findings.iter().find(|finding| finding["id"] == "state-lost").unwrap();
        match is_durable {
            true => assert_eq!(finding["status"], "refuted", "{finding:#}"),
            // Where the crash was too short to be seen from outside, only one source knows of it.
            false => assert_ne!(finding["status"], "refuted", "{finding:#}"),
        }
    }
}

/// A real store of files, killed and started again: with its folder nothing is lost, without it what had been acknowledged is.
#[test]
fn files_that_were_acknowledged_are_lost_with_their_folder_and_not_with_the_process() {
    let methods = "create_full_put_path on; dav_methods PUT DELETE;";
    for (mix, is_wiped) in [("GET=50,PUT=50", false), ("GET=50,PUT=50", true), ("GET=50,PUT=40,DELETE=10", true)] {
        let mut server = match Nginx::start(methods) {
            Ok(server) => server,
            Err(why) => return testkit::skip(&why.to_string()),
        };
        let url = format!("http://{}/items/{{{{key}}}}", server.address());
        let flags = ["--verify-writes", "--mix", mix, "--keys", "200", "-b", "value of {{key}}"];
        let port = server.address().port();
        let document = under_url(&url, port, &flags, || {
            server.kill();
            if is_wiped {
                std::fs::remove_dir_all(server.root().join("items")).unwrap();
            }
            std::thread::sleep(Duration::from_millis(300));
            server.start_again().unwrap();
        });
        let errors = &document["totals"]["errors"];
        let lost = errors["lost-write"].as_u64().unwrap_or(0);
        assert_eq!(lost > 0, is_wiped, "{mix}: {errors}");
        // Each of the keys once, by the one worker.
        assert!(lost <= 200, "{mix}: {errors}");
        let of_reads = &document["totals"]["entries"][0];
        assert!(of_reads["name"].as_str().is_some_and(|name| name.starts_with("GET /items/")), "{of_reads:#}");
        let findings = [&document["findings"], &document["judged"]].map(|all| all.as_array().unwrap().clone()).concat();
        let finding = findings.iter().find(|finding| finding["id"] == "state-lost").unwrap();
        match is_wiped {
            true => assert_eq!(
                (&finding["status"], &finding["severity"]),
                (&"supported".into(), &"error".into()),
                "{finding:#}"
            ),
            false => assert_eq!(finding["status"], "refuted", "{finding:#}"),
        }
    }
}

/// Where a server that has lost nothing could seem to have, writes are not looked for.
#[test]
fn writes_of_http_that_cannot_be_looked_for_are_refused_in_one_sentence() {
    let url = "http://127.0.0.1:1/items/{{key}}";
    for (arguments, said) in [
        (
            &["http://127.0.0.1:1/items"][..],
            "--verify-writes cannot be used with requests without '{{key}}': write it where",
        ),
        (&[url], "without both GET and PUT"),
        (&[url, "--mix", "GET,PURGE,PUT"], "'PURGE /items/{{key}}': what it does to values is not known"),
        (&[url, "http://127.0.0.1:2/items/{{key}}", "--mix", "GET,PUT"], "several servers"),
        (&[url, "http://127.0.0.1:1/other/{{key}}", "--mix", "GET,PUT"], "give both the same path"),
        (&[url, "--mix", "GET,PUT,DELETE", "--on-error", "wait"], "--on-error and DELETE"),
        (&[url, "--mix", "GET,PUT,DELETE", "--keys", "3", "-t", "4"], "--keys: expected at least 4 keys"),
        (&[url, "--mix", "GET=50,PUT=50", "-H", "X-User: {{user}}"], "a header field of its own for each user"),
        (&["resp://127.0.0.1:1,127.0.0.1:2", "--mix", "GET,SET"], "several servers"),
    ] {
        let run = plimsoll(&[&["load", "--verify-writes"], arguments].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(said) && run.stderr.lines().count() == 1, "{arguments:?}: {}", run.stderr);
    }
    for (flag, said) in [("--keys=5", "--keys cannot be used with"), ("--mix=GET=0", "--mix: expected METHOD=WEIGHT")] {
        let run = plimsoll(&["load", "http://127.0.0.1:1/", flag]);
        run.assert_exit(2);
        assert!(run.stderr.contains(said), "{flag}: {}", run.stderr);
    }
}

#[test]
fn figures_that_cannot_be_are_said_with_the_arithmetic() {
    let sound = plimsoll(&["audit", "--throughput", "228.12/s", "--latency", "43.72ms", "--concurrency", "10"]);
    sound.assert_exit(0);
    assert!(sound.stdout.contains("Nothing in these figures contradicts the rest."), "{}", sound.stdout);
    let cannot = plimsoll(&["audit", "--rate", "3000/s", "--size", "26MB", "--link", "10Gbit", "--json"]);
    cannot.assert_exit(3);
    let document = cannot.json();
    assert_eq!((&document["schema"], &document["contradicts"]), (&"plimsoll.audit/1".into(), &true.into()));
    assert_eq!(document["checks"][0]["outcome"], "cannot-be");
    for (wrong, said) in [
        (&["audit"][..], "expected figures that can be held against each other"),
        (&["audit", "--link", "fast"][..], "expected a link's rate such as 10Gbit"),
        (
            &["load", "http://127.0.0.1:1", "--on-error", "retry:0:1s"][..],
            "expected fail-fast, wait or retry:N:BACKOFF",
        ),
        (&["load", "http://127.0.0.1:1", "--retry-budget", "10%"][..], "--on-error"),
        (&["load", "resp://127.0.0.1:1", "--verify-writes", "--mix", "GET=1,DEL=1"][..], "--verify-writes"),
    ] {
        let run = plimsoll(wrong);
        run.assert_exit(2);
        assert!(run.stderr.contains(said), "{wrong:?}: {}", run.stderr);
    }
}
