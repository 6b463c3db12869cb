//! `--live`: what browsers are shown while a run goes on, and who may look and order. What a browser makes of it is tested in
//! `web/tests/live.test.ts`.
use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;

/// Longer than anything here takes on a machine that does much else.
const GUARD: Duration = Duration::from_secs(60);

/// A run with a page.
struct Shown {
    process: Guard,
    /// `http://127.0.0.1:PORT/`, with the token where there is one.
    url: String,
    stderr: std::thread::JoinHandle<String>,
    stdout: std::thread::JoinHandle<String>,
}

impl Shown {
    fn start(args: &[&str]) -> Self {
        let mut run = command(args);
        let mut process = Guard::spawn(run.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        let mut stderr = BufReader::new(process.child().stderr.take().unwrap());
        let out = process.child().stdout.take().unwrap();
        let mut line = String::new();
        while !line.contains("live page: ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the page's address is said");
        }
        let url = line.trim().split(' ').next_back().unwrap().to_owned();
        let text = |mut from: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut text = String::new();
                from.read_to_string(&mut text).unwrap();
                text
            })
        };
        Shown { process, url, stderr: text(Box::new(stderr)), stdout: text(Box::new(out)) }
    }

    /// `127.0.0.1:PORT`.
    fn host(&self) -> &str {
        self.url.split('/').nth(2).unwrap()
    }

    fn token(&self) -> &str {
        self.url.split_once("?token=").unwrap().1
    }

    /// An answer's status, head and body.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        ask(self.host(), method, path, headers, body)
    }

    fn end(mut self) -> Run {
        let status = self.process.wait(GUARD).and_then(|status| status.code());
        Run { status, stdout: self.stdout.join().unwrap(), stderr: self.stderr.join().unwrap() }
    }
}

/// Server-sent events of a page.
struct Events(BufReader<TcpStream>);

impl Events {
    fn of(shown: &Shown, cookie: &str) -> Self {
        let mut stream = TcpStream::connect(shown.host()).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        let head = format!("GET /events HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", shown.host());
        stream.write_all(head.as_bytes()).unwrap();
        Events(BufReader::new(stream))
    }

    /// The next event's name and data; `None`: the stream has ended.
    fn next(&mut self) -> Option<(String, serde_json::Value)> {
        let (mut name, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                event.trim().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data.trim()).unwrap()));
            }
        }
    }

    /// The next event of that name; all before it are let go.
    fn until(&mut self, wanted: &str) -> serde_json::Value {
        loop {
            let (name, data) = self.next().unwrap_or_else(|| panic!("expected '{wanted}', and the stream ended"));
            if name == wanted {
                return data;
            }
        }
    }
}

#[test]
fn a_run_is_shown_while_it_goes_and_its_report_when_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&[]);
    let recording = folder.path().join("run.plimsoll");
    let path = recording.to_str().unwrap();
    let shown = Shown::start(&[
        "load",
        &server.url,
        "--rate",
        "300",
        "-d",
        "6s",
        "-c",
        "4",
        "--live",
        "127.0.0.1:0",
        "--record",
        path,
    ]);
    let (status, head, body) = shown.ask("GET", "/", &[], "");
    assert_eq!(status, 200);
    assert!(head.to_lowercase().contains("cache-control: no-store") && body.contains("connect-src 'self'"), "{head}");
    assert!(!body.contains("id=\"order-stop\""), "there is nothing to order");
    assert_eq!(shown.ask("GET", "/report", &[], "").0, 404);
    let mut early = Events::of(&shown, "");
    let first = early.until("frame");
    let second = early.until("frame");
    let at = |frame: &serde_json::Value| frame["elapsed_s"].as_f64().unwrap();
    assert!(at(&first) < at(&second) && second["planned_s"] == 6.0, "{first}");
    assert!(second["body"].as_str().unwrap().contains("id=\"chart-throughput\""));
    // Its figures are those of what was measured so far, as far as a machine that does much else lets it.
    let body = second["body"].as_str().unwrap();
    let figure = body.split(" requests/s").next().unwrap().rsplit(['>', ' ']).next().unwrap();
    let per_s: f64 = figure.replace(',', "").parse().unwrap();
    assert!((200.0..=320.0).contains(&per_s), "{per_s}");
    assert!(!second["data"].as_str().unwrap().is_empty());
    // Who comes late gets all of it at once.
    let mut late = Events::of(&shown, "");
    let (name, frame) = late.next().unwrap();
    assert!(name == "frame" && at(&frame) >= at(&second), "{name}");
    for events in [&mut early, &mut late] {
        events.until("ended");
    }
    let (status, _, report) = shown.ask("GET", "/", &[], "");
    assert_eq!((status, shown.ask("GET", "/report", &[], "").0), (200, 200));
    let run = shown.end();
    run.assert_measured();
    assert!(run.stdout.contains("how much"), "{}", run.stdout);
    let again = plimsoll(&["report", path, "--html", "-"]);
    again.assert_exit(0);
    assert!(report == again.stdout, "what was shown at the end is the report of the recording");
}

