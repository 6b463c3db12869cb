//! What the first lines say where the figures alone would mislead: of several workers and origins, of targets that stand
//! still, die or serve only some. On real servers; nothing here looks at how long something took.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;
use testkit::process::Guard;

/// What a run said: its text, and the same as a document.
fn both(args: &[&str]) -> (String, serde_json::Value) {
    let text = plimsoll(&[args, &["--no-record", "-q"]].concat());
    let json = plimsoll(&[args, &["--no-record", "-q", "--json"]].concat());
    (text.stdout, json.json())
}

#[test]
fn all_that_is_due_leaves_whatever_the_workers_and_origins() {
    let (first, second) = (serve_http(&[]), serve_http(&[]));
    for (threads, connections) in [("2", "10"), ("2", "2"), ("3", "4")] {
        let args = ["load", &first.url, &second.url, "--rate", "500", "-d", "1s", "-t", threads, "-c", connections];
        let run = plimsoll(&[&args[..], &["--json", "--no-record", "-q"]].concat());
        run.assert_measured();
        let totals = &run.json()["totals"];
        let (ok, started) = (totals["ok"].as_u64().unwrap(), totals["started"].as_u64().unwrap());
        assert_eq!((ok, &totals["in_flight_at_end"]), (started, &0.into()), "{threads} workers: {totals}");
        assert!(due(totals).abs_diff(500) <= 4, "{threads} workers: {totals}");
    }
}

#[test]
fn a_lock_is_named_at_the_level_that_is_observed_by_default() {
    if !testkit::is_root() {
        return testkit::skip("where another's threads stand is for root to read");
    }
    let server = serve_http(&["--workers", "4", "--defect", "global-lock=5ms:sleep"]);
    let run = plimsoll(&["load", &server.url, "-c", "16", "-d", "4s", "--json", "--no-record", "-q"]);
    let doc = run.json();
    assert_eq!(doc["gives"]["finding"], "lock-contention", "{}", doc["gives"]);
}

#[test]
fn a_target_that_stands_still_is_in_the_quantiles() {
    let server = serve_http(&[]);
    let args = ["load", &server.url, "--rate", "500", "-d", "3s", "--drain", "1s", "-c", "50", "--json", "--no-record"];
    let load = std::thread::spawn({
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        move || plimsoll(&args.iter().map(String::as_str).collect::<Vec<_>>())
    });
    wait_for_load(&server);
    std::thread::sleep(Duration::from_millis(1500));
    server.process.signal(libc_sigstop());
    let run = load.join().unwrap();
    server.process.signal(libc_sigcont());
    // More than half of them may have had no reply.
    if run.status != Some(3) {
        run.assert_measured();
    }
    let doc = run.json();
    let response = &doc["latency"]["response"];
    assert!(doc["totals"]["in_flight_at_end"].as_u64().unwrap() > 500, "{}", doc["totals"]);
    assert!(response["at_least"].as_array().unwrap().contains(&"p99_us".into()), "{response}");
    assert!(response["p99_us"].as_f64().unwrap() > 1e6, "half of them waited a second and more: {response}");
    assert_eq!(doc["summary"][0]["id"], "unfinished", "{}", doc["summary"]);
    // It stood still to the end: one pause of all, with what waited.
    let gap = &doc["single_requests"]["gaps"][0];
    assert!(gap["length_us"].as_f64().unwrap() > 1e6 && gap["in_flight"].as_u64().unwrap() > 10, "{gap}");
}

#[test]
fn a_target_that_stood_still_and_went_on_is_the_first_line_of_a_closed_loop() {
    let server = serve_http(&[]);
    let url = server.url.clone();
    let load =
        std::thread::spawn(move || plimsoll(&["load", &url, "-d", "4s", "-c", "16", "--json", "--no-record", "-q"]));
    wait_for_load(&server);
    std::thread::sleep(Duration::from_millis(1000));
    server.process.signal(libc_sigstop());
    std::thread::sleep(Duration::from_millis(1500));
    server.process.signal(libc_sigcont());
    let doc = load.join().unwrap().json();
    // Sixteen of some ten thousand, and so in no quantile.
    assert_eq!(doc["totals"]["failed"], 0, "{}", doc["totals"]);
    assert!(doc["latency"]["response"]["p99_us"].as_f64().unwrap() < 1e6, "{}", doc["latency"]);
    let text = doc["gives"]["text"].as_str().unwrap();
    assert!(text.starts_with("nobody was answered"), "{text}");
    // Who sent a signal is seen with probes.
    let is_seen = doc["events"].as_array().unwrap().iter().any(|event| event["kind"] == "target-signal");
    let names_it = text.contains(&format!("took SIGSTOP from process {}", std::process::id()));
    assert_eq!(names_it, is_seen, "{text}: {}", doc["events"]);
}

