//! `plimsoll serve names` as a process: kill -9 under load, a full disk, giving up, what it says and counts.

use crate::common::{BIN, command, plimsoll};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::process::Guard;
use testkit::wait_until;

const HANG_GUARD: Duration = testkit::HANG_GUARD;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

struct Names {
    process: Guard,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Names {
    fn start(arguments: &[&str]) -> Self {
        Self::spawn(command(&["serve", "names", "--listen", "127.0.0.1:0"]).args(arguments))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut process = Guard::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        let mut output = BufReader::new(process.child().stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on resp://").map(str::to_owned);
        let address = address.unwrap_or_else(|| panic!("it says '{line}' and '{}'", errors(&mut process)));
        Self { process, output, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        stream
    }

    /// Ends it in order; what it counted.
    fn finish(mut self) -> String {
        self.process.signal(SIGTERM);
        let mut counters = String::new();
        self.output.read_to_string(&mut counters).unwrap();
        let status = self.process.wait(HANG_GUARD).unwrap();
        assert_eq!((status.code(), errors(&mut self.process).as_str()), (Some(0), ""));
        counters
    }
}

fn errors(process: &mut Guard) -> String {
    let mut said = String::new();
    process.child().stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

fn counted(counters: &str, name: &str) -> u64 {
    let row = counters.lines().find(|line| line.split_whitespace().next() == Some(name));
    row.unwrap_or_else(|| panic!("{name}: {counters}")).split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A reply's line; `None` where the connection ended in front of its end.
fn line(stream: &mut BufReader<TcpStream>, request: &str) -> Option<String> {
    stream.get_mut().write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.strip_suffix("\r\n").map(str::to_owned)
}

fn load(stream: &mut BufReader<TcpStream>, name: &str) -> Option<String> {
    match line(stream, &format!("GET {name}\r\n"))?.as_str() {
        "$-1" => None,
        _ => line(stream, ""),
    }
}

/// 50 clients write numbered names; the process is killed in the middle, many times: what was acknowledged is there.
#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal").to_str().unwrap().to_owned();
    let arguments = ["--durable", "--journal", &journal, "--workers", "2"];
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..5 {
        let server = Names::start(&arguments);
        let written = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..50)
            .map(|writer| {
                let (stream, written) = (server.connect(), written.clone());
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    let mut known = Vec::new();
                    for n in 0.. {
                        let name = format!("{round}-{writer}-{n}");
                        match line(&mut stream, &format!("SET {name} value-{name}\r\n")) {
                            Some(said) => assert_eq!(said, "+OK"),
                            None => break,
                        }
                        known.push(name);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                    known
                })
            })
            .collect();
        wait_until("something is acknowledged", || written.load(Ordering::Relaxed) > 0);
        std::thread::sleep(Duration::from_millis(300 + 150 * round));
        server.process.signal(SIGKILL);
        let before = acknowledged.len();
        acknowledged.extend(writers.into_iter().flat_map(|writer| writer.join().unwrap()));
        assert!(acknowledged.len() > before, "round {round} wrote nothing");
        drop(server);
        let server = Names::start(&arguments);
        let mut stream = BufReader::new(server.connect());
        let lost: Vec<_> =
            acknowledged.iter().filter(|name| load(&mut stream, name) != Some(format!("value-{name}"))).collect();
        assert!(lost.is_empty(), "round {round}: {} of {} lost: {lost:?}", lost.len(), acknowledged.len());
        drop(stream);
        let counters = server.finish();
        println!("round {round}: {} acknowledged, all found, {} there", acknowledged.len(), counted(&counters, "keys"));
        assert!(counted(&counters, "keys") >= acknowledged.len() as u64);
    }
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing_acknowledged() {
    if !testkit::is_root() {
        return testkit::skip("mounting a small tmpfs needs root");
    }
    let Some(unshare) = testkit::program("unshare") else { return testkit::skip("unshare is not installed") };
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let probe = Command::new(&unshare).args(["-m", "mount", "-t", "tmpfs", "-o", "size=64k", "none", place]).output();
    if !probe.unwrap().status.success() {
        return testkit::skip("a mount namespace with a tmpfs is not allowed here");
    }
    let script = format!(
        "mount -t tmpfs -o size=256k none {place} && exec {BIN} serve names --listen 127.0.0.1:0 --journal {place}/journal --restart-backoff 1ms --on-crash wait"
    );
    let server = Names::spawn(Command::new(unshare).args(["-m", "sh", "-c", &script]));
    let mut stream = BufReader::new(server.connect());
    let value = "v".repeat(10_000);
    let mut kept = 0;
    let refusal = loop {
        match line(&mut stream, &format!("SET k{kept} {value}\r\n")).unwrap() {
            said if said == "+OK" => kept += 1,
            said => break said,
        }
        assert!(kept < 100, "256 KiB hold no megabyte");
    };
    assert!(refusal.starts_with("-MISCONF the journal could not be written (No space left on device"), "{refusal}");
    assert!(kept > 10);
    // What was refused is not there, what was acknowledged is; also after a crash.
    for _ in 0..2 {
        assert_eq!(load(&mut stream, &format!("k{kept}")), None);
        for n in 0..kept {
            assert_eq!(load(&mut stream, &format!("k{n}")).as_ref(), Some(&value));
        }
        assert!(line(&mut stream, "OOPS\r\n").unwrap().starts_with("-ERR OOPS"));
    }
    // There is room for little things still, and they are taken.
    assert_eq!(line(&mut stream, "DEL k0\r\n").as_deref(), Some(":1"));
    assert_eq!(load(&mut stream, "k0"), None);
    drop(stream);
    let counters = server.finish();
    assert_eq!((counted(&counters, "writes_refused"), counted(&counters, "crashes")), (1, 2));
}

#[test]
fn a_supervisor_that_gives_up_says_so_and_ends_with_1() {
    let mut server = Names::start(&["--restarts-max", "1", "--restart-backoff", "1ms", "--on-crash", "wait"]);
    let mut stream = BufReader::new(server.connect());
    for _ in 0..2 {
        assert!(line(&mut stream, "OOPS\r\n").is_none_or(|said| said.starts_with("-ERR OOPS")));
    }
    let status = server.process.wait(HANG_GUARD).unwrap();
    let said = errors(&mut server.process);
    assert_eq!((status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.starts_with("plimsoll: expected at most 1 restarts of the store within 10s"), "{said}");
}

#[test]
fn two_processes_do_not_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal").to_str().unwrap().to_owned();
    let server = Names::start(&["--journal", &journal]);
    let second = plimsoll(&["serve", "names", "--listen", "127.0.0.1:0", "--journal", &journal]);
    second.assert_exit(1);
    assert!(second.stderr.contains("another one holds its lock"), "{}", second.stderr);
    server.finish();
    let elsewhere = plimsoll(&["serve", "names", "--listen", "127.0.0.1:0", "--journal", "/nonexistent/journal"]);
    elsewhere.assert_exit(1);
    assert_eq!(elsewhere.stderr.lines().count(), 1, "{}", elsewhere.stderr);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (arguments, said) in [
        (&["--tls"][..], "got TLS, which it does not speak"),
        (&["--on-crash", "retry"], "expected fail-fast, wait, or retry:N:BACKOFF such as retry:5:10ms"),
    ] {
        let run = plimsoll(&[&["serve", "names", "--listen", "127.0.0.1:0"], arguments].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

#[test]
fn what_was_counted_is_printed_at_the_end() {
    let server = Names::start(&[]);
    let mut stream = BufReader::new(server.connect());
    assert_eq!(line(&mut stream, "SET a 1\r\n").as_deref(), Some("+OK"));
    assert_eq!(load(&mut stream, "a").as_deref(), Some("1"));
    drop(stream);
    let counters = server.finish();
    for (name, n) in [("accepted", 1), ("closed", 1), ("requests", 2), ("saves", 1), ("loads", 1), ("keys", 1)] {
        assert_eq!(counted(&counters, name), n, "{counters}");
    }
}
