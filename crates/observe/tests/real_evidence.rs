//! What a diagnosis rests on, held against other readings of the same kernel: connections that the target made itself and
//! its listeners against ss(8), neighbours against their own `/proc` files, control groups against what a process did in
//! them; and that what is read seldom is absent between two of its readings.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::Snapshot;
use model::snapshot::{Neighbour, Outgoing, Role, Runtime, SamplerState};
use observe::{Extent, ObserveSpec, Observer};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use testkit::process::Guard;
use testkit::wait_for;

fn observer(target: u32) -> Observer {
    Observer::new(ObserveSpec { target: vec![target], own_pid: std::process::id(), ..ObserveSpec::default() })
}

/// A process whose stdin and stdout are ours, and what it says first.
fn talking(command: &mut Command) -> (Guard, String) {
    let mut guard = Guard::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let said = heard(&mut guard);
    (guard, said)
}

fn heard(guard: &mut Guard) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, guard.child().stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn say(guard: &mut Guard) -> String {
    guard.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    heard(guard)
}

fn ss(arguments: &[&str]) -> Option<String> {
    let Some(ss) = testkit::program("ss") else {
        testkit::skip("ss (iproute2) is not installed");
        return None;
    };
    let output = Command::new(ss).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_is_read_once_a_second_is_absent_between() {
    let own_pid = std::process::id();
    let _listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut observer = observer(own_pid);
    let seldom = |s: &Snapshot| {
        let target = s.processes.iter().find(|p| p.role == Role::Target).unwrap();
        (!s.network.is_empty(), s.memory_available_bytes.is_some(), target.metrics.of("virtual_bytes").is_some())
    };
    let first = observer.reading(-1, Extent::Due);
    assert_eq!((seldom(&first), first.is_partial), ((true, true, true), false), "the first has everything");
    let pass = first.neighbours_at_ns;
    assert_eq!(pass, Some(-1));
    for at_ns in [250_000_000, 500_000_000] {
        let partial = observer.reading(at_ns, Extent::Due);
        assert_eq!((seldom(&partial), partial.is_partial), ((false, false, false), true));
        assert!(partial.listeners.is_empty() && partial.interfaces.is_empty() && partial.disks.is_empty());
        // What rules need of each interval.
        assert!(partial.cpu.is_some() && partial.cores.len() == first.cores.len());
        for process in &partial.processes {
            assert!(process.threads.iter().all(|t| t.user_ns.is_some()) && process.rss_bytes.is_some(), "{process:?}");
        }
        assert!(partial.target_cpu.is_some());
        assert_eq!(partial.neighbours_at_ns, pass, "no pass, and it says so");
        assert_eq!(partial.network_pid, Some(own_pid));
    }
    let second = observer.reading(1_000_000_000, Extent::Due);
    assert_eq!((seldom(&second), second.is_partial), ((true, true, true), false));
    let asked_for = observer.reading(1_100_000_000, Extent::Whole);
    assert_eq!((seldom(&asked_for), asked_for.is_partial), ((true, true, true), false));
    assert_eq!(asked_for.neighbours_at_ns, Some(1_100_000_000));
    let statuses = observer.statuses();
    let said = |name: &str| statuses.iter().find(|s| s.name == name).unwrap().reason.clone();
    assert!(said("network/counters").contains("once a second"), "{statuses:?}");
    assert_eq!((said("host/cpu"), said("process/threads")), (String::new(), String::new()));
}

fn to(snapshot: &Snapshot, remote: SocketAddr) -> Option<&Outgoing> {
    let remote = remote.to_string();
    snapshot.outgoing.iter().find(|outgoing| outgoing.remote == remote)
}

#[test]
fn ss_agrees_about_connections_that_the_target_made_and_a_late_reply_is_seen() {
    const CONNECTIONS: usize = 12;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = listener.local_addr().unwrap();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(backend).unwrap()).collect();
    let mut servers: Vec<_> = (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).collect();
    // Each client asks and is answered, by the same end: accepted in order, as they were made one after the other.
    for (client, server) in clients.iter_mut().zip(&mut servers) {
        client.write_all(b"ask").unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
        server.write_all(&[7; 10]).unwrap();
    }
    // One reads nothing; the others have read their answer.
    for client in clients.iter_mut().skip(1) {
        client.read_exact(&mut [0; 10]).unwrap();
    }
    let mut observer = observer(std::process::id());
    let mut at_ns = 0;
    let mut look = || {
        // It is read for a share of the time only, so that has to pass.
        at_ns += 60_000_000_000;
        observer.snapshot(at_ns)
    };
    let Some(_) = ss(&["-V"]) else { return };
    let filter = format!("dst {backend}");
    wait_for("ss and the observer to say the same", || {
        let rows = ss(&["-tnH", "state", "established", &filter]).unwrap();
        let queued: u64 = rows.lines().map(|row| row.split_whitespace().next().unwrap().parse::<u64>().unwrap()).sum();
        let snapshot = look();
        let found = to(&snapshot, backend)?;
        let of = |name: &str| found.metrics.of(name).unwrap();
        assert_eq!(of("established"), rows.lines().count() as u64, "{rows}");
        assert_eq!(of("established"), CONNECTIONS as u64);
        assert!(of("rtt_p50_ns") > 0 && of("rtt_p50_ns") <= of("rtt_max_ns"));
        (of("receive_queue_bytes") == queued && queued == 10).then_some(())
    });
    // Three ask again and wait.
    for client in &mut clients[4..7] {
        client.write_all(b"again").unwrap();
    }
    let late = wait_for("three replies to be due", || {
        let snapshot = look();
        let found = to(&snapshot, backend)?.clone();
        (found.metrics.of("awaiting") == Some(3)).then_some(found)
    });
    let longer = wait_for("it to have waited longer", || {
        let snapshot = look();
        let now = to(&snapshot, backend)?.metrics.of("awaiting_max_ns");
        (now > late.metrics.of("awaiting_max_ns")).then_some(now)
    });
    assert!(longer.is_some());
    for server in &mut servers[4..7] {
        server.write_all(b"reply").unwrap();
    }
    wait_for("no reply to be due", || {
        let snapshot = look();
        (to(&snapshot, backend)?.metrics.of("awaiting") == Some(0)).then_some(())
    });
}

