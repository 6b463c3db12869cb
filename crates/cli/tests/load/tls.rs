//! `plimsoll load https://` on real servers: nginx from Debian with certificates made on the spot, and hostile ones.

use crate::common::*;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use testkit::certificates::{Authority, write};
use testkit::nginx::Nginx;
use testkit::port::Reserved;

/// It went well; that a handful of handshakes in an unoptimised program took all of a CPU may be said.
#[track_caller]
fn assert_fine(run: &Run) {
    assert!(matches!(run.status, Some(0 | 4)), "{}\n{}", run.stdout, run.stderr);
    if run.status == Some(4) {
        assert_valid_or_disturbed(&run.json());
    }
}

/// nginx that speaks TLS, and the files of its authority.
struct Secured {
    authority: Authority,
    folder: tempfile::TempDir,
    plain: SocketAddr,
    address: SocketAddr,
    _port: Reserved,
    _nginx: Nginx,
}

impl Secured {
    /// With a certificate for 127.0.0.1; `server` is added to its block. `None`: there is no nginx, which was said.
    fn start(server: &str) -> Option<Self> {
        Self::with(server, &["127.0.0.1", "localhost"], |_| {})
    }

    fn with(server: &str, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new().unwrap();
        let (certificate, key) = authority.sign(names, change).unwrap();
        let (pem, key) = write(folder.path(), "server", &certificate, &key).unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, authority.certificate().pem()).unwrap();
        let port = Reserved::new().unwrap();
        let address = port.address();
        let nginx = nginx(&format!(
            "listen {address} ssl; ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {};
             ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:test:1m; {server}",
            pem.display(),
            key.display(),
            ca.display()
        ))?;
        Some(Secured { authority, folder, plain: nginx.address(), address, _port: port, _nginx: nginx })
    }

    fn url(&self) -> String {
        format!("https://{}/", self.address)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn load(&self, extra: &[&str]) -> Run {
        let (url, ca) = (self.url(), self.file("ca.pem"));
        load(&url, &[&["--ca", &ca], extra].concat())
    }
}

fn load(url: &str, extra: &[&str]) -> Run {
    plimsoll(&[&["load", url, "--json", "--no-record", "-q"], extra].concat())
}

#[test]
fn nginx_is_loaded_in_both_versions_on_both_drivers() {
    let Some(server) = Secured::start("") else { return };
    for driver in DRIVERS {
        for (version, shown) in [("1.2", "TLS 1.2, TLS_ECDHE_ECDSA"), ("1.3", "TLS 1.3, TLS_AES")] {
            let run = server.load(&["-n", "500", "-c", "5", "--driver", driver, "--tls-version", version]);
            assert_fine(&run);
            let doc = run.json();
            assert_eq!(doc["totals"]["status"]["200"], 500, "{driver} {version}");
            assert_eq!(doc["totals"]["failed"], 0, "{driver} {version}");
            let tls = &doc["tls"];
            // A busy machine may have made the last of five connections only when all was done.
            let handshakes = tls["handshakes_full"].as_u64().unwrap() + tls["handshakes_resumed"].as_u64().unwrap();
            assert!((1..=5).contains(&handshakes), "{driver} {version}: {tls}");
            let agreed = tls["agreed"].as_str().unwrap();
            assert!(agreed.starts_with(shown) && agreed.contains("certificate ECDSA P-256"), "{agreed}");
            assert_eq!((&tls["certificate"], &tls["certificate_bits"]), (&"ecdsa-p256".into(), &256.into()), "{tls}");
            assert_eq!(doc["latency"]["tls"]["count"], handshakes, "{driver} {version}");
            let connects = doc["latency"]["connect"]["count"].as_u64().unwrap();
            assert!((handshakes..=5).contains(&connects), "{driver} {version}: {connects} connects");
            assert_valid_or_disturbed(&doc);
        }
    }
}

