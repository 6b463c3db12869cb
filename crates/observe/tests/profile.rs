//! Profiles of real processes: stacks of functions that a test knows, by every way names are found. For root, on a kernel
//! with BTF; programs are built with clang.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use model::profile::{Kind, RunProfile};
use model::snapshot::SamplerState;
use observe::{ObserveSpec, Observer};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::process::Guard;

/// Functions known by name: one that is inlined into another, one that sleeps, and one made while it runs.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
volatile unsigned long turns;
static inline __attribute__((always_inline)) void put_into_its_caller(void) { for (int i = 0; i < 1000; i++) turns++; }
__attribute__((noinline)) void spins_in_here(void) { put_into_its_caller(); turns++; }
__attribute__((noinline)) void calls_what_spins(void) { for (;;) { spins_in_here(); turns += 2; } }
__attribute__((noinline)) void sleeps_in_here(int us) { for (;;) { usleep(us); turns++; } }
__attribute__((noinline)) void makes_code(void) {
#if defined(__x86_64__)
	unsigned char code[] = { 0xeb, 0xfe };
#else
	unsigned int code[] = { 0x14000000 };
#endif
	void *made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(made, code, sizeof code);
	mprotect(made, 4096, PROT_READ | PROT_EXEC);
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	fprintf(map, "%lx 1000 made while; it runs\n", (unsigned long)made);
	fclose(map);
	puts("ready");
	fflush(stdout);
	((void (*)(void))made)();
}
/* 2,048 ways to the same sleep: each bit of its number is one of two functions. */
__attribute__((noinline)) void sleeps_by_way(int way, int bits);
__attribute__((noinline)) void by_even(int way, int bits) { sleeps_by_way(way >> 1, bits - 1); turns++; }
__attribute__((noinline)) void by_odd(int way, int bits) { sleeps_by_way(way >> 1, bits - 1); turns += 2; }
__attribute__((noinline)) void sleeps_by_way(int way, int bits) {
	if (!bits) usleep(100);
	else if (way & 1) by_odd(way, bits);
	else by_even(way, bits);
	turns++;
}
__attribute__((noinline)) void *main_of_another(void *nothing) { sleeps_in_here(200000); return nothing; }
int main(int argc, char **argv) {
	pthread_t thread;
	if (argc > 1 && !strcmp(argv[1], "make")) makes_code();
	puts("ready");
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "sleep")) sleeps_in_here(20000);
	if (argc > 1 && !strcmp(argv[1], "ways")) for (int way = 0;; way++) sleeps_by_way(way & 2047, 11);
	if (argc > 1 && !strcmp(argv[1], "any-way")) {
		pthread_create(&thread, NULL, main_of_another, NULL);
		for (;;) sleeps_by_way(rand() & 2047, 11);
	}
	calls_what_spins();
}
"#;

fn can_run() -> bool {
    if !testkit::is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        testkit::skip("profiles need root and a kernel with BTF");
        return false;
    }
    true
}

