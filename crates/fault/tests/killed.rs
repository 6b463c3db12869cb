//! Every fault of the registry that can be undone is, whenever plimsoll is killed: at each step of doing it and of undoing it,
//! and at moments between two steps, while a change is half made.
//!
//! A row of [`ROWS`] says to whom of a scene that the test made its fault is done; one without a row fails the test. What any
//! fault may change is looked at after every kill and every undoing ([`Scene::seen`]), so one that leaves something of another's
//! kind is found, too. As root all of it is in namespaces of its own; what needs root or a program is skipped where that is missing.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]
#![allow(clippy::print_stdout, reason = "a worker speaks to its test by stdout, and the table is for people")]

mod common;
#[path = "common/helper.rs"]
mod helpers;
use common::*;
use fault::faults::{Nobody, Undoing};
use fault::{Asked, Begun, Deed, FAULTS, Journal, Outcome, undo};
use helpers::{help, helpers_are_this_test};
use rustix::net::sockopt::tcp_nodelay;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;
use testkit::process::Guard;

/// A fault, and what it is done to.
struct Row {
    fault: &'static str,
    /// Its arguments. TARGET, PORT, ADDRESS, FILE, DISK and LIMIT are those of the scene.
    to: &'static str,
    needs: &'static [&'static str],
    /// How many processes there are at the least before it is killed.
    processes: usize,
}

const fn row(fault: &'static str, to: &'static str, needs: &'static [&'static str]) -> Row {
    Row { fault, to, needs, processes: 0 }
}

impl Row {
    fn name(&self) -> String {
        format!("{} {}", self.fault, self.to)
    }

    const fn with_processes(self, processes: usize) -> Self {
        Row { processes, ..self }
    }
}

const ROOT: &str = "root";
/// Files of the test's own in the place of the machine's ([`FOLDERS`]): guests have none, and others' are not touched.
const OWN_FILES: &str = "files of its own in the place of the machine's";
const MACHINE: &[&str] = &[ROOT, OWN_FILES];
const RULES: &[&str] = &[ROOT, "nft"];
const QUEUE: &[&str] = &[ROOT, "nft", "iptables"];

const ROWS: &[Row] = &[
    row("stop", "TARGET", &[]),
    row("descriptors", "TARGET 33", &[]),
    row("nice", "TARGET 7", &[]),
    row("backlog", "TARGET 33", &[ROOT, "ss"]),
    row("nodelay", "TARGET on", &[ROOT]),
    row("affinity", "TARGET 0", &[]),
    row("cpu-limit", "TARGET 0.5", &[ROOT]),
    row("cpu-limit", "LIMIT 50000", &[ROOT]),
    row("cpuset", "TARGET 0", &[ROOT]),
    row("memory-limit", "TARGET 64MiB", &[ROOT]),
    row("pids-limit", "TARGET 50", &[ROOT]),
    row("io-limit", "TARGET / write 1MiB/s", &[ROOT]),
    // It, and somebody whom it started.
    row("stress", "cpu 1 hdd 1 hdd-bytes 4M timeout 60s", &["stress-ng"]).with_processes(2),
    row("port-refused", "PORT", RULES),
    row("port-reset", "PORT", RULES),
    row("port-dropped", "PORT", RULES),
    row("loss", "PORT 20%", RULES),
    row("port-delay", "PORT 30ms jitter 5ms", QUEUE),
    row("port-rate", "PORT 1MiB/s", QUEUE),
    row("port-reorder", "PORT 5%", QUEUE),
    row("port-duplicate", "PORT 5%", QUEUE),
    row("port-corrupt", "PORT 5%", QUEUE),
    row("port-answer", "PORT 503 after 5ms", RULES),
    row("slow-readers", "ADDRESS 5 1KiB/s", &[]),
    row("slow-writers", "ADDRESS 5", &[]),
    row("silent-connections", "ADDRESS 5", &[]),
    row("connection-flood", "ADDRESS 50/s", &[]),
    row("syn-flood", "PORT 50/s", RULES),
    row("disk-full", "DISK", &[ROOT]),
    row("governor", "performance", MACHINE),
    row("turbo", "off", MACHINE),
    row("interrupts", "0", MACHINE),
    row("sysctl", "net.core.somaxconn 777", &[ROOT]),
    row("command", "'echo on > FILE' 'echo off > FILE'", &[]),
];

