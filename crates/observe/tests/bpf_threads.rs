//! How threads spend a window: states that add up to the time that each lived, beside the kernel's own account of CPU time
//! and beside what each thread is known to do; who holds futexes, who wakes whom, stalls and pauses of all. For root, on a
//! kernel with BTF, with gcc.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use model::plan::Address;
use model::threads::{Pause, ThreadStates, ThreadTime};
use observe::ObserveSpec;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::process::Guard;

mod common;
use common::{bpf, can_run, observer};

const MS: u64 = 1_000_000;
/// The target needs a CPU of its own part of the time.
static TURN: Mutex<()> = Mutex::new(());

/// `testdata/threads.c`, compiled; `None`: there is no compiler.
fn program(folder: &Path) -> Option<PathBuf> {
    let compiler = testkit::program("cc").or_else(|| testkit::program("gcc"))?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/threads.c");
    let made = folder.join("threads");
    let status = Command::new(compiler).args(["-O1", "-w", "-o"]).arg(&made).arg(source).arg("-lpthread").status();
    assert!(status.unwrap().success());
    Some(made)
}

/// What threads ran between two moments.
struct Ran {
    /// By name: their ids, and their time on a CPU as the kernel counts it.
    of: BTreeMap<String, (u32, u64)>,
    /// What interrupts and the hypervisor took of all CPUs.
    taken_ns: u64,
    /// Between the two.
    passed_ns: u64,
}

/// Time of interrupts, soft interrupts and of what was stolen, of all CPUs (proc(5), `/proc/stat`).
fn taken_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = text.lines().next().unwrap().split_whitespace().skip(6).take(3);
    ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>() * 10 * MS
}

/// The target with a client, and a backend that answers it, each a byte every 40 ms.
struct Target {
    process: Guard,
    address: SocketAddr,
    backend: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Target {
    fn start(more: &[&str]) -> Option<Target> {
        if !can_run() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = program(folder.path()) else {
            testkit::skip("there is no C compiler");
            return None;
        };
        let backend = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut command = Command::new(program);
        command.arg(backend.local_addr().unwrap().port().to_string()).args(more).current_dir(folder.path());
        let mut process = Guard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
        let mut said = BufReader::new(process.child().stdout.take().unwrap()).lines();
        let port: u16 = said.next().unwrap().unwrap().parse().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let client = TcpStream::connect(address).unwrap();
        let accepted = backend.accept().unwrap().0;
        assert_eq!(said.next().unwrap().unwrap(), "begun");
        for mut connection in [client, accepted] {
            std::thread::spawn(move || {
                while connection.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(40));
                }
            });
        }
        Some(Target { process, address, backend: backend.local_addr().unwrap(), _folder: folder })
    }

    fn spec(&self, probes: Level) -> ObserveSpec {
        let (target, addresses) = (vec![self.process.pid()], vec![Address::Tcp(self.address)]);
        ObserveSpec { target, addresses, probes, ..ObserveSpec::default() }
    }

    /// Time on a CPU of each thread so far, as the kernel has it, and their ids, by name.
    fn ran(&self) -> BTreeMap<String, (u32, u64)> {
        let folder = format!("/proc/{}/task", self.process.pid());
        let read = |tid: u32| {
            let of = |name: &str| std::fs::read_to_string(format!("{folder}/{tid}/{name}")).ok();
            let ran_ns = of("schedstat")?.split(' ').next()?.parse().ok()?;
            Some((of("comm")?.trim().to_owned(), (tid, ran_ns)))
        };
        let tids = std::fs::read_dir(&folder).unwrap().flatten();
        tids.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    /// A window of somewhat more than 0.9 s, and how long each thread was on a CPU in it as the kernel counts it.
    fn window(&self) -> (ThreadStates, model::bpf::BpfSample, Ran) {
        let mut observer = observer(self.spec(Level::Windows));
        observer.snapshot(0);
        let (before, taken_before_ns, began) = (self.ran(), taken_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(1000));
        let passed_ns = began.elapsed().as_nanos() as u64;
        let (mut after, taken_ns) = (self.ran(), taken_ns() - taken_before_ns);
        let snapshot = observer.snapshot(1_000_000_000);
        for (name, (_, ran_ns)) in &mut after {
            *ran_ns = ran_ns.saturating_sub(before.get(name).map_or(0, |(_, ran_ns)| *ran_ns));
        }
        let bpf = bpf(&snapshot).clone();
        assert_eq!(bpf.windows, 1);
        let lost: Vec<_> = bpf
            .counts
            .iter()
            .filter(|(name, n)| name.starts_with("threads.") && name.ends_with("_lost") && **n > 0)
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
        (bpf.threads.clone().expect("a window has ended"), bpf, Ran { of: after, taken_ns, passed_ns })
    }
}