/// The program in a folder of its own; gone with it.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    fn new(flags: &[&str]) -> Option<Self> {
        let Some(clang) = testkit::program("clang") else {
            testkit::skip("clang is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("known.c");
        std::fs::write(&source, PROGRAM).unwrap();
        let status = Command::new(clang)
            .args(["-O1", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"])
            .args(flags)
            .arg("-o")
            .args([folder.path().join("known"), source])
            .status()
            .unwrap();
        assert!(status.success());
        Some(Built { folder })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("known")
    }

    fn run(&self, what: &str) -> Guard {
        started(Command::new(self.path()).arg(what))
    }
}

/// Starts a program and waits until it says so.
fn started(command: &mut Command) -> Guard {
    let mut guard = Guard::spawn(command.stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    BufReader::new(guard.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    guard
}

fn observer(pid: u32, probes: Level) -> Observer {
    let target = vec![pid];
    let mut observer = Observer::new(ObserveSpec { target, probes, own_pid: std::process::id(), ..Default::default() });
    observer.snapshot(-1);
    for status in observer.statuses().iter().filter(|status| status.name.starts_with("bpf/")) {
        assert_ne!(status.status, SamplerState::Failed, "{status:?}");
    }
    observer
}

/// Looks until a stack holds all of some frames in this order, outermost first; that stack. A hang guard bounds it.
fn stack_with(observer: &mut Observer, kind: Kind, frames: &[&str]) -> String {
    let start = Instant::now();
    let mut seen = RunProfile::default();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let at_ns = i64::try_from(start.elapsed().as_nanos()).unwrap();
        seen.add(&observer.snapshot(at_ns).profile.unwrap_or_default());
        let folded = seen.of(kind).folded();
        let has_all = |line: &&String| {
            let mut rest = line.as_str();
            frames.iter().all(|frame| match rest.split_once(frame) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        };
        if let Some(line) = folded.iter().find(has_all) {
            return line.clone();
        }
        assert!(start.elapsed() < testkit::HANG_GUARD, "no {frames:?} in {folded:#?}");
    }
}

#[test]
fn a_busy_loop_is_where_it_runs_with_its_callers_and_what_was_inlined() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&["-g"]) else { return };
    let target = built.run("spin");
    let mut observer = observer(target.pid(), Level::Windows);
    let frames = ["known;", "main;", "calls_what_spins;", "spins_in_here;", "put_into_its_caller_[i]"];
    let line = stack_with(&mut observer, Kind::OnCpu, &frames);
    assert!(!line.contains("_[k]") || line.contains("put_into_its_caller_[i];"), "{line}");
}

#[test]
fn a_busy_loop_is_seen_on_whatever_cpu_it_is_kept() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let Some(taskset) = testkit::program("taskset") else { return testkit::skip("taskset is not installed") };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let target = built.run("spin");
    let mut observer = observer(target.pid(), Level::Windows);
    let start = Instant::now();
    for cpu in [0, cpus - 1, 0] {
        let (cpu, pid) = (cpu.to_string(), target.pid().to_string());
        let kept = Command::new(&taskset).args(["-p", "-c", &cpu, &pid]).stdout(Stdio::null()).status().unwrap();
        assert!(kept.success());
        // The clock of a CPU beats from the second reading on; then there is a hundred samples a second.
        let seen = |observer: &mut Observer| {
            std::thread::sleep(Duration::from_millis(300));
            let profile = observer.snapshot(i64::try_from(start.elapsed().as_nanos()).unwrap()).profile;
            let mut seen = RunProfile::default();
            seen.add(&profile.unwrap_or_default());
            seen.of(Kind::OnCpu).folded().iter().any(|line| line.contains("calls_what_spins"))
        };
        seen(&mut observer);
        let since = Instant::now();
        while !seen(&mut observer) {
            assert!(since.elapsed() < testkit::HANG_GUARD, "no stack on CPU {cpu}");
        }
    }
}

#[test]
fn a_program_without_symbols_is_named_by_its_file() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&["-s"]) else { return };
    let target = built.run("spin");
    stack_with(&mut observer(target.pid(), Level::Windows), Kind::OnCpu, &["known;", "[known+0x"]);
}

#[test]
fn code_made_while_a_program_runs_is_named_by_its_perf_map() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let target = built.run("make");
    let line = stack_with(&mut observer(target.pid(), Level::Windows), Kind::OnCpu, &["known;", "main;", "made while"]);
    std::fs::remove_file(format!("/tmp/perf-{}.map", target.pid())).unwrap();
    assert!(line.contains("made while: it runs"), "a separator in a name would make two frames of it: {line}");
}

#[test]
fn a_program_in_another_mount_namespace_is_named_too() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let Some(unshare) = testkit::program("unshare") else { return testkit::skip("unshare is not installed") };
    // What is under that path in our namespace has no such program.
    let script = "mount -t tmpfs none /mnt && cp \"$1\" /mnt/elsewhere && exec /mnt/elsewhere spin";
    let mut target = started(Command::new(unshare).args(["--mount", "sh", "-c", script, "sh"]).arg(built.path()));
    assert!(!Path::new("/mnt/elsewhere").exists());
    let line =
        stack_with(&mut observer(target.pid(), Level::Windows), Kind::OnCpu, &["calls_what_spins;", "spins_in_here"]);
    assert!(line.starts_with("elsewhere;"), "{line}");
    assert!(target.child().try_wait().unwrap().is_none());
}

