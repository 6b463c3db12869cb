//! What is changed and put back: a [`Change`] as the journal keeps it, and what each kind of it can do ([`Reversible`]).
//!
//! A change holds all that its undoing needs, as it may be another process that undoes it, after a crash. Each kind is a
//! type of the fault's own file, and a line in each of two lists here. Its name in the journal must not be changed, or what
//! an earlier plimsoll left cannot be undone.

use crate::child::Child;
use crate::error::ApplyError;
use crate::faults::affinity::Affinity;
use crate::faults::backlog::Backlog;
use crate::faults::command::Commands;
use crate::faults::cpu_limit::GroupLimit;
use crate::faults::descriptors::Descriptors;
use crate::faults::disk_full::Filler;
use crate::faults::nice::Nice;
use crate::faults::nodelay::Nodelay;
use crate::faults::signal::Stop;
use crate::faults::sysctl::Sysctl;
use crate::group::Group;
use crate::helper::Helper;
use crate::network::firewall::Firewall;
use crate::network::queue::QueueRules;
use crate::values::attributes::Attributes;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Change {
    /// A kernel setting.
    Sysctl(Sysctl),
    /// The limits of open descriptors of a process.
    Descriptors(Descriptors),
    /// The niceness of a process and its threads.
    Nice(Nice),
    /// How many connections may wait in a listening socket.
    Backlog(Backlog),
    /// Whether small writes to connections of a listening socket wait.
    Nodelay(Nodelay),
    /// The CPUs that a process's threads may run on.
    Affinity(Affinity),
    /// Whether a process is stopped.
    Stop(Stop),
    /// A control group's own CPU limit.
    CpuLimit(GroupLimit),
    /// Processes moved into a control group that was made for them, with its limits.
    Group(Group),
    /// A program that runs as long as its fault lasts.
    Child(Child),
    /// Rules for packets, in a table of their own.
    Firewall(Firewall),
    /// A process of a fault's own: clients, or who holds packets.
    Helper(Helper),
    /// Rules that give packets to a process.
    Queue(QueueRules),
    /// A file that takes the space of a file system.
    Filler(Filler),
    /// Attributes of the kernel: governors, turbo, who takes interrupts.
    Attributes(Attributes),
    /// What a command of the user's did, and the one that undoes it.
    Command(Commands),
}

impl Change {
    /// What can be done with it, whichever kind it is.
    pub(crate) fn kind(&self) -> &dyn Reversible {
        match self {
            Change::Sysctl(change) => change,
            Change::Descriptors(change) => change,
            Change::Nice(change) => change,
            Change::Backlog(change) => change,
            Change::Nodelay(change) => change,
            Change::Affinity(change) => change,
            Change::Stop(change) => change,
            Change::CpuLimit(change) => change,
            Change::Group(change) => change,
            Change::Child(change) => change,
            Change::Firewall(change) => change,
            Change::Helper(change) => change,
            Change::Queue(change) => change,
            Change::Filler(change) => change,
            Change::Attributes(change) => change,
            Change::Command(change) => change,
        }
    }

    /// What is changed, in words: `net.core.somaxconn`, `niceness of process 1234`.
    pub fn name(&self) -> String {
        self.kind().name()
    }

    /// What it was before; of a command the one that undoes it.
    pub fn before(&self) -> String {
        self.kind().before()
    }

    /// What it was to become; of a command the command.
    pub fn after(&self) -> String {
        self.kind().after()
    }

    /// Whether what is there now tells nothing, as of what a command did.
    pub fn is_blind(&self) -> bool {
        self.kind().is_blind()
    }

    /// In words: what becomes what.
    pub fn words(&self) -> String {
        match self.is_blind() {
            true => format!("'{}', undone by '{}'", self.after(), self.before()),
            false => format!("{}: {} → {}", self.name(), self.before(), self.after()),
        }
    }
}

/// A kind of change. `before` and `after` are values: texts that [`Reversible::found`] gives and [`Reversible::set`] takes.
pub(crate) trait Reversible: Debug {
    /// What is changed, in words.
    fn name(&self) -> String;

    /// What it was.
    fn before(&self) -> String;

    /// What it is to become.
    fn after(&self) -> String;

    /// The value now; `None` where what was changed is gone, and its change with it.
    fn found(&self) -> Result<Option<String>, ApplyError>;

    /// Whether the right is there to make the change *and to undo it*; changes nothing.
    fn may(&self) -> Result<(), ApplyError>;

    /// Makes it so: the value before, or the one after.
    fn set(&self, value: &str) -> Result<(), ApplyError>;

    /// Refuses what plimsoll never changes: a journal's entry is checked as input is, for it is acted on with root's rights.
    fn check(&self) -> Result<(), ApplyError> {
        Ok(())
    }

    /// What tells two changes of one thing from two things: of a process, also when it began.
    fn identity(&self) -> String {
        self.name()
    }

    /// The number of the network namespace that it holds in; `None`: in all.
    fn network(&self) -> Option<u64> {
        None
    }

    /// Whether nobody can look what is there now: then it is undone whatever is found, and must bear being undone twice.
    fn is_blind(&self) -> bool {
        false
    }

    /// What it has come to while it lasted, in words; asked for before it is put back.
    fn told(&self) -> Option<String> {
        None
    }

    /// Clears away what has no effect any more, once it is as before; it does not matter whether that succeeds.
    fn tidy(&self) {}

    /// Whether one that failed may have done a part of it, which is then put back.
    fn is_in_parts(&self) -> bool {
        false
    }
}
