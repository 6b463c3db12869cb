//! `plimsoll watch --serve` among strangers, and with an output that nobody reads: who has the token gets through, and
//! threads and memory stay within bounds, as `/proc` has them. All on loopback, which is a network of 2^24 addresses.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::process::Guard;
use testkit::wait_until;

const TOKEN: &str = "a-token-for-tests-0123456789";
/// The main thread, which hears strangers, the outlet's, and two for each client: with room for three.
const THREADS_MAX: u64 = 8;
/// Resident memory, KiB, of a build for tests with 256 strangers in the middle of TLS: without any it is some 22 MiB.
const MEMORY_MAX_KIB: u64 = 64 << 10;

struct Observer {
    process: Guard,
    address: SocketAddr,
}

impl Observer {
    /// Its output is read and thrown away.
    fn start() -> Self {
        let mut serve = command(&["watch", "--serve", "127.0.0.1:0"]);
        serve.env("PLIMSOLL_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Guard::spawn(&mut serve).unwrap();
        let mut output = BufReader::new(process.child().stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Observer { process, address }
    }

    /// Its output goes there. `number`: of the test, which has an address of its own, as strangers take ports of theirs.
    fn start_into(number: u8, output: std::io::PipeWriter) -> Self {
        let address: SocketAddr = format!("{}:4500", own_address(number)).parse().unwrap();
        let mut serve = command(&["watch", "--serve", &address.to_string()]);
        serve.env("PLIMSOLL_TOKEN", TOKEN).stdout(output.try_clone().unwrap()).stderr(output);
        let process = Guard::spawn(&mut serve).unwrap();
        wait_until("it listens", || TcpStream::connect(address).is_ok());
        Observer { process, address }
    }

    /// A figure of `/proc/PID/status`.
    fn status(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(&format!("{field}:"))).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// A client with the token, which must get through.
    fn is_seen(&self) {
        let (at, pid) = (self.address.to_string(), self.process.pid().to_string());
        let args = ["watch", "--at", &at, "--pid", &pid, "-d", "500ms", "--tick", "100ms", "--json"];
        let run = finish(command(&args).env("PLIMSOLL_TOKEN", TOKEN));
        run.assert_exit(0);
        assert!(!run.json()["snapshots"].as_array().unwrap().is_empty(), "{}", run.stdout);
    }

    fn ends_in_time(mut self) {
        self.process.signal(15);
        let status = self.process.wait(testkit::HANG_GUARD).expect("an end within seconds of SIGTERM");
        assert_eq!(status.code(), Some(0));
    }

    fn is_within_bounds(&self) {
        let (threads, kib) = (self.status("Threads"), self.status("VmHWM"));
        assert!(threads <= THREADS_MAX, "{threads} threads");
        assert!(kib <= MEMORY_MAX_KIB, "{kib} KiB");
    }
}

/// Strangers that come one after the other without end, and are held as long as there is room for them here.
struct Flood {
    stop: Arc<AtomicBool>,
    came: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Strangers that are held here at once.
const HELD: usize = 600;

impl Flood {
    /// `from`: whose address the stranger of that number has; `bytes`: what each says.
    fn start(to: SocketAddr, from: fn(u32) -> Ipv4Addr, bytes: &'static [u8]) -> Self {
        let (stop, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&came));
        let thread = std::thread::spawn(move || {
            let mut held = std::collections::VecDeque::new();
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // Whatever becomes of it, the next one comes.
                if let Ok(mut socket) = stranger(to, from(number), Duration::from_secs(1)) {
                    let _ = socket.write_all(bytes);
                    held.push_back(socket);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                if held.len() > HELD {
                    held.pop_front();
                }
                // A thousand a second at the most, six times what the documents speak of.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Flood { stop, came, thread: Some(thread) }
    }

    /// There were more than have places.
    fn is_under_way(&self) {
        wait_until("strangers crowd the door", || self.came.load(Ordering::Relaxed) > HELD);
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn stranger(to: SocketAddr, from: Ipv4Addr, at_most: Duration) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), at_most)?;
    Ok(socket.into())
}

fn one_address(_: u32) -> Ipv4Addr {
    Ipv4Addr::LOCALHOST
}

fn ten_addresses(number: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, 1 + (number % 10) as u8)
}

fn any_address(number: u32) -> Ipv4Addr {
    let [_, b, c, d] = (number % (1 << 24) + 256).to_be_bytes();
    Ipv4Addr::new(127, b, c, d)
}

/// A record of TLS that is never complete: it is waited for, and costs its reader the most memory.
const HALF: [u8; 4000] = {
    let mut bytes = [0; 4000];
    (bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]) = (22, 3, 1, 0x3f, 0xff);
    (bytes[5], bytes[6], bytes[7], bytes[8]) = (1, 0, 0x3f, 0xf0);
    bytes
};

fn gets_through(from: fn(u32) -> Ipv4Addr, bytes: &'static [u8]) {
    let observer = Observer::start();
    let flood = Flood::start(observer.address, from, bytes);
    flood.is_under_way();
    for _ in 0..3 {
        observer.is_seen();
        observer.is_within_bounds();
    }
    let came = flood.came.load(Ordering::Relaxed);
    assert!(came > HELD, "the flood went on: {came}");
    drop(flood);
    observer.ends_in_time();
}

#[test]
fn who_has_the_token_gets_through_silent_strangers_of_his_own_address() {
    gets_through(one_address, b"");
}

#[test]
fn who_has_the_token_gets_through_strangers_of_ten_addresses() {
    gets_through(ten_addresses, &HALF);
}

#[test]
fn who_has_the_token_gets_through_strangers_of_ever_new_addresses_in_the_middle_of_tls() {
    gets_through(any_address, &HALF);
}

#[test]
fn forty_strangers_of_ten_addresses_lock_nobody_out() {
    let observer = Observer::start();
    let one = |number| stranger(observer.address, ten_addresses(number), testkit::HANG_GUARD).unwrap();
    let held: Vec<_> = (0..40).map(one).collect();
    observer.is_seen();
    drop(held);
    observer.ends_in_time();
}

#[test]
fn an_output_that_nobody_reads_holds_up_neither_clients_nor_the_end() {
    let (reader, writer) = full_pipe();
    let observer = Observer::start_into(0, writer);
    // Each of them is a line that is never written.
    for number in 0..600 {
        let mut socket = stranger(observer.address, any_address(number), testkit::HANG_GUARD).unwrap();
        let _ = socket.write_all(b"no TLS");
    }
    observer.is_seen();
    observer.is_within_bounds();
    observer.ends_in_time();
    drop(reader);
}

#[test]
fn an_output_that_is_read_late_has_all_that_the_queue_held() {
    let (mut reader, writer) = full_pipe();
    let observer = Observer::start_into(1, writer);
    observer.is_seen();
    let all = std::thread::spawn(move || {
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        all
    });
    observer.ends_in_time();
    let all = all.join().unwrap();
    for line in ["observing for whoever has the token", "observing for it, every 0.1 s", "ended after"] {
        assert!(all.contains(line), "{line}: {}", all.trim());
    }
}
