//! The observer against this machine's own `/proc`: real processes, real listeners, real ends.
//!
//! Children are this test program itself, started anew to run one of the ignored `helper_…` functions, which do
//! nothing unless the environment says so.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::plan::Address;
use model::snapshot::{ProcessSample, Role, SamplerState};
use model::{Event, Snapshot};
use observe::target::{NotFound, find};
use observe::{ObserveSpec, Observer};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::process::{Guard, copy_program};
use testkit::wait_for;

const HELP: &str = "PLIMSOLL_OBSERVE_TEST";
/// How long a helper goes on, should nobody end it: longer than a test waits for anything.
const BURNS: Duration = Duration::from_secs(240);

/// Starts one of the helpers below.
fn helper(name: &str, argument: &str) -> Guard {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(HELP, argument).stdout(Stdio::null());
    Guard::spawn(&mut command).unwrap()
}

fn argument() -> Option<String> {
    std::env::var(HELP).ok()
}

#[test]
#[ignore = "a child of other tests"]
fn helper_burn() {
    if argument().is_none() {
        return;
    }
    let burner = std::thread::Builder::new().name("burner) R (x".to_owned());
    let burn = || {
        loop {
            std::hint::spin_loop();
        }
    };
    burner.spawn(burn).unwrap();
    std::thread::sleep(BURNS);
}