#[test]
fn a_clients_connections_on_the_same_machine_are_not_the_targets() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connects = format!(
        "import socket, sys; s = [socket.create_connection(('127.0.0.1', {})) for _ in range(5)]; print('ready', \
         flush=True); sys.stdin.readline()",
        address.port()
    );
    let (client, _) = talking(Command::new(python).args(["-c", &connects]));
    let mine = observer(std::process::id()).snapshot(0);
    assert!(mine.network.of("outgoing_connections").is_some() && to(&mine, address).is_none(), "{:?}", mine.outgoing);
    let theirs = observer(client.pid()).snapshot(0);
    assert_eq!(to(&theirs, address).and_then(|o| o.metrics.of("established")), Some(5), "{:?}", theirs.outgoing);
    assert_eq!(theirs.network.of("outgoing_connections"), Some(5));
}

/// Of a unix socket's connections the kernel keeps no times: what is not accepted or not read there is due, what is new is counted.
#[test]
fn ss_agrees_about_connections_to_a_unix_socket_and_new_ones_are_counted() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("served");
    let listener = UnixListener::bind(&path).unwrap();
    let path = path.to_str().unwrap();
    // A line asks for another connection; what a pair of sockets says to each other is nobody's.
    let connects = format!(
        "import socket, sys; pair = socket.socketpair(); s = []\nfor _ in range(3): s.append(socket.socket(socket.AF_UNIX)); s[-1].connect('{path}')\n\
         print('ready', flush=True)\nfor line in sys.stdin: s.append(socket.socket(socket.AF_UNIX)); s[-1].connect('{path}'); \
         print('made', flush=True)"
    );
    let (mut target, _) = talking(Command::new(python).args(["-c", &connects]));
    let _accepted: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
    let mut observer = observer(target.pid());
    let mut at_ns = 0;
    let mut look = || {
        at_ns += 60_000_000_000;
        let snapshot = observer.snapshot(at_ns);
        let [found] = &snapshot.outgoing[..] else { panic!("{:?}", snapshot.outgoing) };
        assert_eq!(found.remote, format!("unix:{path}"));
        ["established", "connecting", "awaiting", "new"].map(|name| found.metrics.of(name).unwrap_or(99))
    };
    assert_eq!(look(), [3, 0, 0, 99], "when they were made is not known");
    assert_eq!(look(), [3, 0, 0, 0]);
    if let Some(rows) = ss(&["-xH", "state", "connected", "src", path]) {
        assert_eq!(rows.lines().count(), 3, "{rows}");
    }
    let more = |target: &mut Guard| {
        target.child().stdin.as_mut().unwrap().write_all(b"more\n").unwrap();
        assert_eq!(heard(target), "made");
    };
    more(&mut target);
    assert_eq!(look(), [3, 1, 1, 1], "it is not accepted");
    let fourth = listener.accept().unwrap().0;
    assert_eq!(look(), [4, 0, 0, 0], "it was there before");
    more(&mut target);
    let fifth = listener.accept().unwrap().0;
    assert_eq!(look(), [5, 0, 0, 1], "it is new");
    drop((fourth, fifth));
}