#[test]
fn what_is_ordered_is_done_and_only_from_the_page_itself() {
    let server = serve_http(&[]);
    let shown = Shown::start(&[
        "load",
        &server.url,
        "--rate",
        "200",
        "-d",
        "60s",
        "-c",
        "4",
        "--live",
        "127.0.0.1:0",
        "--live-control",
        "--json",
        "--no-record",
    ]);
    let cookie = format!("plimsoll-{}={}", shown.host().rsplit(':').next().unwrap(), shown.token());
    let origin = format!("http://{}", shown.host());
    let order = |headers: &[(&str, &str)], body: &str| shown.ask("POST", "/order", headers, body).0;
    // Neither page nor frames nor orders without the token.
    for (method, path) in
        [("GET", "/"), ("GET", "/events"), ("GET", "/report"), ("GET", "/?token=0123"), ("POST", "/order")]
    {
        assert_eq!(shown.ask(method, path, &[("Origin", &origin)], "").0, 403, "{path}");
    }
    let (status, head, _) = shown.ask("GET", &format!("/?token={}", shown.token()), &[], "");
    assert!(status == 303 && head.contains(&format!("set-cookie: {cookie}; HttpOnly; SameSite=Strict")), "{head}");
    let page = shown.ask("GET", "/", &[("Cookie", &cookie)], "").2;
    assert!(page.contains("id=\"order-stop\"") && page.contains("id=\"order-rate-set\""));
    let mut events = Events::of(&shown, &cookie);
    events.until("frame");
    // From elsewhere, or of nobody knows what.
    assert_eq!(order(&[("Cookie", &cookie)], "\"stop\""), 403, "no origin");
    assert_eq!(order(&[("Cookie", &cookie), ("Origin", "http://evil.example")], "\"stop\""), 403);
    let from_page = [("Cookie", &*cookie), ("Origin", &*origin)];
    for nonsense in
        ["", "stop", "\"halt\"", "{\"rate-factor\": -1}", "{\"rate-factor\": 1e9}", "{\"rate-factor\": null}"]
    {
        assert_eq!(order(&from_page, nonsense), 400, "{nonsense}");
    }
    assert_eq!(order(&from_page, &"x".repeat(5000)), 413);
    assert_eq!(order(&from_page, "{\"rate-factor\": 3}"), 202);
    let changed = std::iter::from_fn(|| events.next()).find(|(_, frame)| frame.to_string().contains("rate-changed"));
    let changed_s = changed.unwrap().1["elapsed_s"].as_f64().unwrap();
    // A whole interval at the new rate.
    while events.until("frame")["elapsed_s"].as_f64().unwrap() < changed_s + 2.0 {}
    assert_eq!(order(&from_page, "\"stop\""), 202);
    events.until("ended");
    drop(events);
    let run = shown.end();
    assert_eq!(run.status, Some(130), "{}", run.stderr);
    let document = run.json();
    let event = document["events"].as_array().unwrap().iter().find(|event| event["kind"] == "rate-changed").unwrap();
    assert!(event["text"].as_str().unwrap().contains("300 %"), "{event}");
    // Asked for and reached, before and after.
    let profile = document["plan"]["pace"]["profile"].as_array().unwrap();
    assert_eq!((&profile[0]["from_per_s"], &profile[1]["from_per_s"]), (&200.0.into(), &600.0.into()), "{profile:?}");
    let intervals = document["intervals"].as_array().unwrap();
    let most = intervals.iter().filter_map(|one| one["requests"].as_u64()).max().unwrap();
    assert!(most >= 540, "an interval after the change: {most}");
    // What a machine that stands still for a moment catches up with in one interval is none too many in all of them.
    let number = |of: &serde_json::Value| of.as_f64().unwrap();
    let last = intervals.last().unwrap();
    let (ended_s, first_s) = (number(&last["t_s"]) + number(&last["length_s"]), number(&profile[0]["for_ns"]) / 1e9);
    let due = 200.0 * first_s + 600.0 * (ended_s - first_s);
    let all: u64 = intervals.iter().filter_map(|one| one["requests"].as_u64()).sum();
    assert!(all as f64 <= due + 10.0, "{all} of {due}");
}

