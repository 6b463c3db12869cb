//! `check`, `fault` and `drop` as a user runs them. What they change, they change in a network namespace of the test's.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;

/// A namespace: a process that does nothing in a network of its own, which others join.
struct Network {
    holder: Guard,
}

impl Network {
    fn new() -> Option<Self> {
        if !testkit::is_root() || testkit::program("nsenter").is_none() {
            testkit::skip("a network namespace needs root and nsenter");
            return None;
        }
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Guard::spawn(testkit::network::of_its_own(&mut command)).unwrap();
        // It answers once it has left for its namespace.
        let child = holder.child();
        child.stdin.as_mut().unwrap().write_all(b"there\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "there\n");
        Some(Network { holder })
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.pid().to_string(), "-n", program]).args(args);
        command.env("LANG", "C.UTF-8").env_remove("NO_COLOR");
        command
    }

    fn plimsoll(&self, args: &[&str]) -> Run {
        finish(&mut self.command(BIN, args))
    }

    fn setting(&self, name: &str) -> String {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let text = finish(&mut self.command("cat", &[&path])).stdout;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let mut shell = self.command("sh", &["-c", &format!("echo '{value}' > {path}")]);
        finish(&mut shell).assert_exit(0);
    }
}

fn item<'a>(document: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    document["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap()
}

const RANGE: &str = "net.ipv4.ip_local_port_range";

#[test]
fn a_check_says_what_binds_and_its_status_follows() {
    let Some(network) = Network::new() else { return };
    network.set(RANGE, "40000 40099");
    let bound = network.plimsoll(&["check", "-c", "150", "--json", "http://[::1]:8080/"]);
    bound.assert_exit(3);
    let document = bound.json();
    assert_eq!((&document["schema"], &document["ready"]), (&"plimsoll.check/1".into(), &false.into()));
    assert_eq!(document["first_to_bind"], "local-ports");
    let ports = item(&document, "local-ports");
    assert_eq!((ports["value"].as_str(), ports["allows"].as_f64()), (Some("40000 40099"), Some(100.0)));
    assert_eq!(ports["commands"][0], "sysctl -w net.ipv4.ip_local_port_range='1024 65535'");
    assert_eq!(document["fixes"], serde_json::json!([]));
    // Spread over two source addresses it fits.
    let spread = network.plimsoll(&["check", "-c", "150", "--sources", "2", "--json", "http://[::1]:8080/"]);
    spread.assert_exit(0);
    assert_eq!(spread.json()["ready"], true);
    let text = network.plimsoll(&["check", "-c", "150", "http://[::1]:8080/"]);
    text.assert_exit(3);
    let first = text.stdout.lines().find(|line| line.starts_with("binds")).unwrap();
    assert_eq!(first, "binds      net.ipv4.ip_local_port_range  40000 40099");
    assert!(text.stdout.contains("100 connections to one target address and port"), "{}", text.stdout);
    assert_eq!(network.setting(RANGE), "40000 40099", "a check changes nothing");
}

#[test]
fn fix_changes_what_binds_and_undo_puts_it_back() {
    let Some(network) = Network::new() else { return };
    network.set(RANGE, "40000 40099");
    network.set("net.core.somaxconn", "64");
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let journal = journal.to_str().unwrap();
    let fix = |more: &[&str]| {
        let args = ["check", "-c", "150", "--json", "--fix", "--journal", journal];
        network.plimsoll(&[&args[..], more, &["http://[::1]:8080/"]].concat())
    };
    let outcomes = |run: &Run| -> Vec<String> {
        let of =
            |fix: &serde_json::Value| format!("{} {}", fix["name"].as_str().unwrap(), fix["outcome"].as_str().unwrap());
        // Settings of the whole machine may be tight on this one: they are nobody's to change here.
        let fixes = run.json()["fixes"].as_array().unwrap().iter().map(of).collect::<Vec<_>>();
        fixes.into_iter().filter(|fix| fix.starts_with(RANGE) || fix.contains("somaxconn")).collect()
    };
    let dry = fix(&["--dry-run"]);
    dry.assert_exit(3);
    assert_eq!(outcomes(&dry), [format!("{RANGE} would-apply"), "net.core.somaxconn would-apply".to_owned()]);
    assert_eq!((network.setting(RANGE), Path::new(journal).exists()), ("40000 40099".to_owned(), false));
    if dry.json()["fixes"].as_array().unwrap().len() != 2 {
        return testkit::skip("settings of this machine would be changed, too: not a test's to do");
    }

    let fixed = fix(&[]);
    fixed.assert_exit(0);
    assert_eq!(outcomes(&fixed), [format!("{RANGE} applied"), "net.core.somaxconn applied".to_owned()]);
    assert_eq!(fixed.json()["ready"], true, "what is shown is how it is now");
    assert_eq!((network.setting(RANGE), network.setting("net.core.somaxconn")), ("1024 65535".into(), "150".into()));
    let list = network.plimsoll(&["fault", "list", "--journal", journal]);
    list.assert_exit(0);
    assert_eq!(list.stdout.lines().count(), 2, "{}", list.stdout);
    assert!(list.stdout.contains(&format!("1  {RANGE}: 40000 40099 → 1024 65535  (")), "{}", list.stdout);

    // From another namespace it is not to be put back.
    let elsewhere = plimsoll(&["fault", "undo", "--journal", journal]);
    elsewhere.assert_exit(1);
    assert!(elsewhere.stderr.contains("nsenter -t ") && elsewhere.stdout.is_empty(), "{}", elsewhere.stderr);
    // Nor what somebody else has changed.
    network.set("net.core.somaxconn", "200");
    let left = network.plimsoll(&["fault", "undo", "--journal", journal]);
    left.assert_exit(1);
    assert_eq!(left.stdout, format!("{RANGE}: 1024 65535 → 40000 40099, as before\n"));
    assert!(left.stderr.contains("somebody has changed it to 200 since"), "{}", left.stderr);
    let forced = network.plimsoll(&["fault", "undo", "--force", "--journal", journal]);
    forced.assert_exit(0);
    assert_eq!((network.setting(RANGE), network.setting("net.core.somaxconn")), ("40000 40099".into(), "64".into()));
    let again = network.plimsoll(&["fault", "undo", "--journal", journal]);
    again.assert_exit(0);
    assert!(again.stdout.starts_with("nothing to undo"), "{}", again.stdout);
}