/// Listens, and has a process of its own that works: as servers with workers do.
const WORKS: &str = "
import os, socket, sys
path = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET); listener.bind(path[0] if path else ('127.0.0.1', 0)); listener.listen()
own = os.getpid()
worker = os.fork()
while worker == 0 and os.getppid() == own: pass
if worker == 0: os._exit(0)
print(listener.getsockname()[1], flush=True)
os.waitpid(worker, 0)
";

#[test]
fn a_neighbour_that_the_target_asks_is_told_from_a_stranger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asked").to_str().unwrap().to_owned();
    for path in [None, Some(path)] {
        neighbour_that_is_asked(path);
    }
}

fn neighbour_that_is_asked(path: Option<String>) {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let start = |path: &Option<String>| talking(Command::new(&python).args(["-c", WORKS]).args(path));
    let ((backend, port), (stranger, _)) = (start(&path), start(&None));
    let worker = |of: u32| {
        let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
        children.trim().parse::<u32>().unwrap()
    };
    let (asked, other) = (worker(backend.pid()), worker(stranger.pid()));
    let connects = match &path {
        Some(path) => format!("s = socket.socket(socket.AF_UNIX); s.connect('{path}')"),
        None => format!("s = socket.create_connection(('127.0.0.1', {port}))"),
    };
    let asks = format!("import socket, sys; {connects}; print('ready', flush=True); sys.stdin.readline()");
    let (target, _) = talking(Command::new(&python).args(["-c", &asks]));
    let mut observer = observer(target.pid());
    let mut at_ns = 0;
    let told = wait_for("both workers to be among the neighbours", || {
        at_ns += 60_000_000_000;
        let snapshot = observer.snapshot(at_ns);
        let of = |pid: u32| Some(snapshot.neighbours.iter().find(|neighbour| neighbour.pid == pid)?.is_backend);
        of(asked).zip(of(other))
    });
    assert_eq!(told, (true, false));
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
fn ss_agrees_about_what_a_listener_did_not_take_and_who_holds_it() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let (there, port) = talking(Command::new(python).args(["-c", OVERFLOWS]));
    // `skmem:(r0,rb131072,t0,tb16384,f0,w0,o0,bl0,d5)`: the last is drops.
    let of_ss = || {
        let rows = ss(&["-tlnmH", &format!("sport = :{port}")])?;
        let drops = rows.split(",d").nth(1).unwrap_or_else(|| panic!("{rows}"));
        Some(drops.split(')').next().unwrap().parse::<u64>().unwrap())
    };
    let Some(_) = of_ss() else { return };
    let mut observer = observer(there.pid());
    wait_for("it to drop some", || {
        let before = of_ss().unwrap();
        let snapshot = observer.snapshot(0);
        let after = of_ss().unwrap();
        assert_eq!(snapshot.listeners.len(), 1, "{:?}", snapshot.listeners);
        assert_eq!(snapshot.network.of("listening_sockets"), Some(1));
        let listener = &snapshot.listeners[0];
        assert_eq!((&*listener.owners, listener.backlog), (&[there.pid()][..], 2));
        let drops = listener.drops.expect("this kernel says");
        assert!((before..=after).contains(&drops), "{drops} is not between {before} and {after} of ss");
        (drops > 0).then_some(())
    });
}

#[test]
fn counters_of_connections_do_not_fall_when_one_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    let mut servers: Vec<_> = (0..6).map(|_| listener.accept().unwrap().0).collect();
    let mut observer = observer(std::process::id());
    let mut at_ns = 0;
    let mut busy = || {
        at_ns += 60_000_000_000;
        observer.snapshot(at_ns).network.of("send_busy_ns").unwrap()
    };
    let mut last = busy();
    let first = last;
    while let (Some(mut client), Some(mut server)) = (clients.pop(), servers.pop()) {
        // More than the buffers hold: it is busy until the other end has read.
        let sends = std::thread::spawn(move || {
            server.write_all(&vec![1; 16 << 20]).unwrap();
            server
        });
        client.read_exact(&mut vec![0; 16 << 20]).unwrap();
        let server = sends.join().unwrap();
        let now = busy();
        assert!(now >= last, "{now} after {last}");
        drop((client, server));
        last = now;
    }
    assert!(busy() >= last && last > first, "{first} to {last}");
}

