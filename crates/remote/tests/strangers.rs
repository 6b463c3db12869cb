//! The link to an observer against peers that are not what they should be: strangers, impostors, somebody in between,
//! noise, and those who are slow. The observer is the real one, on loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

use model::bpf::Level;
use model::watched::Whom;
use remote::limits::{CLIENTS_MAX, PROTOCOL, STRANGERS_MAX};
use remote::{Fingerprint, ObserveAt, RemoteError, Say, ServeOptions, Serving, Token, Trust, watch};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running observer; it ends with this, and every client's thread with it.
struct Observer {
    address: SocketAddr,
    fingerprint: Fingerprint,
    token: Token,
    stop: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    fn start() -> Self {
        let token = Token::generate().unwrap();
        let serving = Serving::bind(ServeOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            token: token.clone(),
            certificate: None,
            whom: None,
            level_max: Level::Full,
            version: "0.1.0".to_owned(),
        })
        .unwrap();
        let (address, fingerprint) = (serving.address(), serving.fingerprint());
        let (stop, said) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopped, told) = (Arc::clone(&stop), Arc::clone(&said));
        let thread = std::thread::spawn(move || {
            let say: Say = Arc::new(move |line: &str| told.lock().unwrap().push(line.to_owned()));
            serving.run(&stopped, &say);
        });
        Observer { address, fingerprint, token, stop, said, thread: Some(thread) }
    }

    fn at(&self) -> ObserveAt {
        ObserveAt {
            address: self.address.to_string(),
            via: None,
            token: self.token.clone(),
            trust: Trust::Token,
            wait: Duration::ZERO,
            tell: None,
            version: "0.1.0".to_owned(),
        }
    }

    fn has_said(&self, what: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(what))
    }

    fn wait_for(&self, what: &str) {
        let start = Instant::now();
        while !self.has_said(what) {
            assert!(start.elapsed() < testkit::HANG_GUARD, "'{what}' is not in {:?}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.end();
    }
}

fn seen(at: &ObserveAt) -> Result<model::watched::Watched, RemoteError> {
    let (own, interrupted) = (Whom::Pid(std::process::id()), AtomicBool::new(false));
    let (length, tick) = (Some(Duration::from_millis(350)), Duration::from_millis(100));
    watch(at, Some(own), length, tick, Level::None, &interrupted, |_, _| {})
}

/// What the refusal, or whatever it was, said.
fn refused(at: &ObserveAt) -> String {
    match seen(at) {
        Ok(watched) => panic!("expected no observation, got {} snapshots", watched.snapshots.len()),
        Err(error) => error.to_string(),
    }
}

/// TLS to the observer, with no token proved.
fn stranger(address: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(any::Any(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from("observer.invalid").unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket)
}

/// A server with a certificate of its own.
fn impostor() -> (TcpListener, Arc<ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(["observer.invalid".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = vec![b"plimsoll-observe".to_vec()];
    (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(config))
}

fn frame(body: &str) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body.as_bytes()].concat()
}

fn read_frame(stream: &mut impl Read) -> std::io::Result<String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut body = vec![0; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut body)?;
    Ok(String::from_utf8(body).unwrap())
}

#[test]
fn who_has_the_token_sees_and_the_clock_is_known_within_its_bound() {
    let observer = Observer::start();
    let watched = seen(&observer.at()).unwrap();
    assert!(watched.snapshots.len() >= 2);
    for snapshot in &watched.snapshots {
        assert!(snapshot.processes.iter().all(|process| process.pid == std::process::id()));
        let link = snapshot.link.unwrap();
        assert!(link.offset_ns.unsigned_abs() <= link.bound_ns, "one clock: {link:?}");
        assert!(link.exchanges >= 8 && link.lost == 0, "{link:?}");
    }
    assert!(watched.snapshots.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    assert!(watched.target_host.unwrap().memory_bytes > 0);
    observer.wait_for("ended after");
    let pinned = ObserveAt { trust: Trust::Fingerprint(observer.fingerprint), ..observer.at() };
    assert!(seen(&pinned).is_ok());
}

#[test]
fn a_wrong_token_and_a_wrong_certificate_are_refused() {
    let observer = Observer::start();
    let wrong = ObserveAt { token: Token::generate().unwrap(), ..observer.at() };
    assert!(refused(&wrong).contains("the token is not the observer's"));
    observer.wait_for("refused: the token is not the observer's");
    let other = Fingerprint::parse(&"ab".repeat(32)).unwrap();
    let pinned = ObserveAt { trust: Trust::Fingerprint(other), ..observer.at() };
    let why = refused(&pinned);
    assert!(why.contains("fingerprint") && why.contains(&observer.fingerprint.to_string()), "{why}");
    let ca = testkit::certificates::Authority::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, ca.certificate().pem()).unwrap();
    let unknown = ObserveAt { trust: Trust::Authority(file), ..observer.at() };
    assert!(refused(&unknown).contains("TLS failed"));
    for nonsense in ["", "host", "host:", ":4500", "host:0", "host:99999"] {
        let error = seen(&ObserveAt { address: nonsense.to_owned(), ..observer.at() }).unwrap_err();
        assert!(matches!(error, RemoteError::Address { .. }), "{nonsense}: {error}");
    }
}

#[test]
fn who_stands_between_two_connections_gets_nothing_with_the_proofs_he_passes_on() {
    let observer = Observer::start();
    let (listener, config) = impostor();
    let relay = listener.local_addr().unwrap();
    let real = observer.address;
    let between = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut run = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        let mut there = stranger(real);
        // Every word is passed on unchanged: he speaks TLS with both, and reads along.
        let hello = read_frame(&mut run).unwrap();
        there.write_all(&frame(&hello)).unwrap();
        let answer = read_frame(&mut there).unwrap();
        run.write_all(&frame(&answer)).unwrap();
        (hello, answer)
    });
    let why = refused(&ObserveAt { address: relay.to_string(), ..observer.at() });
    let (hello, answer) = between.join().unwrap();
    assert!(why.contains("reads along"), "{why}");
    assert!(!hello.contains(observer.token.text()), "the token itself is never sent");
    assert!(answer.contains("Refused"), "{answer}");
    observer.wait_for("refused");
}

