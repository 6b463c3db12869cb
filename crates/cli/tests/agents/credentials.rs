//! Whom NATS lets in: by TLS, with an nkey, and with credentials as `nsc` writes them, of users who may do no more than agents and
//! commands need.

use super::{Place, assert_whole, finish, nats, serve_http};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::path::Path;
use testkit::certificates::{Authority, write};
use testkit::nats::Nats;

#[test]
fn nats_is_reached_by_tls_and_with_an_nkey_and_not_without() {
    if nats().is_none() {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let authority = Authority::new().unwrap();
    let (certificate, key) = authority.sign(&["localhost", "127.0.0.1"], |_| {}).unwrap();
    let (pem, key) = write(keys.path(), "nats", &certificate, &key).unwrap();
    let [ca, seed] = ["ca.pem", "seed"].map(|name| keys.path().join(name));
    std::fs::write(&ca, authority.certificate().pem()).unwrap();
    // The pair that NATS' documentation prints.
    std::fs::write(&seed, "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n").unwrap();
    let user = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
    let tls = format!("tls {{ cert_file: \"{}\", key_file: \"{}\" }}", pem.display(), key.display());
    let nats = Nats::start_with("", &format!("{tls}\nauthorization {{ users: [{{ nkey: {user} }}] }}")).unwrap();
    let mut place = Place::new(&nats.url().replace("nats://", "tls://"));
    let listed = |place: &Place| finish(&mut place.command(&["agents"]));
    let flag = |name: &str, path: &Path| [name.to_owned(), path.to_str().unwrap().to_owned()];
    for more in [Vec::new(), flag("--nats-ca", &ca).to_vec(), flag("--nats-credentials", &seed).to_vec()] {
        place.more = more;
        let refused = listed(&place);
        refused.assert_exit(1);
        assert!(refused.stderr.contains("expected a NATS server at tls://"), "{}", refused.stderr);
    }
    place.more = [flag("--nats-ca", &ca), flag("--nats-credentials", &pem)].concat();
    let refused = listed(&place);
    refused.assert_exit(2);
    assert!(refused.stderr.contains("an nkey's seed"), "{}", refused.stderr);
    place.more = [flag("--nats-ca", &ca), flag("--nats-credentials", &seed)].concat();
    let server = serve_http(&[]);
    let _agents = place.agents(&["a"]);
    let run = finish(&mut place.load(&server.url, "1", &["--rate", "100", "-d", "1s", "-c", "2", "--tick", "200ms"]));
    assert_whole(&run, 1, 100);
}

/// Of an account; its JSON Web Token is signed by `signer` (Ed25519, as NATS has it: `ed25519-nkey`).
fn token(signer: &KeyPair, subject: &KeyPair, name: &str, nats: &Value) -> String {
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({
        "jti": name, "iat": 1_700_000_000, "iss": signer.public_key(), "sub": subject.public_key(), "name": name, "nats": nats,
    });
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = signer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A file of credentials as `nsc generate creds` writes it, of a user who may publish on these subjects alone.
fn credentials(path: &Path, account: &KeyPair, may_publish: &[&str]) {
    let user = KeyPair::new_user();
    let nats = json!({
        "pub": {"allow": may_publish}, "sub": {"allow": ["plimsoll.>", "_INBOX.>"]},
        "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2,
    });
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         ************************* IMPORTANT *************************\n\
         NKEY Seed printed below can be used to sign and prove identity.\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        token(account, &user, "user", &nats),
        user.seed().unwrap()
    );
    std::fs::write(path, text).unwrap();
}

#[test]
fn credentials_of_an_account_let_in_whom_they_let_do_what_is_needed() {
    if nats().is_none() {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let (operator, account, system) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let of_account = json!({"limits": limits, "type": "account", "version": 2});
    let of_system = json!({"limits": {"subs": -1, "conn": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1}, "type": "account", "version": 2});
    let of_operator = token(&operator, &operator, "operator", &json!({"type": "operator", "version": 2}));
    let configuration = format!(
        "operator: {of_operator}\nsystem_account: {1}\nresolver: MEMORY\nresolver_preload: {{\n{0}: {2}\n{1}: {3}\n}}",
        account.public_key(),
        system.public_key(),
        token(&operator, &account, "load", &of_account),
        token(&operator, &system, "system", &of_system),
    );
    let nats = Nats::start_with("", &configuration).unwrap();
    let [able, unable, strange] = ["able.creds", "unable.creds", "strange.creds"].map(|name| keys.path().join(name));
    credentials(&able, &account, &["plimsoll.>", "_INBOX.>", "$JS.API.>"]);
    credentials(&unable, &account, &["plimsoll.>", "_INBOX.>"]);
    credentials(&strange, &KeyPair::new_account(), &[">"]);
    let with = |path: &Path| {
        let more = ["--nats-credentials", path.to_str().unwrap()].map(str::to_owned).to_vec();
        Place { more, ..Place::new(&nats.url()) }
    };
    // Of an account that this NATS does not know.
    let refused = finish(&mut with(&strange).command(&["agents"]));
    refused.assert_exit(1);
    assert!(refused.stderr.contains("expected a NATS server at nats://"), "{}", refused.stderr);
    let place = with(&able);
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let run = finish(&mut place.load(&server.url, "2", &["--rate", "200", "-d", "1s", "-c", "4", "--tick", "200ms"]));
    assert_whole(&run, 2, 200);
    // Who may not make a stream is told so.
    let refused = finish(&mut with(&unable).load(&server.url, "2", &["--rate", "200", "-d", "1s"]));
    refused.assert_exit(1);
    assert!(
        refused.stderr.contains("does not let this user") && refused.stderr.contains("$JS.API"),
        "{}",
        refused.stderr
    );
    // Neither does an agent wait that hears nothing, nor a list that asks nobody look like an empty one.
    credentials(&unable, &account, &["nothing"]);
    for args in [&["agents"][..], &["agent", "--allow-target", "127.0.0.0/8"]] {
        let refused = finish(&mut with(&unable).command(args));
        refused.assert_exit(1);
        assert!(refused.stderr.contains("does not let this user"), "{args:?}: {}", refused.stderr);
    }
}
