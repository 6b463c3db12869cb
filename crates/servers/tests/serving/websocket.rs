//! The WebSocket server against a table of cases, hostile peers, and a client that nobody here wrote.

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::websocket::handshake;
use crate::common::{Running, noise, tls};
use flate2::{Decompress, FlushDecompress};
use servers::ServeOptions;
use servers::tls::{Certificate, MadeCertificate, TlsOptions};
use servers::websocket::{WebSocketOptions, stranger};
use testkit::websocket::{Said, cases, frame, read, read_all};
use tungstenite::{Message, WebSocket};

fn bounded() -> WebSocketOptions {
    WebSocketOptions { message_bytes_max: 70_000, ..WebSocketOptions::default() }
}

fn default() -> Running {
    Running::websocket(ServeOptions::default(), WebSocketOptions::default())
}

const CLOSE: [u8; 4] = [0x88, 2, 3, 0xe8];

/// What is to be sent behind a case, and all that is to be heard.
fn closed(mut bytes: Vec<u8>, mut said: Vec<Said>) -> (Vec<u8>, Vec<Said>) {
    if !matches!(said.last(), Some(Said::Close(_))) {
        bytes.extend(frame(0x88, &1000_u16.to_be_bytes()).bytes(true, 9));
        said.push(Said::Close(Some(1000)));
    }
    (bytes, said)
}

#[test]
fn every_case_of_the_table_is_answered_over_sockets() {
    let server = Running::websocket(ServeOptions { buffer_bytes: 4096, ..ServeOptions::default() }, bounded());
    for case in cases() {
        let (bytes, said) = closed(case.bytes(true), case.said.clone());
        let pieces: &[usize] = if bytes.len() < 100 { &[usize::MAX, 1] } else { &[usize::MAX, 1000] };
        for piece in pieces {
            let (mut client, _) = server.open("");
            for piece in bytes.chunks(*piece) {
                // Who was told that it is wrong may find the connection gone.
                client.try_send(piece);
            }
            assert_eq!(read_all(&client.rest(), false), said, "{}", case.name);
        }
    }
    let counters = server.finish();
    assert!(counters.requests > 200 && counters.refused > 200, "{counters:?}");
}

#[test]
fn every_case_of_the_table_is_answered_however_it_is_cut() {
    for case in cases() {
        let (bytes, said) = closed(case.bytes(true), case.said.clone());
        let mut sent = handshake("").into_bytes();
        let from = sent.len();
        sent.extend(bytes);
        let check = |pieces: Vec<&[u8]>| {
            let got = stranger::replies(pieces, &bounded());
            let head = got.bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            assert!(got.is_closed, "{}", case.name);
            assert_eq!(read_all(&got.bytes[head..], false), said, "{}", case.name);
        };
        check(sent.chunks(1).collect());
        let step = if sent.len() < 1000 { 1 } else { sent.len() / 97 };
        (from..=sent.len()).step_by(step).for_each(|at| check(vec![&sent[..at], &sent[at..]]));
    }
}

#[test]
fn of_a_compressed_text_that_is_wrong_twice_the_first_fault_is_told_however_it_is_cut() {
    // Comes to bytes that are no UTF-8, and then to no DEFLATE.
    let compressed = [0xf2, 0xb4, 0xed, 0xf6, 0xc9, 0x50, 0x20];
    let mut sent = handshake("Sec-WebSocket-Extensions: permessage-deflate\r\n").into_bytes();
    let from = sent.len();
    // Masked with zeros.
    sent.extend([0xc1, 0x80 | compressed.len() as u8, 0, 0, 0, 0]);
    sent.extend(compressed);
    let bytewise = stranger::replies(sent.chunks(1), &WebSocketOptions::default());
    assert!(bytewise.bytes.ends_with(b"expected text to be UTF-8") && bytewise.is_closed, "{bytewise:?}");
    for at in from..=sent.len() {
        let cut = stranger::replies([&sent[..at], &sent[at..]], &WebSocketOptions::default());
        assert_eq!(cut, bytewise, "at {at}");
    }
}

#[test]
fn a_client_of_others_is_served() {
    let server = default();
    let url = format!("ws://{}/", server.addrs[0]);
    let (mut client, answer) = tungstenite::connect(&url).unwrap();
    assert_eq!(answer.status(), 101);
    let text = "κόσμε ".repeat(20_000);
    for message in [
        Message::text(""),
        Message::text("Hello"),
        Message::text(text),
        Message::binary(noise(0)),
        Message::binary(noise(126)),
        Message::binary(noise(1_000_000)),
    ] {
        client.send(message.clone()).unwrap();
        assert!(client.read().unwrap() == message);
    }
    client.send(Message::Ping(b"there?".as_slice().into())).unwrap();
    assert_eq!(client.read().unwrap(), Message::Pong(b"there?".as_slice().into()));
    close(client);
    let counters = server.finish();
    assert_eq!((counters.requests, counters.refused, counters.accepted), (6, 0, 1));
}

