//! TLS under HTTP and echo against a client of the same library: keys, versions, resumption, pieces, ends.

use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use std::time::Duration;

use crate::common::tls::{Authority, Pieces, Secure, config, config_as, made, over, resuming};
use crate::common::{Client, noise};
use rustls::client::Tls12Resumption;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion};
use servers::ServeOptions;
use servers::http::{GENERATED_LINE, HttpOptions};
use servers::tls::{Certificate, KEY_KINDS, MadeCertificate, TlsOptions, TlsVersion};
use testkit::wait_until;

const GET: &str = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";

fn generated(n: usize) -> Vec<u8> {
    GENERATED_LINE.iter().copied().cycle().take(n).collect()
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes()
}

#[test]
fn every_key_serves_both_versions() {
    for (name, key) in KEY_KINDS {
        let certificate = MadeCertificate { key: *key, ..MadeCertificate::default() };
        let secure = Secure::http(made(certificate), ServeOptions::default(), HttpOptions::default());
        for (version, expected) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
            let mut config = config(&secure.ca, &[version]);
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let mut client = secure.connect(&config.into());
            for n in [0, 1, 8192, 16_000, 16_384, 65_536, 1_000_000] {
                client.send(&get(&format!("/bytes?n={n}")));
                assert!(client.reply(false).body == generated(n), "{name} {expected:?} {n}");
            }
            let conn = &client.stream.get_ref().conn;
            assert_eq!((conn.protocol_version(), conn.alpn_protocol()), (Some(expected), Some(&b"http/1.1"[..])));
            assert_eq!(conn.handshake_kind(), Some(HandshakeKind::Full));
        }
        let counters = secure.server.finish();
        assert_eq!((counters.tls_full, counters.tls_resumed, counters.tls_failed), (2, 0, 0), "{name}");
        assert_eq!(counters.requests, 14, "{name}");
    }
}

#[test]
fn only_the_version_asked_for_is_spoken() {
    for (only, spoken, refused) in [(TlsVersion::V1_2, &TLS12, &TLS13), (TlsVersion::V1_3, &TLS13, &TLS12)] {
        let tls = TlsOptions { version: Some(only), ..TlsOptions::default() };
        let secure = Secure::http(tls, ServeOptions::default(), HttpOptions::default());
        let mut client = secure.connect(&config(&secure.ca, &[spoken]).into());
        client.send(GET.as_bytes());
        assert_eq!(client.reply(false).status, 200);
        let mut stream = over(secure.tcp(), &config(&secure.ca, &[refused]).into());
        let error = stream.write_all(GET.as_bytes()).and_then(|()| stream.read(&mut [0])).unwrap_err();
        assert!(error.to_string().contains("ProtocolVersion"), "an alert that says so: {error}");
        drop((client, stream));
        let counters = secure.server.finish();
        assert_eq!((counters.tls_full, counters.tls_failed), (1, 1), "{counters:?}");
    }
}

#[test]
fn protocols_nobody_speaks_here_are_refused_with_an_alert() {
    let secure = Secure::default_http();
    let mut config = config(&secure.ca, rustls::ALL_VERSIONS);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = over(secure.tcp(), &config.into());
    let error = stream.write_all(GET.as_bytes()).and_then(|()| stream.read(&mut [0])).unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    assert_eq!(secure.server.finish().tls_failed, 1);
}

