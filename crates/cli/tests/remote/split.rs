//! Where the time of requests went, against servers of which it is known: each part is where it was spent, and all of them
//! are the response time.

use crate::common::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::network::Pair;
use testkit::process::Guard;

/// A server of one thread that notes, for each request, when it was told of it, asked for it, had it, began to answer and
/// had answered, by CLOCK_MONOTONIC. Its arguments: seconds it waits before it reads, and before it answers.
const NOTING: &str = "
import select, socket, sys, time
before, after = float(sys.argv[1]), float(sys.argv[2])
listener = socket.socket()
listener.bind(('127.0.0.1', 0)); listener.listen(16)
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
now, notes = time.monotonic_ns, []
while True:
    select.select([connection], [], [])
    told = now()
    if before: time.sleep(before)
    asked = now()
    if not connection.recv(65536): break
    had = now()
    if after: time.sleep(after)
    begins = now()
    connection.send(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi')
    notes.append((told, asked, had, begins, now()))
for note in notes: print(*note, flush=True)
";

fn can_run() -> bool {
    if testkit::is_root() && Path::new("/sys/kernel/btf/vmlinux").exists() {
        return true;
    }
    testkit::skip("probes need root and a kernel with BTF");
    false
}

/// A row of `report --requests`, by the names of its columns.
type Row = std::collections::HashMap<String, String>;

/// Figures of a row in microseconds; NaN where there is none.
fn us(row: &Row, column: &str) -> f64 {
    row.get(column).unwrap_or_else(|| panic!("no column {column} in {row:?}")).parse().unwrap_or(f64::NAN)
}

/// The rows of the uniform sample that were joined, and how many lay within a window.
fn rows(recording: &str, folder: &Path) -> (Vec<Row>, usize) {
    let file = folder.join("requests.csv");
    plimsoll(&["report", recording, "--requests", file.to_str().unwrap()]).assert_exit(0);
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let all: Vec<Row> = lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect();
    let within: Vec<Row> =
        all.into_iter().filter(|row| row["kept_as"] == "sample" && !row["connecting_us"].is_empty()).collect();
    let whole = within.len();
    (within.into_iter().filter(|row| !row["server_us"].is_empty()).collect(), whole)
}

/// The parts are the response time, each request for itself, and none is less than nothing.
fn assert_adds_up(row: &Row) {
    let parts = ["lag_us", "queue_us", "there_us", "socket_us", "server_us", "back_us"].map(|part| us(row, part));
    assert!(parts.iter().all(|part| *part >= 0.0), "{row:?}");
    let sum: f64 = parts.iter().sum();
    // Rounded to nanoseconds each.
    assert!((sum - us(row, "response_us")).abs() < 0.01, "{sum} of {row:?}");
}

/// A load on it with one window over all of the run; its recording.
fn load(url: &str, folder: &Path, extra: &[&str]) -> (Run, String) {
    let file = folder.join("run.plimsoll").to_str().unwrap().to_owned();
    let observe = if extra.contains(&"--observe") { &[][..] } else { &["--observe", "full"] };
    let args = [&["load", url, "-q", "--json", "--record", &file], observe].concat();
    let run = plimsoll(&[&args[..], extra].concat());
    run.assert_measured();
    (run, file)
}

#[test]
fn each_request_is_split_as_the_server_itself_notes_it() {
    if !can_run() {
        return;
    }
    if testkit::program("python3").is_none() {
        return testkit::skip("python3 is the server that notes its moments");
    }
    for (before, after) in [("0", "0"), ("0.004", "0"), ("0", "0.004")] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new("python3");
        server.args(["-c", NOTING, before, after]).stdout(Stdio::piped());
        let mut server = Guard::spawn(&mut server).unwrap();
        let mut said = BufReader::new(server.child().stdout.take().unwrap()).lines();
        let url = format!("http://127.0.0.1:{}/", said.next().unwrap().unwrap());
        let (run, file) = load(&url, folder.path(), &["-c", "1", "-n", "100"]);
        let notes: Vec<Vec<f64>> =
            said.map(|line| line.unwrap().split(' ').map(|ns| ns.parse::<f64>().unwrap() / 1e3).collect()).collect();
        let (joined, whole) = rows(&file, folder.path());
        // All requests of the run lie in the window but the first, whose connection may have been there before.
        assert!(whole >= 99 && notes.len() == 100, "{whole}, {}: {}", notes.len(), run.json()["split"]);
        assert!(joined.len() * 100 >= whole * 95, "{} of {whole}: {}", joined.len(), run.json()["split"]);
        for row in &joined {
            assert_adds_up(row);
            let ordinal: usize = row["ordinal"].parse().unwrap();
            let [told, asked, had, begins, ended] = notes[ordinal - 1][..] else { panic!("{:?}", notes[ordinal - 1]) };
            let (socket, server) = (us(row, "socket_us"), us(row, "server_us"));
            // It was in the socket when the server was told of it, and read between the call and its return.
            assert!(socket >= asked - told, "in the socket {socket} of {}: {row:?}", asked - told);
            assert!(server >= begins - had, "server {server} of {}: {row:?}", begins - had);
            assert!(server <= ended - asked, "server {server} of {}: {row:?}", ended - asked);
        }
        // And the table has it in the part where it was spent.
        let near_p50 = &run.json()["split"]["bands"][0];
        assert_eq!(near_p50["band"], "p50", "{near_p50}");
        let part = |name: &str| near_p50[name].as_f64().unwrap_or_else(|| panic!("no {name} in {near_p50}"));
        // Means of all requests near it, of which one in ten may not be told.
        let told = 4000.0 * part("joined") / part("requests");
        assert_eq!(part("socket_us") >= told, before != "0", "{near_p50}");
        assert_eq!(part("server_us") >= told, after != "0", "{near_p50}");
        let sum: f64 = ["lag_us", "queue_us", "connect_us", "network_us", "socket_us", "server_us", "unsplit_us"]
            .map(part)
            .iter()
            .sum();
        assert!((sum - part("response_us")).abs() < 0.1, "{sum}: {near_p50}");
    }
}

