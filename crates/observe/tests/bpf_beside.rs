//! The probes of kernel locks, block I/O and drops, each with and without its cause and beside an independent reading.
//! For root, on a kernel with BTF.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use model::bpf::Level;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;

mod common;
use common::{LONG, bpf, can_run, go, observer, of, own, shell};

/// Threads that write to files, all to one or each to its own, anew for each line: a write holds the file's lock.
const WRITERS: &str = "
import os, sys, threading
folder, shared = sys.argv[1], sys.argv[2] == 'shared'
block = b'x' * (1 << 20)
def write(i):
    file = os.open(os.path.join(folder, 'file' + ('' if shared else str(i))), os.O_WRONLY | os.O_CREAT)
    for _ in range(300):
        os.pwrite(file, block, 0)
    os.close(file)
for line in sys.stdin:
    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print('done', flush=True)
";

/// What writers do, and what is seen of it.
struct Writers {
    process: Guard,
    said: Lines<BufReader<ChildStdout>>,
    observer: observe::Observer,
    seen: [u64; 3],
}

impl Writers {
    fn start(python: &Path, folder: &Path, sharing: &str) -> Self {
        let mut command = Command::new(python);
        command.args(["-c", WRITERS]).arg(folder).arg(sharing).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Guard::spawn(&mut command).unwrap();
        let said = BufReader::new(process.child().stdout.take().unwrap()).lines();
        let observer = observer(of(process.pid(), Level::Full));
        Writers { process, said, observer, seen: [0; 3] }
    }

    /// Contentions, the time waited for locks, and the time slept for a file's lock, in one more round of writes.
    fn round(&mut self) -> [u64; 3] {
        go(&mut self.process);
        assert_eq!(self.said.next().unwrap().unwrap(), "done");
        let snapshot = self.observer.snapshot(1);
        let bpf = bpf(&snapshot);
        let waited = &bpf.histograms["locks.wait_ns"];
        assert!(waited.count() <= bpf.counts["locks.contentions"], "{:?}", bpf.counts);
        // The other probe sees the same waits from the scheduler's side: threads that sleep for a file's lock.
        let is_of_lock = |frame: &String| frame.starts_with("rwsem_") || frame.starts_with("down_write");
        let slept: u64 = bpf.waits.iter().filter(|wait| wait.stack.iter().any(is_of_lock)).map(|wait| wait.ns).sum();
        let now = [bpf.counts["locks.contentions"], waited.sum, slept];
        let before = std::mem::replace(&mut self.seen, now);
        [0, 1, 2].map(|i| now[i].saturating_sub(before[i]))
    }
}

#[test]
fn a_contended_lock_of_the_kernel_is_seen_and_an_uncontended_one_is_not() {
    if !can_run() {
        return;
    }
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut shared = Writers::start(&python, folders[0].path(), "shared");
    let mut apart = Writers::start(&python, folders[1].path(), "apart");
    // A round may be spoilt on a busy machine: there the names of the first waits come too late for them, and who is taken
    // off its CPU while it has some other lock is waited for, too.
    let mut seen = Vec::new();
    let is_seen = (0..10).any(|_| {
        let [contentions, waited_ns, slept_ns] = shared.round();
        let [others, others_ns, _] = apart.round();
        seen.push(([contentions, waited_ns, slept_ns], [others, others_ns]));
        // Who waits for a lock spins at first: the sleep is a part of the wait.
        let sleeps = slept_ns > waited_ns / 4 && slept_ns <= waited_ns + waited_ns / 10;
        contentions > 0 && contentions >= others && waited_ns > 3 * others_ns && sleeps
    });
    assert!(is_seen, "{seen:?}");
}

/// Requests that all disks of this machine have completed (`/proc/diskstats`, Documentation/admin-guide/iostats.rst).
fn disk_requests() -> u64 {
    let text = std::fs::read_to_string("/proc/diskstats").unwrap();
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Partitions are counted with their disk.
        Path::new("/sys/block").join(words[2]).exists().then_some(())?;
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        Some(number(3) + number(7) + number(14) + number(18))
    };
    text.lines().filter_map(of_line).sum()
}

#[test]
fn writes_that_wait_for_the_disk_are_counted_as_the_disk_counts_them() {
    if !can_run() {
        return;
    }
    // Not where files are memory: by this workspace's own folder.
    let folder = tempfile::tempdir_in(testkit::workspace()).unwrap();
    let file = folder.path().join("file").display().to_string();
    let dd = format!("dd if=/dev/zero of={file} bs=4096 count=200 oflag=dsync status=none");
    let mut target = shell(&format!("{dd}; echo done; read line"));
    let mut said = BufReader::new(target.child().stdout.take().unwrap()).lines();
    let before = disk_requests();
    let mut observer = observer(of(target.pid(), Level::Full));
    go(&mut target);
    assert_eq!(said.next().unwrap().unwrap(), "done");
    let snapshot = observer.snapshot(1);
    let completed = disk_requests() - before;
    if completed == 0 {
        return testkit::skip("the workspace lies on no disk that /proc/diskstats counts");
    }
    let bpf = bpf(&snapshot);
    let (issued, of_target) = (bpf.counts["block.issued"], bpf.counts["block.issued_by_target"]);
    let took = &bpf.histograms["block.io_ns"];
    // Each of the 200 writes is at least one request; what the disk completed includes what it was at before. A page or
    // two may be written by the kernel's own thread before the target comes to it.
    assert!(issued >= 200 && of_target >= 180 && of_target <= issued, "{:?}", bpf.counts);
    // Others may have requests issued and completed between the readings of the two.
    assert!(took.count() >= 200 && took.count() <= issued + issued / 10, "{took:?} {:?}", bpf.counts);
    assert!(completed >= 200 && took.count() <= completed + completed / 5, "{completed}: {took:?}");
}