fn of_pid(neighbours: &[Neighbour], pid: u32) -> Option<&Neighbour> {
    neighbours.iter().find(|neighbour| neighbour.pid == pid)
}

#[test]
fn a_neighbour_that_writes_is_found_by_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written");
    let (mut target, _) = talking(Command::new("sh").args(["-c", "echo ready; read x"]));
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let writes = "
import os, sys
print('ready', flush=True); sys.stdin.readline()
f = open(sys.argv[1], 'wb'); f.write(bytes(48 << 20)); f.flush(); os.fsync(f.fileno())
print('done', flush=True); sys.stdin.readline()
";
    let (mut writer, _) = talking(Command::new(python).args(["-c", writes]).arg(&file));
    let mut observer = observer(target.pid());
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", writer.pid())).ok()?;
        io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok())
    };
    let Some(before) = written() else { return testkit::skip("this kernel counts no bytes of processes") };
    observer.snapshot(0);
    assert_eq!(say(&mut writer), "done");
    let io = std::fs::read_to_string(format!("/proc/{}/io", writer.pid())).unwrap();
    let after = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok()).unwrap();
    let snapshot = observer.snapshot(1_000_000_000);
    if after == before {
        return testkit::skip("files of the temporary folder are on no disk");
    }
    let found = of_pid(&snapshot.disk_neighbours, writer.pid()).expect("it is among those that used disks");
    assert_eq!(found.disk_written_bytes, Some(after - before));
    assert!(after - before >= 48 << 20);
    assert_eq!(found.name, std::fs::read_to_string(format!("/proc/{}/comm", writer.pid())).unwrap().trim());
    assert!(of_pid(&snapshot.disk_neighbours, target.pid()).is_none());
    // What has ended is not forgotten.
    say(&mut writer);
    assert!(writer.wait(testkit::HANG_GUARD).unwrap().success());
    let snapshot = observer.snapshot(2_000_000_000);
    let ended = of_pid(&snapshot.disk_neighbours, writer.pid()).unwrap();
    assert!(ended.disk_written_bytes >= Some(after - before) && ended.rss_bytes.is_none(), "{ended:?}");
    say(&mut target);
}

#[test]
fn a_neighbour_that_grows_is_found_by_its_memory() {
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let grows = "
import sys
print('ready', flush=True); sys.stdin.readline()
x = bytearray(b'1') * (300 << 20); print('done', flush=True); sys.stdin.readline()
";
    let (target, _) = talking(Command::new("sh").args(["-c", "echo ready; read x"]));
    let (mut eater, _) = talking(Command::new(python).args(["-c", grows]));
    let pid = eater.pid();
    let statm_bytes = || {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    };
    let before = statm_bytes();
    let mut observer = observer(target.pid());
    observer.snapshot(0);
    assert_eq!(say(&mut eater), "done");
    let snapshot = observer.snapshot(1_000_000_000);
    let after = statm_bytes();
    let found = of_pid(&snapshot.memory_neighbours, pid).expect("it is among those that grew");
    let (rss, grown) = (found.rss_bytes.unwrap(), found.rss_grown_bytes.unwrap());
    // Each CPU keeps some pages of the count to itself (proc(5): inaccurate).
    assert!(rss.abs_diff(after) < 2 << 20, "{rss} and {after} of statm");
    assert!(grown.unsigned_abs().abs_diff(after - before) < 2 << 20, "{grown} and {} of statm", after - before);
    assert!(after - before > 298 << 20);
}

/// A control group of version 1 that is removed again.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str) -> Option<Self> {
        let name = format!("plimsoll-evidence-{controller}-{}", std::process::id());
        let folder = PathBuf::from("/sys/fs/cgroup").join(controller).join(name);
        if !testkit::is_root() || std::fs::create_dir(&folder).is_err() {
            testkit::skip(&format!("a group of {controller} needs root and cgroup version 1"));
            return None;
        }
        Some(Group(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_for("the group's end", || std::fs::remove_dir(&self.0).ok());
    }
}

fn target_metric(snapshot: &Snapshot, name: &str) -> Option<u64> {
    snapshot.processes.iter().find(|p| p.role == Role::Target)?.metrics.of(name)
}

