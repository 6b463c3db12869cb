//! What came of runs, a line each in a file: an interrupted series goes on where it was, and the page is made of it.

use crate::case::{Case, Drawn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// What came of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The case.
    pub case: String,
    /// The checksum of its text.
    pub checksum: u32,
    /// The program that was used, by size and time.
    pub program: String,
    /// The how manieth of its case.
    pub run: usize,
    /// What the seed made of it.
    pub drawn: Drawn,
    /// The id of what gives first; of a limit too.
    pub first: Option<String>,
    /// How it stands.
    pub standing: String,
    /// The sentence.
    pub text: String,
    /// Findings of the target above "info" that nothing the case expects brought about: what follows from a cause is no other one.
    pub above: Vec<String>,
    /// All of the target that were supported.
    pub supported: Vec<String>,
    /// Whether more wanted to run on the machine than it has cores, and by how much: the load average of the last minute.
    pub crowded: Option<f64>,
    /// Whether the report itself says that the run is no result: others took too much of the machine's time, or the generator had
    /// not enough of it.
    #[serde(default)]
    pub no_result: bool,
    /// What of the loss a user should have seen and did not.
    pub invisible: Vec<String>,
    /// What should have shown that the cause was there and did not.
    pub unproved: Vec<String>,
    /// Failed requests, rate, and response times in milliseconds, for whoever sets what must be visible.
    pub figures: String,
}

/// How a run counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// As the case says.
    Right,
    /// Not so.
    Wrong,
    /// The cause was not there, or nobody would have noticed it: it says nothing of diagnosis.
    Void,
}

impl Judgement {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Right => "right",
            Judgement::Wrong => "wrong",
            Judgement::Void => "void",
        }
    }
}

impl Outcome {
    /// What a report says.
    pub fn of(case: &Case, run: usize, drawn: Drawn, report: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ids = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().map(text).collect() };
        let of_target = || report["findings"].as_array().unwrap().iter().filter(|f| f["about"] == "target");
        let response = &report["latency"]["response"];
        let ms = |name: &str| response[name].as_f64().map_or("–".to_owned(), |us| format!("{:.1}", us / 1e3));
        Outcome {
            case: case.name.clone(),
            checksum: case.checksum,
            program: crate::run::program(),
            run,
            drawn,
            first: report["gives"]["finding"].as_str().map(str::to_owned),
            standing: text(&report["gives"]["standing"]),
            text: text(&report["gives"]["text"]),
            above: of_target()
                .filter(|f| f["severity"] != "info" && !case.expect.explains(&ids(&f["because_of"])))
                .map(|f| text(&f["id"]))
                .collect(),
            supported: of_target().map(|f| text(&f["id"])).collect(),
            crowded: None,
            no_result: report["validity"]["state"] == "not-valid",
            invisible: Vec::new(),
            unproved: Vec::new(),
            figures: format!(
                "{} failed, {:.0}/s, p50 {} p90 {} p99 {} max {} ms",
                report["totals"]["failed"],
                report["achieved"]["rate_per_s"].as_f64().unwrap_or(0.0),
                ms("p50_us"),
                ms("p90_us"),
                ms("p99_us"),
                ms("max_us"),
            ),
        }
    }

    /// Findings that are none of the case's: above "info", or such as must never be.
    pub fn wrong(&self, case: &Case) -> Vec<&str> {
        let expect = &case.expect;
        let is_expected =
            |id: &str| [&expect.first, &expect.appear, &expect.also].iter().any(|ids| ids.iter().any(|i| i == id));
        let is_crowds = |id: &str| id == "cpu-contention" && self.crowded.is_some();
        let above = self.above.iter().filter(|id| !is_expected(id) && !is_crowds(id));
        let never = self.supported.iter().filter(|id| expect.never.contains(id) && !self.above.contains(id));
        above.chain(never).map(String::as_str).collect()
    }

    /// Whether what it says is as the case has it.
    pub fn is_as_expected(&self, case: &Case) -> bool {
        let expect = &case.expect;
        let is_first = expect.first.is_empty() || self.first.as_ref().is_some_and(|first| expect.first.contains(first));
        let is_standing = expect.standing.is_empty()
            || expect.standing.contains(&self.standing)
            || (self.crowded.is_some() && self.first.as_deref() == Some("cpu-contention"))
            || (self.crowded.is_some() && self.standing == "unexplained" && self.above.is_empty());
        let appear = expect.appear.iter().all(|id| self.supported.contains(id));
        let is_said = expect.says.iter().all(|words| self.text.contains(words));
        is_first && is_standing && is_said && appear && self.wrong(case).is_empty()
    }

    /// How it counts.
    pub fn judgement(&self, case: &Case) -> Judgement {
        match self.is_as_expected(case) {
            _ if !self.invisible.is_empty() || !self.unproved.is_empty() => Judgement::Void,
            // A sound server of which nothing is blamed, in a run that says itself that it is no result: it says nothing of the server.
            false
                if self.no_result
                    && self.standing == "unexplained"
                    && !case.expect.standing.is_empty()
                    && self.above.is_empty() =>
            {
                Judgement::Void
            }
            true => Judgement::Right,
            false => Judgement::Wrong,
        }
    }

    /// What was said of it, in a word: what gives first, or how it stands.
    pub fn said(&self) -> String {
        match &self.first {
            Some(first) if !self.above.is_empty() => first.clone(),
            _ => format!("({})", self.standing),
        }
    }

    fn why_void(&self) -> String {
        match [&*self.invisible, &*self.unproved].concat().join("; ") {
            why if why.is_empty() => "the report says itself that it is no result".to_owned(),
            why => why,
        }
    }

    /// In a line.
    pub fn line(&self, case: &Case) -> String {
        let mark = match self.judgement(case) {
            Judgement::Right => "right".to_owned(),
            Judgement::Wrong if case.not_yet.is_some() => "not yet".to_owned(),
            Judgement::Wrong => "WRONG".to_owned(),
            Judgement::Void => format!("void ({})", self.why_void()),
        };
        let crowd = self.crowded.map_or(String::new(), |load| format!(" (load {load:.1})"));
        let drawn: Vec<String> = self.drawn.values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let late = self.drawn.moment_s.map_or(String::new(), |s| format!(", from {s} s on"));
        format!(
            "{mark} {} {:?} {} [{}]{crowd} (seed {} {}{late})",
            self.standing,
            self.supported,
            self.text,
            self.figures,
            self.drawn.seed,
            drawn.join(", "),
        )
    }
}

