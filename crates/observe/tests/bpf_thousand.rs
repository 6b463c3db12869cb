//! Never missed in a thousand: OOM kills of the target's processes, and restarts on its port. Each beside who did it.
//! For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::Event;
use model::bpf::Level;
use model::plan::Address;
use observe::{ObserveSpec, Observer};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use testkit::process::Guard;

mod common;
use common::memory::Group;
use common::{bpf, can_run, go, observer, of, shell};

const TIMES: usize = 1000;

/// The lines that a process writes, as they come.
fn lines_of(process: &mut Guard) -> Receiver<String> {
    let output = BufReader::new(process.child().stdout.take().unwrap());
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

/// Takes a reading a second until there are no more lines; the lines, and every event.
fn watch(observer: &mut Observer, lines: &Receiver<String>) -> (Vec<String>, Vec<Event>) {
    let (mut said, mut events, mut at_ns) = (Vec::new(), Vec::new(), 0);
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => said.push(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if said.len().is_multiple_of(100) {
            at_ns += 1_000_000_000;
            observer.snapshot(at_ns);
            events.append(&mut observer.take_events());
        }
    }
    (said, events)
}

/// The process ids in events of a kind whose text has a word, in order.
fn pids(events: &[Event], kind: &str, word: &str) -> Vec<u32> {
    let these = events.iter().filter(|event| event.kind == kind && event.text.contains(word));
    these.map(|event| event.details.pid.unwrap()).collect()
}

#[test]
fn no_oom_kill_of_a_thousand_is_missed() {
    if !can_run() {
        return;
    }
    let Some(group) = Group::new("thousand", 1 << 20) else {
        return testkit::skip("no memory cgroup can be made here, of version 1 or 2");
    };
    let join = group.processes().display().to_string();
    let one = format!("echo $$ >{join}; exec tail /dev/zero");
    let mut target = shell(&format!(
        "i=0; while [ $i -lt {TIMES} ]; do sh -c '{one}' & wait $!; echo $! $?; i=$((i+1)); done 2>/dev/null"
    ));
    let mut observer = observer(of(target.pid(), Level::Light));
    let lines = lines_of(&mut target);
    go(&mut target);
    let (said, mut events) = watch(&mut observer, &lines);
    let snapshot = observer.snapshot(i64::MAX / 2);
    events.append(&mut observer.take_events());
    // By the shell that started them: each was ended by SIGKILL, and nobody here sends one.
    let killed: Vec<u32> = said
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .inspect(|(pid, code)| assert_eq!(*code, "137", "{pid}"))
        .map(|(pid, _)| pid.parse().unwrap())
        .collect();
    assert_eq!(killed.len(), TIMES);
    assert_eq!(pids(&events, "target-oom-kill", "free memory"), killed);
    let counts = &bpf(&snapshot).counts;
    assert_eq!((counts["lifecycle.oom_kills"], counts["lifecycle.records_lost"]), (TIMES as u64, 0), "{counts:?}");
}

/// Ends what listens on a port and starts it again, a thousand times; says who listens. At an address of its own: in
/// between, nobody else is given the port.
const RESTARTS: &str = "
import os, signal, socket, sys
port, times = 0, int(sys.argv[1])
def start():
    global port
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(('127.0.0.9', port))
        server.listen()
        os.write(done, server.getsockname()[1].to_bytes(2, 'big'))
        signal.pause()
    os.close(done)
    port = int.from_bytes(os.read(ready, 2), 'big')
    os.close(ready)
    return pid
def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
pid = start()
print(pid, port, flush=True)
sys.stdin.readline()
for _ in range(times):
    end(pid)
    pid = start()
    print(pid, flush=True)
end(pid)
";

#[test]
fn no_restart_of_a_thousand_is_missed() {
    if !can_run() {
        return;
    }
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let mut command = Command::new(python);
    command.args(["-c", RESTARTS, &TIMES.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // It is not the target: what it starts is, by the port alone.
    let mut supervisor = Guard::spawn(&mut command).unwrap();
    let lines = lines_of(&mut supervisor);
    let first = lines.recv().unwrap();
    let (first, port) = first.split_once(' ').unwrap();
    let (first, port): (u32, u16) = (first.parse().unwrap(), port.parse().unwrap());
    let addresses = vec![Address::Tcp(([127, 0, 0, 9], port).into())];
    let spec = ObserveSpec { target: vec![first], addresses, probes: Level::Light, ..ObserveSpec::default() };
    let mut observer = observer(spec);
    go(&mut supervisor);
    let (said, mut events) = watch(&mut observer, &lines);
    let snapshot = observer.snapshot(i64::MAX / 2);
    events.append(&mut observer.take_events());
    let started: Vec<u32> = said.iter().map(|line| line.parse().unwrap()).collect();
    assert_eq!(started.len(), TIMES);
    let listening = format!("began to listen on port {port}");
    assert_eq!(pids(&events, "target-listening", &listening), started);
    let ended: Vec<u32> = std::iter::once(first).chain(started).collect();
    assert_eq!(pids(&events, "target-exit", "was ended by SIGKILL"), ended);
    let counts = &bpf(&snapshot).counts;
    let lost = ["records_lost", "targets_lost"].map(|name| counts[&format!("listening.{name}")]);
    assert_eq!((counts["listening.listens"], lost), (TIMES as u64, [0, 0]), "{counts:?}");
}
