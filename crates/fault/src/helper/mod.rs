//! A process of a fault's own, which does what must go on while the fault lasts: packets held, clients that are slow.
//!
//! Apart from plimsoll's own, so that what it costs is not taken for the generator's, and so that it can be ended whoever
//! is left. It is this same program, started with [`ARGUMENT`], as a program with a mark (`crate::child`): the journal knows
//! the mark before it is started. Its job is in its environment. In its folder it writes whether it could begin and what
//! it did (`State`), ten times a second, and when it is asked to (SIGUSR1). Told to end (SIGTERM) it lets go what it holds; else it is killed. It ends by itself
//! after an hour. Cost: a process; what else, the jobs say.

mod inside;
pub(crate) mod job;
pub(crate) mod report;

pub use inside::run;
pub use job::Job;

use crate::change::Reversible;
use crate::child::Child;
use crate::error::{ApplyError, plain};
use crate::faults::signal::send;
use crate::limits::{HELPER_ANSWER, HELPER_END, HELPER_READY, HELPER_STATE_BYTES_MAX, LOOK};
use crate::process::{has_capability, id_of};
use report::Report;
use rustix::process::{Signal, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

/// The first argument of a helper.
pub const ARGUMENT: &str = "fault-helper";
/// Where its job stands, as JSON.
const JOB: &str = "PLIMSOLL_FAULT_JOB";
/// The file in its folder that has its `State`.
const STATE: &str = "state.json";

/// The command that starts a helper: this program with [`ARGUMENT`], unless a test says otherwise.
static COMMAND: OnceLock<(String, Vec<String>)> = OnceLock::new();

/// Has helpers started by another command, which calls [`run`]. For tests, whose own program has another `main`.
pub fn start_by(program: &str, arguments: Vec<String>) {
    let _ = COMMAND.set((program.to_owned(), arguments));
}

/// What a helper wrote down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    /// How often it has written.
    number: u64,
    state: State,
}

/// What a helper says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It works, and what it did so far.
    Works(Report),
    /// It could not begin, and why: a sentence.
    Refused(String),
}

/// A helper: its program with its mark, and its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helper {
    child: Child,
    job: Job,
}

impl Helper {
    /// A helper that is not started yet.
    ///
    /// # Errors
    /// The job is out of bounds, or this program's own file is not known.
    pub(crate) fn planned(job: Job) -> Result<Self, ApplyError> {
        job.check()?;
        let own = || -> io::Result<(String, Vec<String>)> {
            let program = std::env::current_exe()?.display().to_string();
            Ok((program, vec![ARGUMENT.to_owned()]))
        };
        let (program, arguments) = match COMMAND.get() {
            Some(command) => command.clone(),
            None => own().map_err(|error| ApplyError::unreadable("/proc/self/exe", &error))?,
        };
        Ok(Helper { child: Child::planned(&program, arguments, true), job })
    }

    /// What it said last; `None` where it said nothing.
    fn said(&self) -> Option<Said> {
        let mut text = String::new();
        let file = std::fs::File::open(self.child.folder()?.join(STATE)).ok()?;
        file.take(HELPER_STATE_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn start(&self) -> Result<(), ApplyError> {
        let job = serde_json::to_string(&self.job).map_err(|error| self.failed(&error.to_string()))?;
        self.child.start(|command| {
            command.env(JOB, job);
        })?;
        let since = Instant::now();
        loop {
            match self.said().map(|said| said.state) {
                Some(State::Works(_)) => return Ok(()),
                Some(State::Refused(reason)) => return Err(self.failed(&reason)),
                None if since.elapsed() > HELPER_READY => return Err(self.failed("it does not say that it is ready")),
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// Tells it to end, so that it lets go what it holds; then kills what is left.
    fn end(&self) -> Result<(), ApplyError> {
        let all = self.child.processes();
        for process in &all {
            // One that has ended meanwhile needs none.
            let _ = send(process.pid, process.started, Signal::TERM);
        }
        let since = Instant::now();
        while since.elapsed() < HELPER_END && all.iter().any(|process| process.is_there()) {
            std::thread::sleep(LOOK);
        }
        for process in all {
            // Where it is this process's own child it is not left behind; of another's this one is not told.
            let _ = id_of(process.pid).map(|id| waitpid(Some(id), WaitOptions::NOHANG));
        }
        self.child.end()
    }

    fn failed(&self, reason: &str) -> ApplyError {
        ApplyError::Missing {
            name: self.job.name(),
            expected: "a process of its own to begin with it".to_owned(),
            reason: reason.to_owned(),
        }
    }
}

impl Reversible for Helper {
    fn name(&self) -> String {
        self.job.name()
    }

    fn before(&self) -> String {
        self.child.before()
    }

    fn after(&self) -> String {
        self.child.after()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        self.child.found()
    }

    fn may(&self) -> Result<(), ApplyError> {
        for (capability, name) in self.job.capabilities() {
            if !has_capability(*capability) {
                return Err(ApplyError::missing_right(&self.job.name(), &format!("{name} is missing")));
            }
        }
        self.job.may()
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        if value == self.before() { self.end() } else { self.start() }
    }

    /// The job is not looked at: undoing ends what has the mark, whatever it does.
    fn check(&self) -> Result<(), ApplyError> {
        self.child.check()
    }

    fn identity(&self) -> String {
        self.child.identity()
    }

    fn told(&self) -> Option<String> {
        let before = self.said()?.number;
        let processes = self.child.processes();
        let is_asked =
            processes.iter().filter(|process| send(process.pid, process.started, Signal::USR1).is_ok()).count() > 0;
        let since = Instant::now();
        // One that has ended has written down all of it.
        while is_asked && self.said().is_none_or(|said| said.number == before) && since.elapsed() < HELPER_ANSWER {
            std::thread::sleep(LOOK);
        }
        match self.said()?.state {
            State::Works(report) if processes.is_empty() => {
                Some(format!("{}; its process had ended before the fault's end", report.words()))
            }
            State::Works(report) => Some(report.words()),
            State::Refused(_) => None,
        }
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}

/// Writes what is said where whoever started it reads; whole, or as it was before.
fn say(folder: &Path, said: &Said) -> io::Result<()> {
    let new = folder.join("state.new");
    std::fs::write(&new, serde_json::to_string(said)?)?;
    std::fs::rename(new, folder.join(STATE))
}

/// The job that this process was started with.
fn own_job() -> Result<Job, String> {
    let text = std::env::var(JOB).map_err(|_| format!("expected a job in {JOB}: this is started by a fault alone"))?;
    serde_json::from_str(&text).map_err(|error| format!("expected a job in {JOB}, but {error}"))
}

/// The kernel's reason, as a part of a sentence.
pub(crate) fn why(error: impl Into<io::Error>) -> String {
    plain(&error.into())
}
