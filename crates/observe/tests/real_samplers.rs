//! The samplers against a real kernel: targets that fork, run another program, live in a network of their own, overflow
//! their accept queue, are killed for want of memory; and with no rights.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::snapshot::{ProcessSample, Role, SamplerState};
use model::{Event, Snapshot};
use observe::{ObserveSpec, Observer};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use testkit::process::{Guard, copy_program};
use testkit::wait_for;

fn observer(target: u32) -> Observer {
    Observer::new(ObserveSpec { target: vec![target], own_pid: std::process::id(), ..ObserveSpec::default() })
}

fn target(snapshot: &Snapshot) -> Vec<&ProcessSample> {
    snapshot.processes.iter().filter(|p| p.role == Role::Target).collect()
}

/// A process of its own whose stdin and stdout are ours.
fn talking(command: &mut Command) -> Guard {
    Guard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
}

/// The next line it says.
fn heard(guard: &mut Guard) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, guard.child().stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| &*event.kind).collect()
}

/// What happened to the target. Other tests beside this one have processes killed for memory, which the kernel logs for all.
fn of_target(observer: &mut Observer) -> Vec<Event> {
    observer.take_events().into_iter().filter(|event| event.kind.starts_with("target-")).collect()
}

#[test]
fn a_child_is_taken_in_and_its_end_is_no_end_of_the_target() {
    let mut shell = talking(
        Command::new("sh")
            .args(["-c", "echo ready; read x; sleep 600 & echo $!; read x; kill $!; wait; echo done; read x"]),
    );
    assert_eq!(heard(&mut shell), "ready");
    let mut observer = observer(shell.pid());
    assert_eq!(target(&observer.snapshot(0)).len(), 1);
    let say = |shell: &mut Guard| {
        shell.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        heard(shell)
    };
    let child: u32 = say(&mut shell).parse().unwrap();
    let pids: Vec<u32> = target(&observer.snapshot(1)).iter().map(|p| p.pid).collect();
    assert_eq!(pids, [shell.pid(), child]);
    let snapshot = observer.snapshot(2);
    assert_eq!(target(&snapshot)[0].metrics.of("children"), Some(1));
    assert!(target(&snapshot)[1].rss_bytes.is_some() && !target(&snapshot)[1].threads.is_empty(), "{snapshot:?}");
    assert!(of_target(&mut observer).is_empty());
    assert_eq!(say(&mut shell), "done");
    assert_eq!(target(&observer.snapshot(3)).len(), 1);
    assert!(of_target(&mut observer).is_empty(), "children come and go");
}

#[test]
fn of_who_holds_an_address_only_children_of_the_same_program_are_taken_in() {
    let mut shell = talking(Command::new("sh").args(["-c", "sleep 600 & echo ready; read x; kill $!"]));
    assert_eq!(heard(&mut shell), "ready");
    let address = model::plan::Address::Tcp(([127, 0, 0, 1], 9).into());
    let spec = ObserveSpec { target: vec![shell.pid()], own_pid: std::process::id(), ..ObserveSpec::default() };
    let mut of_address = Observer::new(ObserveSpec { addresses: vec![address], ..spec.clone() });
    let mut of_process = Observer::new(spec);
    wait_for("its child's exec", || {
        let names = |s: &Snapshot| target(s).iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        (names(&of_process.snapshot(0)).contains(&"sleep".to_owned())).then_some(())
    });
    let snapshot = of_address.snapshot(1);
    assert!(target(&snapshot).iter().all(|p| p.name == "sh"), "{:?}", snapshot.processes);
    // The shell ends its child, which would outlive it.
    shell.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    shell.wait(testkit::HANG_GUARD).expect("it ends");
}

#[test]
fn another_program_in_the_same_process_is_said() {
    let mut shell = talking(Command::new("sh").args(["-c", "echo ready; read x; exec cat"]));
    assert_eq!(heard(&mut shell), "ready");
    let mut observer = observer(shell.pid());
    observer.snapshot(0);
    shell.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let events = wait_for("its exec", || {
        let snapshot = observer.snapshot(1);
        assert_eq!(target(&snapshot).len(), 1);
        Some(of_target(&mut observer)).filter(|events| !events.is_empty())
    });
    assert_eq!(kinds(&events), ["target-executed"]);
    assert!(events[0].text.contains("cat"), "{events:?}");
}

