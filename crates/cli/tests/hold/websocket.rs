//! `plimsoll load hold+ws://`: against `serve ws`, a server of others, and servers that answer as no server should.

use crate::common::*;
use serde_json::Value;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use testkit::websocket::{frame, read};
use tungstenite::Message;
use tungstenite::protocol::CloseFrame;

const MANY: u64 = 30;

/// Holds thirty for a second.
fn hold(url: &str, more: &[&str]) -> Run {
    let args = ["load", url, "-c", "30", "-d", "1s", "--connect-rate", "300/s", "--json", "--no-record", "-q"];
    plimsoll(&[&args, more].concat())
}

fn serve_ws(more: &[&str]) -> Server {
    serve(&[&["serve", "ws", "--listen", "127.0.0.1:0", "--idle-timeout", "never"], more].concat())
}

fn held_url(server: &Server) -> String {
    format!("hold+{}", server.url)
}

#[track_caller]
fn assert_all_held(run: &Run) -> Value {
    run.assert_measured();
    let doc = run.json();
    let held = &doc["held"];
    assert_eq!((&held["established_max"], &held["established_at_end"]), (&MANY.into(), &MANY.into()), "{held}");
    assert_eq!(doc["totals"]["failed"], 0, "{}", doc["examples"]);
    doc
}

#[test]
fn our_own_server_is_held_and_answers_every_ping() {
    let server = serve_ws(&["--subprotocol", "chat"]);
    for more in [
        &["--driver", "rings"][..],
        &["--driver", "uring", "-t", "2"],
        &["--driver", "epoll", "-t", "4"],
        &["--compress", "--subprotocol", "other,chat", "-H", "X-Token: t", "-u", "a:b"],
    ] {
        let doc = assert_all_held(&hold(&held_url(&server), &[&["--every", "200ms"], more].concat()));
        assert_eq!(doc["plan"]["workload"]["protocol"], "hold-websocket", "{more:?}");
        assert!(doc["totals"]["ok"].as_u64().unwrap() > 0, "{more:?}: {}", doc["totals"]);
    }
    let doc = assert_all_held(&hold(&held_url(&server), &["--every", "never"]));
    assert_eq!(doc["totals"]["started"], 0);
}

#[test]
fn over_tls_and_a_unix_socket_it_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ca, socket) = (path("ca.pem"), path("w.sock"));
    let server = serve_ws(&["--tls", "--tls-ca-out", &ca]);
    for driver in ["rings", "uring", "epoll"] {
        let doc = assert_all_held(&hold(&held_url(&server), &["--every", "200ms", "--ca", &ca, "--driver", driver]));
        assert!(doc["totals"]["ok"].as_u64().unwrap() > 0, "{driver}: {}", doc["totals"]);
        assert_eq!(doc["latency"]["tls"]["count"], MANY, "{driver}");
    }
    let distrust = hold(&held_url(&server), &[]);
    distrust.assert_exit(1);
    assert!(distrust.stderr.contains("expected a TLS connection to hold+wss://"), "{}", distrust.stderr);

    let _server = serve_ws(&["--unix", &socket]);
    let doc = assert_all_held(&hold(&format!("hold+ws+unix:{socket}:/chat"), &["--every", "200ms"]));
    assert!(doc["totals"]["ok"].as_u64().unwrap() > 0, "{}", doc["totals"]);
}