/// Where results are kept.
pub fn folder() -> PathBuf {
    let folder = testkit::workspace().join("target/truth");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The file of a series: its seed is its name, so that it can be gone on with.
pub struct Results {
    path: PathBuf,
    done: Vec<Outcome>,
}

impl Results {
    /// Those of a series, as far as it came: of this program and of the cases as they are.
    pub fn of(series: &str, cases: &[Case]) -> Self {
        let path = folder().join(format!("{series}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let is_current = |outcome: &Outcome| {
            outcome.program == crate::run::program()
                && cases.iter().any(|case| case.name == outcome.case && case.checksum == outcome.checksum)
        };
        // A line that was being written when the series was ended is none.
        let done = text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(is_current).collect();
        Results { path, done }
    }

    /// What came of a run that was made before.
    pub fn find(&self, case: &Case, run: usize) -> Option<&Outcome> {
        self.done.iter().find(|outcome| outcome.case == case.name && outcome.run == run)
    }

    /// Keeps it.
    pub fn keep(&mut self, outcome: Outcome) {
        let mut file = std::fs::File::options().append(true).create(true).open(&self.path).unwrap();
        // Behind a half line, too.
        let is_cut = std::fs::read(&self.path).is_ok_and(|text| text.last().is_some_and(|byte| *byte != b'\n'));
        let line = serde_json::to_string(&outcome).unwrap();
        writeln!(file, "{}{line}", if is_cut { "\n" } else { "" }).unwrap();
        self.done.push(outcome);
    }

    /// Those of a case, in order.
    pub fn of_case(&self, case: &Case) -> Vec<&Outcome> {
        let mut all: Vec<&Outcome> = self.done.iter().filter(|outcome| outcome.case == case.name).collect();
        all.sort_by_key(|outcome| outcome.run);
        all
    }
}
