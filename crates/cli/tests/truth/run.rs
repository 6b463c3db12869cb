//! A run of a case: servers started, load put on, readings taken that prove the cause, all ended again.
//!
//! Ctrl-C (or SIGTERM) ends a run at once and leaves no server behind: everything waits in short steps and looks whether it was
//! asked to end, and what was started ends when it is dropped, or by the kernel's doing should the test be killed.

use crate::case::{Beside, Case, Drawn, Visible};
use crate::common::BIN;
use crate::results::Outcome;
use serde_json::Value;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use testkit::family::Family;
use testkit::network::{of_its_own, of_process};

/// So often the readings of the proofs are taken.
const READ_EVERY: Duration = Duration::from_millis(500);
/// So often is looked whether something has ended.
const STEP: Duration = Duration::from_millis(20);
/// How long the closed load is on that finds a limit.
const LIMIT_S: f64 = 3.0;

/// Why a run came to nothing.
#[derive(Debug)]
pub enum Broken {
    /// Somebody wants it to end.
    Interrupted,
    /// What was to be started was not, or gave no report.
    Failed(String),
}

/// From now on SIGINT and SIGTERM are wishes, and [`is_interrupted`] tells them.
pub fn listen_for_interrupts() {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag.clone()).unwrap();
    }
}

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether the series is to end.
pub fn is_interrupted() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// The program that is tested, by size and time: another build is another program.
pub fn program() -> String {
    let meta = std::fs::metadata(BIN).unwrap();
    let since = meta.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{} bytes of {}", meta.len(), since.as_millis())
}

/// The folder of a run, and what stands for what in its texts.
struct Room {
    folder: tempfile::TempDir,
    values: Vec<(String, String)>,
    /// Who keeps the network that all is in, where it has one of its own.
    network: Option<Family>,
}

impl Room {
    fn new(case: &Case, drawn: &Drawn) -> Self {
        // On a disk: a log in memory waits for nothing.
        let folder = tempfile::Builder::new().prefix("truth").tempdir_in("/var/tmp").unwrap();
        // A server that gives up its rights must read its files.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut values: Vec<(String, String)> = ["port", "port1", "port2", "port3", "port4"]
            .map(|name| (name.to_owned(), testkit::nginx::free_address().unwrap().port().to_string()))
            .into();
        values.push(("dir".to_owned(), folder.path().to_str().unwrap().to_owned()));
        values.push(("plimsoll".to_owned(), BIN.to_owned()));
        values.extend(drawn.values.iter().map(|(name, value)| (name.clone(), value.to_string())));
        values.push(("truth".to_owned(), testkit::workspace().join("truth").to_str().unwrap().to_owned()));
        let network =
            case.own_network.then(|| Family::spawn(of_its_own(Command::new("sleep").arg("infinity"))).unwrap());
        let room = Room { folder, values, network };
        for (name, text) in &case.files {
            std::fs::write(room.folder.path().join(name), room.filled(text)).unwrap();
        }
        room
    }

    fn filled(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn value(&self, name: &str) -> &str {
        &self.values.iter().find(|(known, _)| known == name).unwrap().1
    }

    fn log(&self) -> File {
        File::options().append(true).create(true).open(self.folder.path().join("started.log")).unwrap()
    }

    fn command(&self, words: impl IntoIterator<Item = String>) -> Command {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).current_dir(self.folder.path()).env("TMPDIR", "/var/tmp").stdin(Stdio::null());
        command.stdout(self.log()).stderr(self.log());
        self.placed(&mut command);
        command
    }

    /// Lets a command run in the run's network.
    fn placed(&self, command: &mut Command) {
        if let Some(network) = &self.network {
            of_process(command, network.pid()).unwrap();
        }
    }