fn named<'a>(states: &'a ThreadStates, name: &str) -> &'a ThreadTime {
    let all = || states.threads.iter().map(|thread| &thread.name).collect::<Vec<_>>();
    states.threads.iter().find(|thread| thread.name == name).unwrap_or_else(|| panic!("{name} is none of {:?}", all()))
}

fn ns(thread: &ThreadTime, state: &str) -> u64 {
    thread.ns.get(state).copied().unwrap_or(0)
}

fn main_state(thread: &ThreadTime) -> &str {
    thread.ns.iter().max_by_key(|(_, ns)| **ns).unwrap().0
}

#[test]
fn states_add_up_to_the_time_that_each_thread_lived_and_are_what_it_did() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(target) = Target::start(&[]) else { return };
    testkit::wait_until("its threads run", || target.ran().contains_key("parent"));
    let (states, bpf, ran) = target.window();
    assert!(
        states.window_ns > 800 * MS && states.window_ns <= bpf.window_ns + 100 * MS,
        "{} of {}",
        states.window_ns,
        bpf.window_ns
    );
    // Every moment of every thread is in one state.
    for thread in states.threads.iter().chain(&states.others) {
        let sum: u64 = thread.ns.values().sum();
        // One that begins or ends at the window's edge has a moment of it on either side.
        assert!(sum.abs_diff(thread.alive_ns) <= (thread.alive_ns / 100).max(MS / 10), "{thread:?}");
    }
    // Those that were there all the time lived as long as the window.
    for name in
        ["spins", "sleeps", "accepts", "client", "asks", "polls", "pipe-reads", "syncs", "wants-running", "parent"]
    {
        let thread = named(&states, name);
        assert!(
            thread.alive_ns.abs_diff(states.window_ns) <= states.window_ns / 100,
            "{thread:?} of {}",
            states.window_ns
        );
    }
    // One after the other, threads of 10 ms: together they lived nearly all the time.
    let others = states.others.as_ref().expect("some ended");
    assert!(others.threads >= 5 && others.alive_ns > states.window_ns / 3, "{others:?}");
    assert!(others.alive_ns <= states.window_ns, "{others:?}");
    // CPU time beside the kernel's own account, which leaves out what interrupts and the hypervisor took of it.
    let (own, by_kernel) = (ns(named(&states, "spins"), "on-cpu"), ran.of["spins"].1);
    // Loading and ending one probe after the other takes its time on a busy machine.
    let slack = states.window_ns / 50 + states.window_ns.abs_diff(ran.passed_ns);
    assert!(
        own + slack >= by_kernel && own <= by_kernel + ran.taken_ns + slack,
        "{own} beside {by_kernel}, {} taken",
        ran.taken_ns
    );
    // What each does.
    for (name, state, at) in [
        ("sleeps", "sleep", "none"),
        ("client", "socket", "client"),
        ("asks", "socket", "backend"),
        ("asks-path", "socket", "backend"),
        ("polls", "poll", "epoll"),
        ("pipe-reads", "pipe", "pipe"),
    ] {
        let thread = named(&states, name);
        assert_eq!(main_state(thread), state, "{thread:?}");
        let first = &thread.waits[0];
        assert_eq!((&*first.state, &*first.at), (state, at), "{thread:?}");
        assert!(first.ns <= ns(thread, state) && first.longest_ns <= first.ns && first.count > 0, "{thread:?}");
    }
    // It had no event: its state is read.
    assert_eq!((main_state(named(&states, "accepts")), named(&states, "accepts").waits.len()), ("socket", 0));
    let asks = &named(&states, "asks").waits[0];
    assert_eq!(
        (asks.call.as_str(), asks.remote.as_deref()),
        ("recvfrom", Some(&*target.backend.to_string())),
        "{asks:?}"
    );
    let syncs = named(&states, "syncs");
    // Where a disk (or what stands for one) is never waited for there is no wait to be seen.
    let at_file: Vec<_> = syncs.waits.iter().filter(|wait| wait.at == "log").collect();
    assert!(at_file.iter().all(|wait| wait.call == "fsync" || wait.call == "write"), "{syncs:?}");
    assert_eq!(ns(syncs, "disk") > 0, at_file.iter().any(|wait| wait.state == "disk"), "{syncs:?}");
}

