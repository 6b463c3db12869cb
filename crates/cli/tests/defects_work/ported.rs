//! Each defect on each design of echo that can carry it: its symptom is there for a client, or in `/proc`.
//!
//! What of them is also proved by a closer look, on the default design, is in the other files.

use crate::common::{Server, plimsoll, serve};
use crate::readings;
use servers::defects::{DEFECTS, Defect};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::{HANG_GUARD, wait_until};

/// How long a defect is told to hold a request up. A sound reply that takes so long would be taken for it.
const HELD: Duration = Duration::from_millis(150);
/// After so long without a byte there is no reply.
const SILENT: Duration = Duration::from_millis(300);

struct Ported {
    server: Server,
    design: &'static str,
}

impl Ported {
    fn start(design: &'static str, workers: usize, defect: Option<&str>) -> Self {
        let workers = workers.to_string();
        let mut args = vec!["serve", "echo", "--design", design, "--listen", "127.0.0.1:0", "--workers", &workers];
        args.extend(defect.iter().flat_map(|defect| ["--defect", defect]));
        Self { server: serve(&args), design }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.url.split_once("://").unwrap().1).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The processes of the server: itself and its children.
    fn pids(&self) -> Vec<u32> {
        let pid = self.server.process.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        [pid].into_iter().chain(children.split_whitespace().map(|child| child.parse().unwrap())).collect()
    }

    fn resident_bytes(&self) -> u64 {
        self.pids().into_iter().map(readings::resident_bytes).sum()
    }

    /// Bytes it has read so far, as by read(2).
    fn read_bytes(&self) -> u64 {
        let read = |pid| {
            let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
            io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse::<u64>().unwrap()
        };
        self.pids().into_iter().map(read).sum()
    }

    /// Descriptors of /dev/null: a process that was just forked may not have closed all of its parent's others yet.
    fn nulls(&self) -> usize {
        let of = |pid| {
            let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file == Path::new("/dev/null"))).count()
        };
        self.pids().into_iter().map(of).sum()
    }
}

/// How long a message took to come back, whole.
fn held(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    stream.write_all(b"0123456789").unwrap();
    let mut back = [0; 10];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"0123456789");
    start.elapsed()
}