#[test]
fn sessions_are_resumed_where_they_may_be() {
    for (version, how) in [
        (&TLS13, Tls12Resumption::Disabled),
        (&TLS12, Tls12Resumption::SessionIdOrTickets),
        (&TLS12, Tls12Resumption::SessionIdOnly),
    ] {
        for resume in [true, false] {
            let tls = TlsOptions { resume, ..TlsOptions::default() };
            let options = ServeOptions { workers: 2, ..ServeOptions::default() };
            let secure = Secure::http(tls, options, HttpOptions::default());
            let config = resuming(config(&secure.ca, &[version]), how);
            for round in 0..6 {
                let mut client = secure.connect(&config);
                client.send(GET.as_bytes());
                assert_eq!(client.reply(false).status, 200);
                let expected = if resume && round > 0 { HandshakeKind::Resumed } else { HandshakeKind::Full };
                let kind = client.stream.get_ref().conn.handshake_kind();
                assert_eq!(kind, Some(expected), "{version:?} {how:?} round {round}");
            }
            let counters = secure.server.finish();
            let expected = if resume { (1, 5, 0) } else { (6, 0, 0) };
            assert_eq!((counters.tls_full, counters.tls_resumed, counters.tls_failed), expected, "{version:?} {how:?}");
        }
    }
}

#[test]
fn ciphertext_may_come_in_pieces_of_any_size() {
    for buffer_bytes in [1, 100, 64 * 1024] {
        for version in [&TLS12, &TLS13] {
            let options = ServeOptions { buffer_bytes, ..ServeOptions::default() };
            let secure = Secure::http(TlsOptions::default(), options, HttpOptions::default());
            let config = config(&secure.ca, &[version]).into();
            for size in [1, 2, 5, 1000] {
                let mut client =
                    Client { stream: std::io::BufReader::new(over(Pieces { stream: secure.tcp(), size }, &config)) };
                client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3000\r\n\r\n");
                client.send(&noise(3000));
                assert!(client.reply(false).body == noise(3000), "{buffer_bytes} {size}");
                client.send(&get("/bytes?n=70000"));
                assert!(client.reply(false).body == generated(70_000), "{buffer_bytes} {size}");
            }
            let counters = secure.server.finish();
            assert_eq!((counters.tls_full + counters.tls_resumed, counters.requests), (4, 8), "{counters:?}");
        }
    }
}

#[test]
fn messages_may_be_cut_into_records_of_any_size() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let client_ca = folder.path().join("clients.pem");
    std::fs::write(&client_ca, &authority.pem).unwrap();
    let tls = TlsOptions { client_ca: Some(client_ca), ..TlsOptions::default() };
    let secure = Secure::http(tls, ServeOptions::default(), HttpOptions::default());
    for version in [&TLS12, &TLS13] {
        for (fragment, size) in [(32, 1), (32, 50), (100, 7), (1000, 100_000)] {
            // The hello in the clear, certificate and data sealed: none comes in one record.
            let mut config = config_as(&secure.ca, &[version], Some(authority.identity()));
            config.max_fragment_size = Some(fragment);
            let stream = over(Pieces { stream: secure.tcp(), size }, &config.into());
            let mut client = Client { stream: std::io::BufReader::new(stream) };
            client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3000\r\n\r\n");
            client.send(&noise(3000));
            assert!(client.reply(false).body == noise(3000), "{version:?} {fragment} {size}");
        }
    }
    assert_eq!(secure.server.finish().tls_full, 8);
}

