//! TLS against the clients of others: curl and openssl, as installed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::noise;
use crate::common::tls::{Authority, Secure, made};
use servers::http::{self, HttpOptions};
use servers::tls::{Certificate, KEY_KINDS, MadeCertificate, TlsError, TlsOptions};
use servers::{ServeError, ServeOptions, Stop};

/// A program's path, or the reason why not.
fn installed(name: &str) -> Option<std::path::PathBuf> {
    let found = testkit::program(name);
    if found.is_none() {
        testkit::skip(&format!("{name} is not installed (scripts/packages.sh test)"));
    }
    found
}

fn curl(curl: &Path, arguments: &[&str]) -> Output {
    let common = ["-sS", "--max-time", "60", "--noproxy", "*"];
    Command::new(curl).args(common).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn curl_fetches_over_every_key_and_version() {
    let Some(program) = installed("curl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let content = noise(10_000_000);
    std::fs::write(folder.path().join("large"), &content).unwrap();
    for (name, key) in KEY_KINDS {
        let certificate = MadeCertificate { key: *key, ..MadeCertificate::default() };
        let http = HttpOptions { root: Some(folder.path().to_owned()), ..HttpOptions::default() };
        let secure = Secure::http(made(certificate), ServeOptions::default(), http);
        for version in ["1.2", "1.3"] {
            let url = secure.url("/large");
            let only = format!("--tlsv{version}");
            let got = curl(
                &program,
                &["--cacert", secure.ca(), &only, "--tls-max", version, &url, &url, "-w", "%{num_connects}"],
            );
            assert!(got.status.success(), "{name} {version}: {}", text(&got.stderr));
            // Two bodies, the second over the connection of the first.
            let expected = [&content[..], b"1", &content, b"0"].concat();
            assert!(got.stdout == expected, "{name} {version}: {} bytes came", got.stdout.len());
        }
        let counters = secure.server.finish();
        assert_eq!((counters.tls_full, counters.tls_failed, counters.requests), (2, 0, 4), "{name}: {counters:?}");
    }
}

#[test]
fn curl_refuses_what_it_should() {
    let Some(program) = installed("curl") else { return };
    let refused = |certificate: MadeCertificate, trusted: bool, why: &str| {
        let secure = Secure::http(made(certificate), ServeOptions::default(), HttpOptions::default());
        let url = secure.url("/");
        let trust = if trusted { ["--cacert", secure.ca()] } else { ["--tlsv1.2", "--http1.1"] };
        let got = curl(&program, &[trust[0], trust[1], &url]);
        assert_eq!(got.status.code(), Some(60), "{why}: {}", text(&got.stderr));
        assert!(text(&got.stderr).contains(why), "{why}: {}", text(&got.stderr));
        let anyway = curl(&program, &["--insecure", &url]);
        assert!(anyway.status.success(), "{why}: {}", text(&anyway.stderr));
        let counters = secure.server.finish();
        assert_eq!((counters.tls_full + counters.tls_failed, counters.requests), (2, 1), "{counters:?}");
    };
    refused(MadeCertificate { expired: true, ..MadeCertificate::default() }, true, "certificate has expired");
    let elsewhere = MadeCertificate { names: vec!["elsewhere.example".to_owned()], ..MadeCertificate::default() };
    refused(elsewhere, true, "no alternative certificate subject name matches");
    refused(MadeCertificate::default(), false, "self-signed certificate");
}

#[test]
fn curl_shows_its_certificate_where_one_is_demanded() {
    let Some(program) = installed("curl") else { return };
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = authority.issue("client.example");
    for (name, pem) in [("ca", &authority.pem), ("cert", &certificate.pem()), ("key", &key.serialize_pem())] {
        std::fs::write(path(name), pem).unwrap();
    }
    let tls = TlsOptions { client_ca: Some(path("ca").into()), ..TlsOptions::default() };
    let secure = Secure::http(tls, ServeOptions::default(), HttpOptions::default());
    let url = secure.url("/bytes?n=3");
    let shown = curl(&program, &["--cacert", secure.ca(), "--cert", &path("cert"), "--key", &path("key"), &url]);
    assert_eq!(text(&shown.stdout), "ABC", "{}", text(&shown.stderr));
    let hidden = curl(&program, &["--cacert", secure.ca(), &url]);
    assert!(!hidden.status.success() && text(&hidden.stderr).contains("alert"), "{}", text(&hidden.stderr));
    let counters = secure.server.finish();
    assert_eq!((counters.tls_full, counters.tls_failed), (1, 1), "{counters:?}");
}

#[test]
fn curl_speaking_plain_http_gets_an_alert() {
    let Some(program) = installed("curl") else { return };
    let secure = Secure::default_http();
    let got = curl(&program, &[&secure.url("/").replace("https", "http")]);
    assert!(!got.status.success() && got.stdout.is_empty(), "{}", text(&got.stderr));
    assert_eq!(secure.server.finish().tls_failed, 1);
}

#[test]
fn openssl_resumes_by_ticket_and_session_id() {
    let Some(program) = installed("openssl") else { return };
    for arguments in [&["-tls1_2"][..], &["-tls1_2", "-no_ticket"]] {
        for resume in [true, false] {
            let tls = TlsOptions { resume, ..TlsOptions::default() };
            let secure = Secure::http(tls, ServeOptions::default(), HttpOptions::default());
            let addr = secure.server.addrs[0].to_string();
            // Five connections more, with the session of the first.
            let mut command = Command::new(&program);
            command.args(["s_client", "-connect", &addr, "-CAfile", secure.ca(), "-reconnect", "-verify_return_error"]);
            let mut child = command
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(b"Q\n").unwrap();
            let got = child.wait_with_output().unwrap();
            let said = text(&got.stdout);
            assert!(got.status.success(), "{said}{}", text(&got.stderr));
            let reused = said.lines().filter(|line| line.starts_with("Reused")).count();
            let counters = secure.server.finish();
            let expected = if resume { (5, 1, 5) } else { (0, 6, 0) };
            assert_eq!((reused, counters.tls_full, counters.tls_resumed), expected, "{arguments:?} {resume}: {said}");
        }
    }
}

#[test]
fn openssl_echoes_over_both_versions() {
    let Some(program) = installed("openssl") else { return };
    let secure = Secure::echo(TlsOptions::default(), ServeOptions::default());
    let addr = secure.server.addrs[0].to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let mut child = Command::new(&program)
            .args(["s_client", "-connect", &addr, "-CAfile", secure.ca(), "-verify_return_error", "-quiet", version])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut writer, mut reader) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let sender = std::thread::spawn(move || {
            writer.write_all(&noise(1 << 20)).unwrap();
            writer
        });
        let mut back = vec![0; 1 << 20];
        std::io::Read::read_exact(&mut reader, &mut back).unwrap();
        assert!(back == noise(1 << 20), "{version}");
        drop(sender.join().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(secure.server.finish().tls_full, 2);
}

fn refused(certificate: Certificate, client_ca: Option<&Path>) -> TlsError {
    let client_ca = client_ca.map(Path::to_owned);
    let tls = TlsOptions { certificate, client_ca, ..TlsOptions::default() };
    let options = ServeOptions { tls: Some(tls), ..ServeOptions::default() };
    let served = http::serve(&options, &HttpOptions::default(), &Stop::new().unwrap(), |_| panic!("it must not start"));
    let error = served.expect_err("it must not start");
    let sentence = error.to_string();
    assert!(error.is_usage() && sentence.starts_with("expected") && !sentence.contains('\n'), "{sentence}");
    match error {
        ServeError::Tls(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let authority = Authority::new();
    let ((certificate, key), (_, other_key)) = (authority.issue("localhost"), authority.issue("localhost"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let chain = file("chain.pem", &certificate.pem());
    let key = file("key.pem", &key.serialize_pem());
    let other_key = file("other.pem", &other_key.serialize_pem());
    let (empty, none) = (file("empty.pem", ""), folder.path().join("none.pem"));
    let torn = file("torn.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    let hollow = file("hollow.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let files = |chain: &Path, key: &Path| Certificate::Files { chain: chain.to_owned(), key: key.to_owned() };
    for bad in [&empty, &none, &torn, &key] {
        let error = refused(files(bad, &key), None);
        assert!(matches!(&error, TlsError::BadFile { path, .. } if path == bad), "{error}");
        let error = refused(files(&chain, &key), Some(bad));
        assert!(matches!(&error, TlsError::BadFile { path, .. } if path == bad), "{error}");
    }
    for bad in [&empty, &none, &chain] {
        let error = refused(files(&chain, bad), None);
        assert!(matches!(&error, TlsError::BadFile { path, .. } if path == bad), "{error}");
    }
    assert!(matches!(refused(files(&chain, &other_key), None), TlsError::BadChain { .. }));
    assert!(matches!(refused(files(&hollow, &key), None), TlsError::BadChain { .. }));
    assert!(matches!(refused(files(&chain, &key), Some(&hollow)), TlsError::BadClientCa { .. }));
    let named = MadeCertificate { names: vec!["not a name".to_owned()], ..MadeCertificate::default() };
    assert!(matches!(refused(Certificate::Made(named), None), TlsError::BadName { .. }));

    let Some(openssl) = installed("openssl") else { return };
    for bits in ["512", "1024"] {
        let (weak, weak_chain) = (folder.path().join(bits), folder.path().join(format!("{bits}.pem")));
        let made = Command::new(&openssl)
            .args(["req", "-x509", "-newkey", &format!("rsa:{bits}"), "-nodes", "-subj", "/CN=localhost", "-keyout"])
            .arg(&weak)
            .arg("-out")
            .arg(&weak_chain)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let error = refused(files(&weak_chain, &weak), None);
        assert!(matches!(error, TlsError::BadKey { .. }) && error.to_string().contains("2048"), "{error}");
    }
}
