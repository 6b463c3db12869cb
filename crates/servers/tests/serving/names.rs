//! The name service over a socket: commands, bytes cut and hostile, crashes under each policy, redis' own clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::HANG_GUARD;
use servers::names::{self, NamesCounters, NamesError, NamesOptions, OnCrash};
use servers::tls::TlsOptions;
use servers::{ServeError, ServeOptions, Stop};

struct Names {
    addr: SocketAddr,
    stop: Stop,
    thread: JoinHandle<Result<NamesCounters, ServeError>>,
}

impl Names {
    fn start(names: NamesOptions) -> Self {
        Self::with(ServeOptions::default(), names)
    }

    fn with(options: ServeOptions, names: NamesOptions) -> Self {
        let stop = Stop::new().unwrap();
        let stopped = stop.clone();
        let (tell, told) = mpsc::channel();
        let ready = move |addrs: &[SocketAddr]| tell.send(addrs[0]).unwrap();
        let thread = std::thread::spawn(move || names::serve(&options, &names, &stopped, ready));
        match told.recv_timeout(HANG_GUARD) {
            Ok(addr) => Self { addr, stop, thread },
            Err(_) => panic!("the server did not start: {:?}", thread.join()),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
        stream
    }

    fn end(self) -> Result<NamesCounters, ServeError> {
        self.thread.join().unwrap()
    }

    fn finish(self) -> NamesCounters {
        self.stop.stop();
        self.end().unwrap()
    }
}

/// Sends, and expects exactly this back.
fn ask(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).unwrap();
    expect(stream, reply);
}

