//! A server ended and started again after a time of absence: the fault's own length, or at once.
//!
//! A target that the run started (`[target]`) is started by its own command, where it was; of any other process the user
//! gives the command. It is ended as a stop of the machine would (SIGTERM, then SIGKILL after 5 s), or with `kill` as a crash
//! would. Whether the server is ready again is for the run to see: it is counted in requests. Not in the journal: where
//! plimsoll is killed in between, nobody starts it.

use super::signal::send;
use super::{Act, Around, Deed, Fault, Kind, Starter, Undoing};
use crate::error::{ApplyError, plain};
use crate::limits::{END_WAIT, LOOK};
use crate::process::{Process, Who, Whom, may_signal};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "restart",
    takes: "WHO ['COMMAND'] [kill]",
    example: "port:6379 'redis-server --port 6379' kill",
    does: "ends processes and runs a command in their place after the fault's length; a target that the run started needs none",
    needs: "root, or the process's own user; somebody who starts the target: its command",
    undone: Undoing::SecondHalf(
        "the command is run: it is not in the journal, and nobody runs it if plimsoll is killed",
    ),
    parse: |words| {
        let who = words.who()?;
        let mut at_once = words.take("kill");
        let mut command = None;
        if !at_once && words.has_more() {
            command = Some(words.next("a command")?);
            at_once = words.take("kill");
        }
        if command.is_none() && who.whom != Whom::Target {
            return Err(words.bad("the command that starts it again", None));
        }
        Ok(Arc::new(Restarting { who, command, at_once }))
    },
};

#[derive(Debug)]
struct Restarting {
    who: Who,
    /// `None`: the target's own.
    command: Option<String>,
    at_once: bool,
}

impl Fault for Restarting {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let who = self.who.words();
        let starter = around.starter().filter(|_| self.who.whom == Whom::Target && self.command.is_none());
        let act = match (&self.command, starter) {
            (_, Some(starter)) => Restart::OfRun { starter, at_once: self.at_once },
            (Some(command), None) => {
                let processes = self.who.find(around)?;
                Restart::ByCommand { processes, command: command.clone(), at_once: self.at_once }
            }
            (None, None) => {
                let expected = "a target that this run started, or a command".to_owned();
                let reason =
                    format!("it was not started here: write `restart target 'COMMAND'`, what starts {who} again");
                return Err(ApplyError::Missing { name: who, expected, reason });
            }
        };
        Ok(vec![Deed::Act(Box::new(act))])
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

#[derive(Debug)]
enum Restart {
    OfRun { starter: Arc<dyn Starter>, at_once: bool },
    ByCommand { processes: Vec<Process>, command: String, at_once: bool },
}

impl Restart {
    fn how(&self) -> &'static str {
        let (Restart::OfRun { at_once, .. } | Restart::ByCommand { at_once, .. }) = self;
        if *at_once { "killed" } else { "ended" }
    }
}

impl Act for Restart {
    fn words(&self) -> String {
        let (what, command) = match self {
            Restart::OfRun { starter, .. } => ("the target".to_owned(), starter.command()),
            Restart::ByCommand { processes, command, .. } => {
                (processes.iter().map(Process::words).collect::<Vec<_>>().join(", "), command.clone())
            }
        };
        format!("{what} {}, then '{command}'", self.how())
    }

    fn may(&self) -> Result<(), ApplyError> {
        match self {
            Restart::OfRun { .. } => Ok(()),
            Restart::ByCommand { processes, .. } => processes.iter().try_for_each(|process| may_signal(process.pid)),
        }
    }

    fn begin(&mut self) -> Result<(), ApplyError> {
        match self {
            Restart::OfRun { starter, at_once } => starter.end(*at_once).map_err(|reason| ApplyError::Missing {
                name: "the target".to_owned(),
                expected: "it to end".to_owned(),
                reason,
            }),
            Restart::ByCommand { processes, at_once, .. } => end(processes, *at_once),
        }
    }

    fn end(&mut self) -> Result<Option<String>, ApplyError> {
        let failed = |command: &str, reason: String| ApplyError::Command { command: command.to_owned(), reason };
        let (command, pid) = match self {
            Restart::OfRun { starter, .. } => {
                let command = starter.command();
                let pid = starter.start().map_err(|reason| failed(&command, reason))?;
                (command, pid)
            }
            Restart::ByCommand { command, .. } => {
                let mut shell = Command::new("sh");
                // A group of its own: what ends plimsoll by the terminal does not end it.
                shell.args(["-c", &format!("exec {command}")]).process_group(0);
                shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let child = shell.spawn().map_err(|error| failed(command, plain(&error)))?;
                (command.clone(), child.id())
            }
        };
        Ok(Some(format!("'{command}' was started as process {pid}")))
    }
}

/// Ends processes, and returns when all are gone.
fn end(processes: &[Process], at_once: bool) -> Result<(), ApplyError> {
    let signal = |signal: Signal| {
        for process in processes.iter().filter(|process| process.is_there()) {
            match send(process.pid, process.started, signal) {
                Err(error) if process.is_there() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    };
    let is_left = || processes.iter().any(Process::is_there);
    let began = Instant::now();
    signal(if at_once { Signal::KILL } else { Signal::TERM })?;
    let mut is_killed = at_once;
    while is_left() {
        if began.elapsed() > END_WAIT {
            if is_killed {
                let reason = "it does not end".to_owned();
                let name = processes.iter().map(Process::words).collect::<Vec<_>>().join(", ");
                return Err(ApplyError::Missing { name, expected: "it to end".to_owned(), reason });
            }
            signal(Signal::KILL)?;
            is_killed = true;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
