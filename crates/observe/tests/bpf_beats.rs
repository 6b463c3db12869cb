//! Where clocks beat for stacks: on the CPUs of a target that is kept on some, seen by how many of them this process has open. Alone in its
//! file, as other observers of this process have clocks too. For root, on a kernel with BTF and two CPUs.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use observe::{ObserveSpec, Observer};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testkit::process::Guard;

/// Clocks of CPUs that this process has open.
fn clocks() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.path().read_link().ok());
    files.filter(|file| file.to_string_lossy().contains("[perf_event]")).count()
}

fn keep_on(cpu: usize, pid: u32) {
    let kept = Command::new("taskset").args(["-p", "-c", &cpu.to_string(), &pid.to_string()]).output().unwrap();
    assert!(kept.status.success(), "{kept:?}");
}

#[test]
fn clocks_beat_only_where_the_target_may_run() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if !testkit::is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() || cpus < 2 {
        return testkit::skip("clocks of CPUs need root, a kernel with BTF and two CPUs");
    }
    if testkit::program("taskset").is_none() {
        return testkit::skip("taskset is not installed");
    }
    let busy = Guard::spawn(Command::new("sh").args(["-c", "while :; do :; done"])).unwrap();
    assert_eq!(clocks(), 0);
    let spec = ObserveSpec {
        target: vec![busy.pid()],
        probes: Level::Windows,
        own_pid: std::process::id(),
        ..Default::default()
    };
    let mut observer = Observer::new(spec);
    let mut at_ns = 0;
    let mut read = || {
        std::thread::sleep(Duration::from_millis(200));
        at_ns += 200_000_000;
        observer.snapshot(at_ns);
        clocks()
    };
    // Nothing is known at the first reading; then it may run anywhere.
    assert_eq!([read(), read()], [cpus, cpus]);
    keep_on(0, busy.pid());
    assert_eq!(read(), 1);
    keep_on(1, busy.pid());
    assert_eq!(read(), 1);
    drop(observer);
    assert_eq!(clocks(), 0);
}
