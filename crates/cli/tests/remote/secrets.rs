//! Every secret in every way it can be given: it is sent, and it is in nothing that is kept or shown.
//!
//! What is looked through: the recording's bytes, `--json`, text, CSV and stderr of the run, `report` in all its forms,
//! `runs`, `--explain`. The server is a few lines here that keep what they are sent.

use crate::common::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A server that answers everything and keeps what it was sent.
struct Keeper {
    address: String,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Keeper {
    fn start(answer: fn(&[u8]) -> Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || talk(&mut connection, &kept, answer));
            }
        });
        Keeper { address, sent }
    }

    fn was_sent(&self, text: &[u8]) -> bool {
        has(&self.sent.lock().unwrap(), text)
    }
}

fn talk(connection: &mut TcpStream, kept: &Mutex<Vec<u8>>, answer: fn(&[u8]) -> Vec<u8>) {
    let mut buffer = [0; 65_536];
    while let Ok(n @ 1..) = connection.read(&mut buffer) {
        kept.lock().unwrap().extend_from_slice(&buffer[..n]);
        if connection.write_all(&answer(&buffer[..n])).is_err() {
            return;
        }
    }
}

/// Small requests come whole: one answer for each that begins here.
fn http(bytes: &[u8]) -> Vec<u8> {
    let requests = bytes.windows(9).filter(|w| *w == b" HTTP/1.1").count();
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".repeat(requests)
}

/// PING has its own reply: with any other the request fails, and a run whose few requests are all PING would end with 3.
fn resp(bytes: &[u8]) -> Vec<u8> {
    let begins = |at: &usize| bytes[*at] == b'*' && (*at == 0 || bytes[*at - 1] == b'\n');
    let reply = |at: usize| if bytes[at..].starts_with(b"*1\r\n$4\r\nPING\r\n") { "+PONG\r\n" } else { "+OK\r\n" };
    (0..bytes.len()).filter(begins).map(reply).collect::<String>().into_bytes()
}

/// Switches, and sends messages back.
fn websocket(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    if let Some(key) = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")) {
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        return format!("{switch}Sec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes();
    }
    let (mut rest, mut said) = (bytes, Vec::new());
    while let Some(((first, _, payload), behind)) = testkit::websocket::read(rest) {
        said.extend(testkit::websocket::frame(first, &payload).bytes(false, 0));
        rest = behind;
    }
    said
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// A secret: what must be sent, and what of it must not be found.
struct Case<'a> {
    args: Vec<&'a str>,
    variables: Vec<(&'a str, &'a str)>,
    sent: &'a [&'a str],
    never: &'a [&'a str],
}

/// Runs it, and looks through all there is of it.
#[track_caller]
fn check(keeper: &Keeper, case: &Case<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, csv) = (at("run.plimsoll"), at("run.csv"));
    let given = |args: &[&str]| {
        let mut load = command(&[&["load"], args, &case.args[..]].concat());
        finish(load.envs(case.variables.iter().copied()))
    };
    let common = ["-n4", "-c1", "-t1", "--no-observe"];
    let text = given(&[&common[..], &["--record", &file, "--csv", &csv]].concat());
    text.assert_measured();
    let json = given(&[&common[..], &["--no-record", "--json"]].concat());
    json.assert_measured();
    let report = |more: &[&str]| plimsoll(&[&["report", &file], more].concat());
    let shown = [
        ("run", text),
        ("run --json", json),
        ("report", report(&[])),
        ("report --json", report(&["--json"])),
        ("report --csv", report(&["--csv", "-"])),
        ("report --timeline", report(&["--timeline="])),
        ("runs", plimsoll(&["runs", "--folder", folder.path().to_str().unwrap()])),
        ("explain", given(&["--explain"])),
        ("explain --json", given(&["--explain", "--json"])),
    ];
    for sent in case.sent {
        assert!(keeper.was_sent(sent.as_bytes()), "'{sent}' was not sent: {:?}", case.args);
    }
    for never in case.never {
        for (what, run) in &shown {
            assert!(matches!(run.status, Some(0 | 4)), "{what}: {}", run.stderr);
            assert!(!run.stdout.contains(never), "{what} shows '{never}': {}", run.stdout);
            assert!(!run.stderr.contains(never), "{what} says '{never}': {}", run.stderr);
        }
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            assert!(!has(&std::fs::read(&path).unwrap(), never.as_bytes()), "{} holds '{never}'", path.display());
        }
    }
}