/// All that comes back for a message until the connection falls silent or ends, and whether it ended.
fn back(ported: &Ported, message: &[u8]) -> (Vec<u8>, bool) {
    let mut stream = ported.connect();
    stream.set_read_timeout(Some(SILENT)).unwrap();
    stream.write_all(message).unwrap();
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return (all, true),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return (all, false),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return (all, true),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A defect's strength as it is tested, and whether its symptom is there.
struct Symptom {
    name: &'static str,
    told: &'static str,
    shows: fn(&mut Ported) -> bool,
}

const fn symptom(name: &'static str, told: &'static str, shows: fn(&mut Ported) -> bool) -> Symptom {
    Symptom { name, told, shows }
}

const SYMPTOMS: &[Symptom] = &[
    symptom("cpu-heavy", "=150ms", each_is_held),
    symptom("single-thread", "=150ms:sleep", each_is_held),
    symptom("global-lock", "=150ms:sleep", the_last_waits_for_all),
    symptom("blocked-loop", "=150ms:sleep:of=1", each_is_held),
    symptom("head-of-line", "=150ms:sleep:of=1", each_is_held),
    symptom("slow-backend", "=150ms", each_is_held),
    symptom("stop-the-world", "=300ms:every=310ms", one_of_many_is_held),
    symptom("connection-limit", "=3", |ported| {
        let mut three: Vec<_> = (0..3).map(|_| ported.connect()).collect();
        three.iter_mut().for_each(|stream| {
            held(stream);
        });
        let mut fourth = ported.connect();
        fourth.set_read_timeout(Some(SILENT)).unwrap();
        matches!(fourth.read(&mut [0]), Ok(0))
    }),
    symptom("pool-exhausted", "=150ms:slots=1", the_last_waits_for_all),
    symptom("slow-path", "=150ms:sleep:above=64B", |ported| {
        let mut stream = ported.connect();
        let mut takes = |bytes: usize| {
            let start = Instant::now();
            stream.write_all(&vec![b'a'; bytes]).unwrap();
            stream.read_exact(&mut vec![0; bytes]).unwrap();
            start.elapsed()
        };
        takes(10) < HELD * 9 / 10 && takes(100) >= HELD * 9 / 10 && takes(10) < HELD * 9 / 10
    }),
    symptom("neighbour-request", "=600ms:every=700ms:sleep", |ported| {
        let mut stream = ported.connect();
        // Half of that: a sound reply hardly ever takes so long, however busy the machine is.
        (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            held(&mut stream) >= 2 * HELD
        })
    }),
    symptom("accept-imbalance", "=150ms", some_connections_are_held),
    symptom("slow-log-reader", "=1h", in_the_end_no_reply_comes),
    symptom("fsync-log", "=1", its_log_grows),
    symptom("files-reread", "=10", |ported| {
        let mut stream = ported.connect();
        held(&mut stream);
        let before = ported.read_bytes();
        (0..20).for_each(|_| {
            held(&mut stream);
        });
        // What is received from a socket is not counted there; the smallest of the files has a few bytes.
        ported.read_bytes() >= before + 20 * 10
    }),
    symptom("nagle", "", later_replies_wait_for_an_ack),
    symptom("crash", "=2", |ported| {
        let mut stream = ported.connect();
        held(&mut stream);
        let _ = stream.write_all(b"x");
        ported.server.process.wait(HANG_GUARD).is_some_and(|status| !status.success())
    }),
    symptom("fd-leak", "=5", |ported| {
        let before = ported.nulls();
        // Four connections would do, were children that have just begun counted as they stay.
        (0..20).any(|_| {
            held(&mut ported.connect());
            ported.nulls() >= before + 20
        })
    }),
    symptom("memory-per-connection", "=8MiB", |ported| {
        let before = ported.resident_bytes();
        let mut streams: Vec<_> = (0..2).map(|_| ported.connect()).collect();
        // One after the other where there is only one at a time.
        held(&mut streams[0]);
        ported.resident_bytes() >= before + (8 << 20)
    }),
    symptom("memory-leak", "=2MiB", |ported| {
        let mut stream = ported.connect();
        held(&mut stream);
        let before = ported.resident_bytes();
        (0..4).for_each(|_| {
            held(&mut stream);
        });
        ported.resident_bytes() >= before + (8 << 20)
    }),
    symptom("memory-kept", "=8MiB", |ported| {
        let before = ported.resident_bytes();
        held(&mut ported.connect());
        // Another is served when the first has been closed, or beside it.
        held(&mut ported.connect());
        ported.resident_bytes() >= before + (8 << 20)
    }),
    symptom("truncated-reply", "=1", |ported| back(ported, b"0123456789") == (b"01234".to_vec(), true)),
    symptom("corrupted-reply", "=1", |ported| {
        let (bytes, is_over) = back(ported, b"0123456789");
        !is_over
            && bytes.len() == 10
            && bytes.iter().zip(b"0123456789").filter(|(came, sent)| came != sent).count() == 1
    }),
    symptom("padded-reply", "=1:bytes=3", |ported| {
        back(ported, b"0123456789") == (b"0123456789\0\0\0".to_vec(), false)
    }),
    symptom("missing-reply", "=2", |ported| {
        // Counted over all connections, whichever process has them.
        let [first, second] = [0, 1].map(|_| back(ported, b"ab"));
        first == (b"ab".to_vec(), false) && second == (Vec::new(), false)
    }),
    symptom("fixed-size-reply", "=12", |ported| back(ported, b"ab").0.len() == 12),
    symptom("full-buffer-reply", "=4", |ported| back(ported, b"abcd").0.is_empty() && back(ported, b"abc").0 == b"abc"),
    symptom("one-receive-reply", "=4", |ported| back(ported, b"abcdef").0 == b"abcd"),
    symptom("strlen-reply", "", |ported| back(ported, b"ab\0cd").0 == b"ab"),
];

