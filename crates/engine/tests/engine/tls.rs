//! The TLS layer against rustls' own server side: every test on epoll, io_uring and the simulated network, where the
//! server's bytes arrive one by one if the test wants it.

use crate::common::mux::run_protocol;
use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use engine::tls::{default_ciphers, default_groups};
use model::plan::*;
use model::tls::{Identity, TlsPlan, TlsVersion, Trusted, Verify};
use model::{ErrorKind, LatencyKind, Phase};
use rcgen::CertificateParams;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;
use testkit::certificates::Authority;
use wire::{Failure, Fed, Payload, Progress, Protocol, Reply, Source, Stream};

const NAME: &str = "local.test";

/// A server's side as a test wants it.
struct Side {
    authority: Authority,
    config: ServerConfig,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn side_with(
    names: &[&str],
    versions: &[&'static rustls::SupportedProtocolVersion],
    asks_for_certificate: bool,
    change: impl FnOnce(&mut CertificateParams),
) -> Side {
    let authority = Authority::new().unwrap();
    let (certificate, key) = authority.sign(names, change).unwrap();
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
    let builder = if asks_for_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    Side { authority, config }
}

fn side() -> Side {
    side_with(&[NAME], &[&TLS12, &TLS13], false, |_| {})
}

/// What is offered by default, trusting the side's authority.
fn asked(side: &Side) -> TlsPlan {
    let versions = vec![TlsVersion::V12, TlsVersion::V13];
    TlsPlan {
        server_names: vec![NAME.to_owned()],
        ciphers: default_ciphers(&versions),
        versions,
        groups: default_groups(),
        alpn: vec![],
        verify: Verify::File(Trusted { der: vec![side.authority.certificate().der().to_vec()], ..Trusted::default() }),
        identity: None,
        resume: true,
        handshake_only: false,
    }
}

/// A service behind TLS: its plain bytes go to `answer`; what it sends is cut into pieces of at most `piece` bytes.
#[derive(Clone)]
struct Secured {
    config: Arc<ServerConfig>,
    answer: fn(&[u8]) -> Vec<Action>,
    piece: usize,
    connections: HashMap<u64, Arc<std::sync::Mutex<ServerConnection>>>,
}

impl Secured {
    fn of(side: &Side, answer: fn(&[u8]) -> Vec<Action>, piece: usize) -> Self {
        Secured { config: Arc::new(side.config.clone()), answer, piece, connections: HashMap::new() }
    }

    fn flush(connection: &mut ServerConnection, piece: usize, actions: &mut Vec<Action>) {
        let mut bytes = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut bytes).unwrap();
        }
        actions.extend(bytes.chunks(piece).map(reply));
    }
}

impl Service for Secured {
    fn connected(&mut self, number: u64) -> Vec<Action> {
        let connection = ServerConnection::new(self.config.clone()).unwrap();
        self.connections.insert(number, Arc::new(std::sync::Mutex::new(connection)));
        Vec::new()
    }

    fn received(&mut self, number: u64, mut bytes: &[u8]) -> Vec<Action> {
        let Some(connection) = self.connections.get(&number).cloned() else { return Vec::new() };
        let mut connection = connection.lock().unwrap();
        let mut actions = Vec::new();
        while !bytes.is_empty() {
            connection.read_tls(&mut bytes).unwrap();
            let outcome = connection.process_new_packets();
            let mut plain = Vec::new();
            let _ = connection.reader().read_to_end(&mut plain);
            if !plain.is_empty() {
                for action in (self.answer)(&plain) {
                    match action {
                        Action::Reply { bytes, .. } => {
                            connection.writer().write_all(&bytes).unwrap();
                            Self::flush(&mut connection, self.piece, &mut actions);
                        }
                        other => actions.push(other),
                    }
                }
            }
            Self::flush(&mut connection, self.piece, &mut actions);
            if outcome.is_err() {
                actions.push(Action::Close { after_ns: 0 });
                break;
            }
        }
        actions
    }
}

fn counted(workload: Workload, tls: TlsPlan, requests: u64) -> Plan {
    let mut plan = plan(workload);
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    plan.tls = Some(tls);
    plan
}