/// Folders of the machine that files are put in the place of, with what is in these.
const FOLDERS: [(&str, &[(&str, &str)]); 2] = [
    (
        "/sys/devices/system/cpu/cpufreq",
        &[("policy0/scaling_governor", "powersave"), ("policy2/scaling_governor", "schedutil"), ("boost", "1")],
    ),
    ("/proc/irq", &[("24/smp_affinity_list", "0-1"), ("25/smp_affinity_list", "1")]),
];

/// Where the steps of a change are, in this order.
const STEPS: [&str; 4] = ["Permitted", "Journalled", "Changed", "Marked"];
/// And of each that is undone.
const STEPS_BACK: [&str; 2] = ["PutBack", "Closed"];
/// At which parts of the time from a change's entry in the journal to its end it is killed in between.
const BETWEEN: [f64; 3] = [0.2, 0.5, 0.8];
/// What a worker is asked that is no fault.
const UNDO: &str = "undo";
/// How the names of programs begin that a fault calls and waits for.
const CALLED: [&str; 4] = ["sh", "nft", "iptables", "xtables"];
/// The rows are tried in so many processes beside each other, each in namespaces of its own: most of the time is waiting.
const PARTS: usize = 4;
/// Which of them a process is.
const PART: &str = "FAULT_TEST_PART";
/// By this variable processes that a worker has left are known: it has the scene's folder.
const SCENE: &str = "FAULT_TEST_SCENE";
/// A part of what a fault's own folders, files and groups are named.
const NAME: &str = "plimsoll-fault-";

#[test]
fn helper() {
    help();
}

/// `FOLDER STOP FAULT…`: does it, or undoes what the journal there has, says each step, and waits for ever at the one of this
/// number, or the first of this name.
#[test]
fn worker() {
    let Some(words) = work() else { return };
    let (folder, stop, text) = (Path::new(&words[0]), words[1].clone(), words[2..].join(" "));
    let mut said = 0;
    let mut watch = stopped_when(move |step| {
        said += 1;
        stop == (said - 1).to_string() || stop == format!("{step:?}")
    });
    if text == UNDO {
        undo(&mut Journal::open(folder).unwrap(), false, &mut watch).unwrap();
        return;
    }
    helpers_are_this_test();
    let asked = Asked::parse(&text).unwrap();
    match asked.plan(&Nobody).and_then(|deeds| {
        let is_so = deeds.iter().all(Deed::is_so);
        Ok((Begun::make(folder, deeds, &mut watch)?, is_so))
    }) {
        Ok((_, true)) => println!("refused: it is so on this machine without it"),
        Ok((begun, false)) => begun.leave(),
        Err(error) => println!("refused: {error}"),
    }
}

/// Whom and what a row's fault is done to, made for it and gone with it.
struct Scene {
    target: Guard,
    /// The target's, too.
    listener: TcpListener,
    server: SocketAddr,
    folder: TempDir,
    disk: Option<PathBuf>,
    /// The file of the limit of a control group.
    limit: Option<PathBuf>,
    mounted: Vec<PathBuf>,
    /// Files in the place of the machine's.
    files: Vec<String>,
}