/// SYNs to a port whose checksum is wrong by one, from a raw socket. A constant would be right for one port in some thousand.
const BAD_CHECKSUMS: &str = "
import socket, struct, sys
port, times = int(sys.argv[1]), int(sys.argv[2])
# Of this protocol nothing is received: other raw sockets get, and later drop, copies of what they send here.
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
here = socket.inet_aton('127.0.0.1')
for i in range(times):
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, here, here)
    tcp = lambda checksum: struct.pack('!HHIIBBHHH', 1024 + i, port, i, 0, 5 << 4, 2, 1024, checksum, 0)
    # RFC 9293, section 3.1: the ones' complement of the ones' complement sum, with a pseudo header in front.
    words = struct.unpack('!16H', here + here + struct.pack('!HH', socket.IPPROTO_TCP, 20) + tcp(0))
    right = 0xffff - (sum(words) % 0xffff)
    raw.sendto(ip + tcp((right + 1) % 0xffff), ('127.0.0.1', 0))
";

/// Segments with a wrong checksum in this network namespace (`nstat -az TcpInCsumErrors`).
fn checksum_errors() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn drops_are_counted_with_their_reason_as_the_kernel_counts_them() {
    if !can_run() {
        return;
    }
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    let send = |port: u16, times: u32| {
        let mut command = Command::new(&python);
        command.args(["-c", BAD_CHECKSUMS, &port.to_string(), &times.to_string()]);
        assert!(Guard::spawn(&mut command).unwrap().wait(LONG).unwrap().success());
    };
    let (served, other) = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).into();
    let address = served.local_addr().unwrap();
    let mut observer = observer(own(address, 64, Level::Light));
    // What is sent is received a moment later where the kernel has much to do, and may be lost before anyone reads it.
    let dropped = |port: u16| {
        let before = checksum_errors();
        let counted = || checksum_errors() - before;
        for _ in 0..20 {
            send(port, 25);
            let sent = std::time::Instant::now();
            while counted() < 25 && sent.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(10));
            }
            if counted() >= 25 {
                break;
            }
        }
        counted()
    };
    let counted = dropped(address.port());
    // Another's drops are not the target's.
    assert!(counted >= 25 && dropped(other.local_addr().unwrap().port()) >= 25);
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let of_reason = bpf.drops.get("TCP_CSUM").copied().unwrap_or(0);
    assert_eq!(of_reason, counted, "{:?}", bpf.drops);
    assert_eq!(bpf.counts["losses.drops"], counted, "{:?}", bpf.drops);
    served.set_nonblocking(true).unwrap();
    assert!(served.accept().is_err(), "none of them was a connection");
}

#[test]
fn the_reason_of_a_filter_is_told_from_that_of_a_closed_port() {
    if !can_run() {
        return;
    }
    let Some(python) = testkit::program("python3") else { return testkit::skip("python3 is not installed") };
    // A filter of the listener's own that takes no segment: `ret #0` (SO_ATTACH_FILTER).
    let script = "
import ctypes, socket, struct, sys
server = socket.socket()
server.bind(('127.0.0.1', 0))
server.listen()
code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0))
server.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HxxxxxxP', 1, ctypes.addressof(code)))
print(server.getsockname()[1], flush=True)
sys.stdin.readline()
for _ in range(7):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(server.getsockname())
    client.close()
print('done', flush=True)
sys.stdin.readline()
";
    let mut command = Command::new(python);
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut target = Guard::spawn(&mut command).unwrap();
    let mut said = BufReader::new(target.child().stdout.take().unwrap()).lines();
    let port: u16 = said.next().unwrap().unwrap().parse().unwrap();
    let mut spec = own(([127, 0, 0, 1], port).into(), 64, Level::Light);
    spec.target = vec![target.pid()];
    let mut observer = observer(spec);
    target.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "done");
    let snapshot = observer.snapshot(1);
    let bpf = bpf(&snapshot);
    let names: Vec<&str> = bpf.drops.keys().map(String::as_str).collect();
    assert_eq!(names, ["SOCKET_FILTER"], "{:?}", bpf.counts);
    // One that stood still for a second before it was closed has sent its segment again.
    assert!((7..14).contains(&bpf.drops["SOCKET_FILTER"]), "{:?}", bpf.drops);
}
