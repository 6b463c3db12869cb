//! A target that is a command: started for a run, waited for until it can be loaded, ended with all it started.
//!
//! It has a process group of its own, which Ctrl-C on the terminal does not reach, and which is ended whatever comes of the
//! run: with SIGTERM, and what is left after some seconds with SIGKILL. Where this process is killed itself, `setpriv`
//! (util-linux), if it is installed, has the kernel tell the command. What it prints goes to a file. Limits on it are a
//! control group's (`group`), journalled and undone. How it is found out that it listens: by connecting to where the load
//! goes, or by a line it prints. One that ends while a run goes is an event, and the report's first line; with
//! [`Spec::restart`] it is started again, at the next tick, and that is an event; so it is by a fault. It may have a network
//! namespace of its own (`namespace`).

mod group;
mod life;
mod namespace;

pub use group::Limits;
pub use life::Life;
pub use namespace::Addresses;

use crate::faults::Started;
use crate::made::MadeError;
use group::Group;
use life::{Enter, Spawn};
use model::plan::{Address, Plan};
use model::units::show_duration_ns;
use namespace::Namespace;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long it may take to come up, where nothing else is said.
pub const UP: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

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
    /// Whether it is started again where it ends by itself.
    pub restart: bool,
    /// The addresses of a network namespace of its own; `None`: it is in this one.
    pub namespace: Option<Addresses>,
    /// Whether its addresses are the same each time it is started, where `setarch` (util-linux) is installed: no ASLR.
    pub fixed_addresses: bool,
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
            restart: false,
            namespace: None,
            fixed_addresses: false,
            journal: journal.to_owned(),
        }
    }

    /// What it says, for `--explain`: a name and what stands behind it.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let within = show_duration_ns(self.ready_within.as_nanos() as f64);
        let ready = match &self.ready_line {
            Some(line) => format!("when it prints '{line}', within {within}"),
            None => format!("when somebody listens where the load goes, within {within}"),
        };
        let mut words = vec![("command", self.command.clone()), ("ready", ready)];
        words.extend(self.output.as_ref().map(|path| ("output", path.display().to_string())));
        let restart =
            if self.restart { "is started again, at the next tick" } else { "ends the load's target for good" };
        words.push(("where it ends", restart.to_owned()));
        words.extend(self.limits.cpus.map(|cpus| ("CPUs", format!("{cpus}, by a control group, as root"))));
        let memory = self.limits.memory_bytes.map(|bytes| format!("{bytes} bytes, by a control group, as root"));
        words.extend(memory.map(|memory| ("memory", memory)));
        let namespace = self.namespace.map(|addresses| format!("{addresses}, as root"));
        words.extend(namespace.map(|namespace| ("network namespace", namespace)));
        words
    }
}

/// A new file for a target's output, in the user's own folder.
///
/// # Errors
/// There is no such folder, or it is not the user's alone.
pub fn output_file() -> Result<PathBuf, state::StateError> {
    let folder = state::made(&state::folder()?.join("targets"))?;
    let ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(folder.join(format!("{ns}-{}.log", std::process::id())))
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
    /// A network namespace needs root.
    #[error(
        "[target] namespace: expected to run as root, which making a network namespace needs: use sudo, or leave it out"
    )]
    NeedsRoot,
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
    namespace: Option<Namespace>,
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
        let namespace = Namespace::make(spec.namespace, &spec.journal)?;
        // Another one there would be measured in its place.
        if address.is_some_and(listens) {
            return Err(not_ready("somebody else listens there already: end it first".to_owned()));
        }
        let group = Group::make(&spec.limits, &spec.journal)?;
        let enter = Enter {
            before: group.as_ref().map(Group::join).unwrap_or_default(),
            through: namespace.as_ref().map(Namespace::through).unwrap_or_default(),
        };
        let child = life::spawn(spec, &enter, false).map_err(|error| match error {
            Spawn::Output(path, source) => TargetError::Output { path, source },
            Spawn::Command(error) => not_ready(error.to_string()),
        })?;
        let life = Life::new(child, spec, enter);
        let target = Target { life: Arc::new(life), group, namespace };
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
            if target.life.age() > spec.ready_within {
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
        let (group, namespace) = (self.group.take(), self.namespace.take());
        // Each is undone, whatever came of the other.
        let group = group.map_or(Ok(()), Group::undo);
        let namespace = namespace.map_or(Ok(()), Namespace::undo);
        Ok(group.and(namespace)?)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Its control group is undone after this, when the fields are dropped.
        self.life.end();
    }
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