#[test]
#[ignore = "a child of other tests"]
fn helper_listen() {
    // Told to listen nowhere, it ends at once.
    let Some(address) = argument().and_then(|a| a.parse::<SocketAddr>().ok()) else { return };
    let listener = loop {
        // The one before may not be gone yet.
        match TcpListener::bind(address) {
            Ok(listener) => break listener,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    std::thread::sleep(BURNS);
    drop(listener);
}

fn tcp(address: SocketAddr) -> Vec<Address> {
    vec![Address::Tcp(address)]
}

/// Whether this process is found. Another test's child may hold the listener too, between its fork and its exec.
fn is_found(addresses: &[Address]) -> bool {
    find(addresses).unwrap().contains(&std::process::id())
}

/// Free a moment ago, at an address of the loopback (`127.0.0.`) that a test has for itself: what others bind and connect
/// in the meantime takes no port of it.
fn free_address(own: u8) -> SocketAddr {
    TcpListener::bind(SocketAddr::from(([127, 0, 0, own], 0))).unwrap().local_addr().unwrap()
}

fn observer(target: &[u32], addresses: Vec<Address>) -> Observer {
    Observer::new(ObserveSpec {
        target: target.to_vec(),
        addresses,
        own_pid: std::process::id(),
        probes: model::bpf::Level::None,
        ..ObserveSpec::default()
    })
}

fn of(snapshot: &Snapshot, role: Role) -> Option<&ProcessSample> {
    snapshot.processes.iter().find(|p| p.role == role)
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| &*e.kind).collect()
}

/// What happened to the target. The kernel's log is of the whole machine, where anything may go wrong meanwhile.
fn of_target(observer: &mut Observer) -> Vec<Event> {
    observer.take_events().into_iter().filter(|event| event.kind.starts_with("target-")).collect()
}

#[test]
fn a_thread_that_burns_is_seen_by_its_name() {
    let child = helper("helper_burn", "1");
    let mut observer = observer(&[child.pid()], Vec::new());
    let burner = |snapshot: &Snapshot| {
        let threads = &of(snapshot, Role::Target)?.threads;
        threads.iter().find(|t| t.name == "burner) R (x").cloned()
    };
    let first = wait_for("the thread", || burner(&observer.snapshot(0)));
    let mut seen = String::new();
    // Until it had half a second of CPU, however long that takes on a busy machine. The files of one reading are read one
    // after the other, and whoever reads them may be kept from it in between: then the next reading has to do.
    let mut agree = || {
        let snapshot = observer.snapshot(1);
        let last = burner(&snapshot)?;
        let target = of(&snapshot, Role::Target)?;
        let (run_ns, ticks_ns) = (last.run_ns?, last.user_ns? + last.system_ns?);
        let others_ns = target.threads.iter().filter(|t| t.tid != last.tid).filter_map(|t| t.run_ns).sum::<u64>();
        seen = format!("stat says {ticks_ns} ns, schedstat {run_ns} ns, others {others_ns} ns: {target:?}");
        let is_so = run_ns >= first.run_ns? + 500_000_000
            && ticks_ns.abs_diff(run_ns) <= run_ns / 5
            && others_ns < run_ns / 4
            && last.state == 'R'
            && target.user_ns? + target.system_ns? + 50_000_000 >= ticks_ns;
        is_so.then_some((last, snapshot))
    };
    let began = Instant::now();
    let found = std::iter::from_fn(|| {
        std::thread::sleep(Duration::from_millis(10));
        (began.elapsed() < testkit::HANG_GUARD).then(&mut agree)
    });
    let found = found.flatten().next();
    let (last, snapshot) = found.unwrap_or_else(|| panic!("it never had half a second that all agree on: {seen}"));
    let target = of(&snapshot, Role::Target).unwrap();
    assert!(last.user_ns > last.system_ns, "it spins in user space: {last:?}");
    assert!(last.wait_ns >= first.wait_ns);
    assert_eq!(target.threads_total as usize, target.threads.len());
    assert!(target.rss_bytes.unwrap() > 100_000 && target.descriptors.unwrap() >= 1, "{target:?}");
    assert!(observer.statuses().iter().all(|s| s.status != SamplerState::Failed), "{:?}", observer.statuses());
    assert!(of_target(&mut observer).is_empty());
}

#[test]
fn the_machine_is_read_whole() {
    let mut observer = observer(&[], Vec::new());
    let memory_before = observe::capsule().memory_bytes;
    let first = observer.snapshot(-5);
    let busy = wait_for("the clock tick to move", || {
        let snapshot = observer.snapshot(7);
        (snapshot.cpu.unwrap().total_ns() > first.cpu.unwrap().total_ns()).then_some(snapshot)
    });
    assert_eq!((first.at_ns, busy.at_ns), (-5, 7));
    let cores = std::fs::read_to_string("/proc/cpuinfo").unwrap().matches("\nprocessor").count() + 1;
    assert_eq!(busy.cores.len(), cores);
    let sum: u64 = busy.cores.iter().map(|c| c.user_ns + c.system_ns).sum();
    let all = busy.cpu.unwrap().user_ns + busy.cpu.unwrap().system_ns;
    assert!(sum.abs_diff(all) < all / 10 + 1_000_000_000, "cores {sum}, machine {all}");
    // A hypervisor may take memory away meanwhile.
    let memory = memory_before.max(observe::capsule().memory_bytes);
    assert!(busy.memory_available_bytes.unwrap() <= memory && busy.time_wait.is_some());
    // A machine that has just been started may have its clock set, but not again and again.
    let mut wall_offset_ns = first.wall_offset_ns.unwrap();
    let mut moved_ns = || {
        let before_ns = std::mem::replace(&mut wall_offset_ns, observer.snapshot(8).wall_offset_ns.unwrap());
        wall_offset_ns - before_ns
    };
    let moved_ns: Vec<i128> = (0..3).map(|_| moved_ns()).collect();
    assert!(moved_ns.iter().any(|moved| moved.abs() < 10_000_000), "three steps of the clock: {moved_ns:?} ns");
    assert!(busy.suspended_ns.unwrap().abs_diff(first.suspended_ns.unwrap()) < 1_000_000);
    // No target was named: that is said, and the rest is read all the same.
    let statuses = observer.statuses();
    assert_eq!((&*statuses[0].name, statuses[0].status), ("process/target", SamplerState::Disabled));
    assert!(!statuses[0].reason.is_empty());
    assert!(statuses[1..].iter().all(|s| s.status != SamplerState::Failed), "{statuses:?}");
    assert!(of(&busy, Role::Target).is_none() && of(&busy, Role::Generator).is_some());
}

#[test]
fn the_kernels_two_accounts_of_this_process_agree() {
    let mut observer = observer(&[], Vec::new());
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let mut spun = 0u64;
    // Other tests run beside this one in the same process: the reading between two others lies between them.
    let agree = wait_for("enough CPU time", || {
        for i in 0..20_000_000u64 {
            spun = std::hint::black_box(spun.wrapping_add(i));
        }
        let before = observe::own::rusage();
        let snapshot = observer.snapshot(0);
        let after = observe::own::rusage();
        let process = of(&snapshot, Role::Generator).unwrap();
        let (low_ns, high_ns) = (before.user_ns + before.system_ns, after.user_ns + after.system_ns);
        let read_ns = process.user_ns.unwrap() + process.system_ns.unwrap();
        (low_ns > 300_000_000).then_some((low_ns, read_ns, high_ns))
    });
    let (low_ns, read_ns, high_ns) = agree;
    assert!(read_ns + 2 * tick_ns >= low_ns && read_ns <= high_ns + 2 * tick_ns, "{agree:?}");
    let usage = observe::own::rusage();
    assert!(usage.peak_rss_bytes > 500_000, "{usage:?}");
    let since_ns = observe::own::since_process_start_ns().unwrap();
    assert!(u128::from(since_ns) * 64 > u128::from(high_ns), "a process cannot use CPU before it starts: {since_ns}");
}

#[test]
fn a_listener_is_found_wherever_it_is_bound() {
    for (bound, asked) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.44.5.6"),
        ("[::1]:0", "::1"),
        ("[::]:0", "::1"),
        ("[::]:0", "127.0.0.1"),
        ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ("127.0.0.1:0", "0.0.0.0"),
    ] {
        let listener = match TcpListener::bind(bound) {
            Ok(listener) => listener,
            Err(error) => {
                testkit::skip(&format!("{bound}: {error}"));
                continue;
            }
        };
        let address = SocketAddr::new(asked.parse().unwrap(), listener.local_addr().unwrap().port());
        assert!(is_found(&tcp(address)), "{bound} asked as {address}");
    }
}

