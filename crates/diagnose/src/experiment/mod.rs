//! Experiments from the load side: one thing is varied, short steps interleaved, and what the answers to it decide.
//!
//! They need no rights at the server, which may be anywhere. Each has doses (how much of the thing), a response (what is
//! measured of each dose, with its interval over the rounds), and a judge in a file of its own, which states what must
//! rise with the dose for a cause to be named, and what looks alike from outside: then all that it may be is named, and
//! none is supported alone. Pure: the steps were run by `session::experiment`.
//!
//! Cost: sorting a few hundred numbers. [`EXPERIMENTS`] is the whole list: to add one, copy a neighbour and add a line.

mod burst;
mod clients;
mod idle;
mod rate;
mod reuse;
mod size;
mod steps;
mod toggle;

pub use reuse::KEPT;
pub use steps::{Estimate, Step};
pub use toggle::{Arm, CONFIRMATION_SCHEMA, Claim, Confirmation, Confirmed, PAIRS_MIN, Pair};

use model::finding::Status;
use model::recording::End;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steps::Steps;

/// What is seen in fewer rounds is chance.
const ROUNDS_MIN: usize = 2;

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Clients at once, each with its next request after the reply.
    Clients,
    /// Requests on a connection before it is replaced.
    Reuse,
    /// Silent connections held beside the load.
    Idle,
    /// New connections at one moment.
    Burst,
    /// Requests a second, by the clock, round a base rate.
    Rate,
    /// Size of the reply, by path, or of an echo.
    Size,
}

impl Experiment {
    /// The word in reports and of `--only`.
    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Clients => "clients",
            Experiment::Reuse => "reuse",
            Experiment::Idle => "idle",
            Experiment::Burst => "burst",
            Experiment::Rate => "rate",
            Experiment::Size => "size",
        }
    }
}

/// An experiment's place in the list.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which.
    pub experiment: Experiment,
    /// What is varied and what it can decide, for help and docs.
    pub about: &'static str,
    judge: fn(&Steps<'_>) -> Decision,
}

/// Every experiment, in the order in which their decisions are told.
pub const EXPERIMENTS: &[Entry] = &[
    Entry {
        experiment: Experiment::Reuse,
        about: "requests on a connection before it is replaced: delayed acknowledgements, keep-alive, what a connection costs",
        judge: reuse::judge,
    },
    Entry {
        experiment: Experiment::Idle,
        about: "silent connections beside the load: connections or workers that they take from others",
        judge: idle::judge,
    },
    Entry {
        experiment: Experiment::Burst,
        about: "new connections at one moment: the queue in front of accept",
        judge: burst::judge,
    },
    Entry {
        experiment: Experiment::Clients,
        about: "clients at once: one at a time, so many at a time, or more with each",
        judge: clients::judge,
    },
    Entry {
        experiment: Experiment::Size,
        about: "paths or sizes: what a byte costs, and paths that are slow for what they send",
        judge: size::judge,
    },
    Entry {
        experiment: Experiment::Rate,
        about: "the rate, a fifth less and a fifth more: whether there is a queue, whether it is asked for too much",
        judge: rate::judge,
    },
];

/// What an experiment decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Which experiment.
    pub experiment: Experiment,
    /// Whether what it looks for is there: supported, refuted, or not observable with what was missing.
    pub status: Status,
    /// The cause, where it is decided from outside.
    #[serde(default)]
    pub finding: Option<String>,
    /// Causes that from outside look alike, where one of them is there.
    #[serde(default)]
    pub points_to: Vec<String>,
    /// One sentence for people, figures in it.
    pub text: String,
    /// What came of each dose, the least first.
    pub responses: Vec<Response>,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: String,
    /// A command that checks it by hand; empty where there is none.
    pub check_yourself: String,
}

/// What came of a dose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Response {
    /// How much of what is varied.
    pub dose: f64,
    /// The dose in words, such as "16 clients".
    pub label: String,
    /// What was measured, such as `response_p50_us`.
    pub metric: String,
    /// The mean over the rounds, with its 95 % interval; null where no round has it.
    pub value: Option<Estimate>,
    /// The unit.
    pub unit: String,
    /// Rounds that count.
    pub rounds: usize,
}