#[test]
fn where_nobody_listens_the_first_line_says_so_and_where_to_look() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("not.there");
    for (url, said) in [
        (format!("http://{free}/"), format!("nothing ever connected: {free} refuses, as where nobody listens: does ")),
        (format!("hold://{free}"), format!("nothing ever connected: {free} refuses, as where nobody listens: does ")),
        (
            format!("unix:{}:/", missing.display()),
            format!("nothing ever connected: there is no socket at {}: does ", missing.display()),
        ),
    ] {
        let run = plimsoll(&["load", &url, "-d", "1s", "-c", "2", "--no-record", "-q", "--json"]);
        let gives = run.json()["gives"]["text"].as_str().unwrap().to_owned();
        assert!(gives.starts_with(&said), "{url}: {gives}");
    }
}

#[test]
fn a_target_that_dies_is_the_first_line() {
    let mut server = serve_http(&[]);
    let url = server.url.clone();
    let load = std::thread::spawn(move || plimsoll(&["load", &url, "-d", "6s", "-c", "10", "--no-record", "-q"]));
    wait_for_load(&server);
    std::thread::sleep(Duration::from_secs(2));
    server.process.child().kill().unwrap();
    let _ = server.process.child().wait();
    let said = load.join().unwrap().stdout;
    let first = said.lines().skip_while(|line| !line.is_empty()).skip(1).take(3).collect::<Vec<_>>().join(" ");
    assert!(first.contains("The target died at second"), "{said}");
}

#[test]
fn a_generator_that_was_stopped_does_not_read_as_a_slow_target() {
    let server = serve_http(&[]);
    for pace in [&["-c", "4"][..], &["-c", "4", "--rate", "500"]] {
        let args = [&["load", &server.url, "-d", "6s", "--no-record", "-q"], pace].concat();
        let mut load = Guard::spawn(command(&args).stdout(Stdio::piped())).unwrap();
        wait_for_load(&server);
        std::thread::sleep(Duration::from_millis(1500));
        load.signal(libc_sigstop());
        std::thread::sleep(Duration::from_millis(2000));
        load.signal(libc_sigcont());
        let mut said = String::new();
        load.child().stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let _ = load.child().wait();
        // What is left may stand for the run, and then says so; all of it may not.
        assert!(said.contains("not valid"), "{pace:?}:\n{said}");
        assert!(!said.contains("nothing speaks against the figures"), "{pace:?}:\n{said}");
        // Nobody answered for two seconds, and that was not the target's doing.
        assert!(!said.contains("Pauses     longest 2."), "{pace:?}:\n{said}");
    }
}

