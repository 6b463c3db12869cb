//! The target's CPU time against what others count: children that come and go, more processes than are watched, threads that
//! end at once; and the processes beside it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::snapshot::{CpuSource, Neighbour, SummedCpu};
use observe::{ObserveSpec, Observer, PROCESSES_MAX, THREADS_MAX};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testkit::process::{Guard, copy_program};

/// A control group that counts CPU time (version 1, or 2 at the same place of a hybrid).
struct Counted(PathBuf);

impl Counted {
    fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !testkit::is_root() {
            testkit::skip("control groups are made by root");
            return None;
        }
        // Tests of this file run at once: each has its own.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/sys/fs/cgroup/cpuacct/plimsoll-{number}-{}", std::process::id()));
        if std::fs::create_dir(&folder).is_err() {
            testkit::skip("no group of cpuacct (cgroup version 1) can be made here");
            return None;
        }
        Some(Counted(folder))
    }

    fn add(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn used_ns(&self) -> u64 {
        std::fs::read_to_string(self.0.join("cpuacct.usage")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Those in it have been ended, and take a moment to leave it.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A shell that says `ready`, waits for a line, does as it is told, says `done` and waits again; and what it says next. What
/// its start takes is behind it.
fn shell(script: &str) -> (Guard, BufReader<ChildStdout>) {
    let burn = "burn() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); done; }";
    let script = format!("{burn}; echo ready; read x; {script}; echo done; read x");
    let mut shell =
        Guard::spawn(Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let (mut said, mut line) = (BufReader::new(shell.child().stdout.take().unwrap()), String::new());
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (shell, said)
}

fn total(sum: SummedCpu) -> u64 {
    sum.user_ns + sum.system_ns
}

/// Has a target do something, and holds that what it is said to have used is what its group counted, within a twentieth
/// and the clock ticks of a few processes; the last source.
fn used(script: &str, is_alone: bool, slack_ns: u64) -> Option<CpuSource> {
    let group = Counted::new()?;
    let mut other = Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap();
    let (mut target, mut said) = shell(script);
    group.add(target.pid());
    if !is_alone {
        group.add(other.pid());
    }
    let spec = ObserveSpec { target: vec![target.pid()], own_pid: std::process::id(), ..ObserveSpec::default() };
    let mut observer = Observer::new(spec);
    let began = Instant::now();
    let read = |observer: &mut Observer| {
        let at_ns = began.elapsed().as_nanos() as i64;
        observer.snapshot(at_ns).target_cpu.unwrap()
    };
    let before = total(read(&mut observer));
    let counted = group.used_ns();
    target.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        (line, said)
    });
    let mut last = before;
    while !reader.is_finished() {
        let now = total(read(&mut observer));
        assert!(now >= last, "it never goes back: {last}, then {now}");
        last = now;
        std::thread::sleep(Duration::from_millis(70));
    }
    assert_eq!(reader.join().unwrap().0.trim(), "done");
    // It does nothing any more. A pass through all processes may not be due yet, the later the more there are; once it
    // agrees, it goes on to.
    let compare = |observer: &mut Observer| {
        let sum = read(observer);
        let (said_ns, counted_ns) = (total(sum) - before, group.used_ns() - counted);
        let agrees = said_ns.abs_diff(counted_ns) <= counted_ns / 20 + slack_ns;
        (agrees, counted_ns, sum.source, format!("said {said_ns} ns, counted {counted_ns} ns"))
    };
    let idle_since = Instant::now();
    while let (false, _, _, text) = compare(&mut observer) {
        assert!(idle_since.elapsed() < testkit::HANG_GUARD, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let (agrees, counted_ns, source, text) = compare(&mut observer);
    assert!(agrees && counted_ns > 100_000_000, "{text}");
    target.signal(9);
    target.wait(testkit::HANG_GUARD);
    other.signal(9);
    other.wait(testkit::HANG_GUARD);
    Some(source)
}

#[test]
fn children_that_live_for_milliseconds_are_counted() {
    let script = "n=0; while [ $n -lt 200 ]; do n=$((n+1)); (burn 2000); done";
    let Some(source) = used(script, false, 40_000_000) else { return };
    assert_eq!(source, CpuSource::Processes);
}

#[test]
fn more_processes_than_are_watched_are_counted() {
    const { assert!(PROCESSES_MAX < 100) };
    let script = "n=0; while [ $n -lt 100 ]; do n=$((n+1)); (burn 4000; sleep 1; burn 4000) & done; wait";
    // A child that lives is known to a clock tick, of user and of system time; when it has been waited for, exactly.
    used(script, false, 60_000_000);
}

/// What the status of a sampler says.
fn said(observer: &Observer, name: &str) -> String {
    observer.statuses().into_iter().find(|status| status.name == name).unwrap().reason
}

#[test]
fn of_more_processes_and_threads_than_are_looked_at_one_by_one_it_is_said() {
    let mut command = Command::new("sh");
    let script = "n=0; while [ $n -lt 100 ]; do n=$((n+1)); sleep 1000 & p=\"$p $!\"; done; read x; kill $p";
    let mut many = Guard::spawn(command.args(["-c", script]).stdin(Stdio::piped())).unwrap();
    let children = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", many.pid())).unwrap();
    testkit::wait_until("there are a hundred", || children().split_whitespace().count() == 100);
    let own_pid = std::process::id();
    let observer = |target| Observer::new(ObserveSpec { target: vec![target], own_pid, ..ObserveSpec::default() });
    let mut of_many = observer(many.pid());
    of_many.snapshot(0);
    of_many.snapshot(1);
    let beyond = 101 - PROCESSES_MAX;
    assert!(said(&of_many, "process/target").starts_with(&format!("{beyond} processes beyond")));
    // Its children end with it.
    drop(many.child().stdin.take());
    many.wait(testkit::HANG_GUARD);

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS_MAX + 44 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        }
        let mut of_own = observer(own_pid);
        of_own.snapshot(0);
        over.store(true, Ordering::Relaxed);
        // This process is the target and the generator.
        let said = said(&of_own, "process/threads");
        assert!(said.ends_with(&format!("threads beyond {THREADS_MAX} of a process")), "{said}");
    });
}

#[test]
fn a_group_of_its_own_is_asked_instead() {
    let script = "n=0; while [ $n -lt 100 ]; do n=$((n+1)); (burn 4000); done";
    let Some(source) = used(script, true, 20_000_000) else { return };
    assert_eq!(source, CpuSource::ControlGroup);
}

#[test]
fn threads_that_end_at_once_are_counted() {
    let own_pid = std::process::id();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut observer = Observer::new(ObserveSpec { target: vec![own_pid], own_pid, ..ObserveSpec::default() });
    let before = total(observer.snapshot(0).target_cpu.unwrap());
    let used = observe::own::rusage();
    for _ in 0..400 {
        let burn = || (0..200_000_u64).fold(0, |sum, i| std::hint::black_box(sum ^ i));
        std::thread::spawn(burn).join().unwrap();
    }
    drop(address);
    let began = Instant::now();
    // Until a pass through all processes is due. Children of other tests of this process are its own, too.
    loop {
        let own = observe::own::rusage();
        let counted = own.user_ns + own.system_ns - used.user_ns - used.system_ns;
        let said = total(observer.snapshot(1).target_cpu.unwrap()) - before;
        if said + 40_000_000 >= counted {
            break;
        }
        assert!(began.elapsed() < testkit::HANG_GUARD, "said {said}, used {counted}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn who_takes_cpu_beside_the_target_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut loops: Vec<Guard> = ["loop-a", "loop-b"]
        .iter()
        .map(|name| {
            let program = folder.path().join(name);
            copy_program(&testkit::program("sh").unwrap(), &program).unwrap();
            let mut command = Command::new(program);
            Guard::spawn(command.args(["-c", "read x; while :; do :; done"]).stdin(Stdio::piped())).unwrap()
        })
        .collect();
    let (mut target, _said) = shell("burn 300000");
    let own_pid = std::process::id();
    let spec = ObserveSpec { target: vec![target.pid()], own_pid, ..ObserveSpec::default() };
    let mut observer = Observer::new(spec);
    observer.snapshot(0);
    let all = loops.iter_mut().chain(std::iter::once(&mut target));
    all.for_each(|process| process.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap());
    let pids = [loops[0].pid(), loops[1].pid()];
    // It began to loop after the observation did: all it ever used is charged, to a clock tick of each kind.
    let used_ns = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10_000_000
    };
    let (mut neighbours, began) = (Vec::new(), Instant::now());
    loop {
        // What a pass found may be some time ago, which matters the less the more they have used.
        let is_charged = |n: &Neighbour| n.cpu_ns > 500_000_000 && n.cpu_ns * 10 > used_ns(n.pid) * 5;
        if pids.iter().all(|pid| neighbours.iter().any(|n: &Neighbour| n.pid == *pid && is_charged(n))) {
            break;
        }
        assert!(began.elapsed() < testkit::HANG_GUARD, "used {:?}: {neighbours:?}", pids.map(used_ns));
        std::thread::sleep(Duration::from_millis(100));
        neighbours = observer.snapshot(2).neighbours;
    }
    for (pid, name) in pids.iter().zip(["loop-a", "loop-b"]) {
        let found = neighbours.iter().find(|n| n.pid == *pid).unwrap();
        assert_eq!(found.name, name);
        assert!(found.core.is_some() && found.start_ticks > 0, "{found:?}");
        assert!(found.cpu_ns <= used_ns(*pid), "{found:?}, used {} ns", used_ns(*pid));
    }
    assert!(neighbours.windows(2).all(|two| two[0].cpu_ns >= two[1].cpu_ns), "{neighbours:?}");
    let ours = [own_pid, target.pid()];
    assert!(neighbours.iter().all(|n| !ours.contains(&n.pid)), "{neighbours:?}");
}