#[test]
fn where_there_is_no_rate_none_is_changed_and_two_runs_are_controlled_beside_each_other() {
    let server = serve_http(&[]);
    let control = || {
        let flags = ["-d", "60s", "-c", "2", "--live", "127.0.0.1:0", "--live-control", "--no-record"];
        Shown::start(&[&["load", &*server.url][..], &flags].concat())
    };
    let both = [control(), control()];
    let cookie: Vec<String> = both
        .iter()
        .map(|shown| {
            let (status, head, _) = shown.ask("GET", &format!("/?token={}", shown.token()), &[], "");
            assert_eq!(status, 303);
            let set = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
            set.split(';').next().unwrap().to_owned()
        })
        .collect();
    // As a browser sends them: those of all ports of a host.
    let cookies = cookie.join("; ");
    assert_ne!(cookie[0].split('=').next(), cookie[1].split('=').next());
    for shown in both {
        let origin = format!("http://{}", shown.host());
        let from_page = [("Cookie", &*cookies), ("Origin", &*origin)];
        assert!(!shown.ask("GET", "/", &from_page, "").2.contains("id=\"order-rate\""));
        let (status, _, why) = shown.ask("POST", "/order", &from_page, "{\"rate-factor\": 2}");
        assert!(status == 409 && why.contains("--rate"), "{why}");
        assert_eq!(shown.ask("POST", "/order", &from_page, "\"stop\"").0, 202);
        assert_eq!(shown.end().status, Some(130));
    }
}

#[test]
fn a_page_is_shown_by_no_foreign_name_and_takes_no_orders_unless_told_to() {
    let server = serve_http(&[]);
    let shown =
        Shown::start(&["load", &server.url, "--rate", "50", "-d", "60s", "--live", "127.0.0.1:0", "--no-record"]);
    let (status, _, sentence) = shown.ask("GET", "/", &[("Host", "evil.example:7546")], "");
    assert!(status == 403 && sentence.contains("localhost"), "{sentence}");
    for host in ["localhost:1", "127.0.0.1", "[::1]:80"] {
        assert_eq!(shown.ask("GET", "/", &[("Host", host)], "").0, 200, "{host}");
    }
    let origin = format!("http://{}", shown.host());
    let (status, _, sentence) = shown.ask("POST", "/order", &[("Origin", &origin)], "\"stop\"");
    assert!(status == 403 && sentence.contains("--live-control"), "{sentence}");
    assert_eq!(shown.ask("GET", "/../../etc/passwd", &[], "").0, 404);
    shown.process.signal(2);
    assert_eq!(shown.end().status, Some(130));
}

#[test]
fn elsewhere_than_on_loopback_it_takes_tls_and_the_token() {
    if testkit::program("curl").is_none() {
        return testkit::skip("there is no curl");
    }
    let server = serve_http(&[]);
    let shown = Shown::start(&["load", &server.url, "--rate", "50", "-d", "60s", "--live", "0.0.0.0:0", "--no-record"]);
    let port = shown.host().rsplit(':').next().unwrap().to_owned();
    assert!(shown.url.starts_with("https://"), "{}", shown.url);
    let curl = |args: &[&str], path: &str| {
        let url = format!("https://127.0.0.1:{port}{path}");
        let output =
            Command::new("curl").args(["-sk", "--max-time", "20", "-w", "\n%{http_code}"]).args(args).arg(url).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    assert!(curl(&[], "/").ends_with("\n403"));
    assert!(curl(&[], "/events").ends_with("\n403"));
    let jar = tempfile::NamedTempFile::new().unwrap();
    let jar = jar.path().to_str().unwrap();
    let page = curl(&["-L", "-c", jar, "-b", jar], &format!("/?token={}", shown.token()));
    assert!(page.ends_with("\n200") && page.contains("id=\"live\""), "{page}");
    assert!(curl(&["-b", jar], "/").ends_with("\n200"), "by the cookie alone");
    // Without TLS there is nothing, and those who say nothing keep nobody waiting.
    let mute: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(format!("127.0.0.1:{port}")).unwrap()).collect();
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(curl(&["-b", jar], "/").ends_with("\n200"), "in spite of those who say nothing");
    drop(mute);
    shown.process.signal(15);
    let run = shown.end();
    assert_eq!(run.status, Some(130));
    assert!(run.stderr.contains("SHA-256"), "{}", run.stderr);
}

