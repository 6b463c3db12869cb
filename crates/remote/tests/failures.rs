//! What a run says where no observer answers: what came instead of it, what to do next; and how long it tries.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

use model::bpf::Level;
use model::watched::Whom;
use remote::limits::CLIENTS_MAX;
use remote::{ObserveAt, RemoteError, Say, ServeOptions, Serving, Token, Trust, watch};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn at(address: SocketAddr, token: &Token, wait: Duration) -> ObserveAt {
    let (address, version) = (address.to_string(), "0.1.0".to_owned());
    ObserveAt { address, token: token.clone(), trust: Trust::Token, wait, tell: None, via: None, version }
}

/// Watches a little; how many readings there were.
fn seen(at: &ObserveAt, length: Duration, interrupted: &AtomicBool) -> Result<usize, RemoteError> {
    let own = Some(Whom::Pid(std::process::id()));
    watch(at, own, Some(length), Duration::from_millis(100), Level::None, interrupted, |_, _| {})
        .map(|watched| watched.snapshots.len())
}

fn failed(address: SocketAddr, wait: Duration) -> (String, RemoteError) {
    let at = at(address, &Token::generate().unwrap(), wait);
    let error = seen(&at, Duration::from_millis(100), &AtomicBool::new(false)).unwrap_err();
    (error.to_string(), error)
}

/// What a run says of something else: each connection is given to `answer`.
fn said_of(answer: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(answer));
    failed(address, Duration::ZERO).0
}

/// A TLS server of something else.
fn said_of_tls(version: &'static SupportedProtocolVersion, alpn: &[&[u8]], then: fn(&mut dyn Write)) -> String {
    let made = rcgen::generate_simple_self_signed(["elsewhere.invalid".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let config = Arc::new(config);
    said_of(move |socket| {
        let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket);
        // Whatever comes of it, the other side says what it saw.
        while tls.conn.is_handshaking() && tls.conn.complete_io(&mut tls.sock).is_ok() {}
        then(&mut tls);
        let _ = tls.flush();
        // Its end must not overtake what was sent.
        let _ = tls.sock.shutdown(std::net::Shutdown::Write);
        let _ = tls.sock.read_to_end(&mut Vec::new());
    })
}

/// An address where nobody listens: one for each call, so that what other tests bind and connect takes no port of it.
fn nowhere() -> SocketAddr {
    static CALLS: AtomicU8 = AtomicU8::new(1);
    let own = [127, 0, 1, CALLS.fetch_add(1, Ordering::Relaxed)];
    TcpListener::bind(SocketAddr::from((own, 0))).unwrap().local_addr().unwrap()
}

/// An observer; `observes` counts the clients it has observed for.
fn serve(
    address: SocketAddr,
    token: &Token,
    observes: &Arc<AtomicUsize>,
) -> (SocketAddr, Arc<AtomicBool>, JoinHandle<()>) {
    let (certificate, whom, version, level_max) = (None, None, "0.1.0".to_owned(), Level::Full);
    let options = ServeOptions { address, token: token.clone(), certificate, whom, level_max, version };
    let serving = Serving::bind(options).unwrap();
    let (address, stop) = (serving.address(), Arc::new(AtomicBool::new(false)));
    let (stopped, observes) = (Arc::clone(&stop), Arc::clone(observes));
    let say: Say = Arc::new(move |line: &str| {
        observes.fetch_add(usize::from(line.contains("observing for it")), Ordering::Relaxed);
    });
    (address, stop, std::thread::spawn(move || serving.run(&stopped, &say)))
}

#[test]
fn a_closed_port_is_said() {
    let (said, _) = failed(nowhere(), Duration::ZERO);
    assert!(said.contains("connection refused") && said.contains("watch --serve") && !said.contains("tried"), "{said}");
}

#[test]
fn a_full_queue_of_a_port_that_nobody_serves_is_said() {
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    // One more than its length has room; the next one gets no answer.
    let _filling = TcpStream::connect(address).unwrap();
    let (said, _) = failed(address, Duration::ZERO);
    assert!(said.contains("nothing answered for 5 s") && said.contains("nothing between drops"), "{said}");
}

#[test]
fn a_connection_that_is_closed_before_tls_is_said() {
    let said = said_of(drop);
    assert!(said.contains("closed the connection before TLS") && said.contains("strangers crowd it"), "{said}");
    // With a reset, too.
    let said = said_of(|socket| socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap());
    assert!(said.contains("closed the connection before TLS"), "{said}");
}

#[test]
fn bytes_of_another_protocol_are_shown() {
    for (bytes, shown) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "'HTTP/1.1 400 Bad Request'"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", r"'SSH-2.0-OpenSSH_9.2p1\r\n'"),
        (b"\x1b[2J", r"'\x1b[2J'"),
    ] {
        let said = said_of(move |mut socket| {
            let _ = socket.write_all(bytes);
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        });
        assert!(said.contains("no TLS") && said.contains(shown) && said.contains("another server"), "{said}");
    }
}