#[test]
fn http_secrets_are_sent_and_nowhere_else() {
    let keeper = Keeper::start(http);
    let url = format!("http://{}/x", keeper.address);
    let with = |more: &[&'static str]| -> Vec<String> {
        more.iter().map(|word| (*word).to_owned()).chain([url.clone()]).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, "password=sesame-of-file").unwrap();
    let from_file = format!("-b@{}", body.display());
    let urls = folder.path().join("urls");
    std::fs::write(&urls, format!("http://{}/of-file?token=sesame-of-list\n", keeper.address)).unwrap();
    let list = urls.to_str().unwrap();
    // SHA-256 of the bodies below: who knows the rest of one could guess the password by it.
    let digests = [
        "d820a840d2154a029b1b47d76a0d6859f4e13392e2cd163c5663af19938303eb",
        "62123f81606964c214a59ea8b5fb4bb081307c20e9cbbd1cf8179f6b7c50da7c",
    ];
    let headers = with(&[
        "-H",
        "Authorization: Bearer sesame-a",
        "-H",
        "Cookie: id=sesame-b",
        "-HX-Api-Key: sesame-c",
        "--header=Proxy-Authorization: sesame-d",
        "-H",
        "X-Auth-Token: sesame-e",
        "-H",
        "X-Amz-Security-Token: sesame-f",
        "-H",
        "Of-Nobody: sesame-g",
        "-H",
        "Referer: http://u:sesame-h@o/?token=sesame-i",
    ]);
    let query = format!("{url}?token=sesame-q&X-Amz-Signature=sesame-r&page=2");
    let random = format!("{url}?id=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5");
    let userinfo = format!("http://ali:sesame-u@{}", keeper.address);
    let cases = [
        (
            headers,
            vec![],
            &["sesame-a", "sesame-b", "sesame-c", "sesame-d", "sesame-e", "sesame-f", "sesame-g"][..],
            &["sesame"][..],
        ),
        // ali:sesame in base64.
        (with(&["-u", "ali:sesame"]), vec![], &["YWxpOnNlc2FtZQ=="], &["sesame", "YWxpOn"]),
        (with(&["-quali:sesame"]), vec![], &["YWxpOnNlc2FtZQ=="], &["sesame", "YWxpOn"]),
        (vec![query], vec![], &["token=sesame-q", "sesame-r&page=2"], &["sesame"]),
        (vec![random], vec![], &["Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5"], &["Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5"]),
        // Without a path there is a warning that names the URL; base64 of ali:sesame-u.
        (vec![userinfo], vec![], &["YWxpOnNlc2FtZS11"], &["sesame", "YWxpOn"]),
        (with(&["-b", "password=sesame-body"]), vec![], &["password=sesame-body"], &["sesame", digests[0]]),
        (
            with(&[]).into_iter().chain([from_file]).collect(),
            vec![],
            &["sesame-of-file"],
            &["sesame-of-file", digests[1]],
        ),
        (vec!["--urls".to_owned(), list.to_owned()], vec![], &["sesame-of-list"], &["sesame-of-list"]),
        (
            with(&[]),
            vec![
                ("PLIMSOLL_HEADER", "X-Auth-Token: sesame-v"),
                ("PLIMSOLL_USER", "ali:sesame"),
                ("PLIMSOLL_BODY", "pin=sesame-w"),
            ],
            &["sesame-v", "YWxpOnNlc2FtZQ==", "sesame-w"],
            &["sesame", "YWxpOn"],
        ),
    ];
    for (args, variables, sent, never) in &cases {
        let args = args.iter().map(String::as_str).collect();
        check(&keeper, &Case { args, variables: variables.clone(), sent, never });
    }
}

#[test]
fn passwords_of_resp_are_sent_and_nowhere_else() {
    let keeper = Keeper::start(resp);
    let plain = format!("resp://{}", keeper.address);
    let with_login = format!("resp://ali:sesame-u@{}", keeper.address);
    let mixed = "PING=1,AUTH ali sesame-m=1,CONFIG SET requirepass sesame-c=1,HELLO 2 AUTH ali sesame-h=1";
    let cases: [(Vec<&str>, &[&str]); 3] = [
        (vec!["--mix", "FLUSHALL", "-u", "ali:sesame-f", &plain], &["sesame-f"]),
        (vec!["--mix=FLUSHALL", &with_login], &["sesame-u"]),
        // So few requests draw not every command of a mix.
        (vec!["--mix", mixed, &plain], &[]),
    ];
    for (args, sent) in cases {
        check(&keeper, &Case { args, variables: Vec::new(), sent, never: &["sesame"] });
    }
    let many = ["load", "-n200", "-c1", "--no-record", "--no-observe", "--mix", mixed, &plain];
    plimsoll(&many).assert_measured();
    for sent in ["sesame-m", "sesame-c", "sesame-h"] {
        assert!(keeper.was_sent(sent.as_bytes()), "'{sent}' was not sent");
    }
}