fn each_is_held(ported: &mut Ported) -> bool {
    let mut stream = ported.connect();
    // Burnt time may be told a little short where the machine is busy.
    (0..2).all(|_| held(&mut stream) >= HELD * 9 / 10)
}

fn the_last_waits_for_all(ported: &mut Ported) -> bool {
    // As many as are served at a time: two workers may have one each.
    let together = if ["pool", "prefork"].contains(&ported.design) { 2 } else { 3 };
    let mut streams: Vec<_> = (0..together).map(|_| ported.connect()).collect();
    std::thread::scope(|scope| {
        let held: Vec<_> = streams.iter_mut().map(|stream| scope.spawn(move || held(stream))).collect();
        held.into_iter().map(|thread| thread.join().unwrap()).max().unwrap() >= together * HELD
    })
}

fn one_of_many_is_held(ported: &mut Ported) -> bool {
    let mut stream = ported.connect();
    (0..20_000).any(|_| held(&mut stream) >= HELD)
}

fn some_connections_are_held(ported: &mut Ported) -> bool {
    let streams: Vec<_> = (0..24).map(|_| ported.connect()).collect();
    let slow = streams.into_iter().map(|mut stream| held(&mut stream)).filter(|time| *time >= HELD).count();
    (1..24).contains(&slow)
}

fn in_the_end_no_reply_comes(ported: &mut Ported) -> bool {
    let mut stream = ported.connect();
    stream.set_read_timeout(Some(SILENT)).unwrap();
    // More than a pipe has lines.
    !(0..600).all(|_| stream.write_all(b"x").is_ok() && stream.read_exact(&mut [0]).is_ok())
}

fn its_log_grows(ported: &mut Ported) -> bool {
    held(&mut ported.connect());
    let pid = ported.server.process.pid();
    let size = || {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let log = fds
            .map(|fd| fd.path())
            .find(|fd| std::fs::read_link(fd).is_ok_and(|file| file.to_string_lossy().contains("/plimsoll-access-")));
        log.map(|log| std::fs::metadata(log).unwrap().len())
    };
    let Some(before) = size() else { return false };
    held(&mut ported.connect());
    size() > Some(before)
}

fn later_replies_wait_for_an_ack(ported: &mut Ported) -> bool {
    let mut stream = ported.connect();
    // Linux's shortest delay of an ACK is 40 ms; the first few of a connection are quick.
    (0..40).any(|_| held(&mut stream) >= Duration::from_millis(38))
}

fn is_ported(defect: &Defect) -> bool {
    defect.servers.contains(&servers::defects::Server::Echo)
}

/// Starts all designs for a symptom: those that carry it show it, the others refuse it in one sentence.
fn prove(symptom: &Symptom) {
    let defect = servers::defects::defect(symptom.name).unwrap();
    let asked = format!("{}{}", symptom.name, symptom.told);
    std::thread::scope(|scope| {
        for design in servers::echo::DESIGNS.iter().skip(1).map(|design| design.info) {
            let asked = &asked;
            scope.spawn(move || {
                let has_workers = !["iterative", "fork", "thread"].contains(&design.name);
                let workers = if has_workers { 2 } else { 1 };
                match design.lacks(defect) {
                    None => {
                        let shows = || (symptom.shows)(&mut Ported::start(design.name, workers, Some(asked)));
                        // What is shared out by chance, or cut short by a busy machine, may be there only at a later look.
                        assert!((0..4).any(|_| shows()), "{asked} does not show on {}", design.name);
                    }
                    Some(missing) => is_refused(design.name, asked, missing.why_not()),
                }
            });
        }
    });
}