/// A server on a thread for each connection.
fn served_by(serve: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

#[test]
fn a_server_of_others_is_held_and_may_speak_unasked() {
    let address = served_by(|stream| {
        let Ok(mut peer) = tungstenite::accept(stream) else { return };
        let unasked =
            [Message::text("news"), Message::Ping(b"there?".as_slice().into()), Message::binary(vec![7; 300])];
        for message in unasked {
            if peer.send(message).is_err() {
                return;
            }
        }
        let mut is_answered = false;
        // It answers pings by itself.
        while let Ok(message) = peer.read() {
            is_answered |= message == Message::Pong(b"there?".as_slice().into());
            if is_answered && message.is_ping() {
                let _ = peer.send(Message::text("answered"));
            }
        }
    });
    let doc = assert_all_held(&hold(&format!("hold+ws://{address}/any?path=1"), &["--every", "250ms"]));
    assert!(doc["totals"]["ok"].as_u64().unwrap() > 0, "{}", doc["totals"]);
    let unasked = &doc["totals"]["websocket_unasked"];
    assert_eq!((&unasked["binary"], &unasked["pings"]), (&MANY.into(), &MANY.into()), "{unasked}");
    // The first, and one for each ping that came after the answer to the server's.
    assert!(unasked["text"].as_u64().unwrap() > MANY, "{unasked}");
    assert_eq!(doc["totals"]["websocket_closes"], serde_json::json!({}));
}

#[test]
fn a_server_that_goes_away_is_told_with_its_code_and_when() {
    let address = served_by(|stream| {
        let Ok(mut peer) = tungstenite::accept(stream) else { return };
        let pinged = peer.read().is_ok_and(|message| message.is_ping()) && peer.flush().is_ok();
        let frame = CloseFrame { code: tungstenite::protocol::frame::coding::CloseCode::Away, reason: "bye".into() };
        if pinged && peer.close(Some(frame)).is_ok() {
            while peer.read().is_ok() {}
        }
    });
    let url = format!("hold+ws://{address}/");
    let doc = hold(&url, &["--every", "300ms"]).json();
    let held = &doc["held"];
    assert_eq!((&held["closed_by_peer"], &held["established_at_end"]), (&MANY.into(), &0.into()), "{held}");
    assert_eq!(doc["totals"]["websocket_closes"], serde_json::json!({"1001": MANY}));
    assert!(held["lost_from_s"].as_f64().unwrap() <= held["lost_until_s"].as_f64().unwrap(), "{held}");
    let args = ["load", &url, "-c", "30", "-d", "1s", "--every", "300ms", "--no-record", "-q"];
    let text = plimsoll(&args).stdout.replace('\u{a0}', " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "established at most, 0 at the end",
        "30 closed or reset by the peer",
        "of the run: 30 by the server with code 1001 (going away)",
        "the server closed the WebSocket connection with code 1001 (going away)",
    ] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
}

/// Answers the handshake, then each ping with what is made of it, if anything.
fn answering(mut stream: TcpStream, answer: fn(&[u8]) -> Option<Vec<u8>>) {
    let (mut came, mut is_open, mut buffer) = (Vec::new(), false, [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        came.extend_from_slice(&buffer[..n]);
        if !is_open {
            if !came.ends_with(b"\r\n\r\n") {
                continue;
            }
            let head = String::from_utf8(std::mem::take(&mut came)).unwrap();
            let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
            let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
            let fields = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
            let said = format!("{fields}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
            is_open = std::io::Write::write_all(&mut stream, said.as_bytes()).is_ok();
        }
        while let Some(((first, _, payload), rest)) = read(&came) {
            came = rest.to_vec();
            let said = if first == 0x89 { answer(&payload) } else { None };
            if said.is_some_and(|said| std::io::Write::write_all(&mut stream, &said).is_err()) {
                return;
            }
        }
    }
}

#[test]
fn silence_and_wrong_payloads_are_told_apart() {
    let silent = served_by(|stream| answering(stream, |_| None));
    let wrong = served_by(|stream| answering(stream, |_| Some(frame(0x8a, b"another").bytes(false, 0))));
    // Long enough for a pong of a machine that is busy; what is under way when the second is over is waited for.
    let more = ["--every", "300ms", "--timeout", "2s"];
    for (address, kind, words) in [
        (silent, "reply-timeout", "no pong came"),
        (wrong, "corrupted-reply", "no pong with the ping's payload came, but one with another payload"),
    ] {
        let doc = hold(&format!("hold+ws://{address}/"), &more).json();
        let (held, totals) = (&doc["held"], &doc["totals"]);
        assert_eq!((&held["closed_by_us"], &totals["ok"]), (&MANY.into(), &0.into()), "{kind}: {held} {totals}");
        let of = |counts: &str| totals[counts][kind].as_u64().unwrap_or(0);
        assert_eq!(of("errors") + of("connection_errors"), MANY, "{kind}: {totals}");
        assert!(doc["examples"].to_string().contains(words), "{kind}: {}", doc["examples"]);
        assert_eq!(doc["totals"]["websocket_closes"], serde_json::json!({}), "{kind}");
    }
}

#[test]
fn a_pong_nobody_asked_for_is_no_answer_and_no_fault() {
    // What a ping asked for comes behind it.
    let address = served_by(|stream| {
        answering(stream, |payload| Some([frame(0x8a, b""), frame(0x8a, payload)].map(|f| f.bytes(false, 0)).concat()));
    });
    let doc = assert_all_held(&hold(&format!("hold+ws://{address}/"), &["--every", "250ms"]));
    let ok = doc["totals"]["ok"].as_u64().unwrap();
    assert!(
        ok > 0 && doc["totals"]["websocket_unasked"]["pongs"].as_u64().unwrap() >= ok,
        "{}",
        doc["totals"]["websocket_unasked"]
    );
}

#[test]
fn adding_until_something_gives_ends_at_a_refusal() {
    // The first fifty are taken, the others told to come again.
    let address = served_by(|stream| {
        static TAKEN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = TAKEN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Ok(mut peer) = tungstenite::accept(stream) else { return };
        if number >= 50 {
            let code = tungstenite::protocol::frame::coding::CloseCode::Again;
            let _ = peer.close(Some(CloseFrame { code, reason: "full".into() }));
        }
        while peer.read().is_ok() {}
    });
    let url = format!("hold+ws://{address}/");
    let args = ["load", &url, "-c", "2k", "-d", "500ms", "--every", "never", "--connect-rate", "200/s"];
    let run =
        plimsoll(&[&args[..], &["--timeout", "10s", "--ramp-until-failure", "--json", "--no-record", "-q"]].concat());
    let doc = run.json();
    let held = &doc["held"];
    assert_eq!(held["first_to_give"], "closed-early", "{held}");
    assert!((50..2000).contains(&held["established_max"].as_u64().unwrap()), "{held}");
    assert!(doc["totals"]["websocket_closes"]["1013"].as_u64().unwrap() >= 1, "{held}");
}

#[test]
fn a_server_that_does_not_switch_is_named_with_its_status() {
    let server = serve_http(&[]);
    let run = hold(&(server.url.replacen("http", "hold+ws", 1) + "nowhere"), &[]);
    run.assert_exit(1);
    assert!(
        run.stderr.contains("the server did not switch to WebSocket: expected status 101, got 404"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_server_that_is_killed_is_seen_to_drop_them_all() {
    let mut server = serve_ws(&[]);
    let url = held_url(&server);
    let args = ["load", &url, "-c", "30", "--every", "never", "-d", "3s", "--json", "--no-record", "-q"];
    let child = command(&args).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    server.process.child().kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let doc: Value = serde_json::from_slice(&output.stdout).unwrap();
    let held = &doc["held"];
    assert_eq!((&held["established_max"], &held["closed_by_peer"]), (&MANY.into(), &MANY.into()), "{held}");
    assert_eq!(doc["totals"]["websocket_closes"], serde_json::json!({"without-frame": MANY}));
}

#[test]
fn what_cannot_be_meant_is_refused_in_one_sentence() {
    for (arguments, why) in [
        (&["hold+ws://127.0.0.1:1/", "--size", "5"][..], "--size is for echo or ws URLs"),
        (&["hold+ws://127.0.0.1:1/", "--message", "5"], "--message is for hold URLs"),
        (&["hold+ws://127.0.0.1:1/", "--sweep", "5s"], "--sweep is for hold URLs"),
        (&["ws://127.0.0.1:1/", "--every", "5s"], "--every is for hold or hold+ws URLs"),
        (&["hold+ws://127.0.0.1:1/", "--rate", "5/s"], "--rate"),
        (&["hold+ws://127.0.0.1:1/", "-H", "upgrade: x"], "-H cannot be used with Upgrade: leave it out"),
        (&["hold+ws://127.0.0.1:1/a", "hold+ws://127.0.0.1:1/b"], "put load on them in separate runs"),
    ] {
        let run = plimsoll(&[&["load"], arguments, &["--no-record"]].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(why) && run.stderr.lines().count() == 1, "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn the_plan_says_what_opens_a_connection_without_its_secrets() {
    let url = "hold+ws://user:geheim@127.0.0.1:1/chat?token=geheim";
    let run = plimsoll(&["load", url, "--explain", "--compress", "-c", "5", "-H", "X-Token: geheim"]);
    run.assert_exit(0);
    for words in [
        "held WebSocket connections; pings of 16 B",
        "permessage-deflate",
        "GET /chat?token=*** HTTP/1.1, Upgrade: websocket",
        "Authorization: ***",
        "X-Token: ***",
    ] {
        assert!(run.stdout.contains(words), "{words} is missing in\n{}", run.stdout);
    }
    assert!(!run.stdout.to_lowercase().contains("geheim"), "{}", run.stdout);
}

#[test]
fn a_recording_has_the_figures_and_not_the_secrets() {
    let server = serve_ws(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    let file = file.to_str().unwrap();
    let url = format!("{}?token=geheim", held_url(&server).trim_end_matches('/').to_owned() + "/chat");
    let args = ["load", &url, "-c", "5", "-d", "500ms", "--every", "100ms", "--record", file, "-q", "--json"];
    let run = plimsoll(&[&args[..], &["-H", "X-Token: geheim", "-u", "a:geheim", "--subprotocol", "x"]].concat());
    run.assert_measured();
    let again = plimsoll(&["report", file, "--json"]).json();
    assert_eq!(again["held"], run.json()["held"]);
    assert_eq!(again["totals"], run.json()["totals"]);
    let kept = std::fs::read(file).unwrap();
    assert!(!kept.windows(6).any(|six| six == b"geheim") && !run.stdout.contains("geheim"));
}