/// Closes, and takes the server's answer.
fn close<S: Read + Write>(mut client: WebSocket<S>) {
    client.close(None).unwrap();
    assert!(matches!(client.read(), Ok(Message::Close(_))));
    assert!(matches!(client.read(), Err(tungstenite::Error::ConnectionClosed)));
}

#[test]
fn over_tls_it_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let made = MadeCertificate { out: Some(ca.clone()), ..MadeCertificate::default() };
    let tls = TlsOptions { certificate: Certificate::Made(made), ..TlsOptions::default() };
    let options = ServeOptions { tls: Some(tls), ..ServeOptions::default() };
    let server = Running::websocket(options, WebSocketOptions::default());
    let config = std::sync::Arc::new(tls::config(&ca, rustls::ALL_VERSIONS));
    let stream = tls::over(server.connect().stream.into_inner(), &config);
    let (mut client, _) = tungstenite::client("wss://127.0.0.1/", stream).unwrap();
    for size in [0, 5, 70_000, 500_000] {
        client.send(Message::binary(noise(size))).unwrap();
        assert!(client.read().unwrap() == Message::binary(noise(size)), "{size}");
    }
    close(client);
    assert_eq!(server.finish().tls_full, 1);
}

/// Decompresses a message of the server; the window stays.
fn inflate(state: &mut Decompress, payload: &[u8], length: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(length + 1);
    for piece in [payload, &[0, 0, 0xff, 0xff]] {
        state.decompress_vec(piece, &mut message, FlushDecompress::Sync).unwrap();
    }
    message
}

#[test]
fn compressed_messages_come_back_compressed() {
    // RFC 7692 §7.2.3: the second refers to the first.
    let hello = [&b"\xf2\x48\xcd\xc9\xc9\x07\x00"[..], b"\xf2\x00\x11\x00\x00"];
    for (offer, agreed) in [
        ("permessage-deflate; client_max_window_bits", "permessage-deflate"),
        (
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=10",
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=10",
        ),
    ] {
        let server = default();
        let (mut client, extensions) = server.open(&format!("Sec-WebSocket-Extensions: {offer}\r\n"));
        assert_eq!(extensions.as_deref(), Some(agreed));
        for payload in hello {
            client.send(&frame(0xc1, payload).bytes(true, 1));
        }
        client.send(&frame(0x41, &hello[1][..2]).bytes(true, 1));
        client.send(&[frame(0x89, b"in").bytes(true, 2), frame(0x80, &hello[1][2..]).bytes(true, 3)].concat());
        client.send(&frame(0x81, b"plain").bytes(true, 1));
        client.send(&frame(0x88, b"").bytes(true, 1));
        let heard = client.rest();
        let (mut rest, mut state, mut said) = (&heard[..], Decompress::new(false), Vec::new());
        while let Some(((first, _, payload), behind)) = read(rest) {
            rest = behind;
            if first == 0xc1 && offer.contains("no_context") {
                state = Decompress::new(false);
            }
            let payload = if first == 0xc1 { inflate(&mut state, &payload, 5) } else { payload };
            said.push((first, payload));
        }
        let hello = (0xc1, b"Hello".to_vec());
        let expected = [
            hello.clone(),
            hello.clone(),
            (0x8a, b"in".to_vec()),
            hello,
            (0x81, b"plain".to_vec()),
            (0x88, Vec::new()),
        ];
        assert_eq!(said, expected, "{offer}");
        server.finish();
    }
    let without = WebSocketOptions { deflate: false, ..WebSocketOptions::default() };
    let server = Running::websocket(ServeOptions::default(), without);
    assert_eq!(server.open("Sec-WebSocket-Extensions: permessage-deflate\r\n").1, None);
    server.finish();
}

#[test]
fn compression_that_is_none_is_closed_with_its_code() {
    let zeros = {
        let mut state = flate2::Compress::new(flate2::Compression::best(), false);
        let mut out = Vec::with_capacity(10_000);
        state.compress_vec(&vec![0; 1 << 20], &mut out, flate2::FlushCompress::Sync).unwrap();
        out.truncate(out.len() - 4);
        out
    };
    let server = Running::websocket(ServeOptions::default(), bounded());
    for (frames, code) in [
        (vec![frame(0xc2, b"\x06")], 1007),
        (vec![frame(0xc2, &zeros)], 1009),
        (vec![frame(0xc1, b"\x00\x01\x00\xfe\xff\xff\x00")], 1007),
        (vec![frame(0x42, b"\xf2"), frame(0xc0, b"")], 1002),
        (vec![frame(0xc9, b"")], 1002),
    ] {
        let (mut client, _) = server.open("Sec-WebSocket-Extensions: permessage-deflate\r\n");
        frames.iter().for_each(|frame| client.send(&frame.bytes(true, 1)));
        assert_eq!(read_all(&client.rest(), false), [Said::Close(Some(code))]);
    }
    assert_eq!(server.finish().refused, 5);
}