#[test]
fn what_is_offered_is_what_is_agreed_on() {
    let Some(server) = Secured::start("ssl_ecdh_curve X25519:prime256v1:secp384r1;") else { return };
    let agreed = |extra: &[&str]| {
        let doc = server.load(&[&["-n", "5"], extra].concat()).json();
        assert_eq!(doc["totals"]["ok"], 5, "{extra:?}");
        doc["tls"]["agreed"].as_str().unwrap().to_owned()
    };
    assert!(agreed(&["--groups", "P-384"]).contains(", P-384, "));
    assert!(agreed(&["--groups", "x25519"]).contains(", X25519, "));
    assert!(agreed(&["--groups", "X25519MLKEM768,secp256r1"]).contains(", P-256, "), "one round trip more");
    assert!(agreed(&["--ciphers", "TLS_AES_128_GCM_SHA256"]).starts_with("TLS 1.3, TLS_AES_128_GCM_SHA256, "));
    let old = agreed(&["--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"]);
    assert!(old.starts_with("TLS 1.2, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "), "{old}");
    assert!(agreed(&[]).ends_with(", ALPN http/1.1"));
    assert!(!agreed(&["--alpn", "none"]).contains("ALPN"));
}

#[test]
fn resumption_is_counted_apart() {
    let Some(server) = Secured::start("") else { return };
    for version in ["1.2", "1.3"] {
        for (resume, full) in [("on", 1), ("off", 50)] {
            for extra in [&["--disable-keepalive"][..], &["--handshake-only"]] {
                let args = ["-n", "50", "-c", "1", "--tls-version", version, "--resume", resume];
                let doc = server.load(&[&args, extra].concat()).json();
                let what = format!("{version} {resume} {extra:?}");
                assert_eq!(doc["totals"]["ok"], 50, "{what}: {}", doc["totals"]);
                assert_eq!(doc["tls"]["handshakes_full"], full, "{what}");
                assert_eq!(doc["tls"]["handshakes_resumed"], 50 - full, "{what}");
                assert_valid_or_disturbed(&doc);
            }
        }
    }
}

#[test]
fn handshakes_alone_are_reported_as_such() {
    let Some(server) = Secured::start("access_log logs/access.log;") else { return };
    for driver in DRIVERS {
        let (url, ca) = (server.url(), server.file("ca.pem"));
        let args = ["load", &url, "--ca", &ca, "--handshake-only", "-d", "500ms", "-c", "4", "--no-record"];
        let run = plimsoll(&[&args[..], &["--driver", driver, "--csv", &server.file("csv")]].concat());
        assert!(matches!(run.status, Some(0 | 4)), "4 where tests beside this one took the CPU: {}", run.stderr);
        for word in
            [" handshakes/s", "handshakes per CPU-second", "TLS handshakes alone", "4 connections, reached", "tls"]
        {
            assert!(run.stdout.contains(word), "{word} is missing in\n{}", run.stdout);
        }
        assert!(!run.stdout.contains("keepalive-off") && !run.stdout.contains("requests/s"), "{}", run.stdout);
        let csv = std::fs::read_to_string(server.file("csv")).unwrap();
        assert!(csv.lines().next().unwrap().contains(",handshakes_full,handshakes_resumed"), "{csv}");
        let doc =
            server.load(&["--handshake-only", "--rate", "200/s", "-d", "1s", "-c", "8", "--driver", driver]).json();
        assert_eq!((due(&doc["totals"]), &doc["totals"]["ok"]), (200, &doc["totals"]["started"]), "{driver}");
        assert_eq!(doc["totals"]["bytes_sent"], 0);
        assert_valid_or_disturbed(&doc);
    }
}

