//! TLS against peers that break off, drip, speak something else, corrupt, or do not read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::common::tls::{Secure, config, over};
use crate::common::{HANG_GUARD, noise};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, pki_types::ServerName};
use servers::ServeOptions;
use servers::http::HttpOptions;
use servers::tls::TlsOptions;

const GET: &str = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
/// The first byte of an alert's record, and the version every record names (RFC 8446 §5.1).
const ALERT: [u8; 3] = [0x15, 0x03, 0x03];

fn hello(secure: &Secure) -> Vec<u8> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut connection = ClientConnection::new(secure.config(), name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

/// Everything until the end, or until a reset.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let (mut rest, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return rest,
            Ok(n) => rest.extend_from_slice(&piece[..n]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                return rest;
            }
        }
    }
}

fn still_serves(secure: &Secure) {
    let mut client = secure.connect(&secure.config());
    client.send(GET.as_bytes());
    assert_eq!(client.reply(false).status, 200);
}

#[test]
fn handshakes_cut_anywhere_end_and_are_counted() {
    let secure = Secure::default_http();
    let hello = hello(&secure);
    let cuts: Vec<_> = (0..hello.len()).step_by(7).chain([hello.len()]).collect();
    for &cut in &cuts {
        let mut stream = secure.tcp();
        stream.write_all(&hello[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let said = rest(&mut stream);
        assert_eq!(said.is_empty(), cut < hello.len(), "cut at {cut}");
    }
    for cut in [0, 5, 100, hello.len()] {
        let mut stream = secure.tcp();
        stream.write_all(&hello[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    }
    still_serves(&secure);
    let counters = secure.server.finish();
    assert_eq!((counters.tls_full, counters.tls_failed), (1, cuts.len() as u64 + 4), "{counters:?}");
}

#[test]
fn a_handshake_that_is_not_finished_is_ended_by_the_idle_timeout_however_it_drips() {
    let options = ServeOptions { idle_timeout: Some(Duration::from_secs(2)), ..ServeOptions::default() };
    let secure = Secure::http(TlsOptions::default(), options, HttpOptions::default());
    let hello = hello(&secure);
    for first in [0, 1, 50, hello.len()] {
        let mut stream = secure.tcp();
        stream.write_all(&hello[..first]).unwrap();
        rest(&mut stream);
    }
    let mut dripping = secure.tcp();
    let begun = Instant::now();
    let mut ended = false;
    for byte in &hello {
        // One byte each 20 ms would take many seconds; an idle timeout that starts anew would let it.
        if dripping.write_all(&[*byte]).is_err() || begun.elapsed() > HANG_GUARD {
            ended = true;
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(ended && begun.elapsed() < HANG_GUARD, "the server ends it before it is whole");
    // Open connections have the timeout for themselves.
    let mut client = secure.connect(&secure.config());
    client.send(GET.as_bytes());
    assert_eq!(client.reply(false).status, 200);
    assert!(client.is_at_end(), "with close_notify");
    let mut half = secure.connect(&secure.config());
    half.send(b"GET / HT");
    assert_eq!(half.reply(false).status, 408);
    let counters = secure.server.finish();
    assert_eq!((counters.tls_failed, counters.idle_closed), (5, 7), "{counters:?}");
}

#[test]
fn a_head_in_a_record_that_drips_is_cut_after_its_time() {
    let head_timeout = Some(Duration::from_secs(2));
    let http = HttpOptions { head_timeout, ..HttpOptions::default() };
    let secure = Secure::http(TlsOptions::default(), ServeOptions::default(), http);
    for before in ["", GET] {
        let mut client = secure.connect(&secure.config());
        if !before.is_empty() {
            client.send(before.as_bytes());
            assert_eq!(client.reply(false).status, 200);
        }
        let stream = client.stream.get_mut();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        // Nothing of it can be seen before its last byte has come, which would take minutes.
        stream.conn.writer().write_all("x".repeat(10_000).as_bytes()).unwrap();
        let mut record = Vec::new();
        stream.conn.write_tls(&mut record).unwrap();
        let began = Instant::now();
        for byte in &record {
            assert!(began.elapsed() < testkit::HANG_GUARD, "{before:?}: nothing ends it");
            if stream.sock.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(began.elapsed() >= Duration::from_secs(2), "{before:?}: not before its time");
    }
    assert_eq!(secure.server.finish().idle_closed, 2);
}

#[test]
fn what_is_not_tls_is_answered_with_an_alert_and_the_end() {
    let secure = Secure::default_http();
    let long = GET.repeat(100_000);
    let garbage = noise(200_000);
    let mut seen = 0;
    for plain in [GET.as_bytes(), b"SSH-2.0-x\r\n", long.as_bytes(), &garbage, &[0xff; 100]] {
        let mut stream = secure.tcp();
        // What is long is not read to its end.
        let _ = stream.write_all(plain);
        let said = rest(&mut stream);
        assert_eq!(said.get(..3), Some(&ALERT[..]), "{:?}", plain[..8].escape_ascii().to_string());
        assert_eq!(said.len(), 7, "one alert and nothing else");
        seen += 1;
    }
    still_serves(&secure);
    let counters = secure.server.finish();
    assert_eq!((counters.tls_failed, counters.tls_full, counters.requests), (seen, 1, 1), "{counters:?}");
}

/// A record header that promises more than fits, a handshake message that never ends.
#[test]
fn endless_handshake_messages_are_refused() {
    let secure = Secure::default_http();
    let mut long = vec![0x16, 3, 1, 0xff, 0xff];
    long.extend_from_slice(&[1; 70_000]);
    // A ClientHello of 60,000 bytes in records of one byte each.
    let mut fragmented = Vec::new();
    for byte in [1, 0, 0xea, 0x60].iter().chain([7_u8].iter().cycle()).take(60_000) {
        fragmented.extend_from_slice(&[0x16, 3, 1, 0, 1, *byte]);
    }
    for hostile in [long, fragmented] {
        let mut stream = secure.tcp();
        let _ = stream.write_all(&hostile);
        rest(&mut stream);
    }
    still_serves(&secure);
    assert_eq!(secure.server.finish().tls_failed, 2);
}

#[test]
fn corrupted_handshakes_and_records_neither_hang_nor_harm() {
    let secure = Secure::default_http();
    let hello = hello(&secure);
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut bytes = hello.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] ^= 1 << random(8),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random(256) as u8),
            }
        }
        let mut stream = secure.tcp();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        rest(&mut stream);
    }
    // And after the handshake: a record whose ciphertext was touched is answered with bad_record_mac.
    for version in [&TLS12, &TLS13] {
        let mut stream = over(secure.tcp(), &config(&secure.ca, &[version]).into());
        stream.write_all(GET.as_bytes()).unwrap();
        let mut reply = [0; 15];
        stream.read_exact(&mut reply).unwrap();
        stream.conn.writer().write_all(GET.as_bytes()).unwrap();
        let mut record = Vec::new();
        stream.conn.write_tls(&mut record).unwrap();
        let last = record.len() - 1;
        record[last] ^= 1;
        stream.sock.write_all(&record).unwrap();
        let mut rest = Vec::new();
        let error = stream.read_to_end(&mut rest).unwrap_err();
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
    }
    still_serves(&secure);
    let counters = secure.server.finish();
    // 2 whose records broke, each with its handshake done; 1 sound one.
    assert_eq!(counters.tls_full + counters.tls_resumed, 3, "{counters:?}");
    assert_eq!((counters.recv_error >= 2, counters.requests), (true, 3), "{counters:?}");
    assert_eq!(counters.tls_full + counters.tls_resumed + counters.tls_failed, counters.accepted, "{counters:?}");
}

#[test]
fn key_updates_that_come_in_pieces_do_not_disturb_replies() {
    let secure = Secure::echo(TlsOptions::default(), ServeOptions::default());
    let mut stream = over(secure.tcp(), &config(&secure.ca, &[&TLS13]).into());
    for round in 0..20 {
        stream.write_all(&noise(1000)).unwrap();
        stream.conn.refresh_traffic_keys().unwrap();
        let mut update = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut update).unwrap();
        }
        // The update's record arrives byte by byte, with the echo on its way meanwhile.
        for byte in update.chunks(1) {
            stream.sock.write_all(byte).unwrap();
        }
        let mut back = vec![0; 1000];
        stream.read_exact(&mut back).unwrap();
        assert!(back == noise(1000), "round {round}");
    }
    drop(stream);
    assert_eq!(secure.server.finish().recv_error, 0);
}