#[test]
fn where_threads_stand_and_what_they_hold_is_read() {
    let mut cat = talking(&mut Command::new("cat"));
    let pid = cat.pid();
    let mut observer = observer(pid);
    let stands = wait_for("its read", || {
        let snapshot = observer.snapshot(0);
        let thread = target(&snapshot)[0].threads[0].clone();
        thread.stands.filter(|s| s.syscall == Some(libc::SYS_read))
    });
    assert!(!stands.is_running);
    cat.child().stdin.as_mut().unwrap().write_all(b"one\n").unwrap();
    assert_eq!(heard(&mut cat), "one");
    // Shares of pages are counted every ten seconds.
    let snapshot = observer.snapshot(10_000_000_000);
    let process = target(&snapshot)[0];
    assert!(process.threads[0].switches.unwrap().voluntary >= 1, "{process:?}");
    for name in ["rss_anonymous_bytes", "pss_bytes", "descriptors_limit", "io_calls_read", "started_ns", "page_faults"]
    {
        assert!(process.metrics.of(name).is_some_and(|value| value > 0), "{name}: {process:?}");
    }
    assert!(process.metrics.of("io_calls_read_bytes").unwrap() >= 4);
    assert_eq!(process.metrics.of("files_deleted"), Some(0));
}

/// Listens with a backlog of two, connects to itself eight times, accepts none.
const OVERFLOWS: &str = "
import socket, sys
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(2)
clients = []
for _ in range(8):
    c = socket.socket(); c.setblocking(False); c.connect_ex(listener.getsockname()); clients.append(c)
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
";

#[test]
fn a_target_in_a_network_of_its_own_is_read_there() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    if !testkit::is_root() {
        return testkit::skip("a network namespace needs root");
    }
    let own = observer(std::process::id()).snapshot(0);
    let mut command = Command::new(python);
    let mut there = talking(testkit::network::of_its_own(command.args(["-c", OVERFLOWS])));
    let port: u16 = heard(&mut there).parse().unwrap();
    let mut observer = observer(there.pid());
    // Connections are walked for a share of the time only, so it has to pass.
    let mut at_ns = 0;
    let snapshot = wait_for("the overflow", || {
        at_ns += 1_000_000_000;
        let snapshot = observer.snapshot(at_ns);
        (snapshot.network.of("listen_overflows")? > 0).then_some(snapshot)
    });
    assert_eq!(snapshot.network_pid, Some(there.pid()));
    assert!(snapshot.network.of("listen_drops") >= snapshot.network.of("listen_overflows"));
    assert_eq!(snapshot.listeners.len(), 1, "{:?}", snapshot.listeners);
    let listener = &snapshot.listeners[0];
    assert_eq!((&*listener.address, listener.backlog), (&*format!("127.0.0.1:{port}"), 2));
    assert_eq!(listener.waiting, 3, "one more than the backlog fits");
    assert_eq!(snapshot.interfaces.keys().collect::<Vec<_>>(), ["lo"]);
    assert_eq!(snapshot.network.of("connections_looked_at"), Some(3), "{:?}", snapshot.network);
    let opens = |s: &Snapshot| s.network.of("tcp_active_opens").unwrap();
    assert_eq!(opens(&snapshot), 8, "the counters are of that namespace only: here they are {}", opens(&own));
    // And it is found from here by its port, unless somebody here happens to listen on the same one.
    let (pids, addresses) = observe::target::find_port(port).unwrap();
    if addresses.is_empty() {
        assert_eq!(pids, [there.pid()]);
    }
    assert!(observer.statuses().iter().all(|s| s.status != SamplerState::Failed), "{:?}", observer.statuses());
}

#[test]
fn connections_of_the_target_are_summed_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    let mut servers: Vec<_> = (0..6).map(|_| listener.accept().unwrap().0).collect();
    // Each end measures its round trips by what it sends.
    for (client, server) in clients.iter_mut().zip(&mut servers) {
        server.write_all(&[1; 500]).unwrap();
        client.read_exact(&mut [0; 500]).unwrap();
        client.write_all(&[1; 70]).unwrap();
    }
    drop(clients.pop());
    let mut observer = observer(std::process::id());
    let address = listener.local_addr().unwrap().to_string();
    // Connections are walked for a share of the time only, so it has to pass.
    let mut at_ns = 0;
    let snapshot = wait_for("the close", || {
        at_ns += 1_000_000_000;
        let snapshot = observer.snapshot(at_ns);
        (snapshot.network.of("connections_close_wait")? >= 1).then_some(snapshot)
    });
    // Other tests of this program listen too; theirs are in the sums.
    assert!(snapshot.listeners.iter().any(|l| l.address == address), "{:?}", snapshot.listeners);
    let of = |name: &str| snapshot.network.of(name).unwrap_or_else(|| panic!("{name}: {:?}", snapshot.network));
    assert!(of("connections_looked_at") >= 5);
    assert!(of("receive_queue_bytes") >= 6 * 70 && of("receive_queue_connections") >= 6);
    assert!(of("rtt_p50_ns") > 0 && of("rtt_p50_ns") <= of("rtt_p99_ns") && of("rtt_p99_ns") <= of("rtt_max_ns"));
    assert!(of("tcp_established") >= 5 && of("tcp_sockets") >= 5);
}

