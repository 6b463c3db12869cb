//! Defects of TLS, read with openssl.

use crate::defects::signs::{Served, proves};
use std::process::{Command, Stdio};

proves! {
    "tls-rsa-4096" => tls_rsa_4096,
}

fn tls_rsa_4096() {
    let Some(openssl) = testkit::program("openssl") else { return testkit::skip("openssl is not installed") };
    // One handshake and five on from its session.
    let handshakes = |defect| {
        let served = Served::start(&["http", "--tls"], defect);
        let output = Command::new(&openssl)
            .args(["s_client", "-reconnect", "-tls1_2", "-connect", &served.address.to_string()])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = |what: &str| text.lines().filter(|line| line.starts_with(what)).count();
        (count("New, "), count("Reused, "), text.contains("Server public key is 4096 bit"))
    };
    assert_eq!(handshakes(Some("tls-rsa-4096")), (6, 0, true));
    assert_eq!(handshakes(None), (1, 5, false));
}
