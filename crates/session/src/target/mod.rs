//! A target that is a command: started for a run, waited for until it can be loaded, ended with all it started.
//!
//! It has a process group of its own, which Ctrl-C on the terminal does not reach, and which is ended whatever comes of the
//! run: with SIGTERM, and what is left after some seconds with SIGKILL. Where this process is killed itself, `setpriv`
//! (util-linux), if it is installed, has the kernel tell the command. What it prints goes to a file. Limits on it are a
//! control group's ([`group`]), journalled and undone. How it is found out that it listens: by connecting to where the load
//! goes, or by a line it prints. It is restarted while a run goes only by a fault ([`fault::Starter`]): one that
//! ends by itself is an event, and the report's first line.

mod group;

pub use group::Limits;

use crate::faults::Started;
use crate::made::MadeError;
use fault::Starter;
use group::Group;
use model::Event;
use model::event::TARGET_ENDED;
use model::plan::{Address, Plan};
use model::units::show_duration_ns;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long it may take to come up, where nothing else is said.
pub const UP: Duration = Duration::from_secs(10);
/// How long it may take to end before it is killed.
const DOWN: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes from the end of the output in which its last line is looked for.
const LAST_BYTES: u64 = 4096;
/// Characters of a line of output that are shown.
const SHOWN_MAX: usize = 200;

/// What is started.
#[derive(Debug, Clone)]
pub struct Spec {
    /// For `sh -c`.
    pub command: String,
    /// A text in a line that it prints when it is ready; `None`: it is when somebody listens where the load goes.
    pub ready_line: Option<String>,
    /// How long it may take to be ready.
    pub ready_within: Duration,
    /// Where its output goes; `None`: nowhere.
    pub output: Option<PathBuf>,
    /// What it may use.
    pub limits: Limits,
    /// The journal's folder.
    pub journal: PathBuf,
}

impl Spec {
    /// A command alone: ready when somebody listens, without limits, its output thrown away.
    pub(crate) fn of_command(command: &str, journal: &Path) -> Self {
        Spec {
            command: command.to_owned(),
            ready_line: None,
            ready_within: UP,
            output: None,
            limits: Limits::default(),
            journal: journal.to_owned(),
        }
    }
}

/// A new file for a target's output, in the user's own folder.
///
/// # Errors
/// There is no such folder, or it is not the user's alone.
pub fn output_file() -> Result<PathBuf, state::StateError> {
    let folder = state::made(&state::folder()?.join("targets"))?;
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(folder.join(format!("{ms}-{}.log", std::process::id())))
}

/// Why a target is not there.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It did not come up.
    #[error("expected '{command}' to {expected} within {within}, but {why}: run it by hand")]
    NotReady {
        /// The command.
        command: String,
        /// What it should have done.
        expected: String,
        /// In which time.
        within: String,
        /// What it did.
        why: String,
    },
    /// Its output cannot be kept.
    #[error("expected to write the target's output to '{}', but {source}: name another file", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Its control group could not be made, or not be undone.
    #[error(transparent)]
    Group(#[from] MadeError),
    /// It was told to end while it was waited for.
    #[error("interrupted while the target was started")]
    Interrupted,
}

/// A running command.
#[derive(Debug)]
pub struct Target {
    life: Arc<Life>,
    /// Undone when the command has ended.
    group: Option<Group>,
}