    /// Whether somebody listens at the target's port.
    fn is_up(&self) -> bool {
        let port = self.value("port");
        match &self.network {
            Some(_) => {
                let words = ["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")].map(str::to_owned);
                self.command(words).status().is_ok_and(|ended| ended.success())
            }
            None => TcpStream::connect(format!("127.0.0.1:{port}")).is_ok(),
        }
    }

    fn spawn(&self, words: impl IntoIterator<Item = String>) -> Result<Family, Broken> {
        let mut command = self.command(words);
        Family::spawn(&mut command).map_err(|error| Broken::Failed(format!("{command:?}: {error}")))
    }

    fn shell(&self, text: &str) -> Command {
        self.command(["bash".to_owned(), "-c".to_owned(), self.filled(text)])
    }

    /// Runs a command of a shell to its end.
    fn prepare(&self, text: &str) -> Result<(), Broken> {
        let mut started = Family::spawn(&mut self.shell(text)).unwrap();
        let ended = self.until("it ends", || started.child().try_wait().unwrap())?;
        if ended.success() { Ok(()) } else { Err(self.failed(&format!("'{text}' ended with {ended}"))) }
    }

    fn failed(&self, what: &str) -> Broken {
        let log = std::fs::read_to_string(self.folder.path().join("started.log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        Broken::Failed(format!("{what}; the last lines of what was started, newest first: {last:#?}"))
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, Broken> {
        let start = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if is_interrupted() {
                return Err(Broken::Interrupted);
            }
            if start.elapsed() > testkit::HANG_GUARD {
                return Err(self.failed(&format!("waited in vain: {what}")));
            }
            std::thread::sleep(STEP);
        }
    }

    fn start_beside(&self, beside: &Beside) -> Result<Family, Broken> {
        let started = self.spawn(beside.command.iter().map(|word| self.filled(word)))?;
        if let Some(ready) = &beside.ready {
            self.until(ready, || self.shell(ready).status().is_ok_and(|ended| ended.success()).then_some(()))?;
        }
        beside.prepare.iter().try_for_each(|text| self.prepare(text))?;
        Ok(started)
    }
}

/// Runs a case with what a seed draws; the recording is called `record` then, in [`crate::results::folder`].
pub fn run(case: &Case, number: usize, seed: u64, record: &str) -> Result<Outcome, Broken> {
    let drawn = case.draw(seed);
    let mut room = Room::new(case, &drawn);
    case.prepare.iter().try_for_each(|text| room.prepare(text))?;
    // In the order of the file; dropped, and so ended, behind the target, which is declared last.
    let mut besides = Vec::new();
    for beside in case.beside.iter().filter(|beside| beside.from.is_none()) {
        besides.push(room.start_beside(beside)?);
    }
    let mut target = start_target(case, &drawn, &room)?;
    room.values.push(("pid".to_owned(), target.pid().to_string()));
    let is_up = || room.is_up().then_some(Ok(()));
    room.until("the target listens", || {
        let ended = target.child().try_wait().unwrap().map(|ended| Err(room.failed(&format!("the target {ended}"))));
        ended.or_else(is_up)
    })??;
    let mut load: Vec<String> = case.load.iter().map(|word| room.filled(word)).collect();
    if let Some(share) = case.rate_of_limit {
        let report = put_load(case, &room, &load, LIMIT_S, None, &mut Vec::new())?;
        let limit_per_s = report["achieved"]["rate_per_s"].as_f64().unwrap_or(0.0);
        load.extend(["--rate".to_owned(), format!("{}/s", (limit_per_s * share).max(1.0).round())]);
    }
    let mut proofs = Proofs::of(case);
    let seconds = case.load_s(&drawn);
    let report = {
        let mut watch = |at: Duration| -> Result<(), Broken> {
            proofs.read(&room, at);
            let due = |from: f64| at.as_secs_f64() >= from * seconds;
            let late = case.beside.iter().filter(|beside| beside.from.is_some_and(due));
            let begun = besides.len() - case.beside.iter().filter(|beside| beside.from.is_none()).count();
            for beside in late.skip(begun) {
                besides.push(room.start_beside(beside)?);
            }
            Ok(())
        };
        put_load(case, &room, &load, seconds, Some(record), &mut vec![&mut watch])?
    };
    let mut outcome = Outcome::of(case, number, drawn, &report);
    outcome.crowded = crowded();
    outcome.unproved = proofs.missing();
    outcome.invisible = case.visible.as_ref().map_or(Vec::new(), |visible| visible.missing(&report));
    Ok(outcome)
}

fn start_target(case: &Case, drawn: &Drawn, room: &Room) -> Result<Family, Broken> {
    let words: Vec<String> = match (case.serve_words(drawn), &case.command) {
        (Some(serve), _) => {
            let listen = ["--listen".to_owned(), format!("127.0.0.1:{}", room.value("port"))];
            [BIN.to_owned(), "serve".to_owned()].into_iter().chain(serve).chain(listen).collect()
        }
        (None, Some(command)) => command.clone(),
        (None, None) => return Err(Broken::Failed(format!("{}: no target", case.name))),
    };
    room.spawn(words.iter().map(|word| room.filled(word)))
}

/// What is done meanwhile, with the time since the load's start.
type Meanwhile<'a> = &'a mut dyn FnMut(Duration) -> Result<(), Broken>;

/// Puts load on and reads the report.
fn put_load(
    case: &Case,
    room: &Room,
    load: &[String],
    seconds: f64,
    record: Option<&str>,
    meanwhile: &mut Vec<Meanwhile<'_>>,
) -> Result<Value, Broken> {
    let (out, errors) = (room.folder.path().join("report.json"), room.folder.path().join("load.log"));
    let mut command = Command::new(BIN);
    command.args(["load", &room.filled(&case.url), "-d", &format!("{seconds}s"), "--observe", &case.observe, "--json"]);
    // A recording has the command line: nobody's folders are to be in it.
    command.arg0("plimsoll").current_dir(crate::results::folder());
    match record {
        Some(name) => command.args(["--record", name]),
        None => command.arg("--no-record"),
    };
    command.args(load).env("LANG", "C.UTF-8").stdin(Stdio::null());
    crate::common::without_those_of_tests(&mut command);
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&errors).unwrap());
    room.placed(&mut command);
    let mut running = Family::spawn(&mut command).unwrap();
    let start = Instant::now();
    let ended = loop {
        if let Some(ended) = running.child().try_wait().unwrap() {
            break ended;
        }
        if is_interrupted() {
            return Err(Broken::Interrupted);
        }
        if start.elapsed().as_secs_f64() > seconds + testkit::HANG_GUARD.as_secs_f64() {
            return Err(Broken::Failed(format!("the load did not end: {command:?}")));
        }
        for action in meanwhile.iter_mut() {
            action(start.elapsed())?;
        }
        std::thread::sleep(STEP);
    };
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        Broken::Failed(format!("{command:?} ended with {ended} and no report ({error}): {said}"))
    })
}

