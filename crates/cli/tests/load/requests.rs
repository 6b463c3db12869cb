//! Requests that differ, as a user asks for them: a file of named requests, data, checks, and a real application with a login
//! (gunicorn, an application in Python that shares no code with us).

use crate::common::*;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::port::Reserved;
use testkit::process::Guard;

/// Signs tokens with a key of its own process and believes nothing else: a request of one user with another's token is 403.
const APPLICATION: &str = r#"
import hashlib, hmac, json, os, urllib.parse

KEY = os.environ["KEY"].encode()

def sign(name):
    return hmac.new(KEY, name.encode(), hashlib.sha256).hexdigest()

def answer(environ):
    path = environ["PATH_INFO"]
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length)
    if path == "/login":
        asked = json.loads(body)
        if asked["password"] != "pw-" + asked["name"]:
            return "403 Forbidden", {}, []
        return "200 OK", {"token": sign(asked["name"]), "more": [1, 2]}, [("Set-Cookie", "name=" + urllib.parse.quote(asked["name"]) + "; Path=/")]
    name = urllib.parse.unquote(environ.get("HTTP_COOKIE", "").partition("name=")[2])
    if environ.get("HTTP_AUTHORIZATION") != "Bearer " + sign(name):
        return "403 Forbidden", {}, []
    query = urllib.parse.parse_qs(environ["QUERY_STRING"])
    return "200 OK", {"name": name, "asked": query["name"][0]}, []

def app(environ, start_response):
    try:
        status, body, headers = answer(environ)
    except Exception as error:
        status, body, headers = "400 Bad Request", {"error": repr(error)}, []
    text = json.dumps(body).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(text)))] + headers)
    return [text]
"#;

const REQUESTS: &str = r#"
[[request]]
name = "login"
method = "POST"
path = "/login"
headers = ["Content-Type: application/json"]
body = '{"name": "{{name}}", "password": "pw-{{name}}"}'
take = ["token = json /token", "who = cookie name"]

[[request]]
name = "look"
path = "/items?name={{name}}&page={{random:1..9}}"
headers = ["Authorization: Bearer {{token}}", "Cookie: name={{who}}"]
check = ["header Content-Type contains json", "json /asked"]
"#;

/// A running application, ended with the test.
struct Application {
    _process: Guard,
    port: Reserved,
    folder: tempfile::TempDir,
}

impl Application {
    /// `None` where gunicorn is not installed.
    fn start() -> Option<Self> {
        let Some(program) = testkit::program("gunicorn") else {
            testkit::skip("gunicorn is not installed (scripts/packages.sh real)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.py"), APPLICATION).unwrap();
        let port = Reserved::new().unwrap();
        let mut command = Command::new(program);
        command
            .current_dir(folder.path())
            .args(["-k", "gthread", "--threads", "8", "-w", "1", "-b", &port.address().to_string(), "app:app"])
            .env("KEY", "of this process")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Guard::spawn(&mut command).unwrap();
        testkit::wait_until("gunicorn listens", || TcpStream::connect(port.address()).is_ok());
        Some(Application { _process: process, port, folder })
    }

    fn file(&self, name: &str, text: &str) -> String {
        written(self.folder.path(), name, text).to_str().unwrap().to_owned()
    }

    fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Names that need each kind of escaping.
fn names() -> String {
    let mut csv = "name\n".to_owned();
    for n in 0..40 {
        writeln!(csv, "\"user {n} \"\"q\"\" &=ü%\"").unwrap();
    }
    csv
}

fn entry<'j>(json: &'j serde_json::Value, name: &str) -> &'j serde_json::Value {
    let entries = json["totals"]["entries"].as_array().unwrap_or_else(|| panic!("{}", json["totals"]));
    entries.iter().find(|entry| entry["name"] == name).unwrap()
}