#[test]
fn certificates_are_verified_unless_told_otherwise() {
    let Some(good) = Secured::start("") else { return };
    let Some(other) = Secured::with("", &["a.test", "*.b.test"], |_| {}) else { return };
    let expired = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let Some(expired) = Secured::with("", &["127.0.0.1"], expired) else { return };
    let cases: [(&str, &Secured, &str, &str); 3] = [
        ("unknown issuer", &good, &other.file("ca.pem"), "has an unknown issuer"),
        ("wrong name", &other, &other.file("ca.pem"), "is for a.test, *.b.test, not for 127.0.0.1"),
        ("expired", &expired, &expired.file("ca.pem"), "has expired, "),
    ];
    for (what, server, ca, words) in cases {
        let url = server.url();
        let run = load(&url, &["--ca", ca, "-n", "8", "-c", "2"]);
        run.assert_exit(1);
        let doc = run.json();
        assert_eq!((&doc["totals"]["ok"], &doc["totals"]["errors"]["tls-handshake"]), (&0.into(), &8.into()), "{what}");
        assert!(doc["tls"]["failed"].as_str().unwrap().contains(words), "{what}: {}", doc["tls"]);
        assert!(run.stderr.contains(words) && run.stderr.contains("TLS connection"), "{what}: {}", run.stderr);
        let text = plimsoll(&["load", &url, "--ca", ca, "-n", "8", "-c", "2", "--no-record", "-q"]);
        assert!(text.stdout.replace("\n              ", " ").contains(words), "{what}: {}", text.stdout);
        assert!(text.stdout.contains("in the TLS handshake"), "{what}: {}", text.stdout);
        let run = load(&url, &["-k", "-n", "8", "-c", "2"]);
        assert_fine(&run);
        assert_eq!(run.json()["totals"]["ok"], 8, "{what}");
    }
    // The name that is asked for is the one that is verified; whoever else is connected to.
    let (ca, to) = (other.file("ca.pem"), other.address.to_string());
    for (url, extra) in [("https://x.b.test/", &[][..]), ("https://127.0.0.1/", &["--sni", "a.test"])] {
        let run = load(url, &[&["--ca", &ca, "--connect-to", &to, "-n", "8"], extra].concat());
        assert_eq!(run.json()["totals"]["ok"], 8, "{url}: {}", run.stderr);
    }
}

#[test]
fn the_machines_own_authorities_are_trusted_and_no_others() {
    let Some(server) = Secured::start("") else { return };
    let url = server.url();
    let with = |name: &str, file: &str| {
        let mut command = command(&["load", &url, "-n", "5", "--json", "--no-record", "-q"]);
        finish(command.env_remove("SSL_CERT_DIR").env(name, file))
    };
    assert_eq!(with("SSL_CERT_FILE", &server.file("ca.pem")).json()["totals"]["ok"], 5);
    let run = with("SSL_CERT_FILE", "/dev/null");
    run.assert_exit(1);
    assert!(run.stderr.contains("certificate authorities to trust") && run.stderr.contains("--ca"), "{}", run.stderr);
}

#[test]
fn a_client_certificate_is_asked_for_shown_and_missed() {
    let Some(server) = Secured::start("ssl_verify_client on;") else { return };
    let (certificate, key) = server
        .authority
        .sign(&["someone"], |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])
        .unwrap();
    write(server.folder.path(), "client", &certificate, &key).unwrap();
    for version in ["1.2", "1.3"] {
        let with = ["--cert", &server.file("client.pem"), "--key", &server.file("client.key")];
        let run = server.load(&[&["-n", "10", "--tls-version", version], &with[..]].concat());
        assert_eq!(run.json()["totals"]["status"]["200"], 10, "{version}: {}", run.stderr);
        // nginx finishes the handshake and says so in HTTP.
        let run = server.load(&["-n", "10", "--tls-version", version]);
        assert_eq!(run.json()["totals"]["status"]["400"], 10, "{version}: {}", run.stderr);
    }
    let run = server.load(&["--cert", &server.file("client.pem"), "--key", &server.file("server.key")]);
    run.assert_exit(2);
    assert!(run.stderr.contains("--cert") && run.stderr.contains("cannot be used together"), "{}", run.stderr);
}

#[test]
fn tls_and_plain_on_the_other_ones_port() {
    let Some(server) = Secured::start("") else { return };
    let run = load(&format!("https://{}/", server.plain), &["-k", "-n", "8", "-c", "2"]);
    run.assert_exit(1);
    assert_eq!(run.json()["totals"]["errors"]["tls-handshake"], 8);
    let first = run.json()["gives"]["text"].as_str().unwrap().to_owned();
    assert!(first.starts_with("no TLS handshake was completed: ") && first.contains("is not TLS"), "{first}");
    assert!(run.stderr.contains("is not TLS") && run.stderr.contains("without TLS: http://"), "{}", run.stderr);
    // nginx understands the mistake and says so with a 400.
    let run = load(&format!("http://{}/", server.address), &["-n", "8", "-c", "2"]);
    assert_eq!(run.json()["totals"]["errors"]["unexpected-status"], 8);
    // Others answer with an alert.
    let alert = hostile(|stream| {
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(&[21, 3, 1, 0, 2, 2, 70]);
    });
    let run = load(&format!("http://{alert}/"), &["-n", "8", "-c", "2"]);
    assert_eq!(run.json()["totals"]["errors"]["bad-framing"], 8, "{}", run.stdout);
    let first = run.json()["gives"]["text"].as_str().unwrap().to_owned();
    assert!(first.starts_with("nothing that came was a reply of this protocol (all 8 failed, "), "{first}");
    assert!(run.stdout.contains("use https://"), "{}", run.json()["examples"]);
}