#[test]
fn fix_without_the_right_says_so_and_changes_nothing() {
    let Some(network) = Network::new() else { return };
    network.set(RANGE, "40000 40099");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
    let journal = folder.path().join("journal");
    let pid = network.holder.pid().to_string();
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid, "-n", "-S", "65534", "-G", "65534", BIN, "check", "-c", "150", "--fix"]);
    command.args(["--journal", journal.to_str().unwrap(), "--json", "http://[::1]:8080/"]).env("LANG", "C.UTF-8");
    let refused = finish(&mut command);
    refused.assert_exit(1);
    let sentence = format!("plimsoll: {RANGE}: expected the right to change it, but permission denied: run as root");
    assert!(refused.stderr.contains(&sentence), "{}", refused.stderr);
    assert_eq!(refused.json()["fixes"][0]["outcome"], "refused");
    assert_eq!(network.setting(RANGE), "40000 40099");
    // Where another user keeps a journal root does not look.
    let list = plimsoll(&["fault", "list", "--journal", journal.to_str().unwrap()]);
    list.assert_exit(2);
    let journal = std::fs::read_to_string(journal.join("journal.jsonl")).unwrap();
    assert_eq!(journal, "", "nothing is open");
}

#[test]
fn drop_says_how_many_of_how_many() {
    if !testkit::is_root() {
        return testkit::skip("dropping connections needs CAP_NET_ADMIN");
    }
    // The listener's port is this test's alone, and so are the connections to it; what waits there of somebody's who had the port before goes first.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    plimsoll(&["drop", "time-wait", "--yes", "--to", &to]);
    let mut pairs: Vec<_> = (0..3).map(|_| (TcpStream::connect(&to).unwrap(), listener.accept().unwrap().0)).collect();
    let refused = plimsoll(&["drop", "established", "--to", &to]);
    refused.assert_exit(2);
    assert!(refused.stderr.contains("expected --yes, or a terminal"), "{}", refused.stderr);
    let dropped = plimsoll(&["drop", "established", "--yes", "--to", &to]);
    if dropped.stderr.contains("EOPNOTSUPP") {
        return testkit::skip("this kernel has no INET_DIAG_DESTROY");
    }
    dropped.assert_exit(0);
    assert_eq!(dropped.stdout, format!("dropped 3 of 3 ESTABLISHED connections to {to}\n"));
    assert!(pairs.iter_mut().all(|(client, _)| client.read(&mut [0; 1]).is_err()));
    let none = plimsoll(&["drop", "time-wait", "--to", &to]);
    none.assert_exit(0);
    assert_eq!(none.stdout, format!("dropped 0 of 0 TIME_WAIT connections to {to}\n"));
}

#[test]
fn what_is_written_wrong_is_refused_in_one_sentence() {
    for (args, status, sentence) in [
        (&["drop", "time-wait", "--to", "nowhere"][..], 2, "--to: expected HOST:PORT such as 127.0.0.1:8080"),
        (&["drop", "time-wait"], 2, "the following required arguments were not provided: --to <HOST:PORT>"),
        (&["drop", "syn-sent", "--to", "h:1"], 2, "invalid value 'syn-sent'"),
        (&["drop", "time-wait", "--to", "no-such-host.invalid:1"], 1, "--to: expected 'no-such-host.invalid' to have"),
        (&["check", "-c", "0"], 2, "-c: expected 1 to 4000000 connections, got '0'"),
        (&["check", "--sources", "0"], 2, "--sources: expected 1 to 4000000 addresses, got '0'"),
        (&["check", "--dry-run"], 2, "--dry-run says what --fix would change"),
        (&["check", "gopher://h/"], 2, "URL 'gopher://h/': scheme 'gopher' is not spoken"),
        (&["fault"], 2, ""),
    ] {
        let run = plimsoll(args);
        run.assert_exit(status);
        assert!(run.stdout.is_empty());
        assert!(run.stderr.contains(sentence), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_journal_that_cannot_be_kept_means_that_nothing_is_changed() {
    let Some(network) = Network::new() else { return };
    network.set(RANGE, "40000 40099");
    let args = ["check", "-c", "150", "--fix", "--journal", "/proc/none", "http://[::1]:8080/"];
    let refused = network.plimsoll(&args);
    refused.assert_exit(1);
    assert!(refused.stderr.contains("expected a journal that can be kept in '/proc/none'"), "{}", refused.stderr);
    assert_eq!(network.setting(RANGE), "40000 40099");
}