#[test]
fn a_listener_of_another_address_is_not_taken_for_the_target() {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    // Where nobody else listens on a port that happens to be the same.
    let asked = SocketAddr::new("127.0.0.3".parse().unwrap(), listener.local_addr().unwrap().port());
    assert!(matches!(find(&tcp(asked)), Err(NotFound::NobodyListens { .. })));
    // A connection's local port is no listener.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
    assert!(matches!(find(&tcp(client.local_addr().unwrap())), Err(NotFound::NobodyListens { .. })));
    let remote = find(&tcp("192.0.2.7:80".parse().unwrap())).unwrap_err();
    assert!(remote.to_string().starts_with("the target is on another machine"), "{remote}");
    // In part on another machine: not seen whole, so not seen.
    let both = [Address::Tcp(server.local_addr().unwrap()), Address::Tcp("192.0.2.7:80".parse().unwrap())];
    assert!(matches!(find(&both), Err(NotFound::Remote { .. })));
    assert!(matches!(find(&[]), Err(NotFound::NoAddress)));
    // One of a name's two addresses has no listener: the other is the target.
    let some = [Address::Tcp(server.local_addr().unwrap()), Address::Tcp(asked)];
    assert!(is_found(&some));
}

#[test]
fn a_unix_listener_is_found_by_any_name_of_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a socket");
    let listener = UnixListener::bind(&path).unwrap();
    let other_name = folder.path().join(".").join("a socket");
    for asked in [path.clone(), other_name] {
        assert!(is_found(&[Address::Unix(asked)]));
    }
    drop(listener);
    // Another test's child may hold it for a while, between its fork and its exec.
    testkit::wait_until("nobody listens any more", || {
        matches!(find(&[Address::Unix(path.clone())]), Err(NotFound::NobodyListens { .. }))
    });
}

#[test]
fn all_holders_of_a_shared_listener_are_found() {
    let nginx = match testkit::nginx::Nginx::start("") {
        Ok(nginx) => nginx,
        Err(error) => return testkit::skip(&error.to_string()),
    };
    let pids = wait_for("master and worker", || find(&tcp(nginx.address())).ok().filter(|pids| pids.len() >= 2));
    let names: Vec<String> = pids.iter().map(|p| std::fs::read_to_string(format!("/proc/{p}/comm")).unwrap()).collect();
    assert!(names.iter().all(|n| n.trim() == "nginx"), "{names:?}");
    let snapshot = observer(&pids, tcp(nginx.address())).snapshot(0);
    assert_eq!(snapshot.processes.iter().filter(|p| p.role == Role::Target).count(), pids.len());
}

