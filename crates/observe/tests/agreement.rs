//! What the samplers read against what nstat, ss, pidstat and sar read at the same time.
//!
//! A counter must lie between two readings of the other, or the other's between two of ours: nothing moves in the
//! meantime that is not counted. Nothing here depends on how fast the machine is.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::Snapshot;
use model::snapshot::{ProcessSample, Role};
use observe::{ObserveSpec, Observer};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::process::Guard;

fn observer(target: u32) -> Observer {
    Observer::new(ObserveSpec { target: vec![target], own_pid: std::process::id(), ..ObserveSpec::default() })
}

fn target(snapshot: &Snapshot) -> &ProcessSample {
    snapshot.processes.iter().find(|p| p.role == Role::Target).unwrap()
}

/// The program, or the reason to skip.
fn program(name: &str, package: &str) -> Option<PathBuf> {
    let found = testkit::program(name);
    if found.is_none() {
        testkit::skip(&format!("{name} is not installed (apt-get install {package})"));
    }
    found
}

fn output(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C").env("S_TIME_FORMAT", "ISO").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nstat_agrees_about_every_counter_it_shows() {
    let Some(nstat) = program("nstat", "iproute2") else { return };
    let read = || -> BTreeMap<String, u64> {
        let text = output(Command::new(&nstat).args(["-a", "-s", "-z"]));
        let number = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        };
        text.lines().filter(|line| !line.starts_with('#')).filter_map(number).collect()
    };
    let mut observer = observer(std::process::id());
    let before = read();
    let snapshot = observer.snapshot(0);
    let after = read();
    let table = observe::samplers::SAMPLERS.iter().find(|entry| entry.name == "network/counters").unwrap();
    let mut compared = 0;
    for metric in table.metrics.iter().filter(|metric| metric.kind == observe::metric::Kind::Counter) {
        // nstat's names are section and name in one.
        let name = metric.source.replace('.', "");
        let (Some(low), Some(high)) = (before.get(&name), after.get(&name)) else { continue };
        let ours = snapshot.network.of(metric.name).unwrap_or_else(|| panic!("{name} is not read"));
        assert!((*low..=*high).contains(&ours), "{name}: {ours} is not in {low}..={high}");
        compared += 1;
    }
    assert!(compared >= 40, "only {compared} were compared");
}

