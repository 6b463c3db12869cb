//! `plimsoll load` on real servers: nginx from Debian, the project's own, hostile ones; every figure accounted for.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::port::Reserved;
use testkit::process::{self, Guard};
use testkit::wait_until;

#[test]
fn nginx_counts_what_we_count() {
    let Some(nginx) = nginx("access_log logs/access.log;") else { return };
    let url = format!("http://{}/", nginx.address());
    let run = plimsoll(&["load", &url, "-n", "3000", "-c", "20", "--json", "--no-record", "-q"]);
    run.assert_measured();
    let doc = run.json();
    assert_eq!(doc["schema"], "plimsoll.report/1");
    assert_eq!(doc["totals"]["ok"], 3000);
    assert_eq!(doc["totals"]["started"], 3000);
    assert_eq!(doc["totals"]["status"]["200"], 3000);
    assert_eq!(doc["achieved"]["connections"], 20);
    assert!(doc["latency"]["response"]["p99_us"].as_f64().unwrap() > 0.0);
    // Of an unoptimised program, five sixths of it pages of its own file: 36 MiB as this was written.
    assert!(doc["generator"]["peak_rss_bytes"].as_u64().unwrap() < 40 << 20, "{}", doc["generator"]);
    // The server's own log agrees: the log is written at each request's end.
    let log = nginx.folder().join("logs/access.log");
    let lines = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    wait_until("nginx has logged every request", || lines() == 3000);
    let received = doc["totals"]["bytes_received"].as_u64().unwrap();
    assert_eq!(received % 3000, 0, "all replies are alike: {received}");
    assert!(received / 3000 > 612);
}

#[test]
fn a_target_that_was_never_there_is_given_up_and_nothing_is_made_of_it() {
    let refusing = Reserved::new().unwrap();
    let url = format!("http://{}/", refusing.address());
    // It ends by itself after a while, so that a run that is not given up fails rather than goes on.
    let load = ["load", &url, "-d", "20s", "-c", "5", "--no-record", "-q"];
    let run = plimsoll(&[&load[..], &["--json", "--give-up", "500ms", "--tick", "100ms"]].concat());
    run.assert_exit(1);
    let doc = run.json();
    let kinds: Vec<&str> =
        doc["events"].as_array().unwrap().iter().filter_map(|event| event["kind"].as_str()).collect();
    assert!(kinds.contains(&"gave-up"), "{kinds:?}");
    assert_eq!((&doc["validity"]["state"], &doc["achieved"]["connections"]), (&"undetermined".into(), &0.into()));
    let supported = doc["findings"].as_array().unwrap();
    assert!(supported.is_empty(), "what was never measured has no cause and no remedy: {supported:?}");
    assert!(
        run.stderr.contains("refused") && run.stderr.contains("check that the server listens there"),
        "{}",
        run.stderr
    );
    // By default it is two seconds; who says never, goes on to the end.
    let run = plimsoll(&[&load[..], &["--explain"]].concat());
    assert!(run.stdout.contains("2.00 s in which nothing has connected"), "{}", run.stdout);
    let on = ["load", &url, "-c", "5", "--tick", "100ms", "--no-record", "-q", "--json"];
    for (give_up, at_most, is_given_up) in [("300ms", "20s", true), ("never", "1s", false)] {
        let run = plimsoll(&[&on[..], &["--give-up", give_up, "-d", at_most]].concat());
        assert_eq!(run.stdout.contains("gave-up"), is_given_up, "{give_up}: {}", run.stdout);
    }
}

#[test]
fn text_report_says_how_much_how_fast_how_sure() {
    let Some(nginx) = nginx("") else { return };
    let url = format!("http://{}/", nginx.address());
    let run = plimsoll(&["load", &url, "-d", "500ms", "--no-record"]);
    run.assert_measured();
    for word in ["how much", "how fast", "how sure", "valid", "p99", "Response time", "Status", "Generator"] {
        assert!(run.stdout.contains(word), "{word} is missing in\n{}", run.stdout);
    }
    assert!(!run.stdout.contains('\u{1b}'), "no colour where there is no terminal");
}