#[test]
fn pipelines_and_kept_connections_are_answered_in_order() {
    let secure = Secure::default_http();
    let config = secure.config();
    let mut client = secure.connect(&config);
    client.send(GET.repeat(100).as_bytes());
    for _ in 0..100 {
        assert_eq!(client.reply(false).status, 200);
    }
    let mut pipeline = Vec::new();
    let path = |n: usize| match n % 4 {
        0 => format!("/bytes?n={n}"),
        1 => format!("/bytes?n={}", n * 1000),
        2 => "/sleep?ms=1".to_owned(),
        _ => format!("/chunked?n={n}&size=100"),
    };
    for n in 0..300 {
        pipeline.extend_from_slice(&get(&path(n)));
    }
    client.send(&pipeline);
    for n in 0..300 {
        let reply = client.reply(false);
        match n % 4 {
            0 => assert_eq!(reply.body.len(), n),
            1 => assert!(reply.body == generated(n * 1000)),
            2 => assert_eq!(reply.text(), "slept 1 ms\n"),
            _ => assert_eq!(reply.body.len(), n * 100),
        }
    }
    for _ in 0..100 {
        client.send(GET.as_bytes());
        assert_eq!(client.reply(false).status, 200);
    }
    client.send(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    assert_eq!(client.reply(false).status, 200);
    assert!(client.is_at_end(), "with close_notify: rustls calls any other end an error");
    // The rest of a pipeline behind the last reply must not destroy it by a reset.
    let http = HttpOptions { keep_alive: false, ..HttpOptions::default() };
    let closing = Secure::http(TlsOptions::default(), ServeOptions::default(), http);
    let config = closing.config();
    for _ in 0..20 {
        let mut client = closing.connect(&config);
        client.send(GET.repeat(1000).as_bytes());
        assert_eq!(client.reply(false).status, 200);
        assert!(client.is_at_end());
    }
    drop(client);
    let counters = secure.server.finish();
    assert_eq!((counters.tls_full, counters.requests), (1, 501), "{counters:?}");
    assert_eq!(closing.server.finish().tls_failed, 0);
}

#[test]
fn files_of_every_size_arrive_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [0, 1, 16_384, 16_385, 100_000, 10_000_000];
    for size in sizes {
        std::fs::write(folder.path().join(size.to_string()), noise(size)).unwrap();
    }
    let http = HttpOptions { root: Some(folder.path().to_owned()), ..HttpOptions::default() };
    let secure = Secure::http(TlsOptions::default(), ServeOptions::default(), http);
    let mut client = secure.connect(&secure.config());
    for size in sizes {
        client.send(&get(&format!("/{size}")));
        assert!(client.reply(false).body == noise(size), "{size}");
    }
    client.send(b"GET /10000000 HTTP/1.1\r\nHost: t\r\nRange: bytes=4999999-9999998\r\n\r\n");
    let part = client.reply(false);
    assert!(part.status == 206 && part.body == noise(10_000_000)[4_999_999..9_999_999]);
    drop(client);
    assert_eq!(secure.server.finish().requests, 7);
}