#[test]
fn requests_and_replies_pass_through_in_both_versions() {
    let side = side();
    for (version, shown) in [(TlsVersion::V12, "TLS 1.2"), (TlsVersion::V13, "TLS 1.3")] {
        let versions = vec![version];
        let tls = TlsPlan { ciphers: default_ciphers(&versions), versions, ..asked(&side) };
        on_all(
            &counted(http(), tls, 200),
            || Secured::of(&side, http_ok, usize::MAX),
            |name, sum| {
                let c = &sum.total.counts;
                assert_eq!((c.started, c.ok, c.failed), (200, 200, 0), "{name} {:?}", sum.notes);
                let of = |kind| sum.total.latency.of(kind).len();
                sum.assert_connected(name, 4, of(LatencyKind::Connect));
                sum.assert_connected(name, 4, of(LatencyKind::Tls));
                assert_eq!(c.handshakes_full + c.handshakes_resumed, of(LatencyKind::Tls), "{name}");
                let agreed = sum.notes.iter().find(|note| note.kind == "tls-agreed").unwrap();
                assert!(
                    agreed.text.starts_with(shown) && agreed.text.contains("certificate ECDSA P-256"),
                    "{agreed:?}"
                );
            },
        );
    }
}

#[test]
fn bytes_that_arrive_one_by_one_are_whole_records() {
    let side = side();
    for versions in [vec![TlsVersion::V12], vec![TlsVersion::V13]] {
        let tls = TlsPlan { ciphers: default_ciphers(&versions), versions, ..asked(&side) };
        let mut plan = counted(http(), tls, 20);
        plan.requests_per_connection = Some(5);
        on_all(
            &plan,
            || Secured::of(&side, http_ok, 1),
            |name, sum| {
                assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (20, 0), "{name}: {:?}", sum.notes);
            },
        );
    }
}

#[test]
fn large_echoes_pass_in_chunks_and_pipelines_stay_in_order() {
    let side = side();
    let sizes = Sizes::List(vec![1, 16_383, 16_384, 16_385, 65_536, 65_537, 1 << 20]);
    let large = counted(Workload::Echo(Echo { sizes, content: Content::Incompressible }), asked(&side), 42);
    on_all(
        &large,
        || Secured::of(&side, echo_back, 10_000),
        |name, sum| {
            assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (42, 0), "{name}: {:?}", sum.total.errors);
            assert_eq!(sum.total.counts.bytes_sent, sum.total.counts.bytes_received, "{name}");
        },
    );
    let mut pipelined = counted(echo(), asked(&side), 300);
    pipelined.pipeline = 7;
    on_all(
        &pipelined,
        || Secured::of(&side, echo_back, usize::MAX),
        |name, sum| {
            assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (300, 0), "{name}: {:?}", sum.total.errors);
        },
    );
}

#[test]
fn an_open_pace_and_many_connections_are_the_same_to_it() {
    let side = side();
    let mut plan = plan(http());
    plan.tls = Some(asked(&side));
    plan.pace = open(500.0);
    on_all(
        &plan,
        || Secured::of(&side, http_ok, usize::MAX),
        |name, sum| {
            assert_eq!((sum.total.counts.started, sum.total.counts.ok), (100, 100), "{name}");
        },
    );
}

#[test]
fn sessions_are_resumed_or_not_as_asked() {
    let side = side();
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for resume in [true, false] {
            let versions = vec![version];
            let tls = TlsPlan { ciphers: default_ciphers(&versions), versions, resume, ..asked(&side) };
            let mut plan = counted(http(), tls, 30);
            plan.connections = 1;
            plan.requests_per_connection = Some(1);
            on_all(
                &plan,
                || Secured::of(&side, http_ok, usize::MAX),
                |name, sum| {
                    let c = &sum.total.counts;
                    assert_eq!((c.ok, c.failed), (30, 0), "{name} {version:?}");
                    let expected = if resume { (1, 29) } else { (30, 0) };
                    assert_eq!((c.handshakes_full, c.handshakes_resumed), expected, "{name} {version:?} {resume}");
                },
            );
        }
    }
}

#[test]
fn handshakes_alone_are_a_load_of_their_own() {
    let side = side();
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for resume in [true, false] {
            for pace in [Pace::Closed { think: Think::None }, open(300.0)] {
                let versions = vec![version];
                let ciphers = default_ciphers(&versions);
                let tls = TlsPlan { ciphers, versions, resume, handshake_only: true, ..asked(&side) };
                let mut plan = counted(http(), tls, 40);
                plan.connections = 2;
                plan.pace = pace;
                on_all(
                    &plan,
                    || Secured::of(&side, http_ok, usize::MAX),
                    |name, sum| {
                        let c = &sum.total.counts;
                        let what = format!("{name} {version:?} resume {resume} {:?}", plan.pace);
                        assert_eq!((c.started, c.ok, c.failed, c.bytes_sent), (40, 40, 0, 0), "{what}");
                        assert_eq!(c.handshakes_full + c.handshakes_resumed, 40, "{what}");
                        assert_eq!(c.handshakes_resumed > 20, resume, "{what}: {c:?}");
                        assert_eq!(sum.total.latency.of(LatencyKind::Response).len(), 40, "{what}");
                        assert_eq!(sum.total.latency.of(LatencyKind::Tls).len(), 40, "{what}");
                    },
                );
            }
        }
    }
}