#[test]
fn users_log_in_to_a_real_application_and_use_what_it_gave_them() {
    let Some(application) = Application::start() else { return };
    let (requests, data) = (application.file("requests.toml", REQUESTS), application.file("names.csv", &names()));
    let url = application.url();
    let load = |requests: &str, more: &[&str]| {
        let fixed = [
            "load",
            &url,
            "--requests-from",
            requests,
            "--data",
            &data,
            "-n",
            "400",
            "-c",
            "4",
            "--json",
            "--no-record",
        ];
        plimsoll(&[&fixed[..], more].concat())
    };
    let run = load(&requests, &["--sequence"]);
    run.assert_measured();
    let json = run.json();
    let totals = &json["totals"];
    assert_eq!((totals["ok"].as_u64(), totals["failed"].as_u64()), (Some(400), Some(0)), "{}", json["examples"]);
    let (login, look) = (&entry(&json, "login")["ok"], &entry(&json, "look")["ok"]);
    let (login, look) = (login.as_u64().unwrap(), look.as_u64().unwrap());
    assert!(login + look == 400 && login.abs_diff(look) <= 4, "{login} logins, {look} looks");

    // What the application does not give is said, and nobody goes on without it.
    let other = application.file("other.toml", &REQUESTS.replace("json /token", "json /ticket"));
    let json = load(&other, &["--sequence"]).json();
    assert_eq!(json["totals"]["errors"]["missing-value"], 400, "{}", json["totals"]);
    let said = json["examples"][0].to_string();
    assert!(said.contains("'login'") && said.contains("token = json /ticket"), "{said}");
    assert_eq!(entry(&json, "look")["requests"], 0, "{}", json["totals"]);

    // A check that does not pass is a failure with its words, and exit status 3.
    let other = application.file("checked.toml", &REQUESTS.replace("json /asked", "json /asked = somebody"));
    let run = load(&other, &["--sequence"]);
    run.assert_unmet();
    let json = run.json();
    assert!(json["totals"]["errors"]["check"].as_u64().unwrap() > 100, "{}", json["totals"]);
    assert!(json["examples"].to_string().contains("does not pass 'json /asked = somebody'"), "{}", json["examples"]);
}

#[test]
fn unique_rows_end_the_load_and_figures_are_told_by_url() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let data =
        written(folder.path(), "rows.jsonl", &(0..250).map(|n| format!("{{\"id\": {n}}}\n")).collect::<String>());
    let data = format!("rows={}", data.display());
    let url = format!("{}/?id={{{{rows.id}}}}&n={{{{seq}}}}", server.url.trim_end_matches('/'));
    let run = plimsoll(&["load", &url, "--data", &data, "--data-order", "unique", "-c", "3", "--no-record"]);
    run.assert_measured();
    let joined = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("each given once, were used up: the load ended with them"), "{}", run.stdout);

    let other = format!("{}/?other", server.url.trim_end_matches('/'));
    let run = plimsoll(&["load", &server.url, &other, "-n", "300", "-c", "2", "--no-record"]);
    run.assert_measured();
    for words in ["By entry", "GET /?other", "p99"] {
        assert!(run.stdout.contains(words), "no '{words}': {}", run.stdout);
    }
}

#[test]
fn what_cannot_be_asked_is_said_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| written(folder.path(), name, text).to_str().unwrap().to_owned();
    let (data, empty) = (file("a.csv", "id\n1\n"), file("b.csv", ""));
    let requests =
        file("r.toml", "[[request]]\npath = '/{{token}}'\n\n[[request]]\npath = '/'\ntake = ['token = json /t']\n");
    let unknown = file("u.toml", "[[request]]\npth = '/'\n");
    let url = "http://127.0.0.1:9/";
    for (args, expected) in [
        (vec!["http://127.0.0.1:9/{{id}}"], "nothing is called '{{id}}'"),
        (vec!["http://127.0.0.1:9/{{nme}}", "--data", &data], "the columns are id"),
        (vec!["http://127.0.0.1:9/{{random:9..1}}"], "expected a range upwards"),
        (vec![url, "--data", &empty], "got an empty file"),
        (vec![url, "--data-order", "random"], "--data-order cannot be used with no data"),
        (
            vec![url, "--requests-from", &requests, "--sequence"],
            "'{{token}}' is used before an earlier request takes it",
        ),
        (
            vec![url, "--requests-from", &requests],
            "'{{token}}' is used before an earlier request of a sequence takes it",
        ),
        (vec![url, "--requests-from", &unknown], "line 2: unknown field `pth`"),
        (vec![url, "--check", "nonsense"], "--check: expected status 200,404"),
        (vec![url, "--check", "body matches ("], "a regular expression"),
        (vec![url, "--requests-from", &requests, "-X", "POST"], "each request has its own"),
    ] {
        let run = plimsoll(&[&["load"], &args[..]].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "{args:?}: {}", run.stderr);
    }
    let run = plimsoll(&["load", "http://127.0.0.1:9/{{id}}", "--no-templates", "--explain"]);
    run.assert_exit(0);
}