impl Decision {
    fn new(experiment: Experiment, status: Status, text: impl Into<String>, responses: Vec<Response>) -> Self {
        Decision {
            experiment,
            status,
            finding: None,
            points_to: Vec::new(),
            text: text.into(),
            responses,
            remedy: String::new(),
            check_yourself: String::new(),
        }
    }

    fn supported(experiment: Experiment, text: impl Into<String>, responses: Vec<Response>) -> Self {
        Self::new(experiment, Status::Supported, text, responses)
    }

    fn refuted(experiment: Experiment, text: impl Into<String>, responses: Vec<Response>) -> Self {
        Self::new(experiment, Status::Refuted, text, responses)
    }

    fn open(experiment: Experiment, text: impl Into<String>, responses: Vec<Response>) -> Self {
        Self::new(experiment, Status::NotObservable, text, responses)
    }

    /// Undecided where the least or the largest dose was given in one round only: chance is not told from it.
    fn if_repeated(self) -> Self {
        let rounds = |response: Option<&Response>| response.map_or(0, |response| response.rounds);
        let least = rounds(self.responses.first()).min(rounds(self.responses.last()));
        if self.status != Status::Supported || least >= ROUNDS_MIN {
            return self;
        }
        let text = format!("in a single round {}: longer (--for), it would be decided", self.text);
        let points_to = self.finding.into_iter().chain(self.points_to).collect();
        Decision { status: Status::NotObservable, finding: None, points_to, text, ..self }
    }

    fn finding(mut self, id: &str) -> Self {
        self.finding = Some(id.to_owned());
        self
    }

    fn points_to(mut self, ids: &[&str]) -> Self {
        self.points_to = ids.iter().map(|id| (*id).to_owned()).collect();
        self
    }

    fn remedy(mut self, remedy: &str, check: &str) -> Self {
        self.remedy = remedy.to_owned();
        self.check_yourself = check.to_owned();
        self
    }
}

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.experiment/1";

/// What came of them: the document, which can be shown again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Always `plimsoll.experiment/1`.
    pub schema: String,
    /// The tool's version.
    pub version: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// The server, without secrets.
    pub target: String,
    /// How it ended.
    pub end: End,
    /// How long it took, seconds.
    pub took_s: f64,
    /// How long it might take, seconds.
    pub for_s: f64,
    /// Rounds that were run to their end.
    pub rounds: u32,
    /// The answer in one sentence.
    pub sentence: String,
    /// What each experiment decided, those that found something first.
    pub decisions: Vec<Decision>,
    /// Every step, in the order in which they were run.
    pub steps: Vec<Step>,
}

/// What the steps decide: every experiment that has any, those that found something first.
pub fn decide(steps: &[Step]) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::new();
    for entry in EXPERIMENTS {
        let of = Steps::of(steps, entry.experiment);
        if !of.is_empty() {
            decisions.push((entry.judge)(&of).if_repeated());
        }
    }
    // A stable sort: equals stay in the list's order.
    decisions.sort_by_key(|decision| match (decision.status, decision.finding.is_some()) {
        (Status::Supported, true) => 0,
        (Status::Supported, false) => 1,
        (Status::NotObservable, _) => 2,
        (Status::Refuted | Status::NotApplicable, _) => 3,
    });
    decisions
}

/// The decisions in one sentence.
pub fn sentence(decisions: &[Decision]) -> String {
    let found: Vec<&Decision> = decisions.iter().filter(|decision| decision.status == Status::Supported).collect();
    let decided: Vec<&&Decision> = found.iter().filter(|decision| decision.finding.is_some()).collect();
    match (decided.first(), found.first()) {
        (Some(first), _) => first.text.clone(),
        (None, Some(first)) => first.text.clone(),
        (None, None) if decisions.is_empty() => "no experiment was run to an end".to_owned(),
        (None, None) => {
            let open = decisions.iter().filter(|decision| decision.status == Status::NotObservable).count();
            let rest = if open > 0 { format!("; {open} could not decide") } else { String::new() };
            format!("nothing was found from outside by {} experiments{rest}", decisions.len())
        }
    }
}