/// A parent that waits for a child reaps it before the child has left its CPU for good.
#[test]
fn processes_that_have_ended_are_on_no_cpu() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !can_run() {
        return;
    }
    let mut shell = Command::new("sh");
    let shell = Guard::spawn(shell.args(["-c", "while :; do sleep 0.02; done"])).unwrap();
    let spec = ObserveSpec { target: vec![shell.pid()], probes: Level::Windows, ..ObserveSpec::default() };
    let mut observer = observer(spec);
    observer.snapshot(0);
    std::thread::sleep(Duration::from_millis(1000));
    let snapshot = observer.snapshot(1_000_000_000);
    let states = bpf(&snapshot).threads.as_ref().expect("a window has ended");
    let of = |state: &str| states.threads.iter().chain(&states.others).map(|thread| ns(thread, state)).sum::<u64>();
    assert!(states.others.as_ref().is_some_and(|others| others.threads >= 5), "{states:?}");
    assert!(of("sleep") > states.window_ns / 3, "{states:?}");
    assert!(of("on-cpu") < states.window_ns, "never more than two at a time: {states:?}");
    assert!(states.threads.len() < 5, "those that ended are told together: {states:?}");
}

#[test]
fn who_holds_a_mutex_and_whether_it_ran_is_told_and_who_woke_whom() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(target) = Target::start(&[]) else { return };
    testkit::wait_until("its threads run", || target.ran().contains_key("parent"));
    let (states, bpf, ran) = target.window();
    let tid = |name: &str| ran.of[name].0;
    for (waiter, holder, runs) in [("wants-asleep", "holds-asleep", false), ("wants-running", "holds-running", true)] {
        let held: Vec<_> =
            states.holders.iter().filter(|held| held.name == holder && held.known_by == "owner").collect();
        let [held] = held[..] else { panic!("{holder}: {:?}", states.holders) };
        assert_eq!((held.tid, held.pid), (tid(holder), target.process.pid()), "{held:?}");
        // Beside how long the waiter was in that state.
        let waited = ns(named(&states, waiter), "futex");
        assert!(held.ns <= waited + MS && held.ns > waited / 2, "{held:?} of {waited}");
        let share = held.ran_ns as f64 / held.ns as f64;
        // It spins for as long as it holds it, and has no CPU of its own; or it sleeps.
        if runs {
            let off = ns(named(&states, holder), "runnable") as f64 / held.ns as f64;
            assert!(share > 0.6 - off && share > 0.1, "{held:?}, without a CPU {off}");
        } else {
            assert!(share < 0.2, "{held:?}");
        }
        let woken = states.wakes.iter().find(|wake| wake.tid == tid(waiter) && wake.state == "futex").unwrap();
        assert_eq!((&*woken.by, woken.waker_tid, &*woken.waker_name), ("thread", tid(holder), holder), "{woken:?}");
        assert_eq!(states.chain(tid(waiter))[0].waker_tid, tid(holder));
    }
    // A timer wakes who sleeps, a writer who reads.
    let wakes =
        |name: &str| states.wakes.iter().filter(|wake| wake.tid == tid(name)).max_by_key(|wake| wake.ns).unwrap();
    assert_eq!(wakes("sleeps").by, "interrupt", "{:?}", wakes("sleeps"));
    assert_eq!(wakes("pipe-reads").waker_tid, tid("pipe-writes"), "{:?}", wakes("pipe-reads"));
    // A backend's reply is waited for 40 ms each time, and for the mutex of who sleeps 15 ms: both are stalls.
    for (name, state, at) in [("asks", "socket", "backend"), ("wants-asleep", "futex", "none")] {
        let stalls: Vec<_> =
            states.stalls.iter().filter(|stall| stall.tid == tid(name) && stall.state == state).collect();
        assert!(
            !stalls.is_empty() && stalls.iter().all(|stall| stall.at == at && stall.ns >= 5 * MS),
            "{name}: {stalls:?}"
        );
    }
    // One spins: there is no pause of all but where it has no CPU.
    assert!(states.pauses.iter().all(|pause| pause.threads.contains_key("runnable")), "{:?}", states.pauses);
    // Whoever holds the mutex makes no call meanwhile; the others' long calls are told by what they are at.
    let long = |name: &str, at: &str| bpf.long_calls.iter().find(|call| call.name == name && call.at == at);
    let in_none = long("none", "none").unwrap_or_else(|| panic!("{:?}", bpf.long_calls));
    assert!(in_none.longest_ns >= 9 * MS, "{in_none:?}");
    for (name, at) in
        [("recvfrom", "backend"), ("read", "client"), ("epoll_wait", "epoll"), ("clock_nanosleep", "none")]
    {
        // Where a machine has no `epoll_wait`, libc makes another.
        let call = long(name, at).or_else(|| long(&name.replace("wait", "pwait"), at));
        let call = call.unwrap_or_else(|| panic!("{name} at {at}: {:?}", bpf.long_calls));
        assert!(call.longest_ns >= 10 * MS && call.ns >= call.longest_ns && call.count > 0, "{call:?}");
    }
}