#[test]
fn websocket_secrets_are_sent_and_nowhere_else() {
    let keeper = Keeper::start(websocket);
    let url = format!("ws://ali:sesame-u@{}/x?token=sesame-t", keeper.address);
    // The second is `ali:sesame-u`, as Basic authentication writes it.
    let sent: &[&str] = &["sesame-t", "YWxpOnNlc2FtZS11", "sesame-k", "sesame0Zm9vYmFyYmF6cXV4MTIz"];
    let args = vec!["-H", "X-Api-Key: sesame-k", "--subprotocol", "chat,sesame0Zm9vYmFyYmF6cXV4MTIz", &url];
    check(&keeper, &Case { args, variables: Vec::new(), sent, never: &["sesame", "YWxpOnNlc2FtZS11"] });
}

#[test]
fn a_clients_key_and_an_observers_token_are_in_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(at("client.pem"), certificate.pem()).unwrap();
    std::fs::write(at("client.key"), key.serialize_pem()).unwrap();
    let server = serve_http(&["--tls"]);
    let token = "sesame-0123456789abcdef";
    let mut serve = command(&["watch", "--serve", "127.0.0.1:0"]);
    let mut observer =
        testkit::process::Guard::spawn(serve.env("PLIMSOLL_TOKEN", token).stdout(std::process::Stdio::piped()))
            .unwrap();
    let mut first = String::new();
    let mut output = std::io::BufReader::new(observer.child().stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut first).unwrap();
    let address = first.trim().rsplit(' ').next().unwrap();
    let (file, certificate_file, key_file) = (at("kept.plimsoll"), at("client.pem"), at("client.key"));
    let mut load = command(&[
        "load",
        "-k",
        "-n20",
        "-c2",
        "--json",
        "--cert",
        &certificate_file,
        "--key",
        &key_file,
        "--record",
        &file,
        "--observe-at",
        address,
        &server.url,
    ]);
    let run = finish(load.env("PLIMSOLL_TOKEN", token));
    run.assert_measured();
    let secret: Vec<String> =
        key.serialize_pem().lines().filter(|line| !line.starts_with('-')).map(str::to_owned).collect();
    assert!(!secret.is_empty());
    let bytes = std::fs::read(Path::new(&file)).unwrap();
    for never in secret.iter().map(String::as_str).chain([token]) {
        assert!(
            !has(&bytes, never.as_bytes()) && !run.stdout.contains(never) && !run.stderr.contains(never),
            "{never}"
        );
    }
}

#[test]
fn what_is_refused_is_refused_without_its_secret() {
    for args in [
        &["http://ali:sesame@h:0/"][..],
        &["http://ali:ses/ame?sesame@h/"],
        &["ali:sesame@h/"],
        &["gopher://ali:sesame@h/?token=sesame"],
        &["echo://ali:sesame@h:1"],
        &["http://127.0.0.1:1/", "resp://:sesame@127.0.0.1:1/"],
        &["resp://:sesame@127.0.0.1:1/x"],
        &["http://127.0.0.1:1/", "-H", "Authorization sesame"],
        &["http://127.0.0.1:1/", "-H", "Bad Name: sesame"],
        &["http://127.0.0.1:1/", "-u", "sesame"],
        &["resp://127.0.0.1:1", "--mix", "AUTH ali sesame=-1"],
        &["echo://127.0.0.1:1", "-u", "ali:sesame"],
        &["resp://127.0.0.1:1", "-b", "password=sesame"],
    ] {
        let run = plimsoll(&[&["load", "--no-record"], args].concat());
        run.assert_exit(2);
        assert!(!run.stderr.contains("sesame") && !run.stderr.contains("ses/ame"), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty());
    }
}

#[test]
fn a_recording_keeps_secrets_where_that_is_asked_for_and_never_shows_them() {
    let keeper = Keeper::start(http);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let record = |name: &str, token: &str, more: &[&str]| {
        let (file, url) = (path(name), format!("http://{}/x?token={token}", keeper.address));
        let header = format!("X-Auth-Token: {token}");
        let args = ["load", "-n2", "-c1", "--seed=1", "--no-observe", "--record", &file, "-H", &header, &url];
        plimsoll(&[&args[..], more].concat()).assert_measured();
        let report = plimsoll(&["report", &file, "--json"]);
        report.assert_exit(if report.status == Some(4) { 4 } else { 0 });
        assert!(!report.stdout.contains("sesame"), "{}", report.stdout);
        let mut plan = report.json()["plan"].clone();
        plan["seed"] = 0.into();
        (has(&std::fs::read(&file).unwrap(), token.as_bytes()), plan)
    };
    let (is_kept, hidden) = record("a.plimsoll", "sesame-1", &[]);
    assert!(!is_kept && hidden["workload"]["requests"][0]["target"] == "/x?token=***", "{hidden}");
    // Plans that differ in a secret alone are the same.
    assert_eq!(record("b.plimsoll", "sesame-22", &[]), (false, hidden.clone()));
    assert_eq!(record("c.plimsoll", "sesame-333", &["--record-secrets"]), (true, hidden));
}