/// Connections that come and go together each have a ticket of their own.
#[test]
fn many_connections_at_once_all_resume() {
    let side = side_with(&[NAME], &[&TLS13], false, |_| {});
    let mut plan = counted(http(), TlsPlan { handshake_only: true, ..asked(&side) }, 400);
    plan.connections = 40;
    on_all(
        &plan,
        || Secured::of(&side, http_ok, usize::MAX),
        |name, sum| {
            let c = &sum.total.counts;
            assert_eq!((c.ok, c.handshakes_full, c.handshakes_resumed), (400, 40, 360), "{name}");
        },
    );
}

#[test]
fn a_server_without_tickets_is_not_waited_for_each_time() {
    let mut side = side_with(&[NAME], &[&TLS13], false, |_| {});
    side.config.send_tls13_tickets = 0;
    let mut plan = counted(http(), TlsPlan { handshake_only: true, ..asked(&side) }, 40);
    plan.connections = 2;
    on_all(
        &plan,
        || Secured::of(&side, http_ok, usize::MAX),
        |name, sum| {
            assert_eq!((sum.total.counts.ok, sum.total.counts.handshakes_full), (40, 40), "{name}");
        },
    );
}

/// Each way a handshake may fail, and the words the first failure must have.
#[test]
fn failed_handshakes_are_told_apart() {
    let good = side();
    let expired = side_with(&[NAME], &[&TLS13], false, |params| {
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(2002, 1, 1));
    });
    let future = side_with(&[NAME], &[&TLS13], false, |params| {
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2901, 1, 1), rcgen::date_time_ymd(2902, 1, 1));
    });
    let other = side_with(&["a.test", "*.b.test"], &[&TLS13], false, |_| {});
    let old = side_with(&[NAME], &[&TLS12], false, |_| {});
    let client = side_with(&[NAME], &[&TLS13], true, |_| {});
    let client_old = side_with(&[NAME], &[&TLS12], true, |_| {});
    let new_only = |side: &Side| {
        let versions = vec![TlsVersion::V13];
        TlsPlan { ciphers: default_ciphers(&versions), versions, ..asked(side) }
    };
    let cases: [(&str, &Side, TlsPlan, &str, &str); 8] = [
        ("expired", &expired, asked(&expired), "has expired", "has expired, "),
        ("not yet", &future, asked(&future), "is not valid yet", "not valid yet, but will be in "),
        ("name", &other, asked(&other), "another name", "is for a.test, *.b.test, not for local.test"),
        ("issuer", &good, asked(&other), "unknown issuer", "unknown issuer"),
        ("version", &old, new_only(&old), "TLS alert protocol_version", "protocol_version"),
        ("client 1.3", &client, asked(&client), "TLS alert certificate_required", "certificate_required"),
        ("client 1.2", &client_old, asked(&client_old), "TLS alert ", "TLS alert "),
        ("group", &good, TlsPlan { groups: vec!["X25519".to_owned()], ..asked(&good) }, "", ""),
    ];
    for (what, side, tls, words, note) in cases {
        let mut plan = plan(http());
        plan.tls = Some(tls);
        on_all(
            &plan,
            || Secured::of(side, http_ok, usize::MAX),
            |name, sum| {
                if words.is_empty() {
                    assert!(sum.total.counts.ok > 0 && sum.total.counts.failed == 0, "{what} on {name}");
                    return;
                }
                assert_eq!(sum.total.counts.ok, 0, "{what} on {name}");
                // A server of TLS 1.3 looks at the client's certificate when the client is done, and has sent its request.
                let (kind, phase) = match what {
                    "client 1.3" => (ErrorKind::TlsRefused, Phase::FirstByte),
                    _ => (ErrorKind::TlsHandshake, Phase::Tls),
                };
                assert!(sum.of(kind) > 0, "{what} on {name}: {:?}", sum.total.errors);
                let example = sum.total.examples[kind.index()].unwrap();
                assert_eq!(example.phase, phase, "{what} on {name}");
                let said = wire::words(&plan.workload, example.detail).unwrap();
                assert!(said.contains(words), "{what} on {name}: {said}");
                let told = sum.notes.iter().find(|note| note.kind == "tls-failed").unwrap();
                assert!(told.text.contains(note), "{what} on {name}: {told:?}");
            },
        );
    }
}