#[test]
fn a_process_that_is_stopped_pauses_with_all_its_threads() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(target) = Target::start(&["sleeps-only"]) else { return };
    let mut observer = observer(target.spec(Level::Full));
    std::thread::sleep(Duration::from_millis(100));
    let quiet = bpf(&observer.snapshot(1)).threads.clone().unwrap();
    // It sleeps for 20 ms at a time, which is all that its threads do.
    let asleep = quiet.pauses.iter().filter(|pause| pause.state() == Some("sleep")).count();
    assert!(asleep > 0, "{quiet:?}");
    // On a busy machine it may wait for a CPU as well.
    assert!(quiet.pauses.iter().all(|pause| matches!(pause.state(), Some("sleep" | "runnable"))), "{:?}", quiet.pauses);
    target.process.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(150));
    target.process.signal(libc::SIGCONT);
    let stopped = testkit::wait_for("its going on", || {
        let states = bpf(&observer.snapshot(2)).threads.clone().unwrap();
        states.pauses.into_iter().find(|pause| pause.threads.contains_key("stopped"))
    });
    assert_eq!(stopped.threads, BTreeMap::from([("stopped".to_owned(), 1)]), "{stopped:?}");
    assert!(stopped.ns > 100 * MS, "{stopped:?}");
    assert_eq!(Pause::default().state(), None);
}

/// A control group of a test's own with a fifth of a CPU, in version 1 or 2; removed when dropped.
struct Quota(PathBuf);

