//! `plimsoll serve … --tls`: what it announces, writes, counts and refuses.

use crate::common::{command, plimsoll};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use testkit::process::Guard;

/// Serves, lets `client` have the address and the certificate's file, stops, and returns what was counted.
fn served(args: &[&str], scheme: &str, client: impl FnOnce(&str, &str)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem").to_str().unwrap().to_owned();
    let mut server = command(args);
    server.args(["--listen", "127.0.0.1:0", "--tls", "--tls-ca-out", &ca]).stdout(Stdio::piped());
    let mut guard = Guard::spawn(&mut server).unwrap();
    let mut output = BufReader::new(guard.child().stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").and_then(|url| url.strip_prefix(scheme));
    client(address.unwrap_or_else(|| panic!("{args:?} says '{line}'")).trim_end_matches('/'), &ca);
    let pid = guard.child().id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut counters = String::new();
    output.read_to_string(&mut counters).unwrap();
    counters
}

fn counted(counters: &str, name: &str) -> u64 {
    let row = counters.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {counters}"));
    row.trim().parse().unwrap()
}

#[test]
fn https_is_announced_verified_and_counted() {
    let Some(curl) = testkit::program("curl") else { return testkit::skip("curl is not installed") };
    let counters = served(&["serve", "http", "--tls-key", "rsa-2048"], "https://", |address, ca| {
        let fetch = |arguments: &[&str]| {
            let common = ["-sS", "--noproxy", "*", "--max-time", "30"];
            Command::new(&curl)
                .args(common)
                .args(arguments)
                .arg(format!("https://{address}/bytes?n=3"))
                .output()
                .unwrap()
        };
        assert_eq!(fetch(&["--cacert", ca]).stdout, b"ABC");
        assert_eq!(fetch(&[]).status.code(), Some(60), "not trusted without being told");
    });
    assert_eq!((counted(&counters, "tls_full"), counted(&counters, "tls_failed")), (1, 1), "{counters}");
    assert_eq!((counted(&counters, "tls_resumed"), counted(&counters, "requests")), (0, 1), "{counters}");
}

#[test]
fn echo_over_tls_is_announced_under_its_scheme() {
    let counters = served(&["serve", "echo"], "echo+tls://", |address, ca| {
        assert!(std::fs::read_to_string(ca).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
        drop(std::net::TcpStream::connect(address).unwrap());
    });
    assert_eq!(counted(&counters, "tls_failed"), 1, "{counters}");
}

#[test]
fn what_cannot_be_meant_is_refused_in_one_sentence() {
    let key = |kind: &str, why: &str| {
        format!("invalid value '{kind}' for '--tls-key <KIND>': {why} (see 'plimsoll serve http --help')")
    };
    let weak = |bits: u32| {
        format!(
            "expected a key of at least 2048 bits, got RSA with {bits}: aws-lc-rs neither makes nor signs with weaker ones, as they can be broken; choose rsa-2048 or p-256"
        )
    };
    let kinds = "expected rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or ed25519";
    for (args, sentence) in [
        (&["--tls", "--tls-key", "rsa-512"][..], key("rsa-512", &weak(512))),
        (&["--tls", "--tls-key", "rsa-1024"], key("rsa-1024", &weak(1024))),
        (&["--tls", "--tls-key", "dsa"], key("dsa", kinds)),
        (&["--tls-expired"], "expected --tls with --tls-expired, got --tls-expired alone: add --tls or leave it out".into()),
        (&["--tls", "--tls-cert", "/x"], "expected --tls-key-file with --tls-cert: name its private key".into()),
        (
            &["--tls", "--tls-key-file", "/x"],
            "expected --tls-cert with --tls-key-file: name the key's certificate chain".into(),
        ),
        (
            &["--tls", "--tls-cert", "/x", "--tls-key-file", "/x", "--tls-name", "y"],
            "--tls-name cannot be used with --tls-cert: it is about a certificate that is made, leave one of them out"
                .into(),
        ),
        (
            &["--tls", "--unix", "/x"],
            "--tls cannot be used with --unix: it is spoken over TCP, leave one of them out".into(),
        ),
        (
            &["--tls", "--tls-client-ca", "/nowhere/x"],
            "expected certificates of authorities in PEM in /nowhere/x, got No such file or directory (os error 2): check the path and the file".into(),
        ),
    ] {
        let run = plimsoll(&[&["serve", "http", "--listen", "127.0.0.1:0"], args].concat());
        run.assert_exit(2);
        assert_eq!(run.stderr, format!("plimsoll: {sentence}\n"), "{args:?}");
    }
    plimsoll(&["serve", "http", "--listen", "127.0.0.1:0", "--tls", "--tls-ca-out", "/nowhere/x"]).assert_exit(1);
}
