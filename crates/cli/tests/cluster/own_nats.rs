//! Agents in a cluster that use a NATS of one's own, outside of it: by TLS with an authority and an nkey, both from Secrets.

use super::{Cluster, finish};
use crate::machine::ADDRESS;
use serde_json::Value;
use std::fs;
use testkit::certificates::{Authority, write};

/// Where it listens on the machine.
const PORT: u16 = 4333;
/// The pair that NATS' documentation prints.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n";
const USER: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

pub fn ones_own_nats_is_reached_with_what_is_in_secrets(cluster: &Cluster) {
    cluster.namespace("own", "restricted");
    let folder = cluster.machine.file("keys");
    fs::create_dir(&folder).unwrap();
    let authority = Authority::new().unwrap();
    let (certificate, key) = authority.sign(&[ADDRESS], |_| {}).unwrap();
    let (pem, key) = write(&folder, "nats", &certificate, &key).unwrap();
    let [ca, seed, configuration] = ["ca.pem", "seed", "nats.conf"].map(|name| folder.join(name));
    fs::write(&ca, authority.certificate().pem()).unwrap();
    fs::write(&seed, SEED).unwrap();
    let text = format!(
        "listen: \"{ADDRESS}:{PORT}\"\njetstream {{ store_dir: \"{}\" }}\n\
         tls {{ cert_file: \"{}\", key_file: \"{}\" }}\nauthorization {{ users: [{{ nkey: {USER} }}] }}\n",
        folder.join("store").display(),
        pem.display(),
        key.display()
    );
    fs::write(&configuration, text).unwrap();
    let nats = testkit::program("nats-server").unwrap();
    let args = ["--config".to_owned(), configuration.display().to_string()];
    let nats = cluster.machine.start("nats", nats, &args).unwrap();
    let path = |file: &std::path::Path| file.to_str().unwrap().to_owned();
    for (secret, key, file) in [("authority", "ca.crt", &ca), ("nats", "agent.nk", &seed)] {
        let from = format!("--from-file={key}={}", path(file));
        cluster.kubectl(&["create", "secret", "generic", secret, &from, "--namespace", "own"]);
    }
    let url = format!("tls://{ADDRESS}:{PORT}");
    let secrets = ["--ca-secret", "authority", "--credentials-secret", "nats/agent.nk"];
    let wanted = [&["--agents", "2", "--nats", &url], &secrets[..]].concat();
    let applied = finish(cluster.apply("own", &wanted));
    applied.assert_exit(0);
    assert!(applied.stdout.starts_with(&format!("plimsoll agents --nats {url}\n")), "{}", applied.stdout);
    assert!(
        cluster.list("statefulsets,services,configmaps", Some("own")).len() == 1,
        "but for what each namespace has"
    );
    let server = cluster.serve(&[]);
    let (ca, seed) = (path(&ca), path(&seed));
    let reached = ["--nats", &url, "--nats-ca", &ca, "--nats-credentials", &seed];
    let load = ["load", &server.url, "--rate", "100", "-n", "101", "--agents", "2", "--json", "--no-record"];
    let run = finish(cluster.plimsoll(&[&load[..], &reached].concat()));
    run.assert_measured();
    assert_eq!(run.json().pointer("/totals/ok").and_then(Value::as_u64), Some(101));
    for secret in ["authority", "nats"] {
        cluster.kubectl(&["delete", "secret", secret, "--namespace", "own"]);
    }
    cluster.delete("own");
    drop(nats);
}