#[test]
fn ss_agrees_about_queues_and_round_trips() {
    let Some(ss) = program("ss", "iproute2") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(&[1; 5000]).unwrap();
    client.read_exact(&mut [0; 5000]).unwrap();
    client.write_all(&[1; 321]).unwrap();
    let _waiting = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let shown = output(Command::new(&ss).args(["-Hltn", &format!("sport = :{port}")]));
    let columns: Vec<&str> = shown.split_whitespace().collect();
    let snapshot = observer(std::process::id()).snapshot(0);
    let ours = snapshot.listeners.iter().find(|l| l.address == format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(columns[1..3], [ours.waiting.to_string(), ours.backlog.to_string()], "{shown}");

    let shown = output(Command::new(&ss).args(["-Htin", "state", "established", &format!("sport = :{port}")]));
    assert_eq!(shown.matches("127.0.0.1").count(), 4, "two connections, two addresses each: {shown}");
    assert!(shown.contains("321"), "{shown}");
    assert_eq!(snapshot.network.of("receive_queue_bytes"), Some(321));
    assert_eq!(snapshot.network.of("connections_looked_at"), Some(2));
    let rtts = shown.split_whitespace().filter_map(|word| word.strip_prefix("rtt:")?.split('/').next()?.parse().ok());
    let rtts: Vec<f64> = rtts.collect();
    let highest_ns = rtts.iter().copied().fold(0.0, f64::max) * 1e6;
    let ours_ns = snapshot.network.of("rtt_max_ns").unwrap() as f64;
    // ss rounds to a few digits of a millisecond.
    assert!((ours_ns - highest_ns).abs() <= highest_ns * 0.01 + 1000.0, "{ours_ns} {shown}");
}

#[test]
fn pidstat_agrees_about_cpu_time_memory_and_switches() {
    let Some(pidstat) = program("pidstat", "sysstat") else { return };
    // Thirty megabytes in a variable: the kernel's own count is some dozens of pages out.
    let burns = "x=$(head -c 30000000 /dev/zero | tr '\\0' a); while :; do :; done";
    let child = Guard::spawn(Command::new("sh").args(["-c", burns]).stdout(Stdio::null())).unwrap();
    let mut observer = observer(child.pid());
    let is_ready = || {
        let snapshot = observer.snapshot(0);
        target(&snapshot).rss_bytes.unwrap() > 30_000_000 && target(&snapshot).metrics.of("children") == Some(0)
    };
    testkit::wait_until("its thirty megabytes", is_ready);
    let began = Instant::now();
    let first = observer.snapshot(0);
    let shown = output(Command::new(pidstat).args(["-h", "-u", "-r", "-p", &child.pid().to_string(), "2", "1"]));
    let last = observer.snapshot(1);
    let passed_s = began.elapsed().as_secs_f64();
    let head = shown.lines().find(|line| line.starts_with('#')).unwrap().trim_start_matches('#');
    let row = shown.lines().rfind(|line| line.contains(&format!(" {} ", child.pid()))).unwrap();
    let value = |name: &str| -> f64 {
        let column = head.split_whitespace().position(|word| word == name).unwrap();
        row.split_whitespace().nth(column).unwrap().parse().unwrap()
    };
    let cpu_s = |s: &Snapshot| (target(s).user_ns.unwrap() + target(s).system_ns.unwrap()) as f64 / 1e9;
    let (ours_s, theirs_s) = (cpu_s(&last) - cpu_s(&first), value("%CPU") / 100.0 * 2.0);
    // A tick at each end, and two hundredths of its interval, which it does not know better. Where it was kept from its first
    // reading for a while, the interval is shorter than two seconds, and its share that of the shorter one.
    assert!(theirs_s <= ours_s * 1.25 + 0.06, "we saw {ours_s} s, pidstat {theirs_s} s: {shown}");
    assert!(
        ours_s <= theirs_s + (passed_s - 2.0).max(0.0) + 0.06,
        "we saw {ours_s} s in {passed_s} s, pidstat {theirs_s} s"
    );
    let (ours, theirs) = (target(&last).rss_bytes.unwrap() as f64, value("RSS") * 1024.0);
    assert!((ours - theirs).abs() <= theirs * 0.05, "{ours} {theirs}");
}

/// A window of three seconds, less what it may be kept from its first reading after it has set its alarm.
const LEAST_S: f64 = 2.7;

#[test]
fn sar_agrees_about_switches_interrupts_and_faults() {
    let Some(sar) = program("sar", "sysstat") else { return };
    let mut observer = observer(std::process::id());
    let began = Instant::now();
    // Our reading, and the seconds between which it was made.
    let mut read = || {
        let from_s = began.elapsed().as_secs_f64();
        let snapshot = observer.snapshot(0);
        (from_s, snapshot, began.elapsed().as_secs_f64())
    };
    let mut readings = vec![read()];
    let mut command = Command::new(sar);
    command.args(["-w", "-B", "3", "1"]).env("LC_ALL", "C").env("S_TIME_FORMAT", "ISO");
    let mut running = Guard::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    while running.child().try_wait().unwrap().is_none() {
        assert!(began.elapsed() < testkit::HANG_GUARD, "sar goes on");
        std::thread::sleep(Duration::from_millis(100));
        readings.push(read());
    }
    let mut shown = String::new();
    running.child().stdout.as_mut().unwrap().read_to_string(&mut shown).unwrap();
    readings.push(read());
    let (outer, outer_end) = (&readings[0].1, &readings[readings.len() - 1].1);
    // When its window began is not known, only that it is about three seconds long and ended by now: for each moment it may
    // have begun at, what we saw within the window; the least of these.
    let all_s = readings[readings.len() - 1].2;
    let least_within = |grown: &dyn Fn(&Snapshot, &Snapshot) -> f64| {
        let begins = readings.windows(2).filter(|two| two[0].0 + LEAST_S <= all_s);
        let within = begins.map(|two| {
            let end_s = two[0].0 + LEAST_S;
            let last = readings.iter().rfind(|reading| reading.2 <= end_s && reading.0 >= two[1].0);
            last.map_or(0.0, |last| grown(&two[1].1, &last.1))
        });
        within.fold(f64::INFINITY, f64::min)
    };
    for (column, name) in [("cswch/s", "context_switches"), ("proc/s", "forks"), ("majflt/s", "major_faults")] {
        let head = shown.lines().find(|line| line.contains(column)).unwrap_or_else(|| panic!("{column}: {shown}"));
        let at = head.split_whitespace().position(|word| word == column).unwrap();
        let row = shown.lines().skip_while(|line| *line != head).nth(1).unwrap();
        let per_s: f64 = row.split_whitespace().nth(at).unwrap().parse().unwrap();
        let grown = |a: &Snapshot, b: &Snapshot| (b.host.of(name).unwrap() - a.host.of(name).unwrap()) as f64;
        let (least, most) = (least_within(&grown), grown(outer, outer_end));
        assert!(per_s * LEAST_S - 1.0 <= most, "{name}: {per_s}/s for 3 s, we saw {most}: {shown}");
        // Nor can its window have been longer than all of this took.
        assert!(
            per_s * all_s + 1.0 >= least,
            "{name}: {per_s}/s in {all_s} s, we saw {least} in a part of it: {shown}"
        );
    }
}