#[test]
fn viewers_who_take_nothing_hold_nothing_up_and_there_is_room_for_so_many() {
    let server = serve_http(&[]);
    let shown = Shown::start(&[
        "load",
        &server.url,
        "--rate",
        "200",
        "-d",
        "5s",
        "--live",
        "127.0.0.1:0",
        "--no-record",
        "--json",
    ]);
    let mut mute: Vec<Events> = (0..64).map(|_| Events::of(&shown, "")).collect();
    // Each has been let in before the next asks.
    for events in &mut mute {
        events.next().unwrap();
    }
    let (status, _, sentence) = shown.ask("GET", "/events", &[], "");
    assert!(status == 503 && sentence.contains("64"), "{sentence}");
    let run = shown.end();
    run.assert_measured();
    let totals = &run.json()["totals"];
    assert_eq!(due(totals), 1000, "{totals}");
    drop(mute);
}

#[test]
fn a_search_and_a_watched_server_are_shown_too() {
    let server = serve_http(&[]);
    let pid = server.process.pid().to_string();
    let shown = Shown::start(&["watch", "--pid", &pid, "-d", "60s", "--live", "127.0.0.1:0"]);
    let mut events = Events::of(&shown, "");
    let frame = std::iter::from_fn(|| events.next()).find(|(_, frame)| frame.to_string().contains("chart-memory"));
    assert_eq!(frame.unwrap().1["planned_s"], 60.0);
    shown.process.signal(2);
    events.until("ended");
    assert!(shown.ask("GET", "/", &[], "").2.contains("watch process"), "the report");
    drop(events);
    shown.end().assert_exit(0);

    // It sleeps for each request: the tests beside this one hardly disturb its steps.
    let slow = serve_http(&["--defect", "pool-exhausted=20ms:slots=4"]);
    let shown = Shown::start(&[
        "capacity",
        &slow.url,
        "-c",
        "40",
        "--slo",
        "p90<100ms",
        "--time",
        "60s",
        "--live",
        "127.0.0.1:0",
        "--no-record",
    ]);
    let mut events = Events::of(&shown, "");
    // Of a search that was ended in its first step nothing is known, and there is no page.
    let is_step = |frame: &serde_json::Value| frame["label"].as_str().is_some_and(|label| label.starts_with("step 2,"));
    std::iter::from_fn(|| events.next()).find(|(_, frame)| is_step(frame)).unwrap();
    shown.process.signal(2);
    events.until("ended");
    assert!(shown.ask("GET", "/", &[], "").2.contains("id=\"chart-line\""), "the page of the search");
    drop(events);
    assert_eq!(shown.end().status, Some(130));
}

#[test]
fn what_cannot_be_shown_is_said_before_any_load() {
    let url = "http://127.0.0.1:9/";
    for (args, words) in [
        (&["load", url, "--live", "nowhere"][..], "goes behind the URL"),
        (&["load", "--live", url], "goes behind the URL"),
        (&["load", url, "--live-control"], "--live"),
        (&["ab", "--a", url, "--b", url, "--live"], "leave it out"),
        (&["capacity", url, "--slo", "p99<1ms", "--over", "size=1..2", "--live"], "--over"),
    ] {
        let run = plimsoll(args);
        run.assert_exit(2);
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = plimsoll(&["load", url, "--live", &address]);
    run.assert_exit(1);
    assert!(run.stderr.contains(&address) && run.stderr.contains("choose another"), "{}", run.stderr);
}