fn expect(stream: &mut TcpStream, reply: &[u8]) {
    let mut got = vec![0; reply.len()];
    let mut at = 0;
    while at < got.len() {
        match stream.read(&mut got[at..]) {
            Ok(n) if n > 0 => at += n,
            end => panic!("{end:?} behind '{}', not '{}'", got[..at].escape_ascii(), reply.escape_ascii()),
        }
    }
    assert_eq!(got.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

/// The reply's line, of a command answered with one.
fn line(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    String::from_utf8_lossy(&rest).into_owned()
}

#[test]
fn a_conversation_is_the_same_cut_at_every_byte() {
    let server = Names::start(NamesOptions::default());
    let request = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n\r\n\0\r\nPING\r\nLOAD a\r\n*2\r\n$7\r\nLOADALL\r\n$0\r\n\r\n\
        LOADALL\r\nSAVE b \"x y\"\r\nDEL a b none\r\nGET a\r\nECHO hi\r\nFLUSHALL\r\nnone\r\n";
    let reply = b"+OK\r\n+PONG\r\n$3\r\n\r\n\0\r\n-ERR wrong number of arguments for 'loadall' command\r\n\
        *2\r\n$1\r\na\r\n$3\r\n\r\n\0\r\n+OK\r\n:2\r\n$-1\r\n$2\r\nhi\r\n+OK\r\n\
        -ERR unknown command 'none', with args beginning with: \r\n";
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for cut in 0..request.len() {
        stream.write_all(&request[..cut]).unwrap();
        if cut % 3 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        ask(&mut stream, &request[cut..], reply);
    }
    for byte in request {
        stream.write_all(&[*byte]).unwrap();
    }
    expect(&mut stream, reply);
    stream.write_all(b"QUIT\r\nPING\r\n").unwrap();
    assert_eq!(rest(&mut stream), "+OK\r\n");
    let counters = server.finish();
    let rounds = request.len() as u64 + 1;
    assert_eq!((counters.saves, counters.common.requests), (2 * rounds, 11 * rounds + 1));
    assert_eq!((counters.common.refused, counters.keys), (2 * rounds, 0));
    assert_eq!((counters.common.accepted, counters.common.closed), (1, 1));
}

#[test]
fn what_is_no_protocol_is_answered_once_and_closed() {
    let server = Names::start(NamesOptions::default());
    for (bytes, said) in [
        (&b"*1\r\n:1\r\n"[..], "expected '$', got ':'"),
        (b"*99999\r\n", "invalid multibulk length"),
        (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
        (b"*2\r\n$4\r\nECHO\r\n$1\r\nabc", "expected CRLF after the bulk"),
        (b"set 'a\r\n", "unbalanced quotes in request"),
    ] {
        let mut stream = server.connect();
        stream.write_all(&[b"SET k v\r\nPING\r\n", bytes, b"PING\r\n"].concat()).unwrap();
        assert_eq!(rest(&mut stream), format!("+OK\r\n+PONG\r\n-ERR Protocol error: {said}\r\n"));
    }
    // Noise, endless lines, and connections that end in the middle: none takes the server down.
    let mut stream = server.connect();
    let endless = vec![b'x'; 1 << 20];
    // It may have closed before all of it is sent.
    let _ = stream.write_all(&endless);
    for seed in 0..50_u32 {
        let mut stream = server.connect();
        let noise: Vec<u8> =
            (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect();
        let _ = stream.write_all(&noise);
        let mut cut = server.connect();
        cut.write_all(b"*2\r\n$3\r\nGET\r\n$100\r\nabc").unwrap();
    }
    ask(&mut server.connect(), b"GET k\r\n", b"$1\r\nv\r\n");
    server.finish();
}

#[test]
fn long_pipelines_and_large_values_come_back_whole() {
    let server = Names::start(NamesOptions::default());
    let mut stream = server.connect();
    let value = crate::common::noise(3 << 20);
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n", value.len());
    ask(&mut stream, &[head.as_bytes(), &value, b"\r\n"].concat(), b"+OK\r\n");
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for n in 0..5000 {
            let more = if n % 100 == 0 { "GET big\r\n" } else { "" };
            writer.write_all(format!("SET k{n} {n}\r\nPING\r\nGET k{n}\r\n{more}").as_bytes()).unwrap();
        }
    });
    for n in 0..5000_u32 {
        let text = n.to_string();
        expect(&mut stream, format!("+OK\r\n+PONG\r\n${}\r\n{text}\r\n", text.len()).as_bytes());
        if n % 100 == 0 {
            expect(&mut stream, &[format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat());
        }
    }
    sender.join().unwrap();
    assert_eq!(server.finish().keys, 5001);
}

#[test]
fn more_than_the_store_may_hold_is_refused() {
    let server = Names::start(NamesOptions { store_bytes_max: 1000, ..NamesOptions::default() });
    let mut stream = server.connect();
    ask(&mut stream, b"SET a 1\r\n", b"+OK\r\n");
    let oom = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    ask(&mut stream, format!("SET b {}\r\n", "x".repeat(900)).as_bytes(), oom);
    ask(&mut stream, b"GET b\r\nGET a\r\n", b"$-1\r\n$1\r\n1\r\n");
    assert_eq!(server.finish().writes_refused, 1);
}

const OOPS: &[u8] = b"-ERR OOPS: the store has crashed, as it was asked to\r\n";

/// Down for half a second after the first crash.
fn slow_restart(on_crash: OnCrash) -> NamesOptions {
    NamesOptions { on_crash, backoff: Duration::from_millis(500), ..NamesOptions::default() }
}

#[test]
fn fail_fast_refuses_at_once_and_what_was_saved_is_lost() {
    // Down for long enough that it is seen to be.
    let names = NamesOptions { backoff: Duration::from_secs(5), ..slow_restart(OnCrash::FailFast) };
    let server = Names::start(names);
    let mut stream = server.connect();
    // In one pipeline: what is in front of the crash is answered, what is behind finds the store down.
    let refused = b"-LOADING the store has crashed and is being started again\r\n";
    let replies = [b"+OK\r\n", OOPS, refused, b"+PONG\r\n"].concat();
    ask(&mut stream, b"SET a 1\r\nOOPS\r\nGET a\r\nPING\r\n", &replies);
    let mut info = server.connect();
    info.write_all(b"INFO supervision\r\nQUIT\r\n").unwrap();
    assert!(rest(&mut info).contains("store_up:0\r\ncrashes:1\r\nrestarts:0"));
    while line(&mut stream, b"GET a\r\n").starts_with("-LOADING") {
        std::thread::sleep(Duration::from_millis(10));
    }
    ask(&mut stream, b"GET a\r\nDEL a\r\n", b"$-1\r\n:0\r\n");
    let counters = server.finish();
    assert_eq!((counters.crashes, counters.restarts), (1, 1));
    assert!(counters.unavailable >= 1 && counters.common.accepted == 2, "{counters:?}");
}

#[test]
fn wait_holds_requests_until_the_store_is_back() {
    let server = Names::start(slow_restart(OnCrash::Wait));
    let mut first = server.connect();
    ask(&mut first, b"OOPS\r\nSET a 1\r\nGET a\r\n", &[OOPS, b"+OK\r\n$1\r\n1\r\n"].concat());
    let counters = server.finish();
    assert_eq!((counters.crashes, counters.restarts, counters.unavailable, counters.saves), (1, 1, 0, 1));
}

#[test]
fn wait_is_bounded_in_time_and_number() {
    let backoff = Duration::from_secs(3600);
    let names = NamesOptions {
        wait_timeout: Duration::from_millis(300),
        wait_queue: 2,
        backoff,
        backoff_max: backoff,
        ..slow_restart(OnCrash::Wait)
    };
    let server = Names::start(names);
    let mut streams: Vec<_> = (0..5).map(|_| server.connect()).collect();
    ask(&mut streams[0], b"OOPS\r\n", OOPS);
    for stream in &mut streams {
        stream.write_all(b"GET a\r\n").unwrap();
    }
    for stream in &mut streams {
        expect(stream, b"-LOADING the store is down, and too many or for too long wait for it\r\n");
    }
    let counters = server.finish();
    assert_eq!((counters.unavailable, counters.crashes, counters.restarts), (5, 1, 0));
}

#[test]
fn retry_tries_again_and_gives_up_in_the_end() {
    let retry = |times, ms| OnCrash::Retry { times, backoff: Duration::from_millis(ms) };
    let server = Names::start(slow_restart(retry(2000, 50)));
    ask(&mut server.connect(), b"OOPS\r\nSET a 1\r\n", &[OOPS, b"+OK\r\n"].concat());
    assert_eq!(server.finish().unavailable, 0);
    let server = Names::start(NamesOptions {
        backoff: Duration::from_secs(3600),
        backoff_max: Duration::from_secs(3600),
        ..slow_restart(retry(3, 1))
    });
    let refused = b"-LOADING the store is down, and was after every retry\r\n";
    ask(&mut server.connect(), b"OOPS\r\nSET a 1\r\n", &[OOPS, refused].concat());
    assert_eq!(server.finish().unavailable, 1);
}

#[test]
fn one_crash_too_many_ends_the_server() {
    let names = NamesOptions {
        on_crash: OnCrash::Wait,
        restarts_max: 2,
        restart_period: Duration::from_secs(3600),
        backoff: Duration::from_millis(1),
        ..NamesOptions::default()
    };
    let server = Names::start(names);
    let mut stream = server.connect();
    ask(&mut stream, b"OOPS\r\nOOPS\r\nGET a\r\n", &[OOPS, OOPS, b"$-1\r\n"].concat());
    stream.write_all(b"OOPS\r\n").unwrap();
    let error = server.end().unwrap_err();
    assert!(matches!(error, ServeError::Names(NamesError::GaveUp { restarts_max: 2, .. })), "{error:?}");
    assert!(error.to_string().contains("the last time: OOPS"), "{error}");
}

#[test]
fn oops_loses_nothing_that_is_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let names = NamesOptions {
        on_crash: OnCrash::Wait,
        restarts_max: 1000,
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        journal: Some(folder.path().join("journal")),
        ..NamesOptions::default()
    };
    let server = Names::start(names.clone());
    let addr = server.addr;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(addr).unwrap();
                stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
                for n in 0..100 {
                    if n % 25 == writer {
                        ask(&mut stream, b"OOPS\r\n", OOPS);
                    }
                    let said = line(&mut stream, format!("SET {writer}-{n} {n}\r\n").as_bytes());
                    assert_eq!(said, "+OK");
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let check = |server: &Names| {
        let mut stream = server.connect();
        for writer in 0..8 {
            for n in 0..100 {
                let text = n.to_string();
                let reply = format!("${}\r\n{text}\r\n", text.len());
                ask(&mut stream, format!("GET {writer}-{n}\r\n").as_bytes(), reply.as_bytes());
            }
        }
    };
    check(&server);
    let counters = server.finish();
    assert_eq!((counters.crashes, counters.restarts, counters.keys), (32, 32, 800));
    let again = Names::start(names);
    check(&again);
    assert_eq!(again.finish().recovered, 800);
}

#[test]
fn the_journal_is_rewritten_when_most_of_it_is_of_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let names = NamesOptions { journal: Some(journal.clone()), ..NamesOptions::default() };
    let server = Names::start(names.clone());
    let mut stream = server.connect();
    let value = "v".repeat(50_000);
    for _ in 0..60 {
        ask(&mut stream, format!("SET a {value}\r\n").as_bytes(), b"+OK\r\n");
    }
    let counters = server.finish();
    assert!(counters.rewrites >= 1 && counters.journal_bytes < 1_200_000, "{counters:?}");
    assert_eq!(std::fs::metadata(&journal).unwrap().len(), counters.journal_bytes);
    let again = Names::start(names);
    ask(&mut again.connect(), b"GET a\r\n", format!("$50000\r\n{value}\r\n").as_bytes());
    again.finish();
}

fn refused(names: NamesOptions) -> NamesError {
    let served = names::serve(&ServeOptions::default(), &names, &Stop::new().unwrap(), |_| panic!("it must not start"));
    let error = served.expect_err("it must not start");
    let sentence = error.to_string();
    assert!(sentence.contains(':') && !sentence.contains('\n'), "what is next is missing: {sentence}");
    match error {
        ServeError::Names(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn journals_that_cannot_be_used_are_refused_with_the_facts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &Path| NamesOptions { journal: Some(path.to_owned()), ..NamesOptions::default() };
    for path in [folder.path(), Path::new("/nonexistent/journal"), Path::new("/proc/journal")] {
        let error = refused(at(path));
        assert!(matches!(error, NamesError::Journal { .. }), "{error:?}");
    }
    let other = folder.path().join("other");
    std::fs::write(&other, "something else that is here").unwrap();
    assert!(matches!(refused(at(&other)), NamesError::NotAJournal { .. }));
    let journal = folder.path().join("journal");
    let server = Names::start(at(&journal));
    assert!(matches!(refused(at(&journal)), NamesError::JournalInUse { .. }));
    let mut stream = server.connect();
    ask(&mut stream, b"SET a 1\r\n", b"+OK\r\n");
    ask(&mut stream, b"SET b 1\r\n", b"+OK\r\n");
    server.finish();
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    assert!(matches!(refused(at(&journal)), NamesError::JournalDamaged { at: 16, .. }));
}

#[test]
fn a_store_whose_journal_cannot_be_read_back_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let names = NamesOptions {
        restarts_max: 2,
        backoff: Duration::from_millis(1),
        journal: Some(journal.clone()),
        ..NamesOptions::default()
    };
    let server = Names::start(names);
    std::fs::write(&journal, "overwritten by somebody else").unwrap();
    ask(&mut server.connect(), b"OOPS\r\n", OOPS);
    let error = server.end().unwrap_err().to_string();
    assert!(error.contains("expected a journal of this program"), "{error}");
}

#[test]
fn tls_is_refused() {
    let options = ServeOptions { tls: Some(TlsOptions::default()), ..ServeOptions::default() };
    let served =
        names::serve(&options, &NamesOptions::default(), &Stop::new().unwrap(), |_| panic!("it must not start"));
    assert!(matches!(served, Err(ServeError::Names(NamesError::NoTls))));
}

#[test]
fn a_stop_answers_what_is_under_way_and_closes_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let names = NamesOptions { journal: Some(folder.path().join("journal")), ..NamesOptions::default() };
    let server = Names::with(ServeOptions { workers: 2, ..ServeOptions::default() }, names.clone());
    let mut idle = server.connect();
    ask(&mut idle, b"PING\r\n", b"+PONG\r\n");
    let addr = server.addr;
    let (tell, told) = mpsc::channel();
    let writers: Vec<_> = (0..10)
        .map(|writer| {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(addr).unwrap();
                stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
                for n in 0.. {
                    // Refused by an end in order, never by a reset in the middle of a reply.
                    if stream.write_all(format!("SET {writer}-{n} x\r\n").as_bytes()).is_err() {
                        return n;
                    }
                    let mut reply = [0; 5];
                    match stream.read_exact(&mut reply) {
                        Ok(()) => assert_eq!(&reply, b"+OK\r\n"),
                        Err(_) => return n,
                    }
                    if n == 20 {
                        tell.send(()).unwrap();
                    }
                }
                0
            })
        })
        .collect();
    writers.iter().for_each(|_| told.recv_timeout(HANG_GUARD).unwrap());
    let counters = server.finish();
    let acknowledged: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    assert_eq!(rest(&mut idle), "");
    assert_eq!((counters.common.accepted, counters.common.closed, counters.common.cut_at_stop), (11, 11, 0));
    assert_eq!(counters.saves, acknowledged);
    assert_eq!(Names::start(names).finish().keys, acknowledged);
}

