//! Drivers without a worker: what one call of theirs may do, and what it must not wait for. On each driver that has
//! real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

use engine::driver::clock::monotonic_ns;
use engine::driver::epoll::Epoll;
use engine::driver::rings::Rings;
use engine::driver::uring::{self, Uring};
use engine::driver::{Driver, Event, Idle, Setup, Slot, Wake};
use model::plan::Address;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use wire::Payload;

const S: u64 = 1_000_000_000;
/// How long a test waits before it calls something stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// A driver with its connections established, and the servers' ends of them, in the order of slots.
struct Linked<D> {
    driver: D,
    peers: Vec<TcpStream>,
}

fn setup(slots: u32, listener: &TcpListener, blob: Vec<u8>) -> Setup {
    Setup {
        slots,
        addresses: vec![Address::Tcp(listener.local_addr().unwrap())],
        blobs: vec![Arc::from(blob)],
        pipeline: 1,
        receive_stamps: false,
        sources: vec![],
        is_burst: false,
        idle: Idle::Watched,
    }
}

impl<D: Driver> Linked<D> {
    fn new(slots: u32, blob: Vec<u8>, make: impl FnOnce(&Setup) -> std::io::Result<D>) -> Self {
        Self::of(slots, blob, |_| {}, make)
    }

    fn of(
        slots: u32,
        blob: Vec<u8>,
        change: impl FnOnce(&mut Setup),
        make: impl FnOnce(&Setup) -> std::io::Result<D>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut setup = setup(slots, &listener, blob);
        change(&mut setup);
        let mut driver = make(&setup).unwrap();
        driver.begin(monotonic_ns());
        let mut peers = Vec::new();
        for slot in 0..slots {
            driver.connect(slot, 0);
            let mut is_there = false;
            while !is_there {
                let until_ns = driver.now_ns() + S;
                driver.wait(until_ns, Wake::First).unwrap();
                while let Some(event) = driver.next() {
                    assert_eq!(event, Event::Connected { slot });
                    is_there = true;
                }
            }
            peers.push(listener.accept().unwrap().0);
        }
        Linked { driver, peers }
    }

    /// One turn: what came, as (slot, bytes), in order.
    fn turn(&mut self, until_ns: u64) -> Vec<(Slot, usize)> {
        self.driver.wait(until_ns, Wake::First).unwrap();
        let mut came = Vec::new();
        while let Some(event) = self.driver.next() {
            let Event::Received { slot, .. } = event else { panic!("{event:?}") };
            came.push((slot, self.driver.bytes().len()));
            assert!(came.len() < 100_000, "the turn has no end");
        }
        came
    }
}

/// Runs a test on the drivers that this machine has.
macro_rules! on_each {
    ($test:ident, $($argument:expr),* ; $epoll:expr, $uring:expr, $rings:expr) => {
        $test("epoll", Epoll::new, $($argument,)* $epoll);
        match uring::available() {
            Ok(()) => {
                $test("uring", Uring::new, $($argument,)* $uring);
                $test("rings", Rings::new, $($argument,)* $rings);
            }
            Err(why) => testkit::skip(&format!("no io_uring: {why}")),
        }
    };
}