#[test]
fn replies_that_take_longer_than_the_run_are_no_silence() {
    // A megabyte in pieces of a kilobyte, fifty a second.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || -> std::io::Result<()> {
                let mut stream = stream?;
                // Whatever came of a request, it is answered.
                let _ = stream.read(&mut [0; 4096])?;
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
                loop {
                    stream.write_all(&[b'x'; 1000])?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    let (text, doc) = both(&["load", &url, "-c", "4", "-d", "2s", "--drain", "100ms"]);
    assert!(text.contains("No reply was whole when the run ended: 4 were still coming"), "{text}");
    assert!(!text.contains("was ever answered"), "{text}");
    assert_eq!(doc["gives"]["standing"], "unknown", "{}", doc["gives"]);
}

/// Needs root: how a process ended is told by the kernel's probes.
#[test]
fn a_reload_of_nginx_is_no_crash() {
    if !testkit::is_root() {
        return testkit::skip("probes that tell how processes end need root");
    }
    let Some(server) = nginx("") else { return };
    let url = format!("http://{}/", server.address());
    let load = std::thread::spawn(move || {
        plimsoll(&["load", &url, "-c", "16", "-d", "4s", "--json", "--no-record", "-q"]).json()
    });
    let port = server.address().port().to_string();
    testkit::wait_until("a load is put on", || established(&port) > 0);
    // A second of it, and two more to serve since.
    std::thread::sleep(Duration::from_secs(1));
    let hup = std::process::Command::new("kill").args(["-HUP", &server.pid().to_string()]).status();
    assert!(hup.unwrap().success());
    let doc = load.join().unwrap();
    let ends = doc["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "target-exit");
    assert!(ends.into_iter().any(|end| end["details"]["exit_code"] == 0), "{}", doc["events"]);
    let is_found = |finding: &&serde_json::Value| finding["status"] == "supported";
    let found: Vec<_> = doc["findings"].as_array().unwrap().iter().filter(is_found).collect();
    let of = |id: &str| found.iter().find(|finding| finding["id"] == id);
    assert!(of("process-crash").is_none(), "{found:#?}");
    // Its old worker closes connections, and what is on its way to it then is lost.
    if doc["totals"]["failed"].as_u64() > Some(0) {
        let restart = of("process-restart").unwrap();
        assert!(restart["title"].as_str().unwrap().contains("took SIGHUP"), "{restart}");
    }
}

/// An event loop of Python's, in which so many requests at a time have room, and each takes 20 ms.
fn event_loop(room: usize) -> Option<(Guard, String)> {
    let code = format!(
        "import asyncio
async def main():
    room = asyncio.Semaphore({room})
    async def serve(reader, writer):
        while await reader.readuntil(b'\\r\\n\\r\\n'):
            async with room:
                await asyncio.sleep(0.02)
            writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())"
    );
    let mut command = std::process::Command::new("python3");
    command.args(["-c", &code]).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut server) = Guard::spawn(&mut command) else {
        testkit::skip("it needs python3");
        return None;
    };
    let mut port = String::new();
    BufReader::new(server.child().stdout.take()?).read_line(&mut port).ok()?;
    Some((server, format!("http://127.0.0.1:{}/", port.trim())))
}

#[test]
fn whether_requests_wait_for_each_other_where_no_thread_stands_is_in_the_first_line() {
    // Two workers, whose requests stand in the same line. Nothing is observed: the tests beside this one are no neighbours then.
    let first_line = |room: usize| {
        let (_server, url) = event_loop(room)?;
        let load = ["load", &url, "-c", "16", "-t", "2", "-d", "2s", "--no-observe", "--json", "--no-record", "-q"];
        // Of a generator that was kept from running nothing is said of the target.
        let valid = (0..5).map(|_| plimsoll(&load).json()).find(|doc| doc["validity"]["state"] == "valid");
        Some(valid.expect("one of five runs is valid")["gives"]["text"].as_str().unwrap().to_owned())
    };
    let Some((three, all)) = first_line(3).zip(first_line(64)) else { return };
    let said = "nothing was lost; requests wait for each other (of the first ";
    assert!(three.starts_with(said) && !all.contains("wait for each other"), "{three}\n{all}");
}

#[test]
fn users_that_starve_are_the_first_line() {
    // A thread for a connection, and eight of them: the ninth and all after it wait for ever.
    let server = serve(&["serve", "echo", "--design", "pool", "--workers", "8", "--listen", "127.0.0.1:0"]);
    let (text, doc) = both(&["load", &server.url, "-c", "40", "-d", "2s"]);
    assert!(text.contains("32 of 40 connections never got a reply"), "{text}");
    let users = &doc["users"];
    assert_eq!((&users["connections"], &users["never_served"]), (&40.into(), &32.into()), "{users}");
    // Most of the users' time was spent waiting for nothing, which no quantile over requests shows.
    let (of_users, of_requests) = (&users["time_p50_us"], &doc["latency"]["response"]["p50_us"]);
    assert!(of_users.as_f64().unwrap() > 100.0 * of_requests.as_f64().unwrap(), "{of_users} beside {of_requests}");
}