impl Target {
    /// Starts it, and waits until it is ready for the plan's load.
    ///
    /// # Errors
    /// [`TargetError`]; then nothing of it is left.
    pub fn start(spec: &Spec, plan: &Plan, interrupted: &AtomicBool) -> Result<Self, TargetError> {
        let address = plan.origins.iter().flat_map(|origin| &origin.addresses).next();
        let expected = match (&spec.ready_line, address) {
            (Some(line), _) => format!("print '{line}'"),
            (None, Some(address)) => format!("listen at {address}"),
            (None, None) => "listen where the load goes".to_owned(),
        };
        let not_ready = |why: String| TargetError::NotReady {
            command: spec.command.clone(),
            expected: expected.clone(),
            within: show_duration_ns(spec.ready_within.as_nanos() as f64),
            why,
        };
        // Another one there would be measured in its place.
        if address.is_some_and(listens) {
            return Err(not_ready("somebody else listens there already: end it first".to_owned()));
        }
        let group = Group::make(&spec.limits, &spec.journal)?;
        let line = format!("{}exec {}", group.as_ref().map(Group::join).unwrap_or_default(), spec.command);
        let child = spawn(&line, spec.output.as_deref(), Output::New).map_err(|error| match error {
            Spawn::Output(path, source) => TargetError::Output { path, source },
            Spawn::Command(error) => not_ready(error.to_string()),
        })?;
        let life = Life {
            command: spec.command.clone(),
            line,
            pid: AtomicU32::new(child.id()),
            child: Mutex::new(child),
            started: Instant::now(),
            output: spec.output.clone(),
            is_away: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        };
        let target = Target { life: Arc::new(life), group };
        loop {
            let is_ready = match &spec.ready_line {
                Some(line) => spec.output.as_deref().is_some_and(|output| has_line(output, line)),
                None => address.is_some_and(listens),
            };
            if let Some(ended) = target.life.ended() {
                return Err(not_ready(ended));
            }
            if is_ready {
                return Ok(target);
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(TargetError::Interrupted);
            }
            if target.life.started.elapsed() > spec.ready_within {
                let last = target.life.last_line().map(|line| format!("; the last it printed is '{line}'"));
                let what = if spec.ready_line.is_some() { "it has not" } else { "nobody listens there" };
                return Err(not_ready(format!("{what}{}", last.unwrap_or_default())));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.life.pid()
    }

    /// It, as faults know it.
    pub fn started(&self) -> Started {
        Started(self.life())
    }

    /// What tells whether it lives.
    pub fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }

    /// Ends it, and undoes what was made for it.
    ///
    /// # Errors
    /// [`TargetError::Group`]: something stays in the journal.
    pub fn end(mut self) -> Result<(), TargetError> {
        self.life.end();
        match self.group.take() {
            Some(group) => Ok(group.undo()?),
            None => Ok(()),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Its control group is undone after this, when the fields are dropped.
        self.life.end();
    }
}

/// Whether a command lives.
#[derive(Debug)]
pub struct Life {
    /// As it was given.
    command: String,
    /// For `sh -c`, with its control group.
    line: String,
    pid: AtomicU32,
    child: Mutex<Child>,
    started: Instant,
    output: Option<PathBuf>,
    /// A fault has ended it, and is to start it again.
    is_away: AtomicBool,
    /// It was ended here: its id may be another's by now.
    is_over: AtomicBool,
}

impl Life {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// How it ended by itself, as half a sentence; `None`: it lives.
    pub fn ended(&self) -> Option<String> {
        if self.is_away.load(Ordering::Relaxed) {
            return None;
        }
        let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().ok().flatten()?;
        let after = show_duration_ns(self.started.elapsed().as_nanos() as f64);
        let last = self.last_line().map(|line| format!("; the last it printed is '{line}'"));
        let kept = self.output.as_ref().map(|path| format!(" ({})", path.display()));
        let said = last.map(|last| format!("{last}{}", kept.unwrap_or_default()));
        Some(format!("it ended after {after} ({status}){}", said.unwrap_or_default()))
    }

    /// The same as an event of a run.
    pub fn event(&self, at_ns: i64) -> Option<Event> {
        let text = format!("the target's command is gone: {}", self.ended()?);
        Some(Event::new(at_ns, TARGET_ENDED, text))
    }

    /// The last line of its output that has something in it.
    fn last_line(&self) -> Option<String> {
        let mut file = File::open(self.output.as_ref()?).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES))).ok()?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(SHOWN_MAX).collect())
    }

    fn end(&self) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        self.end_now(&mut self.child.lock().unwrap_or_else(PoisonError::into_inner), false);
    }

    /// Ends it and all it started: as it is asked to, or at once.
    fn end_now(&self, child: &mut Child, at_once: bool) {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| {
            // A group that is gone needs none.
            let _ = group.map(|group| kill_process_group(group, signal));
        };
        if !at_once {
            signal(Signal::TERM);
            let began = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && began.elapsed() < DOWN {
                std::thread::sleep(LOOK);
            }
        }
        // Those of its children that did not listen, and itself.
        signal(Signal::KILL);
        let _ = child.wait();
    }
}

impl Starter for Life {
    fn command(&self) -> String {
        self.command.clone()
    }

    fn end(&self, at_once: bool) -> Result<(), String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::Relaxed) {
            return Err("the run has ended it".to_owned());
        }
        self.is_away.store(true, Ordering::Relaxed);
        self.end_now(&mut child, at_once);
        Ok(())
    }

    fn start(&self) -> Result<u32, String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::Relaxed) {
            return Err("the run has ended it".to_owned());
        }
        *child = spawn(&self.line, self.output.as_deref(), Output::GoesOn).map_err(|error| match error {
            Spawn::Output(path, error) => format!("its output cannot be written to '{}': {error}", path.display()),
            Spawn::Command(error) => error.to_string(),
        })?;
        let pid = child.id();
        self.pid.store(pid, Ordering::Relaxed);
        self.is_away.store(false, Ordering::Relaxed);
        Ok(pid)
    }
}

/// Where what a command prints goes in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    New,
    /// Behind what is there.
    GoesOn,
}

enum Spawn {
    Output(PathBuf, std::io::Error),
    Command(std::io::Error),
}

fn spawn(line: &str, output: Option<&Path>, where_to: Output) -> Result<Child, Spawn> {
    let mut command = if is_installed("setpriv") {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", "sh", "-c", line]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if let Some(path) = output {
        let failed = |error| Spawn::Output(path.to_owned(), error);
        let file = match where_to {
            Output::New => File::create(path),
            Output::GoesOn => File::options().append(true).open(path),
        };
        let file = file.map_err(failed)?;
        command.stderr(file.try_clone().map_err(failed)?).stdout(file);
    }
    command.spawn().map_err(Spawn::Command)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether a line of a file has a text in it.
fn has_line(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().any(|line| line.contains(text))
}

fn listens(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => TcpStream::connect_timeout(address, Duration::from_millis(200)).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}
