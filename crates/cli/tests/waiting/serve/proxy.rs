//! `plimsoll serve proxy` as a process: between curl and nginx, its memory beside its formula, its refusals.

use crate::common::{command, plimsoll};
use servers::ServeOptions;
use servers::proxy::{ProxyOptions, memory_bytes};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::nginx::Nginx;
use testkit::process::Guard;
use testkit::wait_until;

const OBJECT: usize = 26_000_000;
const READERS: usize = 40;

struct Served {
    guard: Guard,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

fn serve(mut command: Command, scheme: &str) -> Served {
    let mut guard = Guard::spawn(command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped())).unwrap();
    let mut output = BufReader::new(guard.child().stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").and_then(|url| url.strip_prefix(scheme));
    let address = address.unwrap_or_else(|| panic!("'{line}'")).trim_end_matches('/').parse().unwrap();
    Served { guard, output, address }
}

fn proxy(origin: SocketAddr, args: &[&str]) -> Served {
    let mut command = command(&["serve", "proxy", "--origin", &format!("http://{origin}")]);
    command.args(args);
    serve(command, "http://")
}

impl Served {
    fn stop(mut self) -> String {
        self.guard.signal(15);
        let mut counters = String::new();
        self.output.read_to_string(&mut counters).unwrap();
        counters
    }
}

fn counted(counters: &str, name: &str) -> u64 {
    let row = counters
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("{name}: {counters}"));
    row.trim().parse().unwrap()
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|at| if at % 3 == 0 { 0 } else { (at * 7 + at / 251) as u8 }).collect()
}

fn nginx(server: &str) -> Option<Nginx> {
    Nginx::start(server).map_err(|why| testkit::skip(&why.to_string())).ok()
}

/// Bytes of a line of `/proc/PID/status`.
fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Sizes of the files without a name that a process holds.
fn unlinked_bytes(pid: u32) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let is_unlinked = std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().ends_with(" (deleted)"));
        if is_unlinked {
            sum += std::fs::metadata(entry.path()).map_or(0, |file| file.len());
        }
    }
    sum
}

/// What the kernel holds on its way from a server's port to its clients, both in this namespace.
fn queued_bytes(port: u16) -> u64 {
    let port = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let queued = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote, _, queues) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (sending, received) = queues.split_once(':')?;
        let bytes = |hex| u64::from_str_radix(hex, 16).ok();
        let of_server = local.ends_with(&port).then(|| bytes(sending)).flatten();
        of_server.or_else(|| remote.ends_with(&port).then(|| bytes(received)).flatten())
    });
    queued.sum()
}

