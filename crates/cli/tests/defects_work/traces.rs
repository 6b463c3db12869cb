//! A defect leaves no traces by which a real server could be told from it: no call that only it makes, no name.

use crate::common::serve;
use crate::readings::{self, Strace, connections};
use crate::subject::Subject;
use crate::work::asks;
use servers::defects::{DEFECTS, Server};
use std::collections::BTreeSet;
use std::fs::read_link;
use testkit::wait_until;

/// The names of the calls that the workers make for a few requests.
fn calls(defect: Option<&str>) -> Option<BTreeSet<String>> {
    let subject = Subject::start("http", 1, defect);
    let mut client = subject.connect();
    client.exchange();
    let strace = Strace::attach(subject.pid(), "all")?;
    (0..5).for_each(|_| client.exchange());
    let workers = subject.workers();
    let calls = strace.finish();
    let names = calls.iter().filter(|(tid, _)| workers.iter().any(|worker| worker.tid == *tid));
    Some(names.filter_map(|(_, call)| Some(call.split_once('(')?.0.to_owned())).collect())
}

#[test]
fn a_worker_that_computes_makes_the_calls_that_a_sound_one_makes() {
    let Some(sound) = calls(None) else { return };
    assert!(sound.contains("recvfrom"), "{sound:?}");
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    if clock.is_ok_and(|clock| !["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&clock.trim())) {
        testkit::skip("reading the clock is a system call with this clock source");
        return;
    }
    for defect in
        ["cpu-heavy=20ms", "single-thread=20ms", "global-lock=20ms", "blocked-loop=20ms:of=1", "head-of-line=20ms:of=1"]
    {
        let more: Vec<_> = calls(Some(defect)).unwrap().difference(&sound).cloned().collect();
        assert!(more.is_empty(), "{defect}: {more:?}");
    }
}

/// Every word of four letters or more that defects are named with; a number may stand anywhere.
fn words() -> BTreeSet<&'static str> {
    DEFECTS
        .iter()
        .flat_map(|defect| defect.name.split('-'))
        .filter(|word| word.len() >= 4 && !word.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// What is written about a process and its threads in `/proc`: names, and what descriptors are of.
fn names(pid: u32) -> Vec<String> {
    let mut names: Vec<_> = readings::tasks(pid).into_iter().map(|task| task.name).collect();
    for fd in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        names.extend(read_link(fd.unwrap().path()).map(|target| target.display().to_string()));
    }
    names
}

#[test]
fn nothing_is_named_after_a_defect() {
    let words = words();
    assert!(words.contains("reader") && words.contains("stop"), "{words:?}");
    for defect in DEFECTS {
        // The crash, which is over with its first request, has a thread when it comes at a moment.
        let asked = if defect.name == "crash" { "crash=0@1h" } else { defect.name };
        let server = if defect.servers.contains(&Server::Http) { Server::Http } else { defect.servers[0] };
        let mut args = vec!["serve", server.name(), "--listen", "127.0.0.1:0", "--workers", "2", "--defect", asked];
        if server == Server::Proxy {
            args.extend(["--origin", "http://127.0.0.1:9"]);
        }
        if defect.name.starts_with("tls-") {
            args.push("--tls");
        }
        let server = serve(&args);
        let address = server.url.split_once("://").unwrap().1.trim_end_matches('/');
        // Whatever the defect does to it: a request may stay without a reply.
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let _ = std::io::Write::write_all(&mut client, b"GET / HTTP/1.1\r\nHost: t\r\n\r\n");
        // What it has of this process, such as a file that the tests' output goes to, is not the server's to name.
        let inherited = names(std::process::id());
        let told: Vec<_> = names(server.process.pid())
            .into_iter()
            .filter(|name| !inherited.contains(name))
            .filter(|name| words.iter().any(|word| name.to_lowercase().contains(word)))
            .collect();
        assert!(told.is_empty(), "{asked}: {told:?}");
    }
}

/// Processes that have this descriptor open, such as `pipe:[12]`.
fn holders(of: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| read_link(fd.path()).ok()).any(|target| target.to_str() == Some(of))
    };
    pids.filter(has).collect()
}

/// The parent of a process; `None` once it is gone.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn kill(mut subject: Subject, signal: i32) {
    subject.process().signal(signal);
    assert!(subject.process().wait(testkit::HANG_GUARD).is_some());
}

#[test]
fn a_log_is_read_by_a_process_that_is_no_part_of_the_server_and_ends_with_it() {
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let subject = Subject::start("http", 1, Some("slow-log-reader=1h"));
        let mut client = subject.connect();
        client.exchange();
        let pid = subject.pid();
        let pipes: BTreeSet<_> = names(pid).into_iter().filter(|name| name.starts_with("pipe:")).collect();
        // The test's other servers may share the streams' pipes; a reader has, once it has begun, nothing but its own.
        let readers = || holders_beside(&pipes, pid).into_iter().filter(|holder| comm(*holder) == "daemon");
        wait_until("there is one reader", || readers().count() == 1);
        let Some(reader) = readers().next() else { panic!("it has ended") };
        assert_ne!(parent(reader), Some(pid));
        kill(subject, signal);
        wait_until("the reader has ended", || parent(reader).is_none());
    }
}

fn holders_beside(pipes: &BTreeSet<String>, pid: u32) -> BTreeSet<u32> {
    pipes.iter().flat_map(|pipe| holders(pipe)).filter(|holder| *holder != pid).collect()
}

fn comm(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn a_backend_is_a_process_that_is_no_part_of_the_server_and_ends_with_it() {
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let subject = Subject::start("http", 1, Some("slow-backend=1ms"));
        subject.connect().exchange();
        let pid = subject.pid();
        let port = asks(&subject)[0];
        let output = std::process::Command::new("ss").args(["-tlnpH", &format!("sport = :{port}")]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let backend = text.split_once("pid=").unwrap().1.split(',').next().unwrap().parse().unwrap();
        assert!(backend != pid && parent(backend) != Some(pid), "{text}");
        assert!(connections(backend).iter().all(|(here, _)| *here == port), "it holds sockets of the server's");
        kill(subject, signal);
        wait_until("the backend has ended", || parent(backend).is_none());
    }
}