#[test]
fn an_end_is_an_event_even_before_it_is_reaped_and_so_is_a_successor() {
    let address = free_address(4);
    let mut first = helper("helper_listen", &address.to_string());
    wait_for("the listener", || find(&tcp(address)).ok());
    let mut observer = observer(&[first.pid()], tcp(address));
    assert_eq!(of(&observer.snapshot(0), Role::Target).map(|p| p.pid), Some(first.pid()));
    assert!(of_target(&mut observer).is_empty());

    // Killed and not waited for, it is a zombie: its id is there, the process is not.
    first.child().kill().unwrap();
    let mut at_ns = 0;
    let gone = wait_for("its end", || {
        at_ns += 10_000_000;
        let snapshot = observer.snapshot(at_ns);
        of(&snapshot, Role::Target).is_none().then(|| of_target(&mut observer))
    });
    assert_eq!(kinds(&gone), ["target-gone"]);
    assert!(gone[0].text.contains(&first.pid().to_string()) && gone[0].at_ns == at_ns, "{gone:?}");
    assert_eq!(observer.statuses()[0].status, SamplerState::Failed);
    assert!(observer.statuses()[1..].iter().all(|s| s.status != SamplerState::Failed));

    let second = helper("helper_listen", &address.to_string());
    let restarted = wait_for("its successor", || {
        at_ns += 1_000_000_000;
        let snapshot = observer.snapshot(at_ns);
        of(&snapshot, Role::Target).map(|p| p.pid).zip(Some(of_target(&mut observer))).filter(|(_, e)| !e.is_empty())
    });
    assert_eq!((restarted.0, kinds(&restarted.1)), (second.pid(), vec!["target-restarted"]));
    at_ns += 1_000_000_000;
    assert_eq!(of(&observer.snapshot(at_ns), Role::Target).map(|p| p.pid), Some(second.pid()));
    assert!(of_target(&mut observer).is_empty(), "said once");
    assert_eq!(observer.statuses()[0].status, SamplerState::Active);
}

#[test]
fn a_target_that_ended_before_the_first_snapshot_is_said_to_be_gone() {
    let mut child = helper("helper_listen", "nowhere");
    assert!(child.wait(testkit::HANG_GUARD).is_some());
    let mut observer = observer(&[child.pid()], Vec::new());
    assert!(of(&observer.snapshot(0), Role::Target).is_none());
    assert_eq!(kinds(&of_target(&mut observer)), ["target-gone"]);
    // And nothing more, for ever.
    for i in 1..5 {
        observer.snapshot(i * 2_000_000_000);
    }
    assert!(of_target(&mut observer).is_empty());
}

/// Listens on a thread of its own, then ends the first thread only (exit(2), whose number is the first argument): the test
/// harness runs tests on other threads than the first, so this is no helper of this program.
const OUTLIVES_ITS_FIRST_THREAD: &str = "
import ctypes, socket, sys, threading, time
listener = socket.create_server((sys.argv[2], int(sys.argv[3])))
threading.Thread(target=time.sleep, args=(240,)).start()
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)
";

#[test]
fn a_process_that_outlives_its_first_thread_is_not_gone() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let address = free_address(5);
    let mut command = Command::new(python);
    command.args(["-c", OUTLIVES_ITS_FIRST_THREAD, &libc::SYS_exit.to_string()]);
    command.args([address.ip().to_string(), address.port().to_string()]);
    let mut child = Guard::spawn(&mut command).unwrap();
    wait_for("the end of its first thread", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid())).ok()?;
        stat.contains(") Z ").then_some(())
    });
    assert_eq!(find(&tcp(address)).unwrap(), [child.pid()]);
    let mut observer = observer(&[child.pid()], tcp(address));
    let snapshot = observer.snapshot(0);
    assert!(of_target(&mut observer).is_empty());
    let process = of(&snapshot, Role::Target).expect("it lives on in its other thread");
    assert_eq!(process.threads_total, 2, "the first is a zombie until the last has ended: {process:?}");
    assert!(process.rss_bytes.unwrap() > 0 && process.descriptors.unwrap() > 0, "{process:?}");
    assert!(observer.statuses().iter().all(|s| s.status != SamplerState::Failed), "{:?}", observer.statuses());

    child.child().kill().unwrap();
    assert!(child.wait(testkit::HANG_GUARD).is_some());
    observer.snapshot(1);
    assert_eq!(kinds(&of_target(&mut observer)), ["target-gone"]);
}