#[test]
fn a_kill_for_want_of_memory_is_an_event_and_counted_by_its_group() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let group = std::path::PathBuf::from(format!("/sys/fs/cgroup/memory/plimsoll-test-{}", std::process::id()));
    if !testkit::is_root() || std::fs::create_dir(&group).is_err() {
        return testkit::skip("a memory group needs root and cgroup version 1");
    }
    let eats =
        "import sys; print('ready', flush=True); sys.stdin.readline(); x = [bytearray(1 << 20) for _ in range(400)]";
    let mut eater = talking(Command::new(python).args(["-c", eats]));
    assert_eq!(heard(&mut eater), "ready");
    // Swap would only make it slow.
    std::fs::write(group.join("memory.limit_in_bytes"), "50000000").unwrap();
    let has_no_swap = std::fs::write(group.join("memory.memsw.limit_in_bytes"), "50000000").is_ok()
        || std::fs::read_to_string("/proc/swaps").unwrap().lines().count() == 1;
    std::fs::write(group.join("cgroup.procs"), eater.pid().to_string()).unwrap();
    let mut observer = observer(eater.pid());
    let snapshot = observer.snapshot(0);
    let limit = target(&snapshot)[0].metrics.of("cgroup_memory_limit_bytes").unwrap();
    eater.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let ended = if has_no_swap { eater.wait(testkit::HANG_GUARD) } else { None };
    let mut events = Vec::new();
    if ended.is_some() {
        let log = observer.statuses().into_iter().find(|s| s.name == "host/kernel_log").unwrap();
        let reads_log = log.status == SamplerState::Active;
        wait_for("its end", || {
            observer.snapshot(1_000_000_000);
            events.extend(observer.take_events());
            let has = |kind| events.iter().any(|event| event.kind == kind);
            (has("target-gone") && (!reads_log || has("kernel-oom-kill"))).then_some(())
        });
    }
    drop(eater);
    wait_for("the group's end", || std::fs::remove_dir(&group).ok());
    assert!((49_000_000..=50_000_000).contains(&limit), "{limit}");
    if ended.is_none() {
        return testkit::skip("there is swap that the group may use");
    }
    if let Some(kill) = events.iter().find(|event| event.kind == "kernel-oom-kill") {
        assert!(kill.text.contains("Killed process") && kill.at_ns <= 1_000_000_000, "{kill:?}");
    }
}

#[test]
fn without_rights_each_sampler_says_what_it_wants() {
    if !testkit::is_root() {
        return testkit::skip("to take rights away needs root");
    }
    let mut root = talking(&mut Command::new("cat"));
    let Some(setpriv) = testkit::program("setpriv") else { return testkit::skip("setpriv is not installed") };
    // Where it lies, others may not be let in.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("observe-test");
    copy_program(&std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut as_nobody = Command::new(setpriv);
    as_nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]).arg(program);
    as_nobody.args(["--exact", "helper_without_rights", "--ignored", "--nocapture"]).current_dir("/");
    as_nobody.env("PLIMSOLL_OBSERVE_TEST", root.pid().to_string());
    let mut child = Guard::spawn(as_nobody.stdout(Stdio::inherit())).unwrap();
    assert!(child.wait(testkit::HANG_GUARD).expect("it ends").success());
    assert!(root.child().try_wait().unwrap().is_none());
}

#[test]
#[ignore = "a child of another test"]
fn helper_without_rights() {
    let Some(pid) = std::env::var("PLIMSOLL_OBSERVE_TEST").ok().and_then(|pid| pid.parse().ok()) else { return };
    let mut observer = observer(pid);
    let snapshot = observer.snapshot(0);
    assert!(snapshot.cpu.is_some() && snapshot.network.of("listen_overflows").is_some());
    assert_eq!(target(&snapshot).len(), 1);
    let statuses = observer.statuses();
    let failed: Vec<_> = statuses.iter().filter(|s| s.status == SamplerState::Failed).collect();
    for name in ["process/stands", "process/files", "process/io", "network/listeners"] {
        assert!(failed.iter().any(|s| s.name == name), "{name} reads another user's process: {statuses:?}");
    }
    for status in failed {
        assert!(status.reason.contains("CAP_") || status.reason.contains("root"), "{status:?}");
    }
}
