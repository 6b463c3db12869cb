//! Pauses for a collector beside what the runtime itself says of them: Python, Node.js, a JVM, Go. For root.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use model::event::COLLECTOR_PAUSE;
use model::snapshot::SamplerState;
use observe::Observer;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;

mod common;
use common::{bpf, can_run, observer, of};

/// A pause that is long enough to be an event with its moment, nanoseconds (`RECORD_NS_MIN` of the program).
const LONG_NS: u64 = 5_000_000;

/// What a runtime said: how many collections, and the longest pause, nanoseconds.
struct Said {
    collections: u64,
    longest_ns: u64,
}

/// Starts a program that says `ready`, waits for a line, collects and says `COLLECTIONS LONGEST_NS`, and then waits; and
/// compares. The program's own pauses may be fewer than the probe's: it may collect before the first is asked for.
fn agrees(mut command: Command) {
    let mut target = Guard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let mut lines = BufReader::new(target.child().stdout.take().unwrap()).lines();
    // A program that cannot be compiled or started says why on the error output.
    let Some(Ok(first)) = lines.next() else { panic!("{command:?} said nothing") };
    assert_eq!(first, "ready");
    let mut observer = observer(of(target.pid(), Level::Light));
    // The reading in which the runtime is known comes before the one that attaches to it.
    observer.snapshot(0);
    let status = status(&observer);
    assert_eq!(status.0, SamplerState::Active, "{}", status.1);
    target.child().stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let told = lines.next().unwrap().unwrap();
    let mut words = told.split(' ').map(|word| word.parse::<u64>().unwrap());
    let said = Said { collections: words.next().unwrap(), longest_ns: words.next().unwrap() };
    let snapshot = observer.snapshot(1);
    let taken = observer.take_events();
    let pauses = &bpf(&snapshot).histograms["collector.pause_ns"];
    let count = |name: &str| bpf(&snapshot).counts[&format!("collector.{name}")];
    assert!(said.collections >= 5, "{told}");
    assert!(pauses.count() >= said.collections, "{told}: {pauses:?} {:?}", bpf(&snapshot).counts);
    assert!(count("begun") - pauses.count() <= 1, "each has an end: {:?}", bpf(&snapshot).counts);
    assert_eq!((count("pauses_lost"), count("records_lost")), (0, 0));
    let longest =
        taken.iter().filter(|event| event.kind == COLLECTOR_PAUSE).filter_map(|event| event.details.took_ns).max();
    if said.longest_ns < LONG_NS + LONG_NS / 2 {
        return;
    }
    // What the runtime measured is around the pause, or in it, and this thread may have been off its CPU between.
    let longest = longest.unwrap_or(0);
    assert!(
        longest.abs_diff(said.longest_ns) <= said.longest_ns / 4 + 2_000_000,
        "the probe says {longest} ns, the runtime {told}: {pauses:?}"
    );
}

fn status(observer: &Observer) -> (SamplerState, String) {
    let all = observer.statuses();
    let status = all.into_iter().find(|status| status.name == "bpf/collector").unwrap();
    (status.status, status.reason)
}

