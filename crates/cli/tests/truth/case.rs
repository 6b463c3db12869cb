//! A case as its `case.toml` says it, and what a run's seed makes of it.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a folder of `truth/` says.
///
/// In commands, files, addresses and load `{port}`, `{port1}` to `{port4}`, `{dir}`, `{truth}`, `{plimsoll}` and the names of `draw`
/// stand for what they are in a run; in proofs also `{pid}`, the target's process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The folder below `truth/`, and the load or the design where the case has several.
    #[serde(skip)]
    pub name: String,
    /// The folder.
    #[serde(skip)]
    pub folder: PathBuf,
    /// What the file says, by checksum: a result of another text is none of this case.
    #[serde(skip)]
    pub checksum: u32,
    /// Arguments of `plimsoll serve`, without `--listen`.
    pub serve: Option<Vec<String>>,
    /// Or another server's command.
    pub command: Option<Vec<String>>,
    /// Programs that it needs beside the command's own.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether all of it, the load too, runs in a network of its own: with a loopback that nobody else uses, and settings of its
    /// own.
    #[serde(default)]
    pub own_network: bool,
    /// Commands of a shell that come to an end before anything is started.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// What else runs: backends, neighbours, silent clients, somebody who floods, a path that delays.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// The designs of `plimsoll serve` that carry it, by their names in `truth/designs.toml`: a case each. `serve` and `load` are
    /// then what goes on behind the design's own words; a `load` that says how many connections stands alone.
    #[serde(default)]
    designs: Vec<String>,
    /// Where the load goes.
    #[serde(default)]
    pub url: String,
    /// Arguments of `plimsoll load`.
    #[serde(default)]
    pub load: Vec<String>,
    /// The level that is observed.
    pub observe: String,
    /// How long the load is on.
    pub seconds: u64,
    /// Whether the server's defects begin part-way in half of the runs: `{moment}` seconds after its start.
    #[serde(default)]
    pub part_way: bool,
    /// Whole numbers that a run's seed draws, each from one to another.
    #[serde(default)]
    pub draw: BTreeMap<String, [u64; 2]>,
    /// The rates, as multiples of what a closed load of as many connections reaches just before: a case each.
    #[serde(default)]
    of_limit: Vec<f64>,
    /// The rate of this one.
    #[serde(skip)]
    pub rate_of_limit: Option<f64>,
    /// What a user sees of it: without that a run shows nothing.
    pub visible: Option<Visible>,
    /// That the cause is there, read by something else than plimsoll.
    #[serde(default)]
    pub proof: Vec<Proof>,
    /// Why the case cannot be right yet. Its runs are listed, and count for nothing.
    pub not_yet: Option<String>,
    /// What must be found.
    pub expect: Expected,
    /// Files of the run's folder, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A design of `plimsoll serve`, as `truth/designs.toml` says it: what the same defect is tried on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Design {
    /// Arguments of `plimsoll serve` that make it.
    serve: Vec<String>,
    /// Where the load goes.
    url: String,
    /// Arguments of `plimsoll load`: as many connections as all are served of.
    load: Vec<String>,
    /// What else runs.
    #[serde(default)]
    beside: Vec<Beside>,
}

/// A process beside the target.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Its command.
    pub command: Vec<String>,
    /// A command of a shell that succeeds from when on it is ready.
    pub ready: Option<String>,
    /// Commands of a shell after that, before the next is started.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// It starts so far into the load, as a share of its time; before the target where that is not said.
    pub from: Option<f64>,
}

/// What a user sees. All that is said must hold; of the later part of a run, where causes have begun.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Visible {
    /// Requests that failed or never ended in the whole run, at least.
    pub failed: Option<u64>,
    /// The median of response times is at least so long in most intervals, milliseconds.
    pub p50_ms: Option<f64>,
    /// The same of one in a hundred.
    pub p99_ms: Option<f64>,
    /// Connections that hardly got a reply while others did, at least.
    pub starved: Option<u64>,
}

/// A reading that shows the cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// What it is.
    pub of: String,
    /// A command of a shell; the last word that it prints is a number. Run twice a second while the load is on.
    pub reads: String,
    /// The last reading is greater than the first by so much at least.
    pub grows: Option<f64>,
    /// One of the readings is so great.
    pub reaches: Option<f64>,
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
    /// These must not be found at all, not for information either.
    pub never: Vec<String>,
    /// Where nothing gives: how it stands, one of these.
    pub standing: Vec<String>,
    /// The first line has each of these words.
    pub says: Vec<String>,
}