/// Writes until the kernel has taken all it will for as long as nobody reads. Says how much that was.
fn fill(peer: &mut TcpStream) -> usize {
    peer.set_nonblocking(true).unwrap();
    let (block, mut total) = (vec![b'x'; 1 << 20], 0);
    for _ in 0..3 {
        loop {
            match peer.write(&block) {
                Ok(n) => total += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => panic!("{e}"),
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    total
}

/// A connection with megabytes to read and one with a byte: the byte is not read after the megabytes, and the turn ends
/// while there is more, so that timers and requests that are due have theirs.
#[test]
fn a_long_reply_leaves_the_others_their_turn() {
    fn check<D: Driver>(name: &str, make: fn(&Setup) -> std::io::Result<D>, most: usize) {
        let mut linked = Linked::new(2, vec![], make);
        let filled = fill(&mut linked.peers[0]);
        linked.peers[1].write_all(b"y").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let (mut before, mut total) = (0, 0);
        let mut seen = false;
        while total < filled {
            let until_ns = linked.driver.now_ns() + S;
            let came = linked.turn(until_ns);
            let of_turn: usize = came.iter().map(|(_, length)| length).sum();
            assert!(of_turn <= most + 1, "{name}: {of_turn} bytes in one turn");
            for (slot, length) in came {
                seen |= slot == 1;
                before += if seen { 0 } else { length };
                total += length;
            }
        }
        assert!(seen && before <= most, "{name}: read after {before} of {filled} bytes");
    }
    // epoll reads a buffer of 64 KiB of each connection in a turn; the others hand out all their buffers at the most.
    on_each!(check, ; 64 << 10, 2 << 20, 64 * 4096);
}

/// A connection that takes all that it is given does not have all of a large request at once.
#[test]
fn a_long_request_leaves_the_others_their_turn() {
    const MOST: usize = 256 << 10;
    fn check<D: Driver>(name: &str, make: fn(&Setup) -> std::io::Result<D>, owned: bool, _: ()) {
        let length = 32 << 20;
        let mut linked = Linked::new(1, vec![b'x'; length], make);
        let mut peer = linked.peers.remove(0);
        peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let (say, hear) = channel();
        let reader = std::thread::spawn(move || {
            let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
            loop {
                match peer.read(&mut buffer) {
                    Ok(0) => return total,
                    Ok(n) => total += n,
                    // Nothing more comes by itself.
                    Err(e) if e.kind() == ErrorKind::WouldBlock => say.send(total).unwrap(),
                    Err(e) => panic!("{e}"),
                }
            }
        });
        if owned {
            linked.driver.send_bytes(0, vec![b'x'; length]);
        } else {
            linked.driver.send(0, Payload { blob: 0, start: 0, length: length as u32 });
        }
        linked.driver.wait(0, Wake::First).unwrap();
        let at_once = hear.recv_timeout(PATIENCE).unwrap();
        assert!(at_once <= MOST, "{name}, owned {owned}: {at_once} bytes in one turn");
        // All of it leaves in the end, and the last turn says so where the buffer was ours.
        let mut drained = false;
        let mut left = length;
        while left > 0 {
            let until_ns = linked.driver.now_ns() + S / 100;
            linked.driver.wait(until_ns, Wake::First).unwrap();
            while let Some(event) = linked.driver.next() {
                assert_eq!(event, Event::Drained { slot: 0 }, "{name}");
                drained = true;
            }
            while let Ok(total) = hear.try_recv() {
                left = length - total;
            }
        }
        assert_eq!(drained, owned, "{name}");
        linked.driver.close(0);
        linked.driver.wait(0, Wake::First).unwrap();
        assert_eq!(reader.join().unwrap(), length, "{name}");
    }
    for owned in [false, true] {
        on_each!(check, owned; (), (), ());
    }
}

/// The first reply ends the sleep, whatever sends of other connections their peers do not take.
#[test]
fn a_send_that_is_not_taken_does_not_put_off_a_reply() {
    fn check<D: Driver>(name: &str, make: fn(&Setup) -> std::io::Result<D>, _: ()) {
        const SLOTS: u32 = 6;
        let mut linked = Linked::new(SLOTS, vec![], make);
        // Peers that do not read: each connection's last send stays with the kernel.
        for _ in 0..2000 {
            for slot in 0..SLOTS - 1 {
                if linked.driver.unsent_bytes(slot) < 8 * 4096 {
                    linked.driver.send_bytes(slot, vec![b'x'; 4096]);
                }
            }
            linked.driver.wait(0, Wake::First).unwrap();
            while let Some(event) = linked.driver.next() {
                assert!(matches!(event, Event::Drained { .. }), "{name}: {event:?}");
            }
        }
        assert!(linked.driver.unsent_bytes(0) > 4096, "{name}: the peer's buffers took everything");
        let mut peer = linked.peers.pop().unwrap();
        let (say, hear) = channel();
        let server = std::thread::spawn(move || {
            let mut got = [0; 16];
            peer.read_exact(&mut got).unwrap();
            peer.write_all(b"first").unwrap();
            // The reply must be heard of by itself; a second one frees a driver that waits for more.
            let heard = hear.recv_timeout(PATIENCE).is_ok();
            for _ in 0..64 {
                peer.write_all(b"again").unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            heard
        });
        linked.driver.send_bytes(SLOTS - 1, vec![b'y'; 16]);
        let mut came = Vec::new();
        while came.is_empty() {
            let until_ns = linked.driver.now_ns() + 60 * S;
            linked.driver.wait(until_ns, Wake::First).unwrap();
            while let Some(event) = linked.driver.next() {
                if let Event::Received { slot, .. } = event {
                    came.push(slot);
                }
            }
        }
        let _ = say.send(());
        assert!(server.join().unwrap(), "{name}: the first reply did not end the sleep");
        assert_eq!(came, [SLOTS - 1], "{name}");
    }
    on_each!(check, ; (), (), ());
}

/// What a burst sends is handed over in one go, records of TLS too.
#[test]
fn a_burst_is_handed_over_together() {
    const SLOTS: u32 = 300;
    fn check<D: Driver>(name: &str, make: fn(&Setup) -> std::io::Result<D>) {
        let mut linked = Linked::of(SLOTS, b"request".to_vec(), |setup| setup.is_burst = true, make);
        for slot in 0..SLOTS {
            if slot % 2 == 0 {
                linked.driver.send_bytes(slot, b"request".to_vec());
            } else {
                linked.driver.send(slot, Payload { blob: 0, start: 0, length: 7 });
            }
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut early = 0;
        for peer in &linked.peers {
            peer.set_nonblocking(true).unwrap();
            early += usize::from(peer.peek(&mut [0; 1]).is_ok());
        }
        assert_eq!(early, 0, "{name}: sent before all were handed over");
        linked.driver.wait(0, Wake::First).unwrap();
        for peer in &mut linked.peers {
            peer.set_nonblocking(false).unwrap();
            peer.set_read_timeout(Some(PATIENCE)).unwrap();
            peer.read_exact(&mut [0; 7]).unwrap();
        }
    }
    match uring::available() {
        Ok(()) => {
            check("uring", Uring::new);
            check("rings", Rings::new);
        }
        Err(why) => testkit::skip(&format!("no io_uring: {why}")),
    }
}