/// Copies this program to where anybody may start it.
fn for_anybody() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("observe-test");
    copy_program(&std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, program)
}

#[test]
fn without_privileges_it_reads_what_it_may_and_says_what_it_may_not() {
    if !testkit::is_root() {
        return testkit::skip("becoming another user needs root");
    }
    let Some(setpriv) = testkit::program("setpriv") else { return testkit::skip("setpriv is not installed") };
    let (_folder, program) = for_anybody();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let output = Command::new(setpriv)
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(program)
        .args(["--exact", "helper_unprivileged", "--ignored", "--nocapture"])
        .env(HELP, format!("{} {address}", std::process::id()))
        .current_dir(Path::new("/"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "a child of other tests"]
fn helper_unprivileged() {
    let Some(argument) = argument() else { return };
    let (pid, address) = argument.split_once(' ').unwrap();
    let (pid, address): (u32, SocketAddr) = (pid.parse().unwrap(), address.parse().unwrap());
    // Somebody listens, and that is all that may be known.
    let why = find(&tcp(address)).unwrap_err();
    assert!(matches!(why, NotFound::NotPermitted { .. }), "{why:?}");
    assert!(why.to_string().contains("CAP_SYS_PTRACE"), "{why}");
    // Of a process of root: its threads' times, not whatever is behind its descriptors.
    let mut observer = observer(&[pid], tcp(address));
    let snapshot = observer.snapshot(0);
    let target = of(&snapshot, Role::Target).expect("anybody may see that a process is there");
    assert!(target.threads.iter().any(|t| t.run_ns.is_some()), "{target:?}");
    assert!(target.rss_bytes.is_some());
    assert!(snapshot.cpu.is_some() && snapshot.memory_available_bytes.is_some());
    let memory = observer.statuses().into_iter().find(|s| s.name == "process/memory").unwrap();
    if target.descriptors.is_none() {
        assert!(memory.status == SamplerState::Failed && memory.reason.contains("CAP_SYS_PTRACE"), "{memory:?}");
    } else {
        assert_eq!(memory.status, SamplerState::Active, "{memory:?}");
    }
    assert!(of_target(&mut observer).is_empty(), "not to be read is not to be gone");
}

#[test]
fn without_descriptors_nothing_is_said_to_be_gone() {
    let mut child = helper("helper_starved", "1");
    let status = child.wait(testkit::HANG_GUARD).expect("it ends");
    assert!(status.success());
}

#[test]
#[ignore = "a child of other tests"]
fn helper_starved() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if argument().is_none() {
        return;
    }
    let own = std::process::id();
    let mut observer = observer(&[own], Vec::new());
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum }).unwrap();
    let snapshot = observer.snapshot(0);
    assert!(snapshot.wall_offset_ns.is_some() && snapshot.cpu.is_none() && snapshot.processes.is_empty());
    assert!(of_target(&mut observer).is_empty());
    let statuses = observer.statuses();
    assert_eq!(statuses[0].status, SamplerState::Failed, "{statuses:?}");
    assert!(statuses[0].reason.contains("ulimit -n"), "{statuses:?}");
    setrlimit(Resource::Nofile, Rlimit { current: Some(64.min(maximum.unwrap_or(64))), maximum }).unwrap();
    let snapshot = observer.snapshot(1);
    assert!(snapshot.cpu.is_some() && of(&snapshot, Role::Target).is_some(), "it recovers");
    assert!(observer.statuses().iter().all(|s| s.status != SamplerState::Failed), "{:?}", observer.statuses());
}
