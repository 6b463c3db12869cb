//! `plimsoll load ws://`: against `serve ws` and a server of others, over TLS, compressed; what refuses is named.

use crate::common::*;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn load(url: &str, more: &[&str]) -> Run {
    plimsoll(&[&["load", url, "--json", "--no-record", "-q"], more].concat())
}

fn serve_ws(more: &[&str]) -> Server {
    serve(&[&["serve", "ws", "--listen", "127.0.0.1:0"], more].concat())
}

#[track_caller]
fn assert_all(run: &Run, messages: u64) -> serde_json::Value {
    run.assert_measured();
    let doc = run.json();
    let totals = &doc["totals"];
    assert_eq!((&totals["ok"], &totals["failed"]), (&messages.into(), &0.into()), "{}", doc["examples"]);
    doc
}

#[test]
fn our_own_server_echoes_every_message() {
    let server = serve_ws(&["--subprotocol", "chat"]);
    assert!(server.url.starts_with("ws://127.0.0.1:"), "{}", server.url);
    for more in [
        &["-c", "8", "--driver", "epoll"][..],
        &["-c", "8", "--driver", "uring", "--pipeline", "8"],
        &["--text", "--size", "1..2000", "-c", "3"],
        &["--compress", "--size", "1..2000", "--content", "incompressible", "--pipeline", "4"],
        &["--compress", "--text", "--size", "100,70KiB", "-c", "2", "--subprotocol", "other,chat"],
        &["--rate", "2k/s", "-H", "X-Token: t", "-u", "a:b"],
    ] {
        let doc = assert_all(&load(&server.url, &[&["-n", "1000"], more].concat()), 1000);
        assert_eq!(doc["plan"]["workload"]["protocol"], "websocket", "{more:?}");
    }
    let text = plimsoll(&["load", &server.url, "-n", "500", "--no-record", "-q"]);
    assert!(text.stdout.contains("500 messages") && text.stdout.contains("messages/s"), "{}", text.stdout);
}

#[test]
fn over_tls_it_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem").to_str().unwrap().to_owned();
    let server = serve_ws(&["--tls", "--tls-ca-out", &ca]);
    assert!(server.url.starts_with("wss://127.0.0.1:"), "{}", server.url);
    for trust in [&["--insecure"][..], &["--ca", &ca]] {
        assert_all(&load(&server.url, &[&["-n", "1000", "-c", "4", "--compress"], trust].concat()), 1000);
    }
    let distrust = load(&server.url, &["-n", "10"]);
    distrust.assert_exit(1);
    assert!(distrust.stderr.contains("expected a TLS connection to wss://"), "{}", distrust.stderr);
}

#[test]
fn over_a_unix_socket_it_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.sock").to_str().unwrap().to_owned();
    let _server = serve_ws(&["--unix", &path]);
    assert_all(&load(&format!("ws+unix:{path}"), &["-n", "500"]), 500);
    assert_all(&load(&format!("ws+unix:{path}:/chat"), &["-n", "500"]), 500);
}

/// tungstenite, echoing on a thread for each connection; and how many messages it has echoed.
fn of_others() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, echoed) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&echoed);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let Ok(mut peer) = tungstenite::accept(stream) else { return };
                while let Ok(message) = peer.read() {
                    if !(message.is_text() || message.is_binary()) {
                        continue;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    let ping = tungstenite::Message::Ping(b"there?".as_slice().into());
                    if peer.send(ping).and_then(|()| peer.send(message)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, echoed)
}

#[test]
fn a_server_of_others_is_measured_and_pings_meanwhile() {
    let (address, echoed) = of_others();
    let url = format!("ws://{address}/any?path=1");
    assert_all(&load(&url, &["-n", "2000", "-c", "4", "--pipeline", "4", "--size", "1..70000"]), 2000);
    assert_all(&load(&url, &["-n", "1000", "-c", "4", "--text", "--size", "1..1000"]), 1000);
    assert_eq!(echoed.load(Ordering::Relaxed), 3000, "each message came once");

    let refused = load(&url, &["-n", "10", "-c", "2", "--compress"]);
    refused.assert_exit(1);
    assert!(refused.stderr.contains("did not accept permessage-deflate"), "{}", refused.stderr);
}

#[test]
fn a_server_that_does_not_switch_is_named_with_its_status() {
    let server = serve_http(&[]);
    let url = server.url.replacen("http", "ws", 1) + "nowhere";
    let run = load(&url, &["-n", "4", "-c", "2"]);
    run.assert_exit(1);
    let first = run.stderr.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("plimsoll: expected ws://127.0.0.1:")
            && first.contains("the server did not switch to WebSocket: expected status 101, got 404"),
        "{}",
        run.stderr
    );
    let doc = run.json();
    assert_eq!((&doc["totals"]["errors"]["unexpected-status"], &doc["totals"]["ok"]), (&4.into(), &0.into()));
}