#[test]
fn what_others_have_written_becomes_a_file_that_load_runs() {
    let server = serve_http(&[]);
    let base = server.url.trim_end_matches('/');
    let folder = tempfile::tempdir().unwrap();
    let har = format!(
        r#"{{"log":{{"entries":[{{"request":{{"method":"GET","url":"{base}/?b=1","headers":[{{"name":"Authorization","value":"Bearer open-sesame"}}]}}}},{{"request":{{"method":"POST","url":"{base}/?c","headers":[],"postData":{{"text":"x y"}}}}}}]}}}}"#
    );
    let har = written(folder.path(), "a.har", &har).to_str().unwrap().to_owned();
    let curl = format!("curl -s -X POST {base}/?d -H 'X-A: 1' --data-raw 'hello'");
    let openapi = format!(
        r#"{{"servers":[{{"url":"{base}"}}],"paths":{{"/":{{"get":{{"operationId":"pet","parameters":[{{"name":"id","in":"query","required":true}}]}}}}}}}}"#
    );
    let openapi = written(folder.path(), "a.json", &openapi).to_str().unwrap().to_owned();
    let data = written(folder.path(), "a.csv", "id\n1\n2\n").to_str().unwrap().to_owned();
    for (args, name) in [
        (["import", "har", &har], "001 /"),
        (["import", "curl", &curl], "\"/?d\""),
        (["import", "openapi", &openapi], "pet"),
    ] {
        let run = plimsoll(&args);
        run.assert_exit(0);
        assert!(run.stdout.starts_with(&format!("# plimsoll load '{base}' --requests-from FILE")), "{}", run.stdout);
        assert!(args[1] != "har" || run.stdout.contains("open-sesame"), "{}", run.stdout);
        let file = written(folder.path(), "requests.toml", &run.stdout).to_str().unwrap().to_owned();
        let mut load = vec!["load", base, "--requests-from", &file, "--sequence", "-n", "50", "--no-record", "--json"];
        if args[1] == "openapi" {
            load.extend(["--data", &data]);
        }
        let run = plimsoll(&load);
        run.assert_measured();
        let json = run.json();
        assert_eq!(json["totals"]["ok"], 50, "{}", json["totals"]);
        assert!(run.stdout.contains(name), "no {name}: {}", json["plan"]);
        assert!(!run.stdout.contains("open-sesame"), "a credential is shown");
    }
    for args in [["import", "har", "/dev/null"], ["import", "curl", "curl"], ["import", "openapi", &har]] {
        let run = plimsoll(&args);
        run.assert_exit(2);
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "{}", run.stderr);
    }
}

/// A file beyond what is kept of one in memory is read row by row: the generator stays smaller than it.
#[test]
fn a_file_larger_than_its_share_of_memory_is_not_held_in_memory() {
    use std::io::Write;
    const ROWS: u32 = 1_500_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let pad = "x".repeat(110);
    writeln!(file, "id,pad").unwrap();
    (0..ROWS).for_each(|row| writeln!(file, "{row},{pad}").unwrap());
    drop(file);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let server = serve_http(&[]);
    let url = format!("{}?n={{{{id}}}}", server.url);
    let run = plimsoll(&[
        "load",
        &url,
        "-n",
        "200",
        "-c",
        "2",
        "--data",
        path.to_str().unwrap(),
        "--json",
        "-q",
        "--no-record",
        "--no-observe",
    ]);
    let document = run.json();
    assert_eq!(document["totals"]["ok"], 200, "{}", document["totals"]);
    let peak = document["generator"]["peak_rss_bytes"].as_u64().unwrap();
    assert!(peak < bytes * 3 / 4, "{peak} of {bytes}");
}
