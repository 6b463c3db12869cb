//! Where the time of requests went, against servers of which it is known: each part is where it was spent, and all of them
//! are the response time.

mod common;

use common::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
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
    if testkit::is_root() && std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
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
fn rows(recording: &str, folder: &std::path::Path) -> (Vec<Row>, usize) {
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
fn load(url: &str, folder: &std::path::Path, extra: &[&str]) -> (Run, String) {
    let file = folder.join("run.plimsoll").to_str().unwrap().to_owned();
    let args = ["load", url, "--observe", "full", "-q", "--json", "--record", &file];
    let run = plimsoll(&[&args[..], extra].concat());
    run.assert_measured();
    (run, file)
}

#[test]
fn each_request_is_split_as_the_server_itself_notes_it() {
    if !can_run() || testkit::program("python3").is_none() {
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
        assert_eq!(part("socket_us") >= 4000.0, before != "0", "{near_p50}");
        assert_eq!(part("server_us") >= 4000.0, after != "0", "{near_p50}");
        let sum: f64 = ["lag_us", "queue_us", "connect_us", "network_us", "socket_us", "server_us", "unsplit_us"]
            .map(part)
            .iter()
            .sum();
        assert!((sum - part("response_us")).abs() < 0.1, "{sum}: {near_p50}");
    }
}