#[test]
fn a_healthy_server_is_split_whole_and_a_recording_says_the_same() {
    if !can_run() {
        return;
    }
    let Some(nginx) = nginx("") else { return };
    let folder = tempfile::tempdir().unwrap();
    for level in ["full", "windows"] {
        let (run, file) = load(
            &format!("http://{}/", nginx.address()),
            folder.path(),
            &["-c", "4", "-d", "2s", "--tick", "200ms", "--observe", level],
        );
        let split = &run.json()["split"];
        let (joined, whole) = rows(&file, folder.path());
        assert!(whole > 20 && joined.len() * 100 >= whole * 95, "{} of {whole}: {split}", joined.len());
        for row in &joined {
            assert_adds_up(row);
            assert!(us(row, "server_us") < us(row, "response_us"), "{row:?}");
        }
        let (requests, in_file) = ((split["requests"].as_u64(), split["joined"].as_u64()), (whole, joined.len()));
        let in_file = (Some(in_file.0 as u64), Some(in_file.1 as u64));
        // A tick outside the windows may lack more than any within: the file has what is alike over the whole run.
        match level {
            "full" => assert_eq!(requests, in_file),
            _ => assert!(requests >= in_file, "{requests:?}, {in_file:?}"),
        }
        assert_eq!(&plimsoll(&["report", &file, "--json"]).json()["split"], split);
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn what_waits_behind_a_slow_request_waits_in_the_socket() {
    if !can_run() {
        return;
    }
    let server = serve_http(&["--defect", "head-of-line=20ms:sleep:of=10"]);
    let folder = tempfile::tempdir().unwrap();
    let (run, file) = load(&server.url, folder.path(), &["-c", "4", "-n", "200"]);
    let (joined, _) = rows(&file, folder.path());
    let (slow, behind): (Vec<&Row>, Vec<&Row>) =
        joined.iter().filter(|row| us(row, "response_us") > 15_000.0).partition(|row| us(row, "server_us") >= 20_000.0);
    let split = &run.json()["split"];
    assert!(!slow.is_empty() && behind.len() > slow.len(), "{} and {}: {split}", slow.len(), behind.len());
    let in_socket = behind.iter().filter(|row| us(row, "socket_us") > us(row, "response_us") / 2.0).count();
    assert!(in_socket * 2 > behind.len(), "{in_socket} of {}: {behind:?}", behind.len());
}

#[test]
fn where_nothing_can_be_joined_the_report_says_why_and_nothing_else() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = serve_http(&["--listen", "127.0.0.1:0", "--unix", socket.to_str().unwrap()]);
    let unix = format!("unix:{}", socket.to_str().unwrap());
    let cases: [(&str, &[&str], &str); 4] = [
        (&unix, &[], "over TCP"),
        (&server.url, &["--pipeline", "4"], "several requests may be under way"),
        (&server.url, &["--driver", "rings"], "without a descriptor"),
        (&server.url, &["--observe", "light"], ""),
    ];
    for (url, extra, why) in cases {
        let observe = if why.is_empty() { &[][..] } else { &["--observe", "full"] };
        let args = [&["load", url, "-c", "2", "-n", "300", "-q", "--no-record"], observe].concat();
        let run = plimsoll(&[&args[..], extra, &["--json"]].concat());
        if run.stderr.contains("io_uring") && run.status != Some(0) {
            testkit::skip(&run.stderr);
            continue;
        }
        run.assert_measured();
        let split = &run.json()["split"];
        if why.is_empty() {
            assert!(split.is_null(), "{split}");
            continue;
        }
        assert!(split["why_not"].as_str().is_some_and(|said| said.contains(why)), "{extra:?}: {split}");
        assert_eq!(split["joined"], 0);
    }
}

#[test]
fn requests_over_tls_are_split_from_their_connections_second_on() {
    if !can_run() {
        return;
    }
    let server = serve_http(&["--tls"]);
    let folder = tempfile::tempdir().unwrap();
    let (run, file) = load(&server.url, folder.path(), &["-c", "2", "-n", "100", "--insecure"]);
    let (joined, whole) = rows(&file, folder.path());
    let later = joined.iter().filter(|row| row["ordinal"] != "1").count();
    // The first may have come together with what ended the handshake.
    assert!(whole >= 98 && (later + 2) * 100 >= whole * 95, "{later} of {whole}: {}", run.json()["split"]);
    joined.iter().for_each(assert_adds_up);
}

/// Bytes leave an end of the cable as slowly as this.
fn slow_down(pair: &Pair, is_left: bool, change: &str) -> bool {
    let mut tc = Command::new("tc");
    tc.args(["qdisc", change, "dev", "cable", "root"]);
    if change == "add" {
        tc.args(["tbf", "rate", "800kbit", "burst", "1600", "latency", "1s"]);
    }
    let tc = if is_left { pair.left(&mut tc) } else { pair.right(&mut tc) };
    tc.and_then(|tc| tc.status()).is_ok_and(|status| status.success())
}

#[test]
fn a_slow_cable_is_the_way_there_or_back_and_with_two_clocks_their_sum() {
    if !can_run() {
        return;
    }
    let pair = match Pair::new() {
        Ok(pair) if testkit::program("tc").is_some() => pair,
        _ => return testkit::skip("two network namespaces with a slow cable between need ip(8) and tc(8)"),
    };
    let address = format!("{}:8081", Pair::RIGHT);
    let start = |args: &[&str]| {
        let mut server = command(args);
        pair.right(server.env("PLIMSOLL_TOKEN", "a-token-for-tests-0123456789").stdout(Stdio::piped())).unwrap();
        let mut server = Guard::spawn(&mut server).unwrap();
        let mut output = BufReader::new(server.child().stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        // What it says later goes nowhere, but the pipe stays open.
        (server, output)
    };
    let _server = start(&["serve", "http", "--listen", &address]);
    let _observer = start(&["watch", "--serve", &format!("{}:4501", Pair::RIGHT), "--level-max", "full"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll").to_str().unwrap().to_owned();
    let header = format!("X-Long: {}", "x".repeat(1000));
    // A thousand bytes at 100 bytes a millisecond, when nothing may leave at once.
    let load = |path: &str, extra: &[&str]| {
        let url = format!("http://{address}{path}");
        let args = ["load", &url, "-c", "1", "-n", "60", "--observe", "full", "-q", "--json", "--record", &file];
        let mut load = command(&[&args[..], extra].concat());
        pair.left(load.env("PLIMSOLL_TOKEN", "a-token-for-tests-0123456789")).unwrap();
        let run = finish(&mut load);
        run.assert_measured();
        std::fs::remove_file(&file).unwrap();
        let split = run.json()["split"].clone();
        assert!(split["joined"].as_u64() >= Some(50), "{split}\n{}", run.stderr);
        split["bands"][0].clone()
    };
    let figure =
        |band: &serde_json::Value, name: &str| band[name].as_f64().unwrap_or_else(|| panic!("no {name}: {band}"));
    for (is_left, path, extra, part) in
        [(true, "/", &["-H", &header][..], "there_us"), (false, "/bytes?n=1000", &[][..], "back_us")]
    {
        if !slow_down(&pair, is_left, "add") {
            return testkit::skip("this kernel has no tbf");
        }
        let band = load(path, extra);
        assert!(figure(&band, part) > figure(&band, "response_us") / 2.0, "{part}: {band}");
        let elsewhere = load(path, &[extra, &["--observe-at", &format!("{}:4501", Pair::RIGHT)]].concat());
        assert!(slow_down(&pair, is_left, "del"));
        assert!(elsewhere["there_us"].is_null() && elsewhere["back_us"].is_null(), "{elsewhere}");
        assert!(figure(&elsewhere, "network_us") > figure(&elsewhere, "response_us") / 2.0, "{elsewhere}");
    }
}