impl Scene {
    fn new(row: &Row, server: SocketAddr) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let held = Stdio::from(OwnedFd::from(listener.try_clone().unwrap()));
        let target = Guard::spawn(Command::new("sleep").arg("600").stdin(held).stdout(Stdio::null())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "off\n").unwrap();
        for name in ["temporary", "disk", "journals"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (mounted, files) = (Vec::new(), Vec::new());
        let mut scene = Scene { target, listener, server, folder, disk: None, limit: None, mounted, files };
        if row.to.contains("DISK") {
            let disk = scene.folder.path().join("disk");
            scene.mount(&disk)?;
            scene.disk = Some(disk);
        }
        if row.needs.contains(&OWN_FILES) {
            for (folder, files) in FOLDERS {
                scene.mount(Path::new(folder))?;
                for (name, text) in files {
                    let file = Path::new(folder).join(name);
                    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                    std::fs::write(file, format!("{text}\n")).unwrap();
                    scene.files.push(format!("{folder}/{name}"));
                }
            }
        }
        if row.to.contains("LIMIT") {
            let name = format!("plimsoll-test-{}", scene.target.pid());
            let groups = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(|root| Path::new(root).join(&name));
            let group = groups.into_iter().find(|group| std::fs::create_dir(group).is_ok());
            let group = group.ok_or("no control group can be made")?;
            let file =
                ["cpu.cfs_quota_us", "cpu.max"].map(|name| group.join(name)).into_iter().find(|file| file.exists());
            scene.limit = Some(file.unwrap_or_else(|| group.join("none")));
        }
        Ok(scene)
    }