#[test]
fn statuses_of_400_and_above_are_failures_unless_expected() {
    let Some(nginx) = nginx("") else { return };
    let url = format!("http://{}/missing", nginx.address());
    let failed = plimsoll(&["load", &url, "-n", "50", "--json", "--no-record", "-q"]);
    assert_eq!(failed.json()["totals"]["errors"]["unexpected-status"], 50);
    assert_eq!(failed.json()["totals"]["status"]["404"], 50);
    let expected = plimsoll(&["load", &url, "-n", "50", "--expect-status", "404", "--json", "--no-record", "-q"]);
    assert_eq!(expected.json()["totals"]["ok"], 50);
}

#[test]
fn post_bodies_heads_ranges_chunks_and_closes_are_spoken() {
    let server = serve_http(&[]);
    let url = |path: &str| format!("{}{path}", server.url);
    let cases: [(&str, &[&str]); 7] = [
        ("echo", &["-b", "hello there", "--expect-body", "^hello there$"]),
        ("bytes?n=100000", &["-X", "HEAD"]),
        ("chunked?n=50&size=100", &[]),
        ("bytes?n=5000000", &["-c", "2", "-n", "20"]),
        ("status?code=204", &[]),
        ("status?code=304", &[]),
        ("", &["--disable-keepalive"]),
    ];
    for (path, extra) in cases {
        for driver in DRIVERS {
            let url = url(path);
            let mut args = vec!["load", &url, "-n", "100", "--json", "--no-record", "-q", "--driver", driver];
            args.extend(extra);
            if let Some(at) = args.iter().rposition(|a| *a == "-n").filter(|at| *at > 3) {
                // The case brings its own count: the general one goes.
                assert!(at > 3);
                args.drain(2..4);
            }
            let run = plimsoll(&args);
            run.assert_measured();
            let totals = &run.json()["totals"];
            assert_eq!(totals["failed"], 0, "{path} on {driver}: {totals}");
            assert_eq!(totals["ok"], totals["started"], "{path} on {driver}");
        }
    }
}

