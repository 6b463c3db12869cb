//! A case, how it is run, and what came of it.

use crate::common::{BIN, plimsoll};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;
use testkit::wait_until;

/// What a folder of `truth/` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The folder's name.
    #[serde(skip)]
    pub name: String,
    /// Arguments of `plimsoll serve`, without `--listen`.
    pub serve: Option<Vec<String>>,
    /// Or another server's command; `{port}`, `{dir}` and `{plimsoll}` stand for those of the run.
    pub command: Option<Vec<String>>,
    /// What else runs, from when the target listens on.
    #[serde(default)]
    pub beside: Vec<Beside>,
    url: String,
    load: Vec<String>,
    observe: String,
    seconds: u64,
    /// What must be found.
    pub expect: Expected,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// A process beside the target.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Its command.
    pub command: Vec<String>,
}

/// What must be found.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expected {
    /// One of these gives first.
    pub first: Vec<String>,
    /// Each of these is found, above "info" or not.
    pub appear: Vec<String>,
    /// These may be above "info" beside it.
    pub also: Vec<String>,
    /// Where nothing gives: how it stands, one of these.
    pub standing: Vec<String>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The id of what gives first; of a limit too.
    pub first: Option<String>,
    /// How it stands.
    pub standing: String,
    /// The sentence.
    pub text: String,
    /// Findings of the target above "info".
    pub above: Vec<String>,
    /// All of the target that were supported.
    pub supported: Vec<String>,
    /// Whether more wanted to run on the machine than it has cores, and by how much: the load average of the last minute.
    pub crowded: Option<f64>,
}

/// All cases, by name.
pub fn cases() -> Vec<Case> {
    let folder = testkit::workspace().join("truth");
    let mut all: Vec<Case> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| {
            let text = std::fs::read_to_string(path.join("case.toml")).unwrap();
            let case: Case = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Case { name: path.file_name().unwrap().to_str().unwrap().to_owned(), ..case }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl Case {
    /// The program of another server that is not here.
    pub fn missing_program(&self) -> Option<&str> {
        let program = self.command.as_ref()?.first()?;
        testkit::program(program).is_none().then_some(program)
    }

    /// Starts the target, puts the load on, reads the report.
    pub fn run(&self) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        // A server that gives up its rights must read its files.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let address = testkit::nginx::free_address().unwrap();
        let (port, dir) = (address.port().to_string(), folder.path().to_str().unwrap().to_owned());
        let filled = |text: &str| text.replace("{port}", &port).replace("{dir}", &dir).replace("{plimsoll}", BIN);
        for (name, text) in &self.files {
            std::fs::write(folder.path().join(name), filled(text)).unwrap();
        }
        let mut target = match (&self.serve, &self.command) {
            (Some(serve), _) => {
                let mut target = Command::new(BIN);
                target.arg("serve").args(serve).args(["--listen", &address.to_string()]);
                target
            }
            (None, Some(command)) => {
                let mut words = command.iter().map(|word| filled(word));
                let mut target = Command::new(words.next().unwrap());
                target.args(words);
                target
            }
            (None, None) => panic!("{}: no target", self.name),
        };
        // On a disk: a log in memory waits for nothing.
        target.current_dir(folder.path()).env("TMPDIR", "/var/tmp").stdout(Stdio::null()).stderr(Stdio::null());
        let _guard = Guard::spawn(&mut target).unwrap();
        wait_until("the target listens", || TcpStream::connect(address).is_ok());
        let besides = self.beside.iter().map(|beside| {
            let mut words = beside.command.iter().map(|word| filled(word));
            let mut command = Command::new(words.next().unwrap());
            command.args(words).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
            // All it starts ends with it, as it is a group of its own.
            Family(Guard::spawn(command.process_group(0)).unwrap())
        });
        let _besides: Vec<Family> = besides.collect();
        let (url, seconds) = (filled(&self.url), format!("{}s", self.seconds));
        let load: Vec<String> = self.load.iter().map(|word| filled(word)).collect();
        let mut arguments = vec!["load", &url, "-d", &seconds, "--observe", &self.observe, "--no-record", "--json"];
        arguments.extend(load.iter().map(String::as_str));
        let run = plimsoll(&arguments);
        assert!(run.stdout.starts_with('{'), "{}: {arguments:?}:\n{}{}", self.name, run.stdout, run.stderr);
        Outcome::of(&run.json())
    }
}

impl Outcome {
    fn of(report: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of_target = || report["findings"].as_array().unwrap().iter().filter(|f| f["about"] == "target");
        Outcome {
            first: report["gives"]["finding"].as_str().map(str::to_owned),
            standing: text(&report["gives"]["standing"]),
            text: text(&report["gives"]["text"]),
            above: of_target().filter(|f| f["severity"] != "info").map(|f| text(&f["id"])).collect(),
            supported: of_target().map(|f| text(&f["id"])).collect(),
            crowded: crowded(),
        }
    }

    /// Findings above "info" that are none of the case's.
    pub fn wrong(&self, case: &Case) -> Vec<&str> {
        let expect = &case.expect;
        let is_expected =
            |id: &str| [&expect.first, &expect.appear, &expect.also].iter().any(|ids| ids.iter().any(|i| i == id));
        let is_crowds = |id: &str| ["cpu-contention", "neighbour"].contains(&id) && self.crowded.is_some();
        self.above.iter().map(String::as_str).filter(|id| !is_expected(id) && !is_crowds(id)).collect()
    }

    /// Whether it is as the case says.
    pub fn is_right(&self, case: &Case) -> bool {
        let expect = &case.expect;
        let is_first = expect.first.is_empty() || self.first.as_ref().is_some_and(|first| expect.first.contains(first));
        let is_standing = expect.standing.is_empty()
            || expect.standing.contains(&self.standing)
            || (self.crowded.is_some()
                && self.first.as_deref().is_some_and(|first| ["cpu-contention", "neighbour"].contains(&first)))
            || (self.crowded.is_some() && self.standing == "unexplained" && self.above.is_empty());
        let appear = expect.appear.iter().all(|id| self.supported.contains(id));
        is_first && is_standing && appear && self.wrong(case).is_empty()
    }

    /// In a line.
    pub fn line(&self, case: &Case) -> String {
        let mark = if self.is_right(case) { "right" } else { "WRONG" };
        let crowd = self.crowded.map_or(String::new(), |load| format!(" (load {load:.1})"));
        format!("{mark} {} {:?} {}{crowd}", self.standing, self.supported, self.text)
    }
}

/// A process and all of its group: ended together.
struct Family(Guard);

impl Drop for Family {
    fn drop(&mut self) {
        // By kill(1), whose negative ids are groups.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.pid())]).status();
    }
}

/// The load average of the last minute, where it is more than the machine has cores by one.
fn crowded() -> Option<f64> {
    let text = std::fs::read_to_string(Path::new("/proc/loadavg")).ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = std::thread::available_parallelism().ok()?.get() as f64;
    (load > cores + 1.0).then_some(load)
}