impl Expected {
    /// Every id it names.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        [&self.first, &self.appear, &self.also, &self.never].into_iter().flatten()
    }

    /// Whether one of those that are expected is among what brought a finding about.
    pub fn explains(&self, because_of: &[String]) -> bool {
        [&self.first, &self.appear].into_iter().flatten().any(|id| because_of.contains(id))
    }
}

/// What a seed makes of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// The seed: the same makes the same of the same case.
    pub seed: u64,
    /// What stands for which name.
    pub values: BTreeMap<String, u64>,
    /// When the defects begin, seconds after the server's start.
    pub moment_s: Option<f64>,
}

/// All cases, by name.
pub fn cases() -> Vec<Case> {
    let root = testkit::workspace().join("truth");
    let designs = std::fs::read_to_string(root.join("designs.toml")).unwrap();
    let designs = toml::from_str(&designs).unwrap_or_else(|error| panic!("truth/designs.toml: {error}"));
    let mut all = Vec::new();
    read_below(&root, &root, &designs, &mut all);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn read_below(root: &Path, folder: &Path, designs: &BTreeMap<String, Design>, all: &mut Vec<Case>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let Ok(text) = std::fs::read_to_string(path.join("case.toml")) else {
            read_below(root, &path, designs, all);
            continue;
        };
        let case: Case = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let case = Case { name, checksum: crc32fast::hash(text.as_bytes()), folder: path, ..case };
        let of_design = |name: &String| {
            let design = designs.get(name).unwrap_or_else(|| panic!("{}: no design is called {name}", case.name));
            case.of_design(name, design)
        };
        let of_rate =
            |rate: &f64| Case { name: format!("{}@{rate}", case.name), rate_of_limit: Some(*rate), ..case.clone() };
        let before = all.len();
        all.extend(case.designs.iter().map(of_design));
        all.extend(case.of_limit.iter().map(of_rate));
        if all.len() == before {
            all.push(case);
        }
    }
}

impl Case {
    /// The case of one of its designs.
    fn of_design(&self, name: &str, design: &Design) -> Self {
        let behind = |own: &[String], words: &[String]| [own, words].concat();
        Self {
            name: format!("{}@{name}", self.name),
            // Another design is another text, and draws its own.
            checksum: crc32fast::hash(format!("{} {design:?}", self.checksum).as_bytes()),
            serve: Some(behind(&design.serve, self.serve.as_deref().unwrap_or_default())),
            url: design.url.clone(),
            load: if self.load.iter().any(|word| word == "-c") {
                self.load.clone()
            } else {
                behind(&design.load, &self.load)
            },
            beside: [design.beside.clone(), self.beside.clone()].concat(),
            ..self.clone()
        }
    }

    /// The programs that are not here.
    pub fn missing_programs(&self) -> Vec<&str> {
        let besides = self.beside.iter().filter_map(|beside| beside.command.first());
        let own = self.command.iter().filter_map(|command| command.first());
        let is_missing =
            |name: &&str| !name.starts_with('/') && !name.starts_with('{') && testkit::program(name).is_none();
        let is_absent = |name: &&str| name.starts_with('/') && !Path::new(name).exists();
        let all = self.needs.iter().chain(own).chain(besides).map(String::as_str);
        all.filter(|name| is_missing(name) || is_absent(name)).collect()
    }

    /// What a seed makes of it.
    pub fn draw(&self, seed: u64) -> Drawn {
        // Cases differ under one seed.
        let mut random = StdRng::seed_from_u64(seed ^ u64::from(self.checksum) << 32);
        let values =
            self.draw.iter().map(|(name, [low, high])| (name.clone(), random.random_range(*low..=*high))).collect();
        let is_late = self.part_way && random.random_bool(0.5);
        let moment_s = (f64::from(random.random_range(25..=45_u32)) / 100.0 * self.seconds as f64).max(1.0);
        Drawn { seed, values, moment_s: is_late.then_some((moment_s * 10.0).round() / 10.0) }
    }

    /// How long the load is on with what was drawn: a cause that begins late has as long as one from the start.
    pub fn load_s(&self, drawn: &Drawn) -> f64 {
        self.seconds as f64 + drawn.moment_s.unwrap_or(0.0)
    }

    /// Arguments of `plimsoll serve` with what was drawn.
    pub fn serve_words(&self, drawn: &Drawn) -> Option<Vec<String>> {
        let mut words = self.serve.clone()?;
        let Some(moment_s) = drawn.moment_s else { return Some(words) };
        let mut is_defect = false;
        for word in &mut words {
            if is_defect {
                word.push_str(&format!("@{}ms", (moment_s * 1e3) as u64));
            }
            is_defect = word == "--defect";
        }
        Some(words)
    }
}
