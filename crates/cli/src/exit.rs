//! What the command ends with: one exit status, and one sentence where something failed.
//!
//! The statuses are part of the interface: scripts lean on them. Where several apply, [`Exit::worst`] decides.

use crate::args::environment::Environment;
use crate::flags;
use model::plain::plain;
use resolve::ResolveError;
use session::faults::FaultError;
use std::io::Write;
use std::process::ExitCode;

/// How the command ended. In the order in which one hides another: the first of [`Exit::ALL`] that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// What was written cannot be meant.
    Usage,
    /// It could not run.
    CouldNotRun,
    /// Interrupted; the summary was printed.
    Interrupted,
    /// The result is not valid; or undetermined, and an expectation or objective leans on it.
    NotValid,
    /// An expectation failed.
    ExpectationFailed,
    /// None of these: it did what was asked, and nothing speaks against the result.
    Fine,
}

impl Exit {
    /// Every status, the one that hides the others first.
    pub const ALL: [Exit; 6] =
        [Exit::Usage, Exit::CouldNotRun, Exit::Interrupted, Exit::NotValid, Exit::ExpectationFailed, Exit::Fine];

    /// The number the shell sees.
    pub const fn status(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::CouldNotRun => 1,
            Exit::Usage => 2,
            Exit::ExpectationFailed => 3,
            Exit::NotValid => 4,
            Exit::Interrupted => 130,
        }
    }

    /// What it means, for help texts.
    pub const fn about(self) -> &'static str {
        match self {
            Exit::Fine => "fine",
            Exit::CouldNotRun => "could not run",
            Exit::Usage => "bad usage or scenario",
            Exit::ExpectationFailed => "an expectation failed",
            Exit::NotValid => {
                "the result is not valid (the generator, its machine, a clock or the audit of the figures)"
            }
            Exit::Interrupted => "interrupted, the summary was printed",
        }
    }

    /// Of two, the one that hides the other.
    pub fn worst(self, other: Exit) -> Exit {
        *Exit::ALL.iter().find(|exit| **exit == self || **exit == other).unwrap_or(&self)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.status())
    }
}

/// Why the command did not do what it was to do.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    /// Stdout could not be written: what is still to be flushed cannot be either, and need not be said again.
    is_of_stdout: bool,
}

impl Failure {
    /// What was written is at fault: status 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Usage, message: message.into(), is_of_stdout: false }
    }

    /// Of a file that somebody named and that cannot be read: status 2 where there is none, else 1.
    pub fn of_file(error: &std::io::Error, message: String) -> Self {
        if resolve::files::is_no_file(error) { Self::usage(message) } else { Self::could_not_run(message) }
    }

    /// Something else is: status 1.
    pub fn could_not_run(message: impl Into<String>) -> Self {
        Failure { exit: Exit::CouldNotRun, message: message.into(), is_of_stdout: false }
    }

    /// It was told to end before there was anything to show: status 130.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Interrupted, message: message.into(), is_of_stdout: false }
    }

    /// Whether it is that somebody ended the command.
    pub fn is_interrupted(&self) -> bool {
        self.exit == Exit::Interrupted
    }

    /// Whether it is that stdout could not be written.
    pub fn is_of_stdout(&self) -> bool {
        self.is_of_stdout
    }

    /// The same, with the variables of the environment that its flags stand for.
    pub fn of(mut self, environment: &Environment) -> Self {
        self.message = environment.named(self.message);
        self
    }

    /// What is said of it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same in other words.
    pub fn worded(mut self, change: impl FnOnce(String) -> String) -> Self {
        self.message = change(self.message);
        self
    }

    /// Says so on stderr, in one line, without what steers a terminal.
    pub fn show(&self) -> Exit {
        if self.exit != Exit::Fine {
            // Nothing is left to do where stderr is closed.
            let _ = writeln!(std::io::stderr(), "plimsoll: {}", plain(&self.message));
        }
        self.exit
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::CouldNotRun };
        Failure { exit, message: flags::shown(&error.words()), is_of_stdout: false }
    }
}

impl From<session::RunError> for Failure {
    fn from(error: session::RunError) -> Self {
        match error {
            session::RunError::Remote(error) => error.into(),
            session::RunError::Store(error) => error.into(),
            session::RunError::Fault(FaultError::Bad(error)) => Failure::usage(error.to_string()),
            session::RunError::Fault(FaultError::Journal(error)) => error.into(),
            session::RunError::ByOthers { text, is_usage: true } => Failure::usage(text),
            session::RunError::Interrupted => Failure::interrupted(error.to_string()),
            error => Failure::could_not_run(error.to_string()),
        }
    }
}

impl From<session::target::TargetError> for Failure {
    fn from(error: session::target::TargetError) -> Self {
        match error {
            session::target::TargetError::Group(session::MadeError::Journal(error)) => error.into(),
            error => Failure::could_not_run(error.to_string()),
        }
    }
}

impl From<store::StoreError> for Failure {
    fn from(error: store::StoreError) -> Self {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::CouldNotRun };
        Failure { exit, message: error.to_string(), is_of_stdout: false }
    }
}

impl From<session::generators::MergeError> for Failure {
    fn from(error: session::generators::MergeError) -> Self {
        match error {
            session::generators::MergeError::Store(error) => error.into(),
            error => Failure::usage(error.to_string()),
        }
    }
}

impl From<fault::JournalError> for Failure {
    fn from(error: fault::JournalError) -> Self {
        let exit = if error.is_of_place() { Exit::Usage } else { Exit::CouldNotRun };
        Failure { exit, message: error.to_string(), is_of_stdout: false }
    }
}

/// Results that could not be written: nobody has them. A closed pipe is no failure: its reader had enough.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            let message = "the reader of stdout has gone".to_owned();
            return Failure { exit: Exit::Fine, message, is_of_stdout: true };
        }
        let message = format!("expected to write the results to stdout, but {error}: check where it leads");
        Failure { exit: Exit::CouldNotRun, message, is_of_stdout: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_2_1_130_4_3_0() {
        assert_eq!(Exit::ALL.map(Exit::status), [2, 1, 130, 4, 3, 0]);
        for (i, first) in Exit::ALL.iter().enumerate() {
            for (k, second) in Exit::ALL.iter().enumerate() {
                assert_eq!(first.worst(*second), Exit::ALL[i.min(k)]);
            }
        }
    }
}