#[test]
fn a_close_is_told_with_its_code() {
    let server = serve_ws(&["--max-message", "1KiB"]);
    let doc = load(&server.url, &["-n", "100", "-c", "2", "--size", "1,2KiB"]).json();
    let closed = doc["totals"]["errors"]["closed-early"].as_u64().unwrap();
    assert!((40..=60).contains(&closed), "every second message: {closed}");
    let told = doc["examples"][0]["text"].as_str().unwrap();
    assert!(told.contains("closed the WebSocket connection with code 1009 (message too big)"), "{told}");
}

#[test]
fn what_cannot_be_meant_is_refused_in_one_sentence() {
    for (arguments, why) in [
        (
            &["ws://127.0.0.1:1/", "--mix", "GET"][..],
            "--mix is for http or resp URLs, got 'ws://127.0.0.1:1/': leave it out",
        ),
        (
            &["http://127.0.0.1:1/", "--compress"],
            "--compress is for ws or hold+ws URLs, got 'http://127.0.0.1:1/': leave it out",
        ),
        (&["echo://127.0.0.1:1", "--text"], "--text is for ws URLs"),
        (&["ws://127.0.0.1:1/", "-b", "x"], "for http URLs, got 'ws://127.0.0.1:1/': leave it out"),
        (&["ws://127.0.0.1:1/", "--burst", "10"], "--burst cannot be used with the handshake of a ws URL"),
        (&["ws://127.0.0.1:1/", "--text", "--content", "binary"], "--text cannot be used with other content than text"),
        (&["ws://127.0.0.1:1/", "-H", "upgrade: x"], "-H cannot be used with Upgrade: leave it out"),
        (&["ws://127.0.0.1:1/", "--subprotocol", "a b"], "--subprotocol: expected a name without spaces"),
        (&["ws://127.0.0.1:1/", "--size", "65MiB"], "--size: expected sizes from 1B to 64MiB"),
        (&["ws://127.0.0.1:1/a", "ws://127.0.0.1:1/b"], "put load on them in separate runs"),
    ] {
        let run = plimsoll(&[&["load"], arguments].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(why), "{arguments:?}: {}", run.stderr);
    }
    let run = plimsoll(&["serve", "ws", "--listen", "127.0.0.1:0", "--defect", "nagle"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("nagle"), "{}", run.stderr);
}

#[test]
fn the_plan_says_what_opens_a_connection_without_its_secrets() {
    let run = plimsoll(&[
        "load",
        "ws://user:geheim@127.0.0.1:1/chat?token=geheim",
        "--explain",
        "--text",
        "--compress",
        "--subprotocol",
        "chat,gehEim0Zm9vYmFyYmF6cXV4MTIz",
        "-H",
        "X-Token: geheim",
    ]);
    run.assert_exit(0);
    for words in [
        "WebSocket text messages that must come back: text, 128 B",
        "permessage-deflate",
        "GET /chat?token=*** HTTP/1.1, Upgrade: websocket",
        "Host: 127.0.0.1:1",
        "Authorization: ***",
        "X-Token: ***",
        "chat, ***",
    ] {
        assert!(run.stdout.contains(words), "{words} is missing in\n{}", run.stdout);
    }
    assert!(!run.stdout.to_lowercase().contains("geheim"), "{}", run.stdout);
}