#[test]
fn echo_comes_back_over_tls_and_after_a_half_close() {
    let secure = Secure::echo(TlsOptions::default(), ServeOptions { workers: 2, ..ServeOptions::default() });
    for version in [&TLS12, &TLS13] {
        let mut stream = over(secure.tcp(), &config(&secure.ca, &[version]).into());
        for size in [1, 100, 16_384, 70_000] {
            stream.write_all(&noise(size)).unwrap();
            let mut back = vec![0; size];
            stream.read_exact(&mut back).unwrap();
            assert!(back == noise(size), "{size}");
        }
        // More than the sockets hold: written while it is read, in records of every size.
        let bytes = noise(1 << 20);
        let mut back = Vec::new();
        stream.sock.set_nonblocking(true).unwrap();
        let (mut written, mut piece) = (0, vec![0; 10_000]);
        while back.len() < bytes.len() {
            if written < bytes.len() {
                let most = (written % 20_000 + 1).min(bytes.len() - written);
                match stream.write(&bytes[written..written + most]) {
                    Ok(n) => written += n,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            match stream.read(&mut piece) {
                Ok(n) => back.extend_from_slice(&piece[..n]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert!(back == bytes);
        stream.sock.set_nonblocking(false).unwrap();
        stream.write_all(b"last").unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"last", "what came before our end comes back, then theirs");
    }
    let counters = secure.server.finish();
    assert_eq!((counters.tls_full, counters.shutdown, counters.recv_error), (2, 2, 0), "{counters:?}");
    assert_eq!(counters.bytes_in, counters.bytes_out, "{counters:?}");
}

#[test]
fn a_client_certificate_is_demanded_where_asked_for() {
    let (ours, others) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let client_ca = folder.path().join("clients.pem");
    std::fs::write(&client_ca, &ours.pem).unwrap();
    let tls = TlsOptions { client_ca: Some(client_ca), ..TlsOptions::default() };
    let secure = Secure::http(tls, ServeOptions::default(), HttpOptions::default());
    for version in [&TLS12, &TLS13] {
        let mut client = secure.connect(&config_as(&secure.ca, &[version], Some(ours.identity())).into());
        client.send(GET.as_bytes());
        assert_eq!(client.reply(false).status, 200);
        for identity in [None, Some(others.identity())] {
            let is_known = identity.is_some();
            let mut stream = over(secure.tcp(), &config_as(&secure.ca, &[version], identity).into());
            let error = stream.write_all(GET.as_bytes()).and_then(|()| stream.read(&mut [0])).unwrap_err();
            assert!(error.to_string().contains("received fatal alert"), "{version:?} {is_known}: {error}");
        }
    }
    let counters = secure.server.finish();
    assert_eq!((counters.tls_full, counters.tls_failed, counters.requests), (2, 4, 2), "{counters:?}");
}

#[test]
fn certificates_of_ones_own_are_shown() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("127.0.0.1");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = file("ca.pem", &authority.pem);
    let certificate = Certificate::Files {
        chain: file("chain.pem", &(certificate.pem() + &authority.pem)),
        key: file("key.pem", &key.serialize_pem()),
    };
    let tls = TlsOptions { certificate, ..TlsOptions::default() };
    let secure = Secure::http(tls, ServeOptions::default(), HttpOptions::default());
    let mut client = secure.connect(&config(&ca, rustls::ALL_VERSIONS).into());
    client.send(GET.as_bytes());
    assert_eq!(client.reply(false).status, 200);
    assert_eq!(client.stream.get_ref().conn.peer_certificates().unwrap().len(), 2);
}

#[test]
fn a_stop_lets_replies_in_flight_finish_and_ends_in_order() {
    let options = ServeOptions { workers: 2, ..ServeOptions::default() };
    let live = options.live.clone();
    let secure = Secure::http(TlsOptions::default(), options, HttpOptions::default());
    let config = secure.config();
    let mut idle = secure.connect(&config);
    idle.send(GET.as_bytes());
    assert_eq!(idle.reply(false).status, 200);
    let mut asleep = secure.connect(&config);
    asleep.send(&get("/sleep?ms=1000"));
    let mut loading = secure.connect(&config);
    loading.send(&get("/bytes?n=30000000"));
    let half = secure.tcp();
    wait_until("all have been asked for", || {
        let counters = live.read(Duration::ZERO).counters;
        (counters.requests, counters.accepted) == (3, 4)
    });
    let finished = std::thread::spawn(move || secure.server.finish());
    // Meanwhile: of what is not read in time the stop does not wait for the end.
    let loaded = std::thread::spawn(move || loading.reply(false).body.len());
    assert!(idle.is_at_end());
    assert_eq!(asleep.reply(false).text(), "slept 1000 ms\n");
    assert!(asleep.is_at_end());
    assert_eq!(loaded.join().unwrap(), 30_000_000);
    let counters = finished.join().unwrap();
    assert_eq!((counters.cut_at_stop, counters.accepted, counters.tls_failed), (0, 4, 1), "{counters:?}");
    drop(half);
}

#[test]
fn there_is_one_crypto_library() {
    let tree = |package: &str| {
        // Of this platform: what others would need is not downloaded here.
        let arguments = ["tree", "--offline", "--workspace", "-e", "all", "-i", package];
        Command::new(env!("CARGO")).args(arguments).current_dir(testkit::workspace()).output().unwrap()
    };
    let found = tree("aws-lc-rs");
    assert!(String::from_utf8_lossy(&found.stdout).contains("plimsoll-servers"), "the question is asked the right way");
    let ring = tree("ring");
    assert_eq!(String::from_utf8_lossy(&ring.stdout), "", "nothing needs ring");
}
