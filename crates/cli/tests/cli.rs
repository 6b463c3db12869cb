//! The built binary, as a script sees it: exit status, stdout, and one sentence on stderr.
//!
//! Nothing here puts load on or asks a resolver: addresses are literals, names end in `.invalid`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

fn plimsoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLIMSOLL_") {
            command.env_remove(name);
        }
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    plimsoll(arguments).output().expect("the built binary starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("what is printed is UTF-8")
}

#[track_caller]
fn check_refused(output: &Output, status: i32, sentence: &str) {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert_eq!(text(&output.stderr), format!("plimsoll: {sentence}\n"));
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[track_caller]
fn refused(arguments: &[&str], sentence: &str) {
    check_refused(&run(arguments), 2, sentence);
}

const SEE: &str = "(see 'plimsoll load --help')";
const URL: &str = "http://127.0.0.1/";

#[test]
fn bad_flags_end_in_one_sentence() {
    refused(
        &["load", "--conections", "3", URL],
        &format!("unexpected argument '--conections' found, did you mean '--connections'? {SEE}"),
    );
    refused(&["laod"], "unrecognized subcommand 'laod', did you mean 'load'? (see 'plimsoll --help')");
    // Nothing is like it: the words there are.
    refused(
        &["serve", "foo"],
        "unrecognized subcommand 'foo', expected one of ws, http, echo, names, proxy (see 'plimsoll serve --help')",
    );
    refused(&["load", "-c"], &format!("a value is required for '--connections <N>' but none was supplied {SEE}"));
    refused(
        &["load", "-c1", "-c2", URL],
        &format!("the argument '--connections <N>' cannot be used multiple times {SEE}"),
    );
    refused(
        &["load", "--driver", "iocp", URL],
        &format!("invalid value 'iocp' for '--driver <DRIVER>' [possible values: uring, rings, epoll] {SEE}"),
    );
    refused(&["serve", "http", "--bogus"], "unexpected argument '--bogus' found (see 'plimsoll serve http --help')");
    refused(
        &["load", "--rate", "1", "--steps", "1:1s", URL],
        "--rate cannot be used with --steps: leave one of them out",
    );
    refused(&["load", "-4", "-6", URL], "--ipv4 cannot be used with --ipv6: leave one of them out");
}

#[test]
fn bad_units_name_the_flag_and_an_example() {
    for (flag, value, expected) in [
        ("--connections <N>", "5x", "a count such as 50, 10k or 1m"),
        ("--duration <TIME>", "10 parsecs", "a duration such as 500ms, 30s, 2m or 1h"),
        ("--rate <RATE>", "5k/fortnight", "a rate such as 500/s, 5k/s or 600/m"),
        ("--ramp <FROM..TO:TIME>", "1..2", "FROM..TO:TIME such as 100/s..5k/s:30s"),
        ("--steps <RATES:TIME>", "1,2", "RATE,RATE,...:TIME such as 1k/s,2k/s,4k/s:10s"),
        ("--think <TIME>", "long", "a think time such as 10ms, 5ms..20ms or exp:10ms"),
        ("--max-head <SIZE>", "1KB/s", "a size such as 512B, 64KiB, 10MB or 1GiB"),
        ("--size <SIZES>", "small", "sizes such as 128, 16..32 or 1,2,4KiB"),
        ("--pin <CPUS>", "all", "CPU numbers such as 0,1 or 0-3"),
        ("--batch[=<N[,DELAY]>]", "x", "COMPLETIONS[,DELAY] such as 16 or 16,1ms"),
        ("--receive-stamps <on|off>", "maybe", "on or off"),
    ] {
        let long = flag.split([' ', '[']).next().unwrap();
        let sentence = format!("invalid value '{value}' for '{flag}': expected {expected} {SEE}");
        refused(&["load", &format!("{long}={value}"), URL], &sentence);
    }
    refused(&["load", "-c0", URL], "-c: expected 1 to 4000000 connections, got '0'");
    refused(&["load", "-n", "0", URL], "-n: expected at least 1 request, got '0'");
}

#[test]
fn bad_urls_say_what_to_write() {
    refused(&["load"], "expected a URL to put load on, got none: name one, such as http://127.0.0.1:8080/");
    refused(&["load", "localhost:8080/"], "URL 'localhost:8080/': has no scheme: write http://localhost:8080/");
    refused(
        &["load", "http://h:x/"],
        "URL 'http://h:x/': invalid port number: write http://HOST:PORT/, an IPv6 address in brackets",
    );
    refused(
        &["load", "gopher://h/"],
        "URL 'gopher://h/': scheme 'gopher' is not spoken by this version: use http:// or https://HOST:PORT/PATH, unix:/PATH.sock[:/PATH], echo:// or echo+tls://HOST:PORT, echo+unix:/PATH.sock, hold:// or hold+tls://HOST:PORT, resp:// or resp+tls://HOST:PORT, resp+unix:/PATH.sock, ws:// or wss://HOST:PORT/PATH, ws+unix:/PATH.sock[:/PATH], hold+ws:// or hold+wss://HOST:PORT/PATH, or hold+ws+unix:/PATH.sock[:/PATH]",
    );
    refused(&["load", "echo://127.0.0.1", "-XPUT"], "-X is for http URLs, got 'echo://127.0.0.1': leave it out");
}

#[test]
fn what_is_not_the_users_fault_has_status_1() {
    let output = run(&["load", "http://plimsoll-test.invalid/"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.starts_with("plimsoll: expected 'plimsoll-test.invalid' to have an address, but"), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_path_that_leads_to_no_file_is_a_wrong_word() {
    refused(
        &["load", "-b", "@/nonexistent", URL],
        "--body: expected a file that can be read, got '/nonexistent' (No such file or directory (os error 2)): check its path and permissions",
    );
    refused(
        &["load", "--urls", "/nonexistent"],
        "--urls: expected a file that can be read, got '/nonexistent' (No such file or directory (os error 2)): check its path",
    );
    refused(
        &["load", "-b", "@/", URL],
        "--body: expected a file that can be read, got '/' (Is a directory (os error 21)): check its path and permissions",
    );
    refused(
        &["load", "--requests-from", "/nonexistent", URL],
        "--requests-from: expected a file that can be read, got '/nonexistent' (No such file or directory (os error 2)): check its path",
    );
    refused(
        &["load", "--observe-at", "127.0.0.1:1", "--token-file", "/nonexistent", URL],
        "--token-file: expected a file that can be read, got '/nonexistent' (No such file or directory (os error 2)): check its path",
    );
}

fn explained(arguments: &[&str], variables: &[(&str, &str)]) -> serde_json::Value {
    let mut command = plimsoll(&["load", "--explain", "--json"]);
    let output = command.args(arguments).envs(variables.iter().copied()).output().expect("the built binary starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}

#[test]
fn explain_shows_the_plan_and_puts_no_load() {
    // A listener that must not be connected to.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://127.0.0.1:{}/x", listener.local_addr().unwrap().port());
    let output = run(&["load", "--explain", "-c7", "-d3", "-t1", "-u", "a:secret", "--seed=5", &url]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    for line in [
        "What would run (no load was put on)",
        "  what               GET /x HTTP/1.1",
        "                     Authorization: ***",
        "  redirects          are not followed: a status below 400 is a good reply",
        "  when               closed: a connection's next request after its reply",
        "  ends               after 3.00 s, then up to 5.00 s for replies in flight",
        "  connections        7",
        "  seed               5",
        "  tick               250 ms (the run is shorter than 5.00 s)",
        "  reply timeout      30.0 s, also for a free connection",
        "Limits of this version",
    ] {
        assert!(shown.lines().any(|l| l == line), "no line '{line}' in\n{shown}");
    }
    assert!(!shown.contains("secret") && !shown.contains("Basic"), "{shown}");
    assert!(!shown.contains("Warnings"), "{shown}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody connected");

    let shown = run(&["load", "--explain", "--driver=epoll", "--rate=5k", "http://127.0.0.1"]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("5,000/s for 10.0 s") && shown.contains("\nWarnings\n  URL 'http://127.0.0.1' has no path"),
        "{shown}"
    );
}

#[test]
fn flags_win_over_variables() {
    let connections =
        |arguments: &[&str]| explained(arguments, &[("PLIMSOLL_CONNECTIONS", "3")])["plan"]["connections"].as_u64();
    assert_eq!(connections(&[URL]), Some(3));
    assert_eq!(connections(&["-c4", URL]), Some(4));
    // A variable of one pace does not stand against a flag of another.
    let plan = explained(&["--driver=epoll", "--steps=7/s:1s", URL], &[("PLIMSOLL_RATE", "9/s")]);
    assert_eq!(plan["plan"]["pace"]["profile"][0]["from_per_s"], 7.0);
    let both = [("PLIMSOLL_RATE", "9/s"), ("PLIMSOLL_STEPS", "7/s:1s")];
    let output = plimsoll(&["load", URL]).envs(both).output().unwrap();
    let said = "--rate cannot be used with --steps: leave one of them out (--rate is PLIMSOLL_RATE, --steps is PLIMSOLL_STEPS, of the environment)";
    check_refused(&output, 2, said);
    let plan = explained(&[URL], &[("PLIMSOLL_DISABLE_KEEPALIVE", "1")]);
    assert_eq!(plan["plan"]["requests_per_connection"], 1);
}

#[test]
fn what_the_environment_says_wrongly_is_not_blamed_on_a_flag() {
    let load = |name: &str, value: &str, arguments: &[&str]| {
        plimsoll(&[&["load", "--explain", URL], arguments].concat()).env(name, value).output().unwrap()
    };
    check_refused(
        &load("PLIMSOLL_CONNECTIONS", "5x", &[]),
        2,
        &format!(
            "invalid value '5x' for PLIMSOLL_CONNECTIONS of the environment: expected a count such as 50, 10k or 1m {SEE}"
        ),
    );
    check_refused(
        &load("PLIMSOLL_CONNECTIONS", "0", &[]),
        2,
        "-c: expected 1 to 4000000 connections, got '0' (-c is PLIMSOLL_CONNECTIONS, of the environment)",
    );
    // What is typed is what is wrong.
    check_refused(
        &load("PLIMSOLL_CONNECTIONS", "3", &["-c", "5x"]),
        2,
        &format!("invalid value '5x' for '--connections <N>': expected a count such as 50, 10k or 1m {SEE}"),
    );
    let unknown = load("PLIMSOLL_CONECTIONS", "3", &[]);
    assert!(unknown.status.success());
    let said = "plimsoll: warning: the variable PLIMSOLL_CONECTIONS is not known and has no effect: did you mean PLIMSOLL_CONNECTIONS?\n";
    assert_eq!(text(&unknown.stderr), said);
    assert_eq!(text(&load("PLIMSOLL_CONECTIONS", "3", &["-q"]).stderr), "");
}

#[test]
fn numbers_below_nothing_are_refused_as_numbers() {
    let count = "expected a count such as 50, 10k or 1m";
    refused(&["load", "-c", "-5", URL], &format!("invalid value '-5' for '--connections <N>': {count} {SEE}"));
    refused(&["load", URL, "-n", "-4"], &format!("invalid value '-4' for '--requests <N>': {count} {SEE}"));
    let duration = "expected a duration such as 500ms, 30s, 2m or 1h";
    refused(
        &["load", "--timeout", "-5s", URL],
        &format!("invalid value '-5s' for '--timeout <TIME>': {duration} {SEE}"),
    );
    refused(&["load", "-5", URL], &format!("unexpected argument '-5' found {SEE}"));
}

#[test]
fn who_names_nobody_is_told_all_the_ways_to_name_somebody() {
    refused(
        &["watch"],
        "expected whom to look at, got nobody: name --pid PID or --port PORT, on another machine --at HOST:PORT, or see what can be read with --list",
    );
    refused(
        &["load", "hold://127.0.0.1:7777", "-n", "100"],
        "-n cannot be used with hold URLs, got 'hold://127.0.0.1:7777': connections that are held send no count of requests, say with -d how long they are held",
    );
    refused(
        &["load", URL, "-H", "Transfer-Encoding: chunked"],
        "-H cannot be used with Transfer-Encoding: leave it out, the body is sent whole with its Content-Length",
    );
}

#[test]
fn files_without_an_end_are_cut_and_pipes_are_not_waited_for_in_silence() {
    let zeroes = "but '/dev/zero' has no length of its own, and more than the 67108864 that are read of such a one: name a smaller file";
    for (flag, most, value) in [("--body", 1u64 << 30, "@/dev/zero"), ("--ca", 16 << 20, "/dev/zero")] {
        let output = run(&["load", "--explain", flag, value, "https://127.0.0.1/"]);
        let said = match most > 64 << 20 {
            true => zeroes,
            false => "but '/dev/zero' has more: name a smaller file",
        };
        // Where so much takes a while, what is read is said in front of it.
        let heard = text(&output.stderr).lines().last().unwrap_or_default();
        assert_eq!(heard, format!("plimsoll: {flag}: expected at most {most} bytes, {said}"));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    }
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    let body = format!("@{fifo}");
    for arguments in
        [&["load", "--explain", "-b", &body, URL][..], &["load", "--urls", fifo], &["import", "vmstat", fifo]]
    {
        let mut child = plimsoll(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let said = format!("plimsoll: reading '{fifo}', a pipe: waiting for its writer to write all and close it\n");
        assert_eq!(line, said, "{arguments:?}");
    }
}

#[test]
fn a_socket_that_is_not_there_is_not_refused() {
    let output = run(&["load", "unix:/nonexistent.sock:/", "-d1", "-c2", "--no-record", "-q", "--give-up", "200ms"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("(no-socket × ") && said.ends_with("there is no socket at that path, check it\n"), "{said}");
}

#[test]
fn an_interrupted_run_says_so_whatever_the_target_did() {
    let refusing = testkit::port::Reserved::new().unwrap();
    let url = format!("http://{}/", refusing.address());
    let load = ["load", &url, "-d", "1h", "-c1", "--give-up", "never", "--no-record", "--no-observe"];
    let child = plimsoll(&load).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    testkit::wait_until("SIGINT is its own", || testkit::process::catches(child.id(), 2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("expected a connection to "), "{said}");
}

#[test]
fn urls_come_from_a_file_too() {
    let path = std::env::temp_dir().join(format!("plimsoll-urls-{}", std::process::id()));
    std::fs::write(&path, "# mix\n3 http://127.0.0.1/a\nhttp://[::1]/b\n").unwrap();
    let plan = explained(&["--urls", path.to_str().unwrap()], &[]);
    std::fs::write(&path, "http://127.0.0.1/a\nmany http://127.0.0.1/b\n").unwrap();
    let output = run(&["load", "--urls", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(plan["plan"]["origins"][0]["weight"], 3.0);
    assert_eq!(plan["plan"]["workload"]["requests"][1]["target"], "/b");
    let sentence = format!("--urls: {}, line 2: expected a weight above 0, got 'many'", path.display());
    check_refused(&output, 2, &sentence);
}

#[test]
fn a_full_disk_behind_stdout_is_a_failure_and_a_closed_pipe_is_none() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = plimsoll(&["man"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("plimsoll: expected to write the results to stdout, but"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = plimsoll(&["load", "--explain", URL]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn man_pages_and_completions_know_every_command() {
    let page = run(&["man"]);
    assert!(page.status.success() && text(&page.stdout).contains(".SH SUBCOMMANDS"));
    let dir = std::env::temp_dir().join(format!("plimsoll-man-{}", std::process::id()));
    assert!(run(&["man", "--dir", dir.to_str().unwrap()]).status.success());
    let load = std::fs::read_to_string(dir.join("plimsoll-load.1")).unwrap();
    let has_serve = dir.join("plimsoll-serve-http.1").exists();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(has_serve && load.contains("connect\\-timeout"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        assert!(script.status.success() && text(&script.stdout).contains("connect-timeout"), "{shell}");
    }
}

#[test]
fn a_server_says_where_it_listens_and_what_it_counted() {
    for (protocol, scheme, request) in [("http", "http://", "GET / HTTP/1.0\r\n\r\n"), ("echo", "echo://", "hello")] {
        let mut child =
            plimsoll(&["serve", protocol, "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").unwrap();
        let address = url.strip_prefix(scheme).unwrap().trim_end_matches('/');
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.") || reply == "hello", "{reply}");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let mut counters = String::new();
        lines.read_to_string(&mut counters).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(counters.lines().any(|l| l.split_whitespace().eq(["accepted", "1"])), "{counters}");
    }
}

#[test]
fn a_range_of_ports_is_listened_on_and_said_whole() {
    // An address nobody else listens on, so that the ports are free.
    let host = format!("127.{}.{}.9", 1 + std::process::id() % 250, 1 + std::process::id() / 250 % 250);
    let range = format!("{host}:9000-9004");
    for (protocol, request) in [("http", "GET / HTTP/1.0\r\n\r\n"), ("echo", "hello")] {
        let mut child = plimsoll(&["serve", protocol, "--listen", &range]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        for port in 9000..=9004 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let address = format!("{host}:{port}");
            assert_eq!(line.trim_end().trim_end_matches('/'), format!("listening on {protocol}://{address}"));
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 5]).unwrap() > 0, "{port}");
        }
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        assert!(child.wait().unwrap().success());
    }
    for (wrong, expected) in [
        ("127.0.0.1:9004-9000", "a range from a port of at least 1 up to a higher one"),
        ("[::1]:1-2000", "at most 1024 ports"),
    ] {
        refused(
            &["serve", "echo", "--listen", wrong],
            &format!(
                "invalid value '{wrong}' for '--listen <ADDR:PORT[-PORT]>': expected {expected} (see 'plimsoll serve echo --help')"
            ),
        );
    }
}

#[test]
fn a_server_by_io_uring_says_what_to_take_where_it_is_forbidden() {
    let mut command = plimsoll(&["serve", "echo", "--design", "uring", "--listen", "127.0.0.1:0"]);
    let output = testkit::seccomp::forbid_io_uring(&mut command).output().unwrap();
    let why = "it is forbidden here (kernel.io_uring_disabled, or a seccomp filter as containers have)";
    let sentence = format!("expected io_uring with direct descriptors, but {why}: use --design epoll-edge");
    check_refused(&output, 1, &sentence);
}

#[test]
fn a_taken_port_is_said_in_one_sentence() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = run(&["serve", "echo", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(&format!("plimsoll: expected {address} to be free, but")));
}