#[test]
fn unverified_is_what_insecure_is_for() {
    let side = side_with(&["a.test"], &[&TLS12, &TLS13], false, |params| {
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let tls = TlsPlan { verify: Verify::Off, ..asked(&side) };
    on_all(
        &counted(http(), tls, 20),
        || Secured::of(&side, http_ok, usize::MAX),
        |name, sum| {
            assert_eq!(sum.total.counts.ok, 20, "{name}");
        },
    );
}

#[test]
fn a_client_certificate_is_shown_where_one_is_asked_for() {
    for versions in [&[&TLS12], &[&TLS13]] {
        let side = side_with(&[NAME], versions, true, |_| {});
        let (certificate, key) = side
            .authority
            .sign(&["someone"], |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            })
            .unwrap();
        let identity = Identity {
            certificate_file: "c".to_owned(),
            certificate_sha256: String::new(),
            key_file: "k".to_owned(),
            certificate_pem: certificate.pem().into(),
            key_pem: key.serialize_pem().into(),
        };
        let tls = TlsPlan { identity: Some(identity), ..asked(&side) };
        on_all(
            &counted(http(), tls, 20),
            || Secured::of(&side, http_ok, usize::MAX),
            |name, sum| {
                assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (20, 0), "{name} {:?}", sum.notes);
            },
        );
    }
}

type Answer = fn(&[u8]) -> Vec<Action>;

/// Whoever does not speak TLS, or stops in the middle, and what each is counted as.
#[test]
fn what_is_not_tls_or_ends_in_the_middle() {
    const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    const HALF: &[u8] = &[22, 3, 3, 0, 90, 2, 0, 0, 86];
    const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 80];
    const UNKNOWN_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 200];
    const GARBAGE: &[u8] = &[22, 3, 3, 0, 4, 99, 99, 99, 99];
    let cases: [(&str, Answer, ErrorKind, &str); 8] = [
        ("plain http", |_| vec![reply(PLAIN)], ErrorKind::TlsHandshake, "is not TLS"),
        ("closed at once", |_| vec![Action::Close { after_ns: 0 }], ErrorKind::TlsHandshake, "closed in the middle"),
        (
            "closed",
            |_| vec![reply(HALF), Action::Close { after_ns: 0 }],
            ErrorKind::TlsHandshake,
            "closed in the middle",
        ),
        ("reset", |_| vec![reply(HALF), Action::Reset { after_ns: 20 * MS }], ErrorKind::Reset, ""),
        ("alert", |_| vec![reply(ALERT)], ErrorKind::TlsHandshake, "alert internal_error"),
        ("an alert nobody knows", |_| vec![reply(UNKNOWN_ALERT)], ErrorKind::TlsHandshake, "alert 200"),
        ("garbage", |_| vec![reply(GARBAGE)], ErrorKind::TlsHandshake, "malformed"),
        ("silence", |_| vec![], ErrorKind::TlsHandshake, "not done within the connect timeout"),
    ];
    let side = side();
    for handshake_only in [false, true] {
        for (what, answer, kind, words) in &cases {
            let mut plan = plan(http());
            // Only silence is to run out of time: a busy machine must not make the others do so.
            if *what == "silence" {
                (plan.timeouts.connect_ns, plan.stop.duration_ns) = (300 * MS, Some(S));
            }
            plan.tls = Some(TlsPlan { handshake_only, ..asked(&side) });
            on_all(&plan, answering(*answer), |name, sum| {
                let others = sum.total.errors.seen().filter(|(k, _)| k != kind).collect::<Vec<_>>();
                assert!(sum.total.counts.ok == 0 && others.is_empty(), "{what} on {name}: {others:?}");
                assert!(sum.of(*kind) > 0 && sum.total.counts.connect_failed > 0, "{what} on {name}");
                assert_eq!(sum.total.latency.of(LatencyKind::Tls).len(), 0, "{what} on {name}");
                assert!(!sum.total.latency.of(LatencyKind::Connect).is_empty(), "{what} on {name}: TCP was there");
                let example = sum.total.examples[kind.index()].unwrap();
                let said = wire::words(&plan.workload, example.detail).unwrap_or_default();
                assert!(said.contains(words), "{what} on {name}: {said}");
            });
        }
    }
}

