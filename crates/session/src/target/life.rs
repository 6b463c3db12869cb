//! A target's process: started, looked at once a tick, started again where that was asked for, ended with all it started.
//!
//! A fault may end it and start it again ([`fault::Starter`]); meanwhile it has not ended by itself. A command that ends at once each time is started so often and no more. What it prints goes on in the same file.

use super::{LOOK, Spec};
use fault::Starter;
use model::Event;
use model::event::{Details, TARGET_ENDED};
use model::units::show_duration_ns;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long it may take to end before it is killed.
const DOWN: Duration = Duration::from_secs(5);
/// Bytes from the end of the output in which its last line is looked for.
const LAST_BYTES: u64 = 4096;
/// Characters of a line of output that are shown.
const SHOWN_MAX: usize = 200;
/// How often a command is started again in a run at the most.
const RESTARTS_MAX: u32 = 100;
/// Kind of the event that says that a target's command ended and was started again.
const TARGET_RESTARTED: &str = "target-restarted";

/// Starts a program with address space randomisation off (personality(2)), which all that it starts inherits.
const AT_FIXED_ADDRESSES: [&str; 2] = ["setarch", "--addr-no-randomize"];

/// What a shell does before it becomes the command.
#[derive(Debug, Clone, Default)]
pub(super) struct Enter {
    /// Commands before it, each with `&&` behind.
    pub(super) before: String,
    /// What the command is run through, with a blank behind.
    pub(super) through: String,
}

pub(super) enum Spawn {
    Output(PathBuf, std::io::Error),
    Command(std::io::Error),
}

/// Whether a command lives.
#[derive(Debug)]
pub struct Life {
    running: Mutex<Running>,
    spec: Spec,
    enter: Enter,
}

#[derive(Debug)]
struct Running {
    child: Child,
    started: Instant,
    /// Times it was started again.
    restarts: u32,
    /// A fault has ended it, and is to start it again.
    is_away: bool,
    /// It was ended here: its id may be another's by now.
    is_over: bool,
}

impl Life {
    pub(super) fn new(child: Child, spec: &Spec, enter: Enter) -> Self {
        let running = Running { child, started: Instant::now(), restarts: 0, is_away: false, is_over: false };
        Life { running: Mutex::new(running), spec: spec.clone(), enter }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.running().child.id()
    }

    /// Whether its addresses are the same each time; else half a sentence that says why not.
    pub(crate) fn has_fixed_addresses(&self) -> Result<(), String> {
        match works(&AT_FIXED_ADDRESSES) {
            true if self.spec.fixed_addresses => Ok(()),
            true => Err("it was not started so".to_owned()),
            false => Err("setarch (of the package util-linux) is not installed, or cannot fix addresses".to_owned()),
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.running().started.elapsed()
    }

    /// How it ended by itself, as half a sentence; `None`: it lives.
    pub fn ended(&self) -> Option<String> {
        self.ended_of(&mut self.running()).map(|(words, _)| words)
    }

    fn ended_of(&self, running: &mut Running) -> Option<(String, ExitStatus)> {
        if running.is_away {
            return None;
        }
        let status = running.child.try_wait().ok().flatten()?;
        let after = show_duration_ns(running.started.elapsed().as_nanos() as f64);
        let last = self.last_line().map(|line| format!("; the last it printed is '{line}'"));
        let kept = self.spec.output.as_ref().map(|path| format!(" ({})", path.display()));
        let said = last.map(|last| format!("{last}{}", kept.unwrap_or_default()));
        Some((format!("it ended after {after} ({status}){}", said.unwrap_or_default()), status))
    }

    /// That it ended by itself, as an event of a run; it is started again where that was asked for.
    pub fn event(&self, at_ns: i64) -> Option<Event> {
        let mut running = self.running();
        if running.is_over {
            return None;
        }
        let (ended, status) = self.ended_of(&mut running)?;
        let gone = |why: &str| {
            let text = format!("the target's command is gone: {ended}{why}");
            let details = Details { signal: status.signal(), exit_code: status.code(), ..Details::default() };
            Some(Event::new(at_ns, TARGET_ENDED, text).with(details))
        };
        if !self.spec.restart {
            return gone("");
        }
        if running.restarts >= RESTARTS_MAX {
            return gone(&format!("; it was started again {RESTARTS_MAX} times, which is enough"));
        }
        // What it had started may still have its port.
        signal(running.child.id(), Signal::KILL);
        match spawn(&self.spec, &self.enter, true) {
            Ok(child) => {
                (running.child, running.started) = (child, Instant::now());
                running.restarts += 1;
                let text = format!("the target's command was started again: {ended}");
                Some(Event::new(at_ns, TARGET_RESTARTED, text))
            }
            Err(Spawn::Output(_, error) | Spawn::Command(error)) => {
                gone(&format!("; it could not be started again: {error}"))
            }
        }
    }

    /// The last line of its output that has something in it.
    pub(super) fn last_line(&self) -> Option<String> {
        let mut file = File::open(self.spec.output.as_ref()?).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES))).ok()?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(SHOWN_MAX).collect())
    }

    pub(super) fn end(&self) {
        let mut running = self.running();
        if std::mem::replace(&mut running.is_over, true) {
            return;
        }
        running.end(false);
    }
}