/// A server that does one thing with each connection and then closes it.
fn hostile(act: fn(&mut TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || act(&mut stream));
        }
    });
    address
}

#[test]
fn handshakes_cut_short_and_alerts_are_told_apart() {
    let truncated = hostile(|stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&[22, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3]);
    });
    let alert = hostile(|stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
    });
    for driver in DRIVERS {
        for (address, words) in
            [(truncated, "closed in the middle of the handshake"), (alert, "alert handshake_failure")]
        {
            let run = load(&format!("https://{address}/"), &["-k", "-n", "8", "-c", "2", "--driver", driver]);
            run.assert_exit(1);
            let doc = run.json();
            assert_eq!(doc["totals"]["errors"]["tls-handshake"], 8, "{driver} {}", doc["totals"]);
            let example = doc["examples"].as_array().unwrap().iter().find(|e| e["kind"] == "tls-handshake").unwrap();
            assert_eq!(example["phase"], "tls", "{driver}");
            assert!(example["text"].as_str().unwrap().contains(words), "{driver} {example}");
        }
    }
}

#[test]
fn echo_over_tls_is_spoken() {
    let authority = Authority::new().unwrap();
    let (certificate, key) = authority.sign(&["127.0.0.1"], |_| {}).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            std::thread::spawn(move || {
                let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                let mut buffer = vec![0; 100_000];
                while let Ok(n @ 1..) = tls.read(&mut buffer) {
                    if tls.write_all(&buffer[..n]).and_then(|()| tls.flush()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.certificate().pem()).unwrap();
    for driver in DRIVERS {
        let run = load(
            &format!("echo+tls://{address}"),
            &["--ca", ca.to_str().unwrap(), "-n", "200", "-c", "3", "--size", "1,16KiB,100000", "--driver", driver],
        );
        assert_fine(&run);
        let doc = run.json();
        assert_eq!((&doc["totals"]["ok"], &doc["totals"]["failed"]), (&200.into(), &0.into()), "{driver}");
        assert_eq!(doc["totals"]["bytes_sent"], doc["totals"]["bytes_received"], "{driver}");
        assert!(!doc["tls"]["agreed"].as_str().unwrap().contains("ALPN"), "{driver}");
    }
}

#[test]
fn flags_that_cannot_be_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "nothing").unwrap();
    let empty = empty.to_str().unwrap();
    let cases: [(&str, &[&str], i32, &str); 14] = [
        (
            "http://127.0.0.1:9/",
            &["-k"],
            2,
            "--insecure is for https, echo+tls, hold+tls, resp+tls, rediss, wss and hold+wss URLs",
        ),
        (
            "echo://127.0.0.1:9",
            &["--handshake-only"],
            2,
            "--handshake-only is for https, echo+tls, hold+tls, resp+tls, rediss, wss and hold+wss URLs",
        ),
        ("http://127.0.0.1:9/", &["--resume", "off"], 2, "--resume is for https"),
        ("https://h/", &["-k", "--ca", "x"], 2, "--insecure cannot be used with --ca"),
        ("https://127.0.0.1/", &["--ca", "/nowhere"], 2, "--ca: expected a file that can be read"),
        ("https://127.0.0.1/", &["--ca", empty], 2, "--ca: expected certificates in PEM"),
        ("https://127.0.0.1/", &["-k", "--key", empty], 2, "--key cannot be used with no certificate"),
        ("https://127.0.0.1/", &["-k", "--cert", empty], 2, "--cert: expected certificates in PEM"),
        ("https://127.0.0.1/", &["-k", "--tls-version", "1.1"], 2, "--tls-version: expected 1.2, 1.3 or 1.2..1.3"),
        ("https://127.0.0.1/", &["-k", "--ciphers", "RC4"], 2, "--ciphers: expected cipher suites such as TLS_AES"),
        ("https://127.0.0.1/", &["-k", "--groups", "P-1"], 2, "--groups: expected key exchange groups (X25519MLKEM768"),
        (
            "https://127.0.0.1/",
            &["-k", "--tls-version", "1.2", "--ciphers", "TLS_AES_128_GCM_SHA256"],
            2,
            "--ciphers: expected cipher suites of the TLS versions asked for (1.2)",
        ),
        ("https://127.0.0.1/", &["-k", "--sni", "no name"], 2, "--sni: expected a server name"),
        (
            "https://127.0.0.1/",
            &["-k", "--handshake-only", "--pipeline", "2"],
            2,
            "--pipeline cannot be used with --handshake-only",
        ),
    ];
    for (url, extra, status, words) in cases {
        let run = load(url, extra);
        run.assert_exit(status);
        assert!(run.stderr.contains(words), "{extra:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[test]
fn explain_says_what_is_offered_and_whom_to_trust() {
    let Some(server) = Secured::start("") else { return };
    let (url, ca) = (server.url(), server.file("ca.pem"));
    let (pem, key) = (server.file("server.pem"), server.file("server.key"));
    let args = ["load", &url, "--ca", &ca, "--cert", &pem, "--key", &key, "--explain", "--tls-version", "1.3"];
    let run = plimsoll(&args);
    assert_fine(&run);
    for word in
        ["versions 1.3\n", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768, X25519", "ALPN http/1.1", &ca, &pem, "resumed"]
    {
        assert!(run.stdout.contains(word), "{word} is missing in\n{}", run.stdout);
    }
    let doc = plimsoll(&[&args[..], &["--json"]].concat());
    assert!(!doc.stdout.contains("PRIVATE KEY") && doc.json()["plan"]["tls"]["verify"]["by"] == "file");
}

/// Our own server and our own client, each key and version, and what is held over TLS.
#[test]
fn the_matrix_has_a_figure_for_each_key_and_version() {
    in_three(each_key_and_version_has_a_figure);
}

fn each_key_and_version_has_a_figure() {
    let run = plimsoll(&["load", "--tls-matrix", "-d", "250ms", "--rounds", "1", "--json", "-q"]);
    run.assert_exit(0);
    let lines = run.json();
    let lines = lines.as_array().unwrap();
    assert_eq!(lines.len(), 12, "six keys, two versions");
    for line in lines {
        for kind in ["full", "resumed", "kept"] {
            assert!(line[kind]["per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{kind} in {line}");
            assert!(line[kind]["generator_us_each"].as_f64().is_some_and(|us| us > 0.0), "{kind} in {line}");
        }
    }
}

#[test]
fn connections_are_held_and_bursts_released_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let ca = ca.to_str().unwrap();
    let server = serve(&["serve", "echo", "--tls", "--tls-ca-out", ca, "--listen", "127.0.0.1:0"]);
    let held = server.url.replace("echo+tls://", "hold+tls://");
    for driver in ["rings", "uring", "epoll"] {
        let args = ["load", &held, "-c", "50", "--every", "500ms", "-d", "2s", "--connect-rate", "500/s", "--ca", ca];
        let run = finish(command(&args).args(["--driver", driver, "--json", "--no-record", "-q"]));
        assert!(matches!(run.status, Some(0 | 4)), "{driver}: {}", run.stderr);
        let json = run.json();
        assert_eq!(json["held"]["established_at_end"], 50, "{driver}: {}", json["held"]);
        assert_eq!(json["totals"]["failed"], 0, "{driver}: {}", json["totals"]);
        assert!(due(&json["totals"]) >= 150 && json["totals"]["ok"].as_u64() > Some(0), "{driver}: {}", json["totals"]);
        assert_eq!(json["latency"]["tls"]["count"], 50, "{driver}");
    }
    for at in ["send", "connect"] {
        let args = ["load", &server.url, "--burst", "50", "--rounds", "3", "--burst-at", at, "--ca", ca];
        let json = finish(command(&args).args(["--json", "--no-record", "-q"])).json();
        assert_eq!(json["totals"]["ok"], 150, "{at}: {}", json["totals"]);
    }
    // The wrong trust is a failure to connect, in words.
    let run =
        finish(command(&["load", &held, "-c", "5", "-d", "500ms"]).args(["--every", "never", "--no-record", "-q"]));
    run.assert_exit(1);
    assert!(run.stderr.contains("TLS"), "{}", run.stderr);
}