#[test]
fn an_end_without_close_notify_is_no_end_of_a_reply() {
    let until_close = |_: &[u8]| vec![reply(b"HTTP/1.0 200 OK\r\n\r\nall of it"), Action::Close { after_ns: 0 }];
    let side = side();
    on_all(
        &counted(http(), asked(&side), 10),
        || Secured::of(&side, until_close, usize::MAX),
        |name, sum| {
            assert_eq!((sum.total.counts.ok, sum.of(ErrorKind::ClosedEarly)), (0, 10), "{name}");
            let example = sum.total.examples[ErrorKind::ClosedEarly.index()].unwrap();
            assert!(wire::words(&http(), example.detail).unwrap().contains("close_notify"), "{name}");
        },
    );
}

#[test]
fn the_network_may_cut_and_break_anything() {
    let side = side();
    for seed in 0..12 {
        let mut plan = plan(http());
        plan.tls = Some(TlsPlan { handshake_only: seed % 3 == 0, ..asked(&side) });
        plan.seed = seed;
        plan.requests_per_connection = Some(3);
        plan.timeouts = Timeouts { connect_ns: 20 * MS, reply_ns: 20 * MS };
        let weather = Weather { cut: 0.4, reset: 0.02, refuse: 0.05, blackhole: 0.02, ..Weather::default() };
        let sum = run(DriverKind::Sim, plan, weather, || Secured::of(&side, http_ok, 700)).unwrap();
        sum.assert_conserved("sim");
        assert!(sum.total.counts.ok > 10, "seed {seed}: {:?}", sum.total.counts);
    }
}

/// Requests of one large blob, `u` over and over and a line's end; a ping, `p`, is answered with an `a`.
struct Uploads(Arc<[u8]>);

impl Protocol for Uploads {
    type Connection = bool;
    type Request = Payload;
    type Transport = Stream;

    const FRAMED: bool = true;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        vec![Arc::clone(&self.0)]
    }

    fn connection(&self) -> bool {
        false
    }

    fn next_request(&mut self, _: u16, _: u64) -> Payload {
        Payload { blob: 0, start: 0, length: self.0.len() as u32 }
    }

    fn source(&self, request: Payload) -> Source {
        Source::Blob(request)
    }

    fn written_bytes_max(&self) -> usize {
        1
    }

    fn feed(&self, owes: &mut bool, _: Payload, bytes: &[u8]) -> Fed {
        let progress = match bytes[0] {
            b'p' => {
                *owes = true;
                Progress::Say
            }
            b'r' => Progress::Reply(Reply { status: 0, keep: true, failure: None }),
            _ => Progress::Broken(Failure { kind: ErrorKind::BadFraming, detail: 0 }),
        };
        Fed { consumed: 1, progress }
    }

    fn say(&self, owes: &mut bool, to: &mut Vec<u8>) {
        if std::mem::take(owes) {
            to.push(b'a');
        }
    }

    fn closed(&self, _: &mut bool, _: Payload) -> Progress {
        Progress::Broken(Failure { kind: ErrorKind::ClosedEarly, detail: 0 })
    }

    fn timed_out(&self, _: &mut bool, _: u32, _: Payload) -> Failure {
        Failure { kind: ErrorKind::ReplyTimeout, detail: 0 }
    }

    fn describe(_: u32) -> Option<&'static str> {
        None
    }
}

#[test]
fn what_is_said_waits_behind_a_large_request() {
    fn pinged(bytes: &[u8]) -> Vec<Action> {
        if bytes.windows(2).any(|pair| pair == b"ua") {
            return vec![reply(b"an answer in the middle of a request")];
        }
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
        let ping: &[u8] = if ends == 0 && bytes[0] == b'u' { b"p" } else { b"" };
        vec![reply(&[&b"r".repeat(ends), ping].concat())]
    }
    let side = side();
    let mut blob = vec![b'u'; 8 << 20];
    blob[(8 << 20) - 1] = b'\n';
    let blob: Arc<[u8]> = blob.into();
    let mut plan = counted(echo(), asked(&side), 6);
    plan.connections = 2;
    plan.timeouts.reply_ns = 20 * S;
    for driver in DRIVERS {
        let service = Secured::of(&side, pinged, usize::MAX);
        let protocol = Uploads(Arc::clone(&blob));
        let Some(sum) = run_protocol(driver, plan.clone(), Weather::default(), protocol, service) else { continue };
        let (counts, least) = (&sum.total.counts, 6 * blob.len() as u64);
        assert_eq!((counts.ok, counts.failed), (6, 0), "{}: {:?}", driver.name(), sum.total.errors);
        assert!(counts.bytes_sent > least, "{}: nothing was said: {}", driver.name(), counts.bytes_sent);
    }
}