impl Running {
    /// Ends it and all it started: as it is asked to, or at once.
    fn end(&mut self, at_once: bool) {
        let pid = self.child.id();
        if !at_once {
            signal(pid, Signal::TERM);
            let began = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < DOWN {
                std::thread::sleep(LOOK);
            }
        }
        // Those of its children that did not listen, and itself.
        signal(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Starter for Life {
    fn command(&self) -> String {
        self.spec.command.clone()
    }

    fn end(&self, at_once: bool) -> Result<(), String> {
        let mut running = self.running();
        if running.is_over {
            return Err("the run has ended it".to_owned());
        }
        running.is_away = true;
        running.end(at_once);
        Ok(())
    }

    fn start(&self) -> Result<u32, String> {
        let mut running = self.running();
        if running.is_over {
            return Err("the run has ended it".to_owned());
        }
        let child = spawn(&self.spec, &self.enter, true).map_err(|error| match error {
            Spawn::Output(path, error) => format!("its output cannot be written to '{}': {error}", path.display()),
            Spawn::Command(error) => error.to_string(),
        })?;
        (running.child, running.started, running.is_away) = (child, Instant::now(), false);
        Ok(running.child.id())
    }
}

/// Signals a command and all it started.
fn signal(pid: u32, signal: Signal) {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A group that is gone needs none.
    let _ = group.map(|group| kill_process_group(group, signal));
}

/// Starts the command; what it prints goes into a new file, or on in the one that is there.
pub(super) fn spawn(spec: &Spec, enter: &Enter, goes_on: bool) -> Result<Child, Spawn> {
    let line = format!("{}exec {}{}", enter.before, enter.through, spec.command);
    let mut words: Vec<&str> = Vec::new();
    if works(&DYING_WITH_US) {
        words.extend(DYING_WITH_US);
    }
    if spec.fixed_addresses && works(&AT_FIXED_ADDRESSES) {
        words.extend(AT_FIXED_ADDRESSES);
    }
    words.extend(["sh", "-c", &line]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if let Some(path) = &spec.output {
        let failed = |error| Spawn::Output(path.clone(), error);
        let opened = if goes_on { File::options().append(true).create(true).open(path) } else { File::create(path) };
        let file = opened.map_err(failed)?;
        command.stderr(file.try_clone().map_err(failed)?).stdout(file);
    }
    command.spawn().map_err(Spawn::Command)
}

/// Has the command end when this process does, however it ends.
const DYING_WITH_US: [&str; 4] = ["setpriv", "--pdeathsig", "TERM", "--"];

/// Whether a program that runs another one is there and knows these flags: busybox has some of these programs with fewer.
fn works(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::works;

    #[test]
    fn a_program_without_the_flag_or_that_is_not_there_does_not_work() {
        assert!(works(&["env", "--"]));
        assert!(!works(&["env", "--no-such-flag"]), "as busybox's setpriv has no --pdeathsig");
        assert!(!works(&["no-such-program"]));
    }
}