#[test]
fn an_impostor_that_lets_everybody_in_learns_nothing_and_is_found_out() {
    let observer = Observer::start();
    let (listener, config) = impostor();
    let address = listener.local_addr().unwrap();
    let impostor = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut run = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        let hello: serde_json::Value = serde_json::from_str(&read_frame(&mut run).unwrap()).unwrap();
        // He has no proof of his own but the one he was given.
        let proof = hello["proof"].as_str().unwrap();
        let welcome = format!(r#"{{"Welcome":{{"version":"0.1.0","proof":"{proof}"}}}}"#);
        run.write_all(&frame(&welcome)).unwrap();
        let mut rest = Vec::new();
        // Whether it ends well or not, nothing more may come.
        let _ = run.read_to_end(&mut rest);
        rest.len()
    });
    let why = refused(&ObserveAt { address: address.to_string(), ..observer.at() });
    assert!(why.contains("does not have the token"), "{why}");
    assert_eq!(impostor.join().unwrap(), 0);
}

#[test]
fn another_protocol_is_said_with_both_numbers() {
    let observer = Observer::start();
    let mut stream = stranger(observer.address);
    stream.write_all(&frame(r#"{"protocol":99,"version":"9.9\u001b[2J","proof":""}"#)).unwrap();
    let answer = read_frame(&mut stream).unwrap();
    assert!(answer.contains("protocol 99") && answer.contains(&format!("observer {PROTOCOL}")), "{answer}");
    assert!(!answer.contains("u001b"), "{answer}");
    observer.wait_for("refused: the run speaks protocol 99");
}

#[test]
fn noise_ends_its_own_connection_and_no_other() {
    let observer = Observer::start();
    let hello = frame(&format!(r#"{{"protocol":{PROTOCOL},"version":"0","proof":"00"}}"#));
    for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0; 64], &[0xff; 70_000], &[0x16, 3, 1, 0xff, 0xff], b""]
    {
        let mut socket = TcpStream::connect(observer.address).unwrap();
        // It may be closed before all is sent.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        socket.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    for bytes in [&[0xff; 4][..], &[0, 0, 4, 1], b"\0\0\0\x02{}", b"\0\0\0\0", &hello, &[&hello[..], &hello].concat()] {
        let mut stream = stranger(observer.address);
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 1024, "a stranger is told little");
    }
    assert!(seen(&observer.at()).is_ok(), "{:?}", observer.said.lock().unwrap());
}

#[test]
fn those_who_are_slow_take_no_place_from_others() {
    let observer = Observer::start();
    // From the client's own address, more than may be, and all silent.
    let slow: Vec<TcpStream> = (0..STRANGERS_MAX + 20).map(|_| TcpStream::connect(observer.address).unwrap()).collect();
    assert!(seen(&observer.at()).is_ok(), "{:?}", observer.said.lock().unwrap());
    observer.wait_for("more than 256 had proved nothing");
    // They are let go by themselves, with an end of the connection.
    for mut socket in slow {
        socket.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
        let mut rest = Vec::new();
        let ended = socket.read_to_end(&mut rest);
        assert!(!matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
    }
}

#[test]
fn who_stops_in_the_middle_of_a_frame_is_cut_at_the_deadline() {
    let observer = Observer::start();
    let mut half = stranger(observer.address);
    half.write_all(&[0, 0, 0, 90, b'{']).unwrap();
    let mut rest = Vec::new();
    let _ = half.read_to_end(&mut rest);
    observer.wait_for("did not prove to have the token within");
}

#[test]
fn a_handshake_of_a_byte_at_a_time_is_cut_at_the_deadline_however_often_a_byte_comes() {
    let observer = Observer::start();
    let mut hello = Vec::new();
    let mut never = stranger(observer.address);
    never.conn.write_tls(&mut hello).unwrap();
    let (mut socket, began) = (TcpStream::connect(observer.address).unwrap(), Instant::now());
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(hello.len() > 200, "more than can have come by the deadline");
    let mut sent = 0;
    let is_cut = hello.iter().any(|byte| {
        if socket.write_all(&[*byte]).is_err() {
            return true;
        }
        sent += 1;
        // The pause, and the look whether it has ended.
        !matches!(socket.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(is_cut, "{sent} of {} bytes in {:?}", hello.len(), began.elapsed());
    observer.wait_for("did not prove to have the token within");
}

/// Connections to an address, as their clients hold them: also such as the other side has closed.
fn connections_to(address: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let to = format!("0100007F:{:04X}", address.port());
    let is_one = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(2) == Some(&&*to) && words.get(3).is_some_and(|state| ["01", "08"].contains(state))
    };
    table.lines().filter(is_one).count()
}

#[test]
fn more_clients_than_the_bound_are_told_so_and_a_stopped_observer_lets_all_go() {
    let mut observer = Observer::start();
    let interrupted = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS_MAX)
        .map(|_| {
            let (at, interrupted) = (observer.at(), Arc::clone(&interrupted));
            std::thread::spawn(move || {
                let own = Some(Whom::Pid(std::process::id()));
                watch(&at, own, None, Duration::from_millis(100), Level::None, &interrupted, |_, _| {})
                    .map(|watched| watched.events)
            })
        })
        .collect();
    let start = Instant::now();
    while observer.said.lock().unwrap().iter().filter(|line| line.contains("observing for it")).count() < CLIENTS_MAX {
        assert!(start.elapsed() < testkit::HANG_GUARD, "{:?}", observer.said.lock().unwrap());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(refused(&observer.at()).contains("clients already"));
    observer.end();
    // Each client lets its end go once it has noticed; only then it may be told to finish.
    testkit::wait_until("every client has noticed", || connections_to(observer.address) == 0);
    interrupted.store(true, Ordering::Relaxed);
    for client in clients {
        let events = client.join().unwrap().unwrap();
        assert!(events.iter().any(|event| event.kind == "observer-lost"), "{events:?}");
    }
}

mod any {
    //! Takes any certificate.
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};
    use std::sync::Arc;

    #[derive(Debug)]
    pub struct Any(pub Arc<CryptoProvider>);

    impl ServerCertVerifier for Any {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