#[test]
fn many_urls_are_mixed_by_weight_over_several_origins() {
    let (a, b) = (serve_http(&[]), serve_http(&[]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls");
    std::fs::write(&file, format!("3 {}status?code=200\n1 {}status?code=201\n", a.url, b.url)).unwrap();
    let file = file.to_str().unwrap();
    let run =
        plimsoll(&["load", "--urls", file, "--rate", "2k/s", "-d", "1s", "-c", "8", "--json", "--no-record", "-q"]);
    assert_valid_or_disturbed(&run.json());
    let totals = &run.json()["totals"];
    let (first, second) = (totals["status"]["200"].as_f64().unwrap(), totals["status"]["201"].as_f64().unwrap());
    assert_eq!((due(totals), totals["started"].as_f64()), (2000, Some(first + second)), "{totals}");
    assert!((2.3..4.0).contains(&(first / second)), "{first} : {second}");
}

#[test]
fn ipv6_unix_sockets_and_connect_to_lead_to_the_server() {
    let six = serve_http(&["--listen", "[::1]:0"]);
    assert_eq!(plimsoll(&["load", &six.url, "-n", "10", "--json", "--no-record", "-q"]).json()["totals"]["ok"], 10);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let socket = socket.to_str().unwrap();
    let server = serve_http(&["--unix", socket]);
    for driver in DRIVERS {
        let run = plimsoll(&[
            "load",
            &format!("unix:{socket}"),
            "-n",
            "10",
            "--json",
            "--no-record",
            "-q",
            "--driver",
            driver,
        ]);
        assert_eq!(run.json()["totals"]["ok"], 10, "{driver}: {}", run.stderr);
    }
    let there = server.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let run = plimsoll(&[
        "load",
        "http://nowhere.invalid/",
        "--connect-to",
        &there,
        "-n",
        "10",
        "--json",
        "--no-record",
        "-q",
    ]);
    assert_eq!(run.json()["totals"]["ok"], 10, "{}", run.stderr);
}

#[test]
fn echo_is_compared_byte_by_byte() {
    let server = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    for driver in DRIVERS {
        let run = plimsoll(&[
            "load",
            &server.url,
            "-n",
            "300",
            "--size",
            "1,4095,4096,4097,65536,1MiB",
            "--content",
            "binary",
            "--json",
            "--no-record",
            "-q",
            "--driver",
            driver,
        ]);
        assert!(matches!(run.status, Some(0 | 4)), "{driver}: {}", run.stderr);
        assert_valid_or_disturbed(&run.json());
        let totals = &run.json()["totals"];
        assert_eq!((&totals["ok"], &totals["bytes_sent"]), (&300.into(), &totals["bytes_received"]), "{driver}");
    }
}

#[test]
fn what_cannot_run_ends_with_one_sentence_and_its_status() {
    let refusing = Reserved::new().unwrap();
    let dead = format!("http://{}/", refusing.address());
    let cases: [(&[&str], i32, &str); 3] = [
        (&["load", &dead, "-d", "300ms", "--no-record"], 1, "refused"),
        (&["load", "http://no-such-name.invalid/", "--no-record"], 1, "no-such-name.invalid"),
        (&["report", "no-such-run", "--folder", "/tmp"], 2, "no-such-run"),
    ];
    for (args, status, word) in cases {
        let run = plimsoll(args);
        run.assert_exit(status);
        let last = run.stderr.lines().last().unwrap_or("");
        assert!(last.starts_with("plimsoll: ") && last.contains(word), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_said_before_any_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut command = command(&["load", &url, "-d", "300ms"]);
    command.env("XDG_STATE_HOME", "/proc/nowhere");
    let run = finish(&mut command);
    run.assert_exit(1);
    assert!(run.stderr.contains("--no-record"), "{}", run.stderr);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a connection was made all the same");
}

#[test]
fn without_descriptors_the_result_is_not_valid_and_says_what_to_change() {
    let server = serve_http(&[]);
    let script = format!("ulimit -n 20; exec {} load {} -c 50 -d 500ms --json --no-record -q -t 1", BIN, server.url);
    for driver in DRIVERS {
        let run = finish(Command::new("sh").arg("-c").arg(format!("{script} --driver {driver}")));
        run.assert_exit(4);
        let doc = run.json();
        assert!(doc["validity"]["reasons"].to_string().contains("generator-fds"), "{}", doc["validity"]);
        assert!(doc["totals"]["errors"].to_string().contains("too-many-files"), "{}", doc["totals"]);
        assert!(doc["totals"]["ok"].as_u64().unwrap() > 0, "those that got a connection went on");
    }
}

#[test]
fn where_io_uring_is_forbidden_epoll_is_taken_and_said() {
    let server = serve_http(&[]);
    let mut command = command(&["load", &server.url, "-n", "200", "--batch", "--json", "--no-record", "-q"]);
    testkit::seccomp::forbid_io_uring(&mut command);
    let run = finish(&mut command);
    run.assert_measured();
    let generator = &run.json()["generator"];
    assert_eq!(generator["driver"], "epoll");
    assert!(generator.to_string().contains("io_uring is forbidden"), "{generator}");
    let mut command = self::command(&["load", &server.url, "-n", "200", "--driver", "uring", "--no-record", "-q"]);
    testkit::seccomp::forbid_io_uring(&mut command);
    let run = finish(&mut command);
    run.assert_exit(1);
    assert!(run.stderr.contains("--driver epoll") || run.stderr.contains("epoll"), "{}", run.stderr);
}

#[test]
fn a_stalled_target_is_measured_and_the_result_is_valid() {
    in_three(a_stalled_target_is_measured);
}

fn a_stalled_target_is_measured() {
    let mut server = serve_http(&[]);
    let url = server.url.clone();
    let mut load = command(&["load", &url, "--rate", "1k/s", "-d", "3s", "-c", "16", "--json", "--no-record", "-q"]);
    let child = load.stdout(Stdio::piped()).spawn().unwrap();
    wait_for_load(&server);
    std::thread::sleep(Duration::from_millis(1000));
    server.process.signal(libc_sigstop());
    std::thread::sleep(Duration::from_millis(500));
    server.process.signal(libc_sigcont());
    let output = child.wait_with_output().unwrap();
    let doc: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid_or_disturbed(&doc);
    assert_eq!((due(&doc["totals"]), &doc["totals"]["ok"]), (3000, &doc["totals"]["started"]));
    let p99 = |kind: &str| doc["latency"][kind]["p99_us"].as_f64().unwrap();
    assert!(p99("response") > 400_000.0 && p99("queue") > 300_000.0, "{}", doc["latency"]);
    // 500 ms of stall are in queue and service time; lag is what the tests beside this one cost the generator.
    assert!(p99("lag") < 0.5 * p99("queue"), "{}", doc["latency"]);
    assert!(server.process.wait(Duration::ZERO).is_none(), "the server lives");
}

#[test]
fn ctrl_c_prints_the_summary_and_a_killed_run_stays_readable() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    // Ctrl-C, a terminal that is closed, and what nobody can see to.
    for (signal, status) in [(2, Some(130)), (1, Some(130)), (9, None)] {
        let file = folder.path().join(format!("run-{signal}.plimsoll"));
        let path = file.to_str().unwrap();
        // Whoever runs the tests may have been started by nohup, which is inherited.
        let mut load = Command::new("env");
        load.args(["--default-signal=HUP", BIN, "load", &server.url]);
        load.args(["-d", "60s", "--tick", "100ms", "--record", path, "-q"]);
        let mut child = Guard::spawn(load.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        wait_until("there is something in the recording", || {
            let report = plimsoll(&["report", path, "--json"]);
            report.status == Some(0) && report.json()["totals"]["ok"].as_u64() > Some(100)
        });
        child.signal(signal);
        let ended = child.wait(testkit::HANG_GUARD).expect("it ends");
        assert_eq!(ended.code(), status, "signal {signal}");
        let mut printed = String::new();
        child.child().stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert_eq!(printed.contains("how much"), signal != 9, "{printed}");
        let again = plimsoll(&["report", path, "--json"]);
        again.assert_exit(0);
        let doc = again.json();
        assert_eq!(doc["end"], if signal == 9 { "partial" } else { "interrupted" });
        assert!(doc["totals"]["ok"].as_u64().unwrap() > 100, "{}", doc["totals"]);
    }
}

#[test]
fn with_nohup_a_run_outlives_its_terminal() {
    let server = serve_http(&[]);
    let script = format!("trap '' HUP; exec {BIN} load {} -d 2s --no-record -q", server.url);
    let mut load = Guard::spawn(Command::new("sh").args(["-c", &script]).stdout(Stdio::piped())).unwrap();
    // What is ignored from its start on stays so where it makes signals its own. SIGTERM, since the shell before it has a
    // handler for SIGINT of its own.
    wait_until("signals are its own", || process::catches(load.pid(), 15));
    assert!(process::ignores(load.pid(), 1));
    load.signal(1);
    let mut printed = String::new();
    load.child().stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    let status = load.wait(testkit::HANG_GUARD).expect("it ends").code();
    assert!(matches!(status, Some(0 | 4)) && !printed.contains("interrupted"), "{status:?}:\n{printed}");
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_run() {
    if !testkit::is_root() {
        return testkit::skip("mounting a small disk needs root");
    }
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let script = format!(
        "mount -t tmpfs -o size=192k tmpfs {at} && exec {BIN} load {} -d 3s --tick 100ms --record {at}/run.plimsoll",
        server.url
    );
    let run = finish(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    run.assert_exit(1);
    assert!(run.stdout.contains("how much"), "the report is printed from memory\n{}", run.stderr);
    assert!(run.stderr.contains("partial"), "{}", run.stderr);
}

#[test]
fn a_recording_shows_the_same_report_again() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.plimsoll");
    let path = file.to_str().unwrap();
    let run = plimsoll(&["load", &server.url, "-n", "2000", "--json", "--record", path, "-q"]);
    run.assert_measured();
    let again = plimsoll(&["report", path, "--json"]);
    let (mut first, mut second) = (run.json(), again.json());
    for doc in [&mut first, &mut second] {
        doc["observed"] = serde_json::Value::Null;
    }
    assert_eq!(first["totals"], second["totals"]);
    assert_eq!(first["latency"], second["latency"]);
    assert_eq!(first["validity"], second["validity"]);
    let listed = plimsoll(&["runs", "--folder", folder.path().to_str().unwrap()]);
    assert!(listed.stdout.contains("one"), "{}", listed.stdout);
    // What it came to: the figure, whether to believe it, what gives first.
    let verdict = listed.stdout.lines().find(|line| line.starts_with("    ")).unwrap_or_default();
    assert!(verdict.contains(" requests/s, "), "{}", listed.stdout);
    let csv = plimsoll(&["report", path, "--csv", "-"]);
    assert!(csv.stdout.lines().count() > 1 && csv.stdout.starts_with("start_s"), "{}", csv.stdout);
}

#[test]
fn a_server_that_never_reads_costs_bounded_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::File::create(&body).unwrap().write_all(&vec![b'x'; 8 << 20]).unwrap();
    let body = format!("@{}", body.display());
    for driver in DRIVERS {
        let run = plimsoll(&[
            "load",
            &url,
            "-b",
            &body,
            "-c",
            "32",
            "-d",
            "500ms",
            "--timeout",
            "200ms",
            "--json",
            "--no-record",
            "-q",
            "--driver",
            driver,
        ]);
        let doc = run.json();
        assert!(doc["totals"]["errors"]["reply-timeout"].as_u64().unwrap() >= 32, "{}", doc["totals"]);
        // A copy of the body for each connection would be four times as much.
        assert!(doc["generator"]["peak_rss_bytes"].as_u64().unwrap() < 96 << 20, "{}", doc["generator"]);
    }
}

#[test]
fn a_second_signal_ends_it_at_once_and_without_a_summary() {
    // Nobody answers: after the first signal replies are waited for, shortly.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // The second has to come in that short time, which a busy machine may miss.
    let ended_at_once = (0..10).any(|_| {
        let mut command = command(&["load", &url, "-c", "2", "-d", "1m", "--no-record", "-q"]);
        let mut load = Guard::spawn(command.stdout(Stdio::piped())).unwrap();
        wait_until("signals are its own", || process::catches(load.pid(), signal_hook::consts::SIGINT));
        std::thread::sleep(Duration::from_millis(300));
        load.signal(signal_hook::consts::SIGINT);
        std::thread::sleep(Duration::from_millis(20));
        load.signal(signal_hook::consts::SIGTERM);
        let status = load.wait(testkit::HANG_GUARD).expect("it ends");
        let mut printed = String::new();
        load.child().stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        // As the shell counts a death by the second signal; by the first alone it would be 130, with a summary.
        assert!(matches!(status.code(), Some(130 | 143)), "{status}");
        assert!(status.code() == Some(143) || !printed.is_empty());
        // The summary may have been under way already.
        status.code() == Some(143) && printed.is_empty()
    });
    assert!(ended_at_once);
}

#[test]
fn a_target_that_died_under_a_count_is_said_with_the_way_out() {
    let mut server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.plimsoll");
    let file = path.to_str().unwrap();
    let mut load =
        command(&["load", &server.url, "-n1G", "-c2", "-t1", "--tick", "100ms", "--no-observe", "--record", file]);
    let mut process = Guard::spawn(load.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    wait_until("something was answered", || {
        let report = plimsoll(&["report", file, "--json"]);
        report.status == Some(0) && report.json()["totals"]["ok"].as_u64() > Some(100)
    });
    server.process.child().kill().unwrap();
    let mut said = String::new();
    let mut errors = BufReader::new(process.child().stderr.take().unwrap());
    while !said.contains("target-away") {
        said.clear();
        assert!(errors.read_line(&mut said).unwrap() > 0, "it was never said");
    }
    for part in ["nobody has taken a connection for 10", "1,000,000,000 requests", "Ctrl-C", "-d bounds it"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    process.signal(2);
    let mut printed = String::new();
    process.child().stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(process.wait(testkit::HANG_GUARD).unwrap().code(), Some(130));
    let before_figures = printed.split("how much").next().unwrap_or_default();
    assert!(before_figures.contains("Nobody took connections from second"), "{printed}");
}

#[test]
fn an_observer_that_is_not_there_yet_is_said_at_the_first_try() {
    let refusing = Reserved::new().unwrap();
    let nobody = refusing.address().to_string();
    let load = |more: &[&str]| {
        let args = ["load", "http://127.0.0.1:1/", "-n1", "--no-record", "--observe-at", &nobody];
        finish(command(&[&args[..], more].concat()).env("PLIMSOLL_TOKEN", "a-token-for-tests-0123456789"))
    };
    // Longer than a first try takes, however busy the machine is.
    let waited = load(&["--observe-wait", "4s"]);
    waited.assert_exit(1);
    let mut lines = waited.stderr.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with(&format!("plimsoll: no observer at {nobody} yet: nothing listens there")), "{first}");
    assert!(first.ends_with("trying for up to 4.00 s"), "{first}");
    assert!(lines.next().is_some_and(|line| line.contains("expected an observer")), "{}", waited.stderr);
    for more in [&["--observe-wait", "0"][..], &["--observe-wait", "600ms", "-q"]] {
        let run = load(more);
        run.assert_exit(1);
        assert!(!run.stderr.contains("yet"), "{more:?}: {}", run.stderr);
    }
}