/// Readers that have asked and take nothing, with windows of a few segments of the loopback; returned once nothing moves in the server.
fn stalled(address: SocketAddr, settled: impl Fn() -> u64) -> Vec<TcpStream> {
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
            stream.write_all(b"GET /object HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    let (mut last, mut same) = (0, 0);
    while same < 10 {
        std::thread::sleep(Duration::from_millis(200));
        let now = settled();
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        assert!(start.elapsed() < Duration::from_secs(180), "it never settles: {now}");
    }
    readers
}

#[test]
fn memory_and_temp_files_of_slow_readers_are_as_predicted() {
    let Some(origin) = nginx("") else { return };
    std::fs::write(origin.root().join("object"), noise(OBJECT)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let temp_dir = folder.path().to_str().unwrap();
    let served = proxy(origin.address(), &["--buffers", "16", "--buffer-size", "32KiB", "--temp-dir", temp_dir]);
    let pid = served.guard.pid();
    // At rest: it has served one request, so that its code is there.
    assert_eq!(get(served.address, "/"), "x".repeat(612).as_bytes());
    let base = status_bytes(pid, "VmRSS");
    let options = ProxyOptions { buffers: 16, buffer_bytes: 32 << 10, ..ProxyOptions::default() };
    let predicted = memory_bytes(&ServeOptions::default(), &options, READERS as u64, OBJECT as u64);
    let mut readers = stalled(served.address, || unlinked_bytes(pid));
    let (peak, temp) = (status_bytes(pid, "VmHWM"), unlinked_bytes(pid));
    println!(
        "proxy: at rest {base}, peak {peak}, predicted {}; temp files {temp}, predicted at most {}",
        base + predicted.total,
        predicted.temp_total
    );
    let expected = (base + predicted.total) as f64;
    assert!((peak as f64 - expected).abs() <= expected * 0.1, "peak {peak}, predicted {expected}");
    // What a client's sockets hold has left the proxy; which part of its buffers and file that was is left open.
    let left = temp + queued_bytes(served.address.port());
    let slack = READERS as u64 * (16 * (32 << 10) + 1024);
    assert!((predicted.temp_total..predicted.temp_total + slack).contains(&left), "{left}");
    assert!(temp <= predicted.temp_total, "{temp}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file has a name");
    // And one of them is right, now with a window to be sent into.
    rustix::net::sockopt::set_socket_recv_buffer_size(&readers[7], 4 << 20).unwrap();
    readers[7].set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    assert!(body(&mut readers[7]) == noise(OBJECT));
    drop(readers);
    let counters = served.stop();
    assert!(counted(&counters, "temp_bytes") >= temp, "{counters}");

    let at = origin.address();
    let Some(front) = nginx(&format!(
        "location / {{ proxy_pass http://{at}; proxy_buffers 16 32k; proxy_buffer_size 32k; proxy_busy_buffers_size 64k; }}"
    )) else {
        return;
    };
    let children = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", front.pid())).unwrap();
    wait_until("nginx has its worker", || !children().trim().is_empty());
    let worker: u32 = children().split_whitespace().next().unwrap().parse().unwrap();
    get(front.address(), "/");
    let base = status_bytes(worker, "VmRSS");
    let readers = stalled(front.address(), || unlinked_bytes(worker));
    println!("nginx: at rest {base}, peak {}, temp files {}", status_bytes(worker, "VmHWM"), unlinked_bytes(worker));
    drop(readers);
}

fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    body(&mut stream)
}

/// The body of a reply with a length.
fn body(stream: &mut TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}

#[test]
fn killed_it_leaves_no_temp_files() {
    let Some(origin) = nginx("") else { return };
    std::fs::write(origin.root().join("object"), noise(OBJECT)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut served = proxy(origin.address(), &["--temp-dir", folder.path().to_str().unwrap()]);
    let pid = served.guard.pid();
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.write_all(b"GET /object HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let start = Instant::now();
    while unlinked_bytes(pid) == 0 {
        assert!(start.elapsed() < testkit::HANG_GUARD, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    served.guard.signal(9);
    served.guard.wait(testkit::HANG_GUARD).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn curl_gets_from_nginx_what_nginx_has() {
    let Some(curl) = testkit::program("curl") else { return testkit::skip("curl is not installed") };
    let Some(origin) = nginx("client_max_body_size 0; location /put- { dav_methods PUT; }") else { return };
    let sizes = [0, 1, 4095, 4096, 4097, 8 * 4096 - 1, 8 * 4096 + 1, 1 << 20, OBJECT];
    for size in sizes {
        std::fs::write(origin.root().join(size.to_string()), noise(size)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let mut secure = command(&["serve", "proxy", "--origin", &format!("http://{}", origin.address())]);
    secure.args(["--tls", "--tls-ca-out", ca.to_str().unwrap()]);
    let fetch = |url: String, arguments: &[&str]| {
        let mut command = Command::new(&curl);
        command
            .args(["-sS", "--noproxy", "*", "--max-time", "120", "--cacert", ca.to_str().unwrap()])
            .args(arguments)
            .arg(url);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for (served, scheme) in [(proxy(origin.address(), &[]), "http"), (serve(secure, "https://"), "https")] {
        let at = format!("{scheme}://{}", served.address);
        for size in sizes {
            assert!(fetch(format!("{at}/{size}"), &[]) == noise(size), "{scheme} {size}");
        }
        assert!(fetch(format!("{at}/1048576"), &["--limit-rate", "2M"]) == noise(1 << 20), "slowly");
        assert_eq!(fetch(format!("{at}/4096"), &["-r", "10-19"]), &noise(4096)[10..20]);
        assert_eq!(fetch(format!("{at}/4096"), &["--http1.0", "--no-alpn"]), noise(4096));
        assert!(fetch(format!("{at}/4096"), &["-I"]).starts_with(b"HTTP/1.1 200"));
        let file = origin.root().join(OBJECT.to_string());
        fetch(format!("{at}/put-{scheme}"), &["-T", file.to_str().unwrap()]);
        assert!(std::fs::read(origin.root().join(format!("put-{scheme}"))).unwrap() == noise(OBJECT));
        let counters = served.stop();
        assert!(counted(&counters, "upstream_reused") > 0 && counted(&counters, "upstream_connects") < 5, "{counters}");
    }
}

#[test]
fn without_descriptors_it_says_503_and_does_not_spin() {
    let Some(origin) = nginx("") else { return };
    let inner =
        command(&["serve", "proxy", "--origin", &format!("http://{}", origin.address()), "--upstream-keepalive", "0"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 40; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    let served = serve(limited, "http://");
    // Idle clients take what there is, but for a few.
    let idle: Vec<_> = (0..60).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    let cpu_ticks = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let pid = served.guard.pid();
    let mut first = &idle[0];
    first.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    first.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut reply = [0; 400];
    let n = first.read(&mut reply).unwrap();
    let text = String::from_utf8_lossy(&reply[..n]).into_owned();
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("expected a descriptor"), "{text}");
    let before = cpu_ticks(pid);
    std::thread::sleep(Duration::from_secs(1));
    assert!(cpu_ticks(pid) - before < 50, "it spins");
    drop(idle);
    // And when descriptors are free again it goes on.
    let start = Instant::now();
    loop {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        if all.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(start.elapsed() < testkit::HANG_GUARD, "{all}");
    }
    served.stop();
}

#[test]
fn what_cannot_be_meant_or_done_is_said_in_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (args, status, sentence) in [
        (&["--origin", "https://h:1"][..], 2, "expected an origin over plain http"),
        (&["--origin", "h:1"], 2, "expected http://HOST:PORT"),
        (&[], 2, "--origin"),
        (
            &["--origin", "http://127.0.0.1:1", "--temp-dir", "/nowhere/x"],
            1,
            "expected to be able to make temp files in /nowhere/x",
        ),
        (
            &["--origin", "http://127.0.0.1:1", "--temp-dir", "/proc"],
            1,
            "expected to be able to make temp files in /proc",
        ),
        (&["--origin", "http://name.invalid:1"], 1, "expected http://name.invalid:1 to have an address"),
        (&["--origin", "http://127.0.0.1:1", "--buffers", "0"], 1, "expected buffers of a connection from 1 to"),
        (&["--origin", "http://127.0.0.1:1", "--listen", &taken], 1, "to be free"),
    ] {
        let run = plimsoll(&[&["serve", "proxy"], args].concat());
        run.assert_exit(status);
        assert!(
            run.stderr.contains(sentence) && run.stderr.trim_end().lines().count() == 1,
            "{args:?}: {}",
            run.stderr
        );
    }
    let run = plimsoll(&[
        "serve",
        "proxy",
        "--origin",
        "http://127.0.0.1:1",
        "--explain",
        "--buffers",
        "16",
        "--buffer-size",
        "32KiB",
    ]);
    run.assert_exit(0);
    let options = ProxyOptions { buffers: 16, buffer_bytes: 32 << 10, ..ProxyOptions::default() };
    let total = memory_bytes(&ServeOptions::default(), &options, 40, OBJECT as u64).total.to_string();
    assert!(run.stdout.contains(&total), "{total}: {}", run.stdout);
}

#[test]
fn how_many_buffers_fit_is_recommended() {
    let words = |more: &[&'static str]| {
        let all = ["serve", "proxy", "--origin", "http://127.0.0.1:1", "--explain", "--buffer-size", "32KiB"];
        plimsoll(&[&all, more].concat())
    };
    let run = words(&["--within", "1GiB", "--slow-connections", "1000", "--object", "26MB"]);
    run.assert_exit(0);
    let (line, after) = run.stdout.split_once("--buffers ").unwrap();
    assert!(line.contains("1000 slow connections of 24.8 MiB each, within 1.00 GiB"), "{}", run.stdout);
    let buffers: u64 = after.split(' ').next().unwrap().parse().unwrap();
    // 1 GiB of 1000 is a little more than a mebibyte each: 32 of these buffers, less what a connection takes beside.
    assert!((30..=32).contains(&buffers), "{}", run.stdout);
    assert!(
        after.contains(&format!("proxy_buffers {buffers} 32k")) && after.contains("--buffers 794"),
        "{}",
        run.stdout
    );
    let none = words(&["--within", "1MiB", "--slow-connections", "1000", "--object", "26MB"]);
    assert!(none.stdout.contains("not even one buffer of 32k each fits"), "{}", none.stdout);
    words(&["--within", "1GiB"]).assert_exit(2);
    words(&["--object", "1MB"]).assert_exit(2);
}