#[test]
fn idle_connections_are_closed_and_a_unix_socket_serves_too() {
    let folder = tempfile::tempdir().unwrap();
    let unix = folder.path().join("socket");
    let idle_timeout = Some(Duration::from_secs(2));
    let server = Names::with(
        ServeOptions { idle_timeout, unix: Some(unix.clone()), ..ServeOptions::default() },
        NamesOptions::default(),
    );
    let mut stream = server.connect();
    assert_eq!(rest(&mut stream), "");
    let mut stream = std::os::unix::net::UnixStream::connect(&unix).unwrap();
    stream.write_all(b"SET a 1\r\nQUIT\r\n").unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "+OK\r\n+OK\r\n");
    let counters = server.finish();
    assert_eq!((counters.common.idle_closed, counters.common.closed), (1, 2));
    assert!(!unix.exists());
}

/// One of redis' own programs against the server; its stdout.
fn redis(program: &str, server: &Names, arguments: &[&str]) -> Option<String> {
    let Some(path) = testkit::program(program) else {
        testkit::skip(&format!("{program} is not installed (redis-tools)"));
        return None;
    };
    let output = Command::new(path).args(["-p", &server.addr.port().to_string()]).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

#[test]
fn redis_cli_drives_it() {
    let server = Names::start(NamesOptions { on_crash: OnCrash::Wait, ..NamesOptions::default() });
    for (arguments, said) in [
        (&["SET", "a", "one two"][..], "OK\n"),
        (&["GET", "a"], "one two\n"),
        (&["SAVE", "b", "2"], "OK\n"),
        (&["LOAD", "b"], "2\n"),
        (&["REMOVE", "b", "c"], "1\n"),
        (&["LOADALL"], "a\none two\n"),
        (&["DEL", "a"], "1\n"),
        (&["FLUSHALL"], "OK\n"),
        (&["GET", "a"], "\n"),
        (&["OOPS"], "ERR OOPS: the store has crashed, as it was asked to\n\n"),
        (&["PING"], "PONG\n"),
        (&["-3", "PING"], ""),
    ] {
        let Some(got) = redis("redis-cli", &server, arguments) else { return };
        assert!(got.trim_end().ends_with(said.trim_end()), "{arguments:?}: '{got}'");
    }
    // A store that has crashed is counted when it is up again.
    let info = testkit::wait_for("the restart", || {
        redis("redis-cli", &server, &["INFO"]).filter(|info| info.contains("restarts:1"))
    });
    for field in ["uptime_in_seconds:", "total_commands_processed:", "keys:0", "journal_bytes:0", "used_memory:"] {
        assert!(info.contains(field), "{field}: {info}");
    }
    server.finish();
}

#[test]
fn redis_benchmark_drives_it() {
    let folder = tempfile::tempdir().unwrap();
    for journal in [None, Some(folder.path().join("journal"))] {
        let server = Names::start(NamesOptions { journal: journal.clone(), ..NamesOptions::default() });
        for pipelined in ["1", "16"] {
            let arguments = ["-t", "set,get,ping", "-n", "2000", "-c", "50", "-r", "100", "-q", "-e", "-P", pipelined];
            let Some(said) = redis("redis-benchmark", &server, &arguments) else { return };
            for test in ["PING_INLINE", "PING_MBULK", "SET", "GET"] {
                assert!(said.contains(&format!("{test}: ")) && !said.to_lowercase().contains("error"), "{said}");
            }
        }
        let counters = server.finish();
        assert!(counters.saves >= 4000 && counters.loads >= 4000 && counters.common.refused == 0, "{counters:?}");
        assert!(counters.keys <= 100);
        match journal {
            None => assert_eq!((counters.commits, counters.journal_bytes), (0, 0)),
            Some(_) => {
                assert!(counters.commits > 0 && counters.commits < counters.saves, "commits are shared: {counters:?}")
            }
        }
    }
}