#[test]
fn a_groups_memory_is_that_of_its_process() {
    let Some(group) = Group::new("memory") else { return };
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let eats = "
import sys
print('ready', flush=True); sys.stdin.readline()
x = bytearray(b'1') * (64 << 20); print('done', flush=True); sys.stdin.readline()
";
    let (mut eater, _) = talking(Command::new(python).args(["-c", eats]));
    std::fs::write(group.0.join("cgroup.procs"), eater.pid().to_string()).unwrap();
    let mut observer = observer(eater.pid());
    let of = |snapshot: &Snapshot| target_metric(snapshot, "cgroup_memory_anonymous_bytes").unwrap();
    let before = of(&observer.snapshot(0));
    assert_eq!(say(&mut eater), "done");
    // The kernel sums the group's pages up every two seconds, and whenever enough of them have changed.
    wait_for("the group's count to have come", || {
        let snapshot = observer.snapshot(0);
        let grown = of(&snapshot).saturating_sub(before);
        assert!(grown < 70 << 20, "{grown}");
        (grown >= 64 << 20).then_some(())
    });
    let snapshot = observer.snapshot(1_000_000_000);
    for name in ["cgroup_memory_file_bytes", "cgroup_major_faults", "cgroup_swapped_bytes"] {
        assert!(target_metric(&snapshot, name).is_some(), "{name}");
    }
    let status = observer.statuses().into_iter().find(|s| s.name == "process/cgroup_waits").unwrap();
    assert_eq!(status.status, SamplerState::Active, "{status:?}");
    drop(eater);
}

#[test]
fn a_groups_disk_bytes_are_what_was_written_in_it() {
    let Some(group) = Group::new("blkio") else { return };
    let folder = tempfile::tempdir().unwrap();
    let device = rustix::fs::stat(folder.path()).unwrap().st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let script = format!(
        "echo ready; read x; dd if=/dev/zero of={}/x bs=1M count=8 oflag=direct 2>/dev/null && echo done || echo failed; read x",
        folder.path().display()
    );
    let (mut shell, _) = talking(Command::new("sh").args(["-c", &script]));
    std::fs::write(group.0.join("cgroup.procs"), shell.pid().to_string()).unwrap();
    let has_limit =
        std::fs::write(group.0.join("blkio.throttle.write_bps_device"), format!("{device} 1000000000")).is_ok();
    let mut observer = observer(shell.pid());
    let first = observer.snapshot(0);
    if say(&mut shell) != "done" || !has_limit {
        drop(shell);
        return testkit::skip("the temporary folder is on no disk that a group can bound");
    }
    let last = observer.snapshot(1_000_000_000);
    let of = |snapshot: &Snapshot, name: &str| target_metric(snapshot, name).unwrap();
    let grown = |name: &str| of(&last, name) - of(&first, name);
    let written = grown("cgroup_io_write_bytes");
    // The file, and what the file system writes about it.
    assert!((8 << 20..12 << 20).contains(&written), "{written}");
    assert!(grown("cgroup_io_writes") >= 8);
    assert_eq!(target_metric(&last, "cgroup_io_write_limit_bytes_per_s"), Some(1_000_000_000));
    assert_eq!(target_metric(&last, "cgroup_io_read_limit_bytes_per_s"), None);
    drop(shell);
}

/// Each under another name than its own, so that nothing can be known by that.
#[test]
fn runtimes_are_known_by_what_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (program, arguments, runtime) in [
        ("python3", &["-c", "import sys; print('here', flush=True); sys.stdin.readline()"][..], Some(Runtime::Python)),
        ("perl", &["-e", "$|=1; print \"here\\n\"; <STDIN>"], Some(Runtime::Perl)),
        ("ruby", &["-e", "$stdout.sync=true; puts 'here'; gets"], Some(Runtime::Ruby)),
        ("node", &["-e", "console.log('here'); process.stdin.once('data', () => process.exit())"], Some(Runtime::Node)),
        ("sh", &["-c", "echo here; read line"], None),
    ] {
        // The distribution's: what stands earlier in a user's PATH may be a script that looks at its own name.
        let path = PathBuf::from("/usr/bin").join(program);
        if !path.is_file() {
            testkit::skip(&format!("{} is not installed", path.display()));
            continue;
        }
        let link = folder.path().join(format!("worker-{seen}"));
        std::os::unix::fs::symlink(path, &link).unwrap();
        let (guard, said) = talking(Command::new(&link).args(arguments));
        assert_eq!(said, "here");
        let snapshot = observer(guard.pid()).snapshot(0);
        let process = snapshot.processes.iter().find(|process| process.role == Role::Target).unwrap();
        assert_eq!(process.runtime, runtime, "{program}: {}", process.name);
        seen += 1;
    }
    assert!(seen > 0, "not even sh is there");
}