#[test]
fn what_is_no_handshake_is_answered_by_its_status() {
    let server = default();
    let reply = server.get("/");
    assert_eq!((reply.status, reply.field("Sec-WebSocket-Version")), (426, Some("13")));
    assert_eq!(reply.field("Upgrade"), Some("websocket"));
    let refused = |is: &str, instead: &str| server.ask(&handshake("").replace(is, instead));
    assert_eq!(refused("Version: 13", "Version: 7").status, 426);
    assert_eq!(refused("ZQ==", "Z===").status, 400);
    assert_eq!((refused("GET", "PUT").status, refused("GET", "PUT").field("Allow").is_some()), (405, true));
    assert_eq!(refused("Host: t\r\n", "").status, 400);
    let long = format!("X: {}\r\n", "y".repeat(70_000));
    assert_eq!(server.ask(&handshake(&long)).status, 431);
    assert_eq!(server.finish().refused, 7);
}

#[test]
fn who_never_finishes_is_told_so() {
    let slow = WebSocketOptions { head_timeout: Some(Duration::from_secs(1)), ..WebSocketOptions::default() };
    let options = ServeOptions { idle_timeout: Some(Duration::from_secs(3)), ..ServeOptions::default() };
    let server = Running::websocket(options, slow);
    let mut half = server.connect();
    half.send(b"GET / HTTP/1.1\r\nHost:");
    assert_eq!(half.reply(false).status, 408);
    let mut silent = server.connect();
    assert!(silent.is_at_end(), "nothing is said to who said nothing");
    let (mut idle, _) = server.open("");
    idle.send(&frame(0x81, b"half").bytes(true, 0)[..5]);
    assert_eq!(read_all(&idle.rest(), false), [Said::Close(Some(1001))]);
    assert_eq!(server.finish().idle_closed, 3);
}

#[test]
fn a_stop_finishes_what_has_begun_and_says_goodbye() {
    let server = default();
    let (mut idle, _) = server.open("");
    let (mut busy, _) = server.open("");
    let message = frame(0x82, &noise(1000)).bytes(true, 5);
    busy.send(&message[..500]);
    idle.send(&frame(0x89, b"").bytes(true, 0));
    let mut pong = [0; 2];
    idle.stream.read_exact(&mut pong).unwrap();
    server.stop.stop();
    assert_eq!(read_all(&idle.rest(), false), [Said::Close(Some(1001))]);
    busy.send(&message[500..]);
    assert_eq!(read_all(&busy.rest(), false), [Said::Binary(noise(1000)), Said::Close(Some(1001))]);
    let counters = server.finish();
    assert_eq!((counters.cut_at_stop, counters.requests), (0, 1));
}

#[test]
fn a_peer_that_does_not_read_holds_only_itself_back() {
    let server = default();
    let (mut client, _) = server.open("");
    let message = frame(0x82, &noise(60_000)).bytes(true, 5);
    let mut writer = client.stream.get_ref().try_clone().unwrap();
    let sent = std::thread::spawn(move || {
        for _ in 0..500 {
            writer.write_all(&message).unwrap();
        }
        writer.write_all(&frame(0x88, b"\x03\xe8").bytes(true, 1)).unwrap();
    });
    // Another is served all the while.
    let (mut other, _) = server.open("");
    other.send(&frame(0x81, b"other").bytes(true, 3));
    other.send(&frame(0x88, b"").bytes(true, 3));
    assert_eq!(read_all(&other.rest(), false), [Said::Text(b"other".to_vec()), Said::Close(None)]);
    let heard = client.rest();
    sent.join().unwrap();
    assert_eq!(heard.len(), 500 * (60_000 + 4) + CLOSE.len());
    assert!(heard.ends_with(&CLOSE));
    assert_eq!(read_all(&heard, false).iter().filter(|said| **said == Said::Binary(noise(60_000))).count(), 500);
    assert_eq!(server.finish().requests, 501);
}

#[test]
fn pings_are_sent_by_the_clock_and_keep_no_silent_peer() {
    let pinging = WebSocketOptions { ping_every: Some(Duration::from_millis(20)), ..WebSocketOptions::default() };
    let options = ServeOptions { idle_timeout: Some(Duration::from_millis(500)), ..ServeOptions::default() };
    let server = Running::websocket(options, pinging);
    let (mut silent, _) = server.open("");
    // What is still being opened gets none.
    let mut half = server.connect();
    half.send(
        b"GET / HTTP/1.1
Host:",
    );
    let said = silent.rest();
    let (mut rest, mut pings) = (&said[..], 0);
    while let Some(((0x89, false, payload), behind)) = read(rest) {
        assert!(payload.is_empty());
        (pings, rest) = (pings + 1, behind);
    }
    assert!(pings >= 2, "{pings}");
    assert_eq!(read_all(rest, false), [Said::Close(Some(1001))], "what is only pinged is idle");
    assert_eq!(half.reply(false).status, 408);
    assert_eq!(server.finish().idle_closed, 2);
}