/// The proofs of a run, and their readings so far.
struct Proofs<'a> {
    case: &'a Case,
    readings: Vec<Vec<f64>>,
    next: Duration,
}

impl<'a> Proofs<'a> {
    fn of(case: &'a Case) -> Self {
        Proofs { case, readings: vec![Vec::new(); case.proof.len()], next: Duration::ZERO }
    }

    fn read(&mut self, room: &Room, at: Duration) {
        if at < self.next {
            return;
        }
        self.next = at + READ_EVERY;
        for (proof, readings) in self.case.proof.iter().zip(&mut self.readings) {
            let Ok(output) = room.shell(&proof.reads).stdout(Stdio::piped()).output() else { continue };
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            readings.extend(text.split_whitespace().last().and_then(|word| word.parse::<f64>().ok()));
        }
    }

    fn missing(&self) -> Vec<String> {
        let proofs = self.case.proof.iter().zip(&self.readings);
        let says = proofs.filter_map(|(proof, readings)| {
            let (first, last) = (readings.first().copied(), readings.last().copied());
            let grown = first.zip(last).map_or(f64::NEG_INFINITY, |(first, last)| last - first);
            let most = readings.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let holds = proof.grows.is_none_or(|by| grown >= by) && proof.reaches.is_none_or(|at| most >= at);
            (!holds).then(|| format!("not proved: {} (grew by {grown}, reached {most})", proof.of))
        });
        says.collect()
    }
}

impl Visible {
    /// What a user would not have seen in a report.
    fn missing(&self, report: &Value) -> Vec<String> {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let intervals = report["intervals"].as_array().unwrap();
        // By then every cause has begun. Nothing that ended in an interval: as late as can be.
        let late = &intervals[intervals.len() * 6 / 10..];
        let median_ms = |name: &str| {
            let mut all: Vec<f64> =
                late.iter().map(|interval| interval[name].as_f64().map_or(f64::INFINITY, |us| us / 1e3)).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(0.0)
        };
        // Bytes that nobody asked for fail no request, nor does a client that is turned away before it asked.
        let of_connections = &report["totals"]["connection_errors"];
        let unasked = number(&of_connections["unsolicited-reply"]) + number(&of_connections["spoke-first"]);
        let failed = number(&report["totals"]["failed"]) + number(&report["totals"]["in_flight_at_end"]) + unasked;
        let least = [
            ("failed requests", failed, self.failed.map(|n| n as f64)),
            ("p50, ms", median_ms("response_p50_us"), self.p50_ms),
            ("p99, ms", median_ms("response_p99_us"), self.p99_ms),
            ("starved connections", number(&report["users"]["starved"]), self.starved.map(|n| n as f64)),
        ];
        let short = least.into_iter().filter(|(_, is, least)| least.is_some_and(|least| *is < least));
        short
            .map(|(what, is, least)| format!("not visible: {what}: {is:.2}, not {:.2}", least.unwrap_or(0.0)))
            .collect()
    }
}

/// The load average of the last minute, where it is more than the machine has cores by one.
fn crowded() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = std::thread::available_parallelism().ok()?.get() as f64;
    (load > cores + 1.0).then_some(load)
}

/// Where a case's recording is kept.
pub fn recording_of(case: &Case) -> PathBuf {
    let one_of_several = case.name.split_once('@').map_or(String::new(), |(_, which)| format!("@{which}"));
    case.folder.join(format!("recording{one_of_several}.xz"))
}