fn script(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const PYTHON: &str = r#"
import gc, sys, time
gc.disable()
keep = [[i] for i in range(2_000_000)]
times, began = [], 0
def note(phase, info):
    global began
    now = time.monotonic_ns()
    if phase == "start": began = now
    else: times.append(now - began)
gc.callbacks.append(note)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(6): gc.collect()
print(len(times), max(times), flush=True)
sys.stdin.readline()
"#;

#[test]
fn collections_of_python_are_seen_as_it_times_them() {
    if !can_run() {
        return;
    }
    // The system's: others are often built without the places to attach to.
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return testkit::skip("python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.arg(script(folder.path(), "collect.py", PYTHON));
    agrees(command);
}

const NODE: &str = r#"
const { PerformanceObserver } = require("perf_hooks");
const keep = []; for (let i = 0; i < 400000; i++) keep.push({ i, next: [i] });
const times = [];
new PerformanceObserver(list => { for (const e of list.getEntries()) times.push(e.duration); }).observe({ entryTypes: ["gc"] });
process.stdin.once("data", () => {
  times.length = 0;
  for (let i = 0; i < 6; i++) global.gc();
  setTimeout(() => console.log(times.length, Math.round(Math.max(...times) * 1e6)), 50);
});
console.log("ready");
"#;

#[test]
fn collections_of_node_are_seen_as_it_times_them() {
    if !can_run() {
        return;
    }
    let Some(node) = testkit::program("node") else { return testkit::skip("node is not installed") };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(node);
    command.arg("--expose-gc").arg(script(folder.path(), "collect.js", NODE));
    agrees(command);
}

const JAVA: &str = r#"
public class Collect {
  public static void main(String[] arguments) throws Exception {
    Object[] keep = new Object[1000000];
    for (int i = 0; i < keep.length; i++) keep[i] = new int[]{i};
    System.out.println("ready"); System.out.flush();
    System.in.read();
    long longest = 0;
    for (int i = 0; i < 6; i++) { long t = System.nanoTime(); System.gc(); longest = Math.max(longest, System.nanoTime() - t); }
    System.out.println("6 " + longest); System.out.flush();
    while (true) Thread.sleep(1000);
  }
}
"#;

/// With each of the collectors that stop the world for all of it.
#[test]
fn collections_of_a_jvm_are_seen_as_it_times_them() {
    if !can_run() {
        return;
    }
    let (Some(java), Some(javac)) = (testkit::program("java"), testkit::program("javac")) else {
        return testkit::skip("java and javac are not installed");
    };
    let folder = tempfile::tempdir().unwrap();
    let source = script(folder.path(), "Collect.java", JAVA);
    assert!(Command::new(javac).arg("-d").arg(folder.path()).arg(source).status().unwrap().success());
    for collector in ["-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC"] {
        let mut command = Command::new(&java);
        command.args([collector, "-Xmx256m", "-cp"]).arg(folder.path()).arg("Collect");
        agrees(command);
    }
}

const GO: &str = r#"package main

import ("bufio"; "fmt"; "os"; "runtime")

func main() {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	for i := 0; i < 6; i++ { runtime.GC() }
	// Pauses of Go are far below what is an event: their number is compared alone.
	fmt.Println(6, 0)
	in.ReadString('\n')
}
"#;

#[test]
fn the_stops_of_a_go_program_are_seen() {
    if !can_run() {
        return;
    }
    let go = testkit::program("go")
        .or_else(|| Some("/usr/local/go/bin/go".into()).filter(|go: &std::path::PathBuf| go.exists()));
    let Some(go) = go else { return testkit::skip("go is not installed") };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("collect");
    let source = script(folder.path(), "collect.go", GO);
    let mut build = Command::new(go);
    build.current_dir(folder.path()).env("GOCACHE", folder.path().join("cache")).env("GOFLAGS", "-mod=mod");
    assert!(build.args(["build", "-o"]).arg(&program).arg(source).status().unwrap().success());
    agrees(Command::new(&program));
    // Without its symbols nothing tells where, and that is said.
    let strip = testkit::program("strip").expect("binutils come with the compiler");
    assert!(Command::new(strip).arg(&program).status().unwrap().success());
    let stripped = Guard::spawn(Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::null())).unwrap();
    let mut observer = observer(of(stripped.pid(), Level::Light));
    observer.snapshot(0);
    let (state, reason) = status(&observer);
    assert_eq!(state, SamplerState::Disabled);
    assert!(reason.starts_with("this Go does not say where it collects"), "{reason}");
}

#[test]
fn without_a_runtime_it_says_so() {
    if !can_run() {
        return;
    }
    let target = common::shell("read line");
    let mut observer = observer(of(target.pid(), Level::Light));
    observer.snapshot(0);
    let none = "no known language runtime is mapped by the target".to_owned();
    assert_eq!(status(&observer), (SamplerState::Disabled, none));
}