#[test]
fn a_tls_server_of_something_else_is_said() {
    let said = said_of_tls(&TLS13, &[b"h2"], |_| {});
    assert!(said.contains("NoApplicationProtocol") && said.contains("no observer"), "{said}");
    let said = said_of_tls(&TLS12, &[], |_| {});
    assert!(said.contains("ProtocolVersion") && said.contains("no TLS 1.3"), "{said}");
    let said = said_of_tls(&TLS13, &[], |_| {});
    assert!(said.contains("a TLS server answers there that is no observer"), "{said}");
    let said = said_of_tls(&TLS13, &[b"plimsoll-observe"], |_| {});
    assert!(said.contains("closed the connection after TLS"), "{said}");
    let said = said_of_tls(&TLS13, &[b"plimsoll-observe"], |tls| {
        let _ = tls.write_all(b"\0\0\0\x02{}");
    });
    assert!(said.contains("got something else") && said.contains("same version"), "{said}");
}

#[test]
fn silence_is_said_with_where_it_began() {
    let held = std::sync::Mutex::new(Vec::new());
    let said = said_of(move |socket| held.lock().unwrap().push(socket));
    assert!(said.contains("did not complete TLS within 5 s") && said.contains("stopped"), "{said}");
}

#[test]
fn one_that_comes_up_late_is_found() {
    let (token, address) = (Token::generate().unwrap(), nowhere());
    let at = at(address, &token, Duration::from_secs(60));
    let client = std::thread::spawn(move || seen(&at, Duration::from_millis(350), &AtomicBool::new(false)));
    // It was refused by then, or else it is found at once, which is no failure either.
    std::thread::sleep(Duration::from_millis(500));
    let (_, stop, server) = serve(address, &token, &Arc::default());
    assert!(client.join().unwrap().unwrap() >= 1);
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}

#[test]
fn one_that_never_comes_up_is_tried_until_the_time_is_up_or_someone_interrupts() {
    // Long enough for some tries on a machine that stands still for a second or two in between.
    let (began, wait) = (Instant::now(), Duration::from_secs(4));
    let (said, error) = failed(nowhere(), wait);
    let RemoteError::NotReached { tried, .. } = error else { panic!("{said}") };
    assert!(tried.times >= 3 && said.contains(&format!("tried {} times in", tried.times)), "{said}");
    assert!(began.elapsed() >= wait, "{said}");
    // What will not pass is not tried again.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let _ = socket.write_all(b"+OK\r\n");
            // Its end must not overtake what was sent.
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    let (said, error) = failed(address, Duration::from_secs(3600));
    assert!(matches!(error, RemoteError::NotReached { tried, .. } if tried.times == 1), "{said}");
    let (interrupted, at) =
        (Arc::new(AtomicBool::new(false)), at(nowhere(), &Token::generate().unwrap(), Duration::MAX));
    let flag = Arc::clone(&interrupted);
    let client = std::thread::spawn(move || seen(&at, Duration::from_millis(100), &flag));
    std::thread::sleep(Duration::from_millis(300));
    interrupted.store(true, Ordering::Relaxed);
    assert!(matches!(client.join().unwrap(), Err(RemoteError::NotReached { .. })));
}

#[test]
fn one_that_is_busy_is_found_when_a_client_of_its_ends() {
    let token = Token::generate().unwrap();
    let observes = Arc::new(AtomicUsize::new(0));
    let (address, stop, server) = serve("127.0.0.1:0".parse().unwrap(), &token, &observes);
    let enough = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS_MAX)
        .map(|_| {
            let (at, enough) = (at(address, &token, Duration::from_secs(20)), Arc::clone(&enough));
            std::thread::spawn(move || seen(&at, Duration::from_secs(3600), &enough).unwrap())
        })
        .collect();
    let (began, late) = (Instant::now(), Duration::from_millis(350));
    while observes.load(Ordering::Relaxed) < CLIENTS_MAX {
        assert!(began.elapsed() < testkit::HANG_GUARD, "it observes for as many as it may");
        std::thread::sleep(Duration::from_millis(10));
    }
    let busy = seen(&at(address, &token, Duration::ZERO), late, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(busy.contains("it is busy") && busy.contains("clients already"), "{busy}");
    let next = at(address, &token, Duration::from_secs(60));
    let next = std::thread::spawn(move || seen(&next, late, &AtomicBool::new(false)));
    std::thread::sleep(Duration::from_millis(300));
    enough.store(true, Ordering::Relaxed);
    assert!(next.join().unwrap().unwrap() >= 1);
    for client in clients {
        assert!(client.join().unwrap() >= 1);
    }
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}