#[test]
fn a_sleep_is_where_it_waits() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let target = built.run("sleep");
    for level in [Level::Full, Level::Windows] {
        let mut observer = observer(target.pid(), level);
        let line = stack_with(&mut observer, Kind::OffCpu, &["known;", "main;", "nanosleep", "do_nanosleep_[k]"]);
        assert!(!line.contains("__schedule"), "the probe is not the target's: {line}");
    }
}

#[test]
fn a_slow_tick_opens_a_window_at_once() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let target = built.run("sleep");
    let mut observer = observer(target.pid(), Level::Windows);
    let windows = |observer: &mut Observer, at_ns| observer.snapshot(at_ns).bpf.unwrap().windows;
    // The first is opened with the load, and closed a second later.
    assert_eq!(windows(&mut observer, 0), 0);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(windows(&mut observer, 1), 1);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(windows(&mut observer, 2), 1, "the next is not due yet");
    let begun = Instant::now();
    observer.hint_slow();
    std::thread::sleep(Duration::from_secs(1));
    let snapshot = observer.snapshot(3_000_000_000);
    assert_eq!(snapshot.bpf.unwrap().windows, 2);
    let off_cpu = snapshot.profile.unwrap().off_cpu.expect("it slept in the window");
    // Of the window alone, however long it waited before.
    let (total, at_most) = (off_cpu.stacks.total(), begun.elapsed().as_micros());
    assert!(total > 0 && u128::from(total) <= at_most, "{total} µs in a window of at most {at_most} µs");
}

#[test]
fn a_process_that_ends_meanwhile_ends_nothing_else() {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let mut target = built.run("spin");
    let mut observer = observer(target.pid(), Level::Full);
    stack_with(&mut observer, Kind::OnCpu, &["calls_what_spins;", "spins_in_here"]);
    std::thread::sleep(Duration::from_millis(500));
    target.signal(libc::SIGKILL);
    target.wait(testkit::HANG_GUARD).expect("it is killed");
    // What it did before its end is still in the kernel's maps, and it is named from what was read while it lived.
    let last = observer.snapshot(1).profile.expect("it ran until then").on_cpu.expect("on a CPU");
    assert!(last.stacks.folded().iter().any(|line| line.contains("spins_in_here")), "{last:?}");
    assert_eq!(observer.snapshot(2).profile, None);
    for status in observer.statuses().iter().filter(|status| status.name.starts_with("bpf/")) {
        assert_ne!(status.status, SamplerState::Failed, "{status:?}");
    }
}

/// Looks at 2,048 ways to one sleep, again and again, until there were four times as many: no stack is lost.
fn no_stack_is_lost(order: &str, every: Duration) {
    if !can_run() {
        return;
    }
    let Some(built) = Built::new(&[]) else { return };
    let guard = built.run(order);
    let mut observer = observer(guard.pid(), Level::Full);
    let (mut switches, start) = (0, Instant::now());
    while switches < 4 * 2048 {
        assert!(start.elapsed() < testkit::HANG_GUARD, "{switches} switches");
        std::thread::sleep(every);
        let snapshot = observer.snapshot(i64::try_from(start.elapsed().as_nanos()).unwrap());
        let counts = &snapshot.bpf.as_ref().unwrap().counts;
        switches = counts["offcpu.switches"];
        assert_eq!(counts["offcpu.stacks_lost"], 0, "{counts:?}");
        // And what was kept is found again.
        let folded = snapshot.profile.map(|profile| profile.off_cpu.unwrap().stacks.folded()).unwrap_or_default();
        let nowhere: Vec<_> = folded.iter().filter(|line| !line.contains(";main")).collect();
        assert!(nowhere.is_empty(), "{} lines, of them without the program's own: {nowhere:#?}", folded.len());
    }
}

#[test]
fn of_two_thousand_stacks_none_is_lost_for_falling_on_anothers_place() {
    // Nearly all are in the kernel's maps at once: the first of the two refuses one in five.
    no_stack_is_lost("ways", Duration::from_millis(200));
}

#[test]
fn no_stack_is_forgotten_at_which_a_thread_stands() {
    // Of those that go, as they were not seen for a while, one is being counted just then every few readings; and another
    // thread sleeps through many of them.
    no_stack_is_lost("any-way", Duration::from_millis(5));
}