impl Quota {
    /// `None`: no such group can be made here.
    fn of(pid: u32) -> Option<Self> {
        let name = format!("plimsoll-threads-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        let second = Path::new("/sys/fs/cgroup");
        let (root, settings) = if first.join("cpu.cfs_quota_us").exists() || first.join("cpu.shares").exists() {
            (first, [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")].as_slice())
        } else {
            (second, [("cpu.max", "20000 100000")].as_slice())
        };
        let group = Quota(root.join(name));
        std::fs::create_dir(&group.0).ok()?;
        for (file, text) in settings {
            std::fs::write(group.0.join(file), text).ok()?;
        }
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }

    /// How long its threads were throttled, nanoseconds.
    fn throttled_ns(&self) -> u64 {
        let text = std::fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        of("throttled_time ").or_else(|| of("throttled_usec ").map(|us| us * 1000)).unwrap_or(0)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_thread_whose_group_has_used_up_its_quota_is_throttled_and_not_waiting_for_a_cpu() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(target) = Target::start(&["spins-only"]) else { return };
    let Some(quota) = Quota::of(target.process.pid()) else {
        return testkit::skip("no group with a CPU quota can be made here");
    };
    let before_ns = quota.throttled_ns();
    let (states, _, _) = target.window();
    let by_kernel_ns = quota.throttled_ns() - before_ns;
    let spins = &states.threads[0];
    let (throttled, runnable) = (ns(spins, "throttled"), ns(spins, "runnable"));
    // Of each tenth of a second a fifth is left to it at the most. What the machine's others take is beside that.
    assert!(throttled > 0 && throttled + runnable > states.window_ns / 2, "{spins:?}, by the kernel {by_kernel_ns}");
    // The kernel counts for each CPU, and the group's period may begin before the window and end after it.
    assert!(throttled <= by_kernel_ns + 200 * MS, "{spins:?}, by the kernel {by_kernel_ns}");
    assert!(throttled * 2 > by_kernel_ns.saturating_sub(200 * MS), "{spins:?}, by the kernel {by_kernel_ns}");
    assert!(
        states.stalls.iter().any(|stall| stall.state == "throttled" && stall.call == "none"),
        "{:?}",
        states.stalls
    );
    drop(target);
    drop(quota);
}

#[test]
fn where_threads_stand_says_at_which_kind_of_descriptor() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(target) = Target::start(&[]) else { return };
    testkit::wait_until("its threads run", || target.ran().contains_key("parent"));
    let mut observer = observer(target.spec(Level::None));
    let mut seen: BTreeMap<String, (String, u32)> = BTreeMap::new();
    let wanted = [
        ("accepts", "listener"),
        ("client", "client"),
        ("asks", "backend"),
        ("asks-path", "backend"),
        ("polls", "epoll"),
        ("pipe-reads", "pipe"),
    ];
    // A reading of sockets is not repeated before two hundred times its cost; until then what is new is a socket.
    testkit::wait_until("all are told", || {
        let snapshot = observer.snapshot(1);
        let process = snapshot.processes.iter().find(|process| process.pid == target.process.pid()).unwrap();
        for thread in &process.threads {
            let stands = thread.stands.clone().unwrap_or_default();
            if let (Some(at), Some(descriptor)) = (stands.at, stands.descriptor) {
                seen.insert(thread.name.clone(), (at, descriptor));
            } else {
                // No call at a descriptor, no kind of it.
                assert!(!["accepts", "asks"].contains(&&*thread.name) || stands.is_running, "{thread:?}");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
        wanted.iter().all(|(name, at)| seen.get(*name).is_some_and(|(seen, _)| seen == at))
    });
    // The descriptor is the one that the process has there.
    for (name, prefix) in [("accepts", "socket:["), ("polls", "anon_inode:[eventpoll]"), ("pipe-reads", "pipe:[")] {
        let link = std::fs::read_link(format!("/proc/{}/fd/{}", target.process.pid(), seen[name].1)).unwrap();
        assert!(link.to_string_lossy().starts_with(prefix), "{name}: {link:?}");
    }
}