    /// A small file system there, in this mount namespace alone.
    fn mount(&mut self, folder: &Path) -> Result<(), String> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(folder).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            return Err(format!("a file system of its own cannot be mounted on {}", folder.display()));
        }
        self.mounted.push(folder.to_owned());
        Ok(())
    }

    /// The fault as it is written.
    fn text(&self, row: &Row) -> String {
        let path = |path: &Option<PathBuf>| path.as_ref().map_or(String::new(), |path| path.display().to_string());
        let words = [
            ("TARGET", self.target.pid().to_string()),
            ("ADDRESS", self.server.to_string()),
            ("PORT", self.server.port().to_string()),
            ("FILE", self.folder.path().join("file").display().to_string()),
            ("DISK", path(&self.disk)),
            ("LIMIT", path(&self.limit)),
        ];
        let to = words.iter().fold(row.to.to_owned(), |to, (word, is)| to.replace(word, is));
        format!("{} {to}", row.fault)
    }

    /// A new folder for a journal. They stay until the scene goes, which undoes what a test that failed has left.
    fn journal(&self) -> PathBuf {
        let all = self.folder.path().join("journals");
        let folder = all.join(names(&all).len().to_string());
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    fn worker(&self, journal: &Path, stop: &str, text: &str) -> Worker {
        Worker::start_as(&[&journal.display().to_string(), stop, text], |command| {
            command.env(SCENE, self.folder.path()).env("TMPDIR", self.folder.path().join("temporary"));
        })
    }

    /// All that any fault may change, as it is now, a line each.
    fn seen(&self) -> Vec<String> {
        let read = |file: String| std::fs::read_to_string(file).unwrap();
        let of = |file: &str| read(format!("/proc/{}/{file}", self.target.pid()));
        let line = |text: String, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let stat = of("stat").rsplit_once(") ").unwrap().1.to_owned();
        let stat: Vec<&str> = stat.split(' ').collect();
        let limit = self.limit.as_ref().filter(|file| file.exists());
        let network = |name: &str| read(format!("/proc/self/net/{name}"));
        vec![
            format!("the target is {}", if stat[0] == "T" { "stopped" } else { "running" }),
            format!("its niceness is {}", stat[16]),
            line(of("limits"), "Max open files"),
            format!("its socket's connections have no delay: {}", tcp_nodelay(&self.listener).unwrap()),
            format!("its socket is {}", self.listed()),
            line(of("status"), "Cpus_allowed_list"),
            format!("its groups are {}", of("cgroup").replace('\n', " ")),
            format!("the group's limit is {}", limit.map_or(String::new(), |file| read(file.display().to_string()))),
            format!("{} processes of faults", self.processes().len()),
            format!("files of faults: {:?}", names(&self.folder.path().join("temporary"))),
            format!("{} connections", self.connections(&(network("tcp") + &network("tcp6")))),
            format!("the rules are {}", if is_inside() { ruleset() } else { String::new() }),
            format!("on the disk are {:?}", self.disk.as_ref().map(|disk| (names(disk), free_bytes(disk)))),
            format!(
                "the machine's files say {:?}",
                self.files.iter().map(|file| read(file.clone())).collect::<Vec<_>>()
            ),
            format!("net.core.somaxconn is {}", read("/proc/sys/net/core/somaxconn".to_owned())),
            format!("the command's file says {}", read(self.folder.path().join("file").display().to_string())),
        ]
    }

    /// The target's socket in the kernel's list, where ss(8) shows it: with how many may wait.
    fn listed(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        let listed = Command::new("ss").args(["-Htln", &format!("sport = :{port}")]).output();
        listed.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Processes that workers have left.
    fn processes(&self) -> Vec<u32> {
        let mark = format!("{SCENE}={}", self.folder.path().display());
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let is_one = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|b| *b == 0).any(|entry| entry == mark.as_bytes())
        };
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_one).collect()
    }

    /// Whether a program runs that a worker had called and waited for when it was killed.
    fn is_waited_for(&self) -> bool {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.processes().iter().map(name).any(|name| CALLED.iter().any(|called| name.trim().starts_with(called)))
    }

    /// Ends of connections to the server that somebody holds (net/tcp_states.h: established, and closed by the peer alone).
    fn connections(&self, table: &str) -> usize {
        let port = format!(":{:04X}", self.server.port());
        let is_one = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().take(4).collect();
            matches!(words[..], [_, from, to, "01" | "08"] if from.ends_with(&port) || to.ends_with(&port))
        };
        table.lines().filter(is_one).count()
    }

    /// Whether the server answers through the port.
    fn is_served(&self) -> bool {
        let said = TcpStream::connect(self.server).and_then(|mut connection| {
            connection.set_read_timeout(Some(testkit::HANG_GUARD))?;
            connection.write_all(b"ahoy")?;
            let mut said = [0; 4];
            connection.read_exact(&mut said).map(|()| said)
        });
        said.is_ok_and(|said| &said == b"ahoy")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let journals = self.folder.path().join("journals");
        for name in names(&journals) {
            let _ = Journal::open(&journals.join(name)).map(|mut journal| undo(&mut journal, true, &mut |_| {}));
        }
        for folder in &self.mounted {
            let _ = Command::new("umount").arg(folder).status();
        }
        if let Some(group) = self.limit.as_ref().and_then(|file| file.parent()) {
            let _ = std::fs::remove_dir(group);
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap().flatten();
    all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn free_bytes(folder: &Path) -> u64 {
    let of = rustix::fs::statvfs(folder).unwrap();
    of.f_bfree * of.f_frsize
}

/// All rules and tables of this namespace, where there is a program that lists them.
fn ruleset() -> String {
    let output = Command::new("nft").args(["list", "ruleset"]).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why a row cannot be tried here.
fn missing(needs: &[&str]) -> Option<String> {
    needs.iter().find_map(|need| match *need {
        ROOT if testkit::is_root() => None,
        ROOT => Some("it needs root".to_owned()),
        // Whether they can be had is seen when they are made.
        OWN_FILES => None,
        program if testkit::program(program).is_some() => None,
        program => Some(format!("{program} is not installed")),
    })
}

/// How often a fault was killed and undone.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    /// At steps.
    steps: usize,
    /// So many there are.
    of_steps: usize,
    /// Between two of them.
    between: usize,
}

/// What came of a row: how far it came, and why no further.
enum Came {
    Skipped(String),
    Tried { times: Times, failed: Option<String> },
}

fn tried(row: &Row, server: SocketAddr) -> Came {
    if let Some(why) = missing(row.needs) {
        return Came::Skipped(why);
    }
    let scene = match Scene::new(row, server) {
        Ok(scene) => scene,
        Err(why) => return Came::Skipped(why),
    };
    let mut times = Times::default();
    match catch_unwind(AssertUnwindSafe(|| killed(row, &scene, &mut times))) {
        Ok(Some(why)) => Came::Skipped(why),
        Ok(None) => Came::Tried { times, failed: None },
        Err(why) => {
            let text = why.downcast_ref::<String>().cloned();
            let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Came::Tried { times, failed: Some(text.unwrap_or_default()) }
        }
    }
}

/// Kills it at every step and between, and looks that all is as before once it is undone. Why it cannot be done here; `None`:
/// it was.
fn killed(row: &Row, scene: &Scene, times: &mut Times) -> Option<String> {
    let text = scene.text(row);
    let before = scene.seen();
    assert!(scene.is_served(), "{text}: nobody answers at the port before");
    let is_as_before = |when: &str| {
        testkit::wait_until(&format!("'{text}', {when}: as before ({before:#?})"), || scene.seen() == before);
    };

    // Done to its end, and left as it is: these are its steps.
    let folder = scene.journal();
    let mut worker = scene.worker(&folder, "never", &text);
    let mut said = Vec::new();
    // From each entry in the journal to the end of its change.
    let mut took = Vec::new();
    loop {
        said.extend(worker.lines_until("Journalled"));
        if !said.last().is_some_and(|line| line.contains("Journalled")) {
            break;
        }
        let began = Instant::now();
        said.extend(worker.lines_until("Changed"));
        took.push(began.elapsed());
    }
    if let Some((_, why)) = said.iter().find_map(|line| line.split_once("refused: ")) {
        return Some(why.to_owned());
    }
    assert!(said.iter().any(|line| line.contains("ok. 1 passed")), "'{text}': {said:#?}");
    let steps = steps_in(&said);
    let entries = Journal::list(&folder).unwrap().len();
    assert!(entries > 0 && steps.starts_with(&STEPS), "'{text}' lasts, and is journalled first: {steps:?}");
    let is_made = |when: &str| {
        let is_seen = || scene.seen() != before && scene.processes().len() >= row.processes;
        testkit::wait_until(&format!("'{text}', {when}: it is seen"), is_seen);
    };
    is_made("done");
    assert_eq!(took.len(), entries, "'{text}'");
    times.of_steps = steps.len() + STEPS_BACK.len() * entries;

    // The undoing of it is killed at each step, one after the other, and goes on where it was killed.
    for (at, step) in (0..entries).flat_map(|_| STEPS_BACK).enumerate() {
        let mut worker = scene.worker(&folder, step, UNDO);
        assert!(worker.says("stopped"), "'{text}': step {at} of undoing it is {step}");
        worker.kill();
        times.steps += 1;
    }
    is_as_before("its undoing killed at every step");
    assert_eq!(Journal::list(&folder).unwrap(), [], "'{text}'");

    for (stop, step) in steps.iter().enumerate() {
        let folder = scene.journal();
        let when = format!("killed at step {stop}, {step}");
        let mut worker = scene.worker(&folder, &stop.to_string(), &text);
        let said = worker.lines_until("stopped");
        assert!(said.last().is_some_and(|line| line.contains("stopped")), "'{text}', {when}: {said:#?}");
        worker.kill();
        let said = steps_in(&said);
        assert_eq!(said, steps[..=stop], "'{text}', {when}");
        match said.contains(&"Changed") {
            true => is_made(&when),
            false => is_as_before(&when),
        }
        let journalled = said.iter().filter(|step| **step == "Journalled").count();
        assert_eq!(Journal::list(&folder).unwrap().len(), journalled, "'{text}', {when}: in the journal");
        let is_put_back = undone(&folder, &format!("'{text}', {when}"));
        assert!(is_put_back || !said.contains(&"Changed"), "'{text}', {when}: nothing was put back");
        is_as_before(&format!("{when}, and undone"));
        assert!(scene.is_served(), "'{text}', {when}: nobody answers at the port after");
        times.steps += 1;
    }

    // The kernel takes a value whole, where a file is emptied first: there is no between in what these stand for.
    let took = if row.needs.contains(&OWN_FILES) { Vec::new() } else { took };
    for (at, took) in took.iter().enumerate() {
        for part in BETWEEN {
            let folder = scene.journal();
            let when = format!("killed in its change {at}, after {part} of {took:?}");
            let mut worker = scene.worker(&folder, "never", &text);
            for _ in 0..=at {
                assert!(worker.says("Journalled"), "'{text}', {when}");
            }
            std::thread::sleep(took.mul_f64(part));
            worker.kill();
            testkit::wait_until("programs that it had called end", || !scene.is_waited_for());
            undone(&folder, &format!("'{text}', {when}"));
            is_as_before(&format!("{when}, and undone"));
            assert!(scene.is_served(), "'{text}', {when}: nobody answers at the port after");
            times.between += 1;
        }
    }
    is_as_before("at the end");
    None
}

/// Undoes all that the journal has, and looks that nothing stays open and that no group is left. Whether anything was put back.
fn undone(folder: &Path, when: &str) -> bool {
    let mut journal = Journal::open(folder).unwrap();
    let made: Vec<String> = journal.entries().iter().map(|entry| entry.what.after()).collect();
    let outcomes = undo(&mut journal, false, &mut |_| {}).unwrap();
    assert!(outcomes.iter().all(|one| one.outcome.is_closed()), "{when}: {outcomes:?}");
    assert_eq!(journal.entries(), [], "{when}");
    for group in made.iter().filter_map(|text| text.split(' ').find(|word| word.contains(NAME))) {
        assert!(!Path::new(group).exists(), "{when}: {group} is left");
    }
    outcomes.iter().any(|one| matches!(one.outcome, Outcome::PutBack))
}

/// The steps that a worker has said.
fn steps_in(said: &[String]) -> Vec<&'static str> {
    let last = said.iter().filter_map(|line| line.rsplit(' ').next());
    last.filter_map(|word| STEPS.into_iter().find(|step| *step == word)).collect()
}

#[test]
fn every_fault_that_can_be_undone_has_a_row() {
    for kind in FAULTS {
        let has_row = ROWS.iter().any(|row| row.fault == kind.name);
        let (can_be, why) = match kind.undone {
            Undoing::Back(_) => (true, String::new()),
            Undoing::SecondHalf(why) => (false, format!("undone in part: {why}")),
            Undoing::Never(why) => (false, format!("cannot be undone: {why}")),
        };
        assert_eq!(
            has_row, can_be,
            "{}: what is put back after kill -9 has a row in ROWS of this file, and nothing else has",
            kind.name
        );
        if !can_be {
            println!("{}: {why}", kind.name);
        }
    }
    for row in ROWS {
        assert!(FAULTS.iter().any(|kind| kind.name == row.fault), "{} is no fault", row.fault);
    }
}

#[test]
fn every_fault_is_undone_whenever_it_is_killed() {
    let part = std::env::var(PART).ok().and_then(|part| part.parse().ok());
    if part.is_some() || !testkit::is_root() {
        return all_of(part);
    }
    if testkit::program("unshare").is_none() {
        return testkit::skip("namespaces need unshare(1)");
    }
    let run =
        |part: usize| run_inside_with_mounts("every_fault_is_undone_whenever_it_is_killed", (PART, &part.to_string()));
    let parts: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..PARTS).map(|part| scope.spawn(move || run(part))).collect();
        running.into_iter().map(|run| run.join()).collect()
    });
    let said: Vec<&str> = parts.iter().flatten().flat_map(|text| text.lines()).collect();
    for row in ROWS {
        said.iter().filter(|line| line.contains(&format!("{}: ", row.name()))).for_each(|line| println!("{line}"));
    }
    // What the others of those that failed say stands where they panicked.
    if let Some(failed) = parts.into_iter().find_map(Result::err) {
        resume_unwind(failed);
    }
}

/// A line for each row of a part, or of all; fails where a fault was not undone.
fn all_of(part: Option<usize>) {
    let server = echo();
    let mut failed = Vec::new();
    println!();
    for (_, row) in ROWS.iter().enumerate().filter(|(at, _)| part.is_none_or(|part| at % PARTS == part)) {
        let name = row.name();
        match tried(row, server) {
            // Of the machine, and nothing that could be installed: its files are on no disk.
            Came::Skipped(why) if why.contains("a file system on a disk") => println!("skipped: {name}: {why}"),
            Came::Skipped(why) => testkit::skip(&format!("{name}: {why}")),
            Came::Tried { times: Times { steps, of_steps, between }, failed: why } => {
                println!("{name}: undone after kill -9 at {steps} of {of_steps} steps, and {between} times between");
                failed.extend(why);
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