fn is_refused(design: &str, defect: &str, why: &str) {
    let run = plimsoll(&["serve", "echo", "--design", design, "--listen", "127.0.0.1:0", "--defect", defect]);
    run.assert_exit(2);
    let says = format!("because {why}: choose ");
    assert!(run.stderr.contains(&says) && run.stderr.trim().lines().count() == 1, "{design} {defect}: {}", run.stderr);
}

macro_rules! ported {
    ($($test:ident: $name:literal;)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(#[test]
        fn $test() {
            prove(SYMPTOMS.iter().find(|symptom| symptom.name == $name).unwrap());
        })*
    };
}

ported! {
    cpu_heavy: "cpu-heavy";
    single_thread: "single-thread";
    global_lock: "global-lock";
    blocked_loop: "blocked-loop";
    head_of_line: "head-of-line";
    slow_backend: "slow-backend";
    stop_the_world: "stop-the-world";
    connection_limit: "connection-limit";
    pool_exhausted: "pool-exhausted";
    slow_path: "slow-path";
    neighbour_request: "neighbour-request";
    accept_imbalance: "accept-imbalance";
    slow_log_reader: "slow-log-reader";
    fsync_log: "fsync-log";
    files_reread: "files-reread";
    nagle: "nagle";
    crash: "crash";
    fd_leak: "fd-leak";
    memory_per_connection: "memory-per-connection";
    memory_leak: "memory-leak";
    memory_kept: "memory-kept";
    truncated_reply: "truncated-reply";
    corrupted_reply: "corrupted-reply";
    padded_reply: "padded-reply";
    missing_reply: "missing-reply";
    fixed_size_reply: "fixed-size-reply";
    full_buffer_reply: "full-buffer-reply";
    one_receive_reply: "one-receive-reply";
    strlen_reply: "strlen-reply";
}

#[test]
fn every_defect_that_a_design_of_echo_carries_has_a_symptom_here() {
    for defect in DEFECTS.iter().filter(|defect| is_ported(defect)) {
        let carried = servers::echo::DESIGNS.iter().skip(1).any(|design| design.info.lacks(defect).is_none());
        assert_eq!(carried, TESTED.contains(&defect.name), "{}", defect.name);
        // Of the designs that refuse for one reason, one is enough.
        let mut reasons = BTreeMap::new();
        for design in servers::echo::DESIGNS.iter().skip(1).filter(|_| !carried) {
            reasons.insert(design.info.lacks(defect).unwrap().why_not(), design.info.name);
        }
        for (why, design) in reasons {
            is_refused(design, defect.name, why);
        }
    }
}

#[test]
fn a_sound_server_has_no_symptom() {
    std::thread::scope(|scope| {
        // The crash is told by its process's end, for which this would wait.
        for symptom in SYMPTOMS.iter().filter(|symptom| symptom.name != "crash") {
            scope.spawn(move || {
                let shows = || (symptom.shows)(&mut Ported::start("epoll-level", 2, None));
                assert!(!(shows() && shows()), "{}: its symptom is there without it", symptom.name);
            });
        }
    });
}

/// It begins when it is told to also where there is no reactor.
#[test]
fn a_defect_begins_later_on_every_design() {
    std::thread::scope(|scope| {
        for design in servers::echo::DESIGNS {
            scope.spawn(|| {
                let start = Instant::now();
                let ported = Ported::start(design.info.name, 1, Some("truncated-reply=1@1s"));
                let mut stream = ported.connect();
                held_or_cut(&mut stream);
                let mut is_cut = false;
                wait_until("it begins", || {
                    is_cut = is_cut || held_or_cut(&mut stream);
                    is_cut
                });
                assert!(start.elapsed() >= Duration::from_secs(1), "{}: before its time", design.info.name);
            });
        }
    });
}

/// Whether the reply was cut.
fn held_or_cut(stream: &mut TcpStream) -> bool {
    stream.write_all(b"0123456789").is_err() || stream.read_exact(&mut [0; 10]).is_err()
}
